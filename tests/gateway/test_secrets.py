"""Planted secrets are looked for in all that a gateway says and keeps: none of them is there."""

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.errors import to_dragoman_error
from dragoman.gateway.observability.access_log import AccessLog, JsonFormatter
from dragoman.gateway.observability.tracing import Tracing
from dragoman.gateway.reload import Reloader
from dragoman.http import HttpRequest
from dragoman.testing import FaultyServer, RawResponse, refused_url
from tests.support.gateway.dialects import app_of, post, send_request
from tests.support.gateway.live import Gateway, chat, record
from tests.support.gateway.usage import usage_rows

PROMPT = "planted-prompt-4711"
PROVIDER_KEY = "planted.provider.key.0815"
"""Of no shape by which it could be known for a key."""
PASSWORD = "planted-password-42"
(ALICE, ALICE_HASH), (OPERATOR, OPERATOR_HASH) = new_key(), new_key()
WRONG, _ = new_key()
SECRETS = (PROMPT, PROVIDER_KEY, PASSWORD, ALICE, OPERATOR, WRONG, ALICE_HASH, OPERATOR_HASH)
KEYS = SECRETS[1:]
TELL_TALE = {
    "error": {"message": f"the key {PROVIDER_KEY} may not say {PROMPT} at http://u:{PASSWORD}@up", "code": PROMPT}
}
PATHS = (
    "/",
    "/health",
    "/health/live",
    "/health/ready",
    "/metrics",
    "/admin/api/snapshot",
    "/admin/api/system",
    "/admin/api/usage/requests",
    "/admin/api/usage/sums",
    "/v1/models",
    "/api/tags",
    "/v1beta/models",
    "/native/openapi.json",
    "/native/docs",
    f"/v1/models/{PROMPT}",
    f"/nowhere?key={ALICE}",
)


def raw(status: int) -> RawResponse:
    """A provider that says all that it knows."""
    return RawResponse(status=status, headers={"content-type": "application/json"}, body=json.dumps(TELL_TALE).encode())


TEXTS = json.dumps(TELL_TALE)
BROKEN = (
    f"data: {TEXTS}\n\n",
    f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': 'so'}}]})}\n\ndata: {TEXTS}\n\n",
    f"event: error\ndata: {TEXTS}\n\n",
    f"data: {{{PROMPT}\n\n",
    f"{PROMPT} {PROVIDER_KEY}",
    "",
)
"""Streams that break, each in its own way, with all that the provider knows."""


def broken(text: str) -> RawResponse:
    return RawResponse(headers={"content-type": "text/event-stream"}, body=text.encode())


def config(server: FaultyServer) -> str:
    up = record("up", server.base_url()).replace("sk-test-key", PROVIDER_KEY)
    away = record("away", refused_url().replace("//", f"//u:{PASSWORD}@") + "/v1").replace("sk-test-key", PROVIDER_KEY)
    keys = f'[keys.alice]\nhash = "{ALICE_HASH}"\n[keys.ops]\nhash = "{OPERATOR_HASH}"\nadmin = true\n'
    return f'[chain]\nretries = 0\n[gateway]\nproviders = ["demo"]\n{up}{away}{keys}'


def bodies() -> Iterator[dict[str, Any]]:
    for model in (
        "up/m",
        "up/m",
        "up/m",
        "up/m",
        "away/m",
        f"demo/{ALICE}",
        f"up/{ALICE}",
        f"up/{ALICE}",
        "demo/any",
        ALICE,
        "nobody/knows",
        "up/m,away/m",
    ):
        for stream in (False, True):
            yield {**chat(model, stream=stream, text=PROMPT), "user": "u-1"}


def requests() -> Iterator[HttpRequest]:
    """All that is asked, by whom it may be asked and by whom it may not."""
    for body in bodies():
        data = json.dumps(body).encode()
        yield post("/v1/chat/completions", data, authorization=f"Bearer {ALICE}")
        yield post("/v1/messages", data, **{"x-api-key": ALICE})
        yield post("/native/v1/chat/completions", data, authorization=f"Bearer {WRONG}")
    yield post(
        "/v1/embeddings", json.dumps({"model": "up/m", "input": PROMPT}).encode(), authorization=f"Bearer {ALICE}"
    )
    yield post("/v1/chat/completions", f'{{"messages": "{PROMPT}", '.encode(), authorization=f"Bearer {ALICE}")
    yield post(f"/v1beta/models/up/m:generateContent?key={ALICE}", b"{}")


def find(secrets: tuple[str, ...], text: str) -> list[str]:
    return [text[max(0, text.find(secret) - 100) :][:300] for secret in secrets if secret in text]


STATUSES = (500, 401, 400, 429, 529, 404, 413, 200)


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer(*map(raw, STATUSES), *map(broken, BROKEN), repeat=True) as upstream:
        yield upstream


def test_no_secret_is_in_anything_that_a_gateway_says(server: FaultyServer, tmp_path: Path) -> None:
    store = f'[gateway]\nstore = "sqlite:{tmp_path}/store.db"\n'
    with Gateway(tmp_path, config(server).replace("[gateway]\n", store)) as gateway:
        responses = [gateway.post(http.path, http.body, **http.headers) for http in requests()]
        pages = [gateway.get(path, authorization=f"Bearer {key}") for path in PATHS for key in (OPERATOR, ALICE, WRONG)]
    assert {answer[0] for answer in responses} >= {200, 400, 401, 404, 502}
    for status, headers, body in responses:
        # What a provider says of a prompt is for the one who wrote it.
        assert not find(KEYS, f"{status} {headers} {body.decode()}")
    for _, page in pages:
        assert not find(SECRETS, page.decode().replace(f"unknown model '{PROMPT}'", ""))
    assert b"dragoman_requests_total" in b"".join(page for _, page in pages)
    assert not find(SECRETS, gateway.log.read_text())
    assert gateway.log.read_text().count('"message":"request"') >= len(responses)


def test_no_secret_is_in_anything_that_a_gateway_keeps(server: FaultyServer) -> None:
    lines: list[str] = []
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def walk(app: App) -> str:
        for http in requests():
            await send_request(app, http)
        accounting = app.runtime.accounting
        rows = await usage_rows(accounting, 1000)
        conditions = [repr(condition) for condition in app.runtime.shared_health.all().values()]
        trials = [repr(accounting.recent.attempts(row.id)) for row in rows]
        texts = [
            (await accounting.scrape()).decode(),
            *map(repr, rows),
            *trials,
            *conditions,
            repr(app.runtime.config.keys),
        ]
        return "".join(texts)

    app = app_of(config(server))
    app.runtime.accounting.tracing, app.runtime.accounting.log = Tracing(provider), AccessLog(lines.append)
    text = asyncio.run(walk(app))
    spans = [span.to_json() for span in exporter.get_finished_spans()]
    assert "".join(lines).count("\n") > len(spans) > 10
    assert "cooldown" in text
    assert not find(SECRETS, text)
    assert not find(SECRETS, "".join(lines))
    assert not find(SECRETS, "".join(spans))


def test_a_fault_of_our_own_is_logged_without_what_it_says(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("".join([*PROMPT]))
    except ValueError as error:
        to_dragoman_error(error, "req_1")
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    for formatter in (JsonFormatter(), logging.Formatter()):  # an application that it is mounted in has its own
        line = formatter.format(record)
        assert "ValueError" in line
        assert PROMPT not in line


def test_a_config_that_is_refused_is_logged_without_its_secrets(
    server: FaultyServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "dragoman.toml"
    good = config(server)
    path.write_text(good, encoding="utf-8")
    reloader = Reloader(app_of(good), path, {})
    bad = f'[providers.bad]\nwire = "none"\nbase_url = "http://u:{PASSWORD}@up"\napi_key = "{PROVIDER_KEY}"\n'
    alias = f'[aliases]\nfast = "http://u:{PASSWORD}@up/m"\n'
    number = good.replace("retries = 0", f'retries = "{PROVIDER_KEY}"')
    for text in (number, good + bad, good + alias, f"{good}\n[[[{PASSWORD}"):
        path.write_text(text, encoding="utf-8")
        assert not reloader.reload()
    lines = "".join(map(JsonFormatter().format, caplog.records))
    assert len(caplog.records) == 4
    assert not find(SECRETS, lines)
