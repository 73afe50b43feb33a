"""Plain requests and answers take a short way, with the same result as the long one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import wires
from dragoman.errors import DragomanError
from dragoman.events import Assembler, Event
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import Target
from dragoman.types import Message, Request, Text, assistant, user
from dragoman.wires.openai_chat import decoder, encoder
from dragoman.wires.openai_chat.decoder import ChatDecoder
from dragoman.wires.openai_chat.schema import ChatChunk

WIRE = wires.get("openai_chat")
PLAIN: dict[str, Any] = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1794700000,
    "model": "model-x",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
}


class LongDecoder(ChatDecoder):
    """Takes no body for a plain one."""

    def _read_plain(self, chunk: ChatChunk) -> bool:
        return False


def in_the_long_way(body: bytes, request: Request) -> list[Event] | str:
    decoder = LongDecoder(request)
    try:
        decoder.read_body(body)
    except DragomanError as error:
        return f"{type(error).__name__}: {error}"
    return decoder.out.take()


def decoded(body: bytes, request: Request) -> list[Event] | str:
    try:
        return WIRE.client.decode_body(body, request)
    except DragomanError as error:
        return f"{type(error).__name__}: {error}"


MESSAGE_FIELDS: dict[str, Any] = {
    "content": ["Hi.", "", None, [{"type": "text", "text": "Hi."}], 7],
    "refusal": [None, "", "No."],
    "reasoning_content": [None, "", "Hm."],
    "reasoning": [None, "Hm."],
    "reasoning_details": [None, [], [{"type": "reasoning.text", "text": "Hm."}]],
    "tool_calls": [None, [], [{"id": "a", "function": {"name": "tide", "arguments": "{}"}}]],
    "function_call": [None, {"name": "tide", "arguments": "{}"}],
    "annotations": [None, [], [{"type": "url_citation"}]],
    "images": [None, []],
    "audio": [None, {"id": "a1", "transcript": "Hi."}],
}
CHOICE_FIELDS: dict[str, Any] = {
    "index": [0, None, 1],
    "finish_reason": ["stop", "length", "content_filter", "STOP", "odd", "error", "", None],
    "logprobs": [None, {"content": []}],
    "error": [None, {"message": "boom"}],
    "usage": [None, {"prompt_tokens": 1}],
}
BODY_FIELDS: dict[str, Any] = {
    "id": ["c1", 7, "", None],
    "object": ["chat.completion", "error", None],
    "model": ["model-x", "", None],
    "created": [1794700000, 0, "today", None],
    "usage": [
        None,
        PLAIN["usage"],
        {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}},
        {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 10, "reasoning_tokens": 3},
    ],
    "error": [None, {"message": "boom"}],
    "citations": [None, ["https://x"]],
}


def one_changed(fields: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the fields, each with one of its values; mostly few, so that plain bodies come too."""
    names = st.lists(st.sampled_from(sorted(fields)), max_size=2, unique=True)
    return names.flatmap(lambda some: st.fixed_dictionaries({name: st.sampled_from(fields[name]) for name in some}))


@given(one_changed(MESSAGE_FIELDS), one_changed(CHOICE_FIELDS), one_changed(BODY_FIELDS), st.integers(0, 2))
def test_both_ways_to_read_a_body_are_the_same(
    message: dict[str, Any], choice: dict[str, Any], body: dict[str, Any], choices: int
) -> None:
    one = {"index": 0, "finish_reason": "stop", **choice, "message": {"role": "assistant", "content": "Hi.", **message}}
    other = {"index": 1, "message": {"content": "Ho."}, "finish_reason": "stop"}
    data = json.dumps({**PLAIN, **body, "choices": [one, other][:choices]}).encode()
    for request in (Request(messages=(user("hi"),)), Request(messages=(user("A long story. " * 1000),))):
        assert decoded(data, request) == in_the_long_way(data, request)


def test_a_plain_body_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ChatDecoder, "_read_whole")
    assert len(WIRE.client.decode_body(json.dumps(PLAIN).encode())) == 5
    with pytest.raises(AttributeError):
        WIRE.client.decode_body(json.dumps({**PLAIN, "choices": []}).encode())


def test_a_plain_text_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    class Small(Assembler):
        def __init__(self, *, calls_before: int = 0) -> None:
            super().__init__(calls_before=calls_before, limit=2)

    monkeypatch.setattr(decoder, "Assembler", Small)
    with pytest.raises(DragomanError, match="more than 2 characters"):
        WIRE.client.decode_body(json.dumps(PLAIN).encode())


REQUESTS = {
    "a text": Request(messages=(user("hi"),)),
    "a system prompt": Request(system="Be brief.", messages=(user("hi"),)),
    "system texts": Request(system=(Text(text="Be brief."),), messages=(user("hi"),)),
    "two texts": Request(messages=(user("hi"), user("ho"))),
    "two parts": Request(messages=(user("hi", "ho"),)),
    "an empty text": Request(messages=(user(""), user("hi"))),
    "an answer": Request(messages=(user("hi"), assistant("ho"), user("hi"))),
    "extra of a part": Request(
        messages=(Message(role="user", parts=(Text(text="hi", extra={"openai_chat": {"a": 1}}),)),)
    ),
    "extra of a message": Request(messages=(Message(role="user", parts=(Text(text="hi"),), extra={"x": {"a": 1}}),)),
    "an option": Request(messages=(user("hi"),), temperature=0.5),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_both_ways_to_write_a_request_are_the_same_for_every_provider(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = [
        Target(
            provider=provider.name,
            model="m",
            wire=provider.wire,
            base_url="https://x/v1",
            capabilities=provider.capabilities,
            quirks=provider.quirks,
        )
        for provider in PROVIDERS.values()
        if provider.wire == "openai_chat"
    ]
    short = [WIRE.client.encode_request(REQUESTS[name], target) for target in targets]
    monkeypatch.setattr(encoder, "_NO_OPTIONS", None)
    assert short == [WIRE.client.encode_request(REQUESTS[name], target) for target in targets]
    assert len(short) > 10


def test_a_plain_request_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(encoder, "encode_messages")
    target = PROVIDERS["openai"].target("m")
    for name in ("a text", "a system prompt", "two texts"):
        assert WIRE.client.encode_request(REQUESTS[name], target).body
