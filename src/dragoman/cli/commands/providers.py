"""`dragoman providers`: list the known providers, their address and whether their key is set."""

from argparse import Namespace

from dragoman.cli import terminal
from dragoman.cli.defaults import key_state, open_registry
from dragoman.errors import SetupError
from dragoman.http import HttpRequest
from dragoman.registry import Registry
from dragoman.targets.provider import Provider, key_variable


def run(arguments: Namespace, /) -> int:
    """Print a table of the providers."""
    registry = open_registry(arguments)
    records = [registry.provider(name) for name in registry.providers()]
    if arguments.json:
        terminal.write_json(
            [
                {
                    "name": record.name,
                    "wire": record.wire,
                    "base_url": _base_url(record, registry),
                    "key_names": record.key_names,
                    "needs_key": record.needs_key,
                    "has_key": bool(record.api_key or record.credential or key_variable(record, registry.env)),
                }
                for record in records
            ]
        )
        return 0
    rows = [
        (record.name, record.wire, _base_url(record, registry) or "-", key_state(record, registry))
        for record in records
    ]
    terminal.write_table(rows, optional=2)
    return 0


def _base_url(record: Provider, registry: Registry) -> str | None:
    """The base URL that the environment gives, with passwords redacted."""
    try:
        url = record.target("any", env=registry.env).base_url
    except SetupError:
        return None
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return HttpRequest(method="GET", path=slash + path, origin=f"{scheme}://{host}").redacted().url
