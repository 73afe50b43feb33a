"""What sits on top of the official packages: pydantic-ai, and the Vercel AI SDK from npm."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pydantic
import pytest

from dragoman import wires
from dragoman.testing import CloseAfter, FaultyServer
from dragoman.testing.script import render
from dragoman.types import Request, ToolCall
from tests.support.gateway.live import Gateway, record

WORDS = "one two three"
SHOWN = sum(map(len, render(WORDS, wires.get("openai_chat"), Request(stream=True)).chunks[:2])) + 9
CALL = ToolCall(id="call_abc123", name="tide", arguments={"place": "Kiel"})
NPM = ("ai@6.0.326", "@ai-sdk/openai-compatible@2.0.87", "@ai-sdk/anthropic@3.0.138")


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(upstream: FaultyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = record("up", upstream.base_url()) + '[gateway]\nproviders = ["demo"]\n[chain]\nretries = 0\n'
    with Gateway(tmp_path_factory.mktemp("gateway"), config) as running:
        yield running


# pydantic-ai ----------------------------------------------------------------------------------------------------------


class Place(pydantic.BaseModel):
    """What an agent is to give."""

    place: str


async def _run(dialect: str, url: str, prompt: str, **options: Any) -> Any:
    """What an agent gives, over the packages of one dialect."""
    agents, openai, anthropic = map(import_module, ("pydantic_ai", "openai", "anthropic"))
    models: Any = import_module(f"pydantic_ai.models.{'anthropic' if dialect == 'messages' else 'openai'}")
    providers: Any = import_module(f"pydantic_ai.providers.{'anthropic' if dialect == 'messages' else 'openai'}")
    if dialect == "messages":
        async with anthropic.AsyncAnthropic(base_url=url, api_key="sk-client") as client:
            model = models.AnthropicModel("up/m", provider=providers.AnthropicProvider(anthropic_client=client))
            return (await agents.Agent(model, **options).run(prompt)).output
    kind = {"chat": models.OpenAIChatModel, "responses": models.OpenAIResponsesModel}[dialect]
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-client") as client:
        model = kind("up/m", provider=providers.OpenAIProvider(openai_client=client))
        return (await agents.Agent(model, **options).run(prompt)).output


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
def test_an_agent_of_pydantic_ai_calls_its_tools(gateway: Gateway, upstream: FaultyServer, dialect: str) -> None:
    places: list[str] = []

    def tide(place: str) -> str:
        """The tide."""
        places.append(place)
        return "at six"

    upstream.add(CALL, "It turns at six.")
    assert asyncio.run(_run(dialect, gateway.url, "When?", tools=[tide])) == "It turns at six."
    assert places == ["Kiel"]


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
def test_an_agent_of_pydantic_ai_gives_a_value_by_a_call(
    gateway: Gateway, upstream: FaultyServer, dialect: str
) -> None:
    upstream.add(ToolCall(id="call_1", name="final_result", arguments={"place": "Kiel"}))
    assert asyncio.run(_run(dialect, gateway.url, "Where?", output_type=Place)) == Place(place="Kiel")


@pytest.mark.parametrize("dialect", ["chat", "responses"])  # of Anthropic's models it asks only those it knows
def test_an_agent_of_pydantic_ai_gives_a_value_by_its_schema(
    gateway: Gateway, upstream: FaultyServer, dialect: str
) -> None:
    native: Any = import_module("pydantic_ai").NativeOutput
    upstream.add('{"place": "Kiel"}')
    assert asyncio.run(_run(dialect, gateway.url, "Where?", output_type=native(Place))) == Place(place="Kiel")


# The Vercel AI SDK ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of npm; DRAGOMAN_NPM names one that stays."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("no node and npm on this machine")
    cached = os.environ.get("DRAGOMAN_NPM")
    folder = Path(cached) if cached else tmp_path_factory.mktemp("npm")
    if not (folder / "node_modules" / "ai").exists():
        words = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), *NPM]
        try:
            process = subprocess.run(words, capture_output=True, timeout=90, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip("npm does not reach its registry in time")
        if process.returncode:
            pytest.skip(f"npm cannot install: {process.stderr[-200:]!r}")
    shutil.copy(Path(__file__).parent / "vercel.mjs", folder)
    return folder


def test_the_vercel_ai_sdk(gateway: Gateway, upstream: FaultyServer, packages: Path) -> None:
    turns = (CALL, "It turns at six.", '{"place": "Kiel"}', CloseAfter(SHOWN, WORDS))
    upstream.add(*turns, *turns)
    words = ["node", str(packages / "vercel.mjs"), gateway.url, "demo/any", "up/m", "up/cut"]
    run = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr.decode()
    for seen in json.loads(run.stdout).values():
        assert seen["text"].startswith("Hello!")
        assert seen["stream"] == {"text": seen["text"], "error": None}
        assert seen["tools"] == {"text": "It turns at six.", "asked": [{"place": "Kiel"}]}
        assert seen["structured"] == {"place": "Kiel"}
        assert seen["cut"]["text"] == WORDS
        assert seen["cut"]["error"]
        assert seen["refused"] == 404
