"""Redaction: no value reaches the provider, and each one comes back, wherever a stream is cut."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.events import CallDelta, Event, Finished, PartDelta, PartEnded, PartStarted, fold, to_events
from dragoman.gateway.app import App
from dragoman.gateway.config import decode_config
from dragoman.gateway.hooks.base import HookCall
from dragoman.gateway.hooks.redaction import Redaction, RedactionSettings
from dragoman.gateway.runtime import Runtime
from dragoman.types import (
    Choice,
    Finish,
    Image,
    Request,
    Response,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)
from tests.support.gateway.dialects import request_of, response_of, send_blocking

NO_SERVICES: Any = None
VALUES = {
    "EMAIL": ["anna@example.org", "a.b+c@mail.example.co.uk"],
    "IBAN": ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432"],
    "CARD": ["4111 1111 1111 1111", "5500-0000-0000-0004"],
    "SSN": ["078-05-1120"],
    "PHONE": ["+49 30 1234567", "+1 (555) 010-9999", "030 1234 5678"],
    "IP": ["192.168.0.17", "2001:db8:0:0:0:0:0:1"],
}


def hook(**settings: Any) -> Redaction:
    return Redaction(RedactionSettings(**settings), NO_SERVICES)


def redacted(request: Request | str, **settings: Any) -> tuple[Redaction, HookCall]:
    own = hook(**settings)
    call = HookCall(Request(messages=(user(request),)) if isinstance(request, str) else request)
    own.before(call)
    return own, call


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in VALUES.items() for value in values])
def test_each_kind_of_value_becomes_a_placeholder(kind: str, value: str) -> None:
    _, call = redacted(f"Write to {value}, please.")
    assert call.request.messages[0].text == f"Write to <{kind}_1>, please."


@pytest.mark.parametrize(
    "text", ["version 1.2.3", "4111 1111 1111 1112", "2026-11-18", "a @ b", "order 1234567", "12:30:45", "x = 3.14159"]
)
def test_other_texts_stay(text: str) -> None:
    _, call = redacted(text)
    assert call.request.messages[0].text == text
    assert not call.notices


def test_equal_values_have_the_same_placeholder_and_others_have_not() -> None:
    _, call = redacted("a@x.org, b@x.org and a@x.org")
    assert call.request.messages[0].text == "<EMAIL_1>, <EMAIL_2> and <EMAIL_1>"


def test_a_longer_conversation_keeps_its_placeholders() -> None:
    first = Request(system="Help a@x.org.", messages=(user("I am b@x.org."),))
    second = replace(first, messages=(*first.messages, assistant("Hi b@x.org"), user("and c@x.org")))
    one, two = redacted(first)[1].request, redacted(second)[1].request
    assert two.messages[:1] == one.messages
    assert two.system == one.system == "Help <EMAIL_1>."
    assert two.messages[2].text == "and <EMAIL_3>"


def test_every_text_of_a_request_is_redacted() -> None:
    call_part = ToolCall(id="c", name="mail", arguments={"to": ["a@x.org"], "n": 1})
    request = Request(
        system=(Text(text="a@x.org"),),
        messages=(
            user("hi", Image(data=b"a@x.org", mime="image/png")),
            assistant(call_part),
            tool_results(ToolResult(id="c", name="mail", content="sent to a@x.org")),
            tool_results(ToolResult(id="d", name="mail", content=(Text(text="a@x.org"),))),
        ),
    )
    _, call = redacted(request)
    assert "a@x.org" not in repr(call.request).replace("b'a@x.org'", "")


def test_a_text_of_the_client_that_looks_like_a_placeholder_stays() -> None:
    own, call = redacted("<EMAIL_1> is a@x.org")
    assert call.request.messages[0].text == "<EMAIL_1> is <EMAIL_2>"
    answer = Response(message=assistant("<EMAIL_1> <EMAIL_2> <EMAIL_9>"), finish=Finish(reason="stop"))
    restored = own.after(call, answer)
    assert restored is not None
    assert restored.text == "<EMAIL_1> a@x.org <EMAIL_9>"


def test_custom_patterns_come_first() -> None:
    _, call = redacted("E-123456 and a@x.org", custom={"employee": r"E-\d{6}"}, patterns=())
    assert call.request.messages[0].text == "<EMPLOYEE_1> and a@x.org"


def test_answers_have_the_values_again_in_all_choices() -> None:
    own, call = redacted("a@x.org")
    tool = ToolCall(id="c", name="mail", arguments={"to": "<EMAIL_1>"})
    other = Choice(message=assistant("<EMAIL_1>"), finish=Finish(reason="stop"))
    answer = Response(message=assistant("to <EMAIL_1>", tool), finish=Finish(reason="stop"), other_choices=(other,))
    restored = own.after(call, answer)
    assert restored is not None
    assert restored.text == "to a@x.org"
    assert restored.tool_calls[0].arguments == {"to": "a@x.org"}
    assert restored.other_choices[0].message.text == "a@x.org"
    events = own.on_events(call, to_events(answer))
    assert events is not None
    assert fold(events) == restored


ANSWER = "Mail <EMAIL_1>, <not> a < b, <EMAIL_2>; <EMAIL_1"


@given(st.lists(st.integers(1, 6), max_size=60))
def test_a_stream_may_be_cut_anywhere(lengths: list[int]) -> None:
    own, call = redacted("a@x.org b@x.org")
    events: list[Event] = [PartStarted(index=0, kind="text")]
    rest = ANSWER
    for length in lengths:
        if rest[:length]:
            events.append(PartDelta(index=0, text=rest[:length]))
        rest = rest[length:]
    events += [PartDelta(index=0, text=rest)] if rest else []
    events += [PartEnded(index=0, part=Text(text=ANSWER)), Finished(finish=Finish(reason="stop"))]
    seen: list[Event] = []
    for event in events:
        seen += own.on_events(call, [event]) or []
    expected = "Mail a@x.org, <not> a < b, b@x.org; <EMAIL_1"
    assert "".join(event.text for event in seen if isinstance(event, PartDelta)) == expected
    assert fold(seen).text == expected


@given(st.integers(0, 40))
def test_fragments_of_a_call_are_valid_json_again(cut: int) -> None:
    own, call = redacted('Employee "Q"', custom={"person": '"Q"'})
    text = '{"who": "<PERSON_1>", "n": 1}'
    events = [CallDelta(index=0, text=text[:cut]), CallDelta(index=0, text=text[cut:])]
    seen: list[Event] = []
    for event in events:
        seen += own.on_events(call, [event]) or []
    assert "".join(event.text for event in seen if isinstance(event, CallDelta)) == '{"who": "\\"Q\\"", "n": 1}'


def test_without_values_nothing_is_changed() -> None:
    own, call = redacted("hello")
    answer = Response(message=assistant("<EMAIL_1>"), finish=Finish(reason="stop"))
    assert (own.after(call, answer), own.on_events(call, to_events(answer))) == (None, None)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "google", "openai_responses"])
def test_the_gateway_hides_and_restores(dialect: str, stream: bool) -> None:  # noqa: FBT001 - a parameter
    app = App(Runtime(decode_config('[gateway]\nproviders = ["demo"]\n[hooks.privacy]\nuse = "redaction"'), {}))
    request = Request(messages=(user("Mail anna@example.org now"),), stream=stream)
    seen = send_blocking(app, request_of(dialect, "demo/any", request))
    assert "anna@example.org" in response_of(dialect, request, seen).text
    assert any("personal data" in notice for notice in seen.notices)


def test_a_long_text_takes_no_long_time() -> None:
    _, call = redacted("a" * 200_000 + " 1" * 50_000 + "." * 50_000 + " x@y.org")
    assert call.request.messages[0].text.endswith("<EMAIL_1>")
