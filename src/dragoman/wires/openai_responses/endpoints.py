"""Models, embeddings and token counts of the Responses API."""

import msgspec

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Request
from dragoman.wires.common.endpoints import OpenAIEndpoints
from dragoman.wires.common.http import with_body
from dragoman.wires.openai_responses.encoder import encode_request

_COUNTED = frozenset(
    "model input instructions tools tool_choice parallel_tool_calls reasoning text truncation conversation "
    "previous_response_id".split()
)


class _Endpoints(OpenAIEndpoints):
    counts_tokens = True

    def encode_tokens(self, request: Request, target: Target, /) -> HttpRequest:
        """The request POST /responses/input_tokens, with the fields that count."""
        http = encode_request(msgspec.structs.replace(request, stream=False), target)
        body = msgspec.json.decode(http.body, type=dict[str, object])
        return with_body(http, "/input_tokens", {key: value for key, value in body.items() if key in _COUNTED})


ENDPOINTS = _Endpoints()
