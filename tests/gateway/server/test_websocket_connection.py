"""A WebSocket on a connection that is a list."""

import struct

from dragoman.gateway.config import GatewaySettings
from dragoman.gateway.server.body_limits import BodyMemory
from dragoman.gateway.server.websocket_connection import WebSocketConnection
from dragoman.gateway.server.websocket_frames import PING, PONG, encode_frame


class Flow:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.is_writable = True
        self.written: list[bytes] = []

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def send(self, data: bytes, /) -> None:
        self.written.append(data)

    async def write(self, data: bytes, /) -> None:
        self.written.append(data)


def ping(payload: bytes) -> bytes:
    """The frame of a client; its mask is zero."""
    return struct.pack("!BBI", 0x80 | PING, 0x80 | len(payload), 0) + payload


def test_a_ping_is_answered() -> None:
    flow = Flow()
    WebSocketConnection(flow, 1000, BodyMemory().request(GatewaySettings())).feed(ping(b"hi"))
    assert flow.written == [encode_frame(PONG, b"hi")]


def test_pings_of_a_client_that_reads_nothing_fill_no_memory() -> None:
    flow = Flow()
    connection = WebSocketConnection(flow, 1000, BodyMemory().request(GatewaySettings()))
    flow.is_writable = False
    connection.feed(ping(b"x" * 100) * 1000)
    assert flow.written == []
    flow.is_writable = True
    connection.feed(ping(b"again"))
    assert flow.written == [encode_frame(PONG, b"again")]
