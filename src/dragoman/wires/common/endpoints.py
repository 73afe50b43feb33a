"""What a client half can ask besides generation: model lists, token counts, embeddings and rankings.

The decoders here read the responses of all wires: they look for each value under all the names that protocols use.
"""

import struct
from collections.abc import Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from dragoman.errors import InvalidRequest, Malformed, Unsupported
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import (
    Embeddings,
    JsonObject,
    ModelInfo,
    RankedDocument,
    Ranking,
    Request,
    Usage,
    is_list,
    is_object,
)
from dragoman.types.data_urls import decode_base64
from dragoman.types.embedding import EmbeddingOptions
from dragoman.wires.common.embedding_forms import FORMS, EmbeddingForm, encode_embedding_options
from dragoman.wires.common.http import get_request, post_request
from dragoman.wires.common.json import decode_json, objects, whole_number, without_none
from dragoman.wires.common.notices import NoticeCollector

_ANY = msgspec.json.Decoder()
Embeddable: TypeAlias = str | Sequence[int]
"""A text, or its tokens."""


class Endpoints:
    """The endpoints of a wire; those that it does not override raise `Unsupported`.

    `models` is the path of the list of models, if it is the same for all targets of the wire.

    >>> from dragoman import wires
    >>> target = Target(provider="p", model="m", wire="ollama", base_url="http://x")
    >>> wires.get("ollama").endpoints.encode_models(target).path
    '/api/tags'
    """

    def __init__(self, models: str | None = None) -> None:
        self._models = models

    def embedding_form(self, _target: Target, /) -> EmbeddingForm:
        """The form of a target's requests for embeddings."""
        return FORMS[None]

    def batch_size(self, target: Target, /) -> int:
        """How many texts one request to a target may contain."""
        return self.embedding_form(target).max_texts

    def encode_models(self, target: Target, /) -> HttpRequest:
        """The request for the list of models."""
        if self._models is None:
            raise Unsupported(f"{target.provider}: listing models is not supported")
        return get_request(target, self._models)

    def decode_models(self, body: bytes, /) -> tuple[ModelInfo, ...]:
        """The models of a response."""
        return tuple(_model(item) for item in _items(decode_json(_ANY, body)))

    def next_page(self, http: HttpRequest, body: bytes, /) -> HttpRequest | None:
        """The request for the next page of a list of models; None after the last.

        >>> http = HttpRequest(method="GET", path="/v1/models?limit=2")
        >>> Endpoints().next_page(http, b'{"data": [], "has_more": true, "last_id": "m2"}').path
        '/v1/models?limit=2&after_id=m2'
        """
        data = decode_json(_ANY, body)
        if not is_object(data):
            return None
        name, token = (
            ("after_id", data.get("last_id")) if data.get("has_more") else ("pageToken", data.get("nextPageToken"))
        )
        if not token or not isinstance(token, str):
            return None
        path, _, query = http.path.partition("?")
        others = [pair for pair in query.split("&") if pair and not pair.startswith(f"{name}=")]
        return msgspec.structs.replace(http, path=f"{path}?{'&'.join([*others, f'{name}={quote(token)}'])}")

    counts_tokens = False
    """Whether the protocol has a request that counts tokens."""

    def encode_tokens(self, _request: Request, target: Target, /) -> HttpRequest:
        """The request that counts the tokens of `request`."""
        raise Unsupported(f"{target.provider}: counting tokens is not supported")

    def decode_tokens(self, body: bytes, /) -> int:
        """The number of tokens of a response."""
        data = decode_json(_ANY, body)
        count = _first_number(data, ("input_tokens", "totalTokens")) if is_object(data) else None
        if count is None:
            raise Malformed("the response has no number of tokens")
        return count

    def encode_embeddings(
        self, _texts: Sequence[Embeddable], _options: EmbeddingOptions, target: Target, /
    ) -> HttpRequest:
        """The request for embeddings."""
        raise Unsupported(f"{target.provider}: embeddings are not supported")

    def encode_rerank(self, _query: str, _documents: Sequence[str], _top: int | None, target: Target, /) -> HttpRequest:
        """The request that ranks documents; `_top` is how many of them the client wants."""
        raise Unsupported(f"{target.provider}: ranking documents is not supported")

    def decode_rerank(self, body: bytes, /) -> Ranking:
        """The documents of a response, the most relevant first."""
        data = decode_json(_ANY, body)
        listed = (data.get("results") or data.get("data")) if is_object(data) else data
        documents = [_ranked(item) for item in listed] if is_list(listed) else []
        if not documents:
            raise Malformed("the response has no ranking")
        usage = _usage(data) if is_object(data) else Usage(source="unknown")
        return Ranking(documents=tuple(sorted(documents, key=lambda each: -each.score)), usage=usage)

    def decode_embeddings(self, body: bytes, target: Target | None = None, /) -> Embeddings:
        """The vectors of a response, in the order of the texts."""
        data = decode_json(_ANY, body)
        vectors = _vectors(data, "f" if target is None else self.embedding_form(target).number)
        if not vectors:
            raise Malformed("the response has no embeddings")
        return Embeddings(vectors=vectors, usage=_usage(data))


class OpenAIEndpoints(Endpoints):
    """The endpoints of OpenAI and of the many servers that imitate it.

    >>> OpenAIEndpoints().encode_models(Target(provider="p", model="m", wire="w", base_url="http://x/v1")).url
    'http://x/v1/models'
    """

    def encode_models(self, target: Target, /) -> HttpRequest:
        hosting = target.hosting
        if hosting is None:
            return get_request(target, "/models")
        if not hosting.lists_models:
            return super().encode_models(target)
        _, separator, query = hosting.path.partition("?")
        return get_request(target, f"/models{separator}{query}")

    def embedding_form(self, target: Target, /) -> EmbeddingForm:
        """The form that the target's quirk names; OpenAI's own if it names one of another wire."""
        return FORMS.get(target.quirks.embeddings, FORMS[None])

    def encode_embeddings(
        self, texts: Sequence[Embeddable], options: EmbeddingOptions, target: Target, /
    ) -> HttpRequest:
        """POST /embeddings, or the path of the target's own form."""
        form, notices = self.embedding_form(target), NoticeCollector(target.wire)
        body: JsonObject = {
            "model": target.model,
            form.texts: [*texts] if form.takes_tokens else require_texts(texts, target),
            **encode_embedding_options(options, form, target, notices),
        }
        http = post_request(target, form.path, body, notices)
        return msgspec.structs.replace(http, path=form.path) if form.is_at_host else http

    def encode_rerank(self, query: str, documents: Sequence[str], top: int | None, target: Target, /) -> HttpRequest:
        """The request that Cohere, Jina, vLLM and others share."""
        if target.quirks.rerank is None:
            return super().encode_rerank(query, documents, top, target)
        kind, path = target.quirks.rerank_form, target.quirks.rerank
        if kind == "texts":
            body: JsonObject = {"query": query, "texts": [*documents]}
        else:
            body = {"model": target.model, "query": query, "documents": [*documents]}
            body |= without_none({kind or "top_n": top})
        http = post_request(target, path, body, NoticeCollector(target.wire))
        return msgspec.structs.replace(http, path=path) if target.quirks.rerank_at_host else http


def require_texts(texts: Sequence[Embeddable], target: Target, /) -> list[str]:
    """The texts; raises `Unsupported` if one of them is a list of tokens."""
    strings = [text for text in texts if isinstance(text, str)]
    if len(strings) < len(texts):
        raise Unsupported(f"{target.provider}: input must be text, got tokens; send the text", param="input")
    return strings


def _items(data: Any) -> list[JsonObject]:
    """The objects of a list: under one of its names, or a list without an object around it (seen 2026-08)."""
    if is_object(data) and any(name in data for name in _LISTS):
        found: list[Any] = []
        data = next((data[name] for name in _LISTS if data.get(name)), found)
    if not is_list(data):
        raise Malformed("the response has no list of models")
    return objects(data)


_LISTS = ("data", "models", "publisherModels")
_NAMES = ("display_name", "displayName")
_WINDOWS = (
    "context_length",
    "context_window",
    "max_context_length",
    "inputTokenLimit",
    "max_input_tokens",
    "max_model_len",
    "n_ctx",
    "n_ctx_train",
)
_OUTPUTS = ("max_output_tokens", "outputTokenLimit", "max_completion_tokens", "max_tokens")


def _model(item: JsonObject) -> ModelInfo:
    meta = item.get("meta")  # where llama.cpp puts its fields (seen 2026-08)
    item = {**meta, **item} if is_object(meta) else item
    id = item.get("id") or item.get("model") or item.get("name") or ""
    return ModelInfo(
        id=str(id).removeprefix("publishers/google/").removeprefix("models/"),
        name=next((item[key] for key in _NAMES if isinstance(item.get(key), str)), None),
        created=whole_number(item.get("created")),
        context_window=_first_number(item, _WINDOWS),
        max_output=_first_number(item, _OUTPUTS),
    )


def _first_number(item: JsonObject, keys: tuple[str, ...]) -> int | None:
    return next((number for key in keys if (number := whole_number(item.get(key)))), None)


def _vectors(data: Any, number: str) -> tuple[tuple[float, ...], ...]:
    if not is_object(data):
        return ()
    listed = data.get("data") or data.get("embeddings") or data.get("predictions")
    if listed is None and "embedding" in data:
        listed = [data]
    if is_object(listed):
        listed = listed.get("float")
    if not is_list(listed):
        return ()
    if all(is_object(item) and whole_number(item.get("index")) is not None for item in listed):
        listed = sorted(listed, key=lambda item: int(item["index"]))
    return tuple(_vector(item, number) for item in listed)


def _vector(item: Any, number: str) -> tuple[float, ...]:
    """A vector; in base64, `number` is the code of its numbers in `struct`."""
    vector = item
    while is_object(vector):
        vector = vector.get("embedding") or vector.get("values") or vector.get("embeddings")
    if isinstance(vector, str):
        data = _bytes(vector)
        size = struct.calcsize(number)
        return struct.unpack(f"<{len(data) // size}{number}", data[: len(data) // size * size])
    try:
        return msgspec.convert(vector, tuple[float, ...])
    except msgspec.ValidationError as error:
        raise Malformed("an embedding must be a list of numbers") from error


def _ranked(item: Any) -> RankedDocument:
    score = _member(item, "relevance_score")
    score = _member(item, "score") if score is None else score
    index = whole_number(_member(item, "index"))
    if index is None or index < 0 or isinstance(score, bool) or not isinstance(score, int | float):
        raise Malformed("a ranked document must have an index and a score")
    return RankedDocument(index=index, score=float(score))


def _bytes(text: str) -> bytes:
    try:
        return decode_base64(text)
    except InvalidRequest as error:
        raise Malformed("an embedding must be base64 or a list of numbers") from error


_COUNTS = (
    "prompt_tokens",
    "input_tokens",
    "prompt_eval_count",
    "total_tokens",
    "promptTokenCount",
    "inputTextTokenCount",
)


def _usage(data: JsonObject) -> Usage:
    usage = data.get("usage")
    meta = data.get("meta")
    billed = (meta.get("tokens") or meta.get("billed_units")) if is_object(meta) else None
    counts = next((item for item in (usage, billed, data.get("usageMetadata")) if is_object(item)), data)
    count = _first_number(counts, _COUNTS)
    if count is None and is_list(predictions := data.get("predictions")):
        # Vertex AI counts each text by itself.
        statistics = [_member(_member(item, "embeddings"), "statistics") for item in predictions]
        known = [number for item in statistics if (number := whole_number(_member(item, "token_count"))) is not None]
        count = sum(known) if len(known) == len(predictions) else None
    return Usage(input=count) if count is not None else Usage(source="unknown")


def _member(value: Any, name: str) -> Any:
    return value.get(name) if is_object(value) else None
