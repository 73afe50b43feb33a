"""What the gateway stores between the requests of a conversation.

A conversation stays with the target that answered it, and never moves to a lower tier. It belongs to the API key that
started it: the same `conversation_id` of another key is another conversation. Requests of one conversation may run at
the same time, in several processes, so every write is a compare-and-swap that merges with what is stored.

Responses that a client asked to store are kept here, too.
"""

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from dragoman.errors import InvalidRequest, StoreDown
from dragoman.gateway.store import ANY, Store
from dragoman.gateway.tiers import is_higher
from dragoman.types import JsonObject, dump, load
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.server_endpoints import StoredResponse

DAY = 86400.0
MAX_IDS = 1000
"""Tool call ids of one conversation, the first: the id of an old call must not change. Others keep the gateway's id."""
MAX_STORED = 64 * 1024 * 1024
MAX_RECENT = 32
"""Responses that one WebSocket keeps in memory."""
MAX_SWAPS = 200
"""Tries to write before giving up because others wrote first."""


class ConversationState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The target of a conversation, its tier, and its tool call ids: the gateway's id to the provider's."""

    target: str
    tier: str | None = None
    ids: dict[str, str] = {}


class ConversationStore:
    """The conversations in a store. Each expires a day after its last use."""

    def __init__(self, store: Store, /, *, ttl: float = DAY) -> None:
        self._store = store
        self._ttl = ttl

    async def load(self, owner: str | None, id: str, /) -> ConversationState | None:
        """The state of a conversation; None if nothing is stored."""
        entry = await self._store.read(store_key("session", owner, id))
        return None if entry is None else _decode(entry.value)

    async def update(
        self, owner: str | None, id: str, new: ConversationState, /, *, before: ConversationState | None
    ) -> ConversationState:
        """Merge the state after a request into the stored one; `before` is what the request had loaded."""
        key = store_key("session", owner, id)
        for _ in range(MAX_SWAPS):
            entry = await self._store.read(key)
            state = new if entry is None else self._merge(_decode(entry.value), new, before)
            version = None if entry is None else entry.version
            if await self._store.write(key, msgspec.json.encode(state), ttl=self._ttl, expects=version):
                return state
        raise StoreDown(
            f"conversation: not written, {MAX_SWAPS} other requests wrote first; send the request again",
            retry_after=1.0,
        )

    def _merge(
        self, stored: ConversationState, new: ConversationState, before: ConversationState | None
    ) -> ConversationState:
        """If another request has moved the conversation meanwhile, it stays there, unless the new tier is higher."""
        ids = dict(list({**stored.ids, **new.ids}.items())[:MAX_IDS])
        is_unchanged = before is not None and (before.target, before.tier) == (stored.target, stored.tier)
        moves_up = is_higher(new.tier, stored.tier)
        moves_down = is_higher(stored.tier, new.tier)
        current = new if moves_up or (is_unchanged and not moves_down) else stored
        return ConversationState(target=current.target, tier=current.tier, ids=ids)


class ResponseStore:
    """Responses that clients asked to store, by owner and id. Each expires after thirty days."""

    def __init__(self, store: Store, /, *, max_bytes: int = MAX_STORED, ttl: float = 30 * DAY) -> None:
        """`max_bytes`: of a response with its conversation, that can be read."""
        self._store = store
        self._max_bytes = max_bytes
        self._ttl = ttl

    async def save(
        self, owner: str | None, id: str, response: StoredResponse, /, *, items: Sequence[JsonObject] = ()
    ) -> None:
        """Store a response. `items` are also stored alone, each by its id: a response has its whole conversation."""
        await self._store.write(store_key("response", owner, id), dump(response), ttl=self._ttl, expects=ANY)
        for item in items:
            key = store_key("item", owner, str(item.get("id")))
            await self._store.write(key, encode_json(item), ttl=self._ttl, expects=ANY)

    async def load_item(self, owner: str | None, id: str, /) -> JsonObject | None:
        """An item that is stored alone; None if it is unknown."""
        entry = await self._store.read(store_key("item", owner, id))
        return None if entry is None else msgspec.json.decode(entry.value, type=JsonObject)

    async def load(self, owner: str | None, id: str, /) -> StoredResponse | None:
        """A stored response; None if the owner has none with this id."""
        entry = await self._store.read(store_key("response", owner, id))
        if entry is None:
            return None
        if len(entry.value) > self._max_bytes:
            raise InvalidRequest(
                f"the conversation of {id[:200]!r} has more than {self._max_bytes} bytes; start another"
            )
        # Version 0.1 called the notice kind "info" "told".
        return load(entry.value.replace(b'{"kind":"told","what":', b'{"kind":"info","what":'), StoredResponse)

    async def delete(self, owner: str | None, id: str, /) -> bool:
        """Delete a response; False if there was none."""
        return await self._store.delete(store_key("response", owner, id))


class RecentResponses:
    """The last responses of one WebSocket, in memory: its requests continue from them even with `store: false`."""

    def __init__(self, limit: int, /) -> None:
        """`limit`: bytes of all responses together, each with its whole conversation."""
        self._limit = limit
        self._bytes = 0
        self._responses: dict[str, tuple[StoredResponse, int]] = {}

    def get(self, id: str, /) -> StoredResponse | None:
        """A response; None if there is none with this id."""
        return self._responses[id][0] if id in self._responses else None

    def add(self, id: str, response: StoredResponse, size: int, /, *, previous: str | None = None) -> None:
        """Keep a response for the next requests. `size` has the bytes that it adds to the `previous` one."""
        size += self._responses[previous][1] if previous in self._responses else 0
        self._responses[id] = response, size
        self._bytes += size
        while self._responses and (self._bytes > self._limit or len(self._responses) > MAX_RECENT):
            _, dropped = self._responses.pop(next(iter(self._responses)))
            self._bytes -= dropped


_decode = msgspec.json.Decoder(ConversationState).decode


def store_key(kind: str, owner: str | None, id: str) -> str:
    """The key of what an owner stored under an id: nobody else can have it."""
    # Clients choose ids of any length and with any character; a digest has neither problem.
    return f"{kind}:{blake2b(msgspec.json.encode((owner, id)), digest_size=24).hexdigest()}"
