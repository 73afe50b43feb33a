"""The bytes of an Ollama chat in, a Request out; a Response or events in, the bytes of its answer out."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from dragoman.errors import DragomanError
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Started
from dragoman.http import HttpReply, HttpRequest
from dragoman.schema.adapt import adapt
from dragoman.types import (
    Effort,
    Finish,
    Image,
    JsonObject,
    Message,
    Part,
    Request,
    Response,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.errors import context_error_message, error_headers
from dragoman.wires.common.extra import make_extra, request_extra, wire_extra
from dragoman.wires.common.framing import encode_ndjson
from dragoman.wires.common.history import as_system, split_error
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.options import finish_word
from dragoman.wires.common.request_body import decode_request_json, invalid_field, missing_field, read_fields
from dragoman.wires.common.server_endpoints import Route
from dragoman.wires.ollama.context import context_size
from dragoman.wires.ollama.parts import (
    decode_call,
    decode_image,
    decode_tool,
    encode_message,
    is_sayable,
    split_instruction,
)
from dragoman.wires.ollama.schema import (
    FINISH,
    FINISH_WORD,
    FORMAT_DIALECT,
    NAME,
    THINK,
    TOO_LONG,
    ChatRequest,
    MessageShape,
    OptionsShape,
    write_moment,
    write_usage,
)

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def _as_message(said: JsonObject) -> JsonObject:
    return {"message": said}


class Server:
    """They call us."""

    routes = (Route(method="POST", path="/api/chat"),)
    _say = staticmethod(_as_message)

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        """The model's name and the request."""
        shape, rest = read_fields(ChatRequest, decode_request_json(http), "body")
        system, messages = _History().read(shape.messages or [])
        system, schema = _split_schema(system)
        wanted = _decode_format(shape.format)
        covered: JsonObject = {}
        # What our own client half would leave out, or say in other words, goes as the client said it.
        if wanted is not None and (shape.tools or adapt(wanted, FORMAT_DIALECT, where="format")[1]):
            covered["format"] = shape.format
        if isinstance(shape.think, str):
            covered["think"] = shape.think
        options, beside = _decode_options(shape)
        if beside:
            rest["options"] = beside
        return shape.model, Request(
            messages=messages,
            system=as_system(system),
            tools=tuple(decode_tool(tool, f"tools[{i}]") for i, tool in enumerate(shape.tools or ())),
            schema=wanted if schema is None else schema,
            **options,
            reasoning=_decode_think(shape),
            # Absent means a stream here, unlike in other dialects.
            stream=shape.stream is not False,
            extra=request_extra(NAME, rest, covered),
        )

    def check(self, model: str, _: Request, /) -> None:
        """Refuse what can be read, and is no request that servers answer: without messages, a model is loaded."""
        if not model:
            raise missing_field("model")

    def encode_body(self, response: Response, _: Request | None = None, /) -> HttpReply:
        """The whole answer in this dialect."""
        message = _encode_said(response.message.parts)
        head = _head(response.model, response.created)
        last = _last(response.finish, response.usage)
        logprobs = [logprob for part in response.message.parts for logprob in _logprobs(part)]
        more = {"logprobs": logprobs} if logprobs else {}
        return HttpReply(body=encode_json({**head, **self._say(message), **last, **more}))

    def supports_part(self, part: Part, /) -> bool:
        """Whether an answer in this dialect has a place for a part."""
        return is_sayable(part)

    def encode_error(self, error: DragomanError, /) -> HttpReply:
        """The refusal in this dialect."""
        body = encode_json({"error": context_error_message(error, TOO_LONG)})
        return HttpReply(status=error.http_status, headers=error_headers(error), body=body)

    def stream_encoder(self, _: Request, /) -> StreamEncoder:
        """A writer of one streamed answer."""
        return _Writer(self._say)


class _History:
    """Messages to turns. Calls without ids get some, and results without ids find their calls."""

    def __init__(self) -> None:
        self._system: list[Text] = []
        self._turns: list[Message] = []
        self._results: list[ToolResult] = []
        self._names: dict[str, str] = {}
        self._waiting = _Waiting([], [])
        self._count = 0
        self._last_made = 0

    def read(self, messages: list[JsonObject]) -> tuple[list[Text], tuple[Message, ...]]:
        """Leading system messages, and the turns; results that follow each other are one turn."""
        for i, data in enumerate(messages):
            where = f"messages[{i}]"
            shape, rest = read_fields(MessageShape, data, where)
            role = _ROLES.get(shape.role.lower())
            if role is None:
                raise invalid_field(f"{where}.role", f"{shape.role!r} is none of {', '.join(_ROLES)}")
            if role == "tool":
                self._results.append(self._result(shape, rest, where))
                continue
            self._end_results()
            if role == "system" and not self._turns:
                self._system.append(Text(text=shape.content or "", extra=make_extra(NAME, rest)))
            else:
                parts = self._parts(shape, where)
                self._turns.append(Message(role=role, parts=parts, extra=make_extra(NAME, rest)))
        self._end_results()
        return self._system, tuple(self._turns)

    def _end_results(self) -> None:
        if self._results:
            self._turns.append(Message(role="tool", parts=tuple(self._results)))
            self._results.clear()

    def _parts(self, shape: MessageShape, where: str) -> tuple[Part, ...]:
        parts: list[Part] = []
        if shape.thinking:
            parts.append(Thinking(text=shape.thinking, extra={NAME: {}}))
        images = _decode_images(shape, where)
        calls = [decode_call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(shape.tool_calls or ())]
        if shape.content or (shape.content is not None and not (parts or images or calls)):
            parts.append(Text(text=shape.content))
        parts += images
        if calls:
            named = [self._named(call) for call in calls]
            self._waiting = _Waiting(calls, named)
            parts += named
        return tuple(parts)

    def _named(self, call: ToolCall) -> ToolCall:
        self._count += 1
        if not call.id:
            number = max(self._count, self._last_made + 1)
            while f"call_{number}" in self._names:
                number += 1
            self._last_made = number
            call = msgspec.structs.replace(call, id=f"call_{number}")
        self._names[call.id] = call.name
        return call

    def _result(self, shape: MessageShape, rest: JsonObject, where: str) -> ToolResult:
        id = self._waiting.take(shape.tool_call_id or "", shape.tool_name or "")
        text, is_error = split_error(shape.content or "")
        images = _decode_images(shape, where)
        return ToolResult(
            id=id,
            name=self._names.get(id) or shape.tool_name or "",
            content=(Text(text=text), *images) if images else text,
            is_error=is_error,
            extra=make_extra(NAME, rest),
        )


class _Waiting:
    """The calls of one turn that no result has answered, in queues: by id, by name, and all of them."""

    def __init__(self, calls: list[ToolCall], named: list[ToolCall]) -> None:
        self._ids = [call.id for call in named]
        self._answered: set[int] = set()
        self._queues: defaultdict[tuple[str, str], deque[int]] = defaultdict(deque)
        for place, call in enumerate(calls):
            own = [("id", call.id)] if call.id else [("without id", call.name), ("without id", "")]
            for key in (*own, ("any", call.name), ("any", "")):
                self._queues[key].append(place)

    def take(self, id: str, name: str) -> str:
        """The id of the call that a result answers: by its id, else the first of its name (if it has one) that waits.

        An id that no call has may be of a client that made it up for a call without one.
        """
        for key in (("id", id), ("without id", name)) if id else (("any", name),):
            queue = self._queues[key]
            while queue:
                place = queue.popleft()
                if place not in self._answered:
                    self._answered.add(place)
                    return self._ids[place]
        return id


def _decode_images(shape: MessageShape, where: str) -> list[Image]:
    images: list[Image] = []
    for i, text in enumerate(shape.images or ()):
        try:
            images.append(decode_image(text))
        except ValueError as error:
            raise invalid_field(f"{where}.images[{i}]", str(error)) from error
    return images


def _split_schema(system: list[Text]) -> tuple[list[Text], JsonObject | None]:
    """The system prompt without the schema that our own client half says at its end."""
    if not system:
        return system, None
    prompt, schema = split_instruction(system[-1].text)
    last = [] if prompt is None else [Text(text=prompt, extra=system[-1].extra)]
    return [*system[:-1], *last], schema


def _decode_format(format: str | JsonObject | None) -> JsonObject | None:
    if format is None or format == "":
        return None
    if isinstance(format, str) and format != "json":
        raise invalid_field("format", f"expected 'json' or a JSON Schema, got {format!r}")
    return {} if isinstance(format, str) else format


def _decode_think(shape: ChatRequest) -> Effort | None:
    if shape.think is None:
        return None
    if shape.think not in THINK:
        raise invalid_field("think", f"expected true, false, low, medium, high or max, got {shape.think!r}")
    return THINK[shape.think]


def _decode_options(shape: ChatRequest) -> tuple[dict[str, Any], JsonObject]:
    """The options that we have a word for, and the rest; without a `num_ctx` that our own client half would say."""
    known, rest = read_fields(OptionsShape, shape.options or {}, "body.options")
    limit = known.num_predict
    if limit is not None and limit < 0:
        # -1 is until the end, -2 until the context is full: no numbers of tokens.
        rest["num_predict"], limit = limit, None
    if "num_ctx" in rest and rest["num_ctx"] == context_size(shape.messages or [], shape.tools or [], limit, None):
        del rest["num_ctx"]
    options = {
        "temperature": known.temperature,
        "top_p": known.top_p,
        "top_k": known.top_k,
        "seed": known.seed,
        "max_tokens": limit,
        "stop": (known.stop,) if isinstance(known.stop, str) else tuple(known.stop or ()),
    }
    return options, rest


def _head(model: str | None, created: int | None) -> JsonObject:
    return {"model": model or "", "created_at": write_moment(created)}


def _last(finish: Finish, usage: Usage) -> JsonObject:
    word = None if finish.reason == "other" else finish_word(finish, FINISH, FINISH_WORD)
    return {"done": True, **without_none({"done_reason": word}), **write_usage(usage)}


def _encode_said(parts: Iterable[Part], *, calls_before: int = 0) -> JsonObject:
    """The message that says some parts of an answer; what the dialect has no field for is left out."""
    return encode_message("assistant", filter(is_sayable, parts), "", calls_before=calls_before)


def _logprobs(part: Part) -> list[Any]:
    extra = wire_extra(part.extra, NAME) if isinstance(part, Text | Thinking) else {}
    return extra.get("logprobs") or []


_NOTHING: JsonObject = {"role": "assistant", "content": ""}


class _Writer:
    """Events to lines."""

    content_type = "application/x-ndjson"

    def __init__(self, say: Callable[[JsonObject], JsonObject]) -> None:
        self._say = say
        self._head = _head(None, None)
        self._fields: dict[int, str] = {}
        self._streamed: set[int] = set()
        self._calls = 0

    def feed(self, event: Event | DragomanError, /) -> bytes:
        """The bytes of one event."""
        match event:
            case PartDelta():
                self._streamed.add(event.index)
                return self._line({self._fields[event.index]: event.text})
            case PartStarted():
                self._fields[event.index] = "thinking" if event.kind == "thinking" else "content"
                return b""
            case PartEnded():
                return self._ended(event)
            case Started():
                self._head = _head(event.model, event.created)
                return b""
            case Finished():
                return self._line({}, **_last(event.finish, event.usage))
            case DragomanError():
                return encode_ndjson(encode_json({"error": context_error_message(event, TOO_LONG)}))
            case _:
                # A ping. Readers take every line for JSON, so there is none that says nothing.
                return b""

    def _line(self, said: JsonObject, **more: Any) -> bytes:
        message = {**_NOTHING, **said}
        return encode_ndjson(encode_json({**self._head, **self._say(message), "done": False, **more}))

    def _ended(self, event: PartEnded) -> bytes:
        """What of a part was not said while it came."""
        late = [] if event.index in self._streamed else [event.part]
        said = _encode_said(late, calls_before=self._calls)
        self._calls += len(said.get("tool_calls", ()))
        logprobs = _logprobs(event.part)
        more = {"logprobs": logprobs} if logprobs else {}
        return self._line(said, **more) if more or said != _NOTHING else b""
