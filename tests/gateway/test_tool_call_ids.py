"""Ids of calls: ours above, the provider's below."""

import re
from itertools import count

import pytest

from dragoman.errors import InvalidRequest
from dragoman.events import Finished, PartEnded, PartStarted
from dragoman.gateway.request import take_conversation_id
from dragoman.gateway.tool_call_ids import MAX_PAIRS, ToolCallIds, decode_ids, new_call_id
from dragoman.types import (
    Finish,
    Message,
    Request,
    Response,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)

UUID4 = r"call_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
TIDE = ToolCall(id="toolu_1", name="tide")
NOW = ToolCall(id="a=b,c", name="now")


def ids(known: dict[str, str] | None = None) -> ToolCallIds:
    numbers = count(1)
    return ToolCallIds(known or {}, new_id=lambda: f"call_{next(numbers)}")


def tool_request(*names: str) -> Request:
    return Request(
        messages=(
            user("?"),
            assistant("Well.", *(ToolCall(id=id, name="tide") for id in names)),
            tool_results(*(ToolResult(id=id, content="4.2 m") for id in names)),
        )
    )


def test_an_id_is_a_uuid_of_version_four() -> None:
    assert re.fullmatch(UUID4, new_call_id())
    assert new_call_id() != new_call_id()


def test_an_answer_comes_up_with_our_ids() -> None:
    mine = ids()
    response = mine.to_client(Response(message=assistant("Well.", TIDE, NOW), finish=Finish(reason="tool_calls")))
    assert [call.id for call in response.tool_calls] == ["call_1", "call_2"]
    assert response.text == "Well."
    assert mine.new == {"call_1": "toolu_1", "call_2": "a=b,c"}


def test_an_answer_without_calls_is_itself() -> None:
    response = Response(message=assistant("Well."), finish=Finish(reason="stop"))
    assert ids().to_client(response) is response


def test_a_stream_comes_up_with_our_ids() -> None:
    mine = ids()
    assert mine.event_to_client(PartEnded(index=0, part=TIDE)).part == ToolCall(id="call_1", name="tide")
    text, end = PartEnded(index=1, part=Text(text="")), Finished(finish=Finish(reason="stop"))
    assert mine.event_to_client(text) is text
    assert mine.event_to_client(end) is end


def test_a_request_goes_down_with_the_providers_ids() -> None:
    request = ids({"call_1": "toolu_1"}).to_provider(tool_request("call_1", "call_2"))
    assert [call.id for call in request.messages[1].tool_calls] == ["toolu_1", "call_2"]
    assert [result.id for result in request.messages[2].tool_results] == ["toolu_1", "call_2"]


def test_a_request_without_known_ids_is_itself() -> None:
    request = tool_request("call_1")
    assert ids().to_provider(request) is request


def test_the_header_tells_all_that_the_next_request_needs() -> None:
    mine = ids({"call_a": "toolu_1", "call_gone": "x"})
    mine.to_provider(tool_request("call_a"))
    mine.replace_id(NOW)
    header = mine.header()
    assert header == "call_a=toolu_1,call_1=a%3Db%2Cc"
    assert decode_ids(header) == {"call_a": "toolu_1", "call_1": "a=b,c"}
    assert ids().header() is None


def test_without_a_conversation_a_call_has_the_providers_id_in_its_extra() -> None:
    mine = ToolCallIds({}, in_extra=True, new_id=lambda: "call_1")
    call = mine.replace_id(ToolCall(id="toolu_1", name="tide", extra={"google": {"a": 1}}))
    assert call.extra == {"google": {"a": 1}, "gateway": {"id": "toolu_1"}}
    answered = Request(messages=(user("?"), assistant("Well.", call), tool_results(ToolResult(id="call_1"))))
    request = ids().to_provider(answered)
    assert request.messages[1].tool_calls[0] == ToolCall(id="toolu_1", name="tide", extra={"google": {"a": 1}})
    assert request.messages[2].tool_results[0].id == "toolu_1"


@pytest.mark.parametrize("data", [None, {}, {"id": 3}, {"id": ""}, {"id": "x" * 1000}, "toolu_1"])
def test_a_wrong_extra_of_a_call_is_ignored(data: object) -> None:
    call = ToolCall(id="call_1", name="tide", extra={"gateway": data})
    request = Request(messages=(assistant(call),))
    assert ids().to_provider(request) is request


def test_a_header_has_at_most_so_many_pairs() -> None:
    mine = ids()
    for _ in range(MAX_PAIRS + 1):
        mine.replace_id(TIDE)
    assert len(decode_ids(mine.header() or "")) == MAX_PAIRS


@pytest.mark.parametrize("header", ["x", "=x", "x=", "a=" + "b" * 1000, ",".join(f"a{i}=b" for i in range(65))])
def test_a_header_that_is_none_is_refused(header: str) -> None:
    with pytest.raises(InvalidRequest, match="x-dragoman-tool-ids"):
        decode_ids(header)


def test_what_is_asked_of_the_gateway_goes_no_further() -> None:
    request = Request(extra={"native.verbatim": {"conversation_id": "c1", "tier": "complex"}, "x": {"a": 1}})
    assert take_conversation_id(request) == ("c1", Request(extra={"x": {"a": 1}}))


def test_a_call_that_comes_in_fragments_has_one_id() -> None:
    mine = ToolCallIds({})
    started = mine.event_to_client(PartStarted(index=0, kind="tool_call", id="toolu_1", name="tide"))
    ended = mine.event_to_client(PartEnded(index=0, part=ToolCall(id="toolu_1", name="tide")))
    assert isinstance(ended.part, ToolCall)
    assert started.id == ended.part.id
    assert mine.new == {started.id: "toolu_1"}


def test_the_pair_of_an_old_call_stays() -> None:
    """The header has room for some pairs. Later calls keep the gateway's id; no id changes between two turns."""
    mine = ToolCallIds({})
    for n in range(MAX_PAIRS):
        mine.replace_id(ToolCall(id=f"toolu_{n}", name="tide"))
    before = decode_ids(mine.header() or "")
    calls = tuple(ToolCall(id=id, name="tide") for id in before)
    later = ToolCallIds(before)
    sent = later.to_provider(Request(messages=(Message(role="assistant", parts=calls),)))
    later.replace_id(ToolCall(id="toolu_new", name="tide"))
    assert [call.id for call in sent.messages[0].tool_calls] == [f"toolu_{n}" for n in range(MAX_PAIRS)]
    assert decode_ids(later.header() or "") == before
