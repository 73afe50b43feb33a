"""A provider that uses almost no CPU time: prints its port, then gives every request the same canned answer.

It runs in its own process, so that its work is not counted: `python -m benchmarks.upstream`. It does not parse JSON; a
path that starts with `/burst/`, `/apart/` or `/drip/` gets a stream: at once, each chunk written by itself, or with a
pause after each chunk.
"""

import asyncio
import json
import sys

CHUNKS = 200
GAP = 0.001
"""Seconds between the pieces of a `/drip/` stream, so that each is read alone."""

_HEAD = {"id": "r1", "created": 1794700000, "model": "model-x"}
_USAGE = {"prompt_tokens": 412, "completion_tokens": CHUNKS, "total_tokens": 412 + CHUNKS}


def _whole() -> bytes:
    message = {"role": "assistant", "content": "The tide is high at half past four, so she can enter then."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = json.dumps({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USAGE}).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def _pieces() -> list[bytes]:
    def chunk(delta: object, finish: str | None = None) -> object:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return {**_HEAD, "object": "chat.completion.chunk", "choices": choices}

    chunks: list[object] = [
        *(chunk({"role": "assistant", "content": f"word{number} "}) for number in range(CHUNKS - 2)),
        chunk({}, "stop"),
        {**_HEAD, "object": "chat.completion.chunk", "choices": [], "usage": _USAGE},
    ]
    return [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks] + [b"data: [DONE]\n\n"]


def _http_chunks(pieces: list[bytes]) -> list[bytes]:
    """The head of a stream and its pieces, each as one HTTP chunk."""
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return [head, *chunks[:-1], chunks[-1] + b"0\r\n\r\n"]


_WHOLE = _whole()
_BURST = b"".join(_http_chunks([b"".join(_pieces())]))
_DRIP = _http_chunks(_pieces())


class _Upstream(asyncio.Protocol):
    """Finds the end of a request by its Content-Length."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - a TCP server gets one
        self._out = transport
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            _, has_length, length = head.partition(b"content-length:")
            size = end + 4 + (int(length.split(b"\r\n", 1)[0]) if has_length else 0)
            if len(self._data) < size:
                return
            self._data = self._data[size:]
            self._answer(head.split(b" ", 2)[1])

    def _answer(self, path: bytes) -> None:
        if path.startswith(b"/burst/"):
            self._out.write(_BURST)
        elif path.startswith(b"/apart/"):
            for piece in _DRIP:
                self._out.write(piece)
        elif path.startswith(b"/drip/"):
            self._drip(0)
        else:
            self._out.write(_WHOLE)

    def _drip(self, index: int) -> None:
        if index < len(_DRIP) and not self._out.is_closing():
            self._out.write(_DRIP[index])
            asyncio.get_running_loop().call_later(GAP, self._drip, index + 1)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Upstream, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Ends with the process that started it, because that holds the other end of stdin.
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
