"""Fragments of calls through the gateway: they come before the call is complete, and a cut call is never complete."""

import json
from typing import Any

import pytest

from dragoman.testing import FaultyServer, RawResponse
from tests.support.gateway.dialects import app_of, post, send_blocking

PATCH = "*** Begin Patch"
EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "m1", "model": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}},
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "t1", "name": "apply_patch", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"input": "*** '},
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": 'Begin Patch"}'}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]
CUSTOM = {"type": "custom", "name": "apply_patch"}
FUNCTION = {"type": "function", "function": {"name": "apply_patch", "parameters": {"type": "object"}}}
HELLO = [{"role": "user", "content": "hello"}]
CHAT_CUSTOM = {"type": "custom", "custom": {"name": "apply_patch", "format": {"type": "text"}}}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "responses": ("/v1/responses", {"model": "up/m", "input": "hello", "stream": True, "tools": [CUSTOM]}),
    "chat": ("/v1/chat/completions", {"model": "up/m", "messages": HELLO, "stream": True, "tools": [FUNCTION]}),
    "custom chat": (
        "/v1/chat/completions",
        {"model": "up/m", "messages": HELLO, "stream": True, "tools": [CHAT_CUSTOM]},
    ),
    "messages": (
        "/v1/messages",
        {
            "model": "up/m",
            "max_tokens": 9,
            "messages": HELLO,
            "stream": True,
            "tools": [{"name": "apply_patch", "input_schema": {"type": "object"}}],
        },
    ),
}


def answer(dialect: str, *events: dict[str, Any]) -> str:
    """What a client of a dialect gets, if Claude streams these events."""
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    with FaultyServer(RawResponse(headers={"content-type": "text/event-stream"}, body=body)) as server:
        app = app_of(
            f'[providers.up]\nlike = "anthropic"\nbase_url = "{server.base_url("anthropic")}"\napi_key = "k"\n'
        )
        path, request = REQUESTS[dialect]
        return send_blocking(app, post(path, json.dumps(request).encode())).body.decode()


def test_a_client_gets_the_input_of_a_custom_tool_as_it_comes() -> None:
    data = [json.loads(line[6:]) for line in answer("responses", *EVENTS).splitlines() if line.startswith("data: ")]
    deltas = [event["delta"] for event in data if event["type"] == "response.custom_tool_call_input.delta"]
    assert deltas == ["*** ", "Begin Patch"]
    assert data[-1]["response"]["output"][0]["input"] == PATCH


def test_a_client_of_chat_gets_the_input_of_a_custom_tool_as_it_comes() -> None:
    lines = [line[6:] for line in answer("custom chat", *EVENTS).splitlines() if line.startswith("data: {")]
    deltas = [choice["delta"] for line in lines for choice in json.loads(line)["choices"]]
    first, *rest = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert (first["type"], first["custom"]) == ("custom", {"name": "apply_patch", "input": ""})
    assert [call["custom"] for call in rest] == [{"input": "*** "}, {"input": "Begin Patch"}]
    assert all("function" not in call for call in (first, *rest))


@pytest.mark.parametrize(
    ("dialect", "fragments", "ends"),
    [
        ("responses", ['"delta":"*** "'], ["output_item.done", "custom_tool_call_input.done", "response.completed"]),
        ("chat", [r'"arguments":"{\"input\": \"*** "', '"name":"apply_patch"'], ['"finish_reason":"tool_calls"']),
        (
            "messages",
            [r'"partial_json":"{\"input\": \"*** "', '"name":"apply_patch"'],
            ["event: message_stop", "content_block_stop"],
        ),
    ],
)
def test_a_call_that_is_cut_off_has_begun_and_never_ends(dialect: str, fragments: list[str], ends: list[str]) -> None:
    text = answer(dialect, *EVENTS[:3])
    assert all(fragment in text for fragment in fragments)
    assert not any(end in text for end in ends)
    assert "error" in text
