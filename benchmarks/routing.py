"""A pool with a good, a slow, a limited and a broken deployment: which order sends how much where, and what it costs.

`python -m benchmarks.routing [--calls 400] [--at-once 16]`. With `PYTHON_LITELLM`, the Python of a venv that has
litellm, its Router does the same with its own strategies. Every run has servers of its own on the loopback address:

    good      answers after 60 ms
    slow      answers after 600 ms
    limited   as good, but 30 requests a minute; it reports them in headers, and answers 429 to the others
    broken    answers 500 after 20 ms

Nobody is told about the limit. Both have two retries. The share of a deployment is that of the answers. A call without
an answer is an error. `refused` counts the requests that a server answered with 429 or 500: they only cost time.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from statistics import quantiles
from typing import IO, Any, NamedTuple, cast

from benchmarks.table import ABSENT, Section, show

MODEL = "model-x"
DELAYS = {"good": 0.06, "slow": 0.6, "limited": 0.06, "broken": 0.02}
PER_MINUTE = 30
LONGEST = 60.0
"""Seconds of one run: more is a failure of its client."""
ORDERS = ("in_order", "weighted", "least_busy", "fastest", "cheapest")
STRATEGIES = ("simple-shuffle", "least-busy", "latency-based-routing", "usage-based-routing-v2", "cost-based-routing")
COSTS = {"good": 2.0, "slow": 1.0, "limited": 1.0, "broken": 1.0}
"""For the orders that know costs: the good one is the dearest."""


class Result(NamedTuple):
    """What a client has made of the calls."""

    shares: dict[str, int]
    """Answers by deployment."""
    errors: int
    refused: int
    seconds: list[float]
    """Of every call, also of those without an answer."""


# ── the deployments ─────────────────────────────────────────────────────────


class Deployment:
    """A server of Chat Completions with a temper."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.refused = 0
        self._moments: list[float] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        headers: dict[str, str]
        body: dict[str, Any]
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0)
                await reader.readexactly(length)
                if head.startswith(b"get /refused"):
                    status, headers, body = 200, {}, {"refused": self.refused}
                else:
                    status, headers = self._admit()
                    self.refused += status != 200
                    await asyncio.sleep(DELAYS[self.name] if status != 429 else 0.005)
                    body = _completion(self.name) if status == 200 else {"error": {"message": f"{self.name} says no"}}
                data = json.dumps(body).encode()
                lines = [f"HTTP/1.1 {status} X", "content-type: application/json", f"content-length: {len(data)}"]
                lines += [f"{name}: {value}" for name, value in headers.items()]
                writer.write("\r\n".join([*lines, "", ""]).encode() + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _admit(self) -> tuple[int, dict[str, str]]:
        if self.name == "broken":
            return 500, {}
        if self.name != "limited":
            return 200, {}
        now = time.monotonic()
        self._moments = [moment for moment in self._moments if moment > now - 60]
        is_over = len(self._moments) >= PER_MINUTE
        if not is_over:
            self._moments.append(now)
        reset = max(1.0, 60 - (now - self._moments[0]))
        headers = {
            "x-ratelimit-limit-requests": str(PER_MINUTE),
            "x-ratelimit-remaining-requests": str(PER_MINUTE - len(self._moments)),
            "x-ratelimit-reset-requests": f"{reset:.0f}s",
        }
        return (429, {**headers, "retry-after": f"{reset:.0f}"}) if is_over else (200, headers)


def _completion(name: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": name}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice], "usage": usage}


async def _serve() -> None:
    ports: dict[str, int] = {}
    for name in DELAYS:
        server = await asyncio.start_server(Deployment(name).answer, "127.0.0.1", 0)
        ports[name] = server.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    await asyncio.Event().wait()


@contextmanager
def deployments() -> Generator[dict[str, int], None, None]:
    """The ports of new servers."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.routing", "--serve"], stdout=subprocess.PIPE)
    output = cast("IO[bytes]", process.stdout)
    try:
        yield json.loads(output.readline())
    finally:
        process.terminate()
        process.wait()
        output.close()


# ── the clients ─────────────────────────────────────────────────────────────


def dragoman(ports: dict[str, int], order: str) -> Callable[[str], Awaitable[str]]:
    """A pool of the library."""
    from dragoman import Registry

    registry = Registry(env={})
    for name, port in ports.items():
        registry.add_provider(name=name, like="openai-chat", base_url=f"http://127.0.0.1:{port}/v1", api_key="k")
    fields: dict[str, Any] = {"costs": COSTS} if order == "cheapest" else {}
    registry.add_pool("pool", providers=[*ports], order=order, **fields)
    model = registry.model(f"pool/{MODEL}")

    async def ask(prompt: str) -> str:
        return (await model.agenerate(prompt)).text

    return ask


def litellm(ports: dict[str, int], strategy: str) -> Callable[[str], Awaitable[str]]:
    """LiteLLM's Router."""
    library: Any = import_module("litellm")
    library.suppress_debug_info = True
    models = [
        {
            "model_name": "pool",
            "litellm_params": {
                "model": f"openai/{MODEL}",
                "api_base": f"http://127.0.0.1:{port}/v1",
                "api_key": "k",
                "input_cost_per_token": COSTS[name] / 1e6,
                "output_cost_per_token": COSTS[name] / 1e6,
            },
            "model_info": {"id": name},
        }
        for name, port in ports.items()
    ]
    router: Any = library.Router(model_list=models, routing_strategy=strategy, num_retries=2)

    async def ask(prompt: str) -> str:
        response: Any = await router.acompletion(model="pool", messages=[{"role": "user", "content": prompt}])
        return str(response.choices[0].message.content)

    return ask


CLIENTS = {"dragoman": dragoman, "litellm": litellm}


async def _load(ask: Callable[[str], Awaitable[str]], calls: int, at_once: int) -> tuple[list[float], Counter[str]]:
    seconds: list[float] = []
    answers: Counter[str] = Counter()
    numbers = iter(range(calls))

    async def worker() -> None:
        for number in numbers:
            began = time.perf_counter()
            try:
                answer = await ask(f"call {number}")
            except Exception:  # noqa: BLE001 - whatever a client raises, the call has no answer
                answer = ""
            seconds.append(time.perf_counter() - began)
            answers[answer] += 1

    await asyncio.gather(*(worker() for _ in range(at_once)))
    return seconds, answers


def measure(client: str, order: str, calls: int, at_once: int) -> Result | None:
    """Run one client with one order in a process of its own; None if it is not installed."""
    python = sys.executable if client == "dragoman" else os.environ.get("PYTHON_LITELLM", "")
    if not python:
        return None
    with deployments() as ports:
        arguments = ["--client", client, "--order", order, "--calls", str(calls), "--at-once", str(at_once)]
        command = [python, "-m", "benchmarks.routing", *arguments, "--ports", json.dumps(ports)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            print(f"{client} {order}: not done after {LONGEST:g} s", file=sys.stderr)
            return None
        if done.returncode:
            print(f"{client} {order}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return None
        seconds, answers = json.loads(done.stdout.splitlines()[-1])
        refused = sum(asyncio.run(_refused(port)) for port in ports.values())
    return Result({name: answers.get(name, 0) for name in DELAYS}, answers.get("", 0), refused, seconds)


async def _refused(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /refused HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    body = await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0]))
    writer.close()
    return int(json.loads(body)["refused"])


# ── the table ───────────────────────────────────────────────────────────────


def _row(label: str, result: Result | None) -> tuple[str, ...]:
    if result is None:
        return (label, ABSENT, *["-"] * (len(DELAYS) + 3))
    calls = len(result.seconds)
    cuts = quantiles(result.seconds, n=100)
    shares = [f"{count / calls:.0%}" for count in result.shares.values()]
    times = [f"{cuts[49] * 1e3:.0f} ms", f"{cuts[94] * 1e3:.0f} ms"]
    return (label, *shares, *times, f"{result.errors / calls:.1%}", str(result.refused))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--order", default="", help=argparse.SUPPRESS)
    parser.add_argument("--ports", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(_serve())
        return
    if given.client:
        ask = CLIENTS[given.client](json.loads(given.ports), given.order)
        print(json.dumps(asyncio.run(_load(ask, given.calls, given.at_once))))
        return
    heads = ("", *DELAYS, "p50", "p95", "errors", "refused")
    runs = [("dragoman", order) for order in ORDERS] + [("litellm", strategy) for strategy in STRATEGIES]
    rows = [_row(f"{client}, {order}", measure(client, order, given.calls, given.at_once)) for client, order in runs]
    print(show([Section(f"{given.calls} calls, {given.at_once} at once: share of the answers", heads, rows)]))


if __name__ == "__main__":
    main()
