"""What a client sent is gone when its request is over, also if it failed: nothing waits for the garbage collector. Its
messages are larger than what the cache of decoded messages stores; `tests/wires/common/test_item_cache.py` has that."""

import asyncio
import gc
import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dragoman.gateway.app import App
from tests.support.gateway.dialects import app_of, post, send_request

SIZE = 500_000
REQUESTS = 12
IMAGE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"


def chat(content: Any = "hi", model: str = "demo/any", **fields: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": content}], **fields}


def schema(text: str) -> dict[str, Any]:
    value = {"type": "object", "properties": {"a": {"type": "string", "description": text}}}
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": value}}


REQUEST: dict[str, tuple[Callable[[str], dict[str, Any]], int]] = {
    "a name of a model": (lambda text: chat(model=text), 404),
    "a name of a provider's model": (lambda text: chat(model=f"demo/{text}"), 404),
    "a type of a part": (lambda text: chat([{"type": text}]), 400),
    "a role": (lambda text: {"model": "demo/any", "messages": [{"role": text, "content": "hi"}]}, 400),
    "an image": (lambda text: chat([{"type": "image_url", "image_url": {"url": IMAGE + text}}]), 400),
    "a schema": (lambda text: chat(response_format=schema(text)), 200),
    "a user": (lambda text: chat(user=text), 200),
    "a text": (chat, 200),
}


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("name", REQUEST)
def test_a_request_that_is_over_holds_no_memory(name: str) -> None:
    make, status = REQUEST[name]

    async def send(app: App, number: int) -> None:
        text = f"{number:04}" + "x" * SIZE
        seen = await send_request(app, post("/v1/chat/completions", json.dumps(make(text)).encode()))
        assert seen.status == status
        assert len(seen.body) < 50_000

    async def run() -> int:
        app = app_of('[gateway]\nproviders = ["demo"]\n')
        for number in range(3):
            await send(app, number)
        tracemalloc.start()
        try:
            for number in range(3, 3 + REQUESTS):
                await send(app, number)
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    assert asyncio.run(run()) < REQUESTS * SIZE // 3  # the last one may still be there
