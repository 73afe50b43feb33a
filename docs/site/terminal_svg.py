"""Makes a moving picture of a command in a terminal, as SVG.

The command runs in a pseudo-terminal, and each piece of its output is stored with its time and colours. The picture is
one file with CSS animations and no script, so it also moves inside an `<img>`. Without animations it shows the first
rows. The picture of the README is made with

    python docs/site/terminal_svg.py docs/images/demo.svg .venv/bin/python examples/demo.py
"""

import html
import os
import pty
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

COLUMNS, ROWS = 98, 18
CELL, LINE, MARGIN = 8.4, 19, 16
TITLE_BAR = 28
FRAME = 0.1
"""Seconds: output within one frame appears at once."""
PAUSE = 6.0
"""Seconds at the end, before it starts again."""
LONGEST = 1.2
"""Seconds: longer waits are shortened to this."""
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff"}
STYLE = re.compile(r"\x1b\[([\d;]*)m")


class Piece(NamedTuple):
    """A text at a place, with its look and the time when it appears."""

    row: int
    column: int
    text: str
    codes: frozenset[str]
    at: float


def record(command: list[str]) -> list[tuple[float, str]]:
    """Run a command in a terminal; return its output with times, from its first output. Long waits are shortened."""
    pid, descriptor = pty.fork()
    if not pid:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(ROWS))
        os.execvp(command[0], command)  # noqa: S606 - the command of the caller
    output: list[tuple[float, str]] = []
    clock, last, rest = 0.0, time.monotonic(), b""
    while data := _read(descriptor):
        now = time.monotonic()
        clock, last = clock + min(now - last, LONGEST) if output else 0.0, now
        text, rest = _decode(rest + data)
        output.append((clock, text))
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit(f"{' '.join(command)} failed")
    return output


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the terminal is closed when the command ends
        return b""


def _decode(data: bytes) -> tuple[str, bytes]:
    """The text, and the bytes of a character that is not complete yet."""
    for cut in range(4):
        try:
            return data[: len(data) - cut].decode(), data[len(data) - cut :]
        except UnicodeDecodeError:
            continue
    raise SystemExit("the output must be UTF-8")


def pieces(output: list[tuple[float, str]]) -> Iterator[Piece]:
    """The output as texts with places."""
    row = column = 0
    codes: frozenset[str] = frozenset()
    for clock, text in output:
        at = round(clock / FRAME) * FRAME
        for token in re.split(r"(\x1b\[[\d;]*m|\r\n|\n)", text):
            if style := STYLE.fullmatch(token):
                codes = codes | {style[1]} if style[1] not in {"", "0"} else frozenset()
            elif token in {"\r\n", "\n"}:
                row, column = row + 1, 0
            elif token:
                yield Piece(row, column, token, codes, at)
                column += len(token)


def picture(parts: list[Piece], title: str) -> str:
    """The SVG."""
    end = parts[-1].at + PAUSE
    width = round(COLUMNS * CELL + 2 * MARGIN)
    height = TITLE_BAR + ROWS * LINE + 2 * MARGIN
    times = sorted({part.at for part in parts})
    names = {at: f"t{number}" for number, at in enumerate(times)}
    rules = [f"@keyframes {names[at]}{{0%,{_percent(at, end)}{{opacity:0}}to{{opacity:1}}}}" for at in times]
    rules += [f".{names[at]}{{animation:{names[at]} {end:.1f}s step-start infinite}}" for at in times]
    size = f'width="{width}" height="{height}"'
    lights = enumerate(("#ff5f56", "#ffbd2e", "#27c93f"))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size}>',
            f"<title>{html.escape(title)}</title>",
            "<style>",
            "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}",
            ".b{font-weight:bold}.d{fill:#8b949e}",
            *(f".c{code}{{fill:{colour}}}" for code, colour in COLOURS.items()),
            *rules,
            _scrolling(parts, end),
            "@media (prefers-reduced-motion:reduce){*{animation:none!important}}",
            "</style>",
            f'<rect {size} rx="8" fill="#0d1117"/>',
            *(f'<circle cx="{18 + 18 * n}" cy="14" r="5" fill="{colour}"/>' for n, colour in lights),
            f'<text x="{width / 2}" y="19" text-anchor="middle" class="d">{html.escape(title)}</text>',
            f'<clipPath id="screen"><rect y="{TITLE_BAR}" width="{width}" height="{ROWS * LINE + MARGIN}"/></clipPath>',
            '<g clip-path="url(#screen)"><g class="scroll">',
            *(_text(part, names[part.at]) for part in parts if part.text.strip()),
            "</g></g></svg>",
            "",
        ]
    )


def _text(part: Piece, name: str) -> str:
    looks = [name]
    looks += ["b"] * ("1" in part.codes) + ["d"] * ("2" in part.codes)
    looks += [f"c{code}" for code in COLOURS if code in part.codes]
    x, y = MARGIN + part.column * CELL, TITLE_BAR + MARGIN + (part.row + 0.75) * LINE
    text = html.escape(part.text, quote=False)
    return (
        f'<text x="{x:.1f}" y="{y:.0f}" textLength="{len(part.text) * CELL:.1f}" class="{" ".join(looks)}" '
        f'xml:space="preserve">{text}</text>'
    )


def _scrolling(parts: list[Piece], end: float) -> str:
    """The rule that moves the text up when the screen is full."""
    frames = ["0%{transform:none}"]
    top = 0
    for part in parts:
        if part.row - ROWS + 1 > top:
            frames.append(f"{_percent(part.at, end)}{{transform:translateY({-top * LINE}px)}}")
            top = part.row - ROWS + 1
            frames.append(f"{_percent(part.at + 0.001, end)}{{transform:translateY({-top * LINE}px)}}")
    frames.append(f"to{{transform:translateY({-top * LINE}px)}}")
    return f"@keyframes scroll{{{''.join(frames)}}}.scroll{{animation:scroll {end:.1f}s linear infinite}}"


def _percent(at: float, end: float) -> str:
    return f"{100 * at / end:.3f}%"


def main() -> None:
    """Record a command and write its picture."""
    path, *command = sys.argv[1:]
    parts = list(pieces(record(command)))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(picture(parts, "make demo"), encoding="utf-8")


if __name__ == "__main__":
    main()
