"""What we make of the answers: tapes of streams, bodies and errors."""

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ContextTooLong,
    DragomanError,
    Malformed,
    MalformedToolCall,
    ModelNotFound,
    Overloaded,
    RateLimited,
    ServerFault,
    TooLarge,
    Truncated,
)
from dragoman.events import Assembler, Event, PartDelta, PartEnded, PartStarted, Started, fold
from dragoman.http import Head
from dragoman.types import (
    UNKNOWN_USAGE,
    Citation,
    Finish,
    Image,
    Message,
    Notice,
    Opaque,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    TokenLogprob,
    ToolCall,
    Usage,
    assistant,
    user,
)
from dragoman.wires.common.framing import SseDecoder
from dragoman.wires.common.stream_decoder import FramedStreamDecoder
from dragoman.wires.openai_chat import WIRE
from dragoman.wires.openai_chat.decoder import ChatDecoder
from tests.support.clock import slowness
from tests.support.wires import laws

TAPES = Path(__file__).parent / "tapes"
HI = Text(text="Hi")
USED = Usage(input=9, output=4)
STOP = Finish(reason="stop", raw="stop")
CALLED = Finish(reason="tool_calls", raw="tool_calls")


def tide(id: str, port: str, raw: str | None = None) -> ToolCall:
    return ToolCall(id=id, name="tide", arguments={"port": port}, raw=raw)


def now(id: str, **extra: Any) -> ToolCall:
    return ToolCall(id=id, name="now", extra={"openai_chat": extra} if extra else {})


def thought(text: str, *fields: str, **more: Any) -> Thinking:
    return Thinking(text=text, extra={"openai_chat": {**({"fields": list(fields)} if fields else {}), **more}})


def read(name: str, request: Request | None = None) -> tuple[list[Event], DragomanError | None]:
    return laws.read(WIRE.client.stream_decoder(request), [(TAPES / f"{name}.sse").read_bytes()])


def played(name: str) -> Response:
    events, error = read(name)
    assert error is None
    laws.obeys_grammar(events)
    return fold(events)


SIX = Text(text="At six.")
TEXTS = [
    "azure",
    "comments_crlf",
    "event_names",
    "lines_split",
    "moderation_after_usage",
    "no_blank_lines",
    "no_done",
    "no_usage",
    "usage_beside",
    "usage_in_choice",
    "usage_in_every_chunk",
    "usage_on_finish",
    "finish_eos",
    "finish_model_length",
    "finish_unknown",
    "empty_fields",
]
PARTS: dict[str, tuple[Part, ...]] = {
    **dict.fromkeys(TEXTS, (HI,)),
    "hello": (Text(text="High tide at six, über Null."),),
    "only_done": (),
    "finish_early": (Text(text="Hi there"),),
    "content_object": (Text(text='{"height":4}'),),
    "content_filter": (Text(text="I"),),
    "choices": (Text(text="One"),),
    "calls_in_fragments": (tide("call_a", "Brest", '{"port": "Brest"}'), tide("call_b", "Cork")),
    "calls_interleaved": (tide("call_a", "Brest"), ToolCall(id="call_b", name="wind", arguments={"kn": 7})),
    "calls_whole": (Text(text="Let me see."), tide("fc_1", "Brest")),
    "calls_out_of_order": (ToolCall(id="call_b", name="wind"), ToolCall(id="call_a", name="tide")),
    "calls_reuse_index": (tide("call_a", "Brest"), tide("call_b", "Cork")),
    "calls_reuse_index_in_fragments": (ToolCall(id="call_a", name="tide"), tide("call_b", "Cork")),
    "calls_reuse_index_no_id": (tide("call_1", "Brest"), tide("call_2", "Cork"), now("call_3")),
    "calls_no_index": (tide("aB3dE6gH9", "Brest", '{"port": "Brest"}'), now("kL2mN5pQ8")),
    "calls_no_index_in_fragments": (
        tide("call_a", "Brest"),
        ToolCall(id="call_b", name="wind", arguments={"knots": 7}),
    ),
    "calls_no_index_no_id": (now("call_1"), now("call_2"), tide("call_3", "Cork")),
    "calls_no_id": (tide("call_1", "Brest"), tide("call_2", "Cork")),
    "calls_same_id": (tide("null", "Brest"), tide("call_2", "Cork")),
    "calls_new_id_each_chunk": (tide("t-1", "Brest"),),
    "calls_id_late": (ToolCall(id="call_a", name="tide"),),
    "calls_repeat_name": (tide("call_a", "Brest"),),
    "calls_number_ids": (now("17"),),
    "calls_object_arguments": (tide("call_a", "Brest"),),
    "calls_finish_stop": (now("call_a"),),
    "calls_cut_by_length": (tide("call_a", "Brest"),),
    "calls_signed": (now("call_a", extra_content={"google": {"thought_signature": "c2ln"}}),),
    "custom_calls": (
        ToolCall(
            id="call_a",
            name="sql",
            arguments={"input": 'select "1"'},
            extra={"openai_chat.verbatim": {"type": "custom"}},
        ),
        now("call_b"),
    ),
    "custom_calls_cut": (
        ToolCall(
            id="call_a", name="sql", arguments={"input": "select 1"}, extra={"openai_chat.verbatim": {"type": "custom"}}
        ),
    ),
    "custom_twin_is_empty": (now("call_a"),),
    "function_call": (
        ToolCall(id="call_1", name="tide", arguments={"port": "Brest"}, extra={"openai_chat": {"function_call": True}}),
    ),
    "reasoning": (thought("Need tide.", "reasoning"), SIX),
    "reasoning_content": (thought("Need tide.", "reasoning_content"), SIX),
    "reasoning_in_both_fields": (thought("Need tide.", "reasoning_content", "reasoning"), SIX),
    "reasoning_beside_an_empty_field": (thought("Need tide.", "reasoning"), SIX),
    "reasoning_between_texts": (Text(text="First."), thought("Hm.", "reasoning"), Text(text="Then.")),
    "reasoning_blank_before_a_call": (thought("", "reasoning_content"), now("call_a")),
    "thinking_list": (thought("Need tide.", "content", chunk={"closed": True}), SIX),
    "reference_in_list": (
        Text(text="At six"),
        Opaque(wire="openai_chat", data={"type": "reference", "reference_ids": [3]}),
        Text(text=", says the table."),
    ),
    "details": (
        thought(
            "Need tide.",
            "reasoning",
            details=[
                {"type": "reasoning.text", "text": "Need tide.", "index": 0, "format": "f-1", "signature": "c2ln"}
            ],
        ),
        SIX,
    ),
    "details_late": (
        SIX,
        Thinking(
            text="",
            redacted=True,
            extra={
                "openai_chat": {"details": [{"type": "reasoning.encrypted", "data": "AAAA", "index": 0, "id": "rs_1"}]}
            },
        ),
    ),
    "details_of_calls": (
        Thinking(
            text="",
            redacted=True,
            extra={
                "openai_chat": {
                    "details": [
                        {"type": "reasoning.encrypted", "data": "AAAA", "index": 0, "id": "call_a"},
                        {"type": "reasoning.encrypted", "data": "BBBB", "index": 0, "id": "call_b"},
                        {"type": "reasoning.summary", "summary": "Tide"},
                        {"type": "reasoning.summary", "summary": "Wind", "index": 7},
                    ]
                }
            },
        ),
        now("call_a"),
        now("call_b"),
    ),
    "refusal": (Text(text="I cannot do that.", extra={"openai_chat": {"refusal": True}}),),
    "logprobs": (
        Text(
            text="Hi!",
            logprobs=(TokenLogprob(token="Hi", logprob=-0.1), TokenLogprob(token="!", logprob=-0.2)),
        ),
    ),
    "logprobs_without_text": (now("call_a"),),
    "annotations": (
        Text(
            text="At six.",
            extra={
                "openai_chat": {
                    "annotations": [
                        {"type": "url_citation", "url_citation": {"url": "https://example.org/a"}},
                        {"type": "url_citation", "url_citation": {"url": "https://example.org/b"}},
                    ]
                }
            },
            citations=(Citation(url="https://example.org/a"), Citation(url="https://example.org/b")),
        ),
    ),
    "citations": (
        Text(
            text="At six.",
            extra={
                "openai_chat": {
                    "citations": ["https://example.org/a", "https://example.org/b"],
                    "search_results": [{"url": "https://example.org/a"}],
                }
            },
            citations=(Citation(url="https://example.org/a"), Citation(url="https://example.org/b")),
        ),
    ),
    "audio": (
        Opaque(
            wire="openai_chat",
            data={
                "audio": {
                    "id": "audio_1",
                    "transcript": "At six.",
                    "data": "UklGRg==",
                    "expires_at": 1794700060,
                }
            },
        ),
    ),
    "images": (
        Text(text="Here."),
        Image(data=b"\x89PNG\r\n\x1a\n", mime="image/png", extra={"openai_chat": {"index": 0}}),
        Opaque(wire="openai_chat", data={"images": [{"type": "image_ref", "id": "img_2"}]}),
    ),
    "body_in_place_of_a_stream": (
        thought("Need tide.", "reasoning_content"),
        Text(text="Let me see."),
        tide("call_a", "Brest", '{"port": "Brest"}'),
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_tape_gives_its_parts(name: str) -> None:
    assert played(name).message == Message(role="assistant", parts=PARTS[name])


BROKEN: dict[str, tuple[type[DragomanError], str, tuple[Part, ...]]] = {
    "no_done_no_usage": (
        Truncated,
        "openai_chat: the connection closed before the stream was complete (no finish_reason or [DONE])",
        (HI,),
    ),
    "no_end": (
        Truncated,
        "openai_chat: the connection closed before the stream was complete (no finish_reason or [DONE])",
        (Text(text="Hi there"),),
    ),
    "finish_early_then_cut": (
        Truncated,
        "openai_chat: the connection closed before the stream was complete (no finish_reason or [DONE])",
        (Text(text="Hi there"),),
    ),
    "calls_after_finish": (
        Truncated,
        "openai_chat: the connection closed before the stream was complete (no finish_reason or [DONE])",
        (HI,),
    ),
    "body_cut_in_place_of_a_stream": (Truncated, "the connection closed in the middle of an event: ", ()),
    "calls_malformed": (
        MalformedToolCall,
        'arguments of tide are not a JSON object: {"port":Brest}',
        (Text(text="One moment."),),
    ),
    "calls_array_arguments": (MalformedToolCall, "arguments of tide are not a JSON object: [1]", ()),
    "content_list_of_numbers": (Malformed, "openai_chat: content must be text or a list of parts", ()),
    "image_broken": (Malformed, "openai_chat: images: url must be data:<type>;base64,<data>", ()),
    "not_json": (Malformed, "cannot decode an event", (HI,)),
    "error_object": (ServerFault, "Upstream failed", (HI,)),
    "error_string": (ServerFault, "the engine died", (HI,)),
    "error_event": (BadRequest, "Tool call validation failed", ()),
    "error_event_of_words": (ServerFault, "out of memory", (HI,)),
    "error_line": (ServerFault, "slot lost", (HI,)),
    "error_flat": (RateLimited, "Service tier capacity exceeded", (HI,)),
    "error_detail": (AuthFailed, "Not authenticated", ()),
    "error_in_choice": (RateLimited, "slow down", (HI,)),
    "error_finish": (Overloaded, "the server aborted the response: insufficient_system_resource", (HI,)),
    "error_context": (ContextTooLong, "This model's maximum context length is 8192 tokens.", ()),
    "error_in_place_of_a_stream": (ModelNotFound, "no such model", ()),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_tape_gives_what_came_before_and_its_error(name: str) -> None:
    kind, message, parts = BROKEN[name]
    events, error = read(name)
    assert type(error) is kind
    assert str(error).startswith(message)
    assert fold(events).message.parts == parts


def test_every_tape_is_played() -> None:
    assert {path.stem for path in TAPES.glob("*.sse")} == PARTS.keys() | BROKEN.keys()


FINISHES = {
    "hello": STOP,
    "only_done": Finish(reason="other"),
    "empty_fields": Finish(reason="other"),
    "finish_early": STOP,
    "finish_eos": Finish(reason="stop", raw="eos"),
    "finish_model_length": Finish(reason="length", raw="model_length"),
    "finish_unknown": Finish(reason="other", raw="lunch", extra={"openai_chat": {"finish_reason": "lunch"}}),
    "content_filter": Finish(reason="blocked", raw="content_filter"),
    "refusal": Finish(reason="blocked", raw="stop"),
    "calls_whole": CALLED,
    "calls_finish_stop": Finish(reason="tool_calls", raw="stop"),
    "calls_cut_by_length": Finish(reason="length", raw="length"),
    "function_call": Finish(reason="tool_calls", raw="function_call"),
}


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "stop"),
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("tool_use", "tool_calls"),
        ("sensitive", "blocked"),
        ("incomplete", "length"),
    ],
)
def test_servers_have_other_words_for_the_end(word: str, reason: str) -> None:
    assert answered(body({"content": "Hi"}, finish=word)).finish.reason == reason


@pytest.mark.parametrize("name", FINISHES)
def test_a_finish_keeps_the_servers_own_word(name: str) -> None:
    assert played(name).finish == FINISHES[name]


USAGES = {
    "hello": Usage(input=9, output=4, cache_read=8, cache_write=1, reasoning=2),
    "moderation_after_usage": USED,
    "usage_on_finish": USED,
    "usage_beside": USED,
    "usage_in_choice": USED,
    "usage_in_every_chunk": Usage(input=9, output=3),
    "no_usage": UNKNOWN_USAGE,
}


@pytest.mark.parametrize("name", USAGES)
def test_usage_is_found_wherever_it_stands(name: str) -> None:
    assert played(name).usage == USAGES[name]


NOTICES = {
    "logprobs_without_text": Notice(kind="dropped", what="logprobs", why="the response has no text that it belongs to"),
    "calls_cut_by_length": Notice(
        kind="dropped", what="tool call tide", why='the length limit cut its arguments off: {"port":"Co'
    ),
    "custom_calls_cut": Notice(
        kind="dropped", what="tool call sql", why='the length limit cut its arguments off: {"input":"delete from t"'
    ),
}


@pytest.mark.parametrize("name", NOTICES)
def test_what_is_left_out_is_told(name: str) -> None:
    assert played(name).notices == (NOTICES[name],)


def test_the_head_of_an_answer_is_told_once() -> None:
    events, _ = read("azure")
    assert events[0] == Started(id="chatcmpl-7", model="m-1", created=1794700000)
    assert sum(isinstance(event, Started) for event in events) == 1


def test_an_empty_head_is_not_told() -> None:
    assert read("empty_fields")[0][0] == Started(model="m-1")


def ended(name: str) -> Response:
    """The response of a tape whose body is complete by HTTP's own rules."""
    decoder = WIRE.client.stream_decoder()
    return fold([*decoder.feed((TAPES / f"{name}.sse").read_bytes()), *decoder.end()])


def test_a_stream_that_ends_cleanly_after_its_finish_reason_is_whole() -> None:
    _, error = read("no_done_no_usage")
    assert isinstance(error, Truncated)  # the connection closed: it may be a cut
    response = ended("no_done_no_usage")
    assert response.finish == STOP
    [notice] = response.notices
    assert (notice.kind, notice.what) == ("info", "end of the stream")
    assert response.usage.source == "unknown"


def test_a_clean_end_with_usage_needs_no_notice_and_without_a_finish_reason_it_is_a_cut() -> None:
    assert ended("no_done").notices == ()
    with pytest.raises(Truncated):
        ended("no_end")
    with pytest.raises(Truncated):
        ended("finish_early_then_cut")


def chunks(*deltas: dict[str, Any]) -> bytes:
    """A stream of these deltas."""
    last: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    frames: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in [*frames, last]) + b"data: [DONE]\n\n"


def calls_of(*calls: dict[str, Any]) -> list[ToolCall]:
    events, error = laws.read(WIRE.client.stream_decoder(), [chunks(*({"tool_calls": [call]} for call in calls))])
    assert error is None
    return list(fold(events).tool_calls)


WHOLE_CALL = {"index": 0, "id": "a", "function": {"name": "tide", "arguments": '{"port":"Brest"}'}}


def test_a_repeated_call_is_one_call() -> None:
    assert calls_of(WHOLE_CALL, WHOLE_CALL, WHOLE_CALL) == [tide("a", "Brest")]


def test_calls_that_differ_in_id_or_arguments_are_several() -> None:
    other = {**WHOLE_CALL, "id": "b"}
    assert [call.id for call in calls_of(WHOLE_CALL, other)] == ["a", "b"]
    elsewhere = {**WHOLE_CALL, "function": {"name": "tide", "arguments": '{"port":"Cork"}'}}
    assert [call.arguments["port"] for call in calls_of(WHOLE_CALL, elsewhere)] == ["Brest", "Cork"]
    without_id, without_index = {**WHOLE_CALL, "id": None}, {**WHOLE_CALL, "index": None}
    assert len(calls_of(without_id, without_id)) == 2
    assert len(calls_of(without_index, without_index)) == 1


def test_a_repeated_call_after_the_finish_reason_does_not_open_the_answer_again() -> None:
    whole = chunks({"tool_calls": [WHOLE_CALL]}).removesuffix(b"data: [DONE]\n\n")
    again = whole.partition(b"\n\n")[0] + b"\n\n"
    decoder = WIRE.client.stream_decoder()
    assert fold([*decoder.feed(whole + again), *decoder.end()]).tool_calls == (tide("a", "Brest"),)


STORY = Request(messages=(user("A long story of ships and tides. " * 2000),))


def counted(request: Request, **usage: Any) -> Response:
    choice = {"message": {"content": "Hi"}, "finish_reason": "stop"}
    return fold(WIRE.client.decode_body(json.dumps({"choices": [choice], "usage": usage}).encode(), request))


def test_a_prompt_that_the_server_cut_silently_is_a_notice() -> None:
    [notice] = counted(STORY, prompt_tokens=4095, completion_tokens=1).notices
    assert (notice.kind, notice.what) == ("dropped", "a part of the prompt")
    assert notice.why == "openai_chat: it read only 4095 tokens of the prompt; shorten the prompt"
    with pytest.raises(Truncated, match="the prompt was cut"):
        counted(msgspec.structs.replace(STORY, strict=True), prompt_tokens=4095)


def test_a_prompt_that_was_read_is_no_notice() -> None:
    assert counted(STORY, prompt_tokens=14000).notices == ()


def test_a_server_that_reports_no_tokens_did_not_cut_the_prompt() -> None:
    assert counted(STORY, prompt_tokens=0, completion_tokens=0).notices == ()
    assert counted(STORY, completion_tokens=1).notices == ()
    cached = {"cached_tokens": 13000}
    assert counted(STORY, prompt_tokens=1000, prompt_tokens_details=cached).notices == ()


def test_a_call_is_shown_whole_and_only_once() -> None:
    events, _ = read("calls_in_fragments")
    assert not any(isinstance(event, PartDelta) for event in events)
    assert [event.index for event in events if isinstance(event, PartEnded)] == [0, 1]


def test_text_is_shown_as_it_comes() -> None:
    events, _ = read("hello")
    assert [event.text for event in events if isinstance(event, PartDelta)] == ["High tide ", "at six, über Null."]


def test_a_refusal_is_known_as_such_from_its_start() -> None:
    events, _ = read("refusal")
    assert events[1] == PartStarted(index=0, kind="text", extra={"openai_chat": {"refusal": True}})


def test_made_up_ids_go_on_from_the_conversation() -> None:
    request = Request(messages=(assistant(now("call_1"), now("call_2")),))
    events, _ = read("calls_no_id", request)
    assert [call.id for call in fold(events).tool_calls] == ["call_3", "call_4"]


def test_a_malformed_call_says_what_it_was_and_what_it_cost() -> None:
    _, error = read("calls_malformed")
    assert isinstance(error, MalformedToolCall)
    assert (error.id, error.name, error.text, error.usage) == ("call_a", "tide", '{"port":Brest}', USED)


def test_a_failure_says_what_it_cost() -> None:
    _, error = read("error_object")
    assert error is not None
    assert error.usage == Usage(input=9, source="partial")


def test_a_model_that_missed_the_schema_of_a_tool_may_try_again() -> None:
    _, error = read("error_event")
    assert error is not None
    assert (error.status, error.code, error.retry, error.fail_over) == (400, "tool_use_failed", True, True)


@pytest.mark.parametrize("word", ["stop", "error"])
def test_a_mistake_of_the_model_behind_openrouter_has_the_word_of_its_provider(word: str) -> None:
    reasons = {"finish_reason": word, "native_finish_reason": "MALFORMED_FUNCTION_CALL"}
    body = json.dumps({"choices": [{"index": 0, "message": {"content": "}]})"}, **reasons}]}).encode()
    assert WIRE.client.decode_response(body, None).finish.raw == "MALFORMED_FUNCTION_CALL"
    assert WIRE.client.decode_response(body, None).finish.reason == "other"


@pytest.mark.parametrize(("word", "counts"), [("MALFORMED_FUNCTION_CALL", False), (None, True)])
def test_an_error_for_a_mistake_of_the_model_is_no_failure_of_openrouter(word: str | None, *, counts: bool) -> None:
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "stop", "native_finish_reason": word}
    error = {"message": "Provider returned error", "code": 502}
    decoder = WIRE.client.stream_decoder()
    with pytest.raises(ServerFault) as caught:
        decoder.feed(b"data: " + json.dumps({"choices": [choice], "error": error}).encode() + b"\n\n")
    assert caught.value.count_failure is counts


def test_context_overflow_has_its_numbers_in_a_stream_too() -> None:
    _, error = read("error_context")
    assert isinstance(error, ContextTooLong)
    assert (error.tokens, error.limit) == (9001, 8192)


def test_what_a_call_has_beside_our_words_is_kept_over_all_its_fragments() -> None:
    first = {"index": 0, "id": "c", "function": {"name": "now", "arguments": "", "y": 2}, "x": 1}
    more = {"index": 0, "function": {"arguments": "{}", "y": None}, "x": None, "z": 3}
    chunks = [json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]}).encode() for call in (first, more)]
    data = b"".join(b"data: %b\n\n" % chunk for chunk in (*chunks, b"[DONE]"))
    events, _ = laws.read(WIRE.client.stream_decoder(), [data])
    assert fold(events).tool_calls == (now("c", x=1, z=3, function={"y": 2}),)


def test_a_member_that_nobody_reads_may_be_spoilt() -> None:
    data = b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}],"\xdb":1}\n\ndata: [DONE]\n\n'
    events, error = laws.read(WIRE.client.stream_decoder(), [data])
    assert error is None
    assert fold(events).usage == Usage(source="unknown")


def test_a_call_that_is_not_what_the_protocol_says_is_malformed() -> None:
    with pytest.raises(Malformed, match="cannot decode a tool call"):
        WIRE.client.decode_body(body({"tool_calls": [{"index": [1]}]}))


def test_what_is_held_back_has_a_limit() -> None:
    reader = ChatDecoder(None)
    reader.out = Assembler(limit=300)
    image = {"type": "image_url", "image_url": {"url": "https://example.org/" + "a" * 200}}
    chunk = json.dumps({"choices": [{"delta": {"images": [image]}}]}).encode()
    decoder = FramedStreamDecoder(SseDecoder(), reader)
    decoder.feed(b"data: %b\n\n" % chunk)
    with pytest.raises(TooLarge):
        decoder.feed(b"data: %b\n\n" % chunk)


# Bodies ---------------------------------------------------------------------------------------------------------------


def body(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return json.dumps({"id": "chatcmpl-7", "model": "m-1", "choices": [choice], **more}).encode()


def answered(data: bytes) -> Response:
    events = WIRE.client.decode_body(data)
    laws.obeys_grammar(events)
    return fold(events)


@pytest.mark.parametrize("name", ["body", "body_after_blanks"])
def test_a_body_is_read_as_its_stream_would_be(name: str) -> None:
    response = answered((TAPES / f"{name}.json").read_bytes())
    assert response == played("body_in_place_of_a_stream")
    assert response == Response(
        id="chatcmpl-7",
        model="m-1",
        created=1794700000,
        message=Message(role="assistant", parts=PARTS["body_in_place_of_a_stream"]),
        finish=CALLED,
        usage=Usage(input=9, output=4, cache_read=8, reasoning=3),
        service_tier="default",
    )


def test_several_choices_are_read() -> None:
    response = played("choices")
    assert [(choice.text, choice.finish.reason) for choice in response.choices] == [
        ("One", "stop"),
        ("Two", "length"),
        ("Three", "stop"),
    ]
    assert response.notices == ()


def test_a_stream_is_cut_if_one_of_its_choices_has_no_end() -> None:
    usage = b',"usage":{"prompt_tokens":1,"completion_tokens":1}'
    first = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]%b}\n\n' % usage
    second = b'data: {"choices":[{"index":1,"delta":{"content":"b"}}]}\n\n'
    events, error = laws.read(WIRE.client.stream_decoder(), [first + second])
    assert isinstance(error, Truncated)
    ended = b'data: {"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}\n\n'
    events, error = laws.read(WIRE.client.stream_decoder(), [first + second + ended])
    assert error is None
    assert [choice.text for choice in fold(events).choices] == ["a", "b"]


def test_more_choices_than_a_request_may_ask_for_are_malformed() -> None:
    choices = [{"index": index, "message": {"content": "a"}, "finish_reason": "stop"} for index in range(200)]
    with pytest.raises(Malformed, match="more than 128 choices"):
        answered(json.dumps({"choices": choices}).encode())


def test_log_probabilities_in_the_form_of_the_completions_api_are_read() -> None:
    logprobs = {"tokens": ["a", "b", 3], "token_logprobs": [-1, None, -2], "token_ids": [5, 6, 7]}
    choice = {"index": 0, "message": {"content": "ab"}, "finish_reason": "stop", "logprobs": logprobs}
    assert answered(json.dumps({"choices": [choice]}).encode()).logprobs == (TokenLogprob(token="a", logprob=-1.0),)


def test_a_refusal_is_no_finish_reason() -> None:
    response = answered(body({"content": None, "refusal": "No."}))
    assert response.message == assistant(Text(text="No.", extra={"openai_chat": {"refusal": True}}))
    assert response.finish == Finish(reason="blocked", raw="stop")


def test_details_of_one_body_are_not_joined() -> None:
    details = [{"type": "reasoning.summary", "summary": word, "index": 0} for word in ("Tide", "Wind")]
    response = answered(body({"content": "Hi", "reasoning": "Tide Wind", "reasoning_details": details}))
    assert response.message == assistant(thought("Tide Wind", "reasoning", details=details), HI)


def test_a_body_with_a_delta_in_place_of_a_message_is_read() -> None:
    assert answered(b'{"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}').text == "Hi"


def test_no_choice_at_all_is_an_empty_answer() -> None:
    assert answered(b'{"choices":[]}').is_empty


@pytest.mark.parametrize("created", ["2026-11-14", True, 0, None])
def test_what_is_no_moment_is_not_told(created: object) -> None:
    assert answered(body({"content": "Hi"}, created=created)).created is None


USAGE_SHAPES: list[tuple[dict[str, Any], Usage]] = [
    ({}, Usage()),
    ({"prompt_tokens": 9, "prompt_tokens_details": [], "completion_tokens_details": None}, Usage(input=9)),
    ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": True}}, Usage(input=9)),
    ({"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 3}, Usage(input=9, output=4, cache_read=3)),
    ({"prompt_tokens": 9, "num_cached_tokens": 3}, Usage(input=9, cache_read=3)),
    ({"prompt_tokens": 9, "cached_input_tokens": 3}, Usage(input=9, cache_read=3)),
    ({"cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}, Usage(cache_read=3, cache_write=2)),
    ({"prompt_tokens": 9, "completion_tokens": 4, "reasoning_tokens": 2}, Usage(input=9, output=4, reasoning=2)),
    (
        {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8}, "prompt_cache_hit_tokens": 1},
        Usage(input=9, cache_read=8),
    ),
    (
        {
            "prompt_tokens": 9,
            "completion_tokens": 4,
            "total_tokens": 19,
            "completion_tokens_details": {"reasoning_tokens": 6},
        },
        Usage(input=9, output=10, reasoning=6),
    ),
    (
        {
            "prompt_tokens": 9,
            "completion_tokens": 10,
            "total_tokens": 19,
            "completion_tokens_details": {"reasoning_tokens": 6},
        },
        Usage(input=9, output=10, reasoning=6),
    ),
]


@pytest.mark.parametrize(("usage", "expected"), USAGE_SHAPES)
def test_usage_is_totals_and_portions(usage: dict[str, Any], expected: Usage) -> None:
    assert answered(body({"content": "Hi"}, usage=usage)).usage == expected


FAILURES: list[tuple[str, type[DragomanError], str]] = [
    ('{"error":{"message":"busy","type":"overloaded_error"}}', Overloaded, "busy"),
    ('{"error":{"code":429,"message":"slow down"},"user_id":"u"}', RateLimited, "slow down"),
    ('{"error":"Unexpected endpoint"}', ServerFault, "Unexpected endpoint"),
    ('{"errors":[{"message":"AiError","code":5006}],"success":false}', ServerFault, "AiError"),
    ('{"code":"Client specified an invalid argument","error":"Incorrect"}', ServerFault, "Incorrect"),
    ('{"object":"error","message":"no such model","type":"NotFoundError","code":404}', ModelNotFound, "no such model"),
    ('{"message":"Requests rate limit exceeded","code":"1300"}', RateLimited, "Requests rate limit exceeded"),
    ('{"detail":"Unauthorized","code":401}', AuthFailed, "Unauthorized"),
    ('{"detail":[{"loc":["body"],"msg":"bad"}],"code":422}', BadRequest, "body: bad"),
    ('{"choices":null,"base_resp":{"status_code":1004,"status_msg":"login fail"}}', AuthFailed, "login fail"),
    ('{"choices":null,"base_resp":{"status_code":1008,"status_msg":"no money"}}', RateLimited, "no money"),
    ('{"choices":[],"base_resp":{"status_code":1027,"status_msg":"sensitive"}}', Blocked, "sensitive"),
    ('{"choices":null,"base_resp":{"status_code":1000}}', ServerFault, "no message"),
    ('{"choices":[{"message":{},"error":{"code":502,"message":"upstream"}}]}', ServerFault, "upstream"),
    (
        '{"choices":[{"message":{"content":"Hi"},"finish_reason":"error"}]}',
        ServerFault,
        "the server aborted the response: error",
    ),
    ('{"choices":null}', Malformed, "openai_chat: the body has no choices"),
    ('{"object":"list","data":[]}', Malformed, "openai_chat: the body has no choices"),
    ("[1]", Malformed, "cannot decode the body"),
    ("<html>", Malformed, "cannot decode the body"),
    ("", Truncated, "cannot decode the body"),
    ('{"choices":[', Truncated, "cannot decode the body"),
]


@pytest.mark.parametrize(("text", "kind", "message"), FAILURES)
def test_an_error_behind_a_200_is_an_error(text: str, kind: type[DragomanError], message: str) -> None:
    with pytest.raises(kind) as caught:
        WIRE.client.decode_body(text.encode())
    assert type(caught.value) is kind
    assert str(caught.value).startswith(message)


def test_a_good_base_is_no_error() -> None:
    assert answered(body({"content": "Hi"}, base_resp={"status_code": 0, "status_msg": ""})).text == "Hi"


def test_a_server_that_broke_off_says_what_it_cost() -> None:
    data = body({"content": "Hi"}, "error", usage={"prompt_tokens": 9, "completion_tokens": 4})
    with pytest.raises(ServerFault) as caught:
        WIRE.client.decode_body(data)
    assert caught.value.usage == USED


def test_a_body_that_cannot_be_read_says_what_it_cost() -> None:
    data = body({"content": [1]}, usage={"prompt_tokens": 9, "completion_tokens": 4})
    with pytest.raises(Malformed) as caught:
        WIRE.client.decode_body(data)
    assert caught.value.usage == Usage(input=9, output=4, source="partial")


REFUSED: list[tuple[int, dict[str, str], Any, type[DragomanError], dict[str, Any]]] = [
    (429, {}, {"error": {"message": "x", "code": "rate_limit_exceeded"}}, RateLimited, {"retry": True}),
    (429, {}, {"error": {"message": "x", "code": "insufficient_quota"}}, RateLimited, {"retry": False}),
    (402, {}, {"error": {"message": "x"}}, RateLimited, {"retry": False}),
    (498, {}, {"error": {"code": "capacity_exceeded", "message": "x"}}, Overloaded, {"retry": True}),
    (524, {}, "<html>", ServerFault, {"retry": True}),
    (400, {}, {"code": "Client specified", "error": "Incorrect API key provided: k"}, AuthFailed, {"fail_over": True}),
    (400, {}, {"error": {"code": "tool_use_failed", "message": "x"}}, BadRequest, {"retry": True}),
    (
        400,
        {},
        {"error": {"code": "content_filter", "message": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
        Blocked,
        {"fail_over": False},
    ),
    (
        400,
        {},
        {"error": {"code": 400, "message": "x", "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}},
        ContextTooLong,
        {"tokens": 9, "limit": 8},
    ),
    (404, {}, {"error": {"code": "DeploymentNotFound", "message": "x"}}, ModelNotFound, {"fail_over": True}),
    (429, {"retry-after": "1.5"}, {"message": "Requests rate limit exceeded"}, RateLimited, {"retry_after": 1.5}),
    (429, {"retry-after-ms": "250"}, {"error": {"message": "x"}}, RateLimited, {"retry_after": 0.25}),
    (429, {"x-ratelimit-reset-requests": "6m0s"}, {"error": "x"}, RateLimited, {"retry_after": 360.0}),
    (401, {}, {"detail": "Unauthorized"}, AuthFailed, {"message": "Unauthorized"}),
    (503, {}, {"fault": {"faultstring": "x", "message": "down"}}, Overloaded, {"message": "down"}),
]


@pytest.mark.parametrize(("status", "headers", "data", "kind", "facts"), REFUSED)
def test_a_refusal_is_typed_by_code_and_status(
    status: int, headers: dict[str, str], data: Any, kind: type[DragomanError], facts: dict[str, Any]
) -> None:
    encoded = data if isinstance(data, str) else json.dumps(data)
    error = WIRE.client.decode_error(Head(status=status, headers=headers), encoded.encode())
    assert type(error) is kind
    assert {name: getattr(error, name) for name in facts} == facts
    assert error.status == status


def fragments_of(*calls: dict[str, Any]) -> tuple[list[Event], DragomanError | None]:
    """The events of some fragments of calls, with the fragments themselves."""
    decoder = WIRE.client.stream_decoder()
    decoder.call_deltas = True
    return laws.read(decoder, [chunks(*({"tool_calls": [call]} for call in calls))])


def test_the_start_of_a_call_has_what_its_first_fragment_says() -> None:
    signed = {**WHOLE_CALL, "extra_content": {"google": {"thought_signature": "s"}}}
    events, error = fragments_of(signed)
    assert error is None
    started = next(event for event in events if isinstance(event, PartStarted))
    assert started.extra == {"openai_chat": {"extra_content": {"google": {"thought_signature": "s"}}}}
    assert fold(events).tool_calls[0].extra == started.extra


NEXT_CALL = {**WHOLE_CALL, "index": 1, "id": "b"}


def test_a_call_that_has_ended_does_not_go_on() -> None:
    more = {"index": 0, "function": {"arguments": "}"}}
    assert isinstance(fragments_of(WHOLE_CALL, NEXT_CALL, more)[1], Malformed)
    empty = {"index": 0, "function": {"arguments": ""}}
    events, error = fragments_of(WHOLE_CALL, NEXT_CALL, empty)
    assert error is None
    assert [call.id for call in fold(events).tool_calls] == ["a", "b"]


def test_a_call_that_has_ended_and_comes_again_is_one_call() -> None:
    events, error = fragments_of(WHOLE_CALL, NEXT_CALL, WHOLE_CALL)
    assert error is None
    assert [call.id for call in fold(events).tool_calls] == ["a", "b"]
    other = {**WHOLE_CALL, "function": {"name": "tide", "arguments": '{"port":"Cork"}'}}
    assert len(fold(fragments_of(WHOLE_CALL, NEXT_CALL, other)[0]).tool_calls) == 3


def test_many_calls_without_an_index_are_read_in_linear_time() -> None:
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for n in range(20_000)]
    start = time.process_time()
    events, error = fragments_of(*calls)
    assert time.process_time() - start < 4 * slowness()  # it was 20 s
    assert (error, len(fold(events).tool_calls)) == (None, 20_000)
