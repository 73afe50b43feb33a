"""Answers and errors of another gateway become events."""

from pathlib import Path
from typing import Any

import pytest

from dragoman import wires
from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ContextTooLong,
    DragomanError,
    Malformed,
    ModelNotFound,
    Overloaded,
    RateLimited,
    ServerFault,
    Truncated,
    Unsupported,
)
from dragoman.events import fold
from dragoman.http import Head
from dragoman.types import (
    Image,
    Notice,
    Text,
    Thinking,
    Usage,
)
from tests.support.wires import laws

WIRE = wires.get("native")
CLIENT = WIRE.client
TAPES = Path(__file__).parent / "tapes"


def read_tape(name: str) -> tuple[list[Any], DragomanError | None]:
    return laws.read(CLIENT.stream_decoder(), [(TAPES / name).read_bytes()])


# Answers --------------------------------------------------------------------------------------------------------------


def test_a_stream_with_thinking() -> None:
    events, error = read_tape("hello.sse")
    assert error is None
    response = fold(events)
    assert response.message.parts == (
        Thinking(text="A greeting.", extra={"anthropic": {"signature": "sig"}}),
        Text(text="Héllo"),
    )
    assert response.usage == Usage(input=9, output=4, reasoning=2)
    assert response.finish.raw == "end_turn"
    assert response.notices == (Notice(kind="dropped", what="seed", why="anthropic: it has no such option"),)


def test_a_stream_with_calls() -> None:
    events, error = read_tape("tools.sse")
    assert error is None
    first, second = fold(events).tool_calls
    assert first.arguments == {"port": "Brest"}
    assert first.extra == {"google": {"thoughtSignature": "x"}}
    assert second.id == "call_7f3c2b1a-0d9e-4f5a-8b7c-1a2b3c4d5e6f"
    assert fold(events).usage == Usage(source="unknown")


def test_parts_that_come_whole() -> None:
    assert fold(read_tape("picture.sse")[0]).message.parts == (
        Image(data=b"\x89PNG", mime="image/png"),
        Text(text="Here."),
    )


def test_parts_that_interleave() -> None:
    assert fold(read_tape("interleaved.sse")[0]).message.parts == (Text(text="one more"), Text(text="two"))


def test_what_is_unknown_is_tolerated() -> None:
    events, error = read_tape("unknown.sse")
    assert error is None
    assert fold(events).text == "Hi"


def test_an_error_in_the_middle_is_of_its_class() -> None:
    events, error = read_tape("error.sse")
    assert fold(events).text == "Hel"
    assert isinstance(error, Overloaded)


def test_a_broken_part_is_malformed() -> None:
    assert isinstance(read_tape("bad_part.sse")[1], Malformed)


def test_a_streamed_part_cannot_end_as_another() -> None:
    assert isinstance(read_tape("changed_part.sse")[1], Malformed)


def test_a_farewell_before_the_end_is_truncated() -> None:
    assert isinstance(read_tape("done_early.sse")[1], Truncated)


def test_a_body_without_an_end_is_malformed() -> None:
    with pytest.raises(Malformed, match="no finish_reason"):
        CLIENT.decode_body(b'{"choices":[{"message":{"content":"Hi"}}]}')


@pytest.mark.parametrize(
    "error",
    [
        AuthFailed("no", status=403),
        AuthFailed("no", status=401),
        RateLimited("slow", retry_after=2.0),
        RateLimited("no credit", retry=False),
        Overloaded("busy"),
        ContextTooLong("too much"),
        Blocked("no"),
        ModelNotFound("no such thing"),
        BadRequest("no"),
        ServerFault("boom"),
    ],
)
def test_an_error_keeps_its_class_from_gateway_to_gateway(error: DragomanError) -> None:
    reply = WIRE.server.encode_error(error)
    seen = CLIENT.decode_error(Head(status=reply.status, headers=reply.headers), reply.body)
    assert (type(seen), seen.retry, seen.retry_after) == (type(error), error.retry, error.retry_after)


def test_what_one_target_of_a_gateway_cannot_another_may() -> None:
    reply = WIRE.server.encode_error(Unsupported("ollama: no documents"))
    seen = CLIENT.decode_error(Head(status=reply.status), reply.body)
    assert (type(seen), seen.fail_over) == (BadRequest, True)
