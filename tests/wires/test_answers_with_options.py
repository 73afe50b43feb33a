"""Answers with several choices, log probabilities and a service tier: written by a server half, read by the client."""

import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.errors import InvalidRequest, Malformed
from dragoman.events import fold, to_events
from dragoman.http import HttpRequest
from dragoman.types import (
    Choice,
    Finish,
    Request,
    Response,
    Text,
    Thinking,
    TokenLogprob,
    ToolCall,
    assistant,
    is_object,
    tool_results,
)
from tests.support.wires import laws

TOKENS = (
    TokenLogprob(token="Yes", logprob=-0.1, top=(TokenLogprob(token="No", logprob=-2.5),)),
    TokenLogprob(token=".", logprob=-0.2),
)
CALL = ToolCall(id="c1", name="tide", arguments={"port": "Brest"})
STOPS = {"openai_chat": ("stop", "tool_calls"), "google": ("STOP", "STOP")}


def both(wire: str, response: Response) -> list[Response]:
    """The response after its way through a body, and through a stream."""
    server, client = wires.get(wire).server, wires.get(wire).client
    whole = fold(client.decode_body(server.encode_body(response).body))
    encoder = server.stream_encoder(Request(stream=True))
    data = b"".join(encoder.feed(event) for event in to_events(response))
    events, error = laws.read(client.stream_decoder(), [data])
    assert error is None
    return [whole, fold(events)]


@pytest.mark.parametrize("wire", STOPS)
def test_several_answers_survive(wire: str) -> None:
    stop, called = STOPS[wire]
    response = Response(
        message=assistant(Text(text="Yes.", logprobs=TOKENS)),
        finish=Finish(reason="stop", raw=stop),
        other_choices=(
            Choice(message=assistant("Maybe."), finish=Finish(reason="stop", raw=stop)),
            Choice(message=assistant(Text(text="No.", logprobs=TOKENS)), finish=Finish(reason="stop", raw=stop)),
            Choice(message=assistant("Wait.", CALL), finish=Finish(reason="tool_calls", raw=called)),
        ),
    )
    for read in both(wire, response):
        assert [choice.text for choice in read.choices] == ["Yes.", "Maybe.", "No.", "Wait."]
        assert read.choices[3].message.tool_calls[0].arguments == {"port": "Brest"}
        assert read.choices[3].finish.reason == "tool_calls"
        assert read.logprobs == TOKENS
        assert [part.logprobs for part in read.choices[2].message.parts if isinstance(part, Text)] == [TOKENS]


@pytest.mark.parametrize("wire", ["openai_chat", "openai_responses", "google", "ollama"])
def test_log_probabilities_survive(wire: str) -> None:
    response = Response(message=assistant(Text(text="Yes.", logprobs=TOKENS)), finish=Finish(reason="stop"))
    assert [read.logprobs for read in both(wire, response)] == [TOKENS, TOKENS]


@pytest.mark.parametrize(
    ("wire", "word"),
    [
        ("openai_chat", "default"),
        ("openai_responses", "default"),
        ("anthropic", "standard"),
        ("google", "standard"),
        ("bedrock", "default"),
    ],
)
def test_the_tier_of_an_answer_is_in_the_words_of_the_dialect(wire: str, word: str) -> None:
    for tier, expected in (("standard", word), ("priority", "priority")):
        response = Response(message=assistant("hi"), finish=Finish(reason="stop"), service_tier=tier)
        assert [read.service_tier for read in both(wire, response)] == [expected, expected]


def test_a_usage_chunk_has_the_tier() -> None:
    body = b'{"model": "m", "messages": [], "stream": true, "stream_options": {"include_usage": true}}'
    http = HttpRequest(method="POST", path="/v1/chat/completions", body=body)
    server = wires.get("openai_chat").server
    encoder = server.stream_encoder(server.decode_request(http)[1])
    response = Response(message=assistant("hi"), finish=Finish(reason="stop"), service_tier="flex")
    data = b"".join(encoder.feed(event) for event in to_events(response))
    assert b'"service_tier":"flex"' in data.split(b"\n\n")[-3]


@pytest.mark.parametrize(
    "item",
    [
        3,
        {},
        {"token": 5, "logprob": -1},
        {"token": "a", "logprob": True},
        {"token": "a", "logprob": "x"},
    ],
)
def test_tokens_that_are_none_are_left_out(item: Any) -> None:
    good = {"token": "a", "logprob": -1, "bytes": [300], "top_logprobs": [item]}
    tokens = (TokenLogprob(token="a", logprob=-1.0),)
    choice = {"message": {"content": "a"}, "finish_reason": "stop", "logprobs": {"content": [item, good]}}
    chat = json.dumps({"choices": [choice]}).encode()
    assert fold(wires.get("openai_chat").client.decode_body(chat)).logprobs == tokens
    wrong: Any = item
    if is_object(item) and item:
        wrong = {"logProbability": item["logprob"], "token": item["token"]}
    result: dict[str, Any] = {
        "chosenCandidates": [wrong, {"token": "a", "logProbability": -1}],
        "topCandidates": [{"candidates": [3]}, 7],
    }
    candidate = {"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP", "logprobsResult": result}
    body = json.dumps({"candidates": [candidate]}).encode()
    assert fold(wires.get("google").client.decode_body(body)).logprobs == tokens


def test_a_number_without_an_end_is_left_out() -> None:
    from dragoman.wires.common.logprobs import read_logprobs
    from dragoman.wires.google.logprobs import read_logprobs_result

    infinite = float("-inf")
    assert read_logprobs([{"token": "a", "logprob": infinite}]) == []
    assert read_logprobs_result({"chosenCandidates": [{"token": "a", "logProbability": infinite}]}) == []
    assert read_logprobs_result(3) == []


def test_log_probabilities_without_text_are_dropped_with_a_notice() -> None:
    result = {"chosenCandidates": [{"token": "a", "logProbability": -1, "tokenId": 7}]}
    part: dict[str, Any] = {"functionCall": {"name": "now", "args": {}}}
    candidate = {"content": {"parts": [part]}, "finishReason": "STOP", "logprobsResult": result}
    body = json.dumps({"candidates": [candidate]}).encode()
    (notice,) = fold(wires.get("google").client.decode_body(body)).notices
    assert (notice.kind, notice.what) == ("dropped", "logprobs")


def test_log_probabilities_of_a_line_without_a_message_are_read() -> None:
    first = '{"message":{"content":"a"},"done":false}\n{"logprobs":[{"token":"a","logprob":-1}],"done":false}\n'
    events, error = laws.read(
        wires.get("ollama").client.stream_decoder(), [first.encode(), b'{"done":true,"done_reason":"stop"}\n']
    )
    assert error is None
    assert fold(events).logprobs == (TokenLogprob(token="a", logprob=-1.0),)


def test_more_candidates_than_a_request_may_ask_for_are_malformed() -> None:
    candidates = [{"index": i, "content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"} for i in range(200)]
    with pytest.raises(Malformed, match="more than 128 candidates"):
        wires.get("google").client.decode_body(json.dumps({"candidates": candidates}).encode())


def test_pieces_of_a_candidate_after_the_first_are_joined() -> None:
    chunks = [
        {"candidates": [{"index": 1, "content": {"parts": [{"text": "b"}]}}]},
        {"candidates": [{"index": 0, "content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]},
        {"candidates": [{"index": 1, "content": {"parts": [{"text": "c"}]}, "finishReason": "MAX_TOKENS"}]},
    ]
    assert [
        choice.text for choice in fold(wires.get("google").client.decode_body(json.dumps(chunks).encode())).choices
    ] == [
        "a",
        "bc",
    ]


def test_thinking_of_ollama_has_its_own_probabilities() -> None:
    thinking = Thinking(text="Hm", extra={"ollama": {"logprobs": [{"token": "Hm", "logprob": -1}]}})
    body = (
        wires.get("ollama").server.encode_body(Response(message=assistant(thinking), finish=Finish(reason="stop"))).body
    )
    assert json.loads(body)["logprobs"] == [{"token": "Hm", "logprob": -1}]


# Values ---------------------------------------------------------------------------------------------------------------


def test_the_choices_of_a_response_begin_with_its_own() -> None:
    response = Response(message=assistant("a"), finish=Finish(reason="stop"))
    assert response.choices == (Choice(message=response.message, finish=response.finish),)
    assert response.logprobs == ()


@pytest.mark.parametrize("wrong", [3, "x", [3]])
def test_log_probabilities_must_be_tokens(wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^logprobs must be a list of TokenLogprob"):
        Text(text="a", logprobs=wrong)
    assert Text(text="a", logprobs=[*TOKENS]).logprobs == TOKENS  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "wrong"), [("extra", {1: 2}), ("metadata", {"a": 1}), ("metadata", {1: "a"}), ("logit_bias", {5: "x"})]
)
def test_keys_of_a_request_are_texts(field: str, wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match=f"^{field} must be "):
        Request(**{field: wrong})


def test_a_bias_may_be_any_mapping() -> None:
    from types import MappingProxyType

    assert Request(logit_bias=MappingProxyType({5: 1})).logit_bias == {"5": 1}  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [None, 3, "x"])
def test_results_must_be_tool_results(wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^results must be ToolResult values"):
        tool_results(wrong)


def test_events_are_those_of_a_response() -> None:
    with pytest.raises(InvalidRequest, match=r"^response must be a Response, got 3"):
        to_events(3)  # type: ignore[arg-type]
