"""Spoilt bytes in; events, a value or an error of our tree out, whatever was done to the bytes.

    .venv/bin/python tests/support/fuzz.py --seconds 60 [--seed 7] [--wire anthropic]

Seeds are the tapes of each wire, what its own halves say, and (in the long run) the recorded exchanges where they are.
"""

import argparse
import contextlib
import gc
import json
import math
import random
import re
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dragoman import codec, wires
from dragoman.errors import DragomanError, ProviderError, Unsupported
from dragoman.events import (
    Assembler,
    Event,
    Finished,
    PartDelta,
    PartEnded,
    PartStarted,
    Ping,
    Started,
    fold,
    kind_of,
    to_events,
)
from dragoman.http import Head, HttpRequest
from dragoman.media.fit_image import Bounds, fit_image
from dragoman.targets.providers import PROVIDERS, target
from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.types import (
    Audio,
    Document,
    Finish,
    Image,
    Message,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    dump,
    is_list,
    is_object,
    system,
    tool_results,
    user,
)
from dragoman.wires.base import StreamDecoder, Wire
from dragoman.wires.common.framing import Frame, FrameDecoder, JsonArrayDecoder, NdjsonDecoder, SseDecoder
from dragoman.wires.common.item_cache import ItemCache, decode_with_cache
from tests.support.paths import ROOT

MAX_SEED = 48 * 1024
"""Longer tapes say nothing new and take their time."""

# Seeds: what is spoilt ------------------------------------------------------------------------------------------------

_SCHEMA = {
    "type": "object",
    "properties": {"port": {"type": "string", "const": "Brest"}, "day": {"$ref": "#/$defs/day"}},
    "required": ["port"],
    "$defs": {"day": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
}
_TOOLS = (Tool(name="tide", description="Tide height", parameters=_SCHEMA, strict=True), Tool(name="now"))
_CALL = ToolCall(id="call_1", name="tide", arguments={"port": "Brest", "day": 3}, raw='{"port": "Brest", "day": 3}')
_PNG = Image(data=b"\x89PNG\r\n\x1a\n", mime="image/png")

REQUESTS = (
    Request(messages=(user("hello"),)),
    Request(
        messages=(user("What\u2019s the tide?"),),
        system="Be brief.",
        tools=_TOOLS,
        tool_choice="tide",
        parallel_tool_calls=False,
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        max_tokens=100,
        stop=("END", "\n\n"),
        seed=7,
        reasoning="high",
        user="u1",
        metadata={"a": "b"},
        stream=True,
    ),
    Request(
        messages=(
            system("Only French."),
            user("Look:", _PNG, Image(url="https://example.org/a.png", detail="low")),
            assistant(Thinking(text="Hm."), "I ask.", _CALL, ToolCall(id="call_2", name="now")),
            tool_results(
                ToolResult(id="call_1", name="tide", content="4.2 m"),
                ToolResult(id="call_2", name="now", content=(Text(text="noon"), _PNG), is_error=True),
            ),
            user("And?"),
        ),
        system=(Text(text="Be brief."), Text(text="Be kind.")),
        tools=_TOOLS,
        schema=_SCHEMA,
        schema_name="tide",
        reasoning=2048,
        cache=True,
    ),
    Request(messages=(user("Read:", Document(data=b"%PDF-1.7", mime="application/pdf", name="bill.pdf")),), schema={}),
    Request(messages=(user("Hear:", Audio(data=b"RIFF", mime="audio/wav")),), reasoning="none"),
)
RESPONSES = (
    Response(message=assistant("hello \u2603"), finish=Finish(reason="stop"), usage=Usage(input=10, output=2), id="r1"),
    Response(
        message=assistant(Thinking(text="Seven?"), "I ask.", _CALL, ToolCall(id="call_2", name="now")),
        finish=Finish(reason="tool_calls"),
        usage=Usage(input=10, output=20, cache_read=5, cache_write=1, reasoning=3),
        id="r2",
        model="m",
        created=1790000000,
    ),
    Response(message=assistant("cut of"), finish=Finish(reason="length"), model="m"),
    Response(message=assistant("I cannot."), finish=Finish(reason="blocked"), id="r3"),
)
REFUSALS = (DragomanError("busy"), ProviderError("prompt is too long: 2009 tokens > 512", code="x", retry_after=2))
TARGETS = tuple(target(f"{name}/m", api_key="k", base_url="https://example.org/v1") for name in PROVIDERS)


class Seeds(NamedTuple):
    """Good bytes by the entry point that they belong to, and pieces of JSON found in them."""

    streams: list[bytes]
    bodies: list[bytes]
    errors: list[bytes]
    requests: list[bytes]
    paths: list[str]
    pieces: list[bytes]


def seeds(wire: Wire, *, recorded: bool = False) -> Seeds:
    """What a wire's tapes hold and its halves say."""
    found = Seeds([], [], [], [], [], [])
    for tape in sorted((ROOT / "tests/wires" / wire.name / "tapes").glob("*.*")):
        kind = found.streams if tape.suffix in (".sse", ".ndjson", ".array", ".eventstream") else found.bodies
        kind.append(tape.read_bytes())
    if recorded:
        _add_recorded(wire, found)
    for response in RESPONSES:
        found.bodies.append(wire.server.encode_body(response).body)
        for server in (wire.server, *wire.other_servers):
            encoder = server.stream_encoder(REQUESTS[1])
            found.streams.append(b"".join(encoder.feed(event) for event in to_events(response)))
    for error in REFUSALS:
        found.errors.append(wire.server.encode_error(error).body)
        encoder = wire.server.stream_encoder(REQUESTS[1])
        found.streams.append(encoder.feed(Started(id="x", model="m")) + encoder.feed(error))
    for request in (*REQUESTS, *_continued(wire, found.streams)):
        with contextlib.suppress(DragomanError):
            http = wire.client.encode_request(request, _target(wire))
            found.requests.append(http.body)
            found.paths.append(http.path)
    found.errors.extend(found.bodies)
    for kind in (found.streams, found.bodies, found.errors, found.requests):
        kind[:] = [data for data in dict.fromkeys(kind) if data and len(data) < MAX_SEED]
    for data in (*found.streams[:60], *found.bodies[:60], *found.requests[:60]):
        found.pieces.extend(_pieces(data))
    found.pieces[:] = list(dict.fromkeys(found.pieces))
    return found


def _add_recorded(wire: Wire, found: Seeds) -> None:
    from tests.support.corpus.exchanges import exchanges

    for exchange in exchanges():
        if exchange.wire == wire.name:
            kind = found.streams if exchange.streamed else found.bodies if exchange.status < 400 else found.errors
            kind.append(exchange.body)
            if exchange.request is not None:
                found.requests.append(msgspec.json.encode(exchange.request))
                found.paths.append(exchange.path)


def _continued(wire: Wire, streams: Iterable[bytes]) -> Iterator[Request]:
    """Conversations in which the answers of some streams were given: they hold what only this wire signs."""
    for data in streams:
        events, error = read(wire.client.stream_decoder(), [data])
        if error is None:
            message = fold(events).message
            results = [ToolResult(id=call.id, name=call.name, content="4.2 m") for call in message.tool_calls]
            messages = (user("?"), message, *([tool_results(*results)] if results else []), user("And?"))
            yield Request(messages=messages, tools=_TOOLS)


def _target(wire: Wire) -> Target:
    return next(known for known in TARGETS if known.wire == wire.name)


def load(names: Iterable[str] = wires.NAMES) -> list[Wire]:
    """The wires that can be imported; a word about those that cannot."""
    loaded: list[Wire] = []
    for name in names:
        try:
            loaded.append(wires.get(name))
        except (ImportError, AttributeError) as error:
            print(f"skipped: {name} cannot be imported yet ({error})")
    return loaded


# Mutations: how it is spoilt ------------------------------------------------------------------------------------------

_DEEP = 3000
_PLAIN = rb"""
    null true false 0 -1 1.5 -0.0 3 1e999 1E400 NaN -Infinity 18446744073709551616 0.1e-400 1790000000 [] {} [[]] [{}]
    [null] ["x"] [1] {"":1} {"type":null} {"type":"text"} "" "\u0020" "x" "0" "null" "{}" "[1]" "{\"a\"" "a,b" "\x"
    "\ud800" "\ud800x" "\udc00" "\udc00\ud800" "\u0000" "\ud83d\ude00" "data:" "data:;base64," "data:x;base64,A"
    "data:,x" "data:image/png;base64,iVBORw0KGgo=" "ERROR:\u0020" "text" "tool" "system" "error" "auto" "high" "call_1"
"""
FRAGMENTS = (
    *_PLAIN.split(),
    *(
        b'"%b"' % odd
        for odd in (b"\xff", b"\xed\xa0\x80", b"\xc3", b"\xf4\x90\x80\x80", b"\xe2\x80\xa8", b"\x00", b"\n")
    ),
    *(b"9" * digits for digits in (19, 25, 400, 6000)),
    *(b"[" * deep + b"]" * deep for deep in (200, _DEEP)),
    *(b'{"error":' * deep + b"1" + b"}" * deep for deep in (200, _DEEP)),
    *(b"[" * _DEEP, b'"' + b'{\\"a\\":' * _DEEP + b"1" + b"}" * _DEEP + b'"', b'"' + b"a" * 5000 + b'"'),
)
_MARK = "\x00spot\x00"
_MARKED = json.dumps(_MARK).encode()


def mutate(data: bytes, found: Seeds, rng: random.Random) -> bytes:
    """The data, spoilt once or a few times."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        way = rng.choice(_MUTATIONS)
        data = _mutate_json(data, found.pieces, rng) if rng.random() < 0.65 else way(data, rng)
    if rng.random() < 0.05:
        other = rng.choice(rng.choice((found.streams, found.bodies, found.requests)))
        data = data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other)) :]
    return data


def _flip(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


_ODD = (*rb'" \ { } [ ] , : data'.split(), *(b"\n", b"\r", b"\r\n\r\n", b"\n\n", b"\x00", b"\xff", b"\xef\xbb\xbf"))
_WORDS = (b"data: ", b"event: error\n", b"data: [DONE]\n\n", b"error: x\n", b": ping\n\n", b"retry: 1\n", b"data\n")


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice((*_ODD, *_WORDS, rng.randbytes(3), rng.choice(FRAGMENTS))) + data[at:]


def _remove(data: bytes, rng: random.Random) -> bytes:
    start, end = _range(data, rng)
    return data[:start] + data[end:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    start, end = _range(data, rng)
    return data[:end] + data[start:end] * rng.choice((1, 1, 2, 9)) + data[end:]


def _truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _shuffle_lines(data: bytes, rng: random.Random) -> bytes:
    """Lines or events swapped, dropped or said twice."""
    border = rng.choice((b"\n\n", b"\n", b"\r\n", b","))
    lines = data.split(border)
    one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(3):
        case 0:
            lines[one], lines[two] = lines[two], lines[one]
        case 1:
            lines.insert(two, lines[one])
        case _:
            del lines[one]
    return border.join(lines)


def _range(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 1, 2, 8, 64, 512)))


_MUTATIONS = (_flip, _flip, _insert, _insert, _remove, _repeat, _truncate, _shuffle_lines, _shuffle_lines)


def _mutate_json(data: bytes, pieces: Sequence[bytes], rng: random.Random) -> bytes:
    """The same bytes with one value of one JSON text in them replaced."""
    texts = list(_json_texts(data))
    if not texts:
        return rng.choice(FRAGMENTS)
    start, end = rng.choice(texts)
    return data[:start] + _mutate_text(data[start:end], pieces, rng) + data[end:]


def _json_texts(data: bytes) -> Iterator[tuple[int, int]]:
    """Where JSON stands: all of it, or from the first bracket of a line to the line's end."""
    if data.lstrip()[:1] in (b"{", b"[") and _loads(data) is not None:
        yield 0, len(data)
        return
    for line in re.finditer(rb"[^\r\n]+", data):
        if bracket := re.search(rb"[{\[]", line.group()):
            yield line.start() + bracket.start(), line.end()


def _loads(text: bytes | str) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text)
    return None


def _mutate_text(text: bytes, pieces: Sequence[bytes], rng: random.Random) -> bytes:
    value = _loads(text)
    spots = list(_spots(value))
    if not spots:
        return rng.choice(FRAGMENTS)
    holder, key = rng.choice(spots)
    old = holder[key]
    plain, name = json.dumps(old).encode(), json.dumps(key).encode()
    fragment = rng.choice(FRAGMENTS if rng.random() < 0.6 or not pieces else pieces)
    holder[key] = _MARK
    match rng.randrange(9):
        case 0 if is_object(holder):
            fragment = plain + b"," + name + b":" + fragment
        case 1 if is_object(holder):
            del holder[key]
            holder[rng.choice([*(str(spot[1]) for spot in spots), "type", "error", "x"])] = _MARK
            fragment = plain
        case 2:
            fragment = rng.choice((b"[%b]", b'{"x":%b}', b'{"type":%b}', b"[[%b]]")) % plain
        case 3:
            fragment = plain + b"," + plain if is_list(holder) else b"null"
        case 4 | 5 if isinstance(old, str) and old[:1] in ("{", "["):
            inner = _mutate_text(old.encode("utf-8", "surrogatepass"), pieces, rng)
            fragment = json.dumps(inner.decode("utf-8", "replace")).encode()
        case _:
            pass
    mutated = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    return mutated.encode("utf-8", "surrogatepass").replace(_MARKED, fragment)


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value: what holds it, and its key or index there."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys: list[Any] = list(holder) if is_object(holder) else list(range(len(holder))) if is_list(holder) else []
        for key in keys:
            yield holder, key
            waiting.append(holder[key])


def _pieces(data: bytes) -> Iterator[bytes]:
    for start, end in _json_texts(data):
        for holder, key in _spots(_loads(data[start:end])):
            piece = json.dumps(holder[key]).encode()
            if len(piece) < 600:
                yield piece


# Checks: what must hold all the same ----------------------------------------------------------------------------------


def check_stream(wire: Wire, data: bytes, found: Seeds, rng: random.Random) -> None:
    """A stream gives events that obey the grammar as far as they go, the same ones however it is cut."""
    request = rng.choice((None, REQUESTS[2]))
    whole, error = read(wire.client.stream_decoder(request), [data])
    cut, cut_error = read(wire.client.stream_decoder(request), split(data, rng))
    assert cut == whole, "other events when cut otherwise"
    assert (type(cut_error), str(cut_error)) == (type(error), str(error)), "another error when cut otherwise"
    obeys_grammar(whole, complete=error is None)
    _say_again(wire, whole, rng)


def check_body(wire: Wire, data: bytes, found: Seeds, rng: random.Random) -> None:
    """A body gives a whole response, which the same dialect can say."""
    try:
        events = wire.client.decode_body(data, rng.choice((None, REQUESTS[2])))
    except DragomanError:
        return
    obeys_grammar(events, complete=True)
    _say_again(wire, events, rng)


def check_error(wire: Wire, data: bytes, found: Seeds, rng: random.Random) -> None:
    """Any refusal gives a typed error, which every dialect can say."""
    error = wire.client.decode_error(_head(rng), data)
    assert type(error.code) in (str, type(None)), f"code={error.code!r}"
    wait = error.retry_after
    assert wait is None or (math.isfinite(wait) and wait >= 0), f"retry_after={wait}"
    for other in load_quietly():
        reply = other.server.encode_error(error)
        assert _loads(reply.body) is not None
        encoder = other.server.stream_encoder(REQUESTS[1])
        assert encoder.feed(Started()) + encoder.feed(error)


_ODD_PATHS = ["", "/", "//%00%ff?x=%", "/v1/\ufffd:x", "/a:b:c", "?", "/models/:generateContent", "/%"]


def check_request(wire: Wire, data: bytes, found: Seeds, rng: random.Random) -> None:
    """A request that a server half takes, every client half encodes or refuses."""
    routes = [route.path.replace("{model}", "m") for route in wire.server.routes]
    path = rng.choice(rng.choice((found.paths, found.paths, routes, _ODD_PATHS)))
    headers = {"content-type": "application/json", "anthropic-beta": rng.choice(("", "a,b", "\ufffd"))}
    http = HttpRequest(method="POST", path=path, headers=headers, body=data)
    cached = partial(decode_with_cache, wire.server.decode_request, ItemCache())
    decoded = _decoded(wire.server.decode_request, http)
    assert decoded == _decoded(cached, http) == _decoded(cached, http)
    if isinstance(decoded[0], type):
        return
    model, request = decoded
    assert isinstance(model, str)
    _is_well_typed(request, Request)
    for place in (_target(wire), _odd_target(rng)):
        for fields in (request, msgspec.structs.replace(request, strict=True)):
            with contextlib.suppress(DragomanError):
                assert _loads(wires.get(place.wire).client.encode_request(fields, place).body) is not None
    for name in ({"openai_chat": "openai"}.get(wire.name, wire.name), rng.choice(load_quietly()).name):
        with contextlib.suppress(DragomanError):
            codec.encode_definitions(request.tools, name)
        for result in (result for message in request.messages for result in message.tool_results):
            with contextlib.suppress(DragomanError):
                codec.encode_result(result, name)
    wire.server.stream_encoder(request).feed(Started(id="x"))
    read(wire.client.stream_decoder(request), [rng.choice(found.streams)])


def _decoded(decode: Callable[[HttpRequest], tuple[str, Request]], http: HttpRequest) -> tuple[Any, Any]:
    """The model and the request, or the error with what it says."""
    try:
        return decode(http)
    except DragomanError as error:
        return type(error), (error.message, error.code, error.param)


def check_calls(wire: Wire, data: bytes, found: Seeds, rng: random.Random) -> None:
    """The codec reads calls out of any body."""
    with contextlib.suppress(DragomanError):
        for call in codec.decode_tool_calls(data, wire.name):
            assert isinstance(call, ToolCall)
            assert isinstance(call.id, str)
            assert isinstance(call.arguments, dict)


def check_framing(wire: Wire, data: bytes, found: Seeds, rng: random.Random) -> None:
    """Frames are the same however the bytes are cut, and none is larger than the limit."""
    limit = rng.choice((1, 10, 100, 1000, 10**6))
    for make in (SseDecoder, NdjsonDecoder, JsonArrayDecoder):
        whole, error = _frames(make(limit=limit), [data])
        cut, cut_error = _frames(make(limit=limit), split(data, rng))
        assert (cut, type(cut_error)) == (whole, type(error)), (
            f"other frames of {make.__name__} when cut otherwise: limit {limit}"
        )
        assert all(len(frame.data) <= limit for frame in whole), f"a frame of {make.__name__} beyond its limit: {limit}"


@cache
def pictures() -> list[bytes]:
    """Small files of every format and of their rarer forms."""
    from tests.support.images import FORMATS, noise, picture

    rare = ({"progressive": True}, {"icc_profile": b"x" * 100}, {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0"})
    made = [picture(40, 30, mime) for mime in FORMATS] + [noise(20, 20, mime) for mime in FORMATS]
    return made + [noise(20, 20, "image/jpeg", **options) for options in rare]


def check_media(wire: Wire, data: bytes, found: Seeds, rng: random.Random) -> None:
    """A spoilt picture gives one that can be decoded and keeps to its bounds, or a refusal."""
    from tests.support.images import opened

    types = tuple(rng.sample(("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp"), rng.randint(1, 3)))
    bounds = Bounds(side=rng.choice((1, 8, 33)), size=rng.choice((None, 700, 5000)), types=types)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = fit_image(data, bounds)
        except Unsupported:
            return
    # What is passed on was never decoded, so it may be spoilt.
    assert made.data is data or max(opened(made.data).size) <= (bounds.side or 0)
    assert bounds.size is None or len(made.data) <= bounds.size
    assert made.mime in types


FLOOD_FRAME, FLOOD_RESPONSE, FLOOD_EVENTS = 64 * 1024, 2 * 1024, 6000
"""The limits of a frame and of a response in a flood, and how many events it has."""
FLOOD_GROWTH = 48 * 1024
"""What a decoder may hold more at the end of a flood than at its half, when all limits had been reached."""
MAX_SECONDS = 10
"""CPU time of one flood; a decoder that is linear needs a fiftieth of it."""
_COUNTED = re.compile(rb'("[a-z_]*index"\s*:\s*)\d+')
_NAMED = re.compile(rb'("(?:id|item_id|call_id|name)"\s*:\s*)"[^"]*"')


def check_flood(wire: Wire, data: bytes, found: Seeds, rng: random.Random) -> None:
    """One event of a stream said without end is refused, or forgotten as soon as it is read."""
    border = next(border for border in (b"\n\n", b"\r\n\r\n", b"\n", b"") if border in data) or b"\n"
    frames = [frame + border for frame in data.split(border)]
    last = rng.randrange(len(frames))
    patterns = rng.choice(((), (_COUNTED,), (_NAMED,), (_COUNTED, _NAMED)))
    with limits(FLOOD_FRAME, FLOOD_RESPONSE):
        decoder = wire.client.stream_decoder()
        for frame in frames[:last]:
            with contextlib.suppress(DragomanError):
                decoder.feed(frame)
        flood = [_varied(frames[last], patterns, number) for number in range(FLOOD_EVENTS)]
        grown, held = growth(decoder.feed, flood)
    varied = ", ".join(("index" if pattern is _COUNTED else "id") + " varied" for pattern in patterns) or "as it is"
    assert grown < FLOOD_GROWTH, f"endless events take endless memory: {held} bytes now, {varied}: {frames[last]!r}"


def _varied(frame: bytes, patterns: Sequence[re.Pattern[bytes]], number: int) -> bytes:
    for pattern in patterns:
        frame = pattern.sub(rb'\g<1>"x%d"' % number if pattern is _NAMED else rb"\g<1>%d" % number, frame)
    return frame


@contextlib.contextmanager
def limits(frame: int, response: int) -> Generator[None]:
    """The limits that decoders made inside have."""
    sizes = [(_defaults(Assembler), response)]
    sizes += [(_defaults(make), frame) for make in (SseDecoder, NdjsonDecoder, JsonArrayDecoder)]
    before = [defaults["limit"] for defaults, _ in sizes]
    try:
        for defaults, size in sizes:
            defaults["limit"] = size
        yield
    finally:
        for (defaults, _), size in zip(sizes, before, strict=True):
            defaults["limit"] = size


def _defaults(kind: type) -> dict[str, Any]:
    defaults: dict[str, Any] = vars(kind)["__init__"].__kwdefaults__
    return defaults


def growth(feed: Callable[[bytes], object], pieces: Sequence[bytes]) -> tuple[int, int]:
    """How many bytes more are held after all pieces than after half of them, and how many; none after an error."""
    half, end = 0, time.process_time() + MAX_SECONDS
    gc.collect()
    tracemalloc.start()
    try:
        for number, piece in enumerate(pieces):
            feed(bytes(bytearray(piece)))  # a copy of its own, which counts when it is kept
            if number == len(pieces) // 2:
                half = tracemalloc.get_traced_memory()[0]
            assert time.process_time() < end, f"{MAX_SECONDS} s are over at piece {number} of {len(pieces)}: {piece!r}"
        held = tracemalloc.get_traced_memory()[0]
    except DragomanError:
        return 0, 0
    else:
        return held - half, held
    finally:
        tracemalloc.stop()


def peak_memory(feed: Callable[[bytes], object], pieces: Sequence[bytes]) -> int:
    """The most bytes that were held at once, until an error of our tree or the end."""
    tracemalloc.start()
    try:
        with contextlib.suppress(DragomanError):
            for piece in pieces:
                feed(bytes(bytearray(piece)))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


ENTRIES: dict[str, tuple[Callable[[Wire, bytes, Seeds, random.Random], None], Callable[[Seeds], list[bytes]]]] = {
    "stream_decoder": (check_stream, lambda found: found.streams),
    "decode_body": (check_body, lambda found: found.bodies),
    "decode_error": (check_error, lambda found: found.errors),
    "decode_request": (check_request, lambda found: found.requests),
    "decode_tool_calls": (check_calls, lambda found: found.bodies),
    "framing": (check_framing, lambda found: found.streams),
    "flood": (check_flood, lambda found: found.streams),
    "media": (check_media, lambda _: pictures()),
}
RARE = {"flood": 100, "framing": 4, "decode_tool_calls": 4, "media": 4}
"""Entry points that are tried once in so many rounds: they are slow, or small."""


def _say_again(wire: Wire, events: Sequence[Event], rng: random.Random) -> None:
    """What was understood can be said: by the same dialect always, by another or it is refused."""
    response = fold(events)
    _is_well_typed(response, Response)
    for event in events:
        assert msgspec.json.decode(msgspec.json.encode(event), type=Event) is not None
    _say(wire, response, events)
    with contextlib.suppress(DragomanError):
        _say(rng.choice(load_quietly()), response, events)
    message = response.message
    results = tuple(ToolResult(id=call.id, name=call.name, content="x") for call in message.tool_calls)
    request = Request(messages=(user("?"), message, Message(role="tool", parts=results), user("?")))
    for place in (_target(wire), _odd_target(rng)):
        with contextlib.suppress(DragomanError):
            wires.get(place.wire).client.encode_request(request, place)


def _say(wire: Wire, response: Response, events: Sequence[Event]) -> None:
    assert _loads(wire.server.encode_body(response).body) is not None
    encoder = wire.server.stream_encoder(REQUESTS[1])
    for event in events:
        assert isinstance(encoder.feed(event), bytes)


def _is_well_typed(value: Request | Response, kind: type[Request | Response]) -> None:
    """Structs are checked when decoded only, so a value of a wrong type shows when it is stored and read back."""
    msgspec.json.decode(dump(value), type=kind)


def _odd_target(rng: random.Random) -> Target:
    known = rng.choice([known for known in TARGETS if known.wire in {wire.name for wire in load_quietly()}])
    if rng.random() < 0.5:
        return known
    quirks = Quirks(
        call_id=rng.choice((None, "[A-Za-z0-9]{9}")),
        max_tokens_field=rng.choice((None, "max_tokens")),
        seed_field=rng.choice((None, "random_seed")),
        named_choice=rng.random() < 0.5,
        json_schema=rng.random() < 0.5,
        sampling=rng.random() < 0.5,
        reasoning=rng.choice((None, "effort", "object", "switch", "budget", "adaptive", "level", "think")),
        efforts=rng.choice((None, ("low", "high"), ("none", "max"))),
    )
    capabilities = Capabilities(
        tools=rng.random() < 0.8,
        structured=rng.random() < 0.8,
        forced_choice=rng.random() < 0.8,
        thinking=rng.random() < 0.8,
        documents=rng.random() < 0.8,
        image_urls=rng.random() < 0.5,
        context_window=rng.choice((None, 1, 4096)),
    )
    return msgspec.structs.replace(known, quirks=quirks, capabilities=capabilities)


_WAITS = (
    *f" 3 -5 1e999 {'9' * 400} 0.5 6m0s 120ms soon 0 \ufffd \u0663 {'9' * 13} {'9' * 12}s 0001-01-01 9999-12-31T23:59:59Z".split(
        " "
    ),
    *("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 99 Oct 9999 07:28:00 -9999"),
)
_WAIT_HEADERS = "retry-after Retry-After-Ms date x-ratelimit-reset x-ratelimit-remaining x-ratelimit-reset-x".split()
_STATUSES = (200, 400, 401, 402, 403, 404, 413, 422, 429, 500, 503, 529, 0, 302, 999)


def _head(rng: random.Random) -> Head:
    headers = {name: rng.choice(_WAITS) for name in _WAIT_HEADERS if rng.random() < 0.4}
    return Head(status=rng.choice(_STATUSES), headers=headers)


def load_quietly() -> list[Wire]:
    """Every wire that is there."""
    if not _THERE:
        with contextlib.redirect_stdout(None):
            _THERE.extend(load())
    return _THERE


_THERE: list[Wire] = []


def read(decoder: StreamDecoder, pieces: Iterable[bytes]) -> tuple[list[Event], DragomanError | None]:
    """All events of some bytes, and the error that ended them, which stays."""
    events: list[Event] = []
    try:
        for piece in (*pieces, b""):
            events += decoder.feed(piece)
    except DragomanError as error:
        if decoder.error is not error:
            raise AssertionError("the decoder does not keep its error") from error
        return events, error
    assert decoder.feed(b"more") == [], "events after the end"
    return events, None


def _frames(decoder: FrameDecoder, pieces: Iterable[bytes]) -> tuple[list[Frame], DragomanError | None]:
    frames: list[Frame] = []
    for piece in (*pieces, b""):
        try:
            frames += decoder.feed(piece)
        except DragomanError as error:
            return frames, error
    return frames, None


def split(data: bytes, rng: random.Random) -> list[bytes]:
    """The data in pieces: a few, or many of one to three bytes."""
    if len(data) < 2000 and rng.random() < 0.3:
        size = rng.randint(1, 3)
        return [data[at : at + size] for at in range(0, len(data), size)]
    places = sorted({0, len(data), *(rng.randrange(len(data) + 1) for _ in range(rng.randint(1, 12)))})
    return [data[start:end] for start, end in pairwise(places)]


def obeys_grammar(events: Sequence[Event], *, complete: bool) -> None:
    """Started ( PartStarted PartDelta* PartEnded | Ping )* Finished, or a beginning of it."""
    visible = [event for event in events if not isinstance(event, Ping)]
    if complete:
        assert visible, "no events"
        assert isinstance(visible[-1], Finished), "no Finished"
        assert not isinstance(events[-1], Ping), "a ping after Finished"
    assert not visible or isinstance(visible[0], Started), "does not begin with Started"
    texts: dict[int, list[str]] = {}
    kinds: dict[int, str] = {}
    for position, event in enumerate(visible[1:], 1):
        match event:
            case PartStarted():
                assert event.index == len(texts), "a part out of order"
                kinds[event.index], texts[event.index] = event.kind, []
            case PartDelta():
                assert kinds[event.index] in ("text", "thinking")
                assert event.text, "an empty delta"
                texts[event.index].append(event.text)
            case PartEnded():
                assert kinds.pop(event.index) == kind_of(event.part), "a part of another kind"
                if delta_text := texts[event.index]:
                    assert isinstance(event.part, Text | Thinking)
                    assert event.part.text == "".join(delta_text), "a part that is not its deltas"
            case Finished():
                assert position == len(visible) - 1, "events after Finished"
                assert not kinds, "parts left open"
            case _:
                raise AssertionError("a second Started")


# The runner -----------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """Some bytes at one entry point; the seed is that of everything else that is chosen."""

    wire: str
    entry: str
    data: bytes
    seed: str


class Failure(NamedTuple):
    """A case that broke a law, and where."""

    case: Case
    error: BaseException

    @property
    def signature(self) -> str:
        """The same for all cases of one bug."""
        frames = traceback.extract_tb(self.error.__traceback__)
        ours = [frame for frame in frames if "/dragoman/" in frame.filename.replace("\\", "/")]
        if ours:
            path = Path(ours[-1].filename)
            return f"{type(self.error).__name__} at {path.parent.name}/{path.name}:{ours[-1].lineno}"
        entry = self.case.entry if self.case.entry == "framing" else f"{self.case.wire} {self.case.entry}"
        return f"{entry}: {type(self.error).__name__} {re.sub(r'[0-9]+', 'N', str(self.error).partition(': ')[0])}"


def case(found: Seeds, wire: str, entry: str, seed: int, number: int) -> Case:
    """The case of that number: always the same one."""
    name = f"{seed}/{wire}/{entry}/{number}"
    rng = random.Random(name)
    good = ENTRIES[entry][1](found)
    data = rng.choice(good)
    return Case(wire=wire, entry=entry, data=data if entry == "flood" else mutate(data, found, rng), seed=name)


def run(given: Case, found: Seeds) -> Failure | None:
    """What a case breaks, if it breaks anything."""
    try:
        ENTRIES[given.entry][0](wires.get(given.wire), given.data, found, random.Random(given.seed))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001  # whatever is raised here is what is looked for, panics of extensions included
        return Failure(given, error)
    return None


def shrink(failure: Failure, found: Seeds, *, tries: int = 3000) -> Failure:
    """The same failure with fewer bytes: pieces are cut out as long as the bug stays."""
    if failure.case.entry == "flood":
        return failure
    failure = _shrink_json(failure, found)
    size = len(failure.case.data) // 2
    while size and tries > 0:
        at = 0
        while at < len(failure.case.data) and tries > 0:
            tries -= 1
            data = failure.case.data[:at] + failure.case.data[at + size :]
            smaller = run(failure.case._replace(data=data), found)
            if smaller is not None and smaller.signature == failure.signature:
                failure = smaller
            else:
                at += size
        size //= 2
    return failure


def _shrink_json(failure: Failure, found: Seeds) -> Failure:
    """The same failure with fewer keys and items in its JSON."""
    changed = True
    while changed:
        changed = False
        for start, end in list(_json_texts(failure.case.data)):
            head, value, tail = failure.case.data[:start], _loads(failure.case.data[start:end]), failure.case.data[end:]
            for holder, key in reversed(list(_spots(value))):
                preserved = holder.copy()
                del holder[key]
                data = head + json.dumps(value).encode() + tail
                smaller = run(failure.case._replace(data=data), found)
                if smaller is not None and smaller.signature == failure.signature:
                    failure, changed = smaller, True
                else:
                    holder.clear()
                    if is_object(holder):
                        holder.update(preserved)
                    else:
                        holder.extend(preserved)
            if changed:
                break
    return failure


def shown(data: bytes) -> str:
    """The bytes as they would be written in Python, long repetitions as a product."""
    short = re.sub(rb"(?s)(.{1,12}?)\1{30,}", lambda m: m[1] + b"<*%d>" % (len(m[0]) // len(m[1])), data)
    return repr(short if len(short) <= 500 else short[:500] + b"...")


def report(failure: Failure, folder: Path, number: int) -> str:
    """What a reader needs to see it again; the bytes are written to the folder."""
    path = folder / f"{number:03}-{failure.case.wire}-{failure.case.entry}.bin"
    path.write_bytes(failure.case.data)
    path.with_suffix(".txt").write_text(
        f"{failure.signature}\nseed {failure.case.seed}\n\n" + "".join(traceback.format_exception(failure.error))
    )
    words = str(failure.error).split("\n")[0][:200]
    where = f"{failure.case.wire} {failure.case.entry}, seed {failure.case.seed}"
    return f"FAILED {failure.signature}\n  {words}\n  {where}\n  {shown(failure.case.data)}\n  {path}"


def main() -> int:
    """Fuzz until the time is up; 1 where something broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="the same cases again; a new one each day without it")
    parser.add_argument("--wire", choices=wires.NAMES, default=None)
    parser.add_argument("--entry", choices=tuple(ENTRIES), default=None)
    options = parser.parse_args()
    seed: int = options.seed if options.seed is not None else int(time.time()) // 86400
    sys.path[0] = str(ROOT)
    loaded = load([options.wire] if options.wire else wires.NAMES)
    found = {wire.name: seeds(wire, recorded=True) for wire in loaded}
    entries = [options.entry] if options.entry else list(ENTRIES)
    failures: dict[str, Failure] = {}
    folder = Path(tempfile.mkdtemp(prefix="dragoman-fuzz-"))
    slowest, slow_seed, number, cases, end = 0.0, "", 0, 0, time.monotonic() + options.seconds
    while loaded and time.monotonic() < end:
        for wire in loaded:
            for entry in (entry for entry in entries if options.entry or number % RARE.get(entry, 1) == 0):
                cases += 1
                given, start = case(found[wire.name], wire.name, entry, seed, number), time.perf_counter()
                failure = run(given, found[wire.name])
                if (took := time.perf_counter() - start) > slowest:
                    slowest, slow_seed = took, given.seed
                if failure is not None and failure.signature not in failures:
                    failures[failure.signature] = failure = shrink(failure, found[wire.name])
                    print(report(failure, folder, len(failures)), flush=True)
        number += 1
    print(f"{cases} cases, seed {seed}, {', '.join(wire.name for wire in loaded)}")
    print(
        f"slowest case {slowest:.3f} s ({slow_seed}); {len(failures)} failures" + (f" in {folder}" if failures else "")
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
