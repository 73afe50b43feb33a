"""Credentials: cached, fetched again in time, once for many callers, blocking and async; never shown."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from dragoman.engine.effects import Open, OpenResponse, Send, Sign
from dragoman.errors import AuthFailed, TimedOut
from dragoman.http import HttpRequest, HttpResponse
from dragoman.io.credentials import CachedCredential, KeyFunction
from dragoman.models import Model
from dragoman.registry import Registry
from dragoman.targets.credentials import Token
from dragoman.targets.provider import Provider
from dragoman.targets.target import Target
from tests.support.sockets import PATIENCE

ANSWER = msgspec.json.encode({"message": {"content": "fine"}, "done": True, "done_reason": "stop"})


class Server:
    """A transport that accepts some keys and answers 401 to all others."""

    def __init__(self, *accepted: str) -> None:
        self.accepted = set(accepted)
        self.keys: list[str] = []

    def send(self, effect: Send, /) -> HttpResponse:
        key = effect.request.headers.get("authorization", "").removeprefix("Bearer ")
        self.keys.append(key)
        if key in self.accepted:
            return HttpResponse(body=ANSWER)
        return HttpResponse(status=401, body=msgspec.json.encode({"error": f"the key {key} is wrong"}))

    async def asend(self, effect: Send, /) -> HttpResponse:
        return self.send(effect)

    def open(self, effect: Open, /) -> OpenResponse:
        reply = self.send(Send(effect.request))
        return OpenResponse(reply, _Handle(reply.body))

    async def aopen(self, effect: Open, /) -> OpenResponse:
        return self.open(effect)

    def close(self) -> None:
        """Nothing is open."""


class _Handle:
    def __init__(self, body: bytes) -> None:
        self._pieces = [body + b"\n"]

    def read(self, _: float | None, /) -> bytes:
        return self._pieces.pop() if self._pieces else b""

    async def aread(self, within: float | None, /) -> bytes:
        return self.read(within)

    def finish(self) -> None:
        """Nothing to read further."""

    async def afinish(self) -> None:
        """Nothing to read further."""

    close = finish
    aclose = afinish


def registry(server: Server, api_key: Any, **fields: Any) -> Registry:
    registry = Registry(env={}, http_client=server)
    registry.add_provider(name="box", wire="ollama", base_url="https://box", api_key=api_key, **fields)
    return registry


def streamed(model: Model) -> str:
    with model.stream("hi") as stream:
        for _ in stream:
            pass
    assert stream.response is not None
    return stream.response.text


def sign(credential: CachedCredential[Any], **fields: Any) -> HttpRequest:
    return credential.sign(effect(credential, **fields))


def effect(credential: CachedCredential[Any], **fields: Any) -> Sign:
    target = Target(provider="box", model="m", wire="ollama", base_url="https://box", credential=credential)
    return Sign(HttpRequest(method="POST", path="/", body=b"{}"), target, **fields)


class Keys:
    """Gives secret-1, secret-2, …; takes some time for each."""

    def __init__(self, lifetime: float | None = None, seconds: float = 0.0) -> None:
        self.calls = 0
        self.lifetime = lifetime
        self.seconds = seconds

    def __call__(self) -> Token:
        self.calls += 1
        number = self.calls
        time.sleep(self.seconds)
        expires_at = None if self.lifetime is None else time.time() + self.lifetime
        return Token(value=f"secret-{number}", expires_at=expires_at)


def test_a_function_gives_the_key_blocking_and_async() -> None:
    server, keys = Server("secret-1"), Keys()
    model = registry(server, keys).model("box/m")
    assert model.generate("hi").text == "fine"
    assert streamed(model) == "fine"
    assert asyncio.run(model.agenerate("hi")).text == "fine"
    assert keys.calls == 1
    assert server.keys == ["secret-1"] * 3


def test_a_coroutine_function_gives_the_key_blocking_and_async() -> None:
    loops: list[object] = []

    async def fetch() -> str:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return "secret-1\n"

    async def use() -> tuple[str, object]:
        return (
            await registry(Server("secret-1"), fetch).model("box/m").agenerate("hi")
        ).text, asyncio.get_running_loop()

    assert registry(Server("secret-1"), fetch).model("box/m").generate("hi").text == "fine"
    text, loop = asyncio.run(use())
    assert text == "fine"
    assert loops[-1] is loop


def test_a_function_for_the_whole_registry() -> None:
    server = Server("secret-1")
    registry = Registry(env={"OLLAMA_API_KEY": "other"}, api_key=Keys(), http_client=server)
    assert registry.model("ollama/m").generate("hi").text == "fine"


def test_a_record_may_have_the_function_as_its_credential() -> None:
    registry = Registry(env={}, http_client=Server("secret-1"))
    registry.add_provider(Provider(name="box", wire="ollama", base_url="https://box", credential=Keys()))
    assert registry.model("box/m").generate("hi").text == "fine"
    registry.add_provider(name="other", like="box", base_url="https://other")
    assert registry.provider("other").credential is None
    registry.add_provider(name="same", like="box")
    assert registry.provider("same").credential is registry.provider("box").credential


def test_the_key_goes_into_the_header_of_the_provider() -> None:
    target = Target(provider="p", model="m", wire="w", base_url="https://x", auth="api-key")
    credential = KeyFunction(lambda: "secret-1")
    signed = credential.sign(
        Sign(HttpRequest(method="POST", path="/"), msgspec.structs.replace(target, credential=credential))
    )
    assert signed.headers == {"api-key": "secret-1"}


def test_many_threads_share_one_fetch() -> None:
    keys = Keys(seconds=0.05)
    credential = KeyFunction(keys)
    with ThreadPoolExecutor(50) as pool:
        signed = [future.result() for future in [pool.submit(sign, credential) for _ in range(50)]]
    assert keys.calls == 1
    assert {http.secret for http in signed} == {"secret-1"}


@pytest.mark.parametrize("is_async", [False, True])
def test_many_tasks_share_one_fetch_and_the_loop_runs_on(*, is_async: bool) -> None:
    """The key comes only after the loop has run: if the loop waited for the key, there would be none."""
    calls = 0

    async def run() -> None:
        nonlocal calls
        loop, has_run = asyncio.get_running_loop(), threading.Event()
        started, may_end = asyncio.Event(), asyncio.Event()

        def fetch() -> Token:
            nonlocal calls
            calls += 1
            loop.call_soon_threadsafe(started.set)
            assert has_run.wait(PATIENCE)
            return Token(value="secret-1")

        async def afetch() -> Token:
            nonlocal calls
            calls += 1
            started.set()
            await may_end.wait()
            return Token(value="secret-1")

        credential = KeyFunction(afetch if is_async else fetch)
        tasks = [asyncio.create_task(credential.asign(effect(credential))) for _ in range(100)]
        await started.wait()
        has_run.set()
        may_end.set()
        assert {http.secret for http in await asyncio.gather(*tasks)} == {"secret-1"}

    asyncio.run(run())
    assert calls == 1


def test_a_cancelled_caller_does_not_cancel_the_fetch_of_the_others() -> None:
    async def fetch() -> str:
        await asyncio.sleep(0.05)
        return "secret-1"

    async def run() -> str | None:
        credential = KeyFunction(fetch)
        first = asyncio.create_task(credential.asign(effect(credential)))
        second = asyncio.create_task(credential.asign(effect(credential)))
        await asyncio.sleep(0.01)
        first.cancel()
        return (await second).secret

    assert asyncio.run(run()) == "secret-1"


def test_a_fetch_that_died_with_its_loop_is_started_again() -> None:
    calls = 0

    async def fetch() -> str:
        nonlocal calls
        calls += 1
        await asyncio.sleep(60 if calls == 1 else 0)
        return f"secret-{calls}"

    credential = KeyFunction(fetch)

    async def give_up() -> None:
        with pytest.raises(TimedOut):
            await credential.asign(effect(credential, timeout=0.02))

    asyncio.run(give_up())
    assert sign(credential).secret == "secret-2"


def test_a_key_is_fetched_again_before_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("dragoman.io.credentials.time.time", lambda: now)
    keys = Keys(lifetime=3600)
    credential = KeyFunction(keys)
    assert sign(credential).secret == "secret-1"
    now += 3600 - 121
    assert sign(credential).secret == "secret-1"
    now += 2
    assert sign(credential).secret == "secret-2"


def test_a_key_with_a_short_life_is_used_for_most_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("dragoman.io.credentials.time.time", lambda: now)
    credential = KeyFunction(Keys(lifetime=50))
    assert sign(credential).secret == "secret-1"
    now += 39
    assert sign(credential).secret == "secret-1"
    now += 2
    assert sign(credential).secret == "secret-2"


def test_a_str_is_used_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = 1000.0, 0

    def fetch() -> str:
        nonlocal calls
        calls += 1
        return f"secret-{calls}"

    monkeypatch.setattr("dragoman.io.credentials.time.time", lambda: now)
    credential = KeyFunction(fetch)
    for wait, key in ((0, "secret-1"), (47, "secret-1"), (2, "secret-2")):
        now += wait
        assert sign(credential).secret == key


def test_a_failed_refresh_uses_the_key_that_is_still_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = 1000.0, 0

    def fetch() -> Token:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError("unreachable")
        return Token(value="secret-1", expires_at=now + 1000)

    monkeypatch.setattr("dragoman.io.credentials.time.time", lambda: now)
    credential = KeyFunction(fetch)
    for wait, count in ((0, 1), (900, 2), (5, 2), (6, 3)):
        now += wait
        assert sign(credential).secret == "secret-1"
        assert calls == count
    now += 100
    with pytest.raises(AuthFailed):
        sign(credential)


def test_a_401_fetches_another_key_once() -> None:
    server, keys = Server("secret-2"), Keys()
    model = registry(server, keys).model("box/m")
    assert model.generate("hi").text == "fine"
    assert server.keys == ["secret-1", "secret-2"]
    server.accepted = set()
    with pytest.raises(AuthFailed) as caught:
        model.generate("hi", retries=3)
    assert server.keys == ["secret-1", "secret-2", "secret-2", "secret-3"]
    assert "secret-3" not in str(caught.value)
    assert "[redacted]" in str(caught.value)


def test_a_401_of_a_stream_and_of_an_async_call_fetches_another_key() -> None:
    def awaited(model: Model) -> str:
        return asyncio.run(model.agenerate("hi")).text

    for call in (streamed, awaited):
        server = Server("secret-2")
        assert call(registry(server, Keys()).model("box/m")) == "fine"
        assert server.keys == ["secret-1", "secret-2"]


def test_rejected_keys_of_many_callers_are_replaced_once() -> None:
    keys = Keys(seconds=0.02)
    credential = KeyFunction(keys)
    assert sign(credential).secret == "secret-1"
    with ThreadPoolExecutor(20) as pool:
        futures = [pool.submit(sign, credential, rejected="secret-1") for _ in range(20)]
        signed = [future.result() for future in futures]
    assert {http.secret for http in signed} == {"secret-2"}
    assert keys.calls == 2


def test_the_same_key_is_not_tried_again() -> None:
    server = Server()
    with pytest.raises(AuthFailed):
        registry(server, lambda: "secret-1").model("box/m").generate("hi")
    assert server.keys == ["secret-1"]


@pytest.mark.parametrize("result", ["", "  ", 5, None, b"key", "kéy", "a\nb"])
def test_a_function_with_a_wrong_result(result: object) -> None:
    with pytest.raises(AuthFailed, match="no key from a function"):
        registry(Server(), lambda: result).model("box/m").generate("hi")


def test_the_message_of_an_error_of_the_function_is_not_shown() -> None:
    def fetch() -> str:
        raise ValueError("secret-1234")

    with pytest.raises(AuthFailed) as caught:
        registry(Server(), fetch).model("box/m").generate("hi")
    assert "no key from a function: ValueError" in str(caught.value)
    assert "secret-1234" not in str(caught.value)
    assert not caught.value.count_failure


def test_the_next_target_is_tried_if_a_function_fails() -> None:
    chain = registry(Server(), lambda: 1 / 0)
    assert chain.model("box/m, demo/any").generate("hi").target == "demo/any"


@pytest.mark.parametrize("is_blocking", [True, False])
def test_a_slow_function_ends_with_the_deadline(*, is_blocking: bool) -> None:
    release = threading.Event()

    def fetch() -> str:
        release.wait(10)
        return "secret-1"

    model = registry(Server("secret-1"), fetch).model("box/m", timeout=0.1)
    call: Callable[[], object] = (
        (lambda: model.generate("hi")) if is_blocking else (lambda: asyncio.run(model.agenerate("hi")))
    )
    began = time.monotonic()
    with pytest.raises(TimedOut):
        call()
    assert time.monotonic() - began < 5
    release.set()


def test_no_key_in_a_repr() -> None:
    credential = KeyFunction(lambda: "secret-12345")
    signed = sign(credential)
    texts = [repr(value) for value in (Token(value="secret-12345"), credential, signed, effect(credential).target)]
    assert not any("secret-12345" in text for text in texts)
    assert signed.redacted().headers == {"authorization": "[redacted]"}


def test_explain_needs_no_key_of_a_function() -> None:
    explanation = registry(Server(), lambda: 1 / 0, needs_key=True).model("box/m").explain("hi")[0]
    assert explanation.ready
