"""An answer that was paid for reaches the client, even if the store dies while it is made."""

import asyncio
import json
from typing import Any

import pytest

from dragoman.gateway.conversations import ConversationStore, ResponseStore
from dragoman.gateway.item_lists import ItemListStore
from dragoman.gateway.store.base import UsageRow
from tests.gateway.store.test_private import FullStore
from tests.support.gateway.dialects import ClientResponse, app_of, post, send_request
from tests.support.gateway.live import chat
from tests.support.gateway.usage import usage_rows


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_given_if_its_conversation_cannot_be_stored(stream: bool) -> None:  # noqa: FBT001
    async def ask() -> tuple[ClientResponse, tuple[UsageRow, ...], str]:
        app = app_of()
        app.runtime.conversations = ConversationStore(FullStore())
        body = json.dumps({**chat("demo/any", stream=stream), "conversation_id": "c1"}).encode()
        seen = await send_request(app, post("/native/v1/chat/completions", body))
        metrics = (await app.runtime.accounting.scrape()).decode()
        return seen, await usage_rows(app.runtime.accounting), metrics

    seen, (row,), metrics = asyncio.run(ask())
    assert seen.status == 200
    assert b"Hello" in seen.body
    assert b'"error"' not in seen.body
    assert "the store is down" in "".join(seen.notices) + seen.body.decode()
    assert (row.outcome, row.status) == ("served", 200)
    assert 'outcome="served",status="200"} 1' in metrics


@pytest.mark.parametrize("more", [{}, {"stream": True}, {"stream": True, "background": True}])
@pytest.mark.parametrize("in_conversation", [False, True])
def test_a_response_that_is_not_stored_says_so(more: dict[str, bool], in_conversation: bool) -> None:  # noqa: FBT001
    async def ask() -> ClientResponse:
        app = app_of()
        body: dict[str, Any] = {"model": "demo/any", "input": "hello", **more}
        store = FullStore()
        store.is_full = False
        app.runtime.responses, app.runtime.item_lists = ResponseStore(store), ItemListStore(store)
        if in_conversation:
            created = await send_request(app, post("/v1/conversations", b"{}"))
            body["conversation"] = json.loads(created.body)["id"]
        store.is_full = True
        return await send_request(app, post("/v1/responses", json.dumps(body).encode()))

    seen = asyncio.run(ask())
    assert seen.status == 200
    response = json.loads(seen.body.strip().split(b"\n")[-1].removeprefix(b"data: "))
    if more:
        assert response["type"] == "response.completed"
        response = response["response"]
    assert response["store"] is False
    assert [notice["what"] for notice in response["notices"]] == ["store", "conversation"][: 1 + in_conversation]
    assert all(notice["why"].startswith("not stored: ") for notice in response["notices"])


@pytest.mark.parametrize("stream", [False, True])
def test_an_interaction_that_is_not_stored_says_so(stream: bool) -> None:  # noqa: FBT001
    async def ask() -> ClientResponse:
        app, body = app_of(), {"model": "demo/any", "input": "hello", "stream": stream}
        app.runtime.responses = ResponseStore(FullStore())
        return await send_request(app, post("/v1beta/interactions", json.dumps(body).encode()))

    seen = asyncio.run(ask())
    assert seen.status == 200
    assert b"not stored: the store is down" in seen.body + "".join(seen.notices).encode()


def test_a_response_that_is_stored_has_no_notices() -> None:
    async def ask() -> ClientResponse:
        return await send_request(
            app_of(), post("/v1/responses", b'{"model": "demo/any", "input": "x", "stream": true}')
        )

    seen = asyncio.run(ask())
    assert b'"store":true' in seen.body
    assert b'"notices"' not in seen.body
