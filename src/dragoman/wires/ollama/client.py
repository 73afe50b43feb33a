"""A Request in, the bytes of an Ollama chat out; its answer's bytes in, events out."""

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from dragoman.errors import BadRequest, Malformed, ProviderError, Truncated
from dragoman.events import Assembler, Event
from dragoman.http import Head, HttpRequest
from dragoman.targets.target import Target
from dragoman.types import (
    Finish,
    Image,
    JsonObject,
    Message,
    Notice,
    Opaque,
    Request,
    Text,
    Tool,
    ToolResult,
    is_object,
)
from dragoman.wires.base import StreamDecoder
from dragoman.wires.common.client import FramedStreamDecoder, truncated
from dragoman.wires.common.errors import decode_http_error, error_from_json
from dragoman.wires.common.extra import body_extra, wire_extra
from dragoman.wires.common.framing import Frame, NdjsonDecoder
from dragoman.wires.common.history import calls_before, error_text, repair, result_media
from dragoman.wires.common.http import post_request
from dragoman.wires.common.json import decode_frame, decode_json
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import (
    encode_options,
    max_tokens,
    requested_reasoning,
    supported_tools,
    to_budget,
    to_effort,
    tool_choice,
)
from dragoman.wires.ollama.context import context_size, is_cut
from dragoman.wires.ollama.parts import (
    arguments_text,
    decode_image,
    encode_format,
    encode_message,
    encode_tool,
    split_call,
    with_instruction,
)
from dragoman.wires.ollama.schema import FINISH, NAME, Line, Said, read_moment, read_usage

_LINE = msgspec.json.Decoder(Line, strict=False)
_LINE_COST = 48
_CANNOT = r"does not support|not supported (for|by) this model"


class Client:
    """We call them."""

    def encode_request(self, request: Request, target: Target, /) -> HttpRequest:
        """The exact bytes for this target."""
        notes = NoticeCollector(NAME, strict=request.strict)
        extra = body_extra(request, target, notes)
        messages = _encode_messages(request, notes)
        body: JsonObject = {"model": target.model, "messages": messages, "stream": request.stream}
        tools = _encode_tools(request, target, notes)
        if tools:
            body["tools"] = tools
        if request.schema is not None and "format" not in extra:
            body.update(_encode_schema(request.schema, tools, notes))
        if "think" not in extra:
            body.update(_encode_think(request, target, notes))
        most = max_tokens(request, target, notes)
        theirs = extra.pop("options", None)
        options = {**(theirs if is_object(theirs) else {}), **_encode_options(request, most, extra, notes)}
        size = context_size(messages, tools, most, target.capabilities.context_window)
        if size is not None and "num_ctx" not in options:
            options["num_ctx"] = size
        if options:
            body["options"] = options
        return post_request(target, "/api/chat", {**body, **extra}, notes)

    def encode_tools(self, tools: tuple[Tool | Opaque, ...], /) -> list[JsonObject]:
        """The definitions of some tools."""
        notes = NoticeCollector(NAME)
        return [encode_tool(tool, notes) for tool in supported_tools(Request(tools=tools), notes)]

    def encode_result(self, result: ToolResult, /) -> JsonObject:
        """The message that answers one call."""
        return _encode_result(result)

    def decode_body(self, body: bytes, request: Request | None = None, /) -> list[Event]:
        """The events of a whole body."""
        reader = _Reader(request, whole=True)
        decoder = FramedStreamDecoder(NdjsonDecoder(), reader)
        events = decoder.feed(body) if body else []
        if decoder.error is None:
            events += decoder.feed(b"")
        if decoder.error is not None:
            raise decoder.error
        return events

    def decode_error(self, head: Head, body: bytes, /) -> ProviderError:
        """The typed error of an answer that is no."""
        error = decode_http_error(head, body)
        if isinstance(error, BadRequest) and re.search(_CANNOT, error.message):
            error.fail_over = True
        return error

    def stream_decoder(self, request: Request | None = None, /) -> StreamDecoder:
        """A reader of one streamed answer."""
        reader = _Reader(request)
        return FramedStreamDecoder(NdjsonDecoder(), reader)


def _encode_messages(request: Request, notes: NoticeCollector) -> list[JsonObject]:
    history = repair(request, notes)
    messages: list[JsonObject] = []
    system = with_instruction([text.text for text in history.system], request.schema)
    if system is not None:
        message: JsonObject = {"role": "system", "content": system}
        for text in history.system:
            message.update(wire_extra(text.extra, NAME))
        messages.append(message)
    for turn in history.turns:
        messages.extend(_TURNS[turn.role](turn, notes))
    return messages


def _encode_user(turn: Message, notes: NoticeCollector) -> list[JsonObject]:
    kinds = [type(part) for part in turn.parts]
    if Image in kinds and Text in kinds[kinds.index(Image) :]:
        notes.add("info", "the places of images", "they stand beside the text, not in it")
    if any(isinstance(part, Image) and part.detail for part in turn.parts):
        notes.add("dropped", "detail of an image", "it has no such option")
    return [{**encode_message("user", turn.parts, "\n"), **wire_extra(turn.extra, NAME)}]


def _encode_assistant(turn: Message, _: NoticeCollector) -> list[JsonObject]:
    return [{**encode_message("assistant", turn.parts, ""), **wire_extra(turn.extra, NAME)}]


def _encode_results(turn: Message, notes: NoticeCollector) -> list[JsonObject]:
    messages = [_encode_result(result) for result in turn.tool_results]
    if (media := result_media(turn.tool_results)) is not None:
        messages.extend(_encode_user(media, notes))
    return messages


def _encode_result(result: ToolResult) -> JsonObject:
    message = {"role": "tool", "content": error_text(result), "tool_name": result.name, "tool_call_id": result.id}
    return {**message, **wire_extra(result.extra, NAME)}


_TURNS: dict[str, Callable[[Message, NoticeCollector], list[JsonObject]]] = {
    "user": _encode_user,
    "assistant": _encode_assistant,
    "tool": _encode_results,
}


def _encode_tools(request: Request, target: Target, notes: NoticeCollector) -> list[JsonObject]:
    if request.tool_choice == "none":
        return []
    if request.parallel_tool_calls is False:
        notes.add("dropped", "parallel_tool_calls", "it has no such switch")
    own = supported_tools(request, notes)
    if tool_choice(request, target, own, notes) not in (None, "auto"):
        notes.add("changed", "tool_choice", "a call cannot be forced, so the choice is its own")
    return [encode_tool(tool, notes) for tool in own]


def _encode_schema(schema: JsonObject, tools: list[JsonObject], notes: NoticeCollector) -> JsonObject:
    if not tools:
        return {"format": encode_format(schema, notes)}
    why = "a format keeps the model from calling tools, so the schema is only said in the system prompt"
    notes.add("changed", "schema", why)
    return {}


def _encode_think(request: Request, target: Target, notes: NoticeCollector) -> JsonObject:
    reasoning = requested_reasoning(request, target, notes)
    if reasoning is None:
        return {}
    if target.quirks.reasoning == "level":
        effort = to_effort(reasoning, target, notes)
        if effort == "minimal":
            notes.add("changed", "reasoning", "it does not take 'minimal', so it got 'low'")
        return {"think": _LEVELS.get(effort, effort)}
    if to_budget(reasoning) <= 0:
        return {"think": False}
    if reasoning != "medium":
        notes.add("changed", "reasoning", f"it thinks or does not, so {reasoning!r} became true")
    return {"think": True}


_LEVELS: dict[str, bool | str] = {"none": False, "minimal": "low"}


def _encode_options(request: Request, most: int | None, theirs: JsonObject, notes: NoticeCollector) -> JsonObject:
    told = (
        ("temperature", request.temperature, "temperature"),
        ("top_p", request.top_p, "top_p"),
        ("top_k", request.top_k, "top_k"),
        ("seed", request.seed, "seed"),
        ("max_tokens", most, "num_predict"),
        ("stop", request.stop or None, "stop"),
        ("user", request.user or None, None),
        ("metadata", request.metadata or None, None),
        ("cache", request.cache or None, None),
    )
    return encode_options(told, theirs, notes)


class _Reader:
    """Lines to events. What is no line of JSON from its beginning is one object over several lines."""

    def __init__(self, request: Request | None, *, whole: bool = False) -> None:
        self.out = Assembler(calls_before=calls_before(request))
        self._request = request
        self._is_body = whole
        self._count = 0
        self._lines: list[bytes] = []
        self._whole = True
        self._begun = False
        self._started = False
        self._calls = 0
        self._logprobs: list[Any] = []
        self._noted = False

    def read_frame(self, frame: Frame) -> None:
        if not self._lines:
            try:
                line: Line = decode_frame(_LINE, frame)
            except Malformed:
                if self._begun:
                    raise
            else:
                self._begun = True
                self._read(line, frame.data)
                return
        self._lines.append(frame.data)
        self._whole = frame.whole
        self.out.spend(len(frame.data) + _LINE_COST)

    def end(self) -> None:
        """The connection closed."""
        if self._lines:
            body = b"\n".join(self._lines)
            cut = Frame(name="", data=body, whole=False)
            self._read(decode_json(_LINE, body) if self._whole else decode_frame(_LINE, cut), body)
        if not self.out.is_finished():
            if not self._is_body or self._count != 1:
                raise truncated(NAME, "line with done: true")
            if not self._started:
                raise Malformed(f"{NAME}: the body has no message")
            # A server that aborts a runaway repetition says done: false in a whole body (seen 2026-11).
            self.out.finish(Finish(reason="other"))

    def _read(self, line: Line, data: bytes) -> None:
        if line.error:
            raise _failure(data.decode("utf-8", "replace"))
        out = self.out
        self._count += 1
        if not self._started and (line.message is not None or line.done):
            self._started = True
            out.start(model=line.model, created=read_moment(line.created_at))
        if line.message is not None:
            self._said(line.message)
        if line.logprobs:
            self._note(line.logprobs)
        if line.done:
            self._finish(line)

    def _said(self, said: Said) -> None:
        self._delta("thinking", said.thinking, {NAME: {}})
        self._delta("text", said.content, {})
        for image in said.images or ():
            self.out.close_others(None)
            self.out.whole(_read_image(image))
        for data in said.tool_calls or ():
            self._call(data)

    def _delta(self, kind: Literal["text", "thinking"], text: str | None, extra: JsonObject) -> None:
        if not text:
            return
        if not self.out.is_open(kind):
            self.out.close_others(kind)
            if self._noted:
                self._logprobs, self._noted = [], False
        self.out.delta(kind, kind, text, extra)

    def _note(self, logprobs: list[Any]) -> None:
        """Log-probabilities belong to the text that they come with, or to the next one."""
        self._logprobs += logprobs
        kind = next((kind for kind in ("text", "thinking") if self.out.is_open(kind)), None)
        if kind is not None and not self._noted:
            self._noted = True
            self.out.note(kind, NAME, {"logprobs": self._logprobs})

    def _call(self, data: JsonObject) -> None:
        """Calls are whole, in any line. Their index is missing or 0 for all on old servers, so it is not looked at."""
        out = self.out
        out.close_others(None)
        call, arguments = split_call(data)
        if is_object(arguments):
            out.whole(msgspec.structs.replace(call, arguments=arguments))
            return
        key = ("call", self._calls)
        self._calls += 1
        out.fragment(key, id=call.id, name=call.name, text=arguments_text(arguments))
        if call.extra:
            out.note(key, NAME, call.extra[NAME])
        out.close(key)

    def _finish(self, line: Line) -> None:
        out = self.out
        out.usage = read_usage(line)
        counted = line.prompt_eval_count
        if self._request is not None and counted is not None and is_cut(self._request, counted):
            why = f"{NAME}: it read {counted} tokens, fewer than the prompt has; raise options.num_ctx, or say less"
            if self._request.strict:
                raise Truncated(f"the prompt was cut: {why}")
            out.notices.append(Notice(kind="dropped", what="a part of the prompt", why=why))
        out.finish(Finish(reason=FINISH.get(line.done_reason or "", "other"), raw=line.done_reason or None))


def _failure(data: object) -> ProviderError:
    """The error of a line: it has no status and no code, so that its words are read as those of a refusal."""
    error = error_from_json(data)
    if error.status is not None:
        return error
    told = error_from_json(data, Head(status=400))
    return error if isinstance(told, BadRequest) else told


def _read_image(text: str) -> Image:
    try:
        return decode_image(text)
    except ValueError as error:
        raise Malformed(f"{NAME}: an image of the answer is {error}") from error
