"""The same conversation for every wire: a typical request, its answer, long streams, a large tool call in pieces."""

from collections.abc import Callable, Iterator

import msgspec

from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Started
from dragoman.targets.providers import target
from dragoman.targets.target import Target
from dragoman.types import (
    Finish,
    Request,
    Response,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    tool_results,
    user,
)
from dragoman.wires.base import Wire

TARGETS: dict[str, Target] = {
    one.wire: one
    for one in (
        target(f"{name}/model-x", api_key="k")
        for name in ("anthropic", "google", "ollama", "openai", "openai-responses")
    )
}

_TIDE = {
    "type": "object",
    "properties": {
        "port": {"type": "string", "description": "The name of the port"},
        "day": {"type": "string", "description": "The day, as YYYY-MM-DD"},
        "unit": {"type": "string", "enum": ["m", "ft"]},
    },
    "required": ["port", "day"],
    "additionalProperties": False,
}
_CALL = ToolCall(id="call_1", name="tide", arguments={"port": "Brest", "day": "2026-11-15", "unit": "m"})

REQUEST = Request(
    system="You are a harbour pilot. Answer in two sentences at most, and always give heights in metres.",
    messages=(
        user("When can a ship that draws nine metres enter the harbour of Brest tomorrow?"),
        assistant("I look up the tide first.", _CALL),
        tool_results(ToolResult(id="call_1", name="tide", content='{"high": ["04:12", "16:38"], "height": 6.9}')),
        user("And what would change if she drew ten metres?"),
    ),
    tools=(
        Tool(name="tide", description="The tide table of a port on a day", parameters=_TIDE),
        Tool(name="depth", description="The charted depth of a port", parameters={**_TIDE, "required": ["port"]}),
    ),
    temperature=0.2,
    max_tokens=500,
    stream=True,
)
RESPONSE = Response(
    id="r1",
    model="model-x",
    created=1794700000,
    message=assistant(
        "With ten metres of draught she needs the top of the tide: half an hour either side of 16:38.", _CALL
    ),
    finish=Finish(reason="tool_calls"),
    usage=Usage(input=412, output=58, cache_read=256),
)


def stream(wire: Wire, chunks: int) -> list[bytes]:
    """The pieces of a streamed answer with this number of text chunks."""
    texts = [f"word{number % 1000} " for number in range(chunks)]
    events: list[Event] = [
        Started(id="r1", model="model-x", created=1794700000),
        PartStarted(index=0, kind="text"),
        *(PartDelta(index=0, text=text) for text in texts),
        PartEnded(index=0, part=Text(text="".join(texts))),
        Finished(finish=Finish(reason="stop"), usage=Usage(input=412, output=chunks)),
    ]
    encoder = wire.server.stream_encoder(REQUEST)
    return [piece for piece in map(encoder.feed, events) if piece]


def call_in_fragments(wire: Wire, fragments: int) -> list[bytes] | None:
    """A streamed tool call with its arguments in fragments of 100 characters; None if the wire never splits calls."""
    make = _FRAGMENTS.get(wire.name)
    return None if make is None else [_sse(event) for event in make(fragments)]


def _sse(event: object) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(event)


def _pieces(fragments: int) -> Iterator[str]:
    yield '{"text":"'
    for number in range(fragments - 1):
        yield f"{number:099} "
    yield '"}'


def _openai_chat(fragments: int) -> Iterator[object]:
    head = {"id": "r1", "object": "chat.completion.chunk", "created": 1794700000, "model": "model-x"}
    call: dict[str, object] = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "write", "arguments": ""},
    }
    yield {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [call]}}]}
    for text in _pieces(fragments):
        delta = {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    yield {**head, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}


def _anthropic(fragments: int) -> Iterator[object]:
    message: dict[str, object] = {
        "id": "r1",
        "type": "message",
        "role": "assistant",
        "model": "model-x",
        "content": [],
        "stop_reason": None,
    }
    yield {"type": "message_start", "message": {**message, "usage": {"input_tokens": 1, "output_tokens": 1}}}
    block: dict[str, object] = {"type": "tool_use", "id": "call_1", "name": "write", "input": {}}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    for text in _pieces(fragments):
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def _google(fragments: int) -> Iterator[object]:
    def chunk(call: object, **more: object) -> object:
        return {"candidates": [{"content": {"role": "model", "parts": [{"functionCall": call}]}, "index": 0, **more}]}

    yield chunk({"name": "write", "id": "call_1", "willContinue": True})
    for number in range(fragments):
        piece = {"jsonPath": "$.text", "stringValue": f"{number:099} ", "willContinue": number < fragments - 1}
        yield chunk({"partialArgs": [piece], "willContinue": True})
    yield chunk({}, finishReason="STOP")


def _openai_responses(fragments: int) -> Iterator[object]:
    response: dict[str, object] = {
        "id": "r1",
        "object": "response",
        "model": "model-x",
        "status": "in_progress",
        "output": [],
    }
    item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "write", "arguments": ""}
    where = {"item_id": "fc_1", "output_index": 0}
    yield {"type": "response.created", "response": response}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    for text in _pieces(fragments):
        yield {"type": "response.function_call_arguments.delta", **where, "delta": text}
    whole = "".join(_pieces(fragments))
    yield {"type": "response.function_call_arguments.done", **where, "arguments": whole}
    done = {**item, "arguments": whole}
    yield {"type": "response.output_item.done", "output_index": 0, "item": done}
    yield {"type": "response.completed", "response": {**response, "status": "completed", "output": [done]}}


_FRAGMENTS: dict[str, Callable[[int], Iterator[object]]] = {
    "anthropic": _anthropic,
    "google": _google,
    "openai_chat": _openai_chat,
    "openai_responses": _openai_responses,
}
