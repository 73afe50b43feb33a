"""The transport of the `demo` provider. It answers in process, without a key and without a network.

It speaks Chat Completions with the server half of that wire, so a demo answer takes the same path as a real one.

    demo/any          answers, calls tools, fills schemas, sees images, thinks if the request asks for it
    demo/overloaded   always status 503               demo/ratelimited   status 429 with Retry-After
    demo/slow         30 seconds to the first byte    demo/empty         an empty answer
    demo/cut          breaks off in the middle
"""

import asyncio
import math
import time
from collections.abc import Callable
from operator import mul
from typing import TypeVar

import msgspec

from dragoman import wires
from dragoman.demo import answers
from dragoman.engine.effects import Open, OpenResponse, Send
from dragoman.errors import DragomanError, ModelNotFound, Overloaded, RateLimited, TimedOut
from dragoman.http import Head, HttpRequest, HttpResponse
from dragoman.types import Finish, Opaque, Request, Response, assistant, is_list
from dragoman.types.checks import shown
from dragoman.wires.base import ServerHalf
from dragoman.wires.common.request_body import decode_request_json, invalid_field
from dragoman.wires.common.server_endpoints import json_response

SLOW_SECONDS = 30.0
"""Seconds until the first byte of demo/slow."""
RETRY_AFTER = 20.0
MAX_DIMENSIONS = 4096
LARGE_BODY = 128 * 1024
"""Bytes of a request that is answered in a thread."""
T = TypeVar("T")
E = TypeVar("E", Send, Open)


class DemoTransport:
    """Answers requests to the `demo` provider.

    >>> from dragoman import Registry
    >>> Registry(env={}).model("demo/any").generate("Is it so?").text
    'You said “Is it so?”, which is 3 words.'
    """

    def send(self, effect: Send, /) -> HttpResponse:
        time.sleep(_delay(effect))
        return _respond_http(effect)

    async def asend(self, effect: Send, /) -> HttpResponse:
        await asyncio.sleep(_delay(effect))
        return await _run(_respond_http, effect)

    def open(self, effect: Open, /) -> OpenResponse:
        time.sleep(_delay(effect))
        return _exchange(effect)

    async def aopen(self, effect: Open, /) -> OpenResponse:
        await asyncio.sleep(_delay(effect))
        return await _run(_exchange, effect)

    def close(self) -> None:
        """Do nothing: there is no connection to close."""


async def _run(answer: Callable[[E], T], effect: E) -> T:
    """Answer; a large request in a thread, so that others go on."""
    return answer(effect) if len(effect.request.body) <= LARGE_BODY else await asyncio.to_thread(answer, effect)


class MemoryHandle:
    """A `Handle` that reads chunks from memory."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def read(self, _within: float | None, /) -> bytes:
        return self._chunks.pop(0) if self._chunks else b""

    async def aread(self, within: float | None, /) -> bytes:
        return self.read(within)

    def finish(self) -> None:
        self._chunks.clear()

    async def afinish(self) -> None:
        self.finish()

    def close(self) -> None:
        self.finish()

    async def aclose(self) -> None:
        self.finish()


def _delay(effect: Send | Open) -> float:
    """Return the seconds to wait before the answer; not more than the time limit of the request."""
    return min(SLOW_SECONDS, _limit(effect)) if _model_of(effect.request) == "slow" else 0.0


def _check_time(effect: Send | Open) -> None:
    if _limit(effect) <= SLOW_SECONDS and _model_of(effect.request) == "slow":
        raise TimedOut("no response in time")


def _limit(effect: Send | Open) -> float:
    """Seconds until the first byte must have come."""
    limits = (effect.total_timeout, effect.head_timeout)
    return min((limit for limit in limits if limit is not None), default=math.inf)


def _model_of(request: HttpRequest) -> str:
    return str(decode_request_json(request).get("model", "")) if b'"slow"' in request.body else ""


def _respond_http(effect: Send) -> HttpResponse:
    _check_time(effect)
    return _route(effect.request)


def _exchange(effect: Open) -> OpenResponse:
    _check_time(effect)
    server = _server(effect.request)
    try:
        model, request = server.decode_request(effect.request)
        response = _respond(model, request)
    except DragomanError as error:
        whole = server.encode_error(error)
        return OpenResponse(whole, MemoryHandle([whole.body]))
    encoder = server.stream_encoder(request)
    chunks = [chunk for event in answers.stream_events(response) if (chunk := encoder.feed(event))]
    if model == "cut":
        chunks = chunks[: max(2, len(chunks) // 2)]
    return OpenResponse(Head(status=200, headers={"content-type": encoder.content_type}), MemoryHandle(chunks))


def _server(http: HttpRequest) -> ServerHalf:
    """The server half for a path: of a chat, or of a text to continue."""
    wire = wires.get("openai_chat")
    is_chat = http.path.endswith("/chat/completions") or not http.path.endswith("/completions")
    return wire.server if is_chat else wire.other_servers[0]


def _route(http: HttpRequest) -> HttpResponse:
    server = _server(http)
    if http.path.endswith("/models"):
        models = [{"id": name, "object": "model", "owned_by": "demo"} for name in BEHAVIOURS]
        return json_response({"object": "list", "data": models})
    try:
        if http.path.endswith("/embeddings"):
            return _embeddings(http)
        if http.path.endswith("/rerank"):
            return _rerank(http)
        model, request = server.decode_request(http)
        whole = server.encode_body(_respond(model, request), request)
    except DragomanError as error:
        return server.encode_error(error)
    return msgspec.structs.replace(whole, body=whole.body[: len(whole.body) // 2]) if model == "cut" else whole


def _embeddings(http: HttpRequest) -> HttpResponse:
    body = decode_request_json(http)
    texts = body.get("input")
    inputs = [str(text) for text in texts] if is_list(texts) else [str(texts)]
    size = body.get("dimensions", 32)
    if not isinstance(size, int) or not 1 <= size <= MAX_DIMENSIONS:
        raise invalid_field("dimensions", f"must be a whole number from 1 to {MAX_DIMENSIONS}, got {shown(size)}")
    vectors = [answers.embed(text, size=size) for text in inputs]
    tokens = sum(map(answers.count_tokens, inputs))
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    usage = {"prompt_tokens": tokens}
    return json_response({"object": "list", "data": data, "model": body.get("model"), "usage": usage})


def _rerank(http: HttpRequest) -> HttpResponse:
    body = decode_request_json(http)
    query, documents = str(body.get("query")), body.get("documents")
    texts = [str(text) for text in documents] if is_list(documents) else []
    query_vector = answers.embed(query, size=256)
    scores = [sum(map(mul, query_vector, answers.embed(text, size=256))) for text in texts]
    results = [{"index": index, "relevance_score": score} for index, score in enumerate(scores)]
    tokens = sum(map(answers.count_tokens, (query, *texts)))
    return json_response({"model": body.get("model"), "results": results, "usage": {"prompt_tokens": tokens}})


def _respond(model: str, request: Request) -> Response:
    if model not in BEHAVIOURS:
        raise ModelNotFound(f"the demo has no model {model!r}; the models are {', '.join(BEHAVIOURS)}")
    _check_parts(request)
    return BEHAVIOURS[model](request, model)


def _check_parts(request: Request) -> None:
    """Refuse what the demo would not look at: a real server refuses what it does not know, too."""
    if request.raw and len(request.messages) > 1:
        raise invalid_field("prompt", "must be one text: the demo continues one at a time")
    for message in request.messages:
        for part in message.parts if message.role == "user" else ():
            if isinstance(part, Opaque):
                raise invalid_field(
                    "messages", f"must have no {part.data.get('type', 'tokens')}: the demo cannot read it"
                )


def _overloaded(_request: Request, _model: str) -> Response:
    raise Overloaded("the demo is overloaded on purpose", code="overloaded_error")


def _rate_limited(_request: Request, _model: str) -> Response:
    raise RateLimited("the demo is rate limited on purpose", code="rate_limit_exceeded", retry_after=RETRY_AFTER)


def _empty(_request: Request, model: str) -> Response:
    return Response(model=model, message=assistant(), finish=Finish(reason="stop"))


BEHAVIOURS: dict[str, Callable[[Request, str], Response]] = {
    "any": answers.answer,
    "overloaded": _overloaded,
    "slow": answers.answer,
    "empty": _empty,
    "cut": answers.answer,
    "ratelimited": _rate_limited,
}
