"""Bedrock's endpoints besides generation, as a client: token counts. Models are listed by another service of AWS."""

import msgspec

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Request
from dragoman.wires.bedrock.encoder import encode_request
from dragoman.wires.common.endpoints import Endpoints

_COUNTED = frozenset({"messages", "system", "toolConfig", "additionalModelRequestFields"})


class _Endpoints(Endpoints):
    counts_tokens = True

    def encode_tokens(self, request: Request, target: Target, /) -> HttpRequest:
        http = encode_request(msgspec.structs.replace(request, stream=False), target)
        body = msgspec.json.decode(http.body, type=dict[str, object])
        counted = {"input": {"converse": {key: value for key, value in body.items() if key in _COUNTED}}}
        path = http.path.removesuffix("/converse") + "/count-tokens"
        return msgspec.structs.replace(http, path=path, body=msgspec.json.encode(counted))

    def decode_tokens(self, body: bytes, /) -> int:
        return super().decode_tokens(body.replace(b'"inputTokens"', b'"input_tokens"'))


ENDPOINTS = _Endpoints()
