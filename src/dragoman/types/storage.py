"""`dump` writes values as JSON, and `load` reads them."""

from collections.abc import Iterable
from typing import Any, TypeVar, overload

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.types.base import encode_unknown, prepare
from dragoman.types.checks import as_items, wrong_value
from dragoman.types.messages import Message
from dragoman.types.parameters import named_parameters
from dragoman.types.requests import Request
from dragoman.types.responses import Response

T = TypeVar("T")


@named_parameters
def dump(value: msgspec.Struct | Iterable[msgspec.Struct]) -> bytes:
    """JSON of a value or of a list of values: messages, a request, a response, events. `load` can read all of it.

    >>> from dragoman import user
    >>> load(dump([user("hello")]))[0].text
    'hello'
    """
    if isinstance(value, msgspec.Struct):
        return _encode(value)
    items = as_items("value", value, _EXPECTED)
    data = b"[" + b",".join([_encode(item) for item in items]) + b"]"
    kinds: set[Any] = {type(item) for item in items}
    if len(kinds) > 1:
        _check_union(data, kinds)
    return data


def _check_union(data: bytes, kinds: set[Any]) -> None:
    """Refuse a list whose values cannot be recognized when it is read: only parts and events have a tag."""
    union: Any = kinds.copy().pop()
    for kind in kinds:
        union |= kind
    try:
        msgspec.json.decode(data, type=list[union])
    except TypeError as error:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InvalidRequest(f"value must be a list of values of one type, got {names}", param="value") from error


_EXPECTED = "a value of dragoman or a list of them"


def _encode(value: object) -> bytes:
    """The JSON of one value, if it can be read again."""
    if not isinstance(value, msgspec.Struct):
        raise wrong_value("value", _EXPECTED, value)
    try:
        data = _ENCODER.encode(value)
        msgspec.json.decode(data, type=type(value))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidRequest(f"value must be one that JSON can express: {error}", param="value") from error
    return data


_ENCODER = msgspec.json.Encoder(enc_hook=encode_unknown)


@overload
def load(data: bytes | str) -> tuple[Message, ...]: ...
@overload
def load(data: bytes | str, type: type[T]) -> T: ...
@named_parameters
def load(data: Any, type: Any = tuple[Message, ...]) -> Any:
    """The messages that `dump` wrote, or a value of another type; InvalidRequest if the data does not fit.

    >>> load(b'[{"role":"user","parts":[{"type":"text","text":"hello"}]}]')[0].role
    'user'
    >>> from dragoman import Request
    >>> load(dump(Request(seed=7)), Request).seed
    7
    """
    if not isinstance(data, bytes | bytearray | str):
        raise wrong_value("data", "bytes or a str", data)
    if not _is_type(type):
        raise wrong_value("type", _EXPECTED_TYPE, type)
    what = getattr(type, "__name__", "value") if type != tuple[Message, ...] else "list of messages"
    try:
        return msgspec.json.decode(data, type=type)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidRequest(f"data must be the JSON of a {what}: {error}", param="data") from error
    except TypeError as error:
        raise wrong_value("type", _EXPECTED_TYPE, type) from error


_EXPECTED_TYPE = "a type of dragoman, such as Request"


def _is_type(value: object) -> bool:
    """Whether a value is a class, or a construct of `typing` such as `list[Message]`."""
    import builtins

    return isinstance(value, builtins.type) or builtins.type(value).__module__ in ("types", "typing")


prepare(Message, Request, Response)  # and all parts
