"""The server half of the Interactions API: decodes requests, encodes whole answers and errors."""

from math import inf
from typing import Any, cast, get_args

from dragoman.errors import DragomanError
from dragoman.http import HttpRequest, HttpResponse
from dragoman.schema.adapt import adapt
from dragoman.types import Effort, JsonObject, Part, Request, Response, is_list, is_object
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.extra import request_extra
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.request_body import (
    check_bounds,
    decode_items,
    make_request,
    read_body,
    read_fields,
    require_fields,
)
from dragoman.wires.common.server_endpoints import Route, error_response
from dragoman.wires.google_interactions.messages import decode_input
from dragoman.wires.google_interactions.parts import decode_tool
from dragoman.wires.google_interactions.previous_interaction import echoed_fields
from dragoman.wires.google_interactions.schema import (
    LEVELS,
    NAME,
    SCHEMA_DIALECT,
    TOOL_CHOICE_FROM_WIRE,
    TOOL_CHOICE_TO_WIRE,
    InteractionConfig,
    InteractionRequest,
)
from dragoman.wires.google_interactions.stream_encoder import (
    InteractionsStreamEncoder,
    can_encode,
    encode_answer,
    encode_error,
)

PREFIXES = ("/v1beta", "/v1", "/v1beta1/projects/{project}/locations/{location}")
"""The beginnings of the paths: of the Gemini API, of the SDK for another host, and of Vertex AI."""
BOUNDS = (
    ("temperature", "generation_config.temperature", 0, 2),
    ("top_p", "generation_config.top_p", 0, 1),
    ("max_tokens", "generation_config.max_output_tokens", 1, inf),
)
"""The ranges that Google accepts."""
_EFFORTS = frozenset(get_args(Effort))


class InteractionsServer:
    """Serves `POST /v1beta/interactions`."""

    has_citations = True
    routes = tuple(Route(method="POST", path=f"{prefix}/interactions") for prefix in PREFIXES)

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        body, rest = read_body(InteractionRequest, http, ("tools",))
        extra = without_none(rest)
        config, other_config = read_fields(InteractionConfig, body.generation_config or {}, "generation_config")
        own_config, verbatim = without_none(other_config), cast("JsonObject", {})
        reasoning, choice = _take_reasoning(own_config, verbatim), _take_tool_choice(own_config, verbatim)
        schema = _take_schema(extra, covered := cast("JsonObject", {}))
        # Members of one object must not be in two places, because the first would be lost.
        if own_config:
            extra["generation_config"] = {**verbatim, **own_config}
        elif verbatim:
            covered["generation_config"] = verbatim
        agent = extra.get("agent")
        model = body.model or (agent if isinstance(agent, str) else "")
        tools = tuple(decode_items(body.tools, decode_tool, "tools"))
        return model.removeprefix("models/"), make_request(
            BOUNDS,
            messages=decode_input(body.input),
            system=body.system_instruction or None,
            tools=tools,
            tool_choice=choice,
            schema=schema,
            temperature=config.temperature,
            top_p=config.top_p,
            max_tokens=config.max_output_tokens,
            stop=tuple(config.stop_sequences or ()),
            seed=config.seed,
            service_tier=body.service_tier or None,
            reasoning=reasoning,
            stream=bool(body.stream),
            extra=request_extra(NAME, extra, covered),
        )

    def check(self, model: str, request: Request, /) -> None:
        require_fields({"model": model, "input": request.messages})
        check_bounds(request, BOUNDS)

    def encode_body(self, response: Response, request: Request | None = None, /) -> HttpResponse:
        return HttpResponse(body=encode_json({**encode_answer(response), **echoed_fields(request)}))

    def supports_part(self, part: Part, /) -> bool:
        return can_encode(part)

    def encode_error(self, error: DragomanError, /) -> HttpResponse:
        return error_response(error, encode_error(error))

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        return InteractionsStreamEncoder(request)


def _take_reasoning(config: JsonObject, verbatim: JsonObject) -> Effort | None:
    """Take the level out of the config; what the client half would encode otherwise goes to `verbatim`."""
    level, summaries = config.get("thinking_level"), config.get("thinking_summaries")
    if not isinstance(level, str) or level.lower() not in _EFFORTS:
        return None
    effort = cast("Effort", level.lower())
    if summaries not in (None, "auto", "none"):
        return effort
    fields = without_none({"thinking_level": config.pop("thinking_level"), "thinking_summaries": summaries})
    config.pop("thinking_summaries", None)
    if fields != {"thinking_level": LEVELS[effort], "thinking_summaries": "auto"}:
        verbatim |= fields
    return effort


def _take_tool_choice(config: JsonObject, verbatim: JsonObject) -> str | None:
    """Take the tool choice out of the config; a mode that is more than ours goes to `verbatim`."""
    choice = config.get("tool_choice")
    match choice:
        case str():
            word = TOOL_CHOICE_FROM_WIRE.get(choice)
            if word is not None:
                del config["tool_choice"]
                if TOOL_CHOICE_TO_WIRE[word] != choice:
                    verbatim["tool_choice"] = choice
            return word
        case {"allowed_tools": {"mode": "any", "tools": [str(name)]}}:
            del config["tool_choice"]
            return name
        case _:
            return None


def _take_schema(extra: JsonObject, covered: JsonObject) -> JsonObject | None:
    """Take the schema of the answer out of the body; other formats stay there.

    Older versions of the API had the schema itself as the format, with `response_mime_type`.
    """
    format, mime = extra.get("response_format"), extra.get("response_mime_type")
    entry = format[0] if is_list(format) and len(format) == 1 else format
    if not is_object(entry):
        if entry is None and mime == "application/json":
            covered["response_mime_type"] = extra.pop("response_mime_type")
            return {}
        return None
    inner: Any = entry.get("schema", {}) if entry.get("mime_type") == "application/json" else None
    is_entry = entry.get("type") == "text" and entry.keys() <= {"type", "mime_type", "schema"} and is_object(inner)
    schema: JsonObject = inner if is_entry else entry
    if not is_entry and (mime != "application/json" or "mime_type" in entry):
        return None
    del extra["response_format"]
    is_plain = is_entry and format is entry and mime is None
    if not is_plain or (schema and adapt(schema, SCHEMA_DIALECT, where="response_format.schema")[1]):
        covered["response_format"] = format
    if mime is not None:
        covered["response_mime_type"] = extra.pop("response_mime_type")
    return schema
