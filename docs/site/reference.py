"""Makes the pages of the reference from the code: names, errors, settings, commands, metrics, routes, providers.

Only `texts.py` is written by hand, so a page cannot be wrong about a name, a default or a type. A page is Markdown;
`build.py` puts it next to the pages of `docs/`.
"""

import argparse
import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
from field_texts import text_of
from markdown import cell_code, code, field_texts, table
from routes import http_api_page
from settings import settings_page
from texts import CURES, DEMO_MODELS, MODELS
from types_text import python_type

import dragoman
import dragoman.testing
from dragoman.agents.agent import AgentOptions
from dragoman.agents.loop import LoopSettings
from dragoman.cli.parser import COMMANDS, parser_of
from dragoman.demo.provider import BEHAVIOURS
from dragoman.engine.call_options import CallOptions
from dragoman.gateway.observability.metrics import Metrics
from dragoman.targets.model_families import families
from dragoman.targets.provider import Provider
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import Capabilities, Quirks
from examples import missing_imports
from tests.support import features

SUBJECTS: dict[str, tuple[str, ...]] = {
    "Calls": ("dragoman.api", "dragoman.models", "dragoman.registry", "dragoman.engine.explanation"),
    "Messages, requests and responses": ("dragoman.types.", "dragoman.wires.dicts", "builtins", "types", "typing"),
    "Streams and events": ("dragoman.streaming", "dragoman.events"),
    "Structured output": ("dragoman.schema", "dragoman.engine.typed_output"),
    "Tools": ("dragoman.tools",),
    "Agents": ("dragoman.agents",),
    "Chains, health and providers": ("dragoman.engine", "dragoman.targets"),
    "Hooks and traces": ("dragoman.io",),
}
"""The chapters of the API reference, by the beginnings of the modules that define the names."""

FIRST: dict[str, tuple[str, ...]] = {
    "Calls": ("model", "Model", "Registry", "generate", "agenerate", "stream", "astream", "extract", "aextract"),
    "Messages, requests and responses": ("Message", "user", "assistant", "system", "Response", "Usage", "Cost"),
    "Streams and events": ("Stream", "AsyncStream", "TextDelta", "ThinkingDelta", "ToolCallDelta", "Restarted"),
    "Tools": ("tool", "Toolbox", "Context"),
    "Agents": ("Agent", "Result", "Step", "Budget", "AgentStream", "AsyncAgentStream"),
    "Chains, health and providers": ("HealthPolicy", "Provider", "Target", "Capabilities", "Quirks"),
    "Testing": ("Scripted", "FaultyServer", "Recorder", "Replayer"),
}
"""The names that a chapter begins with; the others follow in alphabetical order."""
LAST = frozenset({"Assembler"})


def pages() -> dict[str, str]:
    """The Markdown of each page by its name, without `.md`."""
    return {
        **_api(),
        "errors": _errors(),
        "settings": settings_page(),
        "commands": _commands(),
        "metrics": _metrics(),
        "http-api": http_api_page(),
        **{f"providers/{name}": _provider(record) for name, record in sorted(PROVIDERS.items())},
        "providers/index": _providers(),
    }


# Names ----------------------------------------------------------------------------------------------------------------


def _api() -> dict[str, str]:
    """A page for each subject, and one that lists them with their names."""
    chapters: dict[str, list[str]] = {subject: [] for subject in SUBJECTS}
    for name in dragoman.__all__:
        value = getattr(dragoman, name)
        if not (isinstance(value, type) and issubclass(value, dragoman.DragomanError)):
            chapters[_subject(getattr(value, "__module__", type(value).__name__))].append(name)
    made = {}
    for subject, names in chapters.items():
        _sort(names, subject)
        lines = [f"# {subject}", ""]
        if subject in OPTIONS:
            lines += _options(OPTIONS[subject])
        for name in names:
            lines += _described(name, getattr(dragoman, name))
        made[f"api/{_page(subject)}"] = "\n".join(lines)
    lines = ["# Testing", "", "The names of `dragoman.testing`. [Testing](../../docs/testing.md) has examples.", ""]
    chapters["Testing"] = [*dragoman.testing.__all__]
    _sort(chapters["Testing"], "Testing")
    for name in chapters["Testing"]:
        lines += _described(name, getattr(dragoman.testing, name))
    return {"api/index": _api_index(chapters), **made, "api/testing": "\n".join(lines)}


def _sort(names: list[str], subject: str) -> None:
    """Sort the names of a chapter: those that users need first, then by the alphabet."""
    first = FIRST.get(subject, ())
    names.sort(key=lambda name: (first.index(name) if name in first else len(first), name in LAST, name.lower()))


def _api_index(chapters: dict[str, list[str]]) -> str:
    lines = [
        "# API",
        "",
        "Every public name of `dragoman` and `dragoman.testing`, made from the docstrings. "
        "[Errors](../errors.md) have their own page. `import dragoman` is enough for the names of these pages, except "
        "those of *Testing*. What an example needs from other modules, it imports.",
        "",
    ]
    rows = (
        (
            f"[{subject}]({_page(subject)}.md)",
            ", ".join(f"[`{name}`]({_page(subject)}.md#{name.lower()})" for name in names),
        )
        for subject, names in chapters.items()
    )
    toctree = ("```{toctree}", ":hidden:", "", *map(_page, chapters), "```", "")
    return "\n".join([*lines, *table(("subject", "names"), rows), *toctree])


def _page(subject: str) -> str:
    """The name of a page: the first word of its subject."""
    return subject.partition(" ")[0].strip(",").lower()


OPTIONS: dict[str, type] = {"Calls": CallOptions, "Agents": AgentOptions}
"""The options of a chapter, which are the `**options` in its signatures."""
STRUCTS: dict[type, tuple[type[msgspec.Struct], ...]] = {
    CallOptions: (dragoman.Request, dragoman.ChainOptions),
    AgentOptions: (LoopSettings,),
}
"""The structs that have the defaults of options."""


def _options(options: type) -> Iterator[str]:
    yield from (f"## {options.__name__}", "", *_doc(options))
    texts = field_texts(options)
    defaults = {
        field.name: _field_default(field) for each in STRUCTS[options] for field in msgspec.structs.fields(each)
    }
    if options is CallOptions:
        defaults["timeout"] = repr(dragoman.Timeouts().total)
    rows = (
        (f"`{name}`", cell_code(text), _shown_default(defaults.get(name, "None")), texts.get(name, ""))
        for name, text in _source_types(options).items()
    )
    yield from table(("option", "type", "default", ""), rows)


def _shown_default(default: str) -> str:
    return "not set" if default in {"None", "required", repr(dragoman.Budget())} else cell_code(default)


def _subject(module: str) -> str:
    return next(subject for subject, starts in SUBJECTS.items() if module.startswith(starts))


def _described(name: str, value: Any) -> Iterator[str]:
    yield from (f"## {name}", "")
    if isinstance(value, type) and value.__module__.startswith("dragoman"):
        yield from _class(name, value)
    elif inspect.isroutine(value):
        yield from (*code(f"{name}{_signature(value)}"), *_doc(value))
    else:
        yield from (*code(f"{name} = {python_type(value)}"), _text((), name), "")


def _class(name: str, cls: type) -> Iterator[str]:
    yield from _doc(cls)
    fields = list(_fields(cls))
    if fields:
        yield from table(
            ("field", "type", "default", ""),
            ((f"`{f.name}`", cell_code(f.type), cell_code(f.default), f.text) for f in fields),
        )
    elif inspect.isfunction(cls.__init__):
        yield from code(f"{name}{_signature(cls)}")
        attributes = list(_attributes(cls.__init__))
        if attributes:
            yield from table(("attribute", "type", ""), attributes)
    for member, method in _methods(cls):
        yield from (f"### {name}.{member}", "")
        if isinstance(method, property):
            function = method.fget
            yield from code(f"{member}{_signature(function).replace('() ->', ':')}")
        else:
            function = method.__func__ if isinstance(method, classmethod | staticmethod) else method
            yield from code(f"{member}{_signature(function)}")
        yield from list(_doc(function)) or (_text(inspect.getmro(cls), member), "")


def _text(types: tuple[type, ...], name: str) -> str:
    """The text of a field, a method or an alias that has none in the source."""
    text = text_of(types, name)
    if not text:
        raise LookupError(f"{'.'.join([*(each.__name__ for each in types[:1]), name])} needs a text in field_texts.py")
    return text


def _attributes(init: Callable[..., Any]) -> Iterator[tuple[str, str, str]]:
    """The public attributes that a constructor sets, with the strings that stand below them in the source."""
    definition = ast.parse(textwrap.dedent(inspect.getsource(init))).body[0]
    assert isinstance(definition, ast.FunctionDef)
    arguments = (*definition.args.args, *definition.args.kwonlyargs)
    parameters = {each.arg: ast.unparse(each.annotation) for each in arguments if each.annotation is not None}
    for statement, text in pairwise(definition.body):
        match statement, text:
            case (
                ast.AnnAssign(target=ast.Attribute(attr=name), annotation=annotation),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                kind = cell_code(ast.unparse(annotation))
            case (
                ast.Assign(targets=[ast.Attribute(attr=name)]),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                kind = cell_code(parameters.get(name, "").strip("\"'"))
            case _:
                continue
        if not name.startswith("_"):
            yield f"`{name}`", kind, " ".join(words.split())


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    for member, method in sorted(vars(cls).items()):
        if (
            not member.startswith("_")
            and (inspect.isfunction(method) or isinstance(method, property | classmethod | staticmethod))
            and not any(member in vars(base) for base in cls.__mro__[1:] if base is dragoman.testing.Simulator)
        ):
            yield member, method


class _Field(NamedTuple):
    name: str
    type: str
    default: str
    text: str


def _fields(cls: type) -> Iterator[_Field]:
    """The fields of a struct, with the strings that stand below them in the source."""
    if not issubclass(cls, msgspec.Struct):
        return
    texts = {**(field_texts(CallOptions) if cls is dragoman.Request else {}), **field_texts(cls)}
    for field in msgspec.structs.fields(cls):
        default = _field_default(field)
        text = texts.get(field.name) or _text(inspect.getmro(cls), field.name)
        yield _Field(field.name, python_type(field.type), default if len(default) < 60 else "…", text)


def _field_default(field: Any) -> str:
    if field.default is not msgspec.NODEFAULT:
        return repr(field.default)
    return "required" if field.default_factory is msgspec.NODEFAULT else repr(field.default_factory())


def _source_types(cls: type) -> dict[str, str]:
    """The types of the fields as they are written in the source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: ast.unparse(field.annotation)
        for field in body.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def _signature(function: Callable[..., Any]) -> str:
    """The parameters as they are written in the source: the names of types are shorter there than their values."""
    if isinstance(function, type):
        function = function.__init__
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    parameters = ast.unparse(definition.args)
    if parameters.startswith("self"):
        parameters = re.sub(r"^self(, )?(/(, |$))?", "", parameters)
    result = "" if definition.returns is None else f" -> {ast.unparse(definition.returns)}"
    short = f"({parameters}){result}"
    return short if len(short) < _WIDE else "(\n    " + ",\n    ".join(_split(parameters)) + f",\n){result}"


_WIDE = 90


def _split(parameters: str) -> Iterator[str]:
    """The parameters one by one: split at the commas outside of brackets."""
    depth, start = 0, 0
    for at, char in enumerate(parameters):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and not depth:
            yield parameters[start:at].strip()
            start = at + 1
    yield parameters[start:].strip()


# Errors ---------------------------------------------------------------------------------------------------------------


def _errors() -> str:
    lines = [
        "# Errors",
        "",
        "All errors are subclasses of `dragoman.DragomanError`, and are names of `dragoman`: `dragoman.RateLimited`.",
        "",
    ]
    lines += code(inspect.cleandoc(dragoman.errors.__doc__ or ""), "text")
    lines += ["## Attributes", "", STATUS, "", *table(("attribute", "type", ""), _error_attributes())]
    errors = [getattr(dragoman, name) for name in dragoman.__all__ if isinstance(getattr(dragoman, name), type)]
    for error in sorted(
        (each for each in errors if issubclass(each, dragoman.DragomanError)), key=lambda each: each.__name__
    ):
        lines += [f"## {error.__name__}", "", *_doc(error), f"**What to do:** {CURES[error.__name__]}", ""]
        parent = next(base for base in error.__mro__[1:] if not base.__name__.startswith("_"))
        lines += [f"A subclass of `{parent.__name__}`.", ""]
    return "\n".join(lines)


STATUS = (
    "Every error has these attributes; those of one class only are named with it. Two of them are numbers of HTTP: "
    "`status` is what the *provider* answered, or None if it did not answer. `http_status` is what a *gateway* answers "
    "to its client for an error of this class."
)


def _error_attributes() -> Iterator[tuple[str, str, str]]:
    """The attributes of all errors, and then those of one class. Each has a text below it in the source."""
    base = dragoman.DragomanError
    texts = field_texts(base)
    types = {
        name: kind.strip("'").removeprefix("ClassVar[").removesuffix("]") if "ClassVar" in kind else kind.strip("'")
        for name, kind in _source_types(base).items()
    }
    rows = [(f"`{name}`", cell_code(kind), texts[name]) for name, kind in types.items()]
    rows += _attributes(base.__init__)
    rows.append(("`target`", "`str | None`", next(_doc(base.target))))
    yield from sorted(rows)
    for error in map(dragoman.errors.__dict__.get, vars(dragoman.errors)):
        if isinstance(error, type) and issubclass(error, base) and error is not base and "__init__" in vars(error):
            own = (
                error.__name__.strip("_")
                if not error.__name__.startswith("_")
                else "ToolLoop, MaxSteps, BudgetExceeded"
            )
            for name, kind, text in _attributes(error.__init__):
                yield name, kind, f"{text} Of {', '.join(f'`{each}`' for each in own.split(', '))}."


# Commands -------------------------------------------------------------------------------------------------------------


def _commands() -> str:
    lines = ["# Commands", "", "The help of every command. [Command line](../docs/cli.md) has examples.", ""]
    lines += ["| exit code | meaning |", "|---|---|", "| 0 | success |", "| 1 | failure |"]
    lines += ["| 2 | usage error: a wrong argument |", "| 130 | stopped by Ctrl-C |", ""]
    for name in COMMANDS:
        parser = parser_of(name)
        parser.formatter_class = lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=80)
        lines += [f"## dragoman {name}", "", *code(parser.format_help().rstrip(), "text")]
    return "\n".join(lines)


# Metrics --------------------------------------------------------------------------------------------------------------


def _metrics() -> str:
    rows = ((f"`{family.name}`", family.kind, family.help) for family in Metrics().families)
    lines = ["# Metrics", "", "What `GET /metrics` of a gateway has, in the text format of Prometheus.", ""]
    return "\n".join([*lines, *table(("metric", "kind", ""), rows)])


# Providers ------------------------------------------------------------------------------------------------------------


def _providers() -> str:
    rows = (
        (
            f"[{name}]({name}.md)",
            MODELS.get(name, "").partition(".")[0],
            f"`{record.wire}`",
            " ".join(f"`{key}`" for key in record.key_names[:1]) or "no key",
        )
        for name, record in sorted(PROVIDERS.items())
    )
    lines = [
        "# Providers",
        "",
        "Each name can start a spec: `openai/gpt-5`. A provider of your own is one record: see "
        "[configuration](../../docs/configuration.md). *Protocol* is the form of requests and answers; in the code "
        "it is called a *wire*. A *dialect* is the protocol that a client of the gateway uses.",
        "",
    ]
    names = "\n".join(sorted(PROVIDERS))
    return "\n".join(
        [
            *lines,
            *table(("provider", "models", "protocol", "environment variable of the key"), rows),
            "```{toctree}",
            ":hidden:",
            "",
            names,
            "```",
            "",
        ]
    )


def _provider(record: Provider) -> str:
    lines = [f"# {record.name}", "", *(each for each in (MODELS.get(record.name), "") if MODELS.get(record.name))]
    facts = {
        "protocol (*wire*)": f"`{record.wire}`",
        "base URL": f"`{record.base_url}`" if record.base_url else "none; set `base_url`",
        "environment variable of the base URL": ", ".join(f"`{name}`" for name in record.base_url_names),
        "environment variable of the key": _key(record),
        "credentials of a cloud": f"`{record.identity}`" if record.identity is not None else "",
        "the key is sent as": "a bearer token" if record.auth == "bearer" else f"the header `{record.auth}`",
    }
    lines += table(("", ""), ((name, text) for name, text in facts.items() if text))
    export = [f"export {record.key_names[0]}=…"] if record.key_names and record.needs_key else []
    lines += code("\n".join([*export, f'dragoman chat -m {record.name}/MODEL "Hello"']), "sh")
    if record.name == "demo":
        lines += _demo_models()
    for title, value, default in (
        ("What it takes", record.capabilities, Capabilities()),
        ("Quirks", record.quirks, Quirks()),
    ):
        changed = [
            field for field in _fields(type(value)) if getattr(value, field.name) != getattr(default, field.name)
        ]
        if changed:
            rows = ((f"`{field.name}`", cell_code(_short(getattr(value, field.name))), field.text) for field in changed)
            lines += [f"## {title}", "", "What differs from the defaults:", "", *table(("", "value", ""), rows)]
    changes = [
        (feature, kind, f"{reason[0].upper()}{reason[1:]}") for feature, kind, reason in features.changes(record.name)
    ]
    if changes:
        lines += ["## What is changed for it", "", CHANGES, "", *table(("you send", "it is", "why"), changes)]
    return "\n".join([*lines, *_families(record)])


def _families(record: Provider) -> list[str]:
    """The models that differ from the others of their provider, by patterns of their names."""
    start = f"{record.family or record.name}/{record.family_prefix}"
    rows = [
        (f"`{family.match.removeprefix(start)}`", ", ".join(f"`{name}` = `{value!r}`" for name, value in facts.items()))
        for family in families()
        if family.match.startswith(start) and (facts := {**family.capabilities, **family.quirks})
    ]
    if not rows:
        return []
    text = "What is known about models by their names. `*` stands for any text; a later row overrides an earlier one."
    return ["## Models that differ", "", text, "", *table(("models", "facts"), rows)]


def _demo_models() -> list[str]:
    rows = ((f"`demo/{name}`", DEMO_MODELS[name]) for name in BEHAVIOURS)
    text = (
        "The demo answers inside the library, without a key and without a network. The same request has the same "
        "answer. Values for a schema are made from words of the prompt. They have the right type, not the right "
        "meaning."
    )
    return ["## Models", "", text, "", *table(("model", "what it does"), rows)]


def _key(record: Provider) -> str:
    """Where the key comes from."""
    names = ", ".join(f"`{name}`" for name in record.key_names)
    if record.needs_key:
        return names or "a key is needed"
    return f"{names} (optional)" if names else "none"


CHANGES = (
    "A request for each feature was encoded for this provider, with a model about which nothing more is known. The "
    "features in this table do not arrive as you send them. *Refused*: the call fails before anything is sent, and a "
    "chain continues with its next target. *Dropped*, *changed* and *info*: the request is sent, and the response has "
    "this notice; with `strict=True`, a dropped or changed feature is an error. All other features arrive as they are. "
    "`dragoman explain` shows the exact bytes for a model of yours."
)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 400 else text[:399] + "…"


# Markdown -------------------------------------------------------------------------------------------------------------


def _module(value: Any) -> ModuleType:
    return sys.modules[inspect.unwrap(value).__module__]


def _doc(value: Any) -> Iterator[str]:
    """A docstring; its examples become code blocks."""
    text = inspect.getdoc(value) or ""
    for block in re.split(r"\n\s*\n", text):
        if block.startswith(">>>"):
            imports = "".join(f">>> {line}\n" for line in missing_imports(text, block, _module(value)))
            yield from code(imports + block, "pycon")
        elif block:
            yield from (block, "")
