"""The machine, the environment and the config in, what is right and what to do about the rest out."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from dragoman.cli import terminal as screen
from dragoman.cli.commands.listings import list_all, ready_providers
from dragoman.cli.defaults import config_path, key_variable, read_tables, spec_of
from dragoman.errors import DragomanError, SetupError
from dragoman.registry import Registry
from dragoman.targets.providers import clean_key

ErrorPolicy: TypeAlias = Literal["ok", "hint", "wrong"]
NEEDED = ("msgspec", "pyreqwest", "jsonschema-rs", "pillow")
ENDPOINTS = {
    "gateway": ("granian", "dragoman serve"),
    "redis": ("redis", "gateways that share their state"),
    "mcp": ("mcp", "tools of MCP servers"),
    "heif": ("pillow_heif", "HEIC images"),
    "ray": ("ray", "dragoman batch --ray"),
}
_BUNDLE = "SSL_CERT_FILE"
_STYLES = {"ok": "green", "hint": "yellow", "wrong": "red"}


class CheckResult(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    verdict: ErrorPolicy
    what: str
    do: str | None = None
    """What helps."""


def run(arguments: Namespace, /) -> int:
    """Look at everything; 1 where something is wrong."""
    findings = list(_examine(arguments))
    if arguments.json:
        screen.write_json(findings)
    else:
        for finding in findings:
            mark = screen.paint(f"{finding.verdict:<5}", _STYLES[finding.verdict], sys.stdout)
            screen.write(f"{mark}  {finding.what}{f'; {finding.do}' if finding.do else ''}\n")
    return 1 if any(finding.verdict == "wrong" for finding in findings) else 0


def _examine(arguments: Namespace) -> Iterator[CheckResult]:
    yield from _installation()
    yield from _variables()
    registry = Registry()
    yield from _config(arguments, registry)
    yield from _keys(registry)
    yield from _default(registry)
    if arguments.online:
        yield from _online(registry)


def _installation() -> Iterator[CheckResult]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield CheckResult("ok", f"dragoman {version('dragoman')} on Python {python} ({sys.platform})")
    for name in NEEDED:
        try:
            yield CheckResult("ok", f"{name} {version(name)}")
        except PackageNotFoundError:
            yield CheckResult("wrong", f"{name} is not installed", f"pip install {name}")
    for extra, (module, purpose) in ENDPOINTS.items():
        if find_spec(module) is None:
            yield CheckResult(
                "hint", f"no extra {extra}, for {purpose}", f"pip install 'dragoman[{extra}]' where you want it"
            )
        else:
            yield CheckResult("ok", f"extra {extra}, for {purpose}")


def _variables() -> Iterator[CheckResult]:
    for name, error in Registry(env={}).load_env(os.environ).items():
        yield CheckResult("wrong", f"provider {name}: {error}")
    bundle = os.environ.get(_BUNDLE)
    if bundle and not Path(bundle).is_file():
        yield CheckResult("wrong", f"{_BUNDLE} names {bundle}, and there is no such file", "mend it, or unset it")


def _config(arguments: Namespace, registry: Registry) -> Iterator[CheckResult]:
    path = config_path(arguments)
    if path is None:
        yield CheckResult("ok", "no config file: what is known from the start, and what the environment says")
        return
    try:
        registry.load_tables(read_tables(path, registry.env))
    except (SetupError, OSError) as error:
        yield CheckResult("wrong", screen.told(error))
        return
    yield CheckResult("ok", f"{path}: {len(registry.aliases())} aliases, {len(registry.providers())} providers")


def _keys(registry: Registry) -> Iterator[CheckResult]:
    found = False
    for name in ready_providers(registry):
        record = registry.provider(name)
        if variable := key_variable(record, registry):
            found = True
            try:
                clean_key(registry.env[variable], variable)
                yield CheckResult("ok", f"{name}: {variable} is set")
            except SetupError as error:
                yield CheckResult("wrong", str(error), "set it again")
        elif record.api_key:
            found = True
            yield CheckResult("ok", f"{name}: has a key of its own")
    if not found:
        yield CheckResult(
            "hint", "no key of any provider is set", "export ANTHROPIC_API_KEY=…, say; dragoman providers lists all"
        )


def _default(registry: Registry) -> Iterator[CheckResult]:
    spec = spec_of(None, registry)
    try:
        targets = registry.targets(spec)
    except SetupError as error:
        yield CheckResult("wrong", f"the default model {spec}: {error}", "set DRAGOMAN_MODEL to a spec, or unset it")
        return
    without = [target for target in targets if target.needs_key and not target.api_key]
    if len(without) == len(targets):
        names = " or ".join(without[0].key_names)
        yield CheckResult("wrong", f"the default model {spec} has no key", f"set {names}")
    else:
        yield CheckResult("ok", f"without -m, {spec} answers")
    try:
        registry.model("demo/any").generate("hello")
    except DragomanError as error:
        yield CheckResult("wrong", f"the demo does not answer: {screen.told(error)}")


def _online(registry: Registry) -> Iterator[CheckResult]:
    names = ready_providers(registry)
    for name, found in zip(names, list_all(registry, names), strict=True):
        if isinstance(found, Exception):
            yield CheckResult("wrong", f"{name} does not answer: {screen.told(found)}")
        else:
            yield CheckResult("ok", f"{name} answers, and lists {len(found)} models")
