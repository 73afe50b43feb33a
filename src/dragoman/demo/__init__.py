"""A request in, an answer out, without any network: the provider that needs nothing, so that everything can be tried.

It speaks Chat Completions by that wire's own server half, so what it says walks the same way as any provider's answer.

    demo/any          answers, calls tools, fills schemas, sees images, thinks when asked to
    demo/overloaded   503, always                     demo/ratelimited   429 with Retry-After
    demo/slow         half a minute to the first byte demo/empty         an answer with nothing in it
    demo/cut          breaks off in the middle
"""

import asyncio
import time
from collections.abc import Callable

import msgspec

from dragoman import wires
from dragoman.demo import replies as answers
from dragoman.engine.effects import Exchange, HttpResponse, Open, Send
from dragoman.errors import DragomanError, ModelNotFound, Overloaded, RateLimited, TimedOut
from dragoman.http import Head, HttpReply, HttpRequest
from dragoman.types import Finish, Request, Response, assistant, is_list
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.request_body import decode_request_json, invalid_field

SLOW = 30.0
"""Seconds until demo/slow says something."""
RETRY_AFTER = 20.0
MAX_DIMENSIONS = 4096


class Demo:
    """The transport of the demo.

    >>> from dragoman import Registry
    >>> Registry(env={}).model("demo/any").generate("Is it so?").text
    'You said “Is it so?”, which is 3 words.'
    """

    def __repr__(self) -> str:
        """Nothing to tell."""
        return "Demo()"

    def send(self, effect: Send, /) -> HttpResponse:
        """The whole answer."""
        time.sleep(_delay(effect))
        return _reply(effect)

    async def asend(self, effect: Send, /) -> HttpResponse:
        """The whole answer."""
        await asyncio.sleep(_delay(effect))
        return _reply(effect)

    def open(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        time.sleep(_delay(effect))
        return _exchange(effect)

    async def aopen(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        await asyncio.sleep(_delay(effect))
        return _exchange(effect)

    def close(self) -> None:
        """Nothing is held."""


class Pieces:
    """A handle that gives bytes which are there already."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def read(self, _within: float | None, /) -> bytes:
        """The next bytes, b"" at the end."""
        return self._pieces.pop(0) if self._pieces else b""

    async def aread(self, within: float | None, /) -> bytes:
        """The next bytes, b"" at the end."""
        return self.read(within)

    def finish(self) -> None:
        """Nothing is held."""

    async def afinish(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing more is read."""
        self._pieces.clear()

    async def aclose(self) -> None:
        """Nothing more is read."""
        self.close()


def _delay(effect: Send | Open) -> float:
    """Seconds to wait first; no longer than the caller does."""
    if _model_of(effect.request) != "slow":
        return 0.0
    return SLOW if effect.timeout is None else min(SLOW, effect.timeout)


def _check_time(effect: Send | Open) -> None:
    if effect.timeout is not None and effect.timeout <= SLOW and _model_of(effect.request) == "slow":
        raise TimedOut("demo: nothing came in time")


def _model_of(request: HttpRequest) -> str:
    return str(decode_request_json(request).get("model", "")) if request.body else ""


def _reply(effect: Send) -> HttpResponse:
    _check_time(effect)
    reply = _route(effect.request)
    return HttpResponse(Head(status=reply.status, headers=reply.headers), reply.body)


def _exchange(effect: Open) -> Exchange:
    _check_time(effect)
    server = wires.get("openai_chat").server
    try:
        model, request = server.decode_request(effect.request)
        response = _respond(model, request)
    except DragomanError as error:
        reply = server.encode_error(error)
        return Exchange(Head(status=reply.status, headers=reply.headers), Pieces([reply.body]))
    encoder = server.stream_encoder(request)
    chunks = [chunk for event in answers.pieces(response) if (chunk := encoder.feed(event))]
    if model == "cut":
        chunks = chunks[: max(2, len(chunks) // 2)]
    return Exchange(Head(status=200, headers={"content-type": encoder.content_type}), Pieces(chunks))


def _route(http: HttpRequest) -> HttpReply:
    """The answer to a whole request."""
    server = wires.get("openai_chat").server
    if http.path.endswith("/models"):
        listed = [{"id": name, "object": "model", "owned_by": "demo"} for name in BEHAVIOURS]
        return HttpReply(body=encode_json({"object": "list", "data": listed}))
    try:
        if http.path.endswith("/embeddings"):
            return _embeddings(http)
        model, request = server.decode_request(http)
        reply = server.encode_body(_respond(model, request), request)
    except DragomanError as error:
        return server.encode_error(error)
    return msgspec.structs.replace(reply, body=reply.body[: len(reply.body) // 2]) if model == "cut" else reply


def _embeddings(http: HttpRequest) -> HttpReply:
    asked = decode_request_json(http)
    texts = asked.get("input")
    listed = [str(text) for text in texts] if is_list(texts) else [str(texts)]
    size = asked.get("dimensions", 32)
    if not isinstance(size, int) or not 1 <= size <= MAX_DIMENSIONS:
        raise invalid_field("dimensions", f"it must be a whole number from 1 to {MAX_DIMENSIONS}")
    vectors = [answers.embed(text, size=size) for text in listed]
    used = sum(map(answers.count_tokens, listed))
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return HttpReply(
        body=encode_json(
            {"object": "list", "data": data, "model": asked.get("model"), "usage": {"prompt_tokens": used}}
        )
    )


def _respond(model: str, request: Request) -> Response:
    if model not in BEHAVIOURS:
        raise ModelNotFound(f"the demo has no model {model!r}; there are {', '.join(BEHAVIOURS)}")
    return BEHAVIOURS[model](request, model)


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
