"""Model lists have what can be asked for, and bare names find the one provider that has them."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dragoman.gateway import provider_models
from dragoman.gateway.auth.api_keys import new_key
from tests.support.gateway.admin import Admin, running
from tests.support.gateway.live import record


class Provider:
    """An OpenAI server with a list of models; it counts who asks, and can wait."""

    def __init__(self, *models: str) -> None:
        self.models = [*models]
        self.lists = 0
        self.status = 200
        self.go = threading.Event()
        self.go.set()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.lists += 1
                provider.go.wait(10)
                self._answer(provider.status, {"data": [{"id": model, "object": "model"} for model in provider.models]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                message = {"role": "assistant", "content": body["model"]}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                self._answer(
                    200, {"id": "1", "choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
                )

            def _answer(self, status: int, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def stop(self) -> None:
        self.go.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def pair() -> Iterator[tuple[Provider, Provider]]:
    one, two = Provider("alpha", "both"), Provider("beta", "both")
    yield one, two
    one.stop()
    two.stop()


def config(pair: tuple[Provider, Provider], more: str = "") -> str:
    return record("one", pair[0].base_url) + record("two", pair[1].base_url) + more


async def ids(admin: Admin, path: str = "/v1/models", key: str | None = None) -> list[str]:
    status, answer = await admin.send("GET", path, key=key)
    assert status == 200, answer
    items = answer.get("data") or answer.get("models")
    return [item.get("id") or item["name"].removeprefix("models/") for item in items]


def test_every_model_list_has_all_models_that_clients_can_call(pair: tuple[Provider, Provider]) -> None:
    async def main() -> None:
        names = '[tiers.simple]\nmodels = ["one/alpha"]\n[aliases]\nfast = "two/gamma"\n'
        async with running(config(pair, names)) as admin:
            for path in ("/v1/models", "/api/tags", "/v1beta/models"):
                found = {name.removesuffix(":latest") for name in await ids(admin, path)}
                assert found == {"simple", "fast", "one/alpha", "one/both", "two/gamma", "two/beta", "two/both"}
        assert [provider.lists for provider in pair] == [1, 1]

    asyncio.run(main())


def test_a_list_has_only_what_the_key_may_use(pair: tuple[Provider, Provider]) -> None:
    plain, hash = new_key()

    async def main() -> None:
        async with running(config(pair, f'[keys.alice]\nhash = "{hash}"\nmodels = ["two/b*"]\n')) as admin:
            assert await ids(admin, key=plain) == ["two/beta", "two/both"]
            assert (await admin.chat(plain, "beta"))[0] == 200
            assert (await admin.chat(plain, "alpha"))[0] == 403

    asyncio.run(main())


def test_a_bare_name_finds_the_only_provider_that_has_it(pair: tuple[Provider, Provider]) -> None:
    async def main() -> None:
        async with running(config(pair)) as admin:
            status, answer = await admin.chat(None, "beta")
            assert (status, answer["model"], answer["choices"][0]["message"]["content"]) == (200, "beta", "beta")
            status, answer = await admin.chat(None, "both")
            assert status == 404
            message = "model must name its provider, got 'both'; use one of one/both, two/both"
            assert answer["error"]["message"].startswith(message)
            assert (await admin.chat(None, "gamma"))[0] == 404
            status, shown = await admin.send("GET", "/v1/models/beta", key=None)
            assert (status, shown["id"]) == (200, "beta")
        assert [provider.lists for provider in pair] == [1, 1]

    asyncio.run(main())


def test_an_alias_called_default_answers_bare_names(pair: tuple[Provider, Provider]) -> None:
    async def main() -> None:
        async with running(config(pair, '[aliases]\ndefault = "one/alpha"\n')) as admin:
            _, answer = await admin.chat(None, "beta")
            assert answer["choices"][0]["message"]["content"] == "alpha"
        assert pair[1].lists == 0

    asyncio.run(main())


def test_an_old_list_is_used_while_a_new_one_is_fetched(
    pair: tuple[Provider, Provider], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_models, "FRESH", 0.0)
    one, two = pair

    async def main() -> None:
        async with running(config(pair)) as admin:
            assert "one/new" not in await ids(admin)
            one.go.clear()
            one.models.append("new")
            assert "one/new" not in await ids(admin)  # it does not wait
            one.go.set()
            async with asyncio.timeout(10):
                while "one/new" not in await ids(admin):  # noqa: ASYNC110 - the provider sends no event
                    await asyncio.sleep(0.01)
            two.status = 500
            before = two.lists
            async with asyncio.timeout(10):
                while two.lists < before + 2:
                    assert "two/beta" in await ids(admin)  # an old list is better than none
                    await asyncio.sleep(0.01)

    monkeypatch.setattr(provider_models, "RETRY", 0.0)
    asyncio.run(main())


def test_a_provider_that_does_not_answer_is_not_waited_for(
    pair: tuple[Provider, Provider], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_models, "FIRST_WAIT", 0.05)
    pair[0].go.clear()

    async def main() -> None:
        async with running(config(pair)) as admin:
            async with asyncio.timeout(10):
                while (found := await ids(admin)) != ["two/beta", "two/both"]:
                    assert found == []
            pair[0].go.set()

    asyncio.run(main())


def test_another_key_of_a_provider_has_another_list(pair: tuple[Provider, Provider]) -> None:
    async def main() -> None:
        async with running(config(pair)) as admin:
            assert "one/alpha" in await ids(admin)
            table = {"wire": "openai_chat", "base_url": pair[1].base_url, "api_key": "another-key"}
            await admin.do("PUT", "providers/one", {"table": table}, key=None)
            found = await ids(admin)
            assert "one/alpha" not in found
            assert "one/beta" in found

    asyncio.run(main())


def test_a_provider_with_a_known_name_is_like_itself() -> None:
    async def main() -> None:
        async with running(
            '[providers.openai]\napi_key = "sk-test-1234567890"\nbase_url = "http://127.0.0.1:9/v1"\n'
        ) as admin:
            assert admin.app.runtime.registry.target("openai/gpt-5").base_url == "http://127.0.0.1:9/v1"
            # Its list cannot be asked for, but it makes the family of this model.
            status, answer = await admin.chat(None, "gpt-5")
            assert (status, "unknown model" in str(answer)) == (502, False)

    asyncio.run(main())
