"""google-genai's `interactions` as a client of a live gateway, and as an oracle for our client half."""

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from dragoman import Model, Registry, messages_from, wires
from dragoman.targets.providers import target
from dragoman.testing import FaultyServer
from dragoman.types import (
    Image,
    JsonObject,
    Opaque,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)
from tests.support.gateway.interactions import interaction_steps
from tests.support.gateway.live import Gateway, record

genai: Any = pytest.importorskip("google.genai")
WIRE = "google_interactions"
PARAMETERS = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
TIDE = {"type": "function", "name": "tide", "description": "When the tide turns.", "parameters": PARAMETERS}
CALL = ToolCall(id="call_abc123", name="tide", arguments={"place": "Kiel"})
SIGNED = Thinking(text="Look.", extra={"anthropic": {"signature": "c2lnbmVk"}})


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(upstream: FaultyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    records = record("up", upstream.base_url()) + record("claude", upstream.base_url("anthropic"), "anthropic")
    config = records + '[chain]\nretries = 0\n[aliases]\nfast = "demo/any"\n[gateway]\nproviders = ["demo"]\n'
    with Gateway(tmp_path_factory.mktemp("gateway"), config) as running:
        yield running


def options(url: str, **more: Any) -> Any:
    return genai.types.HttpOptions(base_url=url, retry_options=genai.types.HttpRetryOptions(attempts=1), **more)


@pytest.fixture
def client(gateway: Gateway) -> Iterator[Any]:
    with genai.Client(api_key="k", http_options=options(gateway.url, api_version="v1beta")) as connected:
        yield connected


@contextmanager
def refused(status: int, message: str) -> Generator[None]:
    """The package raises its error for that status; the classes have no public names (3.3, 2026-11)."""
    with pytest.raises(Exception, match=message) as caught:
        yield
    assert getattr(caught.value, "status_code", None) == status


def test_an_answer_and_a_stream(client: Any) -> None:
    answer = client.interactions.create(model="fast", input="hi")
    assert (answer.status, answer.model) == ("completed", "fast")
    assert answer.output_text.startswith("Hello!")
    assert answer.usage.total_output_tokens > 0
    events = list(client.interactions.create(model="fast", input="hi", stream=True))
    assert [events[0].event_type, events[-1].event_type] == ["interaction.created", "interaction.completed"]
    deltas = [event.delta.text for event in events if event.event_type == "step.delta"]
    assert "".join(deltas) == answer.output_text
    assert events[-1].interaction.status == "completed"


def test_the_async_client_and_the_path_of_another_host(gateway: Gateway) -> None:
    async def talk() -> tuple[str, str]:
        connected = genai.Client(api_key="k", http_options=options(gateway.url)).aio
        try:
            answer = await connected.interactions.create(model="fast", input="hi")
            pieces: list[str] = []
            async for event in await connected.interactions.create(model="fast", input="hi", stream=True):
                pieces += [event.delta.text] if event.event_type == "step.delta" else []
            return answer.output_text, "".join(pieces)
        finally:
            await connected.aclose()

    whole, streamed = asyncio.run(talk())
    assert whole == streamed
    assert whole.startswith("Hello!")


def test_the_mode_for_vertex(gateway: Gateway) -> None:
    credentials = pytest.importorskip("google.oauth2.credentials").Credentials(token="k")
    place = {"vertexai": True, "project": "p", "location": "europe-west4", "credentials": credentials}
    with genai.Client(**place, http_options=options(gateway.url)) as client:
        answer = client.interactions.create(model="fast", input="hi")
        assert client.interactions.get(answer.id).output_text == answer.output_text
        client.interactions.delete(answer.id)


def test_steps_of_the_package_are_messages(client: Any, upstream: FaultyServer) -> None:
    upstream.add(assistant(SIGNED, CALL))
    answer = client.interactions.create(model="claude/m", input="When?", tools=[TIDE])
    (message,) = messages_from(answer.steps)
    assert [part.text for part in message.parts if isinstance(part, Thinking)] == ["Look."]
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("tide", {"place": "Kiel"})]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_result_continues_a_stored_interaction(client: Any, upstream: FaultyServer, *, stream: bool) -> None:
    upstream.add(assistant(SIGNED, CALL), "It turns at six.")
    first, steps = ask(client, stream=stream, model="claude/m", input="When?", tools=[TIDE])
    assert first.status == "requires_action"
    assert [step["type"] for step in steps][-1] == "function_call"
    (call,) = [step for step in steps if step["type"] == "function_call"]
    assert (call["name"], call["arguments"]) == ("tide", {"place": "Kiel"})
    result = {"type": "function_result", "call_id": call["id"], "name": "tide", "result": "at six"}
    second, steps = ask(
        client, stream=stream, model="claude/m", previous_interaction_id=first.id, input=[result], tools=[TIDE]
    )
    assert second.status == "completed"
    assert steps[-1]["content"][0]["text"] == "It turns at six."
    sent = msgspec.json.decode(upstream.http[-1].body)["messages"]
    assert sent[1]["content"][0] == {"type": "thinking", "thinking": "Look.", "signature": "c2lnbmVk"}
    assert sent[2]["content"][0]["content"] == "at six"


def ask(client: Any, *, stream: bool, **fields: Any) -> tuple[Any, list[JsonObject]]:
    """The interaction and its steps; those of a stream are put together as the deltas say."""
    if not stream:
        answer = client.interactions.create(**fields)
        return answer, [step.model_dump(mode="json", exclude_none=True) for step in answer.steps]
    events = list(client.interactions.create(stream=True, **fields))
    return events[-1].interaction, interaction_steps(events)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_steps_come_back_without_a_store(client: Any, upstream: FaultyServer, *, stream: bool) -> None:
    upstream.add(assistant(SIGNED, CALL), "It turns at six.")
    history: list[Any] = [{"type": "user_input", "content": [{"type": "text", "text": "When?"}]}]
    fields: dict[str, Any] = {"model": "claude/m", "tools": [TIDE], "store": False}
    _, steps = ask(client, stream=stream, input=history, **fields)
    history += [*steps, {"type": "function_result", "call_id": "call_abc123", "name": "tide", "result": "at six"}]
    answer, _ = ask(client, stream=stream, input=history, **fields)
    assert answer.status == "completed"
    sent = msgspec.json.decode(upstream.http[-1].body)["messages"]
    assert sent[1]["content"][0] == {"type": "thinking", "thinking": "Look.", "signature": "c2lnbmVk"}
    assert sent[1]["content"][1]["input"] == {"place": "Kiel"}


def test_a_stored_interaction_is_fetched_streamed_and_deleted(client: Any) -> None:
    first = client.interactions.create(model="fast", input="hi")
    same = client.interactions.get(first.id)
    assert (same.id, same.output_text) == (first.id, first.output_text)
    with_input = client.interactions.get(first.id, include_input=True)
    assert with_input.input[0].content[0].text == "hi"
    events = list(client.interactions.get(first.id, stream=True))
    assert events[-1].event_type == "interaction.completed"
    later = list(client.interactions.get(first.id, stream=True, last_event_id=events[-2].event_id))
    assert [event.event_type for event in later] == ["interaction.completed"]
    with refused(400, "Cannot cancel"):
        client.interactions.cancel(first.id)
    client.interactions.delete(first.id)
    for method in (client.interactions.get, client.interactions.delete):
        with refused(404, "not_found"):
            method(first.id)


def test_what_is_not_stored_cannot_be_continued(client: Any) -> None:
    first = client.interactions.create(model="fast", input="hi", store=False)
    with refused(400, "previous_interaction_id must be the id of a stored response"):
        client.interactions.create(model="fast", input="and?", previous_interaction_id=first.id)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_an_unknown_model_is_an_error_of_the_package(client: Any, *, stream: bool) -> None:
    with refused(404, "model_not_found"):
        list(client.interactions.create(model="nothing", input="hi", stream=stream))


# Our own client half as a client of the gateway ----------------------------------------------------------------------


@pytest.fixture
def own(gateway: Gateway) -> Model:
    registry = Registry(env={})
    registry.add_provider(name="box", like="google-interactions", base_url=f"{gateway.url}/v1beta", api_key="hush-key")
    return registry.model("box/fast")


def test_our_library_talks_to_the_gateway(own: Model) -> None:
    answer = own.generate("hi")
    assert answer.text.startswith("Hello!")
    assert "".join(own.stream("hi").text_deltas()) == answer.text
    assert answer.id is not None
    assert answer.id.startswith("v1_")


def test_a_probe_finds_what_the_server_can_do(own: Model) -> None:
    facts = own.probe().facts
    assert (facts["tools"], facts["streaming"]) == (True, True)


def test_explain_shows_the_bytes_and_no_key(own: Model) -> None:
    (shown,) = own.explain("hi", reasoning="low")
    assert shown.request is not None
    assert b'"thinking_level":"low"' in shown.request.body
    assert "hush-key" not in repr(shown)


# The oracle: the bytes that the package sends for the same request ----------------------------------------------------

SCHEMA = {"type": "object", "properties": {"metres": {"type": "number"}}, "required": ["metres"]}
PIXEL = b"\x89PNG"
CASES: dict[str, tuple[Request, dict[str, Any]]] = {
    "options": (
        Request(
            messages=(user("hi"),),
            system="Be brief.",
            temperature=0.5,
            top_p=0.9,
            max_tokens=64,
            stop=("x",),
            seed=7,
            reasoning="low",
            service_tier="flex",
        ),
        {
            "input": [{"type": "user_input", "content": [{"type": "text", "text": "hi"}]}],
            "system_instruction": "Be brief.",
            "generation_config": {
                "temperature": 0.5,
                "top_p": 0.9,
                "max_output_tokens": 64,
                "stop_sequences": ["x"],
                "seed": 7,
                "thinking_level": "low",
                "thinking_summaries": "auto",
            },
            "service_tier": "flex",
        },
    ),
    "tools": (
        Request(
            messages=(
                user("When?", Image(data=PIXEL, mime="image/png")),
                assistant(Thinking(text="Look.", extra={WIRE: {"signature": "c2ln"}}), Text(text="So:"), CALL),
                tool_results(ToolResult(id="call_abc123", name="tide", content="at six", is_error=True)),
            ),
            tools=(
                Tool(name="tide", description="When the tide turns.", parameters=PARAMETERS),
                Opaque(wire=WIRE, data={"type": "google_search"}),
            ),
            tool_choice="tide",
            schema=SCHEMA,
        ),
        {
            "input": [
                {
                    "type": "user_input",
                    "content": [
                        {"type": "text", "text": "When?"},
                        {"type": "image", "data": "iVBORw==", "mime_type": "image/png"},
                    ],
                },
                {"type": "thought", "summary": [{"type": "text", "text": "Look."}], "signature": "c2ln"},
                {"type": "model_output", "content": [{"type": "text", "text": "So:"}]},
                {"type": "function_call", "id": "call_abc123", "name": "tide", "arguments": {"place": "Kiel"}},
                {
                    "type": "function_result",
                    "call_id": "call_abc123",
                    "name": "tide",
                    "result": "at six",
                    "is_error": True,
                },
            ],
            "tools": [TIDE, {"type": "google_search"}],
            "generation_config": {"tool_choice": {"allowed_tools": {"mode": "any", "tools": ["tide"]}}},
            "response_format": {"type": "text", "mime_type": "application/json", "schema": SCHEMA},
        },
    ),
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("case", CASES)
def test_our_request_is_the_one_of_the_package(case: str, upstream: FaultyServer, *, stream: bool) -> None:
    request, fields = CASES[case]
    upstream.add("ok")
    url = upstream.base_url(WIRE).removesuffix("/v1beta")
    with genai.Client(api_key="k", http_options=options(url, api_version="v1beta")) as connected:
        result = connected.interactions.create(model="gemini-x", store=False, stream=stream, **fields)
        assert not stream or list(result)
    theirs = upstream.http[-1]
    to = target("google-interactions/gemini-x", api_key="k", base_url=upstream.base_url(WIRE))
    ours = wires.get(WIRE).client.encode_request(msgspec.structs.replace(request, stream=stream), to)
    body: JsonObject = msgspec.json.decode(theirs.body)
    assert body.pop("stream") is stream
    assert msgspec.json.decode(ours.body) == {**body, **({"stream": True} if stream else {})}
    assert (theirs.method, theirs.path) == (ours.method, ours.path)
    assert theirs.headers["content-type"] == ours.headers["content-type"]
    assert {"x-goog-api-key"} <= theirs.headers.keys() & ours.headers.keys()
