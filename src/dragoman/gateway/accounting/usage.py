"""Requests that begin and end in, rows of the store out: one a request, and none is lost.

A row is there before its request has been answered, so that whatever kills the gateway leaves a row whose outcome is
unknown. Rows that come while others are being written are written together. A store that is down gets them later.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice

from dragoman.errors import StoreDown
from dragoman.gateway.store.base import Store, UsageRow, UsageSum

MAX_PENDING = 100_000
"""Rows that wait for a store that is down; more of them, and the oldest are lost, which is counted."""
MAX_BATCH = 500


class UsageLog:
    """The rows of a store.

    >>> from dragoman.gateway.store import open_store
    >>> async def main() -> int:
    ...     usage_log = UsageLog(open_store("memory"))
    ...     begun = UsageRow(id="r1", moment=0.0, model="fast")
    ...     await usage_log.record(begun)
    ...     await usage_log.record(msgspec.structs.replace(begun, outcome="served", input=5, output=2))
    ...     return (await usage_log.usage("1970-01-01", "1970-01-01"))[0].output
    >>> import msgspec
    >>> asyncio.run(main())
    2
    """

    def __init__(self, store: Store, /) -> None:
        self.lost = 0
        """Rows that found no place."""
        self._store = store
        self._lock = asyncio.Lock()
        self._pending: OrderedDict[str, UsageRow] = OrderedDict()
        self._is_down = False

    @property
    def pending(self) -> int:
        """Rows that are not written yet."""
        return len(self._pending)

    async def record(self, row: UsageRow, /) -> None:
        """Write a row, or what became of it. It is written when this is done, unless the store is down: then later."""
        self._pending[row.id] = row
        self._bound()
        if not self._is_down:
            await self._write(row.id)

    def queue(self, row: UsageRow, /) -> None:
        """Write a row at the next round: for a store that dies with this process, that loses nothing."""
        self._pending[row.id] = row
        self._bound()

    def _bound(self) -> None:
        if len(self._pending) > MAX_PENDING:
            self._pending.popitem(last=False)
            self.lost += 1

    async def flush(self) -> None:
        """Write what waits for a store that was down."""
        if self._pending:
            await self._write(None)

    async def rows(self, limit: int = 100, /) -> tuple[UsageRow, ...]:
        """The newest rows, newest first."""
        await self.flush()
        return await self._store.rows(limit)

    async def usage(self, first: str, last: str, /) -> tuple[UsageSum, ...]:
        """Sums by day, key, model and target, of the days from `first` to `last`."""
        await self.flush()
        return await self._store.usage(first, last)

    async def aclose(self) -> None:
        """Write all that waits."""
        while self._pending:
            before = len(self._pending)
            await self._write(None)
            if len(self._pending) >= before:
                raise StoreDown(f"usage: {before} rows could not be written")

    async def _write(self, id: str | None) -> None:
        """Write some of what waits; whoever comes first writes for those who wait behind it."""
        async with self._lock:
            while self._pending and (id is None or id in self._pending):
                rows = list(islice(self._pending.values(), MAX_BATCH))
                try:
                    await self._store.record(rows)
                except StoreDown:
                    self._is_down = True
                    return
                self._is_down = False
                self._written(rows)

    def _written(self, rows: Sequence[UsageRow]) -> None:
        for row in rows:
            # One that was settled meanwhile still waits.
            if self._pending.get(row.id) is row:
                del self._pending[row.id]
