"""How the cost of a request grows: with its body, its history, the targets of its chain, the keys, and open streams.

Each figure is the CPU time of `App.answer` in this process, with a transport that answers at once, so that nothing but
the gateway's own work is measured. Garbage is collected as in a worker: by default, Python looks at all objects of a
long history several times while it is decoded. A ratio near that of the sizes is linear, one near 1 is constant.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from time import process_time
from typing import Any, cast

from benchmarks.gateway.canned import whole
from benchmarks.long_bodies import client_body, conversation
from benchmarks.table import Section, times, us
from dragoman.engine.effects import Open, OpenResponse, Send
from dragoman.errors import ServerFault
from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.config import decode_config
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.server.worker import set_up_collector
from dragoman.http import HttpRequest, HttpResponse
from dragoman.io.transport import Transport

_ANSWER = whole("openai_chat").partition(b"\r\n\r\n")[2]
_RUNS = 5


class _Answers:
    """A transport that answers at once; providers named `down` fail."""

    async def asend(self, effect: Send, /) -> HttpResponse:
        if "down" in effect.request.origin:
            raise ServerFault("down", retry=False)
        return HttpResponse(body=_ANSWER)

    async def aopen(self, effect: Open, /) -> OpenResponse:
        raise NotImplementedError

    def close(self) -> None:
        return None


def _app(config: str) -> App:
    runtime = Runtime(decode_config(f"[gateway]\nlog = false\nmax_objects = 1000000\n{config}"), {})
    runtime.registry.transport = cast("Transport", _Answers())
    return App(runtime)


def _provider(name: str) -> str:
    return f'[providers.{name}]\nlike = "openai"\nbase_url = "http://{name}.invalid/v1"\napi_key = "k"\n'


def _post(body: bytes, **headers: str) -> HttpRequest:
    return HttpRequest(method="POST", path="/v1/chat/completions", headers=headers, body=body)


async def _cost(app: App, http: HttpRequest, count: int) -> float:
    """CPU seconds of one request: the best of some runs."""

    async def run() -> None:
        for _ in range(count):
            response = await app.answer(http)
            if response.status != 200:
                raise RuntimeError(response.body)

    await run()
    costs: list[float] = []
    for _ in range(_RUNS):
        start = process_time()
        await run()
        costs.append((process_time() - start) / count)
    return min(costs)


def _chat(**fields: Any) -> bytes:
    return json.dumps({"model": "up/m", "messages": [{"role": "user", "content": "hi"}], **fields}).encode()


async def _body(size: int) -> float:
    text = "A sentence of an ordinary prompt. " * (size // 34)
    messages = [{"role": "user", "content": text}]
    return await _cost(_app(_provider("up")), _post(_chat(messages=messages)), 20)


async def _history(messages: int) -> float:
    request = client_body("openai_chat", conversation(messages * 200, 0, messages))
    body = json.dumps({**json.loads(request.body), "model": "up/m"}).encode()
    return await _cost(_app(_provider("up")), _post(body), 10)


async def _targets(count: int) -> float:
    """A chain whose last target answers. Failures must not put a target on cooldown, or it would be passed over."""
    names = [f"down{number}" for number in range(count - 1)] + ["up"]
    config = "".join(map(_provider, names)) + "[chain]\nretries = 0\n[health]\nthreshold = 1000000\n"
    return await _cost(_app(config), _post(_chat(model=",".join(f"{name}/m" for name in names))), 20)


async def _keys(count: int) -> float:
    keys = [new_key() for _ in range(count)]
    tables = "".join(f'[keys.k{number}]\nhash = "{hash}"\n' for number, (_, hash) in enumerate(keys))
    return await _cost(_app(_provider("up") + tables), _post(_chat(), authorization=f"Bearer {keys[-1][0]}"), 100)


async def _in_flight(count: int) -> float:
    """Requests while others are in progress."""
    app, stop = _app(_provider("up")), asyncio.Event()

    async def read(_bytes: object) -> bytes:
        await stop.wait()
        return _chat()

    waiting = [asyncio.create_task(app.answer(_post(b""), read)) for _ in range(count)]
    await asyncio.sleep(0)
    cost = await _cost(app, _post(_chat()), 100)
    stop.set()
    await asyncio.gather(*waiting)
    return cost


_LINES: Mapping[str, tuple[Callable[[int], Awaitable[float]], tuple[int, int, int], str]] = {
    "body, one text": (_body, (4_000, 40_000, 400_000), "bytes"),
    "history": (_history, (20, 200, 2000), "messages"),
    "chain, the last target answers": (_targets, (1, 8, 64), "targets"),
    "keys": (_keys, (10, 100, 1000), "keys"),
    "other requests in progress": (_in_flight, (1, 90, 900), "requests"),
}


async def _rows() -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, (measure, sizes, unit) in _LINES.items():
        costs = [await measure(size) for size in sizes]
        cells = [f"{size:,} {unit} {us(cost):>10}" for size, cost in zip(sizes, costs, strict=True)]
        rows.append((name, *cells, times(costs[-1] / costs[0]), times(sizes[-1] / sizes[0])))
    return rows


def growth() -> Section:
    """One line for each thing that grows."""
    set_up_collector()
    heads = ("", "small", "medium", "large", "cost: large / small", "size: large / small")
    return Section("(h) growth: CPU of one request of a gateway, without the network", heads, asyncio.run(_rows()))
