"""A small index of what providers store for us: files that were uploaded, and cached prompts.

It is a SQLite file in the user's cache folder, so that the next process finds what this one uploaded. It has hashes,
ids and times, but neither content nor keys. If there is no such folder, or it cannot be written, the index is in
memory.
"""

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.engine.effects import RemoteCopy

if TYPE_CHECKING:
    from sqlite3 import Connection

LOGGER = logging.getLogger("dragoman.uploads")
VARIABLE = "DRAGOMAN_UPLOADS"
"""The environment variable with the path of the index; `memory` for none."""
MAX_ENTRIES = 10_000
"""The oldest entries beyond that are dropped."""
_TABLE = "CREATE TABLE IF NOT EXISTS copies (key TEXT PRIMARY KEY, id TEXT NOT NULL, until REAL NOT NULL)"
_BUSY_TIMEOUT = 5.0


def index_path(env: Mapping[str, str], /) -> Path | None:
    """Where the index is; None for memory.

    >>> index_path({"XDG_CACHE_HOME": "/var/cache/me"}).as_posix(), index_path({})
    ('/var/cache/me/dragoman/uploads.db', None)
    """
    if path := env.get(VARIABLE):
        return None if path == "memory" else Path(path)
    if folder := env.get("XDG_CACHE_HOME"):
        return Path(folder) / "dragoman" / "uploads.db"
    home = env.get("HOME") or env.get("LOCALAPPDATA")
    return Path(home) / ".cache" / "dragoman" / "uploads.db" if home else None


class UploadIndex:
    """What providers store for us, by key; entries expire."""

    def __init__(self, path: Path | None = None, /, *, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._memory: OrderedDict[str, tuple[str, float]] = OrderedDict()
        """All entries if there is no file, and those that could not be written to it."""

    def get(self, key: str, /) -> RemoteCopy | None:
        """What is stored under a key and has not expired."""
        with self._lock:
            entry = self._memory.get(key) or self._read("key = ?", key).get(key)
        left = 0.0 if entry is None else entry[1] - self._clock()
        return RemoteCopy(entry[0], left) if entry is not None and left > 0 else None

    def put(self, key: str, copy: RemoteCopy | None, /) -> None:
        """Store an entry, or drop it."""
        with self._lock:
            self._memory.pop(key, None)
            if not self._write(key, copy) and copy is not None:
                self._memory[key] = copy.id, self._clock() + copy.seconds
                while len(self._memory) > MAX_ENTRIES:
                    self._memory.popitem(last=False)

    def find(self, prefix: str, /) -> dict[str, RemoteCopy]:
        """All entries whose keys have a prefix and that have not expired."""
        with self._lock:
            entries = {**self._read("substr(key, 1, ?) = ?", len(prefix), prefix), **self._memory}
        now = self._clock()
        return {
            key: RemoteCopy(id, until - now)
            for key, (id, until) in entries.items()
            if key.startswith(prefix) and until > now
        }

    def _read(self, condition: str, *parameters: str | int) -> dict[str, tuple[str, float]]:
        """The entries of the file that meet a condition, by key."""
        if self._path is None or not self._path.exists():
            return {}
        from sqlite3 import Error

        try:
            with closing(self._open(self._path)) as db:
                query = f"SELECT key, id, until FROM copies WHERE {condition}"  # noqa: S608 - only texts of this module
                return {str(key): (str(id), float(until)) for key, id, until in db.execute(query, parameters)}
        except (Error, OSError) as error:
            self._give_up(error)
            return {}

    def _write(self, key: str, copy: RemoteCopy | None) -> bool:
        if self._path is None:
            return False
        from sqlite3 import Error

        try:
            _make_private(self._path)
            with closing(self._open(self._path)) as db, db:
                now = self._clock()
                db.execute("DELETE FROM copies WHERE key = ? OR until <= ?", (key, now))
                if copy is not None:
                    db.execute("INSERT INTO copies VALUES (?, ?, ?)", (key, copy.id, now + copy.seconds))
                db.execute(
                    "DELETE FROM copies WHERE key NOT IN (SELECT key FROM copies ORDER BY until DESC LIMIT ?)",
                    (MAX_ENTRIES,),
                )
        except (Error, OSError) as error:
            self._give_up(error)
            return False
        return True

    def _open(self, path: Path) -> "Connection":
        from sqlite3 import Error, connect  # it is loaded only if there is something to upload

        db = connect(path, timeout=_BUSY_TIMEOUT)
        try:
            db.execute(_TABLE)
        except Error:
            db.close()
            raise
        return db

    def _give_up(self, error: Exception) -> None:
        LOGGER.warning("%s cannot be used (%s); uploads are remembered in this process only", self._path, error)
        self._path = None


def _make_private(path: Path) -> None:
    """Make the folder and the file so that only their owner can read them."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
