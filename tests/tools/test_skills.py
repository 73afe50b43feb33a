"""The skills that are shipped: the clock, and the calculator with its own parser."""

import datetime as dt
import re
from typing import Any

import pytest

from dragoman import Agent, Toolbox, ToolCall
from dragoman.testing import Scripted
from dragoman.tools.skills import Skill, calc, clock
from dragoman.tools.skills.arithmetic import evaluate

NOON = dt.datetime(2026, 11, 17, 12, 0, tzinfo=dt.UTC)


def use(skill: Skill, name: str, **arguments: Any) -> tuple[str, bool]:
    result = Toolbox(*skill.tools).execute(ToolCall(id="1", name=name, arguments=arguments))
    return result.text, result.is_error


# ── the clock ───────────────────────────────────────────────────────────────


def test_the_clock_has_the_time_that_it_is_given() -> None:
    skill = clock(lambda: NOON)
    assert use(skill, "current_time") == ("2026-11-17T12:00:00+00:00 (Tuesday)", False)
    assert use(skill, "current_time", zone="Asia/Tokyo") == ("2026-11-17T21:00:00+09:00 (Tuesday)", False)


def test_the_clock_tells_the_real_time_by_itself() -> None:
    before = dt.datetime.now(dt.UTC).replace(microsecond=0)
    text, _ = use(clock(), "current_time")
    assert before <= dt.datetime.fromisoformat(text.split(" ", maxsplit=1)[0]) <= dt.datetime.now(dt.UTC)


@pytest.mark.parametrize("zone", ["Atlantis/Main", "../etc/passwd", ""])
def test_an_unknown_zone_is_told(zone: str) -> None:
    text, is_error = use(clock(lambda: NOON), "current_time", zone=zone)
    assert is_error
    assert "use an IANA name" in text


# ── the calculator ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("0.1 + 0.2", "0.3"),
        ("10 - 4 - 3", "3"),
        ("100 / 8 / 2", "6.25"),
        ("-2 ** 2", "-4"),
        ("2 ** -1", "0.5"),
        ("2 ** 3 ** 2", "512"),
        ("2 ^ 10", "1024"),
        ("--3", "3"),
        ("+3", "3"),
        ("7 // 2", "3"),
        ("-7 // 2", "-4"),
        ("-7 % 3", "2"),
        ("1e3 + .5", "1000.5"),
        ("sqrt(16) + abs(-2) - floor(1.9) - ceil(1.1)", "3"),
        ("max(1, 5, 3) * min(2, 4)", "10"),
        ("round(2.567, 2)", "2.57"),
        ("round(2.5)", "2"),
        ("pi - pi + e * 0", "0"),
        ("123456789 * 987654321 * 1000000007", "121932631966163686788446883"),
        ("10 ** 100", "1E+100"),
        ("1 / 10 ** 40", "1E-40"),
        ("-99999999999999999999999999999999", "-99999999999999999999999999999999"),
    ],
)
def test_arithmetic(expression: str, value: str) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("", "ends too early"),
        ("1 +", "ends too early"),
        ("(1", "ends too early"),
        ("1)", "unexpected ')'"),
        ("1 2", "unexpected '2'"),
        ("* 2", "unexpected '*'"),
        ("sqrt 4", "'sqrt' is unknown"),
        ("x + 1", "'x' is unknown"),
        ("__import__('os')", "unexpected"),
        ("open('a')", "'open' is unknown"),
        ("1; 2", "unexpected"),
        ("1 / 0", "division by zero"),
        ("10 ** 99999", "too large"),
        ("9 ** 9 ** 9 ** 9", "too large"),
        ("sqrt(-1)", "does not exist"),
        ("0 ** 0", "does not exist"),
        ("sqrt(1, 2)", "wrong number of arguments"),
        ("(" * 60 + "1" + ")" * 60, "nested too deeply"),
        ("-" * 60 + "1", "nested too deeply"),
        ("1" * 1001, "more than 1000 characters"),
    ],
)
def test_what_has_no_value_is_told(expression: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        evaluate(expression)


def test_the_calculator_is_a_tool() -> None:
    assert use(calc(), "calculate", expression="6 * 7") == ("42", False)
    assert use(calc(), "calculate", expression="6 *") == ("ValueError: the expression ends too early", True)


def test_skills_are_taught_to_an_agent() -> None:
    script = Scripted(ToolCall(id="1", name="calculate", arguments={"expression": "2+2"}), "4.")
    result = Agent(script.model(), skills=[clock(lambda: NOON), calc()]).run("2 + 2?")
    assert result.steps[0].results[0].text == "4"
    assert isinstance(script.requests[0].system, str)
    assert script.requests[0].system.split("\n\n") == [clock().instructions, calc().instructions]
