"""`api_key`, `headers` and `base_url` of one model or one call."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import dragoman
from dragoman import InvalidRequest, Registry, Token
from dragoman.targets.connection_options import ConnectionOptions

ANSWER = {"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]}


class Server:
    """A Chat Completions server that records headers and paths, and may reject a key."""

    def __init__(self) -> None:
        self.seen: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.rejected = ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                outer.seen.append({name.lower(): value for name, value in self.headers.items()})
                outer.paths.append(self.path)
                is_rejected = outer.rejected and outer.rejected in self.headers.get("authorization", "")
                body = json.dumps({"error": {"message": "no"}} if is_rejected else ANSWER).encode()
                self.send_response(401 if is_rejected else 200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def registry() -> Iterator[Registry]:
    registry = Registry(env={"OPENAI_API_KEY": "sk-env"})
    yield registry
    registry.close()


def test_a_call_has_a_key_headers_and_a_server_of_its_own(server: Server, registry: Registry) -> None:
    model = registry.model("openai/m", base_url=server.url)
    model.generate("hi", api_key="sk-call", headers={"X-Team": "a"})
    model.generate("hi")
    assert [head["authorization"] for head in server.seen] == ["Bearer sk-call", "Bearer sk-env"]
    assert [head.get("x-team") for head in server.seen] == ["a", None]
    assert server.paths == ["/v1/chat/completions"] * 2


def test_a_model_has_them_for_all_its_calls(server: Server, registry: Registry) -> None:
    model = registry.model(
        "openai/m", base_url=f"{server.url}/own", api_key="sk-model", headers={"x-a": "1", "x-b": "2"}
    )
    model.generate("hi", headers={"x-a": "3"})
    assert server.paths[-1] == "/own/chat/completions"
    assert (server.seen[-1]["authorization"], server.seen[-1]["x-a"]) == ("Bearer sk-model", "3")


def test_headers_of_a_call_are_added_to_those_of_its_model(server: Server, registry: Registry) -> None:
    model = registry.model("openai/m", base_url=server.url, headers={"x-a": "1", "X-B": "2"})
    for own in ({"X-A": "3", "x-c": "4"}, {}, None):
        model.generate("hi", headers=own)
    seen = [tuple(head.get(f"x-{name}") for name in "abc") for head in server.seen]
    assert seen == [("3", "2", "4"), ("1", "2", None), (None, None, None)]


def test_a_header_replaces_the_one_with_the_key(server: Server, registry: Registry) -> None:
    registry.model("openai/m", base_url=server.url).generate("hi", headers={"Authorization": "Basic x"})
    assert server.seen[0]["authorization"] == "Basic x"


def test_functions_of_the_package_take_them(server: Server) -> None:
    dragoman.generate("openai/m", "hi", api_key="sk-call", base_url=server.url)
    assert server.seen[0]["authorization"] == "Bearer sk-call"


def test_a_function_is_called_once_for_many_calls_and_again_if_its_key_is_rejected(
    server: Server, registry: Registry
) -> None:
    keys = iter(["sk-old", "sk-new"])
    calls: list[str] = []

    def key() -> str:
        calls.append(next(keys))
        return calls[-1]

    model = registry.model("openai/m", base_url=server.url)
    for _ in range(3):
        model.generate("hi", api_key=key)
    assert calls == ["sk-old"]
    server.rejected = "sk-old"
    assert model.generate("hi", api_key=key).text == "hi"
    assert calls == ["sk-old", "sk-new"]
    assert server.seen[-1]["authorization"] == "Bearer sk-new"


def test_a_coroutine_function_is_awaited(server: Server, registry: Registry) -> None:
    async def key() -> Token:
        await asyncio.sleep(0)
        return Token(value="sk-async")

    async def call() -> str:
        return (await registry.model("openai/m", base_url=server.url).agenerate("hi", api_key=key)).text

    assert asyncio.run(call()) == "hi"
    assert registry.model("openai/m", base_url=server.url, api_key=key).generate("hi").text == "hi"
    assert {head["authorization"] for head in server.seen} == {"Bearer sk-async"}


def test_the_keys_of_few_functions_are_cached(registry: Registry) -> None:
    functions = [lambda number=number: f"sk-{number}" for number in range(100)]
    first = registry.connection(api_key=functions[0]).credential
    assert registry.connection(api_key=functions[0]).credential is first
    for function in functions[1:]:
        registry.connection(api_key=function)
    assert registry.connection(api_key=functions[0]).credential is not first


def test_a_provider_without_a_server_gets_it_from_the_call(server: Server) -> None:
    registry = Registry(env={})
    model = registry.model("azure/m", base_url=server.url, api_key="sk-azure")
    model.generate("hi")
    assert (server.paths, server.seen[0]["api-key"]) == (["/openai/v1/chat/completions"], "sk-azure")
    registry.close()


def test_a_key_is_not_sent_to_two_providers(registry: Registry) -> None:
    with pytest.raises(InvalidRequest, match="api_key must be for one provider, got a spec with groq, openai"):
        registry.model("openai/m, groq/m", api_key="sk")
    with pytest.raises(InvalidRequest, match="base_url must be for one provider") as caught:
        registry.model("openai/m, groq/m").generate("hi", base_url="http://x")
    assert caught.value.param == "base_url"
    assert len(registry.model("openai/m, groq/m", headers={"x-team": "a"}).targets()) == 2
    assert len(registry.model("openai/m, openai/n", api_key="sk").targets()) == 2


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("api_key", 7),
        ("api_key", ""),
        ("api_key", " \n"),
        ("api_key", "sk\nx"),
        ("api_key", "schlüssel"),
        ("headers", "x-a: 1"),
        ("headers", {"x-a": 1}),
        ("headers", {1: "a"}),
        ("headers", {"x a": "1"}),
        ("headers", {"x-a": "1\r\nx-b: 2"}),
        ("base_url", 7),
        ("base_url", "box"),
        ("base_url", "ftp://box"),
        ("base_url", "http://x?a=b"),
    ],
)
def test_a_wrong_value_names_its_option(registry: Registry, option: str, value: Any) -> None:
    wrong: Any = {option: value}
    with pytest.raises(InvalidRequest, match=f"^{option}") as caught:
        registry.model("openai/m", **wrong)
    assert caught.value.param == option
    with pytest.raises(InvalidRequest, match=f"^{option}"):
        registry.model("openai/m").generate("hi", **wrong)


def test_no_key_is_shown(registry: Registry) -> None:
    connection = registry.connection(api_key="sk-secret-1", headers={"x-team": "sk-secret-2"}, base_url="http://u:pw@x")
    model = registry.model("openai/m", api_key="sk-secret-1", headers={"authorization": "sk-secret-2"})
    options = model.request("hi")[1]
    shown = f"{connection!r} {connection.__rich_repr__()} {options!r} {model!r} {model.explain('hi')!r}"
    assert "secret" not in shown
    assert "pw" not in shown


def test_a_connection_without_anything_changes_nothing(registry: Registry) -> None:
    target = registry.target("openai/m")
    assert registry.target("openai/m", connection=ConnectionOptions()) == target
    assert registry.model("openai/m", api_key=None, headers=None, base_url=None).targets() == [target]


# Options that a call sets itself -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["generate", "stream", "astream", "extract", "stream_extract", "astream_extract"])
def test_stream_is_no_option(registry: Registry, method: str) -> None:
    arguments = (int, "hi") if "extract" in method else ("hi",)
    with pytest.raises(InvalidRequest, match=r"stream is not an option; call stream\(\)") as caught:
        getattr(registry.model("demo/any"), method)(*arguments, stream=True)
    assert caught.value.param == "stream"


def test_stream_is_no_option_of_async_calls(registry: Registry) -> None:
    option: Any = {"stream": True}
    for call in (registry.model("demo/any").agenerate("hi", **option), dragoman.agenerate("demo/any", "hi", **option)):
        with pytest.raises(InvalidRequest, match="stream is not an option"):
            asyncio.run(call)


@pytest.mark.parametrize("option", [{"temperature": -1}, {"reasoning": "hgih"}, {"n": 0}, {"retries": -1}, {"stop": 5}])
def test_options_of_a_model_are_checked_when_it_is_made(registry: Registry, option: Any) -> None:
    (name,) = option
    with pytest.raises(dragoman.DragomanError, match=f"^{name} must be "):
        registry.model("demo/any", **option)
