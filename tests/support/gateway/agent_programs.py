"""Real agent programs from npm, run without a terminal in a home of their own. They reach 127.0.0.1 only."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

VARIABLE = "DRAGOMAN_AGENT_PROGRAMS"
"""The folder of the programs: node_modules/.bin of an `npm install`."""
LIMIT = 120.0
"""Seconds for one run."""
PROMPT = "How high is the tide?"


class Program(NamedTuple):
    """How to run one program before a gateway; the model is called `agent`."""

    package: str
    command: str
    arguments: tuple[str, ...]
    prepare: Callable[[Path, str], dict[str, str]]
    """Writes its settings into the home, and returns its environment."""


def _codex(home: Path, url: str) -> dict[str, str]:
    settings = [
        'model = "agent"',
        'model_provider = "gateway"',
        'model_reasoning_effort = "high"',
        "check_for_update_on_startup = false",
        "[analytics]\nenabled = false",
        f'[model_providers.gateway]\nname = "gateway"\nbase_url = "{url}/v1"\nwire_api = "responses"',
        'env_key = "GATEWAY_KEY"',
    ]
    _write(home / ".codex" / "config.toml", "\n".join(settings))
    return {"GATEWAY_KEY": "sk-test-key", "CODEX_HOME": str(home / ".codex")}


def _codex_websocket(home: Path, url: str) -> dict[str, str]:
    env = _codex(home, url)
    settings = home / ".codex" / "config.toml"
    settings.write_text(f"{settings.read_text(encoding='utf-8')}\nsupports_websockets = true\n", encoding="utf-8")
    return env


def _codex_without_search(home: Path, url: str) -> dict[str, str]:
    env = _codex(home, url)
    settings = home / ".codex" / "config.toml"
    settings.write_text(f'web_search = "disabled"\n{settings.read_text(encoding="utf-8")}', encoding="utf-8")
    return env


def _claude(_home: Path, url: str) -> dict[str, str]:
    off = dict.fromkeys(
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC DISABLE_TELEMETRY DISABLE_AUTOUPDATER DISABLE_ERROR_REPORTING".split(),
        "1",
    )
    models = dict.fromkeys(("ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL"), "agent")
    return {**off, **models, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-test-key"}


def _gemini(home: Path, url: str) -> dict[str, str]:
    settings = {
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
    }
    _write(home / ".gemini" / "settings.json", json.dumps(settings))
    trust = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return {**trust, "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "sk-test-key"}


def _opencode(home: Path, url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "sk-test-key"},
        "models": {"agent": {"name": "agent", "reasoning": True}},
    }
    models = dict.fromkeys(("model", "small_model"), "gateway/agent")
    settings = {"autoupdate": False, "share": "disabled", "provider": {"gateway": provider}, **models}
    _write(home / ".config" / "opencode" / "opencode.json", json.dumps(settings))
    names = "OPENCODE_DISABLE_AUTOUPDATE OPENCODE_DISABLE_MODELS_FETCH OPENCODE_DISABLE_LSP_DOWNLOAD".split()
    return dict.fromkeys(names, "1")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")


_CODEX = ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT)
PROGRAMS = {
    "codex": Program("@openai/codex", "codex", _CODEX, _codex),
    "codex-without-search": Program("@openai/codex", "codex", _CODEX, _codex_without_search),
    "codex-websocket": Program("@openai/codex", "codex", _CODEX, _codex_websocket),
    "claude-code": Program(
        "@anthropic-ai/claude-code", "claude", ("-p", PROMPT, "--allowedTools", "Bash", "--model", "agent"), _claude
    ),
    "gemini-cli": Program("@google/gemini-cli", "gemini", ("-m", "agent", "--yolo", "-p", PROMPT), _gemini),
    "opencode": Program("opencode-ai", "opencode", ("run", "-m", "gateway/agent", PROMPT), _opencode),
}


def run_program(program: Program, home: Path, url: str) -> str:
    """Run a program until it ends, and return what it printed; skip the test if the program is not there."""
    folder = os.environ.get(VARIABLE, "")
    path = shutil.which(program.command, path=folder) if folder else None
    if path is None:
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed")
        pytest.skip(f"opt-in, it is large: npm install {program.package}, and set {VARIABLE} to node_modules/.bin")
    work = home / "work"
    work.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "NO_PROXY": "127.0.0.1"}
    # No proxy, no telemetry: a program that tries another host finds a closed port.
    closed = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    result = subprocess.run(
        [path, *program.arguments],
        cwd=work,
        env={**env, **closed, "no_proxy": "127.0.0.1", **program.prepare(home, url)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout.decode()
