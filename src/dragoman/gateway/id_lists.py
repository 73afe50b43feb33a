"""Lists of ids in a store: what an owner has stored, the newest first.

Requests of one owner may run at the same time, so every change is a compare-and-swap of the whole list.
"""

from collections.abc import Callable

import msgspec

from dragoman.gateway.store import Store
from dragoman.gateway.stored_values import change_value, read_value, store_key

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
        return await read_value(self._store, store_key(self._kind, owner, ""), _decode) or []

    async def add(self, owner: str | None, id: str, /) -> list[str]:
        """Add an id. Returns the ids that it pushed out."""
        pushed_out: list[str] = []

        def add(ids: list[str]) -> list[str]:
            pushed_out[:] = ids[self._limit - 1 :]
            return [id, *ids][: self._limit]

        await self._change(owner, add)
        return pushed_out

    async def remove(self, owner: str | None, id: str, /) -> None:
        await self._change(owner, lambda ids: [each for each in ids if each != id])

    async def _change(self, owner: str | None, change: Callable[[list[str]], list[str]]) -> None:
        key = store_key(self._kind, owner, "")
        await change_value(self._store, key, _decode, lambda ids: change(ids or []), name=self._kind, ttl=self._ttl)
