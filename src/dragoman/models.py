"""A prompt in, a response or its stream out: what users hold. Thin: it makes a Request, picks targets and drives."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack, overload

import msgspec

from dragoman import ask, chain, probing, registry, typed
from dragoman.call import Timeouts
from dragoman.chain import OnInterrupt, Options, Order, Verdict, WhenAllBenched
from dragoman.drive import Driver, Observer
from dragoman.dsn import nearest
from dragoman.errors import DragomanError, InvalidRequest, SetupError
from dragoman.fetching import Fetcher
from dragoman.flow import Flow
from dragoman.form import Form, form_of
from dragoman.growth import AsyncTypedStream, TypedStream
from dragoman.health import Health
from dragoman.http import HttpRequest
from dragoman.media import Media
from dragoman.preparing import prepare
from dragoman.probing import Findings
from dragoman.providers import Provider
from dragoman.registry import Spec, as_spec
from dragoman.streams import AsyncStream, Stream
from dragoman.target import Target
from dragoman.tools import Toolish, definitions
from dragoman.transport import transport_of
from dragoman.typed import Parsed
from dragoman.types import (
    Effort,
    Embeddings,
    JsonObject,
    Message,
    ModelInfo,
    Notice,
    Opaque,
    Part,
    Request,
    Response,
    Text,
    user,
)

T = TypeVar("T")
_OPTIONS = frozenset(Options.__struct_fields__)
_FIXED = frozenset({"messages", "stream"})
"""What a call itself says."""

Prompt: TypeAlias = str | Message | Part | Iterable[Message | Part | str]


class Asked(TypedDict, total=False):
    """What may be said beside the prompt: fields of a Request, how long the call may take, how its chain behaves."""

    system: str | tuple[Text, ...] | None
    tools: Toolish | Opaque | Iterable[Toolish | Opaque] | None
    tool_choice: str | None
    parallel_tool_calls: bool | None
    schema: JsonObject | None
    schema_name: str
    schema_strict: bool | None
    schema_way: Literal["own", "any"]
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
    retries: int
    patience: float
    longest_wait: float
    backoff: float
    backoff_cap: float
    advance_on_permanent: bool
    when_all_benched: WhenAllBenched
    on_interrupt: OnInterrupt
    classify: Callable[[DragomanError], Verdict | None] | None
    order: Order
    costs: Mapping[str, float]
    fetch_images: bool


def check_asked(names: Iterable[str], /) -> None:
    """Refuse what nobody can be asked, with the nearest that there is.

    >>> check_asked(["temprature"])
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: there is no 'temprature'; did you mean 'temperature'?
    """
    known = {*Asked.__annotations__, *_OPTIONS, *Request.__struct_fields__} - _FIXED
    for name in names:
        if name not in known:
            raise InvalidRequest(f"there is no {name!r}{nearest(name, known)}")


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What one target would get: the exact request with its keys redacted, what is bent, and whether it is ready.

    >>> Registry(env={}).model("groq/llama").explain("hello")[0].reason
    'no key; set GROQ_API_KEY'
    """

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
    if isinstance(prompt, str):
        return (Message(role="user", parts=(Text(text=prompt),)),)
    if isinstance(prompt, Message):
        return (prompt,)
    if isinstance(prompt, Part):
        return (user(prompt),)
    given = list(prompt)
    messages = [item for item in given if isinstance(item, Message)]
    if not messages:
        return (user(*(item for item in given if not isinstance(item, Message))),) if given else ()
    if len(messages) < len(given):
        raise InvalidRequest("a prompt is messages, or parts and strings, but no mixture of both")
    return tuple(messages)


class Model:
    """One target or a chain of them; both get the same treatment.

    >>> Registry(env={}).model("demo/overloaded, demo/any", retries=0).generate("hello").target
    'demo/any'
    """

    def __init__(self, home: "Registry", spec: str, /, *, options: Options, asked: Asked) -> None:
        self.spec = spec
        self._home = home
        self._options = options
        self._asked = asked

    def __repr__(self) -> str:
        """Its spec."""
        return f"Model({self.spec!r})"

    @overload
    def generate(self, prompt: Prompt, /, **asked: Unpack[Asked]) -> Response: ...
    @overload
    def generate(
        self, prompt: Prompt, /, *, output: type[T], repairs: int = 1, **asked: Unpack[Asked]
    ) -> Parsed[T]: ...
    @overload
    def generate(self, prompt: Prompt, /, *, output: Any, repairs: int = 1, **asked: Unpack[Asked]) -> Parsed[Any]: ...
    def generate(
        self, prompt: Prompt, /, *, output: Any = None, repairs: int = 1, **asked: Unpack[Asked]
    ) -> Response | Parsed[Any]:
        """The answer, blocking; with an output type, read as a value of it."""
        return self._home.driver.run(self._answer(prompt, output, repairs, asked))

    @overload
    async def agenerate(self, prompt: Prompt, /, **asked: Unpack[Asked]) -> Response: ...
    @overload
    async def agenerate(
        self, prompt: Prompt, /, *, output: type[T], repairs: int = 1, **asked: Unpack[Asked]
    ) -> Parsed[T]: ...
    @overload
    async def agenerate(
        self, prompt: Prompt, /, *, output: Any, repairs: int = 1, **asked: Unpack[Asked]
    ) -> Parsed[Any]: ...
    async def agenerate(
        self, prompt: Prompt, /, *, output: Any = None, repairs: int = 1, **asked: Unpack[Asked]
    ) -> Response | Parsed[Any]:
        """The answer, async; with an output type, read as a value of it."""
        return await self._home.driver.arun(self._answer(prompt, output, repairs, asked))

    @overload
    def extract(self, kind: type[T], prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]) -> T: ...
    @overload
    def extract(self, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]) -> Any: ...
    def extract(self, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]) -> Any:
        """A value of a type, blocking; an answer that is none is asked for again, `repairs` times, with the reasons."""
        return self._home.driver.run(self._extract(form_of(kind), prompt, repairs, asked)).parsed

    @overload
    async def aextract(self, kind: type[T], prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]) -> T: ...
    @overload
    async def aextract(self, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]) -> Any: ...
    async def aextract(self, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]) -> Any:
        """A value of a type, async; an answer that is none is asked for again, `repairs` times, with the reasons."""
        return (await self._home.driver.arun(self._extract(form_of(kind), prompt, repairs, asked))).parsed

    @overload
    def stream_extract(
        self, kind: type[T], prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]
    ) -> TypedStream[T]: ...
    @overload
    def stream_extract(
        self, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]
    ) -> TypedStream[Any]: ...
    def stream_extract(
        self, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]
    ) -> TypedStream[Any]:
        """A value of a type as it grows, blocking."""
        form = form_of(kind)
        return TypedStream(self._home.driver.iterate(self._extract(form, prompt, repairs, asked, stream=True)), form)

    @overload
    def astream_extract(
        self, kind: type[T], prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]
    ) -> AsyncTypedStream[T]: ...
    @overload
    def astream_extract(
        self, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]
    ) -> AsyncTypedStream[Any]: ...
    def astream_extract(
        self, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]
    ) -> AsyncTypedStream[Any]:
        """A value of a type as it grows, async."""
        form = form_of(kind)
        results: list[Parsed[Any]] = []
        plan = self._extract(form, prompt, repairs, asked, stream=True)
        return AsyncTypedStream(self._home.driver.aiterate(plan, results.append), results, form)

    def stream(self, prompt: Prompt, /, **asked: Unpack[Asked]) -> Stream:
        """The answer as it comes, blocking."""
        return Stream(self._home.driver.iterate(self._plan(prompt, asked, stream=True)))

    def astream(self, prompt: Prompt, /, **asked: Unpack[Asked]) -> AsyncStream:
        """The answer as it comes, async."""
        results: list[Response] = []
        plan = self._plan(prompt, asked, stream=True)
        return AsyncStream(self._home.driver.aiterate(plan, results.append), results)

    def explain(self, prompt: Prompt, /, *, stream: bool = False, **asked: Unpack[Asked]) -> list[Explanation]:
        """What each target would get, without any network."""
        request, options = self.request(prompt, stream=stream, **asked)
        return [explain(request, target, options) for target in self.targets()]

    def count_tokens(self, prompt: Prompt, /, **asked: Unpack[Asked]) -> int:
        """How many tokens that is to the first target, as its provider counts them."""
        return self._home.driver.run(self._count(prompt, asked))

    async def acount_tokens(self, prompt: Prompt, /, **asked: Unpack[Asked]) -> int:
        """How many tokens that is to the first target, as its provider counts them."""
        return await self._home.driver.arun(self._count(prompt, asked))

    def embed(self, texts: str | Sequence[str], /, *, dimensions: int | None = None) -> Embeddings:
        """The vectors of some texts, from the first target: those of another would not fit them."""
        return self._home.driver.run(self._embed(texts, dimensions))

    async def aembed(self, texts: str | Sequence[str], /, *, dimensions: int | None = None) -> Embeddings:
        """The vectors of some texts, from the first target: those of another would not fit them."""
        return await self._home.driver.arun(self._embed(texts, dimensions))

    def list_models(self) -> tuple[ModelInfo, ...]:
        """Which models the first target's provider has."""
        return self._home.driver.run(ask.list_models(self.targets()[0], self._options))

    async def alist_models(self) -> tuple[ModelInfo, ...]:
        """Which models the first target's provider has."""
        return await self._home.driver.arun(ask.list_models(self.targets()[0], self._options))

    def probe(self) -> Findings:
        """What the first target's server really does, by a few small questions."""
        return self._home.driver.run(probing.probe(self.targets()[0], self._options))

    async def aprobe(self) -> Findings:
        """What the first target's server really does, by a few small questions, async."""
        return await self._home.driver.arun(probing.probe(self.targets()[0], self._options))

    def _count(self, prompt: Prompt, asked: Asked) -> Flow[int]:
        request, options = self.request(prompt, **asked)
        return ask.count_tokens(request, self.targets()[0], options)

    def _embed(self, texts: str | Sequence[str], dimensions: int | None) -> Flow[Embeddings]:
        _, options = self.request("", **self._asked)
        return ask.embed(ask.as_texts(texts), dimensions, self.targets()[0], options)

    def targets(self) -> list[Target]:
        """The targets of its spec, as they are now."""
        return self._home.targets(self.spec)

    def request(self, prompt: Prompt, /, *, stream: bool = False, **asked: Unpack[Asked]) -> tuple[Request, Options]:
        """What would be asked, and how: the model's own settings with these laid over them."""
        fields, options = self._settle(asked) if asked else self._settled
        try:
            return Request(messages=as_messages(prompt), stream=stream, **fields), options
        except TypeError as error:
            check_asked(asked)
            raise InvalidRequest(str(error)) from error

    @cached_property
    def _settled(self) -> tuple[dict[str, Any], Options]:
        """Its own settings, for calls that ask for nothing else."""
        return self._settle({})

    def _settle(self, asked: Asked) -> tuple[dict[str, Any], Options]:
        """The fields of a request, and how its chain behaves."""
        fields: dict[str, Any] = {**self._asked, **asked}
        options = self._options
        if (timeout := fields.pop("timeout", None)) is not None:
            fields["timeouts"] = (
                timeout
                if isinstance(timeout, Timeouts)
                else msgspec.structs.replace(options.timeouts, total=float(timeout))
            )
        chosen = {name: fields.pop(name) for name in _OPTIONS & fields.keys()}
        stop = fields.pop("stop", None) or ()
        fields["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
        fields["tools"] = definitions(fields.pop("tools", None) or ())
        return fields, msgspec.structs.replace(options, **chosen) if chosen else options

    def _answer(self, prompt: Prompt, kind: Any, repairs: int, asked: Asked) -> Flow[Response]:
        request, options = self.request(prompt, **asked)
        if kind is None:
            return self.plan(request, options)
        return typed.run(request, form_of(kind), self.targets(), self._home.health, options, repairs=repairs)

    def _extract(
        self, form: Form[T], prompt: Prompt, repairs: int, asked: Asked, *, stream: bool = False
    ) -> Flow[Parsed[T]]:
        request, options = self.request(prompt, stream=stream, **asked)
        return typed.extract(request, form, self.targets(), self._home.health, options, repairs=repairs)

    def _plan(self, prompt: Prompt, asked: Asked, *, stream: bool = False) -> Flow[Response]:
        return self.plan(*self.request(prompt, stream=stream, **asked))

    def plan(self, request: Request, options: Options, /) -> Flow[Response]:
        """How a request is answered; the driver runs it."""
        return chain.run(request, self.targets(), self._home.health, options)

    @property
    def driver(self) -> Driver:
        """What runs its plans."""
        return self._home.driver


def explain(request: Request, target: Target, options: Options, /) -> Explanation:
    """What a target would get.

    >>> from dragoman.providers import target
    >>> explain(Request(), target("ollama/x"), Options()).ready
    True
    """
    missing = target.needs_key and not target.api_key
    if options.fetch_images and Media(request, target.limits).urls:
        why = "images by URL are fetched when the call is made"
        return Explanation(target=target.name, request=None, notices=(), ready=not missing, reason=why)
    try:
        http = prepare(request, msgspec.structs.replace(target, needs_key=False))
    except DragomanError as error:
        return Explanation(target=target.name, request=None, notices=(), ready=False, reason=error.message)
    ways = f"set {' or '.join(target.key_names)}" if target.key_names else "pass api_key="
    reason = f"no key; {ways}" if missing else None
    return Explanation(
        target=target.name, request=http.redacted(), notices=http.notices, ready=not missing, reason=reason
    )


class Registry(registry.Registry):
    """Names and what they stand for, with the health, the transport and the observers that its models share.

    >>> Registry(env={"GROQ_API_KEY": "k"}).model("groq/llama")
    Model('groq/llama')
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
        ca = self.env.get("SSL_CERT_FILE") or None
        self.transport = transport_of(http_client, ca=ca, env=None if self.env is os.environ else self.env)
        self.driver = Driver(self.transport, list(observers), fetcher=Fetcher(ca=ca))

    def load_config(self, config: Mapping[str, Any] | str | Path, /) -> None:
        """As text, as its tables, or the path of the file."""
        if not isinstance(config, Path):
            return super().load_config(config)
        try:
            return super().load_config(config.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise SetupError(f"{config}: cannot be read: {error}") from error
        except SetupError as error:
            raise SetupError(f"{config}: {error}") from error

    def add_provider(self, provider: Provider | None = None, /, **fields: Any) -> Provider:
        """A record, or its fields; its `http_client` sends its requests, and is closed by its owner."""
        client = fields.get("http_client", None if provider is None else provider.http_client)
        return super().add_provider(
            provider, **fields if client is None else {**fields, "http_client": transport_of(client)}
        )

    def model(self, spec: Spec, /, *, options: Options | None = None, **asked: Unpack[Asked]) -> Model:
        """A model for a spec; what is asked here holds for all its calls."""
        check_asked(asked)
        spec = as_spec(spec)
        self.targets(spec)
        return Model(self, spec, options=options or Options(), asked=asked)

    def observe(self, observer: Observer, /) -> None:
        """Tell this function of every attempt."""
        self.driver.observers.append(observer)

    def close(self) -> None:
        """Let go of pooled connections; the next call starts anew."""
        self.transport.close()


@cache
def default_registry() -> Registry:
    """The registry of the process's own environment, made at first use.

    >>> default_registry() is default_registry()
    True
    """
    return Registry()


def model(spec: Spec, /, *, options: Options | None = None, **asked: Unpack[Asked]) -> Model:
    """A model of the default registry.

    >>> model("demo/any", temperature=0)
    Model('demo/any')
    """
    return default_registry().model(spec, options=options, **asked)


def generate(spec: str, prompt: Prompt, /, **asked: Unpack[Asked]) -> Response:
    """The answer, blocking.

    >>> generate("demo/any", "Is it so?").text
    'You said “Is it so?”, which is 3 words.'
    """
    return model(spec).generate(prompt, **asked)


async def agenerate(spec: str, prompt: Prompt, /, **asked: Unpack[Asked]) -> Response:
    """The answer, async.

    >>> import asyncio
    >>> asyncio.run(agenerate("demo/any", "Is it so?")).usage.output
    14
    """
    return await model(spec).agenerate(prompt, **asked)


def stream(spec: str, prompt: Prompt, /, **asked: Unpack[Asked]) -> Stream:
    """The answer as it comes, blocking.

    >>> next(iter(stream("demo/any", "Is it so?")))
    TextDelta(text='You ')
    """
    return model(spec).stream(prompt, **asked)


def embed(spec: str, texts: str | Sequence[str], /, *, dimensions: int | None = None) -> Embeddings:
    """The vectors of some texts.

    >>> embed("demo/any", ["ships", "harbours"], dimensions=4).vectors[0]
    (0.0, 1.0, 0.0, 0.0)
    """
    return model(spec).embed(texts, dimensions=dimensions)


async def aembed(spec: str, texts: str | Sequence[str], /, *, dimensions: int | None = None) -> Embeddings:
    """The vectors of some texts, async.

    >>> import asyncio
    >>> len(asyncio.run(aembed("demo/any", "ships")).vectors)
    1
    """
    return await model(spec).aembed(texts, dimensions=dimensions)


def astream(spec: str, prompt: Prompt, /, **asked: Unpack[Asked]) -> AsyncStream:
    """The answer as it comes, async.

    >>> type(astream("demo/any", "Is it so?")).__name__
    'AsyncStream'
    """
    return model(spec).astream(prompt, **asked)


def probe(spec: str, /) -> Findings:
    """What the server of a spec's first target really does; `set_limits(found.target, **found.facts)` keeps it.

    >>> probe("demo/any").facts["tools"]
    True
    """
    return model(spec).probe()


async def aprobe(spec: str, /) -> Findings:
    """What the server of a spec's first target really does, async.

    >>> import asyncio
    >>> asyncio.run(aprobe("demo/any")).facts["structured"]
    True
    """
    return await model(spec).aprobe()
