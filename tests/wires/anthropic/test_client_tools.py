"""Anthropic's tools that the client runs, on other wires and back."""

import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.http import HttpRequest
from dragoman.schema.cost_bounds import check_size
from dragoman.types import Finish, Opaque, Request, Response, Tool, ToolCall, assistant
from tests.support.wires.conversations import NATIVE, target

ANTHROPIC = wires.get("anthropic")
OWN = target("anthropic/claude-opus-4-8")
FOREIGN = [
    target("openai/gpt-4.1"),
    target("openai-responses/gpt-5"),
    target("google/gemini-2.5-flash"),
    target("ollama/llama3.3"),
    NATIVE,
]
TOOLS: list[dict[str, Any]] = [
    {"type": "bash_20250124", "name": "bash"},
    {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 1000},
    {"type": "memory_20250818", "name": "memory", "cache_control": {"type": "ephemeral"}},
    {"type": "computer_20251124", "name": "computer", "display_width_px": 1024, "display_height_px": 768},
]
NAMES = [tool["name"] for tool in TOOLS]
REFERENCE = {"type": "tool_reference", "tool_name": "tide"}
LOOP: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [REFERENCE]}]},
]


def decoded(**fields: Any) -> Request:
    body = {"model": "m", "max_tokens": 9, "messages": LOOP, **fields}
    return ANTHROPIC.server.decode_request(
        HttpRequest(method="POST", path="/v1/messages", body=json.dumps(body).encode())
    )[1]


@pytest.mark.parametrize("to", FOREIGN, ids=lambda to: to.wire)
def test_every_wire_offers_them_as_functions(to: Any) -> None:
    http = wires.get(to.wire).client.encode_request(decoded(tools=TOOLS), to)
    for name in NAMES:
        assert f'"name":"{name}"'.encode() in http.body
    assert b"1024 x 768" in http.body
    assert b"A tool that can be called now: tide" in http.body
    assert [notice for notice in http.notices if notice.loss and "max_tokens" not in notice.what] == []


def test_their_own_wire_gets_them_unchanged() -> None:
    http = ANTHROPIC.client.encode_request(decoded(tools=TOOLS), OWN)
    body = json.loads(http.body)
    assert body["tools"] == TOOLS
    assert body["messages"] == LOOP


def test_the_schemas_are_valid_and_have_the_published_members() -> None:
    tools = {tool.name: tool for tool in decoded(tools=TOOLS).tools if isinstance(tool, Tool)}
    assert [*tools] == NAMES
    members = {name: set(tool.parameters["properties"]) for name, tool in tools.items() if tool.parameters is not None}
    assert members["bash"] == {"command", "restart"}
    assert {"command", "path", "old_str", "new_str", "view_range"} <= members["str_replace_based_edit_tool"]
    assert {"old_path", "new_path"} <= members["memory"]
    assert {"action", "coordinate", "text"} <= members["computer"]
    for tool in tools.values():
        assert tool.parameters is not None
        check_size(tool.parameters)


def test_a_call_goes_back_as_the_client_knows_it() -> None:
    call = ToolCall(id="c1", name="bash", arguments={"command": "ls"})
    response = Response(message=assistant(call), finish=Finish(reason="tool_calls"))
    body = json.loads(ANTHROPIC.server.encode_body(response, decoded(tools=TOOLS)).body)
    assert body["content"] == [{"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}}]


def test_a_choice_may_name_one() -> None:
    request = decoded(tools=TOOLS, tool_choice={"type": "tool", "name": "bash"})
    http = wires.get("openai_chat").client.encode_request(request, FOREIGN[0])
    assert json.loads(http.body)["tool_choice"] == {"type": "function", "function": {"name": "bash"}}


@pytest.mark.parametrize("tool", [{"type": "tool_search_20260318", "name": "search"}, {"type": "bash_20250124"}])
def test_other_tools_belong_to_the_provider(tool: dict[str, Any]) -> None:
    assert decoded(tools=[tool]).tools == (Opaque(wire="anthropic", data=tool),)


def test_a_reference_without_a_name_stays_as_it_is() -> None:
    block = {"type": "tool_reference"}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [block]}
    request = decoded(messages=[*LOOP[:2], {"role": "user", "content": [result]}])
    assert request.messages[-1].tool_results[0].content == (Opaque(wire="anthropic", data=block),)
