"""Histories that began elsewhere: state without a tag goes to a target of the wire that it names."""

import json
from typing import Any

import pytest

from tests.support.gateway.dialects import post, send_blocking
from tests.support.gateway.loops import gateway

CALL = {"id": "call_7", "type": "function", "function": {"name": "tide", "arguments": '{"port":"Brest"}'}}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "tide", "parameters": {"type": "object", "properties": {}}},
}


def sent(provider: str, assistant: dict[str, Any]) -> Any:
    """What a provider gets of a history with this assistant message."""
    app, script = gateway(provider)
    script.add("At six.")
    messages = [
        {"role": "user", "content": "When?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL], **assistant},
        {"role": "tool", "tool_call_id": "call_7", "content": "6"},
    ]
    body: dict[str, Any] = {"model": f"up_{provider}/m", "messages": messages, "tools": [TOOL]}
    seen = send_blocking(app, post("/v1/chat/completions", json.dumps(body).encode()))
    assert seen.status == 200, seen.body
    return json.loads(script.http[-1].body)


def detail(kind: str, format: str, **more: Any) -> dict[str, Any]:
    return {"type": f"reasoning.{kind}", "format": format, "index": 0, **more}


def test_a_signature_of_googles_own_endpoint_goes_to_google() -> None:
    call = {**CALL, "extra_content": {"google": {"thought_signature": "U0lH"}}}
    body = sent("google", {"tool_calls": [call]})
    assert body["contents"][1]["parts"][0]["thoughtSignature"] == "U0lH"


def test_a_signature_of_google_goes_to_no_other_wire() -> None:
    call = {**CALL, "extra_content": {"google": {"thought_signature": "U0lH"}}}
    assert "U0lH" not in json.dumps(sent("anthropic", {"tool_calls": [call]}))


def test_signed_details_go_to_anthropic() -> None:
    details = [
        detail("text", "anthropic-claude-v1", text="Hm.", signature="U0lH"),
        detail("encrypted", "anthropic-claude-v1", data="SElE"),
        detail("encrypted", "google-gemini-v1", data="T1RIRVI="),
    ]
    body = sent("anthropic", {"reasoning_details": details})
    assert body["messages"][1]["content"][:2] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "U0lH"},
        {"type": "redacted_thinking", "data": "SElE"},
    ]
    assert "T1RIRVI=" not in json.dumps(body)


@pytest.mark.parametrize("id", ["call_7", None])
def test_encrypted_details_go_to_google(id: str | None) -> None:
    details = [
        detail("text", "google-gemini-v1", text="Hm."),
        detail("encrypted", "google-gemini-v1", data="U0lH", id=id),
    ]
    body = sent("google", {"reasoning_details": details})
    thought, call = body["contents"][1]["parts"]
    assert thought == {"text": "Hm.", "thought": True}
    assert call["thoughtSignature"] == "U0lH"


def test_encrypted_details_go_to_the_responses_api() -> None:
    details = [
        detail("summary", "openai-responses-v1", summary="Hm."),
        detail("encrypted", "openai-responses-v1", data="ZW5j", id="rs_1"),
        detail("encrypted", "openai-responses-v1", data="bW9yZQ=="),
        {"type": "reasoning.text", "format": "openai-responses-v1"},
        "no detail",
    ]
    body = sent("openai_responses", {"reasoning_details": details[:4]})
    assert body["input"][1:3] == [
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "id": "rs_1",
            "encrypted_content": "ZW5j",
        },
        {"type": "reasoning", "summary": [], "encrypted_content": "bW9yZQ=="},
    ]


def test_plain_thinking_goes_to_a_model_whose_thinking_is_plain() -> None:
    assert sent("ollama", {"reasoning_content": "Hm."})["messages"][1]["thinking"] == "Hm."
    assert sent("openai_chat", {"reasoning_content": "Hm."})["messages"][1]["reasoning_content"] == "Hm."


def test_plain_thinking_goes_to_no_target_that_needs_a_signature() -> None:
    for provider in ("anthropic", "google", "openai_responses", "bedrock"):
        assert "Hm." not in json.dumps(sent(provider, {"reasoning_content": "Hm."}))
