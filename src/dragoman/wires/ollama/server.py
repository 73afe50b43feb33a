"""The server half of Ollama's `/api/chat`: decodes requests, encodes whole answers and errors."""

from typing import Any

from dragoman.errors import DragomanError
from dragoman.http import HttpRequest, HttpResponse
from dragoman.schema.adapt import adapt
from dragoman.types import Effort, JsonObject, Part, Request, Response
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.extra import request_extra
from dragoman.wires.common.history import as_system
from dragoman.wires.common.item_cache import plain_items
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.request_body import (
    decode_items,
    invalid_field,
    make_request,
    missing_field,
    read_body,
    read_fields,
)
from dragoman.wires.common.server_endpoints import Route, error_response
from dragoman.wires.ollama.context import context_size
from dragoman.wires.ollama.messages import decode_message, link_messages, split_schema
from dragoman.wires.ollama.parts import decode_tool, has_field
from dragoman.wires.ollama.schema import FORMAT_DIALECT, NAME, THINK, OllamaChatRequest, OllamaOptions
from dragoman.wires.ollama.stream_encoder import OllamaStreamEncoder, encode_answer, encode_error


def _message_field(message: JsonObject) -> JsonObject:
    return {"message": message}


class OllamaServer:
    """Serves `/api/chat`."""

    has_citations = False
    routes = (Route(method="POST", path="/api/chat"),)
    _content_fields = staticmethod(_message_field)

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        body, rest = read_body(OllamaChatRequest, http, ("messages", "tools"))
        system, messages = link_messages(decode_items(body.messages, decode_message, "messages"))
        system, prompt_schema = split_schema(system)
        format_schema = _decode_format(body.format)
        verbatim: JsonObject = {}
        # The client half would drop or change these, so they are also kept as the client sent them.
        if format_schema is not None and (body.tools or adapt(format_schema, FORMAT_DIALECT, where="format")[1]):
            verbatim["format"] = body.format
        if isinstance(body.think, str):
            verbatim["think"] = body.think
        options, other_options = _decode_options(body)
        if other_options:
            rest["options"] = other_options
        return body.model, make_request(
            (),
            messages=messages,
            system=as_system(system),
            tools=tuple(decode_items(body.tools, decode_tool, "tools")),
            schema=format_schema if prompt_schema is None else prompt_schema,
            **options,
            logprobs=body.logprobs,
            top_logprobs=body.top_logprobs,
            reasoning=_decode_think(body),
            # Unlike in other dialects, absent means streamed.
            stream=body.stream is not False,
            extra=request_extra(NAME, rest, verbatim),
        )

    def check(self, model: str, _: Request, /) -> None:
        """Reject a request without a model; one without messages loads the model."""
        if not model:
            raise missing_field("model")

    def encode_body(self, response: Response, _: Request | None = None, /) -> HttpResponse:
        return HttpResponse(body=encode_json(encode_answer(response, self._content_fields)))

    def supports_part(self, part: Part, /) -> bool:
        return has_field(part)

    def encode_error(self, error: DragomanError, /) -> HttpResponse:
        return error_response(error, encode_error(error))

    def stream_encoder(self, _: Request, /) -> StreamEncoder:
        return OllamaStreamEncoder(self._content_fields)


def _decode_format(format: str | JsonObject | None) -> JsonObject | None:
    if format is None or format == "":
        return None
    if isinstance(format, str) and format != "json":
        raise invalid_field("format", f"must be 'json' or a JSON Schema, got {format!r}")
    return {} if isinstance(format, str) else format


def _decode_think(body: OllamaChatRequest) -> Effort | None:
    if body.think is None:
        return None
    if body.think not in THINK:
        raise invalid_field("think", f"must be true, false, low, medium, high or max, got {body.think!r}")
    return THINK[body.think]


def _decode_options(body: OllamaChatRequest) -> tuple[dict[str, Any], JsonObject]:
    """The options as fields of Request, and the others; a `num_ctx` that the client half would add is left out."""
    options, rest = read_fields(OllamaOptions, body.options or {}, "body.options")
    limit = options.num_predict
    if limit is not None and limit < 0:
        # -1 means until the end, -2 until the context is full.
        rest["num_predict"], limit = limit, None
    if "num_ctx" in rest and rest["num_ctx"] == context_size(
        plain_items(body.messages or []), plain_items(body.tools or []), limit, None
    ):
        del rest["num_ctx"]
    fields = {
        "temperature": options.temperature,
        "top_p": options.top_p,
        "top_k": options.top_k,
        "seed": options.seed,
        "max_tokens": limit,
        "frequency_penalty": options.frequency_penalty,
        "presence_penalty": options.presence_penalty,
        "stop": (options.stop,) if isinstance(options.stop, str) else tuple(options.stop or ()),
    }
    return fields, rest
