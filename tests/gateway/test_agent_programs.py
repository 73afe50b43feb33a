"""Codex, Claude Code, gemini-cli and opencode run a tool loop through the gateway, each on a foreign wire."""

import tempfile
from pathlib import Path

import pytest

from dragoman.testing import ClaudeSimulator, DeepSeekSimulator, GeminiSimulator, Simulator
from dragoman.types import JsonObject, Message, Request, Text, Thinking, Tool, ToolCall
from tests.support.gateway.agent_programs import PROGRAMS, run_program
from tests.support.gateway.live import Gateway

SHELLS: dict[str, JsonObject] = {
    "exec_command": {"cmd": "echo tide-4.2"},
    "Bash": {"command": "echo tide-4.2", "description": "Look up the tide"},
    "run_shell_command": {"command": "echo tide-4.2"},
    "bash": {"command": "echo tide-4.2", "description": "Look up the tide"},
}
"""The shell tools of the programs, and arguments for each."""
PAIRS: dict[str, type[Simulator]] = {
    "codex": ClaudeSimulator,
    "codex-websocket": GeminiSimulator,
    "claude-code": GeminiSimulator,
    "gemini-cli": DeepSeekSimulator,
    "opencode": ClaudeSimulator,
}


def reply(request: Request) -> Message:
    """Two shell calls at once, then the answer."""
    name = next((tool.name for tool in request.tools if isinstance(tool, Tool) and tool.name in SHELLS), None)
    if name is None or any(message.tool_results for message in request.messages):
        return Message(role="assistant", parts=(Thinking(text="Now I know."), Text(text="The tide is 4.2 m.")))
    calls = tuple(ToolCall(id=str(i), name=name, arguments=SHELLS[name]) for i in range(2))
    return Message(role="assistant", parts=(Thinking(text="I look it up."), Text(text="Let me see."), *calls))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_a_tool_loop(name: str) -> None:
    simulator = PAIRS[name](reply=reply)
    config = f'like = "{simulator.PROVIDER}"\nbase_url = "{{}}"\napi_key = "sk-test-key"\n'
    # Codex refuses a home in the folder for temporary files.
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as folder, simulator.serve() as server:
        home = Path(folder)
        text = f"[providers.{simulator.PROVIDER}]\n{config.format(server.url)}[aliases]\nagent = '{simulator.spec}'\n"
        with Gateway(home, text) as gateway:
            printed = run_program(PROGRAMS[name], home, gateway.url)
        log = gateway.log.read_text(encoding="utf-8")
    assert "The tide is 4.2 m." in printed
    # Only on a WebSocket, Codex prepares its first turn, for which no target is called.
    assert ('"attempts":0' in log) == (name == "codex-websocket")
    results = [result.text for message in simulator.requests[-1].messages for result in message.tool_results]
    assert len(results) == 2
    assert all("tide-4.2" in result for result in results)
    assert [str(refusal) for refusal in simulator.refusals] == []
    assert [str(loss) for loss in simulator.losses] == []
