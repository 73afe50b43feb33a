"""A spec and a prompt in, what its model gives out: the verbs of `Model`, for those who hold none."""

from collections.abc import Sequence
from typing import Any, TypeVar, Unpack, overload

from dragoman.engine.probe import Findings
from dragoman.engine.prompts import Prompt
from dragoman.engine.typed import Parsed
from dragoman.models import CallOptions, Explanation, model
from dragoman.registry import Spec
from dragoman.streaming import AsyncStream, AsyncTypedStream, Stream, TypedStream
from dragoman.types import Embeddings, ModelInfo, Response

T = TypeVar("T")


# Generation -----------------------------------------------------------------------------------------------------------


@overload
def generate(spec: Spec, prompt: Prompt, /, **options: Unpack[CallOptions]) -> Response: ...
@overload
def generate(
    spec: Spec, prompt: Prompt, /, *, output: type[T], max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Parsed[T]: ...
@overload
def generate(
    spec: Spec, prompt: Prompt, /, *, output: Any, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Parsed[Any]: ...
def generate(
    spec: Spec, prompt: Prompt, /, *, output: Any = None, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Response | Parsed[Any]:
    """The answer, blocking; with an output type, read as a value of it.

    >>> generate("demo/any", "Is it so?").text
    'You said “Is it so?”, which is 3 words.'
    """
    return model(spec).generate(prompt, output=output, max_repairs=max_repairs, **options)


@overload
async def agenerate(spec: Spec, prompt: Prompt, /, **options: Unpack[CallOptions]) -> Response: ...
@overload
async def agenerate(
    spec: Spec, prompt: Prompt, /, *, output: type[T], max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Parsed[T]: ...
@overload
async def agenerate(
    spec: Spec, prompt: Prompt, /, *, output: Any, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Parsed[Any]: ...
async def agenerate(
    spec: Spec, prompt: Prompt, /, *, output: Any = None, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Response | Parsed[Any]:
    """The answer, async; with an output type, read as a value of it.

    >>> import asyncio
    >>> asyncio.run(agenerate("demo/any", "Is it so?")).usage.output
    14
    """
    return await model(spec).agenerate(prompt, output=output, max_repairs=max_repairs, **options)


def stream(spec: Spec, prompt: Prompt, /, **options: Unpack[CallOptions]) -> Stream:
    """The answer as it comes, blocking.

    >>> next(iter(stream("demo/any", "Is it so?")))
    TextDelta(text='You ')
    """
    return model(spec).stream(prompt, **options)


def astream(spec: Spec, prompt: Prompt, /, **options: Unpack[CallOptions]) -> AsyncStream:
    """The answer as it comes, async.

    >>> type(astream("demo/any", "Is it so?")).__name__
    'AsyncStream'
    """
    return model(spec).astream(prompt, **options)


# Typed output ---------------------------------------------------------------------------------------------------------


@overload
def extract(
    spec: Spec, kind: type[T], prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> T: ...
@overload
def extract(
    spec: Spec, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Any: ...
def extract(spec: Spec, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]) -> Any:
    """A value of a type, blocking.

    >>> extract("demo/any", bool, "Is it so?")
    True
    """
    return model(spec).extract(kind, prompt, max_repairs=max_repairs, **options)


@overload
async def aextract(
    spec: Spec, kind: type[T], prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> T: ...
@overload
async def aextract(
    spec: Spec, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Any: ...
async def aextract(
    spec: Spec, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> Any:
    """A value of a type, async.

    >>> import asyncio
    >>> asyncio.run(aextract("demo/any", bool, "Is it so?"))
    True
    """
    return await model(spec).aextract(kind, prompt, max_repairs=max_repairs, **options)


@overload
def stream_extract(
    spec: Spec, kind: type[T], prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> TypedStream[T]: ...
@overload
def stream_extract(
    spec: Spec, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> TypedStream[Any]: ...
def stream_extract(
    spec: Spec, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> TypedStream[Any]:
    """A value of a type as it grows, blocking.

    >>> list(stream_extract("demo/any", bool, "Is it so?"))[-1]
    True
    """
    return model(spec).stream_extract(kind, prompt, max_repairs=max_repairs, **options)


@overload
def astream_extract(
    spec: Spec, kind: type[T], prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> AsyncTypedStream[T]: ...
@overload
def astream_extract(
    spec: Spec, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> AsyncTypedStream[Any]: ...
def astream_extract(
    spec: Spec, kind: Any, prompt: Prompt, /, *, max_repairs: int = 1, **options: Unpack[CallOptions]
) -> AsyncTypedStream[Any]:
    """A value of a type as it grows, async.

    >>> type(astream_extract("demo/any", bool, "Is it so?")).__name__
    'AsyncTypedStream'
    """
    return model(spec).astream_extract(kind, prompt, max_repairs=max_repairs, **options)


# Beside generation ----------------------------------------------------------------------------------------------------


def explain(
    spec: Spec, prompt: Prompt, /, *, stream: bool = False, **options: Unpack[CallOptions]
) -> list[Explanation]:
    """What each target would get, without any network.

    >>> explain("demo/any", "Is it so?")[0].target
    'demo/any'
    """
    return model(spec).explain(prompt, stream=stream, **options)


def count_tokens(spec: Spec, prompt: Prompt, /, **options: Unpack[CallOptions]) -> int:
    """How many tokens that is to the first target, as its provider counts them.

    >>> import dragoman
    >>> try:
    ...     count_tokens("demo/any", "Is it so?")
    ... except dragoman.Unsupported as error:
    ...     print(error)
    demo: counts no tokens
    """
    return model(spec).count_tokens(prompt, **options)


async def acount_tokens(spec: Spec, prompt: Prompt, /, **options: Unpack[CallOptions]) -> int:
    """How many tokens that is to the first target, as its provider counts them, async.

    >>> import asyncio
    >>> import dragoman
    >>> try:
    ...     asyncio.run(acount_tokens("demo/any", "Is it so?"))
    ... except dragoman.Unsupported as error:
    ...     print(error)
    demo: counts no tokens
    """
    return await model(spec).acount_tokens(prompt, **options)


def embed(
    spec: Spec, texts: str | Sequence[str], /, *, dimensions: int | None = None, **options: Unpack[CallOptions]
) -> Embeddings:
    """The vectors of some texts.

    >>> embed("demo/any", ["ships", "harbours"], dimensions=4).vectors[0]
    (0.0, 1.0, 0.0, 0.0)
    """
    return model(spec, **options).embed(texts, dimensions=dimensions)


async def aembed(
    spec: Spec, texts: str | Sequence[str], /, *, dimensions: int | None = None, **options: Unpack[CallOptions]
) -> Embeddings:
    """The vectors of some texts, async.

    >>> import asyncio
    >>> len(asyncio.run(aembed("demo/any", "ships")).vectors)
    1
    """
    return await model(spec, **options).aembed(texts, dimensions=dimensions)


def list_models(spec: Spec, /, **options: Unpack[CallOptions]) -> tuple[ModelInfo, ...]:
    """Which models the provider of a spec's first target has.

    >>> list_models("demo/any")[0].id
    'any'
    """
    return model(spec, **options).list_models()


async def alist_models(spec: Spec, /, **options: Unpack[CallOptions]) -> tuple[ModelInfo, ...]:
    """Which models the provider of a spec's first target has, async.

    >>> import asyncio
    >>> asyncio.run(alist_models("demo/any"))[0].id
    'any'
    """
    return await model(spec, **options).alist_models()


def probe(spec: Spec, /, **options: Unpack[CallOptions]) -> Findings:
    """What the server of a spec's first target really does; `set_capabilities(found.target, **found.facts)` keeps it.

    >>> probe("demo/any").facts["tools"]
    True
    """
    return model(spec, **options).probe()


async def aprobe(spec: Spec, /, **options: Unpack[CallOptions]) -> Findings:
    """What the server of a spec's first target really does, async.

    >>> import asyncio
    >>> asyncio.run(aprobe("demo/any")).facts["structured"]
    True
    """
    return await model(spec, **options).aprobe()
