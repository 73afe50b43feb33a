"""`extra`: data that only one wire understands, kept under the name of the wire.

A server half stores the fields of a client's request in two places of `Request.extra`. Fields without an equivalent in
`Request` are under the wire's name: if the request goes to another wire, they are dropped with a notice. Fields whose
meaning is also in `Request` are under the wire's name with the suffix `.verbatim`: they restore the client's exact form
if the request goes to the same wire, and no notice is needed if it does not.
"""

from collections.abc import Mapping
from typing import Any

from dragoman.targets.target import Target
from dragoman.types import JsonObject, Request, is_object
from dragoman.wires.common.notices import NoticeCollector

VERBATIM = ".verbatim"
CHANGED = "changed"
"""A member of the verbatim data of a tool: what is lost if the tool goes to another wire."""
TEXT_BEFORE = "text_before"
"""A member of the verbatim data of a part: a text that other wires send before it."""
MAX_LISTED = 8
"""How many members of a dropped field a notice lists."""


def wire_extra(extra: Mapping[str, Any], wire: str, /) -> JsonObject:
    """The data for one wire.

    >>> wire_extra({"ollama": {"keep_alive": 0}}, "ollama")
    {'keep_alive': 0}
    """
    if not extra:
        return {}
    data = extra.get(wire)
    return data if is_object(data) else {}


def make_extra(wire: str, data: JsonObject, /) -> dict[str, Any]:
    """An `extra` with data for one wire; empty if there is no data.

    >>> make_extra("ollama", {}), make_extra("ollama", {"index": 0})
    ({}, {'ollama': {'index': 0}})
    """
    return {wire: data} if data else {}


def request_extra(wire: str, rest: JsonObject, covered: JsonObject, /) -> dict[str, Any]:
    """The `extra` of a decoded request: `rest` has no equivalent in `Request`, `covered` has one.

    >>> request_extra("w", {"n": 2}, {"top_k": 5})
    {'w': {'n': 2}, 'w.verbatim': {'top_k': 5}}
    """
    return {**make_extra(wire, rest), **make_extra(wire + VERBATIM, covered)}


def full_extra(request: Request, wire: str, /) -> JsonObject:
    """All data for one wire, including the verbatim fields.

    >>> full_extra(Request(extra={"w": {"n": 2}, "w.verbatim": {"top_k": 5}}), "w")
    {'top_k': 5, 'n': 2}
    """
    return {**wire_extra(request.extra, wire + VERBATIM), **wire_extra(request.extra, wire)}


def body_extra(request: Request, target: Target, notices: NoticeCollector, /) -> JsonObject:
    """The fields to merge into the body: those under the wire's name, then those under the provider's.

    >>> target = Target(provider="groq", model="m", wire="openai_chat", base_url="https://x")
    >>> body_extra(Request(extra={"groq": {"a": 1}, "openai_chat": {"b": 2}}), target, NoticeCollector("openai_chat"))
    {'b': 2, 'a': 1}
    """
    if not request.extra:
        return {}
    for name in request.extra:
        if name not in (target.wire, target.provider) and not name.endswith(VERBATIM):
            _note_dropped(request, name, "belongs to another wire", notices)
    provider_fields = wire_extra(request.extra, target.provider)
    if not target.quirks.accepts_unknown_fields:
        _note_dropped(request, target.wire, "not supported", notices)
        return {**wire_extra(request.extra, target.wire + VERBATIM), **provider_fields}
    return {**full_extra(request, target.wire), **provider_fields}


def _note_dropped(request: Request, name: str, why: str, notices: NoticeCollector) -> None:
    for field, value in wire_extra(request.extra, name).items():
        members = ", ".join([*value][:MAX_LISTED]) if is_object(value) else ""
        notices.add("dropped", f"{name}: {field}", f"{why} ({members})" if members else why)
