"""Every member of the shapes in botocore's model of Converse: read, written again, sent back, taken by other wires."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import DragomanError, InvalidRequest, ProviderError, Unsupported
from dragoman.events import fold, to_events
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.types import JsonObject, Request, Response, ToolResult, is_list, is_object, tool_results, user
from dragoman.wires.bedrock.schema import FINISH_REASONS
from dragoman.wires.common.event_stream import encode_event, encode_exception
from tests.support.batch import grouped
from tests.support.corpus.rules import level
from tests.support.wires import laws
from tests.support.wires.aws_shapes import examples, shape

pytest.importorskip("botocore.session")
WIRE = wires.get("bedrock")
PLAIN = target("bedrock/m", api_key="k", base_url="https://bedrock")
TARGET = replace(
    PLAIN,
    capabilities=replace(PLAIN.capabilities, structured=True),
    quirks=replace(PLAIN.quirks, strict=True, system_turns=True),
)
OTHERS = [
    target(f"{name}/m", api_key="k", base_url="https://other")
    for name in ("anthropic", "google", "google-interactions", "ollama", "openai", "openai-responses")
]
SILENT: JsonObject = {"citationsContent": {}}
"""A block that says nothing."""
ASK: JsonObject = {"role": "user", "content": [{"text": "?"}]}


def each(*found: Any) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """One test with all examples; it reports each that fails."""
    return grouped({"all": {f"{json.dumps(item)[:60]} ({i})": {"item": item} for i, item in enumerate(found)}})


def decoded(body: JsonObject) -> Request:
    http = HttpRequest(method="POST", path="/model/m/converse", body=json.dumps(body).encode())
    return WIRE.server.decode_request(http)[1]


def sent(request: Request) -> JsonObject:
    found: JsonObject = json.loads(WIRE.client.encode_request(request, TARGET).body)
    return found


def told(request: Request, item: JsonObject) -> None:
    """Each other wire sends all words of an item, says what it leaves out, or refuses the request with a reason."""
    for to in OTHERS:
        with contextlib.suppress(Unsupported, InvalidRequest):
            http = wires.get(to.wire).client.encode_request(request, to)
            assert http.notices or all(word.encode() in http.body for word in words(item)), to


def words(item: Any) -> list[str]:
    """The texts of an example that only it has."""
    if is_object(item):
        return [word for inner in item.values() for word in words(inner)]
    if is_list(item):
        return [word for inner in item for word in words(inner)]
    return [item] if isinstance(item, str) and item.endswith(" x") else []


# Requests -------------------------------------------------------------------------------------------------------------


def blocks(role: str) -> list[Any]:
    """The blocks of a role: calls are the assistant's, and their results the user's."""
    kinds = {"user": {"toolUse", "reasoningContent"}, "assistant": {"toolResult"}}
    return [block for block in examples(shape("ContentBlock")) if not block.keys() & kinds[role] and block != SILENT]


def is_result(item: JsonObject) -> bool:
    return "toolResult" in item


@each(*blocks("user"))
def test_every_block_of_a_user_is_sent_on(item: JsonObject) -> None:
    call: JsonObject = {"toolUse": {"toolUseId": "t1", "name": "tide", "input": {}}}
    before: list[JsonObject] = [ASK, {"role": "assistant", "content": [call]}] if is_result(item) else []
    own: list[JsonObject] = [item] if is_result(item) else [item, {"text": "!"}]
    config: JsonObject = {"tools": [{"toolSpec": {"name": "tide", "inputSchema": {"json": {"type": "object"}}}}]}
    turns: list[JsonObject] = [*before, {"role": "user", "content": own}]
    body: JsonObject = {"messages": turns, **({"toolConfig": config} if before else {})}
    request = decoded(body)
    assert level("bedrock", sent(request)) == level("bedrock", body)
    told(request, item)


@each(*blocks("assistant"))
def test_every_block_of_an_assistant_is_sent_on(item: JsonObject) -> None:
    result = {"toolResult": {"toolUseId": "t1", "content": [{"text": "x"}]}}
    is_call = "toolUse" in item and "type" not in item["toolUse"]
    after: list[JsonObject] = [result] if is_call else [{"text": "!"}]
    config: JsonObject = {"tools": [{"toolSpec": {"name": "tide", "inputSchema": {"json": {"type": "object"}}}}]}
    own: list[JsonObject] = [item] if is_call else [item, {"text": "So."}]
    messages = [ASK, {"role": "assistant", "content": own}, {"role": "user", "content": after}]
    request = decoded({"messages": messages, "toolConfig": config})
    assert level("bedrock", sent(request)) == level("bedrock", {"messages": messages, "toolConfig": config})
    # What a citation becomes on another wire is a test of its own.
    told(request, {} if "citationsContent" in item else item)


def members() -> list[JsonObject]:
    known = shape("ConverseRequest").members
    found = {name: examples(inner, name) for name, inner in known.items() if name not in ("messages", "modelId")}
    return [{name: value} for name, values in found.items() for value in values]


REFUSED: list[Any] = [
    {"system": [block]}
    for block in examples(shape("SystemContentBlock"))
    if "cachePoint" in block or "image" in block.get("guardContent", {})
]
"""A cache point needs a text before it, and a system prompt has no images."""


@each(*REFUSED)
def test_a_system_prompt_without_a_text_is_refused(item: JsonObject) -> None:
    with pytest.raises(InvalidRequest, match="must be text, guardContent of a text, or a cachePoint after"):
        decoded({"messages": [ASK], **item})


@each(*[item for item in members() if item not in REFUSED])
def test_every_member_of_a_request_is_sent_on(item: JsonObject) -> None:
    body = {"messages": [ASK], **item}
    request = decoded(body)
    assert level("bedrock", sent(request)) == level("bedrock", body)
    told(request, item)


@pytest.mark.parametrize("role", shape("ConversationRole").enum)
def test_every_role_is_sent_on(role: str) -> None:
    after = [] if role == "user" else [ASK]
    body = {"messages": [ASK, {"role": role, "content": [{"text": "So."}]}, *after]}
    request = decoded(body)
    assert level("bedrock", sent(request)) == level("bedrock", body)
    told(request, body)


# Answers --------------------------------------------------------------------------------------------------------------


def answered() -> list[Any]:
    """What an answer can have: a client's results and what a guardrail is to look at are only in requests."""
    found = [block for block in examples(shape("ContentBlock")) if "guardContent" not in block and block != SILENT]
    return [block for block in found if not is_result(block) or "type" in block["toolResult"]]


@each(*answered())
def test_every_block_of_an_answer_is_written_and_sent_back(item: JsonObject) -> None:
    own = [item] if "toolUse" in item else [item, {"text": "So."}]
    answer = {"output": {"message": {"role": "assistant", "content": own}}, "stopReason": "end_turn", "usage": {}}
    response = WIRE.client.decode_response(json.dumps(answer).encode())
    written = json.loads(WIRE.server.encode_body(response).body)["output"]["message"]
    assert plain(written) == plain({"role": "assistant", "content": own})
    encoder = WIRE.server.stream_encoder(Request())
    data = b"".join(encoder.feed(event) for event in to_events(response))
    events, error = laws.read(WIRE.client.stream_decoder(), [data])
    assert error is None
    assert fold(events).message == response.message
    results = tool_results(*[ToolResult(id=call.id, name=call.name) for call in response.tool_calls])
    turns = (user("?"), response.message, *((results,) if results.parts else ()), user("!"))
    assert plain(sent(Request(messages=turns))["messages"][1]) == plain(written)


def plain(message: JsonObject) -> Any:
    return level("bedrock", {"messages": [message]})["messages"]


@each(*examples(shape("ConverseResponse")))
def test_every_member_of_an_answer_is_written_again(item: JsonObject) -> None:
    answer = {**item, "output": {"message": {"role": "assistant", "content": [{"text": "So."}]}}}
    response = WIRE.client.decode_response(json.dumps(answer).encode())
    # Nothing was called, so a client must not wait for a call.
    stop = {"stopReason": "end_turn"} if item["stopReason"] == "tool_use" else {}
    expected = {**answer, **stop, "usage": counted(answer["usage"])}
    assert json.loads(WIRE.server.encode_body(response).body) == expected
    encoder = WIRE.server.stream_encoder(Request())
    data = b"".join(encoder.feed(event) for event in to_events(response))
    events, error = laws.read(WIRE.client.stream_decoder(), [data])
    assert error is None
    assert (fold(events).finish.reason, fold(events).usage) == (response.finish.reason, response.usage)
    assert fold(events).finish.extra == response.finish.extra


def counted(usage: JsonObject) -> JsonObject:
    """The example has the same number everywhere; the total is that of all tokens."""
    cached = [usage[name] for name in ("cacheReadInputTokens", "cacheWriteInputTokens") if name in usage]
    return {**usage, "totalTokens": usage["inputTokens"] + usage["outputTokens"] + sum(cached)}


def test_every_stop_reason_has_a_meaning() -> None:
    assert set(shape("StopReason").enum) <= FINISH_REASONS.keys()


EVENTS = shape("ConverseStreamOutput").members
START, STOP = {"role": "assistant"}, {"stopReason": "end_turn"}
END: JsonObject = {"usage": {"inputTokens": 3, "outputTokens": 1, "totalTokens": 4}, "metrics": {"latencyMs": 9}}


def stream(name: str, item: JsonObject) -> bytes:
    """The event where a stream has it."""
    around: dict[str, list[tuple[str, JsonObject]]] = {
        "contentBlockStart": [("contentBlockStop", {"contentBlockIndex": 7})],
        "contentBlockDelta": [("contentBlockStop", {"contentBlockIndex": 7})],
    }
    kind = next(iter(item.get("delta", {})), "")
    opened: list[tuple[str, JsonObject]] = []
    if kind in ("toolUse", "toolResult", "image"):
        data = {"format": "png"} if kind == "image" else {"toolUseId": "t1", "name": "tide"}
        opened = [("contentBlockStart", {"contentBlockIndex": 7, "start": {kind: data}})]
    inner = [*opened, (name, item), *around.get(name, [])] if name not in ("messageStop", "metadata") else []
    stop = (name, item) if name == "messageStop" else ("messageStop", STOP)
    end = (name, item) if name == "metadata" else ("metadata", END)
    return b"".join(encode_event(each, json.dumps(data).encode()) for each, data in [*inner, stop, end])


@each(*[{name: item} for name, inner in EVENTS.items() if "Exc" not in name for item in examples(inner)])
def test_every_event_is_read_and_written_again(item: JsonObject) -> None:
    (name, event) = next(iter(item.items()))
    events, error = laws.read(WIRE.client.stream_decoder(), [stream(name, event)])
    assert error is None
    laws.obeys_grammar(events)
    response = fold(events)
    encoder = WIRE.server.stream_encoder(Request())
    again, error = laws.read(WIRE.client.stream_decoder(), [b"".join(map(encoder.feed, events))])
    assert error is None
    assert meaning(fold(again)) == meaning(response)
    whole = WIRE.client.decode_response(WIRE.server.encode_body(response).body)
    assert meaning(whole) == meaning(response)


def meaning(response: Response) -> tuple[Any, ...]:
    """An answer without the word of its stop reason, which follows from the calls."""
    finish = response.finish
    return response.message, finish.reason, finish.extra, response.usage, response.service_tier


@pytest.mark.parametrize("name", [name for name in EVENTS if "Exc" in name])
def test_every_exception_of_a_stream_is_an_error_of_its_kind(name: str) -> None:
    for event in examples(EVENTS[name]):
        _, error = laws.read(WIRE.client.stream_decoder(), [encode_exception(name, json.dumps(event).encode())])
        assert isinstance(error, ProviderError)
        assert error.code is not None
        assert all(str(text) in error.message for key, text in event.items() if key in ("message", "originalMessage"))


def test_an_unknown_exception_is_an_error() -> None:
    _, error = laws.read(WIRE.client.stream_decoder(), [encode_exception("newException", b"{}")])
    assert isinstance(error, DragomanError)


def test_a_system_turn_without_a_text_is_left_out() -> None:
    blank = {"role": "system", "content": [{"text": " "}]}
    answer = {"role": "assistant", "content": [{"text": "So."}]}
    assert sent(decoded({"messages": [ASK, answer, blank, ASK]}))["messages"] == [ASK, answer, ASK]
