"""What is kept of requests, whatever becomes of them and of the store."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dragoman.errors import Overloaded, StoreDown
from dragoman.events import PartDelta, PartStarted
from dragoman.gateway.accounting.accounting import Accounting
from dragoman.gateway.accounting.quotas import OverLimit, Quotas
from dragoman.gateway.auth.api_keys import Key, KeyBudget, new_key
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.observability.shared_health import SharedHealthStore
from dragoman.gateway.observability.tracing import Tracing
from dragoman.gateway.store import Store, open_store
from dragoman.gateway.store.memory import MemoryStore
from dragoman.targets.providers import target
from dragoman.types import Attempt, Request, Usage, user
from tests.gateway.conftest import Clock
from tests.support.gateway.contexts import context_of
from tests.support.gateway.live import PATIENCE
from tests.support.gateway.redis_server import RedisServer
from tests.support.gateway.usage import metrics_text, usage_rows, usage_sums

Opened = Callable[[], Store]
USED = Usage(input=5, output=2)


def run(opened: Opened, work: Callable[[Accounting], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        store = opened()
        accounting = Accounting(store, **options)
        try:
            await work(accounting)
        finally:
            await store.aclose()

    asyncio.run(main())


def key(**limits: Any) -> Key:
    return Key(id="team", hash="b2:0:0:0", **limits)


def test_a_request_has_one_row_with_all_that_it_used(opened: Opened) -> None:
    async def work(accounting: Accounting) -> None:
        record = await accounting.open(context_of("r1", request=Request(stream=True), key=key(), dialect="ollama"))
        record.observe(Attempt(target="a/x", outcome="skipped"))
        record.observe(Attempt(target="b/y", outcome="failed", usage=Usage(input=3)))
        record.observe(Attempt(target="c/z", outcome="served", usage=USED))
        record.count_streamed(())
        await record.finish("served", status=200, target="c/z", usage=USED)
        await record.finish("failed", status=500)
        (row,) = await usage_rows(accounting)
        assert (row.key, row.target, row.outcome, row.input, row.output, row.attempts) == (
            *("team", "c/z", "served"),
            *(8, 2, 2),
        )
        assert row.time_to_first_token is not None
        assert row.duration is not None
        assert row.time_to_first_token <= row.duration

    run(opened, work)


def test_costs_are_those_of_each_target() -> None:
    async def work(accounting: Accounting) -> None:
        record = await accounting.open(context_of("r1"))
        record.observe(Attempt(target="openai/gpt-4o", outcome="failed", usage=Usage(input=1000)))
        await record.finish("served", status=200, target="openai/gpt-4o-mini", usage=Usage(input=1000, output=0))
        (row,) = await usage_rows(accounting)
        assert row.cost == 2_500_000 + 150_000

    run(MemoryStore, work)


def test_a_row_is_written_before_a_target_is_called(opened: Opened) -> None:
    async def work(accounting: Accounting) -> None:
        if not accounting.store.is_shared:
            return
        await accounting.open(context_of("r1"))
        (row,) = await usage_rows(accounting)
        assert not row.is_finished

    run(opened, work)


def test_a_client_that_left_is_counted_and_leaves_its_seat(opened: Opened) -> None:
    async def work(accounting: Accounting) -> None:
        team = key(concurrent=1, tokens_per_minute=5000)
        record = await accounting.open(context_of("r1", key=team))
        finishing = asyncio.ensure_future(record.finish("client_disconnected", status=499, target="a/x", usage=USED))
        await asyncio.sleep(0)
        finishing.cancel()
        await asyncio.wait([finishing])
        await accounting.aclose()
        (row,) = await usage_rows(accounting)
        assert (row.outcome, row.output) == ("client_disconnected", 2)
        again = await accounting.open(context_of("r2", key=team))
        assert dict(again.limit_headers)["X-RateLimit-Remaining-Tokens"] == str(5000 - 7 - 4096)

    run(opened, work)


def test_usage_of_a_disconnected_client_is_what_it_received() -> None:
    async def work(accounting: Accounting) -> None:
        request = Request(messages=(user("x" * 30),), stream=True)
        record = await accounting.open(context_of("r1", request=request, key=key(tokens_per_minute=5000)))
        record.count_streamed([PartStarted(index=0, kind="text"), PartDelta(index=0, text="y" * 30)])
        record.count_streamed([PartDelta(index=0, text="字" * 10)])
        await record.finish("client_disconnected", status=499, target="a/x")
        (row,) = await usage_rows(accounting)
        assert (row.input, row.output, row.estimated, row.attempts) == (17, 20, True, 1)
        again = await accounting.open(context_of("r2", request=Request(max_tokens=1), key=key(tokens_per_minute=5000)))
        assert dict(again.limit_headers)["X-RateLimit-Remaining-Tokens"] == str(5000 - 37 - 1)

    run(MemoryStore, work)


def test_a_refused_request_has_a_row_where_it_has_a_key() -> None:
    async def work(accounting: Accounting) -> None:
        team = key(requests_per_minute=1)
        await accounting.open(context_of("r1", key=team))
        refused = context_of("r2", key=team)
        with pytest.raises(OverLimit) as error:
            await accounting.open(refused)
        await accounting.refuse(refused, error.value)
        (row,) = await usage_rows(accounting)
        assert (row.id, row.outcome, row.status) == ("r2", "refused", 429)

    run(MemoryStore, work)


def test_a_failure_that_used_nothing_gives_all_back() -> None:
    async def work(accounting: Accounting) -> None:
        team = key(tokens_per_minute=4096)
        record = await accounting.open(context_of("r1", key=team))
        await record.finish("failed", status=502, error=Overloaded("busy"))
        await accounting.open(context_of("r2", key=team))

    run(MemoryStore, work)


def test_a_budget_of_money_counts_what_it_cost(clock: Clock) -> None:
    async def work(accounting: Accounting) -> None:
        team = key(budgets=(KeyBudget(per="day", dollars=0.05),))
        chain, name = [target("openai/gpt-4o-mini"), target("openai/gpt-4o")], "openai/gpt-4o"
        for n in range(3):
            request = Request(max_tokens=1024)
            record = await accounting.open(context_of(f"r{n}", request=request, key=team, targets=chain))
            await record.finish("served", status=200, target=name, usage=Usage(input=1000, output=1000))
        with pytest.raises(OverLimit, match="dollars per day"):
            await accounting.open(context_of("r4", request=Request(max_tokens=1251), key=team, targets=chain))

    run(lambda: MemoryStore(clock=clock), work)


def test_a_store_that_is_down_stops_nobody_without_a_budget() -> None:
    server = RedisServer(keeps=True)

    async def work(accounting: Accounting) -> None:
        for n in range(3):
            record = await accounting.open(context_of(f"a{n}", key=key(requests_per_minute=100)))
            await record.finish("served", status=200, usage=USED)
        server.kill()
        for n in range(3):
            record = await accounting.open(context_of(f"b{n}", key=key(requests_per_minute=100)))
            await record.finish("served", status=200, usage=USED)
        refused = context_of("c", key=key(budgets=(KeyBudget(per="day", tokens=9),)))
        with pytest.raises(StoreDown) as error:
            await accounting.open(refused)
        await accounting.refuse(refused, error.value)
        await accounting.sync()
        assert await is_down(accounting)
        server.start()
        async with asyncio.timeout(PATIENCE):
            while await is_down(accounting):
                await asyncio.sleep(0)
                await accounting.sync()
        await accounting.aclose()
        rows = await usage_rows(accounting)
        assert sorted(row.id for row in rows) == ["a0", "a1", "a2", "b0", "b1", "b2", "c"]
        assert all(row.is_finished for row in rows)

    try:
        server.start()
        run(lambda: open_store(server.url), work)
    finally:
        server.stop()


async def is_down(accounting: Accounting) -> bool:
    try:
        await accounting.store.read("ready")
    except StoreDown:
        return True
    return False


def test_a_round_shares_benches(redis: RedisServer) -> None:
    from dragoman.engine.health import Health
    from dragoman.gateway.store.redis import RedisStore

    async def main() -> None:
        stores = [RedisStore(redis.url, prefix="round:") for _ in range(2)]
        shared = [SharedHealthStore(store) for store in stores]
        one, other = (Accounting(store, shared_health=each) for store, each in zip(stores, shared, strict=True))
        Health(store=shared[0]).cool_down("aa/m", 10.0**12, "busy")
        await one.sync()
        await other.sync()
        assert shared[1].read("aa/m").state == "cooldown"
        for store in stores:
            await store.aclose()

    asyncio.run(main())


def test_no_secret_is_kept_anywhere() -> None:
    plain, hash = new_key()
    lines: list[str] = []
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def work(accounting: Accounting) -> None:
        request = Request(system="my-secret-prompt", messages=(user("my-secret-prompt"),))
        team = Key(id="team", hash=hash, tokens_per_minute=10_000)
        headers = {"authorization": f"Bearer {plain}", "x-api-key": plain}
        for n, model in enumerate(("fast", plain)):
            record = await accounting.open(context_of(f"r{n}", model=model, request=request, key=team, headers=headers))
            record.observe(Attempt(target="a/x", outcome="failed", error=f"said {plain}"))
            await record.finish("failed", status=502, target="a/x", error=Overloaded(f"said {plain}"))
        spans = "".join(span.to_json() for span in exporter.get_finished_spans())
        rows = await usage_rows(accounting)
        stored = "".join([*lines, spans, metrics_text(accounting.metrics).decode(), repr(rows), repr(team)])
        assert "chat fast" in spans
        for secret in (plain, hash, "my-secret-prompt"):
            assert secret not in stored

    run(MemoryStore, work, tracing=Tracing(provider), log=AccessLog(lines.append))


def test_quotas_may_be_passed_in() -> None:
    async def main() -> None:
        store = MemoryStore()
        quotas = Quotas(store, rates="closed")
        assert Accounting(store, quotas=quotas).quotas is quotas

    asyncio.run(main())


CLIENTS = """
import asyncio, random, signal, sys
from dragoman.errors import Overloaded
from dragoman.gateway.accounting.accounting import Accounting
from dragoman.gateway.auth.api_keys import Key
from dragoman.gateway.store import open_store
from dragoman.types import Attempt, Usage
from tests.support.gateway.contexts import context_of

async def main(url, name):
    store = open_store(url)
    accounting, rng = Accounting(store), random.Random(name)
    team = Key(id="team", hash="b2:0:0:0", concurrent=1000, tokens_per_minute=10**9)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    async def client(number):
        n = 0
        while not stop.is_set():
            id, n = f"{name}-{number}-{n}", n + 1
            record = await accounting.open(context_of(id, key=team))
            used = Usage(input=rng.randrange(50), output=rng.randrange(50))
            record.observe(Attempt(target="a/x", outcome="served"))
            outcome = rng.choice(["served", "failed", "client_disconnected"])
            finishing = asyncio.ensure_future(record.finish(outcome, status=200, target="a/x", usage=used))
            if outcome == "client_disconnected":
                await asyncio.sleep(0)
                finishing.cancel()
                await asyncio.wait([finishing])
            else:
                await finishing
                print(id, used.input, used.output, flush=True)

    await asyncio.gather(*(client(number) for number in range(20)))
    await accounting.aclose()
    print("ended", flush=True)
    await store.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


def test_of_two_gateways_one_killed_and_one_stopped_every_answer_has_one_row() -> None:
    server = RedisServer()
    server.start()
    try:
        programs = [[sys.executable, "-c", CLIENTS, server.url, name] for name in ("killed", "stopped")]
        killed, stopped = (subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in programs)
        answered = [*read_until(killed, 1000, signal.SIGKILL), *read_until(stopped, 1500, signal.SIGTERM)]
        assert answered.pop() == "ended"

        async def work(accounting: Accounting) -> None:
            rows = {row.id: row for row in await usage_rows(accounting, 100_000)}
            for id, input, output in (line.split() for line in answered):
                assert (rows[id].input, rows[id].output) == (int(input), int(output))
            unknown = {id for id, row in rows.items() if not row.is_finished}
            # A request that its client left is under way until it is counted.
            assert all(id.startswith("killed-") for id in unknown)
            assert len(unknown) <= 60
            days = sorted(row.day for row in rows.values())
            uses = await usage_sums(accounting, days[0], days[-1])
            assert sum(use.requests for use in uses) == len(rows)
            assert sum(use.output for use in uses) == sum(row.output or 0 for row in rows.values())

        run(lambda: open_store(server.url), work)
    finally:
        server.stop()


def read_until(process: "subprocess.Popen[str]", count: int, ends_by: signal.Signals) -> list[str]:
    """All that a process says; after some lines it is told to end."""
    lines: list[str] = []
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):  # a process that is killed leaves a torn one
                lines.append(line.strip())
            if len(lines) == count:
                process.send_signal(ends_by)
    return lines
