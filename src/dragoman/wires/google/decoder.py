"""Decodes the answers of generateContent into events.

A stream is server-sent events or a JSON array of chunks; the first byte tells which. A whole body is one chunk, or a
list of chunks. Consecutive plain texts become one part; a text with a signature is a part of its own. The stream has no
end marker: it is complete if the connection closes after a finish reason.
"""

import re
from itertools import pairwise
from typing import Any, Literal

import msgspec

from dragoman.errors import InvalidRequest, Malformed, MalformedToolCall
from dragoman.events import Assembler, fold
from dragoman.types import (
    Choice,
    Finish,
    JsonObject,
    Notice,
    Opaque,
    Request,
    Text,
    Thinking,
    TokenLogprob,
    ToolCall,
    ToolResult,
    is_list,
)
from dragoman.types.requests import MAX_CHOICES
from dragoman.wires.common.errors import error_from_json
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.framing import Frame
from dragoman.wires.common.history import calls_before
from dragoman.wires.common.json import decode_frame, decode_json, without_none
from dragoman.wires.common.stream_decoder import merge_usage, truncated_error
from dragoman.wires.common.times import read_time
from dragoman.wires.google.grounding import read_citations
from dragoman.wires.google.hosted_tools import read_grounding
from dragoman.wires.google.logprobs import read_logprobs_result
from dragoman.wires.google.partial_args import ArgumentsWriter
from dragoman.wires.google.parts import decode_part
from dragoman.wires.google.schema import (
    FINISH_FIELDS,
    FINISH_REASONS,
    NAME,
    SIGNATURE,
    TEXT_FIELDS,
    UNBLOCKED,
    UNFINISHED,
    GeminiCandidate,
    GeminiChunk,
    as_objects,
    camel,
    join_fields,
    read_usage,
)

_CHUNK_DECODER = msgspec.json.Decoder(GeminiChunk, strict=False)
_BODY_DECODER = msgspec.json.Decoder(GeminiChunk | list[GeminiChunk], strict=False)
_FIELD_BY_JSON_NAME = dict(
    zip(GeminiCandidate.__struct_encode_fields__, GeminiCandidate.__struct_fields__, strict=True)
)
"""The attribute of a `GeminiCandidate` for each member of the JSON object."""
_TOKEN_COST = 16
"""What a token with its probability counts for the limit of the response, in characters, besides its text."""
_CALL_COST = 64
"""What a call counts for the limit of the response, in characters, besides its content."""
_STEP = r"""\.([^.\[\]]+)|\[['"]([^'"]+)['"]\]|\[(\d+)\]"""
"""A step of a JSON path: `.name`, `['name']` or `[0]`."""


class _GrowingText(msgspec.Struct):
    """A text in the arguments that comes in pieces: `holder[key]` is the place where it goes."""

    holder: Any
    key: Any
    pieces: list[str]


def _slot(holder: Any, step: Any) -> tuple[Any, object]:
    """The key of a step in an object or a list, and the value there; a list grows by one item at most."""
    if not is_list(holder):
        return step, holder.get(step)
    key = min(step, len(holder))
    if key == len(holder):
        holder.append(None)
    return key, holder[key]


class _StreamedCall(msgspec.Struct):
    """A call whose arguments come in pieces."""

    call: ToolCall
    arguments: JsonObject
    texts: list[_GrowingText] = []
    key: object = None
    """The key of the call, if its fragments are emitted."""
    writer: ArgumentsWriter | None = None

    def put(self, steps: list[Any], value: object) -> None:
        """Set the value at a path; a text is appended to the text that is already there."""
        holder: Any = self.arguments
        for step, after in pairwise(steps):
            key, old = _slot(holder, step)
            kind = list if isinstance(after, int) else dict
            holder[key] = old if isinstance(old, kind) else kind()
            holder = holder[key]
        key, old = _slot(holder, steps[-1])
        holder[key] = self._append(holder, key, old, value)

    def _append(self, holder: Any, key: Any, old: object, value: object) -> object:
        if not isinstance(value, str):
            return value
        if isinstance(old, _GrowingText):
            old.pieces.append(value)
            return old
        text = _GrowingText(holder=holder, key=key, pieces=[old, value] if isinstance(old, str) else [value])
        self.texts.append(text)
        return text

    def whole(self) -> ToolCall:
        for text in self.texts:
            if text.holder[text.key] is text:
                text.holder[text.key] = "".join(text.pieces)
        return msgspec.structs.replace(self.call, arguments=self.arguments)


class GeminiDecoder:
    """Decodes one answer, whole or streamed."""

    def __init__(self, request: Request | None, index: int = 0) -> None:
        """`index`: the candidate that this decoder reads."""
        self.out = Assembler(calls_before=calls_before(request))
        """Collects the events."""
        self._finish: str | None = None
        self._emitted_calls = 0
        """How many calls were emitted in fragments."""
        self._finish_extra: JsonObject = {}
        self._text_extra: JsonObject = {}
        self._open_text_key: tuple[str, int] = ("", 0)
        """The kind and number of the open text."""
        self._is_open_text_signed = False
        self._streamed: _StreamedCall | None = None
        self._candidate_count = 0
        self._request = request
        self._where = f"candidates[{index}].content.parts"
        self._others: dict[int, GeminiDecoder] = {}
        self._logprobs: list[TokenLogprob] = []

    def read_body(self, body: bytes) -> None:
        data: GeminiChunk | list[GeminiChunk] = decode_json(_BODY_DECODER, body)
        for chunk in data if isinstance(data, list) else [data]:
            self._read(chunk)
        if self.out.usage is None and not self._candidate_count and self._finish is None:
            raise Malformed(f"{NAME}: the body has no candidates and no block reason")
        self._finish_response()

    def read_frame(self, frame: Frame) -> None:
        # Gateways that imitate Google end their streams with [DONE] (seen 2025-12); Google never does.
        if frame.data.strip() not in (b"", b"[DONE]"):
            self._read(decode_frame(_CHUNK_DECODER, frame))

    def end(self) -> None:
        if not self.has_finished:
            raise truncated_error(NAME, "finishReason")
        self._finish_response()

    @property
    def has_finished(self) -> bool:
        """Whether every candidate has a finish reason."""
        return self._finish is not None and all(other.has_finished for other in self._others.values())

    def _finish_response(self) -> None:
        out = self.out
        reason = (
            "blocked" if "promptFeedback" in self._finish_extra else FINISH_REASONS.get(self._finish or "", "other")
        )
        self._close_text()
        if self._streamed is not None and self._streamed.writer is not None and reason == "length":
            # Emit the start of the arguments, but no end: the call is incomplete.
            self.out.add_call_fragment(self._streamed.key, text=self._streamed.writer.begin())
        elif self._streamed is not None and reason == "length":
            call = self._streamed.whole()
            why = f"the length limit cut its arguments off: {msgspec.json.encode(call.arguments).decode()}"
            out.notices.append(Notice(kind="dropped", what=f"tool call {call.name}", why=why))
        else:
            self._end_call()
        if self._logprobs:
            why = "the response has no text that it belongs to"
            out.notices.append(Notice(kind="dropped", what="logprobs", why=why))
        out.other_choices = tuple([self._others[index].finish_as_choice() for index in sorted(self._others)])
        extra = make_extra(NAME, {**self._finish_extra, **self._text_extra})
        out.finish(Finish(reason=reason, raw=self._finish or None, extra=extra))

    def _read(self, chunk: GeminiChunk) -> None:
        if chunk.error:
            raise error_from_json({"error": chunk.error})
        out = self.out
        out.start(id=chunk.response_id, model=chunk.model_version, created=read_time(chunk.create_time))
        if chunk.usage_metadata is not None and (usage := read_usage(chunk.usage_metadata)) is not None:
            out.usage = merge_usage(out.usage, usage)
        if chunk.usage_metadata is not None and isinstance(tier := chunk.usage_metadata.service_tier, str):
            out.service_tier = tier.lower()
        for candidate in chunk.candidates or ():
            self._candidate_count = max(self._candidate_count, (candidate.index or 0) + 1)
            if candidate.index:
                self._read_other(candidate.index, candidate)
            else:
                self.read_candidate(candidate)
        if chunk.prompt_feedback:
            self._read_prompt_feedback(chunk.prompt_feedback)

    def _read_other(self, index: int, candidate: GeminiCandidate) -> None:
        """Read one of the further candidates, which a request with `n` gets."""
        other = self._others.get(index)
        if other is None:
            if len(self._others) >= MAX_CHOICES - 1:
                raise Malformed(f"{NAME}: the answer has more than {MAX_CHOICES} candidates")
            other = self._others[index] = GeminiDecoder(self._request, index)
        before = other.out.content_length
        other.read_candidate(candidate)
        self.out.count_characters(other.out.content_length - before)

    def finish_as_choice(self) -> Choice:
        """End the candidate; its answer."""
        self._finish_response()
        response = fold(self.out.take())
        return Choice(message=response.message, finish=response.finish)

    def _read_prompt_feedback(self, feedback: JsonObject) -> None:
        """Read whether the prompt was blocked: there is a reason, or a message and no candidate."""
        reason = feedback.get("blockReason")
        is_blocked = reason not in UNBLOCKED or (feedback.get("blockReasonMessage") and not self._candidate_count)
        if is_blocked:
            self._finish = str(reason or "")
            self._finish_extra["promptFeedback"] = feedback

    def read_candidate(self, candidate: GeminiCandidate) -> None:
        """Read a candidate, or a piece of it."""
        if candidate.logprobs_result is not None:
            # Read them before the parts: a call among the parts closes the text that they belong to.
            tokens = read_logprobs_result(candidate.logprobs_result)
            self.out.count_characters(sum(len(token.token) + _TOKEN_COST * (1 + len(token.top)) for token in tokens))
            self._logprobs += tokens
        for part in (candidate.content and candidate.content.parts) or ():
            self._read_part(part)
        fields = without_none({name: getattr(candidate, field) for name, field in _FIELD_BY_JSON_NAME.items()})
        text_fields = {name: fields[name] for name in TEXT_FIELDS if name in fields}
        if text_fields:
            self.out.count_characters(len(msgspec.json.encode(text_fields)))
            join_fields(self._text_extra, text_fields)
        self._finish_extra.update((name, fields[name]) for name in FINISH_FIELDS if name in fields)
        if candidate.finish_reason not in UNFINISHED:
            self._finish = candidate.finish_reason

    def _read_part(self, data: JsonObject) -> None:
        try:
            part = decode_part(data, self._where)
        except InvalidRequest as error:
            kind = MalformedToolCall if "functionCall" in camel(data) else Malformed
            raise kind(f"{NAME}: {error.message}") from error
        match part:
            case None:
                return
            case Text() | Thinking(redacted=False):
                self._read_text(part)
            case ToolCall():
                self._read_call(part, camel(camel(data)["functionCall"]))
            case _:
                self._close_text()
                # Results come from users only. If a model sends one, it is kept as it is.
                self.out.add_part(Opaque(wire=NAME, data=data) if isinstance(part, ToolResult) else part)

    def _read_text(self, part: Text | Thinking) -> None:
        """Read a text. Consecutive texts become one part; a text with a signature is a part of its own."""
        is_signed = bool(wire_extra(part.extra, NAME))
        if not part.text and not is_signed:
            return
        kind: Literal["text", "thinking"] = "text" if isinstance(part, Text) else "thinking"
        if is_signed or self._is_open_text_signed or self._open_text_key[0] != kind:
            self._close_text()
            self._open_text_key, self._is_open_text_signed = (kind, self._open_text_key[1] + 1), is_signed
            self.out.open(self._open_text_key, kind, part.extra)
        self.out.delta(self._open_text_key, kind, part.text)

    def _close_text(self) -> None:
        """Close the open text, with its extra."""
        kind, number = self._open_text_key
        extra: JsonObject = {}
        if kind == "text" and self._text_extra:
            extra, self._text_extra = self._text_extra, {}
            self.out.add_extra(self._open_text_key, NAME, extra)
            self.out.add_citations(self._open_text_key, read_citations(self.out.text_of(self._open_text_key), extra))
        if kind == "text" and self._logprobs:
            self.out.add_logprobs(self._open_text_key, self._logprobs)
            self._logprobs = []
        self.out.close(self._open_text_key)
        self._open_text_key, self._is_open_text_signed = ("", number), False
        for part in read_grounding(extra):
            self.out.add_part(part)

    def _read_call(self, call: ToolCall, data: JsonObject) -> None:
        """Read a call, or a piece of one. The first piece has the name; all but the last have `willContinue`."""
        self._close_text()
        is_last = not data.get("willContinue")
        if call.name:
            self._end_call()
            self._streamed = _StreamedCall(call=call, arguments=dict(call.arguments))
            if self.out.call_deltas and not is_last and not call.arguments:
                self._start_fragments(self._streamed)
        if self._streamed is None:
            return
        if not call.name and SIGNATURE in (extra := wire_extra(call.extra, NAME)):
            self._sign_call(self._streamed, {SIGNATURE: extra[SIGNATURE]})
        for piece in as_objects(data.get("partialArgs")):
            self._read_argument(self._streamed, camel(piece))
        if is_last:
            self._end_call()

    def _read_argument(self, streamed: _StreamedCall, piece: JsonObject) -> None:
        steps, value = _steps_of(str(piece.get("jsonPath"))), _value_of(piece)
        if not steps or not isinstance(steps[0], str):
            return
        if streamed.writer is not None:
            self.out.add_call_fragment(streamed.key, text=streamed.writer.write(steps, value))
            return
        self.out.count_characters(len(value) if isinstance(value, str) else 8)
        streamed.put(steps, value)

    def _sign_call(self, streamed: _StreamedCall, signature: JsonObject) -> None:
        """Add the signature of a later piece to the call."""
        if streamed.writer is not None:
            self.out.add_extra(streamed.key, NAME, signature)
        extra = {**streamed.call.extra, NAME: {**wire_extra(streamed.call.extra, NAME), **signature}}
        streamed.call = msgspec.structs.replace(streamed.call, extra=extra)

    def _start_fragments(self, streamed: _StreamedCall) -> None:
        """Emit the start of a call; its fragments follow as they come."""
        self._emitted_calls += 1
        call, streamed.key, streamed.writer = streamed.call, ("call", self._emitted_calls), ArgumentsWriter()
        self.out.add_call_fragment(streamed.key, id=call.id, name=call.name)
        for wire, data in call.extra.items():
            self.out.add_extra(streamed.key, wire, data)

    def _end_call(self) -> None:
        streamed, self._streamed = self._streamed, None
        if streamed is None:
            return
        if streamed.writer is not None:
            self.out.add_call_fragment(streamed.key, text=streamed.writer.end())
            self.out.close(streamed.key)
            return
        self.out.count_characters(len(streamed.call.name) + _CALL_COST)
        self.out.add_part(streamed.whole())


def _steps_of(path: str) -> list[str | int]:
    """The steps of a JSON path: names of members and indexes of items."""
    return [name or quoted or int(index) for name, quoted, index in re.findall(_STEP, path)]


def _value_of(piece: JsonObject) -> object:
    """The value of a piece of an argument; an empty text if it has none."""
    if "nullValue" in piece:
        return None
    return next((piece[key] for key in ("stringValue", "numberValue", "boolValue") if key in piece), "")
