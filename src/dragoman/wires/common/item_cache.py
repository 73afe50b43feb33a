"""Messages and tools of clients that were decoded before.

A client sends its whole conversation with every turn: of 200 messages and 60 tools, one message is new. Python decodes
a message in 10 to 20 µs, which for a long conversation is most of the work of a request. `ItemCache` has the decoded
values by the bytes of their JSON, so that an old message costs a look-up. A request that may use one is a
`CachedRequest`: `read_body` leaves the lists of its body as JSON, and `decode_items` decodes them item by item.

A value depends on nothing but the bytes of its item, and a look-up compares all of them, so it does not matter who sent
the item first. What fails to decode is not stored. All requests share the values, so nobody may change the dicts in
them. The memory is bounded, and what was not used for a while goes first. The size of the JSON says little about it:
the value of `[[],[],...]` takes 20 times as much. So the value itself is measured, once, if it is new.
"""

from collections.abc import Callable, Iterable, Sequence
from gc import get_referents
from sys import getsizeof
from typing import Any, TypeAlias, TypeVar

import msgspec

from dragoman.errors import DragomanError
from dragoman.http import HttpRequest
from dragoman.types import JsonObject
from dragoman.wires.common.json import DECODE_ERRORS

T = TypeVar("T")
_Decode: TypeAlias = Callable[[JsonObject, str], T]
_Table: TypeAlias = dict[_Decode[Any], dict[bytes, Any]]

MIN_CACHED_BODY = 4 * 1024
"""Bytes of a body whose items are worth a look-up."""
MAX_ITEM = 128 * 1024
"""Bytes of an item that is stored. A larger one is often an image, and takes little more time than its JSON."""
MAX_VALUE = 1024 * 1024
"""Bytes of memory of a value that is stored; MAX_ITEM bytes of text take less. Measuring a value ends there, too."""
MAX_MEMORY = 40 * 1024 * 1024
"""Bytes of memory of all that is stored. Rounded up as Python's allocator does, they are up to a quarter more."""
_ITEM_COST = 192
"""Bytes that an item costs besides its JSON and its value."""
_KEY_COST = 64
"""Bytes of a key of a dict, which `measure` does not see."""
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_ITEM = msgspec.json.Decoder(dict[str, Any])
_VALUE = msgspec.json.Decoder()


class ItemCache:
    """Decoded items by their JSON. There are two generations: if the recent one is full, it replaces the older one.

    Threads may share it. If two of them add an item at the same time, `memory` is a little wrong.
    """

    def __init__(self, max_memory: int = MAX_MEMORY) -> None:
        self._room = max_memory // 2
        self.memory = 0
        """Bytes of the recent items, about."""
        self._recent: _Table = {}
        self._older: _Table = {}

    def decode(self, items: Iterable[msgspec.Raw], decode: _Decode[T], where: str, /) -> list[T]:
        """The values of some items."""
        recent: dict[bytes, T] = self._recent.get(decode, {})
        values: list[T] = []
        for i, raw in enumerate(items):
            if len(raw) > MAX_ITEM:
                values.append(decode(_ITEM.decode(raw), f"{where}[{i}]"))
                continue
            data = bytes(raw)
            value = recent.get(data)
            if value is None:
                value = self._older.get(decode, {}).get(data)
                if value is None:
                    value = decode(_ITEM.decode(data), f"{where}[{i}]")
                recent = self._add(decode, data, value)
            values.append(value)
        return values

    def _add(self, decode: _Decode[T], data: bytes, value: T) -> dict[bytes, T]:
        """Add a value to the recent ones, if it is not too large; those of the same function."""
        size = measure(value)
        if size <= MAX_VALUE:
            # The JSON counts twice: Python stores a text that is not ASCII as UTF-8, too, when it is sent.
            size += 2 * len(data) + _KEY_COST * data.count(b":") + _ITEM_COST
            if self.memory + size > self._room:
                self._older, self._recent, self.memory = self._recent, {}, 0
            self._recent.setdefault(decode, {})[data] = value
            self.memory += size
        return self._recent.get(decode, {})


def measure(value: object, /) -> int:
    """The bytes of a value and of all that is in it but the keys of dicts; the count ends above `MAX_VALUE`.

    >>> measure([]) < measure([""]) < measure(["", ""])
    True
    """
    size = 0
    level: list[Any] = [value]
    while level and size <= MAX_VALUE:
        size += sum(map(getsizeof, level))
        level = [each for each in get_referents(*level) if not isinstance(each, type)]
    return size


class RawItems(list[Any]):
    """The items of a list as JSON, in the place of the decoded ones."""

    def __init__(self, items: list[msgspec.Raw], cache: ItemCache) -> None:
        super().__init__(items)
        self.cache = cache


class CachedRequest(HttpRequest, frozen=True, kw_only=True):
    """A request of a client whose items may have been decoded before."""

    cache: ItemCache

    def split(self, lists: Sequence[str]) -> tuple[JsonObject, dict[str, RawItems]]:
        """The members of the body without some lists, and these lists."""
        members = _MEMBERS.decode(self.body)
        raw = {name: members.pop(name) for name in lists if bytes(memoryview(members.get(name, b""))[:1]) == b"["}
        others = {name: _VALUE.decode(value) for name, value in members.items()}
        return others, {name: RawItems(_ITEMS.decode(value), self.cache) for name, value in raw.items()}


def decode_with_cache(decode: Callable[[HttpRequest], T], cache: ItemCache, http: HttpRequest, /) -> T:
    """Decode a request of a client, with the items that were decoded before.

    If that fails, the request is decoded without them: then an error is the same, and says the same.
    """
    fields = {name: getattr(http, name) for name in http.__struct_fields__}
    try:
        return decode(CachedRequest(**fields, cache=cache))
    except (DragomanError, *DECODE_ERRORS):
        return decode(http)


def plain_items(items: list[JsonObject], /) -> list[JsonObject]:
    """The items of a list as JSON objects.

    >>> plain_items([{"n": 1}])
    [{'n': 1}]
    """
    return [_ITEM.decode(raw) for raw in items] if isinstance(items, RawItems) else items
