"""Decodes the responses of Chat Completions servers.

A stream is a sequence of chunks; a whole body is decoded as one chunk with a `message` in place of a `delta`. Text and
thinking become events at once. Tool calls, reasoning details, images, audio and citations come in pieces without an end
mark, so they are collected and completed when the response ends.
"""

from collections import Counter
from collections.abc import Callable
from typing import Literal

import msgspec

from dragoman.errors import InvalidRequest, Malformed, ProviderError
from dragoman.events import Assembler, fold
from dragoman.types import (
    Choice,
    Finish,
    JsonObject,
    Notice,
    Opaque,
    Part,
    Request,
    Thinking,
    TokenLogprob,
    is_list,
    is_object,
)
from dragoman.types.requests import MAX_CHOICES
from dragoman.wires.common.aws_errors import decode_exception
from dragoman.wires.common.classify import model_mistake
from dragoman.wires.common.content_filters import filter_notices, is_filtered, merge_results, prompt_results
from dragoman.wires.common.errors import error_from_json
from dragoman.wires.common.event_stream import EXCEPTION
from dragoman.wires.common.extra import make_extra
from dragoman.wires.common.framing import BARE, Frame
from dragoman.wires.common.history import calls_before
from dragoman.wires.common.invoke import read_metrics
from dragoman.wires.common.json import (
    DECODE_ERRORS,
    decode_frame,
    decode_json,
    decode_tolerantly,
    encode_json,
    objects,
    to_timestamp,
    whole_number,
)
from dragoman.wires.common.prompt_size import note_cut_prompt
from dragoman.wires.common.stream_decoder import merge_usage, truncated_error
from dragoman.wires.openai_chat.delta_template import DeltaTemplate
from dragoman.wires.openai_chat.hosted_tools import ExecutedTools
from dragoman.wires.openai_chat.parts import (
    decode_image_part,
    decode_thinking,
    read_choice_logprobs,
    read_citations,
    reasoning_fields,
)
from dragoman.wires.openai_chat.schema import (
    ABORTED_REASONS,
    BASE_CODES,
    CITATIONS,
    FILTERS,
    FINISH_REASONS,
    FUNCTION_CALL,
    MODERATION,
    NAME,
    PROMPT_FILTERS,
    ChatChoice,
    ChatChunk,
    ChatMessage,
    ChatUsage,
    read_usage,
)
from dragoman.wires.openai_chat.tool_calls import ToolCallJoiner

_CHUNK = msgspec.json.Decoder(ChatChunk, strict=False)
_MEMBERS = msgspec.json.Decoder(JsonObject)
_JOINED = ("text", "summary", "data", "transcript", "thinking")
"""Members of reasoning details, thinking blocks and audio that come in pieces; the others are whole in each chunk."""


class ChatDecoder:
    """A `ResponseDecoder` for chunks and whole bodies."""

    _finish: str | None = None
    _has_begun = False
    _is_over = False
    _is_refused = False
    _has_thought = False
    _blank_fields: tuple[str, ...] = ()
    _audio: "_Pieces | None" = None
    _calls: ToolCallJoiner | None = None
    _executed: ExecutedTools | None = None
    _logprobs: "dict[str, list[TokenLogprob]] | None" = None

    def __init__(self, request: Request | None) -> None:
        self.out = Assembler(calls_before=calls_before(request))
        self._request = request
        self._others: dict[int, ChatDecoder] = {}
        self._details: dict[tuple[str, int], _Pieces] = {}
        self._opaque = ""
        self._blocks: list[_Pieces] = []
        self._annotations: JsonObject = {}
        self._prompt_filters: JsonObject = {}
        self._filters: JsonObject = {}
        self._moderation: object = None
        self._images: list[JsonObject] = []
        self._template = DeltaTemplate()

    def read_body(self, body: bytes) -> None:
        self._read_whole(decode_json(_CHUNK, body), body)

    def read_frame(self, frame: Frame) -> None:
        if (piece := self._template.piece(frame)) is not None:
            self._delta("text", piece)
            return
        data = frame.data.strip()
        if data == b"[DONE]":
            self._end()
            return
        if frame.name == "error":
            raise _error_from_bytes(data)
        if frame.name.startswith(EXCEPTION):
            raise decode_exception(frame.name.removeprefix(EXCEPTION), data)
        if not data:
            return
        chunk: ChatChunk = decode_frame(_CHUNK, frame)
        if frame.name == BARE:
            self._read_whole(chunk, data)
            return
        if (error := _error_in(chunk, data)) is not None:
            raise error
        self._read(chunk, _delta)
        if self._is_over and self.out.usage is None and (tokens := _nested_usage(data)) is not None:
            self._usage(tokens)
        if (
            self._details
            or self._blocks
            or self._annotations
            or self._audio
            or self._images
            or self._logprobs
            or self._others
            or self._executed
        ):
            self.out.count_characters(len(data))
        if self._template.can_learn and self.out.is_open("text"):
            self._template.learn(frame, _text)

    def end(self) -> None:
        """Some servers never send [DONE], and some of these send no usage (2026-11); a cut could look the same."""
        has_usage = self.out.usage is not None
        if not self.is_complete or not (has_usage or self.out.is_body_complete):
            raise truncated_error(NAME, "finish_reason or [DONE]")
        if not has_usage:
            why = "the stream ended with a finish reason, without the usage and [DONE]"
            self.out.notices.append(Notice(kind="info", what="end of the stream", why=why))
        self._end()

    @property
    def is_complete(self) -> bool:
        """Whether every choice has a finish reason."""
        return self._is_over and all(other.is_complete for other in self._others.values())

    def _read_whole(self, chunk: ChatChunk, body: bytes) -> None:
        if (error := _error_in(chunk, body)) is not None:
            raise error
        if chunk.choices is None:
            raise Malformed(f"{NAME}: the body has no choices")
        self._read(chunk, _message)
        self._end()

    def _read(self, chunk: ChatChunk, message_of: Callable[[ChatChoice], ChatMessage | None]) -> None:
        if chunk.usage is not None:
            self._usage(chunk.usage)
        for key in CITATIONS:
            if value := getattr(chunk, key):
                self._annotations[key] = value
        if chunk.service_tier is not None and isinstance(chunk.service_tier, str):
            self.out.service_tier = chunk.service_tier
        if chunk.moderation:
            self.out.count_characters(len(encode_json(chunk.moderation)))
            self._moderation = chunk.moderation
        if chunk.prompt_filter_results:
            self._prompt_filters = self._merge_filters(
                self._prompt_filters, prompt_results(chunk.prompt_filter_results)
            )
        for choice in chunk.choices or ():
            if choice.index:
                self._read_other(choice.index, choice, message_of(choice))
                continue
            if not self._has_begun:
                self._has_begun = True
                self.out.start(id=str(chunk.id or ""), model=chunk.model, created=to_timestamp(chunk.created))
            self.read_choice(choice, message_of(choice))

    def _read_other(self, index: int, choice: ChatChoice, message: ChatMessage | None) -> None:
        """Read a choice after the first, for a request with `n`."""
        other = self._others.get(index)
        if other is None:
            if len(self._others) >= MAX_CHOICES - 1:
                raise Malformed(f"{NAME}: the answer has more than {MAX_CHOICES} choices")
            other = self._others[index] = ChatDecoder(self._request)
            other.out.text_splitter, other.out.thinking_extra = self.out.text_splitter, self.out.thinking_extra
        other.read_choice(choice, message)

    def as_choice(self, parent: Assembler) -> Choice:
        self._end()
        response = fold(self.out.take())
        parent.notices.extend(response.notices)
        return Choice(message=response.message, finish=response.finish)

    def _usage(self, tokens: ChatUsage) -> None:
        self.out.usage = merge_usage(self.out.usage, read_usage(tokens))

    def read_choice(self, choice: ChatChoice, message: ChatMessage | None) -> None:
        if choice.error:
            raise error_from_json({"error": choice.error})
        if choice.usage is not None:
            self._usage(choice.usage)
        if choice.logprobs is not None and is_object(choice.logprobs):
            self._add_logprobs(choice.logprobs)
        if message is not None:
            self._message(message)
        if choice.content_filter_results:
            self._filters = self._merge_filters(self._filters, choice.content_filter_results)
        if choice.finish_reason:
            native = choice.native_finish_reason
            self._finish = native if native and model_mistake(native) else choice.finish_reason
            self._is_over = True

    def _merge_filters(self, known: JsonObject, new: object) -> JsonObject:
        merged = merge_results(known, new)
        if merged is not known:
            self.out.count_characters(len(encode_json(merged)))
        return merged

    def _add_logprobs(self, logprobs: JsonObject) -> None:
        """Collect the tokens until their text ends; in a stream they may come before it."""
        collected = self._logprobs = self._logprobs or {}
        for key, tokens in read_choice_logprobs(logprobs).items():
            if tokens:
                collected.setdefault(key, []).extend(tokens)

    def _message(self, message: ChatMessage) -> None:
        if (
            message.reasoning_content is not None
            or message.reasoning is not None
            or message.reasoning_text is not None
            or message.reasoning_details
        ):
            self._reasoning(message)
        if message.reasoning_opaque or message.thinking_blocks:
            self._signed_reasoning(message)
        if message.executed_tools:
            self._executed = self._executed or ExecutedTools()
            self._executed.add(message.executed_tools)
        if message.content is not None:
            self._content(message.content)
        if message.refusal:
            self._is_refused = True
            self._delta("refusal", message.refusal, {"refusal": True})
        for call in message.tool_calls or ():
            self._call(call)
        if message.function_call is not None and (
            message.function_call.get("name") or message.function_call.get("arguments")
        ):
            self._call({"index": 0, "function": message.function_call, FUNCTION_CALL: True})
        if message.annotations or message.citations:
            annotations = [*(message.annotations or ()), *(message.citations or ())]
            self._annotations.setdefault("annotations", []).extend(annotations)
        if message.context and is_object(message.context):
            self.out.count_characters(len(encode_json(message.context)))
            self._annotations["context"] = {**self._annotations.get("context", {}), **message.context}
        if message.images:
            self._images.extend(message.images)
        if message.audio:
            if self._audio is None:
                self._audio = _Pieces()
            self._audio.add(message.audio)

    def _call(self, call: JsonObject) -> None:
        if self._calls is None:
            self._calls = ToolCallJoiner(self.out)
        if self.out.call_deltas:
            self._switch("call")
        if self._calls.read(call):
            self._is_over = False

    def _reasoning(self, message: ChatMessage) -> None:
        if fields := reasoning_fields(message):
            text = getattr(message, fields[0])
            self._delta("thinking", text, {"fields": fields})
            self._has_thought = self._has_thought or bool(text)
            self._blank_fields = tuple(fields)
        if message.reasoning_details:
            self._merge_details(message.reasoning_details)

    def _merge_details(self, details: list[JsonObject]) -> None:
        """Join details with those of earlier chunks by their index; the details of one chunk are never joined."""
        seen: Counter[str] = Counter()
        for detail in details:
            index, kind = detail.get("index"), detail.get("type")
            # Encrypted details of several calls share an index and differ in their id (seen 2026-08).
            id = detail.get("id") if kind == "reasoning.encrypted" else None
            key = f"{index} {kind} {id}" if index is not None else f"{len(self._details)}"
            seen[key] += 1
            self._details.setdefault((key, seen[key]), _Pieces()).add(detail)

    def _signed_reasoning(self, message: ChatMessage) -> None:
        """The signatures of thinking, as GitHub Copilot and LiteLLM send them; its text if no other field has it."""
        if isinstance(message.reasoning_opaque, str) and message.reasoning_opaque:
            self.out.count_characters(len(message.reasoning_opaque))
            self._opaque = message.reasoning_opaque
        for block in objects(message.thinking_blocks):
            last = self._blocks[-1].members if self._blocks else {"signature": True}
            if last.get("signature") or last.get("type") != block.get("type"):
                self._blocks.append(_Pieces())
            self._blocks[-1].add(block)
            if not self._has_thought and isinstance(text := block.get("thinking"), str):
                self._delta("thinking", text)

    def _take_state(self) -> JsonObject:
        """What the next request must give back of the thinking so far, besides its text."""
        state = {"reasoning_opaque": self._opaque, "thinking_blocks": [block.joined() for block in self._blocks]}
        known = {name: value for name, value in state.items() if value}
        details = self._joined_details()
        self._opaque, self._blocks, self._details = "", [], {}
        return {**({"details": details} if details else {}), **({"state": known} if known else {})}

    def _joined_details(self) -> list[JsonObject]:
        return [detail.joined() for detail in self._details.values()]

    def _content(self, content: object) -> None:
        if isinstance(content, str):
            self._delta("text", content)
        elif is_list(content):
            for piece in content:
                self._piece(piece)
        else:
            self._delta("text", encode_json(content).decode())

    def _piece(self, piece: object) -> None:
        """One part of content that is a list: text, or thinking that is itself a list."""
        if not is_object(piece):
            raise Malformed(f"{NAME}: content must be text or a list of parts")
        if piece.get("type") == "text" and isinstance(piece.get("text"), str):
            self._delta("text", piece["text"])
        elif (thinking := decode_thinking(piece)) is not None:
            extra = thinking.extra[NAME]
            form: JsonObject = {"summary": {}} if "summary" in extra else {}
            own: JsonObject = {"fields": ["content"], **form}
            self._delta("thinking", thinking.text, own)
            if extra.get("summary") and not self.out.is_open("thinking"):
                # The server wants a signature back, also that of a thinking without a text.
                self._switch("thinking")
                self.out.open("thinking", "thinking", {NAME: own})
            if self.out.is_open("thinking") and extra.get("summary", True):
                self.out.add_extra("thinking", NAME, extra)
        else:
            self._switch("piece")
            self.out.add_part(Opaque(wire=NAME, data=piece))

    def _delta(self, key: Literal["text", "thinking", "refusal"], text: str, extra: JsonObject | None = None) -> None:
        if text:
            self._is_over = False
            self._switch(key)
            self.out.delta(key, "thinking" if key == "thinking" else "text", text, {NAME: extra} if extra else None)

    def _switch(self, key: str) -> None:
        """Close the open parts, unless the open one is this."""
        if not self.out.is_open(key):
            self._add_text_extra(key)
            self.out.close_others(key)
            if key != "thinking":
                self._add_executed()

    def _add_executed(self) -> None:
        """Emit the calls of tools that the server ran, before what the model says of them."""
        for part in self._executed.take() if self._executed is not None else ():
            self.out.add_part(part)

    def _add_text_extra(self, following: str | None) -> None:
        """Add the collected citations and details to the text or thinking that ends here."""
        if self.out.text_splitter is not None:
            for key in {"text", "refusal"} - {following}:
                self.out.release(key)
        if self._annotations and self.out.is_open("text"):
            self.out.add_extra("text", NAME, self._annotations)
            self.out.add_citations("text", read_citations(self._annotations))
            self._annotations = {}
        for key in [key for key in self._logprobs or () if self.out.is_open(key)]:
            self.out.add_logprobs(key, (self._logprobs or {}).pop(key))
        if (self._details or self._opaque or self._blocks) and self.out.is_open("thinking"):
            self.out.add_extra("thinking", NAME, self._take_state())

    def _end(self) -> None:
        if self._finish in ABORTED_REASONS:
            message = f"the server aborted the response: {self._finish}"
            raise error_from_json({"code": self._finish, "message": message}, usage=self.out.usage)
        raw = self._finish or ""
        reason = "blocked" if self._is_refused else FINISH_REASONS.get(raw.lower(), "other")
        if not raw and is_filtered(self._filters):
            reason = "blocked"
        if self._calls is not None:
            self._calls.finish(cut=reason == "length")
        self._add_collected()
        note_cut_prompt(self.out, self._request, NAME)
        self.out.other_choices = tuple([self._others[index].as_choice(self.out) for index in sorted(self._others)])
        extra: JsonObject = {"finish_reason": raw} if raw and reason == "other" and raw not in FINISH_REASONS else {}
        if self._moderation:
            extra[MODERATION] = self._moderation
        if self._filters or self._prompt_filters:
            self.out.notices.extend(filter_notices(self._prompt_filters, self._filters))
            filters = {PROMPT_FILTERS: self._prompt_filters, FILTERS: self._filters}
            extra |= {name: results for name, results in filters.items() if results}
        self.out.finish(Finish(reason=reason, raw=self._finish, extra=make_extra(NAME, extra)))

    def _add_collected(self) -> None:
        """Emit the parts that have no end mark."""
        out = self.out
        self._add_text_extra(None)
        if self._details or self._opaque or self._blocks:
            out.add_part(Thinking(text="", redacted=True, extra={NAME: self._take_state()}))
        elif self._blank_fields and not self._has_thought and self._calls is not None:
            # Servers require empty thinking back, too, with the calls that followed it (2026-08).
            out.add_part(Thinking(text="", extra={NAME: {"fields": [*self._blank_fields]}}))
        if self._executed is not None:
            out.close_others(None)
            self._add_executed()
        for image in self._images:
            out.add_part(_image(image))
        if self._audio is not None:
            out.add_part(Opaque(wire=NAME, data={"audio": self._audio.joined()}))
        for what in (*self._annotations, *(("logprobs",) if self._logprobs else ())):
            out.notices.append(Notice(kind="dropped", what=what, why="the response has no text that it belongs to"))


def _text(data: bytes) -> str | None:
    """The text of a chunk that contains nothing else; None for other chunks."""
    try:
        chunk = _CHUNK.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if chunk.choices is None or len(chunk.choices) != 1 or chunk.choices[0].delta is None:
        return None
    choice, text = chunk.choices[0], chunk.choices[0].delta.content
    if not isinstance(text, str) or choice.index:
        return None
    # The results of filters are the same bytes in each chunk that fits the template, so reading one chunk is enough.
    filters = choice.content_filter_results
    choices = [ChatChoice(index=choice.index, delta=ChatMessage(content=text), content_filter_results=filters)]
    plain = ChatChunk(id=chunk.id, object=chunk.object, model=chunk.model, created=chunk.created, choices=choices)
    return text if chunk == plain else None


def _delta(choice: ChatChoice) -> ChatMessage | None:
    return choice.delta if choice.text is None else ChatMessage(content=choice.text)


def _message(choice: ChatChoice) -> ChatMessage | None:
    return choice.message or _delta(choice)


def _error_in(chunk: ChatChunk, data: bytes) -> ProviderError | None:
    """The error in a chunk, in any of the forms that servers use; None if there is no error."""
    if chunk.error or chunk.object == "error":
        error = _error_from_bytes(data)
        if any(model_mistake(choice.native_finish_reason) for choice in chunk.choices or ()):
            error.annotate(count_failure=False)
        return error
    if chunk.choices:
        return None
    if chunk.base_resp is not None and (code := chunk.base_resp.status_code):
        return error_from_json({"code": code, "type": BASE_CODES.get(code), "message": chunk.base_resp.status_msg})
    has_error = chunk.errors or chunk.message or chunk.detail
    return _error_from_bytes(data) if chunk.choices is None and has_error else None


def _nested_usage(data: bytes) -> ChatUsage | None:
    """The usage inside of an unknown member of the last chunk (seen 2025-04)."""
    try:
        members = decode_tolerantly(_MEMBERS, data)
    except DECODE_ERRORS:
        # The malformed member is one that the decoder does not need.
        return None
    if (counts := read_metrics(members)) is not None:
        return ChatUsage(prompt_tokens=counts.input, completion_tokens=counts.output)
    for member in members.values():
        usage = member.get("usage") if is_object(member) else None
        if is_object(usage) and whole_number(usage.get("completion_tokens")) is not None:
            return msgspec.convert({key: n for key in usage if (n := whole_number(usage[key])) is not None}, ChatUsage)
    return None


def _error_from_bytes(data: bytes) -> ProviderError:
    """The error in bytes, either JSON or plain text."""
    return error_from_json(data.decode("utf-8", "replace"))


def _image(data: JsonObject) -> Part:
    try:
        return decode_image_part(data, "images")
    except InvalidRequest as error:
        raise Malformed(f"{NAME}: {error.message}") from error


class _Pieces:
    """An object that comes in pieces: its texts are joined, of other members the last value counts."""

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

    def joined(self) -> JsonObject:
        return {**self.members, **{key: "".join(texts) for key, texts in self._texts.items()}}
