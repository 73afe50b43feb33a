"""What dialects are asked beside generation, in the bytes of each."""

import struct
from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.errors import InvalidRequest
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Started, fold
from dragoman.http import HttpRequest
from dragoman.types import (
    Embeddings,
    Finish,
    Message,
    ModelInfo,
    Opaque,
    Request,
    Response,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    decode_base64,
    dump,
    load,
    system,
    tool_results,
    user,
)
from dragoman.wires import NAMES, get
from dragoman.wires.common.server_endpoints import (
    CountTokens,
    DropResponse,
    Embed,
    FetchResponse,
    ListModels,
    Route,
    ServerEndpoint,
    ShowModel,
    StaticDocument,
    StoredConversations,
    StoredResponse,
    StoredResponseQuery,
    path_parameter,
)

MODELS = (
    ModelInfo(id="demo/any"),
    ModelInfo(id="fast", name="Fast", created=1763370000, context_window=8192, max_output=512),
)
VECTORS = Embeddings(vectors=((0.5, -1.0),), usage=Usage(input=3))


def service(wire: str, method: str, path: str) -> ServerEndpoint:
    return next(
        found for found in wires.get(wire).server_endpoints if (found.route.method, found.route.path) == (method, path)
    )


def answer(wire: str, method: str, path: str, asked: Any, found: Any) -> Any:
    return msgspec.json.decode(service(wire, method, path).encode(asked, found).body)


def question(wire: str, method: str, path: str, body: Any = None, at: str | None = None) -> Any:
    http = HttpRequest(method=method, path=at or path, body=msgspec.json.encode(body))
    return service(wire, method, path).decode(http)


def test_no_two_dialects_answer_at_one_place() -> None:
    routes = [route for name in NAMES for half in (get(name).server, *get(name).other_servers) for route in half.routes]
    routes += [service.route for name in NAMES for service in wires.get(name).server_endpoints]
    assert len(routes) == len(set(routes))


def test_a_path_that_is_another_holds_nothing() -> None:
    assert path_parameter(Route(method="GET", path="/a/{id}"), HttpRequest(method="GET", path="/b/1")) == ""


# Models ---------------------------------------------------------------------------------------------------------------


def test_models_as_openai_lists_them() -> None:
    assert question("openai_chat", "GET", "/v1/models") == ListModels()
    assert answer("openai_chat", "GET", "/v1/models", ListModels(), MODELS) == {
        "object": "list",
        "data": [
            {"id": "demo/any", "object": "model", "created": 0, "owned_by": "demo"},
            {"id": "fast", "object": "model", "created": 1763370000, "owned_by": "dragoman"},
        ],
    }
    path = "/v1/models/{model}"
    assert question("openai_chat", "GET", path, at="/v1/models/demo/any") == ShowModel("demo/any")
    assert answer("openai_chat", "GET", path, ShowModel("fast"), MODELS[1])["id"] == "fast"


def test_models_as_anthropic_lists_them() -> None:
    assert service("anthropic", "GET", "/v1/models").route.header == "anthropic-version"
    assert answer("anthropic", "GET", "/v1/models", ListModels(), MODELS) == {
        "data": [
            {"type": "model", "id": "demo/any", "display_name": "demo/any", "created_at": "1970-01-01T00:00:00Z"},
            {"type": "model", "id": "fast", "display_name": "Fast", "created_at": "2025-11-17T09:00:00Z"},
        ],
        "has_more": False,
        "first_id": "demo/any",
        "last_id": "fast",
    }
    assert answer("anthropic", "GET", "/v1/models", ListModels(), ())["last_id"] is None


def test_models_as_google_lists_them() -> None:
    path = "/v1beta/models"
    assert answer("google", "GET", path, ListModels(), MODELS)["models"][1] == {
        "name": "models/fast",
        "displayName": "Fast",
        "inputTokenLimit": 8192,
        "outputTokenLimit": 512,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
    }
    assert question("google", "GET", f"{path}/{{model}}", at=f"{path}/fast") == ShowModel("fast")


def test_models_as_ollama_lists_them() -> None:
    listed = answer("ollama", "GET", "/api/tags", ListModels(), MODELS)["models"]
    assert (listed[1]["model"], listed[1]["modified_at"]) == ("fast", "2025-11-17T09:00:00Z")
    assert question("ollama", "POST", "/api/show", {"model": "fast"}) == ShowModel("fast")
    assert question("ollama", "POST", "/api/show", {"name": "fast"}) == ShowModel("fast")
    shown = answer("ollama", "POST", "/api/show", ShowModel("fast"), MODELS[1])
    assert shown["model_info"] == {"general.architecture": "dragoman", "dragoman.context_length": 8192}
    with pytest.raises(InvalidRequest, match=r"^model is required$"):
        question("ollama", "POST", "/api/show", {})


def test_models_as_we_list_them() -> None:
    assert answer("native", "GET", "/native/v1/models", ListModels(), MODELS) == {
        "object": "list",
        "data": [
            {"id": "demo/any", "object": "model"},
            {
                "id": "fast",
                "object": "model",
                "name": "Fast",
                "created": 1763370000,
                "context_window": 8192,
                "max_output": 512,
            },
        ],
    }


def test_what_ollama_recites() -> None:
    assert question("ollama", "GET", "/api/version") == StaticDocument()
    assert answer("ollama", "GET", "/api/version", StaticDocument(), None)["version"].count(".") == 2
    assert answer("ollama", "GET", "/api/ps", StaticDocument(), None) == {"models": []}


# Tokens ---------------------------------------------------------------------------------------------------------------

HELLO = Request(messages=(user("Hello"),))


def test_tokens_as_anthropic_counts_them() -> None:
    body = {"model": "fast", "messages": [{"role": "user", "content": "Hello"}]}
    assert question("anthropic", "POST", "/v1/messages/count_tokens", body) == CountTokens("fast", HELLO)
    asked = CountTokens("fast", HELLO)
    assert answer("anthropic", "POST", "/v1/messages/count_tokens", asked, 5) == {"input_tokens": 5}


@pytest.mark.parametrize("wrap", [False, True])
def test_tokens_as_google_counts_them(wrap: bool) -> None:  # noqa: FBT001 - a parameter of the test
    path = "/v1beta/models/{model}:countTokens"
    body: Any = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    body = {"generateContentRequest": {"model": "models/fast", **body}} if wrap else body
    asked = question("google", "POST", path, body, at="/v1beta/models/fast:countTokens?key=k")
    assert asked == CountTokens("fast", HELLO)
    assert answer("google", "POST", path, asked, 5) == {"totalTokens": 5}


def test_tokens_as_the_responses_api_counts_them() -> None:
    path = "/v1/responses/input_tokens"
    asked = question("openai_responses", "POST", path, {"model": "fast", "input": "Hello"})
    assert asked == CountTokens("fast", HELLO)
    told = {"object": "response.input_tokens", "input_tokens": 5}
    assert answer("openai_responses", "POST", path, asked, 5) == told


# Embeddings -----------------------------------------------------------------------------------------------------------


def test_vectors_as_openai_gives_them() -> None:
    path = "/v1/embeddings"
    asked = question("openai_chat", "POST", path, {"model": "fast", "input": "Hello", "dimensions": 2})
    assert asked == Embed("fast", ("Hello",), 2)
    assert answer("openai_chat", "POST", path, asked, VECTORS) == {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}],
        "model": "fast",
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }


def test_vectors_are_packed_where_that_is_asked_for() -> None:
    path = "/v1/embeddings"
    asked = question("openai_chat", "POST", path, {"model": "m", "input": ["a", "b"], "encoding_format": "base64"})
    assert asked == Embed("m", ("a", "b"), base64=True)
    packed = answer("openai_chat", "POST", path, asked, VECTORS)["data"][0]["embedding"]
    assert struct.unpack("<2f", decode_base64(packed)) == (0.5, -1.0)


@pytest.mark.parametrize(
    ("given", "texts"), [([1, 2], ((1, 2),)), ([[1, 2], [3]], ((1, 2), (3,))), (["a", [3]], ("a", (3,)))]
)
def test_vectors_may_be_those_of_tokens(given: object, texts: tuple[object, ...]) -> None:
    asked = question("openai_chat", "POST", "/v1/embeddings", {"model": "m", "input": given})
    assert isinstance(asked, Embed)
    assert asked.texts == texts


@pytest.mark.parametrize("given", [[], [1, "a"], [1, [2]], [1.5], 3, None])
def test_what_is_no_text_has_no_vector(given: object) -> None:
    with pytest.raises(InvalidRequest, match="input"):
        question("openai_chat", "POST", "/v1/embeddings", {"model": "m", "input": given})


def test_vectors_as_ollama_gives_them() -> None:
    asked = question("ollama", "POST", "/api/embed", {"model": "fast", "input": ["a"]})
    assert asked == Embed("fast", ("a",))
    assert question("ollama", "POST", "/api/embed", {"model": "fast", "input": "a"}) == asked
    told = {"model": "fast", "embeddings": [[0.5, -1.0]], "prompt_eval_count": 3}
    assert answer("ollama", "POST", "/api/embed", asked, VECTORS) == told


# One turn of Ollama ---------------------------------------------------------------------------------------------------

GENERATE = get("ollama").other_servers[0]


def test_a_prompt_is_a_chat_of_one_turn() -> None:
    body = {"model": "fast", "prompt": "Hello", "system": "Be brief.", "options": {"seed": 7}, "stream": False}
    http = HttpRequest(method="POST", path="/api/generate", body=msgspec.json.encode(body))
    asked = Request(messages=(user("Hello"),), system="Be brief.", seed=7)
    assert GENERATE.decode_request(http) == ("fast", asked)
    assert GENERATE.routes == (Route(method="POST", path="/api/generate"),)


def test_what_is_said_to_a_prompt_is_a_response() -> None:
    said = assistant(Thinking(text="Hm."), "Hello")
    reply = GENERATE.encode_body(Response(message=said, finish=Finish(reason="stop"), model="fast", created=1763370000))
    assert msgspec.json.decode(reply.body) == {
        "model": "fast",
        "created_at": "2025-11-17T09:00:00Z",
        "response": "Hello",
        "thinking": "Hm.",
        "done": True,
        "done_reason": "stop",
    }
    assert GENERATE.supports_part(Text(text="Hello"))
    assert not GENERATE.supports_part(ToolCall(id="call_1", name="now"))


def test_a_streamed_response_to_a_prompt() -> None:
    encoder = GENERATE.stream_encoder(Request())
    events: list[Event] = [
        Started(model="fast"),
        PartStarted(index=0, kind="text"),
        PartDelta(index=0, text="Hello"),
        PartEnded(index=0, part=Text(text="Hello")),
        Finished(finish=Finish(reason="stop")),
    ]
    lines = [msgspec.json.decode(line) for event in events for line in encoder.feed(event).splitlines()]
    assert [(line["response"], line["done"]) for line in lines] == [("Hello", False), ("", True)]
    assert fold(events).text == "Hello"


# Answers that are kept ------------------------------------------------------------------------------------------------

CALL = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})


def memory() -> StoredConversations:
    found = wires.get("openai_responses").stored_conversations
    assert found is not None
    return found


def asked(**body: Any) -> tuple[StoredResponseQuery, Request]:
    http = HttpRequest(method="POST", path="/v1/responses", body=msgspec.json.encode({"model": "m", **body}))
    return memory().split(get("openai_responses").server.decode_request(http)[1], http.body)


def answered(*parts: Any, id: str = "resp_1") -> Response:
    return Response(id=id, message=assistant(*parts), finish=Finish(reason="stop"))


def test_only_what_remembers_has_a_memory() -> None:
    assert [name for name in NAMES if wires.get(name).stored_conversations] == ["openai_responses"]


def test_an_answer_is_kept_unless_that_is_not_wanted() -> None:
    assert asked(input="Hello") == (StoredResponseQuery(store=True), HELLO)
    assert asked(input="Hello", store=False)[0] == StoredResponseQuery(store=False)
    recall, request = asked(input="Hello", previous_response_id="resp_1", store=True, truncation="auto")
    assert recall == StoredResponseQuery(previous_id="resp_1", store=True)
    assert request.extra["openai_responses"] == {"truncation": "auto"}


def test_a_kept_answer_says_what_was_asked() -> None:
    request = asked(input="Hello", instructions="Be brief.", text={"verbosity": "low"})[1]
    kept = load(dump(memory().record(request, answered("Hi"))), StoredResponse)
    said = answer("openai_responses", "GET", "/v1/responses/{id}", FetchResponse("resp_1"), kept)
    assert (said["instructions"], said["text"]) == ("Be brief.", {"format": {"type": "text"}, "verbosity": "low"})


def test_a_request_goes_on_from_an_answer() -> None:
    first = asked(input="Tide?", instructions="Be brief.")[1]
    kept = memory().record(first, answered("Where?"))
    second = memory().join(kept, asked(input="Brest", previous_response_id="resp_1")[1])
    assert second.messages == (user("Tide?"), assistant("Where?"), user("Brest"))
    assert second.system is None


def test_a_result_finds_the_call_that_is_kept() -> None:
    kept = memory().record(asked(input="Tide?")[1], answered(CALL))
    output = {"type": "function_call_output", "call_id": "call_1", "output": "4.2 m"}
    more = {"role": "user", "content": "Well?"}
    second = memory().join(kept, asked(input=[output, more], previous_response_id="resp_1")[1])
    result = ToolResult(id="call_1", name="tide", content="4.2 m")
    assert second.messages == (user("Tide?"), assistant(CALL), tool_results(result), user("Well?"))


def test_what_is_no_result_stays_where_it_is() -> None:
    kept = StoredResponse(messages=(), response=answered("Hi"))
    items = [
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "4.2 m"},
    ]
    joined = memory().join(kept, asked(input=items, previous_response_id="resp_1")[1])
    assert joined.messages == (
        tool_results(ToolResult(id="call_1", content="4.2 m")),
        Message(role="assistant", parts=(Opaque(wire="openai_responses", data=items[0]),)),
    )
    assert memory().join(kept, Request(messages=(Message(role="user"),))).messages == (Message(role="user"),)


def test_system_items_stay_and_instructions_do_not() -> None:
    items = [{"role": "developer", "content": "In French."}, {"role": "user", "content": "Hello"}]
    first = asked(input=items, instructions="Be brief.", store=True)[1]
    kept = memory().record(first, answered("Bonjour"))
    assert [message.text for message in kept.messages] == ["In French.", "Hello", "Bonjour"]
    assert kept.messages[0].role == system("x").role
    assert load(dump(kept), StoredResponse) == kept


def test_a_kept_answer_can_be_fetched_and_dropped() -> None:
    path = "/v1/responses/{id}"
    assert question("openai_responses", "GET", path, at="/v1/responses/resp_1") == FetchResponse("resp_1")
    assert question("openai_responses", "DELETE", path, at="/v1/responses/resp_1") == DropResponse("resp_1")
    fetched = answer(
        "openai_responses",
        "GET",
        path,
        FetchResponse("resp_1"),
        StoredResponse(messages=(), response=answered("Hello")),
    )
    assert fetched["output"][0]["content"][0]["text"] == "Hello"
    dropped = {"id": "resp_1", "object": "response", "deleted": True}
    assert answer("openai_responses", "DELETE", path, DropResponse("resp_1"), None) == dropped
