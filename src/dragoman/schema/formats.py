"""The text formats of dates, times, durations and UUIDs, with the words for a text that does not have its format."""

import datetime as dt
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from dragoman.schema.type_hints import qualified_name

_EXPECTED = {
    "date": "a date such as 2026-01-31",
    "date-time": "a date and time such as 2026-01-31T12:30:00Z",
    "time": "a time such as 12:30:00Z",
    "duration": "a duration such as PT90S",
    "uuid": "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
}
_FORMAT_OF_TYPE = {
    "datetime.date": "date",
    "datetime.datetime": "date-time",
    "datetime.time": "time",
    "datetime.timedelta": "duration",
    "uuid.UUID": "uuid",
}
_TYPES: dict[str, Any] = {
    "date": dt.date,
    "date-time": dt.datetime,
    "time": dt.time,
    "duration": dt.timedelta,
}
_MAX_SHOWN = 200


def wrong_format(value: object, name: str, /) -> str | None:
    """The reason for a text that does not have a format; None if the format is not one of these.

    >>> wrong_format("3 March", "date")
    '"3 March" is not a date such as 2026-01-31'
    """
    if name not in _EXPECTED:
        return None
    text = msgspec.json.encode(value).decode()
    shown = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
    return f"{shown} is not {_EXPECTED[name]}"


def wrong_text(value: object, kind: object, /) -> str | None:
    """The reason for a text that is not a value of a type; None for other types, and if the value is no text.

    >>> wrong_text("3 March", dt.date)
    '"3 March" is not a date such as 2026-01-31'
    """
    return wrong_format(value, _FORMAT_OF_TYPE.get(qualified_name(kind), "")) if isinstance(value, str) else None


def _has_type(kind: Any, text: str) -> bool:
    try:
        msgspec.convert(text, kind)
    except msgspec.ValidationError:
        return False
    return True


FORMAT_CHECKS: dict[str, Callable[[str], bool]] = {name: partial(_has_type, kind) for name, kind in _TYPES.items()}
"""By format, whether a text has it, by the rules of the Python types: a date and time needs no time zone."""
