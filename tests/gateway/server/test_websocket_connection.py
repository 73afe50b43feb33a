"""A WebSocket on a connection that is a list."""

import asyncio
import struct

from dragoman.gateway.config import GatewaySettings
from dragoman.gateway.server.body_limits import BodyMemory
from dragoman.gateway.server.websocket_connection import MAX_WAITING, PIECE, WebSocketConnection
from dragoman.gateway.server.websocket_frames import PING, PONG, TEXT, encode_frame


class Flow:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.is_writable = True
        self.calls: list[str] = []
        self.written: list[bytes] = []

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")

    def send(self, data: bytes, /) -> None:
        self.written.append(data)

    async def write(self, data: bytes, /) -> None:
        self.written.append(data)


def frame(kind: int, payload: bytes) -> bytes:
    """The frame of a client; its mask is zero."""
    return struct.pack("!BBI", 0x80 | kind, 0x80 | len(payload), 0) + payload


def ping(payload: bytes) -> bytes:
    return frame(PING, payload)


def opened(flow: Flow, budget: BodyMemory | None = None) -> WebSocketConnection:
    connection = WebSocketConnection(flow, 1000, (budget or BodyMemory()).request(GatewaySettings()))
    connection.open()
    return connection


def test_frames_wait_for_the_answer_to_the_handshake() -> None:
    flow = Flow()
    connection = WebSocketConnection(flow, 1000, BodyMemory().request(GatewaySettings()))
    connection.feed(ping(b"1"))
    connection.feed(ping(b"2"))
    assert (flow.written, flow.calls[-1]) == ([], "pause")
    connection.open()
    assert (flow.written, flow.calls[-1]) == ([encode_frame(PONG, b"1"), encode_frame(PONG, b"2")], "resume")


def test_a_ping_is_answered() -> None:
    flow = Flow()
    opened(flow).feed(ping(b"hi"))
    assert flow.written == [encode_frame(PONG, b"hi")]


def test_pings_of_a_client_that_reads_nothing_fill_no_memory() -> None:
    flow = Flow()
    connection = opened(flow)
    flow.is_writable = False
    connection.feed(ping(b"x" * 100) * 100)
    assert flow.written == []
    flow.is_writable = True
    connection.feed(ping(b"again"))
    assert flow.written == [encode_frame(PONG, b"again")]


def test_many_small_frames_that_come_at_once_are_parsed_in_turns() -> None:
    async def flood() -> None:
        flow, budget, count = Flow(), BodyMemory(), 40_000
        connection = opened(flow, budget)
        connection.feed(ping(b"") * count)
        most = PIECE // len(ping(b"")) + 1
        before = 0
        while len(flow.written) < count:
            assert 0 < len(flow.written) - before <= most
            assert flow.calls[-1] == "pause"
            assert budget.held == 6 * count - PIECE * -(-6 * len(flow.written) // PIECE)
            before = len(flow.written)
            await asyncio.sleep(0)
        assert flow.calls[-1] == "resume"
        assert budget.held == 0

    asyncio.run(flood())


def test_messages_that_wait_stop_the_parsing_of_more() -> None:
    async def flood() -> None:
        flow, budget = Flow(), BodyMemory()
        connection = opened(flow, budget)
        messages = [b"%0100d" % number for number in range(1000)]
        connection.feed(b"".join(frame(TEXT, message) for message in messages))
        await asyncio.sleep(0)
        assert flow.calls[-1] == "pause"
        waiting = len(connection._messages)  # pyright: ignore[reportPrivateUsage] # nothing else shows them
        assert waiting <= MAX_WAITING + PIECE // 106 + 1
        assert [await connection.receive() for _ in messages] == messages
        assert flow.calls[-1] == "resume"
        assert budget.held == 0

    asyncio.run(flood())


def test_a_connection_that_ends_forgets_what_was_not_parsed() -> None:
    async def leave() -> None:
        flow = Flow()
        connection = opened(flow)
        connection.feed(ping(b"") * 10_000)
        before = len(flow.written)
        connection.end()
        await asyncio.sleep(0)
        assert len(flow.written) == before
        assert await connection.receive() is None

    asyncio.run(leave())
