"""The body of a request in, what every answer to it says back of it out, without secrets."""

import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from dragoman.types import JsonObject, is_list, is_object
from dragoman.wires.common.extra import VERBATIM
from dragoman.wires.openai_responses.schema import NAME

ECHO = f"{NAME}.echo{VERBATIM}"
"""The key of Request.extra with what a client asked in its own words: every answer says that back."""

ASKED: JsonObject = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""What an answer says back of its request, as it stands where nothing was told."""
REDACTED = "<redacted>"
_HOST = r"(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::\d+)?"
_ECHOED = msgspec.json.Decoder(msgspec.defstruct("Echoed", [(field, Any, None) for field in ASKED]))


def read_echo(body: bytes) -> JsonObject:
    """What an answer says back of the request with this body, which was read before; the rest is as in ASKED."""
    asked = _ECHOED.decode(body)
    told: JsonObject = {field: value for field in ASKED if (value := getattr(asked, field)) is not None}
    for field in ("reasoning", "text"):
        if is_object(inner := told.get(field)):
            told[field] = {**ASKED[field], **inner}
    if is_list(tools := told.get("tools")):
        told["tools"] = [_without_secrets(tool) for tool in tools]
    return told


def _without_secrets(tool: JsonObject) -> JsonObject:
    """A tool without what opens the server that it runs at: what is said back is kept, too."""
    said = {key: value for key, value in tool.items() if key != "authorization"}
    if (headers := tool.get("headers")) is not None:
        said["headers"] = dict.fromkeys(headers, REDACTED) if is_object(headers) else REDACTED
    if (url := tool.get("server_url")) is not None:
        said["server_url"] = _host_of(url)
    return said


def _host_of(url: Any) -> str:
    """Scheme and host of a URL; nothing of one that cannot be read."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError:
        return REDACTED
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}/{REDACTED}" if parts.scheme and re.fullmatch(_HOST, host) else REDACTED
