"""A small question to one target in, its answer out: models, tokens, embeddings. A plan."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from dragoman import wires
from dragoman.engine.attempt import MAX_BODY
from dragoman.engine.effects import HttpResponse, Now, Plan, Random, Send, Sleep
from dragoman.engine.failover import ChainOptions, judge
from dragoman.engine.preparing import check_key, left, named, prepared
from dragoman.errors import DragomanError, InvalidRequest, Malformed, Unsupported
from dragoman.http import HttpRequest
from dragoman.media import has_result_media
from dragoman.targets.target import Target
from dragoman.types import Embeddings, ModelInfo, Request, Usage, is_object
from dragoman.wires.common.endpoints import Embeddable, Endpoints
from dragoman.wires.common.json import DECODE_ERRORS

T = TypeVar("T")
MAX_PAGES = 100
"""How many pages of a list are read: a server may say for ever that there are more."""


def list_models(target: Target, options: ChainOptions, /) -> Plan[tuple[ModelInfo, ...]]:
    """Which models the target's provider has, page by page."""
    extras = wires.get(target.wire).endpoints
    found: list[ModelInfo] = []
    http: HttpRequest | None = extras.encode_models(target)
    ends = yield from _deadline(options)
    for _ in range(MAX_PAGES):
        if http is None:
            break
        page = http
        models, http = yield from _ask(partial(replace, page), partial(_page, extras, page), target, options, ends)
        found += models
        if not models or http == page:
            break
    return tuple({model.id: model for model in found}.values())


def _page(extras: Endpoints, http: HttpRequest, body: bytes) -> tuple[tuple[ModelInfo, ...], HttpRequest | None]:
    return extras.decode_models(body), extras.next_page(http, body)


def count_tokens(request: Request, target: Target, options: ChainOptions, /) -> Plan[int]:
    """How many tokens the request has, as the provider counts them."""
    extras = wires.get(target.wire).endpoints
    ends = yield from _deadline(options)
    ask = partial(prepared, request, target, ends, fetch_images=options.fetch_images, encode=extras.encode_tokens)
    try:
        http = yield from ask()
    except Unsupported:
        if not has_result_media(request):
            raise
        http = yield from ask(spare=True)
    return (yield from _ask(lambda: http, extras.decode_tokens, target, options, ends))


def embed(
    texts: Sequence[Embeddable], dimensions: int | None, target: Target, options: ChainOptions, /
) -> Plan[Embeddings]:
    """The vectors of some texts, in as many requests as it takes."""
    if not texts:
        raise InvalidRequest("there are no texts to embed")
    extras = wires.get(target.wire).endpoints
    ends = yield from _deadline(options)
    vectors: list[tuple[float, ...]] = []
    used: list[int | None] = []
    for start in range(0, len(texts), extras.max_texts):
        some = texts[start : start + extras.max_texts]

        def encode(some: Sequence[Embeddable] = some) -> HttpRequest:
            return extras.encode_embeddings(some, dimensions, target)

        found = yield from _ask(encode, extras.decode_embeddings, target, options, ends)
        if len(found.vectors) != len(some):
            raise Malformed(f"{target.name}: {len(some)} texts were sent, and {len(found.vectors)} vectors came")
        vectors += found.vectors
        used.append(found.usage.input)
    known = [count for count in used if count is not None]
    usage = Usage(input=sum(known)) if len(known) == len(used) else Usage(source="unknown")
    return Embeddings(vectors=tuple(vectors), usage=usage, target=target.name)


def _deadline(options: ChainOptions) -> Plan[float | None]:
    now: float = yield Now()
    total = options.timeouts.total
    return None if total is None else now + total


def _ask(
    encode: Callable[[], HttpRequest],
    decode: Callable[[bytes], T],
    target: Target,
    options: ChainOptions,
    ends: float | None,
) -> Plan[T]:
    """Send, and read what came; transient faults are tried again."""
    tries = 0
    while True:
        try:
            return (yield from _once(encode, decode, target, options, ends))
        except DragomanError as error:
            named(error, target)
            verdict = yield from judge(error, options)
            if not verdict.retry or tries >= options.retries:
                raise
            dice: float = yield Random()
            wait = dice * min(options.backoff_cap, options.backoff * 2**tries)
            wait = wait if error.retry_after is None else error.retry_after
            now: float = yield Now()
            if wait > options.max_retry_after_with_fallback or (ends is not None and now + wait >= ends):
                raise
            tries += 1
            yield Sleep(wait)


def _once(
    encode: Callable[[], HttpRequest],
    decode: Callable[[bytes], T],
    target: Target,
    options: ChainOptions,
    ends: float | None,
) -> Plan[T]:
    http = encode()
    check_key(target)
    now: float = yield Now()
    reply: HttpResponse = yield Send(http, left(ends, now), options.timeouts.connect, MAX_BODY, target.http_client)
    if reply.head.status >= 300:
        raise named(wires.get(target.wire).client.decode_error(reply.head, reply.body), target, http)
    try:
        return decode(reply.body)
    except Malformed as error:
        raise (_refusal(reply, target) or error) from error.__cause__


def _refusal(reply: HttpResponse, target: Target) -> DragomanError | None:
    """The error that a server said inside of a 200."""
    try:
        data = msgspec.json.decode(reply.body)
    except DECODE_ERRORS:
        return None
    is_told = is_object(data) and any(data.get(key) for key in ("error", "errors", "detail"))
    return wires.get(target.wire).client.decode_error(reply.head, reply.body) if is_told else None
