"""A URL in, where the gateway remembers out: `memory`, `sqlite:PATH` or `redis://…`."""

import os
from pathlib import Path

from dragoman.errors import SetupError
from dragoman.gateway.store.base import ANY, Store, StoredValue
from dragoman.gateway.store.memory import MemoryStore

__all__ = ["ANY", "StoredValue", "Store", "open_store"]


def open_store(url: str = "memory", /) -> Store:
    """The store of a URL. Nothing is connected yet, but what cannot be is refused.

    >>> type(open_store("memory")).__name__
    'MemoryStore'
    """
    kind, _, rest = url.partition(":")
    match kind:
        case "memory" if not rest:
            return MemoryStore()
        case "sqlite" if rest:
            from dragoman.gateway.store.sqlite import SqliteStore

            _check_file(Path(rest))
            return SqliteStore(rest)
        case "redis" | "rediss" | "unix" if rest:
            from dragoman.gateway.store.redis import RedisStore

            try:
                return RedisStore(url)
            except ValueError:  # what it says may hold the password
                raise SetupError("store: the URL of Redis cannot be read") from None
        case _:
            raise SetupError(f"store: {kind!r} is none of memory, sqlite:PATH, redis://HOST:PORT/DB")


def _check_file(path: Path) -> None:
    """Refuse a file that could neither be opened nor made."""
    folder = path.parent.absolute()
    if not folder.is_dir():
        raise SetupError(f"store: there is no folder {folder}; make it, or name another")
    if path.is_dir():
        raise SetupError(f"store: {path} is a folder; name a file in it")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise SetupError(f"store: {path} cannot be written; give this user the right to, or name another")
