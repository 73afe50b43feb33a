"""What a command writes: results to stdout, notes to stderr; coloured on a terminal, plain in a pipe."""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TextIO

from dragoman.errors import ChainExhausted, DragomanError, SetupError, redact

if TYPE_CHECKING:  # so that the parent process of `dragoman serve` stays small
    from dragoman.types import Attempt, Notice, Response

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_CONTROLS = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}")
"""Control characters except tab and line break."""


# Streams --------------------------------------------------------------------------------------------------------------


def open_standard_streams() -> bool:
    """Replace a closed stdin or stderr by the null device; return whether stdout is open."""
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - open as long as the process runs
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as above
    return sys.stdout is not None


def discard_stdout() -> None:
    """Send unwritten output to the null device; otherwise Python prints an error when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def use_utf8() -> None:
    """Read and write UTF-8 in every locale; invalid bytes become replacement characters."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(encoding="utf-8", errors="replace")


def decode_argument(text: str, /) -> str:
    """A command-line argument decoded as UTF-8, in every locale."""
    return os.fsencode(text).decode("utf-8", "replace")


# Results --------------------------------------------------------------------------------------------------------------


def write(text: str, /) -> None:
    """Write a piece of the result and flush."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_text(text: str, /) -> None:
    """Write text of a model; on a terminal without control characters, which could move the cursor."""
    write(replace_controls(text) if sys.stdout.isatty() else text)


def replace_controls(text: str, /) -> str:
    """The text with its control characters replaced.

    >>> replace_controls("a\x1b[2Jb")
    'a�[2Jb'
    """
    return text.translate(_CONTROLS)


def write_json(value: Any, /) -> None:
    """Write a result as JSON: one line in a pipe, indented on a terminal."""
    import msgspec

    data = msgspec.json.encode(value, enc_hook=str)
    write((msgspec.json.format(data, indent=2) if sys.stdout.isatty() else data).decode() + "\n")


def write_table(rows: Sequence[Sequence[str]], /, *, optional: int | None = None) -> None:
    """Write rows: separated by tabs in a pipe, so that `cut` can read them; in columns on a terminal.

    If a terminal is too narrow, the optional column is left out, then the widest cells are shortened.
    """
    if not sys.stdout.isatty():
        write("".join("\t".join(row) + "\n" for row in rows))
        return
    width = get_terminal_size().columns
    write("".join(line + "\n" for line in format_columns(rows, width, optional)))


def format_columns(rows: Sequence[Sequence[str]], width: int, optional: int | None = None, /) -> list[str]:
    """Rows as aligned lines of at most `width` characters.

    >>> format_columns([("groq", "https://api.groq.com", "no key"), ("demo", "demo://local", "needs no key")], 20, 1)
    ['groq  no key', 'demo  needs no key']
    >>> format_columns([("a", "a long description")], 12)
    ['a  a long d…']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if optional is not None and _line_width(widths) > width:
        widths.pop(optional)
        rows = [[*row[:optional], *row[optional + 1 :]] for row in rows]
    while (excess := _line_width(widths) - width) > 0 and max(widths) > 1:
        widest = widths.index(max(widths))
        others = [other for index, other in enumerate(widths) if index != widest]
        widths[widest] -= max(1, min(excess, widths[widest] - max(others, default=1)))
    return ["  ".join(map(_fit_cell, row, widths)).rstrip() for row in rows]


def _line_width(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _fit_cell(cell: str, width: int) -> str:
    return cell.ljust(width) if len(cell) <= width else f"{cell[: width - 1]}…"


def paint(text: str, style: str, stream: TextIO | None = None, /) -> str:
    """The text in a colour, if the stream is a terminal and NO_COLOR is not set."""
    has_colour = stream is not None and stream.isatty() and not os.environ.get("NO_COLOR")
    if not has_colour or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


# Notes and errors -----------------------------------------------------------------------------------------------------


def note(text: str, /, *, style: str = "dim") -> None:
    """Write a line to stderr."""
    sys.stderr.write(paint(replace_controls(text), style, sys.stderr) + "\n")
    sys.stderr.flush()


def fail(text: str, /) -> None:
    """Write an error to stderr."""
    note(f"dragoman: {_join_lines(text)}", style="red")


def note_notices(notices: "Sequence[Notice]", /) -> None:
    """List what was dropped or changed."""
    for notice in notices:
        note(f"{notice.kind}: {notice.what}: {notice.why}", style="yellow")


def note_response(response: "Response", /) -> None:
    """Report notices, failed attempts, the target that answered, tokens and time."""
    note_notices(response.notices)
    failed = [attempt for attempt in response.attempts if attempt.outcome != "served"]
    for reason in _count_failures(failed):
        note(reason, style="yellow")
    counts = ((response.usage.input, "in"), (response.usage.output, "out"))
    tokens = [f"{plural(count, 'token')} {direction}" for count, direction in counts if count is not None]
    durations = [f"{attempt.duration:.1f} s" for attempt in response.attempts[-1:] if attempt.duration is not None]
    finish = [] if response.finish.reason in ("stop", "tool_calls") else [f"finish: {response.finish.reason}"]
    note(" · ".join([response.target or "?", *tokens, *durations, *finish]))


def plural(count: int, noun: str, /) -> str:
    """A count with its noun.

    >>> plural(1, "row"), plural(2, "row"), plural(2, "alias")
    ('1 row', '2 rows', '2 aliases')
    """
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count} {noun}{ending}"


def describe_error(error: Exception, /) -> str:
    """An error without keys: one line, or a line for each of its problems.

    >>> describe_error(FileNotFoundError(2, "No such file or directory", "in.jsonl"))
    'in.jsonl: No such file or directory'
    """
    if isinstance(error, OSError) and error.strerror:
        return _valid_utf8(f"{error.filename}: {error.strerror}") if error.filename else error.strerror
    if isinstance(error, ChainExhausted) and error.attempts:
        text = "\n- ".join(["no target answered:", *_count_failures(error.attempts)])
    elif isinstance(error, DragomanError) and error.attempts:
        text = str(error)  # it starts with the target
    else:
        is_named = isinstance(error, DragomanError) and type(error) not in (DragomanError, SetupError)
        text = f"{type(error).__name__}: {error}" if is_named else str(error)
    return _join_lines(redact(_valid_utf8(_without_parameter(text))))


def _without_parameter(text: str) -> str:
    """The text of an error about a missing key; the command line has no parameter `api_key`."""
    text = re.sub(r"(?<=set )(.+?),? or pass api_key=( \([^()]*\))?", r"\1", text)
    return text.replace("no API key; pass api_key=", "no API key; set api_key of the provider in the config")


def _count_failures(attempts: "Iterable[Attempt]") -> list[str]:
    """Why each target failed; equal failures are counted, not repeated."""
    failures = Counter(f"{attempt.target} {attempt.outcome}: {attempt.error}" for attempt in attempts)
    return [f"{failure} ({count} attempts)" if count > 1 else failure for failure, count in failures.items()]


def _join_lines(text: str) -> str:
    """The text in one line; only the items of a list keep their lines."""
    return "\n- ".join(" ".join(item.split()) for item in text.split("\n- "))


def _valid_utf8(text: str) -> str:
    """The text without lone surrogates, which stand for arguments that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def error_record(error: Exception, /) -> Any:
    """An error as a JSON value.

    >>> error_record(ValueError("no"))
    {'kind': 'ValueError', 'message': 'no'}
    """
    if isinstance(error, DragomanError):
        from msgspec.structs import replace

        from dragoman.wires.common.error_record import dump_error

        record = dump_error(error)
        return replace(record, message=_valid_utf8(record.message))
    return {"kind": type(error).__name__, "message": describe_error(error)}
