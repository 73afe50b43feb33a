"""Measure one peer in its own process: make calls to the upstream, and print the time of one call as JSON.

`python -m benchmarks.client PEER KIND CLOCK URL TIMES RUNS`, where CLOCK is `cpu` or `wall`. It imports only the peer,
so that a peer may have its own interpreter. Every call is written as the users of that peer write it.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from time import perf_counter, process_time
from typing import Any
from urllib.parse import urlsplit

CONCURRENT = 64
MODEL = "model-x"
MESSAGES = [
    {"role": "system", "content": "You are a harbour pilot. Answer in two sentences at most."},
    {"role": "user", "content": "When can a ship that draws nine metres enter the harbour of Brest tomorrow?"},
]
BODY = {"model": MODEL, "messages": MESSAGES}

Call = Callable[[], object]
Calls = dict[str, Callable[[str], Any]]
"""For each kind of work, a function that makes the call for a base URL."""


# ── dragoman ────────────────────────────────────────────────────────────────


def _model(url: str) -> Any:
    dragoman: Any = import_module("dragoman")
    registry = dragoman.Registry(env={"LLM_UP": url.replace("http://", "openai+http://k@")})
    return registry.model(f"up/{MODEL}", system=MESSAGES[0]["content"])


def _dragoman_call(url: str) -> Call:
    model = _model(url)
    return lambda: model.generate(MESSAGES[1]["content"]).text


def _dragoman_acall(url: str) -> Call:
    model = _model(url)
    return lambda: model.agenerate(MESSAGES[1]["content"])


def _dragoman_stream(url: str) -> Call:
    model = _model(url)

    def call() -> int:
        with model.stream(MESSAGES[1]["content"]) as stream:
            return sum(1 for _ in stream)

    return call


def _dragoman_astream(url: str) -> Call:
    model = _model(url)

    async def call() -> int:
        async with model.astream(MESSAGES[1]["content"]) as stream:
            return len([item async for item in stream])

    return call


# ── our HTTP client alone, with JSON by hand ────────────────────────────────

_HEADERS = {"authorization": "Bearer k", "content-type": "application/json"}


def _texts(lines: list[bytes]) -> list[str]:
    """The texts in some lines of a stream."""
    texts: list[str] = []
    for line in lines:
        if line.startswith(b"data: {"):
            choices = json.loads(line[6:])["choices"]
            texts += [choice["delta"].get("content") or "" for choice in choices]
    return texts


def _client() -> Any:
    return import_module("dragoman.io.http_client").HttpClient(env={})


def _post(url: str, body: dict[str, Any]) -> Any:
    origin, slash, path = url.partition("/v1") if "/v1" in url else url.rpartition("/")
    path = f"{slash}{path}/chat/completions"
    request: Any = import_module("dragoman.http").HttpRequest
    return request(method="POST", origin=origin, path=path, headers=_HEADERS, body=json.dumps(body).encode())


def _bare_call(url: str) -> Call:
    client, send = _client(), import_module("dragoman.engine.effects").Send

    def call() -> str:
        answer = client.send(send(_post(url, BODY), 600.0, 10.0))
        return str(json.loads(answer.body)["choices"][0]["message"]["content"])

    return call


def _bare_acall(url: str) -> Call:
    client, send = _client(), import_module("dragoman.engine.effects").Send

    async def call() -> str:
        answer = await client.asend(send(_post(url, BODY), 600.0, 10.0))
        return str(json.loads(answer.body)["choices"][0]["message"]["content"])

    return call


def _bare_stream(url: str) -> Call:
    client, effect = _client(), import_module("dragoman.engine.effects").Open

    def call() -> int:
        handle = client.open(effect(_post(url, {**BODY, "stream": True}), 600.0, 10.0)).handle
        rest, texts = b"", list[str]()
        while chunk := handle.read(600.0):
            *lines, rest = (rest + chunk).split(b"\n")
            texts += _texts(lines)
        handle.finish()
        return len(texts)

    return call


def _bare_astream(url: str) -> Call:
    client, effect = _client(), import_module("dragoman.engine.effects").Open

    async def call() -> int:
        handle = (await client.aopen(effect(_post(url, {**BODY, "stream": True}), 600.0, 10.0))).handle
        rest, texts = b"", list[str]()
        while chunk := await handle.aread(600.0):
            *lines, rest = (rest + chunk).split(b"\n")
            texts += _texts(lines)
        await handle.afinish()
        return len(texts)

    return call


# ── a socket, with HTTP and JSON by hand: no pool, no limits, no errors ──────


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 80)


def _request_bytes(url: str, body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {urlsplit(url).path}/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n"
    return (head + "authorization: Bearer k\r\ncontent-type: application/json\r\n\r\n").encode() + data


def _is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    return bool(end) and len(body) >= int(head.partition(b"content-length: ")[2].split(b"\r\n", 1)[0])


def _text_of(answer: bytes) -> str:
    return str(json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["message"]["content"])


def _socket_call(url: str) -> Call:
    connection = socket.create_connection(_address(url))

    def call() -> str:
        connection.sendall(_request_bytes(url, BODY))
        answer = b""
        while not _is_whole(answer):
            answer += connection.recv(65536)
        return _text_of(answer)

    return call


def _socket_stream(url: str) -> Call:
    connection = socket.create_connection(_address(url))

    def call() -> int:
        connection.sendall(_request_bytes(url, {**BODY, "stream": True}))
        rest, texts, is_over = b"", list[str](), False
        while not is_over:
            *lines, rest = (rest + connection.recv(65536)).split(b"\n")
            texts += _texts(lines)
            is_over = b"0\r" in lines
        return len(texts)

    return call


def _socket_acall(url: str) -> Call:
    idle: list[Any] = []

    async def call() -> str:
        reader, writer = idle.pop() if idle else await asyncio.open_connection(*_address(url))
        writer.write(_request_bytes(url, BODY))
        answer = b""
        while not _is_whole(answer):
            answer += await reader.read(65536)
        idle.append((reader, writer))
        return _text_of(answer)

    return call


def _socket_astream(url: str) -> Call:
    idle: list[Any] = []

    async def call() -> int:
        reader, writer = idle.pop() if idle else await asyncio.open_connection(*_address(url))
        writer.write(_request_bytes(url, {**BODY, "stream": True}))
        texts = list[str]()
        while (line := await reader.readline()) != b"0\r\n":
            texts += _texts([line])
        await reader.readline()
        idle.append((reader, writer))
        return len(texts)

    return call


# ── httpx, with JSON by hand ────────────────────────────────────────────────


def _httpx_call(url: str) -> Call:
    client = import_module("httpx").Client(trust_env=False, base_url=url, headers=_HEADERS)
    return lambda: client.post("/chat/completions", json=BODY).json()["choices"][0]["message"]["content"]


def _httpx_acall(url: str) -> Call:
    client = import_module("httpx").AsyncClient(trust_env=False, base_url=url, headers=_HEADERS)

    async def call() -> str:
        response = await client.post("/chat/completions", json=BODY)
        return str(response.json()["choices"][0]["message"]["content"])

    return call


def _httpx_stream(url: str) -> Call:
    client = import_module("httpx").Client(trust_env=False, base_url=url, headers=_HEADERS)

    def call() -> int:
        with client.stream("POST", "/chat/completions", json={**BODY, "stream": True}) as response:
            return len(_texts([line.encode() for line in response.iter_lines()]))

    return call


def _httpx_astream(url: str) -> Call:
    client = import_module("httpx").AsyncClient(trust_env=False, base_url=url, headers=_HEADERS)

    async def call() -> int:
        async with client.stream("POST", "/chat/completions", json={**BODY, "stream": True}) as response:
            return len(_texts([line.encode() async for line in response.aiter_lines()]))

    return call


# ── SDKs ────────────────────────────────────────────────────────────────────


def _openai_call(url: str) -> Call:
    chat = import_module("openai").OpenAI(api_key="k", base_url=url).chat.completions
    return lambda: chat.create(model=MODEL, messages=MESSAGES).choices[0].message.content


def _openai_acall(url: str) -> Call:
    chat = import_module("openai").AsyncOpenAI(api_key="k", base_url=url).chat.completions
    return lambda: chat.create(model=MODEL, messages=MESSAGES)


def _openai_stream(url: str) -> Call:
    chat = import_module("openai").OpenAI(api_key="k", base_url=url).chat.completions
    return lambda: sum(1 for _ in chat.create(model=MODEL, messages=MESSAGES, stream=True))


def _openai_astream(url: str) -> Call:
    chat = import_module("openai").AsyncOpenAI(api_key="k", base_url=url).chat.completions

    async def call() -> int:
        return len([chunk async for chunk in await chat.create(model=MODEL, messages=MESSAGES, stream=True)])

    return call


def _litellm(url: str, **more: object) -> dict[str, object]:
    return {"model": f"openai/{MODEL}", "messages": MESSAGES, "api_base": url, "api_key": "k", **more}


def _litellm_call(url: str) -> Call:
    litellm: Any = import_module("litellm")
    return lambda: litellm.completion(**_litellm(url)).choices[0].message.content


def _litellm_acall(url: str) -> Call:
    litellm: Any = import_module("litellm")
    return lambda: litellm.acompletion(**_litellm(url))


def _litellm_stream(url: str) -> Call:
    litellm: Any = import_module("litellm")
    return lambda: sum(1 for _ in litellm.completion(**_litellm(url, stream=True)))


def _litellm_astream(url: str) -> Call:
    litellm: Any = import_module("litellm")

    async def call() -> int:
        return len([chunk async for chunk in await litellm.acompletion(**_litellm(url, stream=True))])

    return call


PEERS: dict[str, Calls] = {
    "dragoman": {
        "call": _dragoman_call,
        "acall": _dragoman_acall,
        "stream": _dragoman_stream,
        "astream": _dragoman_astream,
    },
    "bare": {"call": _bare_call, "acall": _bare_acall, "stream": _bare_stream, "astream": _bare_astream},
    "socket": {"call": _socket_call, "acall": _socket_acall, "stream": _socket_stream, "astream": _socket_astream},
    "httpx": {"call": _httpx_call, "acall": _httpx_acall, "stream": _httpx_stream, "astream": _httpx_astream},
    "openai": {"call": _openai_call, "acall": _openai_acall, "stream": _openai_stream, "astream": _openai_astream},
    "litellm": {
        "call": _litellm_call,
        "acall": _litellm_acall,
        "stream": _litellm_stream,
        "astream": _litellm_astream,
    },
}


# ── the clock ───────────────────────────────────────────────────────────────


BUDGET = 0.25
"""Seconds of a run: slow calls are repeated less often."""


CLOCKS: dict[str, Callable[[], float]] = {"cpu": process_time, "wall": perf_counter}


def blocking(call: Call, clock: Callable[[], float], times: int, runs: int) -> list[float]:
    """Seconds of one call, for each run of at most `times` calls."""

    def many(count: int) -> float:
        start = clock()
        for _ in range(count):
            call()
        return (clock() - start) / count

    many(3)
    count = max(1, min(times, int(BUDGET / many(1))))
    return [many(count) for _ in range(runs)]


async def concurrent(
    call: Callable[[], Awaitable[object]], clock: Callable[[], float], times: int, runs: int
) -> list[float]:
    """Seconds of one call, for each run of at most `times` calls by CONCURRENT workers."""

    async def many(count: int) -> float:
        numbers = iter(range(count))
        start = clock()
        await asyncio.gather(*(_worker(call, numbers) for _ in range(CONCURRENT)))
        return (clock() - start) / count

    await many(CONCURRENT)
    count = max(CONCURRENT, min(times, int(BUDGET / await many(CONCURRENT))))
    return [await many(count) for _ in range(runs)]


async def _worker(call: Callable[[], Awaitable[object]], numbers: Any) -> None:
    for _ in numbers:
        await call()


def measure(name: str, kind: str, clock: str, url: str, times: int, runs: int) -> float:
    """The seconds of one call: the minimum of the runs, because other work on the machine only adds to it."""
    call = PEERS[name][kind](url)
    if kind.startswith("a"):
        return min(asyncio.run(concurrent(call, CLOCKS[clock], times, runs)))
    return min(blocking(call, CLOCKS[clock], times, runs))


if __name__ == "__main__":
    _, peer, work, clock, where, each, repeated = sys.argv
    print(json.dumps(measure(peer, work, clock, where, int(each), int(repeated))))
