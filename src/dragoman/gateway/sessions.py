"""A conversation in, the target it is pinned to and the ids of its calls out; written after an answer, merged by swaps.

A session belongs to the key that made it: the same conversation of another key is another session.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import msgspec

from dragoman.errors import StoreDown
from dragoman.gateway.store import ANY, Store
from dragoman.gateway.tiers import TIERS, is_higher

DAY = 86400.0
MAX_IDS = 1000
"""Ids of calls that a session keeps; the oldest go."""
MAX_SWAPS = 200
"""Others that may come first before a write is given up."""


class ConversationState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a conversation is, and the provider's id of each call by ours.

    >>> ConversationState(target="groq/llama", tier="simple").ids
    {}
    """

    target: str
    tier: str | None = None
    ids: dict[str, str] = {}


class ConversationStore:
    """The sessions of a store; each lasts a day from its last use.

    >>> import asyncio
    >>> from dragoman.gateway.store import open_store
    >>> async def main() -> str:
    ...     sessions = ConversationStore(open_store("memory"))
    ...     await sessions.settle("team", "c1", target="groq/llama", tier="simple", ids={}, seen=None)
    ...     return (await sessions.load("team", "c1")).target
    >>> asyncio.run(main())
    'groq/llama'
    """

    def __init__(self, store: Store, /, *, tiers: Sequence[str] = TIERS, ttl: float = DAY) -> None:
        self._store = store
        self._tiers = tiers
        self._ttl = ttl

    async def load(self, owner: str | None, conversation: str, /) -> ConversationState | None:
        """The session of a conversation, where it has one."""
        entry = await self._store.read(_name("session", owner, conversation))
        return None if entry is None else _decode(entry.value)

    async def settle(
        self,
        owner: str | None,
        conversation: str,
        /,
        *,
        target: str,
        tier: str | None,
        ids: Mapping[str, str],
        seen: ConversationState | None,
    ) -> ConversationState:
        """A request that saw the session `seen` was answered: pin or move it, learn its ids, keep it for a day more."""
        name = _name("session", owner, conversation)
        for _ in range(MAX_SWAPS):
            entry = await self._store.read(name)
            found = None if entry is None else _decode(entry.value)
            session = self._merged(found, seen, ConversationState(target=target, tier=tier, ids=dict(ids)))
            expects = None if entry is None else entry.version
            if await self._store.write(name, msgspec.json.encode(session), ttl=self._ttl, expects=expects):
                return session
        raise StoreDown(f"session: {MAX_SWAPS} others wrote first", retry_after=1.0)

    def _merged(
        self, found: ConversationState | None, seen: ConversationState | None, mine: ConversationState
    ) -> ConversationState:
        """What is there with what is new. Another request may have moved it meanwhile: the first one stays, unless
        this one is of a higher tier.
        """
        if found is None:
            return mine
        ids = {**found.ids, **mine.ids}
        kept = dict(list(ids.items())[-MAX_IDS:])
        moves_up = is_higher(mine.tier, found.tier, self._tiers)
        is_as_seen = seen is not None and (seen.target, seen.tier) == (found.target, found.tier)
        falls = is_higher(found.tier, mine.tier, self._tiers)
        if moves_up or (is_as_seen and not falls):
            return ConversationState(target=mine.target, tier=mine.tier, ids=kept)
        return ConversationState(target=found.target, tier=found.tier, ids=kept)


class Responses:
    """Stored answers by id, each its key's own; kept for thirty days.

    >>> import asyncio
    >>> from dragoman.gateway.store import open_store
    >>> async def main() -> bytes | None:
    ...     responses = Responses(open_store("memory"))
    ...     await responses.save("team", "resp_1", b"{}")
    ...     return await responses.load("other", "resp_1")
    >>> asyncio.run(main()) is None
    True
    """

    def __init__(self, store: Store, /, *, ttl: float = 30 * DAY) -> None:
        self._store = store
        self._ttl = ttl

    async def save(self, owner: str | None, id: str, value: bytes, /) -> None:
        """Keep an answer."""
        await self._store.write(_name("response", owner, id), value, ttl=self._ttl, expects=ANY)

    async def load(self, owner: str | None, id: str, /) -> bytes | None:
        """An answer, where it is kept."""
        entry = await self._store.read(_name("response", owner, id))
        return None if entry is None else entry.value

    async def delete(self, owner: str | None, id: str, /) -> bool:
        """Whether it was there, which it is no more."""
        return await self._store.delete(_name("response", owner, id))


_decode = msgspec.json.Decoder(ConversationState).decode


def _name(kind: str, owner: str | None, id: str) -> str:
    # What clients choose is of any length and has any character: a digest has not, and tells nobody what it was.
    return f"{kind}:{blake2b(msgspec.json.encode((owner, id)), digest_size=24).hexdigest()}"
