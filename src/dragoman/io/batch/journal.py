"""The output of a batch: a file that survives a kill, or stdout.

Each result is appended as one whole line. A later run reads the file to see which rows are done, and cuts off a last
line that was only half written. A lock keeps two runs from writing to the same file.
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

from dragoman.errors import SetupError
from dragoman.io.batch.rows import Id, read_output_status

FSYNC_INTERVAL = 1.0
"""Seconds of work that a power failure may lose. A killed process loses nothing."""
_ROW_START = b'{"id":'
"""The first bytes of every row of an output."""


def digest(id: Id, /) -> int:
    """An 8-byte hash of an id, so that millions of ids fit into memory.

    >>> digest(1) == digest("1")
    False
    """
    return int.from_bytes(blake2b(msgspec.json.encode(id), digest_size=8).digest())


def _is_half_written(line: bytes) -> bool:
    """Whether a last line is the start of a row, and not some other text."""
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return line.startswith(_ROW_START[: len(line)]) and not line.endswith(b"\n")
    return False


class StdoutOutput:
    """Writes rows to stdout; a later run cannot continue from it."""

    errors = 0

    def has(self, _id: Id, /) -> bool:
        """Whether a row is done; always False here."""
        return False

    def add(self, line: bytes, /) -> None:
        """Write one row."""
        sys.stdout.buffer.write(line)
        sys.stdout.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Journal:
    """The output file, open for one process at a time."""

    def __init__(self, path: Path, /, *, drop_errors: bool = False, drop_demo: bool = False) -> None:
        self.errors = 0
        """The error rows that the file had when it was opened."""
        self._demo = 0
        """The rows that the demo answered."""
        self._path = path
        self._done: set[int] = set()
        if path.exists() and not path.is_file():
            raise SetupError(f"OUT.jsonl must be a file, got {path}; use - for stdout")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._synced = time.monotonic()
        is_open = False
        try:
            self._lock()
            self._read()
            if (drop_errors and self.errors) or (drop_demo and self._demo):
                self._drop(errors=drop_errors, demo=drop_demo)
            is_open = True
        finally:
            if not is_open:
                os.close(self._file)

    def has(self, id: Id, /) -> bool:
        """Whether the file had this row when it was opened."""
        return digest(id) in self._done

    def rows(self) -> Iterator[bytes]:
        """The rows of the file."""
        return (line for _, line in self._lines())

    def add(self, line: bytes, /) -> None:
        """Append one row."""
        while line:
            line = line[os.write(self._file, line) :]
        now = time.monotonic()
        if now - self._synced >= FSYNC_INTERVAL:
            self._synced = now
            os.fsync(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            os.fsync(self._file)
        finally:
            os.close(self._file)

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows has no fcntl: two runs are not kept apart there
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SetupError(f"{self._path}: another run is writing to it") from error

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """The offset of each line, and the line."""
        start = 0
        with self._path.open("rb") as file:
            for line in file:
                yield start, line
                start += len(line)

    def _read(self) -> None:
        line = b"\n"
        for number, (start, line) in enumerate(self._lines(), 1):
            try:
                id, is_error, is_demo = read_output_status(line)
            except ValueError as error:
                if not _is_half_written(line):
                    place = f"{self._path} line {number}"
                    raise SetupError(f"{place}: {error}; this is not a batch output, write to another file") from error
                os.ftruncate(self._file, start)
                return
            self._done.add(digest(id))
            self.errors += is_error
            self._demo += is_demo
        if not line.endswith(b"\n"):
            self.add(b"\n")

    def _drop(self, *, errors: bool, demo: bool) -> None:
        """Replace the file by a copy without its error rows or the demo's answers; the replacement is atomic."""
        copy = self._path.with_name(f"{self._path.name}.new")
        with copy.open("wb") as file:
            for _, line in self._lines():
                _, is_error, is_demo = read_output_status(line)
                if not (errors and is_error) and not (demo and is_demo):
                    file.write(line)
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(self._path, copy)
        copy.replace(self._path)
        os.close(self._file)
        self._file = os.open(self._path, os.O_RDWR | os.O_APPEND)
        self._lock()
        self._done.clear()
        self.errors = self._demo = 0
        self._read()
