"""Long conversations: what it costs to translate a request of 400 kB with 60 tools and 200 messages."""

import json
from functools import partial
from typing import Any

from msgspec.structs import replace

from benchmarks.clock import per_call
from benchmarks.table import Section, ms
from dragoman import wires
from dragoman.http import HttpRequest
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import Target
from dragoman.types import Message, Part, Request, Text, Tool, ToolCall, ToolResult
from dragoman.wires.common.item_cache import ItemCache, decode_with_cache

WIRES = {"openai_chat": "openai", "openai_responses": "openai-responses", "anthropic": "anthropic", "google": "google"}
SIZE, TOOLS, MESSAGES = 400_000, 60, 200


def conversation(size: int = SIZE, tools: int = TOOLS, messages: int = MESSAGES) -> Request:
    """An agent's conversation: questions, calls, results and answers."""
    turns = messages // 4
    text = "x" * max(1, (size - tools * 1_600) // (2 * max(1, turns)) - 400)
    history: list[Message] = []
    for turn in range(turns):
        call = ToolCall(id=f"call_{turn}", name="tool_1", arguments={"path": f"/src/{turn}.py", "lines": [1, turn]})
        result: Part = ToolResult(id=call.id, name=call.name, content=f"{turn} {text}")
        history += [
            Message(role="user", parts=(Text(text=f"Question {turn}"),)),
            Message(role="assistant", parts=(Text(text="I look."), call)),
            Message(role="user", parts=(result,)),
            Message(role="assistant", parts=(Text(text=f"Answer {turn}: {text}"),)),
        ]
    history[-1:] = [Message(role="user", parts=(Text(text="And now?"),))]
    return Request(system="Be brief. " * 100, messages=tuple(history), tools=tuple(map(_tool, range(tools))))


def _tool(number: int) -> Tool:
    fields: dict[str, Any] = {
        f"field_{index}": {"type": "string", "description": f"What field {index} of tool {number} means. " * 3}
        for index in range(8)
    }
    parameters = {"type": "object", "properties": fields, "required": ["field_0"], "additionalProperties": False}
    return Tool(name=f"tool_{number}", description=f"Does thing {number}. " * 5, parameters=parameters)


def target_of(wire: str) -> Target:
    """A target of a wire."""
    return replace(PROVIDERS[WIRES[wire]].target("model-x"), api_key="k")


def client_body(wire: str, request: Request) -> HttpRequest:
    """The request as a client of a wire sends it to a gateway."""
    return wires.get(wire).client.encode_request(request, target_of(wire))


def _with_last(request: Request, text: str) -> Request:
    last = Message(role="user", parts=(Text(text=text),))
    return replace(request, messages=(*request.messages[:-1], last))


def cost(source: str, target: str, request: Request) -> tuple[float, float]:
    """CPU seconds to decode a client's request and encode it for a target; and those of json.loads and json.dumps.

    As in a conversation with a gateway, an earlier turn was translated before: the last message is new each time.
    """
    server, client, to = wires.get(source).server, wires.get(target).client, target_of(target)
    decode = partial(decode_with_cache, server.decode_request, ItemCache())
    turns = [client_body(source, _with_last(request, f"Turn {number}")) for number in range(8)]
    numbers = iter(range(1_000_000))

    def translate() -> None:
        _, decoded = decode(turns[next(numbers) % len(turns)])
        client.encode_request(decoded, to)

    bodies = [turn.body for turn in turns]
    return per_call(translate), per_call(lambda: json.dumps(json.loads(bodies[next(numbers) % len(bodies)])))


def long_bodies() -> Section:
    """Every pair of wires."""
    request = conversation()
    rows: list[tuple[str, ...]] = []
    for source in WIRES:
        cells: list[str] = []
        for target in WIRES:
            ours, plain = cost(source, target, request)
            cells.append(f"{ms(ours)} {ours / plain:5.2f}")
        rows.append((f"from {source}", *cells))
    title = f"(g) a request of {SIZE // 1000} kB, {TOOLS} tools, {MESSAGES} messages: CPU, and times json.loads + dumps"
    return Section(title, ("", *(f"to {wire}" for wire in WIRES)), rows)
