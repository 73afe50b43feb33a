"""A Request and its Target in, the bytes of a generateContent call out, with notices of what was bent on the way."""

import re
from collections.abc import Iterable
from urllib.parse import quote

from dragoman.http import HttpRequest
from dragoman.schema.adapt import adapt
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Opaque, Request, Tool, is_object
from dragoman.wires.common.extra import body_extra
from dragoman.wires.common.history import check_prompt
from dragoman.wires.common.http import post_request
from dragoman.wires.common.json import without_none
from dragoman.wires.common.json_prompt import json_instruction
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import (
    OptionField,
    encode_options,
    max_tokens,
    requested_reasoning,
    supported_tools,
    to_budget,
    to_effort,
    tool_choice,
)
from dragoman.wires.google.messages import encode_turns
from dragoman.wires.google.parts import encode_tool
from dragoman.wires.google.schema import (
    ALT,
    LEVELS,
    MAX_BUDGET,
    MAX_SEED,
    MAX_STOPS,
    MODES,
    NAME,
    OPTIONS,
    SAME_CONCEPT,
    SCHEMA_DIALECT,
    camel,
)

_RESOURCE = "(models|tunedModels|endpoints|publishers|projects)/"


def encode_request(request: Request, target: Target) -> HttpRequest:
    """The exact bytes for this target."""
    notes = NoticeCollector(NAME, strict=request.strict)
    extra = camel(body_extra(request, target, notes))
    theirs = _section(extra, "generationConfig")
    system, contents = encode_turns(request, target, notes)
    check_prompt(request, contents, target)
    tools = supported_tools(request, notes)
    config: JsonObject = {}
    for encode in (_options, _reasoning):
        config.update(encode(request, target, notes, theirs))
    if _is_schema_apart(request, target):
        notes.add("changed", "schema", "it takes no schema beside functions, so it is asked for in the system prompt")
        system.append({"text": json_instruction(request.schema)})
    else:
        config.update(_schema(request, notes, theirs))
    body: JsonObject = {
        "systemInstruction": {"parts": system} if system else None,
        "contents": contents,
        "tools": encode_tools(tools, notes) or None,
        "toolConfig": _choice(request, target, notes, _section(extra, "toolConfig")) or None,
        "generationConfig": {**_giving_way(config, theirs), **theirs} or None,
    }
    return post_request(target, _path(request, target), {**without_none(body), **extra}, notes)


def _path(request: Request, target: Target) -> str:
    """The model is in the path: under `models/`, unless its name says where it is."""
    model = target.model
    place = f"/{quote(model)}" if re.match(_RESOURCE, model) else f"/models/{quote(model, safe='')}"
    if not request.stream:
        return f"{place}:generateContent"
    return f"{place}:streamGenerateContent" + ("" if request.extra.get(ALT) == "json" else "?alt=sse")


def _section(extra: JsonObject, name: str) -> JsonObject:
    """An object that the caller wants merged into ours, taken out of `extra`."""
    section = extra.pop(name, None)
    return camel(section) if is_object(section) else {}


def _giving_way(ours: JsonObject, theirs: JsonObject) -> JsonObject:
    return {field: value for field, value in ours.items() if not theirs.keys() & set(SAME_CONCEPT.get(field, ()))}


def encode_tools(tools: Iterable[Tool | Opaque], notes: NoticeCollector) -> list[JsonObject]:
    """All functions in one entry, at the place of the first: several entries with functions are refused."""
    entries: list[JsonObject] = []
    functions: list[JsonObject] = []
    for tool in tools:
        if isinstance(tool, Tool):
            if not functions:
                entries.append({"functionDeclarations": functions})
            functions.append(encode_tool(tool, notes))
        else:
            entries.append(tool.data)
    return entries


def _functions(request: Request) -> list[Tool | Opaque]:
    return [tool for tool in request.tools if isinstance(tool, Tool)]


def _choice(request: Request, target: Target, notes: NoticeCollector, theirs: JsonObject) -> JsonObject:
    if request.parallel_tool_calls is False:
        notes.add("dropped", "parallel_tool_calls", "it has no such switch")
    if "functionCallingConfig" in theirs:
        return theirs
    functions = _functions(request)
    choice = tool_choice(request, target, functions, notes)
    if choice is None or not functions:
        return theirs
    named = {} if choice in MODES else {"allowedFunctionNames": [choice]}
    return {"functionCallingConfig": {"mode": MODES.get(choice, "ANY"), **named}, **theirs}


def _options(request: Request, target: Target, notes: NoticeCollector, theirs: JsonObject) -> JsonObject:
    quirks = target.quirks
    told: tuple[OptionField, ...] = (
        ("temperature", request.temperature, "temperature" if quirks.sampling else None),
        ("top_p", request.top_p, "topP" if quirks.sampling else None),
        ("top_k", request.top_k, "topK" if quirks.sampling else None),
        ("max_tokens", max_tokens(request, target, notes), "maxOutputTokens"),
        ("stop", _stops(request, notes), "stopSequences" if quirks.stop else None),
        ("seed", _seed(request, notes), "seed"),
        ("user", request.user, None),
        ("metadata", request.metadata or None, None),
    )
    return encode_options(told, {OPTIONS.get(field, field): value for field, value in theirs.items()}, notes)


def _stops(request: Request, notes: NoticeCollector) -> list[str] | None:
    if len(request.stop) > MAX_STOPS:
        notes.add("dropped", "stop", f"it takes {MAX_STOPS} at most, so the others are left out")
    return list(request.stop[:MAX_STOPS]) or None


def _seed(request: Request, notes: NoticeCollector) -> int | None:
    if request.seed is None or -MAX_SEED <= request.seed < MAX_SEED:
        return request.seed
    notes.add("changed", "seed", "it takes 32 bits, so it got the lower ones")
    return request.seed % MAX_SEED


def _is_schema_apart(request: Request, target: Target) -> bool:
    return request.schema is not None and not target.quirks.schema_with_tools and bool(_functions(request))


def _schema(request: Request, notes: NoticeCollector, theirs: JsonObject) -> JsonObject:
    if request.schema is None:
        return {}
    config: JsonObject = {"responseMimeType": "application/json"}
    if not request.schema or theirs.keys() & {"responseJsonSchema", *SAME_CONCEPT["responseJsonSchema"]}:
        return config
    schema, notices = adapt(request.schema, SCHEMA_DIALECT, where="schema")
    notes.extend(*notices)
    return {**config, "responseJsonSchema": schema}


def _reasoning(request: Request, target: Target, notes: NoticeCollector, theirs: JsonObject) -> JsonObject:
    """A level for targets that take one, else a budget; both are refused."""
    reasoning = None if "thinkingConfig" in theirs else requested_reasoning(request, target, notes)
    if reasoning is None:
        return {}
    if target.quirks.reasoning != "level":
        budget = to_budget(reasoning)
        budget = min(budget, MAX_BUDGET) if isinstance(reasoning, str) else budget
        return {"thinkingConfig": {**({"includeThoughts": True} if budget else {}), "thinkingBudget": budget}}
    effort = to_effort(reasoning, target, notes)
    if effort in ("none", "max"):
        notes.add("changed", "reasoning", f"it does not take {effort!r}, so it got {LEVELS[effort]}")
    shown = {} if reasoning in ("none", 0) else {"includeThoughts": True}
    return {"thinkingConfig": {**shown, "thinkingLevel": LEVELS[effort]}}
