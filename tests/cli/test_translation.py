"""Every tape and every recorded exchange, said in every dialect and read again."""

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


def survives(said: Payload, *, kind: Kind, model: str, status: int) -> None:
    """The law: each dialect says the same; canonical says exactly the same."""
    for dialect in DIALECTS:
        try:
            made = encode(said, dialect)
        except RequestError:
            assert kind == "request"
            assert dialect != CANONICAL
            continue
        try:
            again = decode(made.data, dialect, kind=kind, model=model, status=status)
        except InvalidRequest:
            # Our own protocol has limits for numbers, and wants a message.
            assert (kind, dialect) == ("request", "native")
            continue
        match said, again:
            case RequestPayload(), RequestPayload():
                assert dialect != CANONICAL or again == said
                means_the_same_request(again.request, said.request)
            case Response(), Response():
                assert dialect != CANONICAL or again == said
                means_the_same(again, said)
            case StreamPayload(), StreamPayload():
                assert (again.error is None) == (said.error is None)
                assert dialect != CANONICAL or again.events == said.events
                if said.error is None and not interleaves(said.events):
                    means_the_same(fold(again.events), fold(said.events))
            case _:
                assert isinstance(said, DragomanError)
                assert type(again) is type(said)


def interleaves(events: tuple[Event, ...]) -> bool:
    """Whether two texts grow at once: most dialects have one text only, in the order in which it came."""
    order = [event.index for event in events if isinstance(event, PartDelta)]
    return order != sorted(order)


def means_the_same(again: Response, said: Response) -> None:
    assert again.text == said.text
    calls = [[(call.name, call.arguments) for call in one.tool_calls] for one in (again, said)]
    # A call that takes free text has no end of its own: where a length limit was met, the last one counts as cut.
    assert calls[0] == (calls[1] if said.finish.reason != "length" else calls[1][: len(calls[0])])
    before, after = said.finish.reason, again.finish.reason
    assert after == before or (before in NO_WORD and after == "stop")


def means_the_same_request(again: Request, said: Request) -> None:
    heard = "\n".join(message.text for message in again.messages)
    for message in said.messages:
        if message.role == "user":
            assert all(part.text.strip() in heard for part in message.parts if isinstance(part, Text))
    calls = [[call.arguments for message in one.messages for call in message.tool_calls] for one in (again, said)]
    assert calls[0] == calls[1]


@pytest.mark.parametrize("tape", TAPES, ids=[f"{tape.parts[-3]}:{tape.name}" for tape in TAPES])
def test_a_tape_survives(tape: Path) -> None:
    data, dialect = tape.read_bytes(), tape.parts[-3]
    status = next((int(word) for word in tape.name.split(".") if word.isdecimal()), 400)
    kind: Kind = "error" if f".{status}." in tape.name else "response" if tape.suffix == ".json" else "stream"
    try:
        said = decode(data, dialect, kind=kind, status=status)
    except DragomanError:
        assert kind == "response"
        return
    survives(said, kind=kind, model="model", status=status)


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
            asked = decode(data, exchange.wire, model=model)
        except InvalidRequest:
            assert status in (400, 422)
            return
        survives(asked, kind="request", model=model, status=status)


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
