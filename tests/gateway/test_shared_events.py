"""The events of a response in the background, for clients of other workers: in order, whole, once."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.errors import Truncated
from dragoman.gateway import shared_events
from dragoman.gateway.shared_events import PING, EventReader, EventWriter
from dragoman.gateway.store import Store, open_store

FRAMES = [b"data: %d\n\n" % number for number in range(30)]


async def running() -> bool:
    return False


async def over() -> bool:
    return True


async def read(reader: EventReader, start: int = 0, ping: float = 60.0) -> bytes:
    seen: list[bytes] = []

    async def write(data: bytes) -> None:
        seen.append(data)

    await reader.follow(write, start=start, ping=ping)
    return b"".join(seen)


async def asked(store: Store) -> tuple[EventWriter, EventReader]:
    """A writer whose events another worker wants, and the reader of that worker."""
    writer, reader = EventWriter(store, "key", "resp_1"), EventReader(store, "key", "resp_1", running)
    asking = asyncio.create_task(reader.ask())
    while not asking.done():
        await writer.write([])
        await asyncio.sleep(0)
    assert await asking
    return writer, reader


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_events, "POLL", 0.001)


def test_nothing_is_written_if_no_other_worker_asks() -> None:
    async def work() -> None:
        store = open_store("memory")
        await EventWriter(store, "key", "resp_1").write(FRAMES, is_last=True)
        assert not await EventReader(store, "key", "resp_1", over).ask()

    asyncio.run(work())


@pytest.mark.parametrize("start", [0, 1, 7, 29, 30])
@pytest.mark.parametrize("max_piece", [1, 25, 10_000])
def test_each_event_is_read_once_and_in_order(start: int, max_piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_events, "MAX_PIECE", max_piece)

    async def work() -> None:
        writer, reader = await asked(open_store("memory"))
        reading = asyncio.create_task(read(reader, start))
        for count in (3, 3, 11):
            await writer.write(FRAMES[:count])
            await asyncio.sleep(0.002)
        await writer.write(FRAMES, is_last=True)
        assert await reading == b"".join(FRAMES[start:])

    asyncio.run(work())


def test_a_cancelled_write_leaves_whole_pieces() -> None:
    async def work() -> None:
        writer, reader = await asked(open_store("memory"))
        first = asyncio.create_task(writer.write(FRAMES[:5]))
        await asyncio.sleep(0)
        first.cancel()
        await writer.write(FRAMES, is_last=True)
        assert await read(reader) == b"".join(FRAMES)

    asyncio.run(work())


def test_pieces_are_renewed_with_the_same_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_events, "MAX_PIECE", 25)
    now = 0.0
    monkeypatch.setattr(shared_events, "time", SimpleNamespace(monotonic=lambda: now))

    async def work() -> None:
        nonlocal now
        store = open_store("memory")
        writer, reader = await asked(store)
        await writer.write(FRAMES[:10])
        written: list[tuple[str, bytes]] = []
        write = store.write

        async def recorded(key: str, value: bytes, /, **options: Any) -> str | None:
            written.append((key, value))
            return await write(key, value, **options)

        monkeypatch.setattr(store, "write", recorded)
        await writer.write(FRAMES[:10])
        assert written == []
        now = shared_events.TTL / 2 + 1
        await writer.write(FRAMES[:10])
        assert [len(shared_events.decode_piece(value).frames) for _, value in written] == [0, 2, 2, 2, 2, 2]
        await writer.write(FRAMES, is_last=True)
        assert await read(reader) == b"".join(FRAMES)

    asyncio.run(work())


def test_a_silent_response_is_pinged_and_a_dead_worker_is_not_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_events, "LAST_PIECE_TIMEOUT", 0.05)

    async def work() -> None:
        store = open_store("memory")
        await asked(store)
        seen: list[bytes] = []

        async def write(data: bytes) -> None:
            seen.append(data)

        with pytest.raises(Truncated, match="fetch the response instead"):
            await EventReader(store, "key", "resp_1", over).follow(write, start=0, ping=0.0)
        assert PING in seen
        assert set(seen) == {PING}

    asyncio.run(work())
