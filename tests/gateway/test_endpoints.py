"""What clients ask beside generation, and what the gateway remembers for them."""

import asyncio
import json
import re
from typing import Any

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import new_key
from dragoman.http import HttpRequest
from dragoman.testing import FaultyServer
from dragoman.types import ToolCall
from tests.support.gateway.dialects import ClientResponse, app_of, post, send_request
from tests.support.gateway.live import chat, record

CONFIG = '[tiers.simple]\nmodels = ["demo/any"]\n[aliases]\nfast = "demo/any"\n'
(ALICE, ALICE_HASH), (BOB, BOB_HASH) = new_key(), new_key()
KEYS = f'[keys.alice]\nhash = "{ALICE_HASH}"\nmodels = ["demo/*"]\n[keys.bob]\nhash = "{BOB_HASH}"\n'


def talk(app: App, *requests: HttpRequest) -> list[ClientResponse]:
    async def all_of_it() -> list[ClientResponse]:
        return [await send_request(app, http) for http in requests]

    return asyncio.run(all_of_it())


def get(path: str, **headers: str) -> HttpRequest:
    return HttpRequest(method="GET", path=path, headers=headers)


def post_json(path: str, body: dict[str, Any], **headers: str) -> HttpRequest:
    return post(path, json.dumps(body).encode(), **headers)


@pytest.mark.parametrize(
    ("http", "path"),
    [
        (get("/v1/models"), ("data", 0, "id")),
        (get("/v1/models", **{"anthropic-version": "2023-06-01"}), ("data", 0, "id")),
        (get("/v1beta/models"), ("models", 0, "name")),
        (get("/api/tags"), ("models", 0, "name")),
        (get("/native/v1/models"), ("data", 0, "id")),
    ],
)
def test_models_are_listed_in_every_dialect(http: HttpRequest, path: tuple[str | int, ...]) -> None:
    (seen,) = talk(app_of(CONFIG), http)
    found: Any = json.loads(seen.body)
    for step in path:
        found = found[step]
    assert found.removeprefix("models/") == "simple"


def test_dialects_of_one_path_are_told_apart_by_their_header() -> None:
    openai, anthropic = talk(app_of(), get("/v1/models"), get("/v1/models", **{"anthropic-version": "2023-06-01"}))
    assert json.loads(openai.body)["object"] == "list"
    assert "has_more" in json.loads(anthropic.body)


def test_a_model_is_shown_or_not_there() -> None:
    there, absent = talk(app_of(), get("/v1/models/demo/any"), get("/v1/models/nix"))
    assert json.loads(there.body)["id"] == "demo/any"
    assert absent.status == 404


def test_a_key_sees_only_its_models() -> None:
    (seen,) = talk(app_of(CONFIG + KEYS), get("/v1/models", authorization=f"Bearer {ALICE}"))
    assert [model["id"] for model in json.loads(seen.body)["data"]] == ["demo/any"]


def test_without_a_key_nothing_is_listed() -> None:
    assert talk(app_of(KEYS), get("/v1/models"))[0].status == 401


@pytest.mark.parametrize(("count", "status"), [(2048, 200), (2049, 400), (200_000, 400)])
def test_a_request_embeds_a_limited_number_of_texts(count: int, status: int) -> None:
    (seen,) = talk(app_of(), post_json("/v1/embeddings", {"model": "demo/any", "input": count * ["a"]}))
    assert seen.status == status
    if status == 400:
        assert f"input must have at most 2048 texts, got {count}" in seen.body.decode()


def test_vectors_are_made_by_the_target() -> None:
    (seen,) = talk(app_of(), post_json("/v1/embeddings", {"model": "demo/any", "input": ["ships", "harbours"]}))
    assert [row["index"] for row in json.loads(seen.body)["data"]] == [0, 1]


def test_bytes_that_the_target_does_not_send_are_refused_before_the_call() -> None:
    app = app_of('[providers.local]\nlike = "ollama"\nbase_url = "http://127.0.0.1:9"\n')
    body = {"model": "local/any", "input": "a", "encoding_format": "base64", "output_dtype": "int8"}
    (seen,) = talk(app, post_json("/v1/embeddings", body))
    assert seen.status == 400
    assert "local: output_dtype must be float, got int8" in seen.body.decode()


def test_every_endpoint_counts_in_the_limits_of_its_deployment() -> None:
    app = app_of('[providers.small]\nlike = "demo"\ndeployment_limits = { requests_per_minute = 2 }\n')
    embed = post_json("/v1/embeddings", {"model": "small/any", "input": "hello"})
    first, generated, full = talk(app, embed, post_json("/v1/chat/completions", chat("small/any")), embed)
    assert (first.status, generated.status, full.status) == (200, 200, 429)
    assert "its limit of 2 requests per minute is used up" in json.loads(full.body)["error"]["message"]
    assert 50 < int(dict(full.headers)["retry-after"]) <= 61


def test_the_documentation_needs_no_key() -> None:
    page, document = talk(app_of(KEYS), get("/native/docs"), get("/native/openapi.json"))
    assert page.headers["content-type"].startswith("text/html")
    assert json.loads(document.body)["openapi"].startswith("3.")


# Kept answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_goes_on_from_an_earlier_one(stream: bool) -> None:  # noqa: FBT001
    async def turns() -> list[str]:
        with FaultyServer("Noted: blue.", "It was blue.") as upstream:
            app = app_of(record("up", upstream.base_url()))
            body = {"model": "up/m", "input": "Remember blue.", "stream": stream}
            first = await send_request(app, post_json("/v1/responses", body))
            last = first.body.decode().rpartition("data: ")[2] if stream else first.body
            data: Any = json.loads(last)
            id = (data["response"] if stream else data)["id"]
            await send_request(
                app, post_json("/v1/responses", {"model": "up/m", "input": "Which?", "previous_response_id": id})
            )
            return [message.text for message in upstream.requests[-1].messages]

    assert asyncio.run(turns()) == ["Remember blue.", "Noted: blue.", "Which?"]


def test_a_kept_response_is_fetched_and_dropped_by_its_own_key_only() -> None:
    app = app_of(KEYS)
    alice, bob = {"authorization": f"Bearer {ALICE}"}, {"authorization": f"Bearer {BOB}"}

    async def walk() -> list[int]:
        first = await send_request(app, post_json("/v1/responses", {"model": "demo/any", "input": "hi"}, **alice))
        path = f"/v1/responses/{json.loads(first.body)['id']}"
        drop = HttpRequest(method="DELETE", path=path, headers=alice)
        requests = (get(path, **alice), get(path, **bob), drop, get(path, **alice), drop)
        return [(await send_request(app, http)).status for http in requests]

    assert asyncio.run(walk()) == [200, 404, 200, 404, 404]


def test_a_response_that_is_not_kept_cannot_be_gone_on_from() -> None:
    body = {"model": "demo/any", "input": "hi", "previous_response_id": "resp_nix"}
    (seen,) = talk(app_of(), post_json("/v1/responses", body))
    assert seen.status == 400
    assert json.loads(seen.body)["error"]["code"] == "previous_response_not_found"
    assert json.loads(seen.body)["error"]["param"] == "previous_response_id"


@pytest.mark.parametrize("stream", [False, True])
def test_every_response_has_an_id_of_its_own(stream: bool) -> None:  # noqa: FBT001
    with FaultyServer("Hello.", "Hello.") as upstream:  # which calls both of them by the same id
        app = app_of(record("up", upstream.base_url()))
        http = post_json("/v1/responses", {"model": "up/m", "input": "hi", "stream": stream})
        ids = [{*re.findall(rb'"id":"(resp_\w+)"', seen.body)} for seen in talk(app, http, http)]
    assert [len(each) for each in ids] == [1, 1]
    assert ids[0] != ids[1]


# Beside chat ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_ollama_generates_from_a_prompt(stream: bool) -> None:  # noqa: FBT001
    (seen,) = talk(app_of(), post_json("/api/generate", {"model": "demo/any", "prompt": "hello", "stream": stream}))
    lines = [json.loads(line) for line in seen.body.splitlines()]
    assert "".join(line["response"] for line in lines).startswith("Hello!")
    assert lines[-1]["done"] is True


# Conversations --------------------------------------------------------------------------------------------------------

NATIVE = "/native/v1/chat/completions"


def converse(tier: str, conversation: str = "c1", **headers: str) -> HttpRequest:
    body = {"tier": tier, "conversation_id": conversation, "messages": [{"role": "user", "content": "hi"}]}
    return post_json(NATIVE, body, **headers)


def test_who_names_neither_a_model_nor_a_tier_gets_the_simple_one_or_is_told_what_to_do() -> None:
    http = post_json(NATIVE, {"messages": [{"role": "user", "content": "hi"}]})
    (simple,), (refused,) = talk(app_of(CONFIG), http), talk(app_of(), http)
    assert simple.headers["x-dragoman-tier"] == "simple"
    assert refused.status == 400
    error = json.loads(refused.body)["error"]
    assert error["param"] == "model"
    assert "send a model such as 'demo/any', or add [tiers.simple]" in error["message"]


TIERS = (
    '[tiers.simple]\nmodels = { "demo/any" = 1, "demo/slow" = 1000000000 }\n'
    '[tiers.complex]\nmodels = ["demo/any", "demo/overloaded"]\n[chain]\nretries = 0\n'
)


def test_a_conversation_stays_in_its_tier_or_goes_up() -> None:
    seen = talk(app_of(TIERS), converse("simple"), converse("complex"), converse("simple"))
    assert [each.headers["x-dragoman-tier"] for each in seen] == ["simple", "complex", "complex"]


def test_a_conversation_belongs_to_its_key() -> None:
    app = app_of(TIERS + KEYS.replace('models = ["demo/*"]\n', ""))
    seen = talk(
        app,
        converse("complex", authorization=f"Bearer {ALICE}"),
        converse("simple", authorization=f"Bearer {BOB}"),
        converse("simple", authorization=f"Bearer {ALICE}"),
    )
    assert [each.headers["x-dragoman-tier"] for each in seen] == ["complex", "simple", "complex"]


def test_a_conversation_follows_the_target_that_answered() -> None:
    async def walk() -> list[str]:
        with FaultyServer("a", "b") as upstream:
            text = record("up", upstream.base_url()) + '[tiers.simple]\nmodels = ["up/m", "demo/any"]\n'
            app = app_of(text + "[chain]\nretries = 0\n")
            first = await send_request(app, converse("simple"))
            app.runtime.registry.health.disable("up/m", 60.0)
            moved = await send_request(app, converse("simple"))
            app.runtime.registry.health.enable("up/m")
            stays = await send_request(app, converse("simple"))
            fresh = await send_request(app, converse("simple", "c2"))
            return [each.headers["x-dragoman-target"] for each in (first, moved, stays, fresh)]

    assert asyncio.run(walk()) == ["up/m", "demo/any", "demo/any", "up/m"]


@pytest.mark.parametrize("remembered", [False, True])
def test_calls_have_ids_of_ours_and_go_back_under_the_providers(remembered: bool) -> None:  # noqa: FBT001
    async def walk() -> tuple[str, str]:
        with FaultyServer(ToolCall(id="their_id_1", name="tide"), "At six.") as upstream:
            app = app_of(record("up", upstream.base_url()))
            tool = {
                "type": "function",
                "function": {"name": "tide", "description": "x", "parameters": {"type": "object"}},
            }
            body: dict[str, Any] = {
                "model": "up/m",
                "tools": [tool],
                "messages": [{"role": "user", "content": "When?"}],
            }
            if remembered:
                body["conversation_id"] = "c1"
            first = await send_request(app, post_json(NATIVE, body))
            message = json.loads(first.body)["choices"][0]["message"]
            id = message["tool_calls"][0]["id"]
            body["messages"] += [message, {"role": "tool", "tool_call_id": id, "content": {"at": 6}}]
            headers = {} if remembered else {"x-dragoman-tool-ids": first.headers["x-dragoman-tool-ids"]}
            assert (await send_request(app, post_json(NATIVE, body, **headers))).status == 200
            return id, upstream.requests[-1].messages[-1].tool_results[0].id

    ours, theirs = asyncio.run(walk())
    assert ours.startswith("call_")
    assert theirs == "their_id_1"


def test_a_refused_request_pins_nothing() -> None:
    seen = talk(app_of(TIERS), post_json(NATIVE, {"tier": "complex", "conversation_id": "c1"}), converse("simple"))
    assert [each.status for each in seen] == [400, 200]
    assert seen[1].headers["x-dragoman-tier"] == "simple"


def test_a_store_that_is_down_stops_conversations_only() -> None:
    app = app_of('[gateway]\nstore = "redis://127.0.0.1:1/0"\n')
    app.manager.is_loaded = True  # it was down only after the start
    alone, together, ready = talk(
        app,
        post_json("/v1/chat/completions", chat("demo/any")),
        post_json(
            NATIVE, {"model": "demo/any", "conversation_id": "c", "messages": [{"role": "user", "content": "x"}]}
        ),
        get("/health/ready"),
    )
    assert (alone.status, together.status, ready.status) == (200, 503, 503)
