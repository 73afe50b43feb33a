"""Every dialect before every wire: what a client sees does not depend on who answers, or the page of differences says how.

docs/fidelity.md is made of this table: `python -m tests.gateway.test_matrix` writes it anew.
"""

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from dragoman import wires
from dragoman.errors import DragomanError, Overloaded, RateLimited
from dragoman.testing import Cut, Server
from dragoman.testing.script import Line, render
from dragoman.types import (
    Finish,
    Image,
    Message,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    user,
)
from tests.gateway.dialects import Seen, app_of, look, request_of, response_of
from tests.gateway.live import record

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TIDE = Tool(
    name="tide",
    description="When the tide turns.",
    parameters={"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
)
CALL = ToolCall(id="call_abc123", name="tide", arguments={"place": "Kiel"})
OTHER = ToolCall(id="call_def456", name="tide", arguments={"place": "Brest"})
ASKED = Request(messages=(user("When does the tide turn?"),), tools=(TIDE,))
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}


def answered(*results: ToolResult) -> Request:
    calls = tuple(call for call in (CALL, OTHER) if call.id in {result.id for result in results})
    return Request(
        messages=(*ASKED.messages, Message(role="assistant", parts=calls), Message(role="tool", parts=results)),
        tools=(TIDE,),
    )


class Scenario(msgspec.Struct, frozen=True):
    """What is asked, what the provider does, and what it was asked as it understood it."""

    request: Request
    line: Line
    asked: Callable[[Request], object] = lambda request: request.messages[-1].text


def result_of(request: Request) -> object:
    return [(result.text, result.is_error) for message in request.messages for result in message.tool_results]


def thoughts_of(request: Request) -> object:
    return [part.text for message in request.messages for part in message.parts if isinstance(part, Thinking)]


SHORT = Response(
    message=assistant("One two"), finish=Finish(reason="length"), usage=Usage(input=3, output=2), id="r1", model="m"
)
THOUGHT = assistant(Thinking(text="Let me see."), Text(text="Six."))

SCENARIOS: dict[str, Scenario] = {
    "text": Scenario(
        Request(messages=(user("hello"),), system="Be brief."), "Hello there.", lambda r: r.messages[-1].text
    ),
    "a call": Scenario(ASKED, CALL, lambda r: [tool.name for tool in r.tools if isinstance(tool, Tool)]),
    "parallel calls": Scenario(ASKED, (CALL, OTHER)),
    "a result": Scenario(answered(ToolResult(id=CALL.id, name="tide", content="at six")), "At six.", result_of),
    "two results": Scenario(
        answered(
            ToolResult(id=CALL.id, name="tide", content="at six"),
            ToolResult(id=OTHER.id, name="tide", content="at five"),
        ),
        "At six and five.",
        result_of,
    ),
    "a tool's error": Scenario(
        answered(ToolResult(id=CALL.id, name="tide", content="no such place", is_error=True)), "I see.", result_of
    ),
    "an image": Scenario(
        Request(messages=(user("What is this?", Image(data=PNG, mime="image/png")),)),
        "A dot.",
        lambda r: [part.data for part in r.messages[-1].parts if isinstance(part, Image)],
    ),
    "structured": Scenario(
        Request(messages=(user("What is 6 times 7?"),), schema=SCHEMA),
        '{"answer":42}',
        lambda r: (r.schema or {}).get("type"),
    ),
    "thinking": Scenario(Request(messages=(user("When?"),), reasoning="high"), THOUGHT),
    "a seed": Scenario(Request(messages=(user("Count."),), seed=7), "One.", lambda r: r.seed),
    "a stop": Scenario(Request(messages=(user("Count."),), stop=("five",)), "One.", lambda r: r.stop),
    "length": Scenario(Request(messages=(user("Count."),), max_tokens=2), SHORT, lambda r: r.max_tokens),
    "overloaded": Scenario(Request(messages=(user("hello"),)), Overloaded("busy", status=503)),
    "rate limited": Scenario(Request(messages=(user("hello"),)), RateLimited("slow down", status=429, retry_after=7.0)),
    "a cut": Scenario(Request(messages=(user("hello"),)), "one two three"),
}

DIALECTS = tuple(wires.NAMES)


def line_of(name: str, wire: str, *, stream: bool) -> Line:
    """What the provider does; it breaks off after its words, where it is to break off."""
    line = SCENARIOS[name].line
    if name != "a cut":
        return line
    pieces = render(line, wires.get(wire), Request(stream=stream)).pieces
    words = next((number for number, piece in enumerate(pieces) if b"three" in piece), 0)
    return Cut(sum(map(len, pieces[: words + 1])) + 1 if stream else len(pieces[0]) // 2, "one two three")


async def view(name: str, dialect: str, wire: str, *, stream: bool) -> tuple[object, object]:
    """What the client sees, and what the provider was asked."""
    scenario = SCENARIOS[name]
    request = msgspec.structs.replace(scenario.request, stream=stream)
    with Server(line_of(name, wire, stream=stream)) as upstream:
        app = app_of(record("up", upstream.base_url(wire), wire) + "[gateway]\nlog = false\n[chain]\nretries = 0\n")
        seen = await look(app, request_of(dialect, "up/m", request))
        asked = scenario.asked(upstream.requests[-1]) if upstream.requests else None
    return seen_by(dialect, request, seen), asked


def seen_by(dialect: str, request: Request, seen: Seen) -> object:
    try:
        response = response_of(dialect, request, seen)
    except DragomanError as error:
        early = seen.status >= 300
        return (type(error).__name__ if early else "an error", seen.status in (502, 503, 529) or seen.status, early)
    calls = [(call.name, call.arguments) for call in response.tool_calls]
    thoughts = "".join(part.text for part in response.message.parts if isinstance(part, Thinking))
    return (response.text, thoughts, calls, response.finish.reason)


def expected(name: str, *, stream: bool) -> object:
    """What a client of anybody should see."""
    none: list[object] = []
    match name:
        case "overloaded":
            return ("Overloaded", True, True)
        case "rate limited":
            return ("RateLimited", 429, True)
        case "a cut":
            return ("an error", 200, False) if stream else ("broken", True, True)
        case "length":
            return ("One two", "", none, "length")
        case "thinking":
            return ("Six.", "Let me see.", none, "stop")
        case "a call" | "parallel calls":
            calls = (CALL, OTHER) if name == "parallel calls" else (CALL,)
            return ("", "", [(call.name, call.arguments) for call in calls], "tool_calls")
        case _:
            return (SCENARIOS[name].line, "", none, "stop")


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("wire", DIALECTS)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_view_of_a_client_is_the_same(name: str, dialect: str, wire: str, stream: bool) -> None:  # noqa: FBT001
    seen, _ = asyncio.run(view(name, dialect, wire, stream=stream))
    wanted = expected(name, stream=stream)
    if name == "a cut" and not stream:
        # A body that breaks off is of one class or the other, but an error it is, with the status of one.
        seen, wanted = cast("tuple[object, ...]", seen)[1:], (True, True)
    assert seen == wanted


# What reaches the provider --------------------------------------------------------------------------------------------


async def think_again(dialect: str, wire: str) -> object:
    """The thinking that a provider is given back when its answer is sent with the next question."""
    first = Request(messages=(user("When?"),), reasoning="high")
    signed = assistant(Thinking(text="Let me see.", extra=SIGNED.get(wire, {})), Text(text="Six."))
    with Server(signed, "Yes.") as upstream:
        app = app_of(record("up", upstream.base_url(wire), wire) + "[gateway]\nlog = false\n")
        said = response_of(dialect, first, await look(app, request_of(dialect, "up/m", first))).message
        again = msgspec.structs.replace(first, messages=(*first.messages, said, user("Really?")))
        await look(app, request_of(dialect, "up/m", again))
        return thoughts_of(upstream.requests[-1])


SIGNED: dict[str, dict[str, Any]] = {
    "anthropic": {"anthropic": {"signature": "c2lnbmVk"}},
    "google": {"google": {"thoughtSignature": "c2lnbmVk"}},
    "openai_chat": {"openai_chat": {"fields": ["reasoning_content"]}},
    "openai_responses": {"openai_responses": {"id": "rs_1", "encrypted_content": "c2lnbmVk"}},
    "ollama": {"ollama": {}},
}


async def measure() -> str:
    """The page: what a provider is asked in other words than the client said, for every pair."""
    grids: dict[str, dict[tuple[str, str], str]] = {}
    for name, scenario in SCENARIOS.items():
        wanted = scenario.asked(scenario.request)
        for dialect in DIALECTS:
            for wire in DIALECTS:
                _, asked = await view(name, dialect, wire, stream=False)
                grids.setdefault(name, {})[dialect, wire] = "=" if asked == wanted else _shown(asked)
    for dialect in DIALECTS:
        for wire in DIALECTS:
            kept = await think_again(dialect, wire)
            grids.setdefault("thinking over two turns", {})[dialect, wire] = (
                "=" if kept == ["Let me see."] else "left out"
            )
    same = [name for name, grid in grids.items() if set(grid.values()) == {"="}]
    tables = [_table(name, grid) for name, grid in grids.items() if name not in same]
    return HEAD.format(same=", ".join(same)) + "\n".join(tables)


HEAD = """# What a pair of dialect and wire keeps

Made by `python -m tests.gateway.test_matrix`, and held by that test: every dialect before every wire, through the gateway.

What a **client sees** (text, thinking, calls and their arguments, why it ended, the class and status of an error, an error in place of a stream that was cut) is the same whoever answers, plain and streamed, without exception.

What a **provider is asked** is the same for every pair in: {same}.

The rest is below: rows are dialects of clients, columns are wires of providers. `=` is the same; anything else is what arrives in its place. What is left out is told by `X-Dragoman-Notice`, where the client could say it at all.
"""


def _shown(asked: object) -> str:
    return "left out" if asked in (None, (), [], "") else f"`{asked}`"


def _table(name: str, grid: dict[tuple[str, str], str]) -> str:
    lines = [f"\n## {name}\n", f"| | {' | '.join(DIALECTS)} |", "|---" * (len(DIALECTS) + 1) + "|"]
    lines += [f"| {dialect} | {' | '.join(grid[dialect, wire] for wire in DIALECTS)} |" for dialect in DIALECTS]
    return "\n".join(lines) + "\n"


def test_the_page_of_differences_is_true() -> None:
    assert PAGE.read_text(encoding="utf-8") == asyncio.run(measure())


if __name__ == "__main__":
    PAGE.write_text(asyncio.run(measure()), encoding="utf-8")
