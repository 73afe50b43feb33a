"""Chat completions that clients asked to store (`store: true`), by owner and id."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.gateway.errors import NotStored
from dragoman.gateway.id_lists import IdList
from dragoman.gateway.store import Store
from dragoman.gateway.stored_values import DAY, read_value, store_key
from dragoman.wires.common.server_endpoints import ChatPage, ChatQuery, StoredChat

MAX_CHATS = 1000
"""Chats of one owner; a new one replaces the oldest."""
TTL = 30 * DAY
MAX_PAGE = 16 * 1024 * 1024
"""Bytes of a page of chats. A page ends before it has more, unless it has only one chat."""
_decode = msgspec.json.Decoder(StoredChat).decode


class ChatStore:
    """The chats in a store. Each expires after thirty days."""

    def __init__(self, store: Store, /) -> None:
        self._store = store
        self._ids = IdList(store, "chats", limit=MAX_CHATS, ttl=TTL)

    async def save(self, owner: str | None, chat: StoredChat, /) -> None:
        await self._write(owner, chat)
        for id in await self._ids.add(owner, chat.id):
            await self._store.delete(store_key("chat", owner, id))

    async def run(self, owner: str | None, query: ChatQuery, /) -> StoredChat | ChatPage:
        """Do what a client asks for."""
        match query.action:
            case "list":
                return await self._list(owner, query)
            case "fetch":
                return await self._load(owner, query.id)
            case "update":
                chat = replace(await self._load(owner, query.id), metadata=dict(query.metadata))
                await self._write(owner, chat)
                return chat
            case "drop":
                chat = await self._load(owner, query.id)
                await self._store.delete(store_key("chat", owner, query.id))
                await self._ids.remove(owner, query.id)
                return chat

    async def _write(self, owner: str | None, chat: StoredChat) -> None:
        await self._store.write(store_key("chat", owner, chat.id), msgspec.json.encode(chat), ttl=TTL)

    async def _load(self, owner: str | None, id: str) -> StoredChat:
        if (chat := await read_value(self._store, store_key("chat", owner, id), _decode)) is None:
            raise NotStored(f"no stored chat completion {id[:200]!r}")
        return chat

    async def _list(self, owner: str | None, query: ChatQuery) -> ChatPage:
        ids = await self._ids.read(owner)
        ids = ids if query.is_newest_first else ids[::-1]
        if query.after:
            if query.after not in ids:
                raise InvalidRequest(
                    f"after must be the id of a chat in the list, got {query.after[:200]!r}", param="after"
                )
            ids = ids[ids.index(query.after) + 1 :]
        chats: list[StoredChat] = []
        size = 0
        for id in ids:
            entry = await self._store.read(store_key("chat", owner, id))
            if entry is None or not _matches(chat := _decode(entry.value), query.model, query.metadata):
                continue
            size += len(entry.value)
            if len(chats) == query.limit or (chats and size > MAX_PAGE):
                return ChatPage(tuple(chats), has_more=True)
            chats.append(chat)
        return ChatPage(tuple(chats))


def _matches(chat: StoredChat, model: str | None, metadata: Mapping[str, str]) -> bool:
    return (model is None or chat.model == model) and metadata.items() <= chat.metadata.items()
