"""Clients that change a little of what they got: they trim it, drop a field, or give calls new ids. Nothing is lost."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.gateway.reasoning.incoming import WHAT
from dragoman.testing import (
    ClaudeSimulator,
    GeminiSimulator,
    GptSimulator,
    KimiSimulator,
    OllamaSimulator,
    Simulator,
    assert_prefix_stable,
)
from dragoman.types import Message, Part, Request, Text, Thinking, ToolCall, is_object
from dragoman.types.base import is_list
from tests.gateway.test_codex import app_before
from tests.support.gateway.agent_clients import CLIENTS
from tests.support.gateway.dialects import send_request
from tests.support.gateway.loops import Client, answer, gateway, received

SIMULATORS: dict[str, type[Simulator]] = {
    "claude": ClaudeSimulator,
    "gpt": GptSimulator,
    "gemini": GeminiSimulator,
    "kimi": KimiSimulator,
    "ollama": OllamaSimulator,
}
OWN = {"messages": "claude", "responses": "gpt", "google": "gemini", "chat": "kimi"}
"""The provider that speaks the client's own dialect: its state is the client's own."""
IDS = ("id", "tool_use_id", "tool_call_id", "call_id")
ITEMS = ("rs", "msg", "fc")
NEW = "new-"


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in a JSON value."""
    if is_object(value):
        yield value
        for inner in value.values():
            yield from objects(inner)
    elif is_list(value):
        for item in value:
            yield from objects(item)


def trim_thinking(history: list[dict[str, Any]]) -> None:
    for each in objects(history):
        is_thinking = each.get("thought") or each.get("type") in ("summary_text", "reasoning.text")
        for name in ("thinking", "reasoning_content", *(("text",) if is_thinking else ())):
            if isinstance(each.get(name), str):
                each[name] = each[name].strip()


def end_tags_with_a_line(history: list[dict[str, Any]]) -> None:
    for each in objects(history):
        for name, value in each.items():
            if isinstance(value, str) and value.startswith("dragoman"):
                each[name] = value.rstrip() + "\n"


def rename_calls(history: list[dict[str, Any]]) -> None:
    for each in objects(history):
        for name in IDS:
            if isinstance(each.get(name), str) and not each[name].startswith((*ITEMS, NEW)):
                each[name] = NEW + each[name].replace(".", "-").replace(":", "-")


def drop_extra_content(history: list[dict[str, Any]]) -> None:
    for each in objects(history):
        each.pop("extra_content", None)


def drop_details(history: list[dict[str, Any]]) -> None:
    for each in objects(history):
        each.pop("reasoning_details", None)


CHANGES: tuple[Callable[[list[dict[str, Any]]], None], ...] = (trim_thinking, end_tags_with_a_line, rename_calls)
CASES = [
    *(
        (client, provider, c)
        for client in CLIENTS
        for provider in SIMULATORS
        if OWN[client] != provider
        for c in CHANGES
    ),
    *(
        ("chat", provider, c)
        for provider in SIMULATORS
        if provider != "kimi"
        for c in (drop_extra_content, drop_details)
    ),
]


SEVERAL_THOUGHTS = ("claude", "gpt")


def reply(request: Request, *, thoughts: int) -> Message:
    """Three loops of two calls, one call and a text; thoughts have white space around them."""
    number = sum(message.role == "assistant" for message in request.messages)
    parts: list[Part] = [Thinking(text=f" \nThought {number}.{i}\n\n") for i in range(thoughts)]
    if number % 3 == 2:
        parts.append(Text(text=f"Answer {number}."))
    ports = {0: ("Brest", "Cork"), 1: ("Vigo",)}.get(number % 3, ())
    parts += [ToolCall(id="x", name="tide", arguments={"port": port}) for port in ports]
    return Message(role="assistant", parts=tuple(parts))


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize(("client", "provider", "change"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_no_reasoning_is_lost(
    client: str, provider: str, change: Callable[[list[dict[str, Any]]], None], *, stream: bool
) -> None:
    thoughts = 2 if provider in SEVERAL_THOUGHTS else 1
    simulator = SIMULATORS[provider](reply=partial(reply, thoughts=thoughts))
    agent = CLIENTS[client](simulator.spec, stream=stream)
    agent.say("How high is the tide?")

    async def converse() -> None:
        app = app_before(simulator)
        for _ in range(7):
            change(agent.history)
            seen = await send_request(app, agent.request())
            assert seen.status == 200, seen.body
            assert [notice for notice in seen.notices if WHAT in notice] == []
            calls = agent.read(seen.body)
            agent.give_results([(call, "4.2 m", False) for call in calls]) if calls else agent.say("And then?")
        await app.close()

    asyncio.run(converse())
    assert [str(refusal) for refusal in simulator.refusals] == []
    assert [str(loss) for loss in simulator.losses] == []
    assert_prefix_stable(simulator.bodies)


@pytest.mark.parametrize("dialect", ["anthropic", "google_interactions", "openai_chat", "openai_responses"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_text_that_the_client_trims_keeps_its_signature(dialect: str, *, stream: bool) -> None:
    text = Text(text=" \nI look.\n", extra={"google": {"thoughtSignature": "c2lnbmVk"}})
    app, script = gateway("google")
    script.add(answer(text, ToolCall(id="call_1x", name="tide", arguments={"port": "Brest"})), "At six.")
    client = Client(app, dialect, "up_google/m", stream=stream)
    client.follow(client.send())
    question, reply, results = client.request.messages
    trimmed = (replace(part, text=part.text.strip()) if isinstance(part, Text) else part for part in reply.parts)
    client.request = replace(client.request, messages=(question, replace(reply, parts=tuple(trimmed)), results))
    client.send()
    assert [part for part in received(script) if isinstance(part, Text)] == [text]
