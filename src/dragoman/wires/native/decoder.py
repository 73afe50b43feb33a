"""The chunks of a gateway's answer in, events out; a whole body is one chunk."""

import msgspec

from dragoman.errors import DragomanError, Malformed, ProviderError
from dragoman.events import Assembler
from dragoman.http import Head
from dragoman.types import Finish, JsonObject, Request, Text, Thinking, ToolCall
from dragoman.wires.common.client import truncated
from dragoman.wires.common.errors import decode_http_error, error_from_json
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.framing import Frame
from dragoman.wires.common.history import calls_before
from dragoman.wires.common.json import decode_frame, decode_json
from dragoman.wires.native.schema import FACTS, KINDS, NAME, Content, NativeChunk, NativeMessage, read_usage

_STREAMED = Text | Thinking
_CHUNK = msgspec.json.Decoder(NativeChunk)


class NativeDecoder:
    """Reads chunks; a whole body has a `message` in place of a `delta`."""

    def __init__(self, request: Request | None) -> None:
        self.out = Assembler(calls_before=calls_before(request))
        self._finish: Finish | None = None

    def read_body(self, body: bytes) -> None:
        """A whole answer."""
        self._read(decode_json(_CHUNK, body))
        self._end(Malformed(f"{NAME}: the body tells no end"))

    def read_frame(self, frame: Frame) -> None:
        """One event of a stream."""
        if frame.data.strip() == b"[DONE]":
            self._end(truncated(NAME, "finish_reason"))
        elif frame.data.strip():
            self._read(decode_frame(_CHUNK, frame))

    def end(self) -> None:
        """The connection closed, without the farewell."""
        raise truncated(NAME, "[DONE]")

    def _read(self, chunk: NativeChunk) -> None:
        if chunk.error is not None:
            raise _typed(error_from_json(chunk.error))
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

    def _message(self, said: NativeMessage) -> None:
        content = said.content or []
        for part in [Text(text=content)] if isinstance(content, str) else content:
            self._whole(part)
        self._calls(said)

    def _delta(self, said: NativeMessage) -> None:
        if isinstance(said.content, str):
            self.out.delta(said.index, "text", said.content)
        if said.thinking is not None:
            self.out.delta(said.index, "thinking", said.thinking)
        if said.part is not None:
            self._ended(said.index, said.part)
        self._calls(said)

    def _whole(self, part: Content) -> None:
        """A part that came at once; a text is told in one piece, as in a stream."""
        if isinstance(part, Text | Thinking) and part.text:
            self.out.delta(part.text, "text" if isinstance(part, Text) else "thinking", part.text)
            self._close(part.text, part)
        else:
            self.out.whole(part)

    def _ended(self, index: int, data: JsonObject) -> None:
        """The end of a part, which tells what its deltas did not."""
        try:
            if self.out.is_open(index):
                self._close(index, msgspec.convert({**data, "text": ""}, _STREAMED))
            else:
                self._whole(msgspec.convert(data, Content))
        except msgspec.ValidationError as error:
            raise Malformed(f"{NAME}: a part is not what the protocol says: {error}") from error

    def _close(self, key: object, part: Text | Thinking) -> None:
        for wire in part.extra:
            self.out.note(key, wire, wire_extra(part.extra, wire))
        self.out.close(key, redacted=isinstance(part, Thinking) and part.redacted)

    def _calls(self, said: NativeMessage) -> None:
        for call in said.tool_calls or ():
            made = ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments, extra=call.extra)
            self.out.whole(made)

    def _end(self, without: DragomanError) -> None:
        if self._finish is None:
            raise without
        self.out.finish(self._finish)


def decode_error(head: Head, body: bytes) -> ProviderError:
    """The typed error of an answer that is no: of the class that the other gateway had."""
    return _typed(decode_http_error(head, body))


def _typed(error: ProviderError) -> ProviderError:
    kind, facts = KINDS.get(error.code or ""), FACTS.get(error.code or "", {})
    if kind is None or (isinstance(error, kind) and not facts):
        return error
    return kind(error.message, status=error.status, code=error.code, retry_after=error.retry_after, **facts)
