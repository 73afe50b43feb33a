"""Every store answers the same usage queries in the same way."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from itertools import product
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from dragoman.gateway.store import Store, sqlite_queries, usage_queries
from dragoman.gateway.store.base import UsageRow
from dragoman.gateway.store.sqlite import SqliteStore
from dragoman.gateway.store.usage_queries import GROUPS, Grain, RowsQuery, Sums, SumsQuery, SumsResult

T = TypeVar("T")
Opened = Callable[[], Store]
START = 1_794_873_600.0  # a midnight
LENGTH = 3 * 86_400


def run(opened: Opened, work: Callable[[Store], Awaitable[T]]) -> T:
    async def main() -> T:
        store = opened()
        try:
            return await work(store)
        finally:
            await store.aclose()

    return asyncio.run(main())


def some_rows(count: int = 300) -> list[UsageRow]:
    random = Random(7)
    outcomes = ("served", "served", "failed", "refused", "client_disconnected", "unknown")
    return [
        UsageRow(
            id=f"req_{number:04}",
            started_at=START + random.choice((number * 60.0, random.random() * LENGTH)),
            key=random.choice((None, "alice", "bob")),
            team=random.choice((None, "research")),
            user=random.choice((None, "u1", "ünï")),
            model=random.choice(("fast", "groq/llama")),
            target=random.choice((None, "groq/llama")),
            dialect=random.choice(("openai_chat", "anthropic")),
            status=random.choice((200, 429)),
            outcome=random.choice(outcomes),
            input=random.choice((None, 3, 5)),
            output=random.choice((None, 7)),
            cache_read=random.choice((None, 2)),
            cost=random.choice((None, 10**15, 12)),
            duration=random.choice((None, 0.1234, 2.5)),
            time_to_first_token=random.choice((None, 0.05)),
        )
        for number in range(count)
    ]


ROWS = some_rows()


def expected(query: SumsQuery) -> SumsResult:
    sums = Sums(query)
    sums.add_rows(row for row in ROWS if row.is_finished or query.grain == "minute")
    return sums.result()


def as_set(result: SumsResult) -> set[object]:
    assert not result.truncated
    assert [each.start for each in result.buckets] == sorted(each.start for each in result.buckets)
    assert len(set(result.buckets)) == len(result.buckets)
    return set(result.buckets)


def test_sums_are_those_of_the_rows(opened: Opened) -> None:
    groups: list[tuple[str, ...]] = [(), ("key",), ("model", "user"), GROUPS]
    filters: list[dict[str, str]] = [{}, {"key": "alice"}, {"user": "ünï", "team": "research"}, {"target": "no"}]
    grains: list[Grain] = ["minute", "hour", "day", "total"]
    ranges = [(START, START + LENGTH), (START + 1800.0, START + 90_000.0)]

    async def work(store: Store) -> None:
        await store.record(ROWS)
        await store.record(ROWS)  # a finished row counts once
        for grain, group, chosen, (first, last) in product(grains, groups, filters, ranges):
            query = SumsQuery(first=first, last=last, grain=grain, groups=group, filters=chosen).whole()  # type: ignore[arg-type]
            assert as_set(await store.sums(query)) == as_set(expected(query)), query

    run(opened, work)


@pytest.mark.parametrize("grain", ["minute", "hour"])
def test_totals_have_the_buckets_that_an_answer_leaves_out(
    opened: Opened, grain: Grain, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = SumsQuery(first=START, last=START + LENGTH, grain=grain, groups=("key",))
    whole = expected(query)
    assert not whole.truncated
    for module in (usage_queries, sqlite_queries):
        monkeypatch.setattr(module, "MAX_BUCKETS", 20)

    async def work(store: Store) -> None:
        await store.record(ROWS)
        result = await store.sums(query)
        assert result.truncated
        assert len(result.buckets) == 20
        assert set(result.totals) == set(whole.totals)

    run(opened, work)


@pytest.mark.parametrize(
    ("filters", "status"),
    [
        ({}, None),
        ({"key": "alice"}, 200),
        ({"outcome": "unknown"}, None),
        ({"outcome": "served", "user": "ünï"}, None),
        ({"dialect": "anthropic", "model": "fast"}, 429),
        ({"key": "nobody"}, None),
    ],
)
def test_pages_have_every_row_once_and_newest_first(
    opened: Opened, filters: dict[str, str], status: int | None
) -> None:
    query = RowsQuery(first=START + 600, last=START + 200_000, filters=filters, status=status, limit=7)
    rows = sorted(filter(query.fits, ROWS), key=lambda row: (row.started_at, row.id), reverse=True)

    async def work(store: Store) -> list[UsageRow]:
        await store.record(ROWS)
        found: list[UsageRow] = []
        page = await store.find_rows(query)
        while True:
            assert len(page.rows) <= 7
            found += page.rows
            if page.next is None:
                return found
            page = await store.find_rows(
                RowsQuery(first=query.first, last=query.last, filters=filters, status=status, limit=7, before=page.next)
            )

    assert run(opened, work) == rows


def test_one_row_is_found_by_its_id(opened: Opened) -> None:
    async def work(store: Store) -> None:
        await store.record(ROWS[:3])
        assert await store.row(ROWS[1].id) == ROWS[1]
        assert await store.row("req_none") is None

    run(opened, work)


@pytest.mark.parametrize("grain", ["minute", "hour", "day", "total"])
def test_percentiles_are_those_of_the_rows_within_9_percent(opened: Opened, grain: Grain) -> None:
    times = [0.0004, *(0.01 * 1.03**number for number in range(199))]
    rows = [
        UsageRow(
            id=f"r{number}",
            started_at=START + number * 60,
            model="m",
            outcome="served",
            duration=seconds,
            time_to_first_token=None if number % 2 else seconds / 10,
        )
        for number, seconds in enumerate(times)
    ]
    rows.append(UsageRow(id="failed", started_at=START, model="m", outcome="failed", duration=9999.0))
    last = START + 86_400
    query = SumsQuery(first=START, last=last, grain=grain)

    async def read(store: Store) -> SumsResult:
        await store.record(rows)
        return await store.sums(query)

    result = run(opened, read)
    (total,) = result.totals
    assert total.requests == 201
    assert sum(each.requests for each in result.buckets) == 201
    for found, values, part in (
        (total.p50, times, 0.5),
        (total.p95, times, 0.95),
        (total.p99, times, 0.99),
        (total.first_p95, [each / 10 for each in times[::2]], 0.95),
    ):
        exact = sorted(values)[int(len(values) * part) - 1] * 1000
        assert found == pytest.approx(exact, rel=0.09)


def test_no_request_has_no_percentile(opened: Opened) -> None:
    query = SumsQuery(first=START, last=START + LENGTH)

    async def read(store: Store) -> SumsResult:
        await store.record([UsageRow(id="r", started_at=START, model="m", outcome="refused")])
        return await store.sums(query)

    (bucket,) = run(opened, read).buckets
    assert (bucket.requests, bucket.p50, bucket.first_p99) == (1, None, None)


@pytest.mark.parametrize("missing", [("hours",), ("latencies",), ("hours", "latencies")])
def test_a_file_from_before_hourly_sums_gets_them(tmp_path: Path, missing: tuple[str, ...]) -> None:
    path = str(tmp_path / "store.db")
    query = SumsQuery(first=START, last=START + LENGTH, grain="hour", groups=("key",))

    def opened() -> Store:
        return SqliteStore(path, clock=lambda: START + LENGTH)

    async def write(store: Store) -> None:
        await store.record(ROWS)

    run(opened, write)
    with closing(sqlite3.connect(path)) as db:
        for table in missing:
            db.execute(f"DROP TABLE {table}")

    async def read(store: Store) -> None:
        assert as_set(await store.sums(query)) == as_set(expected(query))

    run(opened, read)
