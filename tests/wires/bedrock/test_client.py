"""Converse as a client: exact JSON of requests, and what its answers mean."""

import base64
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dragoman import codec, wires
from dragoman.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    DragomanError,
    InvalidRequest,
    Malformed,
    ModelNotFound,
    Overloaded,
    RateLimited,
    ServerFault,
    Truncated,
    Unsupported,
)
from dragoman.events import PartEnded, fold
from dragoman.http import Head
from dragoman.registry import Registry
from dragoman.targets.providers import target
from dragoman.targets.target import Target
from dragoman.types import (
    Audio,
    Document,
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
    assistant,
    tool_results,
    user,
)
from dragoman.wires.bedrock.parts import encode_block
from dragoman.wires.common.event_stream import encode_event, encode_exception
from dragoman.wires.common.notices import NoticeCollector
from tests.support.paths import TESTS
from tests.support.wires import laws

CLIENT = wires.get("bedrock").client
PLAIN = target("bedrock/us.amazon.nova-x-v1:0", api_key="k", base_url="https://bedrock-runtime.us-east-1.amazonaws.com")
SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}}
TIDE = Tool(name="tide", description="Tide height", parameters=SCHEMA)
SPEC = {"toolSpec": {"name": "tide", "description": "Tide height", "inputSchema": {"json": SCHEMA}}}
HELLO = [{"role": "user", "content": [{"text": "hi"}]}]


def encode(request: Request, to: Target = PLAIN) -> tuple[dict[str, Any], list[str]]:
    http = CLIENT.encode_request(request, to)
    return msgspec.json.decode(http.body), [notice.what for notice in http.notices]


def with_quirks(**quirks: Any) -> Target:
    return replace(PLAIN, quirks=replace(PLAIN.quirks, **quirks))


def test_a_plain_request() -> None:
    request = Request(
        system="Be brief.",
        messages=(user("hi"),),
        max_tokens=5,
        temperature=0.5,
        top_p=0.9,
        stop=("END",),
        metadata={"team": "tides"},
    )
    http = CLIENT.encode_request(request, PLAIN)
    assert http.url == "https://bedrock-runtime.us-east-1.amazonaws.com/model/us.amazon.nova-x-v1%3A0/converse"
    assert http.headers == {"content-type": "application/json", "authorization": "Bearer k"}
    assert http.notices == ()
    assert msgspec.json.decode(http.body) == {
        "messages": HELLO,
        "system": [{"text": "Be brief."}],
        "inferenceConfig": {"maxTokens": 5, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
        "requestMetadata": {"team": "tides"},
    }


def test_a_stream_has_its_own_path() -> None:
    arn = "arn:aws:bedrock:us-east-1:123:application-inference-profile/abc"
    http = CLIENT.encode_request(Request(messages=(user("hi"),), stream=True), replace(PLAIN, model=arn))
    encoded = "arn%3Aaws%3Abedrock%3Aus-east-1%3A123%3Aapplication-inference-profile%2Fabc"
    assert http.path == f"/model/{encoded}/converse-stream"
    assert http.headers["accept"] == "application/vnd.amazon.eventstream"


def test_tools_calls_and_results() -> None:
    call = ToolCall(id="tooluse_1", name="tide", arguments={"port": "Brest"})
    request = Request(
        messages=(
            user("?"),
            assistant("I look.", call),
            tool_results(ToolResult(id="tooluse_1", name="tide", content="no", is_error=True)),
        ),
        tools=(TIDE,),
        tool_choice="tide",
    )
    body, notices = encode(request)
    assert body == {
        "messages": [
            {"role": "user", "content": [{"text": "?"}]},
            {
                "role": "assistant",
                "content": [
                    {"text": "I look."},
                    {"toolUse": {"toolUseId": "tooluse_1", "name": "tide", "input": {"port": "Brest"}}},
                ],
            },
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": "no"}], "status": "error"}}],
            },
        ],
        "toolConfig": {"tools": [SPEC], "toolChoice": {"tool": {"name": "tide"}}},
    }
    assert notices == []


@pytest.mark.parametrize(("choice", "encoded"), [("auto", {"auto": {}}), ("required", {"any": {}})])
def test_tool_choices(choice: str, encoded: dict[str, Any]) -> None:
    body, _ = encode(Request(messages=(user("hi"),), tools=(TIDE,), tool_choice=choice))
    assert body["toolConfig"]["toolChoice"] == encoded


def test_no_call_means_no_tools() -> None:
    body, notices = encode(Request(messages=(user("hi"),), tools=(TIDE,), tool_choice="none"))
    assert body == {"messages": HELLO}
    assert notices == ["tool_choice"]


def test_a_history_with_calls_needs_tools() -> None:
    history = (user("?"), assistant(ToolCall(id="c", name="tide")), tool_results(ToolResult(id="c", content="6")))
    body, notices = encode(Request(messages=history))
    spec: dict[str, Any] = {"toolSpec": {"name": "tide", "inputSchema": {"json": {"type": "object", "properties": {}}}}}
    assert body["toolConfig"] == {"tools": [spec]}
    assert notices == ["tools"]


def test_media() -> None:
    data = base64.b64encode(b"x").decode()
    parts = (Image(data=b"x", mime="image/png"), Document(data=b"x", mime="application/pdf", name="a.b (1)"), "hi")
    body, notices = encode(Request(messages=(user(*parts),)))
    assert body["messages"][0]["content"] == [
        {"image": {"format": "png", "source": {"bytes": data}}},
        {"document": {"format": "pdf", "name": "a-b (1)", "source": {"bytes": data}}},
        {"text": "hi"},
    ]
    assert notices == ["name of a document"]
    with pytest.raises(Unsupported):
        encode(Request(messages=(user(Image(url="https://example.org/a.png")),)))


def test_thinking_goes_back_with_its_signature() -> None:
    thinking = Thinking(text="hm", extra={"bedrock": {"signature": "s"}})
    redacted = Thinking(text="", redacted=True, extra={"bedrock": {"redactedContent": "cg=="}})
    body, _ = encode(Request(messages=(user("?"), assistant(thinking, redacted, "Six."), user("And?"))))
    assert body["messages"][1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"reasoningContent": {"redactedContent": "cg=="}},
        {"text": "Six."},
    ]


@pytest.mark.parametrize(
    ("form", "reasoning", "fields"),
    [
        ("budget", 2000, {"thinking": {"type": "enabled", "budget_tokens": 2000}}),
        ("adaptive", "high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ("effort", "low", {"reasoning_effort": "low"}),
        ("object", "medium", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "medium"}}),
        ("budget", "none", None),
        ("adaptive", "minimal", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ("adaptive", "none", None),
        ("effort", "none", None),
        (None, "none", None),
    ],
)
def test_reasoning_has_the_form_of_the_model(form: str | None, reasoning: Any, fields: dict[str, Any] | None) -> None:
    request = Request(messages=(user("hi"),), reasoning=reasoning, max_tokens=9000)
    body, notices = encode(request, with_quirks(reasoning=form))
    assert body.get("additionalModelRequestFields") == fields
    assert notices == []


@pytest.mark.parametrize(
    ("form", "reasoning", "max_tokens", "fields", "limit", "notices"),
    [
        ("budget", 5, 9000, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, 9000, ["reasoning"]),
        ("budget", 2000, 500, {"thinking": {"type": "enabled", "budget_tokens": 2000}}, 2500, ["max_tokens"]),
        ("effort", "max", 9000, {"reasoning_effort": "high"}, 9000, ["reasoning"]),
    ],
)
def test_reasoning_that_the_model_does_not_take_is_changed(
    form: str, reasoning: Any, max_tokens: int, fields: dict[str, Any], limit: int, notices: list[str]
) -> None:
    request = Request(messages=(user("hi"),), reasoning=reasoning, max_tokens=max_tokens)
    body, written = encode(request, with_quirks(reasoning=form))
    assert body["additionalModelRequestFields"] == fields
    assert body["inferenceConfig"] == {"maxTokens": limit}
    assert written == notices


def test_the_fields_of_the_caller_come_before_reasoning() -> None:
    own = {"additionalModelRequestFields": {"thinking": {"type": "disabled"}}}
    request = Request(messages=(user("hi"),), reasoning=2000, extra={"bedrock": own})
    assert encode(request, with_quirks(reasoning="budget"))[0] == {"messages": HELLO, **own}


def test_reasoning_of_an_unknown_model_is_dropped() -> None:
    body, notices = encode(Request(messages=(user("hi"),), reasoning="high"))
    assert body == {"messages": HELLO}
    assert notices == ["reasoning"]


def test_a_budget_excludes_sampling_and_forced_calls() -> None:
    request = Request(messages=(user("hi"),), reasoning=2000, temperature=0.5, tools=(TIDE,), tool_choice="required")
    body, notices = encode(request, with_quirks(reasoning="budget"))
    assert body["inferenceConfig"] == {"maxTokens": 2000 + 4096}
    assert body["toolConfig"]["toolChoice"] == {"auto": {}}
    assert notices == ["temperature", "tool_choice"]


def test_families_know_the_form() -> None:
    registry = Registry(env={"AWS_REGION": "us-east-1"})
    forms = {
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0": "budget",
        "us.anthropic.claude-sonnet-4-6": "adaptive",
        "us.anthropic.claude-opus-5-v1:0": "adaptive",
        "us.amazon.nova-2-lite-v1:0": "object",
        "openai.gpt-oss-120b-1:0": "effort",
        "meta.llama3-8b": None,
    }
    assert {model: registry.target(f"bedrock/{model}").quirks.reasoning for model in forms} == forms
    assert not registry.target("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0").capabilities.thinking
    assert registry.target("bedrock/us.anthropic.claude-3-7-sonnet-20250219-v1:0").capabilities.thinking


def test_structured_output() -> None:
    to = replace(PLAIN, capabilities=replace(PLAIN.capabilities, structured=True))
    body, notices = encode(Request(messages=(user("hi"),), schema=SCHEMA, schema_name="port"), to)
    schema = {"name": "port", "schema": '{"type":"object","properties":{"port":{"type":"string"}}}'}
    assert body["outputConfig"] == {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}}
    assert notices == []


def test_cache_points_and_guardrails() -> None:
    point = {"cachePoint": {"type": "default"}}
    guard = {"guardrailIdentifier": "g", "guardrailVersion": "1"}
    body, notices = encode(
        Request(
            system=(Text(text="Long.", extra={"bedrock": {"cachePoint": {"type": "default"}}}),),
            messages=(user("a", Opaque(wire="bedrock", data=point), "b"),),
            tools=(TIDE, Opaque(wire="bedrock", data=point)),
            cache=True,
            extra={"bedrock": {"guardrailConfig": guard}},
        )
    )
    assert body == {
        "system": [{"text": "Long."}, point],
        "messages": [{"role": "user", "content": [{"text": "a"}, point, {"text": "b"}, point]}],
        "toolConfig": {"tools": [SPEC, point]},
        "guardrailConfig": guard,
    }
    assert notices == []


def test_what_is_not_supported_is_dropped_with_a_notice() -> None:
    request = Request(messages=(user("hi"),), seed=1, user="u", top_k=3, tools=(TIDE,), parallel_tool_calls=False)
    body, notices = encode(request)
    assert body == {"messages": HELLO, "toolConfig": {"tools": [SPEC]}}
    assert sorted(notices) == ["parallel_tool_calls", "seed", "top_k", "user"]


def test_options_that_a_model_lacks_are_dropped() -> None:
    lacking = with_quirks(temperature_excludes_top_p=True, metadata=False, strict=False, json_schema=False)
    request = Request(
        messages=(user("hi"),),
        temperature=0.5,
        top_p=0.9,
        stop=("END", " "),
        metadata={"team": "x"},
        schema=SCHEMA,
        schema_mode="auto",
        tools=(replace(TIDE, strict=True), Opaque(wire="bedrock", data={"cachePoint": {"type": "default"}})),
    )
    body, notices = encode(request, lacking)
    assert body["inferenceConfig"] == {"temperature": 0.5, "stopSequences": ["END"]}
    assert body["toolConfig"]["tools"][0] == SPEC
    assert "requestMetadata" not in body
    assert "outputConfig" not in body
    assert sorted(notices) == ["metadata", "schema", "stop", "strict", "top_p"]


def test_top_k_is_a_field_of_the_model() -> None:
    body, notices = encode(Request(messages=(user("hi"),), top_k=3), with_quirks(top_k=True))
    assert body["additionalModelRequestFields"] == {"top_k": 3}
    assert notices == []


def test_no_call_is_not_supported_after_calls() -> None:
    call = ToolCall(id="t", name="tide")
    history = (user("?"), assistant(call), tool_results(ToolResult(id="t", name="tide", content="6")), user("And?"))
    body, notices = encode(Request(messages=history, tools=(TIDE,), tool_choice="none"))
    assert body["toolConfig"] == {"tools": [SPEC]}
    assert notices == ["tool_choice"]


def test_messages_that_the_api_refuses_are_repaired() -> None:
    history = (
        user("?"),
        assistant("Six.", Thinking(text="hm", extra={"bedrock": {"signature": "s"}})),
        user(" ", ""),
        user("a", Opaque(wire="google", data={"x": 1}, is_optional=True), "b"),
    )
    body, notices = encode(Request(messages=history))
    assert body["messages"] == [
        {"role": "user", "content": [{"text": "?"}]},
        {"role": "assistant", "content": [{"text": "Six."}]},
        {"role": "user", "content": [{"text": "(no text)"}, {"text": "a"}, {"text": "b"}]},
    ]
    assert sorted(notices) == [
        "a text of white space",
        "an empty message of the user",
        "google block (x)",
        "thinking at the end of a message",
    ]


def test_blocks_of_the_api_go_back_as_they_came() -> None:
    guard = {"text": {"text": "Guard."}}
    cited = {"citations": [{"title": "tides"}]}
    body, _ = encode(
        Request(
            system=(Text(text="Guard.", extra={"bedrock": {"guardContent": guard}}),),
            messages=(
                user(Text(text='{"m":6}', extra={"bedrock": {"json": {"m": 6}}})),
                assistant(Text(text="Six.", extra={"bedrock": cited}), Text(text="", extra={"bedrock": cited})),
                user("And?"),
            ),
        )
    )
    assert body["system"] == [{"guardContent": guard}]
    assert body["messages"][0]["content"] == [{"json": {"m": 6}}]
    assert body["messages"][1]["content"] == [
        {"citationsContent": {"content": [{"text": "Six."}], **cited}},
        {"citationsContent": cited},
    ]


def test_the_tools_of_a_request_are_objects() -> None:
    odd = Tool(name="odd", parameters={"type": "array"})
    bare = Tool(name="bare", parameters={"properties": {}})
    http = CLIENT.encode_request(Request(messages=(user("hi"),), tools=(odd, bare)), PLAIN)
    tools = msgspec.json.decode(http.body)["toolConfig"]["tools"]
    assert [tool["toolSpec"]["inputSchema"]["json"]["type"] for tool in tools] == ["object", "object"]
    assert [(notice.kind, notice.what) for notice in http.notices] == [
        ("changed", "tool odd: type"),
        ("repaired", "tool bare: type"),
    ]


def test_more_media() -> None:
    data = base64.b64encode(b"x").decode()
    parts = (
        Image(data=b"x", mime="image/png", detail="high"),
        Document(data=b"x", mime="text/x-python", name="a"),
        "?",
    )
    body, notices = encode(Request(messages=(user(*parts),)))
    assert body["messages"][0]["content"] == [
        {"image": {"format": "png", "source": {"bytes": data}}},
        {"document": {"format": "txt", "name": "a", "source": {"bytes": data}}},
        {"text": "?"},
    ]
    assert sorted(notices) == ["image detail", "type of a document"]


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (Image(url="data:image/png;base64,%"), InvalidRequest),
        (Image(data=b"x", mime="image/tiff"), Unsupported),
        (Document(data=b"x", mime="application/zip"), Unsupported),
        (Audio(data=b"x", mime="audio/wav"), Unsupported),
    ],
)
def test_media_that_cannot_be_sent(part: Any, kind: type[Exception]) -> None:
    # The capabilities are checked before; a wire alone refuses, too.
    with pytest.raises(kind):
        encode_block(part, NoticeCollector("bedrock"))


def test_a_result_alone_is_a_message_of_the_user() -> None:
    foreign = Opaque(wire="google", data={"x": 1})
    result = ToolResult(id="t", name="tide", content=(Text(text="6"), foreign), is_error=True)
    assert codec.encode_result(result, "bedrock") == {
        "role": "user",
        "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": "6"}], "status": "error"}}],
    }


def test_an_image_as_a_data_url_is_sent_as_bytes() -> None:
    assert encode_block(Image(url="data:image/png;base64,eA=="), NoticeCollector("bedrock")) == {
        "image": {"format": "png", "source": {"bytes": "eA=="}}
    }


def test_tokens_are_counted_for_the_same_request() -> None:
    endpoints = wires.get("bedrock").endpoints
    assert endpoints is not None
    http = endpoints.encode_tokens(Request(messages=(user("hi"),), temperature=0.5), PLAIN)
    assert http.path.endswith("/count-tokens")
    assert msgspec.json.decode(http.body) == {"input": {"converse": {"messages": HELLO}}}
    assert endpoints.decode_tokens(b'{"inputTokens": 7}') == 7


# Answers --------------------------------------------------------------------------------------------------------------


def read(tape: str) -> tuple[Response | None, DragomanError | None]:
    data = (TESTS / "wires" / "bedrock" / "tapes" / f"{tape}.eventstream").read_bytes()
    events, error = laws.read(CLIENT.stream_decoder(), [data])
    return None if error else fold(events), error


def response(tape: str) -> Response:
    answer, error = read(tape)
    assert error is None
    assert answer is not None
    return answer


def test_a_stream_of_text() -> None:
    hello = response("hello")
    assert hello.text == "At six."
    assert (hello.finish.reason, hello.finish.raw) == ("stop", "end_turn")
    assert hello.finish.extra == {"bedrock": {"metrics": {"latencyMs": 700}}}
    assert hello.usage == Usage(input=12, output=4, cache_read=3, cache_write=0)


def test_a_stream_of_calls() -> None:
    tools = response("tools")
    assert tools.text == "I look."
    assert [(call.id, call.name, call.arguments) for call in tools.tool_calls] == [
        ("tooluse_1", "tide", {"port": "Brest"}),
        ("tooluse_2", "tide", {}),
    ]
    assert tools.finish.reason == "tool_calls"


def test_a_stream_of_thinking() -> None:
    assert response("thinking").message.parts == (
        Thinking(text="Noon or six?", extra={"bedrock": {"signature": "c2ln"}}),
        Thinking(text="", redacted=True, extra={"bedrock": {"redactedContent": "cmVk"}}),
        Text(text="Six."),
    )


def test_citations_are_extra_of_the_text() -> None:
    (part,) = response("citations").message.parts
    assert isinstance(part, Text)
    assert part.extra["bedrock"]["citations"][0]["title"] == "tides"


def test_the_providers_own_tools_are_no_calls_of_ours() -> None:
    hosted = response("hosted_tool")
    assert hosted.tool_calls == ()
    use = {"toolUseId": "tooluse_0", "name": "tide", "type": "server_tool_use", "input": {"code": "6"}}
    assert hosted.message.parts[0] == HostedCall(
        id="tooluse_0", tool="tide", arguments={"code": "6"}, extra={"bedrock": {"toolUse": use}}
    )
    assert hosted.finish.reason == "stop"


def test_a_guardrail_blocks() -> None:
    assert response("blocked").finish.reason == "blocked"


def test_an_exception_inside_a_stream() -> None:
    _, error = read("throttled")
    assert isinstance(error, RateLimited)
    assert error.code == "throttlingException"


def test_a_whole_body() -> None:
    body = {
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
                    {"text": "I look."},
                    {"toolUse": {"toolUseId": "t", "name": "tide", "input": {"port": "Brest"}}},
                ],
            }
        },
        "stopReason": "tool_use",
        "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
        "metrics": {"latencyMs": 5},
    }
    answer = fold(CLIENT.decode_body(msgspec.json.encode(body)))
    assert answer.message.parts == (
        Thinking(text="hm", extra={"bedrock": {"signature": "s"}}),
        Text(text="I look."),
        ToolCall(id="t", name="tide", arguments={"port": "Brest"}),
    )
    assert answer.usage == Usage(input=1, output=2)


def test_more_blocks_of_a_whole_body() -> None:
    hosted: dict[str, Any] = {"toolUse": {"toolUseId": "h", "name": "run", "type": "server_tool_use", "input": {}}}
    wrong = {"image": {"format": "png", "source": {"bytes": "%"}}}
    cited = {"citationsContent": {"content": [{"text": "Six."}, 7], "citations": []}}
    body: dict[str, Any] = {
        "output": {"message": {"content": [hosted, wrong, cited]}},
        "stopReason": "tool_use",
        "usage": {"inputTokens": 1, "outputTokens": 2, "cacheDetails": [1]},
    }
    answer = fold(CLIENT.decode_body(msgspec.json.encode(body)))
    assert answer.message.parts == (
        HostedCall(id="h", tool="run", extra={"bedrock": hosted}),
        Opaque(wire="bedrock", data=wrong),
        Text(text="Six.", extra={"bedrock": {"citations": []}}),
    )
    assert answer.finish.reason == "stop"
    assert answer.finish.extra == {"bedrock": {"usage": {"cacheDetails": [1]}}}


def test_a_body_with_an_error_is_that_error() -> None:
    with pytest.raises(RateLimited, match="slow"):
        CLIENT.decode_body(b'{"__type": "ThrottlingException", "message": "slow"}')


def test_events_of_another_kind() -> None:
    start = {"toolUse": {"toolUseId": "h", "name": "run", "type": "server_tool_use"}}
    frames = [
        encode_event("messageStart", b"{}"),
        encode_event("somethingNew", b"7"),
        encode_event("contentBlockStart", msgspec.json.encode({"contentBlockIndex": 0, "start": start})),
        encode_event(
            "contentBlockDelta", msgspec.json.encode({"contentBlockIndex": 0, "delta": {"toolUse": {"input": "{"}}})
        ),
        encode_event("contentBlockStop", b'{"contentBlockIndex": 0}'),
    ]
    events, error = laws.read(CLIENT.stream_decoder(), frames)
    assert isinstance(error, Truncated)
    ended = [event.part for event in events if isinstance(event, PartEnded)]
    block = {"toolUse": {**start["toolUse"], "input": "{"}}
    assert ended == [HostedCall(id="h", tool="run", arguments={"input": "{"}, extra={"bedrock": block})]
    _, error = laws.read(CLIENT.stream_decoder(), [encode_event("messageStart", b"7")])
    assert isinstance(error, Malformed)


OTHER_DELTAS: list[Any] = [{"toolResult": [{"json": {}}]}, {"somethingNew": {"a": 1}}]


@pytest.mark.parametrize("delta", OTHER_DELTAS)
def test_a_call_of_the_providers_own_tool_with_another_delta(delta: dict[str, Any]) -> None:
    start = {"toolUse": {"toolUseId": "h", "name": "run", "type": "server_tool_use"}}
    answer = streamed(
        ("messageStart", {}),
        ("contentBlockStart", {"contentBlockIndex": 0, "start": start}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": delta}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {}),
    )
    block: dict[str, Any] = {"toolUse": {**start["toolUse"], "input": {}}}
    assert answer.message.parts == (HostedCall(id="h", tool="run", extra={"bedrock": block}),)


def streamed(*events: tuple[str, dict[str, Any]]) -> Response:
    frames = [encode_event(name, msgspec.json.encode(data)) for name, data in events]
    read, error = laws.read(CLIENT.stream_decoder(), frames)
    assert error is None
    return fold(read)


def test_a_stream_that_leaves_out_what_it_may() -> None:
    call = {"toolUseId": "t", "name": "now", "reason": "x"}
    answer = streamed(
        ("messageStart", {}),
        ("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": call}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("contentBlockStart", {"contentBlockIndex": 1}),
        ("contentBlockDelta", {"contentBlockIndex": 1}),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "Hi"}}),
        ("messageStop", {"stopReason": "a_new_one"}),
        ("metadata", {}),
    )
    assert answer.message.parts == (
        ToolCall(id="t", name="now", extra={"bedrock": {"reason": "x"}}),
        Text(text="Hi"),
    )
    assert (answer.finish.reason, answer.finish.raw) == ("tool_calls", "a_new_one")
    _, error = laws.read(
        CLIENT.stream_decoder(), [encode_event("messageStart", b"{}"), encode_event("metadata", b"{}")]
    )
    assert isinstance(error, Malformed)


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"output": {}}', b'{"output": {"message": {"content": [1]}}}'])
def test_a_body_without_a_message_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        CLIENT.decode_body(body)


@pytest.mark.parametrize(
    ("name", "status", "message", "kind"),
    [
        ("ThrottlingException:http://internal.amazon.com/", 429, "slow", RateLimited),
        ("ServiceQuotaExceededException", 400, "quota", RateLimited),
        ("ValidationException", 400, "bad", BadRequest),
        ("ValidationException", 400, "Input is too long for requested model.", ContextTooLong),
        ("ValidationException", 400, "The provided model identifier is invalid.", ModelNotFound),
        ("AccessDeniedException", 403, "no", AuthFailed),
        ("ExpiredTokenException", 403, "expired", AuthFailed),
        ("UnrecognizedClientException", 403, "who", AuthFailed),
        ("IncompleteSignatureException", 400, "what", AuthFailed),
        ("MissingAuthenticationTokenException", 403, "Missing Authentication Token", AuthFailed),
        ("ResourceNotFoundException", 404, "where", ModelNotFound),
        ("ModelNotReadyException", 429, "loading", Overloaded),
        ("ServiceUnavailableException", 503, "busy", Overloaded),
        ("InternalServerException", 500, "broken", ServerFault),
        ("ModelErrorException", 424, "broken", ServerFault),
    ],
)
def test_an_error_has_the_class_of_its_exception(name: str, status: int, message: str, kind: type[Exception]) -> None:
    body = msgspec.json.encode({"message": message})
    error = CLIENT.decode_error(Head(status=status, headers={"x-amzn-ErrorType": name}), body)
    assert type(error) is kind
    assert error.message == message
    assert error.code == name.partition(":")[0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("InvalidSignatureException", "Signature expired: 20261118T010000Z is now earlier than 20261118T015500Z"),
        ("InvalidSignatureException", "Signature not yet current: 20261118T030000Z is still later than …"),
        ("RequestTimeTooSkewed", "The difference between the request time and the current time is too large."),
    ],
)
def test_a_wrong_clock_is_named(name: str, message: str) -> None:
    body = msgspec.json.encode({"message": message})
    error = CLIENT.decode_error(Head(status=403, headers={"x-amzn-ErrorType": name}), body)
    assert isinstance(error, AuthFailed)
    assert error.message == f"{message}; check the clock of this computer"


@pytest.mark.parametrize(
    ("original", "kind"),
    [(429, RateLimited), (400, BadRequest), (503, Overloaded), (200, ServerFault), (None, ServerFault)],
)
def test_the_error_of_the_model_itself_decides(original: int | None, kind: type[Exception]) -> None:
    body = msgspec.json.encode({"message": "x", "originalStatusCode": original, "originalMessage": "y"})
    head = Head(status=424, headers={"x-amzn-ErrorType": "ModelErrorException"})
    assert type(CLIENT.decode_error(head, body)) is kind
    with pytest.raises(kind):
        CLIENT.stream_decoder().feed(encode_exception("modelStreamErrorException", body))


def test_an_error_that_is_not_json() -> None:
    error = CLIENT.decode_error(Head(status=503), b"<html>busy</html>")
    assert isinstance(error, Overloaded)
    assert "busy" in error.message


# Documents ------------------------------------------------------------------------------------------------------------


def test_every_document_has_a_name_of_its_own() -> None:
    document = Document(data=b"a", mime="text/plain")
    note = Opaque(wire="bedrock", data={"document": {"name": "Note", "source": {"text": "x"}}})
    calls = assistant(ToolCall(id="t1", name="tide"))
    result = ToolResult(id="t1", name="tide", content=(document, Text(text="see")))
    first = user(document, document, replace(document, name="note"), note, "?")
    body, notices = encode(Request(messages=(first, calls, tool_results(result)), tools=(TIDE,)))
    names = [block["document"]["name"] for block in body["messages"][0]["content"] if "document" in block]
    assert names == ["document", "document-2", "note", "Note-2"]
    assert body["messages"][2]["content"][0]["toolResult"]["content"][0]["document"]["name"] == "document-3"
    assert notices == ["name of a document"] * 3
    assert note.data["document"]["name"] == "Note", "the value of the caller stays as it is"


def test_a_document_alone_gets_a_text() -> None:
    document = Document(data=b"a", mime="text/plain")
    body, notices = encode(Request(messages=(user(document),), cache=True))
    assert [*map(list, body["messages"][0]["content"])] == [["document"], ["text"], ["cachePoint"]]
    assert notices == ["a document without a text"]


def one_block(*deltas: dict[str, Any], start: dict[str, Any] | None = None) -> Response:
    events: list[tuple[str, dict[str, Any]]] = [("messageStart", {"role": "assistant"})]
    if start is not None:
        events.append(("contentBlockStart", {"contentBlockIndex": 0, "start": start}))
    events += [("contentBlockDelta", {"contentBlockIndex": 0, "delta": delta}) for delta in deltas]
    events += [("contentBlockStop", {"contentBlockIndex": 0}), ("messageStop", {"stopReason": "end_turn"})]
    events.append(("metadata", {"usage": {"inputTokens": 1}}))
    decoder = CLIENT.stream_decoder()
    data = b"".join(encode_event(name, msgspec.json.encode(event)) for name, event in events)
    return fold([*decoder.feed(data), *decoder.feed(b"")])


def test_redacted_thinking_in_pieces() -> None:
    def redacted(*pieces: str) -> object:
        return one_block(*({"reasoningContent": {"redactedContent": piece}} for piece in pieces)).message.parts

    assert redacted("YQ==", "YmM=") == (
        Thinking(text="", redacted=True, extra={"bedrock": {"redactedContent": "YWJj"}}),
    )
    assert redacted("%", "YmM=") == (Thinking(text="", redacted=True, extra={"bedrock": {"redactedContent": "%YmM="}}),)


def test_an_image_in_pieces() -> None:
    start: dict[str, Any] = {"image": {"format": "png"}}
    pieces = [{"image": {"source": {"bytes": text}}} for text in ("YQ==", "YmM=")]
    assert one_block(*pieces, start=start).message.parts == (Image(data=b"abc", mime="image/png"),)
    odd: list[dict[str, Any]] = [{"bytes": "%"}, {"s3Location": {"uri": "s3://b/k"}}]
    for source in (*odd, 1):
        (part,) = one_block({"image": {"source": source}}, start=start).message.parts
        assert isinstance(part, Opaque)
