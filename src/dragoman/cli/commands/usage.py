"""`dragoman usage`: requests, tokens and costs of a gateway, read from its store."""

import asyncio
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from dragoman.cli import terminal
from dragoman.cli.gateway_config import gateway_store
from dragoman.gateway.store import Store
from dragoman.gateway.store.base import NANODOLLARS, UsageSum

_HEADER = ("day", "key", "model", "target", "requests", "failed", "unknown", "tokens in", "tokens out", "dollars")


def run(arguments: Namespace, /) -> int:
    """Print the sums of the last `--days` days."""
    last = datetime.now(UTC).date()
    first = last - timedelta(days=arguments.days - 1)
    sums = asyncio.run(_read(gateway_store(arguments), first.isoformat(), last.isoformat()))
    if arguments.json:
        terminal.write_json(sums)
    else:
        terminal.write_table([_HEADER, *map(_row, sums)])
    return 0


async def _read(store: Store, first: str, last: str) -> Sequence[UsageSum]:
    try:
        return await store.usage(first, last)
    finally:
        await store.aclose()


def _row(usage: UsageSum) -> tuple[str, ...]:
    # A plus sign: some requests have no known price.
    cost = f"{usage.cost / NANODOLLARS:.6f}" + ("+" if usage.unpriced else "")
    counts = (usage.requests, usage.failed, usage.unknown, usage.input, usage.output)
    return (usage.day, usage.key or "-", usage.model, usage.target or "-", *map(str, counts), cost)
