"""Anthropic's endpoints besides generation, as a client: models and token counts."""

import msgspec
from msgspec.structs import replace

from dragoman.errors import Unsupported
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Request
from dragoman.wires.anthropic.encoder import encode_request, version_header
from dragoman.wires.common.endpoints import Endpoints
from dragoman.wires.common.http import get_request, with_body

_COUNTED = frozenset("model messages system tools tool_choice thinking output_config cache_control mcp_servers".split())


class _Endpoints(Endpoints):
    counts_tokens = True

    def encode_models(self, target: Target, /) -> HttpRequest:
        if target.hosting is not None:
            raise Unsupported(f"{target.provider}: listing models is not supported")
        return get_request(target, "/models?limit=1000", **version_header(target))

    def encode_tokens(self, request: Request, target: Target, /) -> HttpRequest:
        hosting = target.hosting
        if hosting is not None and hosting.count_path is None:
            raise Unsupported(f"{target.provider} does not count tokens")
        http = encode_request(replace(request, stream=False), replace(target, hosting=None))
        body = msgspec.json.decode(http.body, type=dict[str, object])
        counted = {key: value for key, value in body.items() if key in _COUNTED}
        if hosting is not None and hosting.count_path is not None:
            path = http.path.removesuffix("/messages") + hosting.count_path
            return with_body(replace(http, path=path), "", {**hosting.fields, **counted})
        return with_body(http, "/count_tokens", counted)


ENDPOINTS = _Endpoints()
