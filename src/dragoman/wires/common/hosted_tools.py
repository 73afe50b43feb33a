"""Tools that the provider runs, between the protocols: definitions of requests, calls and results of answers.

A wire has a function that encodes a `HostedTool` as its own definition. A client's definition is in the `extra` of the
tool, so that the same wire gets it unchanged. So is the provider's block in the `extra` of a call or a result.
"""

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeAlias, TypeVar

from msgspec import structs

from dragoman.errors import Unsupported
from dragoman.targets.target import Target
from dragoman.types import (
    HostedCall,
    HostedResult,
    HostedTool,
    JsonObject,
    Location,
    Opaque,
    Part,
    Request,
    Text,
    Tool,
    is_list,
    is_object,
)
from dragoman.types.arguments import parse_arguments
from dragoman.types.hosted_tools import kind_of_tool
from dragoman.wires.common.caching import CACHE_MARKS
from dragoman.wires.common.citations import text_or_none
from dragoman.wires.common.extra import VERBATIM, wire_extra
from dragoman.wires.common.json import object_of, without_none
from dragoman.wires.common.notices import NoticeCollector

HostedEncoder: TypeAlias = Callable[[HostedTool, NoticeCollector], JsonObject | None]
"""The definition of a tool; {} if it stands elsewhere in the request, None if the wire does not have the tool."""
H = TypeVar("H", bound=HostedTool)
_UNSUPPORTED = "unsupported"
"""A member of the verbatim data of a tool: the names of its members that no other wire has."""
_WITHOUT_EFFECT = CACHE_MARKS | {"type", "name", "defer_loading"}
"""Members of a definition that say nothing about what the tool does."""
_EMPTY: tuple[Any, ...] = (None, "", "auto", [], {})
"""Values that are the default of every member, so that dropping them changes nothing."""
_DEFAULTS: JsonObject = {
    "allowed_callers": ["direct"],
    "container": {"type": "auto"},
    "external_web_access": True,
    "input_fidelity": "low",
    "n": 1,
    "output_compression": 100,
    "partial_images": 0,
    "ranker": "auto",
    "return_token_budget": "default",
    "score_threshold": 0,
    "search_content_types": ["text"],
    "search_types": ["web_search"],
    "use_cache": True,
}
"""The defaults of single members; dropping them changes nothing, either."""
_OWN_ID = "hosted_dragoman_"
_PART_NAMES = {HostedCall: "hosted call", HostedResult: "hosted result"}
_NAMES = {"mcp": "MCP servers", "image_generation": "image generation"}


# Definitions ----------------------------------------------------------------------------------------------------------


def resolve_tools(
    request: Request, notices: NoticeCollector, encode: HostedEncoder | None, target: Target | None, /
) -> Iterable[Tool | Opaque]:
    """The tools of a request; those that the provider runs in the form of the wire, or their fallback."""
    for tool in request.tools:
        if isinstance(tool, Tool | Opaque):
            yield tool
        elif (definition := encode_hosted(tool, notices, encode, target)) is not None:
            if definition:
                yield Opaque(wire=notices.wire, data=definition)
        else:
            yield _fallback(tool, notices, target)


def encode_hosted(
    tool: HostedTool, notices: NoticeCollector, encode: HostedEncoder | None, target: Target | None, /
) -> JsonObject | None:
    """The definition of a tool for a target; None if the target does not have the tool."""
    allowed = None if target is None else target.capabilities.hosted_tools
    if allowed is not None and kind_of_tool(tool) not in allowed:
        return None
    own = wire_extra(tool.extra, notices.wire + VERBATIM).get("tool")
    if is_object(own):
        return own
    definition = None if encode is None else encode(tool, notices)
    if definition is not None and tool.extra:
        _note_unsupported(tool, notices)
    return {**definition, **wire_extra(tool.extra, notices.wire)} if definition else definition


def hosted_tools_of(request: Request, kind: type[H], target: Target, /) -> list[H]:
    """The tools of one type that the target runs, for wires where they stand outside of the list of tools."""
    allowed = target.capabilities.hosted_tools
    tools = [tool for tool in request.tools if isinstance(tool, kind)]
    return [tool for tool in tools if allowed is None or kind_of_tool(tool) in allowed]


def _fallback(tool: HostedTool, notices: NoticeCollector, target: Target | None) -> Tool:
    kind = kind_of_tool(tool)
    if tool.fallback is None or (target is not None and not target.capabilities.tools):
        who = notices.wire if target is None else target.name
        name = _NAMES.get(kind, kind.replace("_", " "))
        hint = f"use another target, or {type(tool).__name__}(fallback=...) with a tool of yours"
        raise Unsupported(f"{who}: does not have {name}; {hint}", param="tools")
    from dragoman.tools.decorator import tool_of

    function = tool_of(tool.fallback)
    notices.add("info", f"tool {kind}", f"not supported; the tool {function.name} stands in for it")
    return function


def note_options(tool: HostedTool, known: Collection[str], notices: NoticeCollector, /) -> None:
    """Add a notice for each option of a tool that the wire does not have."""
    for name in tool.__struct_fields__:
        if name not in known and name not in ("fallback", "extra") and getattr(tool, name):
            notices.add("dropped", f"{kind_of_tool(tool)}: {name}", "not supported")


def _note_unsupported(tool: HostedTool, notices: NoticeCollector) -> None:
    """Add a notice for each member of a tool that a client wrote in the form of another wire, and this one lacks."""
    for name, data in tool.extra.items():
        for member in data.get(_UNSUPPORTED, ()) if name.endswith(VERBATIM) and is_object(data) else ():
            notices.add("dropped", f"{kind_of_tool(tool)}: {member}", "not supported")


def mark_unsupported(tool: H, wire: str, definition: JsonObject, encoded: JsonObject | None, /) -> H:
    """A client's tool that records which members of its definition no other wire has: those that `encoded` lacks."""
    names = [*_unsupported_members(definition, encoded or {})]
    own = tool.extra[wire + VERBATIM]
    return structs.replace(tool, extra={wire + VERBATIM: {**own, _UNSUPPORTED: names}}) if names else tool


def _unsupported_members(definition: JsonObject, encoded: JsonObject) -> Iterable[str]:
    for name, value in definition.items():
        other = encoded.get(name)
        if name in _WITHOUT_EFFECT or value == other or _is_default(name, value):
            continue
        if is_object(value) and is_object(other):
            yield from _unsupported_members(value, other)
        else:
            yield name


def _is_default(name: str, value: object) -> bool:
    """Whether a member has its default, or is an object whose members all have theirs."""
    if value in _EMPTY or (name in _DEFAULTS and value == _DEFAULTS[name]):
        return True
    return is_object(value) and all(not inner or inner == _DEFAULTS.get(key) for key, inner in value.items())


def covered_tool(wire: str, data: JsonObject, /) -> dict[str, Any]:
    """The `extra` of a tool that a client defined in the form of a wire.

    >>> covered_tool("w", {"type": "web_search"})
    {'w.verbatim': {'tool': {'type': 'web_search'}}}
    """
    return {wire + VERBATIM: {"tool": data}}


def texts_of(value: object, /) -> tuple[str, ...]:
    """The texts of a list; empty if it is something else.

    >>> texts_of(["a", 1]), texts_of(None)
    (('a',), ())
    """
    return tuple(item for item in value if isinstance(item, str)) if is_list(value) else ()


def count_of(value: object, /) -> int | None:
    """The value if it is a count from 1.

    >>> count_of(3), count_of(0), count_of("3")
    (3, None, None)
    """
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None


def location_fields(place: Location, /) -> JsonObject:
    """The members of a location that are known.

    >>> location_fields(Location(city="Brest", country="FR"))
    {'city': 'Brest', 'country': 'FR'}
    """
    return without_none({name: getattr(place, name) for name in Location.__struct_fields__})


def read_location(data: object, /) -> Location | None:
    """The inverse of `location_fields`; None if nothing is known."""
    place = object_of(data)
    known = {name: text for name in Location.__struct_fields__ if (text := text_or_none(place.get(name)))}
    return Location(**known) if known else None


# Calls and results ----------------------------------------------------------------------------------------------------


def own_id(id: str, /) -> str:
    """The id of a call of another wire, marked, so that it is known when a client sends it back.

    >>> own_id("ws 1"), own_id("hosted_dragoman_a")
    ('hosted_dragoman_ws_1', 'hosted_dragoman_a')
    """
    return id if is_own_id(id) else _OWN_ID + re.sub(r"[^A-Za-z0-9_-]", "_", id)


def is_own_id(id: object, /) -> bool:
    """Whether `own_id` made an id: its provider does not know the block."""
    return isinstance(id, str) and id.startswith(_OWN_ID)


def block_extra(wire: str, data: JsonObject, id: object, /) -> dict[str, Any]:
    """The `extra` of a call or result in the form of a wire; empty if the gateway wrote it for another provider.

    >>> block_extra("w", {"id": "1"}, "1"), block_extra("w", {"id": "1"}, "hosted_dragoman_1")
    ({'w': {'id': '1'}}, {})
    """
    return {} if is_own_id(id) else {wire: data}


def own_block(part: HostedCall | HostedResult, wire: str, /) -> JsonObject | None:
    """The block of the provider for its own wire: {} if another part has all of it, None for other wires."""
    data = part.extra.get(wire)
    return data if is_object(data) else None


def hosted_to_wire(part: HostedCall | HostedResult, notices: NoticeCollector, /) -> list[Part]:
    """A call or result in the history: its own block, or a text for other wires."""
    block = own_block(part, notices.wire)
    if block is not None:
        return [Opaque(wire=notices.wire, data=block)] if block else []
    notices.add("changed", f"{_PART_NAMES[type(part)]} {part.tool}", "sent as text")
    return [Text(text=_as_text(part))]


def _as_text(part: HostedCall | HostedResult) -> str:
    if isinstance(part, HostedCall):
        return f"[{part.text}]"
    word = "Error" if part.is_error else "Result"
    return f"[{word} of {part.tool}:\n{part.text or '(empty)'}]"


def arguments_of(value: object, /) -> JsonObject:
    """The arguments of a call: an object, or the text of one.

    >>> arguments_of('{"a": 1}'), arguments_of("a")
    ({'a': 1}, {'input': 'a'})
    """
    if is_object(value):
        return value
    if not isinstance(value, str):
        return {}
    parsed = parse_arguments(value)
    return {"input": value} if parsed is None else parsed


def query_of(call: HostedCall, /) -> str:
    """What was searched.

    >>> query_of(HostedCall(id="1", tool="web_search", arguments={"queries": ["a", "b"]}))
    'a'
    """
    return next(iter(queries_of(call)), "")


def queries_of(call: HostedCall, /) -> list[str]:
    """All that was searched."""
    queries = call.arguments.get("queries")
    texts = [*texts_of(queries)]
    query = call.arguments.get("query")
    return texts or ([query] if isinstance(query, str) else [])
