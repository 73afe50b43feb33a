"""The conversation objects of the Responses API: lists of items, stored by owner and id.

Requests of one conversation may run at the same time, so every write is a compare-and-swap of the whole list.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from secrets import token_hex

import msgspec
from msgspec.structs import replace

from dragoman.errors import InvalidRequest, StoreDown
from dragoman.gateway.errors import NotStored
from dragoman.gateway.store import Store
from dragoman.gateway.stored_values import DAY, MAX_SWAPS, read_value, store_key
from dragoman.types import JsonObject
from dragoman.types.json_size import find_excess
from dragoman.wires.common.server_endpoints import ItemListQuery, StoredItems

MAX_ITEMS = 10_000
"""Items of one list."""
MAX_BYTES = 32 * 1024 * 1024
MAX_OBJECTS = 20_000
TTL = 30 * DAY
_MAX_DEPTH = 1000
_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}
_decode = msgspec.json.Decoder(StoredItems).decode


class ItemListStore:
    """The lists in a store. Each expires thirty days after its last change."""

    def __init__(self, store: Store, /, *, max_bytes: int = MAX_BYTES, max_objects: int = MAX_OBJECTS) -> None:
        """`max_bytes`, `max_objects`: of one list, as of one request that has all its items."""
        self._store = store
        self._max_bytes = max_bytes
        self._max_objects = max_objects

    async def load(self, owner: str | None, id: str, /) -> StoredItems:
        """A list; NotStored if the owner has none with this id."""
        stored = await read_value(self._store, store_key("items", owner, id), _decode)
        if stored is None:
            raise NotStored(f"no conversation {id[:200]!r}")
        return stored

    async def append(self, owner: str | None, id: str, items: Sequence[JsonObject], /) -> StoredItems:
        """Add items to the end of a list."""
        new = [_with_id(item) for item in items]
        return await self._change(owner, id, lambda stored: replace(stored, items=_bounded([*stored.items, *new])))

    async def run(self, owner: str | None, query: ItemListQuery, /) -> StoredItems:
        """Do what a client asks for; the result is the list after it."""
        match query.action:
            case "create":
                return await self._create(owner, query)
            case "update":
                metadata = query.metadata or {}
                return await self._change(owner, query.id, lambda stored: replace(stored, metadata=metadata))
            case "add":
                return await self.append(owner, query.id, query.items)
            case "drop":
                stored = await self.load(owner, query.id)
                await self._store.delete(store_key("items", owner, query.id))
                return stored
            case "remove":
                return await self._change(owner, query.id, lambda stored: _without(stored, query.item))
            case "fetch":
                stored = await self.load(owner, query.id)
                if query.item:
                    _without(stored, query.item)
                return stored

    async def _create(self, owner: str | None, query: ItemListQuery) -> StoredItems:
        items = [_with_id(item) for item in query.items]
        id = f"conv_{token_hex(24)}"
        stored = StoredItems(id=id, created=int(time.time()), metadata=query.metadata or {}, items=items)
        await self._store.write(store_key("items", owner, id), msgspec.json.encode(stored), ttl=TTL)
        return stored

    async def _change(self, owner: str | None, id: str, change: Callable[[StoredItems], StoredItems]) -> StoredItems:
        key = store_key("items", owner, id)
        for _ in range(MAX_SWAPS):
            entry = await self._store.read(key)
            if entry is None:
                raise NotStored(f"no conversation {id[:200]!r}")
            stored = change(_decode(entry.value))
            data = msgspec.json.encode(stored)
            if len(data) > len(entry.value):
                await self._check_size(data)
            if await self._store.write(key, data, ttl=TTL, expects=entry.version):
                return stored
        raise StoreDown(f"conversation: not written, {MAX_SWAPS} other requests wrote first", retry_after=1.0)

    async def _check_size(self, data: bytes) -> None:
        """Every request of the conversation reads the whole list, so it must not take longer than one request may."""
        excess = None
        if len(data) > self._max_bytes:
            excess = f"has more than {self._max_bytes} bytes"
        elif data.count(b"{") + data.count(b"[") > self._max_objects:  # some may be in texts
            excess = await asyncio.to_thread(find_excess, data, depth=_MAX_DEPTH, objects=self._max_objects)
        if excess is not None:
            raise InvalidRequest(f"the conversation {excess}; delete some of its items, or start another one")


def _with_id(item: JsonObject) -> JsonObject:
    kind = str(item.get("type") or "message")
    return item if isinstance(item.get("id"), str) else {"id": f"{_PREFIXES.get(kind, 'item')}_{token_hex(24)}", **item}


def _bounded(items: list[JsonObject]) -> list[JsonObject]:
    if len(items) > MAX_ITEMS:
        raise InvalidRequest(f"a conversation must have at most {MAX_ITEMS} items; start another one", param="items")
    return items


def _without(stored: StoredItems, item: str) -> StoredItems:
    left = [each for each in stored.items if each.get("id") != item]
    if len(left) == len(stored.items):
        raise NotStored(f"no item {item[:200]!r} in this conversation")
    return replace(stored, items=left)
