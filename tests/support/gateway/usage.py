"""The usage log and the metrics of a gateway, for tests."""

from collections.abc import Mapping
from math import inf

from msgspec.structs import replace

from dragoman.engine.health import TargetHealth
from dragoman.gateway.accounting.accounting import Accounting
from dragoman.gateway.observability.metrics import Metrics, encode_metrics
from dragoman.gateway.store import Store
from dragoman.gateway.store.base import UsageRow, UsageSum
from dragoman.gateway.store.usage_queries import RowsQuery

PAGE = 10_000
"""Rows of a page: a store reads at most 100 000 at once."""


async def stored_rows(store: Store, limit: int = 100) -> tuple[UsageRow, ...]:
    """The newest rows, newest first. A store gives at most a page of them at once."""
    query = RowsQuery(first=0.0, last=inf, limit=min(limit, PAGE))
    page = await store.find_rows(query)
    rows = [*page.rows]
    while page.next is not None and len(rows) < limit:
        page = await store.find_rows(replace(query, before=page.next))
        rows += page.rows
    return tuple(rows[:limit])


async def usage_rows(accounting: Accounting, limit: int = 100) -> tuple[UsageRow, ...]:
    """The newest rows, with those that are not written yet; the access log is written, too."""
    await accounting.usage_log.flush()
    if accounting.log is not None:
        accounting.log.flush()
    return await stored_rows(accounting.store, limit)


async def usage_sums(accounting: Accounting, first: str, last: str) -> tuple[UsageSum, ...]:
    """Sums by day, key, model and target, with the rows that are not written yet."""
    await accounting.usage_log.flush()
    return await accounting.store.usage(first, last)


def metrics_text(
    metrics: Metrics, health: Mapping[str, TargetHealth] = {}, *, pending: int = 0, lost: int = 0
) -> bytes:
    """The metrics of one worker in Prometheus format."""
    return encode_metrics({"": metrics.lines(health, pending=pending, lost=lost)})
