"""What the driver needs of an HTTP client: Transport and Handle, and what those who write one share."""

from typing import Protocol, runtime_checkable

from dragoman.engine.effects import Exchange, HttpResponse, Open, Send
from dragoman.errors import InvalidRequest, TooLarge
from dragoman.http import Head, HttpRequest, redact_url


@runtime_checkable
class Handle(Protocol):
    """An answer that is being read."""

    def read(self, within: float | None, /) -> bytes:
        """The next bytes, b"" at the end."""
        ...

    async def aread(self, within: float | None, /) -> bytes:
        """The next bytes, b"" at the end."""
        ...

    def finish(self) -> None:
        """All that matters was read: close, but keep the connection for the next request where that is free."""
        ...

    async def afinish(self) -> None:
        """All that matters was read: close, but keep the connection for the next request where that is free."""
        ...

    def close(self) -> None:
        """Close the connection, if the answer is not at its end."""
        ...

    async def aclose(self) -> None:
        """Close the connection, if the answer is not at its end."""
        ...


@runtime_checkable
class Transport(Protocol):
    """What the driver needs of an HTTP client."""

    def send(self, effect: Send, /) -> HttpResponse:
        """The whole answer."""
        ...

    async def asend(self, effect: Send, /) -> HttpResponse:
        """The whole answer."""
        ...

    def open(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        ...

    async def aopen(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        ...

    def close(self) -> None:
        """Let go of what is pooled; the next request starts anew."""
        ...


def head_of(status: int, headers: dict[str, str], /) -> Head:
    """The head of an answer. A refusal that tells no time has ours: it may name a date until which to wait.

    >>> "date" in head_of(429, {"retry-after": "Wed, 18 Nov 2026 12:00:00 GMT"}).headers
    True
    """
    if status >= 400 and not any(name.lower() == "date" for name in headers):
        from email.utils import formatdate

        headers = {**headers, "date": formatdate(usegmt=True)}
    return Head(status=status, headers=headers)


def unsendable(request: HttpRequest, /) -> InvalidRequest:
    """What is said of a request whose URL or headers no HTTP client takes; not which, as that may be a key.

    >>> str(unsendable(HttpRequest(method="GET", origin="http://box", path="/ /")))
    'http://box: the URL or a header cannot be sent'
    """
    return InvalidRequest(f"{redact_url(request.origin)}: the URL or a header cannot be sent", fail_over=True)


class BodyBuffer:
    """The body of an answer as it comes, up to its limit."""

    def __init__(self, effect: Send) -> None:
        self._pieces: list[bytes] = []
        self._left = effect.limit
        self._effect = effect

    def add(self, data: bytes) -> None:
        """More of it; TooLarge where it passes the limit."""
        self._pieces.append(data)
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                place = redact_url(self._effect.request.origin)
                raise TooLarge(f"{place}: the body is larger than {self._effect.limit} bytes")

    def whole(self) -> bytes:
        """All of it."""
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
