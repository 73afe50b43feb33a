"""Damaged event streams give only our errors."""

import random
from base64 import b64encode

import pytest
from hypothesis import settings

from dragoman import wires
from dragoman.errors import DragomanError
from dragoman.types import Request
from dragoman.wires.common.event_stream import encode_event

CASES = 50 * settings().max_examples
"""2 500; the profile `explore` tries forty times as many."""


def test_mutated_streams_give_only_our_errors() -> None:
    """Damage with checksums that are right, so that it comes through to the decoder of events."""
    rng = random.Random(17)
    names = ["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"]
    payloads = [
        b'{"role":"assistant"}',
        b'{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"t","name":"n"}}}',
        b'{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{}"}}}',
        b'{"contentBlockIndex":0,"delta":{"text":"Hi"}}',
        b'{"contentBlockIndex":1,"delta":{"reasoningContent":{"text":"a","signature":"b","redactedContent":"c"}}}',
        b'{"contentBlockIndex":0}',
        b'{"stopReason":"end_turn"}',
        b'{"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3},"metrics":{"latencyMs":1}}',
    ]
    client = wires.get("bedrock").client
    for _ in range(2 * CASES):
        data = b"".join(
            encode_event(rng.choice(names), _mutated(rng.choice(payloads), rng)) for _ in range(rng.randint(1, 8))
        )
        if rng.random() < 0.3:
            data = _mutated(data, rng)
        decoder = client.stream_decoder(Request(stream=True))
        try:
            for piece in (data, b""):
                decoder.feed(piece)
        except DragomanError:
            continue


@pytest.mark.parametrize("name", ["anthropic", "bedrock", "openai_chat"])
def test_mutated_chunks_of_invoke_model_give_only_our_errors(name: str) -> None:
    """The same with the events of each maker in base64."""
    rng = random.Random(18)
    metrics = b'"amazon-bedrock-invocationMetrics":{"inputTokenCount":3,"outputTokenCount":1}'
    payloads = [
        b'{"messageStart":{"role":"assistant"}}',
        b'{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"text":"Hi"}}}',
        b'{"messageStop":{"stopReason":"end_turn"}}',
        b'{"metadata":{"usage":{"inputTokens":1,"outputTokens":2}},' + metrics + b"}",
        b'{"outputText":"Hi","completionReason":"FINISH","inputTextTokenCount":3,' + metrics + b"}",
        b'{"generation":"Hi","stop_reason":null}',
        b'{"outputs":[{"text":"Hi","stop_reason":"stop"}]}',
        b'{"text":"Hi","is_finished":false}',
        b'{"completion":"","stop_reason":"stop_sequence"}',
        b'{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}],' + metrics + b"}",
        b'{"type":"message_stop",' + metrics + b"}",
    ]
    for _ in range(CASES):
        chosen = [_mutated(rng.choice(payloads), rng) for _ in range(rng.randint(1, 6))]
        data = b"".join(encode_event("chunk", b'{"bytes":"' + b64encode(each) + b'"}') for each in chosen)
        if rng.random() < 0.3:
            data = _mutated(data, rng)
        decoder = wires.get(name).client.stream_decoder(Request(stream=True))
        try:
            for piece in (data, b""):
                decoder.feed(piece)
        except DragomanError:
            continue


def _mutated(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(0, 2)):
        at = rng.randrange(len(changed)) if changed else 0
        match rng.randrange(3):
            case 0 if changed:
                changed[at] = rng.choice(b'{}[]",:0123nulltrue\xff ')
            case 1:
                del changed[at : at + rng.randint(1, 4)]
            case _:
                changed[at:at] = rng.choice([b"null", b"[]", b"{}", b'"', b"1e9", b"-1"])
    return bytes(changed)
