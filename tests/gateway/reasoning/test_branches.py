"""One history with several answers, by requests at the same time or by `n`: each goes on with its own reasoning."""

import asyncio
import copy
import json

import pytest
from msgspec.structs import replace

from dragoman.testing import assert_prefix_stable
from dragoman.types import Message, Request, Text, Thinking, ToolCall
from tests.gateway.test_codex import app_before
from tests.gateway.test_long_conversations import MODELS, SIMULATORS
from tests.support.gateway.agent_clients import CLIENTS, FORGETFUL_CLIENTS, AgentClient
from tests.support.gateway.dialects import send_request

TURNS = 5


@pytest.mark.parametrize("provider", SIMULATORS)
@pytest.mark.parametrize("client", [*CLIENTS, *FORGETFUL_CLIENTS])
def test_two_branches_keep_their_own_reasoning(client: str, provider: str) -> None:
    def reply(request: Request) -> Message:
        number = len(simulator.requests)
        thinking = Thinking(text=f"Thought {number}.")
        if len(request.messages) % 4 == 3:
            return Message(role="assistant", parts=(thinking, Text(text=f"Answer {number}.")))
        ports = (f"Brest {number}", "Cork")
        calls = (ToolCall(id="x", name="tide", arguments={"port": port}) for port in ports)
        return Message(role="assistant", parts=(thinking, *calls))

    simulator = SIMULATORS[provider](reply=reply, model=MODELS.get(provider))

    async def run() -> None:
        app = app_before(simulator)
        first = {**CLIENTS, **FORGETFUL_CLIENTS}[client](simulator.spec, stream=False)
        first.say("How high is the tide?")
        second = copy.deepcopy(first)
        second.stream = True

        async def step(agent: AgentClient) -> None:
            seen = await send_request(app, agent.request())
            assert seen.status == 200, seen.body
            calls = agent.read(seen.body)
            if calls:
                agent.give_results([(call, "4.2 m", False) for call in calls])
            else:
                agent.say("And then?")

        for _ in range(TURNS):
            await asyncio.gather(step(first), step(second))
        await app.close()

    asyncio.run(run())
    assert (simulator.refusals, simulator.losses) == ([], [])
    for marker in (b"Brest 1", b"Brest 2"):
        branch = [body for body in simulator.bodies if marker in body]
        assert len(branch) == TURNS - 1
        thoughts = b"Thought 2." if marker == b"Brest 1" else b"Thought 1."
        assert not any(thoughts in body for body in branch)
        assert_prefix_stable(branch)


@pytest.mark.parametrize("provider", ["claude", "bound-claude", "gpt", "deepseek"])
def test_a_client_goes_on_with_any_of_several_answers(provider: str) -> None:
    def reply(_request: Request) -> Message:
        number = len(simulator.requests)
        call = ToolCall(id="x", name="tide", arguments={"port": f"Brest {number}"})
        return Message(role="assistant", parts=(Thinking(text=f"Thought {number}."), call))

    simulator = SIMULATORS[provider](reply=reply, model=MODELS.get(provider))

    async def run() -> None:
        app = app_before(simulator)
        agent = CLIENTS["chat"](simulator.spec, stream=False)
        agent.say("How high is the tide?")
        for turn in range(TURNS):
            http = agent.request()
            body = json.dumps({**json.loads(http.body), "n": 2}).encode()
            seen = await send_request(app, replace(http, body=body))
            assert seen.status == 200, seen.body
            choices = json.loads(seen.body)["choices"]
            calls = agent.read(json.dumps({"choices": [choices[turn % 2]]}).encode())
            agent.give_results([(call, "4.2 m", False) for call in calls])
        await app.close()

    asyncio.run(run())
    assert (simulator.refusals, simulator.losses) == ([], [])
    assert b"You called" not in simulator.bodies[-1]
