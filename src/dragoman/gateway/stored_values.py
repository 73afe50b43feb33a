"""Values that the gateway stores for its clients: the key of a value, and how to read and change it."""

from collections.abc import Callable
from hashlib import blake2b
from typing import TypeVar

import msgspec

from dragoman.errors import StoreDown
from dragoman.gateway.store import Store

T = TypeVar("T")

DAY = 86_400.0
MAX_SWAPS = 200
"""Tries to write before giving up because others wrote first."""


def store_key(kind: str, owner: str | None, id: str, /) -> str:
    """The key of what an owner stored under an id; no other owner has the same key."""
    # Clients choose ids of any length and with any character; a digest has neither problem.
    return f"{kind}:{blake2b(msgspec.json.encode((owner, id)), digest_size=24).hexdigest()}"


async def read_value(store: Store, key: str, decode: Callable[[bytes], T], /) -> T | None:
    """The value of a key; None if nothing is stored."""
    entry = await store.read(key)
    return None if entry is None else decode(entry.value)


async def change_value(
    store: Store, key: str, decode: Callable[[bytes], T], change: Callable[[T | None], T], /, *, name: str, ttl: float
) -> T:
    """Store what `change` makes of the value of a key, and return it. If nothing is stored, `change` gets None.

    If somebody else changes the value at the same time, `change` is called again with the new one.
    """
    for _ in range(MAX_SWAPS):
        entry = await store.read(key)
        old, version = (None, None) if entry is None else (decode(entry.value), entry.version)
        new = change(old)
        if await store.write(key, msgspec.json.encode(new), ttl=ttl, expects=version):
            return new
    raise StoreDown(f"{name}: not written, {MAX_SWAPS} others wrote first; try again", retry_after=1.0)
