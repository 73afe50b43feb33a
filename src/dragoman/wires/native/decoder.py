"""Decodes the answers of another gateway into events; a whole body is one chunk."""

import msgspec

from dragoman.errors import DragomanError, Malformed, ProviderError
from dragoman.events import Assembler
from dragoman.http import Head
from dragoman.types import Finish, JsonObject, Request, Text, Thinking, ToolCall
from dragoman.wires.common.errors import decode_http_error, error_from_json
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.framing import Frame
from dragoman.wires.common.history import calls_before
from dragoman.wires.common.json import decode_frame, decode_json
from dragoman.wires.common.stream_decoder import truncated_error
from dragoman.wires.native.schema import (
    ERROR_CLASSES,
    ERROR_FACTS,
    NAME,
    Content,
    NativeChunk,
    NativeMessage,
    read_usage,
)

_STREAMED = Text | Thinking
_WHOLE = "whole"
"""The key of a part that comes at once."""
_CHUNK = msgspec.json.Decoder(NativeChunk)


class NativeDecoder:
    """Decodes one answer; a whole body has a `message`, a chunk has a `delta`."""

    def __init__(self, request: Request | None) -> None:
        self.out = Assembler(calls_before=calls_before(request))
        self._finish: Finish | None = None

    def read_body(self, body: bytes) -> None:
        self._read(decode_json(_CHUNK, body))
        self._end(Malformed(f"{NAME}: the body has no finish_reason"))

    def read_frame(self, frame: Frame) -> None:
        if frame.data.strip() == b"[DONE]":
            self._end(truncated_error(NAME, "finish_reason"))
        elif frame.data.strip():
            self._read(decode_frame(_CHUNK, frame))

    def end(self) -> None:
        raise truncated_error(NAME, "[DONE]")

    def _read(self, chunk: NativeChunk) -> None:
        if chunk.error is not None:
            raise _with_class(error_from_json(chunk.error))
        self.out.start(id=chunk.id, model=chunk.model, created=chunk.created)
        self.out.notices += chunk.notices
        if chunk.usage is not None:
            self.out.usage = read_usage(chunk.usage)
        for choice in chunk.choices:
            if choice.message is not None:
                self._message(choice.message)
            if choice.delta is not None:
                self._delta(choice.delta)
            if choice.finish_reason is not None:
                self._finish = Finish(reason=choice.finish_reason, raw=choice.finish_raw)

    def _message(self, message: NativeMessage) -> None:
        content = message.content or []
        for part in [Text(text=content)] if isinstance(content, str) else content:
            self._whole(part)
        self._calls(message)

    def _delta(self, delta: NativeMessage) -> None:
        if isinstance(delta.content, str):
            self.out.delta(delta.index, "text", delta.content)
        if delta.thinking is not None:
            self.out.delta(delta.index, "thinking", delta.thinking)
        if delta.part is not None:
            self._part_ended(delta.index, delta.part)
        self._calls(delta)

    def _whole(self, part: Content) -> None:
        """Read a whole part; its text becomes one delta, as in a stream."""
        if isinstance(part, Text | Thinking) and part.text:
            self.out.delta(_WHOLE, "text" if isinstance(part, Text) else "thinking", part.text)
            self._close(_WHOLE, part)
        else:
            self.out.add_part(part)

    def _part_ended(self, index: int, data: JsonObject) -> None:
        """Read the end of a part, with what its deltas did not contain."""
        try:
            if self.out.is_open(index):
                self._close(index, msgspec.convert({**data, "text": ""}, _STREAMED))
            else:
                self._whole(msgspec.convert(data, Content))
        except msgspec.ValidationError as error:
            raise Malformed(f"{NAME}: a part is not valid: {error}") from error

    def _close(self, key: object, part: Text | Thinking) -> None:
        for wire in part.extra:
            self.out.add_extra(key, wire, wire_extra(part.extra, wire))
        if isinstance(part, Text):
            self.out.add_citations(key, part.citations)
        self.out.close(key, redacted=isinstance(part, Thinking) and part.redacted)

    def _calls(self, message: NativeMessage) -> None:
        for call in message.tool_calls or ():
            function = call.function
            self.out.add_part(ToolCall(id=call.id, name=function.name, arguments=function.arguments, extra=call.extra))

    def _end(self, error: DragomanError) -> None:
        if self._finish is None:
            raise error
        self.out.finish(self._finish)


def decode_error(head: Head, body: bytes) -> ProviderError:
    """The typed error of an HTTP error, with the class that it had in the other gateway."""
    return _with_class(decode_http_error(head, body))


def _with_class(error: ProviderError) -> ProviderError:
    kind, facts = ERROR_CLASSES.get(error.code or ""), ERROR_FACTS.get(error.code or "", {})
    if kind is None or (isinstance(error, kind) and not facts):
        return error
    return kind(error.message, status=error.status, code=error.code, retry_after=error.retry_after, **facts)
