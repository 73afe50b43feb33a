"""Loops of two turns on every crossing: no reasoning is lost, and it goes only to who made it."""

import pytest

from dragoman import wires
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
    app, script = gateway("bedrock")
    second = app.runtime.config.tables["providers"]["up_bedrock"] if change == "account" else None
    assert change == "model" or second is not None
    if change == "account":
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
