"""The server half of Ollama's `/api/generate`: a chat of one turn with other field names.

`prompt` and `system` replace the messages of the request; `response` replaces the message of the answer.
"""

import msgspec

from dragoman.http import HttpRequest
from dragoman.types import JsonObject, Part, Request, Text, Thinking
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.request_body import decode_request_json, read_fields
from dragoman.wires.common.server_endpoints import Route
from dragoman.wires.ollama.schema import OllamaGenerateRequest
from dragoman.wires.ollama.server import OllamaServer


def _response_fields(message: JsonObject) -> JsonObject:
    """The fields of a line; tool calls have none here."""
    return without_none({"response": message["content"], "thinking": message.get("thinking")})


class OllamaGenerateServer(OllamaServer):
    """Serves `/api/generate`."""

    routes = (Route(method="POST", path="/api/generate"),)
    _content_fields = staticmethod(_response_fields)

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        fields, rest = read_fields(OllamaGenerateRequest, decode_request_json(http), "body")
        turn = without_none({"role": "user", "content": fields.prompt, "images": fields.images})
        system = [{"role": "system", "content": fields.system}] if fields.system else []
        # A request without a prompt only loads the model.
        messages = [*system, turn] if fields.prompt or fields.images else []
        body = encode_json({**rest, "messages": messages})
        return super().decode_request(msgspec.structs.replace(http, body=body))

    def supports_part(self, part: Part, /) -> bool:
        return isinstance(part, Text | Thinking)
