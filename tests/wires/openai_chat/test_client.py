"""The exact JSON that we send, row by row of the mapping and quirk by quirk of the targets."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.errors import InvalidRequest, Unsupported
from dragoman.targets import providers
from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.types import (
    Audio,
    Document,
    Effort,
    Image,
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
    system,
    tool_results,
    user,
)
from dragoman.wires.openai_chat import WIRE
from tests.support.wires.laws import SCHEMA

TARGET = Target(
    provider="openai",
    model="m-1",
    wire="openai_chat",
    base_url="https://api.example.org/v1",
    api_key="k",
    capabilities=Capabilities(image_urls=True),
)
LOOSE = {"type": "object", "properties": {"port": {"type": "string"}}}
TIDE = Tool(name="tide", description="Tide height", parameters=SCHEMA)
TIDE_JSON = {"type": "function", "function": {"name": "tide", "description": "Tide height", "parameters": SCHEMA}}
CALL = ToolCall(id="call_a", name="tide", arguments={"port": "Brest"})
CALL_JSON = {"id": "call_a", "type": "function", "function": {"name": "tide", "arguments": '{"port":"Brest"}'}}
PNG = Image(data=b"\x89PNG", mime="image/png")
PNG_JSON: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
ASK = {"role": "user", "content": "?"}


def with_quirks(**quirks: Any) -> Target:
    return replace(TARGET, quirks=Quirks(**quirks))


def with_limits(**capabilities: Any) -> Target:
    return replace(TARGET, capabilities=Capabilities(**capabilities))


def encoded_body(target: Target = TARGET, /, **fields: Any) -> dict[str, Any]:
    fields.setdefault("messages", (user("?"),))
    body: dict[str, Any] = json.loads(WIRE.client.encode_request(Request(**fields), target).body)
    return body


def options(target: Target = TARGET, /, **fields: Any) -> dict[str, Any]:
    """The body without what every body has."""
    body = encoded_body(target, **fields)
    return {key: value for key, value in body.items() if key not in ("model", "messages")}


def messages(*turns: Message, target: Target = TARGET, **fields: Any) -> list[dict[str, Any]]:
    encoded: list[dict[str, Any]] = encoded_body(target, messages=turns, **fields)["messages"]
    return encoded


def notices(target: Target = TARGET, /, **fields: Any) -> list[tuple[str, str]]:
    fields.setdefault("messages", (user("?"),))
    http = WIRE.client.encode_request(Request(**fields), target)
    return [(notice.kind, notice.what) for notice in http.notices]


# The request ----------------------------------------------------------------------------------------------------------


def test_a_request_is_a_post_with_a_key() -> None:
    http = WIRE.client.encode_request(Request(messages=(user("?"),)), TARGET)
    assert (http.method, http.url) == ("POST", "https://api.example.org/v1/chat/completions")
    assert http.headers == {"content-type": "application/json", "authorization": "Bearer k"}
    assert http.body == b'{"model":"m-1","messages":[{"role":"user","content":"?"}]}'
    assert http.notices == ()


def test_a_key_may_have_a_header_of_its_own() -> None:
    target = replace(TARGET, auth="api-key", headers={"x-title": "t"})
    headers = WIRE.client.encode_request(Request(), target).headers
    assert headers == {"content-type": "application/json", "api-key": "k", "x-title": "t"}


def test_what_is_not_told_is_not_sent() -> None:
    assert options() == {}


def test_options_have_their_names() -> None:
    assert options(
        temperature=0.0, top_p=0.5, max_tokens=7, stop=("a", "b"), seed=0, user="u", metadata={"k": "v"}
    ) == {
        "temperature": 0.0,
        "top_p": 0.5,
        "max_completion_tokens": 7,
        "stop": ["a", "b"],
        "seed": 0,
        "user": "u",
        "metadata": {"k": "v"},
    }


OPTION_QUIRKS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"max_tokens_field": "max_tokens"}, {"max_tokens": 7}, {"max_tokens": 7}),
    ({"seed_field": "random_seed"}, {"seed": 7}, {"random_seed": 7}),
    ({"top_k": True}, {"top_k": 7}, {"top_k": 7}),
    ({"user_field": "safety_identifier"}, {"user": "u"}, {"safety_identifier": "u"}),
]


@pytest.mark.parametrize(("quirks", "fields", "expected"), OPTION_QUIRKS)
def test_an_option_has_the_targets_name(
    quirks: dict[str, Any], fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert options(with_quirks(**quirks), **fields) == expected
    assert notices(with_quirks(**quirks), **fields) == []


MISSING: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"sampling": False}, {"temperature": 0.5}),
    ({"sampling": False}, {"top_p": 0.5}),
    ({"top_k": False}, {"top_k": 7}),
    ({"seed_field": None}, {"seed": 7}),
    ({"stop": False}, {"stop": ("a",)}),
    ({"user_field": None}, {"user": "u"}),
    ({"metadata": False}, {"metadata": {"k": "v"}}),
]


@pytest.mark.parametrize(("quirks", "fields"), MISSING)
def test_an_option_that_the_target_lacks_is_left_out_with_a_notice(
    quirks: dict[str, Any], fields: dict[str, Any]
) -> None:
    target = with_quirks(**quirks)
    assert options(target, **fields) == {}
    assert notices(target, **fields) == [("dropped", next(iter(fields)))]
    with pytest.raises(Unsupported):
        encoded_body(target, strict=True, **fields)


def test_max_tokens_is_at_most_what_the_target_can() -> None:
    target = with_limits(max_output=100)
    assert options(target, max_tokens=101) == {"max_completion_tokens": 100}
    assert notices(target, max_tokens=101) == [("changed", "max_tokens")]
    assert options(target, max_tokens=100) == {"max_completion_tokens": 100}


# extra ----------------------------------------------------------------------------------------------------------------


def test_extra_is_merged_verbatim_the_providers_over_the_wires() -> None:
    extra = {"openai_chat": {"n": 2, "logit_bias": {"1": 1}}, "openai": {"n": 3}}
    assert options(extra=extra) == {"n": 3, "logit_bias": {"1": 1}}


def test_extra_of_another_wire_is_left_out_with_a_notice() -> None:
    assert notices(extra={"anthropic": {"betas": ["x"]}}) == [("dropped", "anthropic: betas")]


SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"reasoning": "low"}, {"reasoning": {"effort": "high"}}),
    ({"reasoning": "low"}, {"thinking": {"type": "disabled"}}),
    ({"reasoning": "low"}, {"enable_thinking": False}),
    ({"reasoning": "low"}, {"reasoning_effort": "xhigh"}),
    ({"seed": 7}, {"random_seed": 8}),
    ({"max_tokens": 7}, {"max_tokens": 8}),
    ({"tools": (TIDE,)}, {"functions": [{"name": "tide"}]}),
    ({"top_k": 7}, {"top_k": 8}),
]


@pytest.mark.parametrize(("fields", "extra"), SAME)
def test_our_field_gives_way_to_the_callers_own_word_for_it(fields: dict[str, Any], extra: dict[str, Any]) -> None:
    assert options(**fields, extra={"openai_chat": extra}) == extra
    assert notices(**fields, extra={"openai_chat": extra}) == []


@pytest.mark.parametrize("provider", ["openai", "openai_chat", "openai_chat.verbatim"])
def test_an_option_that_the_callers_extra_says_is_not_lost(provider: str) -> None:
    assert notices(top_k=7, extra={provider: {"top_k": 7}}) == []


def test_a_format_that_the_callers_extra_says_is_not_lost() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "t", "schema": LOOSE, "strict": True}}
    fields: dict[str, Any] = {"schema": LOOSE, "schema_strict": True, "extra": {"openai": {"response_format": form}}}
    assert options(**fields) == {"response_format": form}
    assert notices(**fields) == []


# Streams --------------------------------------------------------------------------------------------------------------


def test_a_stream_asks_for_its_usage() -> None:
    assert options(stream=True) == {"stream": True, "stream_options": {"include_usage": True}}


def test_other_stream_options_are_kept() -> None:
    extra = {"openai_chat": {"stream_options": {"include_obfuscation": False}}}
    expected = {"include_obfuscation": False, "include_usage": True}
    assert options(stream=True, extra=extra) == {"stream": True, "stream_options": expected}


def test_stream_options_without_a_stream_are_left_out() -> None:
    assert options(extra={"openai_chat": {"stream_options": {"include_usage": True}}}) == {}


def test_a_target_without_stream_options_gets_none() -> None:
    extra = {"openai_chat": {"stream_options": {"include_usage": True}}}
    assert options(with_quirks(stream_usage=False), stream=True, extra=extra) == {"stream": True}


# Tools ----------------------------------------------------------------------------------------------------------------


def test_a_tool_is_a_function() -> None:
    assert options(tools=(TIDE, Tool(name="now"))) == {
        "tools": [TIDE_JSON, {"type": "function", "function": {"name": "now"}}]
    }


def test_a_tool_of_this_wire_is_given_back_verbatim() -> None:
    custom = {"type": "custom", "custom": {"name": "sql"}}
    assert options(tools=(Opaque(wire="openai_chat", data=custom),)) == {"tools": [custom]}


def test_a_tool_of_another_wire_is_left_out_with_a_notice() -> None:
    search = Opaque(wire="anthropic", data={"type": "web_search"})
    assert options(tools=(search, TIDE)) == {"tools": [TIDE_JSON]}
    assert notices(tools=(search, TIDE)) == [("dropped", "tool web_search")]


def test_a_choice_without_tools_is_left_out() -> None:
    search = Opaque(wire="anthropic", data={"type": "web_search"})
    assert options(tools=(search,), tool_choice="required", parallel_tool_calls=False) == {}
    assert options(tool_choice="none", parallel_tool_calls=False) == {}
    assert notices(tool_choice="none") == []
    assert notices(tool_choice="tide") == [("dropped", "tool_choice")]


def test_what_a_tool_has_beside_our_words_is_given_back() -> None:
    extra = {"openai_chat": {"cache_control": {"type": "ephemeral"}, "function": {"returns": "number"}}}
    assert options(tools=(Tool(name="now", extra=extra),))["tools"] == [
        {
            "type": "function",
            "function": {"name": "now", "returns": "number"},
            "cache_control": {"type": "ephemeral"},
        }
    ]


CHOICES: list[tuple[dict[str, Any], str, Any]] = [
    ({}, "auto", "auto"),
    ({}, "none", "none"),
    ({}, "required", "required"),
    ({"required_choice": "any"}, "required", "any"),
    ({}, "tide", {"type": "function", "function": {"name": "tide"}}),
]


@pytest.mark.parametrize(("quirks", "choice", "expected"), CHOICES)
def test_a_choice_is_a_word_or_names_the_function(quirks: dict[str, Any], choice: str, expected: Any) -> None:
    body = options(with_quirks(**quirks), tools=(TIDE,), tool_choice=choice)
    assert body == {"tools": [TIDE_JSON], "tool_choice": expected}


def test_a_target_that_cannot_name_a_tool_is_given_that_one_alone() -> None:
    target = with_quirks(named_choice=False)
    fields: dict[str, Any] = {"tools": (Tool(name="now"), TIDE), "tool_choice": "tide"}
    assert options(target, **fields) == {"tools": [TIDE_JSON], "tool_choice": "required"}
    assert notices(target, **fields) == [("changed", "tool_choice")]


def test_a_choice_of_no_tool_is_invalid_where_it_cannot_be_named() -> None:
    with pytest.raises(InvalidRequest, match=r"tool_choice must be .*, got 'wind'"):
        encoded_body(with_quirks(named_choice=False), tools=(TIDE,), tool_choice="wind")


@pytest.mark.parametrize("choice", ["required", "tide"])
def test_a_choice_that_cannot_be_forced_is_the_models(choice: str) -> None:
    target = with_limits(forced_choice=False)
    assert options(target, tools=(TIDE,), tool_choice=choice)["tool_choice"] == "auto"
    assert notices(target, tools=(TIDE,), tool_choice=choice) == [("changed", "tool_choice")]


def test_one_call_at_a_time_is_asked_for() -> None:
    assert options(tools=(TIDE,), parallel_tool_calls=False) == {"tools": [TIDE_JSON], "parallel_tool_calls": False}


def test_one_call_at_a_time_is_left_out_where_there_is_no_switch() -> None:
    target = with_quirks(parallel_tool_calls=False)
    assert options(target, tools=(TIDE,), parallel_tool_calls=False) == {"tools": [TIDE_JSON]}
    assert notices(target, tools=(TIDE,), parallel_tool_calls=False) == [("dropped", "parallel_tool_calls")]


@pytest.mark.parametrize("parameters", [SCHEMA, None])
def test_a_strict_tool_says_so(parameters: dict[str, Any] | None) -> None:
    tool = Tool(name="tide", parameters=parameters, strict=True)
    assert options(tools=(tool,))["tools"][0]["function"]["strict"] is True
    assert notices(tools=(tool,)) == []


def test_a_tool_that_is_not_strict_may_say_so() -> None:
    assert options(tools=(replace(TIDE, strict=False),))["tools"][0]["function"]["strict"] is False


def test_a_strict_tool_with_a_loose_schema_loses_the_flag() -> None:
    tool = Tool(name="tide", parameters=LOOSE, strict=True)
    assert "strict" not in options(tools=(tool,))["tools"][0]["function"]
    assert notices(tools=(tool,)) == [("dropped", "strict of tide")]


@pytest.mark.parametrize(("strict", "expected"), [(True, [("dropped", "strict of tide")]), (False, [])])
def test_a_target_that_does_not_know_the_flag_never_gets_it(*, strict: bool, expected: list[tuple[str, str]]) -> None:
    target, tool = with_quirks(strict=False), replace(TIDE, strict=strict)
    assert options(target, tools=(tool,)) == {"tools": [TIDE_JSON]}
    assert notices(target, tools=(tool,)) == expected


def test_a_clients_own_flag_stands_on_its_own_wire_where_it_is_known() -> None:
    extra = {"openai_chat": {"function": {"strict": True}}}
    tool = Tool(name="tide", parameters=LOOSE, strict=True, extra=extra)
    assert "strict" not in options(with_quirks(strict=False), tools=(tool,))["tools"][0]["function"]
    assert options(tools=(tool,))["tools"][0]["function"]["strict"] is True
    assert notices(tools=(tool,)) == []


def test_definitions_alone_are_those_of_a_request() -> None:
    assert WIRE.client.encode_tools((TIDE,)) == [TIDE_JSON]


def test_definitions_alone_have_no_tool_of_another_wire() -> None:
    own = Opaque(wire="openai_chat", data={"type": "custom"})
    foreign = Opaque(wire="anthropic", data={"type": "web_search_1"})
    assert WIRE.client.encode_tools((own, foreign)) == [{"type": "custom"}]


# Structured output ----------------------------------------------------------------------------------------------------


def test_a_schema_is_named_and_not_strict() -> None:
    assert options(schema=SCHEMA) == {
        "response_format": {"type": "json_schema", "json_schema": {"name": "response", "schema": SCHEMA}}
    }


def test_a_strict_schema_says_so() -> None:
    body = options(schema=SCHEMA, schema_name="tide", schema_strict=True)
    assert body["response_format"]["json_schema"] == {"name": "tide", "schema": SCHEMA, "strict": True}


@pytest.mark.parametrize(("quirks", "schema"), [({}, LOOSE), ({"strict": False}, SCHEMA)])
def test_a_strict_flag_that_cannot_hold_is_left_out(quirks: dict[str, Any], schema: dict[str, Any]) -> None:
    target = with_quirks(**quirks)
    body = options(target, schema=schema, schema_strict=True)
    assert body["response_format"]["json_schema"] == {"name": "response", "schema": schema}
    assert notices(target, schema=schema, schema_strict=True) == [("dropped", "schema_strict")]


def test_a_target_that_does_not_know_the_flag_loses_nothing_by_a_false_one() -> None:
    target = with_quirks(strict=False)
    assert "strict" not in options(target, schema=SCHEMA, schema_strict=False)["response_format"]["json_schema"]
    assert notices(target, schema=SCHEMA, schema_strict=False) == []


@pytest.mark.parametrize(
    ("given", "expected"), [("Tide[int]", "Tide_int_"), ("t" * 65, "t" * 64), ("", "response"), ("höhe", "h_he")]
)
def test_a_schema_name_fits(given: str, expected: str) -> None:
    assert options(schema=SCHEMA, schema_name=given)["response_format"]["json_schema"]["name"] == expected
    assert notices(schema=SCHEMA, schema_name=given) == [("renamed", "schema_name")]


def test_any_json_is_json_mode() -> None:
    body = encoded_body(schema={}, messages=(user("As json, please."),))
    assert body["response_format"] == {"type": "json_object"}
    assert body["messages"] == [{"role": "user", "content": "As json, please."}]


@pytest.mark.parametrize(
    "turns",
    [
        (system("Answer in JSON."), user("?")),
        (assistant("Here is JSON:"), user("?")),
        (user("as json?"), assistant(CALL), tool_results(ToolResult(id="call_a", content="4.2 m"))),
    ],
)
def test_json_mode_finds_its_word_at_the_beginning(turns: tuple[Message, ...]) -> None:
    assert notices(schema={}, messages=turns) == []


def test_a_later_turn_does_not_change_whether_json_mode_gets_its_word() -> None:
    first = encoded_body(schema={}, messages=(user("?"),))["messages"]
    later = encoded_body(schema={}, messages=(user("?"), assistant("!"), user("json?")))["messages"]
    assert later[: len(first)] == first


def test_json_mode_gets_the_word_that_it_demands() -> None:
    body = encoded_body(schema={}, system="Be brief.", messages=(user("?", PNG),))
    assert body["messages"][0] == {
        "role": "system",
        "content": "Be brief.\n\nAnswer with one JSON value and nothing else: no prose, no code fence.",
    }
    assert notices(schema={}) == [("repaired", "system prompt")]


def test_a_schema_that_the_target_does_not_take_is_said_in_words() -> None:
    target = with_quirks(json_schema=False)
    body = encoded_body(target, schema={"type": "object"})
    assert body["response_format"] == {"type": "json_object"}
    assert body["messages"][0] == {
        "role": "system",
        "content": "Answer with one JSON value and nothing else: no prose, no code fence."
        ' It must satisfy this JSON Schema: {"type":"object"}',
    }
    assert notices(target, schema={"type": "object"}) == [("changed", "schema")]


def test_a_clients_own_format_does_not_reach_a_target_that_takes_no_schema() -> None:
    extra = {"openai_chat": {"response_format": {"type": "json_schema", "json_schema": {"description": "d"}}}}
    assert options(with_quirks(json_schema=False), schema=SCHEMA, extra=extra) == {
        "response_format": {"type": "json_object"}
    }
    assert options(schema=SCHEMA, extra=extra) == extra["openai_chat"]


# Reasoning ------------------------------------------------------------------------------------------------------------

REASONING: list[tuple[dict[str, Any], Effort | int, dict[str, Any], list[str]]] = [
    ({}, "none", {"reasoning_effort": "none"}, []),
    ({}, "max", {"reasoning_effort": "max"}, []),
    ({}, 9000, {"reasoning_effort": "medium"}, ["changed"]),
    ({"efforts": ("low", "high")}, "minimal", {"reasoning_effort": "low"}, ["changed"]),
    ({"efforts": ("low", "high")}, "max", {"reasoning_effort": "high"}, ["changed"]),
    ({"efforts": ("low", "high")}, "low", {"reasoning_effort": "low"}, []),
    ({"reasoning": "object"}, "high", {"reasoning": {"effort": "high"}}, []),
    ({"reasoning": "object"}, 500, {"reasoning": {"max_tokens": 500}}, []),
    ({"reasoning": "switch"}, "none", {"thinking": {"type": "disabled"}}, []),
    ({"reasoning": "switch"}, "medium", {"thinking": {"type": "enabled"}}, []),
    ({"reasoning": "switch"}, "high", {"thinking": {"type": "enabled"}}, ["changed"]),
    (
        {"reasoning": "switch", "efforts": ("none", "low", "high")},
        "high",
        {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
        [],
    ),
    ({"reasoning": "switch", "efforts": ("none", "high")}, "none", {"thinking": {"type": "disabled"}}, []),
]


@pytest.mark.parametrize(("quirks", "reasoning", "expected", "kinds"), REASONING)
def test_reasoning_has_the_targets_form(
    quirks: dict[str, Any], reasoning: Effort | int, expected: dict[str, Any], kinds: list[str]
) -> None:
    target = with_quirks(**quirks)
    assert options(target, reasoning=reasoning) == expected
    assert [kind for kind, _ in notices(target, reasoning=reasoning)] == kinds


@pytest.mark.parametrize(("reasoning", "expected"), [("high", [("dropped", "reasoning")]), ("none", []), (None, [])])
def test_a_model_that_does_not_think_is_not_asked_to(reasoning: Effort | None, expected: list[tuple[str, str]]) -> None:
    assert options(with_limits(thinking=False), reasoning=reasoning) == {}
    assert notices(with_limits(thinking=False), reasoning=reasoning) == expected


@pytest.mark.parametrize(("reasoning", "expected"), [("high", [("changed", "reasoning")]), ("none", []), (None, [])])
def test_a_model_that_cannot_think_with_tools_is_told_not_to(
    reasoning: Effort | None, expected: list[tuple[str, str]]
) -> None:
    target = with_quirks(reasoning_with_tools=False)
    body = options(target, reasoning=reasoning, tools=(TIDE,))
    assert body == {"tools": [TIDE_JSON], "reasoning_effort": "none"}
    assert notices(target, reasoning=reasoning, tools=(TIDE,)) == expected
    assert options(target, reasoning="high") == {"reasoning_effort": "high"}


# Messages -------------------------------------------------------------------------------------------------------------


def test_the_system_prompt_is_one_message_at_the_front() -> None:
    encoded = messages(user("?"), system("And kind."), system=(Text(text="Be brief."), Text(text="Be true.")))
    assert encoded == [
        {"role": "system", "content": "Be brief.\n\nBe true."},
        ASK,
        {"role": "user", "content": "<system>\nAnd kind.\n</system>"},
    ]


def test_a_system_message_inside_the_history_stays_where_the_target_takes_it() -> None:
    target = replace(TARGET, quirks=replace(TARGET.quirks, system_turns=True))
    assert encoded_body(target, messages=(user("?"), system("Be kind.")))["messages"] == [
        ASK,
        {"role": "system", "content": "Be kind."},
    ]


def test_a_system_text_with_marks_is_a_part() -> None:
    marked = Text(text="Be brief.", extra={"openai_chat": {"cache_control": {"type": "ephemeral"}}})
    assert messages(user("?"), system=(marked, Text(text="Be true.")))[0] == {
        "role": "system",
        "content": [
            {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "Be true."},
        ],
    }


def test_a_named_system_message_stays_one_of_its_own() -> None:
    named = Text(text="Be brief.", extra={"openai_chat": {"message": {"name": "cook"}}})
    assert messages(user("?"), system=(named, Text(text="Be true."))) == [
        {"role": "system", "content": "Be brief.", "name": "cook"},
        {"role": "system", "content": "Be true."},
        ASK,
    ]


USER_PARTS: list[tuple[Part, dict[str, Any]]] = [
    (PNG, PNG_JSON),
    (Image(data=b"\x89PNG"), PNG_JSON),
    (replace(PNG, detail="high"), {"type": "image_url", "image_url": {**PNG_JSON["image_url"], "detail": "high"}}),
    (Image(url="https://x/a.png"), {"type": "image_url", "image_url": {"url": "https://x/a.png"}}),
    (
        Document(data=b"%PDF", mime="application/pdf", name="q3.pdf"),
        {"type": "file", "file": {"filename": "q3.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
    ),
    (
        Document(data=b"%PDF", mime="application/pdf"),
        {"type": "file", "file": {"filename": "document", "file_data": "data:application/pdf;base64,JVBERg=="}},
    ),
    (
        Audio(data=b"RIFF", mime="audio/wav"),
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    ),
    (Audio(data=b"ID3", mime="audio/mpeg"), {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}}),
    (Opaque(wire="openai_chat", data={"type": "video_url"}), {"type": "video_url"}),
    (
        Text(text="a", extra={"openai_chat": {"prompt_cache_breakpoint": {"mode": "explicit"}}}),
        {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}},
    ),
]


@pytest.mark.parametrize(("part", "expected"), USER_PARTS)
def test_a_part_of_a_users_message(part: Part, expected: dict[str, Any]) -> None:
    assert messages(user("?", part)) == [{"role": "user", "content": [{"type": "text", "text": "?"}, expected]}]


def test_a_lone_text_is_a_string() -> None:
    assert messages(user("?")) == [ASK]


def test_texts_stay_apart() -> None:
    assert messages(user("a", "b"))[0]["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


def test_what_a_message_has_beside_our_words_is_given_back() -> None:
    turn = Message(role="user", parts=(Text(text="?"),), extra={"openai_chat": {"name": "ann"}})
    assert messages(turn) == [{**ASK, "name": "ann"}]


@pytest.mark.parametrize(
    "turn",
    [
        user(Audio(data=b"", mime="audio/flac")),
        assistant(Audio(data=b"", mime="audio/wav")),
        assistant(Document(data=b"", mime="application/pdf")),
    ],
)
def test_a_part_without_a_place_is_refused(turn: Message) -> None:
    with pytest.raises(Unsupported, match="openai_chat: cannot send"):
        messages(turn)


@pytest.mark.parametrize(
    "turns",
    [
        (user(Image(url="https://x/a.png")),),
        (assistant(CALL), tool_results(ToolResult(id="call_a", content=(Image(url="https://x/a.png"),)))),
        (user("?"), assistant(Image(url="https://x/a.png"))),
    ],
)
def test_a_picture_by_url_is_refused_where_the_target_cannot_fetch(turns: tuple[Message, ...]) -> None:
    with pytest.raises(Unsupported, match=r"cannot fetch https://x/a\.png"):
        messages(*turns, target=with_limits(image_urls=False))


def test_bytes_need_no_fetching() -> None:
    assert messages(user(PNG), target=with_limits(image_urls=False)) == [{"role": "user", "content": [PNG_JSON]}]


# The assistant --------------------------------------------------------------------------------------------------------


def test_a_call_has_its_arguments_as_text_and_no_content() -> None:
    encoded = messages(user("?"), assistant(CALL), tool_results(ToolResult(id="call_a", content="4.2 m")))
    assert encoded == [
        ASK,
        {"role": "assistant", "content": None, "tool_calls": [CALL_JSON]},
        {"role": "tool", "tool_call_id": "call_a", "content": "4.2 m"},
    ]


def test_arguments_are_given_back_as_the_model_wrote_them() -> None:
    call = replace(CALL, raw='{"port": "Brest"}')
    assert messages(assistant(call))[0]["tool_calls"][0]["function"]["arguments"] == '{"port": "Brest"}'


ASSISTANT: list[tuple[tuple[Part, ...], dict[str, Any]]] = [
    ((Text(text="a"), Text(text="b")), {"content": "ab"}),
    ((Text(text="a"), CALL), {"content": "a", "tool_calls": [CALL_JSON]}),
    (
        (Text(text="a", extra={"openai_chat": {"cache_control": {}}}),),
        {"content": [{"type": "text", "text": "a", "cache_control": {}}]},
    ),
    (
        (Text(text="a", extra={"openai_chat": {"annotations": [{}], "logprobs": {}, "citations": []}}),),
        {"content": "a"},
    ),
    ((Text(text="No.", extra={"openai_chat": {"refusal": True}}),), {"content": None, "refusal": "No."}),
    (
        (Thinking(text="Hm.", extra={"openai_chat": {"fields": ["reasoning_content"]}}), CALL),
        {"content": None, "reasoning_content": "Hm.", "tool_calls": [CALL_JSON]},
    ),
    (
        (Thinking(text="", extra={"openai_chat": {"fields": ["reasoning_content"]}}), CALL),
        {"content": None, "reasoning_content": "", "tool_calls": [CALL_JSON]},
    ),
    (
        (Thinking(text="Hm.", extra={"openai_chat": {"fields": ["reasoning_content", "reasoning"]}}),),
        {"content": "", "reasoning_content": "Hm.", "reasoning": "Hm."},
    ),
    (
        (Thinking(text="", redacted=True, extra={"openai_chat": {"details": [{"data": "AA"}]}}), Text(text="a")),
        {"content": "a", "reasoning_details": [{"data": "AA"}]},
    ),
    ((Thinking(text="Hm.", extra={"openai_chat": {}}), Text(text="a")), {"content": "a"}),
    (
        (
            Thinking(text="Hm.", extra={"openai_chat": {"fields": ["content"], "chunk": {"closed": True}}}),
            Text(text="a"),
        ),
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True},
                {"type": "text", "text": "a"},
            ]
        },
    ),
    (
        (Opaque(wire="openai_chat", data={"type": "reference", "reference_ids": [3]}),),
        {"content": [{"type": "reference", "reference_ids": [3]}]},
    ),
    (
        (Opaque(wire="openai_chat", data={"audio": {"id": "audio_1", "data": "UklG", "transcript": "a"}}),),
        {"content": "", "audio": {"id": "audio_1"}},
    ),
    (
        (
            replace(PNG, extra={"openai_chat": {"index": 0}}),
            Opaque(wire="openai_chat", data={"images": [{"type": "image_ref"}]}),
        ),
        {"content": "", "images": [{**PNG_JSON, "index": 0}, {"type": "image_ref"}]},
    ),
    (
        (ToolCall(id="c", name="sql", arguments={"input": "select 1"}, extra={"openai_chat": {"type": "custom"}}),),
        {
            "content": None,
            "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}],
        },
    ),
    (
        (replace(CALL, extra={"openai_chat": {"extra_content": {"google": {"thought_signature": "c2ln"}}}}),),
        {
            "content": None,
            "tool_calls": [{**CALL_JSON, "extra_content": {"google": {"thought_signature": "c2ln"}}}],
        },
    ),
]


@pytest.mark.parametrize(("parts", "expected"), ASSISTANT)
def test_an_assistants_message(parts: tuple[Part, ...], expected: dict[str, Any]) -> None:
    assert messages(assistant(*parts))[0] == {"role": "assistant", **expected}


def test_what_was_thought_or_made_elsewhere_is_left_out_with_a_notice() -> None:
    turn = assistant(
        Thinking(text="Hm.", extra={"anthropic": {"signature": "x"}}),
        Opaque(wire="google", data={"x": 1}, is_optional=True),
        Text(text="a"),
    )
    assert messages(turn) == [{"role": "assistant", "content": "a"}]
    assert notices(messages=(turn,)) == [("dropped", "thinking"), ("dropped", "google block (x)")]


REPLAYED: list[tuple[dict[str, Any], tuple[str, ...] | None, bool]] = [
    ({"fields": ["reasoning"]}, None, True),
    ({"fields": ["reasoning"]}, ("reasoning",), True),
    ({"fields": ["reasoning"]}, (), False),
    ({"details": [{}]}, ("reasoning",), False),
]


@pytest.mark.parametrize(("extra", "reasoning_replay_fields", "is_sent"), REPLAYED)
def test_thinking_is_given_back_only_in_fields_that_the_target_takes(
    *, extra: dict[str, Any], reasoning_replay_fields: tuple[str, ...] | None, is_sent: bool
) -> None:
    target = with_quirks(reasoning_replay_fields=reasoning_replay_fields)
    turn = assistant(Thinking(text="Hm.", extra={"openai_chat": extra}), "a")
    assert ("reasoning" in messages(turn, target=target)[0]) == is_sent
    assert notices(target, messages=(turn,)) == ([] if is_sent else [("dropped", "thinking")])


REPLAYED_IN_PART: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("reasoning",), {"reasoning": "Hm."}),
    (("reasoning_content",), {"reasoning_content": "Hm."}),
    (("reasoning_details",), {"reasoning_details": [{"text": "Hm."}]}),
    (("reasoning", "reasoning_details"), {"reasoning": "Hm.", "reasoning_details": [{"text": "Hm."}]}),
]


@pytest.mark.parametrize(("reasoning_replay_fields", "fields"), REPLAYED_IN_PART)
def test_thinking_that_was_said_twice_is_given_back_once(
    reasoning_replay_fields: tuple[str, ...], fields: dict[str, Any]
) -> None:
    extra = {"fields": ["reasoning_content", "reasoning"], "details": [{"text": "Hm."}]}
    turn = assistant(Thinking(text="Hm.", extra={"openai_chat": extra}), "a")
    expected = {"role": "assistant", "content": "a", **fields}
    assert messages(turn, target=with_quirks(reasoning_replay_fields=reasoning_replay_fields)) == [expected]


def test_calls_of_another_model_get_a_blank_reasoning_where_calls_need_one() -> None:
    target = with_quirks(calls_need_reasoning=True)
    result = tool_results(ToolResult(id="call_a", content="ok"))
    assert messages(assistant(CALL), result, target=target)[0]["reasoning_content"] == " "
    assert ("repaired", "assistant message with calls") in notices(target, messages=(assistant(CALL), result))
    empty = assistant(Thinking(text="", extra={"openai_chat": {"fields": ["reasoning_content"]}}), CALL)
    assert messages(empty, result, target=target)[0]["reasoning_content"] == " "
    assert "reasoning_content" not in messages(assistant("a"), target=target)[0]


def test_a_picture_that_was_made_elsewhere_follows_in_a_users_message() -> None:
    encoded = messages(user("?"), assistant("Here.", PNG), user("Smaller."))
    assert encoded == [
        ASK,
        {"role": "assistant", "content": "Here."},
        {"role": "user", "content": [{"type": "text", "text": "Made by the assistant:"}, PNG_JSON]},
        {"role": "user", "content": "Smaller."},
    ]
    assert notices(messages=(assistant(PNG),)) == [("changed", "image of the assistant")]


def test_a_picture_that_was_made_with_a_call_follows_its_result() -> None:
    encoded = messages(assistant(PNG, CALL), tool_results(ToolResult(id="call_a", content="ok")))
    assert [message["role"] for message in encoded] == ["assistant", "tool", "user"]


def test_a_message_that_was_only_a_picture_points_to_it() -> None:
    assert messages(assistant(PNG))[0] == {"role": "assistant", "content": "(See the next message of the user.)"}


# Results --------------------------------------------------------------------------------------------------------------

RESULTS: list[tuple[ToolResult, Any]] = [
    (ToolResult(id="call_a", content="4.2 m"), "4.2 m"),
    (ToolResult(id="call_a", content="no port", is_error=True), "ERROR: no port"),
    (ToolResult(id="call_a", content=(Text(text="a"), Text(text="b"))), "a\nb"),
    (
        ToolResult(
            id="call_a",
            content=(
                Opaque(wire="openai_chat", data={"type": "x"}),
                Text(text="a", extra={"openai_chat": {"cache_control": {}}}),
                Text(text="b"),
            ),
            is_error=True,
        ),
        [
            {"type": "x"},
            {"type": "text", "text": "ERROR: a", "cache_control": {}},
            {"type": "text", "text": "b"},
        ],
    ),
    (ToolResult(id="call_a", content=(Text(text="a"), PNG)), "a"),
    (ToolResult(id="call_a", content=(PNG,)), "(See the next message of the user.)"),
]


@pytest.mark.parametrize(("result", "content"), RESULTS)
def test_a_result_is_text(result: ToolResult, content: Any) -> None:
    expected = {"role": "tool", "tool_call_id": "call_a", "content": content}
    assert messages(assistant(CALL), tool_results(result))[1] == expected
    assert WIRE.client.encode_result(result) == expected


def test_what_a_result_has_beside_our_words_is_given_back() -> None:
    result = ToolResult(id="call_a", content="a", extra={"openai_chat": {"name": "tide"}})
    assert WIRE.client.encode_result(result)["name"] == "tide"


def test_results_of_parallel_calls_are_a_message_each_and_their_pictures_follow() -> None:
    calls = (CALL, replace(CALL, id="call_b"))
    results = (ToolResult(id="call_b", content="b"), ToolResult(id="call_a", content=(Text(text="a"), PNG)))
    assert messages(assistant(*calls), tool_results(*results))[1:] == [
        {"role": "tool", "tool_call_id": "call_a", "content": "a"},
        {"role": "tool", "tool_call_id": "call_b", "content": "b"},
        {"role": "user", "content": [{"type": "text", "text": "From the result of tide (call_a):"}, PNG_JSON]},
    ]


def test_an_optional_block_of_another_wire_in_a_result_is_left_out_with_a_notice() -> None:
    block = Opaque(wire="anthropic", data={"type": "x"}, is_optional=True)
    result = ToolResult(id="call_a", content=(Text(text="a"), block))
    turns = (assistant(CALL), tool_results(result))
    assert messages(*turns)[1]["content"] == "a"
    assert notices(messages=turns) == [("dropped", "anthropic block (x)")]


def test_a_call_that_never_got_a_result_gets_an_error() -> None:
    turns = (assistant(CALL), user("?"))
    assert messages(*turns)[1:] == [
        {
            "role": "tool",
            "tool_call_id": "call_a",
            "content": "ERROR: result unavailable; do not assume that it ran",
        },
        ASK,
    ]
    assert notices(messages=turns) == [("repaired", "call call_a")]


def test_a_result_without_its_call_is_a_text_of_the_user() -> None:
    turns = (user("?"), tool_results(ToolResult(id="call_z", content="a")))
    text = "The result of the tool (call_z) has no call in this conversation:\na"
    assert messages(*turns) == [ASK, {"role": "user", "content": text}]
    assert notices(messages=turns) == [("changed", "result call_z")]


def test_ids_are_made_to_fit_and_calls_and_results_alike() -> None:
    target = with_quirks(call_id="[A-Za-z0-9]{9}")
    turns = (
        assistant(CALL, replace(CALL, id="aB3dE6gH9")),
        tool_results(ToolResult(id="call_a", content="a"), ToolResult(id="aB3dE6gH9", content="b")),
    )
    encoded = messages(*turns, target=target)
    ids = [call["id"] for call in encoded[0]["tool_calls"]]
    assert [message["tool_call_id"] for message in encoded[1:]] == ids
    assert ids[1] == "aB3dE6gH9"
    assert len(ids[0]) == 9
    assert ids[0].isalnum()
    assert messages(*turns, target=target) == encoded
    assert notices(target, messages=turns) == [("renamed", "call id call_a")]


@pytest.mark.parametrize("spec", ["openai/gpt-x", "azure/gpt-x"])
def test_ids_have_at_most_40_characters_for_openai(spec: str) -> None:
    to = providers.target(spec, api_key="k", base_url="https://x/v1")
    long, short = "toolu_" + "x" * 80, "c" * 40
    turns = (
        assistant(replace(CALL, id=long), replace(CALL, id=short)),
        tool_results(ToolResult(id=long, content="a"), ToolResult(id=short, content="b")),
    )
    encoded = messages(*turns, target=to)
    ids = [call["id"] for call in encoded[0]["tool_calls"]]
    assert [message["tool_call_id"] for message in encoded[1:]] == ids
    assert (len(ids[0]), ids[1]) == (40, short)
    longer = (*turns, assistant("So."), user("And now?"))
    assert messages(*longer, target=to)[:3] == encoded
    assert messages(*turns)[0]["tool_calls"][0]["id"] == long


def test_only_calls_of_an_assistant_have_ids() -> None:
    turn = Message(role="user", parts=(Text(text="?"),), extra={"openai_chat": {"tool_calls": "2"}})
    assert messages(turn, target=with_quirks(call_id="[A-Za-z0-9]{9}")) == [{**ASK, "tool_calls": "2"}]


def test_a_word_is_put_between_a_result_and_the_user_where_that_is_demanded() -> None:
    target = with_quirks(user_after_tool=False)
    turns = (user("?"), assistant(CALL), tool_results(ToolResult(id="call_a", content="a")), user("?"))
    encoded = messages(*turns, target=target)
    assert [message["role"] for message in encoded] == ["user", "assistant", "tool", "assistant", "user"]
    assert encoded[3] == {"role": "assistant", "content": "(Noted.)"}
    assert notices(target, messages=turns) == [("repaired", "history")]
    assert len(messages(*turns)) == 4


def test_a_loss_is_refused_under_strict() -> None:
    with pytest.raises(Unsupported, match=r"top_k: openai_chat: not supported \(strict\)"):
        encoded_body(top_k=1, strict=True)


def test_notices_say_what_and_why() -> None:
    http = WIRE.client.encode_request(Request(top_k=1), TARGET)
    assert http.notices == (Notice(kind="dropped", what="top_k", why="openai_chat: not supported"),)
