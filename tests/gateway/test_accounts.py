"""What a key may use is held, and what every request used is kept, however it ended."""

import asyncio
import json
from typing import Any

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.keys import new_key
from dragoman.gateway.store.port import Row
from dragoman.http import HttpRequest
from dragoman.testing import Cut, Server, Stall
from tests.gateway.dialects import Seen, app_of, look, post
from tests.gateway.live import PATIENCE, chat, record

CHAT = "/v1/chat/completions"
PLAIN, HASH = new_key()
OPERATOR, OPERATOR_HASH = new_key()
KEY = {"authorization": f"Bearer {PLAIN}"}


def config(limit: str = "") -> str:
    return f'[gateway]\nlog = false\n[keys.alice]\nhash = "{HASH}"\n{limit}\n[keys.ops]\nhash = "{OPERATOR_HASH}"\nadmin = true\n'


def ask(body: dict[str, Any], **headers: str) -> HttpRequest:
    return post(CHAT, json.dumps(body).encode(), **KEY, **headers)


def talk(app: App, *asked: HttpRequest) -> tuple[list[Seen], tuple[Row, ...]]:
    async def all_of_it() -> tuple[list[Seen], tuple[Row, ...]]:
        seen = [await look(app, http) for http in asked]
        return seen, await app.setup.books.ledger.rows()

    return asyncio.run(all_of_it())


def test_a_limit_of_a_key_is_a_429_with_its_headers() -> None:
    seen, rows = talk(app_of(config("requests_per_minute = 1")), ask(chat("demo/any")), ask(chat("demo/any")))
    assert [each.status for each in seen] == [200, 429]
    assert seen[0].headers["X-RateLimit-Remaining-Requests"] == "0"
    assert int(seen[1].headers["retry-after"]) > 0
    assert sorted(row.outcome for row in rows) == ["refused", "served"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_has_a_row_with_what_it_used(stream: bool) -> None:  # noqa: FBT001
    _, (row,) = talk(app_of(config()), ask(chat("demo/any", stream=stream)))
    assert (row.key, row.model, row.target, row.outcome) == ("alice", "demo/any", "demo/any", "served")
    assert row.output
    assert row.dialect == "openai_chat"


def test_a_failure_has_a_row() -> None:
    _, (row,) = talk(app_of(config() + "[chain]\nretries = 0\n"), ask(chat("demo/overloaded")))
    assert (row.outcome, row.status, row.attempts) == ("failed", 503, 1)


def test_a_stream_that_breaks_has_a_row() -> None:
    async def walk() -> tuple[Row, ...]:
        with Server(Cut(400, "one two three")) as upstream:
            app = app_of(config() + record("up", upstream.base_url()) + "[chain]\nretries = 0\n")
            await look(app, ask(chat("up/m", stream=True)))
            return await app.setup.books.ledger.rows()

    (row,) = asyncio.run(walk())
    assert row.outcome == "failed"


def test_a_client_that_leaves_has_a_row() -> None:
    async def walk() -> tuple[Row, ...]:
        with Server(Stall(10)) as upstream:
            app = app_of(config() + record("up", upstream.base_url()))
            task = asyncio.create_task(look(app, ask(chat("up/m"))))
            assert await asyncio.to_thread(upstream.asked.acquire, timeout=PATIENCE)
            task.cancel()
            await asyncio.wait([task])
            return await app.setup.books.ledger.rows()

    (row,) = asyncio.run(walk())
    assert row.outcome == "hung_up"


def test_the_same_id_twice_is_two_rows() -> None:
    same = {"x-request-id": "mine"}
    _, rows = talk(app_of(config()), ask(chat("demo/any"), **same), ask(chat("demo/any"), **same))
    assert len(rows) == 2


def test_metrics_are_the_operators() -> None:
    def scrape(key: str) -> HttpRequest:
        return HttpRequest(method="GET", path="/metrics", headers={"authorization": f"Bearer {key}"})

    app = app_of(config())
    seen, _ = talk(app, ask(chat("demo/any")), scrape(PLAIN), scrape(OPERATOR))
    assert [each.status for each in seen] == [200, 403, 200]
    assert b"dragoman_requests_total" in seen[2].body
