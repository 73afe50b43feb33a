"""Tool loops of the official packages through a live gateway: what they send back has all that a provider signed."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.testing import FaultyServer
from dragoman.types import Thinking, ToolCall
from tests.support.gateway.interactions import interaction_steps
from tests.support.gateway.live import Gateway, record
from tests.support.gateway.loops import STEPS, answer, received
from tests.support.gateway.matrix_cases import PORT

ARGUMENTS = {"type": "object", "properties": PORT["properties"]}
TOOLS = ("tide", "depth")


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@pytest.fixture(scope="module")
def live(upstream: FaultyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    records = "".join(record(f"up_{wire}", upstream.base_url(wire), wire) for wire in STEPS)
    with Gateway(tmp_path_factory.mktemp("gateway"), records) as gateway:
        yield gateway


def anthropic_loop(url: str, model: str, *, stream: bool) -> str:
    import anthropic

    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client:
        return _anthropic_loop(client, model, stream=stream)


def _anthropic_loop(client: Any, model: str, *, stream: bool) -> str:
    tools: Any = [{"name": name, "input_schema": ARGUMENTS} for name in TOOLS]
    messages: list[Any] = [{"role": "user", "content": f"When, {model}?"}]

    def ask() -> Any:
        options: dict[str, Any] = {"model": model, "max_tokens": 2048, "messages": messages, "tools": tools}
        if not stream:
            return client.messages.create(**options)
        with client.messages.stream(**options) as events:
            return events.get_final_message()

    first = ask()
    assert first.model == model
    messages.append({"role": "assistant", "content": first.content})
    calls = [block for block in first.content if block.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "6"} for call in calls]
    messages.append({"role": "user", "content": results})
    return str(next(block.text for block in ask().content if block.type == "text"))


def responses_loop(url: str, model: str, *, stream: bool) -> str:
    import openai

    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        return _responses_loop(client, model, stream=stream)


def _responses_loop(client: Any, model: str, *, stream: bool) -> str:
    tools: Any = [{"type": "function", "name": name, "parameters": ARGUMENTS, "strict": False} for name in TOOLS]
    items: list[Any] = [{"role": "user", "content": f"When, {model}?"}]

    def ask() -> Any:
        options: dict[str, Any] = {
            "model": model,
            "input": items,
            "tools": tools,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if not stream:
            return client.responses.create(**options)
        with client.responses.stream(**options) as events:
            return events.get_final_response()

    first = ask()
    assert first.model == model
    items.extend(item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in first.output)
    calls = [item for item in first.output if item.type == "function_call"]
    items.extend({"type": "function_call_output", "call_id": call.call_id, "output": "6"} for call in calls)
    return str(ask().output_text)


def chat_loop(url: str, model: str, *, stream: bool) -> str:
    import openai

    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        return _chat_loop(client, model, stream=stream)


def _chat_loop(client: Any, model: str, *, stream: bool) -> str:
    tools: Any = [{"type": "function", "function": {"name": name, "parameters": ARGUMENTS}} for name in TOOLS]
    messages: list[Any] = [{"role": "user", "content": f"When, {model}?"}]

    def ask() -> Any:
        options: dict[str, Any] = {"model": model, "messages": messages, "tools": tools}
        if not stream:
            return client.chat.completions.create(**options).choices[0].message
        with client.chat.completions.stream(**options) as events:
            return events.get_final_completion().choices[0].message

    first = ask()
    messages.append(json.loads(first.model_dump_json(exclude_none=True, exclude={"parsed"})))
    messages.extend({"role": "tool", "tool_call_id": call.id, "content": "6"} for call in first.tool_calls)
    return str(ask().content)


def google_loop(url: str, model: str, *, stream: bool) -> str:
    from google import genai
    from google.genai import types

    with genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url, api_version="v1beta")) as client:
        return _google_loop(client, model, stream=stream)


def _google_loop(client: Any, model: str, *, stream: bool) -> str:
    from google.genai import types

    declarations = [types.FunctionDeclaration(name=name, parameters_json_schema=ARGUMENTS) for name in TOOLS]
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=declarations)],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    chat = client.chats.create(model=model, config=config)

    def ask(message: Any) -> list[Any]:
        if not stream:
            return [chat.send_message(message)]
        return list(chat.send_message_stream(message))

    chunks = ask(f"When, {model}?")
    calls = [call for chunk in chunks for call in chunk.function_calls or ()]
    parts = [
        types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response={"output": "6"}))
        for call in calls
    ]
    return "".join(chunk.text or "" for chunk in ask(parts))


def interactions_loop(url: str, model: str, *, stream: bool) -> str:
    from google import genai
    from google.genai import types

    with genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url, api_version="v1beta")) as client:
        return _interactions_loop(client, model, stream=stream)


def _interactions_loop(client: Any, model: str, *, stream: bool) -> str:
    """A loop without a store: all steps are sent back."""
    tools = [{"type": "function", "name": name, "parameters": ARGUMENTS} for name in TOOLS]
    history: list[Any] = [{"type": "user_input", "content": [{"type": "text", "text": f"When, {model}?"}]}]

    def ask() -> list[dict[str, Any]]:
        options: dict[str, Any] = {"model": model, "input": history, "tools": tools, "store": False}
        if stream:
            return interaction_steps(client.interactions.create(stream=True, **options))
        return [step.model_dump(mode="json", exclude_none=True) for step in client.interactions.create(**options).steps]

    steps = ask()
    history.extend(steps)
    for step in steps:
        if step["type"] == "function_call":
            result = {"type": "function_result", "call_id": step["id"], "name": step["name"], "result": "6"}
            history.append(result)
    last = next(step for step in ask() if step["type"] == "model_output")
    return str(last["content"][0]["text"])


def ollama_loop(url: str, model: str, *, stream: bool) -> str:
    import ollama

    connected: Any = ollama.Client(host=url)
    with connected as client:
        return _ollama_loop(client, model, stream=stream)


def _ollama_loop(client: Any, model: str, *, stream: bool) -> str:
    import ollama

    tools: Any = [{"type": "function", "function": {"name": name, "parameters": ARGUMENTS}} for name in TOOLS]
    messages: list[Any] = [{"role": "user", "content": f"When, {model}?"}]

    def ask() -> Any:
        if not stream:
            return client.chat(model=model, messages=messages, tools=tools).message
        lines = [line.message for line in client.chat(model=model, messages=messages, tools=tools, stream=True)]
        return ollama.Message(
            role="assistant",
            content="".join(line.content or "" for line in lines),
            thinking="".join(line.thinking or "" for line in lines),
            tool_calls=[call for line in lines for call in line.tool_calls or ()],
        )

    first = ask()
    messages.append(first)
    messages.extend({"role": "tool", "tool_name": call.function.name, "content": "6"} for call in first.tool_calls)
    return str(ask().content)


LOOPS = {
    "anthropic": anthropic_loop,
    "openai_responses": responses_loop,
    "openai_chat": chat_loop,
    "google": google_loop,
    "google_interactions": interactions_loop,
    "ollama": ollama_loop,
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("provider", STEPS)
@pytest.mark.parametrize("sdk", LOOPS)
def test_a_package_sends_back_what_a_provider_signed(
    sdk: str, provider: str, live: Gateway, upstream: FaultyServer, *, stream: bool
) -> None:
    upstream.add(answer(*STEPS[provider]), "At six.")
    assert LOOPS[sdk](live.url, f"up_{provider}/m", stream=stream) == "At six."
    got = received(upstream)
    assert [part for part in got if isinstance(part, Thinking)] == [
        part for part in STEPS[provider] if isinstance(part, Thinking)
    ]
    assert b'"dragoman' not in upstream.http[-1].body
    if provider == "google":
        calls = [part.extra["google"] for part in got if isinstance(part, ToolCall)]
        assert ["thoughtSignature" in call for call in calls] == [True, False]
