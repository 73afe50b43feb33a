"""A conversation becomes one item, and that item can be read again."""

import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.types import Finish, Image, Message, Opaque, Request, Response, Text, Tool, Usage, assistant
from dragoman.types.data_urls import encode_base64
from dragoman.wires.openai_responses.compaction import PROMPT, CompactServer, ResponsesCompaction
from dragoman.wires.openai_responses.compaction_item import INTRODUCTION, PREFIX, CompactedConversation, read_compaction

SERVER = wires.get("openai_responses").server
TRIGGER = {"type": "compaction_trigger"}
HOOKS = ResponsesCompaction()


def decode(input: Any, **body: Any) -> Request:
    http = HttpRequest(method="POST", path="/", body=json.dumps({"model": "m", "input": input, **body}).encode())
    return SERVER.decode_request(http)[1]


def compact(body: dict[str, Any]) -> Request:
    http = HttpRequest(method="POST", path="/v1/responses/compact", body=json.dumps(body).encode())
    return CompactServer().decode_request(http)[1]


ASK = {"role": "user", "content": "How high is the tide?"}
SAY = {"role": "assistant", "content": "4.2 m"}


def test_a_trigger_asks_for_a_compaction() -> None:
    assert HOOKS.is_requested(decode([ASK, TRIGGER]))
    assert not HOOKS.is_requested(decode([ASK, SAY, ASK]))
    assert not HOOKS.is_requested(Request())


@pytest.mark.parametrize("input", [[ASK, SAY], "hello", None])
def test_the_path_is_the_same_as_a_trigger(input: Any) -> None:
    request = compact({"model": "m", "input": input})
    assert HOOKS.is_requested(request)
    assert request.extra["openai_responses"]["store"] is False


@pytest.mark.parametrize("input", [105, True, {"role": "user"}, 1.5])
def test_an_input_that_is_no_list_is_refused(input: Any) -> None:
    with pytest.raises(InvalidRequest, match="input must be a string or a list of items") as caught:
        compact({"model": "m", "input": input})
    assert caught.value.param == "input"


def test_the_path_does_not_stream() -> None:
    with pytest.raises(InvalidRequest, match="stream must be false"):
        compact({"model": "m", "input": "hello", "stream": True})


def test_a_target_is_asked_for_a_summary() -> None:
    request = HOOKS.summary_request(decode([ASK, SAY, TRIGGER], stream=True))
    assert [message.text for message in request.messages] == ["How high is the tide?", "4.2 m", PROMPT]
    assert (request.stream, request.tool_choice) == (False, None)
    sent_request = HOOKS.summary_request(decode([ASK, TRIGGER], tools=[{"type": "function", "name": "tide"}]))
    assert [message.role for message in sent_request.messages] == ["user", "user"]
    assert isinstance(sent_request.tools[0], Tool)
    assert sent_request.tool_choice == "none"


def test_without_tools_the_calls_become_text() -> None:
    thought: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    call = {"type": "function_call", "call_id": "c1", "name": "tide", "arguments": '{"port":"Brest"}'}
    result = {"type": "function_call_output", "call_id": "c1", "output": "4.2 m"}
    image = {"type": "input_image", "image_url": "https://example.org/a.png"}
    seen = {"type": "image_generation_call", "id": "ig_1", "result": "iVBORw0KGgo=", "output_format": "png"}
    items: list[Any] = [{"role": "user", "content": [image]}, thought, call, seen, result, thought]
    request = HOOKS.summary_request(compact({"model": "m", "input": items}))
    assert [message.role for message in request.messages] == ["user", "assistant", "user", "user"]
    assert isinstance(request.messages[0].parts[0], Image)
    assert request.messages[1].text == 'Call of tide (c1): {"port":"Brest"}'
    assert isinstance(request.messages[1].parts[1], Image)
    assert request.messages[2].text == "Result of tide (c1): 4.2 m"
    assert (request.tools, request.tool_choice) == ((), None)


def test_a_summary_comes_back_as_text_of_the_user() -> None:
    answer = Response(id="resp_1", message=assistant(" Of tides. "), finish=Finish(reason="length"))
    response = HOOKS.to_compaction(answer)
    (part,) = response.message.parts
    assert isinstance(part, Opaque)
    assert (part.data["type"], response.finish.reason) == ("compaction", "stop")
    request = decode([part.data, ASK])
    assert request.messages[0].role == "user"
    assert request.messages[0].text.startswith(f"{INTRODUCTION}\n\nOf tides.")


def test_a_compaction_of_the_provider_is_not_read() -> None:
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
    assert decode([item, ASK]).messages[0].parts[0] == Opaque(wire="openai_responses", data=item)
    assert read_compaction({"type": "reasoning", "encrypted_content": PREFIX}, "input[0]") is None


NOT_OURS = (b"\xff", b"{}", b'{"summary":"\xff"}', b'{"summary":"a","user":[7]}')
UNREADABLE = [
    "dragoman-summary-",
    "dragoman-summary-9.aGk=",
    f"{PREFIX}!",
    *(PREFIX + encode_base64(data) for data in NOT_OURS),
    CompactedConversation("a", [{"type": "function_call_output", "call_id": "c", "output": "x"}]).content(),
]


@pytest.mark.parametrize("content", UNREADABLE, ids=range(len(UNREADABLE)))
def test_an_own_item_that_cannot_be_read_is_refused(content: str) -> None:
    with pytest.raises(InvalidRequest, match=r"input\[1\] is not as this gateway wrote it; compact"):
        decode([ASK, {"type": "compaction", "encrypted_content": content}, ASK])


def test_the_answer_is_one_item_with_what_the_user_said() -> None:
    image = {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"}
    request = compact({"model": "m", "input": [ASK, SAY, {"role": "user", "content": [image]}]})
    answer = Response(id="resp_1", message=assistant("Of tides."), finish=Finish(reason="stop"), usage=Usage(input=3))
    body = json.loads(CompactServer().encode_body(HOOKS.to_compaction(answer), request).body)
    assert body["object"] == "response.compaction"
    assert body["usage"]["input_tokens"] == 3
    (item,) = body["output"]
    again = decode([item, {"role": "user", "content": "Go on."}])
    assert [message.role for message in again.messages] == ["user"] * 3
    assert again.messages[0].text == "How high is the tide?"
    assert isinstance(again.messages[1].parts[0], Image)
    assert again.messages[1].text == f"{INTRODUCTION}\n\nOf tides."


def test_a_second_compaction_has_one_summary() -> None:
    first = CompactedConversation("Of tides.", [{"type": "message", "role": "user", "content": "How high?"}])
    request = compact({"model": "m", "input": [{"type": "compaction", "encrypted_content": first.content()}, SAY]})
    answer = Response(id="resp_1", message=assistant("Of more."), finish=Finish(reason="stop"))
    body = json.loads(CompactServer().encode_body(HOOKS.to_compaction(answer), request).body)
    (again,) = decode(body["output"]).messages
    assert [part.text for part in again.parts if isinstance(part, Text)] == [
        "How high?",
        f"{INTRODUCTION}\n\nOf more.",
    ]


def test_the_item_of_a_provider_is_not_changed() -> None:
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
    message = Message(role="assistant", parts=(Opaque(wire="openai_responses", data=item),))
    answer = Response(message=message, finish=Finish(reason="stop"))
    body = json.loads(CompactServer().encode_body(answer, compact({"model": "m", "input": [ASK]})).body)
    assert body["output"] == [item]


def test_an_answer_without_usage_has_zeros() -> None:
    answer = Response(message=assistant("Of tides."), finish=Finish(reason="stop"))
    body = json.loads(CompactServer().encode_body(HOOKS.to_compaction(answer)).body)
    assert body["usage"]["total_tokens"] == 0


def test_an_item_does_not_hold_another_one() -> None:
    content = CompactedConversation("Of tides.").content()
    for _ in range(3):
        content = CompactedConversation("a", [{"type": "compaction", "encrypted_content": content}]).content()
    with pytest.raises(InvalidRequest, match=r"input\[0\] is not as this gateway wrote it"):
        decode([{"type": "compaction", "encrypted_content": content}])


@pytest.mark.parametrize(
    ("data", "excess"),
    [
        (b'{"summary":"a","user":[' + b"{}," * 60_000 + b"{}]}", "has more than 60000 objects and lists"),
        (b'{"summary":"a","user":[{"a":' + b"[" * 9000 + b"]" * 9000 + b"}]}", "is nested more than 128 levels deep"),
    ],
)
def test_an_item_has_limits(data: bytes, excess: str) -> None:
    item = {"type": "compaction", "encrypted_content": PREFIX + encode_base64(data)}
    with pytest.raises(InvalidRequest, match=rf"^input\[1\] {excess}; send less"):
        decode([ASK, item])


def test_the_items_of_a_request_have_a_limit_together() -> None:
    said = {"role": "user", "content": "a", "odd": [1] * 99_000}
    item = {"type": "compaction", "encrypted_content": CompactedConversation("a", [said]).content()}
    assert len(decode([item, item]).messages) == 2
    with pytest.raises(InvalidRequest, match=r"^input\[2\] has more than 200000 values, with those before it; send"):
        decode([item, item, item])


def test_a_text_of_the_user_that_looks_like_a_summary_is_kept() -> None:
    said = f"{INTRODUCTION} is how each of my letters begins."
    request = compact({"model": "m", "input": [{"role": "user", "content": said}, SAY]})
    answer = Response(id="resp_1", message=assistant("Of letters."), finish=Finish(reason="stop"))
    (item,) = json.loads(CompactServer().encode_body(HOOKS.to_compaction(answer), request).body)["output"]
    assert decode([item]).messages[0].text.startswith(said)


def test_a_content_part_with_the_type_of_an_item_stays_in_its_message() -> None:
    part = {"type": "odd_call", "id": "x"}
    request = compact({"model": "m", "input": [{"role": "user", "content": [part]}]})
    answer = Response(id="resp_1", message=assistant("Of tides."), finish=Finish(reason="stop"))
    (item,) = json.loads(CompactServer().encode_body(HOOKS.to_compaction(answer), request).body)["output"]
    assert decode([item]).messages[0].parts[0] == Opaque(wire="openai_responses", data=part)
