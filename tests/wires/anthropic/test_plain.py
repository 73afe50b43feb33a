"""Plain answers take a short way, with the same result as the long one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import wires
from dragoman.errors import DragomanError
from dragoman.events import fold
from dragoman.targets.providers import PROVIDERS
from dragoman.types import Request, Response, user
from dragoman.wires.anthropic import plain
from dragoman.wires.anthropic.plain import decode_plain

CLIENT = wires.get("anthropic").client
PLAIN: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [{"type": "text", "text": "Hi."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "output_tokens": 2},
}
FIELDS: dict[str, list[Any]] = {
    "id": ["msg_1", "", None, 7],
    "type": ["message", "error"],
    "model": ["claude-x", "", None],
    "content": [
        [{"type": "text", "text": "Hi."}],
        [{"type": "text", "text": "Hi.", "citations": None}],
        [{"type": "text", "text": "Hi.", "citations": []}],
        [{"type": "text", "text": "Hi.", "extra": 1}],
        [{"type": "text", "text": ""}],
        [{"type": "text", "text": "Hi."}, {"type": "text", "text": "Ho."}],
        [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "Hi."}],
        [{"type": "tool_use", "id": "t", "name": "tide", "input": {}}],
        [],
        "Hi.",
    ],
    "stop_reason": ["end_turn", "max_tokens", "stop_sequence", "refusal", "odd", "", None],
    "stop_sequence": [None, "END"],
    "usage": [
        {"input_tokens": 5, "output_tokens": 2},
        {"input_tokens": 0, "output_tokens": 0},
        {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": None},
        {"input_tokens": 5, "output_tokens": 2, "service_tier": "standard", "cache_creation": {"ephemeral_5m": 0}},
        {"input_tokens": 5, "output_tokens": 2, "service_tier": None, "server_tool_use": None},
        {"input_tokens": "5", "output_tokens": 2.0},
        {"input_tokens": 5, "output_tokens": 2, "output_tokens_details": {"thinking_tokens": 1}},
        None,
    ],
    "container": [None, {"id": "c"}],
    "error": [None, {"message": "boom"}],
}


def one_changed(fields: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.lists(st.sampled_from(sorted(fields)), max_size=2, unique=True)
    return names.flatmap(lambda some: st.fixed_dictionaries({name: st.sampled_from(fields[name]) for name in some}))


def result(body: bytes, *, short: bool) -> Response | str:
    request, target = Request(messages=(user("hi"),)), PROVIDERS["anthropic"].target("m")
    try:
        return (
            CLIENT.decode_response(body, request, target) if short else fold(CLIENT.decode_body(body, request, target))
        )
    except DragomanError as error:
        return f"{type(error).__name__}: {error}"


@given(one_changed(FIELDS))
def test_both_ways_to_read_a_body_are_the_same(fields: dict[str, Any]) -> None:
    body = json.dumps({**PLAIN, **fields}).encode()
    assert result(body, short=True) == result(body, short=False)


@pytest.mark.parametrize("field", FIELDS)
def test_every_value_alone(field: str) -> None:
    for value in FIELDS[field]:
        body = json.dumps({**PLAIN, field: value}).encode()
        assert result(body, short=True) == result(body, short=False)


def test_a_plain_body_takes_the_short_way_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decode_plain(json.dumps(PLAIN).encode(), None, None) is not None
    for body in (b"{", b"[]", json.dumps({**PLAIN, "stop_reason": "odd"}).encode()):
        assert decode_plain(body, None, None) is None
    monkeypatch.setattr(plain, "MAX_RESPONSE", 2)
    assert decode_plain(json.dumps(PLAIN).encode(), None, None) is None
