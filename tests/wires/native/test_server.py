"""Exact JSON that native clients see, and what their calls mean."""

from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.engine.exhausted import exhausted
from dragoman.errors import (
    AuthFailed,
    ConnectFailed,
    DragomanError,
    InvalidRequest,
    Malformed,
    RateLimited,
    ServerFault,
    TimedOut,
    Unsupported,
)
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started
from dragoman.http import HttpRequest, HttpResponse
from dragoman.schema.validate import schema_error, validate
from dragoman.types import (
    Attempt,
    Finish,
    Image,
    ModelInfo,
    Notice,
    Opaque,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    user,
)
from dragoman.wires.common.server_endpoints import ListModels, StaticDocument
from dragoman.wires.native.problems import MAX_PROBLEMS, InvalidNativeRequest, Problem
from dragoman.wires.native.schema import REQUEST_FIELDS

SERVER = wires.get("native").server
HELLO = [{"role": "user", "content": "Hello"}]
TIDE: dict[str, Any] = {
    "type": "function",
    "function": {"name": "tide", "description": "Tide height", "parameters": {"type": "object", "properties": {}}},
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "tide", "arguments": {"port": "Brest"}}}
CALL_MESSAGE = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWER: dict[str, Any] = {"role": "tool", "tool_call_id": "call_1", "content": "4.2 m"}


def http(**body: Any) -> HttpRequest:
    return HttpRequest(method="POST", path="/native/v1/chat/completions", body=msgspec.json.encode(body))


def decoded(**body: Any) -> Request:
    return SERVER.decode_request(http(**{"messages": HELLO, **body}))[1]


def problems(**body: Any) -> list[tuple[str, str]]:
    """Place and code of all that is wrong."""
    with pytest.raises(InvalidNativeRequest) as caught:
        decoded(**body)
    return [(problem.param, problem.code) for problem in caught.value.problems]


def tool(**function: Any) -> dict[str, Any]:
    return {**TIDE, "function": {**TIDE["function"], **function}}


def error_body(error: DragomanError) -> Any:
    return msgspec.json.decode(SERVER.encode_error(error).body)["error"]


# Requests -------------------------------------------------------------------------------------------------------------


def test_the_model_is_told_or_the_tier_or_neither() -> None:
    assert SERVER.decode_request(http(model="a/x", messages=HELLO))[0] == "a/x"
    assert SERVER.decode_request(http(tier="complex", messages=HELLO))[0] == "complex"
    assert SERVER.decode_request(http(messages=HELLO))[0] == ""
    assert problems(model="a/x", tier="complex") == [("tier", "conflict")]


def test_all_that_can_be_asked() -> None:
    request = decoded(
        temperature=2,
        max_tokens=1,
        top_p=0.5,
        stop="END",
        stream=True,
        conversation_id="é 1",
        tools=[{**TIDE, "extra": {"anthropic": {"cache_control": {}}}}],
        tool_choice={"type": "function", "function": {"name": "tide"}},
        schema={"type": "object"},
        schema_name="port",
        reasoning="high",
        tier="complex",
    )
    assert request == Request(
        messages=(user("Hello"),),
        temperature=2,
        max_tokens=1,
        top_p=0.5,
        stop=("END",),
        stream=True,
        tools=(Tool(name="tide", description="Tide height", extra={"anthropic": {"cache_control": {}}}),),
        tool_choice="tide",
        schema={"type": "object"},
        schema_name="port",
        reasoning="high",
        extra={"native.verbatim": {"conversation_id": "é 1", "tier": "complex"}},
    )


def test_null_is_not_told() -> None:
    assert decoded(temperature=None, tools=None, stop=None, schema=None, reasoning=None) == decoded()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 2.1),
        ("temperature", -0.1),
        ("temperature", "warm"),
        ("max_tokens", 0),
        ("max_tokens", 1.5),
        ("top_p", 1.1),
        ("stop", ["1", "2", "3", "4", "5"]),
        ("stop", ""),
        ("stream", "yes"),
        ("conversation_id", "x" * 129),
        ("conversation_id", "a\nb"),
        ("conversation_id", ""),
        ("reasoning", "hard"),
        ("reasoning", -1),
        ("schema_name", ""),
        ("model", ""),
        ("messages", []),
        ("tools", {}),
        ("tool_choice", "any"),
        ("tool_choice", {"name": "tide"}),
    ],
)
def test_a_value_out_of_bounds_is_refused(field: str, value: object) -> None:
    assert problems(**{field: value}) == [(field, "invalid_value")]


def test_unknown_fields_are_refused() -> None:
    assert problems(seed=1) == [("seed", "unknown_field")]
    picture = {"type": "image", "url": "https://example.org/a.png", "size": 3}
    part = [{"role": "user", "content": [picture]}]
    assert problems(messages=part) == [("messages[0].content[0].size", "unknown_field")]
    assert problems(messages=[{"role": "user", "content": "x", "name": "me"}]) == [
        ("messages[0].name", "unknown_field")
    ]


def test_messages_are_demanded() -> None:
    with pytest.raises(InvalidNativeRequest, match="messages is required"):
        SERVER.decode_request(http())


def test_a_body_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        SERVER.decode_request(HttpRequest(method="POST", path="/", body=b"[]"))


def test_a_schema_must_be_one() -> None:
    assert problems(schema={"type": "objekt"}) == [("schema", "invalid_schema")]


@pytest.mark.no_cover
def test_a_schema_must_not_take_long_to_compile() -> None:
    schemas = {f"d{n}": {"anyOf": 2 * [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(40)}
    large = {"unevaluatedProperties": False, "$ref": "#/$defs/d0", "$defs": {**schemas, "d40": {}}}
    assert problems(schema=large) == [("schema", "invalid_schema")]
    assert problems(schema={"pattern": "a" * 10_001}) == [("schema", "invalid_schema")]
    tools = [tool(parameters={"type": "object", **large})]
    assert problems(tools=tools) == [("tools[0].function.parameters", "invalid_schema")]


@pytest.mark.parametrize(
    ("tools", "place", "code"),
    [
        ([3], "tools[0]", "invalid_value"),
        ([{"type": "function"}], "tools[0].function", "missing"),
        ([{"function": TIDE["function"]}], "tools[0].type", "missing"),
        ([{**TIDE, "type": "tide"}], "tools[0].type", "invalid_value"),
        ([{**TIDE, "type": "web_search"}], "tools[0].function", "unknown_field"),
        ([{"type": "web_search", "max_uses": 0}], "tools[0]", "invalid_value"),
        ([{"type": "file_search"}], "tools[0].stores", "missing"),
        ([tool(name="a-b")], "tools[0].function.name", "invalid_value"),
        ([tool(name="x" * 65)], "tools[0].function.name", "invalid_value"),
        ([tool(description=" ")], "tools[0].function.description", "invalid_value"),
        ([tool(description=None)], "tools[0].function.description", "missing"),
        ([tool(parameters=None)], "tools[0].function.parameters", "missing"),
        ([tool(parameters={"type": "array"})], "tools[0].function.parameters", "invalid_schema"),
        ([tool(parameters={"type": "object", "required": 3})], "tools[0].function.parameters", "invalid_schema"),
        ([TIDE, TIDE], "tools[1].function.name", "duplicate_tool"),
    ],
)
def test_a_tool_that_cannot_be_is_refused(tools: list[Any], place: str, code: str) -> None:
    assert problems(tools=tools) == [(place, code)]


def test_a_choice_must_be_possible() -> None:
    assert problems(tool_choice="required") == [("tool_choice", "no_tools")]
    assert decoded(tool_choice="required", tools=[TIDE]).tool_choice == "required"
    named = {"type": "function", "function": {"name": "now"}}
    assert problems(tool_choice=named, tools=[TIDE]) == [("tool_choice", "unknown_tool")]


def test_all_problems_are_told_at_once_with_their_places() -> None:
    with pytest.raises(InvalidNativeRequest) as caught:
        decoded(
            messages=[{"role": "robot"}, 7],
            tools=[tool(name="?", description=""), tool(parameters={"type": "objekt"})],
            temperature=3,
            colour="red",
        )
    assert [problem.param for problem in caught.value.problems] == [
        "colour",
        "temperature",
        "messages[0].role",
        "messages[1]",
        "tools[0].function.name",
        "tools[0].function.description",
        "tools[1].function.parameters",
        "tools[1].function.parameters",
    ]
    assert "; tools[1].function.parameters: " in caught.value.message


def test_no_more_problems_are_told_than_somebody_reads() -> None:
    assert len(problems(messages=[{"role": "robot"}] * 500)) == MAX_PROBLEMS


# Messages -------------------------------------------------------------------------------------------------------------


def test_every_role_and_part() -> None:
    request = decoded(
        messages=[
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [{"type": "text", "text": "?"}, {"type": "image", "data": "aGk=", "mime": "a/b"}],
            },
            {"role": "system", "content": "In French."},
            {"role": "assistant", "content": [{"type": "thinking", "text": "Hm.", "extra": {"x": {"s": 1}}}]},
            {"role": "assistant", "content": [{"type": "opaque", "wire": "google", "data": {"a": 1}}]},
            {"role": "assistant", "content": ""},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {**ANSWER, "is_error": True},
        ]
    )
    assert request.system == "Be brief."
    assert [(message.role, message.parts) for message in request.messages] == [
        ("user", (Text(text="?"), Image(data=b"hi", mime="a/b"))),
        ("system", (Text(text="In French."),)),
        ("assistant", (Thinking(text="Hm.", extra={"x": {"s": 1}}),)),
        ("assistant", (Opaque(wire="google", data={"a": 1}),)),
        ("assistant", ()),
        ("assistant", (ToolCall(id="call_1", name="tide", arguments={"port": "Brest"}),)),
        ("tool", (ToolResult(id="call_1", name="tide", content="4.2 m", is_error=True),)),
    ]


RESULTS: list[tuple[object, object]] = [
    ("4.2 m", "4.2 m"),
    ({"height": 4.2}, '{"height":4.2}'),
    ([1, 2], "[1,2]"),
    ([], "[]"),
    (None, "null"),
    (4.2, "4.2"),
    ([{"type": "text", "text": "4.2 m"}], (Text(text="4.2 m"),)),
    ([{"type": "opaque", "wire": "google", "data": {}}], (Opaque(wire="google", data={}),)),
]


@pytest.mark.parametrize(("content", "meaning"), RESULTS)
def test_a_result_is_text_or_json_or_parts(content: object, meaning: object) -> None:
    request = decoded(messages=[*HELLO, CALL_MESSAGE, {**ANSWER, "content": content}])
    assert request.messages[-1].tool_results[0].content == meaning


BAD_MESSAGES: list[tuple[list[Any], str, str]] = [
    ([{"role": "user"}], "messages[0].content", "missing"),
    ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text", "missing"),
    ([{"role": "user", "content": [{"type": "image"}]}], "messages[0].content[0]", "missing"),
    (
        [{"role": "user", "content": [{"type": "thinking", "text": ""}]}],
        "messages[0].content[0].type",
        "invalid_value",
    ),
    (
        [{"role": "user", "content": [{"type": "text", "text": "", "extra": {"x": 1}}]}],
        "messages[0].content[0].extra[...]",
        "invalid_value",
    ),
    ([{"role": "system", "content": [{"type": "image"}]}], "messages[0].content[0].type", "invalid_value"),
    ([{"role": "assistant"}], "messages[0].content", "missing"),
    ([{"role": "assistant", "tool_calls": []}], "messages[0].content", "missing"),
    ([ANSWER], "messages[0].tool_call_id", "unknown_tool_call"),
    ([ANSWER, CALL_MESSAGE, ANSWER], "messages[0].tool_call_id", "unknown_tool_call"),
    ([CALL_MESSAGE], "messages[0].tool_calls[0]", "unanswered_tool_call"),
    ([CALL_MESSAGE, ANSWER, ANSWER], "messages[2].tool_call_id", "duplicate_tool_result"),
    ([CALL_MESSAGE, ANSWER, CALL_MESSAGE], "messages[2].tool_calls[0].id", "duplicate_tool_call"),
    ([CALL_MESSAGE, {"role": "tool", "tool_call_id": "call_1"}], "messages[1].content", "missing"),
    ([CALL_MESSAGE, ANSWER, {"role": "tool", "content": ""}], "messages[2].tool_call_id", "missing"),
    (
        [{**CALL_MESSAGE, "tool_calls": [{**CALL, "function": {"name": "tide", "arguments": "{}"}}]}, ANSWER],
        "messages[0].tool_calls[0].function.arguments",
        "invalid_value",
    ),
    (
        [{**CALL_MESSAGE, "tool_calls": [{"function": {"name": "tide"}}]}],
        "messages[0].tool_calls[0].id",
        "missing",
    ),
]


@pytest.mark.parametrize(("messages", "place", "code"), BAD_MESSAGES)
def test_a_message_that_cannot_be_is_refused(messages: list[Any], place: str, code: str) -> None:
    assert problems(messages=messages) == [(place, code)]


def test_an_answer_can_be_sent_back_as_it_is() -> None:
    parts = (
        Thinking(text="Hm.", extra={"anthropic": {"signature": "s"}}),
        Text(text="Yes."),
        ToolCall(id="call_1", name="tide", arguments={"port": "Brest"}, extra={"google": {"t": 1}}),
    )
    reply = SERVER.encode_body(Response(message=assistant(*parts), finish=Finish(reason="tool_calls")))
    message = msgspec.json.decode(reply.body)["choices"][0]["message"]
    assert decoded(messages=[*HELLO, message, ANSWER]).messages[1] == assistant(*parts)


def test_an_empty_answer_can_be_sent_back_too() -> None:
    reply = SERVER.encode_body(Response(message=assistant(), finish=Finish(reason="stop")))
    message = msgspec.json.decode(reply.body)["choices"][0]["message"]
    assert decoded(messages=[*HELLO, message, *HELLO]).messages[1] == assistant()


# Answers --------------------------------------------------------------------------------------------------------------


def test_a_whole_answer() -> None:
    response = Response(
        id="r1",
        model="m",
        created=7,
        message=assistant("Hello", ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})),
        finish=Finish(reason="tool_calls", raw="tool_use"),
        usage=Usage(input=3, output=5, cache_read=1),
        notices=(Notice(kind="dropped", what="seed", why="no such option"),),
    )
    assert msgspec.json.decode(SERVER.encode_body(response).body) == {
        "id": "r1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "tool_calls": [CALL]},
                "finish_reason": "tool_calls",
                "finish_raw": "tool_use",
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 5,
            "total_tokens": 8,
            "cache_read_tokens": 1,
            "cache_write_tokens": None,
            "reasoning_tokens": None,
            "source": "reported",
        },
        "notices": [{"kind": "dropped", "what": "seed", "why": "no such option"}],
    }


def test_usage_is_always_there() -> None:
    body = SERVER.encode_body(Response(message=assistant("Hello"), finish=Finish(reason="stop"))).body
    assert msgspec.json.decode(body)["usage"]["source"] == "unknown"


def test_a_stream() -> None:
    encoder = SERVER.stream_encoder(Request())
    events: list[Event] = [
        Started(id="r1", model="m", created=7),
        PartStarted(index=0, kind="text"),
        PartDelta(index=0, text="Hi"),
        Ping(),
        PartEnded(index=0, part=Text(text="Hi", extra={"x": {"a": 1}})),
        PartStarted(index=1, kind="tool_call"),
        PartEnded(index=1, part=ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})),
        PartStarted(index=2, kind="image"),
        PartEnded(index=2, part=Image(url="https://example.org/a.png")),
        PartStarted(index=3, kind="tool_result"),
        PartEnded(index=3, part=ToolResult(id="x")),
        Finished(finish=Finish(reason="tool_calls")),
    ]
    frames = b"".join(encoder.feed(event) for event in events).decode().split("\n\n")
    assert encoder.content_type == "text/event-stream"
    assert frames[-2:] == ["data: [DONE]", ""]
    assert frames[2] == ": ping"
    chunks = [msgspec.json.decode(frame[6:]) for frame in frames[:-2] if frame != ": ping"]
    assert chunks[0] == {
        "id": "r1",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "m",
        "choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}],
    }
    assert [chunk["choices"][0]["delta"] for chunk in chunks[1:]] == [
        {"index": 0, "content": "Hi"},
        {"index": 0, "part": {"type": "text", "extra": {"x": {"a": 1}}}},
        {"tool_calls": [{"index": 0, **CALL}]},
        {"index": 2, "part": {"type": "image", "url": "https://example.org/a.png"}},
        {},
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["usage"]["source"] == "unknown"


def test_each_call_of_a_stream_has_its_own_index_among_the_calls() -> None:
    encoder = SERVER.stream_encoder(Request())
    parts: list[Part] = [
        Text(text="So:"),
        ToolCall(id="a", name="tide"),
        Text(text="and"),
        ToolCall(id="b", name="now"),
    ]
    ended = [PartEnded(index=index, part=part) for index, part in enumerate(parts)]
    frames = b"".join(map(encoder.feed, ended)).split(b"\n\n")[:-1]
    deltas = [msgspec.json.decode(frame[6:])["choices"][0]["delta"] for frame in frames]
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert [(call["index"], call["id"]) for call in calls] == [(0, "a"), (1, "b")]


def test_a_call_of_a_stream_can_be_sent_back_with_its_index() -> None:
    indexed = {**CALL_MESSAGE, "tool_calls": [{"index": 0, **CALL}]}
    assert decoded(messages=[*HELLO, indexed, ANSWER]) == decoded(messages=[*HELLO, CALL_MESSAGE, ANSWER])
    wrong = {**CALL_MESSAGE, "tool_calls": [{"index": -1, **CALL}]}
    place = "messages[1].tool_calls[0].index"
    assert problems(messages=[*HELLO, wrong, ANSWER]) == [(place, "invalid_value")]


def test_an_error_ends_a_stream_without_its_farewell() -> None:
    encoder = SERVER.stream_encoder(Request())
    data = encoder.feed(Started()) + encoder.feed(ServerFault("boom"))
    assert b'data: {"error":{"message":"boom"' in data
    assert b"[DONE]" not in data


class Down(DragomanError):
    http_status = 503


class Large(InvalidRequest):
    http_status = 413


# Errors ---------------------------------------------------------------------------------------------------------------


def test_a_refusal_has_the_first_place_and_all_problems() -> None:
    with pytest.raises(InvalidNativeRequest) as caught:
        decoded(messages=[ANSWER], temperature=3)
    caught.value.request_id = "q1"
    reply = SERVER.encode_error(caught.value)
    assert reply.status == 400
    details = msgspec.json.decode(reply.body)["error"]
    assert (details["type"], details["code"], details["param"]) == ("invalid_request", "invalid_value", "temperature")
    assert details["request_id"] == "q1"
    assert [problem["code"] for problem in details["problems"]] == ["invalid_value", "unknown_tool_call"]


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (InvalidRequest("no"), 400, "invalid_request", "invalid_request"),
        (Unsupported("no"), 422, "invalid_request", "unsupported"),
        (AuthFailed("no"), 401, "authentication", "authentication"),
        (AuthFailed("no", status=403), 403, "permission", "forbidden"),
        (RateLimited("no"), 429, "rate_limited", "rate_limited"),
        (RateLimited("no", retry=False), 429, "rate_limited", "no_credit"),
        (ServerFault("no"), 502, "provider_error", "provider_error"),
        (TimedOut("no"), 504, "deadline", "deadline"),
        (exhausted([], []), 503, "unavailable", "exhausted"),
        (exhausted([RateLimited("no")], []), 429, "rate_limited", "rate_limited"),
        (DragomanError("no"), 500, "internal", "internal"),
        (Down("no"), 503, "unavailable", "unavailable"),
        (Large("no"), 413, "too_large", "too_large"),
    ],
)
def test_an_error_has_its_status_type_and_code(error: DragomanError, status: int, kind: str, code: str) -> None:
    assert SERVER.encode_error(error).status == status
    assert (error_body(error)["type"], error_body(error)["code"]) == (kind, code)


def test_retry_after_is_told() -> None:
    assert SERVER.encode_error(RateLimited("slow", retry_after=1.2)).headers["retry-after"] == "2"


@pytest.mark.parametrize(
    "error",
    [
        ServerFault("<html>secret.example</html>", provider="groq"),
        ServerFault('{"detail": "secret.example"}', provider="groq"),
        ServerFault("see https://secret.example/x?key=1 for more", provider="groq"),
        Malformed("not JSON: secret.example", provider="groq"),
        ConnectFailed("http://secret.example: refused", provider="groq"),
        exhausted(
            [ServerFault("secret.example", provider="groq")],
            [Attempt(target="groq/x", outcome="failed", error="ServerFault: secret.example")],
        ),
    ],
)
def test_nothing_of_a_providers_bytes_or_address_is_shown(error: DragomanError) -> None:
    assert "secret" not in SERVER.encode_error(error).body.decode()
    assert error_body(error)["provider"] == "groq"


def test_what_a_target_cannot_do_is_told() -> None:
    why = "ollama: cannot send a document; use another target"
    error = exhausted([Unsupported(why)], [Attempt(target="ollama/x", outcome="failed", error=f"Unsupported: {why}")])
    assert error_body(error)["message"] == f"no target could answer: ollama/x failed (Unsupported: {why})"


# Documentation --------------------------------------------------------------------------------------------------------


def recited(path: str) -> HttpResponse:
    return next(service for service in wires.get("native").server_endpoints if service.route.path == path).encode(
        StaticDocument(), None
    )


def test_the_document_is_one_of_openapi() -> None:
    document = msgspec.json.decode(recited("/native/openapi.json").body)
    assert document["openapi"] == "3.1.0"
    schemas = document["components"]["schemas"]
    assert schemas["Request"]["properties"].keys() == REQUEST_FIELDS.keys()
    for name in schemas:
        assert schema_error({"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}) is None


def fits(name: str, value: Any) -> tuple[str, ...]:
    """Why a value does not satisfy a schema of the document."""
    document = msgspec.json.decode(recited("/native/openapi.json").body)
    return validate(value, {"$ref": f"#/components/schemas/{name}", "components": document["components"]})


def test_what_is_asked_satisfies_the_document() -> None:
    body = {
        "model": "a/x",
        "messages": [
            *HELLO,
            {"role": "user", "content": [{"type": "image", "url": "https://x/a"}]},
            CALL_MESSAGE,
            ANSWER,
        ],
        "tools": [TIDE],
        "tool_choice": "auto",
        "temperature": None,
    }
    assert fits("Request", body) == ()
    assert fits("Request", {**body, "seed": 1})
    assert fits("Request", {**body, "tools": [tool(name="a-b")]})


def test_what_is_answered_satisfies_the_document() -> None:
    response = Response(
        message=assistant(Thinking(text="Hm."), ToolCall(id="call_1", name="tide")),
        finish=Finish(reason="tool_calls", raw="tool_use"),
        notices=(Notice(kind="dropped", what="seed", why="no such option"),),
    )
    assert fits("Completion", msgspec.json.decode(SERVER.encode_body(response).body)) == ()
    refused = InvalidNativeRequest([Problem("messages", "missing", "it is required")])
    assert fits("Error", msgspec.json.decode(SERVER.encode_error(refused).body)) == ()
    listed = wires.get("native").server_endpoints[0].encode(ListModels(), (ModelInfo(id="fast", context_window=3),))
    assert fits("Models", msgspec.json.decode(listed.body)) == ()


def test_the_page_fetches_nothing() -> None:
    reply = recited("/native/docs")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    page = reply.body.decode()
    assert "conversation_id" in page
    assert "src=" not in page
    assert "//" not in page.replace("<!doctype", "")
