"""Read JSON that a user wrote, with errors that say what is wrong."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import msgspec

from dragoman.errors import InvalidRequest

_BOM = b"\xef\xbb\xbf"


def strip_bom(data: bytes, /) -> bytes:
    """The data without a UTF-8 byte order mark.

    >>> strip_bom(b"\\xef\\xbb\\xbf{}")
    b'{}'
    """
    return data.removeprefix(_BOM)


def decode_json(data: bytes, /) -> Any:
    """A JSON value; InvalidRequest if the data is not JSON."""
    with json_errors():
        return msgspec.json.decode(data)


@contextmanager
def json_errors() -> Generator[None, None, None]:
    """Turn errors of reading JSON into InvalidRequest."""
    try:
        yield
    except RecursionError:
        raise InvalidRequest("the input must be JSON, got JSON that is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the input must be JSON in UTF-8, got another encoding (byte {error.start})") from error
    except msgspec.ValidationError as error:
        raise InvalidRequest(str(error)) from error
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"the input must be JSON: {error}") from error


def reject_unknown_fields(value: Any, data: Any, where: str = "", /) -> None:
    """Raise InvalidRequest if JSON has fields that the value decoded from it does not have.

    >>> from dragoman.types import Request
    >>> reject_unknown_fields(Request(seed=7), {"seed": 7, "sed": 8})
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: a request has no field 'sed'
    """
    if isinstance(value, msgspec.Struct):
        fields = dict(zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
        known = {*fields, value.__struct_config__.tag_field}
        for name in data:
            if name not in known:
                place = f"{where}: " if where else ""
                kind = type(value).__name__.lower()
                raise InvalidRequest(f"{place}{'an' if kind[0] in 'aeiou' else 'a'} {kind} has no field {name!r}")
            if name in fields:
                reject_unknown_fields(getattr(value, fields[name]), data[name], f"{where}.{name}".lstrip("."))
    elif isinstance(value, tuple | list):
        for index, (item, item_data) in enumerate(zip(cast("Sequence[Any]", value), data, strict=True)):
            reject_unknown_fields(item, item_data, f"{where}[{index}]")
