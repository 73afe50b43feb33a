"""Lines of a batch in, a file that survives a kill out: what is in it is done, and a torn last line is cut off.

A pipe takes them, too, but nobody can read there what is done.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from dragoman.cli.batch.rows import Id, read_mark
from dragoman.errors import SetupError

FSYNC_EVERY = 1.0
"""Seconds: so much may be asked again after the machine lost its power. A killed process loses nothing."""


def digest(id: Id, /) -> int:
    """Eight bytes that stand for an id, so that millions of them fit into memory.

    >>> digest(1) == digest("1")
    False
    """
    return int.from_bytes(blake2b(msgspec.json.encode(id), digest_size=8).digest())


_HEAD = b'{"id":'
"""What every row of an output begins with."""


def _is_torn(line: bytes) -> bool:
    """Whether a last line is the beginning of a row of ours, and not somebody's own words."""
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return line.startswith(_HEAD[: len(line)]) and not line.endswith(b"\n")
    return False


class Printer:
    """An output that goes to stdout: every row is asked, and nothing is remembered.

    >>> Printer().has(1)
    False
    """

    errors = 0

    def has(self, _id: Id, /) -> bool:
        """Nothing was there before."""
        return False

    def add(self, line: bytes, /) -> None:
        """Show one row, whole."""
        sys.stdout.buffer.write(line)
        sys.stdout.flush()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""


class Journal:
    """The output of a batch, open for one process at a time.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Journal(Path(folder, "out.jsonl")) as journal:
    ...     journal.add(b'{"id":1,"text":"hi"}\\n')
    >>> journal.has(1)
    False
    """

    def __init__(self, path: Path, /, *, drop_errors: bool = False) -> None:
        self.errors = 0
        """Errors among what was there."""
        self._path = path
        self._done: set[int] = set()
        if path.exists() and not path.is_file():
            raise SetupError(f"{path}: not a file; write - for stdout")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._synced = time.monotonic()
        is_open = False
        try:
            self._lock()
            self._read()
            if drop_errors and self.errors:
                self._drop_errors()
            is_open = True
        finally:
            if not is_open:
                os.close(self._file)

    def has(self, id: Id, /) -> bool:
        """Whether a row was there when it was opened."""
        return digest(id) in self._done

    def add(self, line: bytes, /) -> None:
        """Append one row, whole."""
        while line:
            line = line[os.write(self._file, line) :]
        now = time.monotonic()
        if now - self._synced >= FSYNC_EVERY:
            self._synced = now
            os.fsync(self._file)

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write it to the disk, and let others have it."""
        try:
            os.fsync(self._file)
        finally:
            os.close(self._file)

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows has none; there nobody keeps two runs apart
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SetupError(f"{self._path}: another run is writing to it") from error

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Where each line begins, and the line."""
        start = 0
        with self._path.open("rb") as file:
            for line in file:
                yield start, line
                start += len(line)

    def _read(self) -> None:
        line = b"\n"
        for number, (start, line) in enumerate(self._lines(), 1):
            try:
                id, is_error = read_mark(line)
            except ValueError as error:
                if not _is_torn(line):
                    what = f"{self._path} line {number}: {error}"
                    raise SetupError(f"{what}; it is no output of a batch, write to another file") from error
                os.ftruncate(self._file, start)
                return
            self._done.add(digest(id))
            self.errors += is_error
        if not line.endswith(b"\n"):
            self.add(b"\n")

    def _drop_errors(self) -> None:
        """Write the file anew without its errors; it is the old one or the new one, whatever happens."""
        fresh = self._path.with_name(f"{self._path.name}.new")
        with fresh.open("wb") as file:
            file.writelines(line for _, line in self._lines() if not read_mark(line)[1])
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(self._path, fresh)
        fresh.replace(self._path)
        os.close(self._file)
        self._file = os.open(self._path, os.O_RDWR | os.O_APPEND)
        self._lock()
        self._done.clear()
        self.errors = 0
        self._read()
