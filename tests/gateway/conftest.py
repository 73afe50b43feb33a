"""Each store, with a clock that is set by hand; a Redis for those who need a real one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from dragoman.gateway.store import Store
from dragoman.gateway.store.memory import MemoryStore
from dragoman.gateway.store.sqlite import SqliteStore
from tests.support.gateway.redis_server import RedisServer


class Clock:
    def __init__(self) -> None:
        self.now = 1_794_900_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    server = RedisServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def opened(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Callable[[], Store]:
    """Opens the store of one kind; twice opened, both see the same where they are shared."""
    match request.param:
        case "memory":
            return lambda: MemoryStore(clock=clock)
        case "sqlite":
            return lambda: SqliteStore(str(tmp_path / "store.db"), clock=clock)
        case _:
            from dragoman.gateway.store.redis import RedisStore

            url, prefix = request.getfixturevalue("redis").url, f"{token_hex(4)}:"
            return lambda: RedisStore(url, prefix=prefix, clock=clock)
