"""What a key may use is held exactly by two gateways on one Redis, with 200 requests at once."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.store import open_store
from dragoman.gateway.store.base import UsageRow
from tests.support.gateway.counting_provider import ClientView, CountingProvider, ask, body_of, together
from tests.support.gateway.live import PATIENCE, Gateway, record
from tests.support.gateway.redis_server import RedisServer
from tests.support.gateway.usage import stored_rows

CROWD = 200
LIMIT = 50
NAMES = [str(number) for number in range(100, 100 + CROWD)]
"""Three letters, so that each counts for one token, with seven around it."""
LIMITS = {
    "requests": f"requests_per_minute = {LIMIT}",
    "tokens": f"tokens_per_minute = {LIMIT * 17}",
    "day": f'budgets = [{{ per = "day", tokens = {LIMIT * 17} }}]',
    "month": f'budgets = [{{ per = "month", tokens = {LIMIT * 17} }}]',
    # Eight tokens in, nine out: 8 * 150 and 9 * 600 billionths of a dollar.
    "dollars": f'budgets = [{{ per = "day", dollars = {LIMIT * 6600 / 1e9} }}]',
    "concurrent": "concurrent = 8",
    "disconnected": 'budgets = [{ per = "day", tokens = 1_000_000 }]',
}
KEYS = {name: new_key() for name in LIMITS}


@pytest.fixture(scope="module")
def upstream() -> Iterator[CountingProvider]:
    with CountingProvider() as server:
        yield server


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    server = RedisServer()
    try:
        server.start()
        yield server.url
    finally:
        server.stop()


@pytest.fixture(scope="module")
def ports(
    upstream: CountingProvider, store: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, int]]:
    config = f'[gateway]\nstore = "{store}"\n[chain]\nretries = 0\n' + record("openai", upstream.base_url)
    config += "".join(f'[keys.{name}]\nhash = "{KEYS[name][1]}"\n{LIMITS[name]}\n' for name in LIMITS)
    folders: list[Path] = [tmp_path_factory.mktemp("gateway") for _ in range(2)]
    with Gateway(folders[0], config) as one, Gateway(folders[1], config) as other:
        yield one.port, other.port


def crowd(ports: tuple[int, int], limit: str, model: str = "gpt-4o-mini") -> list[ClientView]:
    key = KEYS[limit][0]
    return together(
        [
            partial(ask, ports[n % 2], body_of(model, f"{who}{limit}"[:3], max_tokens=9, stream=n % 3 == 0), key)
            for n, who in enumerate(NAMES)
        ]
    )


@pytest.mark.parametrize(
    ("limit", "label", "step", "longest"),
    [
        ("requests", "requests", 1, 61),
        ("tokens", "tokens", 17, 61),
        ("day", "tokens-day", 17, 86_400),
        ("month", "tokens-month", 17, 31 * 86_400),
        ("dollars", "dollars-day", 0.0000066, 86_400),
    ],
)
def test_no_more_goes_out_than_a_limit_allows(
    ports: tuple[int, int], upstream: CountingProvider, limit: str, label: str, step: float, longest: int
) -> None:
    upstream.counted.clear()
    responses = crowd(ports, limit)
    assert Counter(each.status for each in responses) == {200: LIMIT, 429: CROWD - LIMIT}
    assert sum(map(sum, upstream.counted.values())) == LIMIT * 17
    remaining = sorted(
        float(each.headers[f"x-ratelimit-remaining-{label}"]) for each in responses if each.status == 200
    )
    assert remaining == pytest.approx([step * round(each / step) for each in remaining], abs=1e-6)
    assert remaining[0] == 0  # after the last request that was admitted
    assert remaining[-1] <= step * (LIMIT - 1) + 1e-6
    for each in responses:
        if each.status == 429:
            assert float(each.headers[f"x-ratelimit-remaining-{label}"]) == 0
            assert 0 < int(each.headers["retry-after"]) <= longest


def test_no_more_are_under_way_than_a_key_has_seats(ports: tuple[int, int], upstream: CountingProvider) -> None:
    upstream.most = 0
    refused = threading.Semaphore(0)

    async def one(port: int, who: str) -> ClientView:
        response = await ask(port, body_of("hold", who), KEYS["concurrent"][0])
        if response.status == 429:
            refused.release()
        return response

    def let_go() -> None:
        for _ in range(CROWD - 8):
            refused.acquire(timeout=PATIENCE)
        upstream.let_go()

    waiting = threading.Thread(target=let_go, daemon=True)
    waiting.start()
    responses = together([partial(one, ports[n % 2], who) for n, who in enumerate(NAMES)])
    waiting.join()
    assert Counter(each.status for each in responses) == {200: 8, 429: CROWD - 8}
    assert upstream.most <= 8  # a refusal may arrive before the last admitted request has left the gateway
    again = together([partial(one, ports[n % 2], "100") for n in range(8)])
    assert [each.status for each in again] == [200] * 8


def test_a_budget_counts_what_streams_used_also_when_they_were_left(
    ports: tuple[int, int], upstream: CountingProvider, store: str
) -> None:
    upstream.counted.clear()
    key = KEYS["disconnected"][0]
    streams = [(("stall", 3), ("gpt-4o-mini", None), (f"cut:{n}", None))[n % 3] for n in range(60)]
    together(
        [
            partial(ask, ports[n % 2], body_of(model, NAMES[n], stream=True), key, words=words)
            for n, (model, words) in enumerate(streams)
        ]
    )
    used = sum(map(sum, upstream.counted.values()))
    assert len(upstream.counted) == 60
    finished_rows(store, "disconnected", 60)
    (after,) = together([partial(ask, ports[0], body_of("gpt-4o-mini", "xyz", max_tokens=9), key)])
    assert after.status == 200, after
    assert int(after.headers["x-ratelimit-remaining-tokens-day"]) == 1_000_000 - used - 17


def finished_rows(store: str, key: str, count: int) -> list[UsageRow]:
    """The rows of a key, when all requests have ended: a client that disconnects does not see the end."""

    async def read() -> list[UsageRow]:
        opened = open_store(store)
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    rows = [row for row in await stored_rows(opened, 10_000) if row.key == key]
                    if len(rows) == count and all(row.is_finished for row in rows):
                        return rows
                    await asyncio.sleep(0.02)
        finally:
            await opened.aclose()

    return asyncio.run(read())
