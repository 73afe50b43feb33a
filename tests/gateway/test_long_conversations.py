"""Agents of every dialect before every simulated provider: many turns, and the agent never notices the gateway.

A turn is one answer of the model. In a cycle it asks for two tools at once, then for one, then it says a text. Claude and
GPT also think between two calls, and some thinking of Claude is hidden. There are results with errors, images, a system
message inside the history, a restart of the gateway, and a compaction. All of that happens in the 18 turns of SHORT, too.
The work grows with the square of the turns, so the 30 turns of LONG are for one form of each cell: plain, without a store.
"""

import asyncio
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.config import decode_config
from dragoman.gateway.reasoning.incoming import WHAT
from dragoman.gateway.runtime import Runtime
from dragoman.testing import (
    ClaudeSimulator,
    DeepSeekSimulator,
    GeminiSimulator,
    GptSimulator,
    KimiSimulator,
    OllamaSimulator,
    Simulator,
)
from dragoman.types import Image, Message, Request, Text, Thinking, ToolCall, assistant
from tests.support.gateway.agent_clients import CLIENTS, FORGETFUL_CLIENTS, AgentClient, Call
from tests.support.gateway.dialects import BASES, send_request


class Plan(NamedTuple):
    """How many turns there are, and what happens in which of them."""

    turns: int
    images: tuple[int, int]
    system: int
    restart: int | None
    compaction: int


LONG = Plan(turns=30, images=(3, 18), system=9, restart=13, compaction=21)
SHORT = Plan(turns=18, images=(3, 9), system=6, restart=7, compaction=12)
SIMULATORS: dict[str, type[Simulator]] = {
    "claude": ClaudeSimulator,
    "bound-claude": ClaudeSimulator,
    "older-claude": ClaudeSimulator,
    "gpt": GptSimulator,
    "gemini": GeminiSimulator,
    "deepseek": DeepSeekSimulator,
    "kimi": KimiSimulator,
    "ollama": OllamaSimulator,
}
MODELS = {"bound-claude": "claude-opus-5-5", "older-claude": "claude-sonnet-4-5"}
"""Models that are not the simulator's own: one binds its thinking to the conversation, one thinks by a budget."""
WITHOUT_IMAGES = ("deepseek",)
SEVERAL_THOUGHTS = ("anthropic", "openai_responses")
"""Wires on which an answer has several thoughts, each in its place."""
SYSTEM = "From now on, answer in metres."


class Cell(NamedTuple):
    """One client before one provider."""

    client: str
    provider: str

    def __str__(self) -> str:
        return f"{self.client}-{self.provider}"


CELLS = [Cell(client, provider) for client in CLIENTS for provider in SIMULATORS]
each_form = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
each_store = pytest.mark.parametrize("has_store", [False, True], ids=["no-store", "store"])


each_cell = pytest.mark.parametrize("cell", CELLS, ids=str)


class Conversation:
    """One agent, one gateway and one simulated provider."""

    def __init__(self, cell: Cell, folder: Path, *, stream: bool, has_store: bool, plan: Plan = LONG) -> None:
        self.cell = cell
        self.plan = plan
        self.simulator = SIMULATORS[cell.provider](reply=self._reply, model=MODELS.get(cell.provider))
        clients = {**CLIENTS, **FORGETFUL_CLIENTS}
        self.client: AgentClient = clients[cell.client](self.simulator.spec, stream=stream)
        self.config = "[gateway]\nlog = false\n"
        if has_store:
            self.config += f'store = "sqlite:{folder / "store.db"}"\n'
        elif "reasoning_key" in type(decode_config("").gateway).__struct_fields__:
            self.config += f'reasoning_key = "{"k" * 64}"\n'
        self.segments: list[int] = [0]
        """Where the requests of the provider begin that share a prefix."""
        self._is_compacting = False
        self.statuses: list[tuple[int, bytes]] = []
        self.lost: list[str] = []
        """Notices of reasoning that the provider did not get back."""

    def _reply(self, _request: Request) -> Message:
        if self._is_compacting:
            return assistant("They spoke of the tides at Brest and Cork.")
        number = len(self.simulator.requests) - len(self.segments) // 2
        parts: list[Any] = [Thinking(text=f"I think for turn {number}.")]
        if number % 6 == 1 and "claude" in self.cell.provider:
            parts.append(Thinking(text="", redacted=True))
        if number % 3 == 1:
            between = [Thinking(text=f"And Cork {number}.")] if self.simulator.WIRE in SEVERAL_THOUGHTS else []
            parts += [Text(text=f"Looking up {number}."), self._call("Brest"), *between, self._call("Cork")]
        elif number % 3 == 2:
            parts.append(self._call(f"Port {number}"))
        else:
            parts.append(Text(text=f"Answer {number}."))
        return Message(role="assistant", parts=tuple(parts))

    @staticmethod
    def _call(port: str) -> ToolCall:
        return ToolCall(id="x", name="tide", arguments={"port": port})

    async def run(self) -> None:
        app = self._start()
        calls: list[Call] = []
        for turn in range(self.plan.turns):
            if turn == self.plan.restart:
                await app.close()
                app = self._start()
            if turn == self.plan.compaction:
                await self._compact(app)
            self._speak(turn, calls)
            seen = await send_request(app, self.client.request())
            self.statuses.append((seen.status, seen.body if seen.status != 200 else b""))
            self.lost += [notice for notice in seen.notices if WHAT in notice]
            if seen.status != 200:
                break
            calls = self.client.read(seen.body)
        await app.close()

    async def _compact(self, app: App) -> None:
        request, body = self.client.compaction_request(), b""
        if request is not None:
            self.segments.append(len(self.simulator.bodies))
            self._is_compacting = True
            body = (await send_request(app, request)).body
            self._is_compacting = False
        self.client.compact(body)
        self.segments.append(len(self.simulator.bodies))

    def _start(self) -> App:
        provider, base = self.simulator.PROVIDER, BASES.get(self.simulator.WIRE, "/v1")
        record = f'like = "{provider}"\nbase_url = "http://{provider}.invalid{base}"\napi_key = "k"\n'
        runtime = Runtime(decode_config(f"{self.config}[providers.{provider}]\n{record}"), {})
        runtime.registry.transport = self.simulator
        return App(runtime)

    def _speak(self, turn: int, calls: list[Call]) -> None:
        if calls:
            results = [(call, f"4.{turn} m", turn % 5 == 4) for call in calls]
            self.client.give_results(results)
            return
        image = turn in self.plan.images and self.cell.provider not in WITHOUT_IMAGES
        self.client.say(f"Question {turn}", image=image)
        if turn == self.plan.system and self.client.HAS_INNER_SYSTEM:
            self.client.say_system(SYSTEM)


@cache
def talk(cell: Cell, *, stream: bool, has_store: bool) -> Conversation:
    with TemporaryDirectory() as folder:
        plan = SHORT if stream or has_store else LONG
        conversation = Conversation(cell, Path(folder), stream=stream, has_store=has_store, plan=plan)
        asyncio.run(conversation.run())
    return conversation


@each_cell
def test_the_provider_gets_everything(cell: Cell) -> None:
    """What the other tests are about really happens: without this, they could pass because nothing does."""
    conversation = talk(cell, stream=False, has_store=False)
    simulator, client = conversation.simulator, conversation.client
    last = conversation.segments[1] - 1  # the last request before the compaction
    before, after = simulator.requests[last], simulator.requests[-1]
    steps = [step for step in simulator.steps(json.loads(simulator.bodies[last])) if len(step.keys) > 1]
    assert len(steps) == 7
    assert all(step.reasoning != {""} for step in steps)
    results = [result for message in before.messages for result in message.tool_results]
    assert len(results) == 21
    if cell.client in ("messages", "google"):  # the other dialects have no mark for an error
        assert any(result.is_error for result in results)
    images = [part for message in before.messages for part in message.parts if isinstance(part, Image)]
    assert len(images) == (0 if cell.provider in WITHOUT_IMAGES else 2)
    assert (SYSTEM in str(before.messages)) == client.HAS_INNER_SYSTEM
    assert "tides at Brest and Cork" in str(after.messages) or cell == Cell("responses", "gpt")
    assert len(after.messages) < len(before.messages)


@each_store
@each_form
@each_cell
def test_no_turn_is_refused(cell: Cell, *, stream: bool, has_store: bool) -> None:
    conversation = talk(cell, stream=stream, has_store=has_store)
    assert [str(refusal) for refusal in conversation.simulator.refusals] == []
    assert [answer for answer in conversation.statuses if answer[0] != 200] == []
    assert len(conversation.statuses) == conversation.plan.turns


@each_store
@each_form
@each_cell
def test_no_reasoning_is_lost(cell: Cell, *, stream: bool, has_store: bool) -> None:
    conversation = talk(cell, stream=stream, has_store=has_store)
    summaries = conversation.segments[1:-1]  # a summary needs the text of a conversation, not its reasoning
    assert [str(loss) for loss in conversation.simulator.losses if loss.request not in summaries] == []
    assert conversation.lost == []
    assert len(conversation.statuses) == conversation.plan.turns


@each_store
@each_form
@each_cell
def test_the_prefix_does_not_move(cell: Cell, *, stream: bool, has_store: bool) -> None:
    conversation = talk(cell, stream=stream, has_store=has_store)
    bodies = conversation.simulator.bodies
    assert len(conversation.statuses) == conversation.plan.turns
    for number in range(1, len(bodies)):
        if number not in conversation.segments:
            before, after = bodies[number - 1].rstrip(b"]}"), bodies[number]
            assert after.startswith(before), f"request {number}: {first_difference(before, after)}"


def first_difference(before: bytes, after: bytes) -> str:
    at = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after)))
    return f"byte {at}: …{before[max(0, at - 80) : at + 60]!r} became …{after[max(0, at - 80) : at + 60]!r}"


@each_form
@pytest.mark.parametrize("provider", SIMULATORS)
def test_an_answer_ends_in_text_for_clients_that_read_the_last_block(provider: str, *, stream: bool) -> None:
    conversation = talk(Cell("messages", provider), stream=stream, has_store=False)
    answers = [message["content"] for message in conversation.client.history if message["role"] == "assistant"]
    finals = [blocks for blocks in answers if all(block["type"] != "tool_use" for block in blocks)]
    assert finals
    assert {blocks[-1]["type"] for blocks in finals} == {"text"}
