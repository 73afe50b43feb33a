"""Stored responses: their items, their pages and their streams, without a gateway."""

import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.types import Finish, Message, Response, Text, ToolCall, ToolResult, assistant, system, tool_results, user
from dragoman.wires.common.server_endpoints import CancelResponse, DropResponse, FetchResponse, StoredResponse
from dragoman.wires.openai_responses.item_lists import Page, input_items, output_items, whole_number
from dragoman.wires.openai_responses.previous_response import PreviousResponse

WIRE = wires.get("openai_responses")
CALL = ToolCall(id="c1", name="tide", arguments={})
TURNS: tuple[Message, ...] = (
    system("Be kind."),
    user("How high?"),
    assistant(CALL),
    tool_results(ToolResult(id="c1", name="tide", content="4.2 m")),
)
RESPONSE = Response(id="resp_1", model="m", created=1, message=assistant("4.2 m"), finish=Finish(reason="stop"))
STORED = StoredResponse(messages=(*TURNS, RESPONSE.message), response=RESPONSE)
HOOKS = PreviousResponse()


def get(path: str) -> HttpRequest:
    return HttpRequest(method="GET", path=path)


def endpoint(path: str, method: str = "GET") -> Any:
    return next(each for each in WIRE.server_endpoints if (each.route.path, each.route.method) == (path, method))


def test_the_input_has_an_item_for_each_message() -> None:
    items = input_items(STORED)
    kinds = [item.get("role") or item["type"] for item in items]
    assert kinds == ["system", "user", "function_call", "function_call_output"]
    assert len({item["id"] for item in items}) == 4
    assert items == input_items(STORED)


def test_the_output_has_ids_that_name_the_response() -> None:
    (item,) = output_items(STORED)
    assert HOOKS.items(STORED) == [item]
    assert HOOKS.response_of(item["id"]) == "resp_1"
    assert HOOKS.response_of("msg_0a1b") is None


def test_a_page_starts_after_an_item() -> None:
    items = [{"id": f"i{n}"} for n in range(3)]
    page = json.loads(Page(get("/x?order=asc&limit=1&after=i0")).encode(items).body)
    assert page == {"object": "list", "data": [{"id": "i1"}], "first_id": "i1", "last_id": "i1", "has_more": True}
    assert json.loads(Page(get("/x")).encode([]).body)["data"] == []
    assert json.loads(Page(get("/x")).encode(items).body)["first_id"] == "i2"


@pytest.mark.parametrize("query", ["order=up", "limit=0", "limit=101", "limit=x"])
def test_a_wrong_page_is_refused(query: str) -> None:
    with pytest.raises(InvalidRequest):
        Page(get(f"/x?{query}"))


def test_a_page_after_nothing_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="after must be the id of an item"):
        Page(get("/x?after=i9")).encode([{"id": "i1"}])
    assert whole_number({}, "limit", 7) == 7


def test_a_stored_response_is_a_body_or_a_stream() -> None:
    fetch = endpoint("/v1/responses/{id}")
    plain = fetch.decode(get("/v1/responses/resp_1"))
    assert plain.id == "resp_1"
    body = json.loads(fetch.encode(plain, STORED).body)
    assert body["output"][0]["content"][0]["text"] == "4.2 m"
    whole = fetch.encode(fetch.decode(get("/v1/responses/resp_1?stream=true")), STORED)
    assert whole.headers["content-type"] == "text/event-stream"
    rest = fetch.encode(fetch.decode(get("/v1/responses/resp_1?stream=true&starting_after=0")), STORED)
    assert whole.body.endswith(rest.body)
    assert whole.body.count(b"event: ") == rest.body.count(b"event: ") + 1


def test_the_other_paths_name_their_response() -> None:
    items = endpoint("/v1/responses/{id}/input_items")
    request = items.decode(get("/v1/responses/resp_1/input_items?order=asc"))
    assert isinstance(request, FetchResponse)
    assert len(json.loads(items.encode(request, STORED).body)["data"]) == 4
    cancel = endpoint("/v1/responses/{id}/cancel", "POST")
    assert cancel.decode(HttpRequest(method="POST", path="/v1/responses/r/cancel")) == CancelResponse("r")
    drop = endpoint("/v1/responses/{id}", "DELETE")
    assert json.loads(drop.encode(drop.decode(get("/v1/responses/r")), None).body)["deleted"]
    assert drop.decode(get("/v1/responses/r")) == DropResponse("r")


def test_references_are_found_and_replaced() -> None:
    input = [{"type": "item_reference", "id": "msg_1"}, {"id": "msg_2"}, {"role": "user", "content": "So?"}]
    body = json.dumps({"model": "m", "input": input, "prompt": {"id": "p"}}).encode()
    _, request = WIRE.server.decode_request(HttpRequest(method="POST", path="/", body=body))
    query, _ = HOOKS.split(request, body)
    assert (query.references, query.needs_own_wire) == (("msg_1", "msg_2"), "prompt")
    item = {"type": "message", "role": "assistant", "content": "4.2 m"}
    inserted = json.loads(HOOKS.insert_items(body, {"msg_1": item}))
    assert inserted["input"] == [item, *input[1:]]


def test_the_time_of_completion_is_noted() -> None:
    body = b'{"model":"m","input":"hi","service_tier":"auto","completed_at":5}'
    _, request = WIRE.server.decode_request(HttpRequest(method="POST", path="/", body=body))
    _, request = HOOKS.split(request, body)
    HOOKS.note_completed(request, 7)
    encoded = json.loads(WIRE.server.encode_body(RESPONSE, request).body)
    assert (encoded["completed_at"], encoded["service_tier"]) == (7, "default")
    assert isinstance(RESPONSE.message.parts[0], Text)
