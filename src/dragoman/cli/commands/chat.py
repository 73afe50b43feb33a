"""A prompt, piped text and files in, one streamed answer out; without a prompt, a conversation."""

import os
import stat
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from dragoman.agents.events import ToolFinished
from dragoman.cli import terminal as screen
from dragoman.cli.defaults import asked_of, check_answer, open_registry, spec_of
from dragoman.cli.parser import UsageError
from dragoman.errors import DragomanError
from dragoman.events import Restarted
from dragoman.models import CallOptions, Model
from dragoman.streaming import TextDelta, ThinkingDelta
from dragoman.types import Document, Image, Message, Part, Response, Text, dump, user

Shown: TypeAlias = Literal["all", "answer", "nothing"]
MAX_SHOWN = 200
"""Letters that are shown of what a tool was given and gave."""


def run(arguments: Namespace, /) -> int:
    """One answer, or a conversation where nothing is asked and somebody sits there."""
    registry = open_registry(arguments)
    model = registry.model(spec_of(arguments.model, registry))
    asked = asked_of(arguments)
    tools = [find_tool(name) for name in arguments.tool]
    parts = _parts(arguments)
    is_silent = arguments.prompt is None and not any(isinstance(part, Text) for part in parts)
    if not parts or (is_silent and sys.stdin.isatty() and not arguments.json):
        if not sys.stdin.isatty() or arguments.json:
            raise UsageError("nothing is asked; give a prompt, or pipe one in")
        from dragoman.cli.repl import Conversation

        return Conversation(registry, model, asked, tools=tools, files=parts, quiet=arguments.quiet).run()
    shown: Shown = "nothing" if arguments.json else "answer" if arguments.quiet else "all"
    said = answer(model, (user(*parts),), asked, tools=tools, shown=shown)
    if arguments.json:
        screen.write(dump(said.response).decode() + "\n")
    if not arguments.quiet:
        screen.note_receipt(said.response)
    check_answer(said.response.text, asked.get("schema"))
    return 0


class Answered(NamedTuple):
    """The last response, and the conversation with all that led to it."""

    response: Response
    messages: tuple[Message, ...]


def answer(
    model: Model,
    messages: tuple[Message, ...],
    asked: CallOptions,
    /,
    *,
    tools: Sequence[Callable[..., Any]] = (),
    shown: Shown = "all",
) -> Answered:
    """Stream one answer: its text to stdout; where all is shown, its thinking and what tools do to stderr."""
    shows = _Screen(shown)
    try:
        if tools:
            return _run(model, messages, asked, tools, shows)
        if shown == "nothing":
            response = model.generate(messages, **asked)
            return Answered(response, (*messages, response.message))
        with model.stream(messages, **asked) as stream:
            for item in stream:
                shows.show(item)
        if stream.response is None:
            raise DragomanError("the stream ended without a response")
        return Answered(stream.response, (*messages, stream.response.message))
    finally:
        shows.end()


def _run(
    model: Model,
    messages: tuple[Message, ...],
    asked: CallOptions,
    tools: Sequence[Callable[..., Any]],
    shows: "_Screen",
) -> Answered:
    """The answer of an agent: all the steps that it took count as one."""
    from dragoman.agents.agent import Agent

    with Agent(model, tools=tools).stream(messages, **asked) as stream:
        for item in stream:
            shows.show(item)
    result = stream.result
    last = result.steps[-1].response
    attempts = tuple(attempt for step in result.steps for attempt in step.response.attempts)
    return Answered(replace(last, usage=result.usage, attempts=attempts), result.messages)


def find_tool(name: str, /) -> Callable[..., Any]:
    """The function that `module:function` names; modules of the folder that one is in are found, too.

    >>> find_tool("math:hypot")(3, 4)
    5.0
    """
    module, _, function = name.partition(":")
    if not module or not function:
        raise UsageError(f"--tool {name}: write module:function")
    if "" not in sys.path:
        sys.path.append("")
    try:
        found = getattr(import_module(module), function)
    except _BREAKS as error:
        raise UsageError(f"--tool {name}: {_why(error, module, function)}") from error
    if not callable(found):
        raise UsageError(f"--tool {name}: not a function")
    return cast("Callable[..., Any]", found)


_BREAKS = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, OSError),
    *(RuntimeError, SyntaxError, SystemExit, TypeError, ValueError),
)
"""What a module may end with while it is imported."""


def _why(error: BaseException, module: str, function: str) -> str:
    """Why a module has no such function, in words of its user."""
    match error:
        case ModuleNotFoundError() if error.name and f"{module}.".startswith(f"{error.name}."):
            return f"no module {module!r} here, nor among what is installed"
        case AttributeError() if error.name == function:
            return f"the module {module!r} has no {function!r}"
        case SystemExit():
            return f"the module {module!r} leaves with {error.code!r} when it is imported"
        case _:
            return f"the module {module!r} cannot be imported: {type(error).__name__}: {error}"


class _Screen:
    """What stands on the terminal so far: text, thinking, or a fresh line."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._thinks = False
        self._last = "\n"

    def show(self, item: object) -> None:
        """One item of a stream or of an agent's run."""
        match item:
            case TextDelta() if self._shown != "nothing":
                self.say(item.text)
            case ThinkingDelta() if self._shown == "all":
                self.think(item.text)
            case Restarted() if self._shown == "all":
                self.remark(f"{item.previous} broke off ({item.why}); {item.target} starts over")
            case Restarted():
                self.end()
            case ToolFinished() if self._shown == "all":
                self.remark(f"{item.call.name} {_short(item.call.arguments)} → {_short(item.result.text)}")
            case _:
                return

    def say(self, text: str) -> None:
        if self._thinks:
            self._thinks = False
            sys.stderr.write("\n")
        self._last = text or self._last
        screen.write_text(text)

    def think(self, text: str) -> None:
        if sys.stderr.isatty():
            self._thinks = True
            sys.stderr.write(screen.paint(screen.harmless(text), "dim", sys.stderr))
            sys.stderr.flush()

    def remark(self, text: str) -> None:
        self.end()
        screen.note(text, style="yellow")

    def end(self) -> None:
        """A fresh line."""
        if self._thinks:
            self._thinks = False
            sys.stderr.write("\n")
        if not self._last.endswith("\n"):
            self._last = "\n"
            screen.write("\n")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}…"


# What is asked --------------------------------------------------------------------------------------------------------


def _parts(arguments: Namespace) -> list[Part]:
    words = [piped] if (piped := _piped(is_alone=arguments.prompt is None)) else []
    words += [screen.heard(arguments.prompt)] if arguments.prompt else []
    parts: list[Part] = [Image.from_path(path) for path in arguments.image]
    parts += [_document(path) for path in arguments.document]
    return [*parts, Text(text="\n\n".join(words))] if words else parts


def _piped(*, is_alone: bool) -> str:
    """What is piped in. Beside a prompt only a pipe or a file is read: anything else may never end."""
    if sys.stdin is None or sys.stdin.isatty() or not (is_alone or _ends()):
        return ""
    return sys.stdin.read().removeprefix("\ufeff").strip("\n")


def _ends() -> bool:
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except ValueError:  # somebody's own stdin, without a file behind it
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _document(path: str) -> Document:
    from pathlib import Path

    data = Path(path).read_bytes()
    if not data:
        raise UsageError(f"{path}: it is empty")
    if data.startswith(b"%PDF-"):
        mime = "application/pdf"
    elif b"\0" in data:
        raise UsageError(f"{path}: neither a PDF nor text")
    else:
        mime = "text/plain"
    return Document(data=data, mime=mime, name=Path(path).name)
