"""What providers say in headers: the id of a request, rate limits, and bytes that are not ASCII."""

import asyncio
import json
from typing import Any

import pytest

from dragoman import (
    Attempt,
    Interrupted,
    Malformed,
    ProviderError,
    RateLimited,
    Response,
    dump,
    load,
    wires,
)
from dragoman.engine.exhausted import exhausted
from dragoman.http import Head, provider_headers
from dragoman.models import Model
from dragoman.testing import FaultyServer, RawResponse
from dragoman.testing.script import render
from dragoman.types import Request
from tests.support.gateway.dialects import app_of, post, send_blocking
from tests.support.gateway.live import chat, record

HEADERS = {
    "Request-Id": "req_abc",
    "X-RateLimit-Remaining-Requests": "9",
    "anthropic-ratelimit-tokens-reset": "2026-11-18T12:00:00Z",
    "x-note": "caf\xe9 \xff",
}
LIMITS = {"x-ratelimit-remaining-requests": "9", "anthropic-ratelimit-tokens-reset": "2026-11-18T12:00:00Z"}


def answer(*, stream: bool = False, cut: int | None = None) -> RawResponse:
    body = b"".join(render("Hello.", wires.get("openai_chat"), Request(stream=stream)).chunks)
    kind = "text/event-stream" if stream else "application/json"
    return RawResponse(headers={**HEADERS, "content-type": kind}, body=body[:cut])


REFUSED = RawResponse(status=429, headers=HEADERS, body=b'{"error": {"message": "slow down"}}')


def ask(model: Model, *, stream: bool, asynchronous: bool) -> Any:
    async def aask() -> Any:
        return [item async for item in model.astream("hi")][-1] if stream else await model.agenerate("hi")

    if asynchronous:
        return asyncio.run(aask())
    return list(model.stream("hi"))[-1] if stream else model.generate("hi")


each_call = pytest.mark.parametrize(
    ("stream", "asynchronous"), [(False, False), (True, False), (False, True), (True, True)]
)


@each_call
def test_a_response_has_the_request_id_and_the_rate_limits(*, stream: bool, asynchronous: bool) -> None:
    with FaultyServer(answer(stream=stream)) as server:
        response = ask(server.model(), stream=stream, asynchronous=asynchronous)
    assert (response.text, response.request_id, response.rate_limits) == ("Hello.", "req_abc", LIMITS)


@each_call
def test_an_error_has_the_request_id_and_the_rate_limits(*, stream: bool, asynchronous: bool) -> None:
    with FaultyServer(REFUSED) as server, pytest.raises(RateLimited) as caught:
        ask(server.model(retries=0), stream=stream, asynchronous=asynchronous)
    assert (caught.value.request_id, caught.value.rate_limits) == ("req_abc", LIMITS)


def test_an_answer_that_is_not_json_has_the_request_id() -> None:
    with FaultyServer(RawResponse(headers=HEADERS, body=b"<html>")) as server, pytest.raises(Malformed) as caught:
        server.model(retries=0).generate("hi")
    assert caught.value.request_id == "req_abc"


def test_a_stream_that_breaks_has_the_request_id() -> None:
    with FaultyServer(answer(stream=True, cut=-60)) as server, pytest.raises(Interrupted) as caught:
        list(server.model().stream("hi"))
    assert caught.value.request_id == "req_abc"
    assert caught.value.partial is not None
    assert caught.value.partial.request_id == "req_abc"


def test_an_error_of_another_endpoint_has_the_request_id() -> None:
    with FaultyServer(REFUSED, repeat=True) as server, pytest.raises(ProviderError) as caught:
        server.model(retries=0).list_models()
    assert (caught.value.request_id, caught.value.rate_limits) == ("req_abc", LIMITS)


def test_a_chain_has_the_request_id_of_its_last_error() -> None:
    last = ProviderError("no")
    last.request_id = "req_2"
    attempts = [Attempt(target="aa/m", outcome="failed"), Attempt(target="bb/m", outcome="failed")]
    assert exhausted([RateLimited("slow"), last], attempts).request_id == "req_2"


def test_a_response_without_such_headers_is_stored_as_before() -> None:
    with FaultyServer("Hello.") as server:
        response = server.model().generate("hi")
    assert (response.request_id, response.rate_limits) == (None, {})
    assert b"request_id" not in dump(response)
    assert b"rate_limits" not in dump(response)
    old = b'{"message": {"role": "assistant", "parts": []}, "finish": {"reason": "stop"}}'
    assert load(old, Response).request_id is None


def test_a_response_is_loaded_with_its_request_id() -> None:
    with FaultyServer(answer()) as server:
        response = server.model().generate("hi")
    assert load(dump(response), Response) == response


@pytest.mark.parametrize(
    ("headers", "id"),
    [
        ({"X-Request-ID": "a", "cf-ray": "b"}, "a"),
        ({"cf-ray": "b", "request-id": "a"}, "a"),
        ({"x-request-id": "", "request-id": "a"}, "a"),
        ({"x-amzn-RequestId": "a"}, "a"),
        ({"apim-request-id": "a"}, "a"),
        ({"date": "today"}, None),
    ],
)
def test_the_most_specific_id_is_used(headers: dict[str, str], id: str | None) -> None:
    assert provider_headers(Head(status=200, headers=headers)) == (id, {})


@pytest.mark.parametrize("line", [answer(), REFUSED], ids=["answer", "error"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
def test_a_gateway_shows_its_own_request_id_only(line: RawResponse, path: str) -> None:
    body: dict[str, Any] = {"max_tokens": 9, **chat("up/m")}
    if path == "/v1/responses":
        body = {"model": "up/m", "input": "hi"}
    with FaultyServer(line, repeat=True) as server:
        seen = send_blocking(app_of(record("up", server.base_url())), post(path, json.dumps(body).encode()))
    assert seen.status == line.status
    assert seen.headers["x-request-id"].startswith("req_")
    assert seen.headers["x-request-id"] != "req_abc"
    assert not any("ratelimit" in name.lower() for name in seen.headers)
    assert b"req_abc" not in seen.body
    assert b"ratelimit" not in seen.body


def test_a_header_byte_above_127_breaks_nothing() -> None:
    """It is read as latin-1, in the library and in a gateway; the raw bytes are not even UTF-8."""
    with FaultyServer(answer(), answer(), repeat=True) as server:
        assert server.model().generate("hi").text == "Hello."
        body = json.dumps(chat("up/m")).encode()
        seen = send_blocking(app_of(record("up", server.base_url())), post("/v1/chat/completions", body))
        assert seen.status == 200


def test_a_chain_goes_on_after_an_error_whose_headers_are_not_ascii() -> None:
    with FaultyServer(REFUSED, answer()) as server:
        registry = server.registry()
        registry.alias("both", "server/one, server/two")
        assert registry.model("both", retries=0).generate("hi").target == "server/two"
