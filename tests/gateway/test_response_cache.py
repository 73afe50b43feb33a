"""The response cache: what is equal, who shares it, and what waits for what."""

import asyncio
import json
import time
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.engine.effects import Send
from dragoman.errors import SetupError
from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.config import decode_config
from dragoman.gateway.response_cache import cache_key
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.store import open_store
from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import Request, Tool, user
from tests.support.gateway.dialects import ClientResponse, hello, request_of, response_of, send_blocking, send_request
from tests.support.gateway.redis_server import RedisServer
from tests.support.gateway.usage import stored_rows

CONFIG = '[gateway]\nproviders = ["demo"]\n[cache]\nalways = true\n'
DIALECTS = ("openai_chat", "anthropic", "google", "ollama", "openai_responses", "native")


def app_of(config: str = CONFIG) -> App:
    return App(Runtime(decode_config(config), {}))


def ask(app: App, dialect: str = "openai_chat", request: Request | None = None, **headers: str) -> ClientResponse:
    http = request_of(dialect, "demo/any", request or hello())
    return send_blocking(
        app, replace(http, headers={**http.headers, **{n.replace("_", "-"): v for n, v in headers.items()}})
    )


def cache_of(seen: ClientResponse) -> str | None:
    return seen.headers.get("x-dragoman-cache")


# What is equal --------------------------------------------------------------------------------------------------------


def test_an_equal_request_gets_the_same_answer() -> None:
    app = app_of()
    first, second = ask(app), ask(app)
    assert (cache_of(first), cache_of(second)) == ("miss", "hit")
    assert response_of("openai_chat", hello(), first).text == response_of("openai_chat", hello(), second).text
    assert "x-dragoman-attempts" not in second.headers
    assert second.headers["x-dragoman-target"] == "demo/any"


def test_a_stream_may_have_fewer_answers_so_it_is_another_entry() -> None:
    for n, is_same in ((1, True), (2, False)):
        keys = {cache_key(replace(hello(stream=stream), n=n), "m", "o") for stream in (False, True)}
        assert (len(keys) == 1) == is_same


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_streamed_answer_is_replayed_as_a_stream_in_every_dialect(dialect: str) -> None:
    app, stream = app_of(), hello(stream=True)
    first, second = ask(app, dialect, stream), ask(app, dialect, stream)
    assert (cache_of(first), cache_of(second)) == ("miss", "hit")
    one, two = (response_of(dialect, stream, seen) for seen in (first, second))
    assert (one.text, one.usage, one.finish.reason) == (two.text, two.usage, two.finish.reason)


def test_a_stream_and_a_whole_answer_are_the_same() -> None:
    app = app_of()
    ask(app, request=hello(stream=True))
    assert cache_of(ask(app)) == "hit"


def test_dialects_share_answers() -> None:
    app = app_of()
    ask(app, "native")
    assert cache_of(ask(app, "ollama")) == "hit"


@pytest.mark.parametrize(
    "other",
    [
        {"temperature": 0.5},
        {"system": "Be brief."},
        {"messages": (user("hello "),)},
        {"tools": (Tool(name="tide", parameters={"type": "object"}),)},
        {"max_tokens": 5},
        {"user": "bob"},
    ],
)
def test_any_difference_is_another_request(other: dict[str, Any]) -> None:
    assert cache_key(replace(hello(), **other), "m", "") != cache_key(hello(), "m", "")


def test_the_model_and_the_owner_are_part_of_the_key() -> None:
    keys = {cache_key(hello(), model, owner) for model in ("a", "b") for owner in ("", "key x", "team x")}
    assert len(keys) == 6


def test_tool_calls_come_from_the_cache_too() -> None:
    app = app_of()
    tool = Tool(name="tide", parameters={"type": "object", "properties": {"port": {"type": "string"}}})
    request = Request(messages=(user("Use tide"),), tools=(tool,), tool_choice="required")
    first, second = (response_of("anthropic", request, ask(app, "anthropic", request)) for _ in range(2))
    assert first.tool_calls == second.tool_calls != ()


# Who uses it ----------------------------------------------------------------------------------------------------------


def test_a_request_opts_in_out_or_refreshes() -> None:
    app = app_of(CONFIG.replace("always = true", ""))
    assert cache_of(ask(app)) is None
    assert cache_of(ask(app, x_dragoman_cache="on")) == "miss"
    assert cache_of(ask(app, x_dragoman_cache="ON")) == "hit"
    assert cache_of(ask(app, x_dragoman_cache="refresh")) == "refresh"
    assert cache_of(ask(app_of(), x_dragoman_cache="off")) is None


def test_another_word_is_refused_with_the_right_ones() -> None:
    seen = ask(app_of(), x_dragoman_cache="maybe")
    assert seen.status == 400
    assert b"x-dragoman-cache must be on, off or refresh" in seen.body


@pytest.mark.parametrize(
    ("scope", "hits"),
    [("key", ["miss", "miss", "miss"]), ("team", ["miss", "hit", "miss"]), ("all", ["miss", "hit", "hit"])],
)
def test_the_scope_says_who_shares_answers(scope: str, hits: list[str]) -> None:
    plain = {name: new_key() for name in ("ann", "bob", "eve")}
    teams = {"ann": "red", "bob": "red", "eve": "blue"}
    config = CONFIG.replace("always = true", f'scope = "{scope}"') + "[teams.red]\n[teams.blue]\n"
    for name, (_, digest) in plain.items():
        config += f'[keys.{name}]\nhash = "{digest}"\nteam = "{teams[name]}"\ncache = true\n'
    app = app_of(config)
    assert [cache_of(ask(app, authorization=f"Bearer {key}")) for key, _ in plain.values()] == hits


def test_a_hit_costs_nothing_and_is_in_the_usage_log() -> None:
    app = app_of()
    ask(app)
    ask(app)

    async def rows() -> Any:
        await app.runtime.accounting.usage_log.flush()
        return await stored_rows(app.runtime.store, 2)

    second, first = asyncio.run(rows())
    assert (first.cache, second.cache) == ("miss", "hit")
    assert first.input > 0
    assert (second.input, second.output, second.attempts) == (0, 0, 0)
    assert b'dragoman_cache_requests_total{result="hit"} 1' in asyncio.run(app.runtime.accounting.scrape())


def test_large_requests_and_answers_are_not_stored() -> None:
    app = app_of(CONFIG + "max_answer = 10\n")
    assert [cache_of(ask(app)) for _ in range(2)] == ["miss", "miss"]
    large = Request(messages=(user("x" * 1_100_000),))
    assert cache_of(ask(app, request=large)) == "skipped"


def test_errors_are_not_stored() -> None:
    app = app_of(CONFIG + "[chain]\nretries = 0\n")
    http = request_of("openai_chat", "demo/overloaded", hello())
    assert [send_blocking(app, http).status for _ in range(2)] == [503, 503]


# One call for equal requests ------------------------------------------------------------------------------------------


class Slow:
    """A provider that answers when it may."""

    def __init__(self, statuses: list[int] | None = None) -> None:
        self.calls = 0
        self.may_answer = asyncio.Event()
        self.has_call = asyncio.Event()
        self._statuses = statuses or []

    async def asend(self, _effect: Send) -> HttpResponse:
        self.calls += 1
        self.has_call.set()
        await self.may_answer.wait()
        status = self._statuses.pop(0) if self._statuses else 200
        message = {"role": "assistant", "content": f"answer {self.calls}"}
        body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        return HttpResponse(status=status, body=json.dumps(body).encode())

    def send(self, effect: Send) -> Any: ...
    def open(self, effect: Any) -> Any: ...
    async def aopen(self, effect: Any) -> Any: ...
    def close(self) -> None: ...


def slow_app(slow: Slow) -> tuple[App, HttpRequest]:
    app = app_of(CONFIG + '[providers.slow]\nlike = "openai"\napi_key = "k"\n[chain]\nretries = 0\n')
    app.runtime.registry.add_provider(name="slow", like="openai-chat", api_key="k", http_client=slow)
    return app, request_of("openai_chat", "slow/m", hello())


async def settled() -> None:
    """Until every request waits for another one, or for its provider: each takes a few rounds of the loop."""
    for _ in range(50):
        await asyncio.sleep(0)


def test_equal_requests_at_the_same_time_make_one_call() -> None:
    async def run() -> tuple[int, list[str]]:
        slow = Slow()
        app, http = slow_app(slow)
        requests = [asyncio.create_task(send_request(app, http)) for _ in range(10)]
        await settled()
        slow.may_answer.set()
        statuses = sorted(str(cache_of(seen)) for seen in await asyncio.gather(*requests))
        return slow.calls, statuses

    assert asyncio.run(run()) == (1, ["hit"] * 9 + ["miss"])


def test_if_the_first_client_leaves_another_request_calls() -> None:
    async def run() -> tuple[int, list[str]]:
        slow = Slow()
        app, http = slow_app(slow)
        first = asyncio.create_task(send_request(app, http))
        await slow.has_call.wait()
        others = [asyncio.create_task(send_request(app, http)) for _ in range(3)]
        await settled()
        slow.has_call.clear()
        first.cancel()
        await slow.has_call.wait()
        slow.may_answer.set()
        statuses = sorted(str(cache_of(seen)) for seen in await asyncio.gather(*others))
        return slow.calls, statuses

    assert asyncio.run(run()) == (2, ["hit", "hit", "miss"])


def test_if_the_first_request_fails_another_one_calls() -> None:
    async def run() -> tuple[int, list[int]]:
        slow = Slow([400])
        app, http = slow_app(slow)
        requests = [asyncio.create_task(send_request(app, http)) for _ in range(3)]
        await settled()
        slow.may_answer.set()
        statuses = sorted(seen.status for seen in await asyncio.gather(*requests))
        return slow.calls, statuses

    assert asyncio.run(run()) == (2, [200, 200, 400])


# Stores ---------------------------------------------------------------------------------------------------------------


def test_a_cache_in_sqlite_survives_a_restart(tmp_path: Path) -> None:
    assert look_in_two_gateways(f"sqlite:{tmp_path}/cache.db") == ["miss", "hit"]


def test_gateways_share_a_cache_in_redis(redis: RedisServer) -> None:
    assert look_in_two_gateways(redis.url) == ["miss", "hit"]


def look_in_two_gateways(store: str) -> list[str | None]:
    config = CONFIG + f'store = "{store}"\n'

    async def run() -> list[str | None]:
        apps = [app_of(config) for _ in range(2)]
        http = request_of("openai_chat", "demo/any", Request(messages=(user(token_hex(8)),)))
        statuses = [cache_of(await send_request(app, http)) for app in apps]
        for app in apps:
            await app.close()
        return statuses

    return asyncio.run(run())


@pytest.fixture(params=["memory", "sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return str(request.getfixturevalue("redis").url)
    return "memory" if request.param == "memory" else f"sqlite:{tmp_path}/bounded.db"


def test_the_oldest_values_of_a_cache_are_deleted(url: str) -> None:
    async def run() -> list[bool]:
        store = open_store(url, max_bytes=1000)
        for number in range(30):
            await store.write(f"k{number}", b"x" * 100, ttl=60.0 + number)
        await store.write("k29", b"y" * 100, ttl=100.0)
        kept = [await store.read(f"k{number}") is not None for number in range(30)]
        await store.aclose()
        return kept

    kept = asyncio.run(run())
    assert 5 <= sum(kept) <= 10
    assert kept[-1]
    assert kept == sorted(kept)


def test_an_answer_is_deleted_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_of(CONFIG + "ttl = 60\n")
    ask(app)
    later = time.time() + 61
    monkeypatch.setattr(app.runtime.cache._store, "_clock", lambda: later)  # type: ignore[union-attr]
    assert cache_of(ask(app)) == "miss"


def test_a_cache_whose_store_is_down_is_passed_over() -> None:
    app = app_of(CONFIG + 'store = "redis://127.0.0.1:1/0"\n')
    assert [ask(app).status for _ in range(2)] == [200, 200]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ('store = "disk"', "cache.store must be memory, sqlite:PATH or redis"),
        ('scope = "me"', "cache.scope must be all, key or team, got 'me'"),
        ("ttl = 0", "cache.ttl must be seconds > 0, got 0"),
        ("size = 5", "cache: unknown setting 'size'"),
    ],
)
def test_a_wrong_setting_is_named(table: str, problem: str) -> None:
    with pytest.raises(SetupError) as caught:
        decode_config(f"[cache]\n{table}")
    assert problem in str(caught.value)


def test_a_cache_needs_a_file_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"cache\.store must be another file"):
        decode_config(f'[gateway]\nstore = "sqlite:{tmp_path}/a.db"\n[cache]\nstore = "sqlite:{tmp_path}/a.db"')


def test_a_reload_keeps_the_cache_unless_its_settings_change() -> None:
    first = Runtime(decode_config(CONFIG), {})
    same = Runtime(decode_config(CONFIG), {}, first)
    other = Runtime(decode_config(CONFIG + "ttl = 5"), {}, same)
    assert same.cache is first.cache
    assert other.cache is not same.cache
