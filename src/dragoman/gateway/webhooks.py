"""Sends small JSON messages to URLs of the operator, in the background.

Messages wait in a queue of limited length; if it is full, new ones are dropped and counted. A message that cannot be
sent is tried again twice. With a secret, `X-Dragoman-Signature` has the HMAC-SHA256 of the body.
"""

import asyncio
import hmac
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman.engine.effects import Plan, Send
from dragoman.errors import DragomanError, SetupError
from dragoman.http import HttpRequest, HttpResponse, split_base_url
from dragoman.io.driver import Driver

log = logging.getLogger("dragoman.gateway")

MAX_WAITING = 1000
ATTEMPTS = 3
TIMEOUT = 10.0
"""Seconds for one attempt."""
BACKOFF = 1.0
"""Seconds before the second attempt; doubled for each further one."""


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """Where messages go."""

    url: str
    secret: str | None = None

    def __post_init__(self) -> None:
        check_webhook_url(self.url)

    def __repr__(self) -> str:
        return "Webhook()"


def check_webhook_url(url: str, /) -> str:
    """A URL that can be called; ValueError if it is not one. It is not shown: it may have a token."""
    try:
        split_base_url(url.partition("?")[0])
    except SetupError:
        raise ValueError("url must be a URL with a scheme and a host, such as https://host/path") from None
    if not url.startswith(("https://", "http://")):
        raise ValueError("url must begin with https:// or http://")
    return url


class Webhooks:
    """The messages of one process."""

    def __init__(self, *, sleep: Callable[[float], Any] = asyncio.sleep) -> None:
        self.driver: Driver | None = None
        """What sends messages; None before the gateway is set up."""
        self.dropped = 0
        """Messages that were not sent."""
        self._waiting: deque[tuple[Webhook, bytes]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._sleep = sleep

    def send(self, webhook: Webhook, message: Mapping[str, Any], /) -> None:
        """Put a message into the queue."""
        if len(self._waiting) >= MAX_WAITING:
            self.dropped += 1
            if self.dropped in (1, 10, 100) or self.dropped % 1000 == 0:
                log.warning("%d messages to webhooks were dropped: they cannot be sent fast enough", self.dropped)
            return
        self._waiting.append((webhook, msgspec.json.encode(message)))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._waiting:
            await self._deliver(*self._waiting.popleft())

    async def _deliver(self, webhook: Webhook, body: bytes) -> None:
        if self.driver is None:
            return
        reason = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await self._sleep(BACKOFF * 2 ** (attempt - 1))
            try:
                response = await self.driver.arun(_post(webhook, body))
            except DragomanError as error:
                reason = type(error).__name__
                continue
            if response.status < 300:
                return
            reason = f"status {response.status}"
            if response.status < 500 and response.status != 429:
                break
        self.dropped += 1
        log.warning("a message to a webhook was not sent: %s", reason)

    async def flush(self) -> None:
        """Wait until the queue is empty, or for some seconds; then what is left is dropped."""
        if self._task is not None and not self._task.done():
            await asyncio.wait((self._task,), timeout=TIMEOUT)
            self._task.cancel()


def _post(webhook: Webhook, body: bytes) -> Plan[HttpResponse]:
    base, question, query = webhook.url.partition("?")
    origin, path = split_base_url(base)
    headers = {"content-type": "application/json", "user-agent": "dragoman-gateway"}
    if webhook.secret:
        digest = hmac.new(webhook.secret.encode(), body, "sha256").hexdigest()
        headers["x-dragoman-signature"] = f"sha256={digest}"
    path = f"{path or '/'}{question}{query}"
    request = HttpRequest(method="POST", origin=origin, path=path, headers=headers, body=body)
    response: HttpResponse = yield Send(request, TIMEOUT, TIMEOUT, limit=1024 * 1024)
    return response
