"""What Codex and its like use of the Responses API besides plain answers."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import new_key
from dragoman.http import HttpRequest
from dragoman.testing import ClaudeSimulator, GptSimulator, Simulator
from dragoman.types import JsonObject, Message, ToolCall
from tests.support.gateway.dialects import BASES, ClientResponse, app_of, post, send_blocking
from tests.support.gateway.live import Gateway


def app_before(simulator: Simulator, more: str = "") -> App:
    """A gateway whose provider is a simulator."""
    provider, base = simulator.PROVIDER, BASES.get(simulator.WIRE, "/v1")
    record = f'like = "{provider}"\nbase_url = "http://{provider}.invalid{base}"\napi_key = "k"\n'
    app = app_of(f"[gateway]\nlog = false\n[providers.{provider}]\n{record}{more}")
    app.runtime.registry.transport = simulator
    return app


def send(app: App, path: str, body: dict[str, Any], **headers: str) -> ClientResponse:
    return send_blocking(app, post(path, json.dumps(body).encode(), **headers))


def get(app: App, path: str, **headers: str) -> ClientResponse:
    return send_blocking(app, HttpRequest(method="GET", path=path, headers=headers))


def frames(body: bytes) -> list[Any]:
    return [json.loads(line[6:]) for line in body.decode().split("\n") if line.startswith("data: ")]


HISTORY = [{"role": "user", "content": "How high is the tide?"}, {"role": "assistant", "content": "4.2 m"}]


# Compaction -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ClaudeSimulator, GptSimulator])
def test_a_compacted_conversation_goes_on(kind: type[Simulator]) -> None:
    simulator = kind("They spoke of tides.", "Of tides.")
    app = app_before(simulator)
    seen = send(app, "/v1/responses/compact", {"model": simulator.spec, "input": HISTORY})
    assert seen.status == 200, seen.body
    output = json.loads(seen.body)["output"]
    assert [item["type"] for item in output] == ["compaction"]
    again = [*output, {"role": "user", "content": "What did we speak of?"}]
    assert send(app, "/v1/responses", {"model": simulator.spec, "input": again}).status == 200
    assert simulator.refusals == []
    body = simulator.bodies[1]
    if kind is GptSimulator:
        assert json.loads(simulator.bodies[0])["input"][-1] == {"type": "compaction_trigger"}
        assert output[-1]["encrypted_content"] in body.decode()
    else:
        assert body.index(b"How high is the tide?") < body.index(b"They spoke of tides.")
        assert b"dragoman" not in body


def test_a_trigger_in_a_stream_gives_one_item() -> None:
    simulator = ClaudeSimulator("They spoke of tides.")
    input = [*HISTORY, {"type": "compaction_trigger"}]
    body = {"model": simulator.spec, "input": input, "stream": True, "store": False}
    events = frames(send(app_before(simulator), "/v1/responses", body).body)
    assert [event["type"] for event in events if event["type"].endswith(".done")] == ["response.output_item.done"]
    assert events[-1]["response"]["output"][0]["type"] == "compaction"


# Stored responses -----------------------------------------------------------------------------------------------------

KEYS = """
[keys.alice]
hash = "{}"
[keys.bob]
hash = "{}"
"""


def stored_response(app: App, **headers: str) -> dict[str, Any]:
    body = {"model": "demo/any", "input": "hello", "instructions": "Be brief."}
    response: dict[str, Any] = json.loads(send(app, "/v1/responses", body, **headers).body)
    return response


def test_a_stored_response_can_be_streamed_again() -> None:
    app = app_of()
    response = stored_response(app)
    events = frames(get(app, f"/v1/responses/{response['id']}?stream=true").body)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"] == response
    rest = frames(get(app, f"/v1/responses/{response['id']}?stream=true&starting_after=2").body)
    assert rest == events[3:]
    assert get(app, f"/v1/responses/{response['id']}?stream=true&starting_after=x").status == 400


def test_the_input_of_a_response_comes_in_pages() -> None:
    app = app_of()
    call = {"type": "function_call", "call_id": "c1", "name": "tide", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "4.2 m"}
    said = [*HISTORY, {"role": "developer", "content": "Be kind."}, call, result, {"role": "user", "content": "So?"}]
    response = json.loads(send(app, "/v1/responses", {"model": "demo/any", "input": said}).body)
    path = f"/v1/responses/{response['id']}/input_items"
    page = json.loads(get(app, f"{path}?order=asc").body)
    kinds = [item.get("role") or item["type"] for item in page["data"]]
    assert kinds == ["user", "assistant", "system", "function_call", "function_call_output", "user"]
    assert len({item["id"] for item in page["data"]}) == 6
    first = json.loads(get(app, f"{path}?limit=2").body)
    assert [item["id"] for item in first["data"]] == [item["id"] for item in page["data"]][:-3:-1]
    assert first["has_more"]
    rest = json.loads(get(app, f"{path}?after={first['last_id']}").body)
    assert len(rest["data"]) == 4
    assert not rest["has_more"]
    last = json.loads(get(app, f"{path}?after={rest['last_id']}").body)
    assert (last["data"], last["first_id"]) == ([], "")
    for query in ("limit=0", "limit=x", "order=up", "after=nothing"):
        assert get(app, f"{path}?{query}").status == 400
    assert get(app, "/v1/responses/resp_none/input_items").status == 404


def test_a_complete_response_cannot_be_cancelled() -> None:
    app = app_of()
    response = stored_response(app)
    seen = send(app, f"/v1/responses/{response['id']}/cancel", {})
    assert (seen.status, "Cannot cancel" in seen.body.decode()) == (400, True)
    assert send(app, "/v1/responses/resp_none/cancel", {}).status == 404


def test_an_item_reference_stands_for_its_item() -> None:
    simulator = GptSimulator("4.2 m", "Yes.")
    app = app_before(simulator)
    first = {"model": simulator.spec, "input": "How high is the tide?"}
    output = json.loads(send(app, "/v1/responses", first).body)["output"]
    references = [{"type": "item_reference", "id": item["id"]} for item in output]
    again = [*HISTORY[:1], *references, {"role": "user", "content": "Sure?"}]
    seen = send(app, "/v1/responses", {"model": simulator.spec, "input": again})
    assert seen.status == 200, seen.body
    sent = json.loads(simulator.bodies[1])["input"]
    assert [item.get("role") or item["type"] for item in sent] == ["user", "reasoning", "assistant", "user"]
    assert (simulator.refusals, simulator.losses) == ([], [])


def test_an_item_reference_of_our_own_id_stands_for_its_item() -> None:
    simulator = ClaudeSimulator("4.2 m", "Yes.")
    app = app_before(simulator)
    body = {"model": simulator.spec, "input": "How high is the tide?", "reasoning": {"effort": "none"}}
    output = json.loads(send(app, "/v1/responses", body).body)["output"]
    input = [*HISTORY[:1], {"id": output[0]["id"]}, {"role": "user", "content": "Sure?"}]
    assert send(app, "/v1/responses", {**body, "input": input}).status == 200
    assert [message["role"] for message in json.loads(simulator.bodies[1])["messages"]] == ["user", "assistant", "user"]


@pytest.mark.parametrize("reasoning", [{}, {"summary": "auto"}], ids=["id", "summary"])
@pytest.mark.parametrize("is_known", [True, False], ids=["stored", "unknown"])
def test_a_reasoning_item_without_its_state_gets_it_from_the_store(reasoning: JsonObject, *, is_known: bool) -> None:
    """Clients of OpenAI without `include` know only the id of such an item, and OpenAI stores nothing for us."""
    call = Message(role="assistant", parts=(ToolCall(id="x", name="tide", arguments={}),))
    simulator = GptSimulator(call, "4.2 m")
    app = app_before(simulator)
    tool: JsonObject = {"type": "function", "name": "tide", "parameters": {"type": "object", "properties": {}}}
    body: JsonObject = {"model": simulator.spec, "input": HISTORY[:1], "tools": [tool]}
    body |= {"store": is_known, "reasoning": reasoning}
    output = json.loads(send(app, "/v1/responses", body).body)["output"]
    for item in output:
        item.pop("encrypted_content", None)
    result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "4.2 m"}
    seen = send(app, "/v1/responses", {**body, "input": [*HISTORY[:1], *output, result]})
    assert seen.status == 200, seen.body
    assert (simulator.refusals, simulator.losses == []) == ([], is_known)
    assert any("has no encrypted content" in notice for notice in seen.notices) is not is_known


@pytest.mark.parametrize("id", ["msg_unknown", "msg_dragoman_resp_unknown_0"])
def test_an_unknown_item_reference_is_refused(id: str) -> None:
    seen = send(app_of(), "/v1/responses", {"model": "demo/any", "input": [{"type": "item_reference", "id": id}]})
    assert seen.status == 400
    assert json.loads(seen.body)["error"]["param"] == "input"


def test_no_key_sees_what_another_key_stored() -> None:
    alice, bob = new_key(), new_key()
    app = app_of(KEYS.format(alice[1], bob[1]))
    response = stored_response(app, authorization=f"Bearer {alice[0]}")
    other = f"Bearer {bob[0]}"
    path = f"/v1/responses/{response['id']}"
    for tail in ("", "?stream=true", "/input_items"):
        assert get(app, path + tail, authorization=other).status == 404
        assert get(app, path + tail, authorization=f"Bearer {alice[0]}").status == 200
    assert send(app, f"{path}/cancel", {}, authorization=other).status == 404
    reference = [{"type": "item_reference", "id": response["output"][0]["id"]}]
    for body in ({"input": reference}, {"input": "So?", "previous_response_id": response["id"]}):
        assert send(app, "/v1/responses", {"model": "demo/any", **body}, authorization=other).status == 400
        own = send(app, "/v1/responses", {"model": "demo/any", **body}, authorization=f"Bearer {alice[0]}")
        assert own.status == 200


def test_a_prompt_template_is_refused_where_nobody_has_it() -> None:
    prompt = {"id": "pmpt_1"}
    claude = ClaudeSimulator()
    seen = send(app_before(claude), "/v1/responses", {"model": claude.spec, "input": "hello", "prompt": prompt})
    assert seen.status == 400
    assert json.loads(seen.body)["error"]["param"] == "prompt"
    gpt = GptSimulator()
    seen = send(app_before(gpt), "/v1/responses", {"model": gpt.spec, "input": "hello", "prompt": prompt})
    assert seen.status == 200
    assert json.loads(gpt.bodies[0])["prompt"] == prompt


def test_a_token_count_has_the_stored_conversation() -> None:
    app = app_of()
    response = stored_response(app)
    path, body = "/v1/responses/input_tokens", {"model": "demo/any", "input": "hello"}
    alone = json.loads(send(app, path, body).body)["input_tokens"]
    both = json.loads(send(app, path, {**body, "previous_response_id": response["id"]}).body)["input_tokens"]
    assert both > alone
    unknown = send(app, path, {**body, "previous_response_id": "resp_unknown"})
    assert unknown.status == 400


# Conversations --------------------------------------------------------------------------------------------------------


def test_a_conversation_keeps_the_items_of_its_requests() -> None:
    simulator = ClaudeSimulator("4.2 m", "Yes.", model="claude-sonnet-5")
    app = app_before(simulator)
    created = json.loads(send(app, "/v1/conversations", {"items": HISTORY[:1], "metadata": {"port": "Brest"}}).body)
    assert (created["object"], created["metadata"]) == ("conversation", {"port": "Brest"})
    body = {"model": simulator.spec, "conversation": created["id"], "reasoning": {"effort": "high"}}
    first = json.loads(send(app, "/v1/responses", {**body, "input": "At Brest."}).body)
    assert first["conversation"] == {"id": created["id"]}
    again = {**body, "conversation": {"id": created["id"]}, "store": False, "stream": True}
    assert send(app, "/v1/responses", {**again, "input": [{"role": "user", "content": "Sure?"}]}).status == 200
    assert (simulator.refusals, simulator.losses) == ([], [])
    texts = [message["content"] for message in json.loads(simulator.bodies[1])["messages"] if message["role"] == "user"]
    assert [json.dumps(text).count("Sure?") for text in texts][-1] == 1
    page = json.loads(get(app, f"/v1/conversations/{created['id']}/items?order=asc").body)
    kinds = [item.get("role") or item["type"] for item in page["data"]]
    assert kinds == ["user", "user", "reasoning", "assistant", "user", "reasoning", "assistant"]
    assert len({item["id"] for item in page["data"]}) == 7
    unknown = send(app, "/v1/responses", {**body, "conversation": "conv_unknown", "input": "hello"})
    assert unknown.status == 404
    both = send(app, "/v1/responses", {**body, "previous_response_id": first["id"], "input": "hello"})
    assert both.status == 400


def test_a_request_of_a_conversation_may_have_a_schema() -> None:
    """Its body is decoded again, with the items of the conversation."""
    app = app_of('[capabilities."demo/any"]\nstructured = false\n')
    conversation = json.loads(send(app, "/v1/conversations", {"items": HISTORY[:1]}).body)["id"]
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    text = {"format": {"type": "json_schema", "name": "a", "schema": schema}}
    body = {"model": "demo/any", "conversation": conversation, "input": "At Brest.", "text": text}
    seen = send(app, "/v1/responses", body)
    assert seen.status == 200, seen.body


def test_a_conversation_and_its_items_can_be_changed() -> None:
    app = app_of()
    path = f"/v1/conversations/{json.loads(send(app, '/v1/conversations', {}).body)['id']}"
    added = json.loads(send(app, f"{path}/items", {"items": HISTORY}).body)
    first, second = (item["id"] for item in added["data"])
    assert json.loads(send(app, path, {"metadata": {"a": "b"}}).body)["metadata"] == {"a": "b"}
    content = json.loads(get(app, f"{path}/items/{first}").body)["content"]
    assert content == [{"type": "input_text", "text": "How high is the tide?"}]
    assert get(app, f"{path}/items/none").status == 404
    assert send_blocking(app, HttpRequest(method="DELETE", path=f"{path}/items/{first}")).status == 200
    assert [item["id"] for item in json.loads(get(app, f"{path}/items").body)["data"]] == [second]
    assert json.loads(send_blocking(app, HttpRequest(method="DELETE", path=path)).body)["deleted"]
    assert get(app, path).status == 404
    assert send_blocking(app, HttpRequest(method="DELETE", path=path)).status == 404
    assert send(app, f"{path}/items", {"items": HISTORY}).status == 404
    wrong: list[Any] = [{"items": 7}, {"items": [7]}, {"items": [{}] * 21}, {"metadata": 7}]
    for body in wrong:
        assert send(app, "/v1/conversations", body).status == 400


def test_no_key_sees_the_conversation_of_another_key() -> None:
    alice, bob = new_key(), new_key()
    app = app_of(KEYS.format(alice[1], bob[1]))
    owner, other = {"authorization": f"Bearer {alice[0]}"}, {"authorization": f"Bearer {bob[0]}"}
    id = json.loads(send(app, "/v1/conversations", {"items": HISTORY}, **owner).body)["id"]
    path = f"/v1/conversations/{id}"
    item = json.loads(get(app, f"{path}/items", **owner).body)["first_id"]
    for place in (path, f"{path}/items", f"{path}/items/{item}"):
        assert get(app, place, **other).status == 404
        assert get(app, place, **owner).status == 200
    changes: list[tuple[str, Any]] = [(path, {"metadata": {}}), (f"{path}/items", {"items": HISTORY})]
    for place, body in changes:
        assert send(app, place, body, **other).status == 404
    request = {"model": "demo/any", "input": "hello", "conversation": id}
    assert send(app, "/v1/responses", request, **other).status == 404
    assert send_blocking(app, HttpRequest(method="DELETE", path=path, headers=other)).status == 404
    assert get(app, path, **owner).status == 200


# WebSocket: tests/gateway/server/test_websocket.py --------------------------------------------------------------------


def test_a_server_without_websockets_answers_426() -> None:
    seen = get(app_of(), "/v1/responses", upgrade="websocket", connection="Upgrade")
    assert seen.status == 426


# With the official package --------------------------------------------------------------------------------------------


def test_the_official_package_reads_everything(tmp_path: Path) -> None:
    with Gateway(tmp_path) as gateway, OpenAI(base_url=f"{gateway.url}/v1", api_key="k", max_retries=0) as client:
        conversation = client.conversations.create(metadata={"port": "Brest"})
        response = client.responses.create(model="demo/any", input="hello", conversation=conversation.id)
        assert response.conversation is not None
        items = list(client.conversations.items.list(conversation.id, order="asc"))
        assert [item.type for item in items] == ["message", "message"]
        assert [item.type for item in client.responses.input_items.list(response.id)] == ["message"]
        events = list(client.responses.retrieve(response.id, stream=True))
        assert events[-1].type == "response.completed"
        compacted = client.responses.compact(model="demo/any", input="hello")
        assert compacted.output[-1].type == "compaction"
        with pytest.raises(BadRequestError, match="Cannot cancel"):
            client.responses.cancel(response.id)
        count = client.responses.input_tokens.count(
            model="demo/any", input="hello", previous_response_id=response.id
        ).input_tokens
        assert count > client.responses.input_tokens.count(model="demo/any", input="hello").input_tokens
        assert client.conversations.delete(conversation.id).deleted
