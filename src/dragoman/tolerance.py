"""JSON that a shape refuses in, a value of that shape out, where only members that say nothing are in the way."""

import re
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What the decoder of a shape raises."""

_BOM = b"\xef\xbb\xbf"
_MAX_EMPTY = 32
"""Members that are left out of one value before it is given up."""


def decode_again(decoder: "msgspec.json.Decoder[T]", data: bytes, /) -> T:
    """What bytes that a decoder refused say to a more tolerant reader.

    >>> decode_again(msgspec.json.Decoder(dict[str, int]), b"\\xef\\xbb\\xbf{}")
    {}
    """
    return convert_loosely(msgspec.json.decode(data.removeprefix(_BOM)) or {}, decoder.type)


def convert_loosely(value: object, shape: type[T], /) -> T:
    """A value of a shape, out of JSON in which what is not told may be empty, of whatever kind; it is changed.

    Servers write "", [], {}, 0 or false for what others leave out (seen 2026-08).

    >>> class Answer(msgspec.Struct):
    ...     usage: dict[str, int] | None = None
    >>> convert_loosely({"usage": []}, Answer)
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
