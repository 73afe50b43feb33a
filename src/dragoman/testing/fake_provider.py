"""A script in, a provider that follows it out: in process, for every wire, without waiting."""

from threading import Lock
from typing import Unpack

from dragoman.engine.effects import Exchange, HttpResponse, Open, Send
from dragoman.errors import ConnectFailed, DragomanError, InvalidRequest, Reset, TimedOut
from dragoman.http import Head, HttpRequest
from dragoman.models import CallOptions, Model, Registry
from dragoman.targets.providers import Provider
from dragoman.testing.script import Ending, Line, Rendered, base_path, render, truncated_script, wire_of
from dragoman.types import Request


class Scripted:
    """A transport that answers by a script, line by line; a fault is a line, too. Nothing waits: a stall is a time-out.

    >>> from dragoman import RateLimited
    >>> script = Scripted(RateLimited("slow down"), "Hello!")
    >>> script.model(backoff=0).generate("hi").text
    'Hello!'
    >>> len(script.requests), script.requests[0].messages[0].text
    (2, 'hi')
    """

    def __init__(self, *lines: Line, repeat: bool = False) -> None:
        self.requests: list[Request] = []
        """What was asked, decoded."""
        self.http: list[HttpRequest] = []
        """What was asked, as it was sent, with its keys redacted."""
        self._lines = list(lines)
        self._repeat = repeat
        self._lock = Lock()

    def __repr__(self) -> str:
        """How many lines there are."""
        return f"Scripted({len(self._lines)} lines)"

    def add(self, *lines: Line) -> None:
        """More lines."""
        self._lines += lines

    def registry(self, wire: str = "openai_chat") -> Registry:
        """A registry whose every request comes here; its provider `scripted` speaks a wire."""
        registry = Registry(env={}, http_client=self)
        base_url = "http://scripted.invalid" + base_path(wire)
        registry.add_provider(Provider(name="scripted", wire=wire, base_url=base_url, needs_key=False))
        return registry

    def model(self, wire: str = "openai_chat", /, **asked: Unpack[CallOptions]) -> Model:
        """A model that follows the script."""
        return self.registry(wire).model("scripted/model", **asked)

    def send(self, effect: Send, /) -> HttpResponse:
        """The whole answer."""
        rendered = self._next(effect.request)
        if rendered.status is None:
            raise _without_head(rendered.ending)
        body = b"".join(rendered.pieces)
        if rendered.ending in ("cut", "stall", "reset"):
            raise _broken(rendered.ending)
        return HttpResponse(Head(status=rendered.status, headers=rendered.headers), body)

    async def asend(self, effect: Send, /) -> HttpResponse:
        """The whole answer."""
        return self.send(effect)

    def open(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        rendered = self._next(effect.request)
        if rendered.status is None:
            raise _without_head(rendered.ending)
        return Exchange(Head(status=rendered.status, headers=rendered.headers), _Pieces(rendered))

    async def aopen(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        return self.open(effect)

    def close(self) -> None:
        """Nothing is held."""

    def _next(self, http: HttpRequest) -> Rendered:
        wire = wire_of(http)
        if wire is None:
            raise InvalidRequest(f"the script knows no wire with the path {http.path}")
        _, request = wire.server.decode_request(http)
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
            self.http.append(http.redacted())
            if self._repeat and self._lines:
                number %= len(self._lines)
            if number >= len(self._lines):
                raise truncated_script(len(self._lines))
            return render(self._lines[number], wire, request)


class _Pieces:
    """A handle that gives what was rendered, and ends as it shall."""

    def __init__(self, rendered: Rendered) -> None:
        self._pieces = list(rendered.pieces)
        self._ending = rendered.ending

    def read(self, _within: float | None, /) -> bytes:
        if self._pieces:
            return self._pieces.pop(0)
        if self._ending in ("stall", "reset"):
            raise _broken(self._ending)
        return b""

    async def aread(self, within: float | None, /) -> bytes:
        return self.read(within)

    def finish(self) -> None:
        self._pieces.clear()

    async def afinish(self) -> None:
        self.finish()

    def close(self) -> None:
        self._pieces.clear()

    async def aclose(self) -> None:
        self.close()


def _without_head(ending: Ending) -> DragomanError:
    return TimedOut("scripted: nothing came in time") if ending == "stall" else ConnectFailed("scripted: refused")


def _broken(ending: Ending) -> DragomanError:
    return TimedOut("scripted: nothing came in time") if ending == "stall" else Reset("scripted: the connection broke")
