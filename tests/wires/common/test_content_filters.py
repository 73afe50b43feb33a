"""Results of content filters: notices, `blocked`, and the message of an error; they go back to clients of the wire."""

import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.errors import Blocked
from dragoman.events import fold, to_events
from dragoman.http import Head
from dragoman.types import Notice, Request, Response
from dragoman.wires.common.content_filters import describe_filter_error, describe_results, merge_results, prompt_results
from tests.support.wires import laws

CHAT = wires.get("openai_chat")
RESPONSES = wires.get("openai_responses")
SAFE = {"hate": {"filtered": False, "severity": "safe"}, "jailbreak": {"filtered": False, "detected": False}}
LOW = {**SAFE, "hate": {"filtered": False, "severity": "low"}}
HIGH = {**SAFE, "hate": {"filtered": True, "severity": "high"}}
JAILBREAK = {**SAFE, "jailbreak": {"filtered": False, "detected": True}}
DAN = "The response was filtered due to the prompt triggering our content management policy."


def notice(what: str, why: str) -> Notice:
    return Notice(kind="info", what=f"content filter of the {what}", why=why)


# Words ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (SAFE, ""),
        (LOW, "hate: low"),
        (HIGH, "hate: high, filtered"),
        (JAILBREAK, "jailbreak: detected"),
        ({**LOW, "custom_blocklists": {"filtered": True, "details": []}}, "hate: low; custom_blocklists: filtered"),
        ({"custom_blocklists": [{"id": "x", "filtered": True}]}, "custom_blocklists: filtered"),
        ({"custom_blocklists": [{"id": "x", "filtered": False}, 1]}, ""),
        ({"error": {"code": "content_filter_error", "message": "x"}}, "error: the filter did not run"),
        ({"purview": {"filtered": False, "details": {"error": {"code": "400"}}}}, "purview: the filter did not run"),
        ({"purview": {"filtered": False, "details": {}}}, ""),
        ({"hate": {"severity": "unheard of"}, "sexual": None, "x": 1}, ""),
        (None, ""),
        ([], ""),
    ],
)
def test_only_what_is_not_safe_is_described(results: Any, words: str) -> None:
    assert describe_results(results) == words


def test_a_description_has_a_limit() -> None:
    assert len(describe_results({f"category {i}": {"filtered": True} for i in range(1000)})) == 500


def test_the_worst_result_of_a_category_counts() -> None:
    assert merge_results(HIGH, LOW) is HIGH
    assert merge_results(LOW, HIGH)["hate"] == HIGH["hate"]
    assert merge_results(LOW, JAILBREAK) == {**LOW, "jailbreak": JAILBREAK["jailbreak"]}
    assert merge_results(LOW, None) is LOW
    images = [{"prompt_index": 0, "content_filter_results": LOW}, 1, {"content_filter_result": HIGH}]
    assert prompt_results(images) == LOW
    assert prompt_results({"content_filter_results": HIGH}) == {}


# Chat Completions -----------------------------------------------------------------------------------------------------


def chat_body(prompt: Any, answer: Any, **choice: Any) -> bytes:
    choice = {"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop", **choice}
    body: dict[str, Any] = {"id": "c", "model": "m", "choices": [{**choice, "content_filter_results": answer}]}
    return json.dumps({**body, "prompt_filter_results": prompt}).encode()


def prompt(results: Any) -> list[Any]:
    return [{"prompt_index": 0, "content_filter_results": results}]


def test_a_whole_answer_of_chat_completions() -> None:
    response = fold(CHAT.client.decode_body(chat_body(prompt(JAILBREAK), LOW)))
    assert response.notices == (notice("prompt", "jailbreak: detected"), notice("answer", "hate: low"))
    assert response.finish.reason == "stop"
    assert response.finish.extra["openai_chat"] == {
        "prompt_filter_results": JAILBREAK,
        "content_filter_results": LOW,
    }


def test_safe_results_are_no_notice() -> None:
    response = fold(CHAT.client.decode_body(chat_body(prompt(SAFE), SAFE)))
    assert response.notices == ()
    assert response.finish.extra["openai_chat"]["content_filter_results"] == SAFE


@pytest.mark.parametrize("finish_reason", ["content_filter", None])
def test_a_filtered_answer_is_blocked(finish_reason: str | None) -> None:
    body = chat_body(None, HIGH, finish_reason=finish_reason, message={"content": ""})
    response = fold(CHAT.client.decode_body(body))
    assert (response.finish.reason, response.finish.raw) == ("blocked", finish_reason)
    assert response.notices == (notice("answer", "hate: high, filtered"),)


@pytest.mark.parametrize("wrong", [None, [], {}, "x", 7, [None], [{"content_filter_results": []}]])
def test_results_of_another_form_are_ignored(wrong: Any) -> None:
    assert fold(CHAT.client.decode_body(chat_body(wrong, wrong))).text == "Hi"
    assert fold(RESPONSES.client.decode_body(responses_body(wrong))).text == "Hi"


def chat_stream(*texts: str, results: Any = SAFE) -> bytes:
    def chunk(choices: list[Any], **more: Any) -> str:
        return "data: " + json.dumps({"id": "c", "model": "m", "choices": choices, **more}) + "\n\n"

    first = chunk([], prompt_filter_results=prompt(JAILBREAK))
    pieces = [chunk([{"index": 0, "delta": {"content": text}, "content_filter_results": SAFE}]) for text in texts]
    # Asynchronous filters send their results after the text, in a choice without a delta.
    late = chunk([{"index": 0, "content_filter_results": results, "content_filter_offsets": {"check_offset": 3}}])
    again = chunk([{"index": 0, "delta": {}, "content_filter_results": SAFE}])
    reason = "content_filter" if results == HIGH else "stop"
    end = chunk([{"index": 0, "delta": {}, "finish_reason": reason}], usage={"prompt_tokens": 1})
    return "".join([first, *pieces, late, again, end, "data: [DONE]\n\n"]).encode()


def streamed(wire: Any, data: bytes) -> Response:
    events, error = laws.read(wire.client.stream_decoder(), [data])
    assert error is None
    return fold(events)


def test_a_stream_of_chat_completions() -> None:
    response = streamed(CHAT, chat_stream("H", "i", " ", "there", results=LOW))
    assert response.text == "Hi there"
    assert response.notices == (notice("prompt", "jailbreak: detected"), notice("answer", "hate: low"))
    assert response.finish.reason == "stop"


def test_a_stream_that_a_filter_ended() -> None:
    response = streamed(CHAT, chat_stream("H", results=HIGH))
    assert response.finish.reason == "blocked"
    assert response.notices[1:] == (notice("answer", "hate: high, filtered"),)


def test_the_other_choices_have_results_too() -> None:
    choices = [
        {"index": 0, "message": {"content": "a"}, "finish_reason": "stop", "content_filter_results": SAFE},
        {"index": 1, "message": {"content": ""}, "finish_reason": "content_filter", "content_filter_results": HIGH},
    ]
    body = json.dumps({"id": "c", "choices": choices}).encode()
    response = fold(CHAT.client.decode_body(body))
    assert response.notices == (notice("answer", "hate: high, filtered"),)
    assert response.choices[1].finish.reason == "blocked"
    again = json.loads(CHAT.server.encode_body(response).body)
    assert [choice["content_filter_results"] for choice in again["choices"]] == [SAFE, HIGH]
    encoder = CHAT.server.stream_encoder(Request(stream=True))
    data = b"".join(encoder.feed(event) for event in to_events(response))
    assert streamed(CHAT, data).choices[1].finish == response.choices[1].finish


@pytest.mark.parametrize("extra", [{}, {"openai_chat": {"stream_options": {"include_usage": True}}}])
def test_a_client_of_chat_completions_gets_the_results(extra: dict[str, Any]) -> None:
    response = fold(CHAT.client.decode_body(chat_body(prompt(JAILBREAK), LOW)))
    body = json.loads(CHAT.server.encode_body(response).body)
    assert body["prompt_filter_results"] == prompt(JAILBREAK)
    assert body["choices"][0]["content_filter_results"] == LOW
    encoder = CHAT.server.stream_encoder(Request(stream=True, extra=extra))
    data = b"".join(encoder.feed(event) for event in to_events(response))
    assert streamed(CHAT, data).finish == response.finish


# The Responses API ----------------------------------------------------------------------------------------------------


def responses_body(filters: Any, **fields: Any) -> bytes:
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}]
    return json.dumps(
        {"id": "r", "object": "response", "status": "completed", "output": output, "content_filters": filters, **fields}
    ).encode()


def results(source: str, results: Any, *, blocked: bool = False) -> dict[str, Any]:
    return {"blocked": blocked, "source_type": source, "content_filter_raw": [], "content_filter_results": results}


def test_a_response() -> None:
    filters = [results("prompt", JAILBREAK), results("completion", LOW), results("completion", SAFE)]
    response = fold(RESPONSES.client.decode_body(responses_body(filters)))
    assert response.notices == (notice("prompt", "jailbreak: detected"), notice("answer", "hate: low"))
    assert response.finish.reason == "stop"
    assert json.loads(RESPONSES.server.encode_body(response).body)["content_filters"] == filters
    encoder = RESPONSES.server.stream_encoder(Request(stream=True))
    data = b"".join(encoder.feed(event) for event in to_events(response))
    assert streamed(RESPONSES, data).finish.extra == response.finish.extra


@pytest.mark.parametrize("fields", [{}, {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}])
def test_a_blocked_response(fields: dict[str, Any]) -> None:
    body = responses_body([results("completion", HIGH, blocked=True)], **fields)
    response = fold(RESPONSES.client.decode_body(body))
    assert response.finish.reason == "blocked"
    assert response.notices == (notice("answer", "hate: high, filtered"),)


# Errors ---------------------------------------------------------------------------------------------------------------

INNER = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": HIGH}


@pytest.mark.parametrize(
    "error",
    [
        {"message": DAN, "type": None, "param": "prompt", "code": "content_filter", "status": 400, "innererror": INNER},
        {"message": DAN, "code": "400", "innererror": INNER},
        {
            "message": DAN,
            "code": "x",
            "inner_error": {**INNER, "content_filter_result": None, "content_filter_results": HIGH},
        },
        {
            "message": DAN,
            "type": "invalid_request_error",
            "param": "prompt",
            "code": "content_filter",
            "content_filters": [results("prompt", HIGH, blocked=True)],
        },
    ],
)
@pytest.mark.parametrize("wire", [CHAT, RESPONSES])
def test_an_error_names_the_category(wire: Any, error: dict[str, Any]) -> None:
    found = wire.client.decode_error(Head(status=400), json.dumps({"error": error}).encode())
    assert isinstance(found, Blocked)
    assert found.message == f"{DAN} (content filter: hate: high, filtered)"


def test_an_error_in_a_stream() -> None:
    data = b"data: " + json.dumps({"error": {"message": DAN, "code": "content_filter", "innererror": INNER}}).encode()
    _, error = laws.read(CHAT.client.stream_decoder(), [data + b"\n\n"])
    assert isinstance(error, Blocked)
    assert "hate: high, filtered" in error.message


def test_a_response_that_failed() -> None:
    body = responses_body(
        [results("prompt", HIGH, blocked=True)], status="failed", error={"code": "content_filter", "message": "no"}
    )
    with pytest.raises(Blocked, match=r"no \(content filter: hate: high, filtered\)"):
        RESPONSES.client.decode_body(body)


def test_other_errors_have_no_results() -> None:
    assert describe_filter_error({"message": "x", "innererror": "y", "content_filters": 3}) == ""
