"""How many calls are answered by a server that says 503 at random, compared with the openai SDK.

`python -m benchmarks.resilience [--seeds 3] [--scale 1.0]`. Every peer has its defaults: two retries. A random number
generator with a seed decides for each try of each call, so the peers meet the same faults, however their requests are
interleaved. A call without an answer is one whose three tries all got a 503; everything below that is a fault of the
client.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, NamedTuple

from benchmarks.table import Section, show

MODEL = "model-x"
TRIES = 3
"""Of a call with two retries."""


class Load(NamedTuple):
    """How calls are made: how many, which share of the answers is a 503, and how many at once or in a second."""

    title: str
    calls: int
    rate: float
    at_once: int = 1
    per_second: float | None = None


LOADS = {
    "loop": Load("in a loop, 3 % are 503", 1500, 0.03),
    "at_once": Load("16 at once, 5 % are 503", 300, 0.05, at_once=16),
    "paced": Load("20 a second, 10 % are 503", 300, 0.10, per_second=20.0),
}


class Result(NamedTuple):
    """What a peer has made of a load."""

    answered: int
    seconds: float
    slowest: float
    """Seconds of the slowest call that was answered."""


def is_fault(seed: int, call: str, number: int, rate: float) -> bool:
    """Whether one try of a call gets a 503."""
    return random.Random(f"{seed} {call} {number}").random() < rate


def answerable(load: Load, seed: int) -> int:
    """How many calls have an answer among their tries."""
    calls = [f"call {number}" for number in range(load.calls)]
    return sum(not all(is_fault(seed, call, number, load.rate) for number in range(TRIES)) for call in calls)


# ── the server ──────────────────────────────────────────────────────────────


async def _serve(seed: int, rate: float) -> None:
    tries: Counter[str] = Counter()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
                call = json.loads(await reader.readexactly(length))["messages"][-1]["content"]
                status, body = _reply(call, is_fault(seed, call, tries[call], rate))
                tries[call] += 1
                writer.write(b"HTTP/1.1 %b\r\ncontent-type: application/json\r\n" % status)
                writer.write(b"content-length: %d\r\n\r\n%b" % (len(body), body))
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Ends with the process that started it, because that holds the other end of stdin.
    await asyncio.to_thread(sys.stdin.read)


def _reply(call: str, fault: bool) -> tuple[bytes, bytes]:  # noqa: FBT001 - one use
    if fault:
        return b"503 Service Unavailable", b'{"error": {"message": "busy", "type": "server_error"}}'
    choice = {"index": 0, "message": {"role": "assistant", "content": call}, "finish_reason": "stop"}
    head = {"id": "r1", "object": "chat.completion", "created": 1794700000, "model": MODEL}
    return b"200 OK", json.dumps({**head, "choices": [choice]}).encode()


@contextmanager
def _server(seed: int, rate: float) -> Generator[str]:
    command = [sys.executable, "-m", "benchmarks.resilience", "serve", str(seed), str(rate)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        if server.stdout is None:
            raise RuntimeError("the server printed no port")
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        server.communicate()


# ── the peers ───────────────────────────────────────────────────────────────

Call = Callable[[str], str | None]
AsyncCall = Callable[[str], Awaitable[str | None]]
Peer = tuple[Call, AsyncCall, type[Exception]]
"""A blocking call, an async one, and the error of a call that is not answered."""


def _dragoman(url: str) -> Peer:
    dragoman: Any = import_module("dragoman")
    model = dragoman.Registry(env={"LLM_UP": url.replace("http://", "openai+http://k@")}).model(f"up/{MODEL}")

    async def call(text: str) -> str:
        return str((await model.agenerate(text)).text)

    return lambda text: model.generate(text).text, call, dragoman.DragomanError


def _openai(url: str) -> Peer:
    openai: Any = import_module("openai")
    chat = openai.OpenAI(api_key="k", base_url=url).chat.completions
    achat = openai.AsyncOpenAI(api_key="k", base_url=url).chat.completions

    def body(text: str) -> dict[str, Any]:
        return {"model": MODEL, "messages": [{"role": "user", "content": text}]}

    async def call(text: str) -> str:
        return str((await achat.create(**body(text))).choices[0].message.content)

    return lambda text: chat.create(**body(text)).choices[0].message.content, call, openai.OpenAIError


PEERS: dict[str, Callable[[str], Peer]] = {"dragoman": _dragoman, "openai": _openai}


def _run(peer: Peer, load: Load) -> Result:
    call, acall, error = peer
    durations: list[float] = []
    began = time.monotonic()

    def loop() -> None:
        for number in range(load.calls):
            start, text = time.monotonic(), f"call {number}"
            try:
                is_answered = call(text) == text
            except error:
                continue
            if is_answered:
                durations.append(time.monotonic() - start)

    async def one(number: int) -> None:
        start, text = time.monotonic(), f"call {number}"
        try:
            is_answered = await acall(text) == text
        except error:
            return
        if is_answered:
            durations.append(time.monotonic() - start)

    async def at_once() -> None:
        numbers = iter(range(load.calls))

        async def work() -> None:
            for number in numbers:
                await one(number)

        await asyncio.gather(*(work() for _ in range(load.at_once)))

    async def paced(per_second: float) -> None:
        async def start(number: int) -> None:
            await asyncio.sleep(number / per_second)
            await one(number)

        await asyncio.gather(*(start(number) for number in range(load.calls)))

    if load.per_second is not None:
        asyncio.run(paced(load.per_second))
    elif load.at_once > 1:
        asyncio.run(at_once())
    else:
        loop()
    return Result(len(durations), time.monotonic() - began, max(durations, default=0.0))


# ── the measurement ─────────────────────────────────────────────────────────


def measure(load: Load, seed: int, peers: Iterable[str] = tuple(PEERS)) -> dict[str, Result]:
    """What each peer has made of a load; all run at the same time, each with a server of its own."""
    with ExitStack() as stack:
        children: dict[str, subprocess.Popen[str]] = {}
        for name in peers:
            url = stack.enter_context(_server(seed, load.rate))
            command = [sys.executable, "-m", "benchmarks.resilience", "client", name, url, json.dumps(load)]
            children[name] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        return {name: Result(*json.loads(child.communicate()[0])) for name, child in children.items()}


def scaled(load: Load, scale: float) -> Load:
    """The same load with fewer calls."""
    return load._replace(calls=max(1, round(load.calls * scale)))


def section(load: Load, seeds: int) -> Section:
    """The rows of a load."""
    results = {seed: measure(load, seed) for seed in range(1, seeds + 1)}
    heads = ("", *(f"seed {seed}" for seed in results), "seconds", "slowest answer")
    rows: list[tuple[str, ...]] = [("possible", *(str(answerable(load, seed)) for seed in results), "", "")]
    for name in PEERS:
        mine = [result[name] for result in results.values()]
        seconds, slowest = sum(each.seconds for each in mine) / len(mine), max(each.slowest for each in mine)
        rows.append((name, *(str(each.answered) for each in mine), f"{seconds:.1f} s", f"{slowest:.2f} s"))
    return Section(f"{load.title}: answered of {load.calls} calls", heads, rows)


def main() -> None:
    """Measure, or be a server or a client for the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--seeds", type=int, default=3, help="measurements of each row, each with another seed")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the calls to make")
    arguments = parser.parse_args()
    match arguments.part:
        case ["serve", seed, rate]:
            asyncio.run(_serve(int(seed), float(rate)))
        case ["client", name, url, load]:
            print(json.dumps(_run(PEERS[name](url), Load(*json.loads(load)))))
        case _:
            print(show([section(scaled(load, arguments.scale), arguments.seeds) for load in LOADS.values()]))


if __name__ == "__main__":
    main()
