"""What clients of Ollama send us, and what we answer them, byte for byte."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.errors import DragomanError, InvalidRequest, ModelNotFound, RateLimited
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started, fold, to_events
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.types import (
    Audio,
    Document,
    Effort,
    Finish,
    Image,
    JsonObject,
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
    user,
)
from dragoman.wires.common.server_endpoints import Route

WIRE = wires.get("ollama")
PORT = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}
TIDE = {"type": "function", "function": {"name": "tide", "parameters": PORT}}
HEAD = {"model": "qwen", "created_at": "2026-11-15T10:00:00Z"}
USAGE = Usage(input=12, output=4)
STOP = Finish(reason="stop", raw="stop")
IMAGES = {
    "iVBORw0KGgo=": "image/png",
    "/9j/4A==": "image/jpeg",
    "R0lGODlh": "image/gif",
    "UklGRgAAAABXRUJQ": "image/webp",
    "UklGRgAAAABXQVZF": "application/octet-stream",
}


def decoded(**body: Any) -> Request:
    """The request that a client sent."""
    return WIRE.server.decode_request(post(body))[1]


def post(body: JsonObject) -> HttpRequest:
    """A body as it comes in."""
    return HttpRequest(method="POST", path="/api/chat", body=msgspec.json.encode(body))


def messages_of(*messages: JsonObject) -> tuple[Message, ...]:
    """The turns of some messages."""
    return decoded(messages=list(messages)).messages


def call(name: str, id: str | None = None) -> JsonObject:
    """A call in a message."""
    data: JsonObject = {"function": {"name": name, "arguments": {}}}
    return data if id is None else {"id": id, **data}


def asking(*calls: JsonObject) -> JsonObject:
    """A message of the assistant that calls."""
    return {"role": "assistant", "content": "", "tool_calls": list(calls)}


def response(*parts: Part, finish: Finish = STOP, usage: Usage = USAGE) -> Response:
    """An answer."""
    message = Message(role="assistant", parts=parts)
    return Response(model="qwen", created=1794736800, message=message, finish=finish, usage=usage)


def body_of(answer: Response) -> JsonObject:
    """The whole answer, as JSON."""
    data: JsonObject = msgspec.json.decode(WIRE.server.encode_body(answer).body)
    return data


def lines(*events: Event | DragomanError) -> list[JsonObject]:
    """The lines of some events, as JSON."""
    encoder = WIRE.server.stream_encoder(Request(stream=True))
    data = b"".join(encoder.feed(event) for event in events)
    return [msgspec.json.decode(line) for line in data.splitlines()]


def line(**message: Any) -> JsonObject:
    """A line in the middle of a stream."""
    return {**HEAD, "message": {"role": "assistant", "content": "", **message}, "done": False}


# Requests -------------------------------------------------------------------------------------------------------------


def test_the_route_is_the_chat_path() -> None:
    assert WIRE.server.routes == (Route(method="POST", path="/api/chat"),)


@pytest.mark.parametrize(("given", "stream"), [({}, True), ({"stream": None}, True), ({"stream": False}, False)])
def test_a_missing_stream_means_a_stream(given: JsonObject, stream: bool) -> None:  # noqa: FBT001
    assert WIRE.server.decode_request(post({"model": "qwen", "messages": [], **given})) == (
        "qwen",
        Request(stream=stream),
    )


def test_no_messages_are_none() -> None:
    assert decoded(messages=None, keep_alive=0) == Request(stream=True, extra={"ollama": {"keep_alive": 0}})


def test_the_system_prompt_comes_from_the_first_messages() -> None:
    request = decoded(messages=[{"role": "System", "content": "Be brief."}, {"role": "user", "content": "?"}])
    assert request.system == "Be brief."
    assert request.messages == (user("?"),)


def test_several_system_messages_are_several_texts() -> None:
    request = decoded(messages=[{"role": "system", "content": "a"}, {"role": "system", "content": "b", "mood": "calm"}])
    assert request.system == (Text(text="a"), Text(text="b", extra={"ollama": {"mood": "calm"}}))


def test_a_system_message_inside_the_history_stays_in_its_place() -> None:
    assert messages_of({"role": "user", "content": "?"}, {"role": "system", "content": "Now!"}) == (
        user("?"),
        system("Now!"),
    )


def test_content_may_be_empty_or_missing() -> None:
    assert messages_of({"role": "user", "content": ""}, {"role": "user"}) == (user(""), Message(role="user"))


@pytest.mark.parametrize(("text", "mime"), IMAGES.items())
def test_the_type_of_an_image_is_seen_in_its_bytes(text: str, mime: str) -> None:
    [message] = messages_of({"role": "user", "content": "", "images": [text]})
    [image] = message.parts
    assert isinstance(image, Image)
    assert image.mime == mime


def test_images_follow_the_text() -> None:
    [message] = messages_of({"role": "user", "content": "What is this?", "images": ["R0lGODlh"], "mood": "calm"})
    assert message.parts == (Text(text="What is this?"), Image(data=b"GIF89a", mime="image/gif"))
    assert message.extra == {"ollama": {"mood": "calm"}}


def test_an_assistant_thinks_speaks_and_calls() -> None:
    data = {
        "role": "assistant",
        "content": "I look.",
        "thinking": "Look it up.",
        "tool_calls": [
            {"id": "a", "type": "function", "mark": 1, "function": {"index": 0, "name": "tide", "arguments": {"x": 1}}},
            {"id": "b", "function": {"name": "now", "arguments": '{"x": 2}', "signature": "s"}},
        ],
    }
    assert messages_of(data) == (
        assistant(
            Thinking(text="Look it up.", extra={"ollama": {}}),
            Text(text="I look."),
            ToolCall(id="a", name="tide", arguments={"x": 1}, extra={"ollama": {"mark": 1}}),
            ToolCall(
                id="b",
                name="now",
                arguments={"x": 2},
                raw='{"x": 2}',
                extra={"ollama": {"function": {"signature": "s"}}},
            ),
        ),
    )


def test_results_that_follow_each_other_are_one_turn() -> None:
    turns = messages_of(
        asking(call("tide", "a"), call("now", "b")),
        {"role": "tool", "content": "noon", "tool_call_id": "b"},
        {"role": "tool", "content": "ERROR: no", "tool_call_id": "a", "tool_name": "tide", "late": True},
    )
    assert turns[1] == Message(
        role="tool",
        parts=(
            ToolResult(id="b", name="now", content="noon"),
            ToolResult(id="a", name="tide", content="no", is_error=True, extra={"ollama": {"late": True}}),
        ),
    )


def answered(*messages: JsonObject) -> list[tuple[str, str]]:
    """Id and name of each result."""
    return [(result.id, result.name) for turn in messages_of(*messages) for result in turn.tool_results]


def test_results_without_ids_find_their_calls_by_name_and_order() -> None:
    assert answered(
        asking(call("tide"), call("now"), call("tide")),
        {"role": "tool", "content": "", "tool_name": "now"},
        {"role": "tool", "content": "", "tool_name": "tide"},
        {"role": "tool", "content": "", "tool_name": "tide"},
        asking(call("now"), call("tide", "t")),
        {"role": "tool", "content": ""},
        {"role": "tool", "content": "", "tool_call_id": "t"},
    ) == [("call_2", "now"), ("call_1", "tide"), ("call_3", "tide"), ("call_4", "now"), ("t", "tide")]


def test_a_result_with_an_id_that_no_call_has_answers_a_call_without_one() -> None:
    assert answered(asking(call("tide")), {"role": "tool", "tool_name": "tide", "tool_call_id": "x"}) == [
        ("call_1", "tide")
    ]


def test_a_result_answers_the_call_of_its_id_though_one_without_an_id_waits() -> None:
    assert answered(
        asking(call("tide"), call("tide", "t")),
        {"role": "tool", "tool_name": "tide", "tool_call_id": "t"},
        {"role": "tool", "tool_name": "tide"},
    ) == [("t", "tide"), ("call_1", "tide")]


def test_each_call_is_answered_once() -> None:
    assert answered(
        asking(call("tide", "a"), call("tide", "b")),
        {"role": "tool", "tool_call_id": "a"},
        {"role": "tool", "tool_name": "tide"},
        {"role": "tool", "tool_name": "tide"},
    ) == [("a", "tide"), ("b", "tide"), ("", "tide")]


def test_a_system_message_after_a_result_stays_in_its_place() -> None:
    turns = messages_of({"role": "tool", "content": "noon"}, {"role": "system", "content": "Now!"})
    assert turns == (Message(role="tool", parts=(ToolResult(id="", content="noon"),)), system("Now!"))


def reversed_results(count: int) -> Callable[[], object]:
    """Work: as many calls in one turn, half of them without ids, and their results from the last to the first."""
    calls = [call(f"tool_{number}", f"call_{number + count}" if number % 2 else None) for number in range(count)]
    results = [{"role": "tool", "content": "", "tool_name": one["function"]["name"]} for one in reversed(calls)]
    http = post({"messages": [asking(*calls), *results]})
    return lambda: WIRE.server.decode_request(http)


def lines_of(work: Callable[[], object]) -> int:
    """How many lines of Python were run: a search through a list calls nothing."""
    count = 0

    def tell(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return tell

    before = sys.gettrace()
    sys.settrace(tell)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_ten_times_the_calls_are_ten_times_the_work() -> None:
    assert lines_of(reversed_results(1000)) < 11 * lines_of(reversed_results(100))


def test_a_result_that_answers_nothing_keeps_what_it_says() -> None:
    assert answered(
        {"role": "tool", "content": ""},
        asking(call("tide", "a")),
        {"role": "tool", "content": "", "tool_call_id": "z", "tool_name": "now"},
    ) == [("", ""), ("z", "now")]


def test_a_made_id_is_never_one_that_is_there() -> None:
    [message] = messages_of(asking(call("tide", "call_2"), call("now")))
    assert [part.id for part in message.tool_calls] == ["call_2", "call_3"]


def test_a_picture_in_a_result_is_a_part_of_it() -> None:
    turns = messages_of(asking(call("chart", "a")), {"role": "tool", "tool_call_id": "a", "images": ["R0lGODlh"]})
    assert turns[1].tool_results[0].content == (Text(text=""), Image(data=b"GIF89a", mime="image/gif"))


def test_tools_are_read_and_what_is_no_function_is_kept() -> None:
    data = {"type": "function", "cost": 1, "function": {"name": "now", "description": "The time", "returns": "text"}}
    none: JsonObject = {
        "type": "function",
        "function": {"name": "hm", "parameters": {"type": "object", "properties": {}}},
    }
    assert decoded(tools=[TIDE, data, none, {"type": "web"}]).tools == (
        Tool(name="tide", parameters=PORT),
        Tool(name="now", description="The time", extra={"ollama": {"cost": 1, "function": {"returns": "text"}}}),
        Tool(name="hm"),
        Opaque(wire="ollama", data={"type": "web"}),
    )


@pytest.mark.parametrize(("given", "schema"), [(None, None), ("", None), ("json", {}), (PORT, PORT)])
def test_a_format_is_a_schema(given: Any, schema: JsonObject | None) -> None:
    assert decoded(format=given) == Request(stream=True, schema=schema)


def test_a_format_beside_tools_is_kept_as_it_is() -> None:
    request = decoded(format=PORT, tools=[TIDE])
    assert request.schema == PORT
    assert request.extra == {"ollama.verbatim": {"format": PORT}}


def test_a_format_that_we_would_change_is_kept_as_it_is() -> None:
    form = {**PORT, "unevaluatedProperties": False}
    assert decoded(format=form) == Request(stream=True, schema=form, extra={"ollama.verbatim": {"format": form}})


@pytest.mark.parametrize(
    ("think", "reasoning"),
    [(None, None), (True, "medium"), (False, "none"), ("low", "low"), ("high", "high"), ("max", "max")],
)
def test_thinking_is_read(think: bool | str | None, reasoning: Effort | None) -> None:  # noqa: FBT001
    assert decoded(think=think).reasoning == reasoning


def test_a_level_is_kept_for_targets_of_this_wire() -> None:
    assert decoded(think="high").extra == {"ollama.verbatim": {"think": "high"}}


def test_what_our_words_say_whole_is_no_loss_to_another_wire() -> None:
    body: JsonObject = {"think": "high", "format": PORT, "tools": [TIDE], "shift": True, "options": {"min_p": 0.1}}
    http = wires.get("anthropic").client.encode_request(decoded(**body), target("anthropic/x", api_key="k"))
    lost = [notice.what for notice in http.notices if notice.what.startswith("ollama")]
    assert lost == ["ollama: shift", "ollama: options"]


def test_options_are_read_and_unknown_ones_kept() -> None:
    options = {"temperature": 0, "top_p": 0.5, "top_k": 3, "seed": 7, "num_predict": 9, "stop": ["a"], "min_p": 0.1}
    assert decoded(options=options, shift=True) == Request(
        stream=True,
        temperature=0.0,
        top_p=0.5,
        top_k=3,
        seed=7,
        max_tokens=9,
        stop=("a",),
        extra={"ollama": {"shift": True, "options": {"min_p": 0.1}}},
    )


def test_one_stop_string_is_a_list_of_one() -> None:
    assert decoded(options={"stop": "a"}).stop == ("a",)


def test_no_limit_is_no_number() -> None:
    assert decoded(options={"num_predict": -1}) == Request(
        stream=True, extra={"ollama": {"options": {"num_predict": -1}}}
    )


WRONG: list[tuple[JsonObject, str]] = [
    ({"messages": "x"}, "messages must be array, got str"),
    ({"messages": [{"content": "a"}]}, "messages[0].role is required"),
    ({"messages": [{"role": "bard"}]}, "messages[0].role must be one of system, user, assistant, tool, got 'bard'"),
    ({"messages": [{"role": "user", "content": []}]}, "messages[0].content must be str, got array"),
    ({"messages": [{"role": "user", "images": ["?"]}]}, "messages[0].images[0]: data must be base64"),
    ({"messages": [asking({"id": "a"})]}, "messages[0].tool_calls[0].function must be an object"),
    (
        {"messages": [asking({"function": {"name": "now", "arguments": [1]}})]},
        "messages[0].tool_calls[0].function.arguments must be an object, got [1]",
    ),
    ({"tools": [{"function": {}}]}, "tools[0].function.name is required"),
    ({"format": "xml"}, "format must be 'json' or a JSON Schema, got 'xml'"),
    ({"think": "hard"}, "think must be true, false, low, medium, high or max, got 'hard'"),
    ({"options": {"seed": "x"}}, "options.seed must be int, got str"),
]


@pytest.mark.parametrize(("body", "message"), WRONG)
def test_a_wrong_request_is_told_where(body: JsonObject, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decoded(**body)
    assert str(caught.value).startswith(message)


# What our client half says, the server half takes back ------------------------------------------------------------------


@pytest.mark.parametrize("prompt", [None, "", "Be brief.", "Be brief.\n", "a\n\nb"])
@pytest.mark.parametrize("schema", [{}, PORT, {"type": "array", "uniqueItems": True}])
@pytest.mark.parametrize("tools", [(), (Tool(name="now"),)])
def test_a_schema_survives(prompt: str | None, schema: JsonObject, tools: tuple[Tool, ...]) -> None:
    request = Request(messages=(user("?"),), system=prompt, schema=schema, tools=tools)
    assert mirrored(request) == request


def mirrored(request: Request) -> Request:
    """The request that arrives when our own client sends one."""
    return WIRE.server.decode_request(WIRE.client.encode_request(request, target("ollama/qwen")))[1]


@pytest.mark.parametrize("request_", [Request(messages=(user("word " * 9000),)), Request(max_tokens=8000)])
def test_the_size_of_the_context_is_taken_back(request_: Request) -> None:
    assert mirrored(request_) == request_


def test_another_size_of_the_context_is_kept() -> None:
    assert decoded(options={"num_ctx": 4096}).extra == {"ollama": {"options": {"num_ctx": 4096}}}


@pytest.mark.parametrize(
    "text",
    [
        "Answer with one JSON value and nothing else: no prose, no code fence. It must satisfy this JSON Schema: {",
        "Answer with one JSON value and nothing else: no prose, no code fence. It must satisfy this JSON Schema: 7",
    ],
)
def test_an_instruction_that_is_not_ours_stays_in_the_prompt(text: str) -> None:
    request = decoded(messages=[{"role": "system", "content": text}])
    assert (request.system, request.schema) == (text, None)


# Bodies ---------------------------------------------------------------------------------------------------------------


def test_a_body_has_one_message_and_the_counts() -> None:
    parts = (
        Thinking(text="Look it up.", extra={"anthropic": {"signature": "s"}}),
        Text(text="I "),
        Text(text="look."),
        ToolCall(id="a", name="tide", arguments={"port": "Brest"}),
        ToolCall(id="b", name="now"),
        Image(data=b"GIF89a", mime="image/gif"),
        Opaque(wire="google", data={"x": 1}),
    )
    assert body_of(response(*parts, finish=Finish(reason="tool_calls", raw="tool_use"))) == {
        **HEAD,
        "message": {
            "role": "assistant",
            "content": "I look.",
            "thinking": "Look it up.",
            "images": ["R0lGODlh"],
            "tool_calls": [
                {"id": "a", "function": {"index": 0, "name": "tide", "arguments": {"port": "Brest"}}},
                {"id": "b", "function": {"index": 1, "name": "now", "arguments": {}}},
            ],
        },
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 12,
        "eval_count": 4,
    }


def test_what_is_not_told_is_not_invented() -> None:
    nothing = Response(message=Message(role="assistant"), finish=Finish(reason="other"))
    assert body_of(nothing) == {
        "model": "",
        "created_at": "1970-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": ""},
        "done": True,
    }
    assert fold(WIRE.client.decode_body(WIRE.server.encode_body(nothing).body)) == nothing


def test_a_time_beyond_all_calendars_is_the_last_one() -> None:
    late = msgspec.structs.replace(response(), created=10**15)
    assert body_of(late)["created_at"] == "9999-12-31T23:59:59Z"


@pytest.mark.parametrize(
    ("finish", "word"),
    [
        (Finish(reason="stop", raw="end_turn"), "stop"),
        (Finish(reason="stop", raw="unload"), "unload"),
        (Finish(reason="length", raw="MAX_TOKENS"), "length"),
        (Finish(reason="tool_calls", raw="tool_calls"), "stop"),
        (Finish(reason="blocked"), "stop"),
        (Finish(reason="pause"), "stop"),
        (Finish(reason="other", raw="bored"), None),
    ],
)
def test_a_finish_has_a_word_of_this_dialect(finish: Finish, word: str | None) -> None:
    assert body_of(response(finish=finish)).get("done_reason") == word


def test_log_probabilities_stand_beside_the_message() -> None:
    thinking = Thinking(text="Hm", extra={"ollama": {"logprobs": [{"token": "Hm"}]}})
    text = Text(text="Yes", logprobs=(TokenLogprob(token="Yes", logprob=-0.5),))
    yes: dict[str, Any] = {"token": "Yes", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    assert body_of(response(thinking, text))["logprobs"] == [{"token": "Hm"}, yes]


UNSAYABLE: tuple[Part, ...] = (
    Image(url="https://example.org/a.png"),
    Audio(data=b"RIFF", mime="audio/wav"),
    Document(data=b"%PDF", mime="application/pdf"),
    ToolResult(id="a", content="noon"),
    Opaque(wire="google", data={"x": 1}),
)


@pytest.mark.parametrize("part", UNSAYABLE, ids=lambda part: type(part).__name__)
def test_a_part_that_the_dialect_cannot_say_is_left_out_of_body_and_stream(part: Part) -> None:
    assert body_of(response(part, Text(text="Yes"))) == body_of(response(Text(text="Yes")))
    assert lines(*to_events(response(part, Text(text="Yes")))) == lines(*to_events(response(Text(text="Yes"))))


def test_a_block_of_this_wire_is_said_in_body_and_stream() -> None:
    block = Opaque(wire="ollama", data={"audio": "x"})
    assert body_of(response(block))["message"] == {"role": "assistant", "content": "", "audio": "x"}
    assert lines(*to_events(response(block)))[:-1] == [line(audio="x")]


def test_a_refusal_is_a_string_with_a_status() -> None:
    reply = WIRE.server.encode_error(RateLimited("slow down", retry_after=2.0))
    assert reply.status == 429
    assert reply.headers == {"content-type": "application/json", "retry-after": "2"}
    assert reply.body == b'{"error":"slow down"}'


# Streams --------------------------------------------------------------------------------------------------------------


def test_each_delta_is_a_line_and_the_last_one_is_done() -> None:
    text = response(Thinking(text="Hm", extra={"ollama": {}}), Text(text="Yes"))
    assert lines(*to_events(text)) == [
        line(thinking="Hm"),
        line(content="Yes"),
        {**line(), "done": True, "done_reason": "stop", "prompt_eval_count": 12, "eval_count": 4},
    ]


def test_a_stream_is_newline_delimited_json() -> None:
    encoder = WIRE.server.stream_encoder(Request(stream=True))
    assert encoder.content_type == "application/x-ndjson"
    assert encoder.feed(Finished(finish=STOP)) == (
        b'{"model":"","created_at":"1970-01-01T00:00:00Z","message":{"role":"assistant","content":""},'
        b'"done":true,"done_reason":"stop"}\n'
    )


def test_each_call_is_a_line_of_its_own() -> None:
    calls = (ToolCall(id="a", name="tide", arguments={"x": 1}), ToolCall(id="b", name="now"))
    assert lines(*to_events(response(*calls)))[:-1] == [
        line(tool_calls=[{"id": "a", "function": {"index": 0, "name": "tide", "arguments": {"x": 1}}}]),
        line(tool_calls=[{"id": "b", "function": {"index": 1, "name": "now", "arguments": {}}}]),
    ]


def test_a_text_without_deltas_and_its_log_probabilities_are_said_at_its_end() -> None:
    tokens = (TokenLogprob(token="Yes", logprob=-0.5),)
    events: tuple[Event, ...] = (
        Started(model="qwen", created=1794736800),
        PartStarted(index=0, kind="text"),
        PartEnded(index=0, part=Text(text="Yes", logprobs=tokens)),
        PartStarted(index=1, kind="text"),
        PartDelta(index=1, text="Yes"),
        PartEnded(index=1, part=Text(text="Yes", logprobs=tokens)),
    )
    logprobs: dict[str, Any] = {"logprobs": [{"token": "Yes", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}
    assert lines(*events) == [{**line(content="Yes"), **logprobs}, line(content="Yes"), {**line(), **logprobs}]


def test_pictures_are_said_and_foreign_blocks_are_not() -> None:
    parts = (Image(data=b"GIF89a", mime="image/gif"), Opaque(wire="google", data={"x": 1}))
    assert lines(*to_events(response(*parts)))[:-1] == [line(images=["R0lGODlh"])]


def test_a_ping_is_no_line() -> None:
    assert lines(Ping()) == []


def test_an_error_is_a_line() -> None:
    assert lines(ModelNotFound("model 'tiny' not found")) == [{"error": "model 'tiny' not found"}]
