"""Spoilt bytes give events or an error of our tree, and never more memory than the limits: a fixed budget of both."""

import pytest

from dragoman import wires
from dragoman.errors import TooLarge
from dragoman.wires.common.framing import FrameDecoder, JsonArrayDecoder, NdjsonDecoder, SseDecoder
from tests.support import fuzz, stream_fuzz
from tests.support.fuzz import ENTRIES, Failure

BUDGET = {"stream_decoder": 100, "decode_body": 100, "decode_error": 70, "decode_request": 100, "flood": 2}
"""Cases per entry and wire; `make fuzz` tries as many as it has time for."""
OTHERS = 40
STREAMS = 500
LIMIT = 8 * 1024
PIECE = 1024


@pytest.fixture(scope="module", params=wires.NAMES)
def seeds(request: pytest.FixtureRequest) -> tuple[str, fuzz.Seeds]:
    return request.param, fuzz.seeds(wires.get(request.param))


@pytest.mark.parametrize("entry", ENTRIES)
def test_spoilt_bytes_give_events_or_an_error_of_our_tree(seeds: tuple[str, fuzz.Seeds], entry: str) -> None:
    name, found = seeds
    cases = (fuzz.case(found, name, entry, 1, number) for number in range(BUDGET.get(entry, OTHERS)))
    failures = [failure for failure in (fuzz.run(case, found) for case in cases) if failure is not None]
    first = {failure.signature: failure for failure in reversed(failures)}
    assert not first, "\n".join(["", *(describe(fuzz.shrink(failure, found)) for failure in first.values())])


@pytest.mark.parametrize("name", wires.NAMES)
def test_mutated_streams_give_events_or_an_error_of_our_tree(name: str) -> None:
    outcome = stream_fuzz.run(stream_fuzz.Batch(name, "1", STREAMS))
    assert not outcome.failures, outcome.failures[0]
    assert outcome.ends.total() == STREAMS
    assert outcome.ends["complete"] < 0.9 * STREAMS
    assert outcome.slowest < stream_fuzz.MAX_SECONDS


def describe(failure: Failure) -> str:
    return f"{failure.signature}: {failure.error}\n    {failure.case.seed}: {fuzz.shown(failure.case.data)}"


def test_a_case_is_the_same_every_time() -> None:
    found = fuzz.seeds(wires.get("openai_chat"))
    assert fuzz.case(found, "openai_chat", "decode_body", 1, 5) == fuzz.case(found, "openai_chat", "decode_body", 1, 5)


def test_a_crash_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(wire: object, data: bytes, *rest: object) -> None:
        if b"hello" in data:
            raise KeyError("hello")

    found = fuzz.seeds(wires.get("openai_chat"))
    monkeypatch.setitem(ENTRIES, "decode_body", (crash, lambda found: found.bodies))
    given = fuzz.Case(wire="openai_chat", entry="decode_body", data=b'{"a": ["hello"], "b": 1}', seed="1")
    failure = fuzz.run(given, found)
    assert failure is not None
    assert fuzz.shrink(failure, found).case.data == b"hello"


# Memory ---------------------------------------------------------------------------------------------------------------

ENDLESS = {
    "a line": (b"", b"x"),
    "a data line": (b"data: ", b"x"),
    "data lines without a blank one": (b"", b"data: xx\n"),
    "empty data lines without a blank one": (b"", b"data:\n"),
    "bare lines": (b"", b"xx\n"),
    "empty lines": (b"", b"\n"),
    "carriage returns": (b"", b"\r"),
    "comments": (b"", b": ping\n"),
    "event names": (b"", b"event: x\n"),
    "a string": (b'"', b"x"),
    "an object": (b"{", b'"x": [1], '),
    "brackets": (b"", b"["),
    "braces": (b"", b"{"),
    "closing brackets": (b"", b"]"),
    "objects": (b"[", b"{},\n"),
    "numbers": (b"[", b"1,\n"),
}


@pytest.mark.parametrize("make", [SseDecoder, NdjsonDecoder, JsonArrayDecoder])
@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("piece", [PIECE, 16], ids=["large pieces", "small pieces"])
def test_endless_bytes_take_no_more_memory_than_the_limit(make: type, kind: str, piece: int) -> None:
    first, then = ENDLESS[kind]
    times = max(1, piece // len(then))
    pieces = [first or then, *[then * times] * (8 * LIMIT // (times * len(then)))]

    def peak() -> int:
        decoder: FrameDecoder = make(limit=LIMIT)
        return fuzz.peak_memory(decoder.feed, pieces)

    assert any(peak() < 8 * LIMIT for _ in range(3))  # what other threads take is counted, too


@pytest.mark.parametrize("make", [SseDecoder, NdjsonDecoder, JsonArrayDecoder])
def test_an_endless_frame_is_too_large(make: type) -> None:
    decoder: FrameDecoder = make(limit=LIMIT)
    decoder.feed(b'{"data": "')
    decoder.feed(b"x" * (LIMIT - 10))
    with pytest.raises(TooLarge):
        decoder.feed(b"x")
