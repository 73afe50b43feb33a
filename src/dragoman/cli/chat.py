"""A prompt, piped text and files in, one streamed answer out; without a prompt, a conversation."""

import os
import stat
import sys
from argparse import Namespace

from dragoman.cli import screen
from dragoman.cli.home import asked_of, check_answer, open_registry, spec_of
from dragoman.cli.parser import UsageError
from dragoman.errors import DragomanError
from dragoman.events import Restarted
from dragoman.models import Asked, Model
from dragoman.streams import TextDelta, ThinkingDelta
from dragoman.types import Document, Image, Message, Part, Response, Text, ToolCall, dump, user


def run(arguments: Namespace, /) -> int:
    """One answer, or a conversation where nothing is asked and somebody sits there."""
    registry = open_registry(arguments)
    model = registry.model(spec_of(arguments.model, registry))
    asked = asked_of(arguments)
    parts = _parts(arguments)
    if not parts:
        if not sys.stdin.isatty() or arguments.json:
            raise UsageError("nothing is asked; give a prompt, or pipe one in")
        from dragoman.cli.conversation import Conversation

        return Conversation(registry, model, asked, quiet=arguments.quiet).run()
    messages = (user(*parts),)
    if arguments.json:
        response = model.generate(messages, **asked)
        screen.write(dump(response).decode() + "\n")
    else:
        response = answer(model, messages, asked)
    if not arguments.quiet:
        screen.note_receipt(response)
    check_answer(response.text, asked.get("schema"))
    return 0


def answer(model: Model, messages: tuple[Message, ...], asked: Asked, /) -> Response:
    """Stream one answer: its text to stdout, its thinking to a terminal's stderr."""
    shown = _Shown()
    try:
        with model.stream(messages, **asked) as stream:
            for item in stream:
                match item:
                    case TextDelta():
                        shown.say(item.text)
                    case ThinkingDelta():
                        shown.think(item.text)
                    case ToolCall():
                        shown.remark(f"calls {item.name} {item.arguments}")
                    case Restarted():
                        shown.remark(f"{item.left} broke off ({item.why}); {item.target} starts over")
                    case Response():
                        return item
    finally:
        shown.end()
    raise DragomanError("the stream ended without a response")


class _Shown:
    """What stands on the terminal so far: text, thinking, or a fresh line."""

    def __init__(self) -> None:
        self._thinks = False
        self._last = "\n"

    def say(self, text: str) -> None:
        if self._thinks:
            self._thinks = False
            sys.stderr.write("\n")
        self._last = text or self._last
        screen.write(text)

    def think(self, text: str) -> None:
        if sys.stderr.isatty():
            self._thinks = True
            sys.stderr.write(screen.paint(text, "dim", sys.stderr))
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


# What is asked --------------------------------------------------------------------------------------------------------


def _parts(arguments: Namespace) -> list[Part]:
    words = [piped] if (piped := _piped(is_alone=arguments.prompt is None)) else []
    words += [screen.heard(arguments.prompt)] if arguments.prompt else []
    parts: list[Part] = [Image.from_path(path) for path in arguments.image]
    parts += [_document(path) for path in arguments.document]
    return [*parts, Text(text="\n\n".join(words))] if words else parts


def _piped(*, is_alone: bool) -> str:
    """What is piped in. Beside a prompt only a pipe or a file is read: anything else may never end."""
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    if not is_alone:
        mode = os.fstat(sys.stdin.fileno()).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
            return ""
    return sys.stdin.read().strip("\n")


def _document(path: str) -> Document:
    from pathlib import Path

    data = Path(path).read_bytes()
    if data.startswith(b"%PDF-"):
        mime = "application/pdf"
    elif b"\0" in data:
        raise UsageError(f"{path}: neither a PDF nor text")
    else:
        mime = "text/plain"
    return Document(data=data, mime=mime, name=Path(path).name)
