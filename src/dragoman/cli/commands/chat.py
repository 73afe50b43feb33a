"""`dragoman chat`: stream one answer to a prompt, piped text and files; without a prompt, start a conversation."""

import os
import stat
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from dragoman.cli import terminal
from dragoman.cli.defaults import DEMO, HOW_TO_SET_A_KEY, call_options, named_spec, open_registry
from dragoman.cli.parser import UsageError
from dragoman.engine.call_options import CallOptions
from dragoman.errors import DragomanError, InvalidRequest, Unsupported
from dragoman.events import Restarted
from dragoman.media.fit_request import check_readable
from dragoman.models import Model
from dragoman.schema.check_answer import check_answer
from dragoman.streaming import TextDelta, ThinkingDelta
from dragoman.tools.events import ToolFinished
from dragoman.types import Document, Image, Message, Part, Response, Text, dump, user
from dragoman.types.media_files import UNKNOWN_TYPE, guess_type

OutputLevel: TypeAlias = Literal["all", "answer", "nothing"]
MAX_TOOL_TEXT = 200
"""Characters shown of the arguments and the result of a tool."""


def run(arguments: Namespace, /) -> int:
    """Print one answer; start a conversation if there is no prompt and stdin is a terminal."""
    registry = open_registry(arguments)
    spec = named_spec(arguments.model, registry)
    model = registry.model(spec or DEMO)
    options = call_options(arguments)
    tools = [find_tool(name) for name in arguments.tool]
    parts = _parts(arguments)
    has_no_text = arguments.prompt is None and not any(isinstance(part, Text) for part in parts)
    if not parts or (has_no_text and sys.stdin.isatty() and not arguments.json):
        if not sys.stdin.isatty() or arguments.json:
            raise UsageError("a prompt is required; pass it as an argument or through a pipe")
        from dragoman.cli.repl import Conversation

        _note_demo(spec, quiet=arguments.quiet)
        return Conversation(registry, model, options, tools=tools, files=parts, quiet=arguments.quiet).run()
    _note_demo(spec, quiet=arguments.quiet)
    verbosity: OutputLevel = "nothing" if arguments.json else "answer" if arguments.quiet else "all"
    turn = answer(model, (user(*parts),), options, tools=tools, verbosity=verbosity)
    if arguments.json:
        terminal.write(dump(turn.response).decode() + "\n")
    if not arguments.quiet:
        terminal.note_response(turn.response)
    check_answer(turn.response.text, options.get("schema"))
    return 0


def _note_demo(spec: str | None, *, quiet: bool) -> None:
    if spec is None and not quiet:
        terminal.note(f"no API key is set, so the demo answers; {HOW_TO_SET_A_KEY}", style="yellow")


class ChatTurn(NamedTuple):
    """The last response, and the conversation up to it."""

    response: Response
    messages: tuple[Message, ...]


def answer(
    model: Model,
    messages: tuple[Message, ...],
    options: CallOptions,
    /,
    *,
    tools: Sequence[Callable[..., Any]] = (),
    verbosity: OutputLevel = "all",
) -> ChatTurn:
    """Stream one answer: text to stdout; with verbosity "all", thinking and tool calls to stderr."""
    printer = _StreamPrinter(verbosity)
    try:
        if tools:
            return _run_agent(model, messages, options, tools, printer)
        if verbosity == "nothing":
            response = model.generate(messages, **options)
            return ChatTurn(response, (*messages, response.message))
        with model.stream(messages, **options) as stream:
            for item in stream:
                printer.show(item)
        if stream.response is None:
            raise DragomanError("the stream ended without a response")
        return ChatTurn(stream.response, (*messages, stream.response.message))
    finally:
        printer.end()


def _run_agent(
    model: Model,
    messages: tuple[Message, ...],
    options: CallOptions,
    tools: Sequence[Callable[..., Any]],
    printer: "_StreamPrinter",
) -> ChatTurn:
    """The answer of an agent; its steps count as one response."""
    from dragoman.agents.agent import Agent

    with Agent(model, tools=tools).stream(messages, **options) as stream:
        for item in stream:
            printer.show(item)
    result = stream.result
    last = result.steps[-1].response
    attempts = tuple(attempt for step in result.steps for attempt in step.response.attempts)
    return ChatTurn(replace(last, usage=result.usage, attempts=attempts), result.messages)


def find_tool(name: str, /) -> Callable[..., Any]:
    """The function that `module:function` names; modules of the current folder are found, too.

    >>> find_tool("math:hypot")(3, 4)
    5.0
    """
    module, _, function = name.partition(":")
    if not module or not function:
        raise UsageError(f"--tool must be MODULE:FUNCTION, got {name!r}")
    if "" not in sys.path:
        sys.path.append("")
    try:
        tool = getattr(import_module(module), function)
    except _IMPORT_ERRORS as error:
        raise UsageError(f"--tool {name}: {_import_problem(error, module, function)}") from error
    if not callable(tool):
        raise UsageError(f"--tool must name a function, got {name!r}")
    return cast("Callable[..., Any]", tool)


_IMPORT_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, OSError),
    *(RuntimeError, SyntaxError, SystemExit, TypeError, ValueError),
)
"""What importing a user's module may raise."""


def _import_problem(error: BaseException, module: str, function: str) -> str:
    match error:
        case ModuleNotFoundError() if error.name and f"{module}.".startswith(f"{error.name}."):
            return f"no module {module!r} in this folder or among the installed packages"
        case AttributeError() if error.name == function:
            return f"module {module!r} has no {function!r}"
        case SystemExit():
            return f"module {module!r} exits with {error.code!r} when it is imported"
        case _:
            return f"module {module!r} cannot be imported: {type(error).__name__}: {error}"


class _StreamPrinter:
    """Prints the items of a stream, and starts a new line between text, thinking and remarks."""

    def __init__(self, verbosity: OutputLevel) -> None:
        self._verbosity = verbosity
        self._is_thinking = False
        self._last = "\n"

    def show(self, item: object) -> None:
        match item:
            case TextDelta() if self._verbosity != "nothing":
                self.text(item.text)
            case ThinkingDelta() if self._verbosity == "all":
                self.thinking(item.text)
            case Restarted() if self._verbosity == "all":
                self.remark(f"{item.previous} failed ({item.why}); {item.target} starts again")
            case Restarted():
                self.end()
            case ToolFinished() if self._verbosity == "all":
                self.remark(f"{item.call.name} {_shorten(item.call.arguments)} → {_shorten(item.result.text)}")
            case _:
                return

    def text(self, text: str) -> None:
        if self._is_thinking:
            self._is_thinking = False
            sys.stderr.write("\n")
        self._last = text or self._last
        terminal.write_text(text)

    def thinking(self, text: str) -> None:
        if sys.stderr.isatty():
            self._is_thinking = True
            sys.stderr.write(terminal.paint(terminal.replace_controls(text), "dim", sys.stderr))
            sys.stderr.flush()

    def remark(self, text: str) -> None:
        self.end()
        terminal.note(text, style="yellow")

    def end(self) -> None:
        if self._is_thinking:
            self._is_thinking = False
            sys.stderr.write("\n")
        if not self._last.endswith("\n"):
            self._last = "\n"
            terminal.write("\n")


def _shorten(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    line = " ".join(text.split())
    return line if len(line) <= MAX_TOOL_TEXT else f"{line[:MAX_TOOL_TEXT]}…"


# The prompt -----------------------------------------------------------------------------------------------------------


def _parts(arguments: Namespace) -> list[Part]:
    texts = [piped] if (piped := _piped_text(is_alone=arguments.prompt is None)) else []
    texts += [terminal.decode_argument(arguments.prompt)] if arguments.prompt else []
    parts: list[Part] = [_image(path) for path in arguments.image]
    parts += [_document(path) for path in arguments.document]
    return [*parts, Text(text="\n\n".join(texts))] if texts else parts


def _piped_text(*, is_alone: bool) -> str:
    """Text from stdin. Next to a prompt, only a pipe or a file is read: other inputs may never end."""
    if sys.stdin is None or sys.stdin.isatty() or not (is_alone or _is_pipe_or_file()):
        return ""
    return sys.stdin.read().removeprefix("\ufeff").strip("\n")


def _is_pipe_or_file() -> bool:
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except ValueError:  # a replaced stdin without a file descriptor
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _image(path: str) -> Image:
    image = Image.from_path(path)
    try:
        check_readable(image)
    except (InvalidRequest, Unsupported) as error:
        raise UsageError(f"--image must be an image file, got {path}: {error.message}") from error
    return image


def _document(path: str) -> Document:
    from pathlib import Path

    data = Path(path).read_bytes()
    if not data:
        raise UsageError(f"--document must not be empty, got {path}")
    name = Path(path).name
    mime = "application/pdf" if data.startswith(b"%PDF-") else "text/plain"
    if b"\0" in data and mime == "text/plain":
        mime = guess_type(name) or UNKNOWN_TYPE
        if mime == UNKNOWN_TYPE or not mime.startswith(("application/", "video/")):
            raise UsageError(f"--document must be a PDF, an office file, a video or a text file, got {path}")
    return Document(data=data, mime=mime, name=name)
