"""A request in, an answer's bytes out: the HTTP client behind one small port, blocking and async."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from dragoman.errors import ConnectFailed, DragomanError, Reset, TimedOut
from dragoman.flow import Exchange, Open, Reply, Send
from dragoman.http import Head, HttpRequest

if TYPE_CHECKING:
    from pyreqwest.client import Client, SyncClient


class Handle(Protocol):
    """An answer that is being read."""

    def read(self, timeout: float | None, /) -> bytes:
        """The next bytes, b"" at the end."""
        ...

    async def aread(self, timeout: float | None, /) -> bytes:
        """The next bytes, b"" at the end."""
        ...

    def close(self) -> None:
        """Close the connection, if it is not at its end."""
        ...

    async def aclose(self) -> None:
        """Close the connection, if it is not at its end."""
        ...


class Transport(Protocol):
    """What the driver needs of an HTTP client."""

    def send(self, effect: Send, /) -> Reply:
        """The whole answer."""
        ...

    async def asend(self, effect: Send, /) -> Reply:
        """The whole answer."""
        ...

    def open(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        ...

    async def aopen(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        ...

    def close(self) -> None:
        """Let go of what is pooled."""
        ...


class Pyreqwest:
    """The default transport: pooled connections, HTTP/2 where offered, proxies from the environment.

    >>> Pyreqwest()
    Pyreqwest()
    """

    def __init__(self, *, ca: bytes | None = None) -> None:
        self._ca = ca
        self._blocking: dict[float | None, SyncClient] = {}
        self._async: dict[float | None, Client] = {}

    def __repr__(self) -> str:
        """Nothing to tell."""
        return "Pyreqwest()"

    def send(self, effect: Send, /) -> Reply:
        """The whole answer."""
        request = self._build(self._client(effect.connect), effect.request, effect.timeout).build()
        try:
            response = request.send()
            return Reply(_head(response), bytes(response.bytes()))
        except Exception as error:
            raise translate(error) from error

    async def asend(self, effect: Send, /) -> Reply:
        """The whole answer."""
        request = self._build(self._aclient(effect.connect), effect.request, effect.timeout).build()
        try:
            response = await request.send()
            return Reply(_head(response), bytes(await response.bytes()))
        except Exception as error:
            raise translate(error) from error

    def open(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        builder = self._build(self._client(effect.connect), effect.request, effect.timeout)
        request = builder.streamed_read_buffer_limit(0).build_streamed()
        try:
            response = request.__enter__()
        except Exception as error:
            raise translate(error) from error
        return Exchange(_head(response), _Stream(request, response.body_reader))

    async def aopen(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        builder = self._build(self._aclient(effect.connect), effect.request, effect.timeout)
        request = builder.streamed_read_buffer_limit(0).build_streamed()
        try:
            response = await request.__aenter__()
        except Exception as error:
            raise translate(error) from error
        return Exchange(_head(response), _Stream(request, response.body_reader))

    def close(self) -> None:
        """Let go of what is pooled."""
        for client in self._blocking.values():
            client.close()
        self._blocking.clear()
        self._async.clear()

    def _build(self, client: Any, request: HttpRequest, timeout: float | None) -> Any:
        builder = client.request(request.method, request.url).headers(dict(request.headers)).body_bytes(request.body)
        return builder if timeout is None else builder.timeout(timedelta(seconds=timeout))

    def _client(self, connect: float | None) -> "SyncClient":
        if connect not in self._blocking:
            from pyreqwest.client import SyncClientBuilder

            self._blocking[connect] = self._configure(SyncClientBuilder(), connect).build()
        return self._blocking[connect]

    def _aclient(self, connect: float | None) -> "Client":
        if connect not in self._async:
            from pyreqwest.client import ClientBuilder

            self._async[connect] = self._configure(ClientBuilder(), connect).build()
        return self._async[connect]

    def _configure(self, builder: Any, connect: float | None) -> Any:
        builder = builder.follow_redirects(False).http2(True)
        if connect is not None:
            builder = builder.connect_timeout(timedelta(seconds=connect))
        return builder if self._ca is None else builder.add_root_certificate_pem(self._ca)


def _head(response: Any) -> Head:
    return Head(status=response.status, headers=dict(response.headers.items()))


class _Stream:
    """A streamed answer of pyreqwest."""

    def __init__(self, request: Any, reader: Any) -> None:
        self._request = request
        self._reader = reader
        self._closed = False

    def read(self, timeout: float | None, /) -> bytes:
        try:
            chunk = self._reader.read_chunk()
        except Exception as error:
            raise translate(error) from error
        return b"" if chunk is None else bytes(chunk)

    async def aread(self, timeout: float | None, /) -> bytes:
        try:
            async with asyncio.timeout(timeout):
                chunk = await self._reader.read_chunk()
        except Exception as error:
            raise translate(error) from error
        return b"" if chunk is None else bytes(chunk)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._request.__exit__(None, None, None)

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            await self._request.__aexit__(None, None, None)


def translate(error: Exception, /) -> DragomanError:
    """Our error for one of the HTTP client's."""
    from pyreqwest import exceptions as theirs

    if isinstance(error, DragomanError):
        return error
    told = f"{type(error).__name__}: {error}"
    match error:
        case TimeoutError():
            return TimedOut(told)
        case theirs.ConnectError():
            return ConnectFailed(told)
        case _:
            return Reset(told)
