"""The public API: names, parameters, docstrings and examples."""

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dragoman

EXPLAINED = ("types", "events", "errors", "http", "codec")
"""Modules whose every public class and function is explained."""
EXPORTED = ("types", "events", "errors")
"""Modules whose every public class is exported from `dragoman`."""


def public_definitions(module: ModuleType) -> dict[str, Any]:
    """The classes and functions without a leading underscore that the module, or a module inside it, defines."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and f"{value.__module__}.".startswith(f"{module.__name__}.")
    }


def explained() -> Iterator[tuple[str, Any]]:
    for name in dragoman.__all__:
        value = getattr(dragoman, name)
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ != "builtins":
            yield f"dragoman.{name}", value
    for short in EXPLAINED:
        module = importlib.import_module(f"dragoman.{short}")
        for name, value in public_definitions(module).items():
            yield f"dragoman.{short}.{name}", value


def imported_names(source: str) -> set[str]:
    """The public names that a module's imports bind, under TYPE_CHECKING, too."""
    return {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dragoman"
        for alias in node.names
        if not alias.name.startswith("_")
    }


def test_all_is_sorted() -> None:
    assert list(dragoman.__all__) == sorted(dragoman.__all__)


def test_all_names_nothing_twice() -> None:
    assert len(dragoman.__all__) == len(set(dragoman.__all__))


@pytest.mark.parametrize("name", dragoman.__all__)
def test_every_name_resolves(name: str) -> None:
    assert getattr(dragoman, name) is not None
    assert name in dir(dragoman)


def test_what_is_imported_to_be_public_is_in_all() -> None:
    assert dragoman.__file__ is not None
    assert imported_names(Path(dragoman.__file__).read_text(encoding="utf-8")) <= set(dragoman.__all__)


def test_every_verb_of_a_model_has_a_shortcut() -> None:
    verbs = {name for name in public_methods(dragoman.Model) if name not in ("plan", "request", "targets")}
    assert verbs <= set(dragoman.__all__)
    for verb in verbs:
        method = list(inspect.signature(getattr(dragoman.Model, verb)).parameters)[1:]
        function = list(inspect.signature(getattr(dragoman, verb)).parameters)
        assert function[:1] == ["model"]
        assert function[1 : len(method) + 1] == method


def test_parameters_can_be_written_by_keyword() -> None:
    modules = [importlib.import_module(f"dragoman.{name}") for name in ("api", "models", "registry", "types", "events")]
    public = [value for module in modules for value in public_definitions(module).values()]
    functions = [value for value in public if inspect.isfunction(value) and value.__name__ in dragoman.__all__]
    methods = [method for kind in public if inspect.isclass(kind) for method in public_methods(kind).values()]
    for function in (*functions, *methods):
        kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
        # The keywords of add_provider are the fields of a provider.
        if function is not dragoman.Registry.add_provider:
            assert inspect.Parameter.POSITIONAL_ONLY not in kinds, function.__qualname__


def public_methods(kind: type) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if name[0] != "_" and inspect.isfunction(value)}


@pytest.mark.parametrize("short", EXPORTED)
def test_a_module_of_values_needs_no_import_of_its_own(short: str) -> None:
    code = f"import dragoman; print(dragoman.{short}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == f"dragoman.{short}"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(dragoman, "no_such_name")  # noqa: B009 - the checkers know that it is not there


@pytest.mark.parametrize("short", EXPORTED)
def test_every_value_is_exported(short: str) -> None:
    module = importlib.import_module(f"dragoman.{short}")
    classes = {name: value for name, value in public_definitions(module).items() if inspect.isclass(value)}
    missing = sorted(set(classes) - set(dragoman.__all__))
    assert not missing, f"not exported from dragoman: {', '.join(missing)}"
    assert all(getattr(dragoman, name) is value for name, value in classes.items())


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in explained()])
def test_every_public_name_has_a_docstring(value: Any) -> None:
    # Not inspect.getdoc: it would return the docstring of a parent class.
    assert (value.__doc__ or "").strip()


@pytest.mark.parametrize(
    "value", [pytest.param(value, id=name) for name, value in explained() if inspect.isfunction(value)]
)
def test_every_public_function_has_an_example(value: Any) -> None:
    assert ">>> " in (value.__doc__ or "")
