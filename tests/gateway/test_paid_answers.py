"""An answer that was paid for reaches the client, even if the store dies while it is made."""

import asyncio
import json

import pytest

from dragoman.gateway.conversations import ConversationStore
from dragoman.gateway.store.base import UsageRow
from tests.gateway.store.test_private import FullStore
from tests.support.gateway.dialects import Seen, app_of, look, post
from tests.support.gateway.live import chat


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_given_if_its_conversation_cannot_be_stored(stream: bool) -> None:  # noqa: FBT001
    async def ask() -> tuple[Seen, tuple[UsageRow, ...], str]:
        app = app_of()
        app.runtime.conversations = ConversationStore(FullStore())
        body = json.dumps({**chat("demo/any", stream=stream), "conversation_id": "c1"}).encode()
        seen = await look(app, post("/native/v1/chat/completions", body))
        metrics = (await app.runtime.accounting.scrape()).decode()
        return seen, await app.runtime.accounting.usage_log.rows(), metrics

    seen, (row,), metrics = asyncio.run(ask())
    assert seen.status == 200
    assert b"Hello" in seen.body
    assert b'"error"' not in seen.body
    assert "the store is down" in "".join(seen.notices) + seen.body.decode()
    assert (row.outcome, row.status) == ("served", 200)
    assert 'outcome="served",status="200"} 1' in metrics
