"""The store of chats: its limit, its order, and what a request for a missing one gets."""

import asyncio

import pytest

from dragoman.errors import InvalidRequest
from dragoman.gateway import stored_chats
from dragoman.gateway.errors import NotStored
from dragoman.gateway.store.memory import MemoryStore
from dragoman.gateway.stored_chats import ChatStore
from dragoman.wires.common.server_endpoints import ChatPage, ChatQuery, StoredChat


def chat(id: str) -> StoredChat:
    return StoredChat(id=id, model="m", created=1, completion={})


async def ids(store: ChatStore, query: ChatQuery) -> list[str]:
    page = await store.run("ann", query)
    assert isinstance(page, ChatPage)
    return [each.id for each in page.chats]


def test_a_new_chat_replaces_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_chats, "MAX_CHATS", 2)

    async def run() -> None:
        store = ChatStore(MemoryStore())
        for id in "abc":
            await store.save("ann", chat(id))
        assert await ids(store, ChatQuery("list")) == ["b", "c"]
        assert await ids(store, ChatQuery("list", is_newest_first=True)) == ["c", "b"]
        with pytest.raises(NotStored):
            await store.run("ann", ChatQuery("fetch", "a"))
        with pytest.raises(InvalidRequest, match="after must be"):
            await store.run("ann", ChatQuery("list", after="a"))

    asyncio.run(run())


def test_chats_of_many_requests_at_once_are_all_listed() -> None:
    async def run() -> None:
        store = ChatStore(MemoryStore())
        await asyncio.gather(*(store.save("ann", chat(str(number))) for number in range(50)))
        assert len(await ids(store, ChatQuery("list", limit=100))) == 50
        assert await ids(store, ChatQuery("list", model="other")) == []

    asyncio.run(run())


def test_a_page_has_a_limit_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_chats, "MAX_PAGE", 5000)

    async def run() -> None:
        store = ChatStore(MemoryStore())
        for id in "abcde":
            await store.save("ann", StoredChat(id=id, model="m", created=1, completion={"text": "x" * 2000}))
        await store.save("ann", StoredChat(id="f", model="m", created=1, completion={"text": "x" * 20_000}))
        seen: list[list[str]] = []
        page = ChatPage((), has_more=True)
        while page.has_more:
            after = page.chats[-1].id if page.chats else ""
            found = await store.run("ann", ChatQuery("list", after=after, limit=100))
            assert isinstance(found, ChatPage)
            page = found
            seen.append([each.id for each in page.chats])
        assert seen == [["a", "b"], ["c", "d"], ["e"], ["f"]]

    asyncio.run(run())
