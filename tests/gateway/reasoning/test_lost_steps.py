"""Tags that cannot be read inside a tool loop of Claude: it refuses calls without their thinking, so they become text."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.gateway.app import App
from dragoman.gateway.config import decode_config
from dragoman.gateway.reasoning.places import FORMAT
from dragoman.gateway.reasoning.tag import is_tag
from dragoman.gateway.runtime import Runtime
from dragoman.testing import ClaudeSimulator, assert_prefix_stable
from dragoman.types import Message, Request, Text, Thinking, ToolCall, is_list, is_object
from tests.gateway.test_codex import app_before
from tests.gateway.test_long_conversations import MODELS as PROVIDER_MODELS
from tests.gateway.test_long_conversations import SIMULATORS
from tests.support.gateway.agent_clients import CLIENTS, AgentClient
from tests.support.gateway.dialects import ClientResponse, send_request

MODELS = ("claude-opus-4-8", "claude-opus-5-5", "claude-sonnet-4-5")
TURNS = 6
CHANGES = [
    *((client, change) for client in ("responses", "chat", "google") for change in ("dragomanAAAA", "{}", "dragoman")),
    *((client, change) for client in ("responses", "google") for change in ("", "bm90IG91cnM=")),
]
each_model = pytest.mark.parametrize("model", MODELS)
each_client = pytest.mark.parametrize("client", [name for name in CLIENTS if name != "messages"])


def gateway(simulator: ClaudeSimulator, letter: str = "k", api_key: str = "k") -> App:
    record = f'[providers.anthropic]\nbase_url = "http://anthropic.invalid/v1"\napi_key = "{api_key}"\n'
    config = f'[gateway]\nlog = false\nreasoning_key = "{letter * 64}"\n{record}'
    runtime = Runtime(decode_config(config), {})
    runtime.registry.transport = simulator
    return App(runtime)


def change_tags(value: Any, change: str) -> Any:
    """A history with other tags."""
    if is_object(value):
        return {name: change_tags(item, change) for name, item in value.items()}
    if is_list(value):
        return [change_tags(item, change) for item in value]
    if not isinstance(value, str) or not is_tag(value) or value == FORMAT:
        return value
    return change.format(value[: len(value) // 2])


def reply(request: Request) -> Message:
    thinking = Thinking(text=f"I think after {len(request.messages)} messages.")
    if len(request.messages) % 5 == 0:
        return Message(role="assistant", parts=(thinking, Text(text="At six.")))
    ports = ("Brest", "Cork")
    calls = (ToolCall(id="x", name="tide", arguments={"port": port}) for port in ports)
    return Message(role="assistant", parts=(thinking, *calls))


async def step(app: App, client: AgentClient) -> ClientResponse:
    seen = await send_request(app, client.request())
    assert seen.status == 200, seen.body
    calls = client.read(seen.body)
    if calls:
        client.give_results([(call, "4.2 m", False) for call in calls])
    else:
        client.say("And then?")
    return seen


@each_model
@pytest.mark.parametrize(("client", "change"), CHANGES)
def test_a_changed_tag_in_a_loop_is_no_error(client: str, model: str, change: str) -> None:
    async def run() -> None:
        simulator = ClaudeSimulator(reply=reply, model=model)
        app = gateway(simulator)
        agent = CLIENTS[client](simulator.spec, stream=False)
        agent.say("How high is the tide?")
        await step(app, agent)
        await step(app, agent)
        agent.history = change_tags(agent.history, change)
        start = len(simulator.bodies)
        await app.close()
        app = gateway(simulator)  # it does not have the state of an answer without a tag
        seen = await step(app, agent)
        assert any("its tag or text was changed" in notice for notice in seen.notices)
        assert any("calls of an earlier answer" in notice for notice in seen.notices)
        for _ in range(TURNS):
            await step(app, agent)
        assert simulator.refusals == []
        assert_prefix_stable(simulator.bodies[start:])
        text = 'You called tide with {\\"port\\":\\"Brest\\"}. The result:\\n4.2 m'
        assert text.encode() in simulator.bodies[start]
        await app.close()

    asyncio.run(run())


@each_model
@each_client
@pytest.mark.parametrize("after", [{"letter": "n"}, {"api_key": "other"}], ids=["another gateway", "another account"])
def test_a_loop_goes_on_without_the_state_of_another_place(client: str, model: str, after: dict[str, str]) -> None:
    async def run() -> None:
        simulator = ClaudeSimulator(reply=reply, model=model)
        agent = CLIENTS[client](simulator.spec, stream=True)
        agent.say("How high is the tide?")
        app = gateway(simulator)
        await step(app, agent)
        await app.close()
        app = gateway(simulator, **after)
        for _ in range(TURNS):
            await step(app, agent)
        assert simulator.refusals == []
        assert_prefix_stable(simulator.bodies[1:])
        await app.close()

    asyncio.run(run())


def without_tags(value: Any) -> Any:
    """A history without any trace of tags and reasoning: fields, blocks and items that have them are deleted."""
    if is_list(value):
        return [without_tags(item) for item in value if not is_reasoning(item)]
    if not is_object(value):
        return value
    return {name: without_tags(item) for name, item in value.items() if name not in REASONING_FIELDS}


def is_reasoning(value: Any) -> bool:
    return is_object(value) and (value.get("type") in ("reasoning", "thinking") or value.get("thought") is True)


REASONING_FIELDS = ("thoughtSignature", "extra_content", "reasoning_content", "reasoning_details", "reasoning")


FOREIGN = [
    (client, provider)
    for client in CLIENTS
    for provider in SIMULATORS
    if provider != "ollama" and SIMULATORS[provider].WIRE != CLIENTS[client].DIALECT
]


@pytest.mark.parametrize(("client", "provider"), FOREIGN)
def test_a_tag_that_is_deleted_is_in_the_store(client: str, provider: str) -> None:
    async def run() -> None:
        simulator = SIMULATORS[provider](reply=reply, model=PROVIDER_MODELS.get(provider))
        app = app_before(simulator)
        agent = CLIENTS[client](simulator.spec, stream=False)
        agent.say("How high is the tide?")
        for _ in range(TURNS):
            await step(app, agent)
            agent.history = without_tags(agent.history)
        assert simulator.refusals == []
        assert simulator.losses == []
        assert_prefix_stable(simulator.bodies)
        await app.close()

    asyncio.run(run())


@each_model
@each_client
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_one_lost_answer_is_no_error(client: str, model: str, lost: int) -> None:
    """Later reasoning may be bound to the one that is lost."""

    async def run() -> None:
        simulator = ClaudeSimulator(reply=reply, model=model)
        app = gateway(simulator)
        agent = CLIENTS[client](simulator.spec, stream=True)
        agent.say("How high is the tide?")
        ends = [0]
        for _ in range(3):
            await step(app, agent)
            ends.append(len(agent.history))
        start, end = ends[lost : lost + 2]
        agent.history[start:end] = change_tags(agent.history[start:end], "bm90IG91cnM=")
        before = len(simulator.bodies)
        for _ in range(TURNS):
            await step(app, agent)
        assert simulator.refusals == []
        assert_prefix_stable(simulator.bodies[before:])
        await app.close()

    asyncio.run(run())


@pytest.mark.parametrize("model", MODELS[:2])  # older models think before every call
@each_client
def test_calls_without_thinking_stay_calls(client: str, model: str) -> None:
    def without_thinking(request: Request) -> Message:
        return replace(answer := reply(request), parts=answer.parts[1:])

    async def run() -> None:
        simulator = ClaudeSimulator(reply=without_thinking, model=model)
        app = gateway(simulator)
        agent = CLIENTS[client](simulator.spec, stream=False)
        agent.say("How high is the tide?")
        for _ in range(TURNS):
            seen = await step(app, agent)
            assert not any("calls of an earlier answer" in notice for notice in seen.notices)
        assert b"You called" not in simulator.bodies[-1]
        await app.close()

    asyncio.run(run())
