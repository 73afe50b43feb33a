"""Requests that ended in, one line of JSON each out: who, what, how long; never a word of content, never a key."""

import logging
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import msgspec

from dragoman.errors import redact
from dragoman.gateway.store.port import Row

LOGGER = "dragoman.gateway"
LONGEST = 2000
"""Characters of one message."""

Write = Callable[[str], object]


def access(row: Row, /) -> dict[str, Any]:
    """What the line of a request says.

    >>> access(Row(id="req_1", moment=0.0, model="fast", key="team", outcome="served", status=200))["request_id"]
    'req_1'
    """
    told = {
        "request_id": row.id,
        "key": row.key,
        "dialect": row.dialect,
        "model": redact(row.model)[:LONGEST],
        "target": row.target,
        "stream": row.stream,
        "status": row.status,
        "outcome": row.outcome,
        "input": row.input,
        "output": row.output,
        "attempts": row.attempts,
        "duration": None if row.duration is None else round(row.duration, 6),
        "first": None if row.first is None else round(row.first, 6),
    }
    return {name: value for name, value in told.items() if value is not None}


def encode_line(time: float, level: str, message: str, /, **fields: Any) -> str:
    """One line of the log.

    >>> encode_line(0.0, "info", "request", request_id="req_1")
    '{"time":"1970-01-01T00:00:00.000Z","level":"info","message":"request","request_id":"req_1"}'
    """
    moment = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = {"time": moment, "level": level, "message": redact(message)[:LONGEST], **fields}
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
        if record.exc_info and record.exc_info[0] is not None:
            fields["error"] = _where(record.exc_info[0], record.exc_info[2])[:LONGEST]
        return encode_line(record.created, record.levelname.lower(), record.getMessage(), **fields)


class Log:
    """The log of a gateway: one line a request.

    >>> lines = []
    >>> Log(lines.append).ended(Row(id="req_1", moment=0.0, model="fast", outcome="served", duration=0.2))
    >>> '"request_id":"req_1"' in lines[0]
    True
    """

    def __init__(self, write: Write | None = None, /) -> None:
        self._write = write or _to_stderr

    def ended(self, row: Row, /) -> None:
        """A request ended."""
        level = "info" if row.outcome == "served" else "warning"
        self._write(encode_line(row.moment + (row.duration or 0.0), level, "request", **access(row)) + "\n")


def set_up(level: int = logging.INFO, /) -> None:
    """Let Python's own log be lines of JSON, too.

    >>> set_up.__name__
    'set_up'
    """
    formatter = logging.StreamHandler(sys.stderr)
    formatter.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[formatter], force=True)


def _where(kind: type[BaseException], trace: TracebackType | None) -> str:
    """What happened and where; not what was said of it, as that may quote a request."""
    return redact("".join([*traceback.format_tb(trace), kind.__name__]))


def _to_stderr(line: str) -> None:
    sys.stderr.write(line)
