"""Limits are enforced, and every request is in the usage log, however it ended."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dragoman import wires
from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.errors import BodyTooLarge
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.observability.tracing import Tracing
from dragoman.gateway.server.body_limits import BodyBytes
from dragoman.gateway.store.base import UsageRow
from dragoman.http import HttpRequest
from dragoman.testing import CloseAfter, FaultyServer, RawResponse, StallAfter, refused_url
from dragoman.testing.script import render
from dragoman.types import Request
from tests.support.gateway.dialects import ClientResponse, app_of, post, send_request
from tests.support.gateway.live import PATIENCE, chat, lines, record
from tests.support.gateway.usage import metrics_text, usage_rows

CHAT = "/v1/chat/completions"
PLAIN, HASH = new_key()
OPERATOR, OPERATOR_HASH = new_key()
KEY = {"authorization": f"Bearer {PLAIN}"}


def config(limit: str = "") -> str:
    return f'[gateway]\nlog = false\n[keys.alice]\nhash = "{HASH}"\n{limit}\n[keys.ops]\nhash = "{OPERATOR_HASH}"\nadmin = true\n'


def ask(body: dict[str, Any], **headers: str) -> HttpRequest:
    return post(CHAT, json.dumps(body).encode(), **KEY, **headers)


def talk(app: App, *requests: HttpRequest) -> tuple[list[ClientResponse], tuple[UsageRow, ...]]:
    async def all_of_it() -> tuple[list[ClientResponse], tuple[UsageRow, ...]]:
        seen = [await send_request(app, http) for http in requests]
        return seen, await usage_rows(app.runtime.accounting)

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
    async def walk() -> tuple[UsageRow, ...]:
        with FaultyServer(CloseAfter(400, "one two three")) as upstream:
            app = app_of(config() + record("up", upstream.base_url()) + "[chain]\nretries = 0\n")
            await send_request(app, ask(chat("up/m", stream=True)))
            return await usage_rows(app.runtime.accounting)

    (row,) = asyncio.run(walk())
    assert row.outcome == "failed"


def test_a_client_that_leaves_has_a_row() -> None:
    async def walk() -> tuple[UsageRow, ...]:
        with FaultyServer(StallAfter(10)) as upstream:
            app = app_of(config() + record("up", upstream.base_url()))
            task = asyncio.create_task(send_request(app, ask(chat("up/m"))))
            assert await asyncio.to_thread(upstream.request_received.acquire, timeout=PATIENCE)
            task.cancel()
            await asyncio.wait([task])
            return await usage_rows(app.runtime.accounting)

    (row,) = asyncio.run(walk())
    assert row.outcome == "client_disconnected"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_tells_whom_it_left(stream: bool) -> None:  # noqa: FBT001
    async def walk(app: App, upstream: FaultyServer) -> tuple[UsageRow, ...]:
        task = asyncio.create_task(send_request(app, ask(chat("gone/m, up/m", stream=stream))))
        assert await asyncio.to_thread(upstream.request_received.acquire, timeout=PATIENCE)
        task.cancel()
        await asyncio.wait([task])
        return await usage_rows(app.runtime.accounting)

    written: list[str] = []
    with FaultyServer(StallAfter(10)) as upstream:
        app = app_of(config() + record("gone", refused_url()) + record("up", upstream.base_url()))
        app.runtime.accounting.log = AccessLog(written.append)
        (row,) = asyncio.run(walk(app, upstream))
    assert (row.target, row.outcome, row.status, row.attempts) == ("up/m", "client_disconnected", 499, 3)
    assert (row.input, row.output, row.estimated) == (8, 0 if stream else None, True)
    line = json.loads(written[0])
    assert (line["target"], line["outcome"], line["estimated"]) == ("up/m", "client_disconnected", True)
    metrics = metrics_text(app.runtime.accounting.metrics)
    assert b'target="up/m",outcome="client_disconnected",status="499"} 1' in metrics
    assert b'dragoman_attempts_total{target="up/m",outcome="client_disconnected"} 1' in metrics


def test_a_client_that_disconnects_before_a_call_has_used_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def walk(app: App) -> str:
        failed = asyncio.Event()

        def record_attempt(_attempt: object) -> None:
            failed.set()

        monkeypatch.setattr(app.runtime.accounting.metrics, "record_attempt", record_attempt)
        task = asyncio.create_task(send_request(app, ask({**chat("gone/m"), "max_tokens": 1000})))
        await asyncio.wait_for(failed.wait(), PATIENCE)
        task.cancel()
        await asyncio.wait([task])
        (row,) = await usage_rows(app.runtime.accounting)
        assert (row.target, row.outcome, row.input) == (None, "client_disconnected", None)
        again = await send_request(app, ask(chat("nobody/knows")))
        return again.headers["X-RateLimit-Remaining-Tokens"]

    more = record("gone", refused_url()) + "[chain]\nbackoff = 600.0\nbackoff_cap = 600.0\n"
    assert asyncio.run(walk(app_of(config("tokens_per_minute = 5000") + more))) == "5000"


def test_the_same_id_twice_is_two_rows() -> None:
    same = {"x-request-id": "mine"}
    _, rows = talk(app_of(config()), ask(chat("demo/any"), **same), ask(chat("demo/any"), **same))
    assert len(rows) == 2


def remaining_tokens(app: App, *requests: HttpRequest) -> list[str | None]:
    return [seen.headers.get("X-RateLimit-Remaining-Tokens") for seen in talk(app, *requests)[0]]


@pytest.mark.parametrize(
    "http",
    [
        ask(chat("nobody/knows")),
        ask(chat("up/secret")),
        post(CHAT, b"{", **KEY),
        ask(chat("demo/overloaded")),
        ask(chat("demo/overloaded", stream=True)),
        ask(chat("gone/m")),
        HttpRequest(method="GET", path="/v1/models", headers=KEY),
        HttpRequest(method="GET", path="/v1/models/nobody", headers=KEY),
    ],
    ids=["404", "403", "400", "503", "503 of a stream", "502", "models", "no model"],
)
def test_every_response_to_a_known_key_has_limit_headers(http: HttpRequest) -> None:
    limits = 'models = ["demo/*", "nobody*", "gone/*"]\ntokens_per_minute = 5000\n'
    app = app_of(config(limits) + record("gone", refused_url()) + "[chain]\nretries = 0\n")
    assert remaining_tokens(app, http, http) == ["5000", "5000"]


def test_responses_without_a_key_have_no_limit_headers() -> None:
    wrong = post(CHAT, json.dumps(chat("demo/any")).encode(), authorization="Bearer wrong")
    assert remaining_tokens(app_of(config("tokens_per_minute = 5000")), wrong) == [None]


def test_a_plain_answer_tells_what_is_left_when_it_has_ended_and_a_stream_what_is_reserved() -> None:
    app = app_of(config("tokens_per_minute = 5000"))
    body = {**chat("demo/any"), "max_tokens": 1000}
    seen, rows = talk(app, ask(body), ask({**body, "stream": True}), ask(body))
    used = [(row.input or 0) + (row.output or 0) for row in reversed(rows)]
    remaining = [int(each.headers["X-RateLimit-Remaining-Tokens"]) for each in seen]
    assert remaining[0] == 5000 - used[0]
    assert remaining[1] == remaining[0] - 1008
    assert remaining[2] == 5000 - sum(used)


def test_an_open_answer_is_reserved_as_the_config_says() -> None:
    runtime = config("tokens_per_minute = 5000").replace("[gateway]\n", "[gateway]\nanswer_tokens = 300\n")
    app = app_of(runtime)
    seen, _ = talk(app, ask(chat("demo/any", stream=True)))
    assert seen[0].headers["X-RateLimit-Remaining-Tokens"] == str(5000 - 308)


@pytest.mark.parametrize("name", ["demo/a\nb", "demo/\x1b[31m", "a\x00", "demo/x\u202e", "\x7f"])
def test_a_name_with_control_characters_is_refused_and_kept_nowhere(name: str) -> None:
    app = app_of(config())
    written: list[str] = []
    app.runtime.accounting.log = AccessLog(written.append)
    google = f"/v1beta/models/{quote(name, safe='')}:generateContent"
    seen, rows = talk(
        app,
        ask(chat(name)),
        post_json("/v1/embeddings", {"model": name, "input": "x"}),
        post_json("/api/show", {"model": name}),
        post_json(google, {"contents": [{"parts": [{"text": "hi"}]}]}),
    )
    assert [each.status for each in seen] == [400] * 4
    assert json.loads(seen[0].body)["error"]["param"] == "model"
    logged = "".join([*written, *(row.model for row in rows), metrics_text(app.runtime.accounting.metrics).decode()])
    assert len(rows) == 4
    assert name not in logged
    assert json.dumps(name) not in logged


def test_metrics_are_the_operators() -> None:
    def scrape(key: str) -> HttpRequest:
        return HttpRequest(method="GET", path="/metrics", headers={"authorization": f"Bearer {key}"})

    app = app_of(config())
    seen, _ = talk(app, ask(chat("demo/any")), scrape(PLAIN), scrape(OPERATOR))
    assert [each.status for each in seen] == [200, 403, 200]
    assert b"dragoman_requests_total" in seen[2].body


def post_json(path: str, body: dict[str, Any], **headers: str) -> HttpRequest:
    return post(path, json.dumps(body).encode(), **KEY, **headers)


EMBED = post_json("/v1/embeddings", {"model": "demo/any", "input": "one two three"})


def test_embeddings_are_limited_and_counted() -> None:
    seen, rows = talk(app_of(config("requests_per_minute = 1")), EMBED, EMBED)
    assert [each.status for each in seen] == [200, 429]
    assert seen[0].headers["X-RateLimit-Remaining-Requests"] == "0"
    refused, served = rows
    assert (refused.outcome, served.outcome, served.target) == ("refused", "served", "demo/any")
    assert served.input == json.loads(seen[0].body)["usage"]["total_tokens"]


def test_counting_tokens_takes_a_request_and_no_tokens() -> None:
    count = post_json("/v1/messages/count_tokens", chat("up/m"))
    with FaultyServer(
        RawResponse(headers={"content-type": "application/json"}, body=b'{"input_tokens": 7}')
    ) as upstream:
        limits = "requests_per_minute = 2\ntokens_per_minute = 17"
        more = record("up", upstream.base_url("anthropic"), "anthropic") + '[aliases]\ndemo = "demo/any"\n'
        app = app_of(config(limits) + more)
        seen, rows = talk(app, count, ask({**chat("demo"), "max_tokens": 9}), count)
    assert [each.status for each in seen] == [200, 200, 429]
    assert (rows[-1].target, rows[-1].input, rows[-1].output) == ("up/m", 0, 0)


def test_what_fails_beside_generation_has_a_row() -> None:
    app = app_of(config() + record("up", refused_url()) + "[chain]\nretries = 0\n")
    _, (row,) = talk(app, post_json("/v1/embeddings", {"model": "up/m", "input": "x"}))
    assert (row.outcome, row.target) == ("failed", "up/m")


@pytest.mark.parametrize(
    ("http", "status"),
    [
        (ask(chat("nobody/knows")), 404),
        (post(CHAT, b"{", **KEY), 400),
        (ask({**chat("demo/any"), "temperature": "hot"}), 400),
    ],
)
def test_a_refusal_of_a_known_key_has_a_row(http: HttpRequest, status: int) -> None:
    app = app_of(config())
    _, (row,) = talk(app, http)
    assert (row.key, row.outcome, row.status) == ("alice", "refused", status)
    assert f'outcome="refused",status="{status}"}} 1'.encode() in metrics_text(app.runtime.accounting.metrics)


def test_a_refusal_of_nobody_is_counted_and_has_no_row() -> None:
    app = app_of(config())
    _, rows = talk(app, post(CHAT, json.dumps(chat("demo/any")).encode(), authorization="Bearer wrong"))
    assert not rows
    assert b'dialect="openai_chat",target="",outcome="refused",status="401"} 1' in metrics_text(
        app.runtime.accounting.metrics
    )


def test_a_body_that_is_too_large_is_counted() -> None:
    app = app_of(config())

    async def read(_bytes: BodyBytes) -> bytes:
        raise BodyTooLarge("40 MiB")

    asyncio.run(app.answer(post(CHAT, b"", authorization=f"Bearer {PLAIN}"), read))
    assert b'outcome="refused",status="413"} 1' in metrics_text(app.runtime.accounting.metrics)


def test_what_breaks_off_is_counted_once() -> None:
    """Anthropic tells the input with the first event: the row has that, and not twice; of the output what was shown."""
    whole = b"".join(render("one two three", wires.get("anthropic"), Request(stream=True)).chunks)
    reported = whole.replace(b'"usage":{"input_tokens":0,', b'"usage":{"input_tokens":25,')
    body = reported[: reported.index(b"event: content_block_stop")]
    with FaultyServer(RawResponse(headers={"content-type": "text/event-stream"}, body=body)) as upstream:
        runtime = config() + record("up", upstream.base_url("anthropic"), "anthropic") + "[chain]\nretries = 0\n"
        _, (row,) = talk(app_of(runtime), ask(chat("up/m", stream=True)))
    assert (row.outcome, row.input, row.output) == ("failed", 25, len("one two three") // 3)


def test_what_was_shown_of_a_broken_answer_is_used_up() -> None:
    with FaultyServer(CloseAfter(600, "one two three four five six")) as upstream:
        runtime = config("tokens_per_minute = 5000") + record("up", upstream.base_url()) + "[chain]\nretries = 0\n"
        seen, (row,) = talk(app_of(runtime), ask(chat("up/m", stream=True)))
    text = "".join(each["choices"][0]["delta"].get("content", "") for each in lines(seen[0].body) if "choices" in each)
    assert text
    assert (row.outcome, row.estimated, row.output) == ("failed", True, len(text) // 3)


def test_a_plain_answer_that_is_left_keeps_what_was_reserved() -> None:
    async def walk() -> str:
        with FaultyServer(StallAfter(10), "hello") as upstream:
            app = app_of(config("tokens_per_minute = 5000") + record("up", upstream.base_url()))
            task = asyncio.create_task(send_request(app, ask({**chat("up/m"), "max_tokens": 1000})))
            assert await asyncio.to_thread(upstream.request_received.acquire, timeout=PATIENCE)
            task.cancel()
            await asyncio.wait([task])
            again = await send_request(app, ask({**chat("up/m"), "max_tokens": 1}))
            return again.headers["X-RateLimit-Remaining-Tokens"]

    assert int(asyncio.run(walk())) < 4000


def traced(app: App) -> InMemorySpanExporter:
    """Where its spans go from now on."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app.runtime.accounting.tracing = Tracing(provider)
    return exporter


@pytest.mark.parametrize("stream", [False, True])
def test_a_span_of_a_failure_names_the_target_and_the_error(stream: bool) -> None:  # noqa: FBT001
    app = app_of(config() + record("gone", refused_url()) + "[chain]\nretries = 0\n")
    exporter = traced(app)
    talk(app, ask(chat("gone/m, gone/n", stream=stream)))
    (span,) = exporter.get_finished_spans()
    attributes = dict(span.attributes or {})
    assert (attributes["gen_ai.provider.name"], attributes["error.type"]) == ("gone", "ConnectFailed")
    assert not span.events


@pytest.mark.parametrize("stream", [False, True])
def test_a_span_tells_what_came(stream: bool) -> None:  # noqa: FBT001
    app = app_of(config())
    exporter = traced(app)
    seen, _ = talk(app, ask(chat("demo/any", stream=stream)), EMBED)
    chatted, embedded = exporter.get_finished_spans()
    attributes = dict(chatted.attributes or {})
    first = next(lines(seen[0].body)) if stream else json.loads(seen[0].body)
    assert (chatted.name, attributes["gen_ai.operation.name"]) == ("chat demo/any", "chat")
    assert (attributes["gen_ai.response.id"], attributes["gen_ai.response.model"]) == (first["id"], first["model"])
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert attributes["gen_ai.usage.output_tokens"]
    assert ("gen_ai.response.time_to_first_chunk" in attributes) is stream
    if stream:
        whole = ((chatted.end_time or 0) - (chatted.start_time or 0)) / 1e9
        assert 0 < float(str(attributes["gen_ai.response.time_to_first_chunk"])) <= whole
    assert (embedded.name, (embedded.attributes or {})["gen_ai.operation.name"]) == (
        "embeddings demo/any",
        "embeddings",
    )
