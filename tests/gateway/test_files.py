"""The gateway's file store, in each store."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.errors import InvalidRequest, StoreDown
from dragoman.gateway import files as module
from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import hash_key
from dragoman.gateway.config import decode_config
from dragoman.gateway.errors import BodyTooLarge, NotStored
from dragoman.gateway.files import FileStore, is_gateway_file
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.store import Store, StoredValue
from dragoman.gateway.stored_values import store_key
from dragoman.http import HttpRequest
from dragoman.wires.common.server_endpoints import UploadedFile


def new(data: bytes = b"tides", **fields: Any) -> UploadedFile:
    return UploadedFile(data=data, name="a.txt", mime="text/plain", **fields)


def test_files_are_stored_listed_read_and_deleted(opened: Callable[[], Store], clock: Any) -> None:
    async def run() -> None:
        store = opened()
        files = FileStore(store, clock=clock)
        first, second = await files.create("alice", new()), await files.create("alice", new(b"\x00\xff"))
        assert is_gateway_file(first.id)
        assert await files.list("alice") == (second, first)
        assert (await files.read("alice", second.id)).data == b"\x00\xff"
        assert await files.delete("alice", first.id) == first
        assert await files.list("alice") == (second,)
        with pytest.raises(NotStored, match="it expired, was deleted, or belongs to another key"):
            await files.read("alice", first.id)
        await store.aclose()

    asyncio.run(run())


def test_nobody_else_sees_a_file(opened: Callable[[], Store], clock: Any) -> None:
    async def run() -> None:
        store = opened()
        files = FileStore(store, clock=clock)
        file = await files.create("alice", new())
        for other in ("bob", None):
            assert await files.list(other) == ()
            for act in (files.find, files.read, files.delete):
                with pytest.raises(NotStored):
                    await act(other, file.id)
        assert await files.find("alice", file.id) == file
        await store.aclose()

    asyncio.run(run())


def test_a_file_expires(opened: Callable[[], Store], clock: Any) -> None:
    async def run() -> None:
        store = opened()
        files = FileStore(store, clock=clock)
        short, long = await files.create("alice", new(seconds=3600)), await files.create("alice", new())
        clock.now += 3601
        assert await files.list("alice") == (long,)
        with pytest.raises(NotStored):
            await files.read("alice", short.id)
        clock.now += 30 * 86400
        assert await files.list("alice") == ()
        await store.aclose()

    asyncio.run(run())


def test_uploads_at_the_same_time_are_all_listed(opened: Callable[[], Store], clock: Any) -> None:
    async def run() -> None:
        store = opened()
        files = FileStore(store, clock=clock)
        made = await asyncio.gather(*(files.create("alice", new()) for _ in range(8)))
        assert {file.id for file in await files.list("alice")} == {file.id for file in made}
        await store.aclose()

    asyncio.run(run())


def test_an_owner_stores_a_bounded_amount(
    opened: Callable[[], Store], clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 2)

    async def run() -> None:
        store = opened()
        files = FileStore(store, clock=clock, max_bytes=10)
        await files.create("alice", new(b"123456"))
        with pytest.raises(BodyTooLarge, match="must fit into the 10 bytes"):
            await files.create("alice", new(b"12345"))
        await files.create("bob", new(b"12345"))
        await files.create("alice", new(b"1"))
        with pytest.raises(InvalidRequest, match="at most 2 files; delete some"):
            await files.create("alice", new(b"1"))
        # Of uploads at the same time, only as many succeed as fit.
        results = await asyncio.gather(*(files.create("carol", new(b"1234")) for _ in range(4)), return_exceptions=True)
        assert sum(isinstance(result, BodyTooLarge) for result in results) == 2
        assert len(await files.list("carol")) == 2
        await store.aclose()

    asyncio.run(run())


def test_a_file_whose_content_is_gone_does_not_exist(opened: Callable[[], Store], clock: Any) -> None:
    async def run() -> None:
        store = opened()
        files = FileStore(store, clock=clock)
        file = await files.create(None, new())
        await store.delete(store_key("file", None, file.id))
        with pytest.raises(NotStored):
            await files.read(None, file.id)
        await store.aclose()

    asyncio.run(run())


def test_large_files_that_are_being_read_have_a_limit_together() -> None:
    """Without it, a hundred clients that read one file slowly hold it a hundred times."""
    data = bytes(range(256)) * 4000

    async def run() -> None:
        settings = '[gateway]\nproviders = ["demo"]\nmax_body = 1_500_000\nmax_body_memory = 2_500_000\n'
        app = App(Runtime(decode_config(settings), {}))
        file = await app.runtime.files.create(None, new(data))
        http = HttpRequest(method="GET", path=f"/v1/files/{file.id}/content", headers={"host": "localhost"})
        reading, may_end = asyncio.Event(), asyncio.Event()
        got: list[bytes] = []

        async def write(piece: bytes) -> None:
            got.append(piece)
            reading.set()
            await may_end.wait()

        async def read() -> int:
            response = await app.answer(http)
            if callable(response.body):
                await response.body(write)
            return response.status

        slow = [asyncio.create_task(read()) for _ in range(2)]
        async with asyncio.timeout(20):
            while app.bodies.held < 2 * len(data):  # noqa: ASYNC110 - a count has no event
                await asyncio.sleep(0)
            assert await read() == 503
            slow[0].cancel()
            await asyncio.wait(slow[:1])
            assert app.bodies.held == len(data)
            got.clear()
            may_end.set()
            assert await slow[1] == 200
            assert len(got) == 3
            got.clear()
            assert await read() == 200
        assert b"".join(got) == data
        assert app.bodies.held == 0
        await app.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("failure", "status"), [(None, 404), (StoreDown("the store is down"), 503)], ids=["gone", "store down"]
)
def test_a_large_file_that_cannot_be_read_is_an_error_response(
    failure: StoreDown | None, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the head is written, a client could only see that the response breaks off."""

    async def run() -> None:
        app = App(Runtime(decode_config('[gateway]\nproviders = ["demo"]\n'), {}))
        file = await app.runtime.files.create(None, new(bytes(300_000)))
        content, read = store_key("file", None, file.id), app.runtime.store.read

        async def read_or_fail(key: str) -> StoredValue | None:
            if key == content and failure is not None:
                raise failure
            return None if key == content else await read(key)

        monkeypatch.setattr(app.runtime.store, "read", read_or_fail)
        response = await app.answer(
            HttpRequest(method="GET", path=f"/v1/files/{file.id}/content", headers={"host": "localhost"})
        )
        assert response.status == status
        assert isinstance(response.body, bytes)
        assert app.bodies.held == 0
        await app.close()

    asyncio.run(run())


def test_a_large_file_has_its_length_and_the_limits_of_its_key() -> None:
    key = "dgm-ann-000000000000000000000000"

    async def run() -> None:
        settings = f'[gateway]\nproviders = ["demo"]\n[keys.ann]\nhash = "{hash_key(key)}"\nrequests_per_minute = 5\n'
        app = App(Runtime(decode_config(settings), {}))
        headers = {"host": "localhost", "authorization": f"Bearer {key}"}
        lengths: list[str | None] = []
        names: list[set[str]] = []
        for size in (1000, 300_000):
            file = await app.runtime.files.create("ann", new(bytes(size)))
            http = HttpRequest(method="GET", path=f"/v1/files/{file.id}/content", headers=headers)
            response = await app.answer(http)
            lengths.append(dict(response.headers).get("content-length"))
            names.append({name for name, _ in response.headers} - {"content-length"})
        assert lengths == [None, "300000"], "the server writes that of a small one"
        assert names[0] == names[1]
        assert "X-RateLimit-Remaining-Requests" in names[1]
        assert app.bodies.held == 0, "a response that nobody writes holds nothing"
        await app.close()

    asyncio.run(run())
