"""Model: a spec and its options, and the methods that call it.

A method builds a Request from the prompt and the options, makes a plan for the targets of the spec, and lets the
registry's driver run it.
"""

# Not model.py: `dragoman.model` is a public function, and importing a submodule of that name would replace it.

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack, overload

import msgspec

from dragoman.engine import deployment_limits, endpoints, failover, probe, typed_output
from dragoman.engine.call_context import CallContext, Timeouts
from dragoman.engine.call_options import CallOptions, check_options
from dragoman.engine.effects import Plan
from dragoman.engine.explanation import Explanation, explain_target
from dragoman.engine.failover import ChainOptions
from dragoman.engine.probe import Findings
from dragoman.engine.prompt_caches import delete_prompts
from dragoman.engine.typed_output import Parsed
from dragoman.errors import DragomanError, InvalidRequest, RequestError, SetupError
from dragoman.http import redact_url
from dragoman.io.driver import Driver, short_traceback
from dragoman.io.hooks import Call, Hooks, observed
from dragoman.schema.output_type import OutputType, output_type_of
from dragoman.streaming import AsyncStream, AsyncTypedStream, Stream, TypedStream
from dragoman.targets.connection_options import check_headers
from dragoman.targets.option_hints import refuse_stream
from dragoman.targets.pools import bind_fallbacks
from dragoman.targets.target import Target
from dragoman.tools.decorator import tool_definitions
from dragoman.types import (
    CachePoint,
    Embeddings,
    File,
    JsonObject,
    Message,
    ModelInfo,
    Part,
    Ranking,
    Request,
    Response,
    Text,
    TokenCount,
    user,
)
from dragoman.types.caching import mark_part
from dragoman.types.checks import (
    as_items,
    as_text,
    as_texts,
    check_flag,
    check_whole_number,
    name_parameter,
    naming,
    wrong_value,
)
from dragoman.types.embedding import EmbeddingOptions, EmbeddingPurpose, Truncation
from dragoman.types.fast_constructors import new_message, new_text
from dragoman.types.json_values import encode_value
from dragoman.types.media_files import PillowImage, is_pil
from dragoman.types.parameters import missing_is_none, named_methods
from dragoman.types.requests import with_messages
from dragoman.types.tracebacks import shorten_traceback
from dragoman.wires.dicts import (
    SdkValue,
    is_foreign,
    is_message_dict,
    messages_from,
    read_system,
    read_tool_choice,
    read_tools,
    to_dict,
)

if TYPE_CHECKING:
    from dragoman.registry import Registry

R = TypeVar("R", bound=Response)
T = TypeVar("T")
Prompt: TypeAlias = (
    str
    | Message
    | Part
    | File
    | PillowImage
    | SdkValue
    | Iterable[Message | Part | CachePoint | File | str | PillowImage | SdkValue]
)
"""Text, a message, a part, or a list of these. A Pillow image is a part, too; a dict or an object of another SDK may be
a message or a part."""
F = TypeVar("F", bound=Callable[..., Any])
_CHAIN_OPTIONS = frozenset(ChainOptions.__struct_fields__)
_CONNECTION = frozenset({"api_key", "headers", "base_url"})


def _parser(name: str, hint: Any) -> OutputType[Any]:
    if hint is None:  # or missing
        raise wrong_value(name, "a type", None, "use a dataclass, a TypedDict or a pydantic model")
    if isinstance(hint, str) and name == "output_type":
        raise wrong_value(name, "a type", hint, "the type comes before the prompt: extract(int, 'How many?')")
    with naming(name):
        return output_type_of(hint, name)


def _as_timeouts(timeout: Any, default: Timeouts) -> Timeouts:
    if isinstance(timeout, Timeouts):
        return timeout
    with naming("timeout"):
        return msgspec.structs.replace(default, total=timeout)


# Prompts --------------------------------------------------------------------------------------------------------------


def as_messages(prompt: Prompt, /) -> tuple[Message, ...]:
    """The messages of a prompt: a string, a message, a part, or a list of these; messages may be dicts of other SDKs.

    >>> as_messages(["What is this?", Text(text="Be brief.")])[0].text
    'What is this?Be brief.'
    """
    if isinstance(prompt, Message):
        return (prompt,)
    try:
        if isinstance(prompt, str):
            return (new_message("user", (new_text(prompt),)),)
        return (user(prompt),) if isinstance(prompt, Part | File) or is_pil(prompt) else _read_prompt(prompt)
    except (RequestError, SetupError) as error:
        name_parameter(error, "prompt")
        raise


def _read_prompt(prompt: Any) -> tuple[Message, ...]:
    items = _prompt_items(prompt)
    messages: list[Any] = [item for item in items if isinstance(item, Message) or is_message_dict(item)]
    if messages and len(messages) < len(items):
        raise InvalidRequest(
            "prompt must be a list of messages, or a list of parts and strings, got a mixture; "
            "make messages of the strings: dragoman.user('…')",
            param="prompt",
        )
    if not items:
        raise InvalidRequest("prompt must have at least one message, got an empty list")
    if not messages:
        return (user(*items),)
    return messages_from(messages) if any(isinstance(message, dict) for message in messages) else tuple(messages)


def _prompt_items(prompt: Any) -> list[Any]:
    items = [prompt] if is_foreign(prompt) else list(as_items("prompt", prompt, _PROMPT))
    for i, item in enumerate(items):
        if not isinstance(item, Message | Part | CachePoint | File | str) and not is_pil(item):
            if not is_foreign(item):
                raise wrong_value("prompt", _PROMPT, item, "write response.message" if type(item) is Response else "")
            items[i] = to_dict(item)
    return items


_PROMPT = "a str, Message, Part, or a list of these"


def _system_texts(value: Any) -> tuple[Text, ...]:
    expected = "a str or a list of Text"
    texts: list[Text] = []
    for item in as_items("system", (value,) if isinstance(value, Text) else value, expected):
        if isinstance(item, CachePoint) and texts:
            texts[-1] = mark_part(texts[-1], item)
        elif isinstance(item, Text):
            texts.append(item)
        else:
            raise wrong_value("system", expected, item, "put it after a Text" if isinstance(item, CachePoint) else "")
    return tuple(texts)


# The model ------------------------------------------------------------------------------------------------------------


@named_methods("batch", "embed", "list_models", "probe", "rerank")
class Model:
    """One target or a chain of targets. `Registry.model` makes it.

    >>> from dragoman import Registry
    >>> Registry(env={}).model("demo/overloaded, demo/any", retries=0).generate("hello").target
    'demo/any'
    """

    def __init__(
        self,
        registry: "Registry",
        spec: str,
        /,
        *,
        chain_options: ChainOptions,
        options: CallOptions,
        hooks: Sequence[Hooks] = (),
    ) -> None:
        self.spec = spec
        self._registry = registry
        self._chain_options = chain_options
        self._call_options = options
        self._hooks = hooks

    def __repr__(self) -> str:
        return f"Model({self.spec!r})"

    @overload
    def generate(self, prompt: Prompt, **options: Unpack[CallOptions]) -> Response: ...
    @overload
    def generate(
        self, prompt: Prompt, *, output: type[T], max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Parsed[T]: ...
    @overload
    def generate(
        self, prompt: Prompt, *, output: Any, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Parsed[Any]: ...
    @missing_is_none
    def generate(
        self, prompt: Prompt, *, output: Any = None, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Response | Parsed[Any]:
        """The answer. With `output`, its text is parsed as a value of that type, in `.parsed`."""
        try:
            return self._registry.driver.run(self._answer(prompt, output, max_repairs, options))
        except DragomanError as error:
            shorten_traceback(error)
            raise

    @overload
    async def agenerate(self, prompt: Prompt, **options: Unpack[CallOptions]) -> Response: ...
    @overload
    async def agenerate(
        self, prompt: Prompt, *, output: type[T], max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Parsed[T]: ...
    @overload
    async def agenerate(
        self, prompt: Prompt, *, output: Any, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Parsed[Any]: ...
    @missing_is_none
    async def agenerate(
        self, prompt: Prompt, *, output: Any = None, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Response | Parsed[Any]:
        """As `generate`, async."""
        try:
            return await self._registry.driver.arun(self._answer(prompt, output, max_repairs, options))
        except DragomanError as error:
            shorten_traceback(error)
            raise

    @overload
    def extract(
        self, output_type: type[T], prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> T: ...
    @overload
    def extract(
        self, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Any: ...
    @missing_is_none
    def extract(self, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]) -> Any:
        """A value of a type. If it does not fit, the model gets the reasons and tries again, `max_repairs` times."""
        with short_traceback:
            plan = self._extract(_parser("output_type", output_type), prompt, max_repairs, options)
            return self._registry.driver.run(plan).parsed

    @overload
    async def aextract(
        self, output_type: type[T], prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> T: ...
    @overload
    async def aextract(
        self, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Any: ...
    @missing_is_none
    async def aextract(
        self, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> Any:
        """As `extract`, async."""
        with short_traceback:
            plan = self._extract(_parser("output_type", output_type), prompt, max_repairs, options)
            return (await self._registry.driver.arun(plan)).parsed

    @overload
    def stream_extract(
        self, output_type: type[T], prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> TypedStream[T]: ...
    @overload
    def stream_extract(
        self, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> TypedStream[Any]: ...
    @missing_is_none
    def stream_extract(
        self, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> TypedStream[Any]:
        """A value of a type while it arrives."""
        parser = _parser("output_type", output_type)
        plan = self._extract(parser, prompt, max_repairs, options, stream=True)
        return TypedStream(partial(self._registry.driver.iterate, plan), parser)

    @overload
    def astream_extract(
        self, output_type: type[T], prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> AsyncTypedStream[T]: ...
    @overload
    def astream_extract(
        self, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> AsyncTypedStream[Any]: ...
    @missing_is_none
    def astream_extract(
        self, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
    ) -> AsyncTypedStream[Any]:
        """As `stream_extract`, async."""
        parser = _parser("output_type", output_type)
        results: list[Parsed[Any]] = []
        plan = self._extract(parser, prompt, max_repairs, options, stream=True)
        return AsyncTypedStream(partial(self._registry.driver.aiterate, plan, results.append), results, parser)

    @missing_is_none
    def stream(self, prompt: Prompt, **options: Unpack[CallOptions]) -> Stream:
        """The answer while it arrives."""
        with short_traceback:
            return Stream(partial(self._registry.driver.iterate, self._plan(prompt, options, stream=True)))

    @missing_is_none
    def astream(self, prompt: Prompt, **options: Unpack[CallOptions]) -> AsyncStream:
        """As `stream`, async."""
        results: list[Response] = []
        with short_traceback:
            plan = self._plan(prompt, options, stream=True)
        return AsyncStream(partial(self._registry.driver.aiterate, plan, results.append), results)

    @missing_is_none
    def explain(
        self, prompt: Prompt, *, output: Any = None, stream: bool = False, **options: Unpack[CallOptions]
    ) -> list[Explanation]:
        """The request that each target would get, with `output` that of a typed answer. Nothing is sent."""
        check_flag("stream", stream)
        request, chain_options = self.request(prompt, stream=stream, **options)
        targets = self._targets(chain_options)
        if output is not None:
            request = typed_output.with_output_schema(request, _parser("output", output), targets)
        return [explain_target(request, target, chain_options) for target in targets]

    @missing_is_none
    def count_tokens(self, prompt: Prompt, **options: Unpack[CallOptions]) -> TokenCount:
        """The tokens of a request, as the provider of the first target counts them; else an estimate."""
        with short_traceback:
            return self._registry.driver.run(self._count(prompt, options))

    @missing_is_none
    async def acount_tokens(self, prompt: Prompt, **options: Unpack[CallOptions]) -> TokenCount:
        """As `count_tokens`, async."""
        with short_traceback:
            return await self._registry.driver.arun(self._count(prompt, options))

    def delete_caches(self) -> int:
        """Delete the prompts that the provider of the first target stores for `CachePoint`s. Returns how many."""
        with short_traceback:
            return self._registry.driver.run(delete_prompts(self.targets()[0], CallContext()))

    async def adelete_caches(self) -> int:
        """As `delete_caches`, async."""
        with short_traceback:
            return await self._registry.driver.arun(delete_prompts(self.targets()[0], CallContext()))

    def embed(
        self,
        texts: str | Sequence[str],
        *,
        dimensions: int | None = None,
        purpose: EmbeddingPurpose | None = None,
        truncate: Truncation | None = None,
    ) -> Embeddings:
        """The vectors of some texts, from the first target: vectors of two models cannot be compared."""
        with short_traceback:
            options = EmbeddingOptions(dimensions=dimensions, purpose=purpose, truncate=truncate)
            return self._registry.driver.run(self._embed(texts, options))

    @missing_is_none
    async def aembed(
        self,
        texts: str | Sequence[str],
        *,
        dimensions: int | None = None,
        purpose: EmbeddingPurpose | None = None,
        truncate: Truncation | None = None,
    ) -> Embeddings:
        """As `embed`, async."""
        with short_traceback:
            options = EmbeddingOptions(dimensions=dimensions, purpose=purpose, truncate=truncate)
            return await self._registry.driver.arun(self._embed(texts, options))

    def rerank(self, query: str, documents: Sequence[str], *, top: int | None = None) -> Ranking:
        """The documents in the order of their relevance for a query, or only the `top` ones; by the first target."""
        with short_traceback:
            return self._registry.driver.run(self._rerank(query, documents, top))

    @missing_is_none
    async def arerank(self, query: str, documents: Sequence[str], *, top: int | None = None) -> Ranking:
        """As `rerank`, async."""
        with short_traceback:
            return await self._registry.driver.arun(self._rerank(query, documents, top))

    def batch(
        self,
        rows: Iterable[str | Mapping[str, Any]],
        *,
        journal: str | Path | None = None,
        poll: float | None = None,
        fallback: bool = True,
        concurrency: int = 8,
    ) -> list[JsonObject]:
        """Answer many prompts or rows as a batch of the provider, at half the price; see docs/batches.md.

        With `journal`, a file, a run that ended early is continued. Without a batch, rows are sent one by one.
        """
        from dragoman.io.batch.library import run_blocking

        with short_traceback:
            return run_blocking(
                lambda: self.abatch(rows, journal=journal, poll=poll, fallback=fallback, concurrency=concurrency)
            )

    @missing_is_none
    async def abatch(
        self,
        rows: Iterable[str | Mapping[str, Any]],
        *,
        journal: str | Path | None = None,
        poll: float | None = None,
        fallback: bool = True,
        concurrency: int = 8,
    ) -> list[JsonObject]:
        """As `batch`, async."""
        from dragoman.io.batch.library import check_batch_options, run_batch
        from dragoman.io.batch.provider import BatchOptions
        from dragoman.io.batch.row_sender import BatchSettings, RowSender

        check_batch_options(journal, poll, fallback, concurrency)
        options = BatchOptions(concurrency=concurrency, poll=poll, fallback=fallback)
        settings = BatchSettings(spec=self.spec, fallback=self.spec, options=self._defaults[0], concurrency=concurrency)
        with short_traceback:
            return await run_batch(RowSender(settings, registry=self._registry), rows, journal, options)

    def list_models(self) -> tuple[ModelInfo, ...]:
        """The models that the first target's provider lists."""
        with short_traceback:
            return self._registry.driver.run(endpoints.list_models(self.targets()[0], self._defaults[1]))

    async def alist_models(self) -> tuple[ModelInfo, ...]:
        """As `list_models`, async."""
        with short_traceback:
            return await self._registry.driver.arun(endpoints.list_models(self.targets()[0], self._defaults[1]))

    def probe(self) -> Findings:
        """What the first target's server really supports, found with a few small requests."""
        with short_traceback:
            return self._registry.driver.run(probe.probe(self.targets()[0], self._defaults[1]))

    async def aprobe(self) -> Findings:
        """As `probe`, async."""
        with short_traceback:
            return await self._registry.driver.arun(probe.probe(self.targets()[0], self._defaults[1]))

    def targets(self) -> list[Target]:
        """The targets of the spec, with the current aliases, keys and capabilities."""
        return self._targets(self._defaults[1])

    def _targets(self, chain_options: ChainOptions) -> list[Target]:
        return self._registry.targets(self.spec, connection=chain_options.connection)

    def request(
        self, prompt: Prompt | None, *, stream: bool = False, **options: Unpack[CallOptions]
    ) -> tuple[Request, ChainOptions]:
        """The Request and the ChainOptions of a call: the model's own options, overridden by these."""
        if prompt is None:  # or missing
            check_options(options)
            hint = "pass it after the model, such as generate(model, prompt)"
            raise wrong_value("prompt", _PROMPT, None, hint)
        fields, chain_options = self._merge_options(options) if options else self._defaults
        try:
            messages = as_messages(prompt)
            if not options:
                return with_messages(self._template, messages, stream=stream), chain_options
            return Request(messages=messages, stream=stream, **fields), chain_options
        except (TypeError, InvalidRequest):
            check_options(options)  # the name of an option may be unknown, or that of a parameter
            raise

    def plan(self, request: Request, chain_options: ChainOptions) -> Plan[Response]:
        """The plan for a request; the driver runs it."""
        registry = self._registry
        targets = registry.targets(self.spec, connection=chain_options.connection)
        plan = failover.run(request, targets, registry.health, chain_options)
        return self._with_hooks(plan, request, targets) if self._hooks or registry.hooks else plan

    def _with_hooks(self, plan: Plan[R], request: Request, targets: list[Target]) -> Plan[R]:
        if not self._hooks and not self._registry.hooks:
            return plan
        base_urls = {target.name: redact_url(target.base_url) for target in targets}
        call = Call(self.spec, request, target=targets[0].name, base_urls=base_urls)
        return observed(plan, call, (*self._registry.hooks, *self._hooks))

    @property
    def driver(self) -> Driver:
        """The driver that runs the plans."""
        return self._registry.driver

    @cached_property
    def _defaults(self) -> tuple[dict[str, Any], ChainOptions]:
        return self._merge_options({})

    @cached_property
    def _template(self) -> Request:
        """A request with the options of the model, which are the same for every call and are checked once."""
        return Request(**self._defaults[0])

    def _merge_options(self, options: CallOptions) -> tuple[dict[str, Any], ChainOptions]:
        """The fields of the Request, and the ChainOptions."""
        merged = {**self._call_options, **options}
        headers, added = self._call_options.get("headers"), options.get("headers")
        if headers is not None and added is not None:
            merged["headers"] = {**check_headers(headers), **check_headers(added)}
        fields: dict[str, Any] = {name: value for name, value in merged.items() if value is not None}
        chain_options = self._chain_options
        timeout = fields.pop("timeout", None)
        timeout = self._call_options.get("timeout") if timeout is None else timeout
        if timeout is not None:
            fields["timeouts"] = _as_timeouts(timeout, chain_options.timeouts)
        if not _CONNECTION.isdisjoint(fields):
            own = {name: value for name in _CONNECTION if (value := fields.pop(name, None)) is not None}
            fields["connection"] = self._registry.connection(**own) if own else None
        changes = {name: fields.pop(name) for name in _CHAIN_OPTIONS & fields.keys()}
        if (schema := fields.get("schema")) is not None:
            encode_value("schema", schema, "a JSON Schema")
        if (system := fields.get("system")) is not None and not isinstance(system, str):
            with naming("system"):
                fields["system"] = _system_texts(read_system(system))
        tools = fields.pop("tools", None)
        if tools is not None:
            with naming("tools"):
                fields["tools"] = tool_definitions(read_tools(tools))
        choice = fields.get("tool_choice")
        if choice is not None and (not isinstance(choice, str) or choice == "any"):
            fields |= read_tool_choice(choice, fields)
        if changes:
            chain_options = msgspec.structs.replace(chain_options, **changes)
        if chain_options.fallbacks:
            fallbacks = bind_fallbacks(chain_options.fallbacks, self._registry.targets)
            chain_options = msgspec.structs.replace(chain_options, fallbacks=fallbacks)
        return fields, chain_options

    def _answer(self, prompt: Prompt, output: Any, max_repairs: int, options: CallOptions) -> Plan[Response]:
        refuse_stream(options)
        request, chain_options = self.request(prompt, **options)
        if output is None:
            return self.plan(request, chain_options)
        parser = _parser("output", output)
        health, targets = self._registry.health, self._targets(chain_options)
        plan = typed_output.run(request, parser, targets, health, chain_options, max_repairs=max_repairs)
        return self._with_hooks(plan, request, targets)

    def _extract(
        self, parser: OutputType[T], prompt: Prompt, max_repairs: int, options: CallOptions, *, stream: bool = False
    ) -> Plan[Parsed[T]]:
        refuse_stream(options)
        request, chain_options = self.request(prompt, stream=stream, **options)
        health, targets = self._registry.health, self._targets(chain_options)
        plan = typed_output.extract(request, parser, targets, health, chain_options, max_repairs=max_repairs)
        return self._with_hooks(plan, request, targets)

    def _plan(self, prompt: Prompt, options: CallOptions, *, stream: bool = False) -> Plan[Response]:
        refuse_stream(options)
        return self.plan(*self.request(prompt, stream=stream, **options))

    def _count(self, prompt: Prompt, options: CallOptions) -> Plan[TokenCount]:
        refuse_stream(options)
        request, chain_options = self.request(prompt, **options)
        loads = self._registry.health.loads
        return deployment_limits.count_or_estimate(request, self._targets(chain_options)[0], loads, chain_options)

    def _embed(self, texts: str | Sequence[str], options: EmbeddingOptions) -> Plan[Embeddings]:
        target, loads = self.targets()[0], self._registry.health.loads
        return deployment_limits.embed(list(as_texts("texts", texts)), options, target, loads, self._defaults[1])

    def _rerank(self, query: str, documents: Sequence[str], top: int | None) -> Plan[Ranking]:
        if top is not None:
            check_whole_number("top", top, least=1)
        texts, loads = list(as_texts("documents", documents)), self._registry.health.loads
        return deployment_limits.rerank(
            as_text("query", query), texts, top, self.targets()[0], loads, self._defaults[1]
        )
