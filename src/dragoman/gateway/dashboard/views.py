"""A set-up in, what the dashboard shows of it out, as JSON: never a key, a word of content or a URL's password."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import msgspec

from dragoman import models
from dragoman.engine.failover import ChainOptions
from dragoman.errors import ModelNotFound, StoreDown, redact
from dragoman.gateway.accounting.recent import MOST, error_type
from dragoman.gateway.observability import health
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.store.base import UsageSum, utc_day
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Request, is_list, is_object
from dragoman.wires.common.json import without_none

DAY = 86400.0
MAX_TARGETS = 200
"""Clients may name as many models of a provider as they like."""
LONGEST = 400
"""Characters of one text in an explanation: pictures have millions."""
SUMS = ("requests", "failed", "unknown", "input", "output", "cost", "unpriced")


async def snapshot(runtime: Runtime, /) -> JsonObject:
    """Targets and how they are, names and what they stand for.

    >>> import asyncio
    >>> from dragoman.gateway.config import decode_config
    >>> told = asyncio.run(snapshot(Runtime(decode_config('[aliases]\\nfast = "demo/any"'), {})))
    >>> told["targets"][0]["name"], told["targets"][0]["state"], told["names"][0]["targets"]
    ('demo/any', 'well', ['demo/any'])
    """
    in_flight = runtime.accounting.metrics.in_flight
    report = await health.report(runtime, in_flight=in_flight)
    names = dict.fromkeys((*runtime.catalog.tiers, *runtime.registry.aliases()))
    named = [model.id for model in runtime.catalog.models() if model.id not in names]
    # Clients put keys where names belong: these are not shown.
    seen = filter(lambda name: redact(name) == name, sorted(runtime.registry.health.snapshot()))
    asked = (name for name in seen if is_target(runtime, name))
    known = islice(dict.fromkeys((*named, *asked)), MAX_TARGETS)
    return {
        "store": report["store"],
        "in_flight": in_flight,
        "pending_rows": runtime.accounting.usage_log.pending,
        "lost_rows": runtime.accounting.usage_log.lost,
        "targets": [_target(runtime, name) for name in known],
        "names": [_name(runtime, name) for name in names],
    }


def is_target(runtime: Runtime, name: str, /) -> bool:
    """Whether this is one target that clients may ask for; the config may have been another one before.

    >>> from dragoman.gateway.config import decode_config
    >>> runtime = Runtime(decode_config('[aliases]\\nfast = "demo/any"'), {})
    >>> is_target(runtime, "demo/any"), is_target(runtime, "fast"), is_target(runtime, "groq/x")
    (True, False, False)
    """
    try:
        return [target.name for target in runtime.catalog.find(name).targets] == [name]
    except ModelNotFound:
        return False


def _target(runtime: Runtime, name: str) -> JsonObject:
    condition, now = runtime.registry.health.condition(name), monotonic()
    target = runtime.registry.target(name)
    left = None if condition.is_healthy or condition.until is None else round(max(0.0, condition.until - now), 1)
    return without_none(
        {
            "name": name,
            "wire": target.wire,
            "host": urlsplit(target.base_url).hostname,
            "ready": bool(target.api_key) or not target.needs_key,
            "state": condition.state,
            "seconds_left": left,
            "why": error_type(condition.reason if not condition.is_healthy else condition.last_error),
            "failures": condition.failures,
            "latency": condition.last_latency,
        }
    )


def _name(runtime: Runtime, name: str) -> JsonObject:
    choice = runtime.catalog.find(name)
    costs = {target.name: choice.options.costs.get(target.name) for target in choice.targets}
    return without_none(
        {
            "name": name,
            "tier": choice.tier is not None,
            "order": choice.options.order,
            "targets": list(costs),
            "costs": None if choice.options.order == "given" else list(costs.values()),
        }
    )


async def requests(runtime: Runtime, /, *, since: float = 0.0) -> JsonObject:
    """The last requests of all workers, newest first, that ended after a moment, with the attempts that this one saw.

    >>> import asyncio
    >>> from dragoman.gateway.config import Config
    >>> asyncio.run(requests(Runtime(Config(), {})))
    {'requests': []}
    """
    recent = runtime.accounting.recent
    try:
        rows = await runtime.accounting.usage_log.rows(MOST)
    except StoreDown:
        rows = recent.rows()
    return {
        "requests": [
            {**msgspec.to_builtins(row), "attempt_details": msgspec.to_builtins(recent.attempts(row.id))}
            for row in rows
            if row.moment + (row.duration or 0.0) > since
        ]
    }


async def usage(runtime: Runtime, /, *, days: int, now: float) -> JsonObject:
    """What was used on the last days: by day, by key, by target.

    >>> import asyncio
    >>> from dragoman.gateway.config import Config
    >>> asyncio.run(usage(Runtime(Config(), {}), days=2, now=86400.0))["first"]
    '1970-01-01'
    """
    first, last = utc_day(now - (days - 1) * DAY), utc_day(now)
    try:
        uses = await runtime.accounting.usage_log.usage(first, last)
    except StoreDown as error:
        return {"first": first, "last": last, "problem": error.message, "days": [], "keys": [], "targets": []}
    return {
        "first": first,
        "last": last,
        "days": sums(uses, lambda use: use.day),
        "keys": sums(uses, lambda use: use.key),
        "targets": sums(uses, lambda use: use.target),
    }


def sums(uses: Iterable[UsageSum], by: Callable[[UsageSum], str | None], /) -> list[JsonObject]:
    """Uses summed by some name of theirs.

    >>> use = UsageSum(day="2026-11-17", key="team", model="fast", target=None, requests=1, output=2)
    >>> sums([use, use], lambda use: use.key)[0]["output"]
    4
    """
    found: dict[str | None, JsonObject] = {}
    for use in uses:
        name = by(use)
        told = found.setdefault(name, {"name": name, **dict.fromkeys(SUMS, 0)})
        for field in SUMS:
            told[field] += getattr(use, field)
    return list(found.values())


def explain(request: Request, targets: Sequence[Target], options: ChainOptions, /) -> JsonObject:
    """What each target would get, without its keys.

    >>> from dragoman.targets.providers import target
    >>> explain(Request(), [target("ollama/x")], ChainOptions())["targets"][0]["body"]["model"]
    'x'
    """
    return {"targets": [_explanation(models.explain_target(request, target, options)) for target in targets]}


def _explanation(told: models.Explanation) -> JsonObject:
    http = told.request
    return without_none(
        {
            "target": told.target,
            "ready": told.ready,
            "reason": told.reason,
            "notices": [msgspec.to_builtins(notice) for notice in told.notices],
            "request": None if http is None else f"{http.method} {http.url}",
            "headers": None if http is None else dict(http.headers),
            "body": None if http is None else shortened(msgspec.json.decode(http.body)),
        }
    )


def shortened(value: Any, /) -> Any:
    """The same with its long texts cut.

    >>> shortened({"image": "A" * 500})["image"][-17:]
    'A… 500 characters'
    """
    if is_object(value):
        return {name: shortened(item) for name, item in value.items()}
    if is_list(value):
        return [shortened(item) for item in value]
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[: LONGEST // 4]}… {len(value)} characters"
    return value
