"""A store in Redis, for gateways on many machines. Every step that must be atomic is a script that runs inside it."""

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import date, timedelta
from secrets import token_hex
from typing import Any, TypeAlias

import msgspec

from dragoman.errors import SetupError, StoreDown
from dragoman.gateway.store import scripts
from dragoman.gateway.store.port import (
    ANY,
    Charge,
    Entry,
    Expected,
    Level,
    Row,
    Seat,
    Taken,
    Use,
    counts_of,
    sum_up,
)

try:
    from redis import exceptions
    from redis.asyncio import BlockingConnectionPool, Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
except ImportError as error:
    raise SetupError("redis: the package is not installed; pip install 'dragoman[redis]'") from error

PATIENCE = 2.0
"""Seconds that one step may take."""
RESPITE = 0.5
"""Seconds for which a store that was down is not asked again."""
MOST_CONNECTIONS = 64
KEPT_ROWS = 90 * 86400
"""Seconds for which rows are kept; their sums stay."""

Argument: TypeAlias = str | bytes | int | float


class RedisStore:
    """What gateways on many machines remember.

    >>> RedisStore("redis://localhost:6379/0", prefix="mine:")
    RedisStore(prefix='mine:')
    """

    is_shared = True

    def __init__(self, url: str, /, *, prefix: str = "dragoman:", clock: Callable[[], float] | None = None) -> None:
        # A connection that was idle while Redis came back anew is dead: one more try takes a fresh one.
        pool = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType] - redis does not type it
            url,
            max_connections=MOST_CONNECTIONS,
            timeout=PATIENCE,
            socket_timeout=PATIENCE,
            socket_connect_timeout=PATIENCE,
            retry=Retry(NoBackoff(), 1),
        )
        self._redis = Redis(connection_pool=pool)
        self._command: Callable[..., Awaitable[Any]] = self._redis.execute_command  # pyright: ignore[reportUnknownMemberType] - as above
        self._prefix = prefix
        self._clock = clock
        self._down_until = 0.0
        self._scripts = {
            name: self._redis.register_script(text)
            for name, text in (
                ("write", scripts.WRITE),
                ("take", scripts.TAKE),
                ("give", scripts.GIVE),
                ("renew", scripts.RENEW),
                ("record", scripts.RECORD),
            )
        }

    def __repr__(self) -> str:
        """Without its URL, which may hold a password."""
        return f"RedisStore(prefix={self._prefix!r})"

    async def read(self, key: str, /) -> Entry | None:
        """What stands under a key."""
        value, version = await self._ask("HMGET", self._name("entry", key), "value", "version")
        return None if version is None else Entry(value, version.decode())

    async def write(self, key: str, value: bytes, /, *, ttl: float | None, expects: Expected = ANY) -> str | None:
        """Put a value there."""
        version = token_hex(8)
        wanted = "*" if expects is ANY else expects or ""
        alive = "" if ttl is None else max(1, round(ttl * 1000))
        done = await self._script("write", [self._name("entry", key)], [value, version, wanted, alive])
        return version if done else None

    async def delete(self, key: str, /) -> bool:
        """Whether something stood there."""
        return bool(await self._ask("DEL", self._name("entry", key)))

    # Meters -----------------------------------------------------------------------------------------------------------

    async def take(self, charges: Sequence[Charge], /) -> Taken:
        """Take all of the charges, or none."""
        text = await self._script("take", self._meters(charges), [_encode(charges), self._now()])
        return _decode_taken(text)

    async def give(self, charges: Sequence[Charge], moment: float, /) -> None:
        """Give back what was taken at a moment."""
        await self._script("give", self._meters(charges), [_encode(charges), self._now(), moment])

    async def renew(self, seats: Sequence[Seat], /) -> None:
        """Keep seats."""
        await self._script("renew", self._meters(seats), [_encode(seats), self._now()])

    def _meters(self, charges: Sequence[Charge]) -> list[str]:
        return [self._name("meter", charge.key) for charge in charges]

    def _now(self) -> Argument:
        return "" if self._clock is None else repr(self._clock())

    # Rows -------------------------------------------------------------------------------------------------------------

    async def record(self, rows: Sequence[Row], /) -> None:
        """Put rows there."""
        keys = [self._rows, self._open]
        arguments: list[Argument] = [KEPT_ROWS * 1000]
        for row in rows:
            keys += [self._name("row", row.id), self._name("uses", row.day)]
            name = _encode((row.key, row.model, row.target))
            counts = [item for pair in counts_of(row).items() for item in pair]
            arguments += [row.id, row.moment, int(row.is_settled), _encode(row), name, _encode(counts)]
        await self._script("record", keys, arguments)

    async def rows(self, limit: int, /) -> tuple[Row, ...]:
        """The newest rows."""
        return await self._read_rows(await self._ask("ZREVRANGE", self._rows, 0, limit - 1) if limit > 0 else ())

    async def usage(self, first: str, last: str, /) -> tuple[Use, ...]:
        """The sums of some days."""
        uses: list[Use] = []
        for day in _days(first, last):
            found = await self._ask("HGETALL", self._name("uses", day))
            uses += _uses(day, found)
        rows = await self._read_rows(await self._ask("ZRANGE", self._open, 0, -1))
        return sum_up(uses, [row for row in rows if first <= row.day <= last])

    async def _read_rows(self, ids: Sequence[bytes]) -> tuple[Row, ...]:
        if not ids:
            return ()
        found = await self._ask("MGET", *(self._name("row", id.decode()) for id in ids))
        return tuple(_decode_row(row) for row in found if row is not None)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    # The connection ---------------------------------------------------------------------------------------------------

    @property
    def _rows(self) -> str:
        return self._name("rows", "all")

    @property
    def _open(self) -> str:
        return self._name("rows", "open")

    def _name(self, kind: str, key: str) -> str:
        return f"{self._prefix}{kind}:{key}"

    async def _script(self, name: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        script = self._scripts[name]
        return await self._within(lambda: script(keys=list(keys), args=list(arguments)))

    async def _ask(self, *command: Argument) -> Any:
        return await self._within(lambda: self._command(*command))

    async def _within(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        if time.monotonic() < self._down_until:
            raise StoreDown("redis: it was down a moment ago", retry_after=1.0)
        try:
            return await ask()
        except (exceptions.RedisError, OSError) as error:
            self._down_until = time.monotonic() + RESPITE
            raise StoreDown(f"redis: {type(error).__name__}", retry_after=1.0) from error


_encode = msgspec.json.encode
_decode_row = msgspec.json.Decoder(Row).decode
_decode_name = msgspec.json.Decoder(tuple[str | None, str, str | None]).decode


def _decode_taken(text: bytes) -> Taken:
    told = msgspec.json.decode(text)
    levels = tuple(
        Level(used=int(used), wait=None if wait < 0 else wait, resets=resets) for used, wait, resets in told["levels"]
    )
    return Taken(granted=told["granted"], moment=told["moment"], levels=levels)


def _uses(day: str, found: dict[bytes, bytes]) -> list[Use]:
    counts: dict[bytes, dict[str, int]] = {}
    for field, count in found.items():
        what, _, name = field.partition(b" ")
        counts.setdefault(name, {})[what.decode()] = int(count)
    uses: list[Use] = []
    for name, sums in counts.items():
        key, model, target = _decode_name(name)
        uses.append(Use(day=day, key=key, model=model, target=target, **sums))
    return uses


def _days(first: str, last: str) -> list[str]:
    begin, end = date.fromisoformat(first), date.fromisoformat(last)
    return [(begin + timedelta(days=n)).isoformat() for n in range((end - begin).days + 1)]
