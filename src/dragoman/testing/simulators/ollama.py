"""Ollama by its own chat API: it checks types, not conversations."""

import re
from collections.abc import Iterator
from typing import ClassVar

from dragoman.testing.simulators.base import (
    HistoryStep,
    ProviderCall,
    Rule,
    Simulator,
    Violation,
    member,
)
from dragoman.types import JsonObject, Part, Thinking, is_list, is_object
from dragoman.wires.common.json import objects, text_of

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_THINK = (True, False, None, "low", "medium", "high", "max")
_NUMBERS = ("temperature", "top_p", "top_k", "min_p", "num_ctx", "num_predict", "seed", "repeat_penalty")


class OllamaSimulator(Simulator):
    """A thinking model at an Ollama server.

    >>> OllamaSimulator("Hello!").model().generate("hi").text
    'Hello!'
    """

    PROVIDER: ClassVar = "ollama"
    WIRE: ClassVar = "ollama"
    MODEL: ClassVar = "qwen3:8b"

    def is_thinking(self, call: ProviderCall, /) -> bool:
        return call.body.get("think") is not False  # thinking models think unless the request says no

    def sign(self, parts: list[Part], _call: ProviderCall, /) -> tuple[list[Part], frozenset[str]]:
        return parts, frozenset(part.text for part in parts if isinstance(part, Thinking))

    def steps(self, body: JsonObject, /) -> Iterator[HistoryStep]:
        # Templates use the thinking of the current tool loop only, but a client that sends it all keeps the prefix.
        for message in objects(body.get("messages")):
            calls = [text_of(call.get("id")) for call in objects(message.get("tool_calls"))]
            if message.get("role") == "assistant" and calls:
                yield HistoryStep(tuple(calls), frozenset({text_of(message.get("thinking"))}))

    def encode_refusal(self, violation: Violation, /) -> JsonObject:
        return {"error": violation.message}


def _fields(call: ProviderCall) -> Iterator[Violation]:
    if not call.body.get("model"):
        yield Violation("model is required")
    format = call.body.get("format")
    if format not in (None, "", "json") and not is_object(format):
        yield Violation(f'invalid format: "{format}"; expected "json" or a valid JSON Schema object')
    think = call.body.get("think")
    if think not in _THINK:
        yield Violation(f'invalid think value: "{think}" (must be "high", "medium", "low", true, or false)')
    options = member(call.body, "options")
    for name in _NUMBERS:
        if name in options and not isinstance(options[name], int | float):
            yield Violation(f'option "{name}" must be of type float32')


def _messages(call: ProviderCall) -> Iterator[Violation]:
    go = "json: cannot unmarshal {} into Go struct field "
    for message in objects(call.body.get("messages")):
        if message.get("role") not in ("system", "user", "assistant", "tool"):
            yield Violation(f"invalid role: {message.get('role')}")
        if not isinstance(message.get("content", ""), str):
            yield Violation(go.format("array") + "ChatRequest.messages.content of type string")
        for image in message.get("images") or () if is_list(message.get("images")) else ():
            if not isinstance(image, str) or not _BASE64.fullmatch(image):
                yield Violation("illegal base64 data at input byte 4")
        for tool_call in objects(message.get("tool_calls")):
            if not is_object(member(tool_call, "function").get("arguments", {})):
                field = "ChatRequest.messages.tool_calls.function.arguments"
                yield Violation(go.format("string") + f"{field} of type api.ToolCallFunctionArguments")


OllamaSimulator.RULES = (Rule("fields", _fields), Rule("messages", _messages))
