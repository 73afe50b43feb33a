"""Stored responses: their items, their pages and their streams, without a gateway."""

import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.types import (
    Finish,
    JsonObject,
    Message,
    Request,
    Response,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_results,
    user,
)
from dragoman.wires.common.server_endpoints import (
    CancelResponse,
    DropResponse,
    FetchResponse,
    ItemListQuery,
    Route,
    StoredItems,
    StoredResponse,
    path_parameters,
)
from dragoman.wires.openai_responses.item_lists import Page, complete_item, input_items, output_items, whole_number
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
    inserted = json.loads(HOOKS.insert_items(body, {"msg_1": item}, [], needs_state=True)[0])
    assert inserted["input"] == [item, *input[1:]]


def test_reasoning_items_without_state_are_found_and_replaced() -> None:
    short: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": []}
    whole: list[JsonObject] = [
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAAA"},
        {"type": "reasoning", "id": "rs_3", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": "4.2 m"},
    ]
    body = json.dumps({"model": "m", "input": [short, *whole]}).encode()
    _, request = WIRE.server.decode_request(HttpRequest(method="POST", path="/", body=body))
    query, _ = HOOKS.split(request, body)
    assert (query.references, query.incomplete) == ((), ("rs_1",))
    item: JsonObject = {**short, "encrypted_content": "gBBBB"}
    assert json.loads(HOOKS.insert_items(body, {"rs_1": item}, [], needs_state=True)[0])["input"] == [item, *whole]


@pytest.mark.parametrize("needs_state", [False, True])
def test_reasoning_without_state_that_nobody_has_is_left_out(*, needs_state: bool) -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "tide", "arguments": "{}"}
    bare_call = {key: value for key, value in call.items() if key != "id"}
    result = {"type": "function_call_output", "id": "fco_1", "call_id": "call_1", "output": "4.2 m"}
    summary = {"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": "Hm."}]}
    body: JsonObject = {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}, call, result, summary, call]}
    sent, is_lossy = HOOKS.insert_items(json.dumps(body).encode(), {}, [], needs_state=needs_state)
    assert is_lossy
    assert json.loads(sent)["input"] == [bare_call, result, *([bare_call] if needs_state else [summary, call])]


def test_items_with_state_are_stored_by_their_ids() -> None:
    own = WIRE.server.encode_body(
        Response(id="resp_1", message=assistant("Hi"), finish=Finish(reason="stop")), Request()
    )
    (item,) = json.loads(own.body)["output"]
    assert [HOOKS.is_stored_alone(each) for each in (item, {**item, "encrypted_content": "g"}, {"id": "rs_1"})] == [
        False,
        True,
        True,
    ]


# Conversations --------------------------------------------------------------------------------------------------------

ITEMS = StoredItems(id="conv_1", created=1, items=[{"id": "msg_1"}, {"id": "msg_2"}])


def conversation(method: str, tail: str = "", body: Any = None) -> tuple[ItemListQuery, Any]:
    """What a request asks for, and the answer if these items are stored."""
    pattern = "/v1/conversations" + tail.replace("conv_1", "{id}").replace("msg_1", "{item}")
    found = endpoint(pattern, method)
    data = b"" if body is None else json.dumps(body).encode()
    query = found.decode(HttpRequest(method=method, path=f"/v1/conversations{tail}", body=data))
    return query, json.loads(found.encode(query, ITEMS).body)


def test_each_path_of_a_conversation_says_what_it_wants() -> None:
    assert conversation("POST") == (
        ItemListQuery("create"),
        {"id": "conv_1", "object": "conversation", "created_at": 1, "metadata": {}},
    )
    query, _ = conversation("POST", body={"items": [{"role": "user"}], "metadata": {"a": "b"}})
    assert (query.items, query.metadata) == (({"role": "user"},), {"a": "b"})
    assert conversation("GET", "/conv_1")[0] == ItemListQuery("fetch", "conv_1")
    assert conversation("POST", "/conv_1", {"metadata": {"a": "b"}})[0].metadata == {"a": "b"}
    assert conversation("DELETE", "/conv_1")[1]["deleted"]
    assert [item["id"] for item in conversation("GET", "/conv_1/items")[1]["data"]] == ["msg_2", "msg_1"]
    query, added = conversation("POST", "/conv_1/items", {"items": [{"role": "user"}]})
    assert (query.action, added["data"], added["last_id"]) == ("add", [{"id": "msg_2"}], "msg_2")
    assert conversation("POST", "/conv_1/items", {})[1]["first_id"] == ""
    assert conversation("GET", "/conv_1/items/msg_1") == (ItemListQuery("fetch", "conv_1", "msg_1"), {"id": "msg_1"})
    assert conversation("DELETE", "/conv_1/items/msg_1")[0].action == "remove"


WRONG: list[Any] = [{"items": 7}, {"items": [7]}, {"items": [{}] * 21}, {"metadata": 7}]


@pytest.mark.parametrize("body", WRONG)
def test_a_wrong_conversation_is_refused(body: Any) -> None:
    with pytest.raises(InvalidRequest):
        conversation("POST", body=body)


@pytest.mark.parametrize("value", ["conv_1", {"id": "conv_1"}])
def test_a_request_names_its_conversation(value: Any) -> None:
    body = json.dumps({"model": "m", "input": "hi", "conversation": value}).encode()
    _, request = WIRE.server.decode_request(HttpRequest(method="POST", path="/", body=body))
    query, request = HOOKS.split(request, body)
    assert query.item_list == "conv_1"
    assert json.loads(WIRE.server.encode_body(RESPONSE, request).body)["conversation"] == {"id": "conv_1"}
    assert HOOKS.request_items(body) == [{"type": "message", "role": "user", "content": "hi"}]
    assert json.loads(HOOKS.insert_items(body, {}, ITEMS.items, needs_state=True)[0])["input"][:2] == ITEMS.items
    assert HOOKS.request_items(b'{"model":"m"}') == []


def test_a_conversation_excludes_a_previous_response() -> None:
    body = b'{"model":"m","input":"hi","conversation":"conv_1","previous_response_id":"resp_1"}'
    _, request = WIRE.server.decode_request(HttpRequest(method="POST", path="/", body=body))
    with pytest.raises(InvalidRequest, match="conversation must be left out"):
        HOOKS.split(request, body)
    assert path_parameters(Route(method="GET", path="/a/{id}"), get("/b")) == ()


def test_the_time_of_completion_is_noted() -> None:
    body = b'{"model":"m","input":"hi","service_tier":"auto","completed_at":5}'
    _, request = WIRE.server.decode_request(HttpRequest(method="POST", path="/", body=body))
    _, request = HOOKS.split(request, body)
    HOOKS.note_completed(request, 7)
    encoded = json.loads(WIRE.server.encode_body(RESPONSE, request).body)
    assert (encoded["completed_at"], encoded["service_tier"]) == (7, "default")
    assert isinstance(RESPONSE.message.parts[0], Text)


RAW_ITEMS: list[tuple[Any, Any]] = [
    (
        {"role": "user", "content": "hi"},
        {"type": "message", "status": "completed", "content": [{"type": "input_text", "text": "hi"}]},
    ),
    ({"role": "assistant", "content": "a"}, {"content": [{"type": "output_text", "text": "a", "annotations": []}]}),
    ({"role": "user", "content": 7}, {"content": []}),
    (
        {"role": "user", "content": [{"type": "input_image"}, 7]},
        {"content": [{"detail": "auto", "type": "input_image"}]},
    ),
    ({"type": "function_call", "status": "incomplete"}, {"status": "incomplete"}),
    ({"type": "function_call_output", "output": "x"}, {"status": "completed", "output": "x"}),
    ({"type": "function_call_output", "output": [{"type": "input_text"}]}, {"output": [{"type": "input_text"}]}),
    ({"type": "reasoning", "summary": []}, {"type": "reasoning", "summary": []}),
]


@pytest.mark.parametrize(("item", "members"), RAW_ITEMS)
def test_an_item_gets_the_members_that_clients_require(item: Any, members: Any) -> None:
    complete = complete_item(item)
    assert {name: complete[name] for name in members} == members


def test_a_warmup_has_no_answer_to_continue_from() -> None:
    request = Request(messages=(user("Be quick."),), extra={"openai_responses": {"generate": False}})
    query, rest = PreviousResponse().split(request, b"{}")
    assert query.is_warmup
    assert "openai_responses" not in rest.extra
    empty = Response(id="resp_1", message=Message(role="assistant"), finish=Finish(reason="stop"))
    stored = PreviousResponse().record(rest, empty)
    joined = PreviousResponse().join(stored, Request(messages=(user("Go."),)))
    assert joined.messages == (user("Be quick."), user("Go."))


def test_a_response_in_the_background_must_be_stored() -> None:
    request = Request(extra={"openai_responses": {"background": True}})
    assert PreviousResponse().split(request, b"{}")[0].is_background
    request = Request(extra={"openai_responses": {"background": True, "store": False}})
    with pytest.raises(InvalidRequest, match="store must be true"):
        PreviousResponse().split(request, b"{}")


def test_a_complete_response_is_not_changed_by_a_cancel() -> None:
    endpoint = next(each for each in WIRE.server_endpoints if each.route.path.endswith("/cancel"))
    body = json.loads(endpoint.encode(CancelResponse("resp_1"), STORED).body)
    assert (body["id"], body["status"]) == ("resp_1", "completed")
