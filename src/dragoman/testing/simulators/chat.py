"""DeepSeek and Kimi by Chat Completions: both need the reasoning of a tool call back.

DeepSeek documents that; for Kimi it is known from reports of users.
"""

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

_ROLES = ("system", "user", "assistant", "tool")


class _ChatSimulator(Simulator):
    WIRE: ClassVar = "openai_chat"

    def is_thinking(self, call: ProviderCall, /) -> bool:
        return _is_thinking(call)

    def sign(self, parts: list[Part], _call: ProviderCall, /) -> tuple[list[Part], frozenset[str]]:
        fields = {"openai_chat": {"fields": ["reasoning_content"]}}
        signed = [Thinking(text=part.text, extra=fields) if isinstance(part, Thinking) else part for part in parts]
        return signed, frozenset(part.text for part in parts if isinstance(part, Thinking))

    def steps(self, body: JsonObject, /) -> Iterator[HistoryStep]:
        # Only the reasoning of steps with tool calls is used again.
        for message in objects(body.get("messages")):
            if message.get("role") == "assistant" and (calls := _calls(message)):
                yield HistoryStep(tuple(calls), frozenset({text_of(message.get("reasoning_content"))}))

    def encode_refusal(self, violation: Violation, /) -> JsonObject:
        kinds = {401: "authentication_error", 404: "resource_not_found_error"}
        kind = kinds.get(violation.status, "invalid_request_error")
        return {"error": {"message": violation.message, "type": kind, "param": None, "code": violation.code or kind}}


class DeepSeekSimulator(_ChatSimulator):
    """DeepSeek V4, by Chat Completions.

    >>> DeepSeekSimulator("Hello!").model().generate("hi").text
    'Hello!'
    """

    PROVIDER: ClassVar = "deepseek"
    MODEL: ClassVar = "deepseek-v4-pro"
    CALL_IDS: ClassVar = "call_00_{}"


class KimiSimulator(_ChatSimulator):
    """Kimi K2.6, by Chat Completions.

    >>> KimiSimulator("Hello!").model().generate("hi").text
    'Hello!'
    """

    PROVIDER: ClassVar = "moonshot"
    MODEL: ClassVar = "kimi-k2.6"
    CALL_IDS: ClassVar = "functions.tool:{}"

    def encode_refusal(self, violation: Violation, /) -> JsonObject:
        kinds = {401: "invalid_authentication_error", 404: "resource_not_found_error"}
        return {"error": {"message": violation.message, "type": kinds.get(violation.status, "invalid_request_error")}}


def _is_thinking(call: ProviderCall) -> bool:
    return member(call.body, "thinking").get("type") != "disabled" and call.model != "deepseek-chat"


def _calls(message: JsonObject) -> list[str]:
    return [text_of(call.get("id")) for call in objects(message.get("tool_calls"))]


# Rules of both --------------------------------------------------------------------------------------------------------


def _key(call: ProviderCall) -> Iterator[Violation]:
    if "authorization" not in call.headers:
        yield Violation("Authentication Fails (no such user)", status=401)


def _messages(call: ProviderCall) -> Iterator[Violation]:
    if not objects(call.body.get("messages")):
        yield Violation("Invalid request: messages must not be empty")
    for i, message in enumerate(objects(call.body.get("messages"))):
        if message.get("role") not in _ROLES:
            names = ", ".join(f"`{name}`" for name in _ROLES)
            yield Violation(
                "Failed to deserialize the JSON body into the target type: "
                f"messages[{i}].role: unknown variant `{message.get('role')}`, expected one of {names}"
            )


def _pairs(call: ProviderCall) -> Iterator[Violation]:
    waiting: list[str] = []
    for message in [*objects(call.body["messages"]), {}]:
        if message.get("role") == "tool":
            id = text_of(message.get("tool_call_id"))
            if id not in waiting:
                yield Violation("Messages with role 'tool' must be a response to a preceding message with 'tool_calls'")
            else:
                waiting.remove(id)
            continue
        if waiting:
            yield Violation(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}"
            )
        waiting = _calls(message)
        for tool_call in objects(message.get("tool_calls")):
            if not isinstance(member(tool_call, "function").get("arguments"), str):
                yield Violation("Invalid type for 'tool_calls[0].function.arguments': expected a string")


# DeepSeek -------------------------------------------------------------------------------------------------------------


def _deepseek_contents(call: ProviderCall) -> Iterator[Violation]:
    for i, message in enumerate(objects(call.body["messages"])):
        for part in objects(message.get("content")):
            if part.get("type") != "text":
                yield Violation(
                    "Failed to deserialize the JSON body into the target type: "
                    f"messages[{i}]: unknown variant `{part.get('type')}`, expected `text`"
                )


def _deepseek_reasoning(call: ProviderCall) -> Iterator[Violation]:
    if _is_thinking(call):
        for message in objects(call.body["messages"]):
            if message.get("role") == "assistant" and _calls(message) and message.get("reasoning_content") is None:
                yield Violation("The `reasoning_content` in the thinking mode must be passed back to the API.")


def _deepseek_options(call: ProviderCall) -> Iterator[Violation]:
    choice = call.body.get("tool_choice")
    if _is_thinking(call) and (choice == "required" or is_object(choice)):
        yield Violation("Thinking mode does not support this tool_choice")
    if member(call.body, "response_format").get("type") == "json_schema":
        yield Violation("This response_format type is unavailable now")


# Kimi -----------------------------------------------------------------------------------------------------------------


def _kimi_reasoning(call: ProviderCall) -> Iterator[Violation]:
    if _is_thinking(call):
        for i, message in enumerate(objects(call.body["messages"])):
            if message.get("role") == "assistant" and _calls(message) and not message.get("reasoning_content"):
                yield Violation(
                    f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {i}"
                )


def _kimi_contents(call: ProviderCall) -> Iterator[Violation]:
    for i, message in enumerate(objects(call.body["messages"])):
        content = message.get("content")
        is_empty = not content if isinstance(content, str) or is_list(content) else content is None
        if is_empty and message.get("role") in ("user", "assistant") and not _calls(message):
            yield Violation(
                f"Invalid request: the message at position {i} with role '{message['role']}' must not be empty"
            )


def _kimi_options(call: ProviderCall) -> Iterator[Violation]:
    choice = call.body.get("tool_choice")
    if _is_thinking(call) and (choice == "required" or is_object(choice)):
        yield Violation("tool_choice 'required' is incompatible with thinking enabled")
    if call.body.get("temperature", 1) != 1 and _is_thinking(call):
        yield Violation("invalid temperature: only 1 is allowed for this model")


DeepSeekSimulator.RULES = (
    Rule("key", _key),
    Rule("messages", _messages),
    Rule("contents", _deepseek_contents),
    Rule("pairs", _pairs),
    Rule("reasoning", _deepseek_reasoning),
    Rule("options", _deepseek_options),
)
KimiSimulator.RULES = (
    Rule("key", _key),
    Rule("messages", _messages),
    Rule("contents", _kimi_contents, is_reported=True),
    Rule("pairs", _pairs),
    Rule("reasoning", _kimi_reasoning, is_reported=True),
    Rule("options", _kimi_options, is_reported=True),
)
