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

MAX_WAITING = 100_000
"""Rows that wait for a store that is down; more of them, and the oldest are lost, which is counted."""
MAX_TOGETHER = 500


class UsageLog:
    """The rows of a store.

    >>> from dragoman.gateway.store import open_store
    >>> async def main() -> int:
    ...     ledger = UsageLog(open_store("memory"))
    ...     begun = UsageRow(id="r1", moment=0.0, model="fast")
    ...     await ledger.record(begun)
    ...     await ledger.record(msgspec.structs.replace(begun, outcome="served", input=5, output=2))
    ...     return (await ledger.usage("1970-01-01", "1970-01-01"))[0].output
    >>> import msgspec
    >>> asyncio.run(main())
    2
    """

    def __init__(self, store: Store, /) -> None:
        self.lost = 0
        """Rows that found no place."""
        self._store = store
        self._lock = asyncio.Lock()
        self._waiting: OrderedDict[str, UsageRow] = OrderedDict()
        self._is_down = False

    @property
    def waiting(self) -> int:
        """Rows that are not written yet."""
        return len(self._waiting)

    async def record(self, row: UsageRow, /) -> None:
        """Write a row, or what became of it. It is written when this is done, unless the store is down: then later."""
        self._waiting[row.id] = row
        self._bound()
        if not self._is_down:
            await self._write(row.id)

    def note(self, row: UsageRow, /) -> None:
        """Write a row at the next round: for a store that dies with this process, that loses nothing."""
        self._waiting[row.id] = row
        self._bound()

    def _bound(self) -> None:
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)
            self.lost += 1

    async def tend(self) -> None:
        """Write what waits for a store that was down."""
        if self._waiting:
            await self._write(None)

    async def rows(self, limit: int = 100, /) -> tuple[UsageRow, ...]:
        """The newest rows, newest first."""
        await self.tend()
        return await self._store.rows(limit)

    async def usage(self, first: str, last: str, /) -> tuple[UsageSum, ...]:
        """Sums by day, key, model and target, of the days from `first` to `last`."""
        await self.tend()
        return await self._store.usage(first, last)

    async def aclose(self) -> None:
        """Write all that waits."""
        while self._waiting:
            before = len(self._waiting)
            await self._write(None)
            if len(self._waiting) >= before:
                raise StoreDown(f"usage: {before} rows could not be written")

    async def _write(self, id: str | None) -> None:
        """Write some of what waits; whoever comes first writes for those who wait behind it."""
        async with self._lock:
            while self._waiting and (id is None or id in self._waiting):
                rows = list(islice(self._waiting.values(), MAX_TOGETHER))
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
            if self._waiting.get(row.id) is row:
                del self._waiting[row.id]
