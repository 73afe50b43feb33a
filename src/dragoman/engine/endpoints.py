"""Calls of a provider's other endpoints: list models, count tokens, embed, rank. They use one target, no failover."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from dragoman import wires
from dragoman.engine.attempt import annotate_errors, check_key, encode_with_media, sign_and_send
from dragoman.engine.call_context import CallContext
from dragoman.engine.effects import Now, Plan, Random, Send, Sleep
from dragoman.engine.error_policy import error_policy
from dragoman.engine.exchange import MAX_BODY, add_provider_headers, name_limit, time_left
from dragoman.engine.failover import ChainOptions
from dragoman.engine.structured_output import choose_output_form
from dragoman.errors import DragomanError, InvalidRequest, Malformed, ProviderError, TimedOut, Unsupported
from dragoman.http import HttpRequest, HttpResponse
from dragoman.media import has_result_media
from dragoman.targets.estimates import prompt_tokens
from dragoman.targets.target import Target
from dragoman.types import Embeddings, JsonObject, ModelInfo, Notice, Ranking, Request, TokenCount, Usage, is_object
from dragoman.types.embedding import EmbeddingOptions
from dragoman.wires.base import ClientHalf
from dragoman.wires.common.client_half import check_capabilities
from dragoman.wires.common.endpoints import Embeddable
from dragoman.wires.common.header_counts import counts_in_headers
from dragoman.wires.common.json import DECODE_ERRORS, encode_json

T = TypeVar("T")
MAX_PAGES = 100
"""Pages of a list that are read: a server may say for ever that there are more."""


def list_models(target: Target, options: ChainOptions, /) -> Plan[tuple[ModelInfo, ...]]:
    """The models of the target's provider."""
    endpoints = wires.get(target.wire).endpoints
    models: list[ModelInfo] = []
    http: HttpRequest | None = endpoints.encode_models(target)
    deadline = yield from endpoint_deadline(options)
    for _ in range(MAX_PAGES):
        if http is None:
            break
        page = http

        def encode(page: HttpRequest = page) -> HttpRequest:
            return page

        def decode(body: bytes, page: HttpRequest = page) -> tuple[tuple[ModelInfo, ...], HttpRequest | None]:
            return endpoints.decode_models(body), endpoints.next_page(page, body)

        new, http = yield from send_endpoint(encode, decode, target, options, deadline)
        models += new
        if not new or http == page:
            break
    return tuple({model.id: model for model in models}.values())


def count_tokens(request: Request, target: Target, options: ChainOptions, /) -> Plan[int]:
    """The number of tokens of a request, as the provider counts them."""
    endpoints = wires.get(target.wire).endpoints
    deadline = yield from endpoint_deadline(options)
    call = CallContext(deadline=deadline, fetch_images=options.fetch_images)
    with annotate_errors(target):
        check_key(target)
        check_capabilities(request, target)
        planned = choose_output_form(request, target).request
        try:
            http = yield from encode_with_media(planned, target, call, endpoints.encode_tokens)
        except Unsupported:
            if not has_result_media(request):
                raise
            call = replace(call, degrade_tool_media=True)
            http = yield from encode_with_media(planned, target, call, endpoints.encode_tokens)
    return (yield from send_endpoint(lambda: http, endpoints.decode_tokens, target, options, deadline))


def count_or_estimate(request: Request, target: Target, options: ChainOptions, /) -> Plan[TokenCount]:
    """The number of tokens of a request, or an estimate if the provider has no endpoint that counts them."""
    if wires.get(target.wire).endpoints.counts_tokens:
        try:
            return TokenCount((yield from count_tokens(request, target, options)))
        except ProviderError as error:
            if error.status not in _NO_SUCH_PATH or error.code is not None or "model" in error.message.lower():
                raise
    return TokenCount(prompt_tokens(request), is_estimate=True)


_NO_SUCH_PATH = (404, 405, 501)
"""Statuses of a server that does not know the path."""


def embed(
    texts: Sequence[Embeddable], embedding_options: EmbeddingOptions, target: Target, options: ChainOptions, /
) -> Plan[Embeddings]:
    """The vectors of some texts, in as many requests as the provider needs."""
    if not texts:
        raise InvalidRequest("texts must have at least one text, got none", param="texts")
    endpoints = wires.get(target.wire).endpoints
    deadline = yield from endpoint_deadline(options)
    vectors: list[tuple[float, ...]] = []
    counts: list[int | None] = []
    notices: dict[Notice, None] = {}
    size = endpoints.batch_size(target)
    for start in range(0, len(texts), size):
        batch = texts[start : start + size]

        def encode(batch: Sequence[Embeddable] = batch) -> HttpRequest:
            http = endpoints.encode_embeddings(batch, embedding_options, target)
            notices.update(dict.fromkeys(http.notices))
            return http

        embeddings = yield from send_endpoint(
            encode, lambda body: endpoints.decode_embeddings(body, target), target, options, deadline
        )
        if len(embeddings.vectors) != len(batch):
            raise Malformed(f"{target.name}: got {len(embeddings.vectors)} vectors for {len(batch)} texts")
        vectors += embeddings.vectors
        counts.append(embeddings.usage.input)
    known = [count for count in counts if count is not None]
    usage = Usage(input=sum(known)) if len(known) == len(counts) else Usage(source="unknown")
    return Embeddings(vectors=tuple(vectors), usage=usage, target=target.name, notices=tuple(notices))


def rerank(
    query: str,
    documents: Sequence[str],
    top: int | None,
    target: Target,
    options: ChainOptions,
    wire_fields: JsonObject | None = None,
    /,
) -> Plan[Ranking]:
    """The documents in the order of their relevance for a query. `wire_fields`: only the target's wire has them."""
    if not documents:
        raise InvalidRequest("documents must have at least one text, got none", param="documents")
    endpoints = wires.get(target.wire).endpoints
    deadline = yield from endpoint_deadline(options)

    def encode() -> HttpRequest:
        http = endpoints.encode_rerank(query, documents, top, target)
        if wire_fields:
            return replace(http, body=encode_json({**msgspec.json.decode(http.body), **wire_fields}))
        return http

    ranking = yield from send_endpoint(encode, endpoints.decode_rerank, target, options, deadline)
    if any(document.index >= len(documents) for document in ranking.documents):
        raise Malformed(f"{target.name}: the ranking has an index beyond the {len(documents)} documents")
    # Some servers ignore the number.
    return replace(ranking, documents=ranking.documents[:top], target=target.name)


def endpoint_deadline(options: ChainOptions, /) -> Plan[float | None]:
    """When a call of an endpoint must have ended."""
    now: float = yield Now()
    total = options.timeouts.total
    return None if total is None else now + total


def send_endpoint(
    encode: Callable[[], HttpRequest],
    decode: Callable[[bytes], T],
    target: Target,
    options: ChainOptions,
    deadline: float | None,
    /,
) -> Plan[T]:
    """Send one request and decode its answer; retry after errors that may pass."""
    retries = 0
    while True:
        try:
            return (yield from _send_once(encode, decode, target, options, deadline))
        except DragomanError as error:
            policy = yield from error_policy(error, options)
            if not policy.retry or retries >= options.retries:
                raise
            number: float = yield Random()
            wait = number * min(options.backoff_cap, options.backoff * 2**retries)
            wait = wait if error.retry_after is None else error.retry_after
            now: float = yield Now()
            if wait > options.max_retry_after_with_fallback or (deadline is not None and now + wait >= deadline):
                raise
            retries += 1
            yield Sleep(wait)


def _send_once(
    encode: Callable[[], HttpRequest],
    decode: Callable[[bytes], T],
    target: Target,
    options: ChainOptions,
    deadline: float | None,
) -> Plan[T]:
    with annotate_errors(target):
        http = encode()
        check_key(target)
    client = wires.get(target.wire).client

    def send(http: HttpRequest) -> Plan[T]:
        now: float = yield Now()
        timeout, connect = time_left(deadline, now), options.timeouts.connect
        try:
            http_response: HttpResponse = yield Send(
                http,
                timeout,
                connect,
                limit=MAX_BODY,
                head_timeout=options.timeouts.first_event,
                transport=target.http_client,
            )
        except TimedOut as error:
            yield from name_limit(error, CallContext(timeouts=options.timeouts, deadline=deadline), now)
            raise
        try:
            return _decode(http_response, decode, client)
        except DragomanError as error:
            add_provider_headers(error, http_response)
            raise

    return (yield from sign_and_send(http, target, deadline, send))


def _decode(http_response: HttpResponse, decode: Callable[[bytes], T], client: ClientHalf) -> T:
    if http_response.status >= 300:
        raise client.decode_error(http_response, http_response.body)
    try:
        return _with_counts(decode(http_response.body), http_response)
    except Malformed as error:
        if _has_error(http_response.body):
            raise client.decode_error(http_response, http_response.body) from error.__cause__
        raise


def _with_counts(result: T, head: HttpResponse) -> T:
    """The result, with the counts of tokens in the headers if its body has none."""
    if isinstance(result, Embeddings | Ranking) and result.usage.source == "unknown":
        return replace(result, usage=counts_in_headers(head))
    return result


def _has_error(body: bytes) -> bool:
    """Whether the body of a 200 is an error."""
    try:
        data = msgspec.json.decode(body)
    except DECODE_ERRORS:
        return False
    return is_object(data) and any(data.get(key) for key in ("error", "errors", "detail"))
