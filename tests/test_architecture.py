"""The rules of ARCHITECTURE.md hold for every file of src/dragoman, and each rule is able to fail."""

import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from textwrap import dedent

import pytest

from tests import architecture
from tests.architecture import CHECKS, HEAVY, LAST_COVERED, LAYERS, MOST_LINES, TOP, Module, layer

Check = Callable[[Module], Iterator[str]]


def named(check: Check) -> str:
    return check.__name__


@pytest.mark.parametrize("check", CHECKS, ids=named)
def test_source_keeps_the_rule(check: Check) -> None:
    breaches = [breach for module in architecture.modules() for breach in check(module)]
    assert not breaches, "\n".join(["", *breaches])


def test_source_is_found() -> None:
    assert {"types.py", "events.py", "errors.py"} <= {module.path for module in architecture.modules()}


def test_a_module_has_one_layer() -> None:
    names = [name for names in LAYERS.values() for name in names]
    assert len(names) == len(set(names))


def test_every_branch_of_the_lower_layers_is_counted() -> None:
    settings = tomllib.loads((architecture.SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    counted = settings["tool"]["coverage"]["report"]["include"]
    names = {path.removeprefix("src/dragoman/").removesuffix(".py").removesuffix("/*") for path in counted}
    assert names == {name for number in range(1, LAST_COVERED + 1) for name in LAYERS[number]}


def test_import_stays_cheap() -> None:
    assert loaded_by("import dragoman") == []


def test_a_heavy_import_would_be_seen() -> None:
    assert loaded_by("import dragoman, asyncio") == ["asyncio"]


def loaded_by(statement: str) -> list[str]:
    """The heavy modules that a fresh interpreter has after the statement."""
    code = f"import sys\n{statement}\nprint(*sorted(set(sys.modules) & {set(HEAVY)!r}))"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


# ── each check is able to fail, and does not cry wolf ───────────────────────

CLIENT = "wires/anthropic/client.py"

BREACHES: list[tuple[Check, str, str]] = [
    (architecture.unknown_modules, "helpers.py", ""),
    (architecture.unknown_modules, "helpers/__init__.py", ""),
    (architecture.upward_imports, "types.py", "import dragoman.wire"),
    (architecture.upward_imports, "types.py", "from dragoman.framing import Frame"),
    (architecture.upward_imports, "types.py", "from dragoman import framing"),
    (architecture.upward_imports, "types.py", "from . import framing"),
    (architecture.upward_imports, "types.py", "from .framing import Frame"),
    (architecture.upward_imports, "http.py", "from dragoman.wires.anthropic import WIRE"),
    (architecture.upward_imports, CLIENT, "from ...providers import target"),
    (architecture.upward_imports, "wires/__init__.py", "from ..providers import target"),
    (architecture.upward_imports, "codec.py", "def f() -> None:\n    from dragoman.registry import resolve"),
    (architecture.upward_imports, "codec.py", "if TYPE_CHECKING:\n    from dragoman.registry import resolve"),
    (architecture.upward_imports, "wires/__init__.py", 'import_module("dragoman.chain")'),
    (architecture.upward_imports, "wires/__init__.py", 'importlib.import_module("..chain", __package__)'),
    (architecture.upward_imports, "chain.py", "import dragoman"),
    (architecture.upward_imports, "chain.py", "from dragoman import Message"),
    (architecture.impure_imports, "chain.py", "import time"),
    (architecture.impure_imports, "chain.py", "from time import monotonic"),
    (architecture.impure_imports, "registry.py", "from os import environ"),
    (architecture.impure_imports, "registry.py", "import os.path"),
    (architecture.impure_imports, "health.py", "def f() -> None:\n    import random"),
    (architecture.impure_imports, "flow.py", "import asyncio"),
    (architecture.impure_imports, "flow.py", "import threading"),
    (architecture.impure_imports, "call.py", "import socket, json"),
    (architecture.impure_imports, "call.py", "import subprocess"),
    (architecture.impure_imports, CLIENT, "from pyreqwest.client import ClientBuilder"),
    (architecture.impure_imports, CLIENT, "import httpx"),
    (architecture.impure_imports, CLIENT, "import requests"),
    (architecture.impure_imports, CLIENT, "from urllib import request"),
    (architecture.impure_imports, CLIENT, "import http.client"),
    (architecture.imports_of_other_wires, CLIENT, "from dragoman.wires.openai_chat.shapes import Call"),
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
    (architecture.long_files, "types.py", "x = 1\n" * (MOST_LINES + 1)),
    (architecture.broad_excepts, "call.py", "try: f()\nexcept Exception: raise"),
    (architecture.broad_excepts, "call.py", "try: f()\nexcept BaseException as error: raise"),
    (architecture.broad_excepts, "call.py", "try: f()\nexcept (KeyError, Exception): raise"),
    (architecture.broad_excepts, "call.py", "try: f()\nexcept: raise"),
    (architecture.broad_excepts, "cli/app.py", "try: f()\nexcept Exception: raise"),
    (architecture.broad_excepts, "call.py", "with suppress(Exception): f()"),
    (architecture.broad_excepts, "call.py", "with contextlib.suppress(KeyError, Exception): f()"),
    (architecture.silent_excepts, "drive.py", "try: f()\nexcept KeyError: pass"),
    (architecture.silent_excepts, "drive.py", "try: f()\nexcept KeyError: ..."),
    (
        architecture.silent_excepts,
        "drive.py",
        "try: f()\nexcept KeyError:\n    if x:\n        pass\n    else:\n        g()",
    ),
]

INNOCENTS: list[tuple[Check, str, str]] = [
    (architecture.unknown_modules, "wires/anthropic/anything.py", ""),
    (architecture.unknown_modules, "__init__.py", ""),
    (architecture.upward_imports, "codec.py", "from dragoman import types, wires\nimport dragoman.wire\nimport os"),
    (architecture.upward_imports, "wires/anthropic/__init__.py", "from . import client\nfrom .client import CLIENT"),
    (architecture.upward_imports, "__init__.py", "from dragoman.gateway import app"),
    (architecture.upward_imports, "types.py", "import_module(name)"),
    (architecture.impure_imports, "drive.py", "import asyncio, time, threading"),
    (architecture.impure_imports, "wire.py", "from urllib.parse import quote\nfrom dragoman.http import Head"),
    (architecture.impure_imports, "wire.py", "from http import HTTPStatus\nimport ossaudiodev"),
    (architecture.imports_of_other_wires, CLIENT, "from dragoman.wires.anthropic.shapes import Block"),
    (architecture.imports_of_other_wires, CLIENT, "from .shapes import Block\nfrom dragoman.wire import ClientHalf"),
    (architecture.imports_of_other_wires, "codec.py", "from dragoman.wires.anthropic.shapes import Block"),
    (architecture.foreign_providers, CLIENT, 'name = "anthropic-version"\nclass AnthropicBlock: ...'),
    (architecture.foreign_providers, CLIENT, '"""Unlike groq."""\nx = 1  # not mistral'),
    (architecture.foreign_providers, CLIENT, 'class A:\n    x = 1\n    """As groq has it."""'),
    (architecture.foreign_providers, CLIENT, 'why = "results of one turn go together"'),
    (architecture.foreign_providers, "wires/openai_responses/client.py", 'beta = "openai-beta"'),
    (architecture.foreign_providers, "providers.py", 'name = "groq"'),
    (architecture.long_files, "types.py", "x = 1\n" * MOST_LINES),
    (architecture.broad_excepts, "drive.py", "try: f()\nexcept Exception: raise"),
    (architecture.broad_excepts, "gateway/app.py", "try: f()\nexcept Exception: raise"),
    (
        architecture.broad_excepts,
        "call.py",
        "try: f()\nexcept (KeyError, ValueError): raise\nwith suppress(KeyError): f()",
    ),
    (architecture.silent_excepts, "call.py", "try: f()\nexcept KeyError: g()\nclass A: pass"),
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
    assert list(architecture.impure_imports(Module("chain.py", text))) == [
        "chain.py:3: layer 5 is pure and imports time; yield an effect or take an argument"
    ]


def test_an_unknown_module_is_told_where_to_go() -> None:
    (breach,) = architecture.unknown_modules(Module("helpers.py", ""))
    assert breach == "helpers.py: in no layer; add it to LAYERS in tests/architecture.py and to ARCHITECTURE.md"


def test_layers_are_looked_up_by_the_first_name() -> None:
    assert [layer(name) for name in ("dragoman", "dragoman.types", "dragoman.wires.google.client", "dragoman.x")] == [
        TOP,
        1,
        3,
        None,
    ]
