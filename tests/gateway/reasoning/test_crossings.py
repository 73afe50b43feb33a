"""Loops of two turns on every crossing: no reasoning is lost, and it goes only to who made it."""

import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.testing import RawResponse, Scripted
from dragoman.types import Thinking, ToolCall
from tests.support.gateway.loops import STEPS, Client, Crossing, answer, gateway, received

CROSSINGS = [
    Crossing(client, provider, stream) for client in wires.NAMES for provider in STEPS for stream in (False, True)
]
each_crossing = pytest.mark.parametrize("crossing", CROSSINGS, ids=str)


def expected(provider: str) -> tuple[object, ...]:
    """What a client of the provider's own dialect would send back."""
    app, script = gateway(provider)
    script.add(answer(*STEPS[provider]), "At six.")
    client = Client(app, provider, f"up_{provider}/m")
    client.follow(client.send())
    client.send()
    return received(script)


@each_crossing
def test_a_provider_gets_its_reasoning_back(crossing: Crossing) -> None:
    app, script = gateway(crossing.provider)
    script.add(answer(*STEPS[crossing.provider]), "At six.")
    client = Client(app, crossing.client, f"up_{crossing.provider}/m", stream=crossing.stream)
    client.follow(client.send())
    client.send()
    assert received(script) == expected(crossing.provider)
    assert not [notice for notice in client.notices if notice.startswith(("dropped reasoning of", "dropped thinking"))]


TAG = "dragoman"


@each_crossing
def test_no_tag_reaches_a_provider(crossing: Crossing) -> None:
    app, script = gateway(crossing.provider)
    script.add(answer(*STEPS[crossing.provider]), "At six.", "At seven.")
    client = Client(app, crossing.client, f"up_{crossing.provider}/m", stream=crossing.stream)
    for _ in range(3):
        client.follow(client.send())
    assert len(script.http) == 3
    assert not [http for http in script.http if TAG.encode() in http.body.replace(b"rs_dragoman", b"")]


OTHERS = {"anthropic": "google", "google": "anthropic", "openai_responses": "anthropic", "openai_chat": "google"}


@pytest.mark.parametrize("client", wires.NAMES)
@pytest.mark.parametrize("provider", STEPS)
def test_another_provider_gets_none_of_it(client: str, provider: str) -> None:
    other = client if client in STEPS and client != provider else OTHERS.get(provider, "anthropic")
    app, script = gateway(provider, other)
    script.add(answer(*STEPS[provider]), "At six.")
    agent = Client(app, client, f"up_{provider}/m")
    agent.follow(agent.send())
    agent.model = f"up_{other}/m"
    agent.send()
    parts = received(script)
    assert not [part for part in parts if isinstance(part, Thinking)]
    assert [part.name for part in parts if isinstance(part, ToolCall)] == ["tide", "depth"]
    body = script.http[-1].body
    assert not [secret for secret in (b"c2lnbmVk", b"aGlkZGVu", b"ZW5jcnlwdGVk", TAG.encode()) if secret in body]
    assert client == provider or any("earlier answer" in notice for notice in agent.notices)


@pytest.mark.parametrize("client", wires.NAMES)
@pytest.mark.parametrize("change", ["model", "account"])
def test_another_model_or_account_gets_none_of_it(client: str, change: str) -> None:
    app, script = gateway("bedrock", more=SECOND_ACCOUNT)
    script.add(answer(*STEPS["bedrock"]), "At six.")
    agent = Client(app, client, "up_bedrock/m")
    agent.follow(agent.send())
    agent.model = "up_bedrock/other" if change == "model" else "second/m"
    agent.send()
    if client != "bedrock":
        assert b"c2lnbmVk" not in script.http[-1].body
        assert any("earlier answer" in notice for notice in agent.notices)


SECOND_ACCOUNT = (
    '[providers.second]\nwire = "bedrock"\nbase_url = "http://bedrock.invalid"\nneeds_key = false\n'
    'api_key = "sk-other-key"\n'
)


SIGNED_CALLS = (
    ToolCall(
        id="call_1x",
        name="tide",
        arguments={"port": "Brest"},
        extra={"openai_chat": {"extra_content": {"google": {"thought_signature": "c2lnbmVk"}}}},
    ),
    ToolCall(id="call_2x", name="depth", arguments={"port": "Brest"}),
)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("client", wires.NAMES)
def test_a_signature_on_a_call_of_chat_completions_comes_back(client: str, *, stream: bool) -> None:
    app, script = gateway("openai_chat")
    script.add(answer(*SIGNED_CALLS), "At six.")
    agent = Client(app, client, "up_openai_chat/m", stream=stream)
    agent.follow(agent.send())
    agent.send()
    first, second = json.loads(script.http[-1].body)["messages"][1]["tool_calls"]
    assert first["extra_content"] == {"google": {"thought_signature": "c2lnbmVk"}}
    assert "extra_content" not in second


def late(client: str) -> tuple[Client, Scripted]:
    """A provider whose signature comes in the last fragment of a call."""
    app, script = gateway("openai_chat")
    fragments: list[dict[str, Any]] = [
        {"index": 0, "id": "call_1x", "type": "function", "function": {"name": "tide", "arguments": '{"port":'}},
        {"index": 0, "function": {"arguments": '"Bre'}},
        {
            "index": 0,
            "function": {"arguments": 'st"}'},
            "extra_content": {"google": {"thought_signature": "c2lnbmVk"}},
        },
    ]
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"tool_calls": [fragment]}}]} for fragment in fragments
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    script.add(RawResponse(headers={"content-type": "text/event-stream"}, body=body), "At six.")
    return Client(app, client, "up_openai_chat/m", stream=True), script


# Our own clients of the other dialects leave out thinking that nothing follows.
@pytest.mark.parametrize("client", ["google", "native", "ollama", "openai_chat"])
def test_a_signature_at_the_end_of_a_streamed_call_comes_back(client: str) -> None:
    agent, script = late(client)
    agent.follow(agent.send())
    agent.send()
    (call,) = json.loads(script.http[-1].body)["messages"][1]["tool_calls"]
    assert call["extra_content"] == {"google": {"thought_signature": "c2lnbmVk"}}


@pytest.mark.parametrize("client", ["anthropic", "bedrock", "openai_responses"])
def test_a_signature_at_the_end_of_a_streamed_call_follows_the_call(client: str) -> None:
    agent, _ = late(client)
    call, carrier = agent.send().message.parts
    assert isinstance(call, ToolCall)
    assert isinstance(carrier, Thinking)
    assert TAG in json.dumps(carrier.extra)
