"""Converse as a client: exact JSON of requests, and what its answers mean."""

import base64
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    DragomanError,
    Malformed,
    ModelNotFound,
    Overloaded,
    RateLimited,
    ServerFault,
    Unsupported,
)
from dragoman.events import fold
from dragoman.http import Head
from dragoman.registry import Registry
from dragoman.targets.providers import target
from dragoman.targets.target import Target
from dragoman.types import (
    Document,
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
    ],
)
def test_reasoning_has_the_form_of_the_model(form: str, reasoning: Any, fields: dict[str, Any] | None) -> None:
    request = Request(messages=(user("hi"),), reasoning=reasoning, max_tokens=9000)
    body, notices = encode(request, with_quirks(reasoning=form))
    assert body.get("additionalModelRequestFields") == fields
    assert notices == []


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


def test_the_providers_own_tools_are_opaque() -> None:
    hosted = response("hosted_tool")
    assert hosted.tool_calls == ()
    assert hosted.message.parts[0] == Opaque(
        wire="bedrock",
        data={
            "toolUse": {
                "toolUseId": "tooluse_0",
                "name": "tide",
                "type": "server_tool_use",
                "input": {"code": "6"},
            }
        },
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
