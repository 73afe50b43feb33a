"""Conversations that grow: what each client dialect sends in each turn, for the prefix law."""

from typing import Any

from hypothesis import strategies as st

from dragoman import wires
from dragoman.engine.attempt import build_request
from dragoman.http import HttpRequest
from dragoman.registry import Registry
from dragoman.targets.target import Target
from dragoman.types import (
    Image,
    Message,
    Part,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from tests.support.images import picture

target = Registry(env={"AWS_REGION": "eu-west-1"}).target
NATIVE = Target(provider="home", model="m", wire="native", base_url="https://gateway.example/v1")
CLIENTS: dict[str, Target] = {
    "anthropic": target("anthropic/claude-opus-4-8"),
    "bedrock": target("bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0"),
    "google": target("google/gemini-2.5-flash"),
    "google_interactions": target("google-interactions/gemini-3-flash-preview"),
    "native": NATIVE,
    "ollama": target("ollama/llama3.3"),
    "openai_chat": target("openai/gpt-4.1"),
    "openai_responses": target("openai-responses/gpt-4.1"),
}
"""The form in which the official client of each dialect sends a conversation."""
PROVIDER_TARGETS: tuple[Target, ...] = (
    *CLIENTS.values(),
    target("anthropic/claude-sonnet-4-5"),
    target("google/gemini-3-pro-preview"),
    target("groq/llama-3.3-70b-versatile"),
    target("mistral/mistral-large-latest"),
    target("deepseek/deepseek-chat"),
)
PIXEL = picture(2, 2)
WORDS = st.sampled_from(["a", "b", "json", "?", " ", "ERROR: x", "{}"])
AGAIN = Message(role="user", parts=(Text(text="again"),))
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
IDS = st.sampled_from(["x", "y", "x_2", "call_1", "a" * 70, "toolu:1", ""])


@st.composite
def _user_side(draw: st.DrawFn, pending: list[ToolCall], *, system_runs: bool, has_image: bool) -> list[Message]:
    """What a client appends before it asks again: results, texts, images, a system message."""
    messages: list[Message] = []
    results = tuple(
        ToolResult(id=call.id, name=call.name, content=draw(WORDS), is_error=draw(st.booleans()))
        for call in pending
        if draw(st.integers(0, 4))
    )
    if results:
        messages.append(Message(role="tool", parts=results))
    if draw(st.integers(0, 4)) == 0:
        messages.append(Message(role="system", parts=(Text(text=draw(WORDS)),)))
    for _ in range(draw(st.sampled_from([1, 1, 1, 2] if not results else [0, 0, 0, 1, 2]))):
        image: list[Part] = [Image(data=PIXEL, mime="image/png")] if has_image else []
        messages.append(Message(role="user", parts=(Text(text=draw(WORDS)), *image)))
        has_image = False
    if draw(st.integers(0, 5)) == 0 and (system_runs or messages[-1].role != "system"):
        messages.append(Message(role="system", parts=(Text(text=draw(WORDS)),)))
    return messages


@st.composite
def _answer(draw: st.DrawFn, *, with_calls: bool, may_be_empty: bool) -> Message:
    parts: list[Part] = []
    if draw(st.integers(0, 3)) == 0:
        parts.append(Thinking(text="hm", extra=draw(st.sampled_from([{}, {"anthropic": {"signature": "s"}}]))))
    if draw(st.booleans()):
        parts.append(Text(text=draw(WORDS)))
    parts += [
        ToolCall(id=draw(IDS), name="tide", arguments={"port": draw(WORDS)})
        for _ in range(draw(st.integers(0, 2)))
        if with_calls
    ]
    if not may_be_empty and not any(isinstance(part, Text | ToolCall) for part in parts):
        parts.append(Text(text="yes"))
    return Message(role="assistant", parts=tuple(parts))


@st.composite
def conversations(
    draw: st.DrawFn, *, may_be_empty: bool = False, system_runs: bool = False, asks_again: bool = True
) -> list[Request]:
    """The requests of one conversation, turn by turn.

    Not every dialect can write an answer that is empty, two system messages in a row, or two messages of the user.
    """
    options: dict[str, Any] = {"system": draw(st.none() | WORDS)}
    if draw(st.booleans()):
        options["tools"] = (
            Tool(name="tide", parameters={"type": "object", "properties": {"port": {"type": "string"}}}),
        )
    schemas: list[dict[str, Any] | None] = [None, None, {}, SCHEMA]
    schema = draw(st.sampled_from(schemas))
    options["schema"], options["schema_mode"] = schema, "auto"
    messages: list[Message] = []
    if draw(st.integers(0, 3)) == 0:
        messages.append(Message(role="system", parts=(Text(text="Be brief."),)))
    messages += [
        Message(role="user", parts=(Text(text="hi"),)),
        *([AGAIN] if asks_again and draw(st.booleans()) else []),
    ]
    requests = [Request(messages=tuple(messages), **options)]
    image_turn = draw(st.integers(0, 5))  # one image: with several, Ollama's `num_ctx` grows
    for turn in range(draw(st.integers(1, 3))):
        messages.append(answer := draw(_answer(with_calls="tools" in options, may_be_empty=may_be_empty)))
        for message in draw(_user_side([*answer.tool_calls], system_runs=system_runs, has_image=turn == image_turn)):
            messages.append(message)
            # A client may ask again without an answer: the one before failed, or its user has stopped it.
            if asks_again and draw(st.integers(0, 3)) == 0:
                requests.append(Request(messages=tuple(messages), **options))
        requests.append(Request(messages=tuple(messages), **options))
    return requests


def through_gateway(request: Request, dialect: str, provider: Target) -> HttpRequest:
    """What a provider gets if a client of a dialect sends this request to a gateway."""
    client = CLIENTS[dialect]
    http = build_request(request, client)
    _, decoded = wires.get(dialect).server.decode_request(http)
    return build_request(decoded, provider)
