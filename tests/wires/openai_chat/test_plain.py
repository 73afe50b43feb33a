"""Plain requests and answers take a fast path, with the same result as the full code."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import DragomanError
from dragoman.events import fold
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.types import (
    UNKNOWN_USAGE,
    Choice,
    Citation,
    Finish,
    Message,
    Request,
    Response,
    Text,
    Thinking,
    TokenLogprob,
    Tool,
    Usage,
    assistant,
    system,
    user,
)
from dragoman.wires.openai_chat import encoder, plain, server
from dragoman.wires.openai_chat.plain import decode_plain
from dragoman.wires.openai_chat.schema import ChatChoice, ChatChunk, ChatMessage

WIRE = wires.get("openai_chat")
PLAIN: dict[str, Any] = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1794700000,
    "model": "model-x",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
}


def result(work: Callable[[], Response]) -> Response | str:
    try:
        return work()
    except DragomanError as error:
        return f"{type(error).__name__}: {error}"


MESSAGE_FIELDS: dict[str, Any] = {
    "content": ["Hi.", "", None, [{"type": "text", "text": "Hi."}], 7],
    "refusal": [None, "", "No."],
    "reasoning_content": [None, "", "Hm."],
    "reasoning": [None, "Hm."],
    "reasoning_text": [None, "Hm."],
    "reasoning_opaque": [None, "", "b3Bh"],
    "thinking_blocks": [None, [], [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]],
    "reasoning_details": [None, [], [{"type": "reasoning.text", "text": "Hm."}]],
    "tool_calls": [None, [], [{"id": "a", "function": {"name": "tide", "arguments": "{}"}}]],
    "function_call": [None, {"name": "tide", "arguments": "{}"}],
    "annotations": [
        None,
        [],
        [{"type": "url_citation"}],
        [{"type": "url_citation", "url_citation": {"url": "https://x", "start_index": 0, "end_index": 2}}],
    ],
    "citations": [None, [], [{"url": "https://x"}]],
    "executed_tools": [None, [], [{"index": 0, "type": "search", "arguments": "{}", "output": "Six."}]],
    "images": [None, []],
    "audio": [None, {"id": "a1", "transcript": "Hi."}],
    "context": [None, {}, {"citations": [{"title": "Tides"}]}],
}
CHOICE_FIELDS: dict[str, Any] = {
    "index": [0, None, 1],
    "finish_reason": ["stop", "length", "content_filter", "STOP", "odd", "error", "", None],
    "native_finish_reason": [None, "STOP", "MALFORMED_FUNCTION_CALL", 7],
    "logprobs": [None, {"content": []}],
    "error": [None, {"message": "boom"}],
    "usage": [None, {"prompt_tokens": 1}],
    "text": [None, "Ho."],
    "delta": [None, {"content": "Ho."}],
    "content_filter_results": [None, {}, {"hate": {"filtered": False, "severity": "safe"}}],
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
    "errors": [None, [{"message": "boom"}]],
    "message": [None, "boom"],
    "detail": [None, "boom"],
    "base_resp": [None, {"status_code": 0}, {"status_code": 1004, "status_msg": "boom"}],
    "citations": [None, ["https://x"]],
    "search_results": [None, [], [{"url": "https://x", "title": "X"}]],
    "prompt_filter_results": [None, [], [{"prompt_index": 0, "content_filter_results": {"hate": {}}}]],
    "service_tier": [None, "default", 7],
    "moderation": [None, {}, {"input": {"type": "moderation_results", "results": []}}],
}


def one_changed(fields: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the fields, each with one of its values; mostly few, so that plain bodies come too."""
    names = st.lists(st.sampled_from(sorted(fields)), max_size=2, unique=True)
    return names.flatmap(lambda some: st.fixed_dictionaries({name: st.sampled_from(fields[name]) for name in some}))


@given(one_changed(MESSAGE_FIELDS), one_changed(CHOICE_FIELDS), one_changed(BODY_FIELDS), st.integers(0, 2))
def test_both_ways_to_read_a_body_are_the_same(
    message: dict[str, Any], choice: dict[str, Any], body: dict[str, Any], choices: int
) -> None:
    check_both_ways(body_of(message, choice, body, choices))


@pytest.mark.parametrize("name", MESSAGE_FIELDS)
def test_both_ways_are_the_same_for_every_field_of_a_message(name: str) -> None:
    for value in MESSAGE_FIELDS[name]:
        check_both_ways(body_of({name: value}, {}, {}))


@pytest.mark.parametrize("name", CHOICE_FIELDS)
def test_both_ways_are_the_same_for_every_field_of_a_choice(name: str) -> None:
    for value in CHOICE_FIELDS[name]:
        check_both_ways(body_of({}, {name: value}, {}))


@pytest.mark.parametrize("name", BODY_FIELDS)
def test_both_ways_are_the_same_for_every_field_of_a_body(name: str) -> None:
    for value in BODY_FIELDS[name]:
        check_both_ways(body_of({}, {}, {name: value}))


def test_every_field_of_a_body_is_compared() -> None:
    assert MESSAGE_FIELDS.keys() == {*ChatMessage.__struct_fields__}
    assert {*CHOICE_FIELDS, "message"} == {*ChatChoice.__struct_fields__}
    assert {*BODY_FIELDS, "choices"} == {*ChatChunk.__struct_fields__}


def body_of(message: dict[str, Any], choice: dict[str, Any], body: dict[str, Any], choices: int = 1) -> bytes:
    one = {"index": 0, "finish_reason": "stop", **choice, "message": {"role": "assistant", "content": "Hi.", **message}}
    other = {"index": 1, "message": {"content": "Ho."}, "finish_reason": "stop"}
    return json.dumps({**PLAIN, **body, "choices": [one, other][:choices]}).encode()


def check_both_ways(data: bytes) -> None:
    client, target = WIRE.client, PROVIDERS["openai"].target("m")
    for request in (Request(messages=(user("hi"),)), Request(messages=(user("A long story. " * 1000),)), None):
        for to in (target, replace(target, quirks=Quirks(think_tags=True)), None):
            short = result(lambda: client.decode_response(data, request, to))  # noqa: B023 - called at once
            assert short == result(lambda: fold(client.decode_body(data, request, to)))  # noqa: B023


def test_a_plain_body_takes_the_short_way() -> None:
    assert decode_plain(json.dumps(PLAIN).encode(), Request(), None) is not None
    assert decode_plain(b"{", Request(), None) is None


def test_a_text_that_is_too_long_takes_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MAX_RESPONSE", 2)
    assert decode_plain(json.dumps(PLAIN).encode(), Request(), None) is None


def test_a_prompt_that_the_server_cut_is_found_in_the_long_way() -> None:
    long = Request(messages=(user("A long story. " * 1000),))
    assert decode_plain(json.dumps(PLAIN).encode(), long, None) is None


def test_think_tags_are_read_in_the_long_way() -> None:
    message = {"role": "assistant", "content": "<think>Hm.</think>Hi."}
    body = {**PLAIN, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    target = replace(PROVIDERS["openai"].target("m"), quirks=Quirks(think_tags=True))
    response = WIRE.client.decode_response(json.dumps(body).encode(), Request(), target)
    assert (response.thinking, response.text) == ("Hm.", "Hi.")


CITED = Text(text="Hi.", citations=(Citation(url="https://x", title="X", start=0, end=2),))
REQUESTS = {
    "a text": Request(messages=(user("hi"),)),
    "a system prompt": Request(system="Be brief.", messages=(user("hi"),)),
    "system texts": Request(system=(Text(text="Be brief."),), messages=(user("hi"),)),
    "two texts": Request(messages=(user("hi"), user("ho"))),
    "two parts": Request(messages=(user("hi", "ho"),)),
    "an empty text": Request(messages=(user(""), user("hi"))),
    "an answer": Request(messages=(user("hi"), assistant("ho"), user("hi"))),
    "an answer at the end": Request(messages=(user("hi"), assistant("ho"))),
    "answers only": Request(messages=(assistant("ho"), assistant("hi"))),
    "an empty answer": Request(messages=(user("hi"), assistant(""), user("hi"), assistant(""))),
    "an answer without parts": Request(messages=(user("hi"), assistant(), user("ho"))),
    "an answer of two parts": Request(messages=(user("hi"), assistant("ho", "ho"), user("hi"))),
    "citations": Request(messages=(user("hi"), assistant(CITED), user("hi"))),
    "thinking": Request(messages=(user("hi"), assistant(Thinking(text="Hm."), "ho"), user("hi"))),
    "a system message": Request(messages=(system("Be brief."), user("hi"), system("Be kind."), user("ho"))),
    "extra of a part": Request(
        messages=(Message(role="user", parts=(Text(text="hi", extra={"openai_chat": {"a": 1}}),)),)
    ),
    "extra of a message": Request(messages=(Message(role="user", parts=(Text(text="hi"),), extra={"x": {"a": 1}}),)),
    "options": Request(messages=(user("hi"),), temperature=0.5, top_p=0.5, max_tokens=20),
    "temperature": Request(messages=(user("hi"),), temperature=0),
    "top_p": Request(messages=(user("hi"),), top_p=1.0),
    "many tokens": Request(messages=(user("hi"),), max_tokens=10_000_000),
    "a stream": Request(messages=(user("hi"),), stream=True, max_tokens=5),
    "another option": Request(messages=(user("hi"),), temperature=0.5, seed=7),
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
        if provider.wire == "openai_chat" and provider.capabilities.chats
    ]
    short = [WIRE.client.encode_request(REQUESTS[name], target) for target in targets]
    monkeypatch.setattr(plain, "_NO_OPTIONS", None)
    assert short == [WIRE.client.encode_request(REQUESTS[name], target) for target in targets]
    assert len(short) > 10


def test_a_plain_request_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(encoder, "encode_messages")
    target = PROVIDERS["openai"].target("m")
    for name in ("a text", "a system prompt", "two texts", "an answer", "an empty answer", "options", "a stream"):
        assert WIRE.client.encode_request(REQUESTS[name], target).body


def test_a_limit_of_the_target_takes_the_long_way() -> None:
    target = replace(PROVIDERS["openai"].target("m"), capabilities=Capabilities(max_output=10))
    http = WIRE.client.encode_request(REQUESTS["options"], target)
    assert [notice.what for notice in http.notices] == ["max_tokens"]
    target = replace(target, quirks=replace(target.quirks, sampling=False))
    http = WIRE.client.encode_request(REQUESTS["temperature"], target)
    assert [notice.what for notice in http.notices] == ["temperature"]


ANSWER = Response(message=assistant("Hi."), finish=Finish(reason="stop", raw="stop"))
LOGPROB = TokenLogprob(token="Hi.", logprob=-0.1)
ENDS: list[Any] = [("stop", None), ("length", "max_tokens"), ("other", None), ("other", "odd"), ("blocked", "x")]
FINISH_EXTRA: tuple[Any, ...] = (
    {},
    {"openai_chat": {"finish_reason": "odd", "content_filter_results": {"hate": {}}}},
)
RESPONSE_FIELDS: dict[str, Any] = {
    "id": [None, "", "c1"],
    "created": [None, 0, 1794700000],
    "model": [None, "m"],
    "usage": [Usage(), Usage(input=5, output=2), Usage(input=5, output=2, cache_read=3, reasoning=1), UNKNOWN_USAGE],
    "service_tier": [None, "standard", "default", "flex"],
    "finish": [Finish(reason=reason, raw=raw, extra=extra) for reason, raw in ENDS for extra in FINISH_EXTRA],
    "message": [
        assistant("Hi."),
        assistant(""),
        assistant(),
        assistant("Hi.", "Ho."),
        assistant(Thinking(text="Hm."), "Hi."),
        assistant(Text(text="Hi.", logprobs=(LOGPROB,))),
        assistant(Text(text="Hi.", extra={"openai_chat": {"refusal": True}})),
        assistant(CITED),
        Message(role="assistant", parts=(Text(text="Hi."),), extra={"openai_chat": {"a": 1}}),
    ],
    "other_choices": [(), (Choice(message=assistant("Ho."), finish=Finish(reason="stop")),)],
}


def never_plain(_response: Response) -> None:
    """No response takes the fast path."""


@given(one_changed(RESPONSE_FIELDS))
def test_both_ways_to_write_a_body_are_the_same(fields: dict[str, Any]) -> None:
    check_both_ways_to_write(fields)


@pytest.mark.parametrize("name", RESPONSE_FIELDS)
def test_both_ways_to_write_are_the_same_for_every_value_of_a_field(name: str) -> None:
    for value in RESPONSE_FIELDS[name]:
        check_both_ways_to_write({name: value})


def check_both_ways_to_write(fields: dict[str, Any]) -> None:
    response = replace(ANSWER, **fields)
    for request in (None, Request(), Request(tools=(Tool(name="x", extra={"openai_chat": {"type": "custom"}}),))):
        short = WIRE.server.encode_body(response, request)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server, "encode_plain_body", never_plain)
            assert WIRE.server.encode_body(response, request) == short
