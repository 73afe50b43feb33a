"""What a wire can be asked beside generation, in; HTTP requests, and what their answers tell, out."""

import struct
from collections.abc import Sequence
from importlib import import_module
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from dragoman.errors import Malformed, Unsupported
from dragoman.http import HttpRequest, split_base_url
from dragoman.target import Target
from dragoman.types import (
    Embeddings,
    JsonObject,
    ModelInfo,
    Request,
    Usage,
    decode_base64,
    is_list,
    is_object,
)
from dragoman.wire import Notes, decode_json, http_request, whole_number, without_none

_ANY = msgspec.json.Decoder()
Embeddable: TypeAlias = str | Sequence[int]
"""A text, or the ids of its tokens."""


class Extras:
    """The small operations of a wire; what it does not have is refused.

    >>> extras_of("ollama").encode_models(Target(provider="p", model="m", wire="ollama", base_url="http://x")).path
    '/api/tags'
    """

    most_texts: int = 2048
    """How many texts one request may have."""

    def encode_models(self, target: Target, /) -> HttpRequest:
        """The question which models there are."""
        raise Unsupported(f"{target.provider}: lists no models")

    def decode_models(self, body: bytes, /) -> tuple[ModelInfo, ...]:
        """The models of an answer."""
        return tuple(_model(item) for item in _items(decode_json(_ANY, body)))

    def next_page(self, http: HttpRequest, body: bytes, /) -> HttpRequest | None:
        """The question for what a list of models goes on with; None at its end.

        >>> http = HttpRequest(method="GET", path="/v1/models?limit=2")
        >>> Extras().next_page(http, b'{"data": [], "has_more": true, "last_id": "m2"}').path
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
        place, _, query = http.path.partition("?")
        kept = [pair for pair in query.split("&") if pair and not pair.startswith(f"{name}=")]
        return msgspec.structs.replace(http, path=f"{place}?{'&'.join([*kept, f'{name}={quote(token)}'])}")

    def encode_tokens(self, _request: Request, target: Target, /) -> HttpRequest:
        """The question how many tokens a request has."""
        raise Unsupported(f"{target.provider}: counts no tokens")

    def decode_tokens(self, body: bytes, /) -> int:
        """The number of an answer."""
        data = decode_json(_ANY, body)
        count = _first_number(data, ("input_tokens", "totalTokens")) if is_object(data) else None
        if count is None:
            raise Malformed("the answer has no number of tokens")
        return count

    def encode_embeddings(
        self, _texts: Sequence[Embeddable], _dimensions: int | None, target: Target, /
    ) -> HttpRequest:
        """The question for the vectors of some texts."""
        raise Unsupported(f"{target.provider}: makes no embeddings")

    def decode_embeddings(self, body: bytes, /) -> Embeddings:
        """The vectors of an answer, in the order of the texts."""
        data = decode_json(_ANY, body)
        found = _vectors(data)
        if not found:
            raise Malformed("the answer has no embeddings")
        return Embeddings(vectors=found, usage=_usage(data))


class OpenAILike(Extras):
    """As OpenAI has them, and the many servers that speak like it.

    >>> OpenAILike().encode_models(Target(provider="p", model="m", wire="w", base_url="http://x/v1")).url
    'http://x/v1/models'
    """

    def encode_models(self, target: Target, /) -> HttpRequest:
        """GET /models."""
        return http_get(target, "/models")

    def encode_embeddings(self, texts: Sequence[Embeddable], dimensions: int | None, target: Target, /) -> HttpRequest:
        """POST /embeddings; or /embed, where the target speaks as Cohere does."""
        body: JsonObject = {"model": target.model}
        if target.quirks.embeddings == "texts":
            body |= {"texts": words_of(texts, target), "input_type": "search_document", "embedding_types": ["float"]}
            path, size = "/embed", "output_dimension"
        else:
            body |= {"input": list(texts)}
            path, size = "/embeddings", target.quirks.embeddings or "dimensions"
        return http_request(target, path, {**body, **without_none({size: dimensions})}, Notes(target.wire))


def extras_of(wire: str, /) -> Extras:
    """The small operations of a wire.

    >>> extras_of("openai_chat").most_texts
    2048
    """
    extras: Extras = import_module(f"dragoman.wires.{wire}.extras").EXTRAS
    return extras


def words_of(texts: Sequence[Embeddable], target: Target, /) -> list[str]:
    """The texts, for a target that takes no tokens.

    >>> words_of(["ships"], Target(provider="p", model="m", wire="w", base_url="http://x"))
    ['ships']
    """
    words = [text for text in texts if isinstance(text, str)]
    if len(words) < len(texts):
        error = Unsupported(f"{target.provider}: it takes texts only, no tokens")
        error.param = "input"
        raise error
    return words


def http_get(target: Target, path: str, /, **headers: str) -> HttpRequest:
    """A GET to a target, with its key and its own headers.

    >>> http_get(Target(provider="p", model="m", wire="w", base_url="https://x/v1"), "/models").method
    'GET'
    """
    origin, prefix = split_base_url(target.base_url)
    return HttpRequest(
        method="GET",
        origin=origin,
        path=prefix + path,
        headers={**headers, **target.auth_headers(), **target.headers},
        secret=target.api_key,
    )


def with_body(http: HttpRequest, path: str, body: JsonObject, /) -> HttpRequest:
    """The same request with another end of its path, and another body.

    >>> with_body(HttpRequest(method="POST", path="/v1/messages"), "/count", {}).path
    '/v1/messages/count'
    """
    return msgspec.structs.replace(http, path=http.path + path, body=msgspec.json.encode(body))


def _items(data: Any) -> list[JsonObject]:
    """The listed objects: under `data` or `models`, or a bare list, as some servers send it (seen 2026-08)."""
    listed = data if is_list(data) else (data.get("data") or data.get("models") or []) if is_object(data) else None
    if not is_list(listed):
        raise Malformed("the answer lists no models")
    return [item for item in listed if is_object(item)]


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
    meta = item.get("meta")  # llama.cpp's own corner (seen 2026-08)
    item = {**meta, **item} if is_object(meta) else item
    id = item.get("id") or item.get("model") or item.get("name") or ""
    return ModelInfo(
        id=str(id).removeprefix("models/"),
        name=next((item[key] for key in _NAMES if isinstance(item.get(key), str)), None),
        created=whole_number(item.get("created")),
        context_window=_first_number(item, _WINDOWS),
        max_output=_first_number(item, _OUTPUTS),
    )


def _first_number(item: JsonObject, keys: tuple[str, ...]) -> int | None:
    return next((number for key in keys if (number := whole_number(item.get(key)))), None)


def _vectors(data: Any) -> tuple[tuple[float, ...], ...]:
    if not is_object(data):
        return ()
    listed = data.get("data") or data.get("embeddings")
    if is_object(listed):
        listed = listed.get("float")
    if not is_list(listed):
        return ()
    if all(is_object(item) and whole_number(item.get("index")) is not None for item in listed):
        listed = sorted(listed, key=lambda item: int(item["index"]))
    return tuple(_vector(item) for item in listed)


def _vector(item: Any) -> tuple[float, ...]:
    found = (item.get("embedding") or item.get("values")) if is_object(item) else item
    if isinstance(found, str):
        data = decode_base64(found)
        return struct.unpack(f"<{len(data) // 4}f", data[: len(data) // 4 * 4])
    if not is_list(found):
        raise Malformed("an embedding is no list of numbers")
    return tuple(float(number) for number in found)


def _usage(data: JsonObject) -> Usage:
    told = data.get("usage")
    meta = data.get("meta")
    billed = meta.get("billed_units") if is_object(meta) else None
    counts = told if is_object(told) else billed if is_object(billed) else data
    count = _first_number(counts, ("prompt_tokens", "input_tokens", "prompt_eval_count", "total_tokens"))
    return Usage(input=count) if count is not None else Usage(source="unknown")
