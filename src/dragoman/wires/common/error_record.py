"""Errors as values that can be stored as JSON, for recordings, batches and the native wire."""

from typing import Any

import msgspec

from dragoman import errors
from dragoman.errors import DragomanError
from dragoman.types import Attempt, Response, Usage


class ErrorRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="error"):
    """The facts of an error. `kind` is the name of its class.

    >>> record = dump_error(errors.RateLimited("slow down", status=429, retry_after=2.0))
    >>> load_error(msgspec.json.decode(msgspec.json.encode(record), type=ErrorRecord)).retry_after
    2.0
    """

    kind: str
    message: str
    provider: str | None = None
    model: str | None = None
    status: int | None = None
    code: str | None = None
    retry_after: float | None = None
    retry: bool
    fail_over: bool
    count_failure: bool
    usage: Usage | None = None
    attempts: tuple[Attempt, ...] = ()
    partial: Response | None = None
    tokens: int | None = None
    limit: int | None = None
    limit_name: str | None = None
    id: str | None = None
    name: str | None = None
    text: str | None = None
    reasons: tuple[str, ...] = ()


def dump_error(error: DragomanError, /) -> ErrorRecord:
    """The record of an error; the `result` of an agent's error is not part of it."""
    kind = next(kind for kind in type(error).__mro__ if vars(errors).get(kind.__name__) is kind)
    facts: dict[str, Any] = {name: getattr(error, name) for name in _FACTS if getattr(error, name, None) is not None}
    return ErrorRecord(kind=kind.__name__, message=error.message, **facts)


def load_error(record: ErrorRecord, /) -> DragomanError:
    """The error of a record; a `DragomanError` if its kind is unknown."""
    kind: object = getattr(errors, record.kind, None)
    if not isinstance(kind, type) or not issubclass(kind, DragomanError):
        kind = DragomanError
    error = kind(record.message)
    for name in _FACTS:
        value = getattr(record, name)
        if value not in (None, ()) and getattr(error, name, None) != value:
            setattr(error, name, value)
    return error


_FACTS = tuple(name for name in ErrorRecord.__struct_fields__ if name not in ("kind", "message"))
