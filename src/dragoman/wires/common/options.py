"""Options of a request, as far as a target supports them: limits, tools, reasoning, the name of a schema.

Each function returns what may be sent and adds a notice if that is not what the request has.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, get_args

from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.schema.strict import is_strict
from dragoman.targets.target import Target
from dragoman.types import Effort, Finish, FinishReason, JsonObject, Opaque, Request, Tool, is_object
from dragoman.types.requests import NO_RARE_OPTIONS, RARE_OPTIONS, rare_options
from dragoman.wires.common.extra import CHANGED, VERBATIM
from dragoman.wires.common.hosted_tools import HostedEncoder, resolve_tools
from dragoman.wires.common.notices import NoticeCollector

OptionField: TypeAlias = tuple[str, Any, str | None]
"""The name of an option in `Request`, its value, and the target's field for it; None if it has none."""

EFFORTS: tuple[Effort, ...] = get_args(Effort)
NO_ARGUMENTS: JsonObject = {"type": "object", "properties": {}}
"""The schema of a tool without parameters."""
MAX_SEED = 2**31
"""Seeds of some targets fit into 32 bits, with a sign."""
MAX_USER = 64
"""Characters of `user`."""
BUDGETS: dict[Effort, int] = {
    "none": 0,
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 24576,
    "max": 32768,
}
"""The number of tokens for an effort, for targets that take a number."""

STANDARD_TIERS = frozenset({"default", "standard", "standard_only", "on_demand"})
"""The providers' words for the usual tier."""
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "n": (1,),
    "service_tier": ("auto", *STANDARD_TIERS),
}
"""Values that mean the same as no value, so that a target without the option loses nothing."""
_MAX_TOOL_NAME = 64
"""Characters of the name of a tool in a notice."""
_SAMPLING = frozenset({"frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs"})
"""Options that models without `sampling` refuse."""


def encode_options(options: Iterable[OptionField], extra: Mapping[str, Any], notices: NoticeCollector, /) -> JsonObject:
    """The fields of the options that are set.

    An option without a field is dropped; there is no notice if `extra` has a field of that name.

    >>> encode_options([("seed", 7, "random_seed"), ("top_k", None, None)], {}, NoticeCollector("w"))
    {'random_seed': 7}
    """
    body: JsonObject = {}
    for name, value, field in options:
        if value is None:
            continue
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidRequest(f"{name} must be a finite number, got {value}")
        if field is not None:
            body[field] = value
        elif name not in extra:
            notices.add("dropped", name, "not supported")
    return body


def fit_user(request: Request, notices: NoticeCollector, /) -> str | None:
    """The id of the user, as a hash if it is longer than OpenAI and its like accept (64 characters, 2026-11).

    >>> len(fit_user(Request(user="u" * 150), NoticeCollector("w")) or "")
    64
    """
    user = request.user
    if user is None or len(user) <= MAX_USER:
        return user
    import hashlib

    notices.add("changed", "user", f"it must have at most {MAX_USER} characters; a hash of it is sent")
    return hashlib.sha256(user.encode(errors="surrogatepass")).hexdigest()


# Options that few requests have ---------------------------------------------------------------------------------------


def encode_rare_options(
    request: Request, target: Target, fields: Mapping[str, str], extra: Mapping[str, Any], notices: NoticeCollector, /
) -> JsonObject:
    """The fields of these options; `fields` has the wire's names for those that it supports.

    An option that the target does not support is dropped with a notice, unless its value is the default or `extra` has
    a field for it.

    >>> from dragoman.targets.providers import target
    >>> encode_rare_options(Request(n=2), target("openai/x"), {"n": "candidateCount"}, {}, NoticeCollector("w"))
    {'candidateCount': 2}
    """
    values = rare_options(request)
    if values == NO_RARE_OPTIONS:
        return {}
    options = dict(zip(RARE_OPTIONS, values, strict=True))
    if options["top_logprobs"]:
        options["logprobs"] = True
    quirks = target.quirks
    body: JsonObject = {}
    for name, value in options.items():
        field = fields.get(name)
        if value is None or name in extra or field in extra:
            continue
        is_allowed = name not in quirks.unsupported and (quirks.sampling or name not in _SAMPLING)
        if field is not None and is_allowed:
            body[field] = value
        elif value not in _NEUTRAL.get(name, ()):
            notices.add("dropped", name, "not supported")
    return body


def target_of_options(request: Request, target: Target, /) -> Target:
    """The target without `sampling`, if the model is to think and takes no such options then.

    >>> from dragoman import Registry
    >>> target_of_options(Request(reasoning="low"), Registry(env={}).target("openai/gpt-5.1")).quirks.sampling
    False
    """
    if target.quirks.sampling_with_reasoning or request.reasoning in (None, "none", 0):
        return target
    return replace(target, quirks=replace(target.quirks, sampling=False))


def encode_tier(tier: str, tiers: Mapping[str, str], notices: NoticeCollector, /) -> str | None:
    """The wire's word for a service tier; None if it has none.

    >>> encode_tier("default", {"standard": "standard"}, NoticeCollector("w"))
    'standard'
    """
    word = tiers.get(tier)
    if word is None and tier in STANDARD_TIERS:
        word = next((tiers[name] for name in STANDARD_TIERS if name in tiers), None)
    elif word is None:
        if tier != "auto":
            notices.add("dropped", "service_tier", f"{tier!r} is not supported; use one of {', '.join(tiers)}")
    elif word != tier and not {word, tier} <= STANDARD_TIERS:
        notices.add("changed", "service_tier", f"{tier!r} became {word!r}")
    return word


def tier_word(tier: str | None, standard: str, /) -> str | None:
    """A tier of a response in the words of a dialect, which calls the usual one `standard`.

    >>> tier_word("standard", "default"), tier_word("flex", "default")
    ('default', 'flex')
    """
    return standard if tier in STANDARD_TIERS else tier


# Length ---------------------------------------------------------------------------------------------------------------


def max_tokens(
    request: Request, target: Target, notices: NoticeCollector, /, *, least: int | None = None
) -> int | None:
    """The request's `max_tokens`, within the limits of the target.

    >>> from dragoman.targets.providers import target
    >>> max_tokens(Request(max_tokens=5), target("openai/x"), NoticeCollector("w"), least=16)
    16
    """
    limit = request.max_tokens
    if limit is None:
        return None
    most = target.capabilities.max_output
    fitted = limit if most is None else min(limit, most)
    fitted = fitted if least is None else max(fitted, least)
    if fitted != limit:
        notices.add(
            "changed", "max_tokens", f"{limit} became the {'minimum' if fitted > limit else 'maximum'}, {fitted}"
        )
    return fitted


# Tools ----------------------------------------------------------------------------------------------------------------


def supported_tools(
    request: Request,
    notices: NoticeCollector,
    hosted: HostedEncoder | None = None,
    target: Target | None = None,
    /,
) -> list[Tool | Opaque]:
    """The tools in the form of the wire, without those that only another wire has.

    `hosted` encodes the tools that the provider runs; Unsupported if it has no such tool, and there is no fallback.
    """
    tools: list[Tool | Opaque] = []
    if not request.tools:
        return tools
    for tool in resolve_tools(request, notices, hosted, target):
        if isinstance(tool, Opaque) and tool.wire != notices.wire:
            notices.add("dropped", f"tool {_opaque_name(tool)}", f"only targets of the wire {tool.wire} have it")
            continue
        if isinstance(tool, Tool) and tool.extra:
            _note_changes(tool, notices)
        tools.append(tool)
    return tools


def strict_if_supported(tools: list[Tool | Opaque], target: Target, notices: NoticeCollector, /) -> list[Tool | Opaque]:
    """The tools, without `strict` if the target does not support it."""
    if target.quirks.strict or not any(isinstance(tool, Tool) and tool.strict for tool in tools):
        return tools
    notices.add("dropped", "strict", "not supported")
    return [replace(tool, strict=None) if isinstance(tool, Tool) else tool for tool in tools]


def object_schema(tool: Tool, notices: NoticeCollector, /) -> JsonObject:
    """The schema of a tool, for a wire that requires the type object."""
    schema = NO_ARGUMENTS if tool.parameters is None else tool.parameters
    if (kind := schema.get("type")) == "object":
        return schema
    why = "the schema of a tool must be an object"
    notices.add("changed" if kind else "repaired", f"tool {tool.name}: type", why)
    return {**schema, "type": "object"}


def _opaque_name(tool: Opaque) -> str:
    """What the definition of a tool calls it: a name, a type, or its only member."""
    data = tool.data
    inner = [value.get("name") for value in data.values() if is_object(value)]
    names = (data.get("name"), *inner, data.get("type"), *data)
    return next((name for name in names if isinstance(name, str) and name), "without a name")[:_MAX_TOOL_NAME]


def _note_changes(tool: Tool, notices: NoticeCollector) -> None:
    """Note what is lost of a tool of another wire that is sent as a function."""
    for name, data in tool.extra.items():
        if name != notices.wire + VERBATIM and is_object(data) and isinstance(why := data.get(CHANGED), str):
            notices.add("changed", f"tool {tool.name}", why)


def tool_choice(
    request: Request, target: Target, tools: list[Tool | Opaque], notices: NoticeCollector, /
) -> str | None:
    """The request's `tool_choice`; None without tools, "auto" if the target cannot force a call.

    The name of an opaque tool is unknown, so the choice may name one.

    >>> from dragoman.targets.providers import target
    >>> tool_choice(Request(tool_choice="required"), target("openai/x"), [], NoticeCollector("w")) is None
    True
    """
    choice = request.tool_choice
    if choice in (None, "auto", "none"):
        return choice
    if not tools:
        notices.add("dropped", "tool_choice", "there are no tools")
        return None
    if choice != "required" and not any(isinstance(tool, Opaque) or tool.name == choice for tool in tools):
        if len(tools) == len(request.tools):
            raise _unknown_tool(choice, tools)
        notices.add("dropped", "tool_choice", "names a tool that only another wire has")
        return None
    if not can_force_call(request, target):
        notices.add("changed", "tool_choice", f"{choice!r} became 'auto': calls cannot be forced")
        return "auto"
    return choice


def can_force_call(request: Request, target: Target, /) -> bool:
    """Whether the target can be forced to call a tool. Some models cannot while they think.

    >>> from dragoman.targets.providers import target
    >>> can_force_call(Request(), target("openai/x")), can_force_call(Request(), target("deepseek/x"))
    (True, False)
    """
    capabilities, quirks = target.capabilities, target.quirks
    if quirks.forced_choice_with_thinking:
        return capabilities.forced_choice
    if request.reasoning in ("none", 0):
        return capabilities.forced_choice or "none" in (quirks.efforts or ())
    return capabilities.forced_choice and (request.reasoning is None or not capabilities.thinking)


def only_tool(name: str, tools: list[Tool | Opaque], notices: NoticeCollector, /) -> list[Tool | Opaque]:
    """The one tool of that name, for targets whose `tool_choice` cannot name a tool.

    >>> only_tool("now", [Tool(name="now"), Tool(name="tide")], NoticeCollector("w"))[0].name
    'now'
    """
    named: list[Tool | Opaque] = [tool for tool in tools if isinstance(tool, Tool) and tool.name == name]
    if not named:
        raise _unknown_tool(name, tools)
    notices.add("changed", "tool_choice", "cannot name a tool; sent only that tool")
    return named


def _unknown_tool(name: str, tools: list[Tool | Opaque]) -> InvalidRequest:
    names = ", ".join(tool.name for tool in tools if isinstance(tool, Tool)) or "there are none"
    message = f"tool_choice must be 'auto', 'none', 'required' or a tool ({names}), got {name!r}"
    return InvalidRequest(message, param="tool_choice")


def tools_and_choice(
    request: Request,
    target: Target,
    notices: NoticeCollector,
    named: Callable[[str], JsonObject],
    hosted: HostedEncoder | None = None,
    /,
) -> tuple[list[Tool | Opaque], str | JsonObject | None]:
    """The tools and the `tool_choice` of OpenAI's protocols; `named` encodes the choice of one tool."""
    tools = supported_tools(request, notices, hosted, target)
    choice = tool_choice(request, target, tools, notices)
    if choice in (None, "auto", "none"):
        return tools, choice
    if choice == "required":
        return tools, target.quirks.required_choice
    if target.quirks.named_choice:
        return tools, named(choice)
    return only_tool(choice, tools, notices), target.quirks.required_choice


def parallel_tool_calls(request: Request, target: Target, notices: NoticeCollector, /) -> bool | None:
    """The request's `parallel_tool_calls`, if the target has the option.

    >>> from dragoman.targets.providers import target
    >>> parallel_tool_calls(Request(parallel_tool_calls=False), target("openai/x"), NoticeCollector("w"))
    False
    """
    if request.parallel_tool_calls is not None and not target.quirks.parallel_tool_calls:
        notices.add("dropped", "parallel_tool_calls", "not supported")
        return None
    return request.parallel_tool_calls


# Schemas --------------------------------------------------------------------------------------------------------------


def schema_name(request: Request, notices: NoticeCollector, /) -> str:
    """The name of the schema, with _ in place of characters that providers refuse.

    >>> schema_name(Request(schema_name="a b"), NoticeCollector("w"))
    'a_b'
    """
    name = re.sub(r"[^A-Za-z0-9_-]", "_", request.schema_name)[:64] or "response"
    if name != request.schema_name:
        notices.add("renamed", "schema_name", f"became {name}: only letters, digits, _ and - are allowed")
    return name


def schema_strict(request: Request, schema: JsonObject, target: Target, notices: NoticeCollector, /) -> bool | None:
    """The request's `schema_strict`; None if the target or the schema does not support it."""
    strict = request.schema_strict
    if target.quirks.strict and (not strict or is_strict(schema)):
        return strict
    if strict:
        notices.add("dropped", "schema_strict", why_not_strict(target))
    return None


def why_not_strict(target: Target, /) -> str:
    """The reason of a notice that a strict flag was dropped."""
    return "the schema does not satisfy the rules of strict mode" if target.quirks.strict else "not supported"


# Reasoning ------------------------------------------------------------------------------------------------------------


def requested_reasoning(request: Request, target: Target, notices: NoticeCollector, /) -> Effort | int | None:
    """The request's `reasoning`, if the target supports it; None leaves it to the model.

    >>> from dragoman.targets.target import Capabilities
    >>> plain = Capabilities(thinking=False)
    >>> target = Target(provider="p", model="m", wire="w", base_url="https://x", capabilities=plain)
    >>> requested_reasoning(Request(reasoning="high"), target, NoticeCollector("w")) is None
    True
    """
    reasoning = request.reasoning
    is_on = reasoning not in (None, "none", 0)
    if not target.capabilities.thinking:
        if is_on:
            notices.add("dropped", "reasoning", "the model does not support it")
        return None
    if request.tools and not target.quirks.reasoning_with_tools:
        if is_on:
            notices.add("changed", "reasoning", "turned off: the model does not support it together with tools")
        return "none"
    return reasoning


def to_effort(reasoning: Effort | int, target: Target, notices: NoticeCollector, /) -> Effort:
    """The effort that the target supports and that is nearest to the request's.

    >>> target = Target(provider="p", model="m", wire="w", base_url="https://x")
    >>> to_effort(9000, target, NoticeCollector("w"))
    'medium'
    """
    effort = reasoning if isinstance(reasoning, str) else _nearest_effort(reasoning)
    allowed = target.quirks.efforts
    if allowed and effort not in allowed:
        rank = EFFORTS.index(effort)
        effort = min(allowed, key=lambda other: (abs(EFFORTS.index(other) - rank), other == "none"))
    if not isinstance(reasoning, str):
        notices.add("changed", "reasoning", f"{reasoning} tokens became {effort!r}: a number is not supported")
    elif effort != reasoning:
        notices.add("changed", "reasoning", f"{reasoning!r} became {effort!r}: not supported")
    return effort


def to_budget(reasoning: Effort | int, /) -> int:
    """The number of tokens for an effort; a number stays.

    >>> to_budget("low"), to_budget(500)
    (2048, 500)
    """
    return BUDGETS[reasoning] if isinstance(reasoning, str) else reasoning


def _nearest_effort(tokens: int) -> Effort:
    """Any number above 0 is more than "none"."""
    return min(EFFORTS[1:], key=lambda effort: abs(BUDGETS[effort] - tokens)) if tokens > 0 else "none"


def encode_stop(request: Request, notices: NoticeCollector, most: int, /) -> list[str] | None:
    """The stop sequences, as many as the target takes; None if there are none.

    >>> encode_stop(Request(stop=["a", "b"]), NoticeCollector("t"), 1)
    ['a']
    """
    if len(request.stop) > most:
        notices.add("dropped", "stop", f"at most {most} stop sequences are supported; the others are left out")
    return list(request.stop[:most]) or None


def encode_seed(request: Request, notices: NoticeCollector, /) -> int | None:
    """The seed for a target whose seeds have 32 bits.

    >>> encode_seed(Request(seed=2**31 + 7), NoticeCollector("t"))
    7
    """
    if request.seed is None or -MAX_SEED <= request.seed < MAX_SEED:
        return request.seed
    notices.add("changed", "seed", "it must fit into 32 bits; the lower bits are sent")
    return request.seed % MAX_SEED


def finish_word(finish: Finish, meanings: Mapping[str, FinishReason], words: Mapping[FinishReason, str], /) -> str:
    """The dialect's word for a finish reason: the provider's raw word if the dialect has it with the same meaning.

    >>> finish_word(Finish(reason="stop", raw="eos"), {"eos": "stop"}, {"stop": "stop"})
    'eos'
    """
    raw = finish.raw
    return raw if raw and meanings.get(raw) == finish.reason else words[finish.reason]
