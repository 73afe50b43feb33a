"""What a command has to say in, lines on a terminal or plain text in a pipe out: results on stdout, notes on stderr."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec

from dragoman.errors import DragomanError, redact
from dragoman.types import Notice, Response

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def open_all() -> bool:
    """Give stdin and stderr a place where they are closed; whether stdout is open, which nobody can do without."""
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as above
    return sys.stdout is not None


def hush() -> None:
    """Let go of what could not be written: the interpreter would complain when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def speak_utf8() -> None:
    """UTF-8 in and out, whatever the locale says; what is no UTF-8 is shown as such."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(encoding="utf-8", errors="replace")


def heard(text: str, /) -> str:
    """A word of the command line as the UTF-8 that it was typed in.

    >>> heard("Brest")
    'Brest'
    """
    return os.fsencode(text).decode("utf-8", "replace")


def write(text: str, /) -> None:
    """Show a piece of the result, at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_text(text: str, /) -> None:
    """Show a piece of what somebody else said; on a terminal, nothing in it moves the cursor or more."""
    write(harmless(text) if sys.stdout.isatty() else text)


def harmless(text: str, /) -> str:
    """The same without what a terminal would take for an order.

    >>> harmless("a\x1b[2Jb")
    'a�[2Jb'
    """
    return text.translate(_CONTROLS)


_CONTROLS = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}")
"""Control characters but for tab and line break."""


def write_json(value: Any, /) -> None:
    """Show a result as JSON: one line in a pipe, indented on a terminal."""
    data = msgspec.json.encode(value, enc_hook=str)
    write((msgspec.json.format(data, indent=2) if sys.stdout.isatty() else data).decode() + "\n")


def note(text: str, /, *, style: str = "dim") -> None:
    """Say something beside the result."""
    sys.stderr.write(paint(harmless(text), style, sys.stderr) + "\n")
    sys.stderr.flush()


def fail(text: str, /) -> None:
    """Say in one line what went wrong."""
    note(f"dragoman: {' '.join(text.split())}", style="red")


def told(error: Exception, /) -> str:
    """An error in words, in one line and without keys.

    >>> told(FileNotFoundError(2, "No such file or directory", "in.jsonl"))
    'in.jsonl: No such file or directory'
    """
    if isinstance(error, OSError) and error.strerror:
        return _whole(f"{error.filename}: {error.strerror}") if error.filename else error.strerror
    kind = f"{type(error).__name__.removesuffix('ByAll')}: " if isinstance(error, DragomanError) else ""
    return " ".join(redact(_whole(f"{kind}{error}")).split())


def _whole(text: str) -> str:
    """The same where a word of the command line in it was no UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def facts(error: Exception, /) -> Any:
    """An error as a value.

    >>> facts(ValueError("no"))
    {'kind': 'ValueError', 'message': 'no'}
    """
    if isinstance(error, DragomanError):
        from dragoman.wires.common.error_record import dump_error

        known = dump_error(error)
        return msgspec.structs.replace(known, message=_whole(known.message))
    return {"kind": type(error).__name__, "message": told(error)}


def paint(text: str, style: str, stream: TextIO | None = None, /) -> str:
    """The text in a colour, where the stream is a terminal and NO_COLOR is not set.

    >>> paint("plain", "red", None)
    'plain'
    """
    coloured = stream is not None and stream.isatty() and not os.environ.get("NO_COLOR")
    if not coloured or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def write_table(rows: Sequence[Sequence[str]], /) -> None:
    """Show rows: in columns on a terminal, with tabs in a pipe, so that `cut` can read them."""
    if not sys.stdout.isatty():
        write("".join("\t".join(row) + "\n" for row in rows))
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        write("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() + "\n")


def note_notices(notices: Sequence[Notice], /) -> None:
    """Say what was bent on the way."""
    for notice in notices:
        note(f"{notice.kind}: {notice.what}: {notice.why}", style="yellow")


def note_receipt(response: Response, /) -> None:
    """Say who served an answer, what it took, who failed before, and what was bent."""
    note_notices(response.notices)
    for attempt in response.attempts:
        if attempt.outcome != "served":
            note(f"{attempt.target} {attempt.outcome} ({attempt.error})", style="yellow")
    usage, served = response.usage, response.attempts[-1:] or ()
    counts = [
        f"{count} tokens {way}" for count, way in ((usage.input, "in"), (usage.output, "out")) if count is not None
    ]
    took = [f"{attempt.duration:.1f} s" for attempt in served if attempt.duration is not None]
    finish = [] if response.finish.reason in ("stop", "tool_calls") else [f"finish: {response.finish.reason}"]
    note(" · ".join([response.target or "?", *counts, *took, *finish]))
