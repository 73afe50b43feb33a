"""A transport that answers from a script, in process. It speaks every wire and never waits."""

from abc import ABC, abstractmethod
from threading import Lock
from typing import Unpack

from dragoman.demo.provider import MemoryHandle
from dragoman.engine.call_options import CallOptions
from dragoman.engine.effects import Open, OpenResponse, Send
from dragoman.errors import ConnectFailed, DragomanError, InvalidRequest, Reset, TimedOut
from dragoman.http import Head, HttpRequest, HttpResponse
from dragoman.models import Model
from dragoman.registry import Registry
from dragoman.targets.provider import Provider
from dragoman.testing.script import (
    EncodedAnswer,
    Ending,
    ScriptLine,
    base_path,
    check_lines,
    render,
    script_ended_error,
    wire_of,
)
from dragoman.types import Request
from dragoman.types.checks import check_flag
from dragoman.types.parameters import named_methods


class InProcessProvider(ABC):
    """A transport whose provider answers in this process. Nothing waits: a stall is a time-out at once."""

    @abstractmethod
    def answer(self, http: HttpRequest, /) -> EncodedAnswer:
        """Answer one request of a client."""

    def send(self, effect: Send, /) -> HttpResponse:
        answer = self.answer(effect.request)
        if answer.status is None:
            raise _error_without_head(answer.ending)
        if answer.ending in ("close", "stall", "reset"):
            raise _error_in_body(answer.ending)
        return HttpResponse(status=answer.status, headers=answer.headers, body=b"".join(answer.chunks))

    async def asend(self, effect: Send, /) -> HttpResponse:
        return self.send(effect)

    def open(self, effect: Open, /) -> OpenResponse:
        answer = self.answer(effect.request)
        if answer.status is None:
            raise _error_without_head(answer.ending)
        return OpenResponse(Head(status=answer.status, headers=answer.headers), _ScriptedHandle(answer))

    async def aopen(self, effect: Open, /) -> OpenResponse:
        return self.open(effect)

    def close(self) -> None:  # noqa: B027 - most providers in this process have nothing to close
        """Do nothing: there is no connection to close."""


@named_methods("__init__", "registry")
class Scripted(InProcessProvider):
    """A provider that answers each request with the next line of a script.

    A line is an answer, an error or a fault. Nothing waits: a stall is a time-out at once.

    >>> from dragoman import RateLimited
    >>> script = Scripted(RateLimited("slow down"), "Hello!")
    >>> script.model(backoff=0).generate("hi").text
    'Hello!'
    >>> len(script.requests), script.requests[0].messages[0].text
    (2, 'hi')
    """

    def __init__(self, *lines: ScriptLine, repeat: bool = False) -> None:
        self.requests: list[Request] = []
        """The requests so far, decoded."""
        self.http: list[HttpRequest] = []
        """The requests so far as HTTP, with keys redacted."""
        self._lines = check_lines(lines)
        check_flag("repeat", repeat)
        self._repeat = repeat
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"Scripted({len(self._lines)} lines)"

    def add(self, *lines: ScriptLine) -> None:
        """Append lines to the script."""
        self._lines += check_lines(lines)

    def registry(self, wire: str = "openai_chat") -> Registry:
        """Return a registry that sends every request here. Its provider `scripted` speaks `wire`."""
        registry = Registry(env={}, http_client=self)
        base_url = "http://scripted.invalid" + base_path(wire)
        registry.add_provider(Provider(name="scripted", wire=wire, base_url=base_url, needs_key=False))
        return registry

    def model(self, wire: str = "openai_chat", /, **options: Unpack[CallOptions]) -> Model:
        """Return a model that follows the script."""
        return self.registry(wire).model("scripted/model", **options)

    def answer(self, http: HttpRequest, /) -> EncodedAnswer:
        wire = wire_of(http)
        if wire is None:
            raise InvalidRequest(f"path must be a path of a wire, got {http.path!r}; Scripted answers generation only")
        _, request = wire.server.decode_request(http)
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
            self.http.append(http.redacted())
            if self._repeat and self._lines:
                number %= len(self._lines)
            if number >= len(self._lines):
                raise script_ended_error(len(self._lines))
            return render(self._lines[number], wire, request)


class _ScriptedHandle(MemoryHandle):
    """Reads the chunks of an answer, then ends as its line says."""

    def __init__(self, answer: EncodedAnswer) -> None:
        super().__init__(list(answer.chunks))
        self._ending = answer.ending

    def read(self, within: float | None, /) -> bytes:
        data = super().read(within)
        if not data and self._ending in ("stall", "reset"):
            raise _error_in_body(self._ending)
        return data


def _error_without_head(ending: Ending) -> DragomanError:
    if ending == "stall":
        return TimedOut("no response in time")
    return ConnectFailed("scripted: connection refused")


def _error_in_body(ending: Ending) -> DragomanError:
    if ending == "stall":
        return TimedOut("no response in time")
    return Reset("scripted: the connection was reset")
