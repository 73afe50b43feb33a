"""A text without its format is shown with an example of the format."""

import datetime as dt
import uuid
from typing import Any

import msgspec
import pytest

from dragoman.schema.formats import FORMAT_CHECKS, wrong_format, wrong_text


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (dt.date, "a date such as 2026-01-31"),
        (dt.datetime, "a date and time such as 2026-01-31T12:30:00Z"),
        (dt.time, "a time such as 12:30:00Z"),
        (dt.timedelta, "a duration such as PT90S"),
        (uuid.UUID, "a UUID such as 123e4567-e89b-12d3-a456-426614174000"),
    ],
)
def test_the_reason_has_the_value_and_an_example_that_is_valid(kind: Any, expected: str) -> None:
    assert wrong_text("soon", kind) == f'"soon" is not {expected}'
    assert isinstance(msgspec.convert(expected.rpartition(" ")[2], kind), kind)


def test_other_types_formats_and_values_have_no_reason() -> None:
    assert wrong_text("x", int) is None
    assert wrong_text(3, dt.date) is None
    assert wrong_format("x", "email") is None


def test_a_format_is_checked_as_its_type_is() -> None:
    check = FORMAT_CHECKS["date-time"]
    assert [check(text) for text in ("2026-01-31T12:30:00", "2026-01-31 12:30:00Z", "soon")] == [True, True, False]


def test_a_long_text_is_shortened() -> None:
    reason = wrong_format("x" * 900, "date")
    assert reason is not None
    assert len(reason) < 300
