"""`dragoman models`: list the models of one provider, or of all providers whose key is set."""

from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from dragoman.cli import terminal
from dragoman.cli.defaults import open_registry
from dragoman.errors import DragomanError, SetupError
from dragoman.registry import Registry
from dragoman.targets.provider import key_variable
from dragoman.types import ModelInfo


def run(arguments: Namespace, /) -> int:
    """Print one model a line; providers that fail are reported on stderr."""
    registry = open_registry(arguments)
    names = [arguments.provider] if arguments.provider else ready_providers(registry)
    results = list_all(registry, names)
    if len(results) == 1 and isinstance(results[0], Exception):
        raise results[0]
    models_by_provider: dict[str, tuple[ModelInfo, ...]] = {}
    for name, result in zip(names, results, strict=True):
        if isinstance(result, Exception):
            terminal.fail(f"{name}: {terminal.describe_error(result)}")
        else:
            models_by_provider[name] = result
    if arguments.json:
        terminal.write_json(models_by_provider)
    else:
        for name, models in models_by_provider.items():
            terminal.write("".join(f"{name}/{model.id}\n" for model in models))
    return 0 if models_by_provider else 1


def ready_providers(registry: Registry, /) -> list[str]:
    """The demo and the providers whose key is set.

    >>> ready_providers(Registry(env={"GROQ_API_KEY": "k"}))
    ['demo', 'groq']
    """
    return [name for name in registry.providers() if _is_ready(name, registry)]


def _is_ready(name: str, registry: Registry) -> bool:
    record = registry.provider(name)
    return name == "demo" or bool(record.api_key or record.credential or key_variable(record, registry.env))


def list_all(registry: Registry, names: list[str], /) -> list[tuple[ModelInfo, ...] | Exception]:
    """The models of each provider, or the error it failed with; all providers are called at once."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(partial(_list, registry), names))


def _list(registry: Registry, provider: str) -> tuple[ModelInfo, ...] | Exception:
    try:
        return registry.model(f"{provider}/any", timeout=20.0).list_models()
    except (DragomanError, SetupError) as error:
        return error
