"""Tools that a client offers only after some answers: the list of tools grows at its end, and nothing else moves."""

import asyncio
import json
from typing import Any

import pytest

from dragoman.http import HttpRequest
from dragoman.testing import ClaudeSimulator, Simulator, assert_prefix_stable
from tests.gateway.reasoning.test_lost_steps import gateway, reply
from tests.gateway.test_codex import app_before
from tests.gateway.test_long_conversations import MODELS, SIMULATORS
from tests.support.gateway.agent_clients import CLIENTS, SCHEMA, AgentClient
from tests.support.gateway.dialects import send_request

TURNS = 6
LATE_TURNS = (2, 4)


def late_item(turn: int) -> dict[str, Any]:
    function = {"type": "function", "name": f"late_{turn}", "parameters": SCHEMA, "strict": True}
    custom = {"type": "custom", "name": f"free_{turn}", "description": "Takes free text."}
    return {"type": "additional_tools", "role": "developer", "tools": [function, custom]}


async def converse(simulator: Simulator, agent: AgentClient, add_tools: Any) -> None:
    app = gateway(simulator) if isinstance(simulator, ClaudeSimulator) else app_before(simulator)
    agent.say("How high is the tide?")
    for turn in range(TURNS):
        seen = await send_request(app, add_tools(turn, agent))
        assert seen.status == 200, seen.body
        calls = agent.read(seen.body)
        if calls:
            agent.give_results([(call, "4.2 m", False) for call in calls])
        else:
            agent.say("And then?")
    await app.close()
    assert simulator.refusals == []


def names(tools: list[Any]) -> list[str]:
    """The names of the functions of a request of any wire."""
    functions = tools[0].get("functionDeclarations", tools) if tools else tools
    return [tool.get("name") or tool["function"]["name"] for tool in functions]


@pytest.mark.parametrize("provider", [name for name in SIMULATORS if name != "gpt"])
def test_tools_grow_at_their_end(provider: str) -> None:
    def add_item(turn: int, agent: AgentClient) -> HttpRequest:
        if turn in LATE_TURNS:
            agent.history.append(late_item(turn))
        return agent.request()

    simulator = SIMULATORS[provider](reply=reply, model=MODELS.get(provider))
    asyncio.run(converse(simulator, CLIENTS["responses"](simulator.spec, stream=False), add_item))
    bodies = [json.loads(body) for body in simulator.bodies]
    offered = [names(body.pop("tools")) for body in bodies]
    assert offered[-1] == ["tide", "chart", "late_2", "free_2", "late_4", "free_4"]
    assert all(offered[-1][: len(each)] == each for each in offered)
    assert_prefix_stable(json.dumps(body).encode() for body in bodies)


def test_the_wire_of_the_client_keeps_the_items_in_their_place() -> None:
    def add_item(turn: int, agent: AgentClient) -> HttpRequest:
        if turn in LATE_TURNS:
            agent.history.append(late_item(turn))
        return agent.request()

    simulator = SIMULATORS["gpt"](reply=reply)
    asyncio.run(converse(simulator, CLIENTS["responses"](simulator.spec, stream=False), add_item))
    assert_prefix_stable(simulator.bodies)


@pytest.mark.parametrize("effort", [True, False], ids=["effort", "no effort"])
@pytest.mark.parametrize("client", ["responses", "chat", "google"])
def test_claude_goes_on_if_tools_or_old_results_change(client: str, *, effort: bool) -> None:
    """Opus 5.5 binds its thinking to everything before it, and would refuse the conversation from then on."""

    def with_other_tools(turn: int, agent: AgentClient) -> HttpRequest:
        http = agent.request()
        body = json.loads(http.body)
        if not effort:
            for name in ("reasoning", "reasoning_effort", "generationConfig"):
                body.pop(name, None)
        if turn in LATE_TURNS:
            tools = body["tools"][0]["functionDeclarations"] if client == "google" else body["tools"]
            tools.pop()
        if turn > LATE_TURNS[1]:
            body = json.loads(json.dumps(body).replace("4.2 m", "(shortened)", 1))
        return HttpRequest(method=http.method, path=http.path, headers=http.headers, body=json.dumps(body).encode())

    simulator = ClaudeSimulator(reply=reply, model="claude-opus-5-5")
    asyncio.run(converse(simulator, CLIENTS[client](simulator.spec, stream=False), with_other_tools))
