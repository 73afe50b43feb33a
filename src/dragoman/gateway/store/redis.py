"""A store in Redis, for gateways on many machines. Every step that must be atomic is a script that runs inside it.

What is asked for while Redis is being asked goes to it together, so that a hundred requests at once cost a few trips.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
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
    Reservation,
    StoredValue,
    UsageRow,
    UsageSum,
    row_counts,
    sum_usage,
)

try:
    from redis import exceptions
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
except ImportError as error:
    raise SetupError("redis: the package is not installed; pip install 'dragoman[redis]'") from error

PATIENCE = 2.0
"""Seconds that one step may take."""
RESPITE = 0.5
"""Seconds for which a store that was down is not asked again."""
MAX_TOGETHER = 256
"""Commands of one trip."""
KEPT_ROWS = 90 * 86400
"""Seconds for which rows are kept; their sums stay."""

Argument: TypeAlias = str | bytes | int | float
Command: TypeAlias = tuple[Argument, ...]


class RedisStore:
    """What gateways on many machines remember.

    >>> RedisStore("redis://localhost:6379/0", prefix="mine:")
    RedisStore(prefix='mine:')
    """

    is_shared = True

    def __init__(self, url: str, /, *, prefix: str = "dragoman:", clock: Callable[[], float] | None = None) -> None:
        # Nothing is tried twice: what seems lost may have been done, and must not be given back again.
        self._redis: Redis = Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - redis does not type it
            url, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE, retry=Retry(NoBackoff(), 0)
        )
        self._prefix = prefix
        self._clock = clock
        self._down_until = 0.0
        self._waiting: deque[_Asked] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        """Without its URL, which may hold a password."""
        return f"RedisStore(prefix={self._prefix!r})"

    async def read(self, key: str, /) -> StoredValue | None:
        """What stands under a key."""
        value, version = await self._ask("HMGET", self._name("entry", key), "value", "version")
        return None if version is None else StoredValue(value, version.decode())

    async def write(self, key: str, value: bytes, /, *, ttl: float | None, expects: Expected = ANY) -> str | None:
        """Put a value there."""
        version = token_hex(8)
        wanted = "*" if expects is ANY else expects or ""
        alive = "" if ttl is None else max(1, round(ttl * 1000))
        done = await self._script(scripts.WRITE, [self._name("entry", key)], [value, version, wanted, alive])
        return version if done else None

    async def delete(self, key: str, /) -> bool:
        """Whether something stood there."""
        return bool(await self._ask("DEL", self._name("entry", key)))

    # Meters -----------------------------------------------------------------------------------------------------------

    async def reserve(self, charges: Sequence[Charge], /) -> Reservation:
        """Take all of the charges, or none."""
        text = await self._script(scripts.TAKE, self._meters(charges), [_encode(charges), self._now()])
        return _decode_taken(text)

    async def release(self, charges: Sequence[Charge], moment: float, /) -> tuple[CounterLevel, ...]:
        """Give back what was taken at a moment."""
        text = await self._script(scripts.GIVE, self._meters(charges), [_encode(charges), self._now(), moment])
        return _levels(msgspec.json.decode(text))

    async def renew(self, seats: Sequence[ConcurrencySlot], /) -> None:
        """Keep seats."""
        await self._script(scripts.RENEW, self._meters(seats), [_encode(seats), self._now()])

    def _meters(self, charges: Sequence[Charge]) -> list[str]:
        return [self._name("meter", charge.key) for charge in charges]

    def _now(self) -> Argument:
        return "" if self._clock is None else repr(self._clock())

    # Rows -------------------------------------------------------------------------------------------------------------

    async def record(self, rows: Sequence[UsageRow], /) -> None:
        """Put rows there."""
        keys = [self._rows, self._open]
        arguments: list[Argument] = [KEPT_ROWS * 1000]
        for row in rows:
            keys += [self._name("row", row.id), self._name("uses", row.day)]
            name = _encode((row.key, row.model, row.target))
            counts = [item for pair in row_counts(row).items() for item in pair]
            arguments += [row.id, row.moment, int(row.is_finished), _encode(row), name, _encode(counts)]
        await self._script(scripts.RECORD, keys, arguments)

    async def rows(self, limit: int, /) -> tuple[UsageRow, ...]:
        """The newest rows."""
        return await self._read_rows(await self._ask("ZREVRANGE", self._rows, 0, limit - 1) if limit > 0 else ())

    async def usage(self, first: str, last: str, /) -> tuple[UsageSum, ...]:
        """The sums of some days."""
        days = _days(first, last)
        found = await asyncio.gather(*(self._ask("HGETALL", self._name("uses", day)) for day in days))
        uses = [use for day, sums in zip(days, found, strict=True) for use in _uses(day, sums)]
        rows = await self._read_rows(await self._ask("ZRANGE", self._open, 0, -1))
        return sum_usage(uses, [row for row in rows if first <= row.day <= last])

    async def _read_rows(self, ids: Sequence[bytes]) -> tuple[UsageRow, ...]:
        if not ids:
            return ()
        found = await self._ask("MGET", *(self._name("row", id.decode()) for id in ids))
        return tuple(_decode_row(row) for row in found if row is not None)

    async def aclose(self) -> None:
        """Finish what was begun, and let go of the connection."""
        self._is_closed = True
        if self._sending is not None:
            await asyncio.wait([self._sending])
        await self._redis.aclose()

    # The connection ---------------------------------------------------------------------------------------------------

    @property
    def _rows(self) -> str:
        return self._name("rows", "all")

    @property
    def _open(self) -> str:
        return self._name("rows", "open")

    def _name(self, kind: str, key: str) -> str:
        return f"{self._prefix}{kind}:{key}"

    async def _script(self, text: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        return await self._ask("EVALSHA", _digest(text), len(keys), *keys, *arguments)

    async def _ask(self, *command: Argument) -> Any:
        if self._is_closed:
            raise StoreDown("redis: this store was closed")
        if time.monotonic() < self._down_until:
            raise StoreDown("redis: it was down a moment ago", retry_after=1.0)
        loop = asyncio.get_running_loop()
        asked = _Asked(command, loop.create_future())
        self._waiting.append(asked)
        if self._sending is None:
            self._sending = loop.create_task(self._send())
        return await asked.answer

    async def _send(self) -> None:
        """Send what waits until nothing does. Whoever asked may have gone: it is sent all the same."""
        together: list[_Asked] = []
        try:
            while self._waiting:
                together = [self._waiting.popleft() for _ in range(min(MAX_TOGETHER, len(self._waiting)))]
                await self._trip(together)
        finally:
            self._sending = None
            for asked in (*together, *self._waiting):
                asked.fail("not sent")
            self._waiting.clear()

    async def _trip(self, together: list["_Asked"]) -> None:
        try:
            results = await self._pipe([asked.command for asked in together])
            unknown = [n for n, result in enumerate(results) if isinstance(result, exceptions.NoScriptError)]
            if unknown:
                again = await self._pipe([_with_text(together[n].command) for n in unknown])
                for n, result in zip(unknown, again, strict=True):
                    results[n] = result
        except (exceptions.RedisError, OSError) as error:
            self._down_until = time.monotonic() + RESPITE
            for asked in (*together, *self._waiting):
                asked.fail(type(error).__name__, error)
            self._waiting.clear()
            return
        for asked, result in zip(together, results, strict=True):
            asked.end(result)

    async def _pipe(self, commands: list[Command]) -> list[Any]:
        pipe: Any = self._redis.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        results: list[Any] = await pipe.execute(raise_on_error=False)
        return results


class _Asked:
    """A command, and where its answer goes."""

    __slots__ = ("answer", "command")

    def __init__(self, command: "Command", answer: "asyncio.Future[Any]") -> None:
        self.command = command
        self.answer = answer

    def end(self, result: Any) -> None:
        if isinstance(result, Exception):
            self.fail(type(result).__name__, result)
        elif not self.answer.done():
            self.answer.set_result(result)

    def fail(self, why: str, error: Exception | None = None) -> None:
        if not self.answer.done():
            down = StoreDown(f"redis: {why}", retry_after=1.0)
            down.__cause__ = error
            self.answer.set_exception(down)


@cache
def _digest(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


def _with_text(command: Command) -> Command:
    """A script that Redis does not know yet, with its text: from then on it knows it."""
    text = next(text for text in scripts.ALL if _digest(text) == command[1])
    return ("EVAL", text, *command[2:])


_encode = msgspec.json.encode
_decode_row = msgspec.json.Decoder(UsageRow).decode
_decode_name = msgspec.json.Decoder(tuple[str | None, str, str | None]).decode


def _decode_taken(text: bytes) -> Reservation:
    told = msgspec.json.decode(text)
    return Reservation(granted=told["granted"], moment=told["moment"], levels=_levels(told["levels"]))


def _levels(told: list[tuple[float, float, float]]) -> tuple[CounterLevel, ...]:
    return tuple(
        [CounterLevel(used=int(used), wait=None if wait < 0 else wait, resets=resets) for used, wait, resets in told]
    )


def _uses(day: str, found: dict[bytes, bytes]) -> list[UsageSum]:
    counts: dict[bytes, dict[str, int]] = {}
    for field, count in found.items():
        what, _, name = field.partition(b" ")
        counts.setdefault(name, {})[what.decode()] = int(count)
    uses: list[UsageSum] = []
    for name, sums in counts.items():
        key, model, target = _decode_name(name)
        uses.append(UsageSum(day=day, key=key, model=model, target=target, **sums))
    return uses


def _days(first: str, last: str) -> list[str]:
    begin, end = date.fromisoformat(first), date.fromisoformat(last)
    return [(begin + timedelta(days=n)).isoformat() for n in range((end - begin).days + 1)]
