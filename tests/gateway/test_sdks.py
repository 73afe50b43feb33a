"""The official packages against a live gateway: what their users see, blocking and async."""

# ruff: noqa: PERF401, PERF402, SIM117 - these are the loops that a user writes

import asyncio
import json
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from dragoman import wires
from dragoman.errors import Overloaded, RateLimited
from dragoman.testing import Break, Cut, Server
from dragoman.testing.script import render
from dragoman.types import Request, ToolCall
from tests.gateway.live import Gateway, record

# Their own types are no part of what is tested, and not all of them are known to the checkers.
anthropic: Any = import_module("anthropic")
ollama: Any = import_module("ollama")
openai: Any = import_module("openai")
genai: Any = import_module("google.genai")
google_errors: Any = import_module("google.genai.errors")
google_types: Any = import_module("google.genai.types")

WORDS = "one two three"
SHOWN = sum(map(len, render(WORDS, wires.get("openai_chat"), Request(stream=True)).pieces[:2])) + 9
TIDE = {
    "type": "object",
    "properties": {"place": {"type": "string"}},
    "required": ["place"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def upstream() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(upstream: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = (
        record("up", upstream.base_url())
        + record("claude", upstream.base_url("anthropic"), "anthropic")
        + '[gateway]\nproviders = ["demo"]\n[chain]\nretries = 0\n[aliases]\npair = "demo/overloaded, demo/any"\n'
    )
    with Gateway(tmp_path_factory.mktemp("gateway"), config) as running:
        yield running


# One class a package: what is asked, in its own words -----------------------------------------------------------------


class OpenAIChat:
    """Chat Completions."""

    errors = openai.APIError
    limited = openai.RateLimitError

    def __init__(self, url: str) -> None:
        self._own = {"base_url": f"{url}/v1", "api_key": "sk-client", "max_retries": 0}

    def ask(self, model: str) -> str:
        with openai.OpenAI(**self._own) as client:
            answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hello"}])
        return answer.choices[0].message.content or ""

    async def aask(self, model: str) -> str:
        async with openai.AsyncOpenAI(**self._own) as client:
            answer = await client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hello"}])
        return answer.choices[0].message.content or ""

    def stream(self, model: str, seen: list[str]) -> None:
        with openai.OpenAI(**self._own) as client:
            said: Any = [{"role": "user", "content": "hello"}]
            for chunk in client.chat.completions.create(model=model, messages=said, stream=True):
                seen += [choice.delta.content or "" for choice in chunk.choices]

    async def astream(self, model: str, seen: list[str]) -> None:
        async with openai.AsyncOpenAI(**self._own) as client:
            said: Any = [{"role": "user", "content": "hello"}]
            async for chunk in await client.chat.completions.create(model=model, messages=said, stream=True):
                seen += [choice.delta.content or "" for choice in chunk.choices]

    def tools(self, model: str) -> tuple[str, dict[str, Any], str]:
        tools: Any = [
            {"type": "function", "function": {"name": "tide", "description": "The tide.", "parameters": TIDE}}
        ]
        said: Any = [{"role": "user", "content": "When does the tide turn?"}]
        with openai.OpenAI(**self._own) as client:
            first = client.chat.completions.create(model=model, messages=said, tools=tools, tool_choice="required")
            call: Any = first.choices[0].message.tool_calls[0]
            said += [first.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "at six"}]
            second = client.chat.completions.create(model=model, messages=said, tools=tools)
        return call.function.name, json.loads(call.function.arguments), second.choices[0].message.content or ""


class OpenAIResponses:
    """Responses."""

    errors = openai.APIError
    limited = openai.RateLimitError

    def __init__(self, url: str) -> None:
        self._own = {"base_url": f"{url}/v1", "api_key": "sk-client", "max_retries": 0}

    def ask(self, model: str) -> str:
        with openai.OpenAI(**self._own) as client:
            return str(client.responses.create(model=model, input="hello").output_text)

    async def aask(self, model: str) -> str:
        async with openai.AsyncOpenAI(**self._own) as client:
            return str((await client.responses.create(model=model, input="hello")).output_text)

    def stream(self, model: str, seen: list[str]) -> None:
        with openai.OpenAI(**self._own) as client, client.responses.stream(model=model, input="hello") as stream:
            for event in stream:
                _note_response(event, seen)

    async def astream(self, model: str, seen: list[str]) -> None:
        async with openai.AsyncOpenAI(**self._own) as client:
            async with client.responses.stream(model=model, input="hello") as stream:
                async for event in stream:
                    _note_response(event, seen)

    def tools(self, model: str) -> tuple[str, dict[str, Any], str]:
        tools: Any = [
            {"type": "function", "name": "tide", "description": "The tide.", "parameters": TIDE, "strict": True}
        ]
        said: Any = [{"role": "user", "content": "When does the tide turn?"}]
        with openai.OpenAI(**self._own) as client:
            first = client.responses.create(model=model, input=said, tools=tools, tool_choice="required")
            call = next(item for item in first.output if item.type == "function_call")
            said += first.output
            said.append({"type": "function_call_output", "call_id": call.call_id, "output": "at six"})
            second = client.responses.create(model=model, input=said, tools=tools)
        return call.name, json.loads(call.arguments), second.output_text


def _note_response(event: Any, seen: list[str]) -> None:
    if event.type == "response.output_text.delta":
        seen.append(event.delta)
    if event.type in ("error", "response.failed"):
        # Their stream gives these as events, and leaves it to its users to look.
        raise openai.APIError(str(event), request=None, body=None)


class Anthropic:
    """Messages."""

    errors = anthropic.APIError
    limited = anthropic.RateLimitError

    def __init__(self, url: str) -> None:
        self._own = {"base_url": url, "api_key": "sk-client", "max_retries": 0}
        self._asked: Any = {"max_tokens": 500, "messages": [{"role": "user", "content": "hello"}]}

    def ask(self, model: str) -> str:
        with anthropic.Anthropic(**self._own) as client:
            return _text(client.messages.create(model=model, **self._asked))

    async def aask(self, model: str) -> str:
        async with anthropic.AsyncAnthropic(**self._own) as client:
            return _text(await client.messages.create(model=model, **self._asked))

    def stream(self, model: str, seen: list[str]) -> None:
        with anthropic.Anthropic(**self._own) as client, client.messages.stream(model=model, **self._asked) as stream:
            for text in stream.text_stream:
                seen.append(text)
            stream.get_final_message()

    async def astream(self, model: str, seen: list[str]) -> None:
        async with anthropic.AsyncAnthropic(**self._own) as client:
            async with client.messages.stream(model=model, **self._asked) as stream:
                async for text in stream.text_stream:
                    seen.append(text)
                await stream.get_final_message()

    def tools(self, model: str) -> tuple[str, dict[str, Any], str]:
        tools: Any = [{"name": "tide", "description": "The tide.", "input_schema": TIDE}]
        said: Any = [{"role": "user", "content": "When does the tide turn?"}]
        more: Any = {"model": model, "max_tokens": 500, "tools": tools}
        with anthropic.Anthropic(**self._own) as client:
            first = client.messages.create(messages=said, tool_choice={"type": "any"}, **more)
            call: Any = next(block for block in first.content if block.type == "tool_use")
            said.append({"role": "assistant", "content": first.content})
            said.append(
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "at six"}]}
            )
            second = client.messages.create(messages=said, **more)
        return call.name, call.input, _text(second)


def _text(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


class Ollama:
    """Ollama."""

    errors = ollama.ResponseError
    limited = ollama.ResponseError

    def __init__(self, url: str) -> None:
        self._url = url
        self._said = [{"role": "user", "content": "hello"}]

    def ask(self, model: str) -> str:
        with ollama.Client(self._url) as client:
            return client.chat(model, self._said).message.content or ""

    async def aask(self, model: str) -> str:
        async with ollama.AsyncClient(self._url) as client:
            return (await client.chat(model, self._said)).message.content or ""

    def stream(self, model: str, seen: list[str]) -> None:
        with ollama.Client(self._url) as client:
            for chunk in client.chat(model, self._said, stream=True):
                seen.append(chunk.message.content or "")

    async def astream(self, model: str, seen: list[str]) -> None:
        async with ollama.AsyncClient(self._url) as client:
            async for chunk in await client.chat(model, self._said, stream=True):
                seen.append(chunk.message.content or "")

    def tools(self, model: str) -> tuple[str, dict[str, Any], str]:
        tools: Any = [
            {"type": "function", "function": {"name": "tide", "description": "The tide.", "parameters": TIDE}}
        ]
        said: Any = [{"role": "user", "content": "When does the tide turn?"}]
        with ollama.Client(self._url) as client:
            first = client.chat(model, said, tools=tools)
            call = first.message.tool_calls[0]
            said += [first.message, {"role": "tool", "tool_name": call.function.name, "content": "at six"}]
            second = client.chat(model, said, tools=tools)
        return call.function.name, dict(call.function.arguments), second.message.content or ""


class Google:
    """google-genai."""

    errors = google_errors.APIError
    limited = google_errors.ClientError

    def __init__(self, url: str) -> None:
        self._url = url

    def _client(self) -> Any:
        return genai.Client(api_key="sk-client", http_options=google_types.HttpOptions(base_url=self._url))

    def ask(self, model: str) -> str:
        with self._client() as client:
            return client.models.generate_content(model=model, contents="hello").text or ""

    async def aask(self, model: str) -> str:
        with self._client() as client:
            async with client.aio as aio:
                return (await aio.models.generate_content(model=model, contents="hello")).text or ""

    def stream(self, model: str, seen: list[str]) -> None:
        with self._client() as client:
            for chunk in client.models.generate_content_stream(model=model, contents="hello"):
                seen.append(chunk.text or "")

    async def astream(self, model: str, seen: list[str]) -> None:
        with self._client() as client:
            async with client.aio as aio:
                async for chunk in await aio.models.generate_content_stream(model=model, contents="hello"):
                    seen.append(chunk.text or "")

    def tools(self, model: str) -> tuple[str, dict[str, Any], str]:
        declared = google_types.FunctionDeclaration(name="tide", description="The tide.", parameters_json_schema=TIDE)
        tools: Any = [google_types.Tool(function_declarations=[declared])]
        mode = google_types.FunctionCallingConfig(mode=google_types.FunctionCallingConfigMode.ANY)
        forced = google_types.ToolConfig(function_calling_config=mode)
        said: Any = [google_types.Content(role="user", parts=[google_types.Part(text="When does the tide turn?")])]
        plain = google_types.GenerateContentConfig(tools=tools)
        config = google_types.GenerateContentConfig(tools=tools, tool_config=forced)
        with self._client() as client:
            first = client.models.generate_content(model=model, contents=said, config=config)
            call: Any = first.function_calls[0]
            said.append(first.candidates[0].content)
            answer = google_types.FunctionResponse(id=call.id, name=call.name, response={"result": "at six"})
            said.append(google_types.Content(role="user", parts=[google_types.Part(function_response=answer)]))
            second = client.models.generate_content(model=model, contents=said, config=plain)
        return call.name, dict(call.args), second.text or ""


SDKS: dict[str, Callable[[str], Any]] = {
    "openai chat": OpenAIChat,
    "openai responses": OpenAIResponses,
    "anthropic": Anthropic,
    "ollama": Ollama,
    "google-genai": Google,
}

pytestmark = pytest.mark.parametrize("name", SDKS)


@pytest.mark.parametrize("model", ["demo/any", "pair"])
def test_an_answer(gateway: Gateway, name: str, model: str) -> None:
    sdk = SDKS[name](gateway.url)
    assert sdk.ask(model).startswith("Hello!")
    assert asyncio.run(sdk.aask(model)).startswith("Hello!")


@pytest.mark.parametrize("model", ["demo/any", "pair"])
def test_a_stream(gateway: Gateway, name: str, model: str) -> None:
    sdk = SDKS[name](gateway.url)
    seen: list[str] = []
    sdk.stream(model, seen)
    assert "".join(seen) == sdk.ask(model)
    seen_async: list[str] = []
    asyncio.run(sdk.astream(model, seen_async))
    assert "".join(seen_async) == "".join(seen)


@pytest.mark.parametrize("model", ["up/m", "claude/m"])
def test_tools_over_two_turns(gateway: Gateway, upstream: Server, name: str, model: str) -> None:
    upstream.add(ToolCall(id="call_abc123", name="tide", arguments={"place": "Kiel"}), "It turns at six.")
    assert SDKS[name](gateway.url).tools(model) == ("tide", {"place": "Kiel"}, "It turns at six.")
    call, result = upstream.requests[-1].messages[-2:]
    assert call.tool_calls[0].id == result.tool_results[0].id
    assert result.tool_results[0].text in ("at six", '{"result":"at six"}')


def test_a_refusal_is_the_error_of_the_package(gateway: Gateway, upstream: Server, name: str) -> None:
    sdk = SDKS[name](gateway.url)
    upstream.add(RateLimited("slow down", status=429, retry_after=30.0))
    with pytest.raises(sdk.limited):
        sdk.ask(f"up/limited-{name[-4:]}")


def test_an_unknown_model_is_the_error_of_the_package(gateway: Gateway, name: str) -> None:
    sdk = SDKS[name](gateway.url)
    with pytest.raises(sdk.errors):
        sdk.ask("nix/da")
    with pytest.raises(sdk.errors):
        asyncio.run(sdk.aask("nix/da"))


@pytest.mark.parametrize("line", [Cut(SHOWN, WORDS), Break(SHOWN, WORDS)])
def test_a_stream_that_the_provider_cuts_raises(
    gateway: Gateway, upstream: Server, name: str, line: Cut | Break
) -> None:
    sdk = SDKS[name](gateway.url)
    upstream.add(line)
    seen: list[str] = []
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of which class is looked at below
        sdk.stream(f"up/{type(line).__name__}-{name[-4:]}", seen)
    assert isinstance(caught.value, (sdk.errors, google_errors.UnknownApiResponseError))
    assert "one two three" in "".join(seen)


def test_a_stream_that_fails_before_its_first_word_raises(gateway: Gateway, upstream: Server, name: str) -> None:
    sdk = SDKS[name](gateway.url)
    upstream.add(Overloaded("busy", status=503))
    with pytest.raises(sdk.errors):
        sdk.stream(f"up/busy-{name[-4:]}", [])
