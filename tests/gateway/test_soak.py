"""Every request has one row, whatever happens to it and to three workers. `make soak` sends ten thousand."""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import msgspec
import pytest

from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.store import open_store
from dragoman.gateway.store.base import UsageRow, UsageSum, sum_usage
from tests.support.gateway.counting_provider import WORD, ClientView, CountingProvider, ask, body_of
from tests.support.gateway.live import PATIENCE, Gateway, record
from tests.support.gateway.redis_server import RedisServer
from tests.support.gateway.usage import stored_rows

REQUESTS = int(os.environ.get("REQUESTS", "1500"))
CLIENTS = 48
KILLS = [share * REQUESTS // 5 for share in (1, 2, 3)]
"""The requests at which a worker is killed."""
STOP = 4 * REQUESTS // 5
"""The request at which one gateway is stopped."""
PLAIN, HASH = new_key()
FATES = (
    [("healthy", False)] * 4
    + [("healthy", True)] * 4
    + [("refuse", False), ("cut", True), ("stall", True), ("nobody", False)]
)
"""What becomes of requests, and whether they are streams; `nobody` is no model of this gateway."""


class Story(msgspec.Struct, frozen=True):
    """One request as its client saw it."""

    fate: str
    seen: ClientView

    @property
    def is_answered(self) -> bool:
        """All of it came; a client that left before the end is no such."""
        return self.seen.is_whole

    @property
    def has_disconnected(self) -> bool:
        """The client went of its own will."""
        return self.fate == "stall" and self.seen.body.count(WORD.encode()) >= 3


def worker_of(gateway: Gateway) -> int:
    """The process that answers; the one that was started looks after it."""
    pid = gateway.process.pid
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


async def wait_for_worker(gateway: Gateway) -> None:
    """Until the next worker listens, or the gateway has stopped."""
    while gateway.process.poll() is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        except ConnectionError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return


class Crowd:
    """Clients who ask one after the other, until enough was asked."""

    def __init__(self, one: Gateway, other: Gateway) -> None:
        self.stories: dict[str, Story] = {}
        self._numbers = count()
        self._rng = random.Random(7)
        self._one, self._other = one, other

    async def run(self) -> None:
        async with asyncio.timeout(30 * PATIENCE):
            await asyncio.gather(*(self._client() for _ in range(CLIENTS)))

    async def _client(self) -> None:
        while (number := next(self._numbers)) < REQUESTS:
            if number in KILLS:
                os.kill(worker_of(self._other if number == KILLS[1] else self._one), signal.SIGKILL)
            if number == STOP:
                self._other.process.send_signal(signal.SIGTERM)
            gateway = self._one if number % 2 or number > STOP else self._other
            (fate, stream), who = self._rng.choice(FATES), str(number)
            body = body_of(fate, who, stream=stream, max_tokens=self._rng.randrange(1, 20))
            if fate == "nobody":
                body["model"] = "nobody"
            seen = await ask(gateway.port, body, PLAIN, id=who, words=3 if fate == "stall" else None)
            self.stories[who] = Story(fate, seen)
            if seen.status == 0:
                await wait_for_worker(gateway)


@pytest.fixture(scope="module")
def upstream() -> Iterator[CountingProvider]:
    with CountingProvider() as server:
        yield server


@pytest.fixture(scope="module")
def outcome(
    upstream: CountingProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, Story], list[UsageRow], list[UsageSum]]]:
    """What clients saw, and what the store has of it when all is over."""
    redis = RedisServer()
    config = f'[gateway]\nstore = "{redis.url}"\nlog = false\n[chain]\nretries = 0\n[keys.team]\nhash = "{HASH}"\n'
    config += "concurrent = 1000\ntokens_per_minute = 1_000_000_000\n" + record("openai", upstream.base_url)
    folders = [tmp_path_factory.mktemp("gateway") for _ in range(2)]
    redis.start()
    try:
        with Gateway(folders[0], config) as one, Gateway(folders[1], config) as other:
            crowd = Crowd(one, other)
            asyncio.run(crowd.run())
            assert other.process.wait(PATIENCE) == 0
        rows, uses = asyncio.run(read(redis.url))
        yield crowd.stories, rows, uses
    finally:
        redis.stop()


async def read(url: str) -> tuple[list[UsageRow], list[UsageSum]]:
    store = open_store(url)
    try:
        rows = list(await stored_rows(store, 10 * REQUESTS))
        days = sorted(row.day for row in rows)
        return rows, list(await store.usage(days[0], days[-1]))
    finally:
        await store.aclose()


Outcome = tuple[dict[str, Story], list[UsageRow], list[UsageSum]]


def who_of(row: UsageRow) -> str:
    return row.id.partition("~")[0]


def test_every_answer_has_one_row_that_tells_how_it_ended(outcome: Outcome) -> None:
    stories, rows, _ = outcome
    found = {who_of(row): row for row in rows}
    answered = {who: story for who, story in stories.items() if story.is_answered}
    assert len(answered) > REQUESTS / 4
    assert {who: story for who, story in answered.items() if who not in found} == {}
    outcomes = {"healthy": "served", "refuse": "failed", "cut": "failed", "nobody": "refused"}
    assert {who: found[who].outcome for who in answered} == {
        who: outcomes[story.fate] for who, story in answered.items()
    }


def test_no_request_has_two_rows(outcome: Outcome) -> None:
    _, rows, _ = outcome
    assert not [who for who, times in Counter(map(who_of, rows)).items() if times > 1]


def test_whoever_was_asked_for_has_a_row(outcome: Outcome, upstream: CountingProvider) -> None:
    _, rows, _ = outcome
    assert upstream.requested <= set(map(who_of, rows))


def test_only_what_was_under_way_at_the_kill_is_unknown(outcome: Outcome) -> None:
    stories, rows, _ = outcome
    unknown = [who_of(row) for row in rows if not row.is_finished]
    assert len(unknown) <= len(KILLS) * CLIENTS
    assert not [who for who in unknown if stories[who].is_answered]


def test_who_left_is_counted(outcome: Outcome) -> None:
    stories, rows, _ = outcome
    disconnected = {who for who, story in stories.items() if story.has_disconnected}
    assert disconnected
    ends = Counter(row.outcome for row in rows if who_of(row) in disconnected)
    assert ends["client_disconnected"] + ends["unknown"] == len(disconnected)


def test_sums_are_what_the_provider_counted(outcome: Outcome, upstream: CountingProvider) -> None:
    stories, rows, _ = outcome
    known = [
        row
        for row in rows
        if row.is_finished and (stories[who_of(row)].is_answered or stories[who_of(row)].has_disconnected)
    ]
    theirs = [upstream.counted.get(who_of(row), (0, 0)) for row in known]
    assert sum(row.output or 0 for row in known) == sum(output for _, output in theirs)
    served = [row for row in known if row.outcome == "served"]
    assert sum(row.input or 0 for row in served) == sum(upstream.counted[who_of(row)][0] for row in served)


def test_the_sums_of_days_are_those_of_their_rows(outcome: Outcome) -> None:
    _, rows, uses = outcome
    assert sorted(map(repr, uses)) == sorted(map(repr, sum_usage([], rows)))
