"""The bytes of an Ollama generate in, a Request out; a Response or events in, the bytes of its answer out.

It is a chat of one turn under other names: `prompt` and `system` in place of messages, `response` for what is said.
"""

import msgspec

from dragoman.http import HttpRequest
from dragoman.types import JsonObject, Part, Request, Text, Thinking
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.request_body import decode_request_json, read_fields
from dragoman.wires.common.server_endpoints import Route
from dragoman.wires.ollama.schema import GenerateRequest
from dragoman.wires.ollama.server import Server


def _as_response(said: JsonObject) -> JsonObject:
    """What is said, beside the rest of the line; a call has no field here."""
    return without_none({"response": said["content"], "thinking": said.get("thinking")})


class Generate(Server):
    """They call us, for one turn."""

    routes = (Route(method="POST", path="/api/generate"),)
    _say = staticmethod(_as_response)

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        """The model's name and the request."""
        shape, rest = read_fields(GenerateRequest, decode_request_json(http), "body")
        turn = without_none({"role": "user", "content": shape.prompt, "images": shape.images})
        system = [{"role": "system", "content": shape.system}] if shape.system else []
        # Without a prompt the model is loaded, whatever it is to be told.
        messages = [*system, turn] if shape.prompt or shape.images else []
        body = encode_json({**rest, "messages": messages})
        return super().decode_request(msgspec.structs.replace(http, body=body))

    def supports_part(self, part: Part, /) -> bool:
        """Whether an answer in this dialect has a place for a part."""
        return isinstance(part, Text | Thinking)
