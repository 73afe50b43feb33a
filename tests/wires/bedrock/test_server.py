"""Converse as a server: what clients send, exact JSON of answers."""

from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.errors import AuthFailed, InvalidRequest, RateLimited, RequestError
from dragoman.events import Event, PartDelta, PartEnded, PartStarted, Ping, to_events
from dragoman.http import HttpRequest
from dragoman.registry import Registry
from dragoman.types import (
    Audio,
    Citation,
    Document,
    Finish,
    HostedCall,
    Image,
    Opaque,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    WebSearch,
    assistant,
    user,
)
from dragoman.wires.common.event_stream import EventStreamDecoder

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
            id="t",
            name="tide",
            content=(Text(text='{"m":6}', extra={"bedrock.verbatim": {"json": {"m": 6}}}),),
            is_error=False,
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
    ({"messages": [{"role": "tool", "content": []}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"toolUse": {}}]}]}, "messages[0].content[0].toolUse.toolUseId"),
    ({"messages": [{"role": "user", "content": ["hi"]}]}, "messages[0].content[0]"),
    ({"messages": [], "system": [{"image": {}}]}, "system[0]"),
    ({"messages": [], "toolConfig": {"tools": [{"toolSpec": {"name": "x", "inputSchema": {}}}]}}, None),
    (
        {"messages": [{"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": "%"}}}]}]},
        "messages[0].content[0].image.source.bytes",
    ),
    (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "toolResult": {
                                "toolUseId": "t",
                                "content": [{"toolUse": {"toolUseId": "u", "name": "x", "input": {}}}],
                            }
                        }
                    ],
                }
            ]
        },
        "messages[0].content[0].toolResult.content[0]",
    ),
]


@pytest.mark.parametrize(("body", "param"), WRONG)
def test_a_wrong_request_names_its_field(body: dict[str, Any], param: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(body)
    assert param is None or caught.value.param == param


@pytest.mark.parametrize(
    ("model", "request_", "param"),
    [
        ("", Request(messages=(user("hi"),)), "modelId"),
        ("m", Request(), "messages"),
        ("m", Request(messages=(user("hi"),), temperature=1.5), "inferenceConfig.temperature"),
        ("m", Request(messages=(user("hi"),), max_tokens=0), "inferenceConfig.maxTokens"),
    ],
)
def test_a_request_is_checked(model: str, request_: Request, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        SERVER.check(model, request_)
    assert caught.value.param == param
    SERVER.check("m", Request(messages=(user("hi"),), temperature=0.5))


def test_a_system_prompt_has_guards_and_cache_points() -> None:
    guard = {"text": {"text": "Guard."}}
    point = {"type": "default"}
    _, request = decode({"messages": [], "system": [{"guardContent": guard}, {"cachePoint": point}]})
    assert request.system == (Text(text="Guard.", extra={"bedrock": {"guardContent": guard, "cachePoint": point}}),)


def test_results_in_a_row_are_one_message() -> None:
    def result(id: str, *content: dict[str, Any]) -> dict[str, Any]:
        return {"role": "user", "content": [{"toolResult": {"toolUseId": id, "content": [*content]}}]}

    video = {"video": {"format": "mp4", "source": {"bytes": "eA=="}}}
    _, request = decode({"messages": [result("t"), result("u", {"text": "6"}, video)]})
    (message,) = request.messages
    assert message.parts == (
        ToolResult(id="t", name="", content=""),
        ToolResult(id="u", name="", content=(Text(text="6"), Opaque(wire="bedrock", data=video))),
    )


BLOCKS: list[tuple[dict[str, Any], Text | Document]] = [
    (
        {"guardContent": {"text": {"text": "Guard.", "qualifiers": ["query"]}}},
        Text(
            text="Guard.",
            extra={"bedrock": {"guardContent": {"text": {"text": "Guard.", "qualifiers": ["query"]}}}},
        ),
    ),
    (
        {"document": {"format": "md", "name": "n", "source": {"text": "high"}}},
        Document(data=b"high", mime="text/markdown", name="n", extra={"bedrock": {"source": {"text": "high"}}}),
    ),
    (
        {"document": {"format": "txt", "name": "n", "source": {"content": [{"text": "a"}, {"text": "b"}]}}},
        Document(
            data=b"a\nb",
            mime="text/plain",
            name="n",
            extra={"bedrock": {"source": {"content": [{"text": "a"}, {"text": "b"}]}}},
        ),
    ),
]


@pytest.mark.parametrize(("block", "part"), BLOCKS)
def test_texts_in_other_forms_stay_texts(block: dict[str, Any], part: Text | Document) -> None:
    content = [{"text": "Read."}, block]
    _, request = decode({"messages": [{"role": "user", "content": content}]})
    assert request.messages[0].parts[1] == part
    target = Registry(env={"AWS_REGION": "eu-west-1"}, api_key="k").target("bedrock/m")
    sent = msgspec.json.decode(wires.get("bedrock").client.encode_request(request, target).body)
    assert sent["messages"][0]["content"] == content
    other = Registry(env={}, api_key="k").target("anthropic/claude-x")
    body = wires.get("anthropic").client.encode_request(request, other).body.decode()
    expected = part.text if isinstance(part, Text) else part.data.decode()
    assert msgspec.json.encode(expected).decode() in body


@pytest.mark.parametrize(
    "source",
    [{"content": [{"image": {"format": "png"}}]}, {"content": [1]}, {"text": 1}, {"text": "a", "bytes": "YQ=="}],
)
def test_other_sources_of_a_document_are_opaque(source: dict[str, Any]) -> None:
    block = {"document": {"format": "txt", "name": "n", "source": source}}
    _, request = decode({"messages": [{"role": "user", "content": [block]}]})
    assert request.messages[0].parts == (Opaque(wire="bedrock", data=block),)


def test_the_text_of_a_document_of_another_format() -> None:
    block = {"document": {"format": "pdf", "name": "n", "source": {"text": "a"}}}
    _, request = decode({"messages": [{"role": "user", "content": [block]}]})
    (part,) = request.messages[0].parts
    assert isinstance(part, Document)
    assert part.mime == "text/plain"


def test_media_by_reference_are_opaque() -> None:
    source = {"s3Location": {"uri": "s3://b/k"}}
    blocks = [
        {"image": {"format": "png", "source": source}},
        {"document": {"format": "pdf", "name": "a", "source": source}},
    ]
    _, request = decode({"messages": [{"role": "user", "content": blocks}]})
    assert request.messages[0].parts == tuple(Opaque(wire="bedrock", data=block) for block in blocks)


def test_blocks_of_an_assistant() -> None:
    blocks: list[dict[str, Any]] = [
        {"reasoningContent": {"redactedContent": "cg=="}},
        {"citationsContent": {"citations": [{"title": "tides"}]}},
        {"toolUse": {"toolUseId": "h", "name": "run", "type": "server_tool_use", "input": {}}},
    ]
    _, request = decode({"messages": [{"role": "assistant", "content": blocks}]})
    assert request.messages[0].parts == (
        Thinking(text="", redacted=True, extra={"bedrock": {"redactedContent": "cg=="}}),
        Text(text="", extra={"bedrock": {"citations": [{"title": "tides"}]}}, citations=(Citation(title="tides"),)),
        HostedCall(id="h", tool="run", extra={"bedrock": blocks[2]}),
    )


def test_a_tool_of_the_provider_is_one_of_the_vocabulary() -> None:
    hosted = {"systemTool": {"name": "nova_grounding"}}
    _, request = decode({"messages": [], "toolConfig": {"tools": [hosted]}})
    assert request.tools == (WebSearch(extra={"bedrock.verbatim": {"tool": hosted}}),)


@pytest.mark.parametrize(
    ("choice", "expected"), [({"auto": {}}, "auto"), ({"tool": {"name": "tide"}}, "tide"), ({"new": {}}, None)]
)
def test_tool_choices(choice: dict[str, Any], expected: str | None) -> None:
    _, request = decode({"messages": [], "toolConfig": {"tools": [], "toolChoice": choice}})
    assert request.tool_choice == expected
    assert request.extra == ({} if expected else {"bedrock": {"toolConfig": {"toolChoice": choice}}})


@pytest.mark.parametrize(
    ("inner", "schema", "is_covered"),
    [
        ({"schema": '{"type":"object"}'}, {"type": "object"}, True),
        ({"schema": "{"}, None, False),
        ({"schema": "7"}, None, False),
        ({"schema": "{}", "strict": True}, {}, False),
    ],
)
def test_the_schema_of_an_answer(inner: dict[str, Any], schema: Any, *, is_covered: bool) -> None:
    config = {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": inner}}}
    _, request = decode({"messages": [], "outputConfig": config})
    assert request.schema == schema
    assert request.extra == ({} if is_covered else {"bedrock": {"outputConfig": config}})


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({"thinking": {"type": "disabled"}}, "none"),
        ({"reasoningConfig": {"type": "disabled"}}, "none"),
        ({"thinking": {"type": "adaptive"}}, "high"),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, "low"),
        ({"reasoning_effort": "medium"}, "medium"),
        ({"top_k": 3}, None),
    ],
)
def test_reasoning_is_in_the_fields_of_the_model(fields: dict[str, Any], reasoning: str | None) -> None:
    _, request = decode({"messages": [], "additionalModelRequestFields": fields})
    assert request.reasoning == reasoning


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


REST = Response(
    message=assistant(
        Thinking(text="", redacted=True, extra={"bedrock": {"redactedContent": "cg=="}}),
        Thinking(text="", redacted=True),
        Text(text="Six.", extra={"bedrock": {"citations": [{"title": "tides"}]}}),
        Image(data=b"x", mime="image/png"),
        Image(url="https://example.org/a.png"),
        Opaque(wire="google", data={"x": 1}),
        Audio(data=b"x", mime="audio/wav"),
        Opaque(wire="bedrock", data={"toolUse": {"toolUseId": "h", "type": "server_tool_use", "input": {"a": 1}}}),
        Opaque(wire="bedrock", data={"toolResult": {"toolUseId": "h", "content": [{"text": "6"}]}}),
        Opaque(wire="bedrock", data={"toolResult": {"toolUseId": "i"}}),
    ),
    finish=Finish(
        reason="other",
        raw="new_reason",
        extra={"bedrock": {"usage": {"x": 1}, "trace": {"y": 2}, "stopReason": "new_reason"}},
    ),
)


def test_parts_that_a_stream_has_no_deltas_for() -> None:
    encoder = SERVER.stream_encoder(Request(stream=True))
    assert encoder.feed(Ping()) == b""
    frames = EventStreamDecoder().feed(b"".join(encoder.feed(event) for event in to_events(REST)))
    data = [(frame.name, msgspec.json.decode(frame.data)) for frame in frames]
    assert [
        event.get("start") or event["delta"]
        for name, event in data
        if name in ("contentBlockStart", "contentBlockDelta")
    ] == [
        {"reasoningContent": {"redactedContent": "cg=="}},
        {"text": "Six."},
        {"citation": {"title": "tides"}},
        {"image": {"format": "png"}},
        {"image": {"source": {"bytes": "eA=="}}},
        {"toolUse": {"toolUseId": "h", "type": "server_tool_use"}},
        {"toolUse": {"input": '{"a":1}'}},
        {"toolResult": {"toolUseId": "h"}},
        {"toolResult": [{"text": "6"}]},
        {"toolResult": {"toolUseId": "i"}},
    ]
    assert data[-2:] == [
        ("messageStop", {"stopReason": "new_reason"}),
        (
            "metadata",
            {
                "usage": {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0, "x": 1},
                "metrics": {"latencyMs": 0},
                "trace": {"y": 2},
            },
        ),
    ]
    assert not SERVER.supports_part(REST.message.parts[1])


def test_parts_that_interleave_wait_for_each_other() -> None:
    encoder = SERVER.stream_encoder(Request(stream=True))
    events: list[Event] = [
        PartStarted(index=0, kind="text"),
        PartStarted(index=1, kind="text"),
        PartDelta(index=1, text="b"),
        PartDelta(index=0, text="a"),
        PartEnded(index=1, part=Text(text="b")),
        PartEnded(index=0, part=Text(text="a")),
    ]
    frames = EventStreamDecoder().feed(b"".join(encoder.feed(event) for event in events))
    assert [msgspec.json.decode(frame.data) for frame in frames] == [
        {"contentBlockIndex": 0, "delta": {"text": "a"}},
        {"contentBlockIndex": 0},
        {"contentBlockIndex": 1, "delta": {"text": "b"}},
        {"contentBlockIndex": 1},
    ]


def test_a_forbidden_request_is_access_denied() -> None:
    class Forbidden(RequestError):
        http_status = 403

    assert SERVER.encode_error(Forbidden("no")).headers["x-amzn-errortype"] == "AccessDeniedException"


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


@pytest.mark.parametrize(("line_break", "texts"), [("\n", ["See."]), (" \n", ["See.", " \n"])])
def test_a_line_break_between_a_document_and_the_last_cache_point_belongs_to_the_point(
    line_break: str, texts: list[str]
) -> None:
    document = {"document": {"format": "txt", "name": "a", "source": {"bytes": "YQ=="}}}
    content = [{"text": "See."}, document, {"text": line_break}, {"cachePoint": {"type": "default"}}]
    _, request = decode({"messages": [{"role": "user", "content": content}]})
    assert request.cache is True
    assert [part.text for part in request.messages[0].parts if isinstance(part, Text)] == texts


def test_the_schema_of_an_answer_has_limits() -> None:
    inner = {"schema": '{"a":' * 200 + "1" + "}" * 200}
    config = {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": inner}}}
    with pytest.raises(InvalidRequest, match=r"jsonSchema\.schema is nested more than 128 levels deep; send less"):
        decode({"messages": [], "outputConfig": config})
