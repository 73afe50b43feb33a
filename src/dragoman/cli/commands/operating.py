"""`keys`, `usage`, `health`, `bench`, `enable`: what an operator asks of a gateway, or of its store."""

import asyncio
import os
import time
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from dragoman.cli import terminal as screen
from dragoman.cli.defaults import config_path
from dragoman.cli.parser import UsageError
from dragoman.engine.effects import Send
from dragoman.engine.health import Health
from dragoman.errors import DragomanError, SetupError
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.config import Gateway, fill
from dragoman.gateway.observability.shared_health import SharedHealthStore
from dragoman.gateway.runtime import read_config
from dragoman.gateway.store import Store, open_store
from dragoman.gateway.store.base import UsageSum
from dragoman.http import HttpRequest, split_base_url
from dragoman.io.pyreqwest import transport_of
from dragoman.registry import Registry
from dragoman.targets.providers import clean_key
from dragoman.types import JsonObject, is_object

TIMEOUT = 10.0
_BILLION = 1e9
"""Costs are kept in billionths of a dollar."""


def run(arguments: Namespace, /) -> int:
    """The one that was chosen."""
    return _COMMANDS[arguments.command](arguments)


def _new_key(arguments: Namespace) -> int:
    plain, hash = new_key()
    if arguments.json:
        screen.write_json({"id": arguments.name, "key": plain, "hash": hash})
        return 0
    screen.write(f"{plain}\n")
    screen.note(
        f'this is shown once; the config gets\n\n[keys.{msgspec.json.encode(arguments.name).decode()}]\nhash = "{hash}"'
    )
    return 0


# What a running gateway says ------------------------------------------------------------------------------------------


def _health(arguments: Namespace) -> int:
    report = ask_health(arguments)
    if arguments.json:
        screen.write_json(report)
        return 0
    targets = _targets(report)
    rows = [(name, *_condition(told)) for name, told in targets.items()]
    screen.write_table(rows)
    if not rows:
        screen.note("no target was asked so far")
    return 0


def ask_health(arguments: Namespace, /) -> JsonObject:
    """What a gateway says of itself."""
    base = arguments.gateway or os.environ.get("DRAGOMAN_GATEWAY") or "http://127.0.0.1:8080"
    origin, path = split_base_url(base)
    key = clean_key(os.environ.get("DRAGOMAN_KEY", ""), "DRAGOMAN_KEY")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    request = HttpRequest(method="GET", path=f"{path}/health", origin=origin, headers=headers)
    reply = transport_of().send(Send(request, TIMEOUT, TIMEOUT, 1 << 20))
    try:
        report = msgspec.json.decode(reply.body)
    except msgspec.DecodeError:
        report = None
    if reply.head.status != 200 or not is_object(report):
        hint = "; set DRAGOMAN_KEY to an admin key" if reply.head.status in (401, 403) else ""
        raise DragomanError(f"{request.redacted().url} answered {reply.head.status}{hint}")
    return report


def conditions(arguments: Namespace, /) -> dict[str, str]:
    """How each target is that a gateway has asked, in words."""
    return {name: " ".join(_condition(told)).strip() for name, told in _targets(ask_health(arguments)).items()}


def _targets(report: JsonObject) -> dict[str, JsonObject]:
    targets = report.get("targets")
    return {name: told for name, told in targets.items() if is_object(told)} if is_object(targets) else {}


def _condition(told: JsonObject) -> tuple[str, str, str]:
    left, latency = told.get("seconds_left"), told.get("last_latency")
    how = f"for {left} s: {told.get('reason')}" if told.get("state") != "healthy" and left is not None else ""
    return str(told.get("state", "?")), "" if latency is None else f"{latency:.2f} s", how


# What its store says --------------------------------------------------------------------------------------------------


def _store(arguments: Namespace) -> Store:
    """The store that a gateway of this config writes to."""
    path = config_path(arguments)
    gateway: Gateway = read_config(None if path is None else Path(path)).gateway
    if gateway.store == "memory":
        raise SetupError(
            'the config has no store that others can see; write store = "sqlite:PATH" or a redis:// URL to [gateway]'
        )
    return open_store(gateway.store)


def _usage(arguments: Namespace) -> int:
    last = datetime.now(UTC).date()
    first = last - timedelta(days=arguments.days - 1)
    uses = asyncio.run(_read_usage(_store(arguments), first.isoformat(), last.isoformat()))
    if arguments.json:
        screen.write_json(uses)
        return 0
    screen.write_table([_HEAD, *map(_row, uses)])
    return 0


async def _read_usage(store: Store, first: str, last: str) -> Sequence[UsageSum]:
    try:
        return await store.usage(first, last)
    finally:
        await store.aclose()


_HEAD = ("day", "key", "model", "target", "requests", "failed", "unknown", "tokens in", "tokens out", "dollars")


def _row(use: UsageSum) -> tuple[str, ...]:
    cost = f"{use.cost / _BILLION:.6f}" + ("+" if use.unpriced else "")
    counts = (use.requests, use.failed, use.unknown, use.input, use.output)
    return (use.day, use.key or "-", use.model, use.target or "-", *map(str, counts), cost)


def _bench(arguments: Namespace) -> int:
    if arguments.command == "bench":
        _check_target(arguments)
    told = asyncio.run(_change(_store(arguments), arguments))
    if arguments.json:
        screen.write_json({"target": arguments.target, **told})
    else:
        screen.note(f"{arguments.target} is {told['state']}; gateways hear of it within a second or two")
    return 0


def _check_target(arguments: Namespace) -> None:
    """Refuse what no gateway of this config could ever ask."""
    path = config_path(arguments)
    registry = Registry(env=os.environ)
    fill(registry, read_config(None if path is None else Path(path)))
    names = [target.name for target in registry.targets(arguments.target)]
    if names != [arguments.target]:
        raise UsageError(f"{arguments.target} is no target; it stands for {', '.join(names)}")


async def _change(store: Store, arguments: Namespace) -> dict[str, Any]:
    """Read what gateways say of each other, change one thing, and say it to them."""
    shared = SharedHealthStore(store)
    health = Health(conditions=shared, clock=time.monotonic)
    try:
        await shared.sync()
        if arguments.command == "bench":
            health.disable(arguments.target, arguments.seconds)
        else:
            health.enable(arguments.target)
        await shared.sync()
    finally:
        await store.aclose()
    return {"state": health.condition(arguments.target).state}


_COMMANDS = {"keys": _new_key, "usage": _usage, "health": _health, "bench": _bench, "enable": _bench}
