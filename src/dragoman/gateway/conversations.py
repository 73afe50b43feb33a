"""What the gateway stores between the requests of a conversation.

A conversation stays with the target that answered it, and never moves to a lower tier. It belongs to the API key that
started it: the same `conversation_id` of another key is another conversation. Requests of one conversation may run at
the same time, in several processes, so every write is a compare-and-swap that merges with what is stored.

Responses that a client asked to store are kept here, too.
"""

from collections.abc import Sequence

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.gateway.store import Store
from dragoman.gateway.stored_values import DAY, change_value, read_value, store_key
from dragoman.gateway.tiers import is_higher
from dragoman.types import JsonObject, dump, load
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.server_endpoints import StoredResponse

RESPONSE_TTL = 30 * DAY
MAX_IDS = 1000
"""Tool call ids of one conversation, the first: the id of an old call must not change. Others keep the gateway's id."""
MAX_STORED = 64 * 1024 * 1024
MAX_RECENT = 32
"""Responses that one WebSocket keeps in memory."""


class ConversationState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The target of a conversation, its tier, and its tool call ids: the gateway's id to the provider's."""

    target: str
    tier: str | None = None
    ids: dict[str, str] = {}


class ConversationStore:
    """The conversations in a store. Each expires a day after its last use."""

    def __init__(self, store: Store, /) -> None:
        self._store = store

    async def load(self, owner: str | None, id: str, /) -> ConversationState | None:
        """The state of a conversation; None if nothing is stored."""
        return await read_value(self._store, store_key("session", owner, id), _decode)

    async def update(
        self, owner: str | None, id: str, new: ConversationState, /, *, before: ConversationState | None
    ) -> ConversationState:
        """Merge the state after a request into the stored one; `before` is what the request had loaded."""

        def merge(stored: ConversationState | None) -> ConversationState:
            """If another request has moved the conversation, it stays there, unless the new tier is higher."""
            if stored is None:
                return new
            ids = dict(list({**stored.ids, **new.ids}.items())[:MAX_IDS])
            is_unchanged = before is not None and (before.target, before.tier) == (stored.target, stored.tier)
            moves_up = is_higher(new.tier, stored.tier)
            moves_down = is_higher(stored.tier, new.tier)
            current = new if moves_up or (is_unchanged and not moves_down) else stored
            return ConversationState(target=current.target, tier=current.tier, ids=ids)

        key = store_key("session", owner, id)
        return await change_value(self._store, key, _decode, merge, name="conversation", ttl=DAY)


class ResponseStore:
    """Responses that clients asked to store, by owner and id. Each expires after thirty days."""

    def __init__(self, store: Store, /, *, max_bytes: int = MAX_STORED) -> None:
        """`max_bytes`: of a response with its conversation, that can be read."""
        self._store = store
        self._max_bytes = max_bytes

    async def save(
        self, owner: str | None, id: str, response: StoredResponse, /, *, items: Sequence[JsonObject] = ()
    ) -> None:
        """Store a response. `items` are also stored alone, each by its id: a response has its whole conversation."""
        await self._store.write(store_key("response", owner, id), dump(response), ttl=RESPONSE_TTL)
        for item in items:
            key = store_key("item", owner, str(item.get("id")))
            await self._store.write(key, encode_json(item), ttl=RESPONSE_TTL)

    async def load_item(self, owner: str | None, id: str, /) -> JsonObject | None:
        """An item that is stored alone; None if it is unknown."""
        return await read_value(self._store, store_key("item", owner, id), _decode_item)

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
_decode_item = msgspec.json.Decoder(JsonObject).decode
