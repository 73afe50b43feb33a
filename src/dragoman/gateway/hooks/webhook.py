"""The hook `webhook`: sends a message about each answer and each failure to a URL, in the background."""

import time
from typing import Any, Literal, TypeAlias

import msgspec

from dragoman.errors import DragomanError
from dragoman.gateway.hooks.base import Hook, HookCall, HookServices
from dragoman.gateway.webhooks import Webhook, check_webhook_url
from dragoman.types import Response

WebhookEvent: TypeAlias = Literal["request", "answer", "error"]


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of the hook."""

    url: str
    """Where the messages are sent."""
    secret: str | None = None
    """Signs the messages."""
    events: tuple[WebhookEvent, ...] = ("answer", "error")
    """What is reported."""
    content: bool = False
    """Whether messages have the texts of requests and answers."""

    def __post_init__(self) -> None:
        check_webhook_url(self.url)

    def __repr__(self) -> str:
        # Without the URL and the secret.
        return f"WebhookSettings(events={self.events!r})"


class WebhookHook(Hook):
    """Reports calls."""

    settings_type = WebhookSettings
    quick_methods = frozenset({"before", "after", "on_error"})

    def __init__(self, settings: WebhookSettings, services: HookServices, /) -> None:
        super().__init__(settings, services)
        self._webhook = Webhook(url=settings.url, secret=settings.secret)

    def before(self, call: HookCall) -> None:
        call.data[self] = time.perf_counter()
        if "request" in self.settings.events:
            self._send("request", call, {"prompt": [message.text for message in call.request.messages]})

    def after(self, call: HookCall, response: Response) -> None:
        if "answer" in self.settings.events:
            usage = response.usage
            facts = {"target": response.target, "finish": response.finish.reason, "answer": response.text}
            self._send("answer", call, {**facts, "input_tokens": usage.input, "output_tokens": usage.output})

    def on_error(self, call: HookCall, error: Exception) -> None:
        if "error" in self.settings.events:
            status = error.http_status if isinstance(error, DragomanError) else 500
            self._send("error", call, {"error": type(error).__name__, "status": status})

    def _send(self, event: WebhookEvent, call: HookCall, facts: dict[str, Any]) -> None:
        if not self.settings.content:
            facts = {name: value for name, value in facts.items() if name not in ("prompt", "answer")}
        seconds = time.perf_counter() - call.data[self]
        common = {"event": event, "id": call.id, "time": time.time(), "model": call.model, "key": call.key}
        message = {**common, "team": call.team, "dialect": call.dialect, "stream": call.request.stream}
        self.services.webhooks.send(self._webhook, {**message, "seconds": round(seconds, 4), **facts})
