"""Tools that a tool search of the client finds: the definitions before the conversation never change."""

import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.errors import InvalidTool
from dragoman.events import CallDelta, Event, Finished, PartEnded, PartStarted, Started
from dragoman.targets.target import Target
from dragoman.testing import assert_prefix_stable
from dragoman.types import Finish, Request, Response, Tool, ToolCall, assistant
from dragoman.wires.common.server_endpoints import StoredResponse
from dragoman.wires.openai_responses.found_tools import CALLER, FoundCallReader, as_call_of_caller, as_call_of_found
from dragoman.wires.openai_responses.parts import returned_call
from dragoman.wires.openai_responses.previous_response import PreviousResponse
from tests.wires.test_client_tools import (
    CUSTOM,
    FIND,
    FOREIGN,
    LOOP,
    NAMESPACE,
    OWN,
    RESPONSES,
    SEARCH,
    answer,
    decoded,
    sent,
)

ASK, FOUND = LOOP[-2:]
CALLS: list[dict[str, Any]] = [
    {"type": "function_call", "call_id": "d1", "name": "find", "namespace": "crm", "arguments": '{"a": 1}'},
    {"type": "function_call_output", "call_id": "d1", "output": "42"},
    {"type": "custom_tool_call", "call_id": "d2", "name": "run", "namespace": "crm", "input": "select 1"},
    {"type": "custom_tool_call_output", "call_id": "d2", "output": "1"},
]
AGAIN: list[dict[str, Any]] = [
    {**ASK, "call_id": "c7"},
    {**FOUND, "call_id": "c7", "tools": [CUSTOM, FIND]},
    {"type": "function_call", "call_id": "d3", "name": "find", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "d3", "output": "43"},
]


def call_of_caller(name: object, arguments: object, id: str = "t1") -> ToolCall:
    return ToolCall(id=id, name=CALLER, arguments={"name": name, "arguments": arguments})


@pytest.mark.parametrize("to", FOREIGN, ids=lambda to: to.wire)
def test_a_search_does_not_move_the_beginning(to: Target) -> None:
    items = [ASK, FOUND, *CALLS, *AGAIN]
    lengths = [0, 2, 4, 6, 8, 10]
    requests = [decoded(*items[:length], tools=[SEARCH]) for length in lengths]
    bodies = [wires.get(to.wire).client.encode_request(request, to) for request in requests]
    assert_prefix_stable(bodies)
    assert [tool.name for tool in requests[-1].tools if isinstance(tool, Tool)] == ["tool_search", CALLER]
    text = bodies[-1].body.decode()
    assert "Call it by call_found_tool" in text
    calls = [call for message in requests[-1].messages for call in message.tool_calls]
    assert [call.name for call in calls] == ["tool_search", CALLER, CALLER, "tool_search", CALLER]
    assert calls[1].arguments == {"name": "crm__find", "arguments": {"a": 1}}
    assert calls[2].arguments == {"name": "crm__run", "arguments": {"input": "select 1"}}
    results = [result for message in requests[-1].messages for result in message.tool_results]
    assert [result.name for result in results] == [call.name for call in calls]


def test_the_own_wire_gets_everything_as_it_was() -> None:
    items = [ASK, FOUND, *CALLS, *AGAIN]
    body = sent(decoded(*items, tools=[SEARCH]), OWN)
    assert body["tools"] == [SEARCH]
    assert body["input"][1:] == items


def test_a_call_goes_back_as_a_call_of_the_found_tool() -> None:
    request = decoded(ASK, FOUND, *AGAIN[:2], tools=[SEARCH])
    items = answer(
        request,
        call_of_caller("crm__find", {"a": 1}),
        call_of_caller("crm__run", {"input": "select 1"}, "t2"),
        call_of_caller("find", '{"a": 2}', "t3"),
        call_of_caller("unknown", 3, "t4"),
        ToolCall(id="t5", name=CALLER, arguments={"tool": "find"}),
        ToolCall(id="t6", name=CALLER, arguments={"arguments": {"b": 1}, "name": "find"}),
    )
    names = [(item["type"], item["name"], item.get("namespace")) for item in items]
    assert names == [
        ("function_call", "find", "crm"),
        ("custom_tool_call", "run", "crm"),
        ("function_call", "find", None),
        ("function_call", "unknown", None),
        ("function_call", CALLER, None),
        ("function_call", "find", None),
    ]
    assert items[1]["input"] == "select 1"
    texts = [item["arguments"] for item in items if "arguments" in item]
    assert texts == ['{"a":1}', '{"a": 2}', '{"input":3}', '{"tool":"find"}', '{"b":1}']
    # What the client sends back is the same call again.
    for item, call in zip(items[:3], ({"a": 1}, {"input": "select 1"}, {"a": 2}), strict=True):
        again = decoded(ASK, FOUND, *AGAIN[:2], item, tools=[SEARCH]).messages[-1].tool_calls[0]
        assert (again.name, again.arguments["arguments"]) == (CALLER, call)


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_the_arguments_of_a_found_tool_come_in_fragments(size: int) -> None:
    inner: dict[str, Any] = {"text": 'a } " \\ {b', "deep": {"x": [{}]}}
    text = json.dumps({"name": "crm__find", "arguments": inner})
    call = ToolCall(id="t1", name=CALLER, arguments=json.loads(text), raw=text)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    events: list[Event] = [Started(id="r1"), PartStarted(index=0, kind="tool_call", id="t1", name=CALLER)]
    events += [CallDelta(index=0, text=piece) for piece in pieces]
    events += [PartEnded(index=0, part=call), Finished(finish=Finish(reason="tool_calls"))]
    encoder = RESPONSES.server.stream_encoder(decoded(ASK, FOUND, tools=[SEARCH]))
    frames = b"".join(map(encoder.feed, events)).decode().split("\n\n")
    data = [json.loads(frame.partition("data: ")[2]) for frame in frames if "data: " in frame]
    added = next(event["item"] for event in data if event["type"] == "response.output_item.added")
    assert (added["name"], added["namespace"], added["arguments"]) == ("find", "crm", "")
    deltas = [event["delta"] for event in data if event["type"] == "response.function_call_arguments.delta"]
    done = next(event["item"] for event in data if event["type"] == "response.output_item.done")
    assert "".join(deltas) == done["arguments"] == json.dumps(inner)
    assert size > 7 or len(deltas) > 2
    assert data[-1]["response"]["output"] == [done]


def test_another_form_of_the_arguments_is_written_at_the_end() -> None:
    reader = FoundCallReader()
    assert reader.read('{"arguments": {}, "name": "x"}') == ""
    assert reader.read("y" * 2000) == ""
    assert (reader.name, reader.is_over) == (None, True)
    assert reader.read("more") == ""


def test_a_text_that_is_no_json_stays_a_call() -> None:
    broken = ToolCall(id="t1", name="find", raw="{cut")
    wrapped = as_call_of_caller(broken)
    assert (wrapped.arguments, wrapped.raw) == ({"name": "find", "arguments": {}}, None)
    spaced = ToolCall(id="t1", name="find", arguments={"a": 1}, raw='{"a" : 1}')
    assert as_call_of_found(as_call_of_caller(spaced)).raw == '{"a" : 1}'
    assert as_call_of_caller(wrapped) is wrapped


def test_a_collision_is_an_error() -> None:
    other = {**FIND, "name": "crm__find"}
    with pytest.raises(InvalidTool, match="crm__find"):
        decoded(ASK, FOUND, tools=[SEARCH, other])
    with pytest.raises(InvalidTool, match="crm__find"):
        decoded(ASK, {**FOUND, "tools": [NAMESPACE, other]}, tools=[SEARCH])
    # A tool that is found again, or was offered, is the same tool.
    tools = decoded(ASK, FOUND, {**ASK, "call_id": "c8"}, {**FOUND, "call_id": "c8"}, tools=[SEARCH, NAMESPACE]).tools
    assert [tool.name for tool in tools if isinstance(tool, Tool)] == ["tool_search", "crm__find", "crm__run", CALLER]


def test_without_the_search_the_tools_are_offered() -> None:
    tools = decoded(ASK, {**FOUND, "tools": [FIND]}, tools=[]).tools
    assert [tool.name for tool in tools if isinstance(tool, Tool)] == ["find"]
    nothing = decoded(ASK, {**FOUND, "tools": []}, tools=[SEARCH])
    assert nothing.messages[-1].tool_results[0].text == "No tools were found."


def test_a_hosted_tool_that_a_search_found_is_offered() -> None:
    tools = decoded(ASK, {**FOUND, "tools": [FIND, {"type": "web_search"}]}, tools=[SEARCH]).tools
    assert [getattr(tool, "name", "hosted") for tool in tools] == ["tool_search", CALLER, "hosted"]


def test_an_additional_tool_that_comes_again_changes_nothing() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [FIND]}
    tools = decoded(item, item, tools=[SEARCH]).tools
    assert [tool.name for tool in tools if isinstance(tool, Tool)] == ["tool_search", CALLER, "find"]


def test_a_stored_answer_continues_likewise() -> None:
    first = decoded(ASK, FOUND, tools=[SEARCH])
    call = call_of_caller("crm__find", {"a": 1}, "d1")
    response = Response(id="resp_1", message=assistant(call), finish=Finish(reason="tool_calls"))
    stored: StoredResponse = PreviousResponse().record(first, response)
    following = Request(messages=decoded(CALLS[1], tools=[], store=True).messages[1:], tools=first.tools)
    joined = PreviousResponse().join(stored, following)
    calls = [call for message in joined.messages for call in message.tool_calls]
    assert (calls[-1].name, calls[-1].arguments) == (CALLER, call.arguments)
    assert [tool.name for tool in joined.tools if isinstance(tool, Tool)] == ["tool_search", CALLER]
    assert joined.messages[-1].tool_results[0].name == CALLER


def test_a_call_is_known_as_the_client_sends_it_back() -> None:
    request = decoded(ASK, FOUND, tools=[SEARCH, {"type": "local_shell"}])
    plain = ToolCall(id="t1", name="tide", arguments={"port": "Brest"})
    assert returned_call(request)(plain) is plain
    shell = ToolCall(id="t1", name="local_shell", arguments={"command": ["ls"], "env": {}})
    assert returned_call(request)(shell).arguments == {"command": ["ls"]}
    run = ToolCall(id="t1", name=CALLER, arguments={"name": "crm__run", "arguments": {"sql": "select 1"}})
    assert returned_call(request)(run).arguments == {"name": "crm__run", "arguments": {"input": "select 1"}}
