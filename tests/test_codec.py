"""The three small operations on tools alone, for every wire."""

import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.codec import decode_tool_calls, encode_definitions, encode_result
from dragoman.errors import (
    InvalidRequest,
    InvalidTool,
    MalformedToolCall,
    ProviderError,
    SetupError,
    Unsupported,
    WireError,
)
from dragoman.types import Image, Tool, ToolCall, ToolResult
from dragoman.wires.common.json import encode_json

PARAMETERS = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}
TIDE = Tool(name="tide", description="Tide height", parameters=PARAMETERS)
FUNCTION = {"name": "tide", "description": "Tide height", "parameters": PARAMETERS}
FAILED = ToolResult(id="call_1", name="tide", content="no such port", is_error=True)
CALL: dict[str, Any] = {"name": "tide", "arguments": {"port": "Brest"}}

DEFINITIONS: dict[str, Any] = {
    "openai": {"type": "function", "function": FUNCTION},
    "openai_chat": {"type": "function", "function": FUNCTION},
    "openai_responses": {"type": "function", **FUNCTION, "strict": False},
    "anthropic": {"name": "tide", "description": "Tide height", "input_schema": PARAMETERS},
    "ollama": {"type": "function", "function": FUNCTION},
    "google": {
        "functionDeclarations": [
            {"name": "tide", "description": "Tide height", "parametersJsonSchema": PARAMETERS},
        ]
    },
    "google_interactions": {"type": "function", **FUNCTION},
    "bedrock": {"toolSpec": {"name": "tide", "description": "Tide height", "inputSchema": {"json": PARAMETERS}}},
    "native": {"type": "function", "function": FUNCTION},
}
RESULTS: dict[str, Any] = {
    "openai": {"role": "tool", "tool_call_id": "call_1", "content": "ERROR: no such port"},
    "openai_responses": {"type": "function_call_output", "call_id": "call_1", "output": "ERROR: no such port"},
    "anthropic": {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "no such port", "is_error": True}],
    },
    "ollama": {"role": "tool", "content": "ERROR: no such port", "tool_name": "tide", "tool_call_id": "call_1"},
    "google": {
        "role": "user",
        "parts": [{"functionResponse": {"name": "tide", "response": {"error": "no such port"}}}],
    },
    "google_interactions": {
        "type": "function_result",
        "call_id": "call_1",
        "name": "tide",
        "result": "no such port",
        "is_error": True,
    },
    "bedrock": {
        "role": "user",
        "content": [{"toolResult": {"toolUseId": "call_1", "content": [{"text": "no such port"}], "status": "error"}}],
    },
    "native": {"role": "tool", "tool_call_id": "call_1", "content": "no such port", "is_error": True},
}
BODIES: dict[str, Any] = {
    "openai": {
        "choices": [
            {
                "message": {
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "tide", "arguments": '{"port":"Brest"}'},
                        }
                    ]
                },
                "finish_reason": "tool_calls",
            }
        ]
    },
    "openai_responses": {
        "status": "completed",
        "output": [{"type": "function_call", "call_id": "call_1", "name": "tide", "arguments": '{"port":"Brest"}'}],
    },
    "anthropic": {
        "content": [{"type": "tool_use", "id": "call_1", "name": "tide", "input": {"port": "Brest"}}],
        "stop_reason": "tool_use",
    },
    "ollama": {"message": {"tool_calls": [{"function": CALL}]}, "done": True},
    "google": {
        "candidates": [
            {
                "content": {"parts": [{"functionCall": {"name": "tide", "args": {"port": "Brest"}}}]},
                "finishReason": "STOP",
            }
        ]
    },
    "google_interactions": {"status": "requires_action", "steps": [{"type": "function_call", "id": "call_1", **CALL}]},
    "bedrock": {
        "output": {
            "message": {"content": [{"toolUse": {"toolUseId": "call_1", "name": "tide", "input": {"port": "Brest"}}}]}
        },
        "stopReason": "tool_use",
    },
    "native": {
        "choices": [{"message": {"tool_calls": [{"id": "call_1", "function": CALL}]}, "finish_reason": "tool_calls"}]
    },
}
SILENT: dict[str, Any] = {
    "openai": {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]},
    "openai_responses": {"status": "completed", "output": []},
    "anthropic": {"content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"},
    "ollama": {"message": {"content": "hi"}, "done": True},
    "google": {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]},
    "google_interactions": {
        "status": "completed",
        "steps": [{"type": "model_output", "content": [{"type": "text", "text": "hi"}]}],
    },
    "bedrock": {"output": {"message": {"content": [{"text": "hi"}]}}, "stopReason": "end_turn"},
    "native": {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]},
}


@pytest.mark.parametrize("wire", DEFINITIONS)
def test_a_definition_is_the_one_of_a_request(wire: str) -> None:
    assert encode_definitions([TIDE], wire) == [DEFINITIONS[wire]]


@pytest.mark.parametrize("wire", RESULTS)
def test_a_result_is_the_one_of_a_request(wire: str) -> None:
    assert encode_result(FAILED, wire) == RESULTS[wire]


@pytest.mark.parametrize("wire", BODIES)
def test_calls_are_read_from_bytes_and_from_json_alike(wire: str) -> None:
    calls = decode_tool_calls(BODIES[wire], wire)
    assert calls == decode_tool_calls(encode_json(BODIES[wire]), wire)
    assert [(call.id, call.name, call.arguments) for call in calls] == [("call_1", "tide", {"port": "Brest"})]
    assert isinstance(calls[0], ToolCall)


@pytest.mark.parametrize("wire", SILENT)
def test_no_calls_are_an_empty_list(wire: str) -> None:
    assert decode_tool_calls(SILENT[wire], wire) == []


@pytest.mark.parametrize("wire", BODIES)
@pytest.mark.parametrize("body", [{}, b"{}", "{}", {"id": "x"}])
def test_a_body_without_any_content_has_no_calls(wire: str, body: Any) -> None:
    assert decode_tool_calls(body, wire) == []


@pytest.mark.parametrize("wire", BODIES)
def test_a_body_that_is_not_json_is_malformed_and_an_error_is_one(wire: str) -> None:
    with pytest.raises(WireError):
        decode_tool_calls(b"<html>", wire)
    with pytest.raises(ProviderError, match="overloaded"):
        decode_tool_calls({"error": {"type": "overloaded_error", "message": "overloaded"}}, wire)


def test_malformed_arguments_are_not_swallowed() -> None:
    function = {"name": "tide", "arguments": "{"}
    choice = {"message": {"tool_calls": [{"id": "a", "function": function}]}, "finish_reason": "tool_calls"}
    with pytest.raises(MalformedToolCall):
        decode_tool_calls({"choices": [choice]}, "openai")


def _with_another_call(wire: str, call: Any) -> Any:
    """The body of BODIES with one more call."""
    body = json.loads(encode_json(BODIES[wire]))
    calls: Any = body
    for key in CALLS[wire]:
        calls = calls[key]
    calls.append(call)
    return body


CALLS: dict[str, tuple[str | int, ...]] = {
    "openai": ("choices", 0, "message", "tool_calls"),
    "openai_responses": ("output",),
    "anthropic": ("content",),
    "ollama": ("message", "tool_calls"),
    "google": ("candidates", 0, "content", "parts"),
    "bedrock": ("output", "message", "content"),
    "native": ("choices", 0, "message", "tool_calls"),
}


@pytest.mark.parametrize("wire", CALLS)
@pytest.mark.parametrize("call", ["now", 3])
def test_a_call_that_cannot_be_read_does_not_hide_the_others(wire: str, call: Any) -> None:
    with pytest.raises(MalformedToolCall):
        decode_tool_calls(_with_another_call(wire, call), wire)


@pytest.mark.parametrize("function", ["now", {"name": 3, "arguments": "{}"}, {"name": "now", "arguments": "[1]"}])
def test_a_malformed_function_does_not_hide_the_other_calls(function: Any) -> None:
    with pytest.raises(MalformedToolCall):
        decode_tool_calls(_with_another_call("openai", {"id": "b", "function": function}), "openai")


@pytest.mark.parametrize(
    ("wire", "call"),
    [
        ("openai", {"id": "b", "function": {"arguments": "{}"}}),
        ("anthropic", {"type": "tool_use", "id": "b", "input": {}}),
        ("bedrock", {"toolUse": 3}),
        ("ollama", {"function": {"arguments": {}}}),
    ],
)
def test_a_call_without_a_name_is_malformed(wire: str, call: Any) -> None:
    with pytest.raises(MalformedToolCall):
        decode_tool_calls(_with_another_call(wire, call), wire)


def test_a_call_that_the_length_limit_cut_off_is_not_lost() -> None:
    body = _with_another_call("openai", {"id": "b", "function": {"name": "now", "arguments": '{"zone'}})
    body["choices"][0]["finish_reason"] = "length"
    with pytest.raises(MalformedToolCall, match="tool call now: the length limit cut its arguments off"):
        decode_tool_calls(body, "openai")


@pytest.mark.parametrize("body", ['{"choices": [{"message": "hi"}]}', '{"choices": 3, "a": [{"tool_calls": []}, 1]}'])
def test_a_malformed_body_without_a_call_has_none(body: str) -> None:
    assert decode_tool_calls(body, "openai") == []


def test_wrong_values_are_refused_by_name() -> None:
    wrong: Any = 3
    with pytest.raises(InvalidRequest, match=r"^body must be the bytes or the JSON object of a response, got 3$"):
        decode_tool_calls(wrong, "openai")
    with pytest.raises(InvalidRequest, match=r"^result must be a ToolResult, got 3$"):
        encode_result(wrong, "openai")
    with pytest.raises(InvalidRequest, match=r"^wire must be one of .*, got 3$"):
        encode_result(FAILED, wrong)


def test_tools_are_checked_and_may_be_functions() -> None:
    def now() -> str:
        """The time."""
        return "noon"

    assert encode_definitions(now, "anthropic")[0]["description"] == "The time."
    for tools, why in (
        ([Tool(name="my tool")], "a tool name must have"),
        ([TIDE, TIDE], "tools must have unique names"),
        ([Tool(name="a", parameters={"type": "array"})], "parameters must be a schema of type 'object'"),
        ([Tool(name="a", parameters={"required": 3})], "schema must be a valid JSON Schema"),
        ([Tool(name="a", parameters={"default": object()})], "parameters must be JSON"),
    ):
        with pytest.raises(InvalidTool, match=why):
            encode_definitions(tools, "openai")


def test_an_unknown_wire_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match=r"wire must be one of openai, anthropic, .*, got 'smtp'"):
        encode_definitions([TIDE], "smtp")
    with pytest.raises(SetupError, match=r"name must be one of anthropic, .*, got 'smtp'"):
        wires.get("smtp")


def test_a_wire_is_imported_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    first = wires.get("ollama")
    monkeypatch.setattr(wires, "_LOADED", {})
    assert wires.get("ollama") is first


@pytest.mark.parametrize("wire", ["openai", "ollama", "google"])
def test_a_picture_in_a_result_that_is_text_is_refused(wire: str) -> None:
    with pytest.raises(Unsupported, match="in the next user message"):
        encode_result(ToolResult(id="c", name="see", content=(Image(data=b"1", mime="image/png"),)), wire)


def test_a_call_that_comes_twice_is_one() -> None:
    call = BODIES["openai"]["choices"][0]["message"]["tool_calls"][0]
    calls = decode_tool_calls(_with_another_call("openai", call), "openai")
    assert [each.id for each in calls] == ["call_1"]
