"""Tools that the client runs cross every wire: offered as functions, called as what the client offered."""

import base64
import json
from typing import Any

import pytest
from msgspec.structs import replace
from openai.types.responses import (
    ResponseApplyPatchToolCall,
    ResponseComputerToolCall,
    ResponseCustomToolCall,
    ResponseCustomToolCallInputDeltaEvent,
    ResponseCustomToolCallInputDoneEvent,
    ResponseFunctionShellToolCall,
    ResponseFunctionToolCall,
    ResponseToolSearchCall,
)
from openai.types.responses.response_output_item import LocalShellCall

from dragoman import wires
from dragoman.errors import InvalidRequest, InvalidTool
from dragoman.events import CallDelta, Event, Finished, PartEnded, PartStarted, Started, to_events
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Finish, Image, Message, Request, Response, Tool, ToolCall, assistant
from dragoman.wires.openai_responses.client_tools import decode_client_output
from tests.support.images import picture
from tests.support.wires.conversations import NATIVE, target
from tests.wires.test_call_deltas import with_fragments

RESPONSES = wires.get("openai_responses")
PATCH = '*** Begin Patch\n*** Add File: a\n+hé "x"\n*** End Patch'
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: begin hunk end"}
CUSTOM: dict[str, Any] = {"type": "custom", "name": "apply_patch", "description": "Edit files.", "format": GRAMMAR}
FIND: dict[str, Any] = {
    "type": "function",
    "name": "find",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}
RUN: dict[str, Any] = {"type": "custom", "name": "run", "description": "Run SQL."}
NAMESPACE: dict[str, Any] = {"type": "namespace", "name": "crm", "description": "Customers", "tools": [FIND, RUN]}
SEARCH: dict[str, Any] = {
    "type": "tool_search",
    "execution": "client",
    "description": "Find tools.",
    "parameters": {"type": "object"},
}
HI: dict[str, Any] = {"type": "message", "role": "user", "content": "hi"}
FOREIGN = [
    target("anthropic/claude-sonnet-4-5"),
    target("openai/gpt-4.1"),
    target("google/gemini-2.5-flash"),
    target("ollama/llama3.3"),
    target("bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0"),
    NATIVE,
]
OWN = target("openai-responses/gpt-5")


def decoded(*items: dict[str, Any], tools: list[dict[str, Any]], **fields: Any) -> Request:
    body = {"model": "m", "input": [HI, *items], "tools": tools, **fields}
    http = HttpRequest(method="POST", path="/v1/responses", body=json.dumps(body).encode())
    return RESPONSES.server.decode_request(http)[1]


def sent(request: Request, to: Target) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(wires.get(to.wire).client.encode_request(request, to).body)
    return body


def answer(request: Request, *calls: ToolCall) -> list[dict[str, Any]]:
    """The output items that a client gets for calls of another wire."""
    response = Response(id="r1", message=assistant(*calls), finish=Finish(reason="tool_calls"))
    body = json.loads(RESPONSES.server.encode_body(response, request).body)
    assert body["status"] == "completed"
    items: list[dict[str, Any]] = body["output"]
    return items


def streamed(request: Request, call: ToolCall, size: int) -> list[dict[str, Any]]:
    """The events that a client gets while a call arrives in fragments."""
    response = Response(id="r1", message=assistant(call), finish=Finish(reason="tool_calls"))
    encoder = RESPONSES.server.stream_encoder(request)
    data = b"".join(encoder.feed(event) for event in with_fragments(response, size)).decode()
    return [json.loads(line[6:]) for line in data.splitlines() if line.startswith("data: ")]


TOOLS: list[dict[str, Any]] = [
    CUSTOM,
    NAMESPACE,
    {"type": "local_shell"},
    {"type": "shell"},
    SEARCH,
    {"type": "computer"},
]


@pytest.mark.parametrize("to", FOREIGN, ids=lambda to: to.wire)
def test_every_wire_offers_them_as_functions(to: Target) -> None:
    request = decoded(tools=TOOLS)
    http = wires.get(to.wire).client.encode_request(request, to)
    for name in ("apply_patch", "crm__find", "crm__run", "local_shell", "shell", "tool_search", "computer"):
        assert f'"name":"{name}"'.encode() in http.body
    assert b"start: begin hunk end" in http.body
    assert [(notice.kind, notice.what) for notice in http.notices if notice.loss] == [("changed", "tool apply_patch")]
    assert not any("provider" in notice.why for notice in http.notices)


def test_their_own_wire_gets_them_unchanged() -> None:
    body = sent(decoded(tools=TOOLS), OWN)
    assert body["tools"] == TOOLS
    assert wires.get("openai_responses").client.encode_request(decoded(tools=TOOLS), OWN).notices == ()


def test_the_function_of_a_custom_tool_takes_its_input() -> None:
    tool = decoded(tools=[CUSTOM]).tools[0]
    assert isinstance(tool, Tool)
    assert tool.description == "Edit files.\n\nThe input must satisfy this lark grammar:\nstart: begin hunk end"
    assert tool.parameters is not None
    assert tool.parameters["required"] == ["input"]
    plain = decoded(tools=[{"type": "custom", "name": "note", "format": {"type": "text"}}]).tools[0]
    assert isinstance(plain, Tool)
    assert plain.description is None


# Calls ----------------------------------------------------------------------------------------------------------------


def test_a_call_of_a_custom_tool_goes_back_with_its_raw_input() -> None:
    request = decoded(tools=[CUSTOM])
    (item,) = answer(request, ToolCall(id="c1", name="apply_patch", arguments={"input": PATCH}))
    assert ResponseCustomToolCall.model_validate(item, strict=True).input == PATCH
    assert item["type"] == "custom_tool_call"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({"patch": PATCH}, PATCH), ({"input": 1}, '{"input":1}'), ({}, ""), ({"a": "x", "b": "y"}, '{"a":"x","b":"y"}')],
)
def test_a_model_that_does_not_keep_to_the_schema_is_understood(arguments: dict[str, Any], text: str) -> None:
    (item,) = answer(decoded(tools=[CUSTOM]), ToolCall(id="c1", name="apply_patch", arguments=arguments))
    assert item["input"] == text


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_input_of_a_custom_tool_is_streamed_by_its_own_events(size: int) -> None:
    call = ToolCall(id="c1", name="apply_patch", arguments={"input": PATCH})
    events = streamed(decoded(tools=[CUSTOM]), call, size)
    kinds = [event["type"].removeprefix("response.") for event in events]
    deltas = [event for event in events if event["type"] == "response.custom_tool_call_input.delta"]
    assert kinds[2] == "output_item.added"
    assert events[2]["item"]["type"] == "custom_tool_call"
    assert "".join(ResponseCustomToolCallInputDeltaEvent.model_validate(event).delta for event in deltas) == PATCH
    assert (len(deltas) > 1) == (size < 1000)
    assert kinds[-3:] == ["custom_tool_call_input.done", "output_item.done", "completed"]
    assert ResponseCustomToolCallInputDoneEvent.model_validate(events[-3]).input == PATCH
    assert events[-2]["item"]["input"] == PATCH
    assert not any("function_call" in kind for kind in kinds)


def test_a_call_in_a_namespace_goes_back_with_both_names() -> None:
    request = decoded(tools=[NAMESPACE])
    find, run = answer(
        request,
        ToolCall(id="c1", name="crm__find", arguments={"a": 1}),
        ToolCall(id="c2", name="crm__run", arguments={"input": "SELECT 1"}),
    )
    call = ResponseFunctionToolCall.model_validate(find, strict=True)
    assert (call.name, call.namespace, call.arguments) == ("find", "crm", '{"a":1}')
    custom = ResponseCustomToolCall.model_validate(run, strict=True)
    assert (custom.name, custom.namespace, custom.input) == ("run", "crm", "SELECT 1")
    events = streamed(request, ToolCall(id="c1", name="crm__find", arguments={"a": 1}), 2)
    assert events[2]["item"]["namespace"] == "crm"
    assert events[-2]["item"]["name"] == "find"


SPECIAL: list[tuple[dict[str, Any], Any, dict[str, Any], str]] = [
    ({"type": "local_shell"}, LocalShellCall, {"command": ["ls"]}, "action"),
    ({"type": "shell"}, ResponseFunctionShellToolCall, {"commands": ["ls"], "timeout_ms": 5}, "action"),
    ({"type": "shell", "environment": {"type": "local"}}, ResponseFunctionShellToolCall, {"commands": []}, "action"),
    (
        {"type": "apply_patch"},
        ResponseApplyPatchToolCall,
        {"type": "create_file", "path": "a", "diff": "+a"},
        "operation",
    ),
    (SEARCH, ResponseToolSearchCall, {"query": "mail"}, "arguments"),
    (
        {"type": "computer_use_preview", "display_width": 800, "display_height": 600, "environment": "browser"},
        ResponseComputerToolCall,
        {"type": "click", "button": "left", "x": 1, "y": 2},
        "action",
    ),
]


@pytest.mark.parametrize(("tool", "model", "arguments", "payload"), SPECIAL, ids=lambda value: str(value)[:30])
def test_a_call_of_a_special_tool_goes_back_as_its_item(
    tool: dict[str, Any], model: Any, arguments: dict[str, Any], payload: str
) -> None:
    request = decoded(tools=[tool])
    call = ToolCall(id="c1", name=tool["type"], arguments=arguments)
    (item,) = answer(request, call)
    assert model.model_validate(item, strict=True).call_id == "c1"
    assert item[payload].items() >= arguments.items()
    events = streamed(request, call, 3)
    assert [event["type"] for event in events[2:4]] == ["response.output_item.added", "response.output_item.done"]
    assert events[3]["item"] == {**item, "id": events[3]["item"]["id"]}
    # What comes back of it in the next turn is the same call.
    again = decoded(item, tools=[tool]).messages[-1].tool_calls[0]
    assert (again.id, again.name, again.arguments) == ("c1", tool["type"], arguments)


COMPUTER = {"type": "computer"}
CLICK = {"type": "click", "button": "left", "x": 1, "y": 2}
SCREENSHOT = f"data:image/png;base64,{base64.b64encode(picture(2, 2)).decode()}"


@pytest.mark.parametrize("arguments", [{"actions": [CLICK]}, {"actions": CLICK}, CLICK], ids=["list", "one", "bare"])
def test_a_computer_is_used_by_actions(arguments: dict[str, Any]) -> None:
    request = decoded(tools=[COMPUTER])
    (item,) = answer(request, ToolCall(id="c1", name="computer", arguments=arguments))
    assert ResponseComputerToolCall.model_validate({"id": "cu_1", **item}, strict=True).call_id == "c1"
    assert item["actions"] == [CLICK]
    assert "action" not in item
    assert streamed(request, ToolCall(id="c1", name="computer", arguments=arguments), 3)[3]["item"]["actions"] == [
        CLICK
    ]
    assert decoded(item, tools=[COMPUTER]).messages[-1].tool_calls[0].arguments == {"actions": [CLICK]}


def test_a_computer_call_without_actions_has_none() -> None:
    (item,) = answer(decoded(tools=[COMPUTER]), ToolCall(id="c1", name="computer"))
    assert item["actions"] == []
    del item["actions"]
    assert decoded(item, tools=[COMPUTER]).messages[-1].tool_calls[0].arguments == {"actions": []}


def test_the_screen_has_its_size() -> None:
    tool = decoded(tools=[SPECIAL[-1][0]]).tools[0]
    assert isinstance(tool, Tool)
    assert tool.description is not None
    assert tool.description.endswith("The screen has 800 x 600 pixels.")


USED: list[dict[str, Any]] = [
    {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "c1",
        "actions": [CLICK],
        "pending_safety_checks": [],
        "status": "completed",
    },
    {
        "type": "computer_call_output",
        "call_id": "c1",
        "output": {"type": "computer_screenshot", "image_url": SCREENSHOT},
    },
]


@pytest.mark.parametrize("to", FOREIGN, ids=lambda to: to.wire)
def test_a_screenshot_crosses_every_wire(to: Target) -> None:
    request = decoded(*USED, tools=[COMPUTER])
    text = wires.get(to.wire).client.encode_request(request, to).body.decode()
    assert SCREENSHOT.partition(",")[2] in text
    assert '"actions"' in text.replace("\\", "")
    assert sent(request, OWN)["input"] == [HI, *USED]


def test_a_screenshot_by_its_address_or_its_file() -> None:
    output = {**USED[1], "output": {"type": "computer_screenshot", "image_url": "https://x.example/a.png"}}
    (result,) = decoded(USED[0], output, tools=[COMPUTER]).messages[-1].tool_results
    assert result.parts == (Image(url="https://x.example/a.png"),)
    output["output"] = {"type": "computer_screenshot", "file_id": "file_1"}
    (result,) = decoded(USED[0], output, tools=[COMPUTER]).messages[-1].tool_results
    assert "file_1" in result.text
    output["output"] = {"type": "computer_screenshot", "image_url": "data:image/png;base64,!"}
    with pytest.raises(InvalidRequest, match=r"output\.image_url"):
        decoded(USED[0], output, tools=[COMPUTER])


def test_a_function_of_another_name_stays_a_function() -> None:
    (item,) = answer(decoded(tools=TOOLS), ToolCall(id="c1", name="now"))
    assert (item["type"], item["name"]) == ("function_call", "now")


def test_a_call_of_this_wire_keeps_its_own_form() -> None:
    body: dict[str, Any] = {
        "id": "r",
        "status": "completed",
        "output": [
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "c1",
                "name": "find",
                "namespace": "crm",
                "arguments": "{}",
            },
            {
                "type": "shell_call",
                "id": "sh_1",
                "call_id": "c2",
                "action": {"commands": ["ls"]},
                "status": "completed",
            },
        ],
    }
    events = RESPONSES.client.decode_body(json.dumps(body).encode())
    calls = [event.part for event in events if isinstance(event, PartEnded)]
    assert [call.name for call in calls if isinstance(call, ToolCall)] == ["crm__find", "shell"]
    items = answer(decoded(tools=[NAMESPACE]), *(call for call in calls if isinstance(call, ToolCall)))
    assert items[0] == {**body["output"][0], "status": "completed"}
    assert items[1] == body["output"][1]


# Histories ------------------------------------------------------------------------------------------------------------

LOOP: list[dict[str, Any]] = [
    {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": PATCH},
    {"type": "custom_tool_call_output", "call_id": "c1", "output": "Done"},
    {"type": "function_call", "call_id": "c2", "name": "find", "namespace": "crm", "arguments": '{"a": 1}'},
    {"type": "function_call_output", "call_id": "c2", "output": "42"},
    {
        "type": "local_shell_call",
        "id": "c3",
        "status": "completed",
        "action": {"type": "exec", "env": {}, "command": []},
    },
    {"type": "local_shell_call_output", "id": "c3", "output": "ok"},
    {"type": "shell_call", "call_id": "c4", "action": {"commands": ["ls"]}},
    {
        "type": "shell_call_output",
        "call_id": "c4",
        "output": [{"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    {"type": "apply_patch_call", "call_id": "c5", "operation": {"type": "delete_file", "path": "a"}},
    {"type": "apply_patch_call_output", "call_id": "c5", "status": "failed", "output": "no such file"},
    {"type": "tool_search_call", "call_id": "c6", "execution": "client", "arguments": {"query": "mail"}},
    {"type": "tool_search_output", "call_id": "c6", "execution": "client", "tools": [NAMESPACE, CUSTOM]},
]


def test_a_history_goes_back_to_its_own_wire_unchanged() -> None:
    assert sent(decoded(*LOOP, tools=[SEARCH]), OWN)["input"] == [HI, *LOOP]


@pytest.mark.parametrize("to", FOREIGN, ids=lambda to: to.wire)
def test_a_history_of_calls_is_mapped_likewise(to: Target) -> None:
    request = decoded(*LOOP, tools=[SEARCH])
    http = wires.get(to.wire).client.encode_request(request, to)
    text = http.body.decode()
    for word in ("crm__find", "Done", "local_shell", "a.txt", "no such file", "tool_search", "delete_file"):
        assert word in text
    for name in ("crm__find", "crm__run", "apply_patch"):
        assert f"{name}: " in text
    losses = [(notice.kind, notice.what) for notice in http.notices if notice.loss]
    assert losses == ([] if to is NATIVE else [("changed", "block of openai_responses")])
    results = [result for message in request.messages for result in message.tool_results]
    assert [result.name for result in results] == [
        "apply_patch",
        "crm__find",
        "local_shell",
        "shell",
        "apply_patch",
        "tool_search",
    ]
    assert [result.is_error for result in results] == [False, False, False, False, True, False]


def test_additional_tools_keep_their_place_and_are_offered_elsewhere() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [CUSTOM, {"type": "web_search"}]}
    rules = {"type": "message", "role": "developer", "content": "Be brief."}
    body = {"model": "m", "input": [item, rules, HI]}
    http = HttpRequest(method="POST", path="/v1/responses", body=json.dumps(body).encode())
    _, request = RESPONSES.server.decode_request(http)
    assert sent(request, OWN)["input"] == [item, rules, HI]
    assert "tools" not in sent(request, OWN)
    foreign = sent(request, FOREIGN[0])
    assert foreign["system"] == "Be brief."
    assert foreign["messages"] == [{"role": "user", "content": "hi"}]
    assert [tool["name"] for tool in foreign["tools"]] == ["apply_patch", "web_search"]


def test_what_a_client_may_get_wrong_is_read_or_refused() -> None:
    search = {**LOOP[-2], "arguments": '{"query":"mail"}'}
    output = {**LOOP[-1], "tools": [1, {"type": "namespace", "name": "crm", "tools": [2, FIND]}]}
    http = HttpRequest(
        method="POST",
        path="/v1/responses",
        body=json.dumps({"model": "m", "input": [HI, search, {**output, "tools": [FIND]}], "tools": []}).encode(),
    )
    _, request = RESPONSES.server.decode_request(http)
    assert request.messages[1].tool_calls[0].arguments == {"query": "mail"}
    with pytest.raises(InvalidRequest, match=r"input\.tools\[0\] must be an object"):
        decoded(search, output, tools=[])
    result = decode_client_output(output, {"c6": "tool_search"})
    assert result.text == "Tools that can be called now: crm__find"


def test_the_input_of_a_custom_call_of_this_wire_comes_in_fragments() -> None:
    call = ToolCall(id="c1", name="apply_patch", arguments={"input": PATCH})
    request = decoded(tools=[CUSTOM])
    encoder = RESPONSES.server.stream_encoder(request)
    response = Response(id="r1", message=assistant(call), finish=Finish(reason="tool_calls"))
    stream = b"".join(encoder.feed(event) for event in with_fragments(response, 7))
    decoder = RESPONSES.client.stream_decoder(request)
    decoder.call_deltas = True
    events = decoder.feed(stream)
    text = "".join(event.text for event in events if isinstance(event, CallDelta))
    assert json.loads(text) == {"input": PATCH}
    again = RESPONSES.server.stream_encoder(request)
    data = b"".join(again.feed(event) for event in events)
    assert data.count(b"event: response.custom_tool_call_input.delta") > 2
    assert json.dumps(PATCH, ensure_ascii=False).encode() in data


def test_an_item_that_is_added_after_its_end_is_the_same_item() -> None:
    call = ToolCall(id="c1", name="now")
    encoder = RESPONSES.server.stream_encoder(decoded(tools=[]))
    response = Response(id="r1", message=assistant(call), finish=Finish(reason="tool_calls"))
    frames = b"".join(encoder.feed(event) for event in to_events(response)).split(b"\n\n")
    added = next(i for i, frame in enumerate(frames) if b"output_item.added" in frame)
    done = next(i for i, frame in enumerate(frames) if b"output_item.done" in frame)
    late = [*frames[:added], *frames[added + 1 : done + 1], frames[added], *frames[done + 1 :]]
    events = RESPONSES.client.stream_decoder().feed(b"\n\n".join(late))
    assert [event.part.id for event in events if isinstance(event, PartEnded) and isinstance(event.part, ToolCall)] == [
        "c1"
    ]


def test_a_server_that_knows_only_functions_gets_functions() -> None:
    """Other servers with this wire refuse what they do not know (seen 2026-08 with Codex)."""
    plain = replace(OWN, quirks=replace(OWN.quirks, client_tools=False))
    item = {"type": "additional_tools", "role": "developer", "tools": [{"type": "shell"}]}
    body = sent(decoded(item, *LOOP, tools=[SEARCH]), plain)
    assert {tool["type"] for tool in body["tools"]} == {"function"}
    assert [tool["name"] for tool in body["tools"]] == ["tool_search", "call_found_tool", "shell"]
    kinds = {item["type"] for item in body["input"]}
    assert kinds == {"message", "function_call", "function_call_output"}
    assert "namespace" not in json.dumps(body["input"])


# Names ----------------------------------------------------------------------------------------------------------------


def test_a_collision_is_an_error() -> None:
    with pytest.raises(InvalidTool, match="crm__find"):
        decoded(tools=[NAMESPACE, {**FIND, "name": "crm__find"}])
    with pytest.raises(InvalidTool, match="shell"):
        decoded(tools=[{"type": "shell"}, {**FIND, "name": "shell"}])


@pytest.mark.parametrize("name", ["x" * 70, "très"])
def test_a_name_that_no_function_may_have_is_fitted(name: str) -> None:
    request = decoded(tools=[{**NAMESPACE, "tools": [{**FIND, "name": name}]}])
    tool = request.tools[0]
    assert isinstance(tool, Tool)
    assert len(tool.name) <= 64
    assert tool.name.isascii()
    (item,) = answer(request, ToolCall(id="c1", name=tool.name))
    assert (item["name"], item["namespace"]) == (name, "crm")
    call = {"type": "function_call", "call_id": "c1", "name": name, "namespace": "crm", "arguments": "{}"}
    assert decoded(call, tools=[]).messages[-1].tool_calls[0].name == tool.name


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ({"type": "custom", "name": "apply_patch"}, "apply_patch"),
        ({"type": "function", "name": "find", "namespace": "crm"}, "crm__find"),
        ({"type": "shell"}, "shell"),
        ({"type": "computer"}, "computer"),
    ],
)
def test_a_choice_names_the_function(choice: dict[str, Any], name: str) -> None:
    request = decoded(tools=TOOLS, tool_choice=choice)
    assert request.tool_choice == name
    assert sent(request, FOREIGN[0])["tool_choice"] == {"type": "tool", "name": name}
    assert sent(request, OWN)["tool_choice"] == choice


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "tool_search"},
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "web_search"},
        {**NAMESPACE, "tools": []},
        {**NAMESPACE, "tools": [{"type": "mcp"}]},
        {**NAMESPACE, "tools": [1]},
        {**NAMESPACE, "tools": [{"type": "function", "name": "x", "function": "y"}]},
    ],
    ids=str,
)
def test_a_tool_that_the_provider_runs_is_no_function(tool: dict[str, Any]) -> None:
    request = decoded(tools=[tool])
    assert sent(request, OWN)["tools"] == [tool]


@pytest.mark.parametrize(
    "tool", [{"type": "custom"}, {"type": "namespace", "name": "x"}, {"type": "namespace", "tools": []}], ids=str
)
def test_a_tool_without_its_members_is_refused(tool: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"tools\[0\]"):
        decoded(tools=[tool])


def test_events_without_fragments_are_written_too() -> None:
    call = ToolCall(id="c1", name="apply_patch", arguments={"input": PATCH})
    encoder = RESPONSES.server.stream_encoder(decoded(tools=[CUSTOM]))
    response = Response(message=Message(role="assistant", parts=(call,)), finish=Finish(reason="tool_calls"))
    data = b"".join(encoder.feed(event) for event in to_events(response))
    assert data.count(b"event: response.custom_tool_call_input.delta") == 1


def test_a_special_call_that_is_cut_off_is_not_written() -> None:
    events: list[Event] = [
        Started(id="r"),
        PartStarted(index=0, kind="tool_call", id="c1", name="shell"),
        Finished(finish=Finish(reason="length")),
    ]
    encoder = RESPONSES.server.stream_encoder(decoded(tools=[{"type": "shell"}]))
    assert b"shell_call" not in b"".join(encoder.feed(event) for event in events)
