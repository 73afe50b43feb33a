"""Responses have all members that Open Responses requires; the official SDK's types accept them without conversion."""

import json
import time
from typing import Any

import pytest
from openai.types.conversations import (
    Conversation,
    ConversationDeletedResource,
    ConversationItem,
    ConversationItemList,
)
from openai.types.responses import (
    CompactedResponse,
    InputTokenCountResponse,
    Response,
    ResponseItemList,
    ResponseStreamEvent,
)
from pydantic import TypeAdapter

from dragoman.gateway.app import App
from dragoman.http import HttpRequest
from dragoman.testing import ClaudeSimulator, DeepSeekSimulator, GeminiSimulator, GptSimulator, Simulator
from dragoman.types import ToolCall
from tests.gateway.test_codex import app_before
from tests.support.gateway.dialects import app_of, post, send_blocking

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
    seen = send_blocking(app_of("[gateway]\nlog = false"), post("/v1/responses", data))
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


def test_a_prompt_is_repeated_where_it_is_honoured() -> None:
    prompt = {"id": "pmpt_1", "version": "2", "variables": {"port": "Brest"}}
    gpt = GptSimulator("4.2 m")
    body = {"model": gpt.spec, "prompt": prompt, "input": "hi"}
    response = json.loads(send_blocking(app_before(gpt), post("/v1/responses", json.dumps(body).encode())).body)
    assert response["prompt"] == prompt
    assert json.loads(gpt.bodies[0])["prompt"] == prompt
    check(response)
    claude = ClaudeSimulator()
    seen = send_blocking(app_before(claude), post("/v1/responses", json.dumps({**body, "model": claude.spec}).encode()))
    assert (seen.status, json.loads(seen.body)["error"]["param"]) == (400, "prompt")


# Lists of items -------------------------------------------------------------------------------------------------------

PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
    {"role": "assistant", "content": "hello"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]},
    {"type": "function_call", "call_id": "c1", "name": "tide", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "4.2 m"},
    {"type": "function_call", "call_id": "c2", "name": "tide", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_image", "image_url": PIXEL}]},
    {"type": "custom_tool_call", "call_id": "c3", "name": "run", "input": "x"},
    {"type": "custom_tool_call_output", "call_id": "c3", "output": "x"},
    {"type": "reasoning", "summary": []},
    {"role": "user", "content": [{"type": "input_image", "image_url": PIXEL}, {"type": "input_text", "text": "So?"}]},
]


def call(app: App, method: str, path: str, body: Any = None) -> Any:
    data = b"" if body is None else json.dumps(body).encode()
    seen = send_blocking(app, HttpRequest(method=method, path=path, body=data))
    assert seen.status == 200, seen.body
    assert seen.notices == ()
    return json.loads(seen.body)


def is_strictly(kind: Any, value: Any) -> bool:
    TypeAdapter[Any](kind).validate_json(json.dumps(value), strict=True)
    return True


def test_conversations_are_of_the_sdks_types() -> None:
    app = app_of("[gateway]\nlog = false")
    conversation = call(app, "POST", "/v1/conversations", {"items": ITEMS, "metadata": {"team": "tides"}})
    assert is_strictly(Conversation, conversation)
    path = f"/v1/conversations/{conversation['id']}"
    listed = call(app, "GET", f"{path}/items?order=asc")
    assert is_strictly(ConversationItemList, listed)
    assert [item["type"] for item in listed["data"]] == [item.get("type", "message") for item in ITEMS]
    added = call(app, "POST", f"{path}/items", {"items": ITEMS[:1]})
    assert is_strictly(ConversationItemList, added)
    assert is_strictly(ConversationItem, call(app, "GET", f"{path}/items/{added['last_id']}"))
    assert is_strictly(Conversation, call(app, "DELETE", f"{path}/items/{added['last_id']}"))
    assert is_strictly(Conversation, call(app, "POST", path, {"metadata": {}}))
    assert is_strictly(ConversationDeletedResource, call(app, "DELETE", path))


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_conversation_that_goes_on_has_no_notice(*, stream: bool) -> None:
    app = app_of("[gateway]\nlog = false")
    id = call(app, "POST", "/v1/conversations")["id"]
    for _ in range(3):
        body = {"model": "demo/any", "input": "hello", "conversation": id, "stream": stream}
        seen = send_blocking(app, post("/v1/responses", json.dumps(body).encode()))
        assert (seen.status, seen.notices) == (200, ())
    listed = call(app, "GET", f"/v1/conversations/{id}/items?order=asc")
    assert is_strictly(ConversationItemList, listed)
    assert [item["role"] for item in listed["data"]] == ["user", "assistant"] * 3


def test_the_input_of_a_response_is_of_the_sdks_types() -> None:
    app = app_of("[gateway]\nlog = false")
    tools = [TOOL, {"type": "custom", "name": "run"}]
    body = {"model": "demo/any", "input": ITEMS, "tools": tools}
    response = json.loads(send_blocking(app, post("/v1/responses", json.dumps(body).encode())).body)
    page = call(app, "GET", f"/v1/responses/{response['id']}/input_items?limit=100")
    assert is_strictly(ResponseItemList, page)
    assert len(page["data"]) >= len(ITEMS)


@pytest.mark.parametrize("kind", [ClaudeSimulator, GptSimulator])
def test_compactions_and_counts_are_of_the_sdks_types(kind: type[Simulator]) -> None:
    with kind("A summary.").serve() as server:
        place = f'[providers.{kind.PROVIDER}]\nbase_url = "{server.url}"\napi_key = "k"\n'
        app = app_of(f"[gateway]\nlog = false\n{place}")
        body = {"model": f"{kind.PROVIDER}/{kind.MODEL}", "input": ITEMS[:3:2]}
        compacted = call(app, "POST", "/v1/responses/compact", body)
        counted = call(app, "POST", "/v1/responses/input_tokens", {**body, "input": ITEMS[:1]})
    assert is_strictly(CompactedResponse, compacted)
    assert is_strictly(InputTokenCountResponse, counted)


def test_an_item_of_any_form_is_listed_or_refused() -> None:
    app = app_of("[gateway]\nlog = false")
    odd: list[Any] = [
        {},
        {"type": 7},
        {"role": "user"},
        {"role": "user", "content": 7},
        {"role": "user", "content": [7]},
        {"type": "function_call_output"},
        {"type": "function_call_output", "output": 7},
    ]
    for item in odd:
        seen = send_blocking(app, post("/v1/conversations", json.dumps({"items": [item]}).encode()))
        assert seen.status in (200, 400), seen.body
        if seen.status == 200:
            call(app, "GET", f"/v1/conversations/{json.loads(seen.body)['id']}/items")


# Answers of simulated providers ---------------------------------------------------------------------------------------

CUSTOM: dict[str, Any] = {"type": "custom", "name": "run", "description": "Run it."}
NAMESPACE: dict[str, Any] = {"type": "namespace", "name": "sea", "description": "The sea.", "tools": [TOOL]}
ANSWERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "calls": ((ToolCall(id="1", name="tide"), ToolCall(id="2", name="tide")), {"tools": [TOOL]}),
    "custom": (ToolCall(id="1", name="run", arguments={"input": "x"}), {"tools": [CUSTOM]}),
    "namespace": (ToolCall(id="1", name="sea__tide"), {"tools": [NAMESPACE]}),
    "shell": (
        ToolCall(id="1", name="local_shell", arguments={"command": ["ls"]}),
        {"tools": [{"type": "local_shell"}]},
    ),
    "patch": (
        ToolCall(id="1", name="apply_patch", arguments={"type": "delete_file", "path": "a"}),
        {"tools": [{"type": "apply_patch"}]},
    ),
    "summary": ("A summary.", {"input": [*ITEMS[:3], {"type": "compaction_trigger"}]}),
    "thinking": ("Done.", {"reasoning": {"effort": "high", "summary": "auto"}}),
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("kind", [ClaudeSimulator, GeminiSimulator, DeepSeekSimulator])
@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_other_wires_are_of_the_sdks_types(kind: type[Simulator], name: str, *, stream: bool) -> None:
    answer, more = ANSWERS[name]
    app = app_before(kind(answer))
    body = {"model": f"{kind.PROVIDER}/{kind.MODEL}", "input": "Go.", "stream": stream, **more}
    seen = send_blocking(app, post("/v1/responses", json.dumps(body).encode()))
    assert seen.status == 200, seen.body
    if not stream:
        check(json.loads(seen.body))
        return
    frames = [line[6:] for line in seen.body.decode().split("\n") if line.startswith("data: ")]
    for frame in frames:
        _EVENT.validate_json(frame, strict=True)
    check(json.loads(frames[-1])["response"])
