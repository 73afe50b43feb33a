"""Batches of clients: no row is run twice, whatever becomes of the worker; limits; cancel; expiry."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import InvalidRequest
from dragoman.gateway import batch_store, batches
from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import hash_key
from dragoman.gateway.batches import BatchRunner
from dragoman.gateway.config import decode_config
from dragoman.gateway.errors import Busy, NotStored
from dragoman.gateway.request import RequestContext
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.server.response import GatewayResponse
from dragoman.gateway.stored_values import store_key
from dragoman.http import HttpRequest
from dragoman.wires.common.batch_values import (
    BatchInputRow,
    BatchPage,
    BatchQuery,
    BatchRowResult,
    NewBatch,
    StoredBatch,
)

KEY = "dgm-ann-000000000000000000000000"
WIRE = "anthropic"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHECK", 0.01)
    monkeypatch.setattr(batches, "MAX_WAIT", 0.01)


def runtime(store: str = "memory", of_key: str = "") -> Runtime:
    text = f'[gateway]\nproviders = ["demo"]\nstore = "{store}"\n[keys.ann]\nhash = "{hash_key(KEY)}"\n{of_key}'
    return Runtime(decode_config(text), {})


def new(count: int = 4, wire: str = WIRE) -> NewBatch:
    rows = tuple(BatchInputRow(f"r{number}", msgspec.Raw(b'{"n":%d}' % number)) for number in range(count))
    return NewBatch(wire=wire, endpoint="/v1/messages", rows=rows)


async def create(at: Runtime, count: int = 4, wire: str = WIRE) -> StoredBatch:
    batch = await at.batches.run("ann", BatchQuery("create", wire, new=new(count, wire)))
    assert isinstance(batch, StoredBatch)
    return batch


async def outcomes(at: Runtime, id: str) -> list[str]:
    batch = await at.batches.run("ann", BatchQuery("results", WIRE, id))
    assert isinstance(batch, StoredBatch)
    return [each.outcome async for each in at.batches.results("ann", batch)]


class Answers:
    """Answers rows, and notes which."""

    def __init__(self, stop_after: int | None = None, status: int = 200) -> None:
        self.rows: list[int] = []
        self.keys: list[str | None] = []
        self.is_stuck = asyncio.Event()
        self.status = status
        self.busy = 0
        """How often the key is over a limit."""
        self._stop_after = stop_after

    async def __call__(self, context: RequestContext) -> GatewayResponse:
        if self.busy:
            self.busy -= 1
            return GatewayResponse(429, [("retry-after", "0.001")], b"{}")
        if self._stop_after is not None and len(self.rows) >= self._stop_after:
            self.is_stuck.set()
            await asyncio.Event().wait()
        self.rows.append(json.loads(context.http.body)["n"])
        self.keys.append(context.owner)
        return GatewayResponse(self.status, [], b'{"ok":true}')


async def until(at: Runtime, id: str, is_so: Callable[[StoredBatch], bool]) -> StoredBatch:
    async with asyncio.timeout(20):
        while not is_so(batch := await at.batches.load("ann", id)):  # noqa: ASYNC110 - the store has no event
            await asyncio.sleep(0.005)
    return batch


def ended(batch: StoredBatch) -> bool:
    return batch.state == "ended"


def running(at: Runtime, answers: Answers) -> "asyncio.Task[None]":
    return asyncio.create_task(BatchRunner(lambda: at, answers).run())


async def stop(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_every_row_is_run_in_the_name_of_its_key() -> None:
    async def test() -> None:
        at, answers = runtime(), Answers()
        task = running(at, answers)
        batch = await create(at)
        done = await until(at, batch.id, ended)
        assert (sorted(answers.rows), set(answers.keys)) == ([0, 1, 2, 3], {"ann"})
        assert (done.outcomes, done.ended_at is not None) == ({"succeeded": 4}, True)
        assert await at.batches.running() == []
        await stop(task)

    run(test)


def test_rows_that_were_answered_are_not_run_again_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        url = f"sqlite:///{tmp_path}/store.db"
        first, answers = runtime(url), Answers(stop_after=3)
        batch = await create(first, 8)
        task = running(first, answers)
        await answers.is_stuck.wait()
        await until(first, batch.id, lambda each: each.count("succeeded") == 3)
        await stop(task)
        await first.store.aclose()
        second, others = runtime(url), Answers()
        task = running(second, others)
        assert (await until(second, batch.id, ended)).outcomes == {"succeeded": 8}
        assert sorted(answers.rows + others.rows) == list(range(8))
        await stop(task)
        await second.store.aclose()

    run(test)


def test_a_batch_of_another_worker_is_left_alone_until_its_lease_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_store, "LEASE", 0.2)

    async def test() -> None:
        at, answers = runtime(), Answers()
        batch = await create(at)
        assert await at.batches.lease(batch.id, "other", is_new=True)
        assert not await at.batches.lease(batch.id, "me", is_new=True)
        task = running(at, answers)
        await asyncio.sleep(0.05)
        assert answers.rows == []
        await until(at, batch.id, ended)
        await stop(task)

    run(test)


def test_a_worker_that_lost_its_lease_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "RENEWAL", 0.0)

    async def test() -> None:
        at, slow, other = runtime(), Answers(stop_after=1), Answers()
        batch = await create(at)
        task = running(at, slow)
        await slow.is_stuck.wait()
        await at.store.delete(store_key("batch-lease", None, batch.id))
        assert await at.batches.lease(batch.id, "other", is_new=True)
        await until(at, batch.id, lambda each: each.count("succeeded") == 1)
        await asyncio.sleep(0.05)
        await stop(task)
        assert not await at.batches.lease(batch.id, "me", is_new=False), "the other worker still has it"
        await at.batches.release(batch.id, "other")
        task = running(at, other)
        assert (await until(at, batch.id, ended)).outcomes == {"succeeded": 4}
        assert sorted(slow.rows + other.rows) == [0, 1, 2, 3]
        await stop(task)

    run(test)


def test_a_cancelled_batch_keeps_its_answers() -> None:
    async def test() -> None:
        at, answers = runtime(), Answers()
        answers.busy = 10**9
        batch = await create(at, 8)
        task = running(at, answers)
        canceled = await at.batches.run("ann", BatchQuery("cancel", WIRE, batch.id))
        assert isinstance(canceled, StoredBatch)
        assert canceled.state in ("canceling", "ended")
        done = await until(at, batch.id, ended)
        assert done.count("canceled") == 8
        assert await outcomes(at, batch.id) == ["canceled"] * 8
        await stop(task)

    run(test)


def test_a_row_waits_while_its_key_is_over_a_limit() -> None:
    async def test() -> None:
        at, answers = runtime(), Answers()
        answers.busy = 7
        batch = await create(at)
        task = running(at, answers)
        assert (await until(at, batch.id, ended)).outcomes == {"succeeded": 4}
        await stop(task)

    run(test)


def test_rows_expire_after_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_store, "DAY", -10.0)

    async def test() -> None:
        at, answers = runtime(), Answers()
        batch = await create(at)
        task = running(at, answers)
        assert (await until(at, batch.id, ended)).outcomes == {"expired": 4}
        assert answers.rows == []
        await stop(task)

    run(test)


def test_rows_of_a_key_that_was_removed_are_errors() -> None:
    async def test() -> None:
        at, answers = runtime(), Answers()
        batch = await at.batches.run("gone", BatchQuery("create", WIRE, new=new()))
        assert isinstance(batch, StoredBatch)
        task = running(at, answers)
        async with asyncio.timeout(20):
            while (await at.batches.load("gone", batch.id)).state != "ended":  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.005)
        assert answers.rows == []
        await stop(task)

    run(test)


@pytest.mark.parametrize("of_key", ["disabled = true", "expires_at = 2020-01-01T00:00:00Z"])
def test_rows_of_a_key_that_may_send_nothing_any_more_are_errors(of_key: str) -> None:
    async def test() -> None:
        at, answers = runtime(of_key=of_key), Answers()
        batch = await create(at)
        task = running(at, answers)
        assert (await until(at, batch.id, ended)).outcomes == {"errored": 4}
        assert answers.rows == []
        await stop(task)

    run(test)


def test_an_error_of_a_row_is_its_result() -> None:
    async def test() -> None:
        at, answers = runtime(), Answers(status=400)
        batch = await create(at)
        task = running(at, answers)
        assert (await until(at, batch.id, ended)).outcomes == {"errored": 4}
        await stop(task)

    run(test)


def test_results_wait_until_there_is_room_for_their_file(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        at, answers = runtime(), Answers()
        monkeypatch.setattr(at.files, "_max_bytes", 1)
        batch = await create(at, wire="openai_chat")
        task = running(at, answers)
        await until(at, batch.id, lambda each: each.count("succeeded") == 4)
        assert (await at.batches.load("ann", batch.id)).state == "running"
        monkeypatch.setattr(at.files, "_max_bytes", 10**6)
        done = await until(at, batch.id, ended)
        content = await at.files.read("ann", done.output_file or "")
        assert len(content.data.splitlines()) == 4
        assert [each async for each in at.batches.results("ann", batch)] == [], "the rows are in the file"
        await stop(task)

    run(test)


def test_batches_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        at = runtime()
        monkeypatch.setattr(batch_store, "MAX_ROWS", 3)
        with pytest.raises(InvalidRequest, match="at most 3 requests, got 4"):
            await create(at)
        monkeypatch.setattr(batch_store, "MAX_RUNNING", 1)
        await create(at, 1)
        with pytest.raises(Busy, match="1 batches of this key run"):
            await create(at, 1)

    run(test)


def test_a_batch_whose_results_are_too_large_sends_no_more_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_RESULTS", 50)  # each result has 11 bytes

    async def test() -> None:
        at, answers = runtime(), Answers()
        batch = await create(at, 20)
        task = running(at, answers)
        done = await until(at, batch.id, ended)
        sent = len(answers.rows)
        assert 5 <= sent <= 5 + batches.CONCURRENCY
        assert done.outcomes == {"succeeded": sent, "errored": 20 - sent}
        results = [each async for each in at.batches.results("ann", done)]
        assert {each.status for each in results if each.outcome == "errored"} == {413}
        assert b"at most 50 bytes" in bytes(results[-1].body)
        await stop(task)

    run(test)


def test_results_are_written_while_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that reads slowly must not make a worker hold the results of a batch."""
    monkeypatch.setattr(batches, "PIECE", 100)

    async def test() -> None:
        at = runtime()
        batch = await create(at, 40)
        task = running(at, Answers())
        await until(at, batch.id, ended)
        read: list[int] = []
        find = at.batches.result

        async def result(owner: str | None, id: str, index: int) -> BatchRowResult | None:
            read.append(index)
            return await find(owner, id, index)

        monkeypatch.setattr(at.batches, "result", result)
        app = App(at)
        headers = {"authorization": f"Bearer {KEY}"}
        path = f"/v1/messages/batches/{batch.id}/results"
        response = await app.answer(HttpRequest(method="GET", path=path, headers=headers))
        assert callable(response.body)
        pieces: list[bytes] = []
        most = 0

        async def write(data: bytes) -> None:
            nonlocal most
            pieces.append(data)
            most = max(most, len(read) - b"".join(pieces).count(b"\n"))

        await response.body(write)
        assert [json.loads(line)["custom_id"] for line in b"".join(pieces).splitlines()] == [f"r{n}" for n in range(40)]
        assert len(pieces) > 10
        assert most == 0
        await stop(task)

    run(test)


def test_results_have_the_limits_of_their_key() -> None:
    async def test() -> None:
        at = runtime(of_key="requests_per_minute = 50")
        batch = await create(at)
        task = running(at, Answers())
        await until(at, batch.id, ended)
        path = f"/v1/messages/batches/{batch.id}/results"
        headers = {"authorization": f"Bearer {KEY}"}
        response = await App(at).answer(HttpRequest(method="GET", path=path, headers=headers))
        assert "X-RateLimit-Limit-Requests" in dict(response.headers)
        await stop(task)

    run(test)


def test_batches_are_listed_by_page_and_dialect() -> None:
    async def test() -> None:
        at = runtime()
        made = [(await create(at)).id for _ in range(3)]
        await create(at, wire="openai_chat")
        page = await at.batches.run("ann", BatchQuery("list", WIRE, limit=2))
        assert isinstance(page, BatchPage)
        assert ([each.id for each in page.batches], page.has_more) == ([made[2], made[1]], True)
        rest = await at.batches.run("ann", BatchQuery("list", WIRE, after=made[1]))
        assert isinstance(rest, BatchPage)
        assert [each.id for each in rest.batches] == [made[0]]
        with pytest.raises(InvalidRequest, match="after must be"):
            await at.batches.run("ann", BatchQuery("list", WIRE, after="none"))
        for action in ("results", "drop"):
            with pytest.raises(InvalidRequest, match="must have ended"):
                await at.batches.run("ann", BatchQuery(action, WIRE, made[0]))
        with pytest.raises(NotStored):
            await at.batches.run("ben", BatchQuery("fetch", WIRE, made[0]))

    run(test)


def test_the_result_of_a_row_survives_the_store() -> None:
    result = BatchRowResult(
        custom_id="a", outcome="succeeded", status=200, request_id="r", body=msgspec.Raw(b'{"a":1}')
    )
    data = msgspec.json.encode(result)
    assert msgspec.json.decode(data)["body"] == {"a": 1}


def test_batches_that_an_older_version_stored_are_read() -> None:
    row = msgspec.json.decode(b'{"custom_id": "a", "fate": "succeeded", "status": 200}', type=BatchRowResult)
    assert row.outcome == "succeeded"
    text = b'{"id": "b", "wire": "anthropic", "endpoint": "/v1/messages", "created": 1, "expires": 2, "fates": {"errored": 3}}'
    assert msgspec.json.decode(text, type=StoredBatch).count("errored") == 3
