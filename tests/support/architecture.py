"""The rules of the architecture, which test_architecture.py checks for every file of src/dragoman.

Each check is a pure function of one `Module`, so that each is proven able to fail with a snippet.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.support.paths import ROOT

PACKAGE = "dragoman"
SOURCE = ROOT / "src" / PACKAGE

# From the bottom to the top: a module imports from its own layer or a lower one. The first pattern that fits counts.
LAYERS: dict[str, tuple[str, ...]] = {
    "vocabulary": ("types", "events", "errors", "http", "media.sniff"),
    "helpers": (
        "schema.*",
        "media.*",
        "targets.target",
        "targets.pools",
        "tools.decorator",
        "tools.docstrings",
        "tools.results",
    ),
    "wires": ("wires.*", "codec"),
    "targets": ("targets.*",),
    "engine": ("engine.*", "agents.loop", "agents.events", "agents.budget", "tools.executor", "tools.events"),
    "edge": ("io.*", "models", "registry", "api", "streaming", "agents.*", "tools.*", "demo.*", "testing.*"),
    "programs": ("gateway.*", "cli.*", "__main__"),
    "top": ("",),
}
ORDER = tuple(LAYERS)
TOP = "top"
"""dragoman/__init__.py: it may import everything, and nothing may import it."""
PURE = frozenset({"vocabulary", "helpers", "wires", "targets", "engine"})
"""Layers that do no I/O and read no clock, random numbers or environment."""

IMPURE = frozenset(
    {"asyncio", "threading", "time", "os", "random", "secrets", "uuid", "socket", "subprocess", "logging"}
)
HTTP_CLIENTS = frozenset({"httptools", "httpx", "requests", "urllib.request", "http.client"})
HEAVY = frozenset({"asyncio", "PIL", "jsonschema_rs", "httptools", "httpx"})
"""What `import dragoman` must not bring in."""

PROVIDER_WORDS = frozenset(
    "anthropic azure bedrock cerebras deepinfra deepseek fireworks foreman google groq huggingface lmstudio minimax "
    "mistral moonshot novita nvidia ollama openai openrouter perplexity sambanova siliconflow together vertex vllm xai "
    "zai".split()
)
PLAIN_WORDS = frozenset({"fireworks", "perplexity", "together", "vertex"})
"""Providers that are words of English, too: in a string with spaces they are prose."""

CATCHES_ALL = frozenset({"io/driver.py", "io/task_runner.py", "gateway/app.py", "gateway/stream.py"})
MAX_LINES = 600


class Module(NamedTuple):
    """One file: its path under src/dragoman, with slashes, and its text."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return _parse(self.text, self.path)

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        return _nodes(self.text, self.path)

    @property
    def name(self) -> str:
        """The dotted name: `dragoman.wires.anthropic` for `wires/anthropic/__init__.py`."""
        parts = self.path.removesuffix(".py").split("/")
        return ".".join([PACKAGE, *(parts[:-1] if parts[-1] == "__init__" else parts)])

    @property
    def package(self) -> str:
        """What a relative import starts from."""
        return self.name if self.path.endswith("__init__.py") else self.name.rpartition(".")[0]

    @property
    def wire(self) -> str | None:
        """The wire whose folder the module is in."""
        match self.path.split("/"):
            case ["wires", name, _, *_] if name != "common":
                return name
            case _:
                return None


@cache
def _parse(text: str, path: str) -> ast.Module:
    return ast.parse(text, path)


@cache
def _nodes(text: str, path: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_parse(text, path)))


@cache
def modules(source: Path = SOURCE) -> list[Module]:
    return [
        Module(path.relative_to(source).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(source.rglob("*.py"))
    ]


def files_of(layers: Iterable[str]) -> list[str]:
    """The files of some layers, for the Makefile: it runs their examples."""
    wanted = [module for module in modules() if layer(module.name) in set(layers)]
    return [f"src/{PACKAGE}/{module.path}" for module in wanted if not module.path.endswith("__main__.py")]


def layer(dotted: str) -> str | None:
    """The layer of `dragoman.x.y`; None if no pattern fits."""
    name = dotted.removeprefix(PACKAGE).removeprefix(".")
    fits = (one for one, patterns in LAYERS.items() if any(_fits(name, pattern) for pattern in patterns))
    return next(fits, None)


def _fits(name: str, pattern: str) -> bool:
    """Whether a module, a package or a name in one of them belongs to a pattern."""
    stem = pattern.removesuffix(".*")
    return name == stem or (bool(stem) and name.startswith(stem + "."))


def type_names(module: Module) -> Iterator[str]:
    """The public classes of a module, and its type aliases: names in CamelCase that are assigned at the top."""
    for node in module.nodes:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
    for node in module.tree.body:
        match node:
            case ast.Assign(targets=targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                continue
        yield from (name for name in names if re.match(r"[A-Z]\w*[a-z]", name))


@cache
def imports(module: Module) -> tuple[tuple[int, str], ...]:
    """Line and dotted name of all that is imported, also inside functions and under TYPE_CHECKING.

    `from a import b` gives `a.b`: whether b is a module or a name in one, the first words of it are what counts.
    """
    return tuple(_imports(module))


def _imports(module: Module) -> Iterator[tuple[int, str]]:
    for node in module.nodes:
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom():
                start = _absolute(module, node.module or "", node.level)
                yield from ((node.lineno, f"{start}.{alias.name}") for alias in node.names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                level = len(name) - len(name.lstrip("."))
                yield node.lineno, _absolute(module, name[level:], level)
            case _:
                pass


def _absolute(module: Module, name: str, level: int) -> str:
    if not level:
        return name
    package = module.package.split(".")
    return ".".join([*package[: len(package) - level + 1], *([name] if name else [])])


def _ours(name: str) -> bool:
    return name.split(".", 1)[0] == PACKAGE


def _is_under(name: str, roots: Iterable[str]) -> bool:
    return any(name == root or name.startswith(root + ".") for root in roots)


# ── the checks: each gives one line per breach ──────────────────────────────


def unknown_modules(module: Module) -> Iterator[str]:
    if layer(module.name) is None:
        yield f"{module.path}: in no layer; put it into a package, or add a pattern to LAYERS in tests/support/architecture.py"


def upward_imports(module: Module) -> Iterator[str]:
    own = layer(module.name)
    for line, name in imports(module):
        if own is None or own == TOP or not _ours(name):
            continue
        theirs = layer(name)
        if theirs is None:
            yield f"{module.path}:{line}: {name} is in no layer; import names from the module that defines them"
        elif ORDER.index(theirs) > ORDER.index(own):
            yield f"{module.path}:{line}: {own} imports {name} of {theirs}"


def impure_imports(module: Module) -> Iterator[str]:
    own = layer(module.name)
    if own not in PURE:
        return
    for line, name in imports(module):
        if _is_under(name, IMPURE | HTTP_CLIENTS):
            yield f"{module.path}:{line}: {own} is pure and imports {name}; yield an effect or take an argument"


def imports_of_other_wires(module: Module) -> Iterator[str]:
    if module.wire is None:
        return
    shared = (module.wire, "base", "common")
    for line, name in imports(module):
        if _is_under(name, [f"{PACKAGE}.wires"]) and not _is_under(name, [f"{PACKAGE}.wires.{own}" for own in shared]):
            yield f"{module.path}:{line}: imports {name}; what wires share is in wires/base.py and wires/common"


def foreign_providers(module: Module) -> Iterator[str]:
    if module.wire is None:
        return
    foreign = PROVIDER_WORDS - set(module.wire.split("_"))
    for line, text in _names_and_strings(module):
        for word in sorted(foreign.intersection(_words(text))):
            if not (word in PLAIN_WORDS and " " in text):
                yield f"{module.path}:{line}: names {word}; a provider's habits are quirks of its record"


def _names_and_strings(module: Module) -> Iterator[tuple[int, str]]:
    prose = {id(constant) for constant in _bare_strings(module)}
    for node in module.nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.keyword(arg=str(name)):
                yield node.lineno, name
            case ast.alias(name=name, asname=asname):
                yield node.lineno, f"{name} {asname or ''}".strip()
            case ast.Constant(value=str(text)) if id(node) not in prose:
                yield node.lineno, text
            case ast.Constant(value=bytes(data)):
                yield node.lineno, data.decode("latin-1")
            case _:
                pass


def _bare_strings(module: Module) -> Iterator[ast.Constant]:
    """Strings that are statements: docstrings, and the ones below attributes."""
    for node in module.nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as constant):
                yield constant
            case _:
                pass


def _words(text: str) -> set[str]:
    """The words of an identifier or a string, in lower case, and each with its neighbour.

    So GroqUsage, x_groq and "via groq." all have groq, and DeepSeekUsage, deep_seek and "x.ai" do not hide.
    """
    pieces: list[str] = [piece.lower() for piece in re.findall(r"[A-Za-z][a-z]+|[A-Z]+(?![a-z])|[a-z]", text)]
    return {*pieces, *(left + right for left, right in pairwise(pieces))}


def long_files(module: Module) -> Iterator[str]:
    lines = len(module.text.splitlines())
    if lines > MAX_LINES:
        yield f"{module.path}: {lines} lines; at most {MAX_LINES}: split it by noun"


def broad_excepts(module: Module) -> Iterator[str]:
    if module.path in CATCHES_ALL:
        return
    for node in module.nodes:
        match node:
            case ast.ExceptHandler(type=caught):
                broad = caught is None or _catches_all(caught)
            case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=caught_all):
                broad = any(_catches_all(caught) for caught in caught_all)
            case _:
                continue
        if broad:
            yield f"{module.path}:{node.lineno}: catches everything; only {' and '.join(sorted(CATCHES_ALL))} may"


def _catches_all(caught: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id in {"Exception", "BaseException"} for node in ast.walk(caught))


def silent_excepts(module: Module) -> Iterator[str]:
    handlers = (node for node in module.nodes if isinstance(node, ast.ExceptHandler))
    idle = {line for handler in handlers for node in ast.walk(handler) for line in _idle_lines(node)}
    for line in sorted(idle):
        yield f"{module.path}:{line}: an except that does nothing; handle it or let it rise"


def changed_errors(module: Module) -> Iterator[str]:
    """Assignments to attributes of a caught error; `errors.py` has the method for that."""
    if module.path == "errors.py":
        return
    for handler in module.nodes:
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
            continue
        for node in ast.walk(handler):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=attribute, ctx=ast.Store()) if (
                    name == handler.name and not attribute.startswith("__")
                ):
                    yield f"{module.path}:{node.lineno}: changes an error; use its method annotate()"
                case _:
                    pass


def _idle_lines(node: ast.AST) -> Iterator[int]:
    match node:
        case ast.Pass(lineno=line) | ast.Expr(lineno=line, value=ast.Constant()):
            yield line
        case _:
            pass


CHECKS = (
    unknown_modules,
    upward_imports,
    impure_imports,
    imports_of_other_wires,
    foreign_providers,
    long_files,
    broad_excepts,
    silent_excepts,
    changed_errors,
)


if __name__ == "__main__":
    print(*files_of(sys.argv[1:]))
