"""Chunks of an answer in, events out: of a stream in any of its forms, or of a whole body."""

import re
from datetime import datetime
from typing import Any, Literal

import msgspec

from dragoman.errors import InvalidRequest, Malformed, MalformedToolCall
from dragoman.events import Assembler
from dragoman.types import (
    Finish,
    JsonObject,
    Notice,
    Opaque,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    is_list,
)
from dragoman.wires.common.client import merge_usage, truncated
from dragoman.wires.common.errors import error_from_json
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.framing import Frame, FrameDecoder, JsonArrayDecoder, SseDecoder
from dragoman.wires.common.history import calls_before
from dragoman.wires.common.json import decode_frame, decode_json, without_none
from dragoman.wires.google.parts import decode_part
from dragoman.wires.google.schema import (
    FINISH_NOTES,
    FINISH_REASONS,
    NAME,
    TEXT_NOTES,
    UNBLOCKED,
    UNFINISHED,
    GeminiCandidate,
    GeminiChunk,
    camel,
    join_notes,
    listed,
    read_usage,
)

_CHUNK = msgspec.json.Decoder(GeminiChunk, strict=False)
_BODY = msgspec.json.Decoder(GeminiChunk | list[GeminiChunk], strict=False)
_FIELDS = dict(zip(GeminiCandidate.__struct_encode_fields__, GeminiCandidate.__struct_fields__, strict=True))


class GeminiFraming:
    """Events or a JSON array or one object, whatever was asked for: the first byte tells which."""

    def __init__(self) -> None:
        self._form: FrameDecoder | None = None

    def feed(self, data: bytes, /) -> list[Frame]:
        """The frames that these bytes complete; b"" is the end of the file."""
        if self._form is None:
            data = data.lstrip()
            if not data:
                return []
            self._form = JsonArrayDecoder() if data[:1] in b"[{" else SseDecoder()
        return self._form.feed(data)


class _Growing(msgspec.Struct):
    """A text inside arguments that come piece by piece, and where it stands."""

    holder: Any
    key: Any
    pieces: list[str]


class _Streamed(msgspec.Struct):
    """A call whose arguments come piece by piece."""

    call: ToolCall
    arguments: JsonObject
    growing: list[_Growing] = []

    def put(self, steps: list[Any], value: object) -> None:
        """Put a value where a path leads; text goes on where there is text already."""
        holder: Any = self.arguments
        for step, after in zip(steps, [*steps[1:], None], strict=True):
            key = step
            if is_list(holder):
                key = min(step, len(holder))
                holder += [None] * (key == len(holder))
            old = holder[key] if is_list(holder) else holder.get(key)
            if after is None:
                holder[key] = self._grown(holder, key, old, value)
            else:
                kind = list if isinstance(after, int) else dict
                holder[key] = old if isinstance(old, kind) else kind()
            holder = holder[key]

    def _grown(self, holder: Any, key: Any, old: object, value: object) -> object:
        if not isinstance(value, str):
            return value
        if isinstance(old, _Growing):
            old.pieces.append(value)
            return old
        text = _Growing(holder=holder, key=key, pieces=[old, value] if isinstance(old, str) else [value])
        self.growing.append(text)
        return text

    def whole(self) -> ToolCall:
        """The call with all that came."""
        for text in self.growing:
            if text.holder[text.key] is text:
                text.holder[text.key] = "".join(text.pieces)
        return msgspec.structs.replace(self.call, arguments=self.arguments)


class GeminiDecoder:
    """Chunks to events; a whole body is one chunk, or a list of them."""

    def __init__(self, request: Request | None) -> None:
        self.out = Assembler(calls_before=calls_before(request))
        self._finish: str | None = None
        self._ending: JsonObject = {}
        self._notes: JsonObject = {}
        self._key: tuple[str, int] = ("", 0)
        self._sealed = False
        self._streamed: _Streamed | None = None
        self._candidates = 0

    def read_body(self, body: bytes) -> None:
        """A whole answer."""
        read: GeminiChunk | list[GeminiChunk] = decode_json(_BODY, body)
        for chunk in read if isinstance(read, list) else [read]:
            self._read(chunk)
        if self.out.usage is None and not self._candidates and self._finish is None:
            raise Malformed(f"{NAME}: the body has neither candidates nor a reason why not")
        self.finish()

    def read_frame(self, frame: Frame) -> None:
        """One chunk of a stream."""
        # Gateways that imitate this wire end their streams so (seen 2025-12); Google never does.
        if frame.data.strip() not in (b"", b"[DONE]"):
            self._read(decode_frame(_CHUNK, frame))

    def end(self) -> None:
        """The connection closed: the only farewell there is, once a finish reason was told."""
        if self._finish is None:
            raise truncated(NAME, "finishReason")
        self.finish()

    def finish(self) -> None:
        """Say what is left, and why it ended."""
        out = self.out
        reason = "blocked" if "promptFeedback" in self._ending else FINISH_REASONS.get(self._finish or "", "other")
        self._settle()
        if self._streamed is not None and reason == "length":
            call = self._streamed.whole()
            why = f"the length limit cut its arguments off: {msgspec.json.encode(call.arguments).decode()}"
            out.notices.append(Notice(kind="dropped", what=f"tool call {call.name}", why=why))
        else:
            self._end_call()
        if self._candidates > 1:
            why = f"there were {self._candidates} candidates; the first is the response"
            out.notices.append(Notice(kind="info", what="candidates", why=why))
        extra = make_extra(NAME, {**self._ending, **self._notes})
        out.finish(Finish(reason=reason, raw=self._finish or None, extra=extra))

    def _read(self, chunk: GeminiChunk) -> None:
        if chunk.error:
            raise error_from_json({"error": chunk.error})
        out = self.out
        out.start(id=chunk.response_id, model=chunk.model_version, created=_seconds(chunk.create_time))
        if chunk.usage_metadata is not None and (usage := read_usage(chunk.usage_metadata)) is not None:
            out.usage = merge_usage(out.usage, usage)
        for candidate in chunk.candidates or ():
            self._candidates = max(self._candidates, (candidate.index or 0) + 1)
            if not candidate.index:
                self._candidate(candidate)
        if chunk.prompt_feedback:
            self._feedback(chunk.prompt_feedback)

    def _feedback(self, feedback: JsonObject) -> None:
        """What is told of the prompt: why it was blocked, in a word or only in a sentence; or that it was not."""
        reason = feedback.get("blockReason")
        is_blocked = reason not in UNBLOCKED or (feedback.get("blockReasonMessage") and not self._candidates)
        if is_blocked:
            self._finish = str(reason or "")
            self._ending["promptFeedback"] = feedback

    def _candidate(self, candidate: GeminiCandidate) -> None:
        for part in (candidate.content and candidate.content.parts) or ():
            self._part(part)
        told = without_none({name: getattr(candidate, field) for name, field in _FIELDS.items()})
        notes = {name: told[name] for name in TEXT_NOTES if name in told}
        if notes:
            self.out.spend(len(msgspec.json.encode(notes)))
            join_notes(self._notes, notes)
        self._ending.update((name, told[name]) for name in FINISH_NOTES if name in told)
        if candidate.finish_reason not in UNFINISHED:
            self._finish = candidate.finish_reason

    def _part(self, data: JsonObject) -> None:
        where = "candidates[0].content.parts"
        try:
            part = decode_part(data, where)
        except InvalidRequest as error:
            kind = MalformedToolCall if error.message.startswith(f"{where}.functionCall") else Malformed
            raise kind(f"{NAME}: {error.message}") from error
        match part:
            case None:
                return
            case Text() | Thinking(redacted=False):
                self._say(part)
            case ToolCall():
                self._call(part, camel(camel(data)["functionCall"]))
            case _:
                self._settle()
                # A result is an answer of the user's, so one that a model gives has no word of ours.
                self.out.whole(Opaque(wire=NAME, data=data) if isinstance(part, ToolResult) else part)

    def _say(self, part: Text | Thinking) -> None:
        """Plain texts that follow each other are one part; one with a signature is a part for itself."""
        signed = bool(wire_extra(part.extra, NAME))
        if not part.text and not signed:
            return
        kind: Literal["text", "thinking"] = "text" if isinstance(part, Text) else "thinking"
        if signed or self._sealed or self._key[0] != kind:
            self._settle()
            self._key, self._sealed = (kind, self._key[1] + 1), signed
            self.out.open(self._key, kind, part.extra)
        self.out.delta(self._key, kind, part.text)

    def _settle(self) -> None:
        """End the text that is open, with what was told of it."""
        kind, number = self._key
        if kind == "text" and self._notes:
            self.out.note(self._key, NAME, self._notes)
            self._notes = {}
        self.out.close(self._key)
        self._key, self._sealed = ("", number), False

    def _call(self, call: ToolCall, data: JsonObject) -> None:
        """A whole call, or a piece of one: its name stands in the first, `willContinue` in all but the last."""
        self._settle()
        more = bool(data.get("willContinue"))
        if call.name:
            self._end_call()
            self._streamed = _Streamed(call=call, arguments=dict(call.arguments))
        if self._streamed is None:
            return
        for piece in listed(data.get("partialArgs")):
            self._argument(self._streamed, camel(piece))
        if not more:
            self._end_call()

    def _argument(self, streamed: _Streamed, piece: JsonObject) -> None:
        steps = [name or quoted or int(index) for name, quoted, index in re.findall(_STEP, str(piece.get("jsonPath")))]
        values = [piece[key] for key in ("stringValue", "numberValue", "boolValue") if key in piece]
        value = None if "nullValue" in piece else values[0] if values else ""
        self.out.spend(len(value) if isinstance(value, str) else 8)
        if steps and isinstance(steps[0], str):
            streamed.put(steps, value)

    def _end_call(self) -> None:
        if self._streamed is not None:
            self.out.spend(len(self._streamed.call.name) + _CALL_COST)
            self.out.whole(self._streamed.whole())
            self._streamed = None


_CALL_COST = 64
"""What is remembered of each call, its id, counts as so many characters."""
_STEP = r"""\.([^.\[\]]+)|\[['"]([^'"]+)['"]\]|\[(\d+)\]"""


def _seconds(moment: str | None) -> int | None:
    try:
        time = datetime.fromisoformat(moment or "")
    except ValueError:
        return None
    return int(time.timestamp()) if time.tzinfo else None
