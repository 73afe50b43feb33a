import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import StoreDown
from dragoman.gateway.accounting.pricing import Prices
from dragoman.gateway.accounting.quotas import SLOT_TTL, ExpectedUsage, OverLimit, QuotaReservation, Quotas
from dragoman.gateway.auth.api_keys import Key, KeyBudget
from dragoman.gateway.store import Store
from dragoman.gateway.store.base import NANODOLLARS
from dragoman.gateway.store.memory import MemoryStore
from dragoman.gateway.store.sqlite import SqliteStore
from dragoman.types import Usage
from tests.gateway.conftest import Clock
from tests.support.gateway.redis_server import RedisServer

Opened = Callable[[], Store]


def run(opened: Opened, work: Callable[[Store], Awaitable[None]]) -> None:
    async def main() -> None:
        store = opened()
        try:
            await work(store)
        finally:
            await store.aclose()

    asyncio.run(main())


def key(**limits: Any) -> Key:
    return Key(id="team", hash="b2:0:0:0", **limits)


async def refused(limits: Quotas, by: Key, **usage: Any) -> OverLimit:
    fields: dict[str, Any] = {"tokens": 10, **usage}
    with pytest.raises(OverLimit) as caught:
        await limits.reserve(by, ExpectedUsage(**fields))
    return caught.value


# One limit ------------------------------------------------------------------------------------------------------------


def test_requests_of_a_minute_are_counted(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store, clock=clock), key(requests_per_minute=2)
        first = await limits.reserve(team, ExpectedUsage(10))
        assert dict(first.headers) == {
            "X-RateLimit-Limit-Requests": "2",
            "X-RateLimit-Remaining-Requests": "1",
            "X-RateLimit-Reset-Requests": "61s",
        }
        await limits.finish(first, tokens=0)
        clock.now += 20.5
        await limits.reserve(team, ExpectedUsage(10))
        error = await refused(limits, team)
        assert (error.retry_after, error.http_status, error.retry) == (40.5, 429, True)
        assert dict(error.headers)["X-RateLimit-Remaining-Requests"] == "0"
        clock.now += 40.5
        await limits.reserve(team, ExpectedUsage(10))

    run(opened, work)


def test_tokens_are_reserved_and_given_back(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store, clock=clock), key(tokens_per_minute=100)
        reservation = await limits.reserve(team, ExpectedUsage(80))
        await refused(limits, team, tokens=30)
        await limits.finish(reservation, tokens=70)
        await limits.reserve(team, ExpectedUsage(30))
        await refused(limits, team, tokens=1)

    run(opened, work)


def test_tokens_on_top_of_a_reservation_count(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store, clock=clock), key(tokens_per_minute=100)
        await limits.finish(await limits.reserve(team, ExpectedUsage(10)), tokens=250)
        error = await refused(limits, team, tokens=1)
        assert error.retry_after == 61.0

    run(opened, work)


def test_unknown_usage_keeps_what_was_reserved(clock: Clock) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store, clock=clock), key(tokens_per_minute=100)
        await limits.finish(await limits.reserve(team, ExpectedUsage(90)), tokens=None)
        await refused(limits, team, tokens=11)

    run(lambda: MemoryStore(clock=clock), work)


def test_a_request_that_can_never_fit_is_not_retried(opened: Opened) -> None:
    async def work(store: Store) -> None:
        error = await refused(Quotas(store), key(tokens_per_minute=100), tokens=101)
        assert (error.retry_after, error.retry) == (None, False)
        assert (
            error.message
            == "key team: the limit of 100 tokens per minute is less than this request may use; set or lower max_tokens, or shorten the prompt"
        )

    run(opened, work)


def test_a_guess_larger_than_a_limit_takes_all_of_it(opened: Opened) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store), key(tokens_per_minute=100, budgets=(KeyBudget(per="day", tokens=150),))
        reservation = await limits.reserve(team, ExpectedUsage(1034), minimum=ExpectedUsage(10))
        assert dict(reservation.headers)["X-RateLimit-Remaining-Tokens"] == "0"
        assert dict(reservation.headers)["X-RateLimit-Remaining-Tokens-Day"] == "0"
        await limits.finish(reservation, tokens=20)
        await limits.reserve(team, ExpectedUsage(80))

    run(opened, work)


def test_what_is_certain_has_to_fit(opened: Opened) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store), key(tokens_per_minute=100)
        with pytest.raises(OverLimit, match="less than this request may use"):
            await limits.reserve(team, ExpectedUsage(1124), minimum=ExpectedUsage(101))
        await limits.reserve(team, ExpectedUsage(1124), minimum=ExpectedUsage(100))

    run(opened, work)


def test_the_remaining_amounts_are_reported_when_a_request_ends(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        limits = Quotas(store, clock=clock)
        team = key(
            requests_per_minute=9, tokens_per_minute=100, concurrent=2, budgets=(KeyBudget(per="day", tokens=500),)
        )
        reservation = await limits.reserve(team, ExpectedUsage(80))
        headers = dict((await limits.finish(reservation, tokens=30)).headers)
        remaining = {
            name.removeprefix("X-RateLimit-Remaining-"): headers[name] for name in headers if "Remaining" in name
        }
        assert remaining == {"Requests": "8", "Tokens": "70", "Concurrent": "2", "Tokens-Day": "470"}
        assert headers == dict(await limits.limit_headers(team))

    run(opened, work)


def test_asking_how_it_stands_takes_nothing(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        limits = Quotas(store, clock=clock)
        team = key(
            requests_per_minute=1, tokens_per_minute=10, concurrent=1, budgets=(KeyBudget(per="day", dollars=1.0),)
        )
        headers = dict([await limits.limit_headers(team) for _ in range(3)][-1])
        assert headers["X-RateLimit-Remaining-Requests"] == "1"
        assert headers["X-RateLimit-Reset-Tokens"] == "0s"
        await limits.reserve(team, ExpectedUsage(10))

    run(opened, work)


def test_asking_how_it_stands_writes_nothing(clock: Clock, tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")

    async def work(store: Store) -> None:
        limits = Quotas(store, clock=clock)
        team = key(
            requests_per_minute=2, tokens_per_minute=99, concurrent=2, budgets=(KeyBudget(per="day", dollars=1.0),)
        )
        await limits.reserve(team, ExpectedUsage(10))
        with closing(sqlite3.connect(path)) as other:
            before = other.execute("PRAGMA data_version").fetchone()
            assert dict(await limits.limit_headers(team))["X-RateLimit-Remaining-Concurrent"] == "1"
            assert other.execute("PRAGMA data_version").fetchone() == before

    run(lambda: SqliteStore(path, clock=clock), work)


def test_there_are_no_limit_headers_while_the_store_is_down() -> None:
    async def work(store: Store) -> None:
        assert await Quotas(store).limit_headers(key(requests_per_minute=1)) == ()

    run(Broken, work)


USES = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 100), st.integers(0, 150)), min_size=1, max_size=12)
"""Seconds that pass, tokens that are reserved, tokens that are used."""


@settings(max_examples=60)
@given(uses=USES)
def test_what_remains_and_when_to_retry_are_true(uses: list[tuple[int, int, int]]) -> None:
    clock = Clock()

    async def work(store: Store) -> None:
        limits, team = Quotas(store, clock=clock), key(tokens_per_minute=100)
        for seconds, reserved, used in uses:
            clock.now += seconds
            if reserved > await left_of(limits, team):
                wait = (await refused(limits, team, tokens=reserved)).retry_after or 0.0
                clock.now += wait - 0.001
                await refused(limits, team, tokens=reserved)
                clock.now += 0.001
            await limits.finish(await limits.reserve(team, ExpectedUsage(reserved)), tokens=used)

    run(lambda: MemoryStore(clock=clock), work)


async def left_of(limits: Quotas, by: Key) -> int:
    return int(dict(await limits.limit_headers(by))["X-RateLimit-Remaining-Tokens"])


def test_a_concurrency_slot_is_released_when_a_request_ends(opened: Opened) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store), key(concurrent=1)
        first = await limits.reserve(team, ExpectedUsage(1))
        assert (await refused(limits, team)).retry_after == 1.0
        await limits.finish(first, tokens=None)
        await limits.reserve(team, ExpectedUsage(1))

    run(opened, work)


def test_the_seat_of_a_gateway_that_died_falls_free(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        dead, alive, team = Quotas(store, clock=clock), Quotas(store, clock=clock), key(concurrent=2)
        await dead.reserve(team, ExpectedUsage(1))
        await alive.reserve(team, ExpectedUsage(1))
        clock.now += SLOT_TTL / 2
        await alive.maintain()
        await refused(alive, team)
        clock.now += SLOT_TTL / 2 + 1
        await alive.reserve(team, ExpectedUsage(1))
        await refused(alive, team)

    run(opened, work)


@pytest.mark.parametrize(("per", "remaining"), [("day", 36_000.0), ("month", 13 * 86400 + 36_000.0)])
def test_a_budget_lasts_its_day_or_month(opened: Opened, clock: Clock, per: Any, remaining: float) -> None:
    async def work(store: Store) -> None:
        clock.now = 1_794_924_000.0  # 14:00 UTC on the 17th of November 2026
        limits, team = Quotas(store, clock=clock), key(budgets=(KeyBudget(per=per, tokens=100),))
        await limits.finish(await limits.reserve(team, ExpectedUsage(50)), tokens=90)
        assert (await refused(limits, team, tokens=20)).retry_after == remaining
        clock.now += remaining
        await limits.reserve(team, ExpectedUsage(20))

    run(opened, work)


def test_a_budget_of_money_is_exact(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store, clock=clock), key(budgets=(KeyBudget(per="day", dollars=0.01),))
        reservations = [await limits.reserve(team, ExpectedUsage(1, NANODOLLARS // 1000)) for _ in range(10)]
        for reservation in reservations:
            await limits.finish(reservation, tokens=1, cost=NANODOLLARS // 1000)
        assert dict(reservations[-1].headers)["X-RateLimit-Remaining-Dollars-Day"] == "0.000000"
        error = await refused(limits, team, cost=None)
        assert error.message == "key team: the limit of 0.01 dollars per day is reached"

    run(opened, work)


@pytest.mark.parametrize(
    ("budget", "used", "wanted", "message"),
    [
        (
            KeyBudget(per="day", tokens=200),
            ExpectedUsage(26),
            ExpectedUsage(200),
            "key team: the limit of 200 tokens per day has no room: 174 tokens are left, this request reserves 200 tokens; "
            "set or lower max_tokens, or shorten the prompt",
        ),
        (
            KeyBudget(per="day", dollars=0.5),
            ExpectedUsage(1, NANODOLLARS // 4),
            ExpectedUsage(1, NANODOLLARS // 2),
            "key team: the limit of 0.5 dollars per day has no room: 0.25 dollars are left, this request reserves "
            "0.5 dollars; set or lower max_tokens, or shorten the prompt",
        ),
    ],
)
def test_a_refusal_says_what_is_left_and_what_the_request_reserves(
    opened: Opened, clock: Clock, budget: KeyBudget, used: ExpectedUsage, wanted: ExpectedUsage, message: str
) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store, clock=clock), key(budgets=(budget,))
        await limits.reserve(team, used)
        assert (await refused(limits, team, tokens=wanted.tokens, cost=wanted.cost)).message == message

    run(opened, work)


def test_a_refused_request_takes_nothing(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store, clock=clock), key(requests_per_minute=5, tokens_per_minute=100, concurrent=9)
        for _ in range(5):
            await refused(limits, team, tokens=200)
        for _ in range(5):
            await limits.reserve(team, ExpectedUsage(20))

    run(opened, work)


def test_without_limits_the_store_is_not_called(clock: Clock) -> None:
    async def work(store: Store) -> None:
        limits = Quotas(store)
        for who in (None, key()):
            reservation = await limits.reserve(who, ExpectedUsage(1))
            assert reservation == QuotaReservation()
            await limits.finish(reservation, tokens=5)

    run(Broken, work)


# Many at once ---------------------------------------------------------------------------------------------------------

MANY = """
import asyncio, json, sys
from dragoman.gateway.auth.api_keys import Key, KeyBudget
from dragoman.gateway.accounting.quotas import ExpectedUsage, OverLimit, Quotas
from dragoman.gateway.store import open_store

async def main(url, team, fields):
    store = open_store(url)
    limits, team = Quotas(store), Key(id=team, hash="b2:0:0:0", **json.loads(fields, object_hook=budget))
    async def one():
        try:
            return await limits.reserve(team, ExpectedUsage(10))
        except OverLimit:
            return None
    await store.read("warm")
    print("ready", flush=True)
    sys.stdin.readline()
    print(sum(each is not None for each in await asyncio.gather(*(one() for _ in range(100)))))
    await store.aclose()

def budget(fields):
    if "budgets" in fields:
        fields["budgets"] = tuple(fields["budgets"])
    return KeyBudget(**fields) if "per" in fields else fields

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("limits", "granted"),
    [
        ({"requests_per_minute": 77}, 77),
        ({"tokens_per_minute": 555}, 55),
        ({"concurrent": 33}, 33),
        ({"budgets": [{"per": "day", "tokens": 444}]}, 44),
        ({"requests_per_minute": 90, "concurrent": 21, "budgets": [{"per": "month", "tokens": 900}]}, 21),
    ],
    ids=["requests", "tokens", "concurrent", "budget", "all"],
)
def test_two_hundred_at_once_of_two_processes_get_no_more_than_allowed(
    redis: RedisServer, limits: dict[str, Any], granted: int
) -> None:
    assert granted_by_two_processes(redis.url, limits) == granted


def test_two_processes_on_one_file_get_no_more_than_allowed(tmp_path: Path) -> None:
    limits = {"requests_per_minute": 90, "concurrent": 21, "budgets": [{"per": "month", "tokens": 900}]}
    assert granted_by_two_processes(f"sqlite:{tmp_path / 'limits.db'}", limits) == 21


def granted_by_two_processes(url: str, limits: dict[str, Any]) -> int:
    """How many of a hundred requests of each of two processes, all at once, go on."""
    arguments = [sys.executable, "-c", MANY, url, token_hex(4), msgspec.json.encode(limits).decode()]
    both = [subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for process in both:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in both:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        counts = [int(process.communicate(timeout=60)[0]) for process in both]
    finally:
        for process in both:
            process.kill()
            process.wait()
    return sum(counts)


def test_tokens_of_many_never_pass_the_limit_while_they_settle(opened: Opened) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store), key(tokens_per_minute=1000)
        used = 0

        async def one(n: int) -> None:
            nonlocal used
            try:
                reservation = await limits.reserve(team, ExpectedUsage(40))
            except OverLimit:
                return
            used += n % 41
            await limits.finish(reservation, tokens=n % 41)

        await asyncio.gather(*(one(n) for n in range(200)))
        assert used <= 1000
        (level,) = (await store.reserve([reservation_window(team)])).levels
        assert level.used == used

    run(opened, work)


def reservation_window(team: Key) -> Any:
    from dragoman.gateway.store.base import WindowCounter

    return WindowCounter(key=f"{team.id}:tokens", amount=0, limit=10**6, period=60.0)


# Hanging up, and a store that is down ---------------------------------------------------------------------------------


def test_a_client_that_left_before_it_was_admitted_holds_nothing(opened: Opened) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store), key(concurrent=1, tokens_per_minute=10)
        admitting = asyncio.ensure_future(limits.reserve(team, ExpectedUsage(10)))
        await asyncio.sleep(0)
        if not admitting.cancel():  # memory is too fast to be cancelled
            await limits.finish(admitting.result(), tokens=0)
        await asyncio.wait([admitting])
        await limits.aclose()
        await limits.reserve(team, ExpectedUsage(10))

    run(opened, work)


def test_a_cancelled_settlement_is_still_counted(opened: Opened) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store), key(concurrent=1)
        reservation = await limits.reserve(team, ExpectedUsage(1))
        finishing = asyncio.ensure_future(limits.finish(reservation, tokens=1))
        await asyncio.sleep(0)
        finishing.cancel()
        await asyncio.wait([finishing])
        await limits.aclose()
        await limits.reserve(team, ExpectedUsage(1))

    run(opened, work)


class Broken(MemoryStore):
    """A store that can be down."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock=clock)
        self.is_down = True

    async def reserve(self, charges: Any, /) -> Any:
        self._check()
        return await super().reserve(charges)

    async def adjust(self, charges: Any, moment: float, /) -> Any:
        self._check()
        return await super().adjust(charges, moment)

    def _check(self) -> None:
        if self.is_down:
            raise StoreDown("out for lunch")


def test_rates_are_open_and_budgets_closed_while_the_store_is_down() -> None:
    async def work(store: Store) -> None:
        limits = Quotas(store)
        await limits.reserve(key(requests_per_minute=1), ExpectedUsage(1))
        with pytest.raises(StoreDown):
            await limits.reserve(key(budgets=(KeyBudget(per="day", tokens=1),)), ExpectedUsage(1))

    run(Broken, work)


def test_both_can_be_configured() -> None:
    async def work(store: Store) -> None:
        limits = Quotas(store, rates="closed", budgets="open")
        with pytest.raises(StoreDown):
            await limits.reserve(key(requests_per_minute=1), ExpectedUsage(1))
        await limits.reserve(key(budgets=(KeyBudget(per="day", tokens=1),)), ExpectedUsage(1))

    run(Broken, work)


def test_what_was_used_while_the_store_was_down_is_counted_later(clock: Clock) -> None:
    async def work(store: Store) -> None:
        assert isinstance(store, Broken)
        limits, team = Quotas(store, budgets="open", clock=clock), key(budgets=(KeyBudget(per="day", tokens=100),))
        await limits.finish(await limits.reserve(team, ExpectedUsage(10)), tokens=95)
        store.is_down = False
        await limits.maintain()
        await refused(limits, team, tokens=10)

    run(lambda: Broken(clock=clock), work)


def test_what_could_not_be_given_back_stays_reserved(clock: Clock) -> None:
    async def work(store: Store) -> None:
        assert isinstance(store, Broken)
        store.is_down = False
        limits, team = Quotas(store, clock=clock), key(tokens_per_minute=100)
        reservation = await limits.reserve(team, ExpectedUsage(90))
        store.is_down = True
        await limits.finish(reservation, tokens=1)
        store.is_down = False
        await limits.maintain()
        await refused(limits, team, tokens=20)

    run(lambda: Broken(clock=clock), work)


# Prices ---------------------------------------------------------------------------------------------------------------


def test_a_known_model_has_its_price() -> None:
    prices = Prices()
    usage = Usage(input=1000, output=100, cache_read=10)
    assert prices.cost("openai/gpt-4o", usage) == 3_487_500
    assert prices.cost("openai/gpt-4o", Usage()) is None
    assert prices.cost("demo/any", usage) is None
    assert prices.cost(None, usage) is None


@pytest.mark.parametrize("model", ["openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5", "google/gemini-2.5-pro"])
def test_prices_are_those_of_genai_prices(model: str) -> None:
    from genai_prices import Usage as Counts
    from genai_prices import calc_price

    provider, _, name = model.partition("/")
    counts = Counts(input_tokens=300_000, output_tokens=1234, cache_read_tokens=777)
    expected = calc_price(counts, name, provider_id=provider).total_price
    assert Prices().cost(model, Usage(input=300_000, output=1234, cache_read=777)) == round(expected * NANODOLLARS)


# A slot before the body is read ----------------------------------------------------------------------------------------


def test_a_slot_is_taken_before_the_body_is_read_and_once(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store, clock=clock), key(concurrent=1, requests_per_minute=1)
        slot = await limits.reserve_slot(team)
        with pytest.raises(OverLimit, match="1 concurrent requests"):
            await limits.reserve_slot(team)
        reservation = await limits.reserve(team, ExpectedUsage(10), slot=slot)
        assert dict(reservation.headers)["X-RateLimit-Remaining-Concurrent"] == "0"
        await limits.finish(reservation, tokens=10)
        again = await limits.reserve_slot(team)
        with pytest.raises(OverLimit, match="1 requests per minute") as caught:
            await limits.reserve(team, ExpectedUsage(10), slot=again)
        assert "X-RateLimit-Remaining-Concurrent" in dict(caught.value.headers)
        await limits.finish(again, tokens=None)
        assert (await limits.reserve_slot(team)).limits

    run(opened, work)


def test_a_key_with_concurrent_requests_only_has_its_slot_from_the_start(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        limits, team = Quotas(store, clock=clock), key(concurrent=1)
        slot = await limits.reserve_slot(team)
        assert await limits.reserve(team, ExpectedUsage(10), slot=slot) is slot
        assert (await limits.reserve_slot(key(tokens_per_minute=5))).limits == ()
        assert (await limits.reserve_slot(None)).limits == ()

    run(opened, work)


def test_no_slot_is_granted_while_the_store_is_down() -> None:
    async def work() -> None:
        store = Broken()
        open_limits, closed = Quotas(store), Quotas(store, rates="closed")
        assert (await open_limits.reserve_slot(key(concurrent=1))).limits == ()
        with pytest.raises(StoreDown):
            await closed.reserve_slot(key(concurrent=1))

    asyncio.run(work())
