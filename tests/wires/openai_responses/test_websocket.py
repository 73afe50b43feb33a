"""Messages of a WebSocket are requests, and events are messages."""

import json
from typing import Any

import pytest
from openai.types.responses import ResponsesServerEvent
from pydantic import TypeAdapter

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest, HttpResponse
from dragoman.wires.base import SocketRequest
from dragoman.wires.openai_responses.websocket import MAX_LANE, ResponsesSocket

SOCKET = ResponsesSocket()
EVENT = TypeAdapter[Any](ResponsesServerEvent)


def decode(message: Any) -> SocketRequest:
    return SOCKET.decode(HttpRequest(method="POST", path="/v1/responses", body=json.dumps(message).encode()))


def test_a_message_is_the_body_of_a_streamed_request() -> None:
    request = decode({"type": "response.create", "model": "m", "input": "hi", "stream_id": "a", "store": False})
    assert request.lane == "a"
    assert json.loads(request.body) == {"model": "m", "input": "hi", "store": False, "stream": True}


def test_the_body_may_be_a_member() -> None:
    request = decode({"type": "response.create", "response": {"model": "m", "input": "hi"}})
    assert request.lane is None
    assert json.loads(request.body) == {"model": "m", "input": "hi", "stream": True}


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"type": "session.update"}, "type"),
        ({"model": "m"}, "type"),
        ({"type": "response.create", "background": True}, "background"),
        ({"type": "response.create", "stream_id": ""}, "stream_id"),
        ({"type": "response.create", "stream_id": "x" * (MAX_LANE + 1)}, "stream_id"),
        ({"type": "response.create", "stream_id": 7}, "stream_id"),
        ([], None),
    ],
)
def test_another_message_is_refused(message: Any, param: str | None) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decode(message)
    assert refused.value.param == param


@pytest.mark.parametrize("input", ["wait", [{"type": "message", "role": "user", "content": "wait"}]])
def test_an_answer_cannot_be_steered(input: Any) -> None:
    answer = decode({"type": "response.steer", "previous_response_id": "resp_1", "input": input}).answer
    assert answer is not None
    event = EVENT.validate_json(answer, strict=True)
    assert event.type == "response.steer.failed"
    assert event.error.code == "steering_not_supported"
    assert json.loads(answer)["steer"]["input"] == input


def test_each_event_is_a_message_and_pings_are_none() -> None:
    data = b'event: a\ndata: {"type":"a"}\n\n: ping\n\nevent: b\ndata: {"type":"b"}\n\n'
    assert list(SOCKET.messages(data, None)) == [b'{"type":"a"}', b'{"type":"b"}']
    assert list(SOCKET.messages(data, "x")) == [b'{"type":"a","stream_id":"x"}', b'{"type":"b","stream_id":"x"}']


def test_headers_are_members_and_none_is_lost() -> None:
    headers = [("x-request-id", "r"), ("x-dragoman-notice", "one"), ("x-dragoman-notice", "two")]
    message = json.loads(SOCKET.with_headers(b'{"type":"a"}', headers))
    assert message["headers"] == {"x-request-id": "r", "x-dragoman-notice": "one; two"}


@pytest.mark.parametrize("lane", [None, "x"])
@pytest.mark.parametrize("body", [b'{"error":{"type":"t","message":"m"}}', b"{}"])
def test_an_error_has_the_status(lane: str | None, body: bytes) -> None:
    message = json.loads(SOCKET.error(HttpResponse(status=429, body=body), [("retry-after", "1")], lane))
    assert message["status"] == 429
    assert message["headers"] == message["error"]["headers"] == {"retry-after": "1"}
    assert message.get("stream_id") == lane
    if "message" in message["error"]:
        EVENT.validate_json(json.dumps(message), strict=True)
