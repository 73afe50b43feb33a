"""The functions of the package: `dragoman.generate(model, prompt)` and its siblings.

Each one is the method of `Model` of the same name, for a spec in the default registry. For a registry of your own, or
for many calls with the same options, use `Registry.model` or `dragoman.model`.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

from dragoman.engine.call_options import CallOptions, check_options
from dragoman.engine.explanation import Explanation
from dragoman.engine.failover import ChainOptions
from dragoman.engine.probe import Findings
from dragoman.engine.typed_output import Parsed
from dragoman.errors import SetupError
from dragoman.io.driver import short_traceback
from dragoman.io.hooks import Hooks
from dragoman.models import Model, Prompt
from dragoman.registry import Registry
from dragoman.streaming import AsyncStream, AsyncTypedStream, Stream, TypedStream
from dragoman.targets.specs import Spec
from dragoman.types import Embeddings, JsonObject, ModelInfo, Ranking, Response, TokenCount
from dragoman.types.embedding import EmbeddingPurpose, Truncation
from dragoman.types.parameters import missing_is_none, named_parameters

T = TypeVar("T")


@cache
def default_registry() -> Registry:
    """The registry of the process's environment, made at first use.

    >>> default_registry() is default_registry()
    True
    """
    return Registry()


@named_parameters
def model(
    spec: Spec,
    *,
    chain_options: ChainOptions | None = None,
    hooks: Hooks | Iterable[Hooks] | None = None,
    **options: Unpack[CallOptions],
) -> Model:
    """A model of the default registry.

    >>> model("demo/any", temperature=0)
    Model('demo/any')
    """
    return default_registry().model(spec, chain_options=chain_options, hooks=hooks, **options)


def _model(spec: Spec, /, **options: Unpack[CallOptions]) -> Model:
    """The same, for the functions below: their first parameter is called `model`, and `spec` is not an option."""
    if options:
        check_options(options)
    try:
        return default_registry().model(spec, **options)
    except SetupError as error:
        if error.param == "spec":
            error.annotate(message=error.message.replace("spec", "model", 1), param="model")
        raise


# Generation -----------------------------------------------------------------------------------------------------------


@overload
def generate(model: Spec, prompt: Prompt, **options: Unpack[CallOptions]) -> Response: ...
@overload
def generate(
    model: Spec, prompt: Prompt, *, output: type[T], max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Parsed[T]: ...
@overload
def generate(
    model: Spec, prompt: Prompt, *, output: Any, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Parsed[Any]: ...
@missing_is_none
def generate(
    model: Spec, prompt: Prompt, *, output: Any = None, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Response | Parsed[Any]:
    """The answer. With `output`, its text is parsed as a value of that type, in `.parsed`.

    >>> generate("demo/any", "Is it so?").text
    'You said “Is it so?”, which is 3 words.'
    """
    with short_traceback:
        return _model(model).generate(prompt, output=output, max_repairs=max_repairs, **options)


@overload
async def agenerate(model: Spec, prompt: Prompt, **options: Unpack[CallOptions]) -> Response: ...
@overload
async def agenerate(
    model: Spec, prompt: Prompt, *, output: type[T], max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Parsed[T]: ...
@overload
async def agenerate(
    model: Spec, prompt: Prompt, *, output: Any, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Parsed[Any]: ...
@missing_is_none
async def agenerate(
    model: Spec, prompt: Prompt, *, output: Any = None, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Response | Parsed[Any]:
    """As `generate`, async.

    >>> import asyncio
    >>> asyncio.run(agenerate("demo/any", "Is it so?")).usage.output
    14
    """
    with short_traceback:
        return await _model(model).agenerate(prompt, output=output, max_repairs=max_repairs, **options)


@missing_is_none
def stream(model: Spec, prompt: Prompt, **options: Unpack[CallOptions]) -> Stream:
    """The answer while it arrives: pieces of text, tool calls, and last the Response.

    >>> next(iter(stream("demo/any", "Is it so?")))
    TextDelta(text='You ')
    """
    with short_traceback:
        return _model(model).stream(prompt, **options)


@missing_is_none
def astream(model: Spec, prompt: Prompt, **options: Unpack[CallOptions]) -> AsyncStream:
    """As `stream`, async.

    >>> type(astream("demo/any", "Is it so?")).__name__
    'AsyncStream'
    """
    with short_traceback:
        return _model(model).astream(prompt, **options)


# Typed output ---------------------------------------------------------------------------------------------------------


@overload
def extract(
    model: Spec, output_type: type[T], prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> T: ...
@overload
def extract(
    model: Spec, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Any: ...
@missing_is_none
def extract(
    model: Spec, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Any:
    """A value of a type. If an answer does not fit, the model gets the reasons and tries again, `max_repairs` times.

    >>> extract("demo/any", bool, "Is it so?")
    True
    """
    with short_traceback:
        return _model(model).extract(output_type, prompt, max_repairs=max_repairs, **options)


@overload
async def aextract(
    model: Spec, output_type: type[T], prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> T: ...
@overload
async def aextract(
    model: Spec, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Any: ...
@missing_is_none
async def aextract(
    model: Spec, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Any:
    """As `extract`, async.

    >>> import asyncio
    >>> asyncio.run(aextract("demo/any", bool, "Is it so?"))
    True
    """
    with short_traceback:
        return await _model(model).aextract(output_type, prompt, max_repairs=max_repairs, **options)


@overload
def stream_extract(
    model: Spec, output_type: type[T], prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> TypedStream[T]: ...
@overload
def stream_extract(
    model: Spec, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> TypedStream[Any]: ...
@missing_is_none
def stream_extract(
    model: Spec, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> TypedStream[Any]:
    """A value of a type while it arrives.

    >>> list(stream_extract("demo/any", bool, "Is it so?"))[-1]
    True
    """
    with short_traceback:
        return _model(model).stream_extract(output_type, prompt, max_repairs=max_repairs, **options)


@overload
def astream_extract(
    model: Spec, output_type: type[T], prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> AsyncTypedStream[T]: ...
@overload
def astream_extract(
    model: Spec, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> AsyncTypedStream[Any]: ...
@missing_is_none
def astream_extract(
    model: Spec, output_type: Any, prompt: Prompt, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> AsyncTypedStream[Any]:
    """As `stream_extract`, async.

    >>> type(astream_extract("demo/any", bool, "Is it so?")).__name__
    'AsyncTypedStream'
    """
    with short_traceback:
        return _model(model).astream_extract(output_type, prompt, max_repairs=max_repairs, **options)


# Other endpoints ------------------------------------------------------------------------------------------------------


@missing_is_none
def explain(
    model: Spec, prompt: Prompt, *, output: Any = None, stream: bool = False, **options: Unpack[CallOptions]
) -> list[Explanation]:
    """The request that each target would get, with `output` that of a typed answer. Nothing is sent.

    >>> explain("demo/any", "Is it so?")[0].target
    'demo/any'
    """
    with short_traceback:
        return _model(model).explain(prompt, output=output, stream=stream, **options)


@missing_is_none
def count_tokens(model: Spec, prompt: Prompt, **options: Unpack[CallOptions]) -> TokenCount:
    """The tokens of a request, as the provider of the first target counts them, or an estimate if it counts none.

    >>> count = count_tokens("demo/any", "Is it so?")
    >>> count, count.is_estimate
    (10, True)
    """
    with short_traceback:
        return _model(model).count_tokens(prompt, **options)


@missing_is_none
async def acount_tokens(model: Spec, prompt: Prompt, **options: Unpack[CallOptions]) -> TokenCount:
    """As `count_tokens`, async.

    >>> import asyncio
    >>> asyncio.run(acount_tokens("demo/any", "Is it so?"))
    10
    """
    with short_traceback:
        return await _model(model).acount_tokens(prompt, **options)


@named_parameters
def delete_caches(model: Spec, **options: Unpack[CallOptions]) -> int:
    """Delete the prompts that the provider of the first target stores for `CachePoint`s. Returns how many.

    >>> delete_caches("demo/any")
    0
    """
    with short_traceback:
        return _model(model, **options).delete_caches()


@missing_is_none
async def adelete_caches(model: Spec, **options: Unpack[CallOptions]) -> int:
    """As `delete_caches`, async.

    >>> import asyncio
    >>> asyncio.run(adelete_caches("demo/any"))
    0
    """
    with short_traceback:
        return await _model(model, **options).adelete_caches()


@named_parameters
def embed(
    model: Spec,
    texts: str | Sequence[str],
    *,
    dimensions: int | None = None,
    purpose: EmbeddingPurpose | None = None,
    truncate: Truncation | None = None,
    **options: Unpack[CallOptions],
) -> Embeddings:
    """The vectors of some texts, from the first target.

    >>> embed("demo/any", ["ships", "harbours"], dimensions=4).vectors[0]
    (0.0, 1.0, 0.0, 0.0)
    """
    with short_traceback:
        return _model(model, **options).embed(texts, dimensions=dimensions, purpose=purpose, truncate=truncate)


@missing_is_none
async def aembed(
    model: Spec,
    texts: str | Sequence[str],
    *,
    dimensions: int | None = None,
    purpose: EmbeddingPurpose | None = None,
    truncate: Truncation | None = None,
    **options: Unpack[CallOptions],
) -> Embeddings:
    """As `embed`, async.

    >>> import asyncio
    >>> len(asyncio.run(aembed("demo/any", "ships")).vectors)
    1
    """
    with short_traceback:
        return await _model(model, **options).aembed(texts, dimensions=dimensions, purpose=purpose, truncate=truncate)


@named_parameters
def rerank(
    model: Spec, query: str, documents: Sequence[str], *, top: int | None = None, **options: Unpack[CallOptions]
) -> Ranking:
    """The documents in the order of their relevance for a query, or only the `top` ones; by the first target.

    >>> rerank("demo/any", "grey ships", ["a harbour", "two grey ships"]).documents[0].index
    1
    """
    with short_traceback:
        return _model(model, **options).rerank(query, documents, top=top)


@missing_is_none
async def arerank(
    model: Spec, query: str, documents: Sequence[str], *, top: int | None = None, **options: Unpack[CallOptions]
) -> Ranking:
    """As `rerank`, async.

    >>> import asyncio
    >>> len(asyncio.run(arerank("demo/any", "ships", ["a harbour", "two ships"], top=1)).documents)
    1
    """
    with short_traceback:
        return await _model(model, **options).arerank(query, documents, top=top)


@named_parameters
def batch(
    model: Spec,
    rows: Iterable[str | Mapping[str, Any]],
    *,
    journal: str | Path | None = None,
    poll: float | None = None,
    fallback: bool = True,
    concurrency: int = 8,
    **options: Unpack[CallOptions],
) -> list[JsonObject]:
    """Answer many prompts or rows as a batch of the provider, at half the price; one by one if it has no batches.

    >>> [row["text"] for row in batch("demo/any", ["Is it so?"])]
    ['You said “Is it so?”, which is 3 words.']
    """
    with short_traceback:
        chosen = _model(model, **options)
        return chosen.batch(rows, journal=journal, poll=poll, fallback=fallback, concurrency=concurrency)


@missing_is_none
async def abatch(
    model: Spec,
    rows: Iterable[str | Mapping[str, Any]],
    *,
    journal: str | Path | None = None,
    poll: float | None = None,
    fallback: bool = True,
    concurrency: int = 8,
    **options: Unpack[CallOptions],
) -> list[JsonObject]:
    """As `batch`, async.

    >>> import asyncio
    >>> asyncio.run(abatch("demo/any", [{"id": "a", "prompt": "Is it so?"}]))[0]["id"]
    'a'
    """
    with short_traceback:
        chosen = _model(model, **options)
        return await chosen.abatch(rows, journal=journal, poll=poll, fallback=fallback, concurrency=concurrency)


@named_parameters
def list_models(model: Spec, **options: Unpack[CallOptions]) -> tuple[ModelInfo, ...]:
    """The models that the first target's provider lists.

    >>> list_models("demo/any")[0].id
    'any'
    """
    with short_traceback:
        return _model(model, **options).list_models()


@missing_is_none
async def alist_models(model: Spec, **options: Unpack[CallOptions]) -> tuple[ModelInfo, ...]:
    """As `list_models`, async.

    >>> import asyncio
    >>> asyncio.run(alist_models("demo/any"))[0].id
    'any'
    """
    with short_traceback:
        return await _model(model, **options).alist_models()


@named_parameters
def probe(model: Spec, **options: Unpack[CallOptions]) -> Findings:
    """What the first target's server really supports; `set_capabilities(findings.target, **findings.facts)` stores it.

    >>> probe("demo/any").facts["tools"]
    True
    """
    with short_traceback:
        return _model(model, **options).probe()


@missing_is_none
async def aprobe(model: Spec, **options: Unpack[CallOptions]) -> Findings:
    """As `probe`, async.

    >>> import asyncio
    >>> asyncio.run(aprobe("demo/any")).facts["structured"]
    True
    """
    with short_traceback:
        return await _model(model, **options).aprobe()
