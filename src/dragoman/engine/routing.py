"""The order in which the targets of a chain are tried, for requests that share them.

Each pool in a chain has an order of its own. Targets that are not in a pool have the order of the chain. Whichever the
order is, a chain passes over targets that are on cooldown or at a limit (`engine/failover.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from math import inf, log
from typing import TYPE_CHECKING

from dragoman.engine.effects import Plan, Random
from dragoman.engine.target_load import Loads
from dragoman.errors import (
    Blocked,
    ContextTooLong,
    DragomanError,
    Overloaded,
    RateLimited,
    RequestTooLarge,
    TimedOut,
    Unsupported,
)
from dragoman.targets.estimates import prompt_tokens
from dragoman.targets.pools import Affinity, DeploymentPool, Fallbacks, share_of
from dragoman.targets.prices import target_cost
from dragoman.targets.target import Target
from dragoman.types import Request, Text, Tool, Usage

if TYPE_CHECKING:
    from dragoman.engine.failover import ChainOptions

MIN_COST = 1e-9
"""The cost of a target that is free."""
ANSWER_TOKENS = 500
"""Tokens of an answer whose length is not known, to compare prices."""
NEARLY_EQUAL = 1.1
"""Targets whose latency is at most this many times the best one share the requests."""
MAX_PREFIX = 16_384
"""Characters of a prompt that its affinity depends on."""
_ERRORS: Mapping[str, tuple[type[DragomanError], ...]] = {
    "context_too_long": (ContextTooLong, RequestTooLarge),
    "content_filter": (Blocked,),
    "rate_limited": (RateLimited,),
    "overloaded": (Overloaded,),
    "timed_out": (TimedOut,),
    "unsupported": (Unsupported,),
}


IN_ORDER = DeploymentPool(name="", order="in_order")
"""The order of targets that are not in a pool."""


def chain_routing(options: "ChainOptions", /) -> DeploymentPool:
    """The order of targets outside of pools."""
    if options.order == "in_order" and options.affinity == "none":
        return IN_ORDER
    return DeploymentPool(
        name="", order=options.order, weights=options.weights, costs=options.costs, affinity=options.affinity
    )


def order_targets(
    targets: Sequence[Target], chain: DeploymentPool, request: Request, loads: Loads, now: float, /
) -> Plan[list[Target]]:
    """The targets in the order in which they are tried. `chain` has the order of targets outside of pools."""
    is_whole = chain.order != "in_order" or chain.affinity != "none"
    pools = groupby(targets, lambda target: chain if is_whole else target.pool or IN_ORDER)
    ordered: list[Target] = []
    for pool, group in pools:
        members = list(group)
        ordered += members if len(members) == 1 else (yield from _order(members, pool, request, loads, now))
    return ordered


def _order(
    targets: list[Target], pool: DeploymentPool, request: Request, loads: Loads, now: float
) -> Plan[list[Target]]:
    if pool.affinity != "none":
        return by_affinity(targets, pool, request)
    if pool.order == "in_order":
        return targets
    numbers: list[float] = []
    for _ in targets:
        numbers.append((yield Random()))  # noqa: PERF401 - a comprehension cannot yield
    # Equal targets share the requests by their weights: sorting keeps their order.
    mixed = weighted_order(targets, _costs(targets, pool), numbers)
    match pool.order:
        case "least_busy":
            return sorted(mixed, key=lambda target: _busyness(target, pool, loads))
        case "fastest":
            return _fastest_first(mixed, pool, request, loads, now)
        case "cheapest":
            return sorted(mixed, key=lambda target: (_price(target, pool, request), _busyness(target, pool, loads)))
        case _:
            return mixed


def _costs(targets: Sequence[Target], pool: DeploymentPool) -> dict[str, float]:
    """What `weighted_order` divides by: costs if the order is weighted, and one over the weights."""
    costs: dict[str, float] = {}
    for target in targets:
        share = share_of(pool, target.provider, target.name)
        cost = share.cost if share.cost is not None and pool.order == "weighted" else 1.0
        costs[target.name] = max(cost, MIN_COST) / max(share.weight, MIN_COST)
    return costs


def weighted_order(
    targets: Sequence[Target], costs: Mapping[str, float], random_numbers: Iterable[float], /
) -> list[Target]:
    """All targets in a random order. A target of twice the cost comes first half as often; the default cost is 1.

    Takes one random number from 0 up to 1 for each target.

    >>> from dragoman.targets.providers import target
    >>> targets = [target("groq/x"), target("ollama/y")]
    >>> [target.name for target in weighted_order(targets, {"groq/x": 9.0}, [0.5, 0.5])]
    ['ollama/y', 'groq/x']
    """
    remaining = list(targets)
    ordered: list[Target] = []
    for number in random_numbers:
        weights = [1 / max(costs.get(target.name, 1.0), MIN_COST) for target in remaining]
        point = number * sum(weights)
        index = 0
        while index < len(remaining) - 1 and point >= weights[index]:
            point -= weights[index]
            index += 1
        ordered.append(remaining.pop(index))
    return ordered


def _busyness(target: Target, pool: DeploymentPool, loads: Loads) -> float:
    weight = share_of(pool, target.provider, target.name).weight
    return loads.in_progress(target.name) / max(weight, MIN_COST)


def _fastest_first(
    mixed: list[Target], pool: DeploymentPool, request: Request, loads: Loads, now: float
) -> list[Target]:
    """By the median latency. One request at a time goes to a target whose latency is not known."""
    known = {target.name: loads.latency(target.name, now, stream=request.stream) for target in mixed}
    best = min((seconds for seconds in known.values() if seconds is not None), default=0.0)

    def rank(target: Target) -> tuple[float, float]:
        seconds, busyness = known[target.name], _busyness(target, pool, loads)
        if seconds is None:
            return (inf, busyness) if loads.in_progress(target.name) else (-1.0, 0.0)
        return (best, busyness) if seconds <= best * NEARLY_EQUAL else (seconds, busyness)

    return sorted(mixed, key=rank)


def _price(target: Target, pool: DeploymentPool, request: Request) -> float:
    """The relative cost, or the price of the request; a target whose price is not known comes last."""
    cost = share_of(pool, target.provider, target.name).cost
    if cost is not None:
        return cost
    usage = Usage(input=prompt_tokens(request), output=request.max_tokens or ANSWER_TOKENS)
    price = target_cost(target, usage)
    return inf if price is None else price.usd


# Affinity -------------------------------------------------------------------------------------------------------------


def by_affinity(targets: Sequence[Target], pool: DeploymentPool, request: Request, /) -> list[Target]:
    """The targets by rendezvous hashing: equal prefixes have the same order, and a new target moves few of them."""
    prefix = affinity_prefix(request, pool.affinity)

    def rank(target: Target) -> float:
        digest = blake2b(prefix + target.name.encode(), digest_size=8).digest()
        fraction = (int.from_bytes(digest, "big") + 1) / (2**64 + 1)
        return log(fraction) / max(share_of(pool, target.provider, target.name).weight, MIN_COST)

    return sorted(targets, key=rank, reverse=True)


def affinity_prefix(request: Request, affinity: Affinity, /) -> bytes:
    """What requests have in common that go to the same target: the part of a prompt that providers cache."""
    system = request.system if isinstance(request.system, str) else "".join(text.text for text in request.system or ())
    pieces = [system, *(tool.name for tool in request.tools if isinstance(tool, Tool))]
    if affinity == "conversation":
        first = next((message for message in request.messages if message.role == "user"), None)
        pieces += [part.text for part in (first.parts if first else ()) if isinstance(part, Text)]
    text = "\0".join(piece[:MAX_PREFIX] for piece in pieces)[:MAX_PREFIX]
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()


# Fallbacks ------------------------------------------------------------------------------------------------------------


def error_kind(error: DragomanError, fallbacks: Fallbacks, /) -> str | None:
    """The kind of an error, if there is a fallback for it."""
    return next((kind for kind in fallbacks if isinstance(error, _ERRORS[kind])), None)
