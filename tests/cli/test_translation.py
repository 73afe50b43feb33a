"""Every tape and every recorded exchange survives a translation to every dialect and back."""

from pathlib import Path

import msgspec
import pytest

from dragoman.cli.parser import DIALECTS
from dragoman.cli.translation import (
    CANONICAL,
    Kind,
    Payload,
    RequestPayload,
    StreamPayload,
    decode,
    detect_kind,
    encode,
)
from dragoman.errors import DragomanError, InvalidRequest, RequestError
from dragoman.events import Event, PartDelta, fold
from dragoman.types import Request, Response, Text
from tests.support.batch import grouped
from tests.support.corpus.exchanges import Exchange, by_folder, exchanges
from tests.support.paths import TESTS

TAPES = sorted(TESTS.glob("wires/*/tapes/*"))
NO_WORD = frozenset({"blocked", "other", "pause"})
"""Finishes that some dialect has no word for; there they are a plain stop."""


def survives(payload: Payload, *, kind: Kind, model: str, status: int) -> None:
    """The law: each dialect says the same; canonical says exactly the same."""
    for dialect in DIALECTS:
        try:
            translation = encode(payload, dialect)
        except RequestError:
            assert kind == "request"
            assert dialect != CANONICAL
            continue
        try:
            result = decode(translation.data, dialect, kind=kind, model=model, status=status)
        except InvalidRequest:
            # Our own protocol has limits for numbers, and wants a message.
            assert (kind, dialect) == ("request", "native")
            continue
        match payload, result:
            case RequestPayload(), RequestPayload():
                assert dialect != CANONICAL or result == payload
                means_the_same_request(result.request, payload.request)
            case Response(), Response():
                assert dialect != CANONICAL or result == payload
                means_the_same(result, payload)
            case StreamPayload(), StreamPayload():
                assert (result.error is None) == (payload.error is None)
                assert dialect != CANONICAL or result.events == payload.events
                if payload.error is None and not interleaves(payload.events):
                    means_the_same(fold(result.events), fold(payload.events))
            case _:
                assert isinstance(payload, DragomanError)
                assert type(result) is type(payload)


def interleaves(events: tuple[Event, ...]) -> bool:
    """Whether two texts grow at once: most dialects have one text only, in the order in which it came."""
    order = [event.index for event in events if isinstance(event, PartDelta)]
    return order != sorted(order)


def means_the_same(result: Response, payload: Response) -> None:
    assert result.text == payload.text
    calls = [[(call.name, call.arguments) for call in one.tool_calls] for one in (result, payload)]
    # A call that takes free text has no end of its own: where a length limit was met, the last one counts as cut.
    assert calls[0] == (calls[1] if payload.finish.reason != "length" else calls[1][: len(calls[0])])
    before, after = payload.finish.reason, result.finish.reason
    assert after == before or (before in NO_WORD and after == "stop")


def means_the_same_request(result: Request, payload: Request) -> None:
    texts = "\n".join(message.text for message in result.messages)
    for message in payload.messages:
        if message.role == "user":
            assert all(part.text.strip() in texts for part in message.parts if isinstance(part, Text))
    calls = [[call.arguments for message in one.messages for call in message.tool_calls] for one in (result, payload)]
    assert calls[0] == calls[1]


@pytest.mark.parametrize("tape", TAPES, ids=[f"{tape.parts[-3]}:{tape.name}" for tape in TAPES])
def test_a_tape_survives(tape: Path) -> None:
    data, dialect = tape.read_bytes(), tape.parts[-3]
    status = next((int(word) for word in tape.name.split(".") if word.isdecimal()), 400)
    kind: Kind = "error" if f".{status}." in tape.name else "response" if tape.suffix == ".json" else "stream"
    try:
        payload = decode(data, dialect, kind=kind, status=status)
    except DragomanError:
        assert kind == "response"
        return
    survives(payload, kind=kind, model="model", status=status)


@grouped(by_folder(exchanges()))
def test_a_recorded_exchange_survives(exchange: Exchange) -> None:
    model, status = exchange.model or "model", exchange.status
    kind: Kind = "error" if status >= 400 else "stream" if exchange.streamed else "response"
    try:
        survives(decode(exchange.body, exchange.wire, kind=kind, status=status), kind=kind, model=model, status=status)
    except DragomanError:
        assert "stream-error" in exchange.features
    if exchange.request is not None:
        data = msgspec.json.encode(exchange.request)
        assert detect_kind(data) == "request"
        try:
            request = decode(data, exchange.wire, model=model)
        except InvalidRequest:
            assert status in (400, 422)
            return
        survives(request, kind="request", model=model, status=status)


@grouped(by_folder(exchanges()))
def test_a_shape_tells_what_it_is(exchange: Exchange) -> None:
    found = detect_kind(exchange.body)
    if exchange.status >= 400:
        assert found == "error"
    elif exchange.streamed:
        # One line of NDJSON is a whole body, too.
        assert found == "stream" or (exchange.kind == "ndjson" and exchange.body.strip().count(b"\n") == 0)
    else:
        assert found == "response"
