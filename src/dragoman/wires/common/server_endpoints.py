"""A request beside generation in, a question out; what was found in, the bytes of a dialect's answer out."""

import re
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias
from urllib.parse import unquote

import msgspec

from dragoman.http import HttpReply, HttpRequest
from dragoman.types import (
    Embeddings,
    JsonObject,
    Message,
    ModelInfo,
    Notice,
    Request,
    Response,
)
from dragoman.wires.common.json import encode_json


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A path that a server half answers; `{model}` stands for a model's name, `{id}` for an id.

    Where two dialects have one path, the header that only one's clients send tells them apart.

    >>> Route(method="POST", path="/v1/messages").path
    '/v1/messages'
    """

    method: str
    path: str
    header: str | None = None


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
    """What was that answer? Found: what is StoredResponse of it.

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


class StaticDocument(msgspec.Struct, frozen=True):
    """Something that never changes: its version, its documentation. Found: None.

    >>> StaticDocument()
    StaticDocument()
    """


class StoredResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What a server keeps of one answer: all that was said up to it, the answer, and what it says of its request.

    >>> from dragoman.types import Finish, Message, dump, load
    >>> kept = StoredResponse(messages=(), response=Response(message=Message(role="assistant"), finish=Finish(reason="stop")))
    >>> load(dump(kept), StoredResponse) == kept
    True
    """

    messages: tuple[Message, ...]
    response: Response
    request: Request = Request()
    """What the answer says of it stands in its `extra`."""


EndpointRequest: TypeAlias = (
    ListModels | ShowModel | CountTokens | Embed | FetchResponse | DropResponse | StaticDocument
)
EndpointResult: TypeAlias = tuple[ModelInfo, ...] | ModelInfo | int | Embeddings | StoredResponse | None


class ServerEndpoint(msgspec.Struct, frozen=True):
    """A path of a dialect beside generation: what is asked there, and how the answer is said.

    >>> from dragoman import wires
    >>> wires.get("ollama").server_endpoints[0].route.path
    '/api/tags'
    """

    route: Route
    decode: Callable[[HttpRequest], EndpointRequest]
    encode: Callable[[Any, Any], HttpReply]
    """Of the question and what was found."""
    is_open: bool = False
    """Whether nobody needs a key for it."""


class StoredResponseQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which earlier answer a request goes on from, whether its own is to be kept, and what else it asked in vain.

    >>> StoredResponseQuery(previous="resp_1").keep
    False
    """

    previous: str | None = None
    keep: bool = False
    notices: tuple[Notice, ...] = ()


class StoredConversations(Protocol):
    """How a dialect's requests go on from answers that the server keeps."""

    PREFIX: str
    """What the ids of answers begin with: they are the server's own, as it is asked for them again."""

    def split(self, request: Request, body: bytes, /) -> tuple[StoredResponseQuery, Request]:
        """What is asked of the memory, and the request without it; what answers say of its body stands in `extra`."""
        ...

    def join(self, stored: StoredResponse, request: Request, /) -> Request:
        """The request with all that came before it."""
        ...

    def record(self, request: Request, response: Response, /) -> StoredResponse:
        """What is kept of an answer to the joined request."""
        ...


def list_models_endpoint(route: Route, encode: Callable[[tuple[ModelInfo, ...]], JsonObject], /) -> ServerEndpoint:
    """A service that lists models."""
    return ServerEndpoint(route, lambda _: ListModels(), lambda _, found: json_reply(encode(found)))


def show_model_endpoint(route: Route, encode: Callable[[ModelInfo], JsonObject], /) -> ServerEndpoint:
    """A service that shows the model whose name is in the path."""
    return ServerEndpoint(
        route, lambda http: ShowModel(path_parameter(route, http)), lambda _, found: json_reply(encode(found))
    )


def count_tokens_endpoint(
    route: Route, decode: Callable[[HttpRequest], tuple[str, Request]], encode: Callable[[int], JsonObject], /
) -> ServerEndpoint:
    """A service that counts the tokens of a request."""
    return ServerEndpoint(route, lambda http: CountTokens(*decode(http)), lambda _, found: json_reply(encode(found)))


def embeddings_endpoint(
    route: Route, decode: Callable[[HttpRequest], Embed], encode: Callable[[Embed, Embeddings], JsonObject], /
) -> ServerEndpoint:
    """A service that makes vectors of texts."""
    return ServerEndpoint(route, decode, lambda asked, found: json_reply(encode(asked, found)))


def static_endpoint(route: Route, make: Callable[[], HttpReply], /) -> ServerEndpoint:
    """A service that always says the same."""
    return ServerEndpoint(route, lambda _: StaticDocument(), lambda _asked, _found: make(), is_open=True)


def json_reply(body: JsonObject, /) -> HttpReply:
    """An answer of JSON.

    >>> json_reply({"version": "1"}).body
    b'{"version":"1"}'
    """
    return HttpReply(body=encode_json(body))


def path_parameter(route: Route, http: HttpRequest, /) -> str:
    """What stands in a path where the route has a name in braces.

    >>> path_parameter(Route(method="GET", path="/v1/models/{model}"), HttpRequest(method="GET", path="/v1/models/a%2Fb?x=1"))
    'a/b'
    """
    pattern = re.sub(r"\\\{\w+\\\}", "(.+)", re.escape(route.path))
    found = re.fullmatch(pattern, http.path.partition("?")[0])
    return unquote(found[1]) if found else ""
