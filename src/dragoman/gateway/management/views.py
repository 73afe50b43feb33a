"""The JSON of the operations on targets. It never holds a key or the password of a URL."""

from collections.abc import Sequence
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import msgspec

from dragoman.engine.explanation import Explanation, explain_target
from dragoman.engine.failover import ChainOptions
from dragoman.errors import ModelNotFound, redact
from dragoman.gateway.accounting.usage import error_type
from dragoman.gateway.observability import health
from dragoman.gateway.runtime import Runtime
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Request, is_list, is_object
from dragoman.wires.common.json import without_none

MAX_TARGETS = 200
"""Clients can name any number of models of a provider."""
MAX_TEXT = 400
"""Characters of one string in an explanation; base64 images have millions."""


async def snapshot(runtime: Runtime, /) -> JsonObject:
    """Targets with their state, and tiers and aliases with their targets."""
    in_flight = runtime.accounting.metrics.in_flight
    report = await health.health_report(runtime, in_flight=in_flight)
    names = dict.fromkeys((*runtime.catalog.tiers, *runtime.registry.aliases()))
    configured = [model.id for model in runtime.catalog.models() if model.id not in names]
    # Clients sometimes send a key as the model name: such names are not shown.
    called = (name for name in sorted(runtime.registry.health.snapshot()) if redact(name) == name)
    current = (name for name in called if is_target(runtime, name))
    targets = islice(dict.fromkeys((*configured, *current)), MAX_TARGETS)
    return {
        "store": report["store"],
        "in_flight": in_flight,
        "pending_rows": runtime.accounting.usage_log.pending,
        "lost_rows": runtime.accounting.usage_log.lost,
        "targets": [_target(runtime, name) for name in targets],
        "names": [_name(runtime, name) for name in names],
    }


def is_target(runtime: Runtime, name: str, /) -> bool:
    """Whether a name is one target of the current config."""
    try:
        return [target.name for target in runtime.catalog.find(name).targets] == [name]
    except ModelNotFound:
        return False


def _target(runtime: Runtime, name: str) -> JsonObject:
    target, state = runtime.registry.target(name), runtime.registry.health.get(name)
    return without_none(
        {
            "name": name,
            "wire": target.wire,
            "host": urlsplit(target.base_url).hostname,
            "ready": not target.lacks_key,
            "state": health.shown_state(state),
            "seconds_left": health.seconds_left(state),
            "error": error_type(state.last_error if state.is_healthy else state.reason),
            "failures": state.failures,
            "latency": state.last_latency,
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
            "costs": None if choice.options.order == "in_order" else list(costs.values()),
        }
    )


def explain(request: Request, targets: Sequence[Target], options: ChainOptions, /) -> JsonObject:
    """What each target would receive, without API keys."""
    return {"targets": [_explanation(explain_target(request, target, options)) for target in targets]}


def _explanation(explanation: Explanation) -> JsonObject:
    http = explanation.request
    return without_none(
        {
            "target": explanation.target,
            "ready": explanation.ready,
            "reason": explanation.reason,
            "notices": [msgspec.to_builtins(notice) for notice in explanation.notices],
            "request": None if http is None else f"{http.method} {http.url}",
            "headers": None if http is None else dict(http.headers),
            "body": None if http is None else shorten_texts(msgspec.json.decode(http.body)),
        }
    )


def shorten_texts(value: Any, /) -> Any:
    """Cut long strings inside a JSON value."""
    if is_object(value):
        return {name: shorten_texts(item) for name, item in value.items()}
    if is_list(value):
        return [shorten_texts(item) for item in value]
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return f"{value[: MAX_TEXT // 4]}… {len(value)} characters"
    return value
