"""One suite for all stores: memory, SQLite and a real Redis."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import SetupError, StoreDown
from dragoman.gateway.store import Store, open_store
from dragoman.gateway.store.base import Charge, ConcurrencySlot, PeriodCounter, ReserveOutcome, UsageRow, WindowCounter
from dragoman.gateway.store.memory import MemoryStore
from dragoman.gateway.store.sqlite import SqliteStore
from tests.gateway.conftest import Clock
from tests.support.gateway.live import PATIENCE
from tests.support.gateway.redis_server import RedisServer
from tests.support.gateway.usage import stored_rows

T = TypeVar("T")
Opened = Callable[[], Store]


@asynccontextmanager
async def using(opened: Opened) -> AsyncGenerator[Store]:
    store = opened()
    try:
        yield store
    finally:
        await store.aclose()


def run(opened: Opened, work: Callable[[Store], Awaitable[T]]) -> T:
    async def main() -> T:
        async with using(opened) as store:
            return await work(store)

    return asyncio.run(main())


# Values ---------------------------------------------------------------------------------------------------------------


def test_a_written_value_can_be_read(opened: Opened) -> None:
    async def work(store: Store) -> None:
        assert await store.read("a") is None
        version = await store.write("a", b"\x00one", ttl=None)
        entry = await store.read("a")
        assert entry is not None
        assert (entry.value, entry.version) == (b"\x00one", version)

    run(opened, work)


def test_a_write_that_expects_another_version_does_nothing(opened: Opened) -> None:
    async def work(store: Store) -> None:
        first = await store.write("a", b"1", ttl=60, expects=None)
        assert first is not None
        assert await store.write("a", b"2", ttl=60, expects=None) is None
        second = await store.write("a", b"3", ttl=60, expects=first)
        assert second not in (None, first)
        assert await store.write("a", b"4", ttl=60, expects=first) is None
        entry = await store.read("a")
        assert entry is not None
        assert entry.value == b"3"

    run(opened, work)


def test_a_deleted_value_cannot_be_read(opened: Opened) -> None:
    async def work(store: Store) -> None:
        await store.write("a", b"1", ttl=60)
        assert await store.delete("a")
        assert not await store.delete("a")
        assert await store.read("a") is None

    run(opened, work)


def test_of_fifty_writes_with_the_same_expected_version_one_succeeds(opened: Opened) -> None:
    async def work(store: Store) -> None:
        first = await store.write("a", b"0", ttl=60)
        done = await asyncio.gather(*(store.write("a", b"%d" % n, ttl=60, expects=first) for n in range(50)))
        assert sum(version is not None for version in done) == 1

    run(opened, work)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_value_expires(kind: str, clock: Clock, tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        await store.write("a", b"1", ttl=60)
        clock.now += 59
        assert await store.read("a") is not None
        clock.now += 1
        assert await store.read("a") is None
        assert await store.write("a", b"2", ttl=60, expects=None) is not None

    run(lambda: MemoryStore(clock=clock) if kind == "memory" else SqliteStore(str(tmp_path / "x"), clock=clock), work)


def test_a_value_in_redis_expires(redis: RedisServer) -> None:
    async def work(store: Store) -> None:
        await store.write("short", b"1", ttl=0.02)
        async with asyncio.timeout(PATIENCE):
            while await store.read("short") is not None:  # noqa: ASYNC110 - Redis sends no event
                await asyncio.sleep(0)

    run(lambda: open_store(redis.url), work)


def test_memory_deletes_the_oldest_value_if_it_is_full() -> None:
    async def work(store: Store) -> None:
        for name in "abc":
            await store.write(name, b"x" * 40, ttl=None)
        assert [name for name in "abc" if await store.read(name)] == ["b", "c"]

    run(lambda: MemoryStore(max_bytes=100), work)


# Counters -------------------------------------------------------------------------------------------------------------


def window(amount: int = 1, limit: int = 3) -> WindowCounter:
    return WindowCounter(key="w", amount=amount, limit=limit, period=60.0)


def total(amount: int, clock: Clock, limit: int = 10) -> PeriodCounter:
    return PeriodCounter(key="t", amount=amount, limit=limit, ends=clock.now + 100)


def slot(id: str, limit: int = 2) -> ConcurrencySlot:
    return ConcurrencySlot(key="s", id=id, limit=limit, ttl=30.0)


def summary(reservation: ReserveOutcome) -> tuple[bool, list[tuple[int, float | None, float]]]:
    return reservation.granted, [(level.used, level.wait, level.resets_in) for level in reservation.levels]


def test_a_window_slides(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        assert summary(await store.reserve([window()])) == (True, [(1, 0.0, 61.0)])
        clock.now += 10
        assert summary(await store.reserve([window(2)])) == (True, [(3, 0.0, 61.0)])
        clock.now += 10.5
        assert summary(await store.reserve([window()])) == (False, [(3, 40.5, 50.5)])
        assert summary(await store.reserve([window(2)])) == (False, [(3, 50.5, 50.5)])
        clock.now += 40.5
        assert summary(await store.reserve([window()])) == (True, [(3, 0.0, 61.0)])

    run(opened, work)


def test_a_charge_larger_than_its_limit_never_fits(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        assert summary(await store.reserve([window(4)])) == (False, [(0, None, 0.0)])
        assert summary(await store.reserve([total(11, clock)])) == (False, [(0, None, 0.0)])
        assert summary(await store.reserve([slot("a", limit=0)])) == (False, [(0, None, 0.0)])

    run(opened, work)


def test_unused_amounts_are_released_to_their_bucket(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        reservation = await store.reserve([window(3)])
        clock.now += 5
        await store.adjust([window(2)], reservation.reserved_at)
        assert summary(await store.reserve([window(2)])) == (True, [(3, 0.0, 61.0)])
        clock.now += 56
        assert summary(await store.reserve([window(1)])) == (True, [(3, 0.0, 61.0)])

    run(opened, work)


def test_additional_usage_counts_from_now(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        reservation = await store.reserve([window(1)])
        clock.now += 40
        await store.adjust([window(-5)], reservation.reserved_at)
        assert summary(await store.reserve([window()])) == (False, [(6, 61.0, 61.0)])

    run(opened, work)


def test_a_release_to_an_expired_bucket_changes_nothing(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        reservation = await store.reserve([window(3)])
        clock.now += 61
        assert (await store.reserve([window(3)])).granted
        await store.adjust([window(3)], reservation.reserved_at)
        assert not (await store.reserve([window(1)])).granted

    run(opened, work)


def test_a_period_counter_lasts_until_its_end(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        first = total(8, clock)
        reservation = await store.reserve([first])
        clock.now += 40
        assert summary(await store.reserve([PeriodCounter(key="t", amount=3, limit=10, ends=first.ends)])) == (
            False,
            [(8, 60.0, 60.0)],
        )
        await store.adjust([PeriodCounter(key="t", amount=-1, limit=10, ends=first.ends)], reservation.reserved_at)
        assert summary(await store.reserve([PeriodCounter(key="t", amount=1, limit=10, ends=first.ends)])) == (
            True,
            [(10, 0.0, 60.0)],
        )

    run(opened, work)


def test_concurrency_slots_are_reserved_and_released(opened: Opened) -> None:
    async def work(store: Store) -> None:
        assert [(await store.reserve([slot(id)])).granted for id in "abc"] == [True, True, False]
        await store.adjust([slot("a")], 0.0)
        assert [(await store.reserve([slot(id)])).granted for id in "cd"] == [True, False]

    run(opened, work)


def test_a_slot_that_is_not_renewed_becomes_free(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        await store.reserve([slot("a")])
        await store.reserve([slot("b")])
        clock.now += 20
        await store.renew([slot("a")])
        clock.now += 15
        assert [(await store.reserve([slot(id)])).granted for id in "cd"] == [True, False]

    run(opened, work)


def test_all_charges_are_taken_or_none(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        full: list[Charge] = [window(1), slot("a", limit=0)]
        assert not (await store.reserve(full)).granted
        reservation = await store.reserve([window(1), total(4, clock), slot("b")])
        assert [level.used for level in reservation.levels] == [1, 4, 1]

    run(opened, work)


def test_two_hundred_reservations_at_once_never_exceed_the_limit(opened: Opened) -> None:
    async def work(store: Store) -> None:
        reservation = await asyncio.gather(*(store.reserve([window(1, limit=37)]) for _ in range(200)))
        assert sum(each.granted for each in reservation) == 37

    run(opened, work)


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.5, 1.0, 7.5, 30.0, 61.0]),
        st.sampled_from(["take", "give", "renew"]),
        st.integers(-3, 4),
        st.sampled_from("abc"),
    ),
    max_size=25,
)


@settings(max_examples=40)
@given(steps=STEPS)
def test_redis_counts_as_memory_does(redis: RedisServer, steps: list[tuple[float, str, int, str]]) -> None:
    clock = Clock()
    began, ends = clock.now, clock.now + 90.0

    async def counted(store: Store) -> list[object]:
        clock.now = began
        results: list[object] = []
        reserved_at = clock.now
        for seconds, verb, amount, id in steps:
            clock.now += seconds
            held = ConcurrencySlot(key="s", id=id, limit=2, ttl=30.0)
            charges: list[Charge] = [
                WindowCounter(key="w", amount=amount, limit=9, period=60.0),
                PeriodCounter(key="t", amount=amount, limit=20, ends=ends),
                held,
            ]
            if verb == "take" and amount >= 0:
                reservation = await store.reserve(charges)
                reserved_at = reservation.reserved_at if reservation.granted else reserved_at
                results.append(
                    (reservation.granted, *((level.used, level.wait, level.resets_in) for level in reservation.levels))
                )
            elif verb == "give":
                await store.adjust(charges, reserved_at)
            elif verb == "renew":
                await store.renew([held])
        return results

    from dragoman.gateway.store.redis import RedisStore

    prefix = f"{token_hex(4)}:"
    assert run(lambda: RedisStore(redis.url, prefix=prefix, clock=clock), counted) == run(
        lambda: MemoryStore(clock=clock), counted
    )


# The usage log --------------------------------------------------------------------------------------------------------


def row(id: str, clock: Clock, **facts: object) -> UsageRow:
    return UsageRow(id=id, started_at=clock.now, key="team", model="fast", **facts)  # type: ignore[arg-type] # facts of a row


def test_a_finished_row_is_not_changed(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        begun = row("r1", clock)
        await store.record([begun])
        assert await stored_rows(store, 9) == (begun,)
        ended = row("r1", clock, target="a/x", outcome="served", input=5, output=2, cost=70)
        await store.record([ended])
        await store.record([ended, begun, row("r1", clock, outcome="failed")])
        assert await stored_rows(store, 9) == (ended,)
        (use,) = await store.usage("2026-11-17", "2026-11-17")
        assert (use.requests, use.unknown, use.failed, use.input, use.output, use.cost) == (1, 0, 0, 5, 2, 70)

    run(opened, work)


def test_rows_are_summed_by_day_key_model_and_target(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        for n in range(3):
            await store.record([row(f"a{n}", clock, target="a/x", outcome="served", input=10, output=n)])
        await store.record([row("b", clock, target="b/y", outcome="failed", input=10)])
        await store.record([row("c", clock)])
        clock.now += 86400
        await store.record([row("d", clock, target="a/x", outcome="served", cost=3)])
        uses = await store.usage("2026-11-17", "2026-11-17")
        sums = [
            (use.target, use.requests, use.unknown, use.failed, use.unpriced, use.input, use.output) for use in uses
        ]
        assert sums == [(None, 1, 1, 0, 0, 0, 0), ("a/x", 3, 0, 0, 3, 30, 3), ("b/y", 1, 0, 1, 0, 10, 0)]
        assert [use.day for use in await store.usage("2026-11-18", "2026-11-30")] == ["2026-11-18"]

    run(opened, work)


def test_the_newest_rows_come_first(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        for n in range(5):
            clock.now += 1
            await store.record([row(f"r{n}", clock)])
        assert [each.id for each in await stored_rows(store, 3)] == ["r4", "r3", "r2"]

    run(opened, work)


def test_memory_keeps_the_newest_rows(clock: Clock) -> None:
    async def work(store: Store) -> None:
        rows = [UsageRow(id=f"r{n}", started_at=clock.now, model=f"m{n}", outcome="served") for n in range(10_100)]
        await store.record(rows)
        assert len(await stored_rows(store, 20_000)) == 10_000
        assert len(await store.usage("2026-11-17", "2026-11-17")) == 10_000

    run(lambda: MemoryStore(clock=clock), work)


# Several processes, crashes, outages ------------------------------------------------------------------------------------


def test_two_clients_of_one_store_see_the_same(opened: Opened) -> None:
    async def main() -> None:
        async with using(opened) as one, using(opened) as other:
            if not one.is_shared:
                return
            await one.write("a", b"1", ttl=60)
            entry = await other.read("a")
            assert entry is not None
            reservation = await asyncio.gather(
                *(store.reserve([window(1, limit=7)]) for store in (one, other) for _ in range(20))
            )
            assert sum(each.granted for each in reservation) == 7

    asyncio.run(main())


def test_sqlite_survives_being_killed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    program = """
import asyncio, os, sys
from dragoman.gateway.store import open_store
async def main():
    store = open_store("sqlite:" + sys.argv[1])
    for n in range(100):
        await store.write(f"k{n}", b"value", ttl=3600)
        print(n, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        last = next(line for line in process.stdout if line == "60\n")
        os.kill(process.pid, signal.SIGKILL)

    async def work(store: Store) -> None:
        for n in range(int(last) + 1):
            assert await store.read(f"k{n}") is not None

    run(lambda: open_store(f"sqlite:{path}"), work)


def test_a_file_that_is_no_database_is_down(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"no database at all" * 100)

    async def work(store: Store) -> None:
        with pytest.raises(StoreDown, match="sqlite"):
            await store.read("a")

    run(lambda: open_store(f"sqlite:{path}"), work)


def test_an_unreachable_redis_is_down_and_the_error_has_no_password() -> None:
    async def work(store: Store) -> None:
        with pytest.raises(StoreDown) as caught:
            await store.read("a")
        assert "hunter2" not in repr(store) + str(caught.value) + repr(caught.value)

    run(lambda: open_store("redis://me:hunter2@127.0.0.1:1/0"), work)


def test_a_closed_store_is_down(opened: Opened) -> None:
    async def main() -> None:
        store = opened()
        await store.write("a", b"1", ttl=60)
        await store.aclose()
        if store.is_shared:
            with pytest.raises(StoreDown, match="closed"):
                await store.read("a")

    asyncio.run(main())


def test_scripts_that_redis_lost_are_sent_again(redis: RedisServer) -> None:
    async def work(store: Store) -> None:
        assert isinstance(store, RedisStore)
        await store.reserve([window()])
        await store._send("SCRIPT FLUSH")  # pyright: ignore[reportPrivateUsage] - as an operator would
        assert (await store.reserve([window()])).levels[0].used == 2

    from dragoman.gateway.store.redis import RedisStore

    run(lambda: RedisStore(redis.url, prefix="forgot:"), work)


def test_a_redis_that_comes_back_is_used_again() -> None:
    server = RedisServer(keeps=True)

    async def work(store: Store) -> None:
        await asyncio.gather(*(store.write(f"k{n}", b"value", ttl=60) for n in range(8)))
        server.kill()
        with pytest.raises(StoreDown):
            await store.read("k0")
        server.start()
        async with asyncio.timeout(PATIENCE):
            while not await is_up(store):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
        for n in range(8):
            assert await store.read(f"k{n}") is not None

    try:
        server.start()
        run(lambda: open_store(server.url), work)
    finally:
        server.stop()


def test_a_broken_connection_is_replaced() -> None:
    server = RedisServer(keeps=True)

    async def work(store: Store) -> None:
        await store.write("a", b"value", ttl=60)
        server.kill()
        server.start()
        for _ in range(10):  # the loop notices that the connection is closed
            await asyncio.sleep(0)
        assert await store.read("a") is not None

    try:
        server.start()
        run(lambda: open_store(server.url), work)
    finally:
        server.stop()


async def is_up(store: Store) -> bool:
    try:
        await store.read("k0")
    except StoreDown:
        return False
    return True


def test_the_event_loop_runs_while_sqlite_waits(tmp_path: Path) -> None:
    """Another process holds the lock: the call waits in its thread."""
    path = str(tmp_path / "store.db")

    async def work(store: Store) -> None:
        await store.write("a", b"1", ttl=60)
        program = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None); db.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.readline(); db.execute('COMMIT')"
        with subprocess.Popen(  # noqa: ASYNC220 - it starts at once
            [sys.executable, "-c", program, path], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdin is not None
            assert holder.stdout.readline() == "held\n"
            write = asyncio.ensure_future(store.write("a", b"2", ttl=60))
            for _ in range(1000):
                await asyncio.sleep(0)
            assert not write.done()
            holder.stdin.write("\n")
            holder.stdin.flush()
            assert await write is not None

    run(lambda: open_store(f"sqlite:{path}"), work)


@pytest.mark.parametrize("url", ["postgres://x", "sqlite:", "memory:1", ""])
def test_an_unknown_store_is_refused(url: str) -> None:
    with pytest.raises(SetupError, match="store must be"):
        open_store(url)


# Files of version 0.1 -------------------------------------------------------------------------------------------------

OLD_TABLES = """
CREATE TABLE entries (key TEXT PRIMARY KEY, value BLOB, version TEXT, until REAL) WITHOUT ROWID;
CREATE TABLE marks (key TEXT PRIMARY KEY, marks BLOB, until REAL) WITHOUT ROWID;
CREATE TABLE rows (id TEXT PRIMARY KEY, moment REAL, settled INTEGER, row BLOB) WITHOUT ROWID;
CREATE TABLE uses (day TEXT, name TEXT, use BLOB, PRIMARY KEY (day, name)) WITHOUT ROWID;
"""
OLD_ROW = (
    b'{"id":"r1","moment":%d,"model":"fast","target":"a/x","outcome":"hung_up","stream":true,"output":2,"first":0.25}'
)
OLD_SUM = b'{"day":"2026-11-17","key":null,"model":"fast","target":"a/x","requests":1,"unknown":0,"failed":1,"input":0,"output":2,"cost":0,"unpriced":0}'


def test_a_sqlite_file_of_version_0_1_can_be_used(tmp_path: Path, clock: Clock) -> None:
    path = str(tmp_path / "store.db")
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(OLD_TABLES)
        db.execute("INSERT INTO entries VALUES ('a', ?, 'v1', NULL)", (b"1",))
        bucket = int(clock.now)
        db.execute("INSERT INTO marks VALUES ('w', ?, ?)", (b'{"%d":2}' % bucket, clock.now + 61))
        db.execute("INSERT INTO rows VALUES ('r1', ?, 1, ?)", (clock.now, OLD_ROW % bucket))
        db.execute("INSERT INTO uses VALUES ('2026-11-17', '[null,\"fast\",\"a/x\"]', ?)", (OLD_SUM,))

    async def work(store: Store) -> None:
        stored = await store.read("a")
        assert stored is not None
        assert (stored.value, stored.version) == (b"1", "v1")
        assert [(await store.reserve([window()])).granted for _ in range(2)] == [True, False]
        (old,) = await stored_rows(store, 9)
        assert (old.outcome, old.time_to_first_token) == ("client_disconnected", 0.25)
        new = UsageRow(id="r2", started_at=clock.now, model="fast", target="a/x", outcome="served", output=3)
        await store.record([new])
        (total,) = await store.usage("2026-11-17", "2026-11-17")
        assert (total.requests, total.failed, total.output) == (2, 1, 5)

    run(lambda: SqliteStore(path, clock=clock), work)
