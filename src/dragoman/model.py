"""A prompt in, a response or its stream out: what users hold. Thin: it makes a Request, picks targets and drives."""

import os
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeAlias, TypedDict, Unpack

import msgspec

from dragoman import chain, registry
from dragoman.call import Timeouts, prepare
from dragoman.chain import Options
from dragoman.drive import Driver, Observer
from dragoman.errors import DragomanError, InvalidRequest
from dragoman.events import Event, PartDelta, PartEnded, PartStarted
from dragoman.health import Health
from dragoman.http import HttpRequest
from dragoman.target import Target
from dragoman.transport import Transport, transport_of
from dragoman.types import (
    Effort,
    JsonObject,
    Message,
    Notice,
    Opaque,
    Part,
    Request,
    Response,
    Text,
    Tool,
    ToolCall,
    user,
)

Prompt: TypeAlias = str | Message | Part | Iterable[Message | Part | str]


class Asked(TypedDict, total=False):
    """What may be said beside the prompt: the fields of a Request, and how long the call may take."""

    system: str | tuple[Text, ...] | None
    tools: Iterable[Tool | Opaque]
    tool_choice: str | None
    parallel_tool_calls: bool | None
    schema: JsonObject | None
    schema_name: str
    schema_strict: bool | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    max_tokens: int | None
    stop: str | Iterable[str]
    seed: int | None
    reasoning: Effort | int | None
    cache: bool | None
    user: str | None
    metadata: dict[str, str]
    strict: bool
    extra: dict[str, Any]
    timeout: float | Timeouts | None


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the answer's text.

    >>> TextDelta("hel").text
    'hel'
    """

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True):
    """A piece of the model's thinking.

    >>> ThinkingDelta("Hmm.").text
    'Hmm.'
    """

    text: str


Item: TypeAlias = TextDelta | ThinkingDelta | ToolCall | Response


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What one target would get: the exact request with its keys redacted, what is bent, and whether it is ready."""

    target: str
    request: HttpRequest | None
    notices: tuple[Notice, ...]
    ready: bool
    reason: str | None = None


def as_messages(prompt: Prompt, /) -> tuple[Message, ...]:
    """The messages of a prompt: a string, a message, a part, or a list of these.

    >>> as_messages(["What is this?", Text(text="Be brief.")])[0].text
    'What is this?Be brief.'
    """
    if isinstance(prompt, Message):
        return (prompt,)
    if isinstance(prompt, str | msgspec.Struct):
        return (user(prompt),)
    given = list(prompt)
    if all(isinstance(item, Message) for item in given):
        return tuple(item for item in given if isinstance(item, Message))
    if any(isinstance(item, Message) for item in given):
        raise InvalidRequest("a prompt is messages, or parts and strings, but no mixture of both")
    return (user(*(item for item in given if not isinstance(item, Message))),)


class Model:
    """One target or a chain of them; both get the same treatment.

    >>> from dragoman import Registry
    >>> Registry(env={}).model("demo/any").generate("hello").target
    'demo/any'
    """

    def __init__(self, home: "Registry", spec: str, /, *, options: Options, asked: Mapping[str, Any]) -> None:
        self.spec = spec
        self._home = home
        self._options = options
        self._asked = asked

    def __repr__(self) -> str:
        """Its spec."""
        return f"Model({self.spec!r})"

    def generate(self, prompt: Prompt, /, **asked: Unpack[Asked]) -> Response:
        """The answer, blocking."""
        request, options = self._request(prompt, asked)
        return self._home.driver.run(self._plan(request, options))

    async def agenerate(self, prompt: Prompt, /, **asked: Unpack[Asked]) -> Response:
        """The answer, async."""
        request, options = self._request(prompt, asked)
        return await self._home.driver.arun(self._plan(request, options))

    def stream(self, prompt: Prompt, /, **asked: Unpack[Asked]) -> "Stream":
        """The answer as it comes, blocking."""
        request, options = self._request(prompt, asked, stream=True)
        return Stream(self._home.driver.iterate(self._plan(request, options)))

    def astream(self, prompt: Prompt, /, **asked: Unpack[Asked]) -> "AsyncStream":
        """The answer as it comes, async."""
        request, options = self._request(prompt, asked, stream=True)
        results: list[Response] = []
        return AsyncStream(self._home.driver.aiterate(self._plan(request, options), results.append), results)

    def explain(self, prompt: Prompt, /, *, stream: bool = False, **asked: Unpack[Asked]) -> list[Explanation]:
        """What each target would get, without any network."""
        request, _ = self._request(prompt, asked, stream=stream)
        return [_explain(request, target) for target in self._home.targets(self.spec)]

    def _plan(self, request: Request, options: Options) -> "chain.Flow[Response]":
        return chain.run(request, self._home.targets(self.spec), self._home.health, options)

    def _request(
        self, prompt: Prompt, asked: Mapping[str, Any], *, stream: bool = False
    ) -> tuple[Request, Options]:
        fields = {**self._asked, **asked}
        options = self._options
        if (timeout := fields.pop("timeout", None)) is not None:
            timeouts = timeout if isinstance(timeout, Timeouts) else msgspec.structs.replace(
                options.timeouts, total=float(timeout)
            )
            options = msgspec.structs.replace(options, timeouts=timeouts)
        stop = fields.pop("stop", ())
        fields["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
        fields["tools"] = tuple(fields.pop("tools", ()))
        try:
            return Request(messages=as_messages(prompt), stream=stream, **fields), options
        except TypeError as error:
            raise InvalidRequest(str(error)) from error


def _explain(request: Request, target: Target) -> Explanation:
    keyed = target if target.api_key else msgspec.structs.replace(target, needs_key=False)
    missing = target.needs_key and not target.api_key
    try:
        http = prepare(request, keyed)
    except DragomanError as error:
        return Explanation(target=target.name, request=None, notices=(), ready=False, reason=error.message)
    reason = f"no key; set {' or '.join(target.key_names)}" if missing else None
    return Explanation(
        target=target.name, request=http.redacted(), notices=http.notices, ready=not missing, reason=reason
    )


class _View:
    """Events to the friendly items."""

    def __init__(self) -> None:
        self._thinking: set[int] = set()

    def item(self, event: Event) -> Item | None:
        match event:
            case PartDelta():
                return ThinkingDelta(event.text) if event.index in self._thinking else TextDelta(event.text)
            case PartStarted(kind="thinking"):
                self._thinking.add(event.index)
            case PartEnded(part=ToolCall() as call):
                return call
            case _:
                return None
        return None


class Stream:
    """A streamed answer: iterate it for its items, the last of which is the Response. Leaving it closes the connection.

    >>> from dragoman import Registry
    >>> with Registry(env={}).model("demo/any").stream("hello") as stream:
    ...     items = list(stream)
    >>> items[-1] is stream.response
    True
    """

    def __init__(self, events: Generator[Event, None, Response]) -> None:
        self._events = events
        self._view = _View()
        self.response: Response | None = None

    def events(self) -> Iterator[Event]:
        """The events themselves."""
        self.response = yield from self._events

    def __iter__(self) -> Iterator[Item]:
        """Pieces of text and thinking, whole calls, and last the response."""
        for event in self.events():
            if (item := self._view.item(event)) is not None:
                yield item
        if self.response is not None:
            yield self.response

    def close(self) -> None:
        """Close the connection, if the stream is not at its end."""
        self._events.close()

    def __enter__(self) -> "Stream":
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()


class AsyncStream:
    """A streamed answer, async: iterate it for its items, the last of which is the Response."""

    def __init__(self, events: AsyncGenerator[Event, None], results: list[Response]) -> None:
        self._events = events
        self._results = results
        self._view = _View()

    @property
    def response(self) -> Response | None:
        """The response, once the stream is at its end."""
        return self._results[0] if self._results else None

    async def events(self) -> AsyncIterator[Event]:
        """The events themselves."""
        try:
            async for event in self._events:
                yield event
        finally:
            await self._events.aclose()

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Pieces of text and thinking, whole calls, and last the response."""
        async for event in self._events:
            if (item := self._view.item(event)) is not None:
                yield item
        if self.response is not None:
            yield self.response

    async def aclose(self) -> None:
        """Close the connection, if the stream is not at its end."""
        await self._events.aclose()

    async def __aenter__(self) -> "AsyncStream":
        """Itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self.aclose()


class Registry(registry.Registry):
    """Names and what they stand for, with the health, the transport and the observers that its models share.

    >>> Registry(env={"GROQ_API_KEY": "k"}).model("groq/llama").spec
    'groq/llama'
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str] | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        http_client: object = None,
        health: Health | None = None,
        observers: Iterable[Observer] = (),
    ) -> None:
        super().__init__(env=os.environ if env is None else env, api_key=api_key, base_url=base_url)
        self.health = health or Health(lock=threading.Lock(), clock=time.monotonic)
        self.transport: Transport = transport_of(http_client)
        self.driver = Driver(self.transport, list(observers))

    def model(self, spec: str, /, *, options: Options | None = None, **asked: Unpack[Asked]) -> Model:
        """A model for a spec; what is asked here holds for all its calls."""
        self.targets(spec)
        return Model(self, spec, options=options or Options(), asked=asked)

    def observe(self, observer: Observer, /) -> None:
        """Tell this function of every attempt."""
        self.driver.observers.append(observer)

    def close(self) -> None:
        """Let go of pooled connections."""
        self.transport.close()
