"""What granian is given and holds on to."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from typing import Any

import msgspec
import pytest

from dragoman.gateway.accounting.accounting import CLIENT_CLOSED_REQUEST
from dragoman.gateway.server.granian import Rsgi
from dragoman.testing import CloseAfter, FaultyServer
from tests.support.gateway.dialects import app_of
from tests.support.gateway.live import chat, record

ProtocolClosed: type[Exception] = import_module("granian.rsgi").ProtocolClosed


class GranianTransport:
    """A stream as granian has it: it ends when nobody holds it any more."""

    def __init__(self, written: list[bytes]) -> None:
        self._written = written

    async def send_bytes(self, data: bytes, /) -> None:
        self._written.append(data)


class Exchange:
    """One request: scope, headers and protocol."""

    proto, method, path, query_string = "http", "POST", "/v1/chat/completions", ""
    client, server = "127.0.0.1:1", "127.0.0.1:8080"

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.written: list[bytes] = []
        self.transport: weakref.ref[GranianTransport] | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"content-type": "application/json", "content-length": str(len(self.body))}

    async def __call__(self) -> bytes:
        return self.body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.body

    async def client_disconnect(self) -> None:
        await asyncio.Event().wait()

    def response_empty(self, status: int, headers: list[tuple[str, str]], /) -> None:
        raise AssertionError(status, headers)

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes, /) -> None:
        raise AssertionError(status, headers, body)

    def response_stream(self, status: int, headers: list[tuple[str, str]], /) -> GranianTransport:
        assert status == 200, headers
        transport = GranianTransport(self.written)
        self.transport = weakref.ref(transport)
        return transport


@pytest.fixture
def _no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collection")
@pytest.mark.parametrize("line", ["Hello.", CloseAfter(450, "one two three four")])
def test_a_stream_is_let_go_when_it_ends_well_or_not(line: str | CloseAfter) -> None:
    with FaultyServer(line) as upstream:
        exchange = Exchange(msgspec.json.encode(chat("up/m", stream=True)))
        asyncio.run(Rsgi(app_of(record("up", upstream.base_url()))).__rsgi__(exchange, exchange))
    assert exchange.written
    assert (b"error" in exchange.written[-1]) == isinstance(line, CloseAfter)
    assert exchange.transport is not None
    assert exchange.transport() is None


class Closed(Exchange):
    """One whose client has gone by the time that something is said to it, or before all of its body has come."""

    def __init__(self, body: bytes, *, within_body: bool) -> None:
        super().__init__(body)
        self.within_body = within_body
        self.statuses: list[int] = []

    async def __call__(self) -> bytes:
        if self.within_body:
            raise ProtocolClosed
        return self.body

    async def send_bytes(self, _data: bytes, /) -> None:
        raise ProtocolClosed

    def response_empty(self, status: int, _headers: list[tuple[str, str]], /) -> None:
        self.statuses.append(status)

    def response_stream(self, _status: int, _headers: list[tuple[str, str]], /) -> Any:
        return self


@pytest.mark.parametrize("within_body", [False, True])
def test_a_client_that_has_gone_is_no_fault(within_body: bool) -> None:  # noqa: FBT001
    exchange = Closed(msgspec.json.encode(chat("demo/any", stream=True)), within_body=within_body)
    asyncio.run(Rsgi(app_of()).__rsgi__(exchange, exchange))
    assert exchange.statuses == [CLIENT_CLOSED_REQUEST]
