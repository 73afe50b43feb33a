"""Every member of every union in the official SDKs' types: read, said again, given back, and taken by other wires."""

import contextlib
import json
from collections.abc import Callable, Iterable
from typing import Any, get_args

from anthropic import types as messages
from anthropic.types import beta
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming
from google.genai import types as google
from openai.types import chat, responses
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from typing_extensions import get_type_hints

from dragoman import wires
from dragoman.errors import ProviderError, Unsupported
from dragoman.events import fold, to_events
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.types import Request, Response, ToolResult, tool_results, user
from dragoman.wires.anthropic.schema import FINISH_REASONS as STOP_REASONS
from dragoman.wires.google.schema import FINISH_REASONS
from tests.support.batch import grouped
from tests.support.wires import laws
from tests.support.wires.unions import examples

Case = tuple[str, str, Any]
HOMES = {
    "anthropic": "anthropic",
    "google": "google",
    "ollama": "ollama",
    "openai_chat": "openai",
    "openai_responses": "openai-responses",
}
PATHS = {
    "anthropic": "/v1/messages",
    "google": "/v1beta/models/m:generateContent",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
}
TEXTS: dict[str, Any] = {
    "anthropic": {"type": "text", "text": "Ebb.", "citations": [{"type": "char_location"}]},
    "google": {"text": "Ebb.", "thoughtSignature": "c2ln"},
    "openai_responses": {"type": "message", "id": "m", "role": "assistant", "content": [], "status": "completed"},
}
"""What follows an item, so that nothing that needs to be followed is left out."""


def each(*cases: Case) -> Callable[[Callable[[str, Any], None]], Callable[..., None]]:
    """One test per wire; it reports every member that fails."""
    groups: dict[str, dict[str, dict[str, Any]]] = {}
    for number, (wire, name, item) in enumerate(cases):
        groups.setdefault(wire, {})[f"{name} ({number})"] = {"wire": wire, "item": item}
    return grouped(groups)


def cases(wire: str, *unions: Any) -> list[Case]:
    return [(wire, name, example) for union in unions for name, example in examples(union)]


def fields(wire: str, model: Any, *but: str) -> list[Case]:
    """The fields of a model, one at a time."""
    known = {name: field for name, field in model.model_fields.items() if name not in but}
    found = [(name, known[name].alias, *example) for name in known for example in examples(known[name].annotation)]
    return [(wire, f"{name}:{kind}", {alias: example}) for name, alias, kind, example in found if kind != "NoneType1"]


def says(all: Iterable[dict[str, Any]], item: dict[str, Any]) -> bool:
    """Whether one of them says all that an item says."""
    known = {key: value for key, value in item.items() if value is not None}
    return any({**other, **known} == other for other in all)


# What they answer -----------------------------------------------------------------------------------------------------


def body(wire: str, *items: Any) -> bytes:
    bodies: dict[str, Any] = {
        "anthropic": {"id": "a", "model": "m", "content": items, "stop_reason": "end_turn"},
        "google": {"candidates": [{"content": {"role": "model", "parts": items}, "finishReason": "STOP"}]},
        "openai_responses": {"id": "r", "model": "m", "status": "completed", "output": items},
    }
    return json.dumps(bodies[wire]).encode()


def items_of(body: bytes) -> list[Any]:
    data = json.loads(body)
    found: list[Any] = data.get("content") or data.get("output") or data["candidates"][0]["content"]["parts"]
    return found


def resent(wire: str, response: Response) -> list[Any]:
    """What the next request says of an answer."""
    results = tool_results(*[ToolResult(id=call.id, name=call.name) for call in response.tool_calls])
    request = Request(messages=(user("?"), response.message, *((results,) if results.parts else ()), user("!")))
    sent = json.loads(wires.get(wire).client.encode_request(request, target(f"{HOMES[wire]}/m", api_key="k")).body)
    if "input" in sent:
        return list(sent["input"])
    turns = sent.get("contents") or sent["messages"]
    return [block for turn in turns if turn["role"] != "user" for block in turn.get("parts") or turn["content"]]


@each(
    *cases("anthropic", messages.ContentBlock, beta.BetaContentBlock),
    *cases("openai_responses", responses.ResponseOutputItem),
    *fields("google", google.Part, "text", "thought", "function_call", "function_response"),
)
def test_every_kind_of_answer_is_said_again_and_given_back(wire: str, item: dict[str, Any]) -> None:
    client, server = wires.get(wire).client, wires.get(wire).server
    response = fold(
        client.decode_body(body(wire, *([item] if item.get("type") == "tool_use" else [item, TEXTS[wire]])))
    )
    assert says(items_of(server.encode_body(response).body), item)
    encoder = server.stream_encoder(Request())
    events, error = laws.read(client.stream_decoder(), [b"".join(encoder.feed(event) for event in to_events(response))])
    assert error is None
    assert fold(events).message == response.message
    assert says(resent(wire, response), item)


BEGUN: dict[str, Any] = {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}
ENDED: dict[str, Any] = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}}
OPENED = {"type": "content_block_start", "index": 7, "content_block": {"type": "new"}}
AROUND: dict[str, tuple[Any, Any]] = {
    "anthropic": ({"type": "message_start", "message": {"id": "a"}}, {"type": "message_stop"}),
    "openai_chat": ({"choices": []}, {"choices": []}),
    "openai_responses": (BEGUN, ENDED),
}


@each(
    *cases("openai_responses", responses.ResponseStreamEvent),
    *cases("anthropic", messages.RawMessageStreamEvent, beta.BetaRawMessageStreamEvent),
    *cases("openai_chat", chat.ChatCompletionChunk),
)
def test_every_event_of_a_stream_is_read_or_is_an_error_that_it_tells(wire: str, item: dict[str, Any]) -> None:
    if item.get("type") == "response.function_call_arguments.delta":
        item = {**item, "delta": "{}"}
    before, after = AROUND[wire]
    sent = [before, *([OPENED] if item.get("type") == "content_block_delta" else ()), item, after]
    data = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in sent)
    events, error = laws.read(wires.get(wire).client.stream_decoder(), [data + b"data: [DONE]\n\n"])
    if error is None:
        laws.obeys_grammar(events)
    else:
        assert isinstance(error, ProviderError)
        assert item["type"] == "error" or item["response"].get("error") or item["type"] == "response.failed"


def test_every_word_for_the_end_is_known() -> None:
    assert {*get_args(messages.StopReason), *get_args(beta.BetaStopReason)} <= STOP_REASONS.keys()
    assert {word.value for word in google.FinishReason} - {"FINISH_REASON_UNSPECIFIED"} <= FINISH_REASONS.keys()


# What they ask --------------------------------------------------------------------------------------------------------


def taken(wire: str, **body: Any) -> dict[str, Any]:
    """A request after it went through the vocabulary, on its own wire; the other wires take it, or say why not."""
    http = HttpRequest(method="POST", path=PATHS[wire], body=json.dumps({"model": "m", **body}).encode())
    _, request = wires.get(wire).server.decode_request(http)
    for other, home in HOMES.items():
        if other != wire:
            with contextlib.suppress(Unsupported):
                wires.get(other).client.encode_request(request, target(f"{home}/m", api_key="k"))
    sent = wires.get(wire).client.encode_request(request, target(f"{HOMES[wire]}/m", api_key="k"))
    data: dict[str, Any] = json.loads(sent.body)
    return data


@each(*cases("openai_responses", ResponseInputItemParam))
def test_every_item_of_an_input_is_taken(wire: str, item: dict[str, Any]) -> None:
    kind, id = str(item.get("type")), item.get("call_id")
    call = {"type": kind.removesuffix("_output"), "call_id": id, "name": "tide", "arguments": "{}", "input": ""}
    item = item if id else {"name": "tide", **item} if kind == "function_call_output" else item
    before = [call] if id and kind in ("function_call_output", "custom_tool_call_output") else []
    sent = taken(wire, input=[{"role": "user", "content": "?"}, *before, item, TEXTS[wire]])["input"]
    assert item.get("role") or says(sent, item)


HALVES = ("tool_use", "tool_result")
"""Blocks that need their other half; they have tests of their own."""
BLOCKS = cases("anthropic", messages.ContentBlockParam, beta.BetaContentBlockParam)


@each(
    *[case for case in BLOCKS if case[2]["type"] not in HALVES],
    *fields("google", google.Part, "text", "thought", "function_call", "function_response"),
)
def test_every_block_of_a_users_message_is_taken(wire: str, item: dict[str, Any]) -> None:
    contents = {"contents": [{"role": "user", "parts": [item, TEXTS[wire]]}]}
    messages = {"messages": [{"role": "user", "content": [item, TEXTS[wire]]}], "max_tokens": 5}
    sent = taken(wire, **(contents if wire == "google" else messages))
    (turn,) = sent.get("contents") or sent["messages"]
    assert says(turn.get("parts") or turn["content"], item)


def options(wire: str, params: Any, *but: str) -> list[Case]:
    """The options of a request, one at a time, as its SDK types them."""
    hints = get_type_hints(params, include_extras=True)
    found = [(name, example) for name, hint in hints.items() if name not in but for example in examples(hint)]
    return [(wire, f"{name}:{kind}", {name: example}) for name, (kind, example) in found if kind != "NoneType1"]


@each(
    *options("openai_responses", ResponseCreateParamsNonStreaming, "model", "input", "stream"),
    *options("openai_chat", CompletionCreateParamsNonStreaming, "model", "messages", "stream"),
    *options("anthropic", MessageCreateParamsNonStreaming, "model", "messages", "stream", "max_tokens", "betas"),
)
def test_every_option_is_taken(wire: str, item: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "?"}]
    body = {"input": messages} if wire == "openai_responses" else {"messages": messages, "max_tokens": 5000}
    taken(wire, **{**body, **item})
