"""The chunks of a Chat Completions answer in, events out; a whole body is one chunk."""

from collections import Counter
from collections.abc import Callable
from typing import Literal

import msgspec

from dragoman.errors import InvalidRequest, Malformed, ProviderError
from dragoman.events import Assembler
from dragoman.types import Finish, JsonObject, Notice, Opaque, Part, Request, Thinking, is_list, is_object
from dragoman.wires.common.client import merge_usage, truncated
from dragoman.wires.common.errors import error_from_json
from dragoman.wires.common.extra import make_extra
from dragoman.wires.common.framing import BARE, Frame
from dragoman.wires.common.history import calls_before
from dragoman.wires.common.json import (
    DECODE_ERRORS,
    decode_frame,
    decode_json,
    decode_tolerantly,
    encode_json,
    to_timestamp,
    whole_number,
)
from dragoman.wires.openai_chat.calls import ToolCallJoiner
from dragoman.wires.openai_chat.delta_template import DeltaTemplate
from dragoman.wires.openai_chat.parts import add_logprobs, decode_made, decode_thinking, reasoning_fields
from dragoman.wires.openai_chat.schema import (
    BASE_CODES,
    CITATIONS,
    FAILED,
    FINISH,
    LONE,
    NAME,
    ChatChoice,
    ChatChunk,
    ChatMessage,
    ChatUsage,
    read_usage,
)

_CHUNK = msgspec.json.Decoder(ChatChunk, strict=False)
_MEMBERS = msgspec.json.Decoder(JsonObject)
_JOINED = ("text", "summary", "data", "transcript")
"""Members of details and of audio that come in pieces; the others are whole wherever they stand."""


class ChatDecoder:
    """Reads chunks; a whole body has a `message` in place of a `delta`."""

    _finish: str | None = None
    _has_begun = False
    _is_over = False
    _is_refused = False
    _has_thought = False
    _blank_fields: tuple[str, ...] = ()
    _audio: "_Pieces | None" = None
    _calls: ToolCallJoiner | None = None
    _choices = 0

    def __init__(self, request: Request | None) -> None:
        self.out = Assembler(calls_before=calls_before(request))
        self._details: dict[tuple[str, int], _Pieces] = {}
        self._notes: JsonObject = {}
        self._images: list[JsonObject] = []
        self._refrain = DeltaTemplate()

    def read_body(self, body: bytes) -> None:
        """A whole answer."""
        self._read_whole(decode_json(_CHUNK, body), body)

    def read_frame(self, frame: Frame) -> None:
        """One event of a stream."""
        if (piece := self._refrain.piece(frame)) is not None:
            self._delta("text", piece)
            return
        data = frame.data.strip()
        if data == b"[DONE]":
            self._end()
            return
        if frame.name == "error":
            raise _read_failure(data)
        if not data:
            return
        chunk: ChatChunk = decode_frame(_CHUNK, frame)
        if frame.name == BARE:
            self._read_whole(chunk, data)
            return
        if (failure := _failure(chunk, data)) is not None:
            raise failure
        self._read(chunk, _delta)
        if self._is_over and self.out.usage is None and (tokens := _usage_beside(data)) is not None:
            self._usage(tokens)
        if self._details or self._notes or self._audio or self._images:
            self.out.spend(len(data))
        if self._refrain.is_sought and self.out.is_open("text"):
            self._refrain.learn(frame, _text)

    def end(self) -> None:
        """The connection closed. Servers that never say [DONE] end with a finish reason and the usage (2026-08)."""
        if not self._is_over or self.out.usage is None:
            raise truncated(NAME, "finish_reason or [DONE]")
        self._end()

    def _read_whole(self, chunk: ChatChunk, body: bytes) -> None:
        if (failure := _failure(chunk, body)) is not None:
            raise failure
        if chunk.choices is None:
            raise Malformed(f"{NAME}: the body has no choices")
        self._read(chunk, _message)
        self._end()

    def _read(self, chunk: ChatChunk, said_by: Callable[[ChatChoice], ChatMessage | None]) -> None:
        if chunk.usage is not None:
            self._usage(chunk.usage)
        for key in CITATIONS:
            if value := getattr(chunk, key):
                self._notes[key] = value
        for choice in chunk.choices or ():
            if choice.index:
                self._choices = max(self._choices, choice.index + 1)
                continue
            if not self._has_begun:
                self._has_begun = True
                self.out.start(id=str(chunk.id or ""), model=chunk.model, created=to_timestamp(chunk.created))
            self._choice(choice, said_by(choice))

    def _usage(self, tokens: ChatUsage) -> None:
        self.out.usage = merge_usage(self.out.usage, read_usage(tokens))

    def _choice(self, choice: ChatChoice, said: ChatMessage | None) -> None:
        if choice.error:
            raise error_from_json({"error": choice.error})
        if choice.usage is not None:
            self._usage(choice.usage)
        if choice.logprobs is not None and is_object(choice.logprobs):
            add_logprobs(self._notes, choice.logprobs)
        if said is not None:
            self._said(said)
        if choice.finish_reason:
            self._finish = choice.finish_reason
            self._is_over = True

    def _said(self, said: ChatMessage) -> None:
        if said.reasoning_content is not None or said.reasoning is not None or said.reasoning_details:
            self._reasoning(said)
        if said.content is not None:
            self._content(said.content)
        if said.refusal:
            self._is_refused = True
            self._delta("refusal", said.refusal, {"refusal": True})
        for call in said.tool_calls or ():
            self._call(call)
        if said.function_call is not None and (said.function_call.get("name") or said.function_call.get("arguments")):
            self._call({"index": 0, "function": said.function_call, LONE: True})
        if said.annotations:
            self._notes.setdefault("annotations", []).extend(said.annotations)
        if said.images:
            self._images.extend(said.images)
        if said.audio:
            if self._audio is None:
                self._audio = _Pieces()
            self._audio.add(said.audio)

    def _call(self, call: JsonObject) -> None:
        self._is_over = False
        if self._calls is None:
            self._calls = ToolCallJoiner(self.out)
        self._calls.read(call)

    def _reasoning(self, said: ChatMessage) -> None:
        if fields := reasoning_fields(said):
            text = getattr(said, fields[0])
            self._delta("thinking", text, {"fields": fields})
            self._has_thought = self._has_thought or bool(text)
            self._blank_fields = tuple(fields)
        if said.reasoning_details:
            self._merge_details(said.reasoning_details)

    def _merge_details(self, details: list[JsonObject]) -> None:
        """Details of one chunk are apart from each other, and go on with those of the chunks before by their index."""
        seen: Counter[str] = Counter()
        for detail in details:
            index, kind = detail.get("index"), detail.get("type")
            # Encrypted details of several calls share an index, and differ in their id (seen 2026-08).
            id = detail.get("id") if kind == "reasoning.encrypted" else None
            key = f"{index} {kind} {id}" if index is not None else f"{len(self._details)}"
            seen[key] += 1
            self._details.setdefault((key, seen[key]), _Pieces()).add(detail)

    def _whole_details(self) -> list[JsonObject]:
        return [detail.whole() for detail in self._details.values()]

    def _content(self, content: object) -> None:
        if isinstance(content, str):
            self._delta("text", content)
        elif is_list(content):
            for piece in content:
                self._piece(piece)
        else:
            self._delta("text", encode_json(content).decode())

    def _piece(self, piece: object) -> None:
        """A chunk of list content: text, or thinking that is itself a list."""
        if not is_object(piece):
            raise Malformed(f"{NAME}: content is neither text nor a list of parts")
        if piece.get("type") == "text" and isinstance(piece.get("text"), str):
            self._delta("text", piece["text"])
        elif (thinking := decode_thinking(piece)) is not None:
            self._delta("thinking", thinking.text, {"fields": ["content"]})
            if self.out.is_open("thinking"):
                self.out.note("thinking", NAME, thinking.extra[NAME])
        else:
            self._switch("piece")
            self.out.whole(Opaque(wire=NAME, data=piece))

    def _delta(self, key: Literal["text", "thinking", "refusal"], text: str, extra: JsonObject | None = None) -> None:
        if text:
            self._is_over = False
            self._switch(key)
            self.out.delta(key, "thinking" if key == "thinking" else "text", text, {NAME: extra} if extra else None)

    def _switch(self, key: str) -> None:
        """End what is open, unless it is this."""
        if not self.out.is_open(key):
            self._settle()
            self.out.close_others(key)

    def _settle(self) -> None:
        """Give the text or thinking that ends here what belongs to it."""
        if self._notes and self.out.is_open("text"):
            self.out.note("text", NAME, self._notes)
            self._notes = {}
        if self._details and self.out.is_open("thinking"):
            self.out.note("thinking", NAME, {"details": self._whole_details()})
            self._details = {}

    def _end(self) -> None:
        if self._finish in FAILED:
            failure = error_from_json({"code": self._finish, "message": f"the server broke off: {self._finish}"})
            failure.usage = self.out.usage
            raise failure
        word = self._finish or ""
        reason = "blocked" if self._is_refused else FINISH.get(word.lower(), "other")
        if self._calls is not None:
            self._calls.finish(cut=reason == "length")
        self._leftovers()
        unknown = {"finish_reason": word} if word and reason == "other" and word not in FINISH else {}
        self.out.finish(Finish(reason=reason, raw=self._finish, extra=make_extra(NAME, unknown)))

    def _leftovers(self) -> None:
        """What came without the part that it belongs to, or has no end of its own."""
        out = self.out
        self._settle()
        if self._details:
            out.whole(Thinking(text="", redacted=True, extra={NAME: {"details": self._whole_details()}}))
        elif self._blank_fields and not self._has_thought and self._calls is not None:
            # Thinking that says nothing must be given back, too, with the calls that followed it (2026-08).
            out.whole(Thinking(text="", extra={NAME: {"fields": [*self._blank_fields]}}))
        for image in self._images:
            out.whole(_image(image))
        if self._audio is not None:
            out.whole(Opaque(wire=NAME, data={"audio": self._audio.whole()}))
        for what in self._notes:
            out.notices.append(Notice(kind="dropped", what=what, why="there is no text that it belongs to"))
        if self._choices > 1:
            why = f"there were {self._choices} choices; the first is the response"
            out.notices.append(Notice(kind="info", what="choices", why=why))


def _text(data: bytes) -> str | None:
    """The text of a chunk that says nothing else, and can be read at once."""
    try:
        chunk = _CHUNK.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if chunk.choices is None or len(chunk.choices) != 1 or chunk.choices[0].delta is None:
        return None
    choice, text = chunk.choices[0], chunk.choices[0].delta.content
    if not isinstance(text, str) or choice.index:
        return None
    alone = [ChatChoice(index=choice.index, delta=ChatMessage(content=text))]
    plain = ChatChunk(id=chunk.id, object=chunk.object, model=chunk.model, created=chunk.created, choices=alone)
    return text if chunk == plain else None


def _delta(choice: ChatChoice) -> ChatMessage | None:
    return choice.delta


def _message(choice: ChatChoice) -> ChatMessage | None:
    return choice.message or choice.delta


def _failure(chunk: ChatChunk, data: bytes) -> ProviderError | None:
    """The error that stands in place of an answer, in any of the shapes that servers give it."""
    if chunk.error or chunk.object == "error":
        return _read_failure(data)
    if chunk.choices:
        return None
    if chunk.base_resp is not None and (code := chunk.base_resp.status_code):
        return error_from_json({"code": code, "type": BASE_CODES.get(code), "message": chunk.base_resp.status_msg})
    told = chunk.errors or chunk.message or chunk.detail
    return _read_failure(data) if chunk.choices is None and told else None


def _usage_beside(data: bytes) -> ChatUsage | None:
    """The usage that the last chunk has in a member of the server's own (seen 2025-04)."""
    try:
        members = decode_tolerantly(_MEMBERS, data)
    except DECODE_ERRORS:
        # What is spoilt is a member that nobody reads.
        return None
    for member in members.values():
        usage = member.get("usage") if is_object(member) else None
        if is_object(usage) and whole_number(usage.get("completion_tokens")) is not None:
            return msgspec.convert({key: n for key in usage if (n := whole_number(usage[key])) is not None}, ChatUsage)
    return None


def _read_failure(data: bytes) -> ProviderError:
    """The error that some bytes say, as JSON or in words."""
    return error_from_json(data.decode("utf-8", "replace"))


def _image(data: JsonObject) -> Part:
    try:
        return decode_made(data, "images")
    except InvalidRequest as error:
        raise Malformed(f"{NAME}: {error.message}") from error


class _Pieces:
    """An object that comes in pieces: its texts are joined, and of the others the last word stands."""

    def __init__(self) -> None:
        self.members: JsonObject = {}
        self._texts: dict[str, list[str]] = {}

    def add(self, new: JsonObject) -> None:
        for key, value in new.items():
            if key in _JOINED and isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
                self.members[key] = ""
            elif value is not None or key not in self.members:
                self.members[key] = value

    def whole(self) -> JsonObject:
        return {**self.members, **{key: "".join(texts) for key, texts in self._texts.items()}}
