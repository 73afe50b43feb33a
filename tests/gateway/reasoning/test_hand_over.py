"""One conversation that goes from provider to provider and back: each gets its own reasoning, and nobody else's."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.config import decode_config
from dragoman.gateway.runtime import Runtime
from dragoman.testing import ClaudeSimulator, GeminiSimulator, GptSimulator, Simulator, assert_prefix_stable
from dragoman.testing.simulators.base import SimulatorServer
from dragoman.types import Message, Request, Text, Thinking, ToolCall
from tests.support.gateway.agent_clients import CLIENTS, FORGETFUL_CLIENTS, AgentClient, Call
from tests.support.gateway.dialects import send_request

SIMULATORS: dict[str, type[Simulator]] = {"claude": ClaudeSimulator, "gpt": GptSimulator, "gemini": GeminiSimulator}
ROUND = ("claude", "gpt", "gemini", "claude", "gemini", "gpt", "claude")
"""Who answers, one after the other."""
ALL_CLIENTS = {**CLIENTS, **FORGETFUL_CLIENTS}
OWN = {"messages": "claude", "responses": "gpt", "google": "gemini"}
"""The provider that speaks the client's own dialect."""


class Replies:
    """Two calls, then one, then a text; each with thinking that names who thought it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def __call__(self, _request: Request) -> Message:
        self._count += 1
        parts: list[Any] = [Thinking(text=f"The secret of {self._name} {self._count}.")]
        if self._count % 3 == 0:
            parts.append(Text(text=f"{self._name} says {self._count}."))
        ports = {1: ("Brest", "Cork"), 2: ("Vigo",)}.get(self._count % 3, ())
        parts += [ToolCall(id="x", name="tide", arguments={"port": port}) for port in ports]
        return Message(role="assistant", parts=tuple(parts))


@pytest.fixture
def simulators() -> Iterator[dict[str, tuple[Simulator, SimulatorServer]]]:
    with ExitStack() as stack:
        made = {name: kind(reply=Replies(name)) for name, kind in SIMULATORS.items()}
        yield {name: (simulator, stack.enter_context(simulator.serve())) for name, simulator in made.items()}


def gateway(simulators: dict[str, tuple[Simulator, SimulatorServer]], more: str = "", *, down: str = "") -> App:
    """A gateway before all of them; nobody listens at the address of `down`."""
    config = f'[gateway]\nlog = false\nreasoning_key = "{"k" * 40}"\n{more}'
    aliases = "[aliases]\n"
    for name, (simulator, server) in simulators.items():
        url = "http://127.0.0.1:9/v1" if name == down else server.url
        record = f'like = "{simulator.PROVIDER}"\nbase_url = "{url}"\napi_key = "k-{name}"\n'
        config += f"[providers.{simulator.PROVIDER}]\n{record}"
        aliases += f'{name} = "{simulator.spec}"\n'
    return App(Runtime(decode_config(config + aliases), {}))


async def talk(app: App, client: AgentClient) -> list[int]:
    """A whole round; whoever is asked runs its loop of tools to the end."""
    statuses: list[int] = []
    for number, name in enumerate(ROUND):
        client.model = name
        client.say(f"Question {number}")
        for _ in range(3):
            seen = await send_request(app, client.request())
            statuses.append(seen.status)
            assert seen.status == 200, (name, seen.body)
            calls: list[Call] = client.read(seen.body)
            if not calls:
                break
            client.give_results([(call, "4.2 m", False) for call in calls])
    await app.close()
    return statuses


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("name", ALL_CLIENTS)
def test_each_provider_gets_its_own_reasoning_and_no_other(
    name: str, simulators: dict[str, tuple[Simulator, SimulatorServer]], *, stream: bool
) -> None:
    client = ALL_CLIENTS[name]("", stream=stream)
    statuses = asyncio.run(talk(gateway(simulators), client))
    assert len(statuses) == 3 * len(ROUND)
    for provider, (simulator, _) in simulators.items():
        assert [str(refusal) for refusal in simulator.refusals] == [], provider
        # Gemini counts Google's dummy signature on a call of another model as a loss; its own calls have numbers.
        losses = [loss for loss in simulator.losses if provider != "gemini" or loss.step.isdecimal()]
        assert [str(loss) for loss in losses] == [], provider
        assert_prefix_stable(simulator.bodies)
        others = [other for other in SIMULATORS if other != provider]
        for body in simulator.bodies:
            assert b"dragoman" not in body.replace(b"rs_dragoman", b"")
            assert not [other for other in others if f"The secret of {other}".encode() in body]


@pytest.mark.parametrize(("first", "second"), [("claude", "gemini"), ("gpt", "claude"), ("gemini", "gpt")])
@pytest.mark.parametrize("name", CLIENTS)
def test_a_provider_that_was_down_gets_its_own_reasoning_back(
    name: str, first: str, second: str, simulators: dict[str, tuple[Simulator, SimulatorServer]]
) -> None:
    """In the middle of a tool loop the first target dies, the second one goes on, then the first one is back."""
    pair = {each: simulators[each] for each in (first, second)}
    client = CLIENTS[name](", ".join(simulators[each][0].spec for each in pair), stream=True)
    client.say("How high is the tide?")

    async def converse() -> list[str]:
        targets: list[str] = []
        for down in ("", first, ""):
            app = gateway(pair, "[chain]\nretries = 0\n", down=down)
            for _ in range(4):
                seen = await send_request(app, client.request())
                assert seen.status == 200, seen.body
                targets.append(seen.headers["x-dragoman-target"])
                calls = client.read(seen.body)
                client.give_results([(call, "4.2 m", False) for call in calls]) if calls else client.say("And then?")
            await app.close()
        return targets

    specs = [simulator.spec for simulator, _ in pair.values()]
    assert asyncio.run(converse()) == [specs[0]] * 4 + [specs[1]] * 4 + [specs[0]] * 4
    for provider, (simulator, _) in pair.items():
        other = second if provider == first else first
        assert [str(refusal) for refusal in simulator.refusals] == []
        losses = [loss for loss in simulator.losses if provider != "gemini" or loss.step.isdecimal()]
        assert [str(loss) for loss in losses] == []
        assert_prefix_stable(simulator.bodies)
        assert not any(f"The secret of {other}".encode() in body for body in simulator.bodies)


@pytest.mark.parametrize("name", ALL_CLIENTS)
def test_another_account_gets_the_conversation_without_reasoning(
    name: str, simulators: dict[str, tuple[Simulator, SimulatorServer]]
) -> None:
    """Claude and GPT cannot read what another account sealed: it would be refused."""
    simulator, server = simulators["gpt"]
    more = f'[providers.second]\nlike = "{simulator.PROVIDER}"\nbase_url = "{server.url}"\napi_key = "k-second"\n'
    app = gateway(simulators, more)
    client = ALL_CLIENTS[name]("gpt", stream=False)

    async def cross() -> None:
        for model in ("gpt", f"second/{simulator.spec.partition('/')[2]}"):
            client.model = model
            client.say("How high is the tide?")
            seen = await send_request(app, client.request())
            assert seen.status == 200
            calls = client.read(seen.body)
            client.give_results([(call, "4.2 m", False) for call in calls])
        await app.close()

    asyncio.run(cross())
    first, second = simulator.bodies
    assert b'encrypted_content":"' not in first
    if name != "responses":  # there the client itself sends OpenAI's own state to OpenAI
        assert b'encrypted_content":"' not in second
