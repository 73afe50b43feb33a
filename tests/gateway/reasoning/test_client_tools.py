"""Tools that the client runs, in a loop with every simulated provider: no state is lost, and the beginning stays."""

import asyncio
import json
from typing import Any

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.config import decode_config
from dragoman.gateway.runtime import Runtime
from dragoman.testing import GeminiSimulator, Simulator, assert_prefix_stable
from dragoman.types import JsonObject, Message, Part, Request, Text, Thinking, ToolCall
from tests.gateway.test_long_conversations import MODELS, SIMULATORS
from tests.support.gateway.agent_clients import events
from tests.support.gateway.dialects import BASES, post, send_request

TOOLS: list[dict[str, Any]] = [
    {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "regex", "definition": ".+"}},
    {"type": "namespace", "name": "fs", "description": "Files.", "tools": [{"type": "custom", "name": "write"}]},
    {"type": "local_shell"},
    {"type": "shell"},
    {"type": "tool_search", "execution": "client", "parameters": {"type": "object", "properties": {}}},
]
FOUND = [{"type": "namespace", "name": "mail", "description": "d", "tools": [{"type": "custom", "name": "send"}]}]
STEPS: list[list[tuple[str, JsonObject]]] = [
    [("apply_patch", {"patch": "*** Begin", "why": "it was asked for"}), ("fs__write", {"input": "hé"})],
    [("local_shell", {"command": ["ls"], "env": {}})],
    [("shell", {"commands": ["ls"]})],
    [("tool_search", {"query": "mail"})],
    [("call_found_tool", {"name": "mail__send", "arguments": {"body": "hi"}})],
    [("tool_search", {"query": "mail"})],
    [("call_found_tool", {"name": "mail__send", "arguments": {"input": "hi"}})],
    [],
    [],
]
OUTPUTS: dict[str, dict[str, Any]] = {
    "function_call": {"type": "function_call_output", "output": "ok"},
    "custom_tool_call": {"type": "custom_tool_call_output", "output": "ok"},
    "local_shell_call": {"type": "local_shell_call_output", "output": "a.txt"},
    "shell_call": {"type": "shell_call_output", "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit"}}]},
    "tool_search_call": {"type": "tool_search_output", "execution": "client", "tools": FOUND},
}


def gateway(simulator: Simulator) -> App:
    provider, base = simulator.PROVIDER, BASES.get(simulator.WIRE, "/v1")
    record = f'[providers.{provider}]\nbase_url = "http://{provider}.invalid{base}"\napi_key = "k"\n'
    runtime = Runtime(decode_config(f"[gateway]\nlog = false\n{record}"), {})
    runtime.registry.transport = simulator
    return App(runtime)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("provider", [name for name in SIMULATORS if name != "gpt"])
def test_a_loop_keeps_its_state_and_its_beginning(provider: str, *, stream: bool) -> None:
    def reply(_request: Request) -> Message:
        number = len(simulator.requests) - 1
        calls: list[Part] = [ToolCall(id="x", name=name, arguments=made) for name, made in STEPS[number]]
        return Message(role="assistant", parts=(Thinking(text=f"Step {number}."), *(calls or [Text(text="Done.")])))

    simulator = SIMULATORS[provider](reply=reply, model=MODELS.get(provider))
    history: list[dict[str, Any]] = [{"role": "user", "content": "go"}]

    async def run() -> list[str]:
        app = gateway(simulator)
        kinds: list[str] = []
        for _ in STEPS:
            body = {"model": simulator.spec, "tools": TOOLS, "reasoning": {"effort": "high"}, "input": history}
            http = post("/v1/responses", json.dumps({**body, "store": False, "stream": stream}).encode())
            seen = await send_request(app, http)
            assert seen.status == 200, seen.body
            items = (events(seen.body)[-1]["response"] if stream else json.loads(seen.body))["output"]
            history.extend(items)
            calls = [item for item in items if item["type"] in OUTPUTS]
            history.extend({"call_id": call["call_id"], **OUTPUTS[call["type"]]} for call in calls)
            if not calls:
                history.append({"role": "user", "content": "and now?"})
            kinds += [f"{call.get('namespace', '')}/{call.get('name', call['type'])}" for call in calls]
        await app.close()
        return kinds

    found = ["/tool_search_call", "mail/send"]
    assert asyncio.run(run()) == ["/apply_patch", "fs/write", "/local_shell_call", "/shell_call", *found, *found]
    assert simulator.refusals == []
    assert simulator.losses == []
    assert_prefix_stable(simulator.bodies)


def test_a_custom_tool_of_chat_completions_keeps_its_state() -> None:
    call = ToolCall(id="x", name="sql", arguments={"query": "select 1", "limit": 3})
    simulator = GeminiSimulator(Message(role="assistant", parts=(call,)), "Done.")
    messages: list[Any] = [{"role": "user", "content": "go"}]
    body = {"model": simulator.spec, "tools": [{"type": "custom", "custom": {"name": "sql"}}], "messages": messages}

    async def run() -> None:
        app = gateway(simulator)
        for _ in range(2):
            seen = await send_request(app, post("/v1/chat/completions", json.dumps(body).encode()))
            assert seen.status == 200, seen.body
            messages.append(json.loads(seen.body)["choices"][0]["message"])
            calls = messages[-1].get("tool_calls", ())
            messages.extend({"role": "tool", "tool_call_id": made["id"], "content": "1"} for made in calls)
        await app.close()

    asyncio.run(run())
    assert simulator.refusals == []
    assert simulator.losses == []
