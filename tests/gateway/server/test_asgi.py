"""The same app inside a Starlette application and under uvicorn."""

import asyncio
import json
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from dragoman.gateway.server.asgi import Asgi, application
from dragoman.testing import FaultyServer, StallAfter
from tests.gateway.test_client_disconnects import SHOWN, WORDS
from tests.support.gateway.dialects import app_of
from tests.support.gateway.live import PATIENCE, chat, record

CHAT = "/v1/chat/completions"


def client(asgi: object) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=asgi), base_url="http://gateway")  # type: ignore[arg-type] # theirs is narrower


@asynccontextmanager
async def running(asgi: object) -> AsyncGenerator[str]:
    server = uvicorn.Server(uvicorn.Config(asgi, port=0, log_level="error", ws="none"))  # type: ignore[arg-type] # theirs is narrower
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - it has no event of its own
        await asyncio.sleep(0)
    port: int = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


def test_a_gateway_is_mounted_in_an_application() -> None:
    async def ask() -> tuple[int, str]:
        outer = Starlette(routes=[Mount("/llm", app=application())])
        async with client(outer) as http:
            answer = await http.post(f"/llm{CHAT}", json=chat("demo/any"))
            return answer.status_code, answer.json()["choices"][0]["message"]["content"]

    status, text = asyncio.run(ask())
    assert status == 200
    assert text.startswith("Hello!")


def test_a_stream_comes_through_uvicorn() -> None:
    async def ask() -> list[str]:
        async with running(Asgi(app_of())) as url, httpx.AsyncClient() as http:
            request = http.stream("POST", f"{url}{CHAT}", json=chat("demo/any", stream=True))
            async with request as answer:
                assert answer.headers["x-dragoman-target"] == "demo/any"
                return [line async for line in answer.aiter_lines() if line]

    lines = asyncio.run(ask())
    assert lines[-1] == "data: [DONE]"
    assert json.loads(lines[0][6:])["object"] == "chat.completion.chunk"


def test_a_server_that_shuts_down_makes_the_gateway_say_so_and_write_what_waits() -> None:
    async def live() -> tuple[list[str], list[bool]]:
        app = app_of()
        messages = iter(["lifespan.startup", "lifespan.shutdown"])
        sent: list[str] = []
        stopping: list[bool] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": next(messages)}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message["type"])
            stopping.append(app.is_stopping)

        await Asgi(app)({"type": "lifespan"}, receive, send)
        return sent, stopping

    assert asyncio.run(live()) == (["lifespan.startup.complete", "lifespan.shutdown.complete"], [False, True])


def test_a_client_that_leaves_uvicorn_cancels_its_call() -> None:
    async def leave() -> bool:
        with FaultyServer(StallAfter(SHOWN, WORDS)) as upstream:
            async with running(Asgi(app_of(record("up", upstream.base_url())))) as url:
                body = chat("up/m", stream=True)
                async with httpx.AsyncClient() as http, http.stream("POST", f"{url}{CHAT}", json=body) as answer:
                    await anext(answer.aiter_lines())
                return await asyncio.to_thread(upstream.client_disconnected.acquire, timeout=PATIENCE)

    assert asyncio.run(leave())


def test_a_body_that_does_not_come_is_a_408() -> None:
    sent: list[MutableMapping[str, Any]] = []
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": CHAT, "headers": []}

    async def receive() -> MutableMapping[str, Any]:
        return await asyncio.Future()

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(Asgi(app_of("[gateway]\nbody_timeout = 0.01\n"))(scope, receive, send))
    assert sent[0]["status"] == 408


def test_a_refusal_is_heard_by_a_client_that_sends_all_first() -> None:
    async def ask() -> int:
        async with running(Asgi(app_of("[gateway]\nmax_body = 100\n"))) as url, httpx.AsyncClient() as http:
            return (await http.post(f"{url}/v1/messages", content=b" " * 8_000_000)).status_code

    assert asyncio.run(ask()) == 413


def test_headers_that_are_too_large_are_a_431() -> None:
    async def ask() -> int:
        async with client(Asgi(app_of())) as http:
            return (await http.get("/v1/models", headers={"x-long": "x" * 200_000})).status_code

    assert asyncio.run(ask()) == 431


def test_a_body_that_is_too_large_is_a_413() -> None:
    async def ask() -> int:
        async with client(Asgi(app_of("[gateway]\nmax_body = 100\n"))) as http:
            return (await http.post("/v1/messages", json=chat("demo/any", text="x" * 200))).status_code

    assert asyncio.run(ask()) == 413
