"""Models, embeddings, and counted tokens of the Responses API."""

import msgspec

from dragoman.extras import OpenAILike, with_body
from dragoman.http import HttpRequest
from dragoman.target import Target
from dragoman.types import Request
from dragoman.wires.openai_responses.request import encode_request

_COUNTED = frozenset(
    "model input instructions tools tool_choice parallel_tool_calls reasoning text truncation conversation "
    "previous_response_id".split()
)


class _Extras(OpenAILike):
    def encode_tokens(self, request: Request, target: Target, /) -> HttpRequest:
        """POST /responses/input_tokens, with what counts."""
        http = encode_request(msgspec.structs.replace(request, stream=False), target)
        body = msgspec.json.decode(http.body, type=dict[str, object])
        return with_body(http, "/input_tokens", {key: value for key, value in body.items() if key in _COUNTED})


EXTRAS = _Extras()
