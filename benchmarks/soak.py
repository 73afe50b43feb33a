"""Many requests with faults, slow readers, clients that hang up and a killed worker: `make soak`.

A gateway with two workers and Redis runs in processes of its own. First a quiet run: only healthy requests. Then the
noisy one, in which one request of twenty meets a fault, eight clients read long streams slowly, and a worker is killed.
The table has the memory of the workers after a third of the requests and at the end, the rows that are missing or
doubled, and the 99th percentile of healthy requests in both runs.
"""

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from itertools import count
from pathlib import Path

from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.store import open_store
from tests.support.gateway.crowd import Counting, ask, body_of
from tests.support.gateway.live import Gateway, record
from tests.support.gateway.redis_server import RedisServer

CLIENTS = 32
SLOW_READERS = 8
PLAIN, HASH = new_key()
FAULTS = ("refuse", "cut", "stall", "nobody")
SHARE = 0.05
PAGE = os.sysconf("SC_PAGE_SIZE")


def _workers(gateway: Gateway) -> list[int]:
    pid = gateway.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _memory(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6
    except (OSError, IndexError):
        return 0.0


class Soak:
    """The clients of one run."""

    def __init__(self, gateway: Gateway, requests: int, *, name: str, is_noisy: bool) -> None:
        self.seconds: list[float] = []
        self.answered: set[str] = set()
        self.memory: dict[int, float] = {}
        self._gateway, self._requests, self._name, self._is_noisy = gateway, requests, name, is_noisy
        self._numbers = count()
        self._dice = random.Random(7)
        self._is_over = False

    async def run(self) -> None:
        slow = [asyncio.create_task(self._read_slowly()) for _ in range(SLOW_READERS if self._is_noisy else 0)]
        try:
            await asyncio.gather(*(self._client() for _ in range(CLIENTS)))
        finally:
            self._is_over = True
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)

    async def _client(self) -> None:
        while (number := next(self._numbers)) < self._requests:
            if self._is_noisy and number == self._requests // 10:
                os.kill(_workers(self._gateway)[0], signal.SIGKILL)
            if self._is_noisy and number == self._requests // 3:
                self.memory = {pid: _memory(pid) for pid in _workers(self._gateway)}
            if number and number % 10_000 == 0:
                print(f"  {number} of {self._requests}", file=sys.stderr, flush=True)
            await self._send(f"{self._name}{number}")

    async def _send(self, who: str) -> None:
        fate = self._dice.choice(FAULTS) if self._is_noisy and self._dice.random() < SHARE else "healthy"
        is_streamed = fate in ("cut", "stall") or self._dice.random() < 0.3
        body = body_of(fate, who, stream=is_streamed, max_tokens=self._dice.randrange(1, 20))
        if fate == "nobody":
            body["model"] = "nobody"
        start = time.perf_counter()
        seen = await ask(self._gateway.port, body, PLAIN, id=who, words=3 if fate == "stall" else None)
        if fate == "healthy" and seen.is_whole and seen.status == 200:
            self.seconds.append(time.perf_counter() - start)
        if seen.is_whole:
            self.answered.add(who)

    async def _read_slowly(self) -> None:
        """Long streams, of which a little is read in each second; then the client goes."""
        for number in count():
            body = body_of("healthy", f"{self._name}slow{number}", stream=True, max_tokens=50_000)
            text = json.dumps(body).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {PLAIN}\r\n"
            head += f"content-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._gateway.port, limit=4096)
            except OSError:
                await asyncio.sleep(0.2)
                continue
            try:
                writer.write(head.encode() + text)
                for _ in range(10):
                    await reader.read(4096)
                    await asyncio.sleep(0.5)
            except OSError:
                pass
            finally:
                writer.close()


def _p99(seconds: list[float]) -> float:
    ordered = sorted(seconds)
    return ordered[int(len(ordered) * 0.99)] * 1000 if ordered else 0.0


async def _rows(url: str, limit: int) -> Counter[str]:
    store = open_store(url)
    try:
        return Counter(row.id.partition("~")[0] for row in await store.rows(limit))
    finally:
        await store.aclose()


def main(requests: int) -> None:
    """Run both, and print the table."""
    redis = RedisServer()
    redis.start()
    try:
        with Counting() as upstream, tempfile.TemporaryDirectory() as folder:
            config = f'[gateway]\nstore = "{redis.url}"\nlog = false\n[chain]\nretries = 0\n'
            config += f'[keys.team]\nhash = "{HASH}"\n' + record("openai", upstream.base_url)
            with Gateway(Path(folder), config, workers=2) as gateway:
                quiet = Soak(gateway, max(1000, requests // 20), name="quiet", is_noisy=False)
                asyncio.run(quiet.run())
                noisy = Soak(gateway, requests, name="noisy", is_noisy=True)
                start = time.perf_counter()
                asyncio.run(noisy.run())
                took = time.perf_counter() - start
                end = {pid: _memory(pid) for pid in noisy.memory}
            rows = asyncio.run(_rows(redis.url, 10 * requests))
    finally:
        redis.stop()
    growth = max(end[pid] / before - 1 for pid, before in noisy.memory.items())
    before, after = _p99(quiet.seconds), _p99(noisy.seconds)
    print(
        f"{requests} requests in {took:.0f} s, {SHARE:.0%} with faults, {SLOW_READERS} slow readers, one worker killed"
    )
    print(
        f"memory of the workers   {_shown(noisy.memory)} MB after a third, {_shown(end)} MB at the end: {growth:+.1%}"
    )
    print(f"answers without a row   {len((quiet.answered | noisy.answered) - rows.keys())}")
    print(f"requests with two rows  {sum(times > 1 for times in rows.values())}")
    print(f"p99 of healthy requests {before:.1f} ms quiet, {after:.1f} ms noisy: {after / before:.2f} times")


def _shown(memory: dict[int, float]) -> str:
    return " and ".join(f"{size:.1f}" for size in memory.values())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
