"""The size of the context window that a prompt needs, and whether the server cut the prompt.

Without `num_ctx` the server takes its own default (often 4096 tokens) and silently drops the oldest messages.
"""

from collections.abc import Iterable

from dragoman.types import JsonObject, Request, is_object
from dragoman.wires.common.extra import full_extra
from dragoman.wires.common.json import encode_json, whole_number
from dragoman.wires.common.prompt_size import LEAST_LENGTH, is_longer
from dragoman.wires.ollama.schema import NAME

MIN_SIZE = 4096
MIN_SIZE_WITH_TOOLS = 16384
"""Conversations with tools grow, and each new size makes the server reload the model: they start with a larger one."""
_BYTES_PER_TOKEN = 3
_TOKENS_PER_IMAGE = 1024
_DEFAULT_RESERVE = 1024
_MAX_RESERVE = 16384


def context_size(
    messages: Iterable[JsonObject], tools: list[JsonObject], max_tokens: int | None, window: int | None
) -> int | None:
    """`num_ctx` for a body: room for the prompt and the answer within the model's window; None for the default.

    Sizes are powers of two, because the server reloads the model for each new size.
    """
    texts = [{key: value for key, value in message.items() if key != "images"} for message in messages]
    images = sum(len(message.get("images") or ()) for message in messages)
    need = len(encode_json([texts, tools])) // _BYTES_PER_TOKEN + images * _TOKENS_PER_IMAGE
    need += _DEFAULT_RESERVE if max_tokens is None else min(max_tokens, _MAX_RESERVE)
    size = MIN_SIZE_WITH_TOOLS if tools else MIN_SIZE
    if window is None and need <= size and not tools:
        return None
    while size < need:
        size *= 2
    return size if window is None else min(size, window)


def is_cut(request: Request, tokens: int) -> bool:
    """Whether the prompt is certainly longer than the number of tokens that the server read."""
    options = full_extra(request, NAME).get("options")
    size = whole_number(options.get("num_ctx")) if is_object(options) else None
    if size is not None and tokens >= size - 1:
        return True
    return is_longer(request, tokens, least=size or LEAST_LENGTH)
