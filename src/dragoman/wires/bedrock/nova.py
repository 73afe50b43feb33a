"""Nova's own body, which InvokeModel takes: that of Converse, but fields of the model are at its top level."""

import msgspec

from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import Finish, JsonObject, Request, Response, Usage, is_object
from dragoman.wires.base import StreamEncoder
from dragoman.wires.bedrock.schema import MODEL_FIELDS, OLD_COUNTS, ConverseRequest, NovaConfig
from dragoman.wires.bedrock.server import ConverseServer
from dragoman.wires.bedrock.stream_encoder import ConverseStreamEncoder, encode_answer, encode_end
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.request_body import decode_request_json, read_fields

SCHEMA_VERSION = "messages-v1"
"""The version of Nova's body that is spoken, and meant if the body has none."""
_OLD_NAMES = {"max_new_tokens": "maxTokens", "top_p": "topP", "top_k": "topK"}
_CONVERSE = frozenset(ConverseRequest.__struct_encode_fields__)


class NovaServer(ConverseServer):
    """Decodes Nova's body, and answers as Nova does."""

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        native = decode_request_json(http)
        body = {name: value for name, value in native.items() if name in _CONVERSE}
        config, top_k = body.get("inferenceConfig"), None
        if is_object(config):
            named = {_OLD_NAMES.get(name, name): value for name, value in config.items()}
            own, body["inferenceConfig"] = read_fields(NovaConfig, named, "inferenceConfig")
            top_k = own.top_k
        fields = {name: value for name, value in native.items() if name not in _CONVERSE}
        if fields.get("schemaVersion") == SCHEMA_VERSION:
            del fields["schemaVersion"]
        if fields:
            body[MODEL_FIELDS] = fields
        model, request = super().decode_request(msgspec.structs.replace(http, body=encode_json(body)))
        return model, request if top_k is None else msgspec.structs.replace(request, top_k=top_k)

    def encode_body(self, response: Response, _: Request | None = None, /) -> HttpResponse:
        return HttpResponse(body=encode_json(encode_answer(response, _encode_end)))

    def stream_encoder(self, _: Request, /) -> StreamEncoder:
        return ConverseStreamEncoder(_encode_end)


def _encode_end(finish: Finish, usage: Usage, tier: str | None) -> tuple[JsonObject, JsonObject]:
    """The end of an answer: without metrics, and with the older names of counts."""
    stop, metadata = encode_end(finish, usage, tier)
    counts = {OLD_COUNTS.get(name, name): count for name, count in metadata["usage"].items()}
    return stop, {**{name: value for name, value in metadata.items() if name != "metrics"}, "usage": counts}
