"""A prompt in, a response or its stream out: what users hold. Thin: it makes a Request, picks targets and drives."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

import msgspec

from dragoman import registry
from dragoman.engine import endpoints as ask
from dragoman.engine import failover as chain
from dragoman.engine import probe as probing
from dragoman.engine import typed
from dragoman.engine.attempt import Timeouts
from dragoman.engine.effects import Plan
from dragoman.engine.failover import ChainOptions, ErrorPolicy, OnInterrupt, Order, WhenAllCoolingDown
from dragoman.engine.health import Health
from dragoman.engine.preparing import prepare
from dragoman.engine.probe import Findings
from dragoman.engine.prompts import Prompt, as_messages
from dragoman.engine.typed import Parsed
from dragoman.errors import DragomanError, InvalidRequest, SetupError
from dragoman.http import HttpRequest
from dragoman.io.driver import Driver, Observer
from dragoman.io.pyreqwest import transport_of
from dragoman.io.url_fetcher import Fetcher
from dragoman.media import Media
from dragoman.registry import Spec, as_spec
from dragoman.schema.output_type import OutputType, output_type_of
from dragoman.streaming import AsyncStream, AsyncTypedStream, Stream, TypedStream
from dragoman.targets.dsn import nearest
from dragoman.targets.providers import Provider
from dragoman.targets.target import Target
from dragoman.tools.decorator import ToolLike, definitions
from dragoman.types import (
    Effort,
    Embeddings,
    JsonObject,
    ModelInfo,
    Notice,
    Opaque,
    Request,
    Response,
    Text,
)

T = TypeVar("T")
_OPTIONS = frozenset(ChainOptions.__struct_fields__)
_FIXED = frozenset({"messages", "stream"})
"""What a call itself says."""


class CallOptions(TypedDict, total=False):
    """What may be said beside the prompt: fields of a Request, how long the call may take, how its chain behaves."""

    system: str | tuple[Text, ...] | None
    tools: ToolLike | Opaque | Iterable[ToolLike | Opaque] | None
    tool_choice: str | None
    parallel_tool_calls: bool | None
    schema: JsonObject | None
    schema_name: str
    schema_strict: bool | None
    schema_mode: Literal["native", "auto"]
    temperature: float | None
    top_p: float | None
    top_k: int | None
    max_tokens: int | None
    stop: str | Iterable[str] | None
    seed: int | None
    reasoning: Effort | int | None
    cache: bool | None
    user: str | None
    metadata: dict[str, str]
    strict: bool
    extra: dict[str, Any]
    timeout: float | Timeouts | None
    retries: int
    max_retry_after_with_fallback: float
    max_retry_after: float
    backoff: float
    backoff_cap: float
    fail_over_on_permanent: bool
    when_all_cooling_down: WhenAllCoolingDown
    on_interrupt: OnInterrupt
    classify: Callable[[DragomanError], ErrorPolicy | None] | None
    order: Order
    costs: Mapping[str, float]
    fetch_images: bool


def check_options(names: Iterable[str], /) -> None:
    """Refuse what nobody can be asked, with the nearest that there is.

    >>> check_options(["temprature"])
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: there is no 'temprature'; did you mean 'temperature'?
    """
    known = {*CallOptions.__annotations__, *_OPTIONS, *Request.__struct_fields__} - _FIXED
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


class Model:
    """One target or a chain of them; both get the same treatment.

    >>> Registry(env={}).model("demo/overloaded, demo/any", retries=0).generate("hello").target
    'demo/any'
    """

    def __init__(
        self, registry: "Registry", spec: str, /, *, chain_options: ChainOptions, options: CallOptions
    ) -> None:
        self.spec = spec
        self._registry = registry
        self._chain_options = chain_options
        self._call_options = options

    def __repr__(self) -> str:
        """Its spec."""
        return f"Model({self.spec!r})"

    @overload
    def generate(self, prompt: Prompt, /, **options: Unpack[CallOptions]) -> Response: ...
    @overload
    def generate(
        self, prompt: Prompt, /, *, output: type[T], max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Parsed[T]: ...
    @overload
    def generate(
        self, prompt: Prompt, /, *, output: Any, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Parsed[Any]: ...
    def generate(
        self, prompt: Prompt, /, *, output: Any = None, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Response | Parsed[Any]:
        """The answer, blocking; with an output type, read as a value of it."""
        return self._registry.driver.run(self._answer(prompt, output, max_repairs, options))

    @overload
    async def agenerate(self, prompt: Prompt, /, **options: Unpack[CallOptions]) -> Response: ...
    @overload
    async def agenerate(
        self, prompt: Prompt, /, *, output: type[T], max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Parsed[T]: ...
    @overload
    async def agenerate(
        self, prompt: Prompt, /, *, output: Any, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Parsed[Any]: ...
    async def agenerate(
        self, prompt: Prompt, /, *, output: Any = None, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Response | Parsed[Any]:
        """The answer, async; with an output type, read as a value of it."""
        return await self._registry.driver.arun(self._answer(prompt, output, max_repairs, options))

    @overload
    def extract(
        self, kind: type[T], prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> T: ...
    @overload
    def extract(self, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]) -> Any: ...
    def extract(self, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]) -> Any:
        """A value of a type, blocking; an answer that is none is asked for again, `max_repairs` times, with the reasons."""
        return self._registry.driver.run(self._extract(output_type_of(kind), prompt, max_repairs, options)).parsed

    @overload
    async def aextract(
        self, kind: type[T], prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> T: ...
    @overload
    async def aextract(
        self, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Any: ...
    async def aextract(
        self, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Any:
        """A value of a type, async; an answer that is none is asked for again, `max_repairs` times, with the reasons."""
        return (
            await self._registry.driver.arun(self._extract(output_type_of(kind), prompt, max_repairs, options))
        ).parsed

    @overload
    def stream_extract(
        self, kind: type[T], prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> TypedStream[T]: ...
    @overload
    def stream_extract(
        self, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> TypedStream[Any]: ...
    def stream_extract(
        self, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> TypedStream[Any]:
        """A value of a type as it grows, blocking."""
        form = output_type_of(kind)
        return TypedStream(
            self._registry.driver.iterate(self._extract(form, prompt, max_repairs, options, stream=True)), form
        )

    @overload
    def astream_extract(
        self, kind: type[T], prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> AsyncTypedStream[T]: ...
    @overload
    def astream_extract(
        self, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> AsyncTypedStream[Any]: ...
    def astream_extract(
        self, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> AsyncTypedStream[Any]:
        """A value of a type as it grows, async."""
        form = output_type_of(kind)
        results: list[Parsed[Any]] = []
        plan = self._extract(form, prompt, max_repairs, options, stream=True)
        return AsyncTypedStream(self._registry.driver.aiterate(plan, results.append), results, form)

    def stream(self, prompt: Prompt, /, **options: Unpack[CallOptions]) -> Stream:
        """The answer as it comes, blocking."""
        return Stream(self._registry.driver.iterate(self._plan(prompt, options, stream=True)))

    def astream(self, prompt: Prompt, /, **options: Unpack[CallOptions]) -> AsyncStream:
        """The answer as it comes, async."""
        results: list[Response] = []
        plan = self._plan(prompt, options, stream=True)
        return AsyncStream(self._registry.driver.aiterate(plan, results.append), results)

    def explain(self, prompt: Prompt, /, *, stream: bool = False, **options: Unpack[CallOptions]) -> list[Explanation]:
        """What each target would get, without any network."""
        request, chain_options = self.request(prompt, stream=stream, **options)
        return [explain(request, target, chain_options) for target in self.targets()]

    def count_tokens(self, prompt: Prompt, /, **options: Unpack[CallOptions]) -> int:
        """How many tokens that is to the first target, as its provider counts them."""
        return self._registry.driver.run(self._count(prompt, options))

    async def acount_tokens(self, prompt: Prompt, /, **options: Unpack[CallOptions]) -> int:
        """How many tokens that is to the first target, as its provider counts them."""
        return await self._registry.driver.arun(self._count(prompt, options))

    def embed(self, texts: str | Sequence[str], /, *, dimensions: int | None = None) -> Embeddings:
        """The vectors of some texts, from the first target: those of another would not fit them."""
        return self._registry.driver.run(self._embed(texts, dimensions))

    async def aembed(self, texts: str | Sequence[str], /, *, dimensions: int | None = None) -> Embeddings:
        """The vectors of some texts, from the first target: those of another would not fit them."""
        return await self._registry.driver.arun(self._embed(texts, dimensions))

    def list_models(self) -> tuple[ModelInfo, ...]:
        """Which models the first target's provider has."""
        return self._registry.driver.run(ask.list_models(self.targets()[0], self._settled[1]))

    async def alist_models(self) -> tuple[ModelInfo, ...]:
        """Which models the first target's provider has."""
        return await self._registry.driver.arun(ask.list_models(self.targets()[0], self._settled[1]))

    def probe(self) -> Findings:
        """What the first target's server really does, by a few small questions."""
        return self._registry.driver.run(probing.probe(self.targets()[0], self._settled[1]))

    async def aprobe(self) -> Findings:
        """What the first target's server really does, by a few small questions, async."""
        return await self._registry.driver.arun(probing.probe(self.targets()[0], self._settled[1]))

    def _count(self, prompt: Prompt, options: CallOptions) -> Plan[int]:
        request, chain_options = self.request(prompt, **options)
        return ask.count_tokens(request, self.targets()[0], chain_options)

    def _embed(self, texts: str | Sequence[str], dimensions: int | None) -> Plan[Embeddings]:
        return ask.embed(ask.as_texts(texts), dimensions, self.targets()[0], self._settled[1])

    def targets(self) -> list[Target]:
        """The targets of its spec, as they are now."""
        return self._registry.targets(self.spec)

    def request(
        self, prompt: Prompt, /, *, stream: bool = False, **options: Unpack[CallOptions]
    ) -> tuple[Request, ChainOptions]:
        """What would be asked, and how: the model's own settings with these laid over them."""
        fields, chain_options = self._merge_options(options) if options else self._settled
        try:
            return Request(messages=as_messages(prompt), stream=stream, **fields), chain_options
        except TypeError as error:
            check_options(options)
            raise InvalidRequest(str(error)) from error

    @cached_property
    def _settled(self) -> tuple[dict[str, Any], ChainOptions]:
        """Its own settings, for calls that ask for nothing else."""
        return self._merge_options({})

    def _merge_options(self, options: CallOptions) -> tuple[dict[str, Any], ChainOptions]:
        """The fields of a request, and how its chain behaves."""
        fields: dict[str, Any] = {**self._call_options, **options}
        chain_options = self._chain_options
        timeout = fields.pop("timeout", None)
        timeout = self._call_options.get("timeout") if timeout is None else timeout
        if timeout is not None:
            is_whole = isinstance(timeout, Timeouts)
            fields["timeouts"] = timeout if is_whole else msgspec.structs.replace(chain_options.timeouts, total=timeout)
        chosen = {name: fields.pop(name) for name in _OPTIONS & fields.keys()}
        stop = fields.pop("stop", None) or ()
        fields["stop"] = (stop,) if isinstance(stop, str) else _several("stop", stop, str)
        if (system := fields.get("system")) is not None and not isinstance(system, str):
            fields["system"] = _several("system", system, Text)
        fields["tools"] = definitions(fields.pop("tools", None) or ())
        return fields, msgspec.structs.replace(chain_options, **chosen) if chosen else chain_options

    def _answer(self, prompt: Prompt, kind: Any, max_repairs: int, options: CallOptions) -> Plan[Response]:
        request, chain_options = self.request(prompt, **options)
        if kind is None:
            return self.plan(request, chain_options)
        return typed.run(
            request, output_type_of(kind), self.targets(), self._registry.health, chain_options, max_repairs=max_repairs
        )

    def _extract(
        self, form: OutputType[T], prompt: Prompt, max_repairs: int, options: CallOptions, *, stream: bool = False
    ) -> Plan[Parsed[T]]:
        request, chain_options = self.request(prompt, stream=stream, **options)
        return typed.extract(
            request, form, self.targets(), self._registry.health, chain_options, max_repairs=max_repairs
        )

    def _plan(self, prompt: Prompt, options: CallOptions, *, stream: bool = False) -> Plan[Response]:
        return self.plan(*self.request(prompt, stream=stream, **options))

    def plan(self, request: Request, chain_options: ChainOptions, /) -> Plan[Response]:
        """How a request is answered; the driver runs it."""
        return chain.run(request, self.targets(), self._registry.health, chain_options)

    @property
    def driver(self) -> Driver:
        """What runs its plans."""
        return self._registry.driver


def _several(name: str, given: Any, kind: type[T]) -> tuple[T, ...]:
    found: tuple[Any, ...] = tuple(given) if hasattr(given, "__iter__") else (None,)
    if all(isinstance(one, kind) for one in found):
        return found
    raise InvalidRequest(f"{name}: give a string, or some {kind.__name__} in a list")


def explain(request: Request, target: Target, chain_options: ChainOptions, /) -> Explanation:
    """What a target would get.

    >>> from dragoman.targets.providers import target
    >>> explain(Request(), target("ollama/x"), ChainOptions()).ready
    True
    """
    missing = target.needs_key and not target.api_key
    if chain_options.fetch_images and Media(request, target.capabilities).urls:
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

    def model(
        self, spec: Spec, /, *, chain_options: ChainOptions | None = None, **options: Unpack[CallOptions]
    ) -> Model:
        """A model for a spec; what is asked here holds for all its calls."""
        check_options(options)
        spec = as_spec(spec)
        self.targets(spec)
        return Model(self, spec, chain_options=chain_options or ChainOptions(), options=options)

    def observe(self, observer: Observer, /) -> None:
        """Tell this function of every attempt."""
        self.driver.observers.append(observer)

    def close(self) -> None:
        """Let go of pooled connections; the next call starts anew.

        A call whose answer has not begun ends as Reset, which counts against nobody and is not tried again; an answer
        that has begun is read to its end.
        """
        self.transport.close()


@cache
def default_registry() -> Registry:
    """The registry of the process's own environment, made at first use.

    >>> default_registry() is default_registry()
    True
    """
    return Registry()


def model(spec: Spec, /, *, chain_options: ChainOptions | None = None, **options: Unpack[CallOptions]) -> Model:
    """A model of the default registry.

    >>> model("demo/any", temperature=0)
    Model('demo/any')
    """
    return default_registry().model(spec, chain_options=chain_options, **options)
