"""A store is for its owner only, and one that cannot be written is reported."""

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import StoreDown
from dragoman.gateway.accounting.usage import UsageLog
from dragoman.gateway.store.base import UsageRow
from dragoman.gateway.store.memory import MemoryStore
from dragoman.gateway.store.sqlite import SqliteStore
from dragoman.http import HttpRequest
from tests.support.gateway.dialects import app_of, send_blocking


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")
def test_a_new_file_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    async def write() -> list[int]:
        store = SqliteStore(str(tmp_path / "store.db"))
        await store.write("a", b"b", ttl=None)
        modes = [file.stat().st_mode & 0o777 for file in tmp_path.iterdir()]  # noqa: ASYNC240 - a test
        await store.aclose()
        return modes

    before = os.umask(0)
    try:
        modes = asyncio.run(write())
    finally:
        os.umask(before)
    assert len(modes) == 3  # with -wal and -shm
    assert set(modes) == {0o600}


class FullStore(MemoryStore):
    """One that can be read, but not written."""

    is_full = True

    async def write(self, *arguments: Any, **options: Any) -> str | None:
        if self.is_full:
            raise StoreDown("the disk is full")
        return await super().write(*arguments, **options)

    async def record(self, rows: Sequence[UsageRow], /) -> None:
        if self.is_full:
            raise StoreDown("the disk is full")
        await super().record(rows)


def test_a_store_that_goes_and_comes_back_is_a_log_line_each(caplog: pytest.LogCaptureFixture) -> None:
    async def fill() -> None:
        store = FullStore()
        usage_log = UsageLog(store)
        for number in range(3):
            await usage_log.record(UsageRow(id=str(number), started_at=0.0, key=None, model="m", outcome="served"))
        await usage_log.flush()
        store.is_full = False
        await usage_log.flush()
        await usage_log.flush()

    with caplog.at_level(logging.WARNING):
        asyncio.run(fill())
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        "the store cannot be written, usage rows wait in memory: the disk is full",
        "the store can be written again, 3 usage rows were waiting",
    ]


def test_a_gateway_whose_store_cannot_be_written_is_not_ready() -> None:
    app = app_of()
    app.runtime.store = store = FullStore()
    ready = HttpRequest(method="GET", path="/health/ready")
    assert send_blocking(app, ready).status == 503
    assert b"the disk is full" in send_blocking(app, HttpRequest(method="GET", path="/health")).body
    store.is_full = False
    assert send_blocking(app, ready).status == 200
