"""Decodes the answers of the Interactions API into events.

An interaction is a list of steps. A stream starts steps, sends deltas and stops steps, by index, and ends with the
interaction without its steps. A whole body goes through the methods of a stream, with each step started and stopped at
once. Older versions of the API had `outputs` and events named `content`, which are read, too.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from dragoman.errors import InvalidRequest, Malformed
from dragoman.events import Assembler, check_open
from dragoman.types import Finish, JsonObject, Opaque, Request, Text, Thinking, is_list, is_object
from dragoman.types.data_urls import decode_base64, encode_base64
from dragoman.wires.common.citations import read_annotations
from dragoman.wires.common.errors import error_from_json
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.framing import Frame
from dragoman.wires.common.history import calls_before
from dragoman.wires.common.json import DECODE_ERRORS, decode_frame, decode_json, encode_json, object_of, text_of
from dragoman.wires.common.stream_decoder import truncated_error
from dragoman.wires.common.times import read_time
from dragoman.wires.google_interactions.hosted_tools import decode_hosted_step
from dragoman.wires.google_interactions.parts import decode_content, decode_step, decode_thought, is_content_type
from dragoman.wires.google_interactions.schema import (
    ANSWER_FIELDS,
    BLOCKED,
    COUNTS,
    FINISH_REASONS,
    NAME,
    NO_MESSAGE,
    read_usage,
)

_ANY = msgspec.json.Decoder()


class _Step(msgspec.Struct):
    """A step that is not complete yet."""

    slot: int
    kind: str
    data: JsonObject
    contents: int = 0
    """How many contents have ended; a text has the key `(slot, contents)`."""
    annotations: list[Any] = []
    summary: list[Any] = []
    """The contents of a thought's summary, if they are more than text."""
    medium: JsonObject | None = None
    """A medium whose pieces still come."""
    pieces: list[bytes] = []
    texts: list[str] = []
    """The JSON text of the arguments of a tool that Google runs."""


class InteractionsDecoder:
    """Decodes one answer, whole or streamed."""

    def __init__(self, request: Request | None) -> None:
        self.out = Assembler(calls_before=calls_before(request))
        self._steps: dict[object, _Step] = {}
        self._count = 0
        self._more_usage: JsonObject = {}
        self._empty_call: int | None = None
        """The slot of a finished call without arguments, if it is the last step."""

    def read_body(self, body: bytes) -> None:
        answer = decode_json(_ANY, body)
        if not is_object(answer) or not isinstance(answer.get("status"), str):
            if is_object(answer) and "error" in answer:
                raise error_from_json(answer)
            raise Malformed(f"{NAME}: the body has no status")
        self._start(answer)
        self._whole_steps(answer)
        self._finish(answer)

    def read_frame(self, frame: Frame) -> None:
        if frame.data.strip() == b"[DONE]":
            raise truncated_error(NAME, "interaction.completed event")
        event = decode_frame(_ANY, frame)
        if not is_object(event):
            raise Malformed(f"{NAME}: an event is not an object")
        name = event.get("event_type") or frame.name
        read = self._events.get(name) if isinstance(name, str) else None
        if read is not None:
            read(self, event)
        elif event.get("error"):
            raise error_from_json(event)

    def end(self) -> None:
        raise truncated_error(NAME, "interaction.completed event")

    # The interaction ---------------------------------------------------------------------------------------------

    def _start(self, answer: JsonObject) -> None:
        id, model = text_of(answer.get("id")), text_of(answer.get("model"))
        self.out.start(id=id, model=model, created=read_time(answer.get("created")))

    def _created(self, event: JsonObject) -> None:
        self._start(object_of(event.get("interaction")))
        self._usage(object_of(event.get("metadata")))

    def _status(self, event: JsonObject) -> None:
        self._usage(event)
        self.out.ping()

    def _completed(self, event: JsonObject) -> None:
        answer = event.get("interaction")
        if not is_object(answer):
            raise Malformed(f"{NAME}: the last event has no interaction")
        self._start(answer)
        if not self._count:
            self._whole_steps(answer)
        self._finish(answer)

    def _error(self, event: JsonObject) -> None:
        raise error_from_json(event)

    def _usage(self, holder: JsonObject) -> None:
        tokens = holder.get("usage") or holder.get("total_usage")
        if is_object(tokens):
            self.out.usage = read_usage(tokens) or self.out.usage
            self._more_usage = {key: value for key, value in tokens.items() if key not in COUNTS and value}

    def _finish(self, answer: JsonObject) -> None:
        for index in list(self._steps):
            self._close(index)
        self._usage(answer)
        if isinstance(tier := answer.get("service_tier"), str):
            self.out.service_tier = tier
        status = text_of(answer.get("status"))
        extra = {key: value for key, value in answer.items() if key not in ANSWER_FIELDS and value is not None}
        if self._more_usage:
            extra["usage"] = self._more_usage
        reason, raw = FINISH_REASONS.get(status, "other"), status
        if status == "failed":
            reason, raw = "blocked", _block_code(extra)
            if extra.get("errors") == [{"code": raw, "message": NO_MESSAGE}]:
                del extra["errors"]
        elif reason == "tool_calls" and not self.out.has_calls:
            reason = "pause"  # a tool of the provider waits for something
        self.out.finish(Finish(reason=reason, raw=raw or None, extra=make_extra(NAME, extra)))

    # Whole steps -------------------------------------------------------------------------------------------------

    def _whole_steps(self, answer: JsonObject) -> None:
        steps = answer.get("steps", answer.get("outputs"))
        for step in steps if is_list(steps) else ():
            if not is_object(step):
                raise Malformed(f"{NAME}: a step is not an object")
            self._whole(step)

    def _whole(self, data: JsonObject) -> None:
        step = {"type": "model_output", "content": [data]} if is_content_type(data) else data
        if step.get("type") == "function_call":
            index, arguments = self._count, step.get("arguments")
            self._begin(index, step)
            # In a stream, {} stands for arguments that are still to come; here it is all of them.
            if arguments is not None:
                self.out.add_call_fragment(index, text=encode_json(arguments).decode())
            self._close(index)
            return
        self._count += 1
        self._close_empty_call()
        try:
            parts = decode_step(step, "steps")
        except InvalidRequest as error:
            raise Malformed(f"{NAME}: {error.message}") from error
        for place, part in enumerate(parts):
            key = (self._count - 1, place)
            match part:
                case Text() if part.text or part.extra:
                    self.out.open(key, "text", part.extra)
                    self.out.delta(key, "text", part.text)
                    self.out.add_citations(key, part.citations)
                    self.out.close(key)
                case Text():
                    continue
                case Thinking():
                    self._whole_thought(key, part)
                    self.out.close(key, redacted=part.redacted)
                case _:
                    self.out.count_characters(_COST)
                    self.out.add_part(part)

    # Streamed steps ----------------------------------------------------------------------------------------------

    def _step_start(self, event: JsonObject) -> None:
        index = _key(event.get("index"))
        data = event.get("step", event.get("content"))
        step = self._steps.get(index)
        if step is not None and is_object(data) and _mark(step.data) == _mark(data):
            return  # the same event again: servers and proxies send frames twice
        self._close(index)
        if is_object(data):
            self._begin(index, data)

    def _begin(self, index: object, data: JsonObject) -> None:
        self._close_empty_call()
        check_open(len(self._steps))
        kind = "model_output" if is_content_type(data) else text_of(data.get("type"))
        step = self._steps[index] = _Step(slot=self._count, kind=kind, data=data)
        self._count += 1
        self.out.count_characters(len(encode_json(data)))
        if kind == "model_output":
            content = [data] if is_content_type(data) else data.get("content")
            for item in content if is_list(content) else ():
                self._content(step, object_of(item))
        elif kind == "thought":
            self._whole_thought(step.slot, decode_thought(data))
        elif kind == "function_call":
            self.out.add_call_fragment(step.slot, id=text_of(data.get("id")), name=text_of(data.get("name")))

    def _step_delta(self, event: JsonObject) -> None:
        self._usage(object_of(event.get("metadata")))
        index, delta = _key(event.get("index")), event.get("delta")
        if not is_object(delta):
            return
        step = self._steps.get(index)
        if step is None:
            raise Malformed(f"{NAME}: a delta for step {index}, which is not open")
        match step.kind:
            case "model_output":
                self._content(step, delta)
            case "thought":
                self._thought(step, delta)
            case "function_call":
                self._call(step, delta)
            case _:
                self.out.count_characters(len(encode_json(delta)))
                if isinstance(text := delta.get("arguments"), str):
                    step.texts.append(text)
                else:
                    step.data = _merged(step.data, delta)

    def _content(self, step: _Step, content: JsonObject) -> None:
        """Read a content of an output, or a piece of it."""
        kind = content.get("type")
        if step.medium is not None and kind != step.medium.get("type"):
            self._end_medium(step)
        match kind:
            case "text":
                self.out.delta((step.slot, step.contents), "text", text_of(content.get("text")))
                self._annotate(step, content.get("annotations"))
            case "text_annotation_delta" | "text_annotation":
                self._annotate(step, content.get("annotations"))
            case "audio" | "video" if isinstance(data := content.get("data"), str) and not content.get("uri"):
                self._piece(step, content, data)
            case _:
                self._end_text(step)
                self._add_content(content)

    def _annotate(self, step: _Step, annotations: object) -> None:
        if is_list(annotations) and annotations:
            self.out.count_characters(len(encode_json(annotations)))
            step.annotations += annotations

    def _piece(self, step: _Step, content: JsonObject, data: str) -> None:
        self._end_text(step)
        self.out.count_characters(len(data))
        try:
            piece = decode_base64(data)
        except ValueError as error:
            raise Malformed(f"{NAME}: {error}") from error
        if step.medium is None:
            step.medium, step.pieces = {}, []
        step.medium = {**step.medium, **{key: value for key, value in content.items() if key != "data"}}
        step.pieces.append(piece)

    def _end_medium(self, step: _Step) -> None:
        if step.medium is not None:
            medium, step.medium = {**step.medium, "data": encode_base64(b"".join(step.pieces))}, None
            self._add_content(medium)

    def _add_content(self, content: JsonObject) -> None:
        try:
            part = decode_content(content, "content")
        except InvalidRequest as error:
            raise Malformed(f"{NAME}: {error.message}") from error
        self.out.count_characters(len(encode_json(content)))
        self.out.add_part(part or Opaque(wire=NAME, data={"type": "model_output", "content": [content]}))

    def _end_text(self, step: _Step) -> None:
        key = (step.slot, step.contents)
        if step.annotations:
            self.out.open(key, "text")
            self.out.add_extra(key, NAME, {"annotations": step.annotations})
            self.out.add_citations(key, read_annotations(step.annotations))
            step.annotations = []
        self.out.close(key)
        step.contents += 1

    def _whole_thought(self, key: object, thought: Thinking) -> None:
        """Begin a thought with what is known of it; without a text or a signature it has no meaning."""
        if thought.text or wire_extra(thought.extra, NAME):
            self.out.open(key, "thinking", thought.extra)
            self.out.delta(key, "thinking", thought.text)

    def _thought(self, step: _Step, delta: JsonObject) -> None:
        content, signature = object_of(delta.get("content")), text_of(delta.get("signature"))
        self.out.delta(step.slot, "thinking", text_of(content.get("text")), {NAME: {}})
        if content and content.get("type") != "text":
            self.out.count_characters(len(encode_json(content)))
            step.summary.append(content)
        if signature:
            self.out.open(step.slot, "thinking", {NAME: {}})
            self.out.count_characters(len(signature))
            self.out.add_extra(step.slot, NAME, {"signature": signature})

    def _end_thought(self, step: _Step) -> None:
        text = self.out.text_of(step.slot)
        if step.summary:
            self.out.open(step.slot, "thinking", {NAME: {}})
            texts = [{"type": "text", "text": text}] if text else []
            self.out.add_extra(step.slot, NAME, {"summary": [*texts, *step.summary]})
        self.out.close(step.slot, redacted=not text)

    def _call(self, step: _Step, delta: JsonObject) -> None:
        arguments = delta.get("arguments")
        self.out.add_call_fragment(step.slot, id=text_of(delta.get("id")), name=text_of(delta.get("name")))
        if is_object(arguments):
            self.out.replace_call_text(step.slot, encode_json(arguments).decode())
        else:
            self.out.add_call_fragment(step.slot, text=text_of(arguments))

    def _end_call(self, step: _Step) -> None:
        arguments = step.data.get("arguments")
        if arguments and not self.out.call_text(step.slot):
            self.out.add_call_fragment(step.slot, text=encode_json(arguments).decode())
        rest = {key: value for key, value in step.data.items() if key not in _CALL and value is not None}
        if rest:
            self.out.add_extra(step.slot, NAME, rest)
        if self.out.call_text(step.slot):
            self.out.close(step.slot)
        else:
            # The next event tells whether the call has no arguments or the length limit cut them off.
            self._empty_call = step.slot

    def _close_empty_call(self) -> None:
        if self._empty_call is not None:
            self.out.close(self._empty_call)
            self._empty_call = None

    def _step_stop(self, event: JsonObject) -> None:
        self._close(_key(event.get("index")))

    def _close(self, index: object) -> None:
        step = self._steps.pop(index, None)
        if step is None:
            return
        match step.kind:
            case "model_output":
                self._end_medium(step)
                self._end_text(step)
                rest = {key: value for key, value in step.data.items() if key not in _OUTPUT and value is not None}
                if rest and not is_content_type(step.data):
                    self.out.add_part(Opaque(wire=NAME, data={"type": "model_output", **rest}))
            case "thought":
                self._end_thought(step)
            case "function_call":
                self._end_call(step)
            case _:
                arguments = {"arguments": _parsed("".join(step.texts))} if step.texts else {}
                data = {**step.data, **arguments}
                self.out.add_part(decode_hosted_step(data) or Opaque(wire=NAME, data=data))

    _events: ClassVar[dict[str, "Callable[[InteractionsDecoder, JsonObject], None]"]] = {
        "interaction.created": _created,
        "interaction.start": _created,
        "interaction.status_update": _status,
        "interaction.completed": _completed,
        "interaction.complete": _completed,
        "step.start": _step_start,
        "content.start": _step_start,
        "step.delta": _step_delta,
        "content.delta": _step_delta,
        "step.stop": _step_stop,
        "content.stop": _step_stop,
        "error": _error,
    }


_COST = 64
"""Characters that each part counts for, besides its content."""
_CALL = frozenset({"type", "id", "name", "arguments"})
_OUTPUT = frozenset({"type", "content"})


def _block_code(extra: JsonObject) -> str:
    """The code of a blocked answer; raises the error of any other failure."""
    errors = extra.get("errors")
    error = object_of(errors[0] if is_list(errors) and errors else extra.get("error"))
    code = text_of(error.get("code"))
    if code.lower() in BLOCKED:
        return code
    raise error_from_json({"error": error or {"message": "the interaction failed", "code": "api_error"}})


def _merged(data: JsonObject, delta: JsonObject) -> JsonObject:
    """A step of a tool of Google with one more piece: lists grow, other members are replaced."""
    for key, value in delta.items():
        old = data.get(key)
        if is_list(old) and is_list(value):
            old += value
        elif key != "type":
            data[key] = value
    return data


def _parsed(text: str) -> Any:
    try:
        return _ANY.decode(text)
    except DECODE_ERRORS:
        return text


def _mark(data: JsonObject) -> tuple[Any, Any]:
    """What makes a step different from another one at the same place."""
    return data.get("type"), data.get("id", data.get("call_id"))


def _key(index: object) -> object:
    return index if isinstance(index, int | str) else None
