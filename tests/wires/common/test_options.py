from typing import Any

import pytest

from dragoman.errors import InvalidRequest
from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.types import JsonObject, Notice, Opaque, Request, Tool
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import (
    OptionField,
    encode_options,
    max_tokens,
    only_tool,
    parallel_tool_calls,
    schema_name,
    supported_tools,
    tool_choice,
    why_not_strict,
)

NOW, TIDE = Tool(name="now"), Tool(name="tide")
OURS, THEIRS = Opaque(wire="w", data={"type": "search"}), Opaque(wire="v", data={"type": "search"})


def make_target(capabilities: Capabilities | None = None, quirks: Quirks | None = None) -> Target:
    capabilities, quirks = capabilities or Capabilities(), quirks or Quirks()
    return Target(provider="p", model="m", wire="w", base_url="https://x", capabilities=capabilities, quirks=quirks)


def notice_fields(notes: NoticeCollector) -> list[tuple[str, str, str]]:
    return [(notice.kind, notice.what, notice.why) for notice in notes.notices]


# Options --------------------------------------------------------------------------------------------------------------


def test_an_option_is_told_in_the_field_of_the_target() -> None:
    notes = NoticeCollector("w")
    options: list[OptionField] = [("seed", 0, "random_seed"), ("top_p", 0.5, "top_p"), ("stop", None, "stop")]
    assert encode_options(options, {}, notes) == {"random_seed": 0, "top_p": 0.5}
    assert notes.notices == ()


def test_an_option_without_a_field_is_dropped() -> None:
    notes = NoticeCollector("w")
    assert encode_options([("top_k", 5, None), ("seed", None, None)], {}, notes) == {}
    assert notice_fields(notes) == [("dropped", "top_k", "w: not supported")]


def test_an_option_without_a_field_that_is_said_verbatim_is_no_loss() -> None:
    notes = NoticeCollector("w")
    assert encode_options([("top_k", 5, None)], {"top_k": 5}, notes) == {}
    assert notes.notices == ()


@pytest.mark.parametrize(("value", "word"), [(float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")])
@pytest.mark.parametrize("field", ["temperature", None])
def test_a_number_that_is_not_finite_is_invalid(value: float, word: str, field: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        encode_options([("temperature", value, field)], {}, NoticeCollector("w"))
    assert str(caught.value) == f"temperature must be a finite number, got {word}"


@pytest.mark.parametrize(
    ("requested", "most", "least", "fitted", "why"),
    [
        (None, 4096, 16, None, None),
        (5, None, None, 5, None),
        (16, 4096, 16, 16, None),
        (4096, 4096, 16, 4096, None),
        (5, None, 16, 16, "5 became the minimum, 16"),
        (9000, 4096, None, 4096, "9000 became the maximum, 4096"),
        (5, 8, 16, 16, "5 became the minimum, 16"),
    ],
)
def test_a_limit_is_within_what_the_target_can(
    requested: int | None, most: int | None, least: int | None, fitted: int | None, why: str | None
) -> None:
    notes = NoticeCollector("w")
    assert (
        max_tokens(Request(max_tokens=requested), make_target(Capabilities(max_output=most)), notes, least=least)
        == fitted
    )
    assert notice_fields(notes) == ([("changed", "max_tokens", f"w: {why}")] if why else [])


# Tools ----------------------------------------------------------------------------------------------------------------


def test_tools_of_other_providers_are_left_out() -> None:
    notes = NoticeCollector("w")
    assert supported_tools(Request(tools=(NOW, OURS, THEIRS)), notes) == [NOW, OURS]
    assert notice_fields(notes) == [("dropped", "tool search", "w: only targets of the wire v have it")]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"type": "web_search_20260318", "name": "web_search"}, "web_search"),
        ({"type": "web_search"}, "web_search"),
        ({"googleSearch": {}}, "googleSearch"),
        ({"type": "custom", "custom": {"name": "sql"}}, "sql"),
        ({"name": 7}, "name"),
        ({"type": "x" * 500}, "x" * 64),
        ({}, "without a name"),
    ],
)
def test_a_notice_names_the_tool(data: JsonObject, name: str) -> None:
    notes = NoticeCollector("w")
    assert supported_tools(Request(tools=(Opaque(wire="v", data=data),)), notes) == []
    assert [notice.what for notice in notes.notices] == [f"tool {name}"]


def test_tools_of_ones_own_are_kept_without_a_word() -> None:
    notes = NoticeCollector("w")
    assert supported_tools(Request(tools=(NOW, OURS)), notes) == [NOW, OURS]
    assert notes.notices == ()


def choose(
    choice: str | None, *tools: Tool | Opaque, **capabilities: Any
) -> tuple[str | None, list[tuple[str, str, str]]]:
    """The choice that may be sent, and what was noted of it."""
    notes = NoticeCollector("w")
    own = supported_tools(Request(tools=tools), NoticeCollector("w"))
    request = Request(tools=tools, tool_choice=choice)
    return tool_choice(request, make_target(Capabilities(**capabilities)), own, notes), notice_fields(notes)


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_a_free_choice_is_sent_as_it_is(choice: str | None) -> None:
    assert choose(choice, forced_choice=False) == (choice, [])


@pytest.mark.parametrize("choice", ["required", "now"])
def test_a_forced_choice_is_sent_as_it_is(choice: str) -> None:
    assert choose(choice, NOW, TIDE) == (choice, [])


@pytest.mark.parametrize("choice", ["required", "now"])
@pytest.mark.parametrize("tools", [(), (THEIRS,)])
def test_a_forced_choice_without_tools_is_dropped(choice: str, tools: tuple[Opaque, ...]) -> None:
    assert choose(choice, *tools) == (None, [("dropped", "tool_choice", "w: there are no tools")])


@pytest.mark.parametrize("choice", ["required", "now"])
def test_a_choice_that_cannot_be_forced_is_free(choice: str) -> None:
    why = f"w: {choice!r} became 'auto': calls cannot be forced"
    assert choose(choice, NOW, forced_choice=False) == ("auto", [("changed", "tool_choice", why)])


@pytest.mark.parametrize("forced_choice", [True, False])
def test_a_choice_of_a_tool_that_is_not_there_is_invalid(*, forced_choice: bool) -> None:
    with pytest.raises(InvalidRequest) as caught:
        choose("wind", NOW, TIDE, forced_choice=forced_choice)
    assert str(caught.value) == "tool_choice must be 'auto', 'none', 'required' or a tool (now, tide), got 'wind'"


def test_a_choice_may_name_an_opaque_tool() -> None:
    assert choose("search", NOW, OURS) == ("search", [])


def test_a_choice_of_a_tool_at_another_provider_is_dropped() -> None:
    why = "w: names a tool that only another wire has"
    assert choose("search", NOW, THEIRS) == (None, [("dropped", "tool_choice", why)])


def test_one_tool_alone_is_given_where_a_choice_can_name_none() -> None:
    notes = NoticeCollector("w")
    assert only_tool("tide", [NOW, OURS, TIDE], notes) == [TIDE]
    why = "w: cannot name a tool; sent only that tool"
    assert notice_fields(notes) == [("changed", "tool_choice", why)]


@pytest.mark.parametrize(("tools", "there"), [([NOW, OURS, TIDE], "now, tide"), ([OURS], "there are none")])
def test_a_tool_that_is_not_there_cannot_be_given_alone(tools: list[Tool | Opaque], there: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        only_tool("wind", tools, NoticeCollector("w"))
    assert str(caught.value) == f"tool_choice must be 'auto', 'none', 'required' or a tool ({there}), got 'wind'"


@pytest.mark.parametrize("setting", [True, False, None])
def test_the_wish_for_several_calls_is_sent_where_there_is_a_switch(*, setting: bool | None) -> None:
    notes = NoticeCollector("w")
    assert parallel_tool_calls(Request(parallel_tool_calls=setting), make_target(), notes) is setting
    assert notes.notices == ()


@pytest.mark.parametrize("setting", [True, False])
def test_the_wish_for_several_calls_is_dropped_where_there_is_no_switch(*, setting: bool) -> None:
    notes = NoticeCollector("w")
    target = make_target(quirks=Quirks(parallel_tool_calls=False))
    assert parallel_tool_calls(Request(parallel_tool_calls=setting), target, notes) is None
    assert notice_fields(notes) == [("dropped", "parallel_tool_calls", "w: not supported")]


def test_no_wish_for_several_calls_is_no_loss() -> None:
    notes = NoticeCollector("w")
    assert parallel_tool_calls(Request(), make_target(quirks=Quirks(parallel_tool_calls=False)), notes) is None
    assert notes.notices == ()


# Schemas --------------------------------------------------------------------------------------------------------------


def test_a_name_that_a_schema_may_have_stays() -> None:
    notes = NoticeCollector("w")
    assert schema_name(Request(schema_name="Tide_2-a"), notes) == "Tide_2-a"
    assert notes.notices == ()


@pytest.mark.parametrize(("name", "fitted"), [("a b!", "a_b_"), ("é", "_"), ("x" * 65, "x" * 64), ("", "response")])
def test_a_name_that_a_schema_may_not_have_is_changed(name: str, fitted: str) -> None:
    notes = NoticeCollector("w")
    assert schema_name(Request(schema_name=name), notes) == fitted
    why = f"w: became {fitted}: only letters, digits, _ and - are allowed"
    assert notes.notices == (Notice(kind="renamed", what="schema_name", why=why),)


@pytest.mark.parametrize(
    ("strict", "why"), [(True, "the schema does not satisfy the rules of strict mode"), (False, "not supported")]
)
def test_why_a_flag_is_not_sent_depends_on_whether_it_is_known(why: str, *, strict: bool) -> None:
    assert why_not_strict(make_target(quirks=Quirks(strict=strict))) == why
