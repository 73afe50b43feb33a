"""What Azure finds in the data of its user: a `context` beside the text, with citations."""

import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.events import fold, to_events
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.types import Citation, Request, Response, Text, user
from tests.support.wires import laws

WIRE = wires.get("openai_chat")
FOUND = {"title": "Tides", "url": None, "filepath": "tides.pdf", "content": "At six.", "chunk_id": "0"}
CONTEXT: dict[str, Any] = {"intent": '["tide"]', "citations": [FOUND]}
CITATION = Citation(title="Tides", source="tides.pdf", cited_text="At six.")


def whole() -> Response:
    message = {"role": "assistant", "content": "At six [doc1].", "end_turn": True, "context": CONTEXT}
    body = {"id": "c", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    return WIRE.client.decode_response(json.dumps(body).encode())


def streamed() -> Response:
    deltas: list[Any] = [{"role": "assistant", "context": CONTEXT}, {"content": "At six "}, {"content": "[doc1]."}]
    chunks: list[Any] = [{"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    data = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    events, error = laws.read(WIRE.client.stream_decoder(), [data])
    assert error is None
    return fold(events)


@pytest.mark.parametrize("read", [whole, streamed])
def test_the_context_has_citations_and_reaches_clients_of_the_same_protocol(read: Any) -> None:
    response = read()
    part = response.message.parts[0]
    assert isinstance(part, Text)
    assert (part.text, part.citations) == ("At six [doc1].", (CITATION,))
    message = json.loads(WIRE.server.encode_body(response).body)["choices"][0]["message"]
    assert (message["context"], "annotations" in message) == (CONTEXT, False)
    encoder = WIRE.server.stream_encoder(Request())
    data = b"".join(encoder.feed(event) for event in to_events(response))
    assert b'"context":{' in data
    events, error = laws.read(WIRE.client.stream_decoder(), [data])
    assert error is None
    assert fold(events).message == response.message


def test_the_context_is_not_sent_back_and_is_a_notice_elsewhere() -> None:
    request = Request(messages=(user("?"), whole().message, user("And then?")))
    same = WIRE.client.encode_request(request, target("azure/m", api_key="k", base_url="https://x"))
    assert b"context" not in same.body
    other = wires.get("bedrock").client.encode_request(request, target("bedrock/m", api_key="k", base_url="https://x"))
    assert [notice.kind for notice in other.notices if "openai_chat data" in notice.what] == ["dropped"]


def test_the_data_sources_of_a_request_are_sent_on() -> None:
    fields = {"data_sources": [{"type": "azure_search", "parameters": {"endpoint": "e"}}]}
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "?"}], **fields}).encode()
    _, request = WIRE.server.decode_request(HttpRequest(method="POST", path="/v1/chat/completions", body=body))
    sent = WIRE.client.encode_request(request, target("azure/m", api_key="k", base_url="https://x"))
    assert json.loads(sent.body)["data_sources"] == fields["data_sources"]
