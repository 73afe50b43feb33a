"""Sends mutated requests to every route of a gateway. No answer may be a 5xx, no error may be logged, nothing may stall.

    .venv/bin/python -m tests.support.gateway.route_fuzz --seconds 60 [--seed 7]

The seeds are what the wires' own client halves send and, if they are there, the recorded requests. A mutation changes the
JSON of the body (tests.support.fuzz), the path, the query, the headers or the method. The target is always the demo, so
that what is tested is the gateway's own code.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import random
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple
from urllib.parse import quote

from dragoman import wires
from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import hash_key
from dragoman.http import HttpRequest
from dragoman.wires.common.server_endpoints import Route
from tests.support import fuzz
from tests.support.gateway.dialects import app_of, send_request

KEY = "sk-dragoman-fuzz-client-0123456789"
OTHER_KEY = "sk-dragoman-fuzz-other-0123456789"
CONFIG = f"""
[gateway]
log = false

[aliases]
fast = "demo/any"

[tiers.simple]
models = ["demo/any"]

[keys.client]
hash = "{hash_key(KEY)}"
admin = true

[keys.other]
hash = "{hash_key(OTHER_KEY)}"
"""
MAX_CPU = 1.0
"""Seconds of CPU time that the event loop's thread may spend on one request."""
MODELS = ("demo/any", "demo/any", "demo/any", "fast", "simple", "demo", "nothing/x", "", "demo/any,demo/any")
IDS = ("resp_1", "conv_1", "x", "", "%00", "a" * 3000, "../..", "%ff", "1?x=1", "\u2028")
ODD_HEADERS = (
    ("content-type", ("text/plain", "", "application/json; charset=utf-16", "multipart/form-data", "a/b/c;;;=")),
    ("authorization", ("", "Bearer", f"Bearer {KEY}x", "Basic eDp5", f"Bearer {OTHER_KEY}", "\xff\x00")),
    ("x-api-key", ("", KEY, "x")),
    ("accept", ("text/event-stream", "*/*;q=2", "")),
    ("accept-encoding", ("gzip", "br;q=x", "")),
    ("content-encoding", ("gzip", "identity", "x", "gzip, gzip", "")),
    ("content-length", ("-1", "9" * 40, "x", "")),
    ("anthropic-version", ("", "2023-06-01", "1")),
    ("anthropic-beta", ("a,b", ",", "\xff")),
    ("idempotency-key", ("", "x" * 5000)),
    ("x-dragoman-conversation", ("", "c1", "x" * 5000, "\n")),
    ("x-request-id", ("", "x" * 5000)),
    ("traceparent", ("00-x", "00-" + "0" * 32 + "-" + "0" * 16 + "-01")),
    ("last-event-id", ("1", "x")),
    ("host", ("", "evil.example", "[::1]:x")),
    ("origin", ("null", "https://evil.example", "")),
)
QUERIES = (
    "",
    "",
    "",
    "?stream=true",
    "?alt=sse",
    "?key=x",
    "?limit=-1",
    "?limit=x&after=%ff",
    "?%=%&&==",
    "?beta=true",
)


class Case(NamedTuple):
    """One request."""

    route: Route
    http: HttpRequest
    seed: str


class Finding(NamedTuple):
    """What a request broke."""

    case: Case
    problem: str

    def __str__(self) -> str:
        http = self.case.http
        return f"{self.problem}\n    {http.method} {http.path}\n    {dict(http.headers)}\n    {fuzz.shown(http.body)}"


class _Errors(logging.Handler):
    """Collects what is logged."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@cache
def _seeds(wire: str, *, recorded: bool) -> fuzz.Seeds:
    return fuzz.seeds(wires.get(wire), recorded=recorded)


class RouteFuzzer:
    """A gateway and the requests that are sent to it."""

    def __init__(self, *, seed: int = 1, recorded: bool = False) -> None:
        self.app: App = app_of(CONFIG)
        self.routes = list(self.app.table())
        self._seed = seed
        self._recorded = recorded

    def case(self, number: int) -> Case:
        """The case of that number: always the same one."""
        name = f"{self._seed}/{number}"
        rng = random.Random(name)
        route, endpoint = self.routes[number % len(self.routes)]
        method = (
            rng.choice(("GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD")) if rng.random() < 0.03 else route.method
        )
        body = b""
        if method in ("POST", "PUT"):
            body = self._body(endpoint.wire.name if endpoint.wire else rng.choice(wires.NAMES), rng)
        headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}", "host": "localhost"}
        while rng.random() < 0.2:
            header, values = rng.choice(ODD_HEADERS)
            headers[header] = rng.choice(values)
        return Case(route, HttpRequest(method=method, path=_path(route, rng), headers=headers, body=body), name)

    def _body(self, wire: str, rng: random.Random) -> bytes:
        seeds = _seeds(wire, recorded=self._recorded)
        body = rng.choice(seeds.requests)
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(body)
            if isinstance(value, dict):
                value["model"] = rng.choice(MODELS)
                if rng.random() < 0.3:
                    value["stream"] = rng.random() < 0.5
                body = json.dumps(value).encode()
        return fuzz.mutate(body, seeds, rng) if rng.random() < 0.7 else body

    async def run(self, case: Case) -> Finding | None:
        """What the case breaks, if it breaks anything."""
        handler = _Errors(logging.ERROR)
        logger = logging.getLogger()
        logger.addHandler(handler)
        start = time.thread_time()
        try:
            async with asyncio.timeout(30):
                seen = await send_request(self.app, case.http)
        except Exception as error:  # noqa: BLE001 - any exception is a finding
            return Finding(case, f"{type(error).__name__}: {error}")
        finally:
            logger.removeHandler(handler)
        took = time.thread_time() - start
        if handler.records:
            return Finding(case, f"logged: {handler.records[0].getMessage()[-1500:]}")
        if seen.status >= 500:
            return Finding(case, f"status {seen.status}: {seen.body[:300]!r}")
        if took > MAX_CPU:
            return Finding(case, f"took {took:.1f} s of CPU time")
        return None


def _path(route: Route, rng: random.Random) -> str:
    parts = list(_segments(route.path, rng))
    path = "".join(parts)
    if rng.random() < 0.03:
        path = rng.choice((path + "/", "/" + path, path + "%", path.upper(), path[:-1], path + "/x"))
    return path + (rng.choice(QUERIES) if rng.random() < 0.3 else "")


def _segments(path: str, rng: random.Random) -> Iterator[str]:
    while "{" in path:
        before, _, rest = path.partition("{")
        name, _, path = rest.partition("}")
        yield before
        value = rng.choice(MODELS if name.startswith("model") else IDS)
        yield value if rng.random() < 0.5 else quote(value, safe="")
    yield path


async def find(
    fuzzer: RouteFuzzer, numbers: Iterator[int], *, until: float = float("inf")
) -> tuple[int, list[Finding]]:
    """How many cases ran, and the first finding of each kind."""
    findings: dict[str, Finding] = {}
    count = 0
    for number in numbers:
        if time.monotonic() > until:
            break
        finding = await fuzzer.run(fuzzer.case(number))
        count += 1
        if finding is not None:
            findings.setdefault(finding.problem[:60] + finding.problem[-120:], finding)
    return count, list(findings.values())


def main() -> int:
    """Fuzz until the time is up; 1 if something broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()) // 86400)
    options = parser.parse_args()
    fuzzer = RouteFuzzer(seed=options.seed, recorded=True)
    numbers = iter(range(10**12))
    count, findings = asyncio.run(find(fuzzer, numbers, until=time.monotonic() + options.seconds))
    for finding in findings:
        print(f"FAILED {finding}")
    print(f"{count} requests to {len(fuzzer.routes)} routes, seed {options.seed}; {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
