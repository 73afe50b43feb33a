"""The access log: one line of JSON per request on stderr. It has no content of requests and no API keys."""

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
MAX_LOG_MESSAGE = 2000
"""Characters of one message."""
MAX_TRACEBACK = MAX_LOG_MESSAGE - 200
FLUSH_DELAY = 0.01
"""Seconds for which lines are collected before one write."""

WriteLine = Callable[[str], object]


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of one request in the log."""

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
    time_to_first_token: float | None = None
    estimated: bool = False
    losses: dict[str, int] = {}
    """Notices of losses, by kind."""


_redact_model = lru_cache(maxsize=1024)(redact)


def encode_line(time: float, level: str, message: str, /, **fields: Any) -> str:
    """Encode one line of the log."""
    line = {"time": _timestamp(time), "level": level, "message": redact(message)[:MAX_LOG_MESSAGE], **fields}
    return msgspec.json.encode(line, enc_hook=repr).decode()


class JsonFormatter(logging.Formatter):
    """Formats Python's log records as JSON lines of the same form, with API keys redacted."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {"logger": record.name}
        extra: Any = getattr(record, "fields", None)
        if extra:
            fields = {**extra}
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = traceback_text(record.exc_info[1])
        return encode_line(record.created, record.levelname.lower(), record.getMessage(), **fields)


def _to_stderr(line: str) -> None:
    sys.stderr.write(line)


class AccessLog:
    """Writes one line per request, those of a moment together: a write per line would cost more than the line itself.

    Without a running event loop, each line is written at once.
    """

    def __init__(self, write: WriteLine = _to_stderr, /) -> None:
        self._write = write
        self._rows: list[UsageRow] = []

    def write_request(self, row: UsageRow, /) -> None:
        """Write the line of a request that has ended, after at most `FLUSH_DELAY` seconds."""
        self._rows.append(row)
        if len(self._rows) == 1:
            try:
                asyncio.get_running_loop().call_later(FLUSH_DELAY, self.flush)
            except RuntimeError:
                self.flush()

    def flush(self) -> None:
        """Write the collected lines."""
        rows, self._rows = self._rows, []
        if rows:
            self._write(_ENCODER.encode_lines([_line(row) for row in rows]).decode())


def _line(row: UsageRow) -> LogLine:
    level = "info" if row.outcome == "served" else "warning"
    return LogLine(
        _timestamp(row.started_at + (row.duration or 0.0)),
        level,
        "request",
        row.id,
        _redact_model(row.model)[:MAX_LOG_MESSAGE],
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
        row.losses,
    )


_ENCODER = msgspec.json.Encoder()


def _timestamp(time: float) -> str:
    seconds, milliseconds = divmod(int(time * 1000), 1000)
    return f"{_second(seconds)}.{milliseconds:03}Z"


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").removesuffix("+00:00")


def configure_logging(level: int = logging.INFO, /) -> None:
    """Write the log of all Python modules as JSON lines to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # The access log has the attempts of each request, and the metrics have the cooldowns.
    logging.getLogger("dragoman.calls").setLevel(logging.ERROR)


def traceback_text(error: BaseException, /) -> str:
    """The traceback and type of an error, without its message, which may quote a request."""
    return redact("".join([*traceback.format_tb(error.__traceback__), type(error).__name__]))[-MAX_TRACEBACK:]
