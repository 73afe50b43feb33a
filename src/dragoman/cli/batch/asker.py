"""A line of a batch in, the line of its answer out: asked, asked again where that may help. Runs on any machine."""

import asyncio
import random
import threading
import time
from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman.cli.batch.rows import BatchRow, read_row, write_answer, write_error
from dragoman.cli.defaults import check_answer
from dragoman.engine import failover as chain
from dragoman.engine.health import Health, HealthPolicy
from dragoman.errors import ChainExhausted, DragomanError, InvalidRequest, OutputError, SetupError
from dragoman.models import CallOptions
from dragoman.registry import Registry
from dragoman.targets.target import Target
from dragoman.types import Attempt, Request, Response

MAX_BACKOFF = 30.0
PATIENCE = 300.0
"""Seconds without any answer after which the rest is left for another day."""
FAILURES = 20
"""Rows that may fail in a row, at least."""


class BatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a batch asks: all that a machine must be told."""

    spec: str | None
    """Who answers every row; None is whom the row names."""
    fallback: str
    """Who answers a row that names nobody."""
    asked: dict[str, Any] = {}
    tables: dict[str, Any] = {}
    """What a config says of providers, aliases and limits."""
    env: dict[str, str] | None = None
    """The variables that count; None is those of the process."""
    retries: int = 4
    concurrency: int = 8
    keep_going: bool = False


class RowOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a row: its line in the output, or why the batch should stop."""

    line: bytes = b""
    is_error: bool = False
    input: int = 0
    output: int = 0
    stop: str | None = None


class Asker:
    """Asks row by row, many at a time.

    >>> asker = Asker(BatchSettings(spec=None, fallback="demo/any"))
    >>> asyncio.run(asker.ask(b'{"id": 1, "prompt": "Is it so?"}')).line[:24]
    b'{"id":1,"text":"You said'
    """

    def __init__(self, settings: BatchSettings, /) -> None:
        # Two faults in a row are nothing among many rows at a time: a target is benched when all of them fail.
        policy = HealthPolicy(threshold=max(5, 2 * settings.concurrency), base=2.0, cap=60.0)
        health = Health(policy, lock=threading.Lock(), clock=time.monotonic)
        self._settings = settings
        self._registry = Registry(env=settings.env, health=health)
        self._registry.load_tables(settings.tables)
        # It asks again itself, and waits longer than a chain would.
        asked: CallOptions = {"retries": 0}
        if "timeout" in settings.asked:
            asked["timeout"] = settings.asked["timeout"]
        _, self._options = self._registry.model(settings.fallback).request("", **asked)
        self._over = {name: value for name, value in settings.asked.items() if name != "timeout"}
        self._targets: dict[str, list[Target]] = {}
        self._answered = time.monotonic()
        self._failures = 0

    async def ask(self, line: bytes, /) -> RowOutcome:
        """Ask one row until it is answered, or asking again is no use."""
        row = read_row(line)
        tries = 0
        while True:
            try:
                response, value = await self._once(row)
            except DragomanError as error:
                tries += any(attempt.outcome == "failed" for attempt in error.attempts)
                if not _passes(error) or tries > self._settings.retries:
                    return self._failed(row, error)
                if time.monotonic() - self._answered > PATIENCE and not self._settings.keep_going:
                    return RowOutcome(stop=f"nothing was answered for {PATIENCE:.0f} s; the last error was {error}")
                backoff = random.random() * min(MAX_BACKOFF, 0.5 * 2**tries)  # noqa: S311 - jitter, no secret
                await asyncio.sleep(max(error.retry_after or 0.0, backoff))
            else:
                return self._served(row, response, value)

    async def _once(self, row: BatchRow) -> tuple[Response, Any]:
        if row.problem is not None or row.request is None:
            raise row.problem or InvalidRequest("nothing is asked")
        request = self._laid_under(row.request)
        targets = self._targets_of(self._settings.spec or row.model or self._settings.fallback)
        plan = chain.run(request, targets, self._registry.health, self._options)
        response = await self._registry.driver.arun(plan)
        try:
            return response, check_answer(response.text, request.schema)
        except OutputError as error:
            # Asked again, a model may say it right.
            failed = Attempt(target=response.target or "?", outcome="failed", error=error.message)
            error.attempts, error.usage, error.retry = (failed,), response.usage, True
            raise

    def _laid_under(self, request: Request) -> Request:
        """The request with what the command line says, where the row itself says nothing."""
        silent = {name: value for name, value in self._over.items() if getattr(request, name) == getattr(_BARE, name)}
        return replace(request, **silent) if silent else request

    def _targets_of(self, spec: str) -> list[Target]:
        if spec not in self._targets:
            try:
                self._targets[spec] = self._registry.targets(spec)
            except SetupError as error:
                raise InvalidRequest(str(error)) from error
        return self._targets[spec]

    def _served(self, row: BatchRow, response: Response, value: Any) -> RowOutcome:
        self._answered = time.monotonic()
        self._failures = 0
        usage = response.usage
        return RowOutcome(line=write_answer(row, response, value), input=usage.input or 0, output=usage.output or 0)

    def _failed(self, row: BatchRow, error: DragomanError) -> RowOutcome:
        self._failures += 1
        if self._failures > max(FAILURES, 2 * self._settings.concurrency) and not self._settings.keep_going:
            return RowOutcome(stop=f"{self._failures} rows in a row have failed; the last error was {error}")
        return RowOutcome(line=write_error(row, error), is_error=True)


_BARE = Request()


def _passes(error: DragomanError) -> bool:
    """Whether the same request may be answered later."""
    if isinstance(error, ChainExhausted):
        cause = error.__cause__
        return error.retry_after is not None or not isinstance(cause, DragomanError) or cause.retry
    return error.retry
