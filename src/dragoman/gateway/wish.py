"""A request in; what is asked of the gateway itself, and the request without it, out."""

from typing import NamedTuple

from msgspec.structs import replace

from dragoman.types import Request
from dragoman.wires.common.extra import VERBATIM, wire_extra
from dragoman.wires.native.schema import NAME

_PLACE = NAME + VERBATIM


class Wish(NamedTuple):
    """Which conversation a request belongs to, and which class of models is wanted.

    >>> Wish(conversation="c1").tier is None
    True
    """

    conversation: str | None = None
    tier: str | None = None


def split_wish(request: Request, /) -> tuple[Wish, Request]:
    """What is asked of the gateway, and what is asked of a model: no target hears of the former.

    >>> split_wish(Request(extra={"native.verbatim": {"conversation_id": "c1"}}))[0].conversation
    'c1'
    """
    if _PLACE not in request.extra:
        return Wish(), request
    told = wire_extra(request.extra, _PLACE)
    rest = {name: data for name, data in request.extra.items() if name != _PLACE}
    return Wish(told.get("conversation_id"), told.get("tier")), replace(request, extra=rest)
