"""Models and embeddings as OpenAI's clients ask for them."""

import struct

from dragoman.http import HttpRequest
from dragoman.serving import Embed, embeds, lists_models, shows_model
from dragoman.types import Embeddings, JsonObject, ModelInfo, encode_base64
from dragoman.wire import Route, decode_request_json, invalid, read_shape
from dragoman.wires.openai_chat.shapes import EmbeddingsRequest


def _encode_model(model: ModelInfo) -> JsonObject:
    owner = model.id.partition("/")[0] if "/" in model.id else "dragoman"
    return {"id": model.id, "object": "model", "created": model.created or 0, "owned_by": owner}


def _encode_models(models: tuple[ModelInfo, ...]) -> JsonObject:
    return {"object": "list", "data": [_encode_model(model) for model in models]}


def _decode_embed(http: HttpRequest) -> Embed:
    shape, _ = read_shape(EmbeddingsRequest, decode_request_json(http), "body")
    texts = (shape.input,) if isinstance(shape.input, str) else tuple(shape.input)
    if not texts:
        raise invalid("input", "there are no texts to embed")
    return Embed(shape.model, texts, shape.dimensions, packed=shape.encoding_format == "base64")


def _encode_embeddings(asked: Embed, found: Embeddings) -> JsonObject:
    tokens = found.usage.input or 0
    vectors = [_pack(vector) if asked.packed else list(vector) for vector in found.vectors]
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)],
        "model": asked.model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _pack(vector: tuple[float, ...]) -> str:
    return encode_base64(struct.pack(f"<{len(vector)}f", *vector))


SERVICES = (
    lists_models(Route(method="GET", path="/v1/models"), _encode_models),
    shows_model(Route(method="GET", path="/v1/models/{model}"), _encode_model),
    embeds(Route(method="POST", path="/v1/embeddings"), _decode_embed, _encode_embeddings),
)
