"""Requests and responses that are only text, as most are: a fast path, with the same result as the full code.

A call waits for the network, and afterwards its code is no longer in the caches of the processor. So the cost of a call
depends on how many functions it runs through. `tests/wires/openai_chat/test_plain.py` compares both.
"""

from operator import attrgetter
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from dragoman.events import MAX_RESPONSE
from dragoman.targets.target import Target
from dragoman.types import UNKNOWN_USAGE, JsonObject, Request, Response, Text
from dragoman.types.fast_constructors import new_finish, new_response, text_message
from dragoman.wires.common.classify import model_mistake
from dragoman.wires.common.json import DECODE_ERRORS, to_timestamp
from dragoman.wires.common.options import tier_word
from dragoman.wires.common.prompt_size import is_cut_prompt
from dragoman.wires.openai_chat.schema import (
    FINISH_REASONS,
    ChatBaseResponse,
    ChatMessage,
    ChatUsage,
    read_usage,
    write_usage,
)
from dragoman.wires.openai_chat.stream_encoder import encode_finish

_NoText: TypeAlias = Annotated[str, Meta(max_length=0)] | None
_NoList: TypeAlias = Annotated[list[Any], Meta(max_length=0)] | None
_NoObject: TypeAlias = Annotated[dict[str, Any], Meta(max_length=0)] | None


class _PlainMessage(msgspec.Struct, gc=False):
    content: Annotated[str, Meta(min_length=1)]
    refusal: _NoText = None
    reasoning_content: None = None
    reasoning: None = None
    reasoning_text: None = None
    reasoning_opaque: None = None
    thinking_blocks: _NoList = None
    reasoning_details: _NoList = None
    tool_calls: _NoList = None
    function_call: None = None
    annotations: _NoList = None
    citations: _NoList = None
    executed_tools: _NoList = None
    images: _NoList = None
    audio: None = None
    context: _NoObject = None


class _PlainChoice(msgspec.Struct, gc=False):
    message: _PlainMessage
    finish_reason: str
    native_finish_reason: Any = None
    index: Literal[0] | None = None
    delta: ChatMessage | None = None
    text: str | None = None
    logprobs: None = None
    usage: None = None
    error: None = None
    content_filter_results: _NoObject = None


class _PlainBody(msgspec.Struct, gc=False):
    """A `ChatChunk` with one text and nothing unusual: the decoder refuses any other, so nothing is checked twice."""

    choices: tuple[_PlainChoice]
    id: str | int | None = None
    object: str | None = None
    model: str | None = None
    created: Any = None
    usage: ChatUsage | None = None
    error: None = None
    base_resp: ChatBaseResponse | None = None
    citations: _NoList = None
    search_results: _NoList = None
    service_tier: Any = None
    prompt_filter_results: _NoList = None
    moderation: None = None


_BODY = msgspec.json.Decoder(_PlainBody, strict=False)
_QUICK = ("messages", "system", "temperature", "top_p", "max_tokens", "stream")
"""What a plain request may have. Every other option must have its default."""
_OPTIONS = attrgetter(*(name for name in Request.__struct_fields__ if name not in _QUICK))
_NO_OPTIONS = _OPTIONS(Request())
_ROLES = ("user", "assistant")


def encode_plain(request: Request, target: Target) -> JsonObject | None:
    """The body of a request with few options, if each message is one text of the user or of the model. Else None.

    Such a history needs no repair, and every target takes it as it is.
    """
    if _OPTIONS(request) != _NO_OPTIONS or not (request.system is None or type(request.system) is str):
        return None
    quirks = target.quirks
    body: JsonObject = {"model": target.model}
    if request.temperature is not None or request.top_p is not None:
        if not quirks.sampling:
            return None
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.top_p is not None:
            body["top_p"] = request.top_p
    if (limit := request.max_tokens) is not None:
        most = target.capabilities.max_output
        if most is not None and limit > most:
            return None
        body[quirks.max_tokens_field or "max_completion_tokens"] = limit
    if request.stream:
        body["stream"] = True
        if quirks.stream_usage:
            body["stream_options"] = {"include_usage": True}
    messages: list[JsonObject] = [] if request.system is None else [{"role": "system", "content": request.system}]
    for message in request.messages:
        part = message.parts[0] if len(message.parts) == 1 else None
        role = message.role
        if role not in _ROLES or type(part) is not Text or part.extra or part.citations or message.extra:
            return None
        messages.append({"role": role, "content": part.text})
    body["messages"] = messages
    return body


def encode_plain_body(response: Response) -> JsonObject | None:
    """The body of a response with one text; None for any other response."""
    parts, finish = response.message.parts, response.finish
    part = parts[0] if len(parts) == 1 else None
    if type(part) is not Text or part.extra or part.logprobs or part.citations:
        return None
    if finish.extra or response.other_choices:
        return None
    message = {"refusal": None, "role": "assistant", "content": part.text}
    word = encode_finish(finish, is_refused=False)
    body = {
        "id": response.id or "",
        "object": "chat.completion",
        "created": response.created or 0,
        "model": response.model or "",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": word}],
        "usage": write_usage(response.usage),
    }
    if (tier := tier_word(response.service_tier, "default")) is not None:
        body["service_tier"] = tier
    return body


def decode_plain(body: bytes, request: Request | None, target: Target | None, /) -> Response | None:
    """The response of a body with one text and a known end; None for any other body."""
    try:
        chunk = _BODY.decode(body)
    except DECODE_ERRORS:
        return None
    (choice,) = chunk.choices
    text, reason = choice.message.content, FINISH_REASONS.get(choice.finish_reason)
    if reason is None or chunk.object == "error" or len(text) > MAX_RESPONSE:
        return None
    if choice.native_finish_reason and model_mistake(choice.native_finish_reason):
        return None
    if target is not None and target.quirks.think_tags:
        return None
    usage = UNKNOWN_USAGE if chunk.usage is None else read_usage(chunk.usage)
    if request is not None and is_cut_prompt(request, usage):
        return None
    return new_response(
        text_message("assistant", text),
        new_finish(reason, choice.finish_reason, {}),
        usage,
        id=str(chunk.id or "") or None,
        model=chunk.model or None,
        created=created if type(created := chunk.created) is int and created > 0 else to_timestamp(created),
        service_tier=chunk.service_tier if type(chunk.service_tier) is str else None,
    )
