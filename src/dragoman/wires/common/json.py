"""JSON that a shape refuses in, a value of that shape out, where only members that say nothing are in the way."""

import re
from typing import Any, TypeVar

import msgspec

from dragoman.errors import InvalidRequest, Malformed, Truncated
from dragoman.types import (
    JsonObject,
)
from dragoman.wires.common.framing import Frame

T = TypeVar("T")

DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What the decoder of a shape raises."""

_BOM = b"\xef\xbb\xbf"
_MAX_EMPTY = 32
"""Members that are left out of one value before it is given up."""


def decode_tolerantly(decoder: "msgspec.json.Decoder[T]", data: bytes, /) -> T:
    """What bytes that a decoder refused say to a more tolerant reader.

    >>> decode_tolerantly(msgspec.json.Decoder(dict[str, int]), b"\\xef\\xbb\\xbf{}")
    {}
    """
    return convert_tolerantly(msgspec.json.decode(data.removeprefix(_BOM)) or {}, decoder.type)


def convert_tolerantly(value: object, shape: type[T], /) -> T:
    """A value of a shape, out of JSON in which what is not told may be empty, of whatever kind; it is changed.

    Servers write "", [], {}, 0 or false for what others leave out (seen 2026-08).

    >>> class Answer(msgspec.Struct):
    ...     usage: dict[str, int] | None = None
    >>> convert_tolerantly({"usage": []}, Answer)
    Answer(usage=None)
    """
    for _ in range(_MAX_EMPTY):
        try:
            return msgspec.convert(value, shape, strict=False)
        except msgspec.ValidationError as error:
            if not _leave_out(value, str(error)):
                raise
    return msgspec.convert(value, shape, strict=False)


def _leave_out(value: Any, error: str) -> bool:
    """Take the member that an error is about out of a value, if it is empty."""
    found = re.search(r" - at `\$((?:\.\w+|\[\d+\])*)\.(\w+)`$", error)
    if found is None:
        return False
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", found[1]):
        value = value[name] if name else value[int(index)]
    if value[found[2]]:
        return False
    del value[found[2]]
    return True


def decode_frame(decoder: "msgspec.json.Decoder[Any]", frame: Frame, /) -> Any:
    """A frame's JSON, {} where it is blank; Truncated where the frame itself had no end, Malformed otherwise.

    >>> decode_frame(msgspec.json.Decoder(), Frame(name="", data=b"{}"))
    {}
    """
    try:
        return decoder.decode(frame.data)
    except DECODE_ERRORS:
        try:
            return decode_tolerantly(decoder, frame.data.strip() or b"{}" * frame.whole)
        except DECODE_ERRORS as error:
            if not frame.whole and not isinstance(error, msgspec.ValidationError):
                raise Truncated(f"the stream ended inside an event: {preview(frame.data)}") from error
            raise Malformed(f"an event is not what the protocol says ({error}): {preview(frame.data)}") from error


def decode_json(decoder: "msgspec.json.Decoder[Any]", body: bytes, /) -> Any:
    """A body's JSON; Truncated where it is empty or breaks off, Malformed otherwise.

    >>> decode_json(msgspec.json.Decoder(), b' {"a": 1} ')
    {'a': 1}
    """
    try:
        return decoder.decode(body)
    except DECODE_ERRORS:
        try:
            return decode_tolerantly(decoder, body)
        except DECODE_ERRORS as error:
            kind = Truncated if not body.strip() or "truncated" in str(error) else Malformed
            raise kind(f"the body is not what the protocol says ({error}): {preview(body)}") from error


def preview(data: bytes, /) -> str:
    """The beginning of some bytes, for a message.

    >>> preview(b"hello")
    'hello'
    """
    return data[:200].decode("utf-8", "replace")


def encode_json(value: object, /) -> bytes:
    """Compact JSON; what cannot be JSON is the caller's mistake.

    >>> encode_json({"a": [1]})
    b'{"a":[1]}'
    """
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidRequest(f"the request is not JSON: {error}") from error


def without_none(data: JsonObject, /) -> JsonObject:
    """The same without what is not told.

    >>> without_none({"a": None, "b": 0})
    {'b': 0}
    """
    return {key: value for key, value in data.items() if value is not None}


def whole_number(value: object, /) -> int | None:
    """A number without a fraction, and no bool.

    >>> whole_number(3), whole_number(3.0), whole_number(True), whole_number("3")
    (3, 3, None, None)
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def to_timestamp(value: object, /) -> int | None:
    """A time in seconds, whole or not; 0 is not told.

    >>> to_timestamp(1794700000), to_timestamp(1794700000.25), to_timestamp(0), to_timestamp("today")
    (1794700000, 1794700000, None, None)
    """
    return int(value) or None if isinstance(value, int | float) and value is not True else None
