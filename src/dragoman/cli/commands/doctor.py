"""`dragoman doctor`: check the installation, the environment and the config, and say what to fix."""

import asyncio
import errno
import logging
import os
import re
import socket
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from dragoman.cli import terminal
from dragoman.cli.commands.models import list_all, ready_providers
from dragoman.cli.defaults import default_spec, read_config, tables_of
from dragoman.cli.parser import config_path
from dragoman.engine.effects import Sign
from dragoman.errors import AuthFailed, ConnectFailed, DragomanError, SetupError, StoreDown
from dragoman.http import HttpRequest, redact_url
from dragoman.io.cloud_sources import CLOUDS, Cloud
from dragoman.io.connect import destination_of, tls_context
from dragoman.registry import Registry
from dragoman.targets.provider import clean_key, key_variable

if TYPE_CHECKING:
    from dragoman.gateway.config import Config

CheckStatus: TypeAlias = Literal["ok", "hint", "wrong"]
REQUIRED = ("msgspec", "httptools", "jsonschema-rs", "pillow")
EXTRAS = {
    "gateway": ("uvloop", "dragoman serve in half the CPU time"),
    "redis": ("redis", "gateways that share state"),
    "mcp": ("mcp", "tools of MCP servers"),
    "prices": ("genai_prices", "a newer and longer price list"),
    "otel": ("opentelemetry", "spans and metrics"),
    "aws": ("botocore", "AWS roles and SSO, for Bedrock"),
    "google": ("google.auth", "Google credentials, for Vertex AI"),
    "azure": ("azure.identity", "Microsoft Entra, for Azure"),
    "heif": ("pillow_heif", "HEIC images"),
    "litellm": ("yaml", "dragoman import-litellm"),
    "ray": ("ray", "dragoman batch --ray"),
}
_CA_FILE = "SSL_CERT_FILE"
_REINSTALL = "pip install --force-reinstall dragoman"
_STYLES = {"ok": "green", "hint": "yellow", "wrong": "red"}


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one check."""

    status: CheckStatus
    what: str
    fix: str | None = None


def run(arguments: Namespace, /) -> int:
    """Run all checks; the exit code is 1 if something is wrong."""
    logging.getLogger("azure").addHandler(logging.NullHandler())  # the result says what its warnings say
    results = list(_check_all(arguments))
    if arguments.json:
        terminal.write_json(results)
    else:
        for result in results:
            mark = terminal.paint(f"{result.status:<5}", _STYLES[result.status], sys.stdout)
            separator = "\n" if "\n" in result.what else "; "  # after a list, the last item must not look longer
            text = result.what if result.fix is None else f"{result.what}{separator}{result.fix}"
            indented = text.replace("\n", "\n       ")
            terminal.write(f"{mark}  {indented}\n")
    return 1 if any(result.status == "wrong" for result in results) else 0


def _check_all(arguments: Namespace) -> Iterator[CheckResult]:
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
    for name in REQUIRED:
        try:
            yield CheckResult("ok", f"{name} {version(name)}")
        except PackageNotFoundError:
            yield CheckResult("wrong", f"{name} is not installed", f"pip install {name}")
    missing: list[str] = []
    for extra, (module, purpose) in EXTRAS.items():
        if _is_installed(module):
            yield CheckResult("ok", f"extra {extra}, for {purpose}")
        else:
            missing.append(f"{extra} ({purpose})")
    if missing:
        plural = "extras that are not installed" if len(missing) > 1 else "an extra that is not installed"
        yield CheckResult("hint", f"{plural}: {', '.join(missing)}", "pip install 'dragoman[NAME]' if you need one")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of its parent package, such as `google`
        return False


def _variables() -> Iterator[CheckResult]:
    for name, error in Registry(env={}).load_env(os.environ).items():
        yield CheckResult("wrong", f"provider {name}: {error}", "correct the variable, or unset it")
    if path := os.environ.get(_CA_FILE):
        try:
            tls_context(path)
        except SetupError as error:
            yield CheckResult("wrong", f"{_CA_FILE}={path}: {error}", "set it to a PEM file, or unset it")
    for scheme in ("https", "http"):
        try:
            destination_of(f"{scheme}://example.com", os.environ)
        except SetupError as error:
            yield CheckResult("wrong", str(error), "correct the variable, or unset it")


def _config(arguments: Namespace, registry: Registry) -> Iterator[CheckResult]:
    from dragoman.gateway.config import FILE

    path = config_path(arguments)
    is_default = path is None and Path(FILE).exists()
    if path is None and not is_default:
        yield CheckResult("ok", "no config file: built-in providers and the environment")
        return
    path = path or FILE
    try:
        config = read_config(path, registry.env)
        registry.load_tables(tables_of(config))
    except OSError as error:
        yield CheckResult("wrong", terminal.describe_error(error), "name a file that you can read")
        return
    except SetupError as error:
        yield CheckResult("wrong", terminal.describe_error(error), "correct the file")
        return
    yield CheckResult(
        "ok",
        f"{path}: {terminal.plural(len(registry.aliases()), 'alias')}, {_own_providers(tables_of(config))}",
        f"dragoman chat and batch read it with --config {path}" if is_default else None,
    )
    yield from _gateway(path, config)


def _own_providers(tables: Mapping[str, Any]) -> str:
    """How many providers a file defines or changes; dozens are known without it."""
    return f"{terminal.plural(len(tables.get('providers', {})), 'provider')} of its own"


def _gateway(path: str, config: "Config") -> Iterator[CheckResult]:
    """What would stop `dragoman serve` with this config."""
    from dragoman.gateway.config import GatewaySettings

    settings = config.gateway
    if settings == GatewaySettings():
        return
    from dragoman.gateway.server.start_checks import check_auth, check_shared_limits

    if not settings.store.startswith(("memory", "sqlite:")):
        yield (store := _store(settings.store))
        if store.status == "wrong":
            return
    for check in (partial(check_auth, no_auth=False), check_shared_limits):
        try:
            check(settings, config)
        except SetupError as error:
            yield CheckResult("wrong", f"{path}: {error}")
    place = f"{settings.host}:{settings.port}"
    try:
        family, *_, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        socket.create_server(address[:2], family=family).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            advice = "if that is not your gateway, change port in [gateway]"
            yield CheckResult("hint", f"a program listens at {place} already", advice)
        else:
            reason = str(error.strerror).partition(" (")[0]
            yield CheckResult("wrong", f"the gateway cannot listen at {place}: {reason}", "correct host in [gateway]")


def _store(url: str) -> CheckResult:
    """Whether the store of the gateway answers."""
    from dragoman.gateway.store import open_store

    async def read() -> None:
        store = open_store(url)
        try:
            await store.version("doctor")
        finally:
            await store.aclose()

    try:
        asyncio.run(read())
    except (SetupError, StoreDown) as error:
        return CheckResult("wrong", f"gateway.store: {error}", "start it, or correct store in [gateway]")
    return CheckResult("ok", "the store of the gateway answers")


def _keys(registry: Registry) -> Iterator[CheckResult]:
    has_key = False
    for name in ready_providers(registry):
        record = registry.provider(name)
        if variable := key_variable(record, registry.env):
            has_key = True
            try:
                clean_key(registry.env[variable], variable)
                yield CheckResult("ok", f"{name}: {variable} is set")
            except SetupError as error:
                yield CheckResult("wrong", str(error), f"export {variable}=… with the key of {name}")
        elif record.api_key or record.credential is not None:
            has_key = True
            yield CheckResult("ok", f"{name}: the config has its key")
    for result in _clouds(registry):
        has_key = True
        yield result
    if not has_key:
        yield CheckResult(
            "hint",
            "no provider has a key",
            "for example, export ANTHROPIC_API_KEY=…; dragoman providers lists the variables",
        )


def _clouds(registry: Registry) -> Iterator[CheckResult]:
    """For each cloud that is used or configured: where its credentials come from, or would come from."""
    used = {registry.provider(name).identity: name for name in _used_clouds(registry)}
    for cloud in CLOUDS:
        names = [used[identity] for identity in cloud.identities if identity in used]
        yield from (_cloud_credential(name, registry) for name in names)
        if not names and (result := _unused_cloud(cloud, registry)) is not None:
            yield result


def _unused_cloud(cloud: Cloud, registry: Registry) -> CheckResult | None:
    """Where the credentials of a cloud would come from; None if nothing speaks for the cloud, or it has a key."""
    records = [registry.provider(name) for name in registry.providers()]
    if any(key_variable(record, registry.env) for record in records if record.identity in cloud.identities):
        return None
    try:
        source = cloud.find_source(registry.env)
    except SetupError as error:
        return CheckResult("wrong", f"{cloud.name}: {error}", cloud.hint)
    if source is not None:
        return CheckResult("ok", f"{cloud.name}: a model would use credentials from {source.name}", source.hint)
    variable = next((name for name in cloud.variables if registry.env.get(name)), None)
    if variable is None:
        return None
    return CheckResult("hint", f"{cloud.name}: {variable} is set, but no credentials are", cloud.hint)


def _used_clouds(registry: Registry) -> list[str]:
    """One provider of each cloud that aliases or the default model use without a key."""
    specs = [*registry.aliases().values(), *filter(None, [registry.env.get("DRAGOMAN_MODEL")])]
    names = dict.fromkeys(re.split("[/:]", element.strip())[0] for spec in specs for element in spec.split(","))
    records = [registry.provider(name) for name in names if name in registry.providers()]
    used = {
        record.identity: record.name for record in records if record.identity and not key_variable(record, registry.env)
    }
    return list(used.values())


def _cloud_credential(name: str, registry: Registry) -> CheckResult:
    """Where the credentials of a cloud come from; never the credentials."""
    try:
        target = registry.target(f"{name}/m")
        if target.credential is None:
            return CheckResult("ok", f"{name}: the config has its key")
        request = HttpRequest(method="GET", origin=target.base_url, path="/")
        target.credential.sign(Sign(request, target, timeout=30.0))
    except DragomanError as error:
        return CheckResult("wrong", f"{name}: {terminal.describe_error(error)}")
    return CheckResult("ok", f"{name}: credentials from {target.credential.source}")


def _default(registry: Registry) -> Iterator[CheckResult]:
    spec = default_spec(None, registry)
    try:
        targets = registry.targets(spec)
    except SetupError as error:
        yield CheckResult("wrong", f"default model {spec}: {error}", "set DRAGOMAN_MODEL to a spec, or unset it")
        return
    keyless = [target for target in targets if target.lacks_key]
    if len(keyless) == len(targets):
        names = " or ".join(keyless[0].key_names)
        yield CheckResult("wrong", f"default model {spec}: no key", f"set {names}, or DRAGOMAN_MODEL to another model")
    else:
        yield CheckResult("ok", f"default model: {spec}")
    try:
        registry.model("demo/any").generate("hello")
    except DragomanError as error:
        yield CheckResult("wrong", f"the demo provider failed: {terminal.describe_error(error)}", _REINSTALL)


def _online(registry: Registry) -> Iterator[CheckResult]:
    names = ready_providers(registry)
    for name, models in zip(names, list_all(registry, names), strict=True):
        if isinstance(models, Exception):
            yield CheckResult(
                "wrong", f"{name}: {terminal.describe_error(models)}", _online_fix(name, models, registry)
            )
        else:
            yield CheckResult("ok", f"{name}: {terminal.plural(len(models), 'model')}")


def _online_fix(name: str, error: Exception, registry: Registry) -> str | None:
    """What to do if a provider does not list its models; None if the error says it."""
    record = registry.provider(name)
    if isinstance(error, ConnectFailed):
        return None
    if isinstance(error, AuthFailed):
        return f"replace the key in {key_variable(record, registry.env) or 'the config'}"
    return f"check the network, and the base URL {redact_url(record.base_url)}"
