"""A path, or `-` for stdin, in, what stands there out: without a byte order mark, its mistakes told with its name."""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec

from dragoman.errors import InvalidRequest, SetupError

STDIN = "-"
_MARK = b"\xef\xbb\xbf"


def read_bytes(path: str, /) -> bytes:
    """The bytes of a file, or of stdin."""
    data = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    return without_mark(data)


def without_mark(data: bytes, /) -> bytes:
    """The same without the byte order mark that some editors write.

    >>> without_mark(b"\\xef\\xbb\\xbf{}")
    b'{}'
    """
    return data.removeprefix(_MARK)


def decode(data: bytes, /) -> Any:
    """A value of JSON; InvalidRequest that says where it is none.

    >>> decode(b'{"a": 1}')
    {'a': 1}
    """
    with readable():
        return msgspec.json.decode(data)


@contextmanager
def readable() -> Generator[None, None, None]:
    """What happens inside reads JSON: what is wrong with that is an InvalidRequest."""
    try:
        yield
    except RecursionError:
        raise InvalidRequest("not readable: it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"not JSON: no UTF-8 (byte {error.start})") from error
    except msgspec.ValidationError as error:
        raise InvalidRequest(str(error)) from error
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"not JSON: {error}") from error


@contextmanager
def named(path: str, /) -> Generator[None, None, None]:
    """What happens inside reads a file: its name stands before what is wrong with it."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise SetupError(f"{path}: no UTF-8 text (byte {error.start})") from error
    except InvalidRequest as error:
        raise SetupError(f"{path}: {error.message}") from error
    except SetupError as error:
        raise SetupError(f"{path}: {error}") from error


def refuse_unknown(value: Any, data: Any, where: str = "", /) -> None:
    """Refuse JSON that says more than the value that was read of it.

    >>> from dragoman.types import Request
    >>> refuse_unknown(Request(seed=7), {"seed": 7})
    """
    if isinstance(value, msgspec.Struct):
        fields = {field.encode_name: field.name for field in msgspec.structs.fields(value)}
        known = {*fields, value.__struct_config__.tag_field}
        for name in data:
            if name not in known:
                place = f"{where}: " if where else ""
                kind = type(value).__name__.lower()
                raise InvalidRequest(f"{place}{'an' if kind[0] in 'aeiou' else 'a'} {kind} has no field {name!r}")
            if name in fields:
                refuse_unknown(getattr(value, fields[name]), data[name], f"{where}.{name}".lstrip("."))
    elif isinstance(value, tuple | list):
        for index, (one, told) in enumerate(zip(cast("Sequence[Any]", value), data, strict=True)):
            refuse_unknown(one, told, f"{where}[{index}]")
