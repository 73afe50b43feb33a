"""Many calls with random faults and random cancels: a server that misbehaves, and a client that counts what is left.

`python -m tests.support.soak CALLS` runs both, each in a process of its own, and prints what the client has left.
"""

import asyncio
import contextlib
import ctypes
import gc
import json
import logging
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from dragoman import Attempt, DragomanError, Health, HealthPolicy, Model, Registry, Timeouts

TASKS = 32
THREADS = 8
EVENT = b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"word "}}]}\n\n'
LAST = b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
BODY = b'{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}'


# The server -----------------------------------------------------------------------------------------------------------


class Server:
    """Answers well half of the time, and else with one of the faults that sockets can have."""

    def __init__(self) -> None:
        self._rng = random.Random(7)
        self._faults: list[Callable[[asyncio.StreamWriter], Awaitable[bool]]] = [
            self.close, self.reset, self.stall, self.half_a_head, self.half_a_body, self.garbage, self.refuse, self.drip,
        ]  # fmt: skip

    async def serve(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until the client ends
        os._exit(0)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
                body = await reader.readexactly(length)
                is_streamed = b'"stream":true' in body.replace(b" ", b"")
                good = self.stream if is_streamed else self.whole
                answer = good if self._rng.random() < 0.5 else self._rng.choice(self._faults)
                if not await answer(writer):
                    break
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.transport.abort()

    async def whole(self, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY))
        return True

    async def stream(self, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for data in (*[EVENT] * self._rng.randrange(1, 20), LAST):
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            if self._rng.random() < 0.1:
                await asyncio.sleep(0.002)
        writer.write(b"0\r\n\r\n")
        return True

    async def close(self, _writer: asyncio.StreamWriter) -> bool:
        return False

    async def reset(self, writer: asyncio.StreamWriter) -> bool:
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    async def stall(self, _writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(0.05)
        return False

    async def half_a_head(self, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-le")
        await writer.drain()
        await asyncio.sleep(0.01)
        return False

    async def half_a_body(self, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + EVENT)
        await writer.drain()
        await asyncio.sleep(0.01)
        return False

    async def garbage(self, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"220 mail.example.org ESMTP\r\n\r\n")
        await writer.drain()
        return False

    async def refuse(self, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 2\r\nretry-after: 0\r\n\r\n{}")
        return True

    async def drip(self, writer: asyncio.StreamWriter) -> bool:
        for byte in b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n":
            writer.write(bytes([byte]))
            await asyncio.sleep(0.001)
        return False


# The client -----------------------------------------------------------------------------------------------------------


class Client:
    """Makes calls in tasks and in threads, and stops many of them at a random moment."""

    def __init__(self, port: int) -> None:
        self._rng = random.Random(11)
        policy = HealthPolicy(threshold=10**9)  # no cooldown: every call is made
        self._registry = Registry(env={}, health=Health(policy, lock=threading.Lock(), clock=time.monotonic))
        self._registry.add_provider(name="soak", like="vllm", base_url=f"http://127.0.0.1:{port}/v1")
        self._registry.observe(self._count)
        self.attempts: Counter[str] = Counter()
        self._options: dict[str, Any] = {"retries": 1, "backoff": 0.0, "timeout": Timeouts(total=0.5, first_event=0.03)}

    @property
    def _model(self) -> Model:
        return self._registry.model("soak/m", **self._options)

    def run(self, calls: int) -> dict[str, Any]:
        """Run some calls; what is left of them."""
        sizes: list[int] = []
        blocks: list[int] = []
        for _ in range(8):
            asyncio.run(self._arun(calls // 16))
            self._run_in_threads(calls // 16)
            sizes.append(_resident())
            blocks.append(sys.getallocatedblocks())
        self._registry.close()
        time.sleep(0.1)
        return {
            "sockets": _sockets(),
            "threads": [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()],
            "tasks": self.tasks,
            "attempts": self.attempts,
            "sizes": sizes,
            "blocks": blocks,
        }

    def _count(self, what: object) -> None:
        if isinstance(what, Attempt):
            self.attempts[(what.error or what.outcome).partition(":")[0]] += 1

    async def _arun(self, calls: int) -> None:
        async def work(count: int) -> None:
            for _ in range(count):
                with contextlib.suppress(DragomanError, TimeoutError, asyncio.CancelledError):
                    await self._acall(self._model)

        await asyncio.gather(*(work(calls // TASKS) for _ in range(TASKS)))
        await asyncio.sleep(0.05)  # streams that were left are closed by the loop
        self.tasks = [str(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    async def _acall(self, model: Model) -> None:
        moment = self._rng.random() * 0.02
        match self._rng.randrange(6):
            case 0:
                await model.agenerate("hi")
            case 1:
                async with asyncio.timeout(moment):
                    await model.agenerate("hi")
            case 2:
                task = asyncio.ensure_future(model.agenerate("hi"))
                await asyncio.sleep(moment)
                task.cancel()
                await task
            case 3:
                async for _ in model.astream("hi"):
                    continue
            case 4:
                async for _ in model.astream("hi"):
                    if self._rng.random() < 0.3:
                        break
            case _:
                stream = model.astream("hi")
                closing = asyncio.get_running_loop().call_later(
                    moment, lambda: closers.add(asyncio.ensure_future(stream.aclose()))
                )
                closers: set[asyncio.Future[None]] = set()
                try:
                    async for _ in stream:
                        continue
                finally:
                    closing.cancel()

    def _run_in_threads(self, calls: int) -> None:
        def work() -> None:
            for _ in range(calls // THREADS):
                with contextlib.suppress(DragomanError):
                    self._call(self._model)

        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _call(self, model: Model) -> None:
        match self._rng.randrange(4):
            case 0:
                model.generate("hi")
            case 1:
                for _ in model.stream("hi"):
                    continue
            case 2:
                for _ in model.stream("hi"):
                    if self._rng.random() < 0.3:
                        break
            case _:
                stream = model.stream("hi")
                timer = threading.Timer(self._rng.random() * 0.02, stream.close)
                timer.start()
                try:
                    for _ in stream:
                        continue
                finally:
                    timer.join()


def _resident() -> int:
    """Bytes of memory that are in use, without those that the allocator holds back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")


def _sockets() -> int:
    links = [Path(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]  # noqa: PTH208
    return sum(link.is_symlink() and str(link.readlink()).startswith("socket:") for link in links)


def main(calls: int) -> None:
    command = [sys.executable, "-m", "tests.support.soak", "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        print(json.dumps(Client(int(server.stdout.readline())).run(calls)))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        logging.disable()
        asyncio.run(Server().serve())
    else:
        main(int(sys.argv[1]))
