"""Plain requests and answers take a fast path, with the same result as the full code."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import DragomanError
from dragoman.events import fold
from dragoman.http import HttpRequest
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import Capabilities, Target
from dragoman.types import Citation, Message, Request, Response, Text, Thinking, assistant, system, user
from dragoman.wires.anthropic import encoder, plain
from dragoman.wires.anthropic.plain import decode_plain

CLIENT = wires.get("anthropic").client
PLAIN: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [{"type": "text", "text": "Hi."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "output_tokens": 2},
}
FIELDS: dict[str, list[Any]] = {
    "id": ["msg_1", "", None, 7],
    "type": ["message", "error"],
    "model": ["claude-x", "", None],
    "content": [
        [{"type": "text", "text": "Hi."}],
        [{"type": "text", "text": "Hi.", "citations": None}],
        [{"type": "text", "text": "Hi.", "citations": []}],
        [{"type": "text", "text": "Hi.", "extra": 1}],
        [{"type": "text", "text": ""}],
        [{"type": "text", "text": "Hi."}, {"type": "text", "text": "Ho."}],
        [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "Hi."}],
        [{"type": "tool_use", "id": "t", "name": "tide", "input": {}}],
        [],
        "Hi.",
    ],
    "stop_reason": ["end_turn", "max_tokens", "stop_sequence", "refusal", "odd", "", None],
    "stop_sequence": [None, "END"],
    "usage": [
        {"input_tokens": 5, "output_tokens": 2},
        {"input_tokens": 0, "output_tokens": 0},
        {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": None},
        {"input_tokens": 5, "output_tokens": 2, "service_tier": "standard", "cache_creation": {"ephemeral_5m": 0}},
        {"input_tokens": 5, "output_tokens": 2, "service_tier": None, "server_tool_use": None},
        {"input_tokens": "5", "output_tokens": 2.0},
        {"input_tokens": 5, "output_tokens": 2, "output_tokens_details": {"thinking_tokens": 1}},
        None,
    ],
    "container": [None, {"id": "c"}],
    "error": [None, {"message": "boom"}],
}


def one_changed(fields: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.lists(st.sampled_from(sorted(fields)), max_size=2, unique=True)
    return names.flatmap(lambda some: st.fixed_dictionaries({name: st.sampled_from(fields[name]) for name in some}))


def result(body: bytes, *, short: bool) -> Response | str:
    request, target = Request(messages=(user("hi"),)), PROVIDERS["anthropic"].target("m")
    try:
        return (
            CLIENT.decode_response(body, request, target) if short else fold(CLIENT.decode_body(body, request, target))
        )
    except DragomanError as error:
        return f"{type(error).__name__}: {error}"


@given(one_changed(FIELDS))
def test_both_ways_to_read_a_body_are_the_same(fields: dict[str, Any]) -> None:
    body = json.dumps({**PLAIN, **fields}).encode()
    assert result(body, short=True) == result(body, short=False)


@pytest.mark.parametrize("field", FIELDS)
def test_every_value_alone(field: str) -> None:
    for value in FIELDS[field]:
        body = json.dumps({**PLAIN, field: value}).encode()
        assert result(body, short=True) == result(body, short=False)


def test_a_plain_body_takes_the_short_way_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decode_plain(json.dumps(PLAIN).encode(), None, None) is not None
    for body in (b"{", b"[]", json.dumps({**PLAIN, "stop_reason": "odd"}).encode()):
        assert decode_plain(body, None, None) is None
    monkeypatch.setattr(plain, "MAX_RESPONSE", 2)
    assert decode_plain(json.dumps(PLAIN).encode(), None, None) is None


# Requests -------------------------------------------------------------------------------------------------------------

TURNS: list[Message] = [
    user("?"),
    user(""),
    user(" "),
    user("a", "b"),
    user(Text(text="?", extra={"anthropic": {"cache_control": {"type": "ephemeral"}}})),
    assistant("Hi."),
    assistant("Hi. "),
    assistant(Thinking(text="Hm."), "Hi."),
    assistant(Text(text="Hi.", citations=(Citation(url="https://x"),))),
    Message(role="assistant", parts=(Text(text="Hi."),), extra={"anthropic": {"a": 1}}),
    system("Be brief."),
]
OPTIONS: dict[str, list[Any]] = {
    "system": [None, "", " ", "Be brief.", (Text(text="Be brief."), Text(text="Be kind."))],
    "temperature": [None, 0, 0.2, 1.0, 1.5],
    "top_p": [None, 0.5],
    "top_k": [None, 3],
    "max_tokens": [None, 1, 500, 10_000_000],
    "stop": [(), ("end",)],
    "stream": [False, True],
    "reasoning": [None, "none", "high"],
    "user": [None, "u1"],
    "seed": [None, 1],
    "strict": [False, True],
}
CLAUDE = PROVIDERS["anthropic"].target("claude-x")
TARGETS: dict[str, Target] = {
    "usual": CLAUDE,
    "a limit": replace(CLAUDE, capabilities=Capabilities(max_output=100)),
    "no sampling": replace(CLAUDE, quirks=replace(CLAUDE.quirks, sampling=False)),
    "a version without sampling": replace(CLAUDE, quirks=replace(CLAUDE.quirks, api_version="2026-10-21")),
    "one of two": replace(CLAUDE, quirks=replace(CLAUDE.quirks, temperature_excludes_top_p=True)),
    "system turns": replace(CLAUDE, quirks=replace(CLAUDE.quirks, system_turns=True)),
}


def encoded(request: Request, target: Target) -> HttpRequest | str:
    try:
        return CLIENT.encode_request(request, target)
    except DragomanError as error:
        return f"{type(error).__name__}: {error}"


@given(
    st.lists(st.sampled_from(TURNS[:1] + TURNS[5:6]) | st.sampled_from(TURNS), max_size=4),
    one_changed(OPTIONS),
    st.sampled_from(sorted(TARGETS)),
)
def test_both_ways_to_write_a_request_are_the_same(turns: list[Message], options: dict[str, Any], target: str) -> None:
    request = Request(messages=tuple(turns), **options)
    short = encoded(request, TARGETS[target])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_NO_OPTIONS", None)
        long = encoded(request, TARGETS[target])
    assert short == long
    assert isinstance(short, str) or isinstance(long, str) or [*json.loads(short.body)] == [*json.loads(long.body)]


@pytest.mark.parametrize("options", [{"temperature": 1.5}, {"temperature": 0.5, "top_p": 0.5}, {"max_tokens": 500}])
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_both_ways_are_the_same_at_the_limits_of_a_target(options: dict[str, Any], target: str) -> None:
    request = Request(messages=(user("?"),), **options)
    short = encoded(request, TARGETS[target])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_NO_OPTIONS", None)
        assert encoded(request, TARGETS[target]) == short


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("before", [(), (user("?"),), (user("?"), assistant("Hi."))])
def test_both_ways_are_the_same_for_every_turn(before: tuple[Message, ...], turn: Message) -> None:
    request = Request(messages=(*before, turn))
    short = encoded(request, CLAUDE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_NO_OPTIONS", None)
        assert encoded(request, CLAUDE) == short


def test_a_plain_request_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(encoder, "prepare_history")
    talk = (user("?"), assistant("Hi."), user("And?"))
    http = CLIENT.encode_request(
        Request(messages=talk, system="Be brief.", temperature=0.5, top_p=0.5, stream=True), CLAUDE
    )
    assert json.loads(http.body)["stream"] is True
