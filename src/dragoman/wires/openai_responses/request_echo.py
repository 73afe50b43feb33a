"""The fields of a request that every response repeats, without secrets."""

import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from dragoman.types import JsonObject, is_list, is_object
from dragoman.wires.common.extra import VERBATIM
from dragoman.wires.openai_responses.schema import NAME

ECHO = f"{NAME}.echo{VERBATIM}"
"""The key of `Request.extra` with the fields that the response repeats."""

ECHO_DEFAULTS: JsonObject = {
    "background": False,
    "completed_at": None,
    "conversation": None,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""The fields that a response repeats, with the values for a request without them.

Open Responses (2026-04) requires them all, and numbers where these are numbers.
"""
REDACTED = "<redacted>"
_HOST = r"(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::\d+)?"
_FIELDS = msgspec.json.Decoder(msgspec.defstruct("EchoedFields", [(field, Any, None) for field in ECHO_DEFAULTS]))


def read_echo(body: bytes) -> JsonObject:
    """The fields of a valid request body that the response repeats; the others are as in ECHO_DEFAULTS."""
    fields = _FIELDS.decode(body)
    echo: JsonObject = {field: value for field in ECHO_DEFAULTS if (value := getattr(fields, field)) is not None}
    for field in ("reasoning", "text"):
        if is_object(inner := echo.get(field)):
            echo[field] = {**ECHO_DEFAULTS[field], **inner}
    if echo.get("service_tier") == "auto":
        del echo["service_tier"]  # the tier that was used, not the one that was requested
    echo.pop("completed_at", None)
    if (id := conversation_id(echo.pop("conversation", None))) is not None:
        echo["conversation"] = {"id": id}
    if is_list(tools := echo.get("tools")):
        echo["tools"] = [_without_secrets(tool) for tool in tools]
    return echo


def conversation_id(value: Any) -> str | None:
    """The id of a conversation: a text, or the member of an object."""
    id = value.get("id") if is_object(value) else value
    return id if isinstance(id, str) else None


def _without_secrets(tool: JsonObject) -> JsonObject:
    """A tool without the credentials of its server, because responses are stored."""
    redacted = {key: value for key, value in tool.items() if key != "authorization"}
    if (headers := tool.get("headers")) is not None:
        redacted["headers"] = dict.fromkeys(headers, REDACTED) if is_object(headers) else REDACTED
    if (url := tool.get("server_url")) is not None:
        redacted["server_url"] = _host_of(url)
    return redacted


def _host_of(url: Any) -> str:
    """The scheme and host of a URL; nothing of an invalid URL."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError:
        return REDACTED
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}/{REDACTED}" if parts.scheme and re.fullmatch(_HOST, host) else REDACTED
