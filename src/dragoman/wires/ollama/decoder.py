"""Decodes the lines of an Ollama answer into events.

A stream is one JSON object per line. A whole body is one such line, and some servers pretty-print it: text that is not
a line of JSON from its start is collected and read as one object at the end.
"""

import re
from typing import Any, Literal

import msgspec

from dragoman.errors import BadRequest, Malformed, ProviderError
from dragoman.events import Assembler
from dragoman.http import Head
from dragoman.types import Finish, Image, JsonObject, Request, is_object
from dragoman.wires.common.errors import decode_http_error, error_from_json
from dragoman.wires.common.extra import make_extra
from dragoman.wires.common.framing import Frame, NdjsonDecoder
from dragoman.wires.common.history import calls_before
from dragoman.wires.common.json import decode_frame, decode_json
from dragoman.wires.common.logprobs import read_logprobs
from dragoman.wires.common.prompt_size import report_cut_prompt
from dragoman.wires.common.stream_decoder import truncated_error
from dragoman.wires.ollama.context import is_cut
from dragoman.wires.ollama.parts import arguments_text, decode_image, split_call
from dragoman.wires.ollama.schema import (
    FINISH_REASONS,
    NAME,
    OllamaLine,
    OllamaMessage,
    read_durations,
    read_time,
    read_usage,
)

_LINE = msgspec.json.Decoder(OllamaLine, strict=False)
_LINE_COST = 48
"""Characters that a collected line counts for, besides its own."""
_UNSUPPORTED = r"does not support|not supported (for|by) this model"


class OllamaDecoder:
    """Reads one answer, whole or streamed."""

    def __init__(self, request: Request | None) -> None:
        self.out = Assembler(calls_before=calls_before(request))
        self._request = request
        self._is_body = False
        self._line_count = 0
        self._collected: list[bytes] = []
        self._is_whole = True
        self._has_json_line = False
        self._has_started = False
        self._call_count = 0
        self._logprobs: list[Any] = []
        self._has_noted_logprobs = False

    def read_body(self, body: bytes) -> None:
        """Read a whole answer."""
        self._is_body = True
        framing = NdjsonDecoder()
        for frame in (*framing.feed(body), *framing.feed(b"")):
            self.read_frame(frame)
            if self.out.is_finished():
                return
        self.end()

    def read_frame(self, frame: Frame) -> None:
        """Read one line of a stream."""
        if not self._collected:
            try:
                line: OllamaLine = decode_frame(_LINE, frame)
            except Malformed:
                if self._has_json_line:
                    raise
            else:
                self._has_json_line = True
                self._read(line, frame.data)
                return
        self._collected.append(frame.data)
        self._is_whole = frame.whole
        self.out.count_characters(len(frame.data) + _LINE_COST)

    def end(self) -> None:
        """Read the end of the connection."""
        if self._collected:
            body = b"\n".join(self._collected)
            cut = Frame(name="", data=body, whole=False)
            self._read(decode_json(_LINE, body) if self._is_whole else decode_frame(_LINE, cut), body)
        if not self.out.is_finished():
            if not self._is_body or self._line_count != 1:
                raise truncated_error(NAME, "line with done: true")
            if not self._has_started:
                raise Malformed(f"{NAME}: the body has no message")
            # A server that aborts a runaway repetition sends done: false in a whole body (seen 2026-11).
            self._close_others(None)
            self.out.finish(Finish(reason="other"))

    def _read(self, line: OllamaLine, data: bytes) -> None:
        if line.error:
            raise _read_error(data.decode("utf-8", "replace"))
        out = self.out
        self._line_count += 1
        message = line.message
        if message is None and (line.response is not None or line.thinking is not None):
            message = OllamaMessage(content=line.response, thinking=line.thinking)
        if not self._has_started and (message is not None or line.done):
            self._has_started = True
            out.start(model=line.model, created=read_time(line.created_at))
        if message is not None:
            self._read_message(message, line.logprobs or [])
        elif line.logprobs:
            self._add_logprobs(line.logprobs)
        if line.done:
            self._finish(line)

    def _read_message(self, message: OllamaMessage, logprobs: list[Any]) -> None:
        self._delta("thinking", message.thinking, {NAME: {}})
        self._delta("text", message.content, {})
        if logprobs:
            self._add_logprobs(logprobs)
        for image in message.images or ():
            self._close_others(None)
            self.out.add_part(_read_image(image))
        for data in message.tool_calls or ():
            self._call(data)

    def _delta(self, kind: Literal["text", "thinking"], text: str | None, extra: JsonObject) -> None:
        if not text:
            return
        if not self.out.is_open(kind):
            self._close_others(kind)
            if self._has_noted_logprobs:
                self._logprobs, self._has_noted_logprobs = [], False
        self.out.delta(kind, kind, text, extra)

    def _add_logprobs(self, logprobs: list[Any]) -> None:
        """Log probabilities belong to the text of the same line, or to the next text."""
        if self.out.is_open("text"):
            self.out.add_logprobs("text", read_logprobs([*self._logprobs, *logprobs]))
            self._logprobs = []
            return
        self._logprobs += logprobs
        if self.out.is_open("thinking") and not self._has_noted_logprobs:
            self._has_noted_logprobs = True
            self.out.add_extra("thinking", NAME, {"logprobs": self._logprobs})

    def _close_others(self, kind: Literal["text", "thinking"] | None) -> None:
        """End the other parts. Log probabilities may have come before the text, if that was held back."""
        if kind != "text":
            self.out.release("text")
            if self._logprobs and self.out.is_open("text"):
                self._add_logprobs([])
        self.out.close_others(kind)

    def _call(self, data: JsonObject) -> None:
        """Read a call. Calls are whole, in any line; old servers leave out their index or send 0 for all."""
        out = self.out
        self._close_others(None)
        call, arguments = split_call(data)
        if is_object(arguments):
            out.add_part(msgspec.structs.replace(call, arguments=arguments))
            return
        key = ("call", self._call_count)
        self._call_count += 1
        out.add_call_fragment(key, id=call.id, name=call.name, text=arguments_text(arguments))
        if call.extra:
            out.add_extra(key, NAME, call.extra[NAME])
        out.close(key)

    def _finish(self, line: OllamaLine) -> None:
        out = self.out
        out.usage = read_usage(line)
        tokens = line.prompt_eval_count
        if self._request is not None and tokens is not None and is_cut(self._request, tokens):
            why = f"{NAME}: it read only {tokens} tokens of the prompt; raise options.num_ctx or shorten the prompt"
            report_cut_prompt(out, self._request, why)
        reason = FINISH_REASONS.get(line.done_reason or "", "other")
        self._close_others(None)
        out.finish(Finish(reason=reason, raw=line.done_reason or None, extra=make_extra(NAME, read_durations(line))))


def decode_error(head: Head, body: bytes) -> ProviderError:
    """The typed error of an HTTP error; another target may support what this model does not."""
    error = decode_http_error(head, body)
    if isinstance(error, BadRequest) and re.search(_UNSUPPORTED, error.message):
        return BadRequest(
            error.message, status=error.status, code=error.code, retry_after=error.retry_after, fail_over=True
        )
    return error


def _read_error(data: object) -> ProviderError:
    """The error in a line. It has neither status nor code, so its message is read like that of a status 400."""
    error = error_from_json(data)
    if error.status is not None:
        return error
    refusal = error_from_json(data, Head(status=400))
    return error if isinstance(refusal, BadRequest) else refusal


def _read_image(text: str) -> Image:
    try:
        return decode_image(text)
    except ValueError as error:
        raise Malformed(f"{NAME}: an image of the answer is not valid: {error}") from error
