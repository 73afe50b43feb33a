"""A spec in, how it resolves out: aliases, targets, keys, limits, health; and the exact bytes that each would get."""

import sys
from argparse import Namespace
from typing import Any

import msgspec

from dragoman.cli import terminal as screen
from dragoman.cli.defaults import key_state, open_registry, spec_of
from dragoman.cli.input_files import read_bytes
from dragoman.cli.parser import UsageError
from dragoman.cli.translation import TranslatedRequest, read
from dragoman.engine.attempt import build_request
from dragoman.errors import DragomanError
from dragoman.http import HttpRequest
from dragoman.registry import Registry
from dragoman.targets.target import Target
from dragoman.types import Notice, Request, user


class Explained(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One target of a spec, and what it would get."""

    target: str
    wire: str
    url: str | None
    key: str
    ready: bool
    capabilities: dict[str, Any]
    health: str | None = None
    """What the gateway says that was named; a fresh process knows nothing."""
    problem: str | None = None
    headers: dict[str, str] = {}
    body: str | None = None
    notices: tuple[Notice, ...] = ()


def run(arguments: Namespace, /) -> int:
    """Explain one spec."""
    registry = open_registry(arguments)
    spec = spec_of(arguments.spec, registry)
    request = _request(arguments)
    healths = _healths(arguments)
    explained = [_explain(target, request, registry, healths) for target in registry.targets(spec)]
    aliases = _aliases(spec, registry)
    if arguments.json:
        screen.write_json({"spec": spec, "aliases": aliases, "targets": explained})
        return 0
    screen.write(f"{screen.paint(spec, 'bold', sys.stdout)}\n")
    for name, meaning in aliases.items():
        screen.write(f"  {name} = {meaning}\n")
    for number, one in enumerate(explained, 1):
        _show(number, one, with_bytes=request is not None)
    return 0


def _request(arguments: Namespace) -> Request | None:
    if arguments.request is None:
        return None
    said = read(read_bytes(arguments.request), arguments.source, kind="request")
    if not isinstance(said, TranslatedRequest):
        raise UsageError(f"{arguments.request}: not a request")
    return said.request


def _healths(arguments: Namespace) -> dict[str, str] | None:
    """What a gateway knows of its targets, where one is named."""
    if arguments.gateway is None:
        return None
    from dragoman.cli.commands.health import target_states

    return target_states(arguments)


def _aliases(spec: str, registry: Registry) -> dict[str, str]:
    """The aliases that a spec walks through, in their order."""
    known, met = registry.aliases(), dict[str, str]()
    left = [element.strip() for element in spec.split(",")]
    while left:
        name = left.pop(0)
        if name in known and name not in met:
            met[name] = known[name]
            left += [element.strip() for element in known[name].split(",")]
    return met


def _explain(target: Target, request: Request | None, registry: Registry, healths: dict[str, str] | None) -> Explained:
    http: HttpRequest | None = None
    problem = None
    try:
        asked = request or Request(messages=(user("hello"),))
        http = build_request(asked, target).redacted()
    except DragomanError as error:
        problem = error.message
    shown = http if request is not None else None
    return Explained(
        target=target.name,
        wire=target.wire,
        url=None if http is None else http.url,
        key=key_state(registry.provider(target.provider), registry),
        ready=problem is None and (bool(target.api_key) or not target.needs_key),
        capabilities=msgspec.to_builtins(target.capabilities),
        health=healths.get(target.name, "healthy") if healths is not None else None,
        problem=problem,
        headers={} if shown is None else dict(shown.headers),
        body=None if shown is None else shown.body.decode("utf-8", "replace"),
        notices=() if shown is None else shown.notices,
    )


def _show(number: int, one: Explained, *, with_bytes: bool) -> None:
    screen.write(f"\n{number}. {screen.paint(one.target, 'bold', sys.stdout)}\n")
    capabilities = ", ".join(f"{name} {_told(value)}" for name, value in one.capabilities.items())
    facts = (
        ("wire", one.wire),
        ("url", one.url),
        ("key", one.key),
        ("capabilities", capabilities or "none known"),
        ("health", one.health),
        ("problem", one.problem),
    )
    for name, value in facts:
        if value is not None:
            screen.write(f"   {name:<8} {value}\n")
    for notice in one.notices:
        screen.write(f"   {notice.kind:<8} {notice.what}: {notice.why}\n")
    if with_bytes and one.body is not None:
        headers = "".join(f"{name}: {value}\n" for name, value in one.headers.items())
        screen.write(f"\nPOST {one.url}\n{headers}\n{one.body}\n")


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, int) else ", ".join(value)
