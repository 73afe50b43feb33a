"""Bedrock's endpoints besides generation, as a server: token counts."""

from msgspec.structs import replace

from dragoman.http import HttpRequest
from dragoman.types import Request, is_object
from dragoman.wires.bedrock.server import ConverseServer
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.request_body import decode_request_json, invalid_field
from dragoman.wires.common.server_endpoints import Route, count_tokens_endpoint

_COUNT = "/count-tokens"


def _decode_count(http: HttpRequest) -> tuple[str, Request]:
    """Decode a request to count: the body of a call of Converse."""
    body = decode_request_json(http)
    source = body.get("input") if is_object(body) else None
    inner = source.get("converse") if is_object(source) else None
    if not is_object(inner):
        raise invalid_field("input", "must have the member converse; a body of InvokeModel is not supported")
    path = http.path.partition("?")[0].removesuffix(_COUNT) + "/converse"
    return ConverseServer().decode_request(replace(http, path=path, body=encode_json(inner)))


SERVER_ENDPOINTS = (
    count_tokens_endpoint(
        Route(method="POST", path=f"/model/{{model}}{_COUNT}"), _decode_count, lambda count: {"inputTokens": count}
    ),
)
