"""Two gateways on one Redis: what is changed at one holds at the other within a second, and nothing is dropped."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.store import open_store
from tests.support.clock import slowness
from tests.support.gateway.admin import ADMIN, ROOT_CONFIG, running
from tests.support.gateway.counting_provider import ClientView, CountingProvider, ask, together
from tests.support.gateway.live import PATIENCE, Gateway, record
from tests.support.gateway.redis_server import RedisServer

CROWD = 120


@pytest.fixture(scope="module")
def upstream() -> Iterator[CountingProvider]:
    with CountingProvider() as server:
        yield server


@pytest.fixture(scope="module")
def gateways(upstream: CountingProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Gateway]]:
    redis = RedisServer()
    try:
        redis.start()
        config = f'{ROOT_CONFIG}[gateway]\nstore = "{redis.url}"\n' + record("up", upstream.base_url)
        folders: list[Path] = [tmp_path_factory.mktemp("gateway") for _ in range(2)]
        with Gateway(folders[0], config) as one, Gateway(folders[1], config) as other:
            yield one, other
    finally:
        redis.stop()


def body(model: str, who: str, *, stream: bool = False) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": who}], "max_tokens": 2, "stream": stream}


def do(gateway: Gateway, method: str, path: str, body: object = None) -> Any:
    connection = gateway.connect()
    try:
        headers = {"content-type": "application/json", "authorization": f"Bearer {ADMIN}"}
        connection.request(method, f"/admin/api/{path}", None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        assert response.status in (200, 201), answer
        return answer
    finally:
        connection.close()


def ask_both(gateways: tuple[Gateway, Gateway], key: str) -> list[ClientView]:
    return together([partial(ask, gateways[n % 2].port, body("up/m", f"{n:03}"), key) for n in range(CROWD)])


PAUSE = 0.01
"""Seconds between two requests of one client, which leave the processor to the gateways."""


def seconds_until(gateway: Gateway, key: str, status: int, model: str = "up/m") -> float:
    """How long it takes until a gateway answers a key with a status."""
    start = time.monotonic()
    while time.monotonic() < start + PATIENCE:
        (view,) = together([partial(ask, gateway.port, body(model, "one"), key)])
        if view.status == status:
            return time.monotonic() - start
        time.sleep(PAUSE)
    raise AssertionError(f"the status {status} did not come")


def test_every_change_holds_at_the_other_gateway_within_a_second(gateways: tuple[Gateway, Gateway]) -> None:
    """Keys, limits, teams, aliases and providers, in both directions, while both gateways have load."""
    both = gateways
    times: dict[str, float] = {}
    is_over = threading.Event()

    def load(gateway: Gateway) -> int:
        count = 0
        while not is_over.wait(PAUSE):
            count += (
                gateway.post("/v1/chat/completions", body("up/m", "load"), authorization=f"Bearer {ADMIN}")[0] == 200
            )
        return count

    for gateway in both:
        seconds_until(gateway, ADMIN, 200)  # the first request of a process loads modules
    with ThreadPoolExecutor(4) as pool:
        loads = [pool.submit(load, gateway) for gateway in both * 2]
        try:
            for number in range(4):
                times |= change_everything(number, both[number % 2], both[1 - number % 2])
        finally:
            is_over.set()
        assert all(each.result() for each in loads)
    most = 1.0 * slowness()
    assert {name: seconds for name, seconds in times.items() if seconds >= most} == {}


def change_everything(number: int, one: Gateway, other: Gateway) -> dict[str, float]:
    """Seconds until each kind of change at one gateway holds at the other."""
    name, times = f"fast{number}", dict[str, float]()
    key = do(one, "POST", "keys", {"name": name})["key"]
    times["key made"] = seconds_until(other, key, 200)
    do(one, "PATCH", f"keys/{name}", {"requests_per_minute": 1})
    times["limit made"] = seconds_until(other, key, 429)
    do(one, "PATCH", f"keys/{name}", {"requests_per_minute": None, "models": ["none/*"]})
    times["models changed"] = seconds_until(other, key, 403)
    new = do(one, "POST", f"keys/{name}/rotate", {"overlap": 0})["key"]
    times["key rotated"] = seconds_until(other, key, 401)
    do(one, "PATCH", f"keys/{name}", {"models": ["*"]})
    times["models allowed"] = seconds_until(other, new, 200)
    do(one, "POST", f"keys/{name}/disable")
    times["key disabled"] = seconds_until(other, new, 401)
    do(one, "PUT", f"aliases/{name}", {"spec": "up/m"})
    times["alias made"] = seconds_until(other, ADMIN, 200, name)
    do(one, "DELETE", f"aliases/{name}")
    times["alias deleted"] = seconds_until(other, ADMIN, 404, name)
    table = {**do(one, "GET", "providers/up")["table"], "api_key": "sk-other"}
    do(one, "PUT", f"providers/{name}", {"table": table})
    times["provider made"] = seconds_until(other, ADMIN, 200, f"{name}/m")
    team = do(one, "POST", "teams", {"name": name, "requests_per_minute": 1})["name"]
    member = do(one, "POST", "keys", {"name": f"{name}-member", "team": team})["key"]
    seconds_until(other, member, 200)
    times["limit of a team"] = seconds_until(other, member, 429)
    return {f"{each} {number}": seconds for each, seconds in times.items()}


def test_limits_made_at_run_time_hold_at_both_exactly(
    gateways: tuple[Gateway, Gateway], upstream: CountingProvider
) -> None:
    one, other = gateways
    do(one, "POST", "teams", {"name": "research", "requests_per_minute": 50})
    keys = [
        do(gateways[n], "POST", "keys", {"name": name, "team": "research", "requests_per_minute": 30})["key"]
        for n, name in enumerate(("ann", "bob"))
    ]
    for gateway in gateways:
        for key in keys:
            assert seconds_until(gateway, key, 200) < PATIENCE
    do(other, "POST", "teams/research/reset")
    used = {
        key: do(one, "GET", f"keys/{name}")["levels"][0]["used"] for key, name in zip(keys, ("ann", "bob"), strict=True)
    }
    upstream.counted.clear()
    views = {key: ask_both(gateways, key) for key in keys}
    passed = {key: Counter(view.status for view in views[key])[200] for key in keys}
    assert set(Counter(view.status for own in views.values() for view in own)) == {200, 429}
    assert passed[keys[0]] + used[keys[0]] == 30
    assert sum(passed.values()) + sum(used.values()) == 50  # the team's limit, which is per minute and not reset


def test_limits_of_a_deployment_hold_for_both_together(
    gateways: tuple[Gateway, Gateway], upstream: CountingProvider
) -> None:
    one, other = gateways
    table = {"wire": "openai_chat", "base_url": upstream.base_url, "needs_key": False}
    for name, limits in (("slow", {"requests_per_minute": 40}), ("narrow", {"concurrent": 3})):
        do(one, "PUT", f"providers/{name}", {"table": {**table, "deployment_limits": limits}})
    key = do(one, "POST", "keys", {"name": "many"})["key"]
    seconds_until(other, key, 200)  # the key came after the providers

    def ask_model(model: str) -> list[int]:
        views = together([partial(ask, gateways[n % 2].port, body(model, f"{model}{n:03}"), key) for n in range(CROWD)])
        return [view.status for view in views]

    upstream.counted.clear()
    assert Counter(ask_model("slow/m")) == {200: 40, 429: CROWD - 40}
    assert len(upstream.counted) == 40
    upstream.most = 0

    async def held() -> None:
        asked = [ask(gateways[n % 2].port, body("narrow/hold", f"{n:03}"), key) for n in range(12)]
        answers = asyncio.gather(*asked)
        while upstream.in_flight < 3:  # noqa: ASYNC110 - another thread counts
            await asyncio.sleep(0.01)
        upstream.let_go()
        await answers

    asyncio.run(asyncio.wait_for(held(), 4 * PATIENCE))
    assert upstream.most == 3


def test_a_change_under_load_drops_nothing(gateways: tuple[Gateway, Gateway]) -> None:
    one, other = gateways
    key = do(one, "POST", "keys", {"name": "steady"})["key"]
    for gateway in gateways:
        seconds_until(gateway, key, 200)
    table = do(one, "GET", "providers/up")["table"]

    def change(number: int) -> None:
        gateway = gateways[number % 2]
        do(gateway, "POST", "keys", {"name": f"load{number}"})
        do(gateway, "PUT", f"aliases/load{number}", {"spec": "up/m"})
        do(gateway, "PUT", "providers/up", {"table": {**table, "headers": {"x-number": str(number)}}})

    async def changes() -> None:
        for number in range(8):
            await asyncio.to_thread(change, number)

    async def client(number: int) -> list[int]:
        port = gateways[number % 2].port
        return [(await ask(port, body("up/m", f"{number:03}", stream=turn % 2 == 0), key)).status for turn in range(25)]

    async def main() -> list[int]:
        changing = asyncio.create_task(changes())
        statuses = [status for own in await asyncio.gather(*map(client, range(16))) for status in own]
        await changing
        return statuses

    assert Counter(asyncio.run(main())) == {200: 16 * 25}
    names = {each["name"] for each in do(other, "GET", "keys")["keys"]}
    assert {f"load{number}" for number in range(8)} <= names


def test_concurrent_changes_are_all_stored_and_audited(gateways: tuple[Gateway, Gateway]) -> None:
    async def make(number: int) -> None:
        await asyncio.to_thread(do, gateways[number % 2], "POST", "teams", {"name": f"at-once-{number}"})

    async def main() -> None:
        await asyncio.gather(*map(make, range(20)))

    asyncio.run(main())
    changes = do(gateways[0], "GET", "audit?limit=20")["changes"]
    assert {change["name"] for change in changes} == {f"at-once-{number}" for number in range(20)}
    assert len({change["id"] for change in changes}) == 20


def test_a_store_that_lost_all_keys_lets_nobody_in(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'store.db'}"

    async def main() -> None:
        async with running(f'[gateway]\nstore = "{url}"\n') as admin:
            await admin.do("POST", "keys", {"name": "ops", "role": "admin"}, key=None)
            store = open_store(url)
            await store.delete("managed")
            await store.aclose()
            await admin.app.manager.poll()
            assert (await admin.chat(None))[0] == 401

    asyncio.run(main())
