"""Each dialect refuses a request that it could not answer, and names its own field."""

from typing import Any

import pytest

from dragoman import wires
from dragoman.errors import InvalidRequest
from dragoman.types import Request, user

HELLO = (user("hi"),)
WRONG: list[tuple[str, str, dict[str, Any], str]] = [
    ("anthropic", "", {"messages": HELLO}, "model"),
    ("anthropic", "m", {}, "messages"),
    ("anthropic", "m", {"messages": HELLO, "temperature": 1.5}, "temperature"),
    ("google", "m", {}, "contents"),
    ("google", "m", {"messages": HELLO, "top_p": 1.5}, "generationConfig.topP"),
    (
        "google",
        "m",
        {"messages": HELLO, "extra": {"google": {"generationConfig": {"candidateCount": 2}}}},
        "generationConfig.candidateCount",
    ),
    ("ollama", "", {"messages": HELLO}, "model"),
    ("openai_chat", "", {"messages": HELLO}, "model"),
    ("openai_chat", "m", {}, "messages"),
    ("openai_chat", "m", {"messages": HELLO, "extra": {"openai_chat": {"n": 2}}}, "n"),
    ("openai_chat", "m", {"messages": HELLO, "max_tokens": 0}, "max_tokens"),
    ("openai_responses", "", {"messages": HELLO}, "model"),
    ("openai_responses", "m", {}, "input"),
    ("openai_responses", "m", {"messages": HELLO, "temperature": 2.5}, "temperature"),
]
RIGHT: list[tuple[str, dict[str, Any]]] = [
    *((name, {"messages": HELLO, "temperature": 0.5, "max_tokens": 1}) for name in wires.NAMES),
    ("openai_chat", {"system": "Be brief."}),
    ("openai_responses", {"extra": {"openai_responses": {"previous_response_id": "resp_1"}}}),
    ("ollama", {}),
]


@pytest.mark.parametrize(("name", "model", "fields", "param"), WRONG)
def test_a_wrong_request_is_refused(name: str, model: str, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        wires.get(name).server.check(model, Request(**fields))
    assert caught.value.param == param


@pytest.mark.parametrize(("name", "fields"), RIGHT)
def test_a_right_request_passes(name: str, fields: dict[str, Any]) -> None:
    wires.get(name).server.check("m", Request(**fields))


def test_an_error_of_google_names_the_field() -> None:
    body = wires.get("google").server.encode_error(InvalidRequest("contents is required", param="contents")).body
    violation = b'"fieldViolations":[{"field":"contents","description":"contents is required"}]'
    assert violation in body
