"""Lists of ids in a store: what an owner has stored, the newest first.

Requests of one owner may run at the same time, so every change is a compare-and-swap of the whole list.
"""

from collections.abc import Callable

import msgspec

from dragoman.errors import StoreDown
from dragoman.gateway.conversations import MAX_SWAPS, store_key
from dragoman.gateway.store import Store

_decode = msgspec.json.Decoder(list[str]).decode


class IdList:
    """One list of ids per owner. It has at most `limit` ids: a new one pushes the oldest out."""

    def __init__(self, store: Store, kind: str, /, *, limit: int, ttl: float) -> None:
        self._store = store
        self._kind = kind
        self._limit = limit
        self._ttl = ttl

    async def read(self, owner: str | None, /) -> list[str]:
        """The ids of an owner, the newest first."""
        entry = await self._store.read(store_key(self._kind, owner, ""))
        return [] if entry is None else _decode(entry.value)

    async def add(self, owner: str | None, id: str, /) -> list[str]:
        """Add an id. Returns the ids that it pushed out."""
        before = await self._change(owner, lambda ids: [id, *ids][: self._limit])
        return before[self._limit - 1 :]

    async def remove(self, owner: str | None, id: str, /) -> None:
        await self._change(owner, lambda ids: [each for each in ids if each != id])

    async def _change(self, owner: str | None, change: Callable[[list[str]], list[str]]) -> list[str]:
        """Change the list. Returns what it was before."""
        key = store_key(self._kind, owner, "")
        for _ in range(MAX_SWAPS):
            entry = await self._store.read(key)
            ids = [] if entry is None else _decode(entry.value)
            version = None if entry is None else entry.version
            if await self._store.write(key, msgspec.json.encode(change(ids)), ttl=self._ttl, expects=version):
                return ids
        raise StoreDown(f"{self._kind}: not written, {MAX_SWAPS} other requests wrote first", retry_after=1.0)
