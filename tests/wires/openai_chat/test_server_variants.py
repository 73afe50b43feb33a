"""Forms of thinking, arguments and counts that some servers have: read, said again, and given back."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.errors import MalformedToolCall
from dragoman.events import CallDelta, fold, to_events
from dragoman.http import HttpRequest
from dragoman.targets.target import Quirks, Target
from dragoman.types import Request, Response, Thinking, ToolResult, Usage, tool_results, user
from dragoman.wires.openai_chat import WIRE
from tests.support.wires import laws

TARGET = Target(provider="proxy", model="m", wire="openai_chat", base_url="https://proxy.example")
CALL = {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
OPAQUE = {"reasoning_text": "Hm. Six.", "reasoning_opaque": "b3BhcXVl"}
BLOCKS = {
    "reasoning_content": "Hm. Six.",
    "thinking_blocks": [
        {"type": "thinking", "thinking": "Hm. ", "signature": "s1"},
        {"type": "redacted_thinking", "data": "c2VjcmV0"},
        {"type": "thinking", "thinking": "Six.", "signature": "s2"},
    ],
}


def read_body(message: dict[str, Any]) -> Response:
    body = {"id": "a", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}]}
    return fold(WIRE.client.decode_body(json.dumps(body).encode()))


def read_stream(*deltas: dict[str, Any]) -> Response:
    chunks = [{"id": "a", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    data = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in (*chunks, end)) + b"data: [DONE]\n\n"
    events, error = laws.read(WIRE.client.stream_decoder(), [data])
    assert error is None
    return fold(events)


def sent_back(response: Response, quirks: Quirks | None = None) -> dict[str, Any]:
    """The message of the assistant in the next request."""
    results = tool_results(*[ToolResult(id=call.id, name=call.name, content="ok") for call in response.tool_calls])
    request = Request(messages=(user("?"), response.message, *([results] if results.parts else []), user("!")))
    target = TARGET if quirks is None else replace(TARGET, quirks=quirks)
    messages: list[dict[str, Any]] = json.loads(WIRE.client.encode_request(request, target).body)["messages"]
    return messages[1]


def said_again(response: Response) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(WIRE.server.encode_body(response).body)["choices"][0]["message"]
    return message


@pytest.mark.parametrize("fields", [OPAQUE, BLOCKS, {"reasoning_opaque": "b3BhcXVl"}])
def test_a_body_with_signed_thinking_is_said_again_and_given_back(fields: dict[str, Any]) -> None:
    response = read_body({"content": "At six.", "tool_calls": [CALL], **fields})
    assert response.thinking == ("Hm. Six." if len(fields) > 1 else "")
    for message in (sent_back(response), said_again(response)):
        assert {name: message[name] for name in fields} == fields
    encoder = WIRE.server.stream_encoder(Request())
    data = b"".join(encoder.feed(event) for event in to_events(response))
    events, error = laws.read(WIRE.client.stream_decoder(), [data])
    assert error is None
    assert fold(events).message == response.message


def test_a_stream_has_the_opaque_state_with_the_last_piece_or_with_the_call() -> None:
    start = [{"reasoning_text": "Hm. "}, {"reasoning_text": "Six."}]
    with_piece = read_stream(*start, {"reasoning_text": "", "reasoning_opaque": "b3BhcXVl"}, {"content": "At six."})
    with_call = read_stream(*start, {"reasoning_opaque": "b3BhcXVl", "tool_calls": [{"index": 0, **CALL}]})
    for response in (with_piece, with_call):
        assert response.message.parts[0] == Thinking(
            text="Hm. Six.",
            extra={"openai_chat": {"fields": ["reasoning_text"], "state": {"reasoning_opaque": "b3BhcXVl"}}},
        )


def test_opaque_state_that_comes_after_the_text_is_not_lost() -> None:
    response = read_stream({"content": "At six."}, {"content": "", "reasoning_opaque": "b3BhcXVl"})
    assert response.text == "At six."
    assert sent_back(response)["reasoning_opaque"] == "b3BhcXVl"


def test_the_pieces_of_thinking_blocks_are_joined_up_to_their_signature() -> None:
    def piece(text: str, **block: str) -> dict[str, Any]:
        return {"reasoning_content": text, "thinking_blocks": [{"type": "thinking", "thinking": text, **block}]}

    response = read_stream(
        piece("H"),
        piece("m. "),
        piece("", signature="s1"),
        {"thinking_blocks": [{"type": "redacted_thinking", "data": "c2VjcmV0"}, None]},
        piece("Six."),
        piece("", signature="s2"),
        {"thinking_blocks": "odd", "reasoning_opaque": 7},
        {"content": "At six."},
    )
    assert response.thinking == "Hm. Six."
    assert {name: sent_back(response)[name] for name in BLOCKS} == BLOCKS


TWICE: dict[str, Any] = {
    "reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "index": 0}],
    "reasoning_text": "Hm.",
    "reasoning_opaque": "b3BhcXVl",
}


def test_thinking_with_details_and_a_signature_is_read_once() -> None:
    state: dict[str, Any] = {"thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "s1"}]}
    for fields in (TWICE, {**TWICE, **state}):
        for response in (
            read_body({"content": "At six.", **fields}),
            read_stream(fields, {"content": "At six."}),
        ):
            assert response.thinking == "Hm."
            sent = sent_back(response)
            assert {name: sent[name] for name in fields} == fields


def test_thinking_that_is_only_in_blocks_has_their_text() -> None:
    blocks = {"thinking_blocks": BLOCKS["thinking_blocks"]}
    pieces = [{"type": "thinking", "thinking": text} for text in ("H", "m. ", "Six.")]
    streamed = read_stream(*[{"thinking_blocks": [piece]} for piece in pieces], {"content": "At six."})
    for response in (read_body({"content": "At six.", **blocks}), read_stream(blocks, {"content": "At six."})):
        assert sent_back(response)["thinking_blocks"] == blocks["thinking_blocks"]
        assert said_again(response).items() >= BLOCKS.items()
    for response in (read_body({"content": "At six.", **blocks}), streamed):
        thinking = response.message.parts[0]
        assert isinstance(thinking, Thinking)
        assert (thinking.text, thinking.redacted, response.text) == ("Hm. Six.", False, "At six.")
        encoder = WIRE.server.stream_encoder(Request())
        data = b"".join(encoder.feed(event) for event in to_events(response))
        events, error = laws.read(WIRE.client.stream_decoder(), [data])
        assert error is None
        assert fold(events).thinking == "Hm. Six."


def test_a_target_gets_only_the_state_that_it_accepts() -> None:
    response = read_body({"content": "At six.", **BLOCKS})
    accepting = Quirks(reasoning_replay_fields=("reasoning_content", "thinking_blocks"))
    assert sent_back(response, accepting)["thinking_blocks"] == BLOCKS["thinking_blocks"]
    assert "thinking_blocks" not in sent_back(response, Quirks(reasoning_replay_fields=("reasoning_content",)))


def test_a_clients_signed_thinking_goes_back_to_the_provider() -> None:
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "Six.", **OPAQUE, **BLOCKS}]
    body = json.dumps({"model": "m", "messages": [*messages, {"role": "user", "content": "!"}]}).encode()
    _, request = WIRE.server.decode_request(HttpRequest(method="POST", path="/v1/chat/completions", body=body))
    sent = json.loads(WIRE.client.encode_request(request, TARGET).body)["messages"][1]
    assert {name: sent[name] for name in (*OPAQUE, *BLOCKS)} == {**OPAQUE, **BLOCKS}


SUMMARY = [{"type": "summary_text", "text": "Hm. Six.", "signature": "s1"}]
LISTED = [{"type": "reasoning", "summary": SUMMARY}, {"type": "text", "text": "At six."}]


def listed(text: str, signature: str = "") -> dict[str, Any]:
    item = {"type": "summary_text", "text": text, "signature": signature}
    return {"content": [{"type": "reasoning", "summary": [item]}]}


def test_thinking_in_a_list_of_content_is_read_and_given_back() -> None:
    whole = read_body({"content": LISTED})
    pieces = read_stream(listed("Hm. "), listed("Six."), listed("", "s1"), listed(""), {"content": LISTED[1:]})
    for response in (whole, pieces):
        assert (response.thinking, response.text) == ("Hm. Six.", "At six.")
        assert sent_back(response)["content"] == said_again(response)["content"] == LISTED
        encoder = WIRE.server.stream_encoder(Request())
        data = b"".join(encoder.feed(event) for event in to_events(response))
        events, error = laws.read(WIRE.client.stream_decoder(), [data])
        assert error is None
        assert fold(events).message == response.message
    unsigned = read_stream(listed("Hm."), {"content": "At six."})
    assert sent_back(unsigned)["content"][0] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Hm."}],
    }


def test_a_signature_in_a_list_of_content_without_a_text_is_given_back() -> None:
    summary = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "", "signature": "s1"}]}]
    whole = read_body({"content": [*summary, *LISTED[1:]]})
    pieces = read_stream(listed("", "s1"), {"content": LISTED[1:]})
    for response in (whole, pieces):
        assert (response.thinking, response.text) == ("", "At six.")
        assert sent_back(response)["content"] == said_again(response)["content"] == [*summary, *LISTED[1:]]
        encoder = WIRE.server.stream_encoder(Request())
        data = b"".join(encoder.feed(event) for event in to_events(response))
        events, error = laws.read(WIRE.client.stream_decoder(), [data])
        assert error is None
        assert fold(events).message == response.message


def test_arguments_that_are_encoded_twice_are_read_and_sent_back_as_they_came() -> None:
    twice = json.dumps(json.dumps({"port": "Brest"}))
    call = {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": twice}}
    for response in (read_body({"tool_calls": [call]}), read_stream({"tool_calls": [{"index": 0, **call}]})):
        assert response.tool_calls[0].arguments == {"port": "Brest"}
        assert sent_back(response)["tool_calls"][0]["function"]["arguments"] == twice
    wrong = {**call, "function": {"name": "tide", "arguments": '"port'}}
    with pytest.raises(MalformedToolCall):
        read_body({"tool_calls": [wrong]})


def test_the_names_of_counts_of_another_protocol_are_read() -> None:
    for tokens, usage in (
        ({"input_tokens": 9, "output_tokens": 4}, Usage(input=9, output=4)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "input_tokens": 0, "output_tokens": 0}, Usage(input=9, output=4)),
    ):
        body = {"choices": [{"message": {"content": "Six."}, "finish_reason": "stop"}], "usage": tokens}
        assert fold(WIRE.client.decode_body(json.dumps(body).encode())).usage == usage


def test_arguments_that_are_encoded_twice_are_not_shown_in_pieces() -> None:
    twice = json.dumps(json.dumps({"port": "Brest"}))
    deltas: list[dict[str, Any]] = [
        {"id": "c1", "function": {"name": "tide", "arguments": twice[:4]}},
        {"function": {"arguments": twice[4:]}},
    ]
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **delta}]}}]} for delta in deltas]
    end: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    data = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in (*chunks, end)) + b"data: [DONE]\n\n"
    decoder = WIRE.client.stream_decoder()
    decoder.call_deltas = True
    events, error = laws.read(decoder, [data])
    assert error is None
    assert not any(isinstance(event, CallDelta) for event in events)
    assert fold(events).tool_calls[0].arguments == {"port": "Brest"}


SCORES = {"type": "moderation_results", "model": "m", "results": [{"flagged": False}]}


@pytest.mark.parametrize("scores", [{"input": SCORES}, [SCORES]])
def test_the_scores_of_a_moderation_reach_the_client(scores: object) -> None:
    choice = {"index": 0, "finish_reason": "stop"}
    body = {"choices": [{**choice, "message": {"content": "Six."}}], "moderation": scores}
    whole = fold(WIRE.client.decode_body(json.dumps(body).encode()))
    chunks: list[dict[str, Any]] = [
        {"choices": [{**choice, "delta": {"content": "Six."}}]},
        {"choices": [], "moderation": scores},
    ]
    data = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"
    events, error = laws.read(WIRE.client.stream_decoder(), [data])
    assert error is None
    for response in (whole, fold(events)):
        assert json.loads(WIRE.server.encode_body(response).body)["moderation"] == scores
        encoder = WIRE.server.stream_encoder(Request())
        sent = b"".join(encoder.feed(event) for event in to_events(response))
        events, error = laws.read(WIRE.client.stream_decoder(), [sent])
        assert error is None
        assert fold(events).finish == response.finish
