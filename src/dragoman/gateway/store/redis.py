"""A store in Redis, for gateways on many machines. Calls that must be atomic are Lua scripts (`redis_scripts`).

Commands that arrive during a round trip are sent together in the next one: a hundred requests at once cost a few trips.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import date, timedelta
from functools import cache
from hashlib import sha1
from secrets import token_hex
from typing import Any, TypeAlias

import msgspec

from dragoman.errors import SetupError, StoreDown
from dragoman.gateway.store import redis_scripts as scripts
from dragoman.gateway.store.base import (
    ANY,
    Charge,
    ConcurrencySlot,
    CounterLevel,
    Expected,
    ReserveOutcome,
    StoredValue,
    UsageRow,
    UsageSum,
    decode_row,
    row_counts,
    sum_usage,
)
from dragoman.gateway.store.usage_queries import (
    HOUR,
    HOUR_TTL,
    MAX_SCAN,
    HourName,
    RowsPage,
    RowsQuery,
    Sums,
    SumsQuery,
    SumsResult,
    hour_name,
    hour_of,
    ledger_counts,
    page_of,
    row_latencies,
)

try:
    from redis import exceptions
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
except ImportError as error:
    raise SetupError("redis: the package is missing; run pip install 'dragoman[redis]'") from error

TIMEOUT = 2.0
"""Seconds for connecting, and for one round trip."""
DOWN_PAUSE = 0.5
"""Seconds after a failure in which no command is sent."""
MAX_BATCH = 256
"""Commands of one round trip."""
SCAN_BATCH = 1000
"""Rows that a query reads at a time."""
ROW_TTL = 90 * 86400
"""Seconds until rows expire. Sums are kept."""

Argument: TypeAlias = str | bytes | int | float
RedisCommand: TypeAlias = tuple[Argument, ...]


class RedisStore:
    """A store for gateways on many machines."""

    is_shared = True

    def __init__(
        self,
        url: str,
        /,
        *,
        prefix: str = "dragoman:",
        clock: Callable[[], float] | None = None,
        max_bytes: int | None = None,
    ) -> None:
        # No retries: a command that seems lost may have run, and a release must not run twice.
        self._redis: Redis = Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - redis does not type it
            url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT, retry=Retry(NoBackoff(), 0)
        )
        self._prefix = prefix
        self._max_bytes = max_bytes
        self._clock = clock
        self._down_until = 0.0
        self._queue: deque[_Pending] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        # Without the URL, which may contain a password.
        return f"RedisStore(prefix={self._prefix!r})"

    def exposure(self) -> str | None:
        return None

    async def read(self, key: str, /) -> StoredValue | None:
        kind = "entry" if self._max_bytes is None else "cache"
        value, version = await self._send("HMGET", self._name(kind, key), "value", "version")
        return None if version is None else StoredValue(value, version.decode())

    async def version(self, key: str, /) -> str | None:
        version = await self._send("HGET", self._name("entry", key), "version")
        return None if version is None else version.decode()

    async def write(self, key: str, value: bytes, /, *, ttl: float | None, expects: Expected = ANY) -> str | None:
        version = token_hex(8)
        expected = "*" if expects is ANY else expects or ""
        lifetime = "" if ttl is None else max(1, round(ttl * 1000))
        if self._max_bytes is not None:
            names = [self._name("cache", key), self._name("cache", "index"), self._name("cache", "sizes")]
            arguments: list[Argument] = [value, version, lifetime, self._max_bytes]
            await self._script(scripts.WRITE_BOUNDED, names, arguments)
            return version
        done = await self._script(scripts.WRITE, [self._name("entry", key)], [value, version, expected, lifetime])
        return version if done else None

    async def delete(self, key: str, /) -> bool:
        return bool(await self._send("DEL", self._name("entry" if self._max_bytes is None else "cache", key)))

    # Counters ---------------------------------------------------------------------------------------------------------

    async def reserve(self, charges: Sequence[Charge], /) -> ReserveOutcome:
        text = await self._script(scripts.RESERVE, self._counters(charges), [_encode(charges), self._now()])
        result = msgspec.json.decode(text)
        return ReserveOutcome(
            granted=result["granted"], reserved_at=result["reserved_at"], levels=_levels(result["levels"])
        )

    async def adjust(self, charges: Sequence[Charge], reserved_at: float, /) -> tuple[CounterLevel, ...]:
        text = await self._script(scripts.ADJUST, self._counters(charges), [_encode(charges), self._now(), reserved_at])
        return _levels(msgspec.json.decode(text))

    async def renew(self, slots: Sequence[ConcurrencySlot], /) -> None:
        await self._script(scripts.RENEW, self._counters(slots), [_encode(slots), self._now()])

    def _counters(self, charges: Sequence[Charge]) -> list[str]:
        return [self._name("meter", charge.key) for charge in charges]

    def _now(self) -> Argument:
        return "" if self._clock is None else repr(self._clock())

    # The usage log ----------------------------------------------------------------------------------------------------

    async def record(self, rows: Sequence[UsageRow], /) -> None:
        keys = [self._rows, self._open]
        arguments: list[Argument] = [ROW_TTL * 1000, HOUR_TTL]
        for row in rows:
            hour = str(hour_of(row))
            keys += [self._name("row", row.id), self._name("uses", row.day)]
            keys += [self._name("hours", hour), self._name("latencies", hour)]
            name = _encode((row.key, row.model, row.target))
            counts = [item for pair in row_counts(row).items() for item in pair]
            arguments += [row.id, row.started_at, int(row.is_finished), _encode(row), name, _encode(counts)]
            arguments += [_encode(hour_name(row)), ",".join(map(str, ledger_counts(row)))]
            arguments.append(",".join(f"{measure} {slot}" for measure, slot in row_latencies(row)))
        await self._script(scripts.RECORD, keys, arguments)

    async def usage(self, first: str, last: str, /) -> tuple[UsageSum, ...]:
        days = _days(first, last)
        hashes = await asyncio.gather(*(self._send("HGETALL", self._name("uses", day)) for day in days))
        sums = [each for day, fields in zip(days, hashes, strict=True) for each in _sums(day, fields)]
        rows = await self._read_rows(await self._send("ZRANGE", self._open, 0, -1))
        return sum_usage(sums, [row for row in rows if first <= row.day <= last])

    async def sums(self, query: SumsQuery, /) -> SumsResult:
        sums = Sums(query)
        if query.grain == "minute":
            count = 0
            async for rows in self._scan(query.first, query.last):
                sums.add_rows(rows)
                count += len(rows)
                if count >= MAX_SCAN:
                    return sums.result(truncated=True)
            return sums.result()
        hours = range(int(query.first), int(query.last), HOUR)
        for start in range(0, len(hours), MAX_BATCH):
            part = hours[start : start + MAX_BATCH]
            kinds = [(kind, str(hour)) for hour in part for kind in ("hours", "latencies")]
            hashes = await asyncio.gather(*(self._send("HGETALL", self._name(*each)) for each in kinds))
            for hour, fields, times in zip(part, hashes[::2], hashes[1::2], strict=True):
                latencies = _latencies(times)
                for name, counts in fields.items():
                    numbers = map(int, counts.split(b","))
                    sums.add(hour, _decode_hour_name(name), numbers, latencies.get(name, {}))
                await asyncio.sleep(0)  # requests go on meanwhile
        return sums.result()

    async def find_rows(self, query: RowsQuery, /) -> RowsPage:
        matches: list[UsageRow] = []
        count, last = 0, query.last if query.before is None else min(query.last, query.before[0])
        async for rows in self._scan(query.first, last):
            matches += [row for row in rows if query.fits(row)]
            count += len(rows)
            if len(matches) > query.limit:
                break
            if count >= MAX_SCAN:  # the client goes on from here
                return RowsPage(rows=tuple(matches), next=(rows[-1].started_at, rows[-1].id))
        return page_of(matches[: query.limit + 1], query)

    async def row(self, id: str, /) -> UsageRow | None:
        data = await self._send("GET", self._name("row", id))
        return None if data is None else decode_row(data)

    async def _scan(self, first: float, last: float) -> AsyncGenerator[tuple[UsageRow, ...]]:
        """All rows of a time, both ends included, newest first, in batches."""
        offset = 0
        while True:
            ids = await self._send("ZREVRANGEBYSCORE", self._rows, repr(last), repr(first), "LIMIT", offset, SCAN_BATCH)
            rows = await self._read_rows(ids)
            if rows:
                yield tuple(sorted(rows, key=lambda row: (row.started_at, row.id), reverse=True))
            if len(ids) < SCAN_BATCH:
                return
            offset += len(ids)

    async def _read_rows(self, ids: Sequence[bytes]) -> tuple[UsageRow, ...]:
        rows: list[UsageRow] = []
        for start in range(0, len(ids), SCAN_BATCH):
            names = [self._name("row", id.decode()) for id in ids[start : start + SCAN_BATCH]]
            rows += [decode_row(row) for row in await self._send("MGET", *names) if row is not None]
        return tuple(rows)

    async def aclose(self) -> None:
        """Finish the commands under way, and close the connection."""
        self._is_closed = True
        if self._sender is not None:
            await asyncio.wait([self._sender])
        await self._redis.aclose()

    # The connection ---------------------------------------------------------------------------------------------------

    @property
    def _rows(self) -> str:
        return self._name("rows", "all")

    @property
    def _open(self) -> str:
        return self._name("rows", "open")

    def _name(self, kind: str, key: str) -> str:
        # The kinds must not change, because existing databases have them: "meter" is a counter, "uses" are sums.
        return f"{self._prefix}{kind}:{key}"

    async def _script(self, text: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        return await self._send("EVALSHA", _digest(text), len(keys), *keys, *arguments)

    async def _send(self, *command: Argument) -> Any:
        if self._is_closed:
            raise StoreDown("redis: the store is closed")
        if time.monotonic() < self._down_until:
            raise StoreDown("redis: the server was down a moment ago", retry_after=1.0)
        loop = asyncio.get_running_loop()
        pending = _Pending(command, loop.create_future())
        self._queue.append(pending)
        if self._sender is None:
            self._sender = loop.create_task(self._send_queue())
        return await pending.result

    async def _send_queue(self) -> None:
        """Send queued commands until there are none. A command is sent even if its caller was cancelled meanwhile."""
        batch: list[_Pending] = []
        try:
            while self._queue:
                batch = [self._queue.popleft() for _ in range(min(MAX_BATCH, len(self._queue)))]
                await self._send_batch(batch)
        finally:
            self._sender = None
            for pending in (*batch, *self._queue):
                pending.fail("not sent")
            self._queue.clear()

    async def _send_batch(self, batch: list["_Pending"]) -> None:
        try:
            results = await self._pipe([pending.command for pending in batch])
            missing = [n for n, result in enumerate(results) if isinstance(result, exceptions.NoScriptError)]
            if missing:
                again = await self._pipe([_with_text(batch[n].command) for n in missing])
                for n, result in zip(missing, again, strict=True):
                    results[n] = result
        except (exceptions.RedisError, OSError) as error:
            self._down_until = time.monotonic() + DOWN_PAUSE
            for pending in (*batch, *self._queue):
                pending.fail(type(error).__name__, error)
            self._queue.clear()
            return
        for pending, result in zip(batch, results, strict=True):
            pending.finish(result)

    async def _pipe(self, commands: list[RedisCommand]) -> list[Any]:
        pipe: Any = self._redis.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        results: list[Any] = await pipe.execute(raise_on_error=False)
        return results


class _Pending:
    """A command that waits for its result."""

    __slots__ = ("command", "result")

    def __init__(self, command: "RedisCommand", result: "asyncio.Future[Any]") -> None:
        self.command = command
        self.result = result

    def finish(self, result: Any) -> None:
        if isinstance(result, Exception):
            self.fail(type(result).__name__, result)
        elif not self.result.done():
            self.result.set_result(result)

    def fail(self, reason: str, error: Exception | None = None) -> None:
        if not self.result.done():
            down = StoreDown(f"redis: {reason}", retry_after=1.0)
            down.__cause__ = error
            self.result.set_exception(down)


@cache
def _digest(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


def _with_text(command: RedisCommand) -> RedisCommand:
    """The command with the text of its script: Redis keeps a script once it has run."""
    text = next(text for text in scripts.ALL if _digest(text) == command[1])
    return ("EVAL", text, *command[2:])


_encode = msgspec.json.encode
_decode_hour_name = msgspec.json.Decoder(HourName).decode
_decode_name = msgspec.json.Decoder(tuple[str | None, str, str | None]).decode


def _levels(levels: list[tuple[float, float, float]]) -> tuple[CounterLevel, ...]:
    return tuple(
        [
            CounterLevel(used=int(used), wait=None if wait < 0 else wait, resets_in=resets_in)
            for used, wait, resets_in in levels
        ]
    )


def _latencies(fields: dict[bytes, bytes]) -> dict[bytes, dict[tuple[int, int], int]]:
    """The times of an hour by name: the name, the measure and the slot are one field."""
    latencies: dict[bytes, dict[tuple[int, int], int]] = {}
    for field, count in fields.items():
        name, measure, slot = field.rsplit(b" ", 2)
        latencies.setdefault(name, {})[int(measure), int(slot)] = int(count)
    return latencies


def _sums(day: str, fields: dict[bytes, bytes]) -> list[UsageSum]:
    counts: dict[bytes, dict[str, int]] = {}
    for field, count in fields.items():
        counted, _, name = field.partition(b" ")
        counts.setdefault(name, {})[counted.decode()] = int(count)
    sums: list[UsageSum] = []
    for name, numbers in counts.items():
        key, model, target = _decode_name(name)
        sums.append(UsageSum(day=day, key=key, model=model, target=target, **numbers))
    return sums


def _days(first: str, last: str) -> list[str]:
    begin, end = date.fromisoformat(first), date.fromisoformat(last)
    return [(begin + timedelta(days=n)).isoformat() for n in range((end - begin).days + 1)]
