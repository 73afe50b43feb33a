"""Many mutated streams through the stream decoder of every wire: only events or errors of our tree come out.

    .venv/bin/python -m tests.support.stream_fuzz --streams 10000000 [--seed 7] [--processes 2] [--wire bedrock]

`tests/support/fuzz.py` checks much of each case and is slow. This one checks little of very many: no exception but
ours, the error stays, a complete stream ends with `Finished`, no piece takes longer than a second. It mutates short
streams as bytes, or exchanges tokens of their JSON, and half of the event streams of AWS get right checksums.
"""

import argparse
import random
import re
import struct
import sys
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from multiprocessing import get_context
from typing import NamedTuple

from dragoman import wires
from dragoman.errors import DragomanError, Truncated
from dragoman.events import Event, Finished
from dragoman.wires.base import Wire
from dragoman.wires.common.event_stream import OVERHEAD, PRELUDE
from tests.support.fuzz import seeds

LONGEST_SEED = 3000
MAX_SECONDS = 1.0
BATCH = 20_000
INSERTIONS = (
    *rb'" \ { } [ ] , : null true -1 1e999 "" [] {} "error" "id" "type" "index" data'.split(),
    *(b"\n", b"\r", b"\r\n\r\n", b"\n\n", b"\x00", b"\xff", b"\xef\xbb\xbf", b"data: [DONE]\n\n", b"event: error\n"),
)
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|\[\]|\{\}')
"""A name, a text, a number, a word or an empty value of JSON."""


class Batch(NamedTuple):
    """Some streams of one wire."""

    wire: str
    seed: str
    size: int
    with_recordings: bool = False


class Outcome(NamedTuple):
    """What came of a batch: how many streams ended how, the slowest, and what broke a law."""

    ends: Counter[str]
    slowest: float
    failures: list[str]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """The data with one to four changes of bytes."""
    buffer = bytearray(data)
    for _ in range(int(rng.random() * 4) + 1):
        at = int(rng.random() * (len(buffer) + 1))
        match int(rng.random() * 6):
            case 0:
                buffer[at : at + 1] = bytes([int(rng.random() * 256)])
            case 1:
                buffer[at:at] = rng.choice(INSERTIONS)
            case 2:
                del buffer[at : at + rng.choice((1, 2, 8, 64, 512))]
            case 3:
                del buffer[at:]
            case 4:
                end = at + rng.choice((1, 8, 64, 512))
                buffer[at:at] = buffer[at:end]
            case _:
                other = int(rng.random() * (len(buffer) + 1))
                buffer[at:at] = buffer[other : other + 200]
    return bytes(buffer)


def swap_tokens(data: bytes, rng: random.Random) -> bytes:
    """The data with some tokens of its JSON in the place of others, so that it is still JSON."""
    tokens = [match.span() for match in TOKEN.finditer(data)]
    if not tokens:
        return mutate(data, rng)
    for start, end in sorted(rng.choices(tokens, k=int(rng.random() * 3) + 1), reverse=True):
        from_start, from_end = rng.choice(tokens)
        data = data[:start] + data[from_start:from_end] + data[end:]
    return data


def mutate_events(data: bytes, rng: random.Random) -> bytes:
    """An event stream with changes inside its messages, whose checksums are right."""
    messages = list(_messages(data))
    at = int(rng.random() * len(messages))
    match int(rng.random() * 4):
        case 0:
            messages.insert(at, rng.choice(messages))
        case 1:
            del messages[at]
        case _:
            change = mutate if rng.random() < 0.5 else swap_tokens
            messages[at] = _sealed(change(messages[at], rng))
    return b"".join(messages)


def _messages(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + PRELUDE <= len(data):
        size = max(OVERHEAD, int.from_bytes(data[at : at + 4], "big"))
        yield data[at : at + size]
        at += size


def _sealed(message: bytes) -> bytes:
    """The message with the length that it has, and right checksums. The length of its headers stays."""
    body = message[PRELUDE:-4]
    prelude = struct.pack(">I", OVERHEAD + len(body)) + message[4:8].ljust(4, b"\0")
    sealed = prelude + zlib.crc32(prelude).to_bytes(4, "big") + body
    return sealed + zlib.crc32(sealed).to_bytes(4, "big")


def decode(wire: Wire, data: bytes, rng: random.Random) -> str:
    """Decode a stream in one to three pieces. Returns how it ended; raises if it broke a law."""
    decoder = wire.client.stream_decoder()
    cuts = sorted(int(rng.random() * (len(data) + 1)) for _ in range(int(rng.random() * 3)))
    events: list[Event] = []
    start = 0
    try:
        for end in (*cuts, len(data)):
            if end > start:
                events += decoder.feed(data[start:end])
                start = end
        events += decoder.feed(b"")
    except DragomanError as error:
        if decoder.error is not error:
            raise AssertionError("the decoder does not keep its error") from error
        if isinstance(error, Truncated) and events and isinstance(events[-1], Finished):
            raise AssertionError("a stream that was cut has an end") from error
        return type(error).__name__
    assert events, "neither events nor an error"
    assert isinstance(events[-1], Finished), "a complete stream without an end"
    return "complete"


def run(batch: Batch) -> Outcome:
    """Decode the streams of a batch."""
    wire = wires.get(batch.wire)
    streams = _short_streams(batch.wire, with_recordings=batch.with_recordings)
    rng = random.Random(batch.seed)
    outcome = Outcome(Counter(), 0.0, [])
    slowest = 0.0
    for number in range(batch.size):
        good = rng.choice(streams)
        if good.startswith(b"\0") and rng.random() < 0.5:  # an event stream of AWS begins with its length
            data = mutate_events(good, rng)
        else:
            data = mutate(good, rng) if rng.random() < 0.5 else swap_tokens(good, rng)
        start = time.process_time()
        try:
            outcome.ends[decode(wire, data, rng)] += 1
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001  # whatever is raised here is what is looked for, panics of extensions included
            where = f"{batch.wire}, stream {number} of batch {batch.seed}"
            outcome.failures.append(f"{where}: {data!r}\n{traceback.format_exc()}")
        slowest = max(slowest, time.process_time() - start)
    return outcome._replace(slowest=slowest)


@cache
def _short_streams(wire: str, *, with_recordings: bool) -> list[bytes]:
    return [data for data in seeds(wires.get(wire), recorded=with_recordings).streams if len(data) <= LONGEST_SEED]


def batches(streams: int, seed: str, names: Sequence[str]) -> Iterator[Batch]:
    """Batches for these wires in turn, as many streams for each."""
    share = -(-streams // len(names))
    for done in range(0, share, BATCH):
        for wire in names:
            yield Batch(wire, f"{seed}/{wire}/{done}", min(BATCH, share - done), with_recordings=True)


def main() -> int:
    """Decode many streams; 1 if something broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1_000_000)
    parser.add_argument("--seed", default=None, help="the same streams again; a new one each day without it")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--wire", choices=wires.NAMES, default=None)
    options = parser.parse_args()
    seed: str = options.seed or str(int(time.time()) // 86400)
    names: tuple[str, ...] = (options.wire,) if options.wire else wires.NAMES
    ends: Counter[str] = Counter()
    failures: list[str] = []
    slowest, start, at = 0.0, time.monotonic(), 0
    with get_context("spawn").Pool(options.processes) as pool:
        for outcome in pool.imap_unordered(run, batches(options.streams, seed, names)):
            ends += outcome.ends
            slowest = max(slowest, outcome.slowest)
            for failure in outcome.failures[:3]:
                print("FAILED", failure, flush=True)
            failures += outcome.failures
            if (done := ends.total() + len(failures)) // 1_000_000 > at:
                at = done // 1_000_000
                print(f"  {done} streams in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    print(f"{ends.total() + len(failures)} mutated streams, seed {seed}, {', '.join(names)}")
    print(", ".join(f"{name} {count}" for name, count in ends.most_common()))
    print(f"slowest stream {slowest:.3f} s; {len(failures)} failures")
    return 1 if failures or slowest > MAX_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
