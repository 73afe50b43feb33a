"""Notices that a stream learns after its headers stand in its last event, in the place that each dialect has."""

import json
import re
from base64 import b64decode
from typing import Any

import pytest

from dragoman import wires
from dragoman.events import Event, Finished, Started
from dragoman.types import Finish, Notice, Request
from dragoman.wires.base import ServerHalf
from dragoman.wires.common.notices import encode_late_notices

NOTICE = Notice(kind="dropped", what="response part (image)", why="x: not supported")
MEMBER = [{"kind": "dropped", "what": "response part (image)", "why": "x: not supported"}]
CHUNK = re.compile(rb'"bytes":"([^"]*)"')
"""The base64 of an event of InvokeModel."""
SERVERS: dict[str, ServerHalf] = {
    **{name: wires.get(name).server for name in wires.NAMES},
    **{f"{name} {index}": each for name in wires.NAMES for index, each in enumerate(wires.get(name).other_servers)},
}


def written(server: ServerHalf, *notices: Notice, **finish: Any) -> bytes:
    encoder = server.stream_encoder(Request(stream=True))
    end = Finished(finish=Finish(reason="stop", **finish), notices=notices)
    events: list[Event] = [Started(id="a", model="m", created=1), end]
    data = b"".join(encoder.feed(event) for event in events)
    return CHUNK.sub(lambda found: b64decode(found[1]), data)


@pytest.mark.parametrize("name", SERVERS)
def test_the_last_event_has_them(name: str) -> None:
    server = SERVERS[name]
    text = written(server, NOTICE)
    if name == "google":
        assert b'"finishMessage":"dropped response part (image): x: not supported"' in text
    else:
        assert b'"notices":' + json.dumps(MEMBER, separators=(",", ":")).encode() in text
    assert b"notices" not in written(server)


def test_the_members_of_the_provider_stay() -> None:
    own: dict[str, Any] = {"bedrock": {"additionalModelResponseFields": {"stop": "x"}}}
    assert b'"additionalModelResponseFields":{"stop":"x","notices":[' in written(SERVERS["bedrock"], NOTICE, extra=own)
    own = {"google": {"finishMessage": "enough"}}
    assert b'"finishMessage":"enough; dropped response part (image): x: not supported"' in written(
        SERVERS["google"], NOTICE, extra=own
    )
    blocked = {"google": {"promptFeedback": {"blockReason": "SAFETY"}}}
    assert b"finishMessage" not in written(SERVERS["google"], NOTICE, extra=blocked)


def test_an_answer_that_is_not_stored_says_so() -> None:
    lost = Notice(kind="dropped", what="store", why="not stored: the store is down")
    assert encode_late_notices([lost])["store"] is False
    assert encode_late_notices([NOTICE]) == {"notices": MEMBER}
    assert encode_late_notices([]) == {}
