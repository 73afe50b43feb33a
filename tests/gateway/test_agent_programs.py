"""Codex, Claude Code, gemini-cli and opencode run a tool loop through the gateway, each on a foreign wire."""

import json
import tempfile
from pathlib import Path

import pytest

from dragoman.testing import (
    ClaudeSimulator,
    DeepSeekSimulator,
    GeminiSimulator,
    OllamaSimulator,
    Simulator,
    assert_prefix_stable,
)
from dragoman.types import Message, Request, Text, Thinking, Tool, ToolCall
from tests.support.gateway.agent_programs import PROGRAMS, run_program
from tests.support.gateway.live import Gateway

SHELLS = {
    "exec_command": ("cmd",),
    "Bash": ("command", "description"),
    "run_shell_command": ("command",),
    "bash": ("command", "description"),
}
"""The shell tools of the programs, and the arguments of each; the first one is the command."""
PAIRS: dict[str, type[Simulator]] = {
    "codex": ClaudeSimulator,
    "codex-without-search": OllamaSimulator,
    "codex-websocket": GeminiSimulator,
    "claude-code": GeminiSimulator,
    "gemini-cli": DeepSeekSimulator,
    "opencode": ClaudeSimulator,
}


STEPS = (
    ("echo tide-4.2", "echo tide-4.2"),
    ("echo nothing-here; exit 3",),
    ("echo tide-4.2", "exit 4", "echo tide-4.2"),
    ("echo tide-4.2",),
    ("echo tide-4.2",),
)
"""The commands of each turn; some of them fail."""


def reply(request: Request) -> Message:
    """Calls of the shell in five turns, then the answer."""
    name = next((tool.name for tool in request.tools if isinstance(tool, Tool) and tool.name in SHELLS), None)
    turn = sum(bool(message.tool_calls) for message in request.messages)
    if name is None or turn == len(STEPS):
        return Message(role="assistant", parts=(Thinking(text="Now I know."), Text(text="The tide is 4.2 m.")))
    member, *others = SHELLS[name]
    calls = tuple(
        ToolCall(id=str(i), name=name, arguments={member: command, **dict.fromkeys(others, "Look up the tide")})
        for i, command in enumerate(STEPS[turn])
    )
    text = () if turn % 2 else (Text(text="Let me see."),)
    return Message(role="assistant", parts=(Thinking(text=f"I look it up, {turn}.\n"), *text, *calls))


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
    assert ["tide-4.2" in result for result in results] == [
        command.startswith("echo tide") for step in STEPS for command in step
    ]
    assert [str(refusal) for refusal in simulator.refusals] == []
    assert [str(loss) for loss in simulator.losses] == []
    # A title of the conversation is asked for without the tools. Ollama's window grows with the conversation.
    loop = [json.loads(body) for body in simulator.bodies if b'"tools"' in body]
    for body in loop:
        body.pop("options", None)
    assert_prefix_stable(json.dumps(body).encode() for body in loop)
