"""Runs one case of the matrix: a client of a dialect calls a provider of a wire. A turn has what each of them saw."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import DragomanError
from dragoman.events import Event, PartDelta, PartStarted, Ping, Started, fold
from dragoman.gateway.app import App
from dragoman.gateway.config import Config, decode_config
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.tool_call_ids import HEADER
from dragoman.http import Head
from dragoman.testing import ErrorInside200, RawResponse, Scripted, ScriptLine
from dragoman.types import Request, Response
from tests.support.gateway.dialects import BASES, ClientResponse, app_of, events_of, request_of, send_blocking
from tests.support.gateway.live import record
from tests.support.gateway.matrix_cases import CASES, QUESTION, follow

WORDS = "At six"
"""What a provider says before it fails in the middle."""
KEY = "hunter2-of-the-provider"
"""A key that does not look like one."""
OPTIONS = "[chain]\nretries = 0\n[gateway]\nlog = false\n"


class Pair(NamedTuple):
    """Who talks to whom, and whether streamed."""

    client: str
    provider: str
    stream: bool

    def __str__(self) -> str:
        return f"{self.client} - {self.provider}{' streamed' if self.stream else ''}"


PAIRS = [
    Pair(client, provider, stream) for client in wires.NAMES for provider in wires.NAMES for stream in (False, True)
]


class Turn(NamedTuple):
    """One request and its answer: what the client saw, and what the provider was asked."""

    events: Sequence[Event]
    response: Response
    received: Request
    seen: ClientResponse


class Failure(NamedTuple):
    """A failure as a client sees it: what it heard before, and the error."""

    events: list[Event]
    error: DragomanError
    seen: ClientResponse


def app_for(wire: str, script: Scripted) -> App:
    """A gateway whose only provider speaks a wire and follows a script; what it knows of earlier requests is gone."""
    app = _app()
    app.runtime = Runtime(_config(wire), {})
    app.runtime.registry.transport = script
    return app


@cache
def _app() -> App:
    """The table of its routes takes most of the time that a gateway needs to start."""
    return app_of()


@cache
def _config(wire: str) -> Config:
    provider = record("up", "http://up.invalid" + BASES.get(wire, "/v1"), wire).replace("sk-test-key", KEY)
    return decode_config(provider + OPTIONS)


@cache
def talk(pair: Pair, case: str) -> list[Turn]:
    """A conversation, to its end."""
    found = CASES[case]
    script = Scripted(*found.answers(pair.provider))
    app = app_for(pair.provider, script)
    request = replace(found.request, stream=pair.stream)
    turns: list[Turn] = []
    headers: dict[str, str] = {}
    while True:
        http = request_of(pair.client, "up/m", request)
        seen = send_blocking(app, replace(http, headers={**http.headers, **headers}))
        events = [event for event in events_of(pair.client, request, seen) if not isinstance(event, Ping)]
        turns.append(Turn(events, fold(events), script.requests[-1], seen))
        if found.reply is None or len(turns) == 2:
            return turns
        headers = {HEADER: seen.headers[HEADER]} if HEADER in seen.headers else {}
        request = follow(request, turns[-1].response, found.reply)


def fail(pair: Pair, line: ScriptLine) -> Failure:
    """A question to a provider that fails."""
    request = Request(messages=(QUESTION,), stream=pair.stream)
    script = Scripted(line, repeat=True)
    seen = send_blocking(app_for(pair.provider, script), request_of(pair.client, "up/m", request))
    return failure_of(pair.client, request, seen)


def failure_of(dialect: str, request: Request, seen: ClientResponse) -> Failure:
    """What a client makes of an answer that fails."""
    client = wires.get(dialect).client
    if seen.status >= 300:
        return Failure([], client.decode_error(Head(status=seen.status, headers=seen.headers), seen.body), seen)
    events: list[Event] = []
    decoder = client.stream_decoder(request)
    try:
        for data in (seen.body, b""):
            events += decoder.feed(data)
    except DragomanError as error:
        return Failure(events, error, seen)
    raise AssertionError(f"{dialect}: it ended as if it were whole: {seen.body!r}")


def expected_failure(dialect: str, error: DragomanError, *, inside: bool) -> Failure:
    """An error as the dialect itself says it: before an answer, or inside a stream."""
    wire = wires.get(dialect)
    if not inside:
        reply = wire.server.encode_error(error)
        seen = ClientResponse(reply.status, dict(reply.headers), [reply.body])
    else:
        seen = ClientResponse(200, {}, [text_before(dialect, error)])
    return failure_of(dialect, Request(stream=True), seen)


def text_before(wire: str, error: DragomanError | None) -> bytes:
    """The bytes of a stream that says some words and then an error, or nothing more."""
    encoder = wires.get(wire).server.stream_encoder(Request(stream=True))
    begun: list[Event | DragomanError] = [
        Started(id="answer_1", model="m", created=1),
        PartStarted(index=0, kind="text"),
        PartDelta(index=0, text=WORDS),
    ]
    return b"".join(encoder.feed(event) for event in (*begun, *(() if error is None else (error,))))


def in_the_middle(pair: Pair, error: DragomanError) -> ScriptLine:
    """A provider that fails when it has begun: in a stream after some words, otherwise behind a 200."""
    return RawResponse(body=text_before(pair.provider, error)) if pair.stream else ErrorInside200(error)
