"""Answers and errors of generateContent become events."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    DragomanError,
    Malformed,
    MalformedToolCall,
    ModelNotFound,
    Overloaded,
    RateLimited,
    TooLarge,
    Truncated,
)
from dragoman.events import Assembler, Event, PartDelta, PartEnded, PartStarted, Started, fold
from dragoman.http import Head, HttpRequest
from dragoman.targets.providers import target
from dragoman.targets.target import Target
from dragoman.types import (
    Audio,
    Citation,
    Finish,
    HostedCall,
    HostedResult,
    Image,
    JsonObject,
    Message,
    Notice,
    Opaque,
    Request,
    Response,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    tool_results,
    user,
)
from dragoman.wires.google import WIRE
from dragoman.wires.google.decoder import GeminiDecoder
from tests.support.wires import laws

TAPES = Path(__file__).parent / "tapes"
TARGET = target("google/gemini-x", api_key="k")
CALL = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})


def encode(request: Request, to: Target = TARGET) -> HttpRequest:
    return WIRE.client.encode_request(request, to)


def body(request: Request, to: Target = TARGET) -> JsonObject:
    decoded: JsonObject = msgspec.json.decode(encode(request, to).body)
    return decoded


def contents(*messages: Message, to: Target = TARGET) -> list[JsonObject]:
    found: list[JsonObject] = body(Request(messages=messages), to)["contents"]
    return found


def read(tape: str) -> Response:
    events, error = laws.read(WIRE.client.stream_decoder(), [(TAPES / tape).read_bytes()])
    assert error is None
    return fold(events)


def fail(tape: str) -> tuple[list[Event], DragomanError]:
    events, error = laws.read(WIRE.client.stream_decoder(), [(TAPES / tape).read_bytes()])
    assert error is not None
    return events, error


def answer(*parts: Any, **candidate: Any) -> Response:
    chunk = {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP", **candidate}]}
    return fold(WIRE.client.decode_body(msgspec.json.encode(chunk)))


# Answers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tape", ["hello.sse", "hello.array", "hello_done.sse"])
def test_a_text_comes_in_any_form(tape: str) -> None:
    response = read(tape)
    assert response.message == assistant("High water at six: née marée.")
    assert response.finish == Finish(reason="stop", raw="STOP")
    assert response.usage == Usage(input=9, output=11)
    assert (response.id, response.model) == ("rIdeEbb", "gemini-9-tide")


def test_a_whole_object_in_place_of_a_stream_is_read() -> None:
    assert read("hello_whole.array").text == "née marée."


def test_texts_are_deltas_of_one_part() -> None:
    events, _ = laws.read(WIRE.client.stream_decoder(), [(TAPES / "hello.sse").read_bytes()])
    assert events[:4] == [
        Started(id="rIdeEbb", model="gemini-9-tide"),
        PartStarted(index=0, kind="text"),
        PartDelta(index=0, text="High water "),
        PartDelta(index=0, text="at six: "),
    ]
    assert events[5] == PartEnded(index=0, part=Text(text="High water at six: née marée."))


def test_thoughts_and_calls() -> None:
    response = read("tools.sse")
    assert response.message.parts == (
        Thinking(text="**Two ports**\n\nI need both tides.", extra={"google": {}}),
        ToolCall(
            id="w71i0cbt",
            name="get_tide",
            arguments={"port": "Brest"},
            extra={"google": {"id": "w71i0cbt", "thoughtSignature": "CiQBsig1"}},
        ),
        ToolCall(id="p0aa91xe", name="get_tide", arguments={"port": "Cork"}, extra={"google": {"id": "p0aa91xe"}}),
    )
    ending = {"google": {"finishMessage": "Model generated function call(s)."}}
    assert response.finish == Finish(reason="tool_calls", raw="STOP", extra=ending)
    assert response.usage == Usage(input=120, output=111, reasoning=75)


def test_an_empty_id_is_none() -> None:
    (call,) = answer({"functionCall": {"name": "now", "id": ""}}).tool_calls
    assert call == ToolCall(id="call_1", name="now", extra={"google": {}})


def test_calls_without_ids_are_counted_over_the_conversation() -> None:
    request = Request(messages=(user("?"), assistant(CALL), tool_results(ToolResult(id="call_1"))))
    data = (TAPES / "tools_no_ids.sse").read_bytes()
    events, _ = laws.read(WIRE.client.stream_decoder(request), [data])
    assert fold(events).tool_calls == (
        ToolCall(id="call_2", name="get_tide", arguments={"port": "Brest"}, extra={"google": {}}),
        ToolCall(id="call_3", name="now", extra={"google": {}}),
    )


def test_an_empty_text_with_a_signature_is_a_part() -> None:
    assert read("signed_text.sse").message.parts == (
        Text(text="Ebb at noon."),
        Text(text="", extra={"google": {"thoughtSignature": "EpEBsig2"}}),
    )


def test_a_signature_stays_on_its_own_part() -> None:
    assert read("signed_middle.sse").message.parts == (
        Text(text="A"),
        Text(text="B", extra={"google": {"thoughtSignature": "c2lnQg=="}}),
        Text(text="C"),
        Thinking(text="D", extra={"google": {}}),
        Thinking(text="E", extra={"google": {"thoughtSignature": "c2lnRQ=="}}),
    )


def test_a_blocked_prompt_has_no_candidates() -> None:
    response = read("blocked_prompt.sse")
    feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "Not on this coast."}
    assert response.message.parts == ()
    assert response.finish == Finish(
        reason="blocked", raw="PROHIBITED_CONTENT", extra={"google": {"promptFeedback": feedback}}
    )
    assert response.usage == Usage(input=7, output=0)


@pytest.mark.parametrize(
    ("feedback", "raw"),
    [
        ({"blockReason": "JAILBREAK"}, "JAILBREAK"),
        ({"blockReasonMessage": "Not on this coast."}, None),
        ({"blockReason": "BLOCKED_REASON_UNSPECIFIED", "blockReasonMessage": "No."}, "BLOCKED_REASON_UNSPECIFIED"),
    ],
)
def test_a_prompt_may_be_blocked_with_or_without_a_word(feedback: JsonObject, raw: str | None) -> None:
    body = msgspec.json.encode({"candidates": [], "promptFeedback": feedback})
    finish = Finish(reason="blocked", raw=raw, extra={"google": {"promptFeedback": feedback}})
    assert fold(WIRE.client.decode_body(body)).finish == finish
    events, error = laws.read(WIRE.client.stream_decoder(), [b"data: %b\n\n" % body])
    assert error is None
    assert fold(events).finish == finish


@pytest.mark.parametrize("feedback", [{"safetyRatings": []}, {"blockReason": "BLOCK_REASON_UNSPECIFIED"}])
def test_what_is_told_of_a_prompt_blocks_nothing_by_itself(feedback: JsonObject) -> None:
    result = {"content": {"parts": [{"text": "Ebb."}]}, "finishReason": "STOP"}
    body = msgspec.json.encode({"candidates": [result], "promptFeedback": feedback})
    assert fold(WIRE.client.decode_body(body)).finish == Finish(reason="stop", raw="STOP")


def test_a_response_that_a_model_gives_is_kept_as_it_is() -> None:
    part = {"functionResponse": {"name": "tide", "response": {"output": "4.2 m"}}}
    assert answer(part).message.parts == (Opaque(wire="google", data=part),)


def test_a_thought_that_says_nothing_is_no_part() -> None:
    assert answer({"thought": True}, {"text": "Ebb."}).message.parts == (Text(text="Ebb."),)


def test_blank_events_are_passed_over() -> None:
    data = b"data:\n\n" + (TAPES / "blocked_prompt.sse").read_bytes()
    events, _ = laws.read(WIRE.client.stream_decoder(), [data])
    assert fold(events) == read("blocked_prompt.sse")


def test_what_is_told_of_a_blocked_answer_is_with_its_text() -> None:
    response = read("blocked_answer.sse")
    ratings = [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "HIGH", "blocked": True}]
    assert response.message.parts == (Text(text="First ", extra={"google": {"safetyRatings": ratings}}),)
    assert response.finish == Finish(reason="blocked", raw="SAFETY")


def test_all_tokens_may_be_thoughts() -> None:
    response = read("thought_out.sse")
    assert response.is_empty
    assert response.finish == Finish(reason="length", raw="MAX_TOKENS")
    assert response.usage == Usage(input=15, output=64, reasoning=64)


def test_grounding_and_citations_grow_with_the_text() -> None:
    response = read("grounded.sse")
    sources = [
        {"startIndex": 0, "endIndex": 4, "uri": "https://example.org/a"},
        {"startIndex": 5, "endIndex": 9, "uri": "https://example.org/b"},
    ]
    chunks = [{"web": {"uri": "https://example.org/a", "title": "Tides"}}]
    notes = {
        "groundingMetadata": {"webSearchQueries": ["neap tide"], "groundingChunks": chunks},
        "citationMetadata": {"citationSources": sources},
        "avgLogprobs": -0.25,
    }
    first, second = "https://example.org/a", "https://example.org/b"
    citations = (
        Citation(url=first, title="Tides"),
        Citation(url=first, start=0, end=4),
        Citation(url=second, start=5, end=9),
    )
    assert response.message.parts == (
        Text(text="Neap tides.", extra={"google": notes}, citations=citations),
        HostedCall(id="search", tool="web_search", arguments={"queries": ["neap tide"]}, extra={"google": {}}),
        HostedResult(id="search", tool="web_search", sources=citations[:1], extra={"google": {}}),
    )
    assert response.usage == Usage(input=52, output=4)


def test_notes_that_repeat_the_earlier_ones_are_not_doubled() -> None:
    queries = {"webSearchQueries": ["a"]}
    more = {"webSearchQueries": ["a", "b"]}
    chunks = [
        {"candidates": [{"content": {"parts": [{"text": "x"}]}, "groundingMetadata": queries}]},
        {"candidates": [{"groundingMetadata": more, "finishReason": "STOP"}]},
    ]
    response = fold(WIRE.client.decode_body(msgspec.json.encode(chunks)))
    assert response.message.parts[0] == Text(text="x", extra={"google": {"groundingMetadata": more}})


def test_of_a_note_that_is_no_list_the_last_stands() -> None:
    chunks = [
        {"candidates": [{"content": {"parts": [{"text": "x"}]}, "groundingMetadata": {"token": "a"}}]},
        {"candidates": [{"groundingMetadata": {"token": "b"}, "finishReason": "STOP"}]},
    ]
    response = fold(WIRE.client.decode_body(msgspec.json.encode(chunks)))
    assert response.message.parts == (Text(text="x", extra={"google": {"groundingMetadata": {"token": "b"}}}),)


def test_notes_without_a_text_are_with_the_finish() -> None:
    response = answer({"functionCall": {"name": "now"}}, avgLogprobs=-0.5)
    assert response.finish == Finish(reason="tool_calls", raw="STOP", extra={"google": {"avgLogprobs": -0.5}})


def test_notes_of_a_text_stay_with_it_when_a_call_follows() -> None:
    chunks = [
        {"candidates": [{"content": {"parts": [{"text": "x"}]}, "avgLogprobs": -0.5}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "now"}}]}, "finishReason": "STOP"}]},
    ]
    response = fold(WIRE.client.decode_body(msgspec.json.encode(chunks)))
    assert response.message.parts[0] == Text(text="x", extra={"google": {"avgLogprobs": -0.5}})


def test_blocks_of_server_tools_are_kept_in_their_place() -> None:
    assert read("code.sse").message.parts == (
        HostedCall(
            id="",
            tool="code_execution",
            arguments={"code": "print(6*7)"},
            extra={
                "google": {
                    "executableCode": {"language": "PYTHON", "code": "print(6*7)"},
                    "thoughtSignature": "c2lnMw==",
                }
            },
        ),
        HostedResult(
            id="",
            tool="code_execution",
            content="42\n",
            extra={"google": {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}}},
        ),
        Text(text="It is 42."),
    )


def test_pictures_of_the_model_are_images() -> None:
    assert read("picture.sse").message.parts == (
        Text(text="Here: "),
        Image(data=b"\x89PNG\r\n\x1a\n", mime="image/png", extra={"google": {"thoughtSignature": "c2lnNA=="}}),
    )


def test_a_picture_that_is_a_thought_is_no_answer() -> None:
    blob = {"mimeType": "image/png", "data": "iVBORw0KGgo="}
    assert read("thought_picture.sse").message.parts == (
        Opaque(wire="google", data={"inlineData": blob, "thought": True}, is_optional=True),
        Thinking(text="", redacted=True, extra={"google": {"thoughtSignature": "c2lnNg=="}}),
        Text(text="Done."),
    )


def test_partial_arguments_become_whole_calls() -> None:
    assert read("partial_arguments.sse").tool_calls == (
        ToolCall(
            id="q1",
            name="plan",
            arguments={
                "port": "Saint-Malo",
                "legs": [{"hours": 6, "night": False}, {"hours": 1.5}],
                "note": None,
                "tags": ["spring"],
            },
            extra={"google": {"id": "q1", "thoughtSignature": "c2lnNQ=="}},
        ),
        ToolCall(id="call_2", name="now", extra={"google": {}}),
        ToolCall(id="call_3", name="later", arguments={"days": 2}, extra={"google": {}}),
    )


def test_a_call_that_the_length_limit_cut_off_is_left_out() -> None:
    response = read("partial_cut.sse")
    assert response.tool_calls == ()
    why = 'the length limit cut its arguments off: {"port":"Saint-Malo"}'
    assert response.notices == (Notice(kind="dropped", what="tool call plan", why=why),)


def test_a_call_that_is_open_at_the_end_is_taken() -> None:
    response = answer({"functionCall": {"name": "now", "willContinue": True}})
    assert [call.name for call in response.tool_calls] == ["now"]


def test_partial_arguments_grow_where_there_is_text_and_replace_all_else() -> None:
    pieces: list[Any] = [
        {"jsonPath": "$.port", "stringValue": "rest"},
        {"jsonPath": "$.note", "stringValue": "neap"},
        {"jsonPath": "$.note", "numberValue": 4},
        {"jsonPath": "$.tags[0]", "stringValue": "a"},
        {"jsonPath": "$.tags[0]", "stringValue": "b"},
    ]
    call = {"name": "plan", "args": {"port": "B"}, "partialArgs": pieces}
    assert answer({"functionCall": call}).tool_calls[0].arguments == {"port": "Brest", "note": 4, "tags": ["ab"]}


def test_members_of_a_call_that_are_unknown_are_kept() -> None:
    response = answer({"functionCall": {"name": "now", "mood": "calm"}})
    assert response.tool_calls[0].extra == {"google": {"functionCall": {"mood": "calm"}}}


def test_partial_arguments_have_a_limit() -> None:
    reader = GeminiDecoder(None)
    reader.out = Assembler(limit=10)
    call = {"name": "now", "partialArgs": [{"jsonPath": "$.a", "stringValue": "x" * 11}]}
    with pytest.raises(TooLarge):
        reader.read_body(msgspec.json.encode({"candidates": [{"content": {"parts": [{"functionCall": call}]}}]}))


def test_calls_and_notes_have_a_limit() -> None:
    for candidate in ({"content": {"parts": [{"functionCall": {"name": "now"}}]}}, {"avgLogprobs": -0.123456789}):
        reader = GeminiDecoder(None)
        reader.out = Assembler(limit=10)
        with pytest.raises(TooLarge):
            reader.read_body(msgspec.json.encode({"candidates": [candidate]}))


def test_several_candidates_are_choices() -> None:
    response = read("two_candidates.sse")
    assert [choice.text for choice in response.choices] == ["first", "second"]
    assert response.notices == ()


def test_a_malformed_call_is_another_finish() -> None:
    ending = {"google": {"finishMessage": "Malformed function call: tide("}}
    assert read("malformed_call.sse").finish == Finish(reason="other", raw="MALFORMED_FUNCTION_CALL", extra=ending)


def test_what_is_unknown_is_tolerated() -> None:
    response = read("unknown.sse")
    assert response.message.parts == (
        Text(text="High water "),
        Opaque(wire="google", data={"futurePart": {"a": 1}}),
        Text(text=" yes"),
    )
    assert response.finish == Finish(reason="other", raw="NEW_REASON")


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "blocked"),
        ("RECITATION", "blocked"),
        ("IMAGE_SAFETY", "blocked"),
        ("MODEL_ARMOR", "blocked"),
        ("UNEXPECTED_TOOL_CALL", "other"),
        ("MISSING_THOUGHT_SIGNATURE", "other"),
        ("CONTINUATION", "pause"),
    ],
)
def test_finish_reasons(word: str, reason: Any) -> None:
    assert answer({"text": "x"}, finishReason=word).finish == Finish(reason=reason, raw=word)


def test_a_continuation_keeps_its_token() -> None:
    finish = answer({"text": "x"}, finishReason="CONTINUATION", continuationToken="dG9r").finish
    assert finish.extra == {"google": {"continuationToken": "dG9r"}}


def test_plain_texts_of_a_body_are_one_text() -> None:
    assert answer({"text": "a"}, {"text": "b"}).message == assistant("ab")


def test_a_body_in_snake_case_is_read() -> None:
    parts = ({"inline_data": {"mime_type": "audio/wav", "data": "UklGRg"}}, {"function_call": {"name": "now"}})
    assert answer(*parts).message.parts == (
        Audio(data=b"RIFF", mime="audio/wav"),
        ToolCall(id="call_1", name="now", extra={"google": {}}),
    )


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (
            {
                "promptTokenCount": "100",
                "cachedContentTokenCount": 60,
                "candidatesTokenCount": 5,
                "thoughtsTokenCount": 7,
                "toolUsePromptTokenCount": 20,
                "totalTokenCount": 132,
            },
            Usage(input=120, output=12, cache_read=60, reasoning=7),
        ),
        ({"promptTokenCount": 10, "totalTokenCount": 10}, Usage(input=10, output=0)),
        ({"promptTokenCount": 10}, Usage(input=10)),
        ({"candidatesTokenCount": 3}, Usage(output=3)),
        ({"trafficType": "ON_DEMAND"}, Usage(source="unknown")),
    ],
)
def test_usage(counts: JsonObject, usage: Usage) -> None:
    chunk = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": counts}
    assert fold(WIRE.client.decode_body(msgspec.json.encode(chunk))).usage == usage


@pytest.mark.parametrize(
    ("moment", "created"),
    [("2026-04-02T17:03:50.399550Z", 1775149430), ("2026-04-02T17:03:50", None), ("soon", None), (None, None)],
)
def test_the_time_of_an_answer(moment: str | None, created: int | None) -> None:
    chunk = {"candidates": [{"finishReason": "STOP"}], "createTime": moment}
    assert fold(WIRE.client.decode_body(msgspec.json.encode(chunk))).created == created


# Failures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tape", ["no_farewell.sse", "unspecified.sse"])
def test_a_stream_without_a_finish_reason_is_truncated(tape: str) -> None:
    events, error = fail(tape)
    assert isinstance(error, Truncated)
    assert isinstance(events[-1], PartDelta)


@pytest.mark.parametrize("data", [b"", b"  \r\n"])
def test_an_empty_stream_is_truncated(data: bytes) -> None:
    _, error = laws.read(WIRE.client.stream_decoder(), [data])
    assert isinstance(error, Truncated)


@pytest.mark.parametrize("tape", ["error_frame.sse", "error_bare.sse"])
def test_an_error_in_the_middle_of_a_stream(tape: str) -> None:
    events, error = fail(tape)
    assert isinstance(events[-1], PartDelta)
    assert isinstance(error, Overloaded)
    assert (error.status, error.usage) == (503, Usage(input=9, output=0, source="partial"))


def test_an_error_after_the_finish_reason_is_an_error() -> None:
    _, error = fail("error_after_stop.txt")
    assert isinstance(error, Overloaded)
    assert str(error) == "The model is overloaded. Try later."


def test_an_error_in_an_array_tells_when_to_come_back() -> None:
    _, error = fail("error_in_array.array")
    assert isinstance(error, RateLimited)
    assert error.retry_after == 1.5


def test_an_error_in_place_of_a_stream() -> None:
    _, error = fail("error_only.array")
    assert isinstance(error, AuthFailed)


@pytest.mark.parametrize("form", [b"%b", b"[%b]"])
def test_an_error_in_a_200(form: bytes) -> None:
    with pytest.raises(Overloaded, match="busy"):
        WIRE.client.decode_body(form % b'{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}')


@pytest.mark.parametrize("data", [b"{}", b'{"hello":1}', b"[]", b"<html>", b'"x"'])
def test_a_body_that_is_no_answer_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        WIRE.client.decode_body(data)


def test_a_body_that_breaks_off_is_truncated() -> None:
    with pytest.raises(Truncated):
        WIRE.client.decode_body(b'{"candidates":[{"content"')


def test_an_answer_without_candidates_is_empty() -> None:
    response = fold(WIRE.client.decode_body(b'{"usageMetadata":{"promptTokenCount":5,"totalTokenCount":5}}'))
    assert response.is_empty
    assert response.finish == Finish(reason="other")


def test_an_error_has_the_usage_that_was_told_before_it() -> None:
    chunk: JsonObject = {
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2},
        "candidates": [{"content": {"parts": [{"text": 1}]}}],
    }
    with pytest.raises(Malformed) as caught:
        WIRE.client.decode_body(msgspec.json.encode(chunk))
    assert caught.value.usage == Usage(input=3, output=2, source="partial")


def test_arguments_that_are_no_object_are_a_malformed_call() -> None:
    with pytest.raises(MalformedToolCall):
        answer({"functionCall": {"name": "now", "args": [1]}})


@pytest.mark.parametrize(
    "part", [{"inlineData": {"mimeType": "image/png", "data": "?"}}, {"text": 1}, {"inlineData": 1}]
)
def test_a_broken_part_is_malformed(part: JsonObject) -> None:
    with pytest.raises(Malformed):
        answer(part)


def test_an_error_names_the_candidate() -> None:
    candidates = [{"index": index, "content": {"parts": [{"text": text}]}} for index, text in enumerate(("fine", 1))]
    with pytest.raises(Malformed, match=r"candidates\[1\]\.content\.parts"):
        WIRE.client.decode_body(msgspec.json.encode({"candidates": candidates}))


@pytest.mark.parametrize(
    ("status", "error", "kind", "facts"),
    [
        (
            400,
            {
                "message": "API key not valid. Please pass a valid API key.",
                "status": "INVALID_ARGUMENT",
                "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
            },
            AuthFailed,
            {},
        ),
        (400, {"message": "User location is not supported.", "status": "FAILED_PRECONDITION"}, BadRequest, {}),
        (402, {"message": "Credits are used up.", "status": "RESOURCE_EXHAUSTED"}, RateLimited, {"retry": False}),
        (
            429,
            {
                "message": "Quota exceeded.",
                "status": "RESOURCE_EXHAUSTED",
                "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}],
            },
            RateLimited,
            {"retry": True, "retry_after": 37.0},
        ),
        (
            429,
            {
                "message": "Quota exceeded.",
                "status": "RESOURCE_EXHAUSTED",
                "details": [
                    {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]},
                    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"},
                ],
            },
            RateLimited,
            {"retry": False, "fail_over": True},
        ),
        (404, {"message": "models/x is not found", "status": "NOT_FOUND"}, ModelNotFound, {}),
        (503, {"message": "overloaded", "status": "UNAVAILABLE"}, Overloaded, {"retry": True}),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_errors(status: int, error: JsonObject, kind: type[DragomanError], facts: dict[str, Any]) -> None:
    counts = WIRE.client.decode_error(Head(status=status), msgspec.json.encode({"error": {"code": status, **error}}))
    assert type(counts) is kind
    assert {name: getattr(counts, name) for name in facts} == facts
