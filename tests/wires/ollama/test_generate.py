"""`/api/generate`: as a server, and as a client where `/api/chat` cannot say the same."""

import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.errors import Unsupported
from dragoman.events import fold
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.types import Opaque, Request, user
from dragoman.wires.ollama.generate import OllamaGenerateServer

SERVER = OllamaGenerateServer()
CLIENT = wires.get("ollama").client
TARGET = target("ollama/m")


def decoded(**body: Any) -> Request:
    http = HttpRequest(method="POST", path="/api/generate", body=json.dumps({"model": "m", **body}).encode())
    return SERVER.decode_request(http)[1]


def sent(request: Request) -> tuple[str, Any]:
    http = CLIENT.encode_request(request, TARGET)
    return http.path, json.loads(http.body)


@pytest.mark.parametrize(
    "fields",
    [
        {"raw": True},
        {"suffix": " return x"},
        {"template": "{{ .Prompt }}", "system": "Be brief."},
        {"context": [1, 2], "images": ["iVBORw0KGgo="]},
    ],
)
def test_what_a_chat_cannot_say_comes_back(fields: dict[str, Any]) -> None:
    body = {"model": "m", "prompt": "def f(", "stream": False, **fields}
    assert sent(decoded(**body)) == ("/api/generate", body)


@pytest.mark.parametrize("fields", [{}, {"raw": False, "suffix": "", "template": "", "context": []}])
def test_a_plain_prompt_is_a_chat(fields: dict[str, Any]) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": False}
    assert sent(decoded(prompt="hi", stream=False, **fields)) == ("/api/chat", body)


def test_a_request_without_a_prompt_only_loads_the_model() -> None:
    assert decoded(raw=True).messages == ()


def test_a_template_does_not_change_a_conversation() -> None:
    request = Request(messages=(user("a"), user("b")), extra={"ollama": {"template": "t"}})
    assert sent(request)[0] == "/api/chat"


@pytest.mark.parametrize(
    "messages", [(user("a"), user("b")), (user(Opaque(wire="openai_chat", data={"tokens": [1]})),)]
)
def test_several_prompts_and_tokens_are_refused(messages: Any) -> None:
    with pytest.raises(Unsupported):
        CLIENT.encode_request(Request(messages=messages, raw=True), TARGET)


def test_thinking_of_a_line_is_read() -> None:
    body = {"model": "m", "thinking": "hm", "response": "yes", "done": True, "done_reason": "stop"}
    response = fold(CLIENT.decode_body(json.dumps(body).encode()))
    assert (response.thinking, response.text) == ("hm", "yes")
