"""Many requests with faults, slow readers, clients that hang up and a killed worker: `make soak`.

A gateway with two workers and Redis, its provider, the clients that are measured and those that make noise run in
processes of their own. Requests are sent at a fixed rate, each on a new connection, and their time counts from the
moment when they were due; so a stall is seen by all requests that it delays. There are three runs, one after the other,
at the same rate:

1. a warm-up with everything that the third one has, but for the kill;
2. a quiet run: only healthy requests;
3. the noisy run: one request of twenty meets a fault, eight clients read long streams slowly, and a worker is killed.
   The eight begin their streams evenly spread, one after the other. Another process (`Noise`) sends all of these to a
   provider of their own: what is measured sends healthy requests in each run, so its own work is the same. Clients and
   providers of others do not use the processors of a gateway, so these two processes only take what the others leave.

The 99th percentile is that of healthy requests, by window of a run: the table has the median and the worst of them.
Two more lines say where the time went: how late the requests were sent, which is the delay of the clients themselves,
and the time by the clock of the gateway, from its usage log.
Growth of memory is measured from the moment when each worker, also the one that replaced the killed one, has answered
`WARM` requests (by its metrics), until the end.
"""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.store import open_store
from tests.support.gateway.counting_provider import CountingProvider, ask, body_of
from tests.support.gateway.live import Gateway, record
from tests.support.gateway.redis_server import RedisServer
from tests.support.gateway.usage import stored_rows

RATE = 400
"""Requests per second: about half of what two processors can do, with the clients, the provider and Redis."""
WARM = 10_000
"""Requests that each worker has answered before growth is measured; less in a short run."""
WINDOWS = 10
"""Parts of a run that have a percentile of their own."""
CLIENTS = 64
"""Requests in progress. If all are, the next one waits, and its time counts from the moment when it was due."""
SLOW_READERS = 8
READ_PAUSE = 0.5
"""Seconds between two reads of a slow reader."""
READS = 10
"""Reads of a slow reader before it leaves, and begins another stream."""
READER_GAP = READ_PAUSE * READS / SLOW_READERS
"""Seconds from the start of one slow reader to that of the next. Clients that know nothing of each other do not begin
in the same moment: eight long streams at once would be a burst that only this program makes."""
PLAIN, HASH = new_key()
VIEWER, VIEWER_HASH = new_key()
FAULTS = ("refuse", "cut", "stall", "nobody")
SHARE = 0.05
STREAMED = 0.3
"""Share of the requests that are streamed."""
PAGE = os.sysconf("SC_PAGE_SIZE")
SAMPLE_INTERVAL = 5.0
"""Seconds between two samples of the workers: they report their metrics as often."""
_ENDED = re.compile(r'dragoman_requests_total\{worker="(\d+)".*\} (\d+)')


class Sample(msgspec.Struct, frozen=True):
    """The workers at one moment, by process id."""

    sent: int
    answered: dict[int, int]
    megabytes: dict[int, float]


class Noise:
    """Clients that meet faults and clients that read slowly, until the run is over."""

    def __init__(self, port: int, rate: float, name: str, /) -> None:
        self.answered: list[str] = []
        self.sent = 0
        self._port, self._rate, self._name = port, rate, name
        self._rng = random.Random(8)
        self._clients = asyncio.Semaphore(CLIENTS)

    async def run(self, until: "asyncio.Future[str]") -> None:
        """Send faulty requests, each when it is due."""
        readers = [asyncio.create_task(self._read_slowly(number)) for number in range(SLOW_READERS)]
        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in count():
                await asyncio.wait((until,), timeout=start + number / self._rate - time.perf_counter())
                if until.done():
                    break
                await self._clients.acquire()
                self.sent += 1
                group.create_task(self._send(f"{self._name}fault{number}", self._rng.choice(FAULTS)))
        for task in readers:
            task.cancel()
        await asyncio.gather(*readers, return_exceptions=True)

    async def _send(self, who: str, fate: str) -> None:
        is_streamed = fate in ("cut", "stall") or self._rng.random() < STREAMED
        body = _noisy(fate, who, stream=is_streamed, max_tokens=self._rng.randrange(1, 20))
        try:
            seen = await ask(self._port, body, PLAIN, id=who, words=3 if fate == "stall" else None)
        finally:
            self._clients.release()
        if seen.is_whole:
            self.answered.append(who)

    async def _read_slowly(self, reader_number: int) -> None:
        """Long streams, of which a little is read in each second; then the client goes."""
        await asyncio.sleep(reader_number * READER_GAP)
        for number in count():
            who = f"{self._name}slow{reader_number}-{number}"
            text = json.dumps(_noisy("healthy", who, stream=True, max_tokens=50_000)).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {PLAIN}\r\n"
            head += f"content-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=4096)
            except OSError:
                await asyncio.sleep(0.2)
                continue
            try:
                writer.write(head.encode() + text)
                for _ in range(READS):
                    await reader.read(4096)
                    await asyncio.sleep(READ_PAUSE)
            except OSError:
                pass
            finally:
                writer.close()


def _noisy(fate: str, who: str, /, *, stream: bool, max_tokens: int) -> dict[str, Any]:
    """A request that makes noise: its provider is not that of the requests that are measured."""
    body = body_of(fate, who, stream=stream, max_tokens=max_tokens)
    return {**body, "model": "nobody" if fate == "nobody" else f"noisy/{fate}"}


class Run:
    """The healthy clients of one run."""

    def __init__(self, gateway: Gateway, requests: int, rate: float, name: str, /) -> None:
        self.seconds: list[tuple[int, float]] = []
        """Of each request that was answered: its number and its time."""
        self.late: list[tuple[int, float]] = []
        """Of each request: its number, and how late it was sent."""
        self.answered: set[str] = set()
        self.broken = 0
        """Requests without a whole answer."""
        self.samples: list[Sample] = []
        self.took = 0.0
        self._gateway, self._requests, self._rate, self._name = gateway, requests, rate, name
        self._rng = random.Random(7)
        self._sent = 0
        self._clients = asyncio.Semaphore(CLIENTS)

    @property
    def port(self) -> int:
        """The port of the gateway."""
        return self._gateway.port

    async def run(self, *, kills: bool = False) -> None:
        """Send all requests, each when it is due."""
        sampling = asyncio.create_task(self._take_samples())
        start = time.perf_counter()
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._requests):
                    due = start + number / self._rate
                    if (wait := due - time.perf_counter()) > 0:
                        await asyncio.sleep(wait)
                    if kills and number == self._requests // 10:
                        os.kill(_workers(self._gateway)[0], signal.SIGKILL)
                    await self._clients.acquire()
                    self._sent += 1
                    group.create_task(self._send(number, due))
            self.took = time.perf_counter() - start
            self.samples.append(await self._take_sample())
        finally:
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)

    def p99s(self, seconds: list[tuple[int, float]], /) -> list[float]:
        """Milliseconds, by window."""
        size = -(-self._requests // WINDOWS)
        parts: list[list[float]] = [[] for _ in range(WINDOWS)]
        for number, each in seconds:
            parts[number // size].append(each)
        return [_p99(part) for part in parts]

    def at_the_gateway(self, durations: dict[str, float], /) -> list[tuple[int, float]]:
        """Of each request that was answered: its number and its time in the usage log."""
        ids = ((number, f"{self._name}{number}") for number, _ in self.seconds)
        return [(number, durations[id]) for number, id in ids if id in durations]

    async def _send(self, number: int, due: float) -> None:
        who = f"{self._name}{number}"
        is_streamed = self._rng.random() < STREAMED
        body = body_of("healthy", who, stream=is_streamed, max_tokens=self._rng.randrange(1, 20))
        self.late.append((number, time.perf_counter() - due))
        try:
            seen = await ask(self._gateway.port, body, PLAIN, id=who)
        finally:
            self._clients.release()
        if seen.is_whole:
            self.answered.add(who)
        if seen.is_whole and seen.status == 200:
            self.seconds.append((number, time.perf_counter() - due))
        else:
            self.broken += 1

    async def _take_samples(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_INTERVAL)
            self.samples.append(await self._take_sample())
            print(f"  {self._name}: {_shown(self.samples[-1])}", file=sys.stderr, flush=True)

    async def _take_sample(self) -> Sample:
        status, text = await asyncio.to_thread(self._gateway.get, "/metrics", authorization=f"Bearer {VIEWER}")
        if status != 200:
            raise RuntimeError(f"/metrics answered {status}")
        ended: Counter[int] = Counter()
        for worker, requests in _ENDED.findall(text.decode()):
            ended[int(worker)] += int(requests)
        workers = _workers(self._gateway)
        return Sample(self._sent, {pid: ended[pid] for pid in workers}, {pid: _memory(pid) for pid in workers})


def _workers(gateway: Gateway) -> list[int]:
    return gateway.processes()[1:]


def _memory(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6
    except (OSError, IndexError):
        return 0.0


def _p99(seconds: list[float]) -> float:
    ordered = sorted(seconds)
    return ordered[int(len(ordered) * 0.99)] * 1000 if ordered else 0.0


def _shown(sample: Sample) -> str:
    workers = (f"{sample.megabytes[pid]:.1f} MB after {answered} answers" for pid, answered in sample.answered.items())
    return f"{sample.sent} sent; " + ", ".join(workers)


def _warm(samples: list[Sample], warm: int) -> Sample:
    """The first sample at which the workers of the end have all answered enough."""
    last = samples[-1].answered.keys()
    return next((sample for sample in samples if all(sample.answered.get(pid, 0) >= warm for pid in last)), samples[-1])


async def _rows(url: str, limit: int) -> tuple[Counter[str], dict[str, float]]:
    """The rows of each request in the usage log, and its time."""
    store = open_store(url)
    try:
        rows = [(row.id.partition("~")[0], row.duration) for row in await stored_rows(store, limit)]
    finally:
        await store.aclose()
    return Counter(id for id, _ in rows), {id: duration for id, duration in rows if duration is not None}


@contextmanager
def _process(*words: str) -> Generator["subprocess.Popen[str]"]:
    """This program in another process, which ends when its input does."""
    command = [sys.executable, "-m", "benchmarks.soak", *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.stdin is not None:
                process.stdin.close()


def _first_line(process: "subprocess.Popen[str]") -> str:
    if process.stdout is None:
        raise RuntimeError("the process has no pipe")
    return process.stdout.readline().strip()


def _run_when_idle() -> None:
    """Give this process only the time in which a processor has nothing else to do.

    The clients that make noise and their provider have processors of their own elsewhere. What the gateway does for
    them is measured, and not what they do themselves.
    """
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def provide(*, is_noisy: bool) -> None:
    """The provider, until its input ends."""
    if is_noisy:
        _run_when_idle()
    with CountingProvider() as provider:
        print(provider.base_url, flush=True)
        sys.stdin.read()


async def make_noise(port: int, rate: float, name: str) -> None:
    """The noise, until its input ends; prints which requests were answered."""
    _run_when_idle()
    noise = Noise(port, rate, name)
    await noise.run(asyncio.ensure_future(asyncio.to_thread(sys.stdin.read)))
    print(json.dumps({"sent": noise.sent, "answered": noise.answered}))


def _run(run: Run, rate: float, name: str, *, kills: bool = False) -> set[str]:
    """A run with noise; returns which requests were answered."""
    with _process("--noise", str(run.port), str(rate * SHARE), name, PLAIN) as noise:
        asyncio.run(run.run(kills=kills))
        if noise.stdin is None or noise.stdout is None:
            raise RuntimeError("the noise has no pipes")
        noise.stdin.close()
        report = json.loads(noise.stdout.read())
    print(f"  {name}: {report['sent']} requests with faults", file=sys.stderr, flush=True)
    return run.answered.union(report["answered"])


def main(requests: int, rate: int) -> None:
    """Make the three runs, and print the table."""
    redis = RedisServer()
    redis.start()
    warm = min(WARM, requests // 10)
    healthy, answered = rate * (1 - SHARE), set[str]()
    try:
        with (
            _process("--provider") as provider,
            _process("--noisy-provider") as noisy_provider,
            tempfile.TemporaryDirectory() as folder,
        ):
            config = f'[gateway]\nstore = "{redis.url}"\nlog = false\n[chain]\nretries = 0\n'
            config += (
                f'[keys.team]\nhash = "{HASH}"\n[keys.viewer]\nrole = "viewer"\nhash = "{VIEWER_HASH}"\n'
                + record("openai", _first_line(provider))
                + record("noisy", _first_line(noisy_provider))
            )
            with Gateway(Path(folder), config, workers=2) as gateway:
                first = Run(gateway, int(2 * warm * (1 - SHARE)), healthy, "warm-up")
                answered |= _run(first, rate, "warm-up")
                quiet = Run(gateway, max(1000, requests // 4), rate, "quiet")
                asyncio.run(quiet.run())
                noisy = Run(gateway, int(requests * (1 - SHARE)), healthy, "noisy")
                answered |= _run(noisy, rate, "noisy", kills=True) | quiet.answered
        rows, durations = asyncio.run(_rows(redis.url, 10 * requests))
    finally:
        redis.stop()
    print(f"{requests} requests in {noisy.took:.0f} s ({rate} per second), {SHARE:.0%} with faults,", end=" ")
    print(f"{SLOW_READERS} slow readers, one worker killed")
    _print_memory(noisy, warm)
    print(f"answers without a row    {len(answered - rows.keys())}")
    print(f"requests with two rows   {sum(times > 1 for times in rows.values())}")
    print(f"healthy but not answered {noisy.broken} noisy, {quiet.broken} quiet")
    _print_percentiles("p99", quiet.p99s(quiet.seconds), noisy.p99s(noisy.seconds))
    _print_percentiles("sent late", quiet.p99s(quiet.late), noisy.p99s(noisy.late))
    inside = [run.p99s(run.at_the_gateway(durations)) for run in (quiet, noisy)]
    _print_percentiles("at the gateway", *inside)


def _print_memory(noisy: Run, warm: int) -> None:
    before, after = _warm(noisy.samples, warm), noisy.samples[-1]
    growth = max(size / before.megabytes[pid] - 1 for pid, size in after.megabytes.items())
    print(f"memory, warm             {_shown(before)}")
    print(f"memory, end              {_shown(after)}: {growth:+.1%}")


def _print_percentiles(name: str, quiet: list[float], noisy: list[float]) -> None:
    """The p99 of each window of both runs; the second of the noisy run has the kill."""
    print(f"{name}, quiet".ljust(24), _milliseconds(quiet))
    print(f"{name}, noisy".ljust(24), f"{_milliseconds(noisy)}: {median(noisy) / median(quiet):.2f} times")


def _milliseconds(windows: list[float]) -> str:
    each = " ".join(f"{value:.0f}" for value in windows)
    return f"{each} ms: median {median(windows):.1f}, worst {max(windows):.1f}"


if __name__ == "__main__":
    if sys.argv[1:2] in (["--provider"], ["--noisy-provider"]):
        provide(is_noisy=sys.argv[1] == "--noisy-provider")
    elif sys.argv[1:2] == ["--noise"]:
        PLAIN = sys.argv[5]  # pyright: ignore[reportConstantRedefinition] # the key of the gateway that runs
        asyncio.run(make_noise(int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]))
    else:
        numbers = [int(each) for each in sys.argv[1:]]
        main(numbers[0] if numbers else 10_000, numbers[1] if len(numbers) > 1 else RATE)
