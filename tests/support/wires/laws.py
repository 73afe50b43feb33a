"""What every wire must obey, as functions of a wire's Profile; test_laws.py runs them for each folder found."""

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from dragoman import wires
from dragoman.errors import DragomanError, Truncated
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started, fold, kind_of, to_events
from dragoman.targets.target import Target
from dragoman.types import (
    Choice,
    Finish,
    Message,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    TokenLogprob,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.wires.base import StreamDecoder, Wire
from tests.support.paths import TESTS

WORDS: SearchStrategy[str] = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
NAMES: SearchStrategy[str] = st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True)
NUMBERS: SearchStrategy[int] = st.integers(0, 10**6)
COUNTS: SearchStrategy[int] = st.integers(1, 10**6)
FRACTIONS: SearchStrategy[float] = st.floats(0, 1, allow_nan=False).map(lambda value: round(value, 3))
JSON: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS: SearchStrategy[dict[str, Any]] = st.dictionaries(WORDS, JSON, max_size=3)
SCHEMA = {
    "type": "object",
    "properties": {"port": {"type": "string"}},
    "required": ["port"],
    "additionalProperties": False,
}
PENALTIES: SearchStrategy[float] = st.floats(-2, 2).map(lambda value: round(value, 3))
CHOICES: SearchStrategy[int] = st.integers(1, 128)
TOP: SearchStrategy[int] = st.integers(0, 20)
FLAGS: SearchStrategy[bool] = st.booleans()
SAMPLING: dict[str, SearchStrategy[Any]] = {"temperature": FRACTIONS, "top_p": FRACTIONS}


class Profile(NamedTuple):
    """What a wire can carry without loss: what the mirrors are tried on."""

    name: str
    target: Target
    options: Mapping[str, SearchStrategy[Any]]
    """Fields of a Request that survive, each with its values."""
    media: SearchStrategy[Part] | None = None
    """Parts that a user message takes beside text."""
    thinking: SearchStrategy[Thinking] | None = None
    """Thinking that this wire signed itself, as its decoder gives it."""
    call_extra: SearchStrategy[dict[str, Any]] = st.just({})
    """What this wire puts into the extra of a call in a history."""
    keeps_ids: bool = True
    """False: ids are not on the wire, so they are call_1, call_2, … over the conversation."""
    tool_choices: tuple[str, ...] = ("auto", "none", "required", "tide")
    usage: SearchStrategy[Usage] = st.builds(Usage, input=NUMBERS, output=NUMBERS)
    finishes: tuple[Finish, ...] = ()
    """Finishes that survive in both forms, with the raw word of this wire."""
    request: Callable[[Request], Request] = lambda request: request
    """The request with what this wire must always say, and without options that exclude each other."""
    response: Callable[[Response], Response] = lambda response: response
    """The response as this wire's decoder would have given it (extras that it always adds)."""
    created: bool = True
    ids: bool = True
    statuses: Mapping[type[DragomanError], int] = {}
    """Where the dialect has another status for an error."""
    words: SearchStrategy[str] = WORDS
    """Text that the wire carries as it is."""
    tiers: tuple[str, ...] = ()
    """Service tiers that a response may name."""
    choices: bool = False
    """Whether a response may have several choices."""
    logprobs: SearchStrategy[tuple[TokenLogprob, ...]] | None = None
    """Log probabilities of a text."""

    @property
    def wire(self) -> Wire:
        return wires.get(self.name)


# Requests -------------------------------------------------------------------------------------------------------------


@st.composite
def requests(draw: st.DrawFn, profile: Profile) -> Request:
    """A request in the wire's normal form."""
    messages: list[Message] = []
    calls = 0
    for _ in range(draw(st.integers(1, 3))):
        messages.append(draw(_user(profile)))
        if not draw(st.booleans()):
            continue
        turn, count = draw(_assistant(profile, calls))
        messages.append(turn)
        if count:
            messages.append(Message(role="tool", parts=tuple(draw(_result(profile, call)) for call in turn.tool_calls)))
        calls += count
    if messages[-1].role != "user":
        messages.append(draw(_user(profile)))
    options = {name: draw(values) for name, values in profile.options.items() if draw(st.booleans())}
    if calls or draw(st.booleans()):
        options["tools"] = (Tool(name="tide", description="Tide height", parameters=SCHEMA), Tool(name="now"))
        if draw(st.booleans()) and profile.tool_choices:
            options["tool_choice"] = draw(st.sampled_from(profile.tool_choices))
    else:
        options.pop("parallel_tool_calls", None)
    if options.get("top_logprobs") or "top_logprobs" in options:
        options["logprobs"] = True
    system = draw(st.none() | profile.words)
    merged = _merge_users(messages)
    return profile.request(Request(messages=tuple(merged), system=system, stream=draw(st.booleans()), **options))


def _merge_users(messages: list[Message]) -> list[Message]:
    """No two turns of one role in a row: some wires make them one."""
    alternating: list[Message] = []
    for message in messages:
        if not (alternating and alternating[-1].role == message.role == "user"):
            alternating.append(message)
    return alternating


@st.composite
def _user(draw: st.DrawFn, profile: Profile) -> Message:
    parts: list[Part] = [Text(text=draw(profile.words))]
    if profile.media is not None and draw(st.booleans()):
        parts.append(draw(profile.media))
    return Message(role="user", parts=tuple(parts))


@st.composite
def _assistant(draw: st.DrawFn, profile: Profile, calls_before: int) -> tuple[Message, int]:
    parts: list[Part] = []
    if profile.thinking is not None and draw(st.booleans()):
        parts.append(draw(profile.thinking))
    count = draw(st.integers(0, 2))
    if not count or draw(st.booleans()):
        parts.append(Text(text=draw(profile.words)))
    for i in range(count):
        number = calls_before + i + 1
        id = f"call_{number}" if not profile.keeps_ids else f"id_{number}_{draw(NAMES)}"
        extra = draw(profile.call_extra)
        parts.append(ToolCall(id=id, name="tide", arguments=draw(ARGUMENTS), extra=extra))
    return Message(role="assistant", parts=tuple(parts)), count


@st.composite
def _result(draw: st.DrawFn, profile: Profile, call: ToolCall) -> ToolResult:
    content = draw(profile.words.filter(lambda text: not text.startswith("ERROR")))
    return ToolResult(id=call.id, name=call.name, content=content, is_error=draw(st.booleans()))


def request_mirror(profile: Profile, request: Request) -> None:
    """server.decode_request(client.encode_request(r)) == r"""
    wire = profile.wire
    http = wire.client.encode_request(request, profile.target)
    assert [notice for notice in http.notices if notice.loss] == []
    model, back = wire.server.decode_request(http)
    assert model == profile.target.model
    assert without_extra(back) == without_extra(request)


def without_extra(request: Request) -> Request:
    """A request without what a wire adds to every body of its own: `extra` of the request itself."""
    return msgspec.structs.replace(request, extra={})


# Responses and streams ------------------------------------------------------------------------------------------------


@st.composite
def responses(draw: st.DrawFn, profile: Profile) -> Response:
    """A response that the wire can say."""
    first = draw(_choice(profile))
    others = draw(st.lists(_choice(profile), max_size=2)) if profile.choices and not _is_blocked(first) else []
    return profile.response(
        Response(
            id=draw(NAMES) if profile.ids else None,
            model=draw(NAMES),
            created=draw(st.integers(1, 2**31)) if profile.created else None,
            message=first.message,
            finish=first.finish,
            usage=draw(profile.usage),
            service_tier=draw(st.none() | st.sampled_from(profile.tiers)) if profile.tiers else None,
            other_choices=tuple(other for other in others if not _is_blocked(other)),
        )
    )


def _is_blocked(choice: Choice) -> bool:
    """A prompt that is blocked has no answers at all."""
    return choice.finish.reason == "blocked"


@st.composite
def _choice(draw: st.DrawFn, profile: Profile) -> Choice:
    parts: list[Part] = []
    if profile.thinking is not None and draw(st.booleans()):
        parts.append(draw(profile.thinking))
    if draw(st.booleans()):
        logprobs = () if profile.logprobs is None else draw(st.just(()) | profile.logprobs)
        parts.append(Text(text=draw(profile.words), logprobs=logprobs))
    for i in range(draw(st.integers(0, 2))):
        id = f"id_{i}" if profile.keeps_ids else f"call_{i + 1}"
        parts.append(ToolCall(id=id, name=draw(NAMES), arguments=draw(ARGUMENTS)))
    has_calls = any(isinstance(part, ToolCall) for part in parts)
    finishes = [
        finish
        for finish in profile.finishes
        if (finish.reason == "tool_calls") == has_calls or (has_calls and finish.reason == "length")
    ]
    return Choice(message=Message(role="assistant", parts=tuple(parts)), finish=draw(st.sampled_from(finishes)))


def token_logprobs(
    ids: SearchStrategy[int | None], data: SearchStrategy[tuple[int, ...] | None]
) -> SearchStrategy[tuple[TokenLogprob, ...]]:
    """Tokens with the members that a wire has."""
    numbers = st.floats(-100, 0).map(lambda value: round(value, 4))
    token = st.builds(TokenLogprob, token=WORDS, logprob=numbers, id=ids, bytes=data)
    top = st.lists(token, max_size=2).map(tuple)
    tokens = st.builds(TokenLogprob, token=WORDS, logprob=numbers, id=ids, bytes=data, top=top)
    return st.lists(tokens, min_size=1, max_size=3).map(tuple)


@st.composite
def streams(draw: st.DrawFn, profile: Profile) -> tuple[list[Event], bytes]:
    """The events of a response whose texts come in pieces, with pings, and their bytes."""
    events: list[Event] = []
    for event in to_events(draw(responses(profile))):
        if isinstance(event, PartDelta):
            cut = draw(st.integers(1, len(event.text)))
            pieces = [event.text[:cut], event.text[cut:]]
            events += [PartDelta(index=event.index, text=piece) for piece in pieces if piece]
        else:
            events.append(event)
        if not isinstance(event, Finished) and draw(st.integers(0, 5)) == 0:
            events.append(Ping())
    encoder = profile.wire.server.stream_encoder(Request(stream=True))
    return events, b"".join(encoder.feed(event) for event in events)


def stream_mirror(profile: Profile, events: Sequence[Event], data: bytes, cuts: Sequence[int]) -> None:
    """client.feed(any split of server.encode(events)) == events"""
    decoded, error = read(profile.wire.client.stream_decoder(), split(data, cuts))
    assert error is None
    assert silent(decoded) == silent(events)


def body_is_stream_folded(profile: Profile, response: Response) -> None:
    """A full body is a stream that arrived at once."""
    wire = profile.wire
    events = wire.client.decode_body(wire.server.encode_body(response).body)
    obeys_grammar(events)
    assert fold(events) == response
    encoder = wire.server.stream_encoder(Request(stream=True))
    data = b"".join(encoder.feed(event) for event in to_events(response))
    decoded, error = read(wire.client.stream_decoder(), [data])
    assert error is None
    assert fold(decoded) == response


def truncation_raises(profile: Profile, data: bytes, cut: int) -> None:
    """Bytes that are cut anywhere raise Truncated, or had said all that matters."""
    whole, _ = read(profile.wire.client.stream_decoder(), [data])
    events, error = read(profile.wire.client.stream_decoder(), [data[:cut]])
    assert events == whole[: len(events)]
    assert isinstance(error, Truncated) or events == whole


def errors_are_said(profile: Profile, error: DragomanError) -> None:
    """An error in the middle of a stream is an error for whoever reads it, and so is a whole refusal."""
    wire = profile.wire
    encoder = wire.server.stream_encoder(Request(stream=True))
    data = encoder.feed(Started(id="x", model="m")) + encoder.feed(error)
    _, seen = read(wire.client.stream_decoder(), [data])
    assert isinstance(seen, DragomanError)
    assert error.message in str(seen)


# Reading --------------------------------------------------------------------------------------------------------------


def read(decoder: StreamDecoder, pieces: Sequence[bytes]) -> tuple[list[Event], DragomanError | None]:
    """All events of some bytes, and the error that ended them."""
    events: list[Event] = []
    try:
        for piece in (*pieces, b""):
            events += decoder.feed(piece)
    except DragomanError as error:
        return events, error
    return events, None


def split(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """The data cut at these places (taken modulo its length), without empty pieces."""
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]


def random_splits(data: bytes, count: int, seed: int) -> list[list[bytes]]:
    """Some random ways to cut the data, and into small pieces."""
    rng = random.Random(seed)
    ways = [split(data, [rng.randrange(len(data) + 1) for _ in range(rng.randint(1, 40))]) for _ in range(count)]
    return [*ways, small_pieces(data, rng)]


BYTEWISE = 1000


def small_pieces(data: bytes, rng: random.Random) -> list[bytes]:
    """The data byte by byte at its beginning and its end, and in pieces of a few bytes between them: frames repeat."""
    cuts = [*range(min(BYTEWISE, len(data)))]
    while cuts and (place := cuts[-1] + rng.randint(1, 15)) < len(data) - BYTEWISE:
        cuts.append(place)
    return split(data, [*cuts, *range(max(0, len(data) - BYTEWISE), len(data))])


def silent(events: Sequence[Event]) -> list[Event]:
    """Without pings, which are not told in every dialect, and without early hints of a part's extra."""
    return [
        msgspec.structs.replace(event, extra={}) if isinstance(event, PartStarted) else event
        for event in events
        if not isinstance(event, Ping)
    ]


def obeys_grammar(events: Sequence[Event]) -> None:
    """Started ( PartStarted PartDelta* PartEnded | Ping )* Finished"""
    visible = [event for event in events if not isinstance(event, Ping)]
    assert isinstance(visible[0], Started)
    assert isinstance(visible[-1], Finished)
    kinds: dict[int, str] = {}
    texts: dict[int, list[str]] = {}
    for event in visible[1:-1]:
        match event:
            case PartStarted():
                assert event.index == len(texts)
                kinds[event.index] = event.kind
                texts[event.index] = []
            case PartDelta():
                assert kinds[event.index] in ("text", "thinking")
                assert event.text
                texts[event.index].append(event.text)
            case PartEnded():
                assert kinds.pop(event.index) == kind_of(event.part)
                if texts[event.index]:
                    assert isinstance(event.part, Text | Thinking)
                    assert event.part.text == "".join(texts[event.index])
            case _:
                raise AssertionError(f"{event} in the middle")
    assert kinds == {}


def tapes(name: str) -> list[Path]:
    """The tapes of a wire that are streams."""
    folder = TESTS / "wires" / name / "tapes"
    return sorted(path for path in folder.glob("*") if path.suffix in (".sse", ".ndjson", ".array", ".eventstream"))
