"""The laws, for every wire."""

import importlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import wires
from dragoman.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    DragomanError,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    RateLimited,
    ServerFault,
    Truncated,
)
from dragoman.http import Head
from tests.support.wires import laws
from tests.support.wires.laws import Profile

PROFILES: list[Profile] = [
    importlib.import_module(f"tests.support.wires.profile_{name}").PROFILE for name in wires.NAMES
]
EVERY_WIRE = pytest.mark.parametrize("profile", PROFILES, ids=[profile.name for profile in PROFILES])
TAPES = [(profile, tape) for profile in PROFILES for tape in laws.tapes(profile.name)]
EVERY_TAPE = pytest.mark.parametrize(
    ("profile", "tape"), TAPES, ids=[f"{profile.name}-{tape.name}" for profile, tape in TAPES]
)
CUTS = st.lists(st.integers(0, 10**6), max_size=30)


@EVERY_WIRE
@given(data=st.data())
def test_a_request_survives_its_wire(profile: Profile, data: st.DataObject) -> None:
    laws.request_mirror(profile, data.draw(laws.requests(profile)))


@EVERY_WIRE
@given(data=st.data(), cuts=CUTS)
def test_a_stream_survives_its_wire_however_it_is_cut(profile: Profile, data: st.DataObject, cuts: list[int]) -> None:
    events, encoded = data.draw(laws.streams(profile))
    laws.stream_mirror(profile, events, encoded, cuts)


@EVERY_WIRE
@given(data=st.data())
def test_a_body_is_a_stream_folded(profile: Profile, data: st.DataObject) -> None:
    laws.body_is_stream_folded(profile, data.draw(laws.responses(profile)))


@EVERY_WIRE
@given(data=st.data(), cut=st.integers(0, 10**6))
def test_a_cut_stream_raises_truncated(profile: Profile, data: st.DataObject, cut: int) -> None:
    _, encoded = data.draw(laws.streams(profile))
    laws.truncation_raises(profile, encoded, cut % (len(encoded) + 1))


@EVERY_WIRE
@pytest.mark.parametrize(
    "error",
    [
        AuthFailed("bad key"),
        RateLimited("slow down", retry_after=2),
        Overloaded("busy"),
        ContextTooLong("prompt is too long"),
        ModelNotFound("no such model"),
        BadRequest("temperature"),
        ServerFault("boom"),
        InvalidRequest("messages: missing"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_an_error_in_every_dialect(profile: Profile, error: DragomanError) -> None:
    laws.errors_are_said(profile, error)
    reply = profile.wire.server.encode_error(error)
    assert reply.status == profile.statuses.get(type(error), error.http_status)
    assert error.message in str(profile.wire.client.decode_error(Head(status=reply.status), reply.body))


@EVERY_WIRE
@pytest.mark.parametrize(
    "error",
    [
        AuthFailed("no"),
        RateLimited("no", retry_after=2),
        Overloaded("no"),
        ContextTooLong("9000 tokens"),
        ModelNotFound("no"),
        BadRequest("no"),
        ServerFault("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_refusal_keeps_its_class(profile: Profile, error: DragomanError) -> None:
    reply = profile.wire.server.encode_error(error)
    seen = profile.wire.client.decode_error(Head(status=reply.status, headers=reply.headers), reply.body)
    assert (type(seen), seen.retry_after) == (type(error), error.retry_after)


@EVERY_TAPE
def test_a_tape_reads_the_same_however_it_is_cut(profile: Profile, tape: Path) -> None:
    data = tape.read_bytes()
    client = profile.wire.client
    whole = laws.read(client.stream_decoder(), [data])
    for pieces in laws.random_splits(data, 20, seed=1):
        events, error = laws.read(client.stream_decoder(), pieces)
        assert events == whole[0]
        assert (type(error), str(error)) == (type(whole[1]), str(whole[1]))


@EVERY_TAPE
def test_a_cut_tape_raises_truncated(profile: Profile, tape: Path) -> None:
    data = tape.read_bytes()
    whole, error = laws.read(profile.wire.client.stream_decoder(), [data])
    if error is None:
        laws.obeys_grammar(whole)
    for cut in range(0, len(data), 1 + len(data) // 60):
        events, cut_error = laws.read(profile.wire.client.stream_decoder(), [data[:cut]])
        assert events == whole[: len(events)]
        if error is None:
            assert isinstance(cut_error, Truncated) or events == whole
