"""Tools that take free text: as they are on this wire, as functions on every other one."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.engine.attempt import build_request
from dragoman.errors import InvalidRequest, InvalidTool
from dragoman.events import fold
from dragoman.http import HttpRequest
from dragoman.registry import Registry
from dragoman.targets.target import Target
from dragoman.types import Finish, Message, Request, Response, Text, ToolCall
from dragoman.wires.common.raw_input import INPUT
from dragoman.wires.openai_chat.custom_tools import returned_call
from tests.support.wires.conversations import CLIENTS

GRAMMAR = {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "select"'}}
SQL: dict[str, Any] = {"type": "custom", "custom": {"name": "sql", "description": "Query.", "format": GRAMMAR}}
NOTE: dict[str, Any] = {"type": "custom", "custom": {"name": "note", "format": {"type": "text"}}}
CHOICE = {"type": "custom", "custom": {"name": "sql"}}
QUERY = 'select "é"\n'
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "How many?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "custom", "custom": {"name": "sql", "input": QUERY}}],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "7"},
]
target = Registry(env={}).target
OPENAI, DEEPSEEK = target("openai-chat/gpt-5.2"), target("deepseek/deepseek-chat")
OTHERS = {name: target for name, target in CLIENTS.items() if name not in ("openai_chat", "native")}
WIRE = wires.get("openai_chat")


def decoded(**body: Any) -> Request:
    data = json.dumps({"model": "m", "messages": HISTORY, "tools": [SQL, NOTE], **body}).encode()
    return WIRE.server.decode_request(HttpRequest(method="POST", path="/v1/chat/completions", body=data))[1]


def sent(request: Request, where: Target) -> tuple[Any, list[tuple[str, str]]]:
    http = build_request(request, where)
    return json.loads(http.body), [(notice.kind, notice.what) for notice in http.notices]


def test_on_this_wire_everything_stays_as_it_was() -> None:
    body, notices = sent(decoded(tool_choice=CHOICE), OPENAI)
    assert body["tools"] == [SQL, NOTE]
    assert body["tool_choice"] == CHOICE
    assert body["messages"] == HISTORY
    assert notices == []


@pytest.mark.parametrize("where", OTHERS.values(), ids=OTHERS)
def test_on_other_wires_they_are_functions(where: Target) -> None:
    body, notices = sent(decoded(), where)
    text = json.dumps(body, ensure_ascii=False)
    assert "The input must satisfy this lark grammar:" in text
    assert text.count('"input": {"type": "string"}') == 2
    assert "é" in text
    assert ("changed", "tool sql") in notices
    assert not [what for _, what in notices if "openai_chat" in what or what == "tool note"]


def test_servers_that_know_only_functions_get_functions() -> None:
    body, notices = sent(decoded(), DEEPSEEK)
    first, second = body["tools"]
    assert first["function"] == {
        "name": "sql",
        "description": 'Query.\n\nThe input must satisfy this lark grammar:\nstart: "select"',
        "parameters": INPUT,
    }
    assert second["function"]["name"] == "note"
    (call,) = body["messages"][1]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"input": QUERY}
    assert "custom" not in call
    assert not [what for _, what in notices if "openai_chat" in what]


CALL = ToolCall(id="call_2", name="sql", arguments={"input": QUERY})
FINISH = Finish(reason="tool_calls", raw="tool_calls")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [({"input": QUERY}, QUERY), ({"query": "select 1"}, "select 1"), ({}, ""), ({"a": 1, "b": 2}, '{"a":1,"b":2}')],
)
def test_a_call_goes_back_in_the_form_that_the_client_offered(arguments: Any, expected: str) -> None:
    call = replace(CALL, arguments=arguments, extra={"anthropic": {"caller": {}}})
    response = Response(message=Message(role="assistant", parts=(Text(text="I ask."), call)), finish=FINISH)
    message = json.loads(WIRE.server.encode_body(response, decoded()).body)["choices"][0]["message"]
    assert message["tool_calls"] == [
        {"id": "call_2", "type": "custom", "custom": {"name": "sql", "input": expected}},
    ]


def test_a_call_of_a_function_stays_one() -> None:
    tools = [SQL, {"type": "function", "function": {"name": "now"}}]
    response = Response(message=Message(role="assistant", parts=(replace(CALL, name="now"),)), finish=FINISH)
    message = json.loads(WIRE.server.encode_body(response, decoded(tools=tools)).body)["choices"][0]["message"]
    assert message["tool_calls"][0]["type"] == "function"
    assert json.loads(WIRE.server.encode_body(response).body) is not None


def stream_of(*pieces: str) -> bytes:
    """A stream of OpenAI with a custom call."""
    calls: list[Any] = [{"index": 0, "id": "call_2", "type": "custom", "custom": {"name": "sql", "input": ""}}]
    calls += [{"index": 0, "custom": {"input": piece}} for piece in pieces]
    deltas: list[Any] = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
    deltas.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return b"".join(b"data: " + json.dumps(delta).encode() + b"\n\n" for delta in deltas) + b"data: [DONE]\n\n"


def test_pieces_of_the_text_go_out_as_they_come() -> None:
    request = decoded(stream=True)
    decoder = WIRE.client.stream_decoder(request)
    decoder.call_deltas = True
    encoder = WIRE.server.stream_encoder(request)
    pieces = [QUERY[:9], QUERY[9:]]
    events = [*decoder.feed(stream_of(*pieces)), *decoder.end()]
    lines = b"".join(map(encoder.feed, events)).decode().splitlines()
    deltas = [json.loads(line[6:])["choices"][0]["delta"] for line in lines if line.startswith("data: {")]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert [call["custom"].get("input") for call in calls] == ["", *pieces]
    (call,) = fold(events).tool_calls
    assert call.arguments == {"input": QUERY}


@pytest.mark.parametrize(
    ("tool", "error"),
    [
        ({"type": "custom", "custom": {}}, InvalidRequest),
        ({"type": "custom", "custom": {"name": "note"}}, InvalidTool),
    ],
)
def test_what_is_not_valid_is_refused(tool: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        decoded(tools=[NOTE, tool])


def test_a_choice_without_its_tool_is_refused_or_noted() -> None:
    with pytest.raises(InvalidRequest, match="tool_choice"):
        sent(decoded(tools=[NOTE], tool_choice=CHOICE), OPENAI)


def test_a_call_of_an_older_transcript_becomes_a_function() -> None:
    old = replace(CALL, extra={"openai_chat": {"type": "custom", "x": 1}})
    request = decoded()
    request = replace(request, messages=(*request.messages, Message(role="assistant", parts=(Text(text="!"), old))))
    (call,) = sent(request, DEEPSEEK)[0]["messages"][-2]["tool_calls"]
    assert (call["type"], call["x"], "custom" in call) == ("function", 1, False)


def test_a_call_is_known_as_the_client_sends_it_back() -> None:
    request = decoded(tools=[SQL])
    call = ToolCall(id="call_1", name="sql", arguments={"query": QUERY})
    assert returned_call(request)(call).arguments == {"input": QUERY}
    other = ToolCall(id="call_1", name="tide", arguments={"query": QUERY})
    assert returned_call(request)(other) is other
