"""The port to HTTP clients: what the driver needs from one, and what its implementations share.

`make_transport` picks the implementation: HttpClient by default, HttpxTransport for a user's httpx client, or
a user's own Transport. RoutingTransport sits in front of it and chooses per request.
"""

import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from msgspec.structs import replace

from dragoman.engine.effects import Open, OpenResponse, Send
from dragoman.errors import InvalidRequest, SetupError, TooLarge
from dragoman.http import HttpRequest, HttpResponse, redact_url

E = TypeVar("E", Send, Open)
DEMO = "demo://"


@runtime_checkable
class Handle(Protocol):
    """An answer whose body is being read."""

    def read(self, seconds: float | None, /) -> bytes:
        """The next bytes within `seconds`, b"" at the end."""
        ...

    async def aread(self, seconds: float | None, /) -> bytes:
        """The next bytes within `seconds`, b"" at the end."""
        ...

    def finish(self) -> None:
        """Close after the last event; keep the connection for the next request if that costs no time."""
        ...

    async def afinish(self) -> None:
        """Close after the last event; keep the connection for the next request if that costs no time."""
        ...

    def close(self) -> None:
        """Close the connection, unless the answer was read to its end."""
        ...

    async def aclose(self) -> None:
        """Close the connection, unless the answer was read to its end."""
        ...


@runtime_checkable
class Transport(Protocol):
    """An HTTP client, blocking and async. Its errors are TransportError or InvalidRequest."""

    def send(self, effect: Send, /) -> HttpResponse:
        """Send a request and read the whole answer."""
        ...

    def asend(self, effect: Send, /) -> Coroutine[Any, Any, HttpResponse]:
        """Send a request and read the whole answer. An implementation may be an `async def`."""
        ...

    def open(self, effect: Open, /) -> OpenResponse:
        """Send a request and read the head of the answer."""
        ...

    async def aopen(self, effect: Open, /) -> OpenResponse:
        """Send a request and read the head of the answer."""
        ...

    def close(self) -> None:
        """Close the pooled connections; a later request opens new ones."""
        ...


def make_transport(
    http_client: object = None, /, *, ca: bytes | str | Path | None = None, env: Mapping[str, str] | None = None
) -> Transport:
    """The transport for the `http_client` of a user: None, an httpx client, or a Transport."""
    if http_client is None:
        from dragoman.io.http_client import HttpClient

        return RoutingTransport(HttpClient(ca=ca, env=env))
    if isinstance(http_client, RoutingTransport):
        return http_client
    if isinstance(http_client, Transport) and not isinstance(http_client, type):
        return RoutingTransport(http_client)
    if "httpx" in sys.modules:
        from dragoman.io.httpx_transport import wrap_httpx_client

        if (transport := wrap_httpx_client(http_client)) is not None:
            return RoutingTransport(transport)
    expected = "an httpx.Client, an httpx.AsyncClient or a Transport"
    raise SetupError(f"http_client must be {expected}, got {type(http_client).__name__}", param="http_client")


class RoutingTransport:
    """Sends `demo://` requests to the built-in demo, and others by the provider's own transport if it has one."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def __repr__(self) -> str:
        return f"RoutingTransport({self.transport!r})"

    def send(self, effect: Send, /) -> HttpResponse:
        """Send a request and read the whole answer."""
        transport, effect = self._route(effect)
        return transport.send(effect)

    def asend(self, effect: Send, /) -> Coroutine[Any, Any, HttpResponse]:
        """Send a request and read the whole answer."""
        # Not an `async def`: one more coroutine would make every call slower.
        transport, effect = self._route(effect)
        return transport.asend(effect)

    def open(self, effect: Open, /) -> OpenResponse:
        """Send a request and read the head of the answer."""
        transport, effect = self._route(effect)
        return transport.open(effect)

    async def aopen(self, effect: Open, /) -> OpenResponse:
        """Send a request and read the head of the answer."""
        transport, effect = self._route(effect)
        return await transport.aopen(effect)

    def close(self) -> None:
        """Close the pooled connections."""
        self.transport.close()

    def _route(self, effect: E) -> tuple[Transport, E]:
        if effect.request.origin.startswith(DEMO):
            from dragoman.demo.provider import DemoTransport

            return DemoTransport(), effect
        if effect.transport is None:
            return self.transport, effect
        return make_transport(effect.transport), replace(effect, transport=None)


# For implementations --------------------------------------------------------------------------------------------------


def with_date(status: int, headers: dict[str, str], /) -> dict[str, str]:
    """The headers of a response. An error without a `date` gets one: its Retry-After may be a date."""
    if status >= 400 and not any(name.lower() == "date" for name in headers):
        from email.utils import formatdate

        return {**headers, "date": formatdate(usegmt=True)}
    return headers


def unsendable(request: HttpRequest, /) -> InvalidRequest:
    """The error for an invalid URL or header. It does not quote either, because they may hold a key.

    >>> str(unsendable(HttpRequest(method="GET", origin="http://box", path="/ /")))
    'http://box: the URL or a header cannot be sent'
    """
    return InvalidRequest(f"{redact_url(request.origin)}: the URL or a header cannot be sent", fail_over=True)


class BodyBuffer:
    """Collects the body of an answer; TooLarge if it exceeds the limit of the effect."""

    def __init__(self, effect: Send) -> None:
        self._pieces: list[bytes] = []
        self._remaining = effect.limit
        self._effect = effect

    def add(self, data: bytes) -> None:
        """Append bytes; TooLarge if the limit is exceeded."""
        self._pieces.append(data)
        if self._remaining is not None:
            self._remaining -= len(data)
            if self._remaining < 0:
                origin = redact_url(self._effect.request.origin)
                raise TooLarge(f"{origin}: the body is larger than {self._effect.limit} bytes")

    def to_bytes(self) -> bytes:
        """The whole body."""
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
