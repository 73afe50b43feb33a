"""`providers` and `models`: what is known in, a table out."""

from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from dragoman.cli import terminal as screen
from dragoman.cli.defaults import key_state, key_variable, open_registry
from dragoman.errors import DragomanError, SetupError
from dragoman.http import HttpRequest
from dragoman.registry import Registry
from dragoman.targets.providers import Provider
from dragoman.types import ModelInfo


def run(arguments: Namespace, /) -> int:
    """The providers, or the models of one or all."""
    registry = open_registry(arguments)
    if hasattr(arguments, "provider"):
        return _models(registry, arguments)
    return _providers(registry, as_json=arguments.json)


def _providers(registry: Registry, *, as_json: bool) -> int:
    records = [registry.provider(name) for name in registry.providers()]
    if as_json:
        screen.write_json(
            [
                {
                    "name": record.name,
                    "wire": record.wire,
                    "base_url": _place(record, registry),
                    "key_names": record.key_names,
                    "needs_key": record.needs_key,
                    "has_key": bool(record.api_key or key_variable(record, registry)),
                }
                for record in records
            ]
        )
        return 0
    rows = [
        (record.name, record.wire, _place(record, registry) or "-", key_state(record, registry)) for record in records
    ]
    screen.write_table(rows)
    return 0


def _place(record: Provider, registry: Registry) -> str | None:
    """Where it is, as the environment tells, without a password in it."""
    try:
        place = record.target("any", env=registry.env).base_url
    except SetupError:
        return None
    scheme, _, rest = place.partition("://")
    host, slash, path = rest.partition("/")
    return HttpRequest(method="GET", path=slash + path, origin=f"{scheme}://{host}").redacted().url


def _models(registry: Registry, arguments: Namespace) -> int:
    names = [arguments.provider] if arguments.provider else ready_providers(registry)
    found = list_all(registry, names)
    if len(found) == 1 and isinstance(found[0], Exception):
        raise found[0]
    listed = {name: models for name, models in zip(names, found, strict=True) if isinstance(models, tuple)}
    for name, failure in zip(names, found, strict=True):
        if isinstance(failure, Exception):
            screen.fail(f"{name}: {screen.told(failure)}")
    if arguments.json:
        screen.write_json(listed)
    else:
        for name, models in listed.items():
            screen.write("".join(f"{name}/{model.id}\n" for model in models))
    return 0 if listed else 1


def ready_providers(registry: Registry, /) -> list[str]:
    """The providers whose key is there, and the demo.

    >>> ready_providers(Registry(env={"GROQ_API_KEY": "k"}))
    ['demo', 'groq']
    """
    names = registry.providers()
    return [name for name in names if _is_ready(name, registry)]


def _is_ready(name: str, registry: Registry) -> bool:
    record = registry.provider(name)
    return name == "demo" or bool(record.api_key or key_variable(record, registry))


def list_all(registry: Registry, names: list[str], /) -> list[tuple[ModelInfo, ...] | Exception]:
    """What each of some providers lists, or why it does not; all are asked at once.

    >>> len(list_all(Registry(env={}), ["demo"])[0])
    6
    """
    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(partial(_list, registry), names))


def _list(registry: Registry, provider: str) -> tuple[ModelInfo, ...] | Exception:
    try:
        return registry.model(f"{provider}/any", timeout=20.0).list_models()
    except (DragomanError, SetupError) as error:
        return error
