"""A request beside generation in, a question out; what was found in, the bytes of a dialect's answer out."""

import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, TypeAlias, cast
from urllib.parse import unquote

import msgspec

from dragoman.http import HttpReply, HttpRequest
from dragoman.types import Embeddings, JsonObject, Message, ModelInfo, Notice, Request, Response
from dragoman.wire import Route, encode_json


class ListModels(msgspec.Struct, frozen=True):
    """Which models are there? Found: a tuple of ModelInfo.

    >>> ListModels()
    ListModels()
    """


class ShowModel(msgspec.Struct, frozen=True):
    """What is that model? Found: a ModelInfo.

    >>> ShowModel("demo/any").id
    'demo/any'
    """

    id: str


class CountTokens(msgspec.Struct, frozen=True):
    """How many tokens has that request? Found: the number.

    >>> CountTokens("demo/any", Request()).model
    'demo/any'
    """

    model: str
    request: Request


class Embed(msgspec.Struct, frozen=True):
    """What are the vectors of these texts, or of the tokens of some? Found: Embeddings.

    >>> Embed("demo/any", ("hello",)).dimensions is None
    True
    """

    model: str
    texts: tuple[str | tuple[int, ...], ...]
    dimensions: int | None = None
    packed: bool = False
    """Whether the client wants base64 in place of numbers."""
    unread: tuple[str, ...] = ()
    """Fields that stand beside these, of which no target is told."""


class FetchResponse(msgspec.Struct, frozen=True):
    """What was that answer? Found: what is Kept of it.

    >>> FetchResponse("resp_1").id
    'resp_1'
    """

    id: str


class DropResponse(msgspec.Struct, frozen=True):
    """Forget that answer. Found: None.

    >>> DropResponse("resp_1").id
    'resp_1'
    """

    id: str


class Recite(msgspec.Struct, frozen=True):
    """Something that never changes: its version, its documentation. Found: None.

    >>> Recite()
    Recite()
    """


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a server keeps of one answer: all that was said up to it, the answer, and what it says of its request.

    >>> from dragoman.types import Finish, Message, dump, load
    >>> kept = Kept(messages=(), response=Response(message=Message(role="assistant"), finish=Finish(reason="stop")))
    >>> load(dump(kept), Kept) == kept
    True
    """

    messages: tuple[Message, ...]
    response: Response
    request: Request = Request()
    """What the answer says of it stands in its `extra`."""


Question: TypeAlias = ListModels | ShowModel | CountTokens | Embed | FetchResponse | DropResponse | Recite
Found: TypeAlias = tuple[ModelInfo, ...] | ModelInfo | int | Embeddings | Kept | None


class Service(msgspec.Struct, frozen=True):
    """A path of a dialect beside generation: what is asked there, and how the answer is said.

    >>> services_of("ollama")[0].route.path
    '/api/tags'
    """

    route: Route
    decode: Callable[[HttpRequest], Question]
    encode: Callable[[Any, Any], HttpReply]
    """Of the question and what was found."""
    is_open: bool = False
    """Whether nobody needs a key for it."""


def services_of(wire: str, /) -> tuple[Service, ...]:
    """All services of a wire.

    >>> [service.route.path for service in services_of("native")]
    ['/native/v1/models', '/native/openapi.json', '/native/docs']
    """
    services: tuple[Service, ...] = import_module(f"dragoman.wires.{wire}.serving").SERVICES
    return services


class Recall(msgspec.Struct, frozen=True, kw_only=True):
    """Which earlier answer a request goes on from, whether its own is to be kept, and what else it asked in vain.

    >>> Recall(previous="resp_1").keep
    False
    """

    previous: str | None = None
    keep: bool = False
    notices: tuple[Notice, ...] = ()


class Memory(Protocol):
    """How a dialect's requests go on from answers that the server keeps."""

    PREFIX: str
    """What the ids of answers begin with: they are the server's own, as it is asked for them again."""

    def recall(self, request: Request, body: bytes, /) -> tuple[Recall, Request]:
        """What is asked of the memory, and the request without it; what answers say of its body stands in `extra`."""
        ...

    def join(self, kept: Kept, request: Request, /) -> Request:
        """The request with all that came before it."""
        ...

    def keep(self, request: Request, response: Response, /) -> Kept:
        """What is kept of an answer to the joined request."""
        ...


def memory_of(wire: str, /) -> Memory | None:
    """The memory of a wire whose clients count on one.

    >>> memory_of("ollama") is None
    True
    """
    name = f"dragoman.wires.{wire}.memory"
    # A module whose functions are those of the protocol.
    return cast("Memory", import_module(name)) if find_spec(name) else None


def lists_models(route: Route, encode: Callable[[tuple[ModelInfo, ...]], JsonObject], /) -> Service:
    """A service that lists models."""
    return Service(route, lambda _: ListModels(), lambda _, found: json_reply(encode(found)))


def shows_model(route: Route, encode: Callable[[ModelInfo], JsonObject], /) -> Service:
    """A service that shows the model whose name is in the path."""
    return Service(route, lambda http: ShowModel(in_path(route, http)), lambda _, found: json_reply(encode(found)))


def counts_tokens(
    route: Route, decode: Callable[[HttpRequest], tuple[str, Request]], encode: Callable[[int], JsonObject], /
) -> Service:
    """A service that counts the tokens of a request."""
    return Service(route, lambda http: CountTokens(*decode(http)), lambda _, found: json_reply(encode(found)))


def embeds(
    route: Route, decode: Callable[[HttpRequest], Embed], encode: Callable[[Embed, Embeddings], JsonObject], /
) -> Service:
    """A service that makes vectors of texts."""
    return Service(route, decode, lambda asked, found: json_reply(encode(asked, found)))


def recites(route: Route, make: Callable[[], HttpReply], /) -> Service:
    """A service that always says the same."""
    return Service(route, lambda _: Recite(), lambda _asked, _found: make(), is_open=True)


def json_reply(body: JsonObject, /) -> HttpReply:
    """An answer of JSON.

    >>> json_reply({"version": "1"}).body
    b'{"version":"1"}'
    """
    return HttpReply(body=encode_json(body))


def in_path(route: Route, http: HttpRequest, /) -> str:
    """What stands in a path where the route has a name in braces.

    >>> in_path(Route(method="GET", path="/v1/models/{model}"), HttpRequest(method="GET", path="/v1/models/a%2Fb?x=1"))
    'a/b'
    """
    pattern = re.sub(r"\\\{\w+\\\}", "(.+)", re.escape(route.path))
    found = re.fullmatch(pattern, http.path.partition("?")[0])
    return unquote(found[1]) if found else ""
