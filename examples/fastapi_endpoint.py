"""An endpoint that streams an answer as server-sent events: `pip install fastapi uvicorn`.

`uvicorn --app-dir examples fastapi_endpoint:app`, then `curl -N 'localhost:8000/answer?question=Is+it+so'`. Run as a
program, it asks itself one question.
"""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import dragoman

app = FastAPI()
model = dragoman.model("demo/any")


async def answer(question: str) -> AsyncIterator[str]:
    """The answer as events. If the client disconnects, the stream is closed."""
    try:
        async with model.astream(question) as stream:
            async for text in stream.text_deltas():
                yield "".join(f"data: {line}\n" for line in text.split("\n")) + "\n"
        yield "event: end\ndata:\n\n"
    except dragoman.DragomanError as error:
        yield f"event: error\ndata: {type(error).__name__}\n\n"


@app.get("/answer")
async def get_answer(question: str) -> StreamingResponse:
    return StreamingResponse(answer(question), media_type="text/event-stream")


def main() -> None:
    """Call the endpoint as a server does."""
    incoming: list[dict[str, Any]] = [{"type": "http.request"}]
    body: list[bytes] = []

    async def receive() -> dict[str, Any]:
        if not incoming:
            await asyncio.Event().wait()  # the client stays connected
        return incoming.pop()

    async def send(message: MutableMapping[str, Any]) -> None:
        body.append(message.get("body", b""))

    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/answer",
        "query_string": b"question=Is+it+so",
        "headers": [],
    }
    asyncio.run(app({**scope, "http_version": "1.1", "asgi": {"version": "3.0"}}, receive, send))
    print(b"".join(body).decode())


if __name__ == "__main__":
    main()
