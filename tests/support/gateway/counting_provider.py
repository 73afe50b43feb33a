"""A provider that counts what it answers, and many clients of the gateways in front of it. All on 127.0.0.1."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

import msgspec

from tests.support.gateway.live import PATIENCE

INPUT = 8
WORD = "abc"
"""A token, by our own guess, too."""
AT_ONCE = 100
"""Words of a stream that are written together. To write all of a long one would take 8 ms, in which nobody is answered."""


class CountingProvider:
    """A provider of OpenAI's protocol. The model says what becomes of a request, its text who asks, `max_tokens` how long:

    refuse      500
    cut         two words of a stream, then nothing more
    stall       three words of a stream, and no end until the client has gone
    hold        answered when all are let go
    whatever    answered, whole or as a stream

    What stands behind a colon makes another target of it, which no failure of the others benches.

    `counted` has the tokens of each that was answered or shown something.
    """

    def __init__(self) -> None:
        self.counted: dict[str, tuple[int, int]] = {}
        self.requested: set[str] = set()
        self.in_flight = 0
        self.most = 0
        self._go = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        serving = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop)
        self._server = serving.result(PATIENCE)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def let_go(self) -> None:
        self._loop.call_soon_threadsafe(self._go.set)

    async def _stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET "):  # for its list of models
                    writer.write(_whole(404, {"error": {"message": "no such path"}}))
                    continue
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await self._answer(json.loads(await reader.readexactly(length)), reader, writer)
                await writer.drain()
        except (OSError, EOFError, asyncio.CancelledError):
            self._tasks.discard(task)
        finally:
            writer.close()

    async def _answer(self, body: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        who, fate = body["messages"][-1]["content"], body["model"].partition(":")[0]
        self.requested.add(who)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            if fate == "refuse":
                writer.write(_whole(500, {"error": {"message": f"no answer to {who}"}}))
                return
            if fate == "hold":
                await self._go.wait()
            words = {"cut": 2, "stall": 3}.get(fate, body.get("max_completion_tokens") or 5)
            self.counted[who] = INPUT, words
            if not body.get("stream"):
                writer.write(_whole(200, _answer(WORD * words, words)))
            else:
                writer.write(HEAD)
                for start in range(0, words, AT_ONCE):
                    writer.write(_piece(_delta(WORD)) * min(AT_ONCE, words - start))
                    await writer.drain()
                if fate in ("cut", "stall"):
                    if fate == "stall":
                        await reader.read(1)
                    raise EOFError(fate)
                writer.write(_piece(_end(words)) + _chunk(b"data: [DONE]\n\n") + _chunk(b""))
        finally:
            self.in_flight -= 1


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _usage(words: int) -> dict[str, int]:
    return {"prompt_tokens": INPUT, "completion_tokens": words, "total_tokens": INPUT + words}


def _answer(text: str, words: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": _usage(words)}


def _delta(text: str) -> dict[str, Any]:
    return {"id": "1", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}


def _end(words: int) -> dict[str, Any]:
    return {"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": _usage(words)}


def _whole(status: int, body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    return (
        f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data
    )


def _piece(body: dict[str, Any]) -> bytes:
    return _chunk(b"data: " + json.dumps(body).encode() + b"\n\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class ClientView(msgspec.Struct, frozen=True):
    """What a client got; status 0 where the connection broke before there was one."""

    status: int = 0
    headers: dict[str, str] = {}
    body: bytes = b""
    is_whole: bool = False


def body_of(model: str, who: str, /, *, stream: bool = False, max_tokens: int | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": f"openai/{model}",
        "messages": [{"role": "user", "content": who}],
        "stream": stream,
    }
    return body if max_tokens is None else {**body, "max_tokens": max_tokens}


async def ask(port: int, body: dict[str, Any], key: str, /, *, id: str = "", words: int | None = None) -> ClientView:
    """One request on a connection of its own; a client that is told so leaves after some words."""
    data = json.dumps(body).encode()
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: x", "connection: close", "content-type: application/json"]
    lines += [f"authorization: Bearer {key}", f"content-length: {len(data)}", f"x-request-id: {id}"]
    got = b""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return ClientView()
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode() + data)
        while piece := await reader.read(65536):
            got += piece
            if words is not None and got.count(WORD.encode()) >= words:
                break
    except OSError:
        return _client_view(got)
    finally:
        writer.close()
    return _client_view(got)


def _client_view(data: bytes) -> ClientView:
    head, _, body = data.partition(b"\r\n\r\n")
    if not _:
        return ClientView()
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    whole = (
        body.endswith(b"0\r\n\r\n") if "content-length" not in headers else len(body) == int(headers["content-length"])
    )
    return ClientView(int(first.split()[1]), headers, body, whole)


def together(calls: list[Callable[[], Coroutine[Any, Any, ClientView]]]) -> list[ClientView]:
    """All at once."""

    async def all_of_them() -> list[ClientView]:
        async with asyncio.timeout(4 * PATIENCE):
            return await asyncio.gather(*(call() for call in calls))

    return asyncio.run(all_of_them())
