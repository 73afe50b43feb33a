"""`dragoman explain`: show how a spec resolves, and with --request the exact bytes for each target."""

import sys
from argparse import Namespace
from typing import Any

import msgspec

from dragoman.cli import terminal
from dragoman.cli.defaults import default_spec, key_state, open_registry
from dragoman.cli.input_files import errors_in, read_bytes
from dragoman.cli.parser import UsageError
from dragoman.cli.translation import RequestPayload, decode
from dragoman.engine.attempt import build_request
from dragoman.engine.explanation import cache_places
from dragoman.errors import DragomanError
from dragoman.http import HttpRequest
from dragoman.registry import Registry
from dragoman.targets.target import Target
from dragoman.types import Notice, Request, user


class TargetReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One target of a spec, and the request it would receive."""

    target: str
    wire: str
    url: str | None
    key: str
    ready: bool
    capabilities: dict[str, Any]
    health: str | None = None
    """The state that the gateway reports; None without --gateway."""
    problem: str | None = None
    headers: dict[str, str] = {}
    body: str | None = None
    notices: tuple[Notice, ...] = ()
    cache: tuple[str, ...] = ()
    """Where the request tells the provider to cache the prompt."""


def run(arguments: Namespace, /) -> int:
    """Explain one spec."""
    registry = open_registry(arguments)
    spec = default_spec(arguments.spec, registry)
    request = _request(arguments)
    states = _health_states(arguments)
    reports = [_report(target, request, registry, states) for target in registry.targets(spec)]
    aliases = _aliases(spec, registry)
    if arguments.json:
        terminal.write_json({"spec": spec, "aliases": aliases, "targets": reports})
        return 0
    terminal.write(f"{terminal.paint(spec, 'bold', sys.stdout)}\n")
    for name, meaning in aliases.items():
        terminal.write(f"  {name} = {meaning}\n")
    for number, report in enumerate(reports, 1):
        _write(number, report, with_bytes=request is not None)
    return 0


def _request(arguments: Namespace) -> Request | None:
    if arguments.request is None:
        return None
    with errors_in(arguments.request):
        payload = decode(read_bytes(arguments.request), arguments.source, kind="request")
    if not isinstance(payload, RequestPayload):
        raise UsageError(f"--request must be a file with a request, got {arguments.request}")
    return payload.request


def _health_states(arguments: Namespace) -> dict[str, str] | None:
    if arguments.gateway is None:
        return None
    from dragoman.cli.commands.health import target_states

    return target_states(arguments)


def _aliases(spec: str, registry: Registry) -> dict[str, str]:
    """The aliases that a spec uses, in the order they are resolved."""
    known, used = registry.aliases(), dict[str, str]()
    remaining = [element.strip() for element in spec.split(",")]
    while remaining:
        name = remaining.pop(0)
        if name in known and name not in used:
            used[name] = known[name]
            remaining += [element.strip() for element in known[name].split(",")]
    return used


def _report(target: Target, request: Request | None, registry: Registry, states: dict[str, str] | None) -> TargetReport:
    http: HttpRequest | None = None
    problem = None
    try:
        example = request or Request(messages=(user("hello"),))
        http = build_request(example, target).redacted()
    except DragomanError as error:
        problem = error.message
    sent = http if request is not None else None
    return TargetReport(
        target=target.name,
        wire=target.wire,
        url=None if http is None else http.url,
        key=key_state(registry.provider(target.provider), registry),
        ready=problem is None and not target.lacks_key,
        capabilities=msgspec.to_builtins(target.capabilities),
        health=states.get(target.name, "healthy") if states is not None else None,
        problem=problem,
        headers={} if sent is None else dict(sent.headers),
        body=None if sent is None else sent.body.decode("utf-8", "replace"),
        notices=() if sent is None else sent.notices,
        cache=() if sent is None else cache_places(sent),
    )


def _write(number: int, report: TargetReport, *, with_bytes: bool) -> None:
    terminal.write(f"\n{number}. {terminal.paint(report.target, 'bold', sys.stdout)}\n")
    capabilities = ", ".join(f"{name} {_format(value)}" for name, value in report.capabilities.items())
    rows = (
        ("wire", report.wire),
        ("url", report.url),
        ("key", report.key),
        ("capabilities", capabilities or "unknown"),
        ("health", report.health),
        ("problem", report.problem),
        ("cache", ", ".join(report.cache) or None),
    )
    for name, value in rows:
        if value is not None:
            terminal.write(f"   {name:<12} {value}\n")
    for notice in report.notices:
        terminal.write(f"   {notice.kind:<12} {notice.what}: {notice.why}\n")
    if with_bytes and report.body is not None:
        headers = "".join(f"{name}: {value}\n" for name, value in report.headers.items())
        terminal.write(f"\nPOST {report.url}\n{headers}\n{report.body}\n")


def _format(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, int) else ", ".join(value)
