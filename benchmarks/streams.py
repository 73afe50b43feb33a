"""CPU time to decode streams, and whether it grows linearly with their length."""

from benchmarks.clock import seconds
from benchmarks.peers import Read, plain_json, sdk
from benchmarks.samples import call_in_fragments, stream
from benchmarks.table import ABSENT, Section, ms, times
from dragoman import wires
from dragoman.events import Event, Finished, PartDelta, fold
from dragoman.wires.base import Wire

SHORT, LONG = 10_000, 100_000


def streams() -> Section:
    """Text in many small chunks; each is fed alone, as it would arrive."""
    rows = [row for name in wires.NAMES for row in _text_rows(wires.get(name))]
    heads = ("", "10 000 chunks", "100 000 chunks", "ratio", "MB/s", "k events/s", "time / ours")
    return Section("(b) decode a stream of text, chunk by chunk", heads, rows)


def _text_rows(wire: Wire) -> list[tuple[str, ...]]:
    short, long = stream(wire, SHORT), stream(wire, LONG)
    small, large = _decoding(wire, short), _decoding(wire, long)
    events = decode(wire, long)
    if sum(isinstance(event, PartDelta) for event in events) != LONG:
        raise RuntimeError(f"{wire.name}: chunks were lost")
    rates = _rates(long, len(events), large)
    rows = [
        (wire.name, ms(small), ms(large), times(large / small), *rates, times(1)),
        _peer_row("json.loads", plain_json, short, small),
    ]
    name, read = sdk(wire.name)
    if name:
        rows.append((f"  {name} SDK", ABSENT) if read is None else _peer_row(f"{name} SDK", read, short, small))
    return rows


def _peer_row(name: str, read: Read, pieces: list[bytes], ours: float) -> tuple[str, ...]:
    took, events = seconds(lambda: read(pieces)), read(pieces)
    if events < SHORT:
        raise RuntimeError(f"{name} saw {events} events of {SHORT} chunks")
    return (f"  {name}", ms(took), "", "", *_rates(pieces, events, took), times(took / ours))


def _rates(pieces: list[bytes], events: int, took: float) -> tuple[str, str]:
    return f"{sum(map(len, pieces)) / took / 1e6:.1f}", f"{events / took / 1e3:.0f}"


def _decoding(wire: Wire, pieces: list[bytes]) -> float:
    return seconds(lambda: decode(wire, pieces))


def decode(wire: Wire, pieces: list[bytes]) -> list[Event]:
    """All events of a stream, which must be complete."""
    decoder = wire.client.stream_decoder()
    events = [event for piece in (*pieces, b"") for event in decoder.feed(piece)]
    if not (events and isinstance(events[-1], Finished)):
        raise RuntimeError(f"{wire.name}: the sample has no end")
    return events


def calls() -> Section:
    """One tool call in many fragments."""
    rows = [_call_row(wires.get(name)) for name in wires.NAMES]
    heads = ("", "100 kB in 1 000", "1 MB in 10 000", "ratio", "MB/s")
    return Section("(c) decode a tool call that comes in fragments of 100 characters", heads, rows)


def _call_row(wire: Wire) -> tuple[str, ...]:
    short, long = call_in_fragments(wire, 1_000), call_in_fragments(wire, 10_000)
    if short is None or long is None:
        return (wire.name, "whole only")
    if len(fold(decode(wire, long)).tool_calls[0].arguments["text"]) < 990_000:
        raise RuntimeError(f"{wire.name}: the call is not whole")
    small, large = _decoding(wire, short), _decoding(wire, long)
    return (wire.name, ms(small), ms(large), times(large / small), f"{sum(map(len, long)) / large / 1e6:.1f}")
