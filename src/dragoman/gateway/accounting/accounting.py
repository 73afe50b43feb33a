"""The accounting of requests: limits, usage log, metrics, traces and access log behind one object.

    record = await accounting.open(context)    reserves what the request may use; raises OverLimit or StoreDown
    record.observe(attempt)                    called by the chain after each attempt
    record.count_streamed(events)              called for each batch of events that the client gets
    await record.finish(...)                   before the last byte is sent, or when the client has disconnected

`run` syncs with other processes every second. `aclose` writes what is still waiting.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.engine.health import CooldownStarted
from dragoman.errors import DragomanError, ModelNotFound, StoreDown, redact
from dragoman.events import CallDelta, PartDelta
from dragoman.gateway.accounting.bodies import BodyRecord, body_record
from dragoman.gateway.accounting.pricing import Prices
from dragoman.gateway.accounting.quotas import (
    UNLIMITED,
    ExpectedUsage,
    LimitHeaders,
    OverLimit,
    QuotaReservation,
    Quotas,
)
from dragoman.gateway.accounting.usage import RecentRequests, UsageLog, error_type
from dragoman.gateway.auth.api_keys import Key
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.observability.metrics import Lines, Metrics, encode_metrics
from dragoman.gateway.observability.shared_health import SharedHealthStore
from dragoman.gateway.observability.tracing import DEFAULT_PROVIDER, RequestSpan, Tracing
from dragoman.gateway.server.workers import Workers
from dragoman.gateway.store import Store
from dragoman.gateway.store.base import UsageRow
from dragoman.gateway.webhooks import Webhooks
from dragoman.targets.estimates import (
    BYTES_PER_TOKEN,
    estimate_usage,
    has_no_max_tokens,
    prompt_tokens,
    total_tokens,
)
from dragoman.targets.target import Target
from dragoman.types import UNKNOWN_USAGE, Attempt, Notice, Request, Response, Usage
from dragoman.wires.common.extra import wire_extra

if TYPE_CHECKING:
    from dragoman.gateway.observability.alerts import Alerts
    from dragoman.gateway.request import RequestContext
    from dragoman.gateway.response_cache import CacheEntry

INTERVAL = 1.0
"""Seconds between two rounds of `run`."""
MAX_LOGGED_NAME = 200
"""Characters of a model's name in logs and metrics: clients may send any name."""
NOT_FOUND = 404
UNKNOWN_MODEL = "(unknown)"
"""The model in the usage log if no target has the name that a client sent."""
NO_LOSSES: dict[str, int] = {}
"""Of all requests that lost nothing: stores keep thousands of rows, and each dict of its own costs memory and time."""
CLIENT_CLOSED_REQUEST = 499
"""nginx's status for a client that disconnected before the response."""


class Accounting:
    """The accounting of one gateway process."""

    def __init__(
        self,
        store: Store,
        /,
        *,
        quotas: Quotas | None = None,
        prices: Prices | None = None,
        tracing: Tracing | None = None,
        log: AccessLog | None = None,
        metrics: Metrics | None = None,
        shared_health: SharedHealthStore | None = None,
        workers: Workers | None = None,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.store = store
        self.quotas = quotas or Quotas(store)
        self.usage_log = UsageLog(store)
        self.metrics = metrics or Metrics()
        self.recent = RecentRequests()
        self.prices = prices or Prices()
        self.tracing = tracing
        self.log = log
        self.clock = clock
        self.timer = timer
        self.started_at = clock()
        self._shared_health = shared_health
        self._workers = workers
        self.webhooks = Webhooks()
        self.alerts: Alerts | None = None
        """None if the config has no table [alerts]."""
        self._tasks: set[asyncio.Task[Any]] = set()

    # Requests --------------------------------------------------------------------------------------------------------

    async def open(self, context: "RequestContext", /) -> "RequestRecord":
        """Start a request: reserve the longest and most expensive response that its targets may give."""
        record = RequestRecord(self, self._row(context), context.request)
        key, targets = context.key, context.choice.targets
        if (settings := context.runtime.config.bodies) is not None:
            record.bodies = body_record(settings, None if key is None else key.id, context.wire, context.http.body)
        if key is not None and key.is_limited:
            record.set_reservation(await self._reserve(key, context))
            context.slot = UNLIMITED  # the record gives it back
        if self.tracing is not None:
            record.span = self.tracing.begin(
                name_for_logs(context.model),
                context.request,
                context.http.headers,
                context.operation,
                provider=targets[0].provider if targets else DEFAULT_PROVIDER,
                conversation=context.conversation_id,
            )
        self.metrics.request_started()
        if self.store.is_shared:
            await record.write_first_row()
        return record

    async def _reserve(self, key: Key, context: "RequestContext") -> QuotaReservation:
        request, targets = context.request, context.choice.targets
        if context.operation != "chat":
            expected = self._expected(key, targets, Usage(input=prompt_tokens(request)))
            return await self.quotas.reserve(key, expected, slot=context.slot)
        usage = estimate_usage(request, targets, answer=context.runtime.config.gateway.answer_tokens)
        minimum = self._expected(key, targets, Usage(input=usage.input)) if has_no_max_tokens(request) else None
        return await self.quotas.reserve(key, self._expected(key, targets, usage), minimum=minimum, slot=context.slot)

    def _expected(self, key: Key, targets: Sequence[Target], usage: Usage) -> ExpectedUsage:
        costs = [self.prices.cost(target.name, usage) for target in targets] if key.has_budgets else []
        return ExpectedUsage(total_tokens(usage) or 0, max((cost for cost in costs if cost is not None), default=None))

    def _row(self, context: "RequestContext") -> UsageRow:
        return UsageRow(
            id=context.usage_id,
            started_at=self.clock(),
            key=None if context.key is None else context.key.id,
            team=None if context.key is None else context.key.team,
            user=None if (user := _end_user(context.request)) is None else name_for_logs(user),
            model=name_for_logs(context.model),
            dialect=None if context.wire is None else context.wire.name,
            stream=context.request.stream,
            losses=NO_LOSSES,
        )

    async def refuse(self, context: "RequestContext", error: DragomanError, /) -> None:
        """Record a request that was refused before it started.

        It gets a row only if its key is known: others could fill the store.
        """
        row = self.count_refused(context, error)
        if row.key is not None:
            if not context.choice.targets:  # no name of this gateway: clients could make up any number of them
                row = msgspec.structs.replace(row, model=UNKNOWN_MODEL if row.model else "")
            await self.usage_log.record(row)

    def count_refused(self, context: "RequestContext", error: DragomanError, /) -> UsageRow:
        """Count and log a refused request, without a row in the usage log."""
        if self.alerts is not None and isinstance(error, OverLimit):
            self.alerts.request_refused(error)
        row = self._row(context)
        row = msgspec.structs.replace(row, outcome="refused", status=error.http_status, duration=0.0)
        self.count_finished(row)
        return row

    def count_finished(
        self,
        row: UsageRow,
        /,
        *,
        metered: UsageRow | None = None,
        attempts: Sequence[Attempt] = (),
        was_started: bool = False,
    ) -> None:
        """Count and log a finished request. `metered` is its row for the metrics, if that is another one."""
        self.metrics.request_ended(metered or row, was_started=was_started)
        self.recent.add(row, attempts)
        if self.log is not None:
            self.log.write_request(row)

    # Background work -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Sync with the store every second, until cancelled."""
        while True:
            if self.prices.must_load:
                await asyncio.to_thread(self.prices.load)
            await asyncio.sleep(INTERVAL)
            await self.sync()

    async def sync(self) -> None:
        """One round: quotas, usage rows, cooldowns and metrics. If the store is down, the next round tries again."""
        steps = [self.quotas.maintain, self.usage_log.flush]
        if self._shared_health is not None and self.store.is_shared:
            steps.append(self._shared_health.sync)
        if self._workers is not None:
            steps.append(self._report_to_workers)
        for step in steps:
            with suppress(StoreDown):
                await step()

    async def scrape(self) -> bytes:
        """The metrics for Prometheus: of all workers of this gateway if they share a store."""
        if self._workers is None:
            return encode_metrics({"": self._lines()})
        try:
            return encode_metrics(await self._workers.sync(self._lines()))
        except StoreDown:
            return encode_metrics({self._workers.name: self._lines()})

    def _lines(self) -> Lines:
        targets = {} if self._shared_health is None else self._shared_health.all()
        return self.metrics.lines(targets, pending=self.usage_log.pending, lost=self.usage_log.lost)

    async def _report_to_workers(self) -> None:
        if self._workers is not None and self._workers.is_due:
            await self._workers.sync(self._lines())

    async def aclose(self) -> None:
        """Write everything that is waiting. The store stays open: its owner closes it."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self.alerts is not None:
            await self.alerts.flush()
        await self.webhooks.flush()
        if self.log is not None:
            self.log.flush()
        await self.quotas.aclose()
        await self.usage_log.aclose()

    def start_task(self, work: Coroutine[Any, Any, None], /) -> "asyncio.Task[None]":
        """Run something that goes on if the client disconnects."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class RequestRecord:
    """The accounting of one request."""

    def __init__(self, accounting: Accounting, row: UsageRow, request: Request, /) -> None:
        self.limit_headers: LimitHeaders = ()
        """How much of the key's limits is used: first with what is reserved, at the end with what was really used."""
        self.span: RequestSpan | None = None
        self.cache: CacheEntry | None = None
        """The entry of the request in the response cache, if the request uses that."""
        self.bodies: BodyRecord | None = None
        """What the client sent, if bodies are stored."""
        self.is_finished = False
        self._reservation: QuotaReservation = UNLIMITED
        self._accounting = accounting
        self._row = row
        self._request = request
        self._start = accounting.timer()
        self._first: float | None = None
        self._streamed_bytes = 0
        self._attempts: list[Attempt] = []
        self._failures = 0
        self._is_answered = False
        """Whether a target answers, or did so."""
        self._failed_usage = UNKNOWN_USAGE
        self._failed_cost: int | None = None

    @property
    def attempts(self) -> int:
        """How many attempts there were, with the one that is streaming its answer."""
        return self._failures + self._is_answered

    def seconds(self) -> tuple[float, float]:
        """The time since the request came, and until the first event of its answer."""
        total = self._accounting.timer() - self._start
        return total, total if self._first is None else self._first

    def set_reservation(self, reservation: QuotaReservation, /) -> None:
        """Note what is reserved of the key's limits."""
        self._reservation = reservation
        self.limit_headers = reservation.headers

    async def write_first_row(self) -> None:
        """Write the row before the call: it is there even if this process dies."""
        try:
            await asyncio.shield(self._accounting.start_task(self._accounting.usage_log.record(self._row)))
        except asyncio.CancelledError:
            await self.client_disconnected()
            raise

    def observe(self, attempt: object, /) -> None:
        """Count an attempt of the chain, and alert if a target is put on cooldown."""
        if not isinstance(attempt, Attempt):
            if isinstance(attempt, CooldownStarted) and self._accounting.alerts is not None:
                self._accounting.alerts.target_failed(attempt)
            return
        if (name := name_for_logs(attempt.target)) != attempt.target:
            attempt = msgspec.structs.replace(attempt, target=name)
        is_unknown = error_type(attempt.error) == ModelNotFound.__name__ and _is_named_by_client(name, self._row.model)
        metered = msgspec.structs.replace(attempt, target=_unknown_model_of(name)) if is_unknown else attempt
        self._accounting.metrics.record_attempt(metered)
        self._attempts.append(attempt)
        self._is_answered = attempt.outcome == "served"
        if attempt.outcome == "failed":
            self._failures += 1
            self._failed_usage = add(self._failed_usage, attempt.usage)
            self._failed_cost = plus(self._failed_cost, self._accounting.prices.cost(attempt.target, attempt.usage))

    def count_streamed(self, events: Iterable[object], /) -> None:
        """Count what the client gets: if it disconnects, this is what the usage is estimated from."""
        if self._first is None:
            self._first = self._accounting.timer() - self._start
            self._is_answered = True
        if self.span is not None:
            self.span.chunk(self._accounting.timer() - self._start)
        for event in events:
            if type(event) is PartDelta or type(event) is CallDelta:
                self._streamed_bytes += len(event.text.encode(errors="surrogatepass"))

    async def finish(
        self,
        outcome: str,
        /,
        *,
        status: int,
        target: str | None = None,
        usage: Usage = UNKNOWN_USAGE,
        response: Response | None = None,
        error: BaseException | None = None,
        notices: tuple[Notice, ...] = (),
    ) -> None:
        """Record the outcome: served, failed, or client_disconnected. Only the first call counts."""
        if self.is_finished:
            return
        self.is_finished = True
        # The chain reports the attempt of a stream only after its last event, which is after this.
        cached = None if self.cache is None else self.cache.status
        self._is_answered = outcome != "failed" and target is not None and cached != "hit"
        if cached == "hit":
            usage = Usage(input=0, output=0)
        elif usage.input is None and usage.output is None:
            usage = self._estimated_usage(outcome, target)
        accounting, total = self._accounting, add(usage, self._failed_usage)
        row = msgspec.structs.replace(
            self._row,
            target=None if target is None else name_for_logs(target),
            status=status,
            outcome=outcome,
            input=total.input,
            output=total.output,
            cache_read=total.cache_read,
            estimated=usage.source == "estimated",
            cost=plus(accounting.prices.cost(target, usage), self._failed_cost),
            duration=accounting.timer() - self._start,
            time_to_first_token=self._first,
            attempts=self.attempts,
            cache=cached,
            losses=dict(Counter([notice.kind for notice in notices if notice.loss])) if notices else NO_LOSSES,
        )
        if outcome == "client_disconnected" and row.target is not None:
            self.observe(Attempt(target=row.target, outcome=outcome))  # the chain was closed and cannot report it
        is_unknown = isinstance(error, DragomanError) and error.http_status == NOT_FOUND
        stored_row = _with_unknown_model(row) if is_unknown else row
        accounting.count_finished(row, metered=stored_row, attempts=self._attempts, was_started=True)
        if self.span is not None:
            self.span.end(row, response, error=error)
        row = stored_row
        if accounting.store.is_shared:
            await asyncio.shield(accounting.start_task(self._write(row, response)))
        elif self._reservation.limits or self.bodies is not None:
            await self._write(row, response)
        else:  # nothing to wait for
            accounting.usage_log.queue(row)

    async def fail(self, error: DragomanError, /) -> None:
        """Record a failure. What failed attempts used was counted when they failed."""
        target = f"{error.provider}/{error.model}" if error.provider and error.model else None
        await self.finish("failed", status=error.http_status, target=target, error=error)

    async def client_disconnected(self, target: str | None = None, /) -> None:
        """Record that the client disconnected; `target` was being called. Does nothing after `finish`."""
        await self.finish("client_disconnected", status=CLIENT_CLOSED_REQUEST, target=target)

    def _estimated_usage(self, outcome: str, target: str | None) -> Usage:
        """The usage of a response that ended before the provider reported all of it."""
        streamed = self._streamed_bytes // BYTES_PER_TOKEN
        if outcome == "client_disconnected" and target is not None:
            # The length of a response that is not streamed is unknown until it is complete.
            output = streamed if self._request.stream else None
            return Usage(input=prompt_tokens(self._request), output=output, source="estimated")
        if outcome != "failed" or not self._streamed_bytes:
            return UNKNOWN_USAGE
        reported = self._attempts[-1].usage if self._attempts else UNKNOWN_USAGE
        if total_tokens(reported) is None:
            return Usage(input=prompt_tokens(self._request), output=streamed, source="estimated")
        unreported = streamed - (reported.output or 0)
        return Usage(output=unreported, source="estimated") if unreported > 0 else UNKNOWN_USAGE

    async def _write(self, row: UsageRow, response: Response | None) -> None:
        if self._reservation.limits:
            await self._return_unused(row)
        if self._accounting.store.is_shared:
            await self._accounting.usage_log.record(row)
        else:
            self._accounting.usage_log.queue(row)
        if self.bodies is not None:
            accounting = self._accounting
            await self.bodies.write(accounting.store, row.id, self._request, response, accounting.clock())

    async def _return_unused(self, row: UsageRow) -> None:
        tokens = total_tokens(Usage(input=row.input, output=row.output))
        if row.outcome == "client_disconnected" and row.target is not None and row.output is None:
            tokens = None  # unknown: the whole reservation counts as used
        elif tokens is None and row.outcome != "served":
            tokens = 0  # no target was called, or the provider refused and charges nothing
        cost = row.cost if tokens else tokens
        self.set_reservation(await self._accounting.quotas.finish(self._reservation, tokens=tokens, cost=cost))
        if self._accounting.alerts is not None:
            self._accounting.alerts.check_budgets(self._reservation)


def _with_unknown_model(row: UsageRow) -> UsageRow:
    """The row, with one name for all models that a client made up. A target behind an alias keeps its name."""
    if row.target is None:
        return msgspec.structs.replace(row, model=UNKNOWN_MODEL)
    if not _is_named_by_client(row.target, row.model):
        return row
    return msgspec.structs.replace(row, model=UNKNOWN_MODEL, target=_unknown_model_of(row.target))


def _is_named_by_client(target: str, model: str) -> bool:
    """Whether the model of a target is in the name that a client sent: it may be made up."""
    return target.partition("/")[2] in model


def _unknown_model_of(target: str) -> str:
    return f"{target.partition('/')[0]}/{UNKNOWN_MODEL}"


def name_for_logs(name: str, /) -> str:
    """The name of a model, target or end user for logs and metrics: clients send any name, even keys."""
    return _redact_short(name[: 10 * MAX_LOGGED_NAME])  # the cache must not hold megabytes


@lru_cache(maxsize=1024)
def _redact_short(name: str) -> str:
    return redact(name)[:MAX_LOGGED_NAME]


def add(one: Usage, other: Usage, /) -> Usage:
    """The sum of two usages; a count that both lack stays None."""
    if other.input is None and other.output is None:
        return one
    return Usage(
        input=plus(one.input, other.input),
        output=plus(one.output, other.output),
        cache_read=plus(one.cache_read, other.cache_read),
        cache_write=plus(one.cache_write, other.cache_write),
        reasoning=plus(one.reasoning, other.reasoning),
        source=one.source,
    )


def plus(one: int | None, other: int | None, /) -> int | None:
    """The sum of two numbers that may be None."""
    return one if other is None else other if one is None else one + other


def _end_user(request: Request) -> str | None:
    """Who asks through the client: the field `user`, or `safety_identifier`, with which OpenAI replaces it (2025)."""
    if request.user is not None:
        return request.user
    if not request.extra:
        return None
    names = (wire_extra(request.extra, wire).get("safety_identifier") for wire in request.extra)
    return next((name for name in names if isinstance(name, str) and name), None)
