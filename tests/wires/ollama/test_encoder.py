"""A Request becomes the JSON of an Ollama chat."""

from typing import Any

import msgspec
import pytest

from dragoman.errors import (
    InvalidRequest,
    Unsupported,
)
from dragoman.targets.providers import target
from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.types import (
    Audio,
    Document,
    Effort,
    Image,
    JsonObject,
    Message,
    Notice,
    Opaque,
    Part,
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
from dragoman.wires.ollama import WIRE

CLIENT = WIRE.client
TARGET = target("ollama/qwen")
PNG = b"\x89PNG\r\n\x1a\n"
PORT = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}
TIDE = Tool(name="tide", description="Tide height", parameters=PORT)
TIDE_JSON = {"type": "function", "function": {"name": "tide", "description": "Tide height", "parameters": PORT}}
INSTRUCTION = "Answer with one JSON value and nothing else: no prose, no code fence. It must satisfy this JSON Schema: "
QUESTION = (user("?"),)


def sent(request: Request, to: Target = TARGET) -> dict[str, Any]:
    """The body of a request, as JSON."""
    body: dict[str, Any] = msgspec.json.decode(CLIENT.encode_request(request, to).body)
    return body


def notices_of(request: Request, to: Target = TARGET) -> list[tuple[str, str]]:
    """Kind and subject of each notice."""
    return [(notice.kind, notice.what) for notice in CLIENT.encode_request(request, to).notices]


def request_with(**options: Any) -> Request:
    """A request with one message."""
    return Request(messages=QUESTION, **options)


def with_limits(capabilities: Capabilities, quirks: Quirks | None = None) -> Target:
    """The same target, of which more is known."""
    return msgspec.structs.replace(TARGET, capabilities=capabilities, quirks=quirks or Quirks())


# Where, and the plain form --------------------------------------------------------------------------------------------


def test_a_request_goes_to_the_chat_path_of_the_local_server_without_a_key() -> None:
    http = CLIENT.encode_request(request_with(), TARGET)
    assert (http.method, http.url) == ("POST", "http://localhost:11434/api/chat")
    assert http.headers == {"content-type": "application/json"}


def test_the_cloud_gets_a_bearer_key() -> None:
    http = CLIENT.encode_request(request_with(), target("ollama/qwen", api_key="k", base_url="https://cloud.example"))
    assert http.headers["authorization"] == "Bearer k"
    assert http.url == "https://cloud.example/api/chat"


@pytest.mark.parametrize("stream", [True, False])
def test_stream_is_always_said_since_its_default_is_true(stream: bool) -> None:  # noqa: FBT001
    assert sent(request_with(stream=stream)) == {
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
    assert sent(request_with(system=system))["messages"] == [
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
    assert notices_of(request) == []


def test_an_image_before_its_text_is_told_to_have_lost_its_place() -> None:
    request = Request(messages=(user(Image(data=PNG, mime="image/png"), "What is this?"),))
    assert sent(request)["messages"] == [{"role": "user", "content": "What is this?", "images": ["iVBORw0KGgo="]}]
    assert notices_of(request) == [("info", "position of images")]


def test_the_detail_of_an_image_is_dropped_with_a_notice() -> None:
    assert notices_of(Request(messages=(user(Image(data=PNG, detail="low")),))) == [("dropped", "detail of an image")]


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
    with pytest.raises(Unsupported, match=r"^ollama: cannot send an image by URL|^does not support (documents|audio)$"):
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


def test_an_optional_foreign_block_in_a_result_is_dropped_with_a_notice() -> None:
    call = ToolCall(id="call_1", name="search")
    result = ToolResult(
        id="call_1", content=(Text(text="found"), Opaque(wire="anthropic", data={"type": "x"}, is_optional=True))
    )
    request = Request(messages=(user("?"), assistant(call), tool_results(result)))
    assert sent(request)["messages"][2]["content"] == "found"
    assert notices_of(request) == [("dropped", "anthropic block (x)")]


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
    assert notices_of(request) == [("dropped", "thinking")]


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
    assert sent(request_with(tools=(TIDE,)))["tools"] == [TIDE_JSON]


def test_a_tool_without_arguments_says_so() -> None:
    function: JsonObject = {"name": "now", "parameters": {"type": "object", "properties": {}}}
    assert sent(request_with(tools=(Tool(name="now"),)))["tools"] == [{"type": "function", "function": function}]


def test_tools_that_grow_are_refused_together() -> None:
    both = [{"a": {"$ref": f"#/$defs/d{n + 1}"}, "b": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(12)]
    definitions = {f"d{n}": {"type": "object", "properties": each} for n, each in enumerate(both)} | {"d12": {}}
    grows = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    tools = [Tool(name=f"t{n}", parameters=grows) for n in range(3)]
    assert len(sent(request_with(tools=tuple(tools[:2])))["tools"]) == 2
    with pytest.raises(Unsupported, match="the tools have more than 20000 subschemas"):
        sent(request_with(tools=tuple(tools)))


def test_references_are_inlined_and_dropped_keywords_are_told_in_the_description() -> None:
    schema = {
        "type": "object",
        "properties": {"port": {"$ref": "#/$defs/Port"}, "days": {"type": "integer", "minimum": 1}},
        "$defs": {"Port": {"type": "string", "pattern": "^[A-Z]"}},
    }
    request = request_with(tools=(Tool(name="tide", parameters=schema),))
    assert sent(request)["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "port": {"type": "string", "description": 'pattern: "^[A-Z]"'},
            "days": {"type": "integer", "description": "minimum: 1"},
        },
    }
    assert notices_of(request) == [
        ("info", "tools.tide: $defs"),
        ("renamed", "tools.tide.properties.port: $ref"),
        ("dropped", "tools.tide.properties.port: pattern"),
        ("dropped", "tools.tide.properties.days: minimum"),
    ]


def test_a_strict_tool_is_not_enforced() -> None:
    assert notices_of(request_with(tools=(Tool(name="now", strict=True),))) == [("dropped", "tools.now: strict")]


def test_extra_of_a_tool_is_given_back_and_foreign_tools_are_dropped() -> None:
    own = Tool(name="now", extra={"ollama": {"cost": 1, "function": {"returns": "text"}}})
    request = request_with(
        tools=(own, Opaque(wire="ollama", data={"type": "web"}), Opaque(wire="google", data={"googleSearch": {}}))
    )
    parameters: JsonObject = {"type": "object", "properties": {}}
    assert sent(request)["tools"] == [
        {"type": "function", "function": {"name": "now", "parameters": parameters, "returns": "text"}, "cost": 1},
        {"type": "web"},
    ]
    assert notices_of(request) == [("dropped", "tool googleSearch")]


def test_no_tool_is_offered_where_none_may_be_called() -> None:
    request = request_with(tools=(TIDE,), tool_choice="none")
    assert "tools" not in sent(request)
    assert notices_of(request) == []


def test_choice_among_tools_is_the_default() -> None:
    request = request_with(tools=(TIDE,), tool_choice="auto", parallel_tool_calls=True)
    assert sent(request) == sent(request_with(tools=(TIDE,)))
    assert notices_of(request) == []


@pytest.mark.parametrize("choice", ["required", "tide"])
def test_a_call_cannot_be_forced(choice: str) -> None:
    request = request_with(tools=(TIDE,), tool_choice=choice)
    for to in (TARGET, with_limits(Capabilities(forced_choice=True))):
        assert sent(request, to) == sent(request_with(tools=(TIDE,)))
        assert notices_of(request, to) == [("changed", "tool_choice")]


def test_a_choice_of_a_tool_that_is_not_there_is_invalid() -> None:
    with pytest.raises(
        InvalidRequest, match=r"^tool_choice must be 'auto', 'none', 'required' or a tool \(tide\), got 'wind'$"
    ):
        sent(request_with(tools=(TIDE,), tool_choice="wind"))


def test_one_call_at_a_time_cannot_be_asked_for() -> None:
    request = request_with(tools=(TIDE,), parallel_tool_calls=False)
    assert sent(request) == sent(request_with(tools=(TIDE,)))
    assert notices_of(request) == [("dropped", "parallel_tool_calls")]


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
    body = sent(request_with(schema=PORT, schema_name="harbour", system="Be brief."))
    assert body["format"] == PORT
    assert body["messages"][0] == {
        "role": "system",
        "content": f"Be brief.\n\n{INSTRUCTION}{msgspec.json.encode(PORT).decode()}",
    }


def test_an_empty_schema_asks_for_any_json() -> None:
    body = sent(request_with(schema={}))
    assert body["format"] == "json"
    assert body["messages"][0]["content"] == "Answer with one JSON value and nothing else: no prose, no code fence."


def test_a_format_is_fitted_and_the_whole_schema_is_said() -> None:
    schema = {"type": "array", "items": {"type": "string", "pattern": "a+"}, "uniqueItems": True}
    request = request_with(schema=schema)
    assert sent(request)["format"] == {"type": "array", "items": {"type": "string"}}
    assert sent(request)["messages"][0]["content"] == INSTRUCTION + msgspec.json.encode(schema).decode()
    assert notices_of(request) == [("dropped", "schema: uniqueItems"), ("dropped", "schema.items: pattern")]


def test_an_anchored_pattern_is_kept() -> None:
    schema = {"type": "string", "pattern": "^a+$"}
    assert sent(request_with(schema=schema))["format"] == schema


def test_with_tools_a_schema_is_only_said() -> None:
    request = request_with(schema=PORT, tools=(TIDE,))
    body = sent(request)
    assert "format" not in body
    assert body["messages"][0]["content"].startswith(INSTRUCTION)
    assert notices_of(request) == [("changed", "schema")]


def test_tools_that_may_not_be_called_leave_the_format() -> None:
    assert sent(request_with(schema=PORT, tools=(TIDE,), tool_choice="none"))["format"] == PORT


def test_a_format_of_the_caller_goes_beside_tools() -> None:
    request = request_with(schema=PORT, tools=(TIDE,), extra={"ollama": {"format": PORT}})
    assert sent(request)["format"] == PORT
    assert notices_of(request) == []


# Options --------------------------------------------------------------------------------------------------------------


def test_sampling_and_limits_stand_in_options() -> None:
    request = request_with(temperature=0.0, top_p=0.5, top_k=3, seed=0, max_tokens=7, stop=("a", "b"))
    assert sent(request)["options"] == {
        "temperature": 0.0,
        "top_p": 0.5,
        "top_k": 3,
        "seed": 0,
        "num_predict": 7,
        "stop": ["a", "b"],
    }
    assert notices_of(request) == []


def test_other_options_are_kept_under_ours() -> None:
    request = request_with(
        seed=1, extra={"ollama": {"options": {"seed": 2, "min_p": 0.1}, "shift": False, "logprobs": True}}
    )
    body = sent(request)
    assert body["options"] == {"seed": 1, "min_p": 0.1}
    assert (body["shift"], body["logprobs"]) == (False, True)


def test_options_that_are_none_are_left_out() -> None:
    assert "options" not in sent(request_with(extra={"ollama": {"options": None}}))


def test_extra_of_another_wire_is_dropped_with_a_notice() -> None:
    assert notices_of(request_with(extra={"openai_chat": {"logit_bias": {}}})) == [
        ("dropped", "openai_chat: logit_bias")
    ]


def test_what_it_has_no_option_for_is_dropped_with_a_notice() -> None:
    request = request_with(user="u", metadata={"a": "b"}, cache=True)
    assert sent(request) == sent(request_with())
    assert notices_of(request) == [("dropped", "user"), ("dropped", "metadata"), ("dropped", "cache")]


def test_no_wish_for_a_cache_is_no_loss() -> None:
    assert notices_of(request_with(cache=False)) == []


def test_the_limit_of_the_answer_is_within_what_the_target_can() -> None:
    to, request = with_limits(Capabilities(max_output=4096)), request_with(max_tokens=9000)
    assert sent(request, to)["options"] == {"num_predict": 4096, "num_ctx": 8192}
    assert CLIENT.encode_request(request, to).notices == (
        Notice(kind="changed", what="max_tokens", why="ollama: 9000 became the maximum, 4096"),
    )


def test_a_temperature_that_is_no_number_is_invalid() -> None:
    with pytest.raises(InvalidRequest, match=r"^temperature must be a finite number >= 0, got nan$"):
        sent(request_with(temperature=float("nan")))


def test_strict_refuses_a_loss() -> None:
    with pytest.raises(Unsupported, match="user"):
        CLIENT.encode_request(request_with(user="u", strict=True), TARGET)


# Thinking -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reasoning", "think"), [("none", False), ("medium", True), (0, False)])
def test_thinking_is_on_or_off(reasoning: Effort | int, think: bool) -> None:  # noqa: FBT001
    assert sent(request_with(reasoning=reasoning))["think"] is think


@pytest.mark.parametrize("reasoning", ["minimal", "low", "high", "max"])
def test_a_level_that_is_lost_is_told(reasoning: Effort) -> None:
    request = request_with(reasoning=reasoning)
    assert sent(request)["think"] is True
    assert notices_of(request) == [("changed", "reasoning")]


@pytest.mark.parametrize(
    ("reasoning", "think"), [("none", False), ("low", "low"), ("medium", "medium"), ("high", "high"), ("max", "max")]
)
def test_a_target_that_takes_levels_gets_them(reasoning: Effort, think: bool | str) -> None:  # noqa: FBT001
    to = with_limits(Capabilities(), Quirks(reasoning="level"))
    assert sent(request_with(reasoning=reasoning), to)["think"] == think
    assert notices_of(request_with(reasoning=reasoning), to) == []


def test_the_lowest_level_is_low() -> None:
    to = with_limits(Capabilities(), Quirks(reasoning="level"))
    assert sent(request_with(reasoning="minimal"), to)["think"] == "low"
    assert notices_of(request_with(reasoning="minimal"), to) == [("changed", "reasoning")]


def test_a_model_that_always_thinks_gets_its_lowest_level() -> None:
    to = with_limits(Capabilities(), Quirks(reasoning="level", efforts=("low", "medium", "high")))
    assert sent(request_with(reasoning="none"), to)["think"] == "low"


def test_a_model_that_does_not_think_is_not_asked_to() -> None:
    to = with_limits(Capabilities(thinking=False))
    assert "think" not in sent(request_with(reasoning="high"), to)
    assert notices_of(request_with(reasoning="high"), to) == [("dropped", "reasoning")]
    assert "think" not in sent(request_with(reasoning="none"), to)


def test_a_model_that_may_not_think_beside_tools_is_told_not_to() -> None:
    to = with_limits(Capabilities(), Quirks(reasoning_with_tools=False))
    request = request_with(reasoning="high", tools=(TIDE,))
    assert sent(request, to)["think"] is False
    assert notices_of(request, to) == [("changed", "reasoning")]


def test_a_budget_of_a_model_that_thinks_or_does_not_is_told_once() -> None:
    assert sent(request_with(reasoning=9000))["think"] is True
    assert CLIENT.encode_request(request_with(reasoning=9000), TARGET).notices == (
        Notice(kind="changed", what="reasoning", why="ollama: thinking is only on or off; 9000 is sent as true"),
    )


def test_the_word_of_the_caller_wins() -> None:
    request = request_with(reasoning="high", extra={"ollama.verbatim": {"think": "high"}})
    assert sent(request)["think"] == "high"
    assert notices_of(request) == []
