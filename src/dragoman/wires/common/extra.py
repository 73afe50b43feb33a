"""TODO describe."""

from collections.abc import Mapping
from typing import Any

from dragoman.targets.target import Target
from dragoman.types import (
    JsonObject,
    Request,
    is_object,
)
from dragoman.wires.common.notices import NoticeCollector


def wire_extra(extra: Mapping[str, Any], wire: str, /) -> JsonObject:
    """What `extra` holds for this wire.

    >>> wire_extra({"ollama": {"keep_alive": 0}}, "ollama")
    {'keep_alive': 0}
    """
    data = extra.get(wire) if extra else None
    return data if is_object(data) else {}


MAX_LISTED = 8
"""How many members of a field that is left out are told."""


VERBATIM = ".verbatim"
"""Behind a wire's name in the `extra` of a request: a client's own form of what our words say whole."""


def request_extra(wire: str, rest: JsonObject, covered: JsonObject, /) -> dict[str, Any]:
    """The `extra` of a request that a client sent: what our words do not say, and its own form of what they do.

    >>> request_extra("w", {"n": 2}, {"top_k": 5})
    {'w': {'n': 2}, 'w.verbatim': {'top_k': 5}}
    """
    return {**make_extra(wire, rest), **make_extra(wire + VERBATIM, covered)}


def full_extra(request: Request, wire: str, /) -> JsonObject:
    """All that a request's `extra` holds for this wire.

    >>> full_extra(Request(extra={"w": {"n": 2}, "w.verbatim": {"top_k": 5}}), "w")
    {'top_k': 5, 'n': 2}
    """
    return {**wire_extra(request.extra, wire + VERBATIM), **wire_extra(request.extra, wire)}


def body_extra(request: Request, target: Target, notes: NoticeCollector, /) -> JsonObject:
    """What the caller wants merged verbatim into the body: under the wire's name, then under the provider's.

    >>> target = Target(provider="groq", model="m", wire="openai_chat", base_url="https://x")
    >>> body_extra(Request(extra={"groq": {"a": 1}, "openai_chat": {"b": 2}}), target, NoticeCollector("openai_chat"))
    {'b': 2, 'a': 1}
    """
    if not request.extra:
        return {}
    for name in request.extra:
        if name not in (target.wire, target.provider) and not name.endswith(VERBATIM):
            _drop(request, name, "it belongs to another wire", notes)
    own = wire_extra(request.extra, target.provider)
    if not target.quirks.accepts_unknown_fields:
        _drop(request, target.wire, "it has no such option", notes)
        return {**wire_extra(request.extra, target.wire + VERBATIM), **own}
    return {**full_extra(request, target.wire), **own}


def _drop(request: Request, name: str, why: str, notes: NoticeCollector) -> None:
    """Say which fields are left out, and what stood in them."""
    for field, value in wire_extra(request.extra, name).items():
        inside = ", ".join([*value][:MAX_LISTED]) if is_object(value) else ""
        notes.add("dropped", f"{name}: {field}", f"{why} ({inside})" if inside else why)


def make_extra(wire: str, data: JsonObject, /) -> dict[str, Any]:
    """The `extra` of a value that holds this for one wire; nothing where there is nothing.

    >>> make_extra("ollama", {}), make_extra("ollama", {"index": 0})
    ({}, {'ollama': {'index': 0}})
    """
    return {wire: data} if data else {}
