"""Ollama's `/api/generate`: a chat of one turn with other field names, or a text that the model continues.

The server half takes `prompt` and `system` in place of the messages, and answers with `response` in place of a message.
The client half uses it only for what `/api/chat` cannot do: `raw`, `suffix`, and the fields `template` and `context`.
"""

import msgspec

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Image, JsonObject, Part, Request, Text, Thinking
from dragoman.wires.common.completions import read_prompts
from dragoman.wires.common.extra import full_extra
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.request_body import decode_request_json, read_fields
from dragoman.wires.common.server_endpoints import Route
from dragoman.wires.ollama.encoder import encode_chat
from dragoman.wires.ollama.schema import GENERATE_FIELDS, NAME, OllamaGenerateRequest
from dragoman.wires.ollama.server import OllamaServer


def encode_request(request: Request, target: Target) -> HttpRequest:
    """The HTTP request for a target: of `/api/chat`, unless a field needs `/api/generate`."""
    http = encode_chat(request, target)
    if not request.extra or full_extra(request, NAME).keys().isdisjoint(GENERATE_FIELDS) or not _is_one_turn(request):
        return http
    return _as_generate(http)


def encode_completion(request: Request, target: Target) -> HttpRequest | None:
    """The request that continues a text, or fills a gap; None if the prompts are several, or tokens."""
    prompts = read_prompts(request)
    if len(prompts) > 1 or not isinstance(prompts[0], str):
        return None
    # A gap has a template of its own, so it is not raw.
    fields: JsonObject = {"raw": True} if request.suffix is None else {"suffix": request.suffix}
    return _as_generate(encode_chat(msgspec.structs.replace(request, raw=None, suffix=None), target), **fields)


def _is_one_turn(request: Request) -> bool:
    turn = request.messages[0] if len(request.messages) == 1 else None
    return turn is not None and turn.role == "user" and all(isinstance(part, Text | Image) for part in turn.parts)


def _as_generate(http: HttpRequest, **fields: object) -> HttpRequest:
    """A request of `/api/chat` with one turn, in the form of `/api/generate`."""
    body: JsonObject = msgspec.json.decode(http.body)
    for message in body.pop("messages"):
        if message["role"] == "system":
            body["system"] = message["content"]
        else:
            body |= {"prompt": message["content"], **without_none({"images": message.get("images")})}
    path = http.path.removesuffix("/api/chat") + "/api/generate"
    return msgspec.structs.replace(http, path=path, body=encode_json({**body, **fields}))


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
        rest = {name: value for name, value in rest.items() if value or name not in GENERATE_FIELDS}
        body = encode_json({**rest, "messages": messages})
        model, request = super().decode_request(msgspec.structs.replace(http, body=body))
        if not messages:
            return model, request
        return model, msgspec.structs.replace(request, raw=fields.raw or None, suffix=fields.suffix or None)

    def supports_part(self, part: Part, /) -> bool:
        return isinstance(part, Text | Thinking)
