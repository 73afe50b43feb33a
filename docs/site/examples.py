"""Finds the imports that an example of a docstring leaves out, because its module has the names."""

import ast
import builtins
from collections.abc import Iterator
from doctest import DocTestParser
from types import ModuleType

import dragoman
import dragoman.testing


def missing_imports(docstring: str, block: str, module: ModuleType, /) -> list[str]:
    """The lines that a reader needs before a block of examples, besides those in the docstring."""
    known = _names(docstring, ast.Store) | set(vars(builtins))
    lines: dict[str, list[str]] = {}
    for name in sorted(_names(block, ast.Load) - known):
        if (value := vars(module).get(name)) is None:
            continue
        if isinstance(value, ModuleType):
            lines.setdefault("", []).append(name if value.__name__ == name else f"{value.__name__} as {name}")
        else:
            lines.setdefault(_home(name, value, module), []).append(name)
    return [
        f"from {home} import {', '.join(names)}" if home else f"import {', '.join(names)}"
        for home, names in lines.items()
    ]


def _home(name: str, value: object, module: ModuleType) -> str:
    """The shortest public module that has a name."""
    for home in (dragoman, dragoman.testing):
        if name in home.__all__ and getattr(home, name) is value:
            return home.__name__
    return getattr(value, "__module__", None) or module.__name__


def _names(text: str, context: type[ast.expr_context]) -> set[str]:
    """The names that examples read, or those that they define."""
    found: set[str] = set()
    for example in DocTestParser().get_examples(text):
        for node in ast.walk(ast.parse(example.source)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, context):
                found.add(node.id)
            elif context is ast.Store:
                found |= set(_defined(node))
    return found


def _defined(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (each.asname or each.name.partition(".")[0] for each in names)
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
            yield name
        case _:
            return
