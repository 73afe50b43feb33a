"""The Responses API over a WebSocket: what its messages say, and how answers are written as messages.

A client sends `response.create` with the body of a request. The answer has the same events as a stream of server-sent
events, one JSON text per message. `stream_id` names a lane: requests of one lane are answered in order, those of
different lanes at the same time, and every message of an answer repeats it (OpenAI, 2026-11).
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import JsonObject, is_object
from dragoman.wires.base import SocketRequest
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.request_body import decode_request_json

CREATE = "response.create"
STEER = "response.steer"
MAX_LANE = 64
"""Characters of a `stream_id`."""
_ENVELOPE = ("type", "stream_id", "stream", "background")
_DATA = b"data: "
_decode = msgspec.json.Decoder(JsonObject).decode


class ResponsesSocket:
    """The `WireSocket` of the Responses API."""

    def decode(self, http: HttpRequest, /) -> SocketRequest:
        data = decode_request_json(http)
        lane = data.get("stream_id")
        if lane is not None and (not isinstance(lane, str) or not 0 < len(lane) <= MAX_LANE):
            raise InvalidRequest(f"stream_id must be a text of 1 to {MAX_LANE} characters", param="stream_id")
        kind = data.get("type")
        if kind == STEER:
            return SocketRequest(answer=_steer_failed(data))
        if kind != CREATE:
            raise InvalidRequest(f"type must be {CREATE}, got {str(kind)[:100]!r}", param="type")
        inner = data.get("response")
        data = {**data, **inner} if is_object(inner) else data
        if data.get("background"):
            raise InvalidRequest(
                "background must be left out on a WebSocket; send the request as POST", param="background"
            )
        body = {key: value for key, value in data.items() if key not in (*_ENVELOPE, "response")}
        return SocketRequest(lane=lane, body=encode_json({**body, "stream": True}))

    def messages(self, data: bytes, lane: str | None, /) -> Iterator[bytes]:
        for frame in data.split(b"\n\n"):
            start = frame.find(_DATA)
            if start >= 0:
                event = frame[start + len(_DATA) :]
                yield event if lane is None else encode_json({**_decode(event), "stream_id": lane})

    def with_headers(self, message: bytes, headers: Iterable[tuple[str, str]], /) -> bytes:
        return encode_json({**_decode(message), "headers": _joined(headers)})

    def error(self, response: HttpResponse, headers: Iterable[tuple[str, str]], lane: str | None, /) -> bytes:
        error, sent = _decode(response.body).get("error"), _joined(headers)
        details: JsonObject = {**error, "headers": sent} if is_object(error) else {"headers": sent}
        place = {} if lane is None else {"stream_id": lane}
        return encode_json({"type": "error", "status": response.status, "error": details, "headers": sent, **place})


def _joined(headers: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """The headers as one object; a name that comes twice has both values."""
    joined: dict[str, str] = {}
    for name, value in headers:
        joined[name] = f"{joined[name]}; {value}" if name in joined else value
    return joined


def _steer_failed(data: JsonObject) -> bytes:
    """No other wire can change the input of a running answer, so the client gets its input back."""
    message = "responses of this gateway cannot be steered; send the input with the next response.create"
    error = {"type": "invalid_request_error", "code": "steering_not_supported", "message": message}
    steer = {"previous_response_id": str(data.get("previous_response_id", "")), "input": data.get("input", "")}
    return encode_json({"type": f"{STEER}.failed", "sequence_number": 0, "error": error, "steer": steer})
