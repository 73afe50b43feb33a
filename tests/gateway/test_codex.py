"""What Codex and its like use of the Responses API besides plain answers."""

import json
from typing import Any

import pytest

from dragoman.gateway.app import App
from dragoman.http import HttpRequest
from dragoman.testing import ClaudeSimulator, GptSimulator, Simulator
from tests.support.gateway.dialects import BASES, Seen, app_of, post, see


def app_before(simulator: Simulator, more: str = "") -> App:
    """A gateway whose provider is a simulator."""
    provider, base = simulator.PROVIDER, BASES.get(simulator.WIRE, "/v1")
    record = f'like = "{provider}"\nbase_url = "http://{provider}.invalid{base}"\napi_key = "k"\n'
    app = app_of(f"[gateway]\nlog = false\n[providers.{provider}]\n{record}{more}")
    app.runtime.registry.transport = simulator
    return app


def send(app: App, path: str, body: dict[str, Any], **headers: str) -> Seen:
    return see(app, post(path, json.dumps(body).encode(), **headers))


def get(app: App, path: str, **headers: str) -> Seen:
    return see(app, HttpRequest(method="GET", path=path, headers=headers))


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
    assert [item["type"] for item in output] == ["message", "compaction"]
    again = [*output, {"role": "user", "content": "What did we speak of?"}]
    assert send(app, "/v1/responses", {"model": simulator.spec, "input": again}).status == 200
    assert simulator.refusals == []
    body = simulator.bodies[1]
    if kind is GptSimulator:
        assert json.loads(simulator.bodies[0])["input"][-1] == {"type": "compaction_trigger"}
        assert output[-1]["encrypted_content"] in body.decode()
    else:
        assert b"They spoke of tides." in body
        assert b"dragoman" not in body


def test_a_trigger_in_a_stream_gives_one_item() -> None:
    simulator = ClaudeSimulator("They spoke of tides.")
    input = [*HISTORY, {"type": "compaction_trigger"}]
    body = {"model": simulator.spec, "input": input, "stream": True, "store": False}
    events = frames(send(app_before(simulator), "/v1/responses", body).body)
    assert [event["type"] for event in events if event["type"].endswith(".done")] == ["response.output_item.done"]
    assert events[-1]["response"]["output"][0]["type"] == "compaction"
