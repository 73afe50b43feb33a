"""A spec and a prompt in, what its model gives out: the verbs of `Model`, for those who hold none."""

from collections.abc import Sequence
from typing import Any, TypeVar, Unpack, overload

from dragoman.growth import AsyncTypedStream, TypedStream
from dragoman.models import Asked, Explanation, model
from dragoman.probing import Findings
from dragoman.prompts import Prompt
from dragoman.registry import Spec
from dragoman.streams import AsyncStream, Stream
from dragoman.typed import Parsed
from dragoman.types import Embeddings, ModelInfo, Response

T = TypeVar("T")


# Generation -----------------------------------------------------------------------------------------------------------


@overload
def generate(spec: Spec, prompt: Prompt, /, **asked: Unpack[Asked]) -> Response: ...
@overload
def generate(
    spec: Spec, prompt: Prompt, /, *, output: type[T], repairs: int = 1, **asked: Unpack[Asked]
) -> Parsed[T]: ...
@overload
def generate(
    spec: Spec, prompt: Prompt, /, *, output: Any, repairs: int = 1, **asked: Unpack[Asked]
) -> Parsed[Any]: ...
def generate(
    spec: Spec, prompt: Prompt, /, *, output: Any = None, repairs: int = 1, **asked: Unpack[Asked]
) -> Response | Parsed[Any]:
    """The answer, blocking; with an output type, read as a value of it.

    >>> generate("demo/any", "Is it so?").text
    'You said “Is it so?”, which is 3 words.'
    """
    return model(spec).generate(prompt, output=output, repairs=repairs, **asked)


@overload
async def agenerate(spec: Spec, prompt: Prompt, /, **asked: Unpack[Asked]) -> Response: ...
@overload
async def agenerate(
    spec: Spec, prompt: Prompt, /, *, output: type[T], repairs: int = 1, **asked: Unpack[Asked]
) -> Parsed[T]: ...
@overload
async def agenerate(
    spec: Spec, prompt: Prompt, /, *, output: Any, repairs: int = 1, **asked: Unpack[Asked]
) -> Parsed[Any]: ...
async def agenerate(
    spec: Spec, prompt: Prompt, /, *, output: Any = None, repairs: int = 1, **asked: Unpack[Asked]
) -> Response | Parsed[Any]:
    """The answer, async; with an output type, read as a value of it.

    >>> import asyncio
    >>> asyncio.run(agenerate("demo/any", "Is it so?")).usage.output
    14
    """
    return await model(spec).agenerate(prompt, output=output, repairs=repairs, **asked)


def stream(spec: Spec, prompt: Prompt, /, **asked: Unpack[Asked]) -> Stream:
    """The answer as it comes, blocking.

    >>> next(iter(stream("demo/any", "Is it so?")))
    TextDelta(text='You ')
    """
    return model(spec).stream(prompt, **asked)


def astream(spec: Spec, prompt: Prompt, /, **asked: Unpack[Asked]) -> AsyncStream:
    """The answer as it comes, async.

    >>> type(astream("demo/any", "Is it so?")).__name__
    'AsyncStream'
    """
    return model(spec).astream(prompt, **asked)


# Typed output ---------------------------------------------------------------------------------------------------------


@overload
def extract(spec: Spec, kind: type[T], prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]) -> T: ...
@overload
def extract(spec: Spec, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]) -> Any: ...
def extract(spec: Spec, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]) -> Any:
    """A value of a type, blocking.

    >>> extract("demo/any", bool, "Is it so?")
    True
    """
    return model(spec).extract(kind, prompt, repairs=repairs, **asked)


@overload
async def aextract(spec: Spec, kind: type[T], prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]) -> T: ...
@overload
async def aextract(spec: Spec, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]) -> Any: ...
async def aextract(spec: Spec, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]) -> Any:
    """A value of a type, async.

    >>> import asyncio
    >>> asyncio.run(aextract("demo/any", bool, "Is it so?"))
    True
    """
    return await model(spec).aextract(kind, prompt, repairs=repairs, **asked)


@overload
def stream_extract(
    spec: Spec, kind: type[T], prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]
) -> TypedStream[T]: ...
@overload
def stream_extract(
    spec: Spec, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]
) -> TypedStream[Any]: ...
def stream_extract(
    spec: Spec, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]
) -> TypedStream[Any]:
    """A value of a type as it grows, blocking.

    >>> list(stream_extract("demo/any", bool, "Is it so?"))[-1]
    True
    """
    return model(spec).stream_extract(kind, prompt, repairs=repairs, **asked)


@overload
def astream_extract(
    spec: Spec, kind: type[T], prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]
) -> AsyncTypedStream[T]: ...
@overload
def astream_extract(
    spec: Spec, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]
) -> AsyncTypedStream[Any]: ...
def astream_extract(
    spec: Spec, kind: Any, prompt: Prompt, /, *, repairs: int = 1, **asked: Unpack[Asked]
) -> AsyncTypedStream[Any]:
    """A value of a type as it grows, async.

    >>> type(astream_extract("demo/any", bool, "Is it so?")).__name__
    'AsyncTypedStream'
    """
    return model(spec).astream_extract(kind, prompt, repairs=repairs, **asked)


# Beside generation ----------------------------------------------------------------------------------------------------


def explain(spec: Spec, prompt: Prompt, /, *, stream: bool = False, **asked: Unpack[Asked]) -> list[Explanation]:
    """What each target would get, without any network.

    >>> explain("demo/any", "Is it so?")[0].target
    'demo/any'
    """
    return model(spec).explain(prompt, stream=stream, **asked)


def count_tokens(spec: Spec, prompt: Prompt, /, **asked: Unpack[Asked]) -> int:
    """How many tokens that is to the first target, as its provider counts them.

    >>> import dragoman
    >>> try:
    ...     count_tokens("demo/any", "Is it so?")
    ... except dragoman.Unsupported as error:
    ...     print(error)
    demo: counts no tokens
    """
    return model(spec).count_tokens(prompt, **asked)


async def acount_tokens(spec: Spec, prompt: Prompt, /, **asked: Unpack[Asked]) -> int:
    """How many tokens that is to the first target, as its provider counts them, async.

    >>> import asyncio
    >>> import dragoman
    >>> try:
    ...     asyncio.run(acount_tokens("demo/any", "Is it so?"))
    ... except dragoman.Unsupported as error:
    ...     print(error)
    demo: counts no tokens
    """
    return await model(spec).acount_tokens(prompt, **asked)


def embed(
    spec: Spec, texts: str | Sequence[str], /, *, dimensions: int | None = None, **asked: Unpack[Asked]
) -> Embeddings:
    """The vectors of some texts.

    >>> embed("demo/any", ["ships", "harbours"], dimensions=4).vectors[0]
    (0.0, 1.0, 0.0, 0.0)
    """
    return model(spec, **asked).embed(texts, dimensions=dimensions)


async def aembed(
    spec: Spec, texts: str | Sequence[str], /, *, dimensions: int | None = None, **asked: Unpack[Asked]
) -> Embeddings:
    """The vectors of some texts, async.

    >>> import asyncio
    >>> len(asyncio.run(aembed("demo/any", "ships")).vectors)
    1
    """
    return await model(spec, **asked).aembed(texts, dimensions=dimensions)


def list_models(spec: Spec, /, **asked: Unpack[Asked]) -> tuple[ModelInfo, ...]:
    """Which models the provider of a spec's first target has.

    >>> list_models("demo/any")[0].id
    'any'
    """
    return model(spec, **asked).list_models()


async def alist_models(spec: Spec, /, **asked: Unpack[Asked]) -> tuple[ModelInfo, ...]:
    """Which models the provider of a spec's first target has, async.

    >>> import asyncio
    >>> asyncio.run(alist_models("demo/any"))[0].id
    'any'
    """
    return await model(spec, **asked).alist_models()


def probe(spec: Spec, /, **asked: Unpack[Asked]) -> Findings:
    """What the server of a spec's first target really does; `set_limits(found.target, **found.facts)` keeps it.

    >>> probe("demo/any").facts["tools"]
    True
    """
    return model(spec, **asked).probe()


async def aprobe(spec: Spec, /, **asked: Unpack[Asked]) -> Findings:
    """What the server of a spec's first target really does, async.

    >>> import asyncio
    >>> asyncio.run(aprobe("demo/any")).facts["structured"]
    True
    """
    return await model(spec, **asked).aprobe()
