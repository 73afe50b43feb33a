"""Valid tags that stand in the wrong answer of a conversation: they are ignored with a notice."""

import asyncio
from itertools import combinations
from typing import Any

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.config import decode_config
from dragoman.gateway.reasoning.places import FORMAT
from dragoman.gateway.reasoning.tag import is_tag
from dragoman.gateway.runtime import Runtime
from dragoman.testing import Simulator, assert_prefix_stable
from dragoman.types import Message, Request, Text, Thinking, ToolCall, is_list, is_object
from tests.gateway.reasoning.test_lost_steps import step
from tests.gateway.test_long_conversations import MODELS, SIMULATORS
from tests.support.gateway.agent_clients import CLIENTS
from tests.support.gateway.dialects import BASES

TURNS = 4
PAIRS = [*combinations(range(TURNS), 2)]
CELLS = [
    (client, provider)
    for client in CLIENTS
    for provider in SIMULATORS
    if CLIENTS[client].DIALECT != SIMULATORS[provider].WIRE and (client, provider) != ("chat", "ollama")
]


def gateway(simulator: Simulator) -> App:
    provider, base = simulator.PROVIDER, BASES.get(simulator.WIRE, "/v1")
    record = f'like = "{provider}"\nbase_url = "http://{provider}.invalid{base}"\napi_key = "k"\n'
    config = f'[gateway]\nlog = false\nreasoning_key = "{"k" * 64}"\n[providers.{provider}]\n{record}'
    runtime = Runtime(decode_config(config), {})
    runtime.registry.transport = simulator
    return App(runtime)


def reply(request: Request) -> Message:
    """Calls in two steps of three, each with its own ids and thinking."""
    thinking = Thinking(text=f"I think after {len(request.messages)} messages.")
    answers = sum(message.role == "assistant" for message in request.messages)
    if answers % 3 == 2:
        return Message(role="assistant", parts=(thinking, Text(text=f"At six, {answers}.")))
    call = ToolCall(id="x", name="tide", arguments={"port": f"Port {answers}"})
    return Message(role="assistant", parts=(thinking, call))


def all_tags(value: Any) -> list[str]:
    """The tags of a history, each once."""
    if is_object(value):
        value = [*value.values()]
    if is_list(value):
        return [*dict.fromkeys(tag for item in value for tag in all_tags(item))]
    return [value] if isinstance(value, str) and is_tag(value) and value != FORMAT else []


def exchange(value: Any, tags: dict[str, str]) -> Any:
    if is_object(value):
        return {name: exchange(item, tags) for name, item in value.items()}
    if is_list(value):
        return [exchange(item, tags) for item in value]
    return tags.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize(("client", "provider"), CELLS)
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_swapped_tag_is_ignored(client: str, provider: str, one: int, other: int) -> None:
    async def run() -> None:
        simulator = SIMULATORS[provider](reply=reply, model=MODELS.get(provider))
        app = gateway(simulator)
        agent = CLIENTS[client](simulator.spec, stream=True)
        agent.say("How high is the tide?")
        counts = [0]
        for _ in range(TURNS):
            await step(app, agent)
            counts.append(len(all_tags(agent.history)))
        tags = all_tags(agent.history)
        pairs = [*zip(*(tags[counts[each] : counts[each + 1]] for each in (one, other)), strict=False)]
        assert pairs
        agent.history = exchange(agent.history, {**dict(pairs), **{right: left for left, right in pairs}})
        start = len(simulator.bodies)
        seen = await step(app, agent)
        assert any("reasoning of an earlier answer" in notice for notice in seen.notices)
        for _ in range(TURNS):
            await step(app, agent)
        assert simulator.refusals == []
        assert_prefix_stable(simulator.bodies[start:])
        await app.close()

    asyncio.run(run())
