"""Times as texts in ISO 8601, which several protocols have in place of Unix seconds."""

_YEAR_10000 = 253402300800


def read_time(text: object, /) -> int | None:
    """The Unix seconds of a text with a time zone; None for anything else.

    >>> read_time("1970-01-01T00:00:05Z"), read_time("soon")
    (5, None)
    """
    from datetime import datetime

    try:
        time = datetime.fromisoformat(text if isinstance(text, str) else "")
    except ValueError:
        return None
    return int(time.timestamp()) if time.tzinfo else None


def write_time(seconds: int | None, /) -> str | None:
    """The inverse of `read_time`; None for a time that is unknown, or before 1970 or after 9999."""
    from datetime import UTC, datetime

    if seconds is None or not 0 <= seconds < _YEAR_10000:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
