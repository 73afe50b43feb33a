"""Rare forms of answers and requests that servers and clients send."""

from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.errors import InvalidRequest, InvalidTool, Malformed
from dragoman.events import Assembler, fold, to_events
from dragoman.http import HttpRequest
from dragoman.targets.target import Quirks, Target
from dragoman.tools.decorator import check_definition
from dragoman.types import (
    Choice,
    Finish,
    Image,
    Opaque,
    Request,
    Response,
    Text,
    TokenLogprob,
    Tool,
    ToolCall,
    Usage,
    assistant,
    user,
)
from dragoman.wires.common.logprobs import read_logprobs
from dragoman.wires.common.options import can_force_call
from dragoman.wires.common.request_body import make_request
from dragoman.wires.google.logprobs import read_logprobs_result, write_logprobs_result
from dragoman.wires.openai_responses.client_tools import decode_client_output, encode_call
from dragoman.wires.openai_responses.parts import decode_tools
from dragoman.wires.openai_responses.schema import COVERED
from tests.support.wires import laws


def decode(wire: str, body: dict[str, Any]) -> Response:
    return fold(wires.get(wire).client.decode_body(msgspec.json.encode(body)))


def test_log_probabilities_that_are_no_numbers_are_left_out() -> None:
    wrong: list[Any] = [
        7,
        {"token": 1, "logprob": -1},
        {"token": "a", "logprob": True},
        {"token": "a", "logprob": 1e999},
    ]
    assert read_logprobs([*wrong, {"token": "b", "logprob": -2}]) == read_logprobs([{"token": "b", "logprob": -2}])
    assert read_logprobs(None) == []


def test_log_probabilities_of_google() -> None:
    chosen: list[Any] = [7, {"token": "a", "logProbability": 1e999}, {"token": "b", "logProbability": -2}]
    assert [token.token for token in read_logprobs_result({"chosenCandidates": chosen, "topCandidates": [7]})] == ["b"]
    assert read_logprobs_result(None) == []
    plain = TokenLogprob(token="a", logprob=-1.0)
    assert write_logprobs_result([plain]) == {"chosenCandidates": [{"token": "a", "logProbability": -1.0}]}
    both = write_logprobs_result([TokenLogprob(token="a", logprob=-1.0, top=(plain,))])
    assert both["topCandidates"] == [{"candidates": [{"token": "a", "logProbability": -1.0}]}]


def test_log_probabilities_without_a_text_are_a_notice() -> None:
    candidate = {"finishReason": "STOP", "logprobsResult": {"chosenCandidates": [{"token": "a", "logProbability": -1}]}}
    assert [notice.what for notice in decode("google", {"candidates": [candidate]}).notices] == ["logprobs"]


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        ("google", {"candidates": [{"index": n, "content": {"parts": [{"text": "a"}]}} for n in range(300)]}),
        ("openai_chat", {"choices": [{"index": n, "message": {"content": "a"}} for n in range(300)]}),
    ],
)
def test_there_are_not_too_many_choices(wire: str, body: dict[str, Any]) -> None:
    with pytest.raises(Malformed, match="more than"):
        decode(wire, body)


def test_a_body_of_google_has_all_choices() -> None:
    other = Choice(message=assistant("b"), finish=Finish(reason="stop"))
    response = Response(message=assistant("a"), finish=Finish(reason="stop"), other_choices=(other,))
    body = msgspec.json.decode(wires.get("google").server.encode_body(response).body)
    assert [candidate["content"]["parts"][0]["text"] for candidate in body["candidates"]] == ["a", "b"]


@pytest.mark.parametrize("temperature", [5, -1])
def test_a_number_out_of_bounds_names_its_field(temperature: float) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": temperature}
    http = HttpRequest(method="POST", path="/v1/chat/completions", body=msgspec.json.encode(body))
    server = wires.get("openai_chat").server
    with pytest.raises(InvalidRequest) as caught:
        server.check(*server.decode_request(http))
    assert caught.value.param == "temperature"


def test_values_of_a_request_are_checked() -> None:
    wrong: Any = [7]
    with pytest.raises(InvalidRequest, match="logprobs must be"):
        Text(text="a", logprobs=wrong)
    right: Any = [TokenLogprob(token="a", logprob=-1.0)]
    assert Text(text="a", logprobs=right).logprobs == (right[0],)
    bias: Any = {5: 1}
    assert Request(messages=(user("a"),), logit_bias=bias).logit_bias == {"5": 1}


def test_a_path_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="path must be"):
        Image.from_path("a\0b")


def chat_chunk(**call: Any) -> bytes:
    delta = {"tool_calls": [call]} if call else {}
    return b"data: " + msgspec.json.encode({"choices": [{"index": 0, "delta": delta}]}) + b"\n\n"


END = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}\n\ndata: [DONE]\n\n'


def call_of(wire: str, *chunks: bytes) -> Response:
    decoder = wires.get(wire).client.stream_decoder(Request(stream=True))
    decoder.call_deltas = True
    return fold([event for chunk in (*chunks, b"") for event in decoder.feed(chunk)])


def test_fragments_of_a_call_with_other_members() -> None:
    response = call_of(
        "openai_chat",
        chat_chunk(index=0, id="a", function={"name": "tide", "arguments": " "}, vendor="x"),
        chat_chunk(index=0, function={"arguments": "{}"}),
        chat_chunk(index=1, id="b", function={"name": "tide", "arguments": '{"a":1}'}),
        chat_chunk(index=0, id="a", function={"arguments": ""}),
        END,
    )
    assert [(call.id, call.arguments) for call in response.tool_calls] == [("a", {}), ("b", {"a": 1})]
    assert response.tool_calls[0].extra == {"openai_chat": {"vendor": "x"}}


def test_a_call_that_has_ended_does_not_go_on() -> None:
    with pytest.raises(Malformed, match="which has ended"):
        call_of(
            "openai_chat",
            chat_chunk(index=0, id="a", function={"name": "tide", "arguments": "{}"}),
            chat_chunk(index=1, id="b", function={"name": "tide", "arguments": "{}"}),
            chat_chunk(index=0, function={"arguments": "7"}),
            END,
        )


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events)


def test_fragments_of_a_custom_tool() -> None:
    item = {"type": "custom_tool_call", "id": "i", "call_id": "a", "name": "shell"}
    done = {**item, "input": 'l"s'}
    response = call_of(
        "openai_responses",
        sse(
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.custom_tool_call_input.delta", "output_index": 0, "item_id": "i", "delta": "l"},
            {"type": "response.custom_tool_call_input.delta", "output_index": 0, "item_id": "i", "delta": '"s'},
            {"type": "response.output_item.done", "output_index": 0, "item": done},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [done]}},
        ),
    )
    (call,) = response.tool_calls
    assert (call.id, call.arguments) == ("a", {"input": 'l"s'})


def test_an_assembler_streams_calls() -> None:
    out = Assembler()
    out.call_deltas = True
    out.start()
    out.add_call_fragment(0, id="a", name="tide", text=" ")
    out.add_call_fragment(0, text='{"a"')
    out.replace_call_text(0, ' {"a":1}')
    out.close(0)
    out.add_call_fragment(1, id="a", name="tide", text="{}")
    out.finish(Finish(reason="stop"))
    response = fold(out.take())
    assert response.tool_calls[0].arguments == {"a": 1}
    assert response.finish.reason == "tool_calls"


def test_logprobs_of_ollama_may_come_alone() -> None:
    lines = [
        {"message": {"role": "assistant", "content": "a"}, "logprobs": [{"token": "a", "logprob": -1}]},
        {"logprobs": [{"token": "b", "logprob": -2}]},
        {"done": True, "done_reason": "stop"},
    ]
    (text,) = call_of("ollama", b"".join(msgspec.json.encode(line) + b"\n" for line in lines)).message.parts
    assert isinstance(text, Text)
    assert [token.token for token in text.logprobs] == ["a", "b"]


def test_a_tool_of_responses_is_an_object() -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_tools([7], "tools")
    assert caught.value.param == "tools[0]"


@pytest.mark.parametrize(
    ("reasoning", "budget", "changes"), [("none", 128, 1), (5, 128, 1), (900, 512, 1), (300, 300, 0), ("high", 512, 0)]
)
def test_a_budget_of_google_is_within_that_of_the_model(reasoning: Any, budget: int, changes: int) -> None:
    quirks = Quirks(reasoning="budget", min_budget=128, max_budget=512, thinking_off=False)
    target = Target(provider="p", model="m", wire="google", base_url="https://x", quirks=quirks)
    http = wires.get("google").client.encode_request(Request(messages=(user("a"),), reasoning=reasoning), target)
    config = msgspec.json.decode(http.body)["generationConfig"]["thinkingConfig"]
    assert config["thinkingBudget"] == budget
    assert len(http.notices) == changes


def test_the_arguments_of_a_call_may_be_the_answer() -> None:
    decoder = wires.get("openai_chat").client.stream_decoder(Request(stream=True))
    decoder.emit_call_as_text("answer")
    chunks = [
        chat_chunk(index=0, id="a", function={"name": "answer", "arguments": '{"a"'}),
        chat_chunk(index=0, function={"arguments": ":1}"}),
        chat_chunk(index=1, id="b", function={"name": "answer", "arguments": "{}"}),
        END,
    ]
    response = fold([event for chunk in (*chunks, b"") for event in decoder.feed(chunk)])
    assert response.text == '{"a":1}'
    assert (response.tool_calls, response.finish.reason) == ((), "stop")


def test_a_call_can_be_forced_if_thinking_can_be_turned_off() -> None:
    quirks = Quirks(forced_choice_with_thinking=False, efforts=("none", "high"))
    target = Target(provider="p", model="m", wire="openai_chat", base_url="https://x", quirks=quirks)
    assert can_force_call(Request(reasoning="none"), target)
    assert not can_force_call(Request(reasoning="high"), target)


def test_an_answer_of_which_nothing_is_left_is_not_sent_last() -> None:
    target = Target(provider="p", model="m", wire="openai_chat", base_url="https://x")
    foreign = assistant(Opaque(wire="google", data={"x": 1}, is_optional=True))
    http = wires.get("openai_chat").client.encode_request(Request(messages=(user("a"), foreign)), target)
    assert msgspec.json.decode(http.body)["messages"] == [{"role": "user", "content": "a"}]


def test_special_tools_of_responses() -> None:
    custom = {"type": "custom", "name": "shell"}
    tools = decode_tools([{"type": "namespace", "name": "box", "tools": [custom]}], "tools")
    assert len(tools) == 1
    with pytest.raises(InvalidRequest):
        decode_tools([{"type": "namespace", "name": "box"}], "tools")
    call = ToolCall(id="a", name="shell", arguments={"a": "x", "b": "y"}, extra={COVERED: {"type": "custom_tool_call"}})
    assert encode_call(call)["input"] == '{"a":"x","b":"y"}'
    output: dict[str, Any] = {
        "type": "tool_search_output",
        "call_id": "a",
        "tools": [7, {"type": "function", "name": "x"}],
    }
    assert "x" in str(decode_client_output(output, {}).content)


def test_an_answer_in_a_call_may_be_cut() -> None:
    decoder = wires.get("openai_chat").client.stream_decoder(Request(stream=True))
    decoder.emit_call_as_text("answer")
    call = chat_chunk(index=0, id="a", function={"name": "answer", "arguments": '{"a"'})
    end = END.replace(b"tool_calls", b"length")
    response = fold([event for chunk in (call, end, b"") for event in decoder.feed(chunk)])
    assert (response.text, response.tool_calls, response.finish.reason) == ('{"a"', (), "length")


class Name(str):
    """A text that JSON encoders refuse as a key."""

    __slots__ = ()


def test_keys_and_biases_of_a_request() -> None:
    wrong: Any = {5: {}}
    with pytest.raises(InvalidRequest, match="extra must be"):
        Request(messages=(user("a"),), extra=wrong)
    with pytest.raises(InvalidRequest, match="extra must be"):
        Request(messages=(user("a"),), extra={Name("openai_chat"): {}})
    bias: Any = MappingProxyType({"5": 1})
    assert Request(messages=(user("a"),), logit_bias=bias).logit_bias == {"5": 1}


@pytest.mark.parametrize(
    "parameters", [{"default": float("inf")}, {"properties": {5: {}}}, {"enum": [1.5, "a", float("nan")]}]
)
def test_the_parameters_of_a_tool_are_json(parameters: Any) -> None:
    with pytest.raises(InvalidTool, match="must be JSON"):
        check_definition(Tool(name="x", parameters=parameters))


def test_a_tuple_in_the_parameters_of_a_tool_is_a_list() -> None:
    check_definition(Tool(name="x", parameters={"enum": ("a", 1.5)}))


def test_a_request_that_is_wrong_within_its_bounds_keeps_its_own_error() -> None:
    with pytest.raises(InvalidRequest, match="messages must be"):
        make_request((), messages=7)


def test_a_stored_conversation_goes_on_with_the_output_of_a_special_tool() -> None:
    hooks = wires.get("openai_responses").continuation
    assert hooks is not None
    output: dict[str, Any] = {"type": "tool_search_output", "call_id": "a", "execution": "client", "tools": []}
    stored = hooks.record(
        Request(messages=(user("a"),)), Response(message=assistant("b"), finish=Finish(reason="stop"))
    )
    joined = hooks.join(stored, Request(messages=(user(Opaque(wire="openai_responses", data=output)),)))
    assert [message.role for message in joined.messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("wire", [wire for wire in wires.NAMES if wire != "native"])
def test_a_number_that_no_type_holds_is_a_fault_of_the_provider(wire: str) -> None:
    client, server = wires.get(wire).client, wires.get(wire).server
    answer = Response(id="a", model="m", message=assistant("Six."), finish=Finish(reason="stop"), usage=Usage(input=77))
    encoder = server.stream_encoder(Request(stream=True))
    stream = b"".join(encoder.feed(event) for event in to_events(answer))
    whole = server.encode_body(answer).body
    for read in (client.decode_response, client.decode_body):
        with pytest.raises(Malformed, match="wrong value"):
            read(whole.replace(b"77", b"7" * 30))
    if wire != "bedrock":  # its frames have checksums
        _, error = laws.read(client.stream_decoder(), [stream.replace(b"77", b"7" * 30)])
        assert isinstance(error, Malformed)


def test_a_time_that_is_none_is_left_out() -> None:
    body = {"id": "a", "created": 1e25, "choices": [{"message": {"content": "Six."}, "finish_reason": "stop"}]}
    assert wires.get("openai_chat").client.decode_response(msgspec.json.encode(body)).created is None
