"""The rules of ARCHITECTURE.md hold for every file of src/dragoman, and each rule is able to fail."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from textwrap import dedent

import pytest

from tests.support import architecture
from tests.support.architecture import CHECKS, HEAVY, LAYERS, MAX_LINES, TOP, Module, layer
from tests.support.paths import ROOT, TESTS

MAX_ENTRIES = 24
Check = Callable[[Module], Iterator[str]]


def named(check: Check) -> str:
    return check.__name__


@pytest.mark.parametrize("check", CHECKS, ids=named)
def test_source_keeps_the_rule(check: Check) -> None:
    breaches = [breach for module in architecture.modules() for breach in check(module)]
    assert not breaches, "\n".join(["", *breaches])


def test_source_is_found() -> None:
    assert {"types/__init__.py", "events.py", "errors.py"} <= {module.path for module in architecture.modules()}


def test_every_pattern_names_something() -> None:
    names = [module.name for module in architecture.modules()]
    assert {layer(name) for name in names} == set(LAYERS)


def test_import_stays_cheap() -> None:
    assert loaded_by("import dragoman") == []


def test_a_heavy_import_would_be_seen() -> None:
    assert loaded_by("import dragoman, asyncio") == ["asyncio"]


def loaded_by(statement: str) -> list[str]:
    """The heavy modules that a fresh interpreter has after the statement."""
    code = f"import sys\n{statement}\nprint(*sorted(set(sys.modules) & {set(HEAVY)!r}))"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


# ── each check is able to fail, and does not cry wolf ───────────────────────

CLIENT = "wires/anthropic/encoder.py"

BREACHES: list[tuple[Check, str, str]] = [
    (architecture.unknown_modules, "helpers.py", ""),
    (architecture.unknown_modules, "helpers/__init__.py", ""),
    (architecture.upward_imports, "types.py", "import dragoman.wires.base"),
    (architecture.upward_imports, "types.py", "from dragoman.wires.common.framing import Frame"),
    (architecture.upward_imports, "types.py", "from dragoman import codec"),
    (architecture.upward_imports, "types.py", "from . import codec"),
    (architecture.upward_imports, "types.py", "from .codec import Frame"),
    (architecture.upward_imports, "http.py", "from dragoman.wires.anthropic import WIRE"),
    (architecture.upward_imports, CLIENT, "from ...targets.providers import target"),
    (architecture.upward_imports, "wires/__init__.py", "from ..targets.providers import target"),
    (architecture.upward_imports, "codec.py", "def f() -> None:\n    from dragoman.registry import resolve"),
    (architecture.upward_imports, "codec.py", "if TYPE_CHECKING:\n    from dragoman.registry import resolve"),
    (architecture.upward_imports, "wires/__init__.py", 'import_module("dragoman.engine.failover")'),
    (architecture.upward_imports, "wires/__init__.py", 'importlib.import_module("..engine.failover", __package__)'),
    (architecture.upward_imports, "engine/failover.py", "import dragoman"),
    (architecture.upward_imports, "engine/failover.py", "from dragoman import Message"),
    (architecture.impure_imports, "engine/failover.py", "import time"),
    (architecture.impure_imports, "engine/failover.py", "from time import monotonic"),
    (architecture.impure_imports, "targets/dsn.py", "from os import environ"),
    (architecture.impure_imports, "targets/dsn.py", "import os.path"),
    (architecture.impure_imports, "engine/health.py", "def f() -> None:\n    import random"),
    (architecture.impure_imports, "engine/effects.py", "import asyncio"),
    (architecture.impure_imports, "engine/effects.py", "import threading"),
    (architecture.impure_imports, "engine/attempt.py", "import socket, json"),
    (architecture.impure_imports, "engine/attempt.py", "import subprocess"),
    (architecture.impure_imports, CLIENT, "import httptools"),
    (architecture.impure_imports, CLIENT, "import httpx"),
    (architecture.impure_imports, CLIENT, "import requests"),
    (architecture.impure_imports, CLIENT, "from urllib import request"),
    (architecture.impure_imports, CLIENT, "import http.client"),
    (architecture.imports_of_other_wires, CLIENT, "from dragoman.wires.openai_chat.schema import ChatChunk"),
    (architecture.imports_of_other_wires, CLIENT, "from dragoman.wires import openai_chat"),
    (architecture.imports_of_other_wires, CLIENT, "from ..openai_chat import WIRE"),
    (architecture.imports_of_other_wires, CLIENT, "from dragoman.wires import get"),
    (architecture.imports_of_other_wires, "wires/openai/shapes.py", "import dragoman.wires.openai_chat"),
    (architecture.foreign_providers, CLIENT, 'if name == "groq": ...'),
    (architecture.foreign_providers, CLIENT, 'why = "as deepseek wants it"'),
    (architecture.foreign_providers, CLIENT, 'url = f"https://api.mistral.ai/{path}"'),
    (architecture.foreign_providers, CLIENT, 'data = b"openrouter"'),
    (architecture.foreign_providers, CLIENT, 'wire = "openai_chat"'),
    (architecture.foreign_providers, CLIENT, 'name = "together"'),
    (architecture.foreign_providers, CLIENT, "x_groq = 1"),
    (architecture.foreign_providers, CLIENT, "chunk.x_groq"),
    (architecture.foreign_providers, CLIENT, "class GroqUsage: ..."),
    (architecture.foreign_providers, CLIENT, "class DeepSeekUsage: ..."),
    (architecture.foreign_providers, CLIENT, "def fit_mistral_id(): ..."),
    (architecture.foreign_providers, CLIENT, "def fit(azure): ..."),
    (architecture.foreign_providers, CLIENT, "fit(xai=True)"),
    (architecture.foreign_providers, CLIENT, "import vllm"),
    (architecture.foreign_providers, "wires/ollama/client.py", 'quirk = "foreman"'),
    (architecture.long_files, "types.py", "x = 1\n" * (MAX_LINES + 1)),
    (architecture.broad_excepts, "engine/attempt.py", "try: f()\nexcept Exception: raise"),
    (architecture.broad_excepts, "engine/attempt.py", "try: f()\nexcept BaseException as error: raise"),
    (architecture.broad_excepts, "engine/attempt.py", "try: f()\nexcept (KeyError, Exception): raise"),
    (architecture.broad_excepts, "engine/attempt.py", "try: f()\nexcept: raise"),
    (architecture.broad_excepts, "cli/repl.py", "try: f()\nexcept Exception: raise"),
    (architecture.broad_excepts, "engine/attempt.py", "with suppress(Exception): f()"),
    (architecture.broad_excepts, "engine/attempt.py", "with contextlib.suppress(KeyError, Exception): f()"),
    (architecture.silent_excepts, "io/driver.py", "try: f()\nexcept KeyError: pass"),
    (architecture.silent_excepts, "io/driver.py", "try: f()\nexcept KeyError: ..."),
    (
        architecture.silent_excepts,
        "io/driver.py",
        "try: f()\nexcept KeyError:\n    if x:\n        pass\n    else:\n        g()",
    ),
    (architecture.changed_errors, "engine/typed_output.py", "try: f()\nexcept KeyError as error: error.usage = 1"),
    (
        architecture.changed_errors,
        "engine/typed_output.py",
        "try: f()\nexcept KeyError as error: a, error.usage = 1, 2",
    ),
]

INNOCENTS: list[tuple[Check, str, str]] = [
    (architecture.unknown_modules, "wires/anthropic/anything.py", ""),
    (architecture.unknown_modules, "__init__.py", ""),
    (
        architecture.upward_imports,
        "codec.py",
        "from dragoman import types, wires\nimport dragoman.wires.base\nimport os",
    ),
    (architecture.upward_imports, "wires/anthropic/__init__.py", "from . import client\nfrom .client import CLIENT"),
    (architecture.upward_imports, "__init__.py", "from dragoman.gateway import app"),
    (architecture.upward_imports, "types.py", "import_module(name)"),
    (architecture.impure_imports, "io/driver.py", "import asyncio, time, threading"),
    (architecture.impure_imports, "wires/base.py", "from urllib.parse import quote\nfrom dragoman.http import Head"),
    (architecture.impure_imports, "wires/base.py", "from http import HTTPStatus\nimport ossaudiodev"),
    (architecture.imports_of_other_wires, CLIENT, "from dragoman.wires.anthropic.schema import Block"),
    (
        architecture.imports_of_other_wires,
        CLIENT,
        "from .shapes import Block\nfrom dragoman.wires.base import ClientHalf",
    ),
    (architecture.imports_of_other_wires, "codec.py", "from dragoman.wires.anthropic.schema import Block"),
    (architecture.foreign_providers, CLIENT, 'name = "anthropic-version"\nclass AnthropicBlock: ...'),
    (architecture.foreign_providers, CLIENT, '"""Unlike groq."""\nx = 1  # not mistral'),
    (architecture.foreign_providers, CLIENT, 'class A:\n    x = 1\n    """As groq has it."""'),
    (architecture.foreign_providers, CLIENT, 'why = "results of one turn go together"'),
    (architecture.foreign_providers, "wires/openai_responses/encoder.py", 'beta = "openai-beta"'),
    (architecture.foreign_providers, "targets/providers.py", 'name = "groq"'),
    (architecture.long_files, "types.py", "x = 1\n" * MAX_LINES),
    (architecture.broad_excepts, "io/driver.py", "try: f()\nexcept Exception: raise"),
    (architecture.broad_excepts, "gateway/app.py", "try: f()\nexcept Exception: raise"),
    (
        architecture.broad_excepts,
        "engine/attempt.py",
        "try: f()\nexcept (KeyError, ValueError): raise\nwith suppress(KeyError): f()",
    ),
    (architecture.silent_excepts, "engine/attempt.py", "try: f()\nexcept KeyError: g()\nclass A: pass"),
    (architecture.changed_errors, "errors.py", "try: f()\nexcept KeyError as error: error.usage = 1"),
    (
        architecture.changed_errors,
        "engine/typed_output.py",
        "try: f()\nexcept KeyError as error: self.usage = error.usage",
    ),
]


@pytest.mark.parametrize(("check", "path", "text"), BREACHES)
def test_a_breach_is_found(check: Check, path: str, text: str) -> None:
    assert list(check(Module(path, text)))


@pytest.mark.parametrize(("check", "path", "text"), INNOCENTS)
def test_the_innocent_pass(check: Check, path: str, text: str) -> None:
    assert not list(check(Module(path, text)))


def test_every_check_is_proven() -> None:
    assert {check for check, _, _ in BREACHES} == {check for check, _, _ in INNOCENTS} == set(CHECKS)


def test_a_breach_says_where() -> None:
    text = dedent(
        """
        import json
        import time
        """
    )
    assert list(architecture.impure_imports(Module("engine/failover.py", text))) == [
        "engine/failover.py:3: engine is pure and imports time; yield an effect or take an argument"
    ]


def test_an_unknown_module_is_told_where_to_go() -> None:
    (breach,) = architecture.unknown_modules(Module("helpers.py", ""))
    assert (
        breach
        == "helpers.py: in no layer; put it into a package, or add a pattern to LAYERS in tests/support/architecture.py"
    )


def test_a_layer_is_the_first_pattern_that_fits() -> None:
    names = ("dragoman", "dragoman.types", "dragoman.wires.google.encoder", "dragoman.tools.results", "dragoman.x")
    assert [layer(name) for name in names] == [TOP, "vocabulary", "wires", "helpers", None]


def test_the_top_level_shows_the_architecture() -> None:
    entries = [path for path in architecture.SOURCE.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= MAX_ENTRIES, sorted(path.name for path in entries)


def test_public_classes_and_type_aliases_have_names_of_their_own() -> None:
    places: dict[str, list[str]] = {}
    for module in architecture.modules():
        for name in architecture.type_names(module):
            places.setdefault(name, []).append(module.path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_type_names_are_classes_and_aliases_in_camel_case() -> None:
    text = "class A:\n    class B: ...\nJson: TypeAlias = str\nPair = tuple[int, int]\nclass _C: ...\nMAX = T = x = 1"
    assert sorted(architecture.type_names(Module("types.py", text))) == ["A", "B", "Json", "Pair"]


def test_coverage_is_measured_for_the_pure_layers_up_to_the_wires() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included: list[str] = config["tool"]["coverage"]["report"]["include"]
    measured = {
        module.name
        for module in architecture.modules()
        if any(fnmatch(f"src/dragoman/{module.path}", pattern) for pattern in included)
    }
    layers = {"vocabulary", "helpers", "wires"}
    assert measured == {module.name for module in architecture.modules() if layer(module.name) in layers}


def test_the_layers_in_the_makefile_have_files() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = [name for line in re.findall(r"\$\(LAYERS\) ([\w ]+)\)", makefile) for name in line.split()]
    assert sorted(named) == sorted(set(LAYERS) - {TOP})
    assert all(architecture.files_of([name]) for name in named)


def test_every_folder_of_tests_is_in_a_group_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py") if path.parent != TESTS}
    assert [folder for folder in sorted(folders) if f"tests/{folder}" not in makefile] == []
