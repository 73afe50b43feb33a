"""JSON in and out, tolerant of what servers get wrong.

Responses are decoded straight into typed structs, which is fast and strict. If that fails, they are decoded again
tolerantly: servers write "", [], {}, 0 or false in fields that others omit, whatever their type (seen 2026-08).
"""

import re
from typing import Any, TypeVar

import msgspec

from dragoman.errors import InvalidRequest, Malformed, TooLarge, Truncated
from dragoman.types import JsonObject, is_list, is_object
from dragoman.wires.common.framing import Frame

T = TypeVar("T")

DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The exceptions of a msgspec decoder."""

LARGE = 2 * 1024 * 1024
"""Bytes of an answer, or of one event, that is looked at before it is decoded."""
MAX_OBJECTS = 1_000_000
"""Braces and brackets of such an answer that open something: no other request goes on while it is decoded."""
MAX_VALUES = 20_000_000
"""Commas of such an answer: 2048 embeddings of 4096 numbers have 8 million."""

_BOM = b"\xef\xbb\xbf"
_MAX_EMPTY = 32
"""Empty members that are removed from one value before it counts as malformed."""


def decode_tolerantly(decoder: "msgspec.json.Decoder[T]", data: bytes, /) -> T:
    """Decode bytes that the decoder itself has refused.

    >>> decode_tolerantly(msgspec.json.Decoder(dict[str, int]), b"\\xef\\xbb\\xbf{}")
    {}
    """
    return convert_tolerantly(msgspec.json.decode(data.removeprefix(_BOM)) or {}, decoder.type)


def convert_tolerantly(value: object, into: type[T], /) -> T:
    """Convert parsed JSON to a type, without the empty members that have a wrong type. This changes `value`.

    >>> class Answer(msgspec.Struct):
    ...     usage: dict[str, int] | None = None
    >>> convert_tolerantly({"usage": []}, Answer)
    Answer(usage=None)
    """
    for _ in range(_MAX_EMPTY):
        try:
            return msgspec.convert(value, into, strict=False)
        except msgspec.ValidationError as error:
            if not _remove_empty(value, str(error)):
                raise
    return msgspec.convert(value, into, strict=False)


def _remove_empty(value: Any, error: str) -> bool:
    """Remove the member that a msgspec error is about, if it is empty."""
    path = re.search(r" - at `\$((?:\.\w+|\[\d+\])*)\.(\w+)`$", error)
    if path is None:
        return False
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path[1]):
        value = value[name] if name else value[int(index)]
    if value[path[2]]:
        return False
    del value[path[2]]
    return True


def decode_frame(decoder: "msgspec.json.Decoder[Any]", frame: Frame, /) -> Any:
    """Decode a frame; a blank one is {}. Raises `Truncated` if the frame is incomplete, else `Malformed`.

    A page of HTML instead of a stream is one incomplete frame, and `Malformed` all the same.
    """
    check_structure(frame.data)
    try:
        return decoder.decode(frame.data)
    except DECODE_ERRORS:
        try:
            return decode_tolerantly(decoder, frame.data.strip() or b"{}" * frame.whole)
        except DECODE_ERRORS as error:
            is_page = frame.data.lstrip().startswith(b"<")
            if not frame.whole and not is_page and not isinstance(error, msgspec.ValidationError):
                raise Truncated(f"the connection closed in the middle of an event: {preview(frame.data)}") from error
            raise Malformed(f"cannot decode an event ({error}): {preview(frame.data)}") from error


def decode_json(decoder: "msgspec.json.Decoder[Any]", body: bytes, /) -> Any:
    """Decode a body. Raises `Truncated` if it is empty or cut off, else `Malformed`.

    >>> decode_json(msgspec.json.Decoder(), b' {"a": 1} ')
    {'a': 1}
    """
    check_structure(body)
    try:
        return decoder.decode(body)
    except DECODE_ERRORS:
        try:
            return decode_tolerantly(decoder, body)
        except DECODE_ERRORS as error:
            kind = Truncated if not body.strip() or "truncated" in str(error) else Malformed
            raise kind(f"cannot decode the body ({error}): {preview(body)}") from error


def check_structure(data: bytes, /) -> None:
    """Raise TooLarge if it would take seconds to decode an answer. Signs inside texts count, too."""
    if len(data) <= LARGE:
        return
    if data.count(b"{") + data.count(b"[") > MAX_OBJECTS:
        raise TooLarge(f"the answer must have at most {MAX_OBJECTS} objects and lists, got more; ask for less")
    if data.count(b",") > MAX_VALUES:
        raise TooLarge(f"the answer must have at most {MAX_VALUES} values, got more; ask for less")


def preview(data: bytes, /) -> str:
    """The first bytes as text, for an error message."""
    return data[:200].decode("utf-8", "replace")


def encode_json(value: object, /) -> bytes:
    """Compact JSON; raises `InvalidRequest` for values that JSON cannot express."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidRequest(f"the request cannot be encoded as JSON: {error}") from error


def without_none(data: JsonObject, /) -> JsonObject:
    """The members that are not None.

    >>> without_none({"a": None, "b": 0})
    {'b': 0}
    """
    return {key: value for key, value in data.items() if value is not None}


def objects(value: object, /) -> list[JsonObject]:
    """The objects of a list; empty for anything else.

    >>> objects([{"a": 1}, 2]), objects("a")
    ([{'a': 1}], [])
    """
    return [item for item in value if is_object(item)] if is_list(value) else []


def object_of(value: object, /) -> JsonObject:
    """The value if it is an object, else an empty one.

    >>> object_of({"a": 1}), object_of(None)
    ({'a': 1}, {})
    """
    return value if is_object(value) else {}


def text_of(value: object, /) -> str:
    """The value if it is a text, else an empty one.

    >>> text_of("a"), text_of(None)
    ('a', '')
    """
    return value if isinstance(value, str) else ""


def whole_number(value: object, /) -> int | None:
    """The value as an int if it is a number without a fraction, else None.

    >>> whole_number(3), whole_number(3.0), whole_number(True), whole_number("3")
    (3, 3, None, None)
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


MAX_TIMESTAMP = 2**53
"""Larger numbers are no time."""


def to_timestamp(value: object, /) -> int | None:
    """The value as Unix seconds if it is a number other than 0, else None.

    >>> to_timestamp(1794700000), to_timestamp(1794700000.25), to_timestamp(0), to_timestamp("today")
    (1794700000, 1794700000, None, None)
    """
    if not isinstance(value, int | float) or value is True or not abs(value) < MAX_TIMESTAMP:
        return None
    return int(value) or None
