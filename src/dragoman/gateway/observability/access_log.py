"""Requests that ended in, one line of JSON each out: who, what, how long; never a word of content, never a key."""

import asyncio
import logging
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from dragoman.errors import redact
from dragoman.gateway.store.base import UsageRow

LOGGER = "dragoman.gateway"
LONGEST = 2000
"""Characters of one message."""
MAX_TRACE = LONGEST - 200
GATHER = 0.01
"""Seconds of which the lines are written together."""

Write = Callable[[str], object]


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the log says of a request.

    >>> msgspec.json.encode(LogLine("1970-01-01T00:00:00.000Z", "info", "request", "req_1", "fast")).decode()
    '{"time":"1970-01-01T00:00:00.000Z","level":"info","message":"request","request_id":"req_1","model":"fast"}'
    """

    time: str
    level: str
    message: str
    request_id: str
    model: str
    stream: bool | None = None
    outcome: str | None = None
    attempts: int | None = None
    key: str | None = None
    dialect: str | None = None
    target: str | None = None
    status: int | None = None
    input: int | None = None
    output: int | None = None
    duration: float | None = None
    first: float | None = None
    estimated: bool = False


blotted = lru_cache(maxsize=1024)(redact)
"""As `redact`, for the names of models: few, and said again and again."""


def encode_line(time: float, level: str, message: str, /, **fields: Any) -> str:
    """One line of the log.

    >>> encode_line(0.0, "info", "request", request_id="req_1")
    '{"time":"1970-01-01T00:00:00.000Z","level":"info","message":"request","request_id":"req_1"}'
    """
    line = {"time": _told(time), "level": level, "message": redact(message)[:LONGEST], **fields}
    return msgspec.json.encode(line, enc_hook=repr).decode()


class JsonFormatter(logging.Formatter):
    """Python's own log as lines of the same kind; keys in it are blotted out.

    >>> record = logging.LogRecord("x", logging.WARNING, "", 0, "bad key sk-proj-12345678", None, None)
    >>> '"message":"bad key [redacted]"' in JsonFormatter().format(record)
    True
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields: dict[str, Any] = {"logger": record.name}
        given: Any = getattr(record, "fields", None)
        if given:
            fields = {**given}
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = where(record.exc_info[1])
        return encode_line(record.created, record.levelname.lower(), record.getMessage(), **fields)


class AccessLog:
    """The log of a gateway: one line a request.

    >>> lines = []
    >>> AccessLog(lines.append).write_request(UsageRow(id="req_1", moment=0.0, model="fast", outcome="served", duration=0.2))
    >>> '"request_id":"req_1"' in lines[0]
    True
    """

    def __init__(self, write: Write | None = None, /) -> None:
        self._gathered = LogBuffer(_to_stderr)
        self._write = write or self._gathered.add

    def write_request(self, row: UsageRow, /) -> None:
        """A request ended."""
        level = "info" if row.outcome == "served" else "warning"
        line = LogLine(
            _told(row.moment + (row.duration or 0.0)),
            level,
            "request",
            row.id,
            blotted(row.model)[:LONGEST],
            row.stream,
            row.outcome,
            row.attempts,
            row.key,
            row.dialect,
            row.target,
            row.status,
            row.input,
            row.output,
            None if row.duration is None else round(row.duration, 6),
            None if row.time_to_first_token is None else round(row.time_to_first_token, 6),
            row.estimated,
        )
        self._write(f"{_encode(line).decode()}\n")

    def flush(self) -> None:
        """Write what waits."""
        self._gathered.flush()


_encode = msgspec.json.Encoder().encode


def _told(time: float) -> str:
    seconds, thousandths = divmod(int(time * 1000), 1000)
    return f"{_second(seconds)}.{thousandths:03}Z"


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").removesuffix("+00:00")


class LogBuffer:
    """Writes lines that come shortly after each other together: a write for each would cost more than making it.

    >>> lines = []
    >>> LogBuffer(lines.append).add("where no loop runs, at once")
    >>> lines
    ['where no loop runs, at once']
    """

    def __init__(self, write: Write, /) -> None:
        self._write = write
        self._lines: list[str] = []

    def add(self, line: str, /) -> None:
        """Write a line, soon."""
        self._lines.append(line)
        if len(self._lines) == 1:
            try:
                asyncio.get_running_loop().call_later(GATHER, self.flush)
            except RuntimeError:
                self.flush()

    def flush(self) -> None:
        """Write what waits."""
        lines, self._lines = self._lines, []
        if lines:
            self._write("".join(lines))


def configure_logging(level: int = logging.INFO, /) -> None:
    """Let Python's own log be lines of JSON, too.

    >>> configure_logging.__name__
    'set_up'
    """
    formatter = logging.StreamHandler(sys.stderr)
    formatter.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[formatter], force=True)


def where(error: BaseException, /) -> str:
    """What happened and where; not what was said of it, as that may quote a request.

    >>> where(ValueError("the words of a client"))
    'ValueError'
    """
    return redact("".join([*traceback.format_tb(error.__traceback__), type(error).__name__]))[-MAX_TRACE:]


def _to_stderr(line: str) -> None:
    sys.stderr.write(line)
