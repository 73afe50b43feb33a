"""What a request asks beside its messages in, what a target takes of it out, with notices of what is lost."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, get_args

from dragoman.errors import InvalidRequest
from dragoman.targets.target import Target
from dragoman.types import (
    Effort,
    Finish,
    FinishReason,
    JsonObject,
    Opaque,
    Request,
    Tool,
)
from dragoman.wires.common.notices import NoticeCollector

OptionField: TypeAlias = tuple[str, Any, str | None]
"""Our name for an option, its value, and the field that a target takes it in; None where it has none."""


def encode_options(told: Iterable[OptionField], theirs: Mapping[str, Any], notes: NoticeCollector, /) -> JsonObject:
    """The fields of the options that are told; those without a field are dropped, unless said verbatim.

    >>> encode_options([("seed", 7, "random_seed"), ("top_k", None, None)], {}, NoticeCollector("w"))
    {'random_seed': 7}
    """
    body: JsonObject = {}
    for name, value, field in told:
        if value is None:
            continue
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidRequest(f"{name}: {value} is not a finite number")
        if field is not None:
            body[field] = value
        elif name not in theirs:
            notes.add("dropped", name, "it has no such option")
    return body


def max_tokens(request: Request, target: Target, notes: NoticeCollector, /, *, least: int | None = None) -> int | None:
    """The limit that is asked for, within what the target can.

    >>> from dragoman.targets.providers import target
    >>> max_tokens(Request(max_tokens=5), target("openai/x"), NoticeCollector("w"), least=16)
    16
    """
    told, most = request.max_tokens, target.capabilities.max_output
    if told is None:
        return None
    fitted = told if most is None else min(told, most)
    fitted = fitted if least is None else max(fitted, least)
    if fitted != told:
        notes.add("changed", "max_tokens", f"it takes {fitted} at {'least' if fitted > told else 'most'}")
    return fitted


def supported_tools(request: Request, notes: NoticeCollector, /) -> list[Tool | Opaque]:
    """The tools without those that run at another provider.

    >>> supported_tools(Request(tools=(Opaque(wire="v", data={}),)), NoticeCollector("w"))
    []
    """
    own = [tool for tool in request.tools if isinstance(tool, Tool) or tool.wire == notes.wire]
    if len(own) < len(request.tools):
        notes.add("dropped", "a tool that runs at another provider", "it has no such tool")
    return own


def tool_choice(request: Request, target: Target, tools: list[Tool | Opaque], notes: NoticeCollector, /) -> str | None:
    """The choice that may be sent: none without tools, and nothing forced where that cannot be.

    What an opaque tool is called is not known, so that one may be the tool that is named.

    >>> from dragoman.targets.providers import target
    >>> tool_choice(Request(tool_choice="required"), target("openai/x"), [], NoticeCollector("w")) is None
    True
    """
    choice = request.tool_choice
    if choice in (None, "auto", "none"):
        return choice
    if not tools:
        notes.add("dropped", "tool_choice", "there are no tools")
        return None
    if choice != "required" and not any(isinstance(tool, Opaque) or tool.name == choice for tool in tools):
        if len(tools) == len(request.tools):
            raise _no_tool(choice, tools)
        notes.add("dropped", "tool_choice", "it names a tool that runs at another provider")
        return None
    if not target.capabilities.forced_choice:
        notes.add("changed", "tool_choice", "a call cannot be forced, so the choice is its own")
        return "auto"
    return choice


def only_tool(name: str, tools: list[Tool | Opaque], notes: NoticeCollector, /) -> list[Tool | Opaque]:
    """The one tool of that name, for targets whose choice can name none.

    >>> only_tool("now", [Tool(name="now"), Tool(name="tide")], NoticeCollector("w"))[0].name
    'now'
    """
    named: list[Tool | Opaque] = [tool for tool in tools if isinstance(tool, Tool) and tool.name == name]
    if not named:
        raise _no_tool(name, tools)
    notes.add("changed", "tool_choice", "it cannot name a tool, so it is given that one alone")
    return named


def _no_tool(name: str, tools: list[Tool | Opaque]) -> InvalidRequest:
    there = ", ".join(tool.name for tool in tools if isinstance(tool, Tool)) or "none"
    return InvalidRequest(f"tool_choice: no tool is called {name!r}; there are {there}")


def parallel_tool_calls(request: Request, target: Target, notes: NoticeCollector, /) -> bool | None:
    """The wish for several calls at once, where the target has a switch for it.

    >>> from dragoman.targets.providers import target
    >>> parallel_tool_calls(Request(parallel_tool_calls=False), target("openai/x"), NoticeCollector("w"))
    False
    """
    if request.parallel_tool_calls is not None and not target.quirks.parallel_tool_calls:
        notes.add("dropped", "parallel_tool_calls", "it has no such switch")
        return None
    return request.parallel_tool_calls


def schema_name(request: Request, notes: NoticeCollector, /) -> str:
    """The name of the schema, made of what a name may have.

    >>> schema_name(Request(schema_name="a b"), NoticeCollector("w"))
    'a_b'
    """
    name = re.sub(r"[^A-Za-z0-9_-]", "_", request.schema_name)[:64] or "response"
    if name != request.schema_name:
        notes.add("renamed", "schema_name", f"a name is made of letters, digits, _ and -, so it is {name}")
    return name


def why_not_strict(target: Target, /) -> str:
    """Why a strict flag is not sent.

    >>> from dragoman.targets.providers import target
    >>> why_not_strict(target("openai/x"))
    'the schema does not satisfy the strict rules'
    """
    return "the schema does not satisfy the strict rules" if target.quirks.strict else "it has no such flag"


ERROR_PREFIX = "ERROR: "
"""What stands before a tool's error on wires that have no word for it."""


def finish_word(finish: Finish, meanings: Mapping[str, FinishReason], words: Mapping[FinishReason, str], /) -> str:
    """A dialect's word for a finish: the provider's own where it is of this dialect and means the same.

    >>> finish_word(Finish(reason="stop", raw="eos"), {"eos": "stop"}, {"stop": "stop"})
    'eos'
    """
    raw = finish.raw
    return raw if raw and meanings.get(raw) == finish.reason else words[finish.reason]


EFFORTS: tuple[Effort, ...] = get_args(Effort)


BUDGETS: dict[Effort, int] = {"none": 0, "minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "max": 32768}
"""Tokens that a word stands for, where a target wants a number."""


def requested_reasoning(request: Request, target: Target, notes: NoticeCollector, /) -> Effort | int | None:
    """How hard the target shall think; None leaves it to itself.

    >>> from dragoman.targets.target import Capabilities
    >>> target = Target(provider="p", model="m", wire="w", base_url="https://x", capabilities=Capabilities(thinking=False))
    >>> requested_reasoning(Request(reasoning="high"), target, NoticeCollector("w")) is None
    True
    """
    reasoning = request.reasoning
    asked = reasoning not in (None, "none", 0)
    if not target.capabilities.thinking:
        if asked:
            notes.add("dropped", "reasoning", "the model does not think")
        return None
    if request.tools and not target.quirks.reasoning_with_tools:
        if asked:
            notes.add("changed", "reasoning", "a model that has tools may not think, so it does not")
        return "none"
    return reasoning


def to_effort(reasoning: Effort | int, target: Target, notes: NoticeCollector, /) -> Effort:
    """The target's word that is nearest to what is asked.

    >>> target = Target(provider="p", model="m", wire="w", base_url="https://x")
    >>> to_effort(9000, target, NoticeCollector("w"))
    'medium'
    """
    effort = reasoning if isinstance(reasoning, str) else _nearest_word(reasoning)
    if not isinstance(reasoning, str):
        notes.add("changed", "reasoning", f"it takes a word, so {reasoning} tokens became {effort!r}")
    allowed = target.quirks.efforts
    if not allowed or effort in allowed:
        return effort
    rank = EFFORTS.index(effort)
    nearest = min(allowed, key=lambda word: (abs(EFFORTS.index(word) - rank), word == "none"))
    notes.add("changed", "reasoning", f"it does not take {effort!r}, so it got {nearest!r}")
    return nearest


def to_budget(reasoning: Effort | int, /) -> int:
    """The tokens that are asked for.

    >>> to_budget("low"), to_budget(500)
    (2048, 500)
    """
    return BUDGETS[reasoning] if isinstance(reasoning, str) else reasoning


def _nearest_word(tokens: int) -> Effort:
    """Any tokens at all are not "none"."""
    return min(EFFORTS[1:], key=lambda word: abs(BUDGETS[word] - tokens)) if tokens > 0 else "none"
