"""Fragments of calls: what a provider streams of a call reaches the client as it comes, and is the same call."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import wires
from dragoman.events import CallDelta, Event, Finished, PartEnded, PartStarted, fold, to_events
from dragoman.types import (
    Choice,
    Finish,
    Notice,
    Request,
    Response,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)
from dragoman.types.arguments import arguments_text
from tests.support.wires.laws import Profile, read, responses
from tests.wires.test_laws import PROFILES

STREAMING = ("anthropic", "bedrock", "google_interactions", "openai_chat", "openai_responses")
"""The dialects that have fragments of calls; the clients of the others expect whole calls."""


def with_fragments(response: Response, size: int) -> list[Event]:
    """The events of a response whose calls come in fragments."""
    events: list[Event] = []
    whole = to_events(response)
    for event, after in zip(whole, [*whole[1:], None], strict=True):
        if isinstance(after, PartEnded) and isinstance(call := after.part, ToolCall):
            events.append(
                PartStarted(index=after.index, kind="tool_call", extra=call.extra, id=call.id, name=call.name)
            )
            text = arguments_text(call)
            events += [CallDelta(index=after.index, text=text[i : i + size]) for i in range(0, len(text), size)]
        else:
            events.append(event)
    return events


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_stream_with_fragments_is_the_same_response(profile: Profile, data: st.DataObject) -> None:
    response = data.draw(responses(profile))
    encoder = profile.wire.server.stream_encoder(Request(stream=True))
    events = with_fragments(response, data.draw(st.integers(1, 9)))
    stream = b"".join(encoder.feed(event) for event in events)
    for wanted in (False, True):
        decoder = profile.wire.client.stream_decoder()
        decoder.call_deltas = wanted
        assert decoder.call_deltas is wanted
        decoded, error = read(decoder, [stream])
        assert error is None
        assert fold(decoded) == response
        if not wanted:
            assert not any(isinstance(event, CallDelta) for event in decoded)


@pytest.mark.parametrize("dialect", wires.NAMES)
def test_clients_get_arguments_encoded_once(dialect: str) -> None:
    """Whole, streamed, and in a further answer."""
    wire = wires.get(dialect)
    arguments = {"a": 1}
    twice = ToolCall(id="c1", name="tide", arguments=arguments, raw=json.dumps(json.dumps(arguments)))
    answer = assistant(twice)
    finish = Finish(reason="tool_calls")
    choices = (Choice(message=answer, finish=finish),) if dialect == "openai_chat" else ()
    response = Response(model="m", message=answer, finish=finish, other_choices=choices)
    encoder = wire.server.stream_encoder(Request(stream=True))
    stream = b"".join(encoder.feed(event) for event in to_events(response))
    events, error = read(wire.client.stream_decoder(), [stream])
    assert error is None
    whole = fold(wire.client.decode_body(wire.server.encode_body(response).body))
    for decoded in (whole, fold(events)):
        assert len(decoded.other_choices) == len(choices)
        for message in (decoded.message, *(choice.message for choice in decoded.other_choices)):
            (call,) = (part for part in message.parts if isinstance(part, ToolCall))
            assert (call.arguments, call.raw) == (arguments, None)


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_a_provider_gets_its_own_text_of_arguments(dialect: str) -> None:
    twice = json.dumps(json.dumps({"a": 1}))
    call = ToolCall(id="c1", name="tide", arguments={"a": 1}, raw=twice)
    target = next(profile.target for profile in PROFILES if profile.name == dialect)
    request = Request(messages=(user("?"), assistant(call), tool_results(ToolResult(id="c1", content="ok"))))
    sent = wires.get(dialect).client.encode_request(request, target).body
    assert json.dumps(twice).encode() in sent


def call_events(dialect: str, *fragments: str) -> tuple[list[Event], bytes]:
    """The events before the last fragment of a call is there, and the bytes that a client has got by then."""
    wire = wires.get(dialect)
    encoder = wire.server.stream_encoder(Request(stream=True))
    call = ToolCall(id="c1", name="write", arguments="".join(fragments))
    response = Response(message=assistant(Text(text="So:"), call), finish=Finish(reason="tool_calls"))
    size = len(fragments[0])
    stream = b"".join(encoder.feed(event) for event in with_fragments(response, size)[:-3])
    decoder = wire.client.stream_decoder()
    assert not decoder.call_deltas
    decoder.call_deltas = True
    return decoder.feed(stream), stream


@pytest.mark.parametrize("dialect", STREAMING)
def test_the_name_and_the_fragments_come_before_the_end(dialect: str) -> None:
    events, stream = call_events(dialect, '{"text":"aaa', 'bbbbbbbbbb"}')
    assert b"write" in stream
    started = next(event for event in events if isinstance(event, PartStarted) and event.name)
    assert (started.id, started.name) == ("c1", "write")
    assert "".join(event.text for event in events if isinstance(event, CallDelta)) == '{"text":"aaa'


@pytest.mark.parametrize("source", STREAMING)
@pytest.mark.parametrize("dialect", STREAMING)
def test_fragments_cross_from_every_wire_to_every_dialect(source: str, dialect: str) -> None:
    events, _ = call_events(source, '{"text":"aaa', 'bbbbbbbbbb"}')
    encoder = wires.get(dialect).server.stream_encoder(Request(stream=True))
    sent = b"".join(encoder.feed(event) for event in events)
    assert b"write" in sent
    assert b"aaa" in sent


@pytest.mark.parametrize("source", STREAMING)
@pytest.mark.parametrize("dialect", wires.NAMES)
def test_a_call_that_is_cut_off_is_no_call(source: str, dialect: str) -> None:
    """The limit of tokens ends the answer in the middle of a call: no client may run it."""
    events, _ = call_events(source, '{"text":"aaa', 'bbbbbbbbbb"}')
    cut = Finished(
        finish=Finish(reason="length"), notices=(Notice(kind="dropped", what="tool call write", why="it was cut off"),)
    )
    wire = wires.get(dialect)
    tools = (Tool(name="write"),)
    encoder = wire.server.stream_encoder(Request(stream=True, tools=tools))
    stream = b"".join(encoder.feed(event) for event in [*events, cut])
    decoded, error = read(wire.client.stream_decoder(), [stream])
    assert error is None
    response = fold(decoded)
    assert response.tool_calls == ()
    assert response.finish.reason == "length"
    assert response.text == "So:"
