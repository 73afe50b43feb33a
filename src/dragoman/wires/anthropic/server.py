"""A Messages call's bytes in, a Request out; a Response or events in, their bytes in this dialect out."""

import re
from math import inf
from typing import Any

import msgspec

from dragoman.errors import DragomanError, Overloaded
from dragoman.http import HttpReply, HttpRequest
from dragoman.types import (
    Effort,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Response,
    Role,
    Text,
    ToolCall,
    is_object,
)
from dragoman.wires.anthropic.parts import decode_block, decode_result, decode_tool
from dragoman.wires.anthropic.schema import (
    CHOICE_OF,
    DEFAULT_EFFORT,
    EFFORT_OF,
    EPHEMERAL,
    NAME,
    OVERLOADED,
    PATH_MODEL,
    AnthropicMessage,
    AnthropicRequest,
)
from dragoman.wires.anthropic.stream_encoder import AnthropicStreamEncoder, encode_failure, encode_message, encode_said
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.errors import error_headers
from dragoman.wires.common.extra import make_extra, request_extra
from dragoman.wires.common.history import as_system
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.request_body import (
    check_bounds,
    decode_request_json,
    invalid_field,
    missing_field,
    read_fields,
)
from dragoman.wires.common.server_endpoints import Route

BOUNDS = (
    ("temperature", "temperature", 0, 1),
    ("top_p", "top_p", 0, 1),
    ("max_tokens", "max_tokens", 0, inf),
    ("top_k", "top_k", 0, inf),
)
"""What Anthropic refuses to go beyond."""


class AnthropicServer:
    """They call us."""

    routes = (Route(method="POST", path="/v1/messages"),)

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        """The model's name and the request."""
        shape, extra = read_fields(AnthropicRequest, decode_request_json(http), "body")
        system, messages = _decode_messages(shape)
        choice, parallel, beside_choice = _decode_choice(shape.tool_choice or {})
        schema, output_config = _decode_format(shape)
        reasoning, thinking, is_whole = _decode_reasoning(shape.thinking or {}, output_config.get("effort"))
        user, metadata = _decode_metadata(shape.metadata or {})
        beside = {
            "betas": _betas(http, shape),
            "tool_choice": beside_choice,
            "output_config": output_config,
            "thinking": thinking,
            "metadata": metadata,
            "cache_control": {} if shape.cache_control == EPHEMERAL else shape.cache_control,
        }
        said = {"output_config": output_config == {"effort": reasoning}, "thinking": is_whole}
        covered = {field: value for field, value in beside.items() if value and said.get(field)}
        extra |= {field: value for field, value in beside.items() if value and not said.get(field)}
        path = re.fullmatch(PATH_MODEL, http.path)
        return shape.model or (path[1] if path else ""), Request(
            messages=messages,
            system=as_system(system),
            tools=tuple(decode_tool(tool, f"tools[{i}]") for i, tool in enumerate(shape.tools or ())),
            tool_choice=choice,
            parallel_tool_calls=parallel,
            schema=schema,
            temperature=shape.temperature,
            top_p=shape.top_p,
            top_k=shape.top_k,
            max_tokens=shape.max_tokens,
            stop=tuple(shape.stop_sequences or ()),
            reasoning=reasoning,
            cache=True if shape.cache_control else None,
            user=user,
            stream=bool(shape.stream or (path and path[2] == "streamRawPredict")),
            extra=request_extra(NAME, extra, covered),
        )

    def check(self, model: str, request: Request, /) -> None:
        """Refuse what can be read, and is no request that servers answer."""
        if not model:
            raise missing_field("model")
        if not request.messages:
            raise missing_field("messages")
        check_bounds(request, BOUNDS)

    def encode_body(self, response: Response, _: Request | None = None, /) -> HttpReply:
        """The whole answer in this dialect."""
        return HttpReply(body=encode_json(encode_message(response)))

    def supports_part(self, part: Part, /) -> bool:
        """Whether an answer in this dialect has a place for a part."""
        return encode_said(part) is not None

    def encode_error(self, error: DragomanError, /) -> HttpReply:
        """The refusal in this dialect."""
        status = OVERLOADED if isinstance(error, Overloaded) else error.http_status
        return HttpReply(status=status, headers=error_headers(error), body=encode_json(encode_failure(error)))

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        """A writer of one streamed answer."""
        del request
        return AnthropicStreamEncoder()


def _decode_messages(shape: AnthropicRequest) -> tuple[list[Text], tuple[Message, ...]]:
    """The system prompt, and the turns: results stand in turns of their own, before the user's words."""
    given = [shape.system] if isinstance(shape.system, str) else shape.system or []
    system = _system_texts(given, "system")
    turns: list[_Turn] = []
    names: dict[str, str] = {}
    for i, data in enumerate(shape.messages):
        where = f"messages[{i}]"
        message, rest = read_fields(AnthropicMessage, data, where)
        blocks = [message.content] if isinstance(message.content, str) else message.content or []
        extra = make_extra(NAME, rest)
        match message.role:
            case "user":
                _add_user(turns, blocks, f"{where}.content", names, extra)
            case "assistant":
                parts = [decode_block(block, f"{where}.content[{j}]") for j, block in enumerate(blocks)]
                names.update((part.id, part.name) for part in parts if isinstance(part, ToolCall))
                turns.append(_Turn(role="assistant", parts=parts, extra=extra))
            case "system" if not all(isinstance(block, str) or block.get("type") == "text" for block in blocks):
                turns.append(_Turn(role="user", parts=[Opaque(wire=NAME, data=data)]))
            case "system" if not turns:
                system += _system_texts(blocks, f"{where}.content")
            case "system":
                turns.append(_Turn(role="system", parts=[*_system_texts(blocks, where)], extra=extra))
            case _:
                raise invalid_field(f"{where}.role", f"{message.role!r} is none of user, assistant, system")
    return system, tuple(Message(role=turn.role, parts=tuple(turn.parts), extra=turn.extra) for turn in turns)


class _Turn(msgspec.Struct):
    """A message that may go on."""

    role: Role
    parts: list[Part]
    extra: dict[str, Any] = {}


def _system_texts(blocks: list[Any], where: str) -> list[Text]:
    texts: list[Text] = []
    for i, block in enumerate(blocks):
        part = decode_block(block, f"{where}[{i}]")
        if not isinstance(part, Text):
            raise invalid_field(f"{where}[{i}]", "a system prompt takes text only")
        texts.append(part)
    return texts


def _add_user(turns: list[_Turn], blocks: list[Any], where: str, names: dict[str, str], extra: dict[str, Any]) -> None:
    results: list[Part] = []
    parts: list[Part] = []
    for i, block in enumerate(blocks):
        if is_object(block) and block.get("type") == "tool_result":
            results.append(decode_result(block, f"{where}[{i}]", names))
        else:
            parts.append(decode_block(block, f"{where}[{i}]"))
    if results:
        if not turns or turns[-1].role != "tool":
            turns.append(_Turn(role="tool", parts=[]))
        turns[-1].parts += results
        turns[-1].extra = {} if parts else extra
    if parts or not results:
        turns.append(_Turn(role="user", parts=parts, extra=extra))


def _betas(http: HttpRequest, shape: AnthropicRequest) -> list[str]:
    headers = [value for name, value in http.headers.items() if name.lower() == "anthropic-beta"]
    words = [word.strip() for value in headers for word in value.split(",")]
    return [*dict.fromkeys(word for word in (*words, *(shape.anthropic_beta or ())) if word)]


def _decode_choice(data: JsonObject) -> tuple[str | None, bool | None, JsonObject]:
    """Whom to call, whether several at once, and the choice as it came where our words do not cover it."""
    kind, name, alone = data.get("type"), data.get("name"), data.get("disable_parallel_tool_use")
    parallel = not alone if isinstance(alone, bool) else None
    choice = name if kind == "tool" and isinstance(name, str) else CHOICE_OF.get(str(kind))
    covered = choice is not None and data.keys() <= {"type", "name", "disable_parallel_tool_use"}
    return choice, parallel, {} if covered else data


def _decode_format(shape: AnthropicRequest) -> tuple[JsonObject | None, JsonObject]:
    """The schema of the answer, and what else stands beside it in `output_config`."""
    config = shape.output_config or {}
    # Until 2026 the format stood alone, as `output_format`.
    format = config.get("format") or shape.output_format or {}
    rest = {key: value for key, value in config.items() if key != "format" and value is not None}
    schema = format.get("schema") if is_object(format) and format.get("type") == "json_schema" else None
    covered = is_object(schema) and format.keys() <= {"type", "schema"}
    if format and not covered:
        rest["format"] = format
    return schema if is_object(schema) else None, rest


def _decode_reasoning(thinking: JsonObject, effort: object) -> tuple[Effort | int | None, JsonObject, bool]:
    """How hard to think, the API's own words to be kept for it, and whether ours say the same."""
    word = EFFORT_OF.get(str(effort))
    rest = {key: value for key, value in thinking.items() if key not in ("type", "budget_tokens")}
    match thinking:
        case {"type": "disabled"}:
            return "none", thinking if effort else rest, not rest
        case {"type": "enabled", "budget_tokens": int(budget)}:
            return budget, thinking if effort else rest, not rest
        case {"type": "adaptive"}:
            return word or DEFAULT_EFFORT, thinking, not rest
        case _:
            return word, thinking, False


def _decode_metadata(metadata: JsonObject) -> tuple[str | None, JsonObject]:
    user = metadata.get("user_id")
    rest = {key: value for key, value in metadata.items() if key != "user_id"}
    return user if isinstance(user, str) else None, rest
