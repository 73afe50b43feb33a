"""A URL in, where the gateway remembers out: `memory`, `sqlite:PATH` or `redis://…`."""

from dragoman.errors import SetupError
from dragoman.gateway.store.memory import MemoryStore
from dragoman.gateway.store.port import ANY, Entry, Store

__all__ = ["ANY", "Entry", "Store", "open_store"]


def open_store(url: str = "memory", /) -> Store:
    """The store of a URL. Nothing is connected yet.

    >>> type(open_store("memory")).__name__
    'MemoryStore'
    """
    kind, _, rest = url.partition(":")
    match kind:
        case "memory" if not rest:
            return MemoryStore()
        case "sqlite" if rest:
            from dragoman.gateway.store.sqlite import SqliteStore

            return SqliteStore(rest)
        case "redis" | "rediss" | "unix" if rest:
            from dragoman.gateway.store.redis import RedisStore

            try:
                return RedisStore(url)
            except ValueError:  # what it says may hold the password
                raise SetupError("store: the URL of Redis cannot be read") from None
        case _:
            raise SetupError(f"store: {kind!r} is none of memory, sqlite:PATH, redis://HOST:PORT/DB")
