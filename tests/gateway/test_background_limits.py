"""A response in the background goes on if nobody reads it, so what it holds is limited."""

import asyncio
import json
from typing import Any

import pytest

from dragoman.gateway import background
from dragoman.testing import FaultyServer, StallAfter
from tests.gateway.test_client_disconnects import SHOWN, WORDS
from tests.support.gateway.dialects import ClientResponse, app_of, post, send_request
from tests.support.gateway.live import PATIENCE, record
from tests.support.gateway.usage import usage_rows


def request_body(**more: Any) -> bytes:
    return json.dumps({"model": "up/m", "input": "hi", "background": True, **more}).encode()


@pytest.mark.parametrize("limit", ["MAX_BYTES", "MAX_ALL_BYTES"])
def test_a_response_with_too_many_bytes_fails(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(background, limit, 1000)

    async def ask(url: str) -> tuple[ClientResponse, set[str]]:
        app = app_of("[chain]\nretries = 0\n" + record("up", url))
        seen = await send_request(app, post("/v1/responses", request_body(stream=True)))
        rows = await usage_rows(app.runtime.accounting)
        await app.close()
        return seen, {row.outcome for row in rows}

    with FaultyServer(StallAfter(SHOWN, WORDS)) as upstream:
        seen, outcomes = asyncio.run(asyncio.wait_for(ask(upstream.base_url()), PATIENCE))
    last = json.loads(seen.body.strip().split(b"\n")[-1].removeprefix(b"data: "))
    assert last["type"] == "response.failed"
    assert "exceed 1000 bytes" in last["response"]["error"]["message"]
    assert len(seen.body) < 100_000
    assert outcomes == {"failed"}


def test_a_key_has_a_limited_number_of_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_RUNNING", 2)

    async def ask(url: str) -> list[int]:
        app = app_of("[chain]\nretries = 0\n" + record("up", url))
        first, *others = await asyncio.gather(
            *(send_request(app, post("/v1/responses", request_body())) for _ in range(2)),
        )
        refused = await send_request(app, post("/v1/responses", request_body()))
        assert b"2 responses of this key run in the background" in refused.body
        cancelled = await send_request(app, post(f"/v1/responses/{json.loads(first.body)['id']}/cancel", b""))
        again = await send_request(app, post("/v1/responses", request_body()))
        app.end_requests()
        await app.close()
        return [seen.status for seen in (first, *others, refused, cancelled, again)]

    with FaultyServer(StallAfter(SHOWN, WORDS), repeat=True) as upstream:
        statuses = asyncio.run(asyncio.wait_for(ask(upstream.base_url()), PATIENCE))
    assert statuses == [200, 200, 503, 200, 200]
