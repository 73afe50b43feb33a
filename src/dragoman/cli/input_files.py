"""Read input files, or stdin for `-`. A byte order mark is skipped; errors start with the name of the file."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import InvalidRequest, SetupError
from dragoman.io.json_input import strip_bom

STDIN = "-"


def read_bytes(path: str, /) -> bytes:
    """The bytes of a file or of stdin, without a byte order mark."""
    data = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    return strip_bom(data)


@contextmanager
def errors_in(path: str, /) -> Generator[None, None, None]:
    """Put the name of the file before the errors of reading it."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise SetupError(f"{path}: the file must be UTF-8 text (error at byte {error.start})") from error
    except InvalidRequest as error:
        raise SetupError(f"{path}: {error.message}") from error
    except SetupError as error:
        raise SetupError(f"{path}: {error}") from error
