"""The official packages: what their users ask, in the words of each, blocking and async.

A conversation is a generator: it yields what a call of the package gave, and is sent the answer. It is written once; a
blocking client gives the answer itself, an async one something to wait for.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, ExitStack
from importlib import import_module
from typing import Any, TypeAlias

import pydantic

from tests.support.images import picture

# Their own types are no part of what is tested, and not all of them are known to the checkers.
anthropic: Any = import_module("anthropic")
ollama: Any = import_module("ollama")
openai: Any = import_module("openai")
genai: Any = import_module("google.genai")
google_errors: Any = import_module("google.genai.errors")
google: Any = import_module("google.genai.types")

Talk: TypeAlias = Generator[Any, Any, Any]

TIDE = {
    "type": "object",
    "properties": {"place": {"type": "string"}},
    "required": ["place"],
    "additionalProperties": False,
}
PICTURE = picture(8, 8)
ENCODED = b64encode(PICTURE).decode()


class Tide(pydantic.BaseModel):
    """What is asked for as a value."""

    place: str


class Sdk(ABC):
    """One package: `talk` and `stream` run what the classes below say."""

    errors: Any
    limited: Any

    def __init__(self, url: str, *, is_async: bool) -> None:
        self._url = url
        self._is_async = is_async

    @abstractmethod
    def client(self) -> Any: ...

    @abstractmethod
    def aclient(self) -> Any: ...

    @abstractmethod
    def deltas(self, client: Any, model: str) -> Any:
        """A stream, or something to wait for that gives one."""

    @abstractmethod
    def text(self, chunk: Any) -> str:
        """What a piece of a stream says."""

    def talk(self, name: str, model: str) -> Any:
        """What a conversation of this name comes to."""
        if self._is_async:
            return asyncio.run(self._atalk(name, model))
        with ExitStack() as stack:
            talk: Talk = getattr(self, name)(stack.enter_context(self.client()), model)
            answer = None
            while True:
                try:
                    answer = talk.send(answer)
                except StopIteration as end:
                    return end.value

    async def _atalk(self, name: str, model: str) -> Any:
        async with AsyncExitStack() as stack:
            talk: Talk = getattr(self, name)(await stack.enter_async_context(self.aclient()), model)
            answer = None
            while True:
                try:
                    call = talk.send(answer)
                except StopIteration as end:
                    return end.value
                answer = await call

    def stream(self, model: str, seen: list[str]) -> None:
        """All that a stream says, piece by piece."""
        if self._is_async:
            asyncio.run(self._astream(model, seen))
            return
        with ExitStack() as stack:
            stream = self.deltas(stack.enter_context(self.client()), model)
            for chunk in stack.enter_context(stream) if hasattr(stream, "__enter__") else stream:
                seen.append(self.text(chunk))  # noqa: PERF401 - what was seen before it broke counts

    async def _astream(self, model: str, seen: list[str]) -> None:
        async with AsyncExitStack() as stack:
            stream = self.deltas(await stack.enter_async_context(self.aclient()), model)
            if hasattr(stream, "__await__"):
                stream = await stream
            if hasattr(stream, "__aenter__"):
                stream = await stack.enter_async_context(stream)
            async for chunk in stream:
                seen.append(self.text(chunk))  # noqa: PERF401 - what was seen before it broke counts


class OpenAIChat(Sdk):
    """Chat Completions."""

    errors = openai.APIError
    limited = openai.RateLimitError

    def client(self) -> Any:
        return openai.OpenAI(base_url=f"{self._url}/v1", api_key="sk-client", max_retries=0)

    def aclient(self) -> Any:
        return openai.AsyncOpenAI(base_url=f"{self._url}/v1", api_key="sk-client", max_retries=0)

    def ask(self, client: Any, model: str) -> Talk:
        messages = [{"role": "user", "content": "hello"}]
        answer = yield client.chat.completions.create(model=model, messages=messages)
        return answer.choices[0].message.content

    def identify(self, client: Any, model: str) -> Talk:
        answer = yield client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hello"}])
        return answer._request_id

    def absent(self, client: Any, _model: str) -> Talk:
        return (yield client.vector_stores.retrieve("vs_1"))

    def deltas(self, client: Any, model: str) -> Any:
        messages = [{"role": "user", "content": "hello"}]
        return client.chat.completions.create(model=model, messages=messages, stream=True)

    def text(self, chunk: Any) -> str:
        return "".join(choice.delta.content or "" for choice in chunk.choices)

    def tools(self, client: Any, model: str) -> Talk:
        function = {"name": "tide", "description": "The tide.", "parameters": TIDE}
        options: Any = {"model": model, "tools": [{"type": "function", "function": function}]}
        messages: Any = [{"role": "user", "content": "When does the tide turn?"}]
        first = yield client.chat.completions.create(messages=messages, tool_choice="required", **options)
        call = first.choices[0].message.tool_calls[0]
        messages += [first.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "at six"}]
        second = yield client.chat.completions.create(messages=messages, **options)
        return call.function.name, json.loads(call.function.arguments), second.choices[0].message.content

    def structured(self, client: Any, model: str) -> Talk:
        messages = [{"role": "user", "content": "Where?"}]
        answer = yield client.chat.completions.parse(model=model, messages=messages, response_format=Tide)
        return answer.choices[0].message.parsed

    def look(self, client: Any, model: str) -> Talk:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{ENCODED}"}}
        messages = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}]
        answer = yield client.chat.completions.create(model=model, messages=messages)
        return answer.choices[0].message.content


class OpenAIResponses(OpenAIChat):
    """Responses."""

    def ask(self, client: Any, model: str) -> Talk:
        answer = yield client.responses.create(model=model, input="hello")
        return answer.output_text

    def deltas(self, client: Any, model: str) -> Any:
        return client.responses.stream(model=model, input="hello")

    def text(self, chunk: Any) -> str:
        if chunk.type in ("error", "response.failed"):
            # Their stream gives these as events, and leaves it to its users to look.
            raise openai.APIError(str(chunk), request=None, body=None)
        return str(chunk.delta) if chunk.type == "response.output_text.delta" else ""

    def goes_on(self, client: Any, model: str) -> Talk:
        """What is kept is gone on from and fetched; what was deleted is neither."""
        first = yield client.responses.create(model=model, input="Remember blue.")
        second = yield client.responses.create(model=model, input="Which?", previous_response_id=first.id)
        fetched = yield client.responses.retrieve(second.id)
        yield client.responses.delete(first.id)
        assert fetched.output_text == second.output_text
        yield client.responses.create(model=model, input="And now?", previous_response_id=first.id)

    def tools(self, client: Any, model: str) -> Talk:
        tool = {"type": "function", "name": "tide", "description": "The tide.", "parameters": TIDE, "strict": True}
        messages: Any = [{"role": "user", "content": "When does the tide turn?"}]
        first = yield client.responses.create(model=model, input=messages, tools=[tool], tool_choice="required")
        call = next(item for item in first.output if item.type == "function_call")
        messages += [*first.output, {"type": "function_call_output", "call_id": call.call_id, "output": "at six"}]
        second = yield client.responses.create(model=model, input=messages, tools=[tool])
        return call.name, json.loads(call.arguments), second.output_text

    def structured(self, client: Any, model: str) -> Talk:
        answer = yield client.responses.parse(model=model, input="Where?", text_format=Tide)
        return answer.output_parsed

    def look(self, client: Any, model: str) -> Talk:
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{ENCODED}", "detail": "auto"}
        messages = [{"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, image]}]
        answer = yield client.responses.create(model=model, input=messages)
        return answer.output_text


class Anthropic(Sdk):
    """Messages."""

    errors = anthropic.APIError
    limited = anthropic.RateLimitError

    def client(self) -> Any:
        return anthropic.Anthropic(base_url=self._url, api_key="sk-client", max_retries=0)

    def aclient(self) -> Any:
        return anthropic.AsyncAnthropic(base_url=self._url, api_key="sk-client", max_retries=0)

    def ask(self, client: Any, model: str) -> Talk:
        messages = [{"role": "user", "content": "hello"}]
        return text_of((yield client.messages.create(model=model, max_tokens=500, messages=messages)))

    def identify(self, client: Any, model: str) -> Talk:
        messages = [{"role": "user", "content": "hello"}]
        return (yield client.messages.create(model=model, max_tokens=500, messages=messages))._request_id

    def absent(self, client: Any, _model: str) -> Talk:
        return (yield client.get("/v1/absent", cast_to=object))

    def deltas(self, client: Any, model: str) -> Any:
        messages = [{"role": "user", "content": "hello"}]
        return client.messages.stream(model=model, max_tokens=500, messages=messages)

    def text(self, chunk: Any) -> str:
        return str(chunk.text) if chunk.type == "text" else ""

    def tools(self, client: Any, model: str) -> Talk:
        tool = {"name": "tide", "description": "The tide.", "input_schema": TIDE}
        options: Any = {"model": model, "max_tokens": 500, "tools": [tool]}
        messages: Any = [{"role": "user", "content": "When does the tide turn?"}]
        first = yield client.messages.create(messages=messages, tool_choice={"type": "any"}, **options)
        call = next(block for block in first.content if block.type == "tool_use")
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "at six"}
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
        return call.name, call.input, text_of((yield client.messages.create(messages=messages, **options)))

    def structured(self, client: Any, model: str) -> Talk:
        messages = [{"role": "user", "content": "Where?"}]
        answer = yield client.messages.parse(model=model, max_tokens=500, messages=messages, output_format=Tide)
        return answer.parsed_output

    def look(self, client: Any, model: str) -> Talk:
        source = {"type": "base64", "media_type": "image/png", "data": ENCODED}
        messages = [{"role": "user", "content": [{"type": "image", "source": source}]}]
        return text_of((yield client.messages.create(model=model, max_tokens=500, messages=messages)))


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


class Ollama(Sdk):
    """Ollama."""

    errors = ollama.ResponseError
    limited = ollama.ResponseError

    def client(self) -> Any:
        return ollama.Client(self._url)

    def aclient(self) -> Any:
        return ollama.AsyncClient(self._url)

    def ask(self, client: Any, model: str) -> Talk:
        answer = yield client.chat(model, [{"role": "user", "content": "hello"}])
        return answer.message.content

    def generate(self, client: Any, model: str) -> Talk:
        answer = yield client.generate(model, "hello")
        return answer.response

    def absent(self, client: Any, model: str) -> Talk:
        return (yield client.pull(model))

    def deltas(self, client: Any, model: str) -> Any:
        return client.chat(model, [{"role": "user", "content": "hello"}], stream=True)

    def text(self, chunk: Any) -> str:
        return str(chunk.message.content or "")

    def tools(self, client: Any, model: str) -> Talk:
        tool = {"type": "function", "function": {"name": "tide", "description": "The tide.", "parameters": TIDE}}
        messages: Any = [{"role": "user", "content": "When does the tide turn?"}]
        first = yield client.chat(model, messages, tools=[tool])
        call = first.message.tool_calls[0]
        messages += [first.message, {"role": "tool", "tool_name": call.function.name, "content": "at six"}]
        second = yield client.chat(model, messages, tools=[tool])
        return call.function.name, dict(call.function.arguments), second.message.content

    def structured(self, client: Any, model: str) -> Talk:
        options = [{"role": "user", "content": "Where?"}]
        answer = yield client.chat(model, options, format=Tide.model_json_schema())
        return Tide.model_validate_json(answer.message.content)

    def look(self, client: Any, model: str) -> Talk:
        options = [{"role": "user", "content": "What is this?", "images": [PICTURE]}]
        answer = yield client.chat(model, options)
        return answer.message.content


class Google(Sdk):
    """google-genai."""

    errors = (google_errors.APIError, google_errors.UnknownApiResponseError)
    limited = google_errors.ClientError

    def client(self) -> Any:
        return genai.Client(api_key="sk-client", http_options=google.HttpOptions(base_url=self._url))

    def aclient(self) -> Any:
        return self.client().aio

    def ask(self, client: Any, model: str) -> Talk:
        answer = yield client.models.generate_content(model=model, contents="hello")
        return answer.text

    def absent(self, client: Any, _model: str) -> Talk:
        return (yield client.caches.get(name="cachedContents/1"))

    def deltas(self, client: Any, model: str) -> Any:
        return client.models.generate_content_stream(model=model, contents="hello")

    def text(self, chunk: Any) -> str:
        return str(chunk.text or "")

    def tools(self, client: Any, model: str) -> Talk:
        declared = google.FunctionDeclaration(name="tide", description="The tide.", parameters_json_schema=TIDE)
        tools = [google.Tool(function_declarations=[declared])]
        mode = google.FunctionCallingConfig(mode=google.FunctionCallingConfigMode.ANY)
        forced = google.GenerateContentConfig(tools=tools, tool_config=google.ToolConfig(function_calling_config=mode))
        messages: Any = [google.Content(role="user", parts=[google.Part(text="When does the tide turn?")])]
        first = yield client.models.generate_content(model=model, contents=messages, config=forced)
        call = first.function_calls[0]
        answer = google.FunctionResponse(id=call.id, name=call.name, response={"result": "at six"})
        messages += [
            first.candidates[0].content,
            google.Content(role="user", parts=[google.Part(function_response=answer)]),
        ]
        config = google.GenerateContentConfig(tools=tools)
        second = yield client.models.generate_content(model=model, contents=messages, config=config)
        return call.name, dict(call.args), second.text

    def structured(self, client: Any, model: str) -> Talk:
        config = google.GenerateContentConfig(response_mime_type="application/json", response_schema=Tide)
        answer = yield client.models.generate_content(model=model, contents="Where?", config=config)
        return answer.parsed

    def look(self, client: Any, model: str) -> Talk:
        parts = ["What is this?", google.Part.from_bytes(data=PICTURE, mime_type="image/png")]
        answer = yield client.models.generate_content(model=model, contents=parts)
        return answer.text


SDKS: dict[str, Callable[..., Sdk]] = {
    "openai chat": OpenAIChat,
    "openai responses": OpenAIResponses,
    "anthropic": Anthropic,
    "ollama": Ollama,
    "google-genai": Google,
}
