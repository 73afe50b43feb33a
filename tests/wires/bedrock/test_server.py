"""Converse as a server: what clients send, exact JSON of answers."""

from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.errors import AuthFailed, InvalidRequest, RateLimited
from dragoman.http import HttpRequest
from dragoman.types import (
    Finish,
    Opaque,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
)
from dragoman.wires.bedrock.event_stream import EventStreamDecoder

SERVER = wires.get("bedrock").server


def decode(body: dict[str, Any], path: str = "/model/m/converse") -> tuple[str, Request]:
    return SERVER.decode_request(HttpRequest(method="POST", path=path, body=msgspec.json.encode(body)))


def test_a_request() -> None:
    schema = {"type": "object", "properties": {"port": {"type": "string"}}}
    model, request = decode(
        {
            "system": [{"text": "Be brief."}],
            "messages": [
                {"role": "user", "content": [{"text": "?"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
                        {"toolUse": {"toolUseId": "t", "name": "tide", "input": {"port": "Brest"}}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"toolResult": {"toolUseId": "t", "content": [{"json": {"m": 6}}], "status": "success"}},
                        {"text": "And?"},
                        {"cachePoint": {"type": "default"}},
                    ],
                },
            ],
            "inferenceConfig": {"maxTokens": 5, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
            "toolConfig": {
                "tools": [{"toolSpec": {"name": "tide", "inputSchema": {"json": schema}}}],
                "toolChoice": {"any": {}},
            },
            "guardrailConfig": {"guardrailIdentifier": "g"},
            "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        },
        "/model/us.anthropic.claude-x%3A0/converse-stream",
    )
    assert model == "us.anthropic.claude-x:0"
    assert request.system == "Be brief."
    assert request.messages[1].parts == (
        Thinking(text="hm", extra={"bedrock": {"signature": "s"}}),
        ToolCall(id="t", name="tide", arguments={"port": "Brest"}),
    )
    assert request.messages[2].parts == (
        ToolResult(
            id="t", name="tide", content=(Text(text='{"m":6}', extra={"bedrock": {"json": {"m": 6}}}),), is_error=False
        ),
    )
    assert request.messages[3].text == "And?"
    assert request.tools == (Tool(name="tide", parameters=schema),)
    assert (request.tool_choice, request.reasoning, request.cache, request.stream) == ("required", 2000, True, True)
    assert (request.max_tokens, request.temperature, request.top_p, request.stop) == (5, 0.5, 0.9, ("END",))
    assert request.extra["bedrock"] == {"guardrailConfig": {"guardrailIdentifier": "g"}}


def test_an_arn_is_a_model() -> None:
    arn = "arn:aws:bedrock:us-east-1:123:inference-profile/us.x"
    assert decode({"messages": []}, f"/model/{arn.replace(':', '%3A').replace('/', '%2F')}/converse")[0] == arn
    assert decode({"messages": []}, f"/model/{arn}/converse")[0] == arn


WRONG: list[tuple[dict[str, Any], str | None]] = [
    ({"messages": 7}, "messages"),
    ({"messages": [{"role": "system", "content": []}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"toolUse": {}}]}]}, "messages[0].content[0].toolUse.toolUseId"),
    ({"messages": [{"role": "user", "content": ["hi"]}]}, "messages[0].content[0]"),
    ({"messages": [], "system": [{"image": {}}]}, "system[0]"),
    ({"messages": [], "toolConfig": {"tools": [{"toolSpec": {"name": "x", "inputSchema": {}}}]}}, None),
]


@pytest.mark.parametrize(("body", "param"), WRONG)
def test_a_wrong_request_names_its_field(body: dict[str, Any], param: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(body)
    assert param is None or caught.value.param == param


def test_an_unknown_block_is_opaque() -> None:
    video = {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/k"}}}}
    _, request = decode({"messages": [{"role": "user", "content": [video]}]})
    assert request.messages[0].parts == (Opaque(wire="bedrock", data=video),)


ANSWER = Response(
    message=assistant(
        Thinking(text="hm", extra={"bedrock": {"signature": "s"}}),
        "Hi",
        ToolCall(id="t", name="now", arguments={"a": 1}),
    ),
    finish=Finish(reason="tool_calls"),
    usage=Usage(input=9, output=2, cache_read=4),
)
USAGE = {"inputTokens": 5, "outputTokens": 2, "totalTokens": 11, "cacheReadInputTokens": 4}


def test_a_whole_answer() -> None:
    assert msgspec.json.decode(SERVER.encode_body(ANSWER).body) == {
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
                    {"text": "Hi"},
                    {"toolUse": {"toolUseId": "t", "name": "now", "input": {"a": 1}}},
                ],
            }
        },
        "stopReason": "tool_use",
        "usage": USAGE,
        "metrics": {"latencyMs": 0},
    }


def test_a_streamed_answer() -> None:
    from dragoman.events import to_events

    encoder = SERVER.stream_encoder(Request(stream=True))
    assert encoder.content_type == "application/vnd.amazon.eventstream"
    frames = EventStreamDecoder().feed(b"".join(encoder.feed(event) for event in to_events(ANSWER)))
    assert [(frame.name, msgspec.json.decode(frame.data)) for frame in frames] == [
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "hm"}}}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "s"}}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "Hi"}}),
        ("contentBlockStop", {"contentBlockIndex": 1}),
        ("contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t", "name": "now"}}}),
        ("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '{"a":1}'}}}),
        ("contentBlockStop", {"contentBlockIndex": 2}),
        ("messageStop", {"stopReason": "tool_use"}),
        ("metadata", {"usage": USAGE, "metrics": {"latencyMs": 0}}),
    ]


def test_errors() -> None:
    reply = SERVER.encode_error(RateLimited("slow down", retry_after=2))
    assert reply.status == 429
    assert reply.headers == {
        "content-type": "application/json",
        "retry-after": "2",
        "x-amzn-errortype": "ThrottlingException",
    }
    assert msgspec.json.decode(reply.body) == {"message": "slow down", "__type": "ThrottlingException"}
    (frame,) = EventStreamDecoder().feed(SERVER.stream_encoder(Request()).feed(AuthFailed("no")))
    assert frame.name == "!unrecognizedClientException"
