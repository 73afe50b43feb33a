"""What clients ask of each dialect: said back where the dialect does that, refused as its provider would."""

import json
from typing import Any

import pytest

from tests.gateway.dialects import app_of, post, see

ECHOED: dict[str, Any] = {
    "instructions": "Be brief.",
    "max_output_tokens": 100,
    "metadata": {"port": "Brest"},
    "parallel_tool_calls": False,
    "reasoning": {"effort": "low", "summary": None},
    "store": False,
    "temperature": 0.5,
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "tool_choice": "none",
    "tools": [
        {"type": "function", "name": "tide", "parameters": {"type": "object", "properties": {}}, "strict": False}
    ],
    "top_p": 0.9,
    "truncation": "auto",
}


def responses(**body: Any) -> list[dict[str, Any]]:
    """The response objects that a client of the Responses API sees."""
    asked = json.dumps({"model": "demo/any", "input": "hello", **body}).encode()
    seen = see(app_of(), post("/v1/responses", asked))
    if not body.get("stream"):
        return [json.loads(seen.body)]
    events = [json.loads(line.removeprefix("data: ")) for line in seen.body.decode().splitlines() if "data: " in line]
    return [event["response"] for event in events if "response" in event]


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_says_back_what_was_asked(stream: bool) -> None:  # noqa: FBT001
    for said in responses(**ECHOED, stream=stream):
        assert {field: said[field] for field in ECHOED} == ECHOED


def test_a_response_says_which_one_it_goes_on_from() -> None:
    app = app_of()

    def ask(**body: Any) -> dict[str, Any]:
        asked = json.dumps({"model": "demo/any", "input": "hello", **body}).encode()
        said: dict[str, Any] = json.loads(see(app, post("/v1/responses", asked)).body)
        return said

    first = ask()
    assert ask(previous_response_id=first["id"])["previous_response_id"] == first["id"]
