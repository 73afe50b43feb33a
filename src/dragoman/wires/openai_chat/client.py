"""A Request in, the bytes of a Chat Completions call out; its answer's bytes in, events out."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from dragoman.errors import Malformed, ProviderError
from dragoman.events import Assembler, Event
from dragoman.failure import decode_failure, read_failure
from dragoman.framing import BARE, Frame, SseDecoder
from dragoman.history import calls_before, error_text, fit_id, repair, result_media
from dragoman.http import Head, HttpRequest
from dragoman.reasoning import as_effort
from dragoman.schema import is_strict
from dragoman.target import Target
from dragoman.types import (
    Finish,
    Image,
    JsonObject,
    Message,
    Notice,
    Opaque,
    Request,
    Text,
    Thinking,
    Tool,
    ToolResult,
    is_list,
    is_object,
)
from dragoman.wire import (
    ERROR_PREFIX,
    Notes,
    Reader,
    StreamDecoder,
    body_extra,
    decode_frame,
    decode_json,
    encode_json,
    http_request,
    latest_usage,
    truncated,
    wire_extra,
    without_none,
)
from dragoman.wires.openai_chat.parts import (
    decode_part,
    decode_thinking,
    encode_assistant,
    encode_part,
    encode_tool,
    reasoning_fields,
)
from dragoman.wires.openai_chat.shapes import (
    CITATIONS,
    FINISH,
    NAME,
    SAME_CONCEPT,
    Call,
    Choice,
    Chunk,
    Function,
    Said,
    read_usage,
)

_CHUNK = msgspec.json.Decoder(Chunk, strict=False)
_ANY = msgspec.json.Decoder()


class Client:
    """We call them."""

    def encode_request(self, request: Request, target: Target, /) -> HttpRequest:
        """The exact bytes for this target."""
        notes = Notes(NAME, strict=request.strict)
        extra = body_extra(request, target, notes)
        body: JsonObject = {"model": target.model, "messages": _encode_messages(request, target, notes)}
        for encode in (_encode_tools, _encode_schema, _encode_sampling, _encode_reasoning, _encode_rest):
            body.update(encode(request, target, notes))
        for field, others in SAME_CONCEPT.items():
            if any(other in extra for other in others):
                body.pop(field, None)
        if request.stream:
            body["stream"] = True
            options = {"include_usage": True} if target.quirks.stream_usage else {}
            if options := {**extra.pop("stream_options", {}), **options}:
                body["stream_options"] = options
        else:
            extra.pop("stream_options", None)
        return http_request(target, "/chat/completions", {**body, **extra}, notes)

    def decode_body(self, body: bytes, request: Request | None = None, /) -> list[Event]:
        """The events of a whole body."""
        reader = _Reader(request)
        reader.read_body(body, decode_json(_CHUNK, body))
        return reader.out.take()

    def decode_error(self, head: Head, body: bytes, /) -> ProviderError:
        """The typed error of an answer that is no."""
        return decode_failure(head, body)

    def stream_decoder(self, request: Request | None = None, /) -> StreamDecoder:
        """A reader of one streamed answer."""
        reader = _Reader(request)
        return Reader(SseDecoder(), reader.out, reader.read_frame, reader.end)


def _encode_messages(request: Request, target: Target, notes: Notes) -> list[JsonObject]:
    history = repair(request, notes)
    messages: list[JsonObject] = []
    if history.system:
        messages.append({"role": "system", "content": _encode_system(history.system)})
    for turn in history.turns:
        messages.extend(_TURNS[turn.role](turn))
    if target.quirks.call_id:
        _fit_ids(messages, target, notes)
    return messages


def _encode_system(texts: tuple[Text, ...]) -> str | list[JsonObject]:
    if any(NAME in text.extra for text in texts):
        return [encode_part(text) for text in texts]
    return "\n\n".join(text.text for text in texts)


def _encode_user(turn: Message) -> list[JsonObject]:
    parts = turn.parts
    plain = len(parts) == 1 and isinstance(parts[0], Text) and NAME not in parts[0].extra
    content: Any = parts[0].text if plain and isinstance(parts[0], Text) else [encode_part(part) for part in parts]
    return [{"role": "user", "content": content, **wire_extra(turn.extra, NAME)}]


def _encode_assistant(turn: Message) -> list[JsonObject]:
    return [{**encode_assistant(turn.parts, None), **wire_extra(turn.extra, NAME)}]


def _encode_results(turn: Message) -> list[JsonObject]:
    messages = [encode_result(result) for result in turn.tool_results]
    if (media := result_media(turn.tool_results)) is not None:
        messages.extend(_encode_user(media))
    return messages


def encode_result(result: ToolResult) -> JsonObject:
    """The message that answers one call."""
    content: Any = error_text(result)
    texts = [part for part in result.parts if isinstance(part, Text)]
    if any(NAME in text.extra for text in texts):
        prefix = ERROR_PREFIX if result.is_error else ""
        content = [encode_part(text) for text in texts]
        content[0]["text"] = prefix + texts[0].text
    return {"role": "tool", "tool_call_id": result.id, "content": content, **wire_extra(result.extra, NAME)}


_TURNS: dict[str, Callable[[Message], list[JsonObject]]] = {
    "user": _encode_user,
    "assistant": _encode_assistant,
    "tool": _encode_results,
}


def _fit_ids(messages: list[JsonObject], target: Target, notes: Notes) -> None:
    pattern, length = target.quirks.call_id or "", target.quirks.call_id_length
    for message in messages:
        if "tool_call_id" in message:
            message["tool_call_id"] = fit_id(message["tool_call_id"], pattern, length, notes)
        for call in message.get("tool_calls", ()):
            call["id"] = fit_id(call["id"], pattern, length, notes)


def _encode_tools(request: Request, target: Target, notes: Notes) -> JsonObject:
    if not request.tools:
        if request.tool_choice not in (None, "none", "auto"):
            notes.add("dropped", "tool_choice", "there are no tools")
        return {}
    quirks, choice, tools = target.quirks, request.tool_choice, request.tools
    encoded: Any = choice
    if choice == "required":
        encoded = quirks.required_choice
    elif choice not in (None, "auto", "none"):
        encoded = {"type": "function", "function": {"name": choice}}
        if not quirks.named_choice:
            notes.add("changed", "tool_choice", "it cannot name a tool, so it is given that one alone")
            tools = tuple(tool for tool in tools if isinstance(tool, Tool) and tool.name == choice)
            encoded = quirks.required_choice
    parallel = request.parallel_tool_calls
    if parallel is not None and not quirks.parallel_tool_calls:
        notes.add("dropped", "parallel_tool_calls", "it has no such switch")
        parallel = None
    return {
        "tools": [encode_tool(tool) for tool in _own_tools(tools, notes)],
        **without_none({"tool_choice": encoded, "parallel_tool_calls": parallel}),
    }


def _own_tools(tools: tuple[Tool | Opaque, ...], notes: Notes) -> list[Tool | Opaque]:
    own = [tool for tool in tools if isinstance(tool, Tool) or tool.wire == NAME]
    if len(own) < len(tools):
        notes.add("dropped", "a tool that runs at another provider", "it has no such tool")
    return own


def _encode_schema(request: Request, target: Target, notes: Notes) -> JsonObject:
    schema = request.schema
    if schema is None:
        return {}
    if not schema or not target.quirks.json_schema:
        if schema:
            notes.add("changed", "schema", "it takes no schema, only the wish for JSON")
        return {"response_format": {"type": "json_object"}}
    strict = request.schema_strict
    if strict and not is_strict(schema):
        notes.add("dropped", "schema_strict", "the schema does not satisfy the strict rules")
        strict = None
    json_schema = without_none({"name": request.schema_name, "schema": schema, "strict": strict})
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def _encode_sampling(request: Request, target: Target, notes: Notes) -> JsonObject:
    quirks = target.quirks
    told: tuple[tuple[str, Any, str | None], ...] = (
        ("temperature", request.temperature, "temperature" if quirks.sampling else None),
        ("top_p", request.top_p, "top_p" if quirks.sampling else None),
        ("top_k", request.top_k, "top_k" if quirks.top_k else None),
        ("seed", request.seed, quirks.seed_field),
        ("stop", list(request.stop) or None, "stop" if quirks.stop else None),
        ("max_tokens", request.max_tokens, quirks.max_tokens_field or "max_completion_tokens"),
    )
    body: JsonObject = {}
    for name, value, field in told:
        if value is not None and field is None:
            if name not in wire_extra(request.extra, NAME):
                notes.add("dropped", name, "it has no such option")
        elif value is not None and field is not None:
            body[field] = value
    return body


def _encode_reasoning(request: Request, target: Target, notes: Notes) -> JsonObject:
    if request.reasoning is None:
        return {}
    match target.quirks.reasoning:
        case "object" if isinstance(request.reasoning, int):
            return {"reasoning": {"max_tokens": request.reasoning}}
        case "object":
            return {"reasoning": {"effort": as_effort(request.reasoning, target, notes)}}
        case "switch":
            effort = as_effort(request.reasoning, target, notes)
            return {"thinking": {"type": "disabled" if effort == "none" else "enabled"}}
        case _:
            return {"reasoning_effort": as_effort(request.reasoning, target, notes)}


def _encode_rest(request: Request, target: Target, notes: Notes) -> JsonObject:
    body: JsonObject = {}
    if request.user is not None:
        if target.quirks.user_field is None:
            notes.add("dropped", "user", "it has no such field")
        else:
            body[target.quirks.user_field] = request.user
    if request.metadata:
        if target.quirks.metadata:
            body["metadata"] = request.metadata
        else:
            notes.add("dropped", "metadata", "it has no such field")
    return body


class _Reader:
    """Chunks to events; a whole body is one chunk with a `message` in place of a `delta`."""

    def __init__(self, request: Request | None) -> None:
        self.out = Assembler(calls_before=calls_before(request))
        self._finish: str | None = None
        self._refused = False
        self._calls: list[str] = []
        self._current: dict[int, int] = {}
        self._details: dict[tuple[Any, Any], JsonObject] = {}
        self._notes: JsonObject = {}
        self._audio: JsonObject = {}
        self._images: list[JsonObject] = []
        self._choices: set[int] = set()

    def read_body(self, body: bytes, chunk: Chunk) -> None:
        if chunk.error or chunk.choices is None:
            self._fail(_ANY.decode(body), chunk)
        self._read(chunk, lambda choice: choice.message or choice.delta)
        self.finish()

    def read_frame(self, frame: Frame) -> None:
        if frame.data.strip() == b"[DONE]":
            self.finish()
            return
        chunk: Chunk = decode_frame(_CHUNK, frame)
        if frame.name == BARE:
            self.read_body(frame.data, chunk)
            return
        if chunk.error or frame.name == "error" or chunk.object == "error":
            raise read_failure(_ANY.decode(frame.data))
        self._read(chunk, lambda choice: choice.delta)

    def end(self) -> None:
        """The connection closed. Servers that never say [DONE] end with a finish reason and the usage (2026-08)."""
        if self._finish is None or self.out.usage is None:
            raise truncated(NAME)
        self.finish()

    def finish(self) -> None:
        out = self.out
        if self._notes and out.is_open("text"):
            out.note("text", NAME, self._notes)
        self._settle()
        if self._details:
            out.whole(Thinking(text="", redacted=True, extra={NAME: {"details": list(self._details.values())}}))
        for image in self._images:
            part = decode_part(image, "images")
            out.whole(part if isinstance(part, Image) else Opaque(wire=NAME, data={"images": [image]}))
        if self._audio:
            out.whole(Opaque(wire=NAME, data={"audio": self._audio}))
        if len(self._choices) > 1:
            why = f"there were {len(self._choices)} choices; the first is the response"
            out.notices.append(Notice(kind="told", what="choices", why=why))
        reason = "blocked" if self._refused else FINISH.get(self._finish or "", "other")
        out.finish(Finish(reason=reason, raw=self._finish))

    def _fail(self, data: object, chunk: Chunk) -> None:
        if chunk.error or (is_object(data) and {"object", "message", "detail", "base_resp"} & data.keys()):
            raise read_failure(data.get("base_resp", data) if is_object(data) else data)
        raise Malformed(f"{NAME}: the body has no choices")

    def _read(self, chunk: Chunk, said_by: Callable[[Choice], Said | None]) -> None:
        out = self.out
        if chunk.usage is not None:
            out.usage = latest_usage(out.usage, read_usage(chunk.usage))
        for key in CITATIONS:
            if (value := getattr(chunk, key)) is not None:
                self._notes[key] = value
        for choice in chunk.choices or ():
            self._choices.add(choice.index or 0)
            if choice.index:
                continue
            created = chunk.created if isinstance(chunk.created, int) and chunk.created else None
            out.start(id=str(chunk.id or ""), model=chunk.model, created=created)
            if choice.logprobs:
                self._logprobs(choice.logprobs)
            if (said := said_by(choice)) is not None:
                self._said(said)
            if choice.finish_reason:
                self._finish = choice.finish_reason

    def _said(self, said: Said) -> None:
        if said.reasoning_content or said.reasoning or said.reasoning_details:
            self._reasoning(said)
        content = said.content
        if isinstance(content, str):
            self._delta("text", content)
        elif is_list(content):
            for piece in content:
                self._piece(piece)
        elif content is not None:
            self._delta("text", encode_json(content).decode())
        if said.refusal:
            self._refused = True
            self._delta("refusal", said.refusal, {NAME: {"refusal": True}})
        for position, call in enumerate(said.tool_calls or ()):
            self._call(call, position)
        if said.function_call is not None and (said.function_call.name or said.function_call.arguments):
            self._call(Call(index=0, function=said.function_call), 0)
        if said.annotations:
            self._notes.setdefault("annotations", []).extend(said.annotations)
        self._images.extend(said.images or ())
        if said.audio:
            self._merge(self._audio, said.audio)

    def _delta(self, key: Literal["text", "thinking", "refusal"], text: str, extra: JsonObject | None = None) -> None:
        if not text:
            return
        self._finish = None
        out = self.out
        if not out.is_open(key):
            self._settle()
            out.close_others(key)
        out.delta(key, "thinking" if key == "thinking" else "text", text, extra)

    def _piece(self, piece: object) -> None:
        """A chunk of list content: text, or thinking that is itself a list."""
        if not is_object(piece):
            raise Malformed(f"{NAME}: content is neither text nor a list of parts")
        kind = piece.get("type")
        if kind == "text" and isinstance(piece.get("text"), str):
            self._delta("text", piece["text"])
        elif (thinking := decode_thinking(piece)) is not None:
            self._delta("thinking", thinking.text, {NAME: {"fields": ["content"]}})
            if self.out.is_open("thinking"):
                self.out.note("thinking", NAME, thinking.extra[NAME])
        else:
            self.out.whole(Opaque(wire=NAME, data=piece))

    def _reasoning(self, said: Said) -> None:
        if fields := reasoning_fields(said):
            self._delta("thinking", getattr(said, fields[0]), {NAME: {"fields": fields}})
        for detail in said.reasoning_details or ():
            key = (detail.get("index", len(self._details)), detail.get("type"))
            self._merge(self._details.setdefault(key, {}), detail)

    def _settle(self) -> None:
        """Give the thinking that ends here the details that came with it."""
        if self._details and self.out.is_open("thinking"):
            self.out.note("thinking", NAME, {"details": list(self._details.values())})
            self._details = {}

    @staticmethod
    def _merge(into: JsonObject, new: JsonObject) -> None:
        for key, value in new.items():
            if key in ("text", "summary", "data", "transcript") and isinstance(value, str):
                into[key] = into.get(key, "") + value
            elif value is not None or key not in into:
                into[key] = value

    def _logprobs(self, logprobs: object) -> None:
        if is_object(logprobs):
            held = self._notes.setdefault("logprobs", {})
            for key, value in logprobs.items():
                held[key] = [*(held.get(key) or ()), *value] if is_list(value) else held.get(key, value)

    def _call(self, call: Call, position: int) -> None:
        """A call or a fragment of one, by its index. Servers reuse index 0, or leave index or id out."""
        if call.custom is not None:
            function = Function(name=call.custom.name, arguments={"input": call.custom.input or ""})
        else:
            function = call.function or Function()
        id, name = str(call.id or ""), function.name or ""
        index = call.index if call.index is not None else self._slot_of(id, name, position)
        slot = self._current.get(index)
        text = _arguments(function)
        if slot is None or self._begins(slot, id, name):
            slot = self._current[index] = len(self._calls)
            self._calls.append(id)
        self._calls[slot] = self._calls[slot] or id
        self.out.fragment(slot, id=id, name=name, text=text)
        if call.custom is not None:
            self.out.note(slot, NAME, {"type": "custom"})

    def _slot_of(self, id: str, name: str, position: int) -> int:
        """The index of a call that has none: a new one where it says who it is, else the last."""
        if id in self._calls and id:
            return next(index for index, slot in self._current.items() if self._calls[slot] == id)
        return len(self._current) if id or name or not self._current else max(self._current, default=position)

    def _begins(self, slot: int, id: str, name: str) -> bool:
        known = self._calls[slot]
        if id and known:
            return id != known
        return bool(name) and not id and self.out.call_is_complete(slot)


def _arguments(function: Function) -> str | None:
    arguments = function.arguments
    return arguments if arguments is None or isinstance(arguments, str) else encode_json(arguments).decode()
