"""Tags in a running gateway: several workers without a store, and stored responses."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.testing import FaultyServer
from dragoman.types import Thinking
from tests.support.gateway.dialects import post, send_blocking
from tests.support.gateway.live import Gateway, record
from tests.support.gateway.loops import STEPS, answer, gateway, received

TOOL: dict[str, Any] = {
    "type": "function",
    "name": "tide",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}


def test_workers_without_a_store_read_the_tags_of_each_other(tmp_path: Path) -> None:
    with FaultyServer(answer(*STEPS["bedrock"]), *["At six."] * 12) as upstream:
        config = record("up", upstream.base_url("bedrock"), "bedrock")
        with Gateway(tmp_path, config, workers=2) as live:
            question = {"role": "user", "content": "When?"}
            body: dict[str, Any] = {"model": "up/m", "max_tokens": 9, "messages": [question]}
            status, _, data = live.post("/v1/messages", body)
            assert status == 200
            content = json.loads(data)["content"]
            calls = [block["id"] for block in content if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": id, "content": "6"} for id in calls]
            body["messages"] += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
            for _ in range(12):
                status, headers, _ = live.post("/v1/messages", body)
                assert status == 200
                assert "earlier answer" not in headers.get("x-dragoman-notice", "")
                assert isinstance(received(upstream)[0], Thinking)


@pytest.mark.parametrize("provider", ["anthropic", "google"])
@pytest.mark.parametrize("stream", [False, True])
def test_stored_responses_have_their_state(provider: str, *, stream: bool) -> None:
    app, script = gateway(provider)
    script.add(answer(*STEPS[provider]), "At six.")
    body: dict[str, Any] = {"model": f"up_{provider}/m", "input": "When?", "tools": [TOOL], "stream": stream}
    seen = send_blocking(app, post("/v1/responses", json.dumps(body).encode()))
    lines = [line for line in seen.body.splitlines() if line.startswith(b"data: ")]
    response = json.loads(lines[-1][6:])["response"] if stream else json.loads(seen.body)
    calls = [item["call_id"] for item in response["output"] if item["type"] == "function_call"]
    results = [{"type": "function_call_output", "call_id": id, "output": "6"} for id in calls]
    later: dict[str, Any] = {**body, "previous_response_id": response["id"], "input": results}
    assert send_blocking(app, post("/v1/responses", json.dumps(later).encode())).status == 200
    assert [part for part in received(script) if isinstance(part, Thinking)] == [
        part for part in STEPS[provider] if isinstance(part, Thinking)
    ]
