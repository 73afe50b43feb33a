import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.registry import Registry
from dragoman.targets.estimates import TOKENS_PER_ANSWER, estimate_usage, total_tokens
from dragoman.types import (
    Audio,
    Document,
    Image,
    JsonObject,
    Opaque,
    Part,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    user,
)
from tests.support.gateway.dialects import post

HAIKU, BOX = Registry(env={}).targets("anthropic/claude-3-5-haiku, ollama/unheard-of")
SCHEMA: JsonObject = {"type": "object", "properties": {"port": {"type": "string"}}}
FRAME = 3 + 4
"""Tokens around one message."""
TOOL = Tool(name="tide", description="When the tide turns.", parameters=SCHEMA)


def test_an_estimate_counts_all_parts() -> None:
    request = Request(
        system="x" * 30,
        messages=(
            user(Text(text="ü" * 15), Image(url="https://x/y.png")),
            assistant(ToolCall(id="1", name="tide", arguments={"at": "noon now"})),
            user(ToolResult(id="1", content="y" * 30)),
        ),
        max_tokens=50,
    )
    assert estimate_usage(request) == Usage(
        input=3 + 3 * 4 + (30 + 30 + 1500 * 3 + 4 + 17 + 30) // 3, output=50, source="estimated"
    )


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (Document(data=b"x" * 300, mime="text/plain"), 100),
        (Document(data=b"%PDF-1.7 /Type /Pages /Type /Page x /Type/Page", mime="application/pdf"), 4000),
        (Document(data=b"x" * 1_000_000, mime="application/pdf"), 10_000),
        (Audio(data=b"x" * 128_000, mime="audio/mpeg"), 1000),
        (Opaque(wire="anthropic", data={"type": "server_tool_use"}), 1500),
        (Opaque(wire="anthropic", data={"text": "x" * 8989}), 3000),
    ],
    ids=["text", "pages", "scan", "sound", "opaque", "long opaque"],
)
def test_what_is_no_text_has_a_weight(part: Part, tokens: int) -> None:
    assert estimate_usage(Request(messages=(user(part),))).input == FRAME + tokens


def test_a_short_prompt_is_not_free() -> None:
    assert estimate_usage(Request(messages=(user(""),))).input == FRAME
    assert estimate_usage(Request(messages=(user("a"),) * 100)).input == 3 + 100 * 4 + 34


@pytest.mark.parametrize(
    "more", [{"tools": (TOOL,)}, {"tools": (Opaque(wire="w", data=SCHEMA),)}, {"schema": SCHEMA}], ids=str
)
def test_tools_and_schemas_have_a_weight(more: dict[str, Any]) -> None:
    assert (estimate_usage(Request(**more)).input or 0) > 15


def test_every_answer_that_a_client_asks_for_is_reserved() -> None:
    config = {"candidateCount": 4, "maxOutputTokens": 10}
    body = json.dumps({"contents": [{"parts": [{"text": "hi"}]}], "generationConfig": config}).encode()
    _, request = wires.get("google").server.decode_request(post("/v1beta/models/demo/any:generateContent", body))
    assert estimate_usage(request).output == 40


@pytest.mark.parametrize(("extra", "answers"), [({"n": 5}, 5), ({"n": 10**9}, 128), ({"n": -3}, 1), ({"n": "5"}, 1)])
def test_answers_are_counted_within_reason(extra: JsonObject, answers: int) -> None:
    assert estimate_usage(Request(max_tokens=10, extra={"openai_chat": extra})).output == 10 * answers


def test_an_n_of_the_request_is_counted() -> None:
    assert estimate_usage(Request(max_tokens=10, n=3)).output == 30


@pytest.mark.parametrize("most", [None, 0, -1])
def test_an_open_answer_is_reserved_as_long_as_a_target_may_give(most: int | None) -> None:
    request = Request(max_tokens=most)
    assert estimate_usage(request, [HAIKU]).output == 8192
    assert estimate_usage(request, [BOX]).output == TOKENS_PER_ANSWER
    assert estimate_usage(request, [BOX, HAIKU]).output == 8192
    assert estimate_usage(request).output == TOKENS_PER_ANSWER


def test_answer_tokens_of_the_config_limit_the_estimate() -> None:
    assert estimate_usage(Request(), [HAIKU], answer=500).output == 500
    assert estimate_usage(Request(), [HAIKU], answer=100_000).output == 8192
    assert estimate_usage(Request(max_tokens=7), [HAIKU], answer=500).output == 7


def test_an_answer_is_no_longer_than_every_target_can_give() -> None:
    assert estimate_usage(Request(max_tokens=10**9), [HAIKU]).output == 8192
    assert estimate_usage(Request(max_tokens=10**9), [HAIKU, BOX]).output == 10**9


def test_unknown_usage_is_none() -> None:
    assert total_tokens(Usage()) is None
    assert total_tokens(Usage(input=1)) == 1
