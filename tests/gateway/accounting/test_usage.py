import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.errors import StoreDown
from dragoman.gateway.accounting.usage import UsageLog
from dragoman.gateway.store import Store, open_store
from dragoman.gateway.store.base import UsageRow
from dragoman.gateway.store.memory import MemoryStore
from tests.support.gateway.usage import stored_rows

Opened = Callable[[], Store]
DAY = "1970-01-01"


def run(opened: Opened, work: Callable[[Store], Awaitable[None]]) -> None:
    async def main() -> None:
        store = opened()
        try:
            await work(store)
        finally:
            await store.aclose()

    asyncio.run(main())


def begun(id: str) -> UsageRow:
    return UsageRow(id=id, started_at=60.0, key="team", model="fast")


def ended(id: str) -> UsageRow:
    return replace(begun(id), target="a/x", outcome="served", input=5, output=2, cost=70, duration=0.5)


class Watched(MemoryStore):
    """Counts writes, and can be slow or down."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.is_down = False

    async def record(self, rows: Sequence[UsageRow], /) -> None:
        self.writes += 1
        await asyncio.sleep(0)
        if self.is_down:
            raise StoreDown("out for lunch")
        await super().record(rows)


def test_a_row_is_there_before_its_request_is_answered(opened: Opened) -> None:
    async def work(store: Store) -> None:
        usage_log = UsageLog(store)
        await usage_log.record(begun("r1"))
        (use,) = await store.usage(DAY, DAY)
        assert (use.requests, use.unknown) == (1, 1)
        await usage_log.record(ended("r1"))
        (use,) = await store.usage(DAY, DAY)
        assert (use.requests, use.unknown, use.input, use.output, use.cost) == (1, 0, 5, 2, 70)
        assert await stored_rows(store) == (ended("r1"),)

    run(opened, work)


def test_a_thousand_at_once_are_each_one_row(opened: Opened) -> None:
    async def work(store: Store) -> None:
        usage_log = UsageLog(store)

        async def one(n: int) -> None:
            await usage_log.record(begun(f"r{n}"))
            await usage_log.record(ended(f"r{n}"))

        await asyncio.gather(*(one(n) for n in range(1000)))
        (use,) = await store.usage(DAY, DAY)
        assert (use.requests, use.unknown, use.input, use.cost) == (1000, 0, 5000, 70_000)
        assert len(await stored_rows(store, 2000)) == 1000

    run(opened, work)


def test_rows_that_come_together_are_written_together() -> None:
    async def work(store: Store) -> None:
        assert isinstance(store, Watched)
        usage_log = UsageLog(store)
        await asyncio.gather(*(usage_log.record(begun(f"r{n}")) for n in range(300)))
        assert store.writes <= 2
        assert usage_log.pending == 0

    run(Watched, work)


def test_rows_wait_for_a_store_that_is_down_and_stop_nobody() -> None:
    async def work(store: Store) -> None:
        assert isinstance(store, Watched)
        usage_log = UsageLog(store)
        store.is_down = True
        for n in range(10):
            await usage_log.record(begun(f"r{n}"))
            await usage_log.record(ended(f"r{n}"))
        assert (usage_log.pending, store.writes) == (10, 1)
        store.is_down = False
        await usage_log.flush()
        assert usage_log.pending == 0
        (use,) = await store.usage(DAY, DAY)
        assert (use.requests, use.output) == (10, 20)

    run(Watched, work)


def test_a_stop_writes_what_waits_or_says_that_it_could_not() -> None:
    async def work(store: Store) -> None:
        assert isinstance(store, Watched)
        usage_log = UsageLog(store)
        store.is_down = True
        await usage_log.record(ended("r1"))
        with pytest.raises(StoreDown, match="1 rows"):
            await usage_log.aclose()
        store.is_down = False
        await usage_log.aclose()
        assert len(await stored_rows(store)) == 1

    run(Watched, work)


def test_a_cancelled_write_is_not_lost() -> None:
    async def work(store: Store) -> None:
        usage_log = UsageLog(store)
        writing = asyncio.ensure_future(usage_log.record(ended("r1")))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait([writing])
        await usage_log.aclose()
        assert len(await stored_rows(store)) == 1

    run(Watched, work)


KILLED = """
import asyncio, sys, time
from msgspec.structs import replace
from dragoman.gateway.accounting.usage import UsageLog
from dragoman.gateway.store import open_store
from dragoman.gateway.store.base import UsageRow

async def main():
    usage_log = UsageLog(open_store(sys.argv[1]))
    async def client(name):
        n = 0
        while True:
            row = UsageRow(id=f"{name}-{n}", started_at=time.time(), model="fast")
            await usage_log.record(row)
            await asyncio.sleep(0)
            await usage_log.record(replace(row, outcome="served", input=5, output=2))
            print(row.id, flush=True)
            n += 1
    await asyncio.gather(*(client(name) for name in range(20)))

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_what_was_answered_before_a_kill_is_settled_and_the_rest_is_unknown(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:{tmp_path / 'usage.db'}" if kind == "sqlite" else request.getfixturevalue("redis").url
    answered: list[str] = []
    with subprocess.Popen([sys.executable, "-c", KILLED, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            answered.append(line.strip())
            if len(answered) == 500:
                os.kill(process.pid, signal.SIGKILL)

    async def work(store: Store) -> None:
        rows = {row.id: row for row in await stored_rows(store, 100_000)}
        days = sorted(row.day for row in rows.values())
        uses = await store.usage(days[0], days[-1])
        assert all(rows[id].is_finished for id in answered)
        unknown = sum(use.unknown for use in uses)
        assert unknown <= 20
        assert sum(use.requests for use in uses) == len(rows)
        assert sum(use.input for use in uses) == 5 * (len(rows) - unknown)

    run(lambda: open_store(url), work)
