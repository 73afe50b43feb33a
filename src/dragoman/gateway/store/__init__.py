"""Where the gateway keeps what must survive a request: `memory`, `sqlite:PATH` or `redis://…`."""

import os
from pathlib import Path

from dragoman.errors import SetupError
from dragoman.gateway.store.base import ANY, Store, StoredValue
from dragoman.gateway.store.memory import MemoryStore

__all__ = ["ANY", "Store", "StoredValue", "open_store"]


def open_store(url: str = "memory", /, *, max_bytes: int | None = None) -> Store:
    """The store of a URL. It connects at the first call; only mistakes in the URL are raised here.

    With `max_bytes`, it is a cache: if its values have more bytes, the oldest are deleted.
    """
    kind, _, rest = url.partition(":")
    match kind:
        case "memory" if not rest:
            return MemoryStore() if max_bytes is None else MemoryStore(max_bytes=max_bytes)
        case "sqlite" if rest:
            from dragoman.gateway.store.sqlite import SqliteStore

            _check_file(Path(rest))
            return SqliteStore(rest, max_bytes=max_bytes)
        case "redis" | "rediss" | "unix" if rest:
            from dragoman.gateway.store.redis import RedisStore

            try:
                return RedisStore(url, max_bytes=max_bytes)
            except ValueError:  # its message may contain the password
                raise SetupError("store must be a valid Redis URL such as redis://HOST:PORT/DB") from None
        case _:
            raise SetupError(f"store must be memory, sqlite:PATH or redis://HOST:PORT/DB, got {kind!r}")


def _check_file(path: Path) -> None:
    folder = path.parent.absolute()
    if not folder.is_dir():
        raise SetupError(f"store must be in a folder that exists, got {path}; create {folder}, or name another file")
    if path.is_dir():
        raise SetupError(f"store must be a file, got the folder {path}; name a file in it")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise SetupError(f"store must be a writable file, got {path}; change its permissions, or name another file")
