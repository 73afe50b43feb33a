"""Conversations with live gateways: at once, over two processes, and over the death of one and of the store."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dragoman.testing import FaultyServer
from dragoman.types import ToolCall
from tests.support.gateway.live import Gateway, record
from tests.support.gateway.redis_server import RedisServer

NATIVE = "/native/v1/chat/completions"
MANY = 50
TOOL = {"type": "function", "function": {"name": "tide", "description": "x", "parameters": {"type": "object"}}}
QUESTION = {"role": "user", "content": "When?"}


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """One that may be killed."""
    server = RedisServer(keeps=True)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def apart(redis: RedisServer) -> str:
    """A database that other tests do not count the rows of."""
    return f"{redis.url}?db=1"


def ask(gateway: Gateway, *messages: Any, conversation: str | None = "c1", model: str = "up/m") -> tuple[int, Any]:
    body = {"model": model, "messages": [QUESTION, *messages], "tools": [TOOL], "conversation_id": conversation}
    status, _, answer = gateway.post(NATIVE, body)
    return status, json.loads(answer)


def call_in(answer: Any) -> Any:
    """The message of an answer that calls."""
    return answer["choices"][0]["message"]


def result_of(message: Any) -> list[Any]:
    """A message that calls, and the results that it is waiting for."""
    calls = message["tool_calls"]
    return [message, *({"role": "tool", "tool_call_id": call["id"], "content": "at six"} for call in calls)]


def ids_in(upstream: FaultyServer) -> list[str]:
    """The ids of all results that the provider was told last."""
    return [part.id for message in upstream.requests[-1].messages for part in message.tool_results]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])
def test_fifty_at_once_lose_no_id(tmp_path: Path, redis: RedisServer, kind: str) -> None:
    store = {"memory": "memory", "sqlite": f"sqlite:{tmp_path / 'gate.db'}", "redis": apart(redis)}[kind]
    calls = [ToolCall(id=f"their_{n}", name="tide") for n in range(MANY)]
    with FaultyServer(*calls, "Done.") as upstream:
        config = f'[gateway]\nstore = "{store}"\n' + record("up", upstream.base_url())
        with Gateway(tmp_path, config) as gateway, ThreadPoolExecutor(MANY) as pool:
            answers = list(pool.map(ask, [gateway] * MANY))
            assert {status for status, _ in answers} == {200}
            messages = [message for _, answer in answers for message in result_of(call_in(answer))]
            assert ask(gateway, *messages)[0] == 200
        assert sorted(ids_in(upstream)) == sorted(call.id for call in calls)


def test_a_conversation_survives_a_gateway_that_is_killed(tmp_path: Path) -> None:
    with FaultyServer(ToolCall(id="their_id_1", name="tide"), "At six.") as upstream:
        config = f'[gateway]\nstore = "sqlite:{tmp_path / "gate.db"}"\n' + record("up", upstream.base_url())
        with Gateway(tmp_path, config) as gateway:
            _, answer = ask(gateway)
            gateway.kill()
        with Gateway(tmp_path, config) as gateway:
            assert ask(gateway, *result_of(call_in(answer)))[0] == 200
        assert ids_in(upstream) == ["their_id_1"]


def test_a_pin_survives_a_gateway_that_is_killed(tmp_path: Path) -> None:
    weighted = '[tiers.simple]\nmodels = { "demo/any" = 1, "demo/echo" = 1 }\n'
    config = f'[gateway]\nstore = "sqlite:{tmp_path / "gate.db"}"\n' + weighted
    with Gateway(tmp_path, config) as gateway:
        before = {n: target_of(gateway, f"c{n}") for n in range(8)}
        gateway.kill()
    with Gateway(tmp_path, config) as gateway:
        assert {n: target_of(gateway, f"c{n}") for n in range(8)} == before


def target_of(gateway: Gateway, conversation: str) -> str:
    body = {"tier": "simple", "messages": [QUESTION], "conversation_id": conversation}
    return gateway.post(NATIVE, body)[1]["x-dragoman-target"]


def test_two_gateways_on_one_redis_share_conversations(tmp_path: Path, redis: RedisServer) -> None:
    with FaultyServer(ToolCall(id="their_id_1", name="tide"), "At six.") as upstream:
        config = f'[gateway]\nstore = "{apart(redis)}"\nproviders = ["demo"]\n' + record("up", upstream.base_url())
        folders = [tmp_path / "one", tmp_path / "other"]
        for folder in folders:
            folder.mkdir()
        with Gateway(folders[0], config) as one, Gateway(folders[1], config) as other:
            _, answer = ask(one, conversation="shared")
            assert ask(other, *result_of(call_in(answer)), conversation="shared")[0] == 200
            assert ids_in(upstream) == ["their_id_1"]
            id = json.loads(one.post("/v1/responses", {"model": "demo/any", "input": "hello"})[2])["id"]
            assert other.get(f"/v1/responses/{id}")[0] == 200


def test_while_redis_is_down_only_conversations_are_refused(tmp_path: Path, own_redis: RedisServer) -> None:
    with FaultyServer(ToolCall(id="their_id_1", name="tide"), "At six.") as upstream:
        config = f'[gateway]\nstore = "{own_redis.url}"\nproviders = ["demo"]\n' + record("up", upstream.base_url())
        with Gateway(tmp_path, config) as gateway:
            _, answer = ask(gateway)
            own_redis.kill()
            status, refused = ask(gateway, model="demo/any")
            assert (status, refused["error"]["code"]) == (503, "unavailable")
            assert ask(gateway, conversation=None, model="demo/any")[0] == 200
            assert gateway.get("/health/live")[0] == 200
            assert gateway.get("/health/ready")[0] == 503
            own_redis.start()
            gateway.wait_until(lambda: gateway.get("/health/ready")[0] == 200)
            assert ask(gateway, *result_of(call_in(answer)))[0] == 200
            assert ids_in(upstream) == ["their_id_1"]


def test_an_answer_that_redis_cannot_keep_is_given_and_told(tmp_path: Path, own_redis: RedisServer) -> None:
    with Gateway(tmp_path, f'[gateway]\nstore = "{own_redis.url}"\n') as gateway:
        own_redis.kill()
        body = {"model": "demo/any", "input": "hello"}
        status, headers, _ = gateway.post("/v1/responses", body)
        assert status == 200
        assert "not stored" in headers["x-dragoman-notice"]
        assert gateway.post("/v1/responses", {**body, "stream": True})[2].rstrip().endswith(b"}")
        assert gateway.post("/v1/responses", {**body, "store": False})[0] == 200
