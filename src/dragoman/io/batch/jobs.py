"""The journal of a provider's jobs: which rows are at a provider, so that a killed run does not send them twice.

Before a job is created, its token and the ids of its rows are written; after that, its id; after its results are in the
output, that it is done. Each record is one line, on disk before the next step begins.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from dragoman.errors import SetupError
from dragoman.io.batch.rows import Id

ENDING = ".jobs"


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a job. Later lines with the same token add to the first one."""

    token: str
    target: str = ""
    rows: tuple[Id, ...] = ()
    started: float = 0.0
    """In Unix seconds."""
    id: str | None = None
    """The provider's id; None if it is not known that the job was created."""
    is_done: bool = False


class JobJournal:
    """The jobs of one output; in memory if the output is not a file."""

    def __init__(self, output: Path | None, /) -> None:
        self._path = None if output is None else output.with_name(output.name + ENDING)
        self._records: dict[str, JobRecord] = {}
        for record in self._read():
            self._merge(record)

    def open_jobs(self) -> list[JobRecord]:
        """The jobs whose results are not in the output."""
        return [record for record in self._records.values() if not record.is_done]

    def known_ids(self) -> set[str]:
        """The provider's ids of all jobs."""
        return {record.id for record in self._records.values() if record.id is not None}

    def add(self, record: JobRecord, /) -> None:
        """Write a record: a new job, or what is new of a known one."""
        self._merge(record)
        if self._path is None:
            return
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            line = msgspec.json.encode(record) + b"\n"
            while line:
                line = line[os.write(file, line) :]
            os.fsync(file)
        finally:
            os.close(file)

    def close(self) -> None:
        """Delete the file if all jobs are done."""
        if self._path is not None and self._records and not self.open_jobs():
            self._path.unlink(missing_ok=True)

    def _merge(self, record: JobRecord) -> None:
        known = self._records.get(record.token)
        if known is not None:
            record = replace(known, id=record.id or known.id, is_done=record.is_done or known.is_done)
        self._records[record.token] = record

    def _read(self) -> Iterator[JobRecord]:
        if self._path is None or not self._path.exists():
            return
        lines = self._path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield msgspec.json.decode(line, type=JobRecord)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                if number < len(lines):
                    raise SetupError(f"{self._path} line {number}: not a record of a job; {error}") from error
                # The last line was cut off by a kill: what it should say had not begun. The next one needs a new line.
                with self._path.open("r+b") as file:
                    file.truncate(len(b"\n".join(lines[:-1])) + (len(lines) > 1))
