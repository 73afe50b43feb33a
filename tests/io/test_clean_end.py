"""A chat stream without usage and [DONE]: whole if its HTTP body is complete, cut if the connection broke."""

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import httpx
import pytest

from dragoman import Registry, Stream
from dragoman.errors import Interrupted

EVENTS = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNK = f"{len(EVENTS):x}\r\n".encode() + EVENTS + b"\r\n"
CLEAN = {
    "chunked": HEAD + b"transfer-encoding: chunked\r\n\r\n" + CHUNK + b"0\r\n\r\n",
    "length": HEAD + f"content-length: {len(EVENTS)}\r\n\r\n".encode() + EVENTS,
    "until the connection closes": HEAD + b"connection: close\r\n\r\n" + EVENTS,
}
CUT = {
    "chunked": HEAD + b"transfer-encoding: chunked\r\n\r\n" + CHUNK,
    "length": HEAD + f"content-length: {len(EVENTS) + 1}\r\n\r\n".encode() + EVENTS,
}


@contextmanager
def serving(answer: bytes) -> Generator[str]:
    """The base URL of a server that sends these bytes to one client and closes the connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            received = b""
            while b'"stream":true' not in received:
                received += connection.recv(65536)
            connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        thread.join()
        listener.close()


CLIENTS: dict[str, Callable[[], object]] = {"own": lambda: None, "httpx": httpx.Client}


def stream(base_url: str, client: str) -> Stream:
    registry = Registry(env={}, http_client=CLIENTS[client]())
    registry.add_provider(name="box", like="vllm", base_url=base_url)
    return registry.model("box/m", retries=0).stream("Hi")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("framing", CLEAN)
def test_a_complete_body_is_a_whole_answer_with_a_notice(framing: str, client: str) -> None:
    with serving(CLEAN[framing]) as url:
        items = stream(url, client)
        list(items)
        assert items.response is not None
        assert (items.response.text, items.response.finish.reason) == ("Hi", "stop")
        assert [notice.what for notice in items.response.notices] == ["end of the stream"]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("framing", CUT)
def test_a_connection_that_broke_is_no_end(framing: str, client: str) -> None:
    with serving(CUT[framing]) as url:
        with pytest.raises(Interrupted) as caught:
            list(stream(url, client))
        assert caught.value.partial is not None
        assert caught.value.partial.text == "Hi"
