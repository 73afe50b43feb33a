"""Requests that come and go in, all that is kept of them out: limits, usage, metrics, spans, log. Three calls each.

    account = await books.open(…)      may it go on? reserves what it may use; raises OverLimit or StoreDown
    account.observe(…), heard(…)       what the chain tells: who was tried; which events are shown
    await account.settle(…)            how it ended: before the last byte goes out, or when the client has gone

`run` tends to what is shared, `aclose` writes what waits.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from dragoman.errors import DragomanError, StoreDown, redact
from dragoman.events import PartDelta
from dragoman.gateway.accounting.estimates import (
    BYTES_PER_TOKEN,
    byte_length,
    estimate_usage,
    has_open_length,
    prompt_tokens,
    total_tokens,
)
from dragoman.gateway.accounting.pricing import Prices
from dragoman.gateway.accounting.quotas import UNLIMITED, Admission, ExpectedUsage, Headers, Quotas
from dragoman.gateway.accounting.recent import RecentRequests
from dragoman.gateway.accounting.usage import UsageLog
from dragoman.gateway.auth.api_keys import Key
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.observability.metrics import Lines, Metrics, encode_text
from dragoman.gateway.observability.shared_health import SharedHealthStore
from dragoman.gateway.observability.tracing import OWN, Operation, RequestSpan, Tracing
from dragoman.gateway.server.workers import Workers
from dragoman.gateway.store import Store
from dragoman.gateway.store.base import UsageRow
from dragoman.targets.target import Target
from dragoman.types import UNKNOWN_USAGE, Attempt, Request, Response, Usage

INTERVAL = 1.0
"""Seconds between two rounds of `run`."""
MAX_NAME = 200
"""Characters of what was asked for: a client may ask for anything."""
CLOSED = 499
"""nginx's word for a client that went."""


class Accounting:
    """What a gateway keeps of its requests.

    >>> from dragoman.gateway.store import open_store
    >>> async def main() -> int:
    ...     accounting = Accounting(open_store("memory"))
    ...     account = await accounting.open("req_1", model="fast", request=Request(), dialect="ollama")
    ...     await account.settle("served", status=200, target="groq/llama", usage=Usage(input=5, output=2))
    ...     await accounting.aclose()
    ...     return (await accounting.usage_log.rows())[0].output
    >>> asyncio.run(main())
    2
    """

    def __init__(
        self,
        store: Store,
        /,
        *,
        limits: Quotas | None = None,
        prices: Prices | None = None,
        traces: Tracing | None = None,
        log: AccessLog | None = None,
        conditions: SharedHealthStore | None = None,
        workers: Workers | None = None,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.store = store
        self.limits = limits or Quotas(store)
        self.usage_log = UsageLog(store)
        self.metrics = Metrics()
        self.recent = RecentRequests()
        self.problem: StoreDown | None = None
        """Why the store could not be reached at the last round."""
        self.prices = prices or Prices()
        self.traces = traces
        self.log = log
        self.clock = clock
        self.timer = timer
        self._conditions = conditions
        self._workers = workers
        self._tasks: set[asyncio.Task[Any]] = set()

    async def open(
        self,
        id: str,
        /,
        *,
        model: str,
        request: Request,
        key: Key | None = None,
        dialect: str | None = None,
        targets: Sequence[Target] = (),
        answer_tokens: int | None = None,
        headers: Mapping[str, str] | None = None,
        operation: Operation = "chat",
        conversation: str | None = None,
    ) -> "RequestRecord":
        """Begin a request. `targets` may be asked: what the longest and dearest of their answers takes is reserved;
        `answer_tokens` for one whose length the client leaves open.
        """
        row = self.row(id, model=model, key=key, dialect=dialect, stream=request.stream)
        account = RequestRecord(self, row, request)
        if key is not None and key.is_limited:
            try:
                account.admission = await self._admit(key, request, targets, operation, answer_tokens)
            except DragomanError as error:
                await self.refuse(row, error)
                raise
        if self.traces is not None:
            provider = targets[0].provider if targets else OWN
            account.span = self.traces.begin(
                row.model, request, headers or {}, operation, provider=provider, conversation=conversation
            )
        self.metrics.request_started()
        if self.store.is_shared:
            await account.begin()
        return account

    async def _admit(
        self, key: Key, request: Request, targets: Sequence[Target], operation: Operation, answer: int | None
    ) -> Admission:
        if operation != "chat":
            return await self.limits.admit(key, self._need(key, targets, Usage(input=prompt_tokens(request))))
        expected = estimate_usage(request, targets, answer=answer)
        minimum = self._need(key, targets, Usage(input=expected.input)) if has_open_length(request) else None
        return await self.limits.admit(key, self._need(key, targets, expected), minimum=minimum)

    def _need(self, key: Key, targets: Sequence[Target], usage: Usage) -> ExpectedUsage:
        costs = [self.prices.cost(target.name, usage) for target in targets] if key.budgets else []
        return ExpectedUsage(total_tokens(usage) or 0, max((cost for cost in costs if cost is not None), default=None))

    def row(
        self, id: str, /, *, model: str, key: Key | None = None, dialect: str | None = None, stream: bool = False
    ) -> UsageRow:
        """What is known of a request when it begins."""
        owner = None if key is None else key.id
        return UsageRow(id=id, moment=self.clock(), key=owner, model=named(model), dialect=dialect, stream=stream)

    async def refuse(self, row: UsageRow, error: DragomanError, /) -> None:
        """A request was refused before it began. Only those with a key have a row: others could fill the store."""
        row = self.tell_refused(row, error)
        if row.key is not None:
            await self.usage_log.record(row)

    def tell_refused(self, row: UsageRow, error: DragomanError, /) -> UsageRow:
        """Count a request that was refused, and log it."""
        row = msgspec.structs.replace(row, outcome="refused", status=error.http_status, duration=0.0)
        self.tell(row)
        return row

    def tell(self, row: UsageRow, /, *, attempts: Sequence[Attempt] = (), was_started: bool = False) -> None:
        """Count a request that ended, and log it."""
        self.metrics.request_ended(row, was_started=was_started)
        self.recent.add(row, attempts)
        if self.log is not None:
            self.log.write_request(row)

    async def run(self) -> None:
        """Tend to what is shared, every second, until cancelled."""
        await asyncio.to_thread(self.prices.load)
        while True:
            await asyncio.sleep(INTERVAL)
            await self.tend()

    async def tend(self) -> None:
        """One round: benches, seats, what is owed and what waits. A store that is down is asked again at the next."""
        problem = None
        steps = [self.limits.maintain, self.usage_log.flush]
        if self._conditions is not None and self.store.is_shared:
            steps.append(self._conditions.sync)
        if self._workers is not None:
            steps.append(self._tell_workers)
        for step in steps:
            try:
                await step()
            except StoreDown as error:
                problem = error
        self.problem = problem

    async def scrape(self) -> bytes:
        """What Prometheus reads: of all workers of this gateway, where they share a store."""
        if self._workers is None:
            return encode_text({"": self._lines()})
        try:
            return encode_text(await self._workers.exchange(self._lines()))
        except StoreDown:
            return encode_text({self._workers.name: self._lines()})

    def _lines(self) -> Lines:
        conditions = {} if self._conditions is None else self._conditions.all()
        return self.metrics.lines(conditions, pending=self.usage_log.pending, lost=self.usage_log.lost)

    async def _tell_workers(self) -> None:
        if self._workers is not None and self._workers.is_due:
            await self._workers.exchange(self._lines())

    async def aclose(self) -> None:
        """Write all that waits. The store stays open: it belongs to whoever opened it."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self.log is not None:
            self.log.flush()
        await self.limits.aclose()
        await self.usage_log.aclose()

    def later(self, work: Coroutine[Any, Any, None], /) -> "asyncio.Task[None]":
        """Do something that nobody's going away stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class RequestRecord:
    """What is kept of one request.

    >>> from dragoman.gateway.store import open_store
    >>> RequestRecord(Accounting(open_store("memory")), UsageRow(id="req_1", moment=0.0, model="fast"), Request()).headers
    ()
    """

    def __init__(self, accounting: Accounting, row: UsageRow, request: Request, /) -> None:
        self.admission: Admission = UNLIMITED
        self.span: RequestSpan | None = None
        self._accounting = accounting
        self._row = row
        self._request = request
        self._heard = 0
        self._began = accounting.timer()
        self._first: float | None = None
        self._attempts: list[Attempt] = []
        self._failures = 0
        self._spent = UNKNOWN_USAGE
        self._spent_cost: int | None = None
        self._is_settled = False

    @property
    def headers(self) -> Headers:
        """What the client is told of its limits: with what is reserved, and once it has ended with what it used."""
        return self.admission.headers

    async def begin(self) -> None:
        """Write its row before anybody is asked: it may outlive this process."""
        try:
            await asyncio.shield(self._accounting.later(self._accounting.usage_log.record(self._row)))
        except asyncio.CancelledError:
            await self.leave()
            raise

    def observe(self, what: object, /) -> None:
        """What the chain tells."""
        if not isinstance(what, Attempt):
            return
        if (name := named(what.target)) != what.target:
            what = msgspec.structs.replace(what, target=name)
        self._accounting.metrics.record_attempt(what)
        self._attempts.append(what)
        if what.outcome == "failed":
            self._failures += 1
            self._spent = add(self._spent, what.usage)
            self._spent_cost = plus(self._spent_cost, self._accounting.prices.cost(what.target, what.usage))

    def first(self) -> None:
        """The first piece of an answer is there."""
        if self._first is None:
            self._first = self._accounting.timer() - self._began

    def heard(self, events: Iterable[object], /) -> None:
        """Pieces of an answer that are shown; where the client leaves, they tell what it used."""
        for event in events:
            if type(event) is PartDelta:
                self._heard += byte_length(event.text)

    async def settle(
        self,
        outcome: str,
        /,
        *,
        status: int,
        target: str | None = None,
        usage: Usage = UNKNOWN_USAGE,
        response: Response | None = None,
        error: BaseException | None = None,
    ) -> None:
        """It ended: served, failed, or client_disconnected. What it used is the usage, and that of targets that failed before."""
        if self._is_settled:
            return
        self._is_settled = True
        if total_tokens(usage) is None:
            usage = self._guess(outcome, target)
        accounting, used = self._accounting, add(usage, self._spent)
        row = msgspec.structs.replace(
            self._row,
            target=None if target is None else named(target),
            status=status,
            outcome=outcome,
            input=used.input,
            output=used.output,
            cache_read=used.cache_read,
            estimated=usage.source == "estimated",
            cost=plus(accounting.prices.cost(target, usage), self._spent_cost),
            duration=accounting.timer() - self._began,
            first=self._first,
            # Of a stream, the target that answers is told when all of it was read.
            attempts=self._failures + (outcome != "failed" and target is not None),
        )
        if outcome == "client_disconnected" and row.target is not None:
            self.observe(Attempt(target=row.target, outcome=outcome))  # the plan that asked cannot tell any more
        accounting.tell(row, attempts=self._attempts, was_started=True)
        if self.span is not None:
            self.span.end(row, response, error=error)
        closing = self._close(row)
        await (asyncio.shield(accounting.later(closing)) if accounting.store.is_shared else closing)

    async def fail(self, error: DragomanError, /) -> None:
        """It failed; the error says at whom. What that one used was told when it was tried."""
        target = f"{error.provider}/{error.model}" if error.provider and error.model else None
        await self.settle("failed", status=error.http_status, target=target, error=error)

    async def leave(self, target: str | None = None, /) -> None:
        """Its client has gone while a target was asked, or none; nothing is done where it has ended before."""
        await self.settle("client_disconnected", status=CLOSED, target=target)

    def _guess(self, outcome: str, target: str | None) -> Usage:
        """What an answer used that was left or broke off before anybody told, or told all of it."""
        shown = self._heard // BYTES_PER_TOKEN
        if outcome == "client_disconnected" and target is not None:
            # Of an answer that was to come as a whole nobody knows how long it was by then.
            output = shown if self._request.stream else None
            return Usage(input=prompt_tokens(self._request), output=output, source="estimated")
        if outcome != "failed" or not self._heard:
            return UNKNOWN_USAGE
        told = self._attempts[-1].usage if self._attempts else UNKNOWN_USAGE
        if total_tokens(told) is None:
            return Usage(input=prompt_tokens(self._request), output=shown, source="estimated")
        missing = shown - (told.output or 0)
        return Usage(output=missing, source="estimated") if missing > 0 else UNKNOWN_USAGE

    async def _close(self, row: UsageRow) -> None:
        if self.admission.limits:
            await self._settle(row)
        if self._accounting.store.is_shared:
            await self._accounting.usage_log.record(row)
        else:
            self._accounting.usage_log.queue(row)

    async def _settle(self, row: UsageRow) -> None:
        tokens = total_tokens(Usage(input=row.input, output=row.output))
        if row.outcome == "client_disconnected" and row.target is not None and row.output is None:
            tokens = None  # what was reserved for it stays
        elif tokens is None and row.outcome != "served":
            tokens = 0  # a provider that refuses counts nothing, and one that was not asked
        limits = self._accounting.limits
        self.admission = await limits.finish(self.admission, tokens=tokens, cost=row.cost if tokens else tokens)


@lru_cache(maxsize=1024)
def named(name: str, /) -> str:
    """The name of a model or target as it may be kept: clients make names up, and put keys where names belong.

    >>> named("demo/sk-proj-12345678")
    'demo/[redacted]'
    """
    return redact(name)[:MAX_NAME]


def add(one: Usage, other: Usage, /) -> Usage:
    """Both together; what neither tells stays untold.

    >>> add(Usage(input=5, output=2), Usage(input=1)).input
    6
    """
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
    """The sum of two numbers that may not be known; None where neither is.

    >>> plus(1, None), plus(1, 2), plus(None, None)
    (1, 3, None)
    """
    return one if other is None else other if one is None else one + other
