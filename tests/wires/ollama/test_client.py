"""What we send to Ollama, byte for byte, and what we read of its answers."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    DragomanError,
    InvalidRequest,
    Malformed,
    MalformedToolCall,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    ServerFault,
    Truncated,
    Unsupported,
)
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Started, fold
from dragoman.http import Head
from dragoman.targets.providers import target
from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.types import (
    Audio,
    Document,
    Effort,
    Finish,
    Image,
    JsonObject,
    Message,
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
    tool_results,
    user,
)
from dragoman.wires.ollama import WIRE
from tests.support.wires.laws import read

CLIENT = WIRE.client
TAPES = Path(__file__).parent / "tapes"
TARGET = target("ollama/qwen")
PNG = b"\x89PNG\r\n\x1a\n"
PORT = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}
TIDE = Tool(name="tide", description="Tide height", parameters=PORT)
TIDE_JSON = {"type": "function", "function": {"name": "tide", "description": "Tide height", "parameters": PORT}}
SAID = "Answer with one JSON value and nothing else: no prose, no code fence. It must satisfy this JSON Schema: "
ASKED = (user("?"),)


def sent(request: Request, to: Target = TARGET) -> dict[str, Any]:
    """The body of a request, as JSON."""
    body: dict[str, Any] = msgspec.json.decode(CLIENT.encode_request(request, to).body)
    return body


def noted(request: Request, to: Target = TARGET) -> list[tuple[str, str]]:
    """Kind and subject of each notice."""
    return [(notice.kind, notice.what) for notice in CLIENT.encode_request(request, to).notices]


def asked(**options: Any) -> Request:
    """A request with one message."""
    return Request(messages=ASKED, **options)


def with_limits(capabilities: Capabilities, quirks: Quirks | None = None) -> Target:
    """The same target, of which more is known."""
    return msgspec.structs.replace(TARGET, capabilities=capabilities, quirks=quirks or Quirks())


def tape(name: str, request: Request | None = None) -> tuple[Response, DragomanError | None]:
    """The response that a tape amounts to, and the error that ended it."""
    events, error = events_of(name, request)
    return fold(events), error


def events_of(name: str, request: Request | None = None) -> tuple[list[Event], DragomanError | None]:
    """The events of a tape, and the error that ended it."""
    return read(CLIENT.stream_decoder(request), [(TAPES / name).read_bytes()])


def answer(name: str) -> Response:
    """The response of a tape that has no error."""
    response, error = tape(name)
    assert error is None
    return response


def failure(name: str) -> DragomanError:
    """The error of a tape that has one."""
    error = tape(name)[1]
    assert error is not None
    return error


# Where, and the plain form --------------------------------------------------------------------------------------------


def test_a_request_goes_to_the_chat_path_of_the_local_server_without_a_key() -> None:
    http = CLIENT.encode_request(asked(), TARGET)
    assert (http.method, http.url) == ("POST", "http://localhost:11434/api/chat")
    assert http.headers == {"content-type": "application/json"}


def test_the_cloud_gets_a_bearer_key() -> None:
    http = CLIENT.encode_request(asked(), target("ollama/qwen", api_key="k", base_url="https://cloud.example"))
    assert http.headers["authorization"] == "Bearer k"
    assert http.url == "https://cloud.example/api/chat"


@pytest.mark.parametrize("stream", [True, False])
def test_stream_is_always_said_since_its_default_is_true(stream: bool) -> None:  # noqa: FBT001
    assert sent(asked(stream=stream)) == {
        "model": "qwen",
        "messages": [{"role": "user", "content": "?"}],
        "stream": stream,
    }


def test_no_messages_load_the_model() -> None:
    assert sent(Request(extra={"ollama": {"keep_alive": 0}})) == {
        "model": "qwen",
        "messages": [],
        "stream": False,
        "keep_alive": 0,
    }


# Messages -------------------------------------------------------------------------------------------------------------


def test_the_system_prompt_is_the_first_message() -> None:
    system = (Text(text="Be brief.", extra={"ollama": {"mood": "calm"}}), Text(text="Be kind."))
    assert sent(asked(system=system))["messages"] == [
        {"role": "system", "content": "Be brief.\n\nBe kind.", "mood": "calm"},
        {"role": "user", "content": "?"},
    ]


def test_texts_of_a_user_are_joined_by_lines() -> None:
    assert sent(Request(messages=(user("a", "b"),)))["messages"] == [{"role": "user", "content": "a\nb"}]


def test_texts_of_an_assistant_are_pieces_of_one() -> None:
    messages = sent(Request(messages=(user("?"), assistant("a", "b"), user("!"))))["messages"]
    assert messages[1] == {"role": "assistant", "content": "ab"}


def test_images_are_bare_base64_beside_the_text() -> None:
    request = Request(messages=(user("What is this?", Image(data=PNG, mime="image/png")),))
    assert sent(request)["messages"] == [{"role": "user", "content": "What is this?", "images": ["iVBORw0KGgo="]}]
    assert noted(request) == []


def test_an_image_before_its_text_is_told_to_have_lost_its_place() -> None:
    request = Request(messages=(user(Image(data=PNG, mime="image/png"), "What is this?"),))
    assert sent(request)["messages"] == [{"role": "user", "content": "What is this?", "images": ["iVBORw0KGgo="]}]
    assert noted(request) == [("info", "position of images")]


def test_the_detail_of_an_image_is_dropped_with_a_notice() -> None:
    assert noted(Request(messages=(user(Image(data=PNG, detail="low")),))) == [("dropped", "detail of an image")]


@pytest.mark.parametrize(
    "part",
    [
        Image(url="https://example.org/a.png"),
        Document(data=b"%PDF", mime="application/pdf"),
        Audio(data=b"RIFF", mime="audio/wav"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_what_the_wire_cannot_carry_is_unsupported(part: Part) -> None:
    with pytest.raises(Unsupported, match=r"^ollama: cannot (send|carry) an? (image by URL|document|audio file)"):
        CLIENT.encode_request(Request(messages=(user(part),)), TARGET)


def test_a_call_has_an_object_of_arguments_and_its_result_follows_with_name_and_id() -> None:
    call = ToolCall(id="call_k3", name="tide", arguments={"port": "Brest"}, raw='{ "port":"Brest" }')
    thinking = Thinking(text="Look it up.", extra={"ollama": {}})
    result = ToolResult(id="call_k3", content="4.2 m")
    request = Request(messages=(user("?"), assistant(thinking, call), tool_results(result)))
    assert sent(request)["messages"][1:] == [
        {
            "role": "assistant",
            "content": "",
            "thinking": "Look it up.",
            "tool_calls": [{"id": "call_k3", "function": {"index": 0, "name": "tide", "arguments": {"port": "Brest"}}}],
        },
        {"role": "tool", "content": "4.2 m", "tool_name": "tide", "tool_call_id": "call_k3"},
    ]


def test_results_stand_in_the_order_of_their_calls() -> None:
    calls = (ToolCall(id="a", name="tide"), ToolCall(id="b", name="now"))
    results = (ToolResult(id="b", content="noon"), ToolResult(id="a", content="4.2 m", is_error=True))
    messages = sent(Request(messages=(user("?"), assistant(*calls), tool_results(*results))))["messages"]
    assert [call["function"]["index"] for call in messages[1]["tool_calls"]] == [0, 1]
    assert messages[2:] == [
        {"role": "tool", "content": "ERROR: 4.2 m", "tool_name": "tide", "tool_call_id": "a"},
        {"role": "tool", "content": "noon", "tool_name": "now", "tool_call_id": "b"},
    ]


def test_a_picture_in_a_result_follows_in_a_user_turn() -> None:
    call = ToolCall(id="call_1", name="chart")
    result = ToolResult(id="call_1", content=(Text(text="The chart"), Image(data=PNG, mime="image/png")))
    messages = sent(Request(messages=(user("?"), assistant(call), tool_results(result))))["messages"]
    assert messages[2:] == [
        {"role": "tool", "content": "The chart", "tool_name": "chart", "tool_call_id": "call_1"},
        {"role": "user", "content": "From the result of chart (call_1):", "images": ["iVBORw0KGgo="]},
    ]


def test_a_foreign_block_in_a_result_is_dropped_with_a_notice() -> None:
    call = ToolCall(id="call_1", name="search")
    result = ToolResult(id="call_1", content=(Text(text="found"), Opaque(wire="anthropic", data={"type": "x"})))
    request = Request(messages=(user("?"), assistant(call), tool_results(result)))
    assert sent(request)["messages"][2]["content"] == "found"
    assert noted(request) == [("dropped", "anthropic block in a result")]


def test_a_call_without_a_result_gets_an_error() -> None:
    request = Request(messages=(user("?"), assistant(ToolCall(id="call_1", name="tide"))))
    assert sent(request)["messages"][-1] == {
        "role": "tool",
        "content": "ERROR: result unavailable; do not assume that it ran",
        "tool_name": "tide",
        "tool_call_id": "call_1",
    }


def test_thinking_of_another_wire_stays_away() -> None:
    request = Request(messages=(user("?"), assistant(Thinking(text="Hm", extra={"anthropic": {}}), "Yes"), user("!")))
    assert sent(request)["messages"][1] == {"role": "assistant", "content": "Yes"}
    assert noted(request) == [("dropped", "thinking")]


def test_extra_of_messages_calls_and_results_is_given_back() -> None:
    call = ToolCall(id="a", name="now", extra={"ollama": {"mark": 1, "function": {"signature": "s"}}})
    messages = (
        Message(role="user", parts=(Text(text="?"),), extra={"ollama": {"mood": "calm"}}),
        Message(role="assistant", parts=(call, Opaque(wire="ollama", data={"audio": "x"}))),
        tool_results(ToolResult(id="a", content="noon", extra={"ollama": {"late": True}})),
    )
    function: JsonObject = {"index": 0, "name": "now", "arguments": {}, "signature": "s"}
    assert sent(Request(messages=messages))["messages"] == [
        {"role": "user", "content": "?", "mood": "calm"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "a", "mark": 1, "function": function}],
            "audio": "x",
        },
        {"role": "tool", "content": "noon", "tool_name": "now", "tool_call_id": "a", "late": True},
    ]


# Tools ----------------------------------------------------------------------------------------------------------------


def test_a_tool_is_defined_as_a_function() -> None:
    assert sent(asked(tools=(TIDE,)))["tools"] == [TIDE_JSON]


def test_a_tool_without_arguments_says_so() -> None:
    function: JsonObject = {"name": "now", "parameters": {"type": "object", "properties": {}}}
    assert sent(asked(tools=(Tool(name="now"),)))["tools"] == [{"type": "function", "function": function}]


def test_references_are_inlined_and_dropped_keywords_are_told_in_the_description() -> None:
    schema = {
        "type": "object",
        "properties": {"port": {"$ref": "#/$defs/Port"}, "days": {"type": "integer", "minimum": 1}},
        "$defs": {"Port": {"type": "string", "pattern": "^[A-Z]"}},
    }
    request = asked(tools=(Tool(name="tide", parameters=schema),))
    assert sent(request)["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "port": {"type": "string", "description": 'pattern: "^[A-Z]"'},
            "days": {"type": "integer", "description": "minimum: 1"},
        },
    }
    assert noted(request) == [
        ("info", "tools.tide: $defs"),
        ("renamed", "tools.tide.properties.port: $ref"),
        ("dropped", "tools.tide.properties.port: pattern"),
        ("dropped", "tools.tide.properties.days: minimum"),
    ]


def test_a_strict_tool_is_not_enforced() -> None:
    assert noted(asked(tools=(Tool(name="now", strict=True),))) == [("dropped", "tools.now: strict")]


def test_extra_of_a_tool_is_given_back_and_foreign_tools_are_dropped() -> None:
    own = Tool(name="now", extra={"ollama": {"cost": 1, "function": {"returns": "text"}}})
    request = asked(
        tools=(own, Opaque(wire="ollama", data={"type": "web"}), Opaque(wire="google", data={"googleSearch": {}}))
    )
    parameters: JsonObject = {"type": "object", "properties": {}}
    assert sent(request)["tools"] == [
        {"type": "function", "function": {"name": "now", "parameters": parameters, "returns": "text"}, "cost": 1},
        {"type": "web"},
    ]
    assert noted(request) == [("dropped", "hosted tool")]


def test_no_tool_is_offered_where_none_may_be_called() -> None:
    request = asked(tools=(TIDE,), tool_choice="none")
    assert "tools" not in sent(request)
    assert noted(request) == []


def test_choice_among_tools_is_the_default() -> None:
    request = asked(tools=(TIDE,), tool_choice="auto", parallel_tool_calls=True)
    assert sent(request) == sent(asked(tools=(TIDE,)))
    assert noted(request) == []


@pytest.mark.parametrize("choice", ["required", "tide"])
def test_a_call_cannot_be_forced(choice: str) -> None:
    request = asked(tools=(TIDE,), tool_choice=choice)
    for to in (TARGET, with_limits(Capabilities(forced_choice=True))):
        assert sent(request, to) == sent(asked(tools=(TIDE,)))
        assert noted(request, to) == [("changed", "tool_choice")]


def test_a_choice_of_a_tool_that_is_not_there_is_invalid() -> None:
    with pytest.raises(
        InvalidRequest, match=r"^tool_choice must be 'auto', 'none', 'required' or a tool \(tide\), got 'wind'$"
    ):
        sent(asked(tools=(TIDE,), tool_choice="wind"))


def test_one_call_at_a_time_cannot_be_asked_for() -> None:
    request = asked(tools=(TIDE,), parallel_tool_calls=False)
    assert sent(request) == sent(asked(tools=(TIDE,)))
    assert noted(request) == [("dropped", "parallel_tool_calls")]


def test_the_codec_has_tools_and_results() -> None:
    assert CLIENT.encode_tools((TIDE, Opaque(wire="google", data={"googleSearch": {}}))) == [TIDE_JSON]
    assert CLIENT.encode_result(ToolResult(id="a", name="now", content="noon")) == {
        "role": "tool",
        "content": "noon",
        "tool_name": "now",
        "tool_call_id": "a",
    }


# Structured output ----------------------------------------------------------------------------------------------------


def test_a_schema_is_the_format_and_is_said_in_the_system_prompt() -> None:
    body = sent(asked(schema=PORT, schema_name="harbour", system="Be brief."))
    assert body["format"] == PORT
    assert body["messages"][0] == {
        "role": "system",
        "content": f"Be brief.\n\n{SAID}{msgspec.json.encode(PORT).decode()}",
    }


def test_an_empty_schema_asks_for_any_json() -> None:
    body = sent(asked(schema={}))
    assert body["format"] == "json"
    assert body["messages"][0]["content"] == "Answer with one JSON value and nothing else: no prose, no code fence."


def test_a_format_is_fitted_and_the_whole_schema_is_said() -> None:
    schema = {"type": "array", "items": {"type": "string", "pattern": "a+"}, "uniqueItems": True}
    request = asked(schema=schema)
    assert sent(request)["format"] == {"type": "array", "items": {"type": "string"}}
    assert sent(request)["messages"][0]["content"] == SAID + msgspec.json.encode(schema).decode()
    assert noted(request) == [("dropped", "schema: uniqueItems"), ("dropped", "schema.items: pattern")]


def test_an_anchored_pattern_is_kept() -> None:
    schema = {"type": "string", "pattern": "^a+$"}
    assert sent(asked(schema=schema))["format"] == schema


def test_with_tools_a_schema_is_only_said() -> None:
    request = asked(schema=PORT, tools=(TIDE,))
    body = sent(request)
    assert "format" not in body
    assert body["messages"][0]["content"].startswith(SAID)
    assert noted(request) == [("changed", "schema")]


def test_tools_that_may_not_be_called_leave_the_format() -> None:
    assert sent(asked(schema=PORT, tools=(TIDE,), tool_choice="none"))["format"] == PORT


def test_a_format_of_the_caller_goes_beside_tools() -> None:
    request = asked(schema=PORT, tools=(TIDE,), extra={"ollama": {"format": PORT}})
    assert sent(request)["format"] == PORT
    assert noted(request) == []


# Options --------------------------------------------------------------------------------------------------------------


def test_sampling_and_limits_stand_in_options() -> None:
    request = asked(temperature=0.0, top_p=0.5, top_k=3, seed=0, max_tokens=7, stop=("a", "b"))
    assert sent(request)["options"] == {
        "temperature": 0.0,
        "top_p": 0.5,
        "top_k": 3,
        "seed": 0,
        "num_predict": 7,
        "stop": ["a", "b"],
    }
    assert noted(request) == []


def test_other_options_are_kept_under_ours() -> None:
    request = asked(seed=1, extra={"ollama": {"options": {"seed": 2, "min_p": 0.1}, "shift": False, "logprobs": True}})
    body = sent(request)
    assert body["options"] == {"seed": 1, "min_p": 0.1}
    assert (body["shift"], body["logprobs"]) == (False, True)


def test_options_that_are_none_are_left_out() -> None:
    assert "options" not in sent(asked(extra={"ollama": {"options": None}}))


def test_extra_of_another_wire_is_dropped_with_a_notice() -> None:
    assert noted(asked(extra={"openai_chat": {"logit_bias": {}}})) == [("dropped", "openai_chat: logit_bias")]


def test_what_it_has_no_option_for_is_dropped_with_a_notice() -> None:
    request = asked(user="u", metadata={"a": "b"}, cache=True)
    assert sent(request) == sent(asked())
    assert noted(request) == [("dropped", "user"), ("dropped", "metadata"), ("dropped", "cache")]


def test_no_wish_for_a_cache_is_no_loss() -> None:
    assert noted(asked(cache=False)) == []


def test_the_limit_of_the_answer_is_within_what_the_target_can() -> None:
    to, request = with_limits(Capabilities(max_output=4096)), asked(max_tokens=9000)
    assert sent(request, to)["options"] == {"num_predict": 4096, "num_ctx": 8192}
    assert CLIENT.encode_request(request, to).notices == (
        Notice(kind="changed", what="max_tokens", why="ollama: 9000 became the maximum, 4096"),
    )


def test_a_temperature_that_is_no_number_is_invalid() -> None:
    with pytest.raises(InvalidRequest, match=r"^temperature must be a finite number, got nan$"):
        sent(asked(temperature=float("nan")))


def test_strict_refuses_a_loss() -> None:
    with pytest.raises(Unsupported, match="user"):
        CLIENT.encode_request(asked(user="u", strict=True), TARGET)


# Thinking -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reasoning", "think"), [("none", False), ("medium", True), (0, False)])
def test_thinking_is_on_or_off(reasoning: Effort | int, think: bool) -> None:  # noqa: FBT001
    assert sent(asked(reasoning=reasoning))["think"] is think


@pytest.mark.parametrize("reasoning", ["minimal", "low", "high", "max"])
def test_a_level_that_is_lost_is_told(reasoning: Effort) -> None:
    request = asked(reasoning=reasoning)
    assert sent(request)["think"] is True
    assert noted(request) == [("changed", "reasoning")]


@pytest.mark.parametrize(
    ("reasoning", "think"), [("none", False), ("low", "low"), ("medium", "medium"), ("high", "high"), ("max", "max")]
)
def test_a_target_that_takes_levels_gets_them(reasoning: Effort, think: bool | str) -> None:  # noqa: FBT001
    to = with_limits(Capabilities(), Quirks(reasoning="level"))
    assert sent(asked(reasoning=reasoning), to)["think"] == think
    assert noted(asked(reasoning=reasoning), to) == []


def test_the_lowest_level_is_low() -> None:
    to = with_limits(Capabilities(), Quirks(reasoning="level"))
    assert sent(asked(reasoning="minimal"), to)["think"] == "low"
    assert noted(asked(reasoning="minimal"), to) == [("changed", "reasoning")]


def test_a_model_that_always_thinks_gets_its_lowest_level() -> None:
    to = with_limits(Capabilities(), Quirks(reasoning="level", efforts=("low", "medium", "high")))
    assert sent(asked(reasoning="none"), to)["think"] == "low"


def test_a_model_that_does_not_think_is_not_asked_to() -> None:
    to = with_limits(Capabilities(thinking=False))
    assert "think" not in sent(asked(reasoning="high"), to)
    assert noted(asked(reasoning="high"), to) == [("dropped", "reasoning")]
    assert "think" not in sent(asked(reasoning="none"), to)


def test_a_model_that_may_not_think_beside_tools_is_told_not_to() -> None:
    to = with_limits(Capabilities(), Quirks(reasoning_with_tools=False))
    request = asked(reasoning="high", tools=(TIDE,))
    assert sent(request, to)["think"] is False
    assert noted(request, to) == [("changed", "reasoning")]


def test_a_budget_of_a_model_that_thinks_or_does_not_is_told_once() -> None:
    assert sent(asked(reasoning=9000))["think"] is True
    assert CLIENT.encode_request(asked(reasoning=9000), TARGET).notices == (
        Notice(kind="changed", what="reasoning", why="ollama: thinking is only on or off; 9000 is sent as true"),
    )


def test_the_word_of_the_caller_wins() -> None:
    request = asked(reasoning="high", extra={"ollama.verbatim": {"think": "high"}})
    assert sent(request)["think"] == "high"
    assert noted(request) == []


# The size of the context ----------------------------------------------------------------------------------------------


def size(request: Request, window: int | None = None) -> int | None:
    """The `num_ctx` that is sent."""
    found: int | None = (
        sent(request, with_limits(Capabilities(context_window=window))).get("options", {}).get("num_ctx")
    )
    return found


def test_a_short_prompt_leaves_the_context_to_the_server() -> None:
    assert size(asked()) is None


def test_a_short_prompt_takes_the_smallest_context_where_the_window_is_known() -> None:
    assert size(asked(), window=131072) == 4096


def test_a_small_window_is_never_exceeded() -> None:
    assert size(asked(), window=2048) == 2048
    assert size(Request(messages=(user("word " * 9000),)), window=10000) == 10000


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request(messages=(user("word " * 2000),)), 8192),
        (Request(messages=(user("語" * 9000),)), 16384),
        (asked(max_tokens=5000), 8192),
        (asked(max_tokens=10**6), 32768),
        (Request(messages=(user(*[Image(data=PNG)] * 4),)), 8192),
        (asked(tools=(Tool(name="long", description="word " * 3000),)), 8192),
    ],
    ids=["prompt", "bytes", "answer", "huge answer", "images", "tools"],
)
def test_the_context_is_a_power_of_two_that_holds_the_need(request_: Request, expected: int) -> None:
    assert size(request_) == expected


def test_the_size_of_the_caller_wins() -> None:
    request = asked(max_tokens=9000, extra={"ollama": {"options": {"num_ctx": 512}}})
    assert size(request, window=131072) == 512


LONG = Request(messages=(user("?"), Message(role="tool", parts=()), user("A long story of ships and tides. " * 2000)))


def counted(request: Request, tokens: int) -> list[Notice]:
    """The notices of an answer that says how many tokens of prompt it read."""
    line = {"message": {"content": "ok"}, "done": True, "done_reason": "stop", "prompt_eval_count": tokens}
    return list(fold(CLIENT.decode_body(msgspec.json.encode(line), request)).notices)


def test_a_prompt_that_was_cut_silently_is_told() -> None:
    [notice] = counted(LONG, 4095)
    assert (notice.kind, notice.what) == ("dropped", "a part of the prompt")
    assert notice.why.startswith("ollama: it read only 4095 tokens")


def test_a_prompt_that_was_cut_silently_is_truncated_under_strict() -> None:
    with pytest.raises(Truncated, match="the prompt was cut"):
        counted(msgspec.structs.replace(LONG, strict=True), 4095)


def test_a_whole_prompt_is_not_told() -> None:
    assert counted(LONG, 14000) == []


def test_repetition_is_no_sign_of_a_cut() -> None:
    assert counted(Request(messages=(user("?" + " " * 60000),)), 1000) == []


def test_a_prompt_too_short_to_be_cut_is_not_told_though_a_cache_hides_its_tokens() -> None:
    assert counted(Request(system="The tide is low. " * 100, messages=ASKED), 3) == []


def test_a_prompt_that_fills_the_context_of_the_caller_is_told() -> None:
    call = ToolCall(id="a", name="now")
    result = tool_results(ToolResult(id="a", content="noon " * 200))
    request = Request(messages=(user("?"), assistant(call), result), extra={"ollama": {"options": {"num_ctx": 256}}})
    assert [notice.kind for notice in counted(request, 256)] == ["dropped"]
    assert counted(request, 220) == []


# Streams --------------------------------------------------------------------------------------------------------------


def test_lines_become_events() -> None:
    assert events_of("hello.ndjson") == (
        [
            Started(model="qwen", created=1794736800),
            PartStarted(index=0, kind="text"),
            PartDelta(index=0, text="Low"),
            PartDelta(index=0, text=" tide."),
            PartEnded(index=0, part=Text(text="Low tide.")),
            Finished(finish=Finish(reason="stop", raw="stop"), usage=Usage(input=12, output=4)),
        ],
        None,
    )


def test_thinking_is_its_own_part() -> None:
    response = answer("thinking.ndjson")
    assert response.message.parts == (Thinking(text="Ebb or flow?", extra={"ollama": {}}), Text(text="Ebb."))
    assert response.usage == Usage(output=9)


def test_calls_in_the_middle_are_calls_though_it_says_stop() -> None:
    response = answer("tool.ndjson")
    assert response.message.parts == (
        Text(text="I look."),
        ToolCall(id="call_k3", name="tide", arguments={"port": "Brest"}),
        ToolCall(id="call_k4", name="tide", arguments={"port": "Cork"}),
        Text(text="Done."),
    )
    assert response.finish == Finish(reason="tool_calls", raw="stop")


def test_calls_on_the_last_line_are_read() -> None:
    response = answer("tools_on_the_last_line.ndjson")
    assert [call.id for call in response.tool_calls] == ["a", "b"]
    assert response.finish.reason == "tool_calls"


def test_calls_without_ids_get_some_that_never_repeat() -> None:
    history = Request(messages=(user("?"), assistant(ToolCall(id="call_1", name="now"))))
    response, _ = tape("tools_without_ids.ndjson", history)
    assert [(call.id, call.name, call.arguments) for call in response.tool_calls] == [
        ("call_2", "tide", {"port": "Brest"}),
        ("call_3", "tide", {"port": "Cork"}),
        ("call_4", "now", {}),
    ]
    assert response.usage.source == "unknown"


def test_one_object_in_place_of_a_stream_is_read() -> None:
    response = answer("buffered.ndjson")
    assert (response.text, response.tool_calls[0].name) == ("All at once.", "now")


def test_one_object_over_several_lines_is_read() -> None:
    response = answer("pretty.ndjson")
    assert (response.text, response.finish.reason) == ("Line by line: é.", "length")


@pytest.mark.parametrize("name", ["hello.ndjson", "buffered.ndjson", "pretty.ndjson"])
def test_a_body_is_read_like_a_stream(name: str) -> None:
    assert CLIENT.decode_body((TAPES / name).read_bytes()) == events_of(name)[0]


def test_a_whole_body_that_was_broken_off_by_the_server_ends_for_another_reason() -> None:
    body = msgspec.json.encode({"message": {"content": "la la la"}, "done": False})
    response = fold(CLIENT.decode_body(body))
    assert (response.text, response.finish) == ("la la la", Finish(reason="other"))


def test_a_loaded_model_says_nothing() -> None:
    response = answer("load.ndjson")
    assert response.message.parts == ()
    assert response.finish == Finish(reason="stop", raw="load")


def test_an_end_without_a_reason_is_other() -> None:
    response = answer("without_a_reason.ndjson")
    assert response.finish == Finish(reason="other")
    assert response.created == 1691164339
    assert response.usage == Usage(input=61)


def test_unknown_lines_fields_and_reasons_are_tolerated() -> None:
    response = answer("unknown.ndjson")
    assert response.text == "So what"
    assert response.created is None
    assert response.finish == Finish(reason="other", raw="bored")


@pytest.mark.parametrize("moment", ["1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", None])
def test_a_time_that_is_none_is_not_told(moment: str | None) -> None:
    body = msgspec.json.encode({"created_at": moment, "done": True})
    assert fold(CLIENT.decode_body(body)).created is None


def test_a_time_without_a_zone_is_utc() -> None:
    body = msgspec.json.encode({"created_at": "2026-11-15T10:00:00", "done": True})
    assert fold(CLIENT.decode_body(body)).created == 1794736800


def test_any_line_end_will_do() -> None:
    assert answer("crlf.ndjson").text == "ab"


def test_log_probabilities_belong_to_the_text_that_they_come_with() -> None:
    thinking, text = answer("logprobs.ndjson").message.parts
    assert isinstance(thinking, Thinking)
    assert isinstance(text, Text)
    assert [item["token"] for item in thinking.extra["ollama"]["logprobs"]] == ["<", "Hm"]
    assert [item["token"] for item in text.extra["ollama"]["logprobs"]] == ["Yes", "."]


def test_arguments_may_be_text_null_or_missing_and_unknown_fields_are_kept() -> None:
    assert answer("odd_arguments.ndjson").tool_calls == (
        ToolCall(
            id="a",
            name="tide",
            arguments={"port": "Brest"},
            raw='{"port": "Brest"}',
            extra={"ollama": {"signature": "s1"}},
        ),
        ToolCall(id="b", name="now"),
        ToolCall(id="c", name="now"),
        ToolCall(id="d", name="now", extra={"ollama": {"function": {"mark": 1}}}),
    )


def test_arguments_that_are_no_object_are_malformed() -> None:
    error = failure("bad_arguments.ndjson")
    assert isinstance(error, MalformedToolCall)
    assert (error.id, error.name, error.text) == ("a", "tide", '["Brest"]')
    assert error.usage == Usage(output=7)


def test_a_call_that_the_limit_cut_off_is_left_out() -> None:
    response = answer("cut_arguments.ndjson")
    assert [call.id for call in response.tool_calls] == ["a"]
    assert [notice.what for notice in response.notices] == ["tool call tide"]


def test_a_picture_of_the_model_is_an_image() -> None:
    response = answer("picture.ndjson")
    assert response.message.parts == (Text(text="Here:"), Image(data=b"GIF89a\x01", mime="image/gif"))


# What breaks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cut.ndjson", Truncated),
        ("broken_line.ndjson", Malformed),
        ("not_json.ndjson", Malformed),
        ("bad_picture.ndjson", Malformed),
        ("error_midway.ndjson", ServerFault),
        ("error_too_long.ndjson", ContextTooLong),
    ],
)
def test_a_broken_stream_is_an_error(name: str, kind: type[DragomanError]) -> None:
    assert type(failure(name)) is kind


def test_what_came_before_an_error_is_shown() -> None:
    response, error = tape("error_midway.ndjson")
    assert response.text == "Half"
    assert "runner has unexpectedly stopped" in str(error)


def test_an_error_over_several_lines_has_its_numbers() -> None:
    error = failure("error_pretty.ndjson")
    assert isinstance(error, ContextTooLong)
    assert (error.tokens, error.limit) == (9000, 4096)


@pytest.mark.parametrize(
    "body", [b"", b'{"message": {"content": "a"}, "done": fal', b'{"done":false}\n{"done":false}\n']
)
def test_a_body_that_is_not_done_is_truncated(body: bytes) -> None:
    with pytest.raises(Truncated):
        CLIENT.decode_body(body)


def test_an_error_in_a_body_is_raised_though_text_came_before() -> None:
    with pytest.raises(ServerFault, match="unexpectedly"):
        CLIENT.decode_body((TAPES / "error_midway.ndjson").read_bytes())


@pytest.mark.parametrize(
    ("name", "kind", "retry", "fail_over"),
    [
        ("bad_json.400.json", BadRequest, False, False),
        ("no_tools.400.json", BadRequest, False, True),
        ("no_level.400.json", BadRequest, False, True),
        ("too_long.400.json", ContextTooLong, False, True),
        ("signed_out.401.json", AuthFailed, False, False),
        ("not_pulled.404.json", ModelNotFound, False, True),
        ("wrong_path.404.txt", ModelNotFound, False, True),
        ("usage_limit.429.json", RateLimited, True, True),
        ("runner.500.json", ServerFault, True, True),
        ("cloud.502.json", ServerFault, True, True),
        ("busy.503.json", Overloaded, True, True),
    ],
)
def test_a_refusal_is_typed(
    name: str,
    kind: type[ProviderError],
    retry: bool,  # noqa: FBT001
    fail_over: bool,  # noqa: FBT001
) -> None:
    error = CLIENT.decode_error(Head(status=int(name.split(".")[1])), (TAPES / name).read_bytes())
    assert type(error) is kind
    assert (error.retry, error.fail_over) == (retry, fail_over)
    assert error.status == int(name.split(".")[1])


@pytest.mark.parametrize("body", [b"{}", b'{"choices": []}'])
def test_a_body_without_a_message_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed, match="the body has no message"):
        CLIENT.decode_body(body)


def test_a_body_that_was_aborted_is_an_answer_that_ended_otherwise() -> None:
    response = fold(CLIENT.decode_body(b'{"message": {"content": "aaaa"}, "done": false}'))
    assert (response.text, response.finish.reason) == ("aaaa", "other")
