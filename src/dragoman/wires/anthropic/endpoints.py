"""Anthropic's endpoints besides generation, as a client: models and token counts."""

import msgspec

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Request
from dragoman.wires.anthropic.encoder import encode_request
from dragoman.wires.anthropic.schema import VERSION
from dragoman.wires.common.endpoints import Endpoints
from dragoman.wires.common.http import get_request, with_body

_COUNTED = frozenset("model messages system tools tool_choice thinking output_config cache_control mcp_servers".split())


class _Endpoints(Endpoints):
    def encode_models(self, target: Target, /) -> HttpRequest:
        headers = {"anthropic-version": target.quirks.api_version or VERSION}
        return get_request(target, "/models?limit=1000", **headers)

    def encode_tokens(self, request: Request, target: Target, /) -> HttpRequest:
        http = encode_request(msgspec.structs.replace(request, stream=False), target)
        body = msgspec.json.decode(http.body, type=dict[str, object])
        return with_body(http, "/count_tokens", {key: value for key, value in body.items() if key in _COUNTED})


ENDPOINTS = _Endpoints()
