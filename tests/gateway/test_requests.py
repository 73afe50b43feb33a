"""What clients ask of each dialect: said back where the dialect does that, refused as its provider would."""

import json
from typing import Any

import pytest

from tests.gateway.dialects import Seen, app_of, post, see

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


# What a provider would refuse ----------------------------------------------------------------------------------------

HELLO = [{"role": "user", "content": "hello"}]
CHAT, MESSAGES, RESPONSES, GOOGLE = (
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/responses",
    "/v1beta/models/demo/any:generateContent",
)
ASKED: dict[str, dict[str, Any]] = {
    CHAT: {"model": "demo/any", "messages": HELLO},
    MESSAGES: {"model": "demo/any", "messages": HELLO, "max_tokens": 99},
    RESPONSES: {"model": "demo/any", "input": "hello"},
    GOOGLE: {"contents": [{"parts": [{"text": "hello"}]}]},
}
"""A sound request of each dialect."""


def asked(path: str, **fields: Any) -> Seen:
    """A sound request but for some fields; None leaves one out."""
    body = {name: value for name, value in {**ASKED[path], **fields}.items() if value is not None}
    return see(app_of('[tiers.simple]\nmodels = ["demo/any"]\n'), post(path, json.dumps(body).encode()))


@pytest.mark.parametrize("path", ASKED)
def test_a_sound_request_is_answered(path: str) -> None:
    assert asked(path).status == 200


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    (CHAT, {"model": None}, "model", "missing_required_parameter"),
    (CHAT, {"messages": None}, "messages", "missing_required_parameter"),
    (CHAT, {"messages": []}, "messages", "missing_required_parameter"),
    (CHAT, {"messages": "hello"}, "messages", "invalid_type"),
    (CHAT, {"messages": [{"content": "hello"}]}, "messages[0].role", "missing_required_parameter"),
    (CHAT, {"messages": [{"role": "captain", "content": "hello"}]}, "messages[0].role", ""),
    (CHAT, {"temperature": 2.1}, "temperature", "invalid_value"),
    (CHAT, {"temperature": -0.1}, "temperature", "invalid_value"),
    (CHAT, {"temperature": "hot"}, "temperature", "invalid_type"),
    (CHAT, {"top_p": 1.1}, "top_p", "invalid_value"),
    (CHAT, {"max_tokens": 0}, "max_tokens", "invalid_value"),
    (CHAT, {"max_completion_tokens": -1}, "max_completion_tokens", "invalid_value"),
    (RESPONSES, {"model": None}, "model", "missing_required_parameter"),
    (RESPONSES, {"input": None}, "input", "missing_required_parameter"),
    (RESPONSES, {"input": []}, "input", "missing_required_parameter"),
    (RESPONSES, {"temperature": 3}, "temperature", "invalid_value"),
    (RESPONSES, {"top_p": -1}, "top_p", "invalid_value"),
    (RESPONSES, {"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
]


@pytest.mark.parametrize(("path", "fields", "param", "code"), REFUSED)
def test_clients_of_openai_are_told_which_field_is_wrong(
    path: str, fields: dict[str, Any], param: str, code: str
) -> None:
    seen = asked(path, **fields)
    error = json.loads(seen.body)["error"]
    assert seen.status == 400
    assert (error["type"], error["param"], error["code"] or "") == ("invalid_request_error", param, code)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"model": None}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "captain", "content": "hello"}]}, "messages[0].role"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"temperature": 1.1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"stop_sequences": "END"}, "stop_sequences"),
    ],
)
def test_clients_of_anthropic_are_told_which_field_is_wrong(fields: dict[str, Any], field: str) -> None:
    seen = asked(MESSAGES, **fields)
    error = json.loads(seen.body)["error"]
    assert (seen.status, error["type"]) == (400, "invalid_request_error")
    assert error["message"].startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"contents": None}, "contents"),
        ({"contents": []}, "contents"),
        ({"generationConfig": {"temperature": 2.1}}, "generationConfig.temperature"),
        ({"generationConfig": {"topP": 1.1}}, "generationConfig.topP"),
        ({"generationConfig": {"maxOutputTokens": 0}}, "generationConfig.maxOutputTokens"),
        ({"generationConfig": {"stopSequences": "END"}}, "generationConfig.stopSequences"),
    ],
)
def test_clients_of_google_are_told_which_field_is_wrong(fields: dict[str, Any], field: str) -> None:
    seen = asked(GOOGLE, **fields)
    error = json.loads(seen.body)["error"]
    assert (seen.status, error["status"]) == (400, "INVALID_ARGUMENT")
    assert error["details"][0]["fieldViolations"][0]["field"] == field


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate", "/api/show", "/api/embed"])
def test_clients_of_ollama_must_name_a_model(path: str) -> None:
    seen = see(app_of(), post(path, b'{"input": "hello"}'))
    assert (seen.status, json.loads(seen.body)) == (400, {"error": "model: it is required"})


@pytest.mark.parametrize("body", [b'{"model": "demo/any", "input": [{"role": "system", "content": "Hi"}]}'])
def test_a_system_prompt_alone_is_a_request(body: bytes) -> None:
    assert see(app_of(), post(RESPONSES, body)).status == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "field"), [("/api/chat", "messages"), ("/api/generate", "prompt")])
def test_a_model_of_ollama_that_is_told_nothing_is_loaded(path: str, field: str, stream: bool) -> None:  # noqa: FBT001
    empty = {"messages": [], "prompt": ""}[field]
    body = json.dumps({"model": "demo/overloaded", field: empty, "stream": stream}).encode()
    said = json.loads(see(app_of(), post(path, body)).body)
    assert (said["done"], said["done_reason"]) == (True, "load")
