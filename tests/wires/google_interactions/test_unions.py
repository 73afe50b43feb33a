"""Every member of the unions in google-genai's types of interactions: read, written again, and sent back."""

from collections.abc import Callable
from typing import Any, get_args

import msgspec
from google.genai import interactions as package
from google.genai._gaos.types.interactions.interaction import InteractionStatus

from dragoman import wires
from dragoman.errors import ProviderError
from dragoman.events import fold, to_events
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.types import JsonObject, Request, ToolResult, tool_results, user
from dragoman.wires.google_interactions.schema import FINISH_REASONS
from tests.support.batch import grouped
from tests.support.corpus.rules import without_nulls
from tests.support.wires import laws
from tests.support.wires.unions import examples

WIRE = wires.get("google_interactions")
TARGET = target("google-interactions/m", api_key="k")


def each(union: Any) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """One test with all members; those that the package does not know itself are left out."""
    found = [(name, item) for name, item in examples(union) if item.get("type") not in (None, "UNKNOWN")]
    return grouped({"all": {f"{name} ({number})": {"item": item} for number, (name, item) in enumerate(found)}})


def output(step: JsonObject) -> JsonObject:
    """A step as the model gives it: its arguments are an object."""
    return {**step, "arguments": {"a": 1}} if isinstance(step.get("arguments"), str) else step


@each(package.Step)
def test_every_step_is_read_written_and_sent_back(item: JsonObject) -> None:
    step: JsonObject = without_nulls(output(item))
    response = WIRE.client.decode_response(msgspec.json.encode({"status": "completed", "steps": [step]}))
    written = msgspec.json.decode(WIRE.server.encode_body(response).body)["steps"]
    is_silent = step.keys() == {"type"} or step == {"type": step["type"], "content": []}
    assert written == ([] if is_silent else [step]) or contents(written) == contents([step])
    encoder = WIRE.server.stream_encoder(Request())
    data = b"".join(encoder.feed(event) for event in to_events(response))
    events, error = laws.read(WIRE.client.stream_decoder(), [data])
    assert error is None
    # A stream has no place for the annotations of a summary.
    assert fold(events).message == response.message or "annotations" in str(step.get("summary"))
    results = tool_results(*[ToolResult(id=call.id, name=call.name) for call in response.tool_calls])
    turns = (user("?"), response.message, *((results,) if results.parts else ()), user("!"))
    sent = msgspec.json.decode(WIRE.client.encode_request(Request(messages=turns), TARGET).body)["input"]
    own = [other for other in sent[1:-1] if not results.parts or other["type"] != "function_result"]
    assert contents(written) == contents(own)


def contents(steps: list[JsonObject]) -> list[JsonObject]:
    """Steps with one content each: how an output is divided into steps has no meaning."""
    divided: list[JsonObject] = []
    for step in steps:
        items, rest = step.get("content"), {key: value for key, value in step.items() if key not in ("type", "content")}
        divided += [{"type": step["type"], "content": [item]} for item in items or ()]
        divided += [{"type": step["type"], **rest}] if rest or not items else []
    return divided


@each(package.Step)
def test_every_step_of_an_input_goes_to_a_provider_as_it_came(item: JsonObject) -> None:
    step: JsonObject = without_nulls(output(item))
    call: JsonObject = {"type": "function_call", "id": step.get("call_id"), "name": "tide", "arguments": {}}
    before = [call] if step["type"] == "function_result" else []
    result = {"type": "function_result", "call_id": step.get("id"), "result": "x"}
    after = [result] if step["type"] == "function_call" else []
    body = msgspec.json.encode({"model": "m", "input": [*before, step, *after, {"type": "text", "text": "!"}]})
    _, request = WIRE.server.decode_request(HttpRequest(method="POST", path="/v1beta/interactions", body=body))
    sent = msgspec.json.decode(WIRE.client.encode_request(request, TARGET).body)["input"][len(before) : -1 - len(after)]
    is_silent = step.keys() == {"type"} or step == {"type": step["type"], "content": []}
    named = {"name": "tide"} if step["type"] == "function_result" else {}
    assert contents(sent) == contents([] if is_silent and step["type"] != "thought" else [{**named, **step}])


@each(package.StepDeltaData)
def test_every_delta_is_read_or_is_an_error_of_ours(item: JsonObject) -> None:
    for kind in ("model_output", "thought", "function_call", "google_search_call"):
        events: list[JsonObject] = [
            {"event_type": "step.start", "index": 0, "step": {"type": kind, "id": "a", "name": "b", "arguments": {}}},
            {"event_type": "step.delta", "index": 0, "delta": item},
            {"event_type": "step.stop", "index": 0},
            {"event_type": "interaction.completed", "interaction": {"status": "completed"}},
        ]
        data = b"".join(b"data: %b\n\n" % msgspec.json.encode(event) for event in events)
        found, error = laws.read(WIRE.client.stream_decoder(), [data])
        assert error is None or isinstance(error, ProviderError)
        if error is None:
            laws.obeys_grammar(found)


def test_every_status_is_known() -> None:
    words = {word for arm in get_args(InteractionStatus) for word in get_args(arm) if isinstance(word, str)}
    assert "completed" in words
    assert words <= {*FINISH_REASONS, "failed"}
