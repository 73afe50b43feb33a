"""Cache points: where the beginning of a prompt ends that a provider should cache.

A `CachePoint` stands after a part in a list of parts. It is stored as a mark in the `extra` of that part, so that it
stays at its place whatever happens to the message.
"""

import re
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import force_setattr, replace

from dragoman.errors import InvalidRequest
from dragoman.types.base import is_object
from dragoman.types.checks import wrong_value
from dragoman.types.parts import Opaque, Part
from dragoman.types.structs import Value

CACHE = "cache"
"""The name in `extra` under which a part has its mark."""
MAX_TTL = 30 * 86400
_DURATION = re.compile(r"([0-9]{1,9})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class CachePoint(Value, frozen=True, tag="cache_point"):
    """The end of a beginning of the prompt that the provider should cache. It stands after a part.

    `ttl` says how long: a number of seconds, or a text such as "5m" or "1h"; None is `cache_ttl` of the request, or
    else the provider's own time.

    >>> CachePoint(ttl="1h").ttl
    3600
    """

    ttl: int | None = None

    if TYPE_CHECKING:  # the constructor takes more than the field holds

        def __init__(self, ttl: int | str | None = None) -> None: ...

    def __post_init__(self) -> None:
        if self.ttl is not None:
            force_setattr(self, "ttl", read_ttl("ttl", self.ttl))


def read_ttl(parameter: str, value: object, /) -> int:
    """A time in seconds, from a number or a text.

    >>> read_ttl("ttl", "90s"), read_ttl("ttl", 300)
    (90, 300)
    """
    seconds = value
    if isinstance(value, str) and (match := _DURATION.fullmatch(value)) is not None:
        seconds = int(match[1]) * _SECONDS[match[2]]
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not 1 <= seconds <= MAX_TTL:
        raise wrong_value(parameter, 'a number of seconds up to 30 days, or a text such as "5m" or "1h"', value)
    return seconds


P = TypeVar("P", bound=Part)


def mark_part(part: P, point: CachePoint, /) -> P:
    """A part with a cache point after it.

    >>> from dragoman.types import Text
    >>> mark_part(Text("long"), CachePoint(ttl=60)).extra
    {'cache': {'ttl': 60}}
    """
    if isinstance(part, Opaque):
        raise InvalidRequest("CachePoint must follow a part such as Text, got one after an Opaque", param="parts")
    mark = {} if point.ttl is None else {"ttl": point.ttl}
    return replace(part, extra={**part.extra, CACHE: mark})


def mark_of(extra: dict[str, Any], /) -> CachePoint | None:
    """The cache point that a part has in its `extra`."""
    mark = extra.get(CACHE)
    if not is_object(mark):
        return None
    ttl = mark.get("ttl")
    return CachePoint(ttl) if isinstance(ttl, int) and 1 <= ttl <= MAX_TTL else CachePoint()
