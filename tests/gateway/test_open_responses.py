"""Responses have all members that Open Responses requires; the official SDK's types accept them without conversion."""

import json
import time
from typing import Any

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.support.gateway.dialects import app_of, post, see

REQUIRED = (
    "id object created_at completed_at status incomplete_details model previous_response_id instructions output error "
    "tools tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs "
    "temperature reasoning usage max_output_tokens max_tool_calls store background service_tier metadata "
    "safety_identifier prompt_cache_key"
).split()
"""Required by the schema of April 2026."""
NUMBERS = ("top_p", "presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "created_at")
TOOL: dict[str, Any] = {
    "type": "function",
    "name": "tide",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}
BODIES: dict[str, dict[str, Any]] = {
    "text": {},
    "thinking": {"reasoning": {"effort": "high", "summary": "auto"}},
    "call": {"tools": [TOOL], "tool_choice": "required", "input": "Call tide."},
    "schema": {"text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}}},
    "cut": {"max_output_tokens": 16, "input": "Repeat: " + "word " * 40},
    "tier": {"service_tier": "auto", "temperature": 0.5, "top_p": 0.5},
}
each_body = pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
_EVENT = TypeAdapter[Any](ResponseStreamEvent)


def ask(body: dict[str, Any], *, stream: bool) -> bytes:
    data = json.dumps({"model": "demo/any", "input": "hello", "stream": stream, **body}).encode()
    seen = see(app_of("[gateway]\nlog = false"), post("/v1/responses", data))
    assert seen.status == 200, seen.body
    return seen.body


def check(response: dict[str, Any]) -> None:
    assert [name for name in REQUIRED if name not in response] == []
    assert {name: type(response[name]) for name in NUMBERS if type(response[name]) not in (int, float)} == {}
    assert response["service_tier"] == "default"
    if response["status"] == "completed":
        assert abs(response["completed_at"] - time.time()) < 60
        assert set(response["usage"]["input_tokens_details"]) == {"cached_tokens", "cache_write_tokens"}
    else:
        assert response["completed_at"] is None
    Response.model_validate_json(json.dumps(response), strict=True)


@each_body
def test_a_plain_response_has_every_member(body: dict[str, Any]) -> None:
    check(json.loads(ask(body, stream=False)))


@each_body
def test_every_event_of_a_stream_is_one_of_the_sdks_types(body: dict[str, Any]) -> None:
    frames = [line[6:] for line in ask(body, stream=True).decode().split("\n") if line.startswith("data: ")]
    numbers: list[int] = []
    for frame in frames:
        event = _EVENT.validate_json(frame, strict=True)
        assert type(event).__name__ != "BaseModel"
        numbers.append(event.sequence_number)
        if "response" in (data := json.loads(frame)):
            check(data["response"])
    assert numbers == list(range(len(frames)))
    assert json.loads(frames[-1])["type"] in ("response.completed", "response.incomplete")
