"""What a client of the gateway gets when a provider refuses, or is down."""

import asyncio
import json
from collections.abc import Sequence
from time import monotonic
from typing import Any

import pytest

from dragoman.errors import AuthFailed, RequestTooLarge
from dragoman.gateway.app import App
from dragoman.testing import FaultyServer, RawResponse, ScriptLine
from tests.support.gateway.dialects import (
    ClientResponse,
    app_of,
    error_of,
    hello,
    request_of,
    send_blocking,
    send_request,
)
from tests.support.gateway.live import record
from tests.support.gateway.usage import usage_rows

ONCE = "[chain]\nretries = 0\n"
BUSY = RawResponse(status=503, body=b'{"error":{"message":"busy"}}')
LIMITED = RawResponse(status=429, headers={"retry-after": "40"}, body=b'{"error":{"message":"slow down"}}')
REFUSALS: list[Any] = [
    pytest.param(RawResponse(status=401, body=b'{"error":{"message":"Incorrect API key"}}'), id="401"),
    pytest.param(RawResponse(status=403, body=b'{"error":{"message":"forbidden"}}'), id="403"),
    pytest.param(RawResponse(status=402, body=b'{"error":{"message":"pay"}}'), id="402"),
    pytest.param(RawResponse(status=429, body=b'{"error":{"code":"insufficient_quota","message":"pay"}}'), id="quota"),
]


def ask(lines: Sequence[ScriptLine], model: str = "up/m", dialect: str = "openai_chat") -> ClientResponse:
    with FaultyServer(*lines) as upstream:
        return send_blocking(app_of(record("up", upstream.base_url()) + ONCE), request_of(dialect, model, hello()))


@pytest.mark.parametrize("line", REFUSALS)
@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "native"])
def test_a_provider_that_refuses_the_gateways_key_is_a_502_that_names_the_target(
    line: ScriptLine, dialect: str
) -> None:
    seen = ask([line], dialect=dialect)
    assert seen.status == 502
    assert b"up/m" in seen.body
    assert not any(word in seen.body for word in (b"invalid_api_key", b"authentication_error", b"insufficient_quota"))
    assert not isinstance(error_of(dialect, hello(), seen), AuthFailed)


@pytest.mark.parametrize("line", REFUSALS)
def test_the_next_target_answers_if_a_provider_refuses_the_gateways_key(line: ScriptLine) -> None:
    seen = ask([line, "Hello."], "up/m,up/other")
    assert (seen.status, seen.headers["x-dragoman-target"]) == (200, "up/other")


def test_a_chain_that_refuses_the_gateways_keys_is_a_502() -> None:
    line = RawResponse(status=401, body=b'{"error":{"message":"no"}}')
    seen = ask([line, line], "up/m,up/other")
    assert seen.status == 502
    assert b"up/m" in seen.body
    assert b"up/other" in seen.body


def test_a_missing_key_of_the_gateway_is_a_502() -> None:
    config = '[gateway]\nproviders = ["groq"]\n'
    seen = send_blocking(app_of(config), request_of("openai_chat", "groq/llama", hello()))
    assert (seen.status, json.loads(seen.body)["error"]["code"]) == (502, None)
    assert b"groq/llama" in seen.body


def test_the_usage_log_has_the_status_that_the_client_got() -> None:
    async def work(app: App) -> tuple[str, int | None]:
        await send_request(app, request_of("openai_chat", "up/m", hello()))
        (row,) = await usage_rows(app.runtime.accounting, 10)
        return row.outcome, row.status

    with FaultyServer(RawResponse(status=401, body=b"{}")) as upstream:
        assert asyncio.run(work(app_of(record("up", upstream.base_url()) + ONCE))) == ("failed", 502)


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "google", "ollama", "native"])
def test_a_413_of_a_provider_stays_a_413(dialect: str) -> None:
    seen = ask([RawResponse(status=413, body=b'{"error":{"message":"too many bytes"}}')], dialect=dialect)
    assert seen.status == 413
    assert isinstance(error_of(dialect, hello(), seen), RequestTooLarge)


def test_a_sole_target_that_a_429_limited_answers_429() -> None:
    with FaultyServer(LIMITED, LIMITED) as upstream:
        app = app_of(record("up", upstream.base_url()) + ONCE)
        answers = [send_blocking(app, request_of("openai_chat", "up/m", hello())) for _ in range(2)]
    assert [(answer.status, answer.headers["retry-after"]) for answer in answers] == [(429, "40"), (429, "40")]


def down(app: App, reason: str) -> None:
    """Record nothing but failures for the last twenty seconds."""
    now, health = monotonic(), app.runtime.registry.health
    for seconds in (20, 15, 10, 8, 2):
        health.record_failure("up/m", now - seconds, reason)
    health.cool_down("up/m", now + 30, reason)


@pytest.mark.parametrize(("reason", "status"), [("Overloaded: busy", 503), ("RateLimited: slow down", 429)])
def test_a_gateway_sends_one_request_at_a_time_to_a_target_that_is_down(reason: str, status: int) -> None:
    async def work(app: App) -> list[ClientResponse]:
        http = request_of("openai_chat", "up/m", hello())
        return [await seen for seen in asyncio.as_completed([send_request(app, http) for _ in range(10)])]

    line = BUSY if status == 503 else RawResponse(status=429, body=b'{"error":{"message":"slow down"}}')
    with FaultyServer(line, repeat=True) as upstream:
        app = app_of(record("up", upstream.base_url()) + ONCE)
        down(app, reason)
        answers = asyncio.run(work(app))
        assert len(upstream.http) == 1
    assert {answer.status for answer in answers} == {status}
    assert all(int(answer.headers["retry-after"]) <= 30 for answer in answers if "retry-after" in answer.headers)
    assert sum("retry-after" in answer.headers for answer in answers) >= 9


def test_requests_that_wait_for_a_trial_are_answered_if_it_succeeds() -> None:
    async def work(app: App) -> list[int]:
        http = request_of("openai_chat", "up/m", hello())
        return [seen.status for seen in await asyncio.gather(*(send_request(app, http) for _ in range(10)))]

    with FaultyServer("Hello.", repeat=True) as upstream:
        app = app_of(record("up", upstream.base_url()) + ONCE)
        down(app, "Overloaded: busy")
        assert asyncio.run(work(app)) == [200] * 10


def test_a_gateway_that_is_told_to_tries_a_target_that_is_down() -> None:
    with FaultyServer(BUSY, BUSY, "Hello.") as upstream:
        app = app_of(record("up", upstream.base_url()) + ONCE + 'when_all_cooling_down = "try"\n')
        down(app, "Overloaded: busy")
        answers = [send_blocking(app, request_of("openai_chat", "up/m", hello())).status for _ in range(3)]
    assert answers == [503, 503, 200]
