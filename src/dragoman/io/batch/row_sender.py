"""Sends the rows of a batch, and retries them if that may help. One sender runs on each machine.

The chain itself does not retry here. The sender waits longer than a chain would, up to Retry-After or `MAX_BACKOFF`,
because in a batch a late answer is better than an error row.
"""

import asyncio
import random
import threading
import time
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from dragoman.engine import failover
from dragoman.engine.attempt import build_request
from dragoman.engine.call_options import CallOptions
from dragoman.engine.effects import Open, OpenResponse, Plan, Send
from dragoman.engine.failover import ChainOptions
from dragoman.engine.health import Health
from dragoman.engine.provider_batches import batches_of
from dragoman.errors import ChainExhausted, DragomanError, InvalidRequest, OutputError, ProviderError, SetupError
from dragoman.http import HttpRequest, HttpResponse
from dragoman.io.batch.rows import BatchRow, Id, read_row, write_answer, write_error
from dragoman.registry import Registry
from dragoman.schema.check_answer import check_answer
from dragoman.targets.health_policy import HealthPolicy
from dragoman.targets.target import Target
from dragoman.types import Attempt, Request, Response

T = TypeVar("T")
DEMO = "demo/any"
"""The spec of the demo."""
BATCH_PRICE = 0.5
"""What a row of a provider's batch costs, as a part of the price of a call."""
MAX_BACKOFF = 30.0
MAX_SILENCE = 300.0
"""Seconds without any answer after which the batch stops."""
MAX_FAILURES = 20
"""Consecutive failed rows after which the batch stops; twice the concurrency if that is more."""


class BatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a sender needs to know; sent to the other machines of a Ray cluster."""

    spec: str | None
    """The targets of every row; None to use the model that each row names."""
    fallback: str | None
    """The targets of a row that names no model; None if every row must name one."""
    options: dict[str, Any] = {}
    """Call options from the command line; a row's own fields take precedence."""
    tables: dict[str, Any] = {}
    """Tables of the config file: providers, aliases and capabilities."""
    env: dict[str, str] | None = None
    """Environment variables; None for those of the process."""
    retries: int = 4
    concurrency: int = 8
    keep_going: bool = False


class RowOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The output line of a row, or the reason to stop the batch."""

    line: bytes = b""
    is_error: bool = False
    input: int = 0
    output: int = 0
    stop: str | None = None


class EncodedLine(msgspec.Struct, frozen=True):
    """A row as a request of a provider's batch."""

    id: Id
    line: bytes
    target: Target
    http: HttpRequest


class _Replay:
    """A transport that answers the one request of a row with the result of a batch."""

    def __init__(self, answer: HttpResponse) -> None:
        self._answers = [answer]

    async def asend(self, effect: Send, /) -> HttpResponse:
        return self.send(effect)

    def send(self, _effect: Send, /) -> HttpResponse:
        if not self._answers:
            raise InvalidRequest("a row of a batch must be sent once, got a second request; send it without a batch")
        return self._answers.pop()

    def open(self, _effect: Open, /) -> OpenResponse:
        raise InvalidRequest("a row of a batch must not be streamed; leave stream out")

    async def aopen(self, effect: Open, /) -> OpenResponse:
        return self.open(effect)

    def close(self) -> None:
        """Do nothing: there is no connection."""


class RowSender:
    """Sends rows, many at a time."""

    def __init__(self, settings: BatchSettings, /, *, registry: Registry | None = None) -> None:
        """`registry`: where the targets are; by default one of its own, from the settings."""
        self._settings = settings
        self._registry = _open_registry(settings) if registry is None else registry
        chain_options: CallOptions = {"retries": 0}
        if "timeout" in settings.options:
            chain_options["timeout"] = settings.options["timeout"]
        _, self._options = self._registry.model(settings.fallback or DEMO).request("", **chain_options)
        self._defaults = {name: value for name, value in settings.options.items() if name != "timeout"}
        self._targets: dict[str, list[Target]] = {}
        self._last_answer = time.monotonic()
        self._failures = 0

    async def send(self, line: bytes, /) -> RowOutcome:
        """Send one row until it is answered or another try cannot help."""
        row = read_row(line)
        tries = 0
        while True:
            try:
                response, value = await self._send_once(row)
            except SetupError:
                raise
            except DragomanError as error:
                tries += any(attempt.outcome == "failed" for attempt in error.attempts)
                if not _may_retry(error) or tries > self._settings.retries:
                    return self._failed(row, error)
                if time.monotonic() - self._last_answer > MAX_SILENCE and not self._settings.keep_going:
                    return RowOutcome(stop=f"no answer for {MAX_SILENCE:.0f} s; the last error was {error}")
                backoff = random.random() * min(MAX_BACKOFF, 0.5 * 2**tries)  # noqa: S311 - jitter, no secret
                await asyncio.sleep(max(error.retry_after or 0.0, backoff))
            else:
                return self._served(row, response, value)

    def encode(self, line: bytes, /) -> "EncodedLine | None":
        """A row as a request of a provider's batch; None if it has to be sent by itself."""
        row = read_row(line)
        if row.problem is not None or row.request is None:
            return None
        try:
            target = next(each for each in self._targets_for(row) if batches_of(each) and not each.lacks_key)
            return EncodedLine(row.id, line, target, build_request(self._with_defaults(row.request), target))
        except (StopIteration, DragomanError):
            return None

    async def answer(self, line: bytes, target: Target, answer: HttpResponse, /) -> RowOutcome | None:
        """The outcome of a row that a provider's batch answered; None if the row has to be sent by itself."""
        row = read_row(line)
        if row.request is None:
            return None
        request, at = self._with_defaults(row.request), replace(target, http_client=_Replay(answer))
        plan = failover.run(request, [at], Health(clock=time.monotonic), self._options)
        try:
            response = await self._registry.driver.arun(plan)
            value = check_answer(response.text, request.schema)
        except DragomanError:
            return None
        cost = None if response.cost is None else replace(response.cost, usd=response.cost.usd * BATCH_PRICE)
        return self._served(row, replace(response, cost=cost), value)

    def unanswered(self, line: bytes, why: str, /) -> RowOutcome:
        """The error row of a row that a provider's batch did not answer."""
        return RowOutcome(line=write_error(read_row(line), ProviderError(why)), is_error=True)

    def target(self, name: str, /) -> Target:
        return self._registry.target(name)

    async def run(self, plan: Plan[T], /) -> T:
        return await self._registry.driver.arun(plan)

    @property
    def options(self) -> ChainOptions:
        return replace(self._options, retries=self._settings.retries)

    async def _send_once(self, row: BatchRow) -> tuple[Response, Any]:
        if row.problem is not None or row.request is None:
            raise row.problem or InvalidRequest("request is required in a row")
        request = self._with_defaults(row.request)
        plan = failover.run(request, self._targets_for(row), self._registry.health, self._options)
        response = await self._registry.driver.arun(plan)
        try:
            return response, check_answer(response.text, request.schema)
        except OutputError as error:
            # A second try of the same model may match the schema.
            failed = Attempt(target=response.target or "?", outcome="failed", error=error.message)
            error.annotate(attempts=(failed,), usage=response.usage, retry=True)
            raise

    def _with_defaults(self, request: Request) -> Request:
        """The request with the command line's value for every field that the row does not set."""
        unset = {
            name: value for name, value in self._defaults.items() if getattr(request, name) == getattr(_EMPTY, name)
        }
        return replace(request, **unset) if unset else request

    def _targets_for(self, row: BatchRow) -> list[Target]:
        spec = self._settings.spec or row.model or self._settings.fallback
        if spec is None:
            raise SetupError(f"row {row.id!r} must name a model, because no API key is set")
        return self._targets_of(spec)

    def _targets_of(self, spec: str) -> list[Target]:
        if spec not in self._targets:
            try:
                self._targets[spec] = self._registry.targets(spec)
            except SetupError as error:
                raise InvalidRequest(str(error)) from error
        return self._targets[spec]

    def _served(self, row: BatchRow, response: Response, value: Any) -> RowOutcome:
        self._last_answer = time.monotonic()
        self._failures = 0
        usage = response.usage
        return RowOutcome(line=write_answer(row, response, value), input=usage.input or 0, output=usage.output or 0)

    def _failed(self, row: BatchRow, error: DragomanError) -> RowOutcome:
        self._failures += 1
        if self._failures > max(MAX_FAILURES, 2 * self._settings.concurrency) and not self._settings.keep_going:
            return RowOutcome(stop=f"{self._failures} consecutive rows failed; the last error was {error}")
        return RowOutcome(line=write_error(row, error), is_error=True)


def _open_registry(settings: BatchSettings) -> Registry:
    # With many rows in flight, two failures in a row are normal: cool a target down only if all of them fail.
    policy = HealthPolicy(threshold=max(5, 2 * settings.concurrency), base=2.0, cap=60.0)
    registry = Registry(env=settings.env, health=Health(policy, lock=threading.Lock(), clock=time.monotonic))
    registry.load_tables(settings.tables)
    return registry


_EMPTY = Request()


def _may_retry(error: DragomanError) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, ChainExhausted):
        cause = error.__cause__
        return error.retry_after is not None or not isinstance(cause, DragomanError) or cause.retry
    return error.retry
