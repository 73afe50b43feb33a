"""What we make of the calls of clients, and the exact JSON that they get back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ContextTooLong,
    DragomanError,
    InvalidRequest,
    Malformed,
    ModelNotFound,
    Overloaded,
    RateLimited,
    ServerFault,
    TimedOut,
)
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started, fold, to_events
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.targets.target import Target
from dragoman.types import (
    Audio,
    Document,
    Effort,
    Finish,
    Image,
    Message,
    Opaque,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    TokenLogprob,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    system,
    tool_results,
    user,
)
from dragoman.wires.common.extra import body_extra
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.raw_input import INPUT
from dragoman.wires.common.server_endpoints import Route
from dragoman.wires.openai_chat import WIRE
from dragoman.wires.openai_chat.parts import encode_assistant
from dragoman.wires.openai_chat.server import decode_any, decode_plain
from tests.support.wires import laws
from tests.support.wires.laws import SCHEMA

LOOSE = {"type": "object", "properties": {"port": {"type": "string"}}}
CALL = ToolCall(id="call_a", name="tide", arguments={"port": "Brest"})
CALL_JSON_FUNCTION = {"name": "tide", "arguments": '{"port":"Brest"}'}
CALL_JSON = {"id": "call_a", "type": "function", "function": CALL_JSON_FUNCTION}
PNG = Image(data=b"\x89PNG", mime="image/png")
PNG_JSON = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
STOP = Finish(reason="stop", raw="stop")
ASK = {"role": "user", "content": "?"}


def http(data: Any) -> HttpRequest:
    encoded = data if isinstance(data, bytes) else json.dumps(data).encode()
    return HttpRequest(method="POST", path="/v1/chat/completions", body=encoded)


def decoded_request(**body: Any) -> Request:
    return WIRE.server.decode_request(http({"model": "m-1", **body}))[1]


def turns(*messages: dict[str, Any]) -> tuple[Message, ...]:
    return decoded_request(messages=list(messages)).messages


def again(**body: Any) -> dict[str, Any]:
    """The body after it went through the vocabulary, without what every body has."""
    request = decoded_request(messages=[ASK], **body)
    sent: dict[str, Any] = json.loads(WIRE.client.encode_request(request, target("openai/m-1")).body)
    return {key: value for key, value in sent.items() if key not in ("model", "messages")}


# Requests -------------------------------------------------------------------------------------------------------------


def test_the_routes() -> None:
    azure = ["/openai/v1/chat/completions", "/openai/deployments/{model}/chat/completions"]
    place = "projects/{project}/locations/{location}/endpoints/openapi"
    vertex = [f"/{version}/{place}/chat/completions" for version in ("v1", "v1beta1")]
    paths = ["/v1/chat/completions", *azure, *vertex]
    assert WIRE.server.routes == tuple(Route(method="POST", path=path) for path in paths)


@pytest.mark.parametrize(("name", "model"), [("my%20gpt", "my gpt"), ("demo/any", "demo/any")])
def test_a_deployment_of_azure_is_the_model_if_the_body_has_none(name: str, model: str) -> None:
    path = f"/openai/deployments/{name}/chat/completions?api-version=2024-10-21"
    for body, expected in (({}, model), ({"model": "other"}, "other")):
        data = http({**body, "messages": [ASK]}).body
        assert WIRE.server.decode_request(HttpRequest(method="POST", path=path, body=data))[0] == expected


def test_a_plain_request() -> None:
    model, request = WIRE.server.decode_request(http({"model": "m-1", "messages": [ASK]}))
    assert model == "m-1"
    assert request == Request(messages=(user("?"),))


FIELDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"temperature": 0, "top_p": 0.5}, {"temperature": 0.0, "top_p": 0.5}),
    ({"max_tokens": 7}, {"max_tokens": 7}),
    ({"max_completion_tokens": 7}, {"max_tokens": 7}),
    ({"max_tokens": 7, "max_completion_tokens": 8}, {"max_tokens": 7}),
    ({"stop": "a"}, {"stop": ("a",)}),
    ({"stop": ["a", "b"]}, {"stop": ("a", "b")}),
    ({"seed": 0}, {"seed": 0}),
    ({"user": "u", "metadata": {"k": "v"}}, {"user": "u", "metadata": {"k": "v"}}),
    ({"stream": True}, {"stream": True}),
    ({"stream": False, "seed": None, "logit_bias": None, "stream_options": None}, {}),
    ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
    ({"tool_choice": "auto"}, {"tool_choice": "auto"}),
    ({"tool_choice": "none"}, {"tool_choice": "none"}),
    ({"tool_choice": "required"}, {"tool_choice": "required"}),
    ({"tool_choice": "any"}, {"tool_choice": "required"}),
    ({"tool_choice": {"type": "function", "function": {"name": "tide"}}}, {"tool_choice": "tide"}),
    ({"response_format": {"type": "text"}}, {}),
    ({"response_format": {"type": "json_object"}}, {"schema": {}}),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}, {"schema": SCHEMA}),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "t", "schema": SCHEMA, "strict": True}}},
        {"schema": SCHEMA, "schema_name": "t", "schema_strict": True},
    ),
    ({"reasoning_effort": "none"}, {"reasoning": "none"}),
    ({"reasoning_effort": "xhigh"}, {"reasoning": "xhigh"}),
    ({"reasoning_effort": "max"}, {"reasoning": "max"}),
]


@pytest.mark.parametrize(("body", "fields"), FIELDS)
def test_a_field_that_our_words_cover(body: dict[str, Any], fields: dict[str, Any]) -> None:
    assert decoded_request(**body) == Request(**fields)


WHOLE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"stream_options": {"include_usage": True}}, {}),
    ({"top_k": 7}, {"top_k": 7}),
    ({"random_seed": 7}, {"seed": 7}),
    ({"response_format": {"type": "json_object", "schema": SCHEMA}}, {"schema": SCHEMA}),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": LOOSE, "strict": True}}},
        {"schema": LOOSE, "schema_strict": True},
    ),
    ({"reasoning_effort": "low", "thinking": {"type": "enabled"}}, {"reasoning": "low"}),
    ({"reasoning": {"effort": "xhigh"}}, {"reasoning": "xhigh"}),
    ({"reasoning": {"max_tokens": 500}}, {"reasoning": 500}),
    ({"reasoning": {"enabled": True}}, {"reasoning": "medium"}),
    ({"reasoning": {"enabled": False}}, {"reasoning": "none"}),
    ({"thinking": {"type": "enabled", "budget_tokens": 500}}, {"reasoning": 500}),
    ({"thinking": {"type": "enabled"}}, {"reasoning": "medium"}),
    ({"thinking": {"type": "disabled"}}, {"reasoning": "none"}),
    ({"enable_thinking": True}, {"reasoning": "medium"}),
    ({"enable_thinking": False}, {"reasoning": "none"}),
    ({"functions": [{"name": "tide"}]}, {"tools": (Tool(name="tide"),)}),
    (
        {"functions": [{"name": "tide", "parameters": SCHEMA}], "function_call": {"name": "tide"}},
        {"tools": (Tool(name="tide", parameters=SCHEMA),), "tool_choice": "tide"},
    ),
    (
        {"functions": [{"name": "tide"}], "function_call": "none"},
        {"tools": (Tool(name="tide"),), "tool_choice": "none"},
    ),
]


@pytest.mark.parametrize(("body", "fields"), WHOLE)
def test_the_clients_own_form_of_what_our_words_say_whole(body: dict[str, Any], fields: dict[str, Any]) -> None:
    assert decoded_request(**body) == Request(**fields, extra={"openai_chat.verbatim": body})


PARTLY: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"logprobs": 3, "verbosity": "brief"}, {}),
    ({"stream_options": {"include_usage": True, "include_obfuscation": False}}, {}),
    ({"top_k": "7"}, {}),
    ({"random_seed": "7"}, {}),
    ({"function_call": "auto"}, {}),
    ({"tool_choice": {"type": "custom", "custom": {}}}, {}),
    (
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}},
        {"tool_choice": "required"},
    ),
    ({"tool_choice": "sometimes"}, {}),
    ({"response_format": {"type": "grammar", "grammar": "root ::= x"}}, {}),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "t"}}}, {}),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA, "description": "d"}}},
        {"schema": SCHEMA},
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA, "strict": "true"}}},
        {"schema": SCHEMA},
    ),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}, "x": 1}}, {"schema": SCHEMA}),
    ({"reasoning_effort": "default"}, {}),
    ({"reasoning": {"effort": "high", "exclude": True}}, {"reasoning": "high"}),
    ({"thinking": {"type": "enabled", "clear_thinking": False}}, {"reasoning": "medium"}),
]


@pytest.mark.parametrize(("body", "fields"), PARTLY)
def test_a_field_that_our_words_cover_in_part_is_kept_beside_them(body: dict[str, Any], fields: dict[str, Any]) -> None:
    assert decoded_request(**body) == Request(**fields, extra={"openai_chat": body})


@pytest.mark.parametrize("body", [body for body, _ in WHOLE + PARTLY if "stream_options" not in body])
def test_what_is_kept_beside_our_words_reaches_its_own_wire_verbatim(body: dict[str, Any]) -> None:
    assert again(**body) == body


def lost(**body: Any) -> list[str]:
    """What of a body a target of another wire does not get."""
    notes = NoticeCollector("w")
    body_extra(decoded_request(**body), Target(provider="p", model="m-1", wire="w", base_url="https://x"), notes)
    return [notice.what for notice in notes.notices]


@pytest.mark.parametrize("body", [body for body, _ in WHOLE])
def test_what_our_words_say_whole_is_not_lost_on_another_wire(body: dict[str, Any]) -> None:
    assert lost(**body) == []


@pytest.mark.parametrize("body", [body for body, _ in PARTLY])
def test_what_our_words_say_in_part_is_told_on_another_wire(body: dict[str, Any]) -> None:
    assert lost(**body) == [f"openai_chat: {field}" for field in body]


def test_a_seed_beside_another_one_is_no_form_of_it() -> None:
    assert decoded_request(seed=7, random_seed=8) == Request(seed=7, extra={"openai_chat": {"random_seed": 8}})


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "max"])
def test_every_effort_survives(effort: Effort) -> None:
    assert again(reasoning_effort=effort) == {"reasoning_effort": effort}


# Tools ----------------------------------------------------------------------------------------------------------------

FUNCTION = {"name": "tide", "description": "Tide height", "parameters": SCHEMA}
TOOLS: list[tuple[dict[str, Any], Tool | Opaque]] = [
    ({"type": "function", "function": FUNCTION}, Tool(name="tide", description="Tide height", parameters=SCHEMA)),
    ({"type": "function", "function": {"name": "now"}}, Tool(name="now")),
    (
        {"type": "function", "function": {"name": "tide", "parameters": SCHEMA, "strict": True}},
        Tool(name="tide", parameters=SCHEMA, strict=True),
    ),
    (
        {"type": "function", "function": {"name": "tide", "parameters": LOOSE, "strict": True}},
        Tool(name="tide", parameters=LOOSE, strict=True, extra={"openai_chat": {"function": {"strict": True}}}),
    ),
    (
        {"type": "function", "function": {"name": "now", "returns": "x"}, "cache_control": {}},
        Tool(name="now", extra={"openai_chat": {"cache_control": {}, "function": {"returns": "x"}}}),
    ),
    (
        {"type": "custom", "custom": {"name": "sql"}},
        Tool(
            name="sql",
            parameters=INPUT,
            extra={"openai_chat.verbatim": {"tool": {"type": "custom", "custom": {"name": "sql"}}}},
        ),
    ),
    ({"type": "web"}, Opaque(wire="openai_chat", data={"type": "web"})),
    ({"type": "custom"}, Opaque(wire="openai_chat", data={"type": "custom"})),
]


@pytest.mark.parametrize(("data", "tool"), TOOLS)
def test_a_tool(data: dict[str, Any], tool: Tool | Opaque) -> None:
    assert decoded_request(tools=[data]).tools == (tool,)
    assert again(tools=[data]) == {"tools": [data]}


# Messages -------------------------------------------------------------------------------------------------------------


def test_leading_system_messages_are_the_system_prompt() -> None:
    request = decoded_request(messages=[{"role": "developer", "content": "Be brief."}, ASK])
    assert request == Request(system="Be brief.", messages=(user("?"),))
    request = decoded_request(messages=[{"role": "system", "content": ["a", {"type": "text", "text": "b"}]}, ASK])
    assert request.system == (Text(text="a"), Text(text="b"))


def test_a_later_system_message_stays_in_its_place() -> None:
    decoded = turns(ASK, {"role": "system", "content": "Be brief."})
    assert decoded == (user("?"), system("Be brief."))


def test_what_a_system_message_has_beside_our_words_is_kept() -> None:
    messages = [{"role": "system", "content": "Be brief.", "name": "cook"}, ASK]
    request = decoded_request(messages=messages)
    assert request.system == (Text(text="Be brief.", extra={"openai_chat": {"message": {"name": "cook"}}}),)
    sent = json.loads(WIRE.client.encode_request(request, target("openai/m-1")).body)
    assert sent["messages"] == messages


USER_PARTS: list[tuple[Any, Part]] = [
    ("a", Text(text="a")),
    ({"type": "text", "text": "a"}, Text(text="a")),
    (
        {"type": "text", "text": "a", "cache_control": {}},
        Text(text="a", extra={"openai_chat": {"cache_control": {}}}),
    ),
    (PNG_JSON, PNG),
    ({"type": "image_url", "image_url": "https://x/a.png"}, Image(url="https://x/a.png")),
    (
        {"type": "image_url", "image_url": {"url": "https://x/a.png", "detail": "low"}},
        Image(url="https://x/a.png", detail="low"),
    ),
    (
        {"type": "file", "file": {"filename": "q3.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        Document(data=b"%PDF", mime="application/pdf", name="q3.pdf"),
    ),
    (
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        Audio(data=b"RIFF", mime="audio/wav"),
    ),
]
UNKNOWN_PARTS: list[dict[str, Any]] = [
    {"type": "video_url", "video_url": {"url": "https://x/a.mp4"}},
    {"type": ["text"], "text": "a"},
    {"text": "a"},
    {"type": "text", "text": 3},
    {"type": "image_url", "image_url": {"id": "x"}},
    {"type": "image_url", "image_url": 3},
    {"type": "image_url", "image_url": {"url": "https://x/a.png", "detail": 3}},
    {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERg==", "filename": 3}},
    {"type": "file", "file": {"file_id": "file_1"}},
    {"type": "file", "file": "file_1"},
    {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "flac"}},
    {"type": "input_audio", "input_audio": {"data": 3, "format": "wav"}},
    {"type": "input_audio", "input_audio": "UklGRg=="},
]


@pytest.mark.parametrize(("data", "part"), USER_PARTS)
def test_a_part_of_a_users_message(data: Any, part: Part) -> None:
    assert turns({"role": "user", "content": [data]}) == (user(part),)


@pytest.mark.parametrize("data", UNKNOWN_PARTS)
def test_a_part_that_we_have_no_word_for_is_kept_as_it_is(data: dict[str, Any]) -> None:
    assert turns({"role": "user", "content": [data]}) == (user(Opaque(wire="openai_chat", data=data)),)


def test_content_may_be_one_part_alone_or_nothing() -> None:
    assert turns({"role": "user", "content": PNG_JSON}) == (user(PNG),)
    assert turns({"role": "user", "content": None}, {"role": "user"}) == (user(), user())


def test_what_a_message_has_beside_our_words_is_kept() -> None:
    data = {"role": "user", "content": "?", "name": "ann", "images": ["x"], "weight": None}
    (turn,) = turns(data)
    assert turn.extra == {"openai_chat": {"name": "ann", "images": ["x"]}}


ASSISTANT: list[tuple[dict[str, Any], tuple[Part, ...]]] = [
    ({"content": "a"}, (Text(text="a"),)),
    ({"content": ""}, ()),
    ({"content": [{"type": "text", "text": "a"}]}, (Text(text="a"),)),
    ({"content": None, "tool_calls": [CALL_JSON]}, (CALL,)),
    ({"tool_calls": [{**CALL_JSON, "index": 0}]}, (CALL,)),
    (
        {"tool_calls": [{"id": "c", "function": {"name": "tide", "arguments": '{"port": 1}'}}]},
        (ToolCall(id="c", name="tide", arguments={"port": 1}, raw='{"port": 1}'),),
    ),
    (
        {"tool_calls": [{"id": "c", "function": {"name": "tide", "arguments": {"port": 1}}}]},
        (ToolCall(id="c", name="tide", arguments={"port": 1}),),
    ),
    (
        {"tool_calls": [{"function": {"name": "now", "arguments": ""}}, {"id": None, "function": {"name": "now"}}]},
        (ToolCall(id="call_1", name="now"), ToolCall(id="call_2", name="now")),
    ),
    (
        {"tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sql", "input": "select 1"}, "x": 1}]},
        (
            ToolCall(
                id="c",
                name="sql",
                arguments={"input": "select 1"},
                extra={"openai_chat.verbatim": {"type": "custom"}, "openai_chat": {"x": 1}},
            ),
        ),
    ),
    (
        {"tool_calls": [{**CALL_JSON, "extra_content": {"google": {}}}]},
        (
            ToolCall(
                id="call_a",
                name="tide",
                arguments={"port": "Brest"},
                extra={"openai_chat": {"extra_content": {"google": {}}}},
            ),
        ),
    ),
    (
        {"function_call": {"name": "tide", "arguments": "{}"}},
        (ToolCall(id="call_1", name="tide", extra={"openai_chat": {"function_call": True}}),),
    ),
    (
        {"function_call": {"name": "tide", "arguments": "{}", "x": 1}},
        (ToolCall(id="call_1", name="tide", extra={"openai_chat": {"function_call": True, "function": {"x": 1}}}),),
    ),
    (
        {"tool_calls": [{**CALL_JSON, "function": {**CALL_JSON_FUNCTION, "x": 1, "y": None}, "z": None}]},
        (
            ToolCall(
                id="call_a",
                name="tide",
                arguments={"port": "Brest"},
                extra={"openai_chat": {"function": {"x": 1}}},
            ),
        ),
    ),
    (
        {"content": "a", "reasoning_content": "Hm."},
        (Thinking(text="Hm.", extra={"openai_chat": {"fields": ["reasoning_content"]}}), Text(text="a")),
    ),
    (
        {"content": None, "reasoning_content": "", "tool_calls": [CALL_JSON]},
        (Thinking(text="", extra={"openai_chat": {"fields": ["reasoning_content"]}}), CALL),
    ),
    (
        {"content": "a", "reasoning": "Hm.", "reasoning_details": [{"text": "Hm."}]},
        (
            Thinking(text="Hm.", extra={"openai_chat": {"fields": ["reasoning"], "details": [{"text": "Hm."}]}}),
            Text(text="a"),
        ),
    ),
    (
        {"content": "a", "reasoning_details": [{"data": "AA"}]},
        (
            Thinking(text="", redacted=True, extra={"openai_chat": {"details": [{"data": "AA"}]}}),
            Text(text="a"),
        ),
    ),
    (
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "reference"}]},
        (
            Thinking(text="Hm.", extra={"openai_chat": {"fields": ["content"]}}),
            Opaque(wire="openai_chat", data={"type": "reference"}),
        ),
    ),
    ({"content": None, "refusal": "No."}, (Text(text="No.", extra={"openai_chat": {"refusal": True}}),)),
    (
        {"content": [{"type": "refusal", "refusal": "No."}]},
        (Text(text="No.", extra={"openai_chat": {"refusal": True}}),),
    ),
    (
        {"content": "a", "images": [PNG_JSON, {"type": "image_ref"}]},
        (
            Text(text="a"),
            Image(data=b"\x89PNG", mime="image/png", extra={"openai_chat": {}}),
            Opaque(wire="openai_chat", data={"images": [{"type": "image_ref"}]}),
        ),
    ),
]


@pytest.mark.parametrize(("data", "parts"), ASSISTANT)
def test_an_assistants_message(data: dict[str, Any], parts: tuple[Part, ...]) -> None:
    assert turns({"role": "assistant", **data}) == (Message(role="assistant", parts=parts),)


RESULTS: list[tuple[Any, ToolResult]] = [
    ("4.2 m", ToolResult(id="call_a", name="tide", content="4.2 m")),
    ("ERROR: no port", ToolResult(id="call_a", name="tide", content="no port", is_error=True)),
    (None, ToolResult(id="call_a", name="tide")),
    (
        [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        ToolResult(id="call_a", name="tide", content="a\nb"),
    ),
    (
        [PNG_JSON, {"type": "text", "text": "ERROR: a"}, {"type": "text", "text": "ERROR: a"}],
        ToolResult(id="call_a", name="tide", content=(PNG, Text(text="a"), Text(text="ERROR: a")), is_error=True),
    ),
    ([PNG_JSON], ToolResult(id="call_a", name="tide", content=(PNG,))),
    (
        [{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}],
        ToolResult(
            id="call_a",
            name="tide",
            content=(
                Opaque(
                    wire="openai_chat",
                    data={"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
                ),
            ),
        ),
    ),
]


@pytest.mark.parametrize(("content", "result"), RESULTS)
def test_a_result(content: Any, result: ToolResult) -> None:
    decoded = turns(
        {"role": "assistant", "tool_calls": [CALL_JSON]},
        {"role": "tool", "tool_call_id": "call_a", "content": content},
    )
    assert decoded == (assistant(CALL), tool_results(result))


def test_results_that_follow_each_other_are_one_turn() -> None:
    decoded = turns(
        {"role": "assistant", "tool_calls": [CALL_JSON, {**CALL_JSON, "id": "call_b"}]},
        {"role": "tool", "tool_call_id": "call_b", "content": "b", "name": "tide"},
        {"role": "tool", "tool_call_id": "call_a", "content": "a"},
    )
    assert decoded[1] == tool_results(
        ToolResult(id="call_b", name="tide", content="b", extra={"openai_chat": {"name": "tide"}}),
        ToolResult(id="call_a", name="tide", content="a"),
    )


def test_a_result_without_an_id_answers_the_first_call_that_waits() -> None:
    decoded = turns(
        {"role": "assistant", "function_call": {"name": "tide", "arguments": "{}"}},
        {"role": "function", "name": "tide", "content": "a"},
        {"role": "assistant", "tool_calls": [CALL_JSON, {**CALL_JSON, "id": "call_b"}]},
        {"role": "tool", "content": "a"},
        {"role": "tool", "content": "b"},
        {"role": "tool", "content": "c"},
    )
    assert [result.id for turn in decoded for result in turn.tool_results] == ["call_1", "call_a", "call_b", ""]


FUNCTION_CALL = {
    "role": "assistant",
    "content": None,
    "function_call": {"name": "tide", "arguments": '{"port": "Brest"}'},
}


def sent_again(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    request = decoded_request(messages=messages)
    sent: list[dict[str, Any]] = json.loads(WIRE.client.encode_request(request, target("openai/m-1")).body)["messages"]
    return sent


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://example.org/a", "format": "image/png"}, "min_pixels": 4},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg==", "x": 1}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav", "x": 1}},
    ],
)
def test_what_a_part_has_inside_that_we_do_not_know_goes_back(part: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": [part]}]
    assert sent_again(*messages) == messages


def test_a_conversation_in_the_first_form_of_the_api_stays_in_it() -> None:
    messages: list[dict[str, Any]] = [ASK, FUNCTION_CALL, {"role": "function", "name": "tide", "content": "4.2 m"}]
    assert sent_again(*messages) == messages


def test_a_lone_call_that_got_no_result_gets_one_of_its_form() -> None:
    _, call, result, _ = sent_again(ASK, FUNCTION_CALL, ASK)
    assert call == FUNCTION_CALL
    assert (result["role"], result["name"], "tool_call_id" in result) == ("function", "tide", False)


def test_arguments_that_are_no_json_object_go_back_as_they_came() -> None:
    function = {"name": "tide", "arguments": '{"port": Brest}'}
    call = {"id": "call_a", "type": "function", "function": function}
    messages: list[dict[str, Any]] = [ASK, {"role": "assistant", "content": None, "tool_calls": [call]}]
    (decoded,) = turns(*messages)[1].tool_calls
    assert decoded.arguments == {"malformed_arguments": '{"port": Brest}'}
    assert sent_again(*messages, {"role": "tool", "tool_call_id": "call_a", "content": "no JSON"})[1] == messages[1]


def test_a_message_has_one_lone_call_at_most() -> None:
    lone = ToolCall(id="call_1", name="tide", extra={"openai_chat": {"function_call": True}})
    function = {"name": "tide", "arguments": "{}"}
    assert encode_assistant([lone, lone], None) == {
        "role": "assistant",
        "content": None,
        "function_call": function,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }


def test_results_without_an_id_answer_the_calls_of_their_name_first() -> None:
    now = {"id": "call_n", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    decoded = turns(
        {"role": "assistant", "tool_calls": [CALL_JSON, now, {**now, "id": "call_m"}]},
        {"role": "tool", "name": "now", "content": "a"},
        {"role": "tool", "name": "?", "content": "b"},
        {"role": "tool", "content": "c"},
    )
    assert [result.id for result in decoded[1].tool_results] == ["call_n", "call_a", "call_m"]


INVALID: list[tuple[Any, str]] = [
    (b"{", "the body must be a JSON object"),
    (b"[]", "the body must be a JSON object"),
    ({"messages": {}}, "messages must be array, got object"),
    ({"temperature": "hot"}, "temperature must be float, got str"),
    ({"messages": [{"content": "a"}]}, "messages[0].role is required"),
    ({"messages": [{"role": "cook"}]}, "messages[0].role must be one of system, developer, user"),
    ({"messages": [{"role": ["user"]}]}, "messages[0].role must be str, got array"),
    ({"messages": [ASK, {"role": "user", "content": 3}]}, "messages[1].content must be"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "data:image/png,x"}]}]},
        "messages[0].content[0]: url must be data:<type>;base64,<data>",
    ),
    (
        {
            "messages": [
                {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "*", "format": "wav"}}]}
            ]
        },
        "messages[0].content[0]: data must be base64",
    ),
    (
        {"messages": [{"role": "system", "content": [PNG_JSON]}]},
        "messages[0].content must be text in a system message",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]},
        "messages[0].tool_calls[0].function must be",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}]},
        "messages[0].tool_calls[0].function.name is required",
    ),
    ({"tools": [{"function": {}}]}, "tools[0].function.name is required"),
    ({"tools": [{"function": None}]}, "tools[0].function must be object, got null"),
]


@pytest.mark.parametrize(("data", "message"), INVALID)
def test_a_bad_request_says_where(data: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        WIRE.server.decode_request(http(data))
    assert str(caught.value).startswith(message)


# Bodies ---------------------------------------------------------------------------------------------------------------


def encoded_body(*parts: Part, finish: Finish = STOP, **fields: Any) -> dict[str, Any]:
    response = Response(message=Message(role="assistant", parts=parts), finish=finish, **fields)
    reply = WIRE.server.encode_body(response)
    assert (reply.status, reply.headers) == (200, {"content-type": "application/json"})
    body: dict[str, Any] = json.loads(reply.body)
    return body


def message(*parts: Part, **fields: Any) -> dict[str, Any]:
    decoded: dict[str, Any] = encoded_body(*parts, **fields)["choices"][0]["message"]
    return decoded


def test_a_whole_answer() -> None:
    usage = Usage(input=9, output=4, cache_read=8, cache_write=1, reasoning=2)
    assert encoded_body(Text(text="Hi"), id="c-1", model="m-1", created=7, usage=usage) == {
        "id": "c-1",
        "object": "chat.completion",
        "created": 7,
        "model": "m-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 4,
            "total_tokens": 13,
            "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    }


def test_what_is_not_told_is_empty_where_clients_demand_it() -> None:
    body = encoded_body()
    assert (body["id"], body["created"], body["model"], body["usage"]) == ("", 0, "", None)
    assert encoded_body(usage=Usage(input=9))["usage"] == {
        "prompt_tokens": 9,
        "completion_tokens": 0,
        "total_tokens": 9,
    }
    assert encoded_body(finish=Finish(reason="other"))["choices"][0]["finish_reason"] is None


FINISHES: list[tuple[Finish, str]] = [
    (Finish(reason="stop", raw="end_turn"), "stop"),
    (Finish(reason="stop", raw="eos"), "stop"),
    (Finish(reason="length", raw="MAX_TOKENS"), "length"),
    (Finish(reason="length", raw="max_tokens"), "length"),
    (Finish(reason="tool_calls", raw="function_call"), "function_call"),
    (Finish(reason="tool_calls", raw="stop"), "tool_calls"),
    (Finish(reason="blocked", raw="SAFETY"), "content_filter"),
    (Finish(reason="pause", raw="pause_turn"), "stop"),
    (Finish(reason="other", raw="abort"), "abort"),
    (Finish(reason="other", raw="lunch"), "stop"),
    (Finish(reason="other", raw="lunch", extra={"openai_chat": {"finish_reason": "lunch"}}), "lunch"),
]


@pytest.mark.parametrize(("finish", "word"), FINISHES)
def test_a_finish_is_a_word_of_this_dialect(finish: Finish, word: str) -> None:
    assert encoded_body(finish=finish)["choices"][0]["finish_reason"] == word


def test_a_call_is_said_with_its_arguments_as_text() -> None:
    assert message(CALL) == {"role": "assistant", "content": None, "refusal": None, "tool_calls": [CALL_JSON]}


def test_a_refusal_is_said_as_one() -> None:
    body = encoded_body(
        Text(text="No.", extra={"openai_chat": {"refusal": True}}), finish=Finish(reason="blocked", raw="stop")
    )
    assert body["choices"][0]["message"] == {"role": "assistant", "content": None, "refusal": "No."}
    assert body["choices"][0]["finish_reason"] == "stop"


def test_a_refusal_of_another_wire_has_the_word_that_refusals_have_here() -> None:
    body = encoded_body(
        Text(text="No.", extra={"openai_chat": {"refusal": True}}), finish=Finish(reason="blocked", raw="refusal")
    )
    assert body["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        (Thinking(text="Hm."), {"reasoning_content": "Hm."}),
        (Thinking(text="Hm.", extra={"anthropic": {"signature": "x"}}), {"reasoning_content": "Hm."}),
        (Thinking(text="Hm.", extra={"openai_chat": {"fields": ["reasoning"]}}), {"reasoning": "Hm."}),
        (Thinking(text="", redacted=True, extra={"anthropic": {"data": "x"}}), {}),
        (Opaque(wire="anthropic", data={"type": "server_tool_use"}), {}),
        (PNG, {"images": [PNG_JSON]}),
        (
            Opaque(wire="openai_chat", data={"audio": {"id": "a", "data": "UklG"}}),
            {"audio": {"id": "a", "data": "UklG"}},
        ),
    ],
)
def test_what_stands_beside_the_text(part: Part, fields: dict[str, Any]) -> None:
    assert message(part, Text(text="a")) == {"role": "assistant", "content": "a", "refusal": None, **fields}


UNSAYABLE: list[Part] = [
    Audio(data=b"RIFF", mime="audio/wav"),
    Document(data=b"%PDF", mime="application/pdf"),
    ToolResult(id="call_a", content="4.2 m"),
    Opaque(wire="anthropic", data={"type": "server_tool_use"}),
    Thinking(text=""),
]


@pytest.mark.parametrize("part", UNSAYABLE)
def test_a_part_that_the_dialect_cannot_say_is_left_out_of_a_body_and_of_a_stream(part: Part) -> None:
    assert message(part, Text(text="a")) == message(Text(text="a"))
    assert deltas(part, Text(text="a")) == deltas(Text(text="a"))


def test_citations_and_probabilities_stand_where_this_dialect_has_them() -> None:
    first = {"annotations": [{"n": 1}], "citations": ["https://x"]}
    second = {"annotations": [{"n": 2}], "search_results": [{"n": 3}]}
    body = encoded_body(
        Text(text="a", extra={"openai_chat": first}, logprobs=(TokenLogprob(token="a", logprob=-1.0),)),
        Text(text="b", extra={"openai_chat": second}, logprobs=(TokenLogprob(token="b", logprob=-2.0),)),
    )
    choice = body["choices"][0]
    assert choice["message"] == {
        "role": "assistant",
        "content": "ab",
        "refusal": None,
        "annotations": [{"n": 1}, {"n": 2}],
    }
    assert [(token["token"], token["logprob"]) for token in choice["logprobs"]["content"]] == [("a", -1.0), ("b", -2.0)]
    assert choice["logprobs"]["refusal"] is None
    assert (body["citations"], body["search_results"]) == (["https://x"], [{"n": 3}])


# Errors ---------------------------------------------------------------------------------------------------------------

ERRORS: list[tuple[DragomanError, int, str, str | None]] = [
    (InvalidRequest("x"), 400, "invalid_request_error", None),
    (BadRequest("x", code="invalid_value"), 400, "invalid_request_error", "invalid_value"),
    (AuthFailed("x"), 401, "invalid_request_error", "invalid_api_key"),
    (RateLimited("x", code="1300"), 429, "rate_limit_error", "rate_limit_exceeded"),
    (RateLimited("x", retry=False), 429, "insufficient_quota", "insufficient_quota"),
    (Overloaded("x", code="overloaded_error"), 503, "server_error", "slow_down"),
    (ContextTooLong("x"), 400, "invalid_request_error", "context_length_exceeded"),
    (Blocked("x"), 400, "invalid_request_error", "content_filter"),
    (ModelNotFound("x"), 404, "invalid_request_error", "model_not_found"),
    (ServerFault("x"), 502, "server_error", None),
    (Malformed("x"), 502, "server_error", None),
    (TimedOut("x"), 504, "server_error", None),
]


@pytest.mark.parametrize(("error", "status", "kind", "code"), ERRORS)
def test_a_refusal_in_this_dialect(error: DragomanError, status: int, kind: str, code: str | None) -> None:
    reply = WIRE.server.encode_error(error)
    assert reply.status == status
    assert json.loads(reply.body) == {"error": {"message": "x", "type": kind, "param": None, "code": code}}


def test_a_wait_is_told() -> None:
    assert WIRE.server.encode_error(RateLimited("x", retry_after=2)).headers["retry-after"] == "2"


@pytest.mark.parametrize(
    "kind", [AuthFailed, RateLimited, Overloaded, ContextTooLong, Blocked, ModelNotFound, BadRequest, ServerFault]
)
def test_an_error_in_a_stream_keeps_its_kind(kind: type[DragomanError]) -> None:
    encoder = WIRE.server.stream_encoder(Request(stream=True))
    _, error = laws.read(WIRE.client.stream_decoder(), [encoder.feed(kind("x"))])
    assert type(error) is kind


# Streams --------------------------------------------------------------------------------------------------------------

HEAD = {"id": "c-1", "object": "chat.completion.chunk", "created": 7, "model": "m-1"}
STARTED = Started(id="c-1", model="m-1", created=7)
FIRST = {**HEAD, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}


def stream(*events: Event, request: Request | None = None) -> list[dict[str, Any]]:
    """The chunks of some events, up to [DONE]."""
    encoder = WIRE.server.stream_encoder(request or Request(stream=True))
    assert encoder.content_type == "text/event-stream"
    data = b"".join(encoder.feed(event) for event in events).decode()
    assert data.endswith("\n\n")
    return [json.loads(line[6:]) for line in data.split("\n\n") if line and line != "data: [DONE]"]


def deltas(*parts: Part) -> list[dict[str, Any]]:
    """The deltas between the first chunk and the last."""
    response = Response(message=Message(role="assistant", parts=parts), finish=STOP)
    return [chunk["choices"][0]["delta"] for chunk in stream(*to_events(response))[1:-1]]


def test_a_lone_call_is_said_in_its_form() -> None:
    lone = ToolCall(id="call_1", name="tide", extra={"openai_chat": {"function_call": True}})
    assert deltas(lone) == [{"function_call": {"name": "tide", "arguments": "{}"}}]


def test_a_stream_is_chunks_and_a_farewell() -> None:
    encoder = WIRE.server.stream_encoder(Request(stream=True))
    events = (
        STARTED,
        PartStarted(index=0, kind="text"),
        PartDelta(index=0, text="Hi"),
        Ping(),
        PartEnded(index=0, part=Text(text="Hi")),
        Finished(finish=STOP, usage=Usage(input=9, output=4)),
    )
    data = b"".join(encoder.feed(event) for event in events).decode()
    *chunks, done, rest = data.split("\n\n")
    assert (chunks[2], done, rest) == (": ping", "data: [DONE]", "")
    del chunks[2]
    assert [json.loads(chunk.removeprefix("data: ")) for chunk in chunks] == [
        FIRST,
        {**HEAD, "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]},
        {
            **HEAD,
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
        },
    ]


def test_usage_comes_in_a_chunk_of_its_own_where_it_was_asked_for() -> None:
    request = decoded_request(messages=[ASK], stream=True, stream_options={"include_usage": True})
    usage = Usage(input=9, output=4)
    chunks = stream(STARTED, Finished(finish=STOP, usage=usage), request=request)
    assert chunks[1] == {**HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    assert chunks[2] == {
        **HEAD,
        "choices": [],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    }


def test_unknown_usage_is_not_told() -> None:
    assert "usage" not in stream(STARTED, Finished(finish=STOP))[-1]


def test_calls_are_whole_and_numbered() -> None:
    second = ToolCall(id="call_b", name="now")
    assert deltas(CALL, second) == [
        {"tool_calls": [{"index": 0, **CALL_JSON}]},
        {
            "tool_calls": [
                {"index": 1, "id": "call_b", "type": "function", "function": {"name": "now", "arguments": "{}"}}
            ]
        },
    ]


DELTAS: list[tuple[Part, list[dict[str, Any]]]] = [
    (Thinking(text="Hm."), [{"reasoning_content": "Hm."}]),
    (
        Thinking(text="Hm.", extra={"openai_chat": {"fields": ["reasoning_content", "reasoning"]}}),
        [{"reasoning_content": "Hm.", "reasoning": "Hm."}],
    ),
    (
        Thinking(text="Hm.", extra={"openai_chat": {"fields": ["reasoning"], "details": [{"text": "Hm."}]}}),
        [{"reasoning": "Hm."}, {"reasoning_details": [{"text": "Hm."}]}],
    ),
    (
        Thinking(text="Hm.", extra={"openai_chat": {"fields": ["content"], "chunk": {"closed": True}}}),
        [
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]},
            {"content": [{"type": "thinking", "thinking": [], "closed": True}]},
        ],
    ),
    (
        Thinking(text="", extra={"openai_chat": {"fields": ["reasoning_content"]}}),
        [{"reasoning_content": ""}],
    ),
    (Thinking(text="", redacted=True, extra={"anthropic": {}}), []),
    (Text(text="No.", extra={"openai_chat": {"refusal": True}}), [{"refusal": "No."}]),
    (Text(text="a", extra={"openai_chat": {"annotations": [{}]}}), [{"content": "a"}, {"annotations": [{}]}]),
    (PNG, [{"images": [PNG_JSON]}]),
    (Opaque(wire="openai_chat", data={"type": "reference"}), [{"content": [{"type": "reference"}]}]),
    (Opaque(wire="openai_chat", data={"audio": {"id": "a"}}), [{"audio": {"id": "a"}}]),
    (Opaque(wire="anthropic", data={"type": "server_tool_use"}), []),
]


@pytest.mark.parametrize(("part", "expected"), DELTAS)
def test_a_part_in_a_stream(part: Part, expected: list[dict[str, Any]]) -> None:
    assert deltas(part) == expected


def test_a_text_that_came_without_deltas_is_said_at_its_end() -> None:
    events = (
        STARTED,
        PartStarted(index=0, kind="text"),
        PartEnded(index=0, part=Text(text="Hi")),
        Finished(finish=STOP),
    )
    assert stream(*events)[1]["choices"][0]["delta"] == {"content": "Hi"}


def test_probabilities_and_citations_follow_the_text() -> None:
    text = Text(
        text="a",
        extra={"openai_chat": {"citations": ["https://x"]}},
        logprobs=(TokenLogprob(token="a", logprob=-1.0, bytes=(97,)),),
    )
    response = Response(message=assistant(text), finish=STOP)
    chunk = stream(*to_events(response))[2]
    assert chunk["choices"][0] == {
        "index": 0,
        "delta": {},
        "finish_reason": None,
        "logprobs": {
            "content": [{"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": []}],
            "refusal": None,
        },
    }
    assert chunk["citations"] == ["https://x"]


def test_a_refusal_ends_in_stop() -> None:
    refused = Text(text="No.", extra={"openai_chat": {"refusal": True}})
    response = Response(message=assistant(refused), finish=Finish(reason="blocked", raw="stop"))
    assert stream(*to_events(response))[-1]["choices"][0]["finish_reason"] == "stop"


MIRRORED: list[Part] = [
    Text(
        text="a",
        extra={"openai_chat": {"annotations": [{"n": 1}]}},
        logprobs=(TokenLogprob(token="a", logprob=-1.0, top=(TokenLogprob(token="b", logprob=-2.0),)),),
    ),
    Text(
        text="No.",
        extra={"openai_chat": {"refusal": True}},
        logprobs=(TokenLogprob(token="No.", logprob=-1.0),),
    ),
    Text(text="No.", extra={"openai_chat": {"refusal": True}}),
    Thinking(text="Hm.", extra={"openai_chat": {"fields": ["reasoning"], "details": [{"text": "Hm.", "index": 0}]}}),
    Thinking(text="Hm.", extra={"openai_chat": {"fields": ["content"], "chunk": {"closed": True}}}),
    Thinking(text="", redacted=True, extra={"openai_chat": {"details": [{"data": "AA", "index": 0}]}}),
    Image(data=b"\x89PNG", mime="image/png", extra={"openai_chat": {"index": 0}}),
    Opaque(wire="openai_chat", data={"type": "reference", "reference_ids": [3]}),
    Opaque(wire="openai_chat", data={"content": []}),
    Opaque(wire="openai_chat", data={"audio": {"id": "a", "data": "UklG"}}),
    ToolCall(id="c", name="sql", arguments={"input": "select 1"}, extra={"openai_chat.verbatim": {"type": "custom"}}),
    ToolCall(id="c", name="now", extra={"openai_chat": {"extra_content": {"google": {"thought_signature": "x"}}}}),
    ToolCall(id="c", name="now", extra={"openai_chat": {"x": 1, "function": {"y": 2}}}),
    ToolCall(
        id="c",
        name="sql",
        arguments={"input": ""},
        extra={"openai_chat.verbatim": {"type": "custom"}, "openai_chat": {"custom": {"y": 2}}},
    ),
]


@pytest.mark.parametrize("part", MIRRORED)
def test_what_this_wire_gave_survives_it_as_a_body_and_as_a_stream(part: Part) -> None:
    called, refused = isinstance(part, ToolCall), isinstance(part, Text) and part.text == "No."
    finish = Finish(reason="tool_calls", raw="tool_calls") if called else STOP
    response = Response(
        message=Message(role="assistant", parts=(part,)),
        finish=Finish(reason="blocked", raw="stop") if refused else finish,
    )
    laws.body_is_stream_folded(laws.Profile(name="openai_chat", target=target("openai/m-1"), options={}), response)


def test_blank_thinking_before_a_call_survives() -> None:
    blank = Thinking(text="", extra={"openai_chat": {"fields": ["reasoning_content"]}})
    response = Response(message=assistant(blank, CALL), finish=Finish(reason="tool_calls", raw="tool_calls"))
    laws.body_is_stream_folded(laws.Profile(name="openai_chat", target=target("openai/m-1"), options={}), response)


def test_a_stream_reads_as_it_was_written() -> None:
    response = Response(
        id="c-1",
        model="m-1",
        created=7,
        message=assistant(
            Thinking(text="Hm.", extra={"openai_chat": {"fields": ["reasoning"]}}),
            Text(text="First."),
            Thinking(text="Hm.", extra={"openai_chat": {"fields": ["reasoning"]}}),
            Text(text="Then."),
        ),
        finish=STOP,
    )
    encoder = WIRE.server.stream_encoder(Request(stream=True))
    data = b"".join(encoder.feed(event) for event in to_events(response))
    events, error = laws.read(WIRE.client.stream_decoder(), [data])
    assert error is None
    assert fold(events) == response


# Questions of nothing but texts ---------------------------------------------------------------------------------------

_NUMBER = st.none() | st.integers(-3, 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
_SAID: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "developer", "tool", "pilot"])},
    optional={"content": st.none() | st.text(max_size=3) | st.just([]), "name": st.just("A")},
)
_ASKED: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "model": st.none() | st.text(max_size=3),
        "messages": st.lists(_SAID, max_size=4),
        **dict.fromkeys(("temperature", "top_p", "max_tokens", "max_completion_tokens", "n"), _NUMBER),
        "stream": st.none() | st.booleans() | st.just("yes"),
    },
)


@given(_ASKED)
def test_a_plain_question_is_read_as_any_other(decoded_request: dict[str, Any]) -> None:
    http = HttpRequest(method="POST", path="/v1/chat/completions", body=json.dumps(decoded_request).encode())
    plain = decode_plain(http.body)
    assert plain is None or plain == decode_any(http)


def test_a_plain_question_is_read_at_once() -> None:
    decoded_request = {"model": "m", "messages": [{"role": "system", "content": "Be brief."}, ASK], "max_tokens": 5}
    plain = Request(system="Be brief.", messages=(user("?"),), max_tokens=5)
    assert decode_plain(json.dumps(decoded_request).encode()) == ("m", plain)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000], ids=["nothing", "cut", "no text", "deep"])
def test_what_is_no_json_is_no_plain_question(body: bytes) -> None:
    assert decode_plain(body) is None
