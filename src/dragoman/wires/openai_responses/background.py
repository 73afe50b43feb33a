"""A response that runs in the background: what clients see of it before its end."""

import msgspec

from dragoman.events import Started
from dragoman.http import HttpResponse
from dragoman.types import JsonObject, Request, is_object
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.framing import encode_sse
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.server_endpoints import json_response
from dragoman.wires.openai_responses.request_echo import ECHO
from dragoman.wires.openai_responses.stream_encoder import encode_response

_DATA = b"data: "
_END = b"\n\n"
_decode = msgspec.json.Decoder(JsonObject).decode


class ResponsesProgress:
    """The `ResponseProgress`: its events so far, and the response object that they make."""

    def __init__(self, request: Request, head: Started, /) -> None:
        self.frames: list[bytes] = []
        echo = wire_extra(request.extra, ECHO)
        self.snapshot: JsonObject = encode_response(head, echo, status="queued", output=[])

    def feed(self, data: bytes, /) -> None:
        for frame in data.split(_END):
            start = frame.find(_DATA)
            if start < 0:
                continue
            event = _decode(frame[start + len(_DATA) :])
            if event.get("type") == "error":
                self._fail(event)
                continue
            if is_object(response := event.get("response")):
                self.snapshot = response
            elif event.get("type") == "response.output_item.done":
                self.snapshot = {**self.snapshot, "output": [*self.snapshot["output"], event.get("item")]}
            self.frames.append(frame + _END)

    def _fail(self, event: JsonObject) -> None:
        """An error of the stream is the end of the response, and clients fetch it later as `failed`."""
        self.snapshot = _failed(self.snapshot, event.get("code"), event.get("message"))
        self.frames.append(_failed_event(self.snapshot, event.get("sequence_number")))

    def cancel(self) -> None:
        self.snapshot = {**self.snapshot, "status": "cancelled"}


def _failed(snapshot: JsonObject, code: object, message: object) -> JsonObject:
    error = {"code": code if code in _CODES else "server_error", "message": message}
    return {**snapshot, "status": "failed", "error": error}


def _failed_event(snapshot: JsonObject, number: object) -> bytes:
    kind = "response.failed"
    return encode_sse(encode_json({"type": kind, "sequence_number": number, "response": snapshot}), name=kind)


_CODES = ("server_error", "rate_limit_exceeded", "invalid_prompt")
"""Codes of a failed response that clients' types know."""


class ResponsesBackground:
    """The `WireBackground` of the Responses API."""

    def progress(self, request: Request, head: Started, /) -> ResponsesProgress:
        return ResponsesProgress(request, head)

    def encode(self, snapshot: JsonObject, /) -> HttpResponse:
        return json_response(snapshot)

    def is_over(self, snapshot: JsonObject, /) -> bool:
        return snapshot.get("status") not in ("queued", "in_progress")

    def fail(self, snapshot: JsonObject, message: str, /) -> JsonObject:
        return _failed(snapshot, None, message)

    def encode_failed(self, snapshot: JsonObject, number: int, /) -> bytes:
        return _failed_event(snapshot, number)

    def was_background(self, request: Request, /) -> bool:
        return bool(wire_extra(request.extra, ECHO).get("background"))
