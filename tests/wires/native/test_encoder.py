"""A Request becomes the JSON of the native protocol."""

from typing import Any

import msgspec

from dragoman import wires
from dragoman.targets.dsn import decode_dsn
from dragoman.targets.providers import PROVIDERS, target
from dragoman.types import (
    Image,
    Message,
    Opaque,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)

WIRE = wires.get("native")
CLIENT = WIRE.client
TARGET = target("dragoman/fast", base_url="http://gate:8000/native/v1", api_key="k")
CALL = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})


def body_of(request: Request) -> Any:
    return msgspec.json.decode(CLIENT.encode_request(request, TARGET).body)


def notices_of(request: Request) -> list[str]:
    return [f"{notice.kind} {notice.what}" for notice in CLIENT.encode_request(request, TARGET).notices]


# Requests -------------------------------------------------------------------------------------------------------------


def test_a_plain_request() -> None:
    http = CLIENT.encode_request(Request(messages=(user("Hello"),), system="Be brief."), TARGET)
    assert http.url == "http://gate:8000/native/v1/chat/completions"
    assert http.headers == {"content-type": "application/json", "authorization": "Bearer k"}
    assert msgspec.json.decode(http.body) == {
        "model": "fast",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
    }


def test_options() -> None:
    request = Request(
        messages=(user("Hello"),),
        temperature=0.5,
        top_p=0.9,
        max_tokens=5,
        stop=("END",),
        reasoning="low",
        schema={"type": "object"},
        schema_name="port",
        stream=True,
    )
    assert body_of(request) == {
        "model": "fast",
        "messages": [{"role": "user", "content": "Hello"}],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 5,
        "stop": ["END"],
        "reasoning": "low",
        "schema": {"type": "object"},
        "schema_name": "port",
        "stream": True,
    }


def test_options_that_the_protocol_has_no_field_for_are_told() -> None:
    request = Request(
        messages=(user("Hello"),),
        top_k=5,
        seed=1,
        user="u",
        metadata={"a": "b"},
        parallel_tool_calls=False,
        schema={},
        schema_strict=True,
        stop=("1", "2", "3", "4", "5"),
    )
    assert sorted(notices_of(request)) == [
        "dropped metadata",
        "dropped parallel_tool_calls",
        "dropped schema_strict",
        "dropped seed",
        "dropped stop",
        "dropped top_k",
        "dropped user",
    ]
    assert body_of(request)["stop"] == ["1", "2", "3", "4"]


def test_what_is_asked_of_the_gateway_stands_in_extra() -> None:
    request = Request(messages=(user("Hello"),), extra={"native": {"conversation_id": "c1"}})
    assert body_of(request)["conversation_id"] == "c1"


def test_tools_and_their_results() -> None:
    picture = Image(data=b"png", mime="image/png")
    request = Request(
        messages=(
            user("Tide?", picture),
            assistant(CALL, ToolCall(id="call_2", name="now")),
            tool_results(
                ToolResult(id="call_1", content="no such port", is_error=True),
                ToolResult(id="call_2", content=(Text(text="see"), picture)),
            ),
        ),
        tools=(Tool(name="tide", description="Tide height", parameters={"type": "object"}, strict=True),),
        tool_choice="tide",
    )
    image = {"type": "image", "data": "cG5n", "mime": "image/png"}
    call = {"id": "call_1", "type": "function", "function": {"name": "tide", "arguments": {"port": "Brest"}}}
    other: dict[str, Any] = {"id": "call_2", "type": "function", "function": {"name": "now", "arguments": {}}}
    assert body_of(request) == {
        "model": "fast",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Tide?"}, image]},
            {"role": "assistant", "content": None, "tool_calls": [call, other]},
            {"role": "tool", "tool_call_id": "call_1", "content": "no such port", "is_error": True},
            {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "see"}, image]},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "tide",
                    "description": "Tide height",
                    "parameters": {"type": "object"},
                    "strict": True,
                },
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "tide"}},
    }


def test_what_other_wires_signed_is_taken_along() -> None:
    thought = Thinking(text="Hm.", extra={"anthropic": {"signature": "s"}})
    block = Opaque(wire="google", data={"codeExecutionResult": {}})
    request = Request(messages=(user("?"), assistant(thought, block, "Yes."), user("And?")))
    assert body_of(request)["messages"][1]["content"] == [
        {"type": "thinking", "text": "Hm.", "extra": {"anthropic": {"signature": "s"}}},
        {"type": "opaque", "wire": "google", "data": {"codeExecutionResult": {}}},
        {"type": "text", "text": "Yes."},
    ]
    assert notices_of(request) == []


def test_an_answer_without_content_is_an_empty_string() -> None:
    result = Message(role="assistant", extra={"native": {"a": 1}})
    assert body_of(Request(messages=(user("?"), result, user("?"))))["messages"][1] == {
        "role": "assistant",
        "content": "",
        "extra": {"native": {"a": 1}},
    }


def test_a_tool_without_a_description_is_described_by_its_name() -> None:
    request = Request(messages=(user("?"),), tools=(Tool(name="now"),), tool_choice="auto")
    assert body_of(request)["tools"] == [
        {
            "type": "function",
            "function": {"name": "now", "description": "now", "parameters": {"type": "object", "properties": {}}},
        }
    ]
    assert notices_of(request) == ["repaired description of now"]
    assert CLIENT.encode_tools((Tool(name="now"), Opaque(wire="native", data={"a": 1})))[1] == {"a": 1}


def test_models_are_asked_for() -> None:
    assert wires.get("native").endpoints.encode_models(TARGET).url == "http://gate:8000/native/v1/models"


def test_a_dsn_names_another_gateway() -> None:
    provider = decode_dsn("gate", "dragoman+http://key@gate:8000", PROVIDERS)
    assert provider.target("fast").base_url == "http://gate:8000/native/v1"
    assert provider.api_key == "key"
