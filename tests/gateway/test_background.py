"""Responses in the background: fetched, followed and cancelled while they run, and after that."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.responses import Response, ResponseItemList
from pydantic import TypeAdapter

from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.store import open_store
from dragoman.gateway.stored_values import store_key
from dragoman.http import HttpRequest
from dragoman.testing import CloseAfter, FaultyServer, Paced, StallAfter
from tests.gateway.test_client_disconnects import SHOWN, WORDS
from tests.support.gateway.dialects import app_of, post, send_request
from tests.support.gateway.live import PATIENCE, Gateway, record
from tests.support.gateway.redis_server import RedisServer


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(upstream: FaultyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("gateway"), f"[chain]\nretries = 0\n{record('up', upstream.base_url())}") as g:
        yield g


@pytest.fixture
def client(gateway: Gateway) -> OpenAI:
    return OpenAI(api_key="x", base_url=f"{gateway.url}/v1", max_retries=0, timeout=PATIENCE)


def strict(response: Response) -> Response:
    TypeAdapter(Response).validate_json(response.to_json(), strict=True)
    return response


def wait_for(client: OpenAI, id: str, *statuses: str) -> Response:
    deadline = time.monotonic() + PATIENCE
    while (response := strict(client.responses.retrieve(id))).status not in statuses:
        assert time.monotonic() < deadline, response.status
        time.sleep(0.02)
    return response


def stalled(client: OpenAI, upstream: FaultyServer) -> Response:
    """A response that is running, and waits for its provider."""
    upstream.add(StallAfter(SHOWN, WORDS))
    created = client.responses.create(model="up/m", input="hi", background=True)
    assert strict(created).status == "queued"
    return wait_for(client, created.id, "in_progress")


def test_a_response_is_fetched_when_it_is_complete(client: OpenAI, upstream: FaultyServer) -> None:
    upstream.add("4.2 m")
    created = client.responses.create(model="up/m", input="How high?", background=True)
    assert (strict(created).status, created.output, created.background) == ("queued", [], True)
    done = wait_for(client, created.id, "completed")
    assert (done.output_text, done.background) == ("4.2 m", True)
    assert client.responses.cancel(created.id).status == "completed"
    upstream.add("It is.")
    following = client.responses.create(model="up/m", input="Sure?", previous_response_id=created.id)
    assert following.output_text == "It is."
    client.responses.delete(created.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(created.id)


def test_a_running_response_is_followed_and_cancelled(client: OpenAI, upstream: FaultyServer) -> None:
    running = stalled(client, upstream)
    items = client.responses.input_items.list(running.id)
    assert [item.type for item in items] == ["message"]
    stream = client.responses.retrieve(running.id, stream=True)
    kinds: list[str] = []
    text = ""
    for event in stream:
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
        if "three" in text:
            break
    stream.close()
    assert kinds[:2] == ["response.created", "response.in_progress"]
    # Who follows may leave and come back.
    later = client.responses.retrieve(running.id, stream=True, starting_after=1)
    assert next(iter(later)).sequence_number == 2
    cancelled = strict(client.responses.cancel(running.id))
    assert cancelled.status == "cancelled"
    assert upstream.client_disconnected.acquire(timeout=PATIENCE)
    for _ in later:
        pass
    assert strict(client.responses.retrieve(running.id)).status == "cancelled"
    assert client.responses.cancel(running.id).status == "cancelled"
    with pytest.raises(openai.BadRequestError, match="has no answer"):
        client.responses.retrieve(running.id, stream=True)


def input_texts(client: OpenAI, id: str) -> list[str]:
    page = client.responses.input_items.list(id, order="asc")
    TypeAdapter(ResponseItemList).validate_json(page.to_json(), strict=True)
    return [item.to_dict()["content"][0]["text"] for item in page]  # type: ignore[index] # all are messages


def test_a_response_without_an_answer_lists_its_input(client: OpenAI, upstream: FaultyServer) -> None:
    running = stalled(client, upstream)
    client.responses.cancel(running.id)
    assert input_texts(client, running.id) == ["hi"]
    upstream.add(CloseAfter(SHOWN, WORDS))
    created = client.responses.create(model="up/m", input="Fail.", background=True)
    wait_for(client, created.id, "failed")
    assert input_texts(client, created.id) == ["Fail."]
    client.responses.delete(created.id)
    with pytest.raises(openai.NotFoundError):
        input_texts(client, created.id)


def test_a_response_that_never_ran_lists_its_input() -> None:
    async def cancel_at_once() -> tuple[Any, Any]:
        app = app_of("[gateway]\nlog = false")
        body = json.dumps({"model": "demo/any", "input": "Cancel me.", "background": True}).encode()
        path = f"/v1/responses/{json.loads((await send_request(app, post('/v1/responses', body))).body)['id']}"
        cancelled = await send_request(app, post(f"{path}/cancel", b"{}"))
        items = await send_request(app, HttpRequest(method="GET", path=f"{path}/input_items"))
        await app.close()
        return json.loads(cancelled.body), json.loads(items.body)

    cancelled, items = asyncio.run(cancel_at_once())
    assert (cancelled["status"], cancelled["output"]) == ("cancelled", [])
    assert [item["content"] for item in items["data"]] == [[{"type": "input_text", "text": "Cancel me."}]]


def test_a_client_that_leaves_its_stream_does_not_end_the_response(client: OpenAI, upstream: FaultyServer) -> None:
    upstream.add("one two three")
    stream = client.responses.create(model="up/m", input="hi", background=True, stream=True)
    first: Any = next(iter(stream))
    stream.close()
    done = wait_for(client, first.response.id, "completed")
    assert done.output_text == "one two three"
    again = [event.type for event in client.responses.retrieve(done.id, stream=True)]
    assert (again[0], again[-1]) == ("response.created", "response.completed")


def test_a_response_that_fails_says_so(client: OpenAI, upstream: FaultyServer) -> None:
    upstream.add(CloseAfter(SHOWN, WORDS))
    created = client.responses.create(model="up/m", input="hi", background=True)
    failed = wait_for(client, created.id, "failed")
    assert failed.error is not None
    assert failed.error.code == "server_error"
    upstream.add(CloseAfter(SHOWN, WORDS))
    events = list(client.responses.create(model="up/m", input="hi", background=True, stream=True))
    assert events[-1].type == "response.failed"


def test_a_running_response_can_be_deleted(client: OpenAI, upstream: FaultyServer) -> None:
    running = stalled(client, upstream)
    client.responses.delete(running.id)
    assert upstream.client_disconnected.acquire(timeout=PATIENCE)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(running.id)


def test_what_cannot_be_cancelled_or_kept_is_refused(client: OpenAI, upstream: FaultyServer) -> None:
    upstream.add("Hello.")
    plain = client.responses.create(model="up/m", input="hi")
    with pytest.raises(openai.BadRequestError, match="synchronous"):
        client.responses.cancel(plain.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.cancel("resp_unknown")
    with pytest.raises(openai.BadRequestError, match="store must be true"):
        client.responses.create(model="up/m", input="hi", background=True, store=False)


def test_input_items_come_in_pages(client: OpenAI, upstream: FaultyServer) -> None:
    upstream.add("Hello.")
    turns: Any = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"{i}"} for i in range(45)]
    created = client.responses.create(model="up/m", input=turns, background=True)
    wait_for(client, created.id, "completed")
    for order in ("asc", "desc"):
        page = client.responses.input_items.list(created.id, limit=20, order=order)
        TypeAdapter(ResponseItemList).validate_json(page.to_json(), strict=True)
        texts = [item.to_dict()["content"][0]["text"] for item in page]  # type: ignore[index] # all are messages
        assert texts == [f"{i}" for i in (range(45) if order == "asc" else reversed(range(45)))]


@pytest.fixture(params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store that workers share."""
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path}/db"
        return
    server = RedisServer()
    try:
        server.start()
        yield server.url
    finally:
        server.stop()


@pytest.fixture
def own_upstream() -> Iterator[FaultyServer]:
    """A provider of one test: nothing of another test is in its script or its counts."""
    with FaultyServer() as server:
        yield server


def test_other_workers_and_keys_see_what_they_may(tmp_path: Path, own_upstream: FaultyServer, store: str) -> None:
    upstream = own_upstream
    alice, bob = new_key(), new_key()
    config = f'[gateway]\nstore = "{store}"\n[keys.alice]\nhash = "{alice[1]}"\n'
    config += f'[keys.bob]\nhash = "{bob[1]}"\n{record("up", upstream.base_url())}'
    with Gateway(tmp_path, config, workers=2) as gateway:

        def connected(key: str) -> OpenAI:
            headers = {"connection": "close"}  # each request goes to any worker
            return OpenAI(api_key=key, base_url=f"{gateway.url}/v1", max_retries=0, default_headers=headers)

        client = connected(alice[0])
        upstream.add(StallAfter(SHOWN, WORDS))
        created = client.responses.create(model="up/m", input="hi", background=True)
        assert upstream.request_received.acquire(timeout=PATIENCE)
        # Ten streams reach both workers, and each has the same events.
        streams = [client.responses.retrieve(created.id, stream=True) for _ in range(10)]
        heads = [[next(stream).to_json() for _ in range(3)] for stream in streams]
        assert heads == [heads[0]] * 10
        streams.append(client.responses.retrieve(created.id, stream=True, starting_after=1))
        assert next(streams[-1]).to_json() == heads[0][2]
        seen = {client.responses.retrieve(created.id).status for _ in range(20)}
        assert seen <= {"queued", "in_progress"}
        for call in (connected(bob[0]).responses.retrieve, connected(bob[0]).responses.cancel):
            with pytest.raises(openai.NotFoundError):
                call(created.id)
        assert client.responses.cancel(created.id).status == "cancelled"
        for stream in streams:
            with stream:
                assert "response.completed" not in {event.type for event in stream}  # and then it ends
        assert upstream.client_disconnected.acquire(timeout=PATIENCE)
        assert {client.responses.retrieve(created.id).status for _ in range(10)} == {"cancelled"}
        upstream.add(StallAfter(SHOWN, WORDS))
        last = client.responses.create(model="up/m", input="hi", background=True).id
        assert upstream.request_received.acquire(timeout=PATIENCE)
    # A gateway that stops does not leave it as running.
    with Gateway(tmp_path, config) as gateway:
        status, body = gateway.get(f"/v1/responses/{last}", authorization=f"Bearer {alice[0]}")
        assert (status, json.loads(body)["status"]) == (200, "failed")


def forget_lease(store: str, id: str) -> None:
    """What time does if nobody renews the lease of a response."""

    async def forget() -> None:
        opened = open_store(store)
        assert await opened.delete(store_key("lease", None, id))
        await opened.aclose()

    asyncio.run(forget())


def test_another_gateway_follows_cancels_and_outlives_it(
    tmp_path: Path, own_upstream: FaultyServer, store: str
) -> None:
    upstream = own_upstream
    config = f'[gateway]\nstore = "{store}"\n[chain]\nretries = 0\n{record("up", upstream.base_url())}'
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with Gateway(folders[0], config) as one, Gateway(folders[1], config) as two:
        here, there = (
            OpenAI(api_key="x", base_url=f"{gateway.url}/v1", max_retries=0, timeout=PATIENCE) for gateway in (one, two)
        )
        # The other one has every event, while it runs and afterwards.
        # The answer takes long enough for the other one to follow it: an answer that is over comes as one piece.
        upstream.add(Paced("one two three four five six seven", delay=0.4))
        stream = here.responses.create(model="up/m", input="hi", background=True, stream=True)
        first: Any = next(iter(stream))
        followed = [event.to_json() for event in there.responses.retrieve(first.response.id, stream=True)]
        assert followed == [first.to_json(), *(event.to_json() for event in stream)]
        done = strict(there.responses.retrieve(first.response.id))
        assert (done.status, done.output_text) == ("completed", "one two three four five six seven")
        again = [event.type for event in there.responses.retrieve(done.id, stream=True, starting_after=3)]
        assert again[-1] == "response.completed"
        # It can cancel.
        running = stalled(here, upstream)
        follower = there.responses.retrieve(running.id, stream=True)
        assert next(iter(follower)).type == "response.created"
        assert strict(there.responses.cancel(running.id)).status == "cancelled"
        assert upstream.client_disconnected.acquire(timeout=PATIENCE)
        assert [event.type for event in follower][-1] != "response.completed"
        assert wait_for(here, running.id, "cancelled").status == "cancelled"
        # The gateway that runs a response dies: who follows is told so, and nobody sees it as running.
        running = stalled(here, upstream)
        follower = there.responses.retrieve(running.id, stream=True)
        assert next(iter(follower)).type == "response.created"
        one.kill()
        forget_lease(store, running.id)
        last: Any = [*follower][-1]
        assert (last.type, last.response.status) == ("response.failed", "failed")
        failed = strict(there.responses.retrieve(running.id))
        assert failed.status == "failed"
        assert failed.error is not None
        assert "has stopped" in failed.error.message
        assert upstream.client_disconnected.acquire(timeout=PATIENCE)
