"""How long a prompt is in, how large a context it needs out, and whether the server cut it.

The server takes a context of its own (often 4096 tokens) where it is told none, and drops the oldest messages silently.
"""

import re
from collections.abc import Iterable

from dragoman.types import JsonObject, Request, Text, ToolResult, is_object
from dragoman.wires.common.extra import full_extra
from dragoman.wires.common.history import system_texts
from dragoman.wires.common.json import encode_json, whole_number
from dragoman.wires.ollama.schema import NAME

SMALLEST = 4096
_OLDEST_DEFAULT = 2048
_BYTES_PER_TOKEN = 3
_CHARACTERS_PER_TOKEN = 12
_TOKENS_PER_IMAGE = 1024
_RESERVE = 1024
_LARGEST_RESERVE = 16384
_RUN = r"(?s)(.)\1+"


def context_size(
    messages: Iterable[JsonObject], tools: list[JsonObject], max_tokens: int | None, window: int | None
) -> int | None:
    """`num_ctx` for a body: room for the prompt and its answer, within the model's window; None leaves it unsaid.

    Only powers of two, since another size loads the model anew.
    """
    texts = [{key: value for key, value in message.items() if key != "images"} for message in messages]
    images = sum(len(message.get("images") or ()) for message in messages)
    need = len(encode_json([texts, tools])) // _BYTES_PER_TOKEN + images * _TOKENS_PER_IMAGE
    need += _RESERVE if max_tokens is None else min(max_tokens, _LARGEST_RESERVE)
    if window is None and need <= SMALLEST:
        return None
    size = SMALLEST
    while size < need:
        size *= 2
    return size if window is None else min(size, window)


def is_cut(request: Request, counted: int) -> bool:
    """Whether so few tokens of prompt cannot be the whole of it."""
    options = full_extra(request, NAME).get("options")
    asked = whole_number(options.get("num_ctx")) if is_object(options) else None
    if asked is not None and counted >= asked - 1:
        return True
    text = "".join(_texts(request))
    if len(text) <= (asked or _OLDEST_DEFAULT) or len(text) // _CHARACTERS_PER_TOKEN <= counted:
        return False
    return len(re.sub(_RUN, r"\1", text)) // _CHARACTERS_PER_TOKEN > counted


def _texts(request: Request) -> Iterable[str]:
    for text in system_texts(request):
        yield text.text
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Text | ToolResult):
                yield part.text
