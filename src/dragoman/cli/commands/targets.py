"""`dragoman targets disable|enable TARGET`: take a target out of service, for all gateways that share a store."""

import asyncio
import os
import time
from argparse import Namespace
from typing import Any

from dragoman.cli import terminal
from dragoman.cli.gateway_config import gateway_config, gateway_store
from dragoman.cli.parser import UsageError
from dragoman.engine.health import Health
from dragoman.gateway.config import configure_registry
from dragoman.gateway.management.managed_state import merge
from dragoman.gateway.management.manager import ChangeNote, note_in_store, read_state
from dragoman.gateway.observability.health import shown_state
from dragoman.gateway.observability.shared_health import SharedHealthStore
from dragoman.gateway.store import Store
from dragoman.registry import Registry

DEFAULT_SECONDS = 300.0
ACTOR = "command line"
"""Who changed something, in the audit log: no key has a space in its name."""


def run(arguments: Namespace, /) -> int:
    """Disable or enable one target."""
    if arguments.action == "enable" and arguments.seconds is not None:
        raise UsageError("--seconds is only for disable")
    state = asyncio.run(_change(gateway_store(arguments), arguments))
    if arguments.json:
        terminal.write_json({"target": arguments.target, "state": state})
    else:
        terminal.note(f"{arguments.target} is {state}; running gateways follow within two seconds")
    return 0


async def _check_target(store: Store, arguments: Namespace) -> None:
    """Refuse a name that no gateway with this config, and with the changes in its store, can call."""
    state, _ = await read_state(store)
    registry = Registry(env=os.environ)
    configure_registry(registry, merge(gateway_config(arguments), state, os.environ).config)
    names = [target.name for target in registry.targets(arguments.target)]
    if names != [arguments.target]:
        raise UsageError(
            f"TARGET must be provider/model, got {arguments.target!r}, which stands for {', '.join(names)}; "
            "name one of these"
        )


async def _change(store: Store, arguments: Namespace) -> str:
    shared = SharedHealthStore(store)
    health = Health(store=shared, clock=time.monotonic)
    try:
        if arguments.action == "disable":
            await _check_target(store, arguments)
        await shared.sync()
        if arguments.action == "disable":
            health.disable(arguments.target, arguments.seconds or DEFAULT_SECONDS)
        else:
            health.enable(arguments.target)
        await note_in_store(store, _note(arguments))
        await shared.sync()
    finally:
        await store.aclose()
    return shown_state(health.get(arguments.target))


def _note(arguments: Namespace) -> ChangeNote:
    """What the audit log says. The command has no key: who may write to the store may use it."""
    fields: dict[str, Any] = {"target": arguments.target}
    if arguments.action == "disable":
        fields["seconds"] = arguments.seconds or DEFAULT_SECONDS
    return ChangeNote(actor=ACTOR, action=f"targets.{arguments.action}", name=arguments.target, fields=fields)
