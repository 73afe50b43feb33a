"""What a server half offers besides generation: model lists, token counts, embeddings, stored responses, files.

Each `ServerEndpoint` is one path. Its `decode` turns the HTTP request into one of the endpoint requests below; the
gateway computes the result, whose type the docstring of the endpoint request names; `encode` writes the response.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias
from urllib.parse import unquote

import msgspec

from dragoman.errors import DragomanError
from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import (
    Embeddings,
    JsonObject,
    Message,
    ModelInfo,
    Notice,
    Ranking,
    Request,
    Response,
)
from dragoman.types.embedding import EmbeddingOptions
from dragoman.wires.common.batch_values import BatchPage, BatchQuery, BatchRowResult, StoredBatch
from dragoman.wires.common.embedding_forms import VectorFormat
from dragoman.wires.common.errors import error_headers
from dragoman.wires.common.json import encode_json

if TYPE_CHECKING:
    from dragoman.wires.base import ServerHalf


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A path that a server half answers; `{model}` stands for the name of a model, `{id}` for an id.

    If two dialects have the same path, `header` names a header that only the clients of this one send, or `accepts`
    tells by the JSON object in the body whether it is of this one.
    """

    method: str
    path: str
    header: str | None = None
    accepts: Callable[[JsonObject], bool] | None = None


class ListModels(msgspec.Struct, frozen=True):
    """List the models. The result is a tuple of `ModelInfo`."""


class ShowModel(msgspec.Struct, frozen=True):
    """Describe one model. The result is a `ModelInfo`."""

    id: str


class CountTokens(msgspec.Struct, frozen=True):
    """Count the tokens of a request. The result is an int."""

    model: str
    request: Request


class Embed(msgspec.Struct, frozen=True):
    """Embed texts, or lists of tokens. The result is `Embeddings`."""

    model: str
    texts: tuple[str | tuple[int, ...], ...]
    options: EmbeddingOptions = EmbeddingOptions()
    vector_formats: tuple[VectorFormat, ...] = ()
    """How the client wants the vectors; lists of numbers if there are none."""
    ignored_fields: tuple[str, ...] = ()
    """Fields of the request that are not passed on."""


class Rerank(msgspec.Struct, frozen=True):
    """Rank documents by their relevance for a query. The result is a `Ranking`."""

    model: str
    query: str
    documents: tuple[str, ...]
    top: int | None = None
    with_texts: bool = False
    """Whether the client wants the texts of the documents back."""
    extra: dict[str, JsonObject] = {}
    """Fields that only one wire has, by its name."""
    ignored_fields: tuple[str, ...] = ()
    """Fields of the request that are not passed on."""


class FetchResponse(msgspec.Struct, frozen=True):
    """Fetch a stored response. The result is a `StoredResponse`."""

    id: str
    options: Any = None
    """What `encode` needs to know: which part of the response the client wants, and in which form."""


class CancelResponse(msgspec.Struct, frozen=True):
    """Cancel a response. The result is a `StoredResponse`, if it ran in the background and is complete."""

    id: str


class DropResponse(msgspec.Struct, frozen=True):
    """Delete a stored response. The result is None."""

    id: str


class ItemListQuery(msgspec.Struct, frozen=True):
    """Create, read or change a list of items that requests continue from. The result is a `StoredItems`."""

    action: Literal["create", "fetch", "update", "drop", "add", "remove"]
    id: str = ""
    item: str = ""
    """The id of one item."""
    items: tuple[JsonObject, ...] = ()
    metadata: JsonObject | None = None
    options: Any = None
    """What `encode` needs to know."""


class StoredItems(msgspec.Struct, frozen=True, kw_only=True):
    """A list of items that a server stores."""

    id: str
    created: int
    metadata: JsonObject = {}
    items: list[JsonObject] = []


class StoredFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that a server stores for a client, without its content."""

    id: str
    name: str
    mime: str
    size: int
    created: int
    """In Unix seconds."""
    expires: int
    purpose: str = "user_data"


class FileContent(msgspec.Struct, frozen=True):
    """A stored file with its content."""

    file: StoredFile
    data: bytes


class UploadedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a client uploads."""

    data: bytes
    name: str
    mime: str
    purpose: str = "user_data"
    seconds: int | None = None
    """How long it is stored; None for the default of the server."""


class FileQuery(msgspec.Struct, frozen=True):
    """Store, list, read or delete files.

    The result of `create`, `fetch` and `drop` is a `StoredFile`, of `list` a tuple of them, the newest first, and of
    `content` a `FileContent`.
    """

    action: Literal["create", "list", "fetch", "content", "drop"]
    id: str = ""
    file: UploadedFile | None = None
    options: Any = None
    """What `encode` needs to know."""


class StoredChat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A chat completion that a server stores: the answer and the messages of its request, as they were on the wire."""

    id: str
    model: str
    created: int
    completion: JsonObject
    messages: list[JsonObject] = []
    metadata: dict[str, str] = {}


class ChatPage(msgspec.Struct, frozen=True):
    """A part of a list of stored chats."""

    chats: tuple[StoredChat, ...]
    has_more: bool = False


class ChatQuery(msgspec.Struct, frozen=True):
    """List, read, change or delete stored chats. The result of `list` is a `ChatPage`, of others a `StoredChat`."""

    action: Literal["list", "fetch", "update", "drop"]
    id: str = ""
    metadata: dict[str, str] = {}
    """The new metadata, or those that a listed chat must have."""
    model: str | None = None
    after: str = ""
    limit: int = 20
    is_newest_first: bool = False


class StaticDocument(msgspec.Struct, frozen=True):
    """Return a document that never changes, such as a version or an API description. The result is None."""


class StoredResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response that a server stores, with the messages of the conversation up to and including it."""

    messages: tuple[Message, ...]
    response: Response
    request: Request = Request()
    """Only its `extra`, with the fields of the request that the response repeats."""


EndpointRequest: TypeAlias = (
    ListModels
    | ShowModel
    | CountTokens
    | Embed
    | Rerank
    | FetchResponse
    | CancelResponse
    | DropResponse
    | ItemListQuery
    | FileQuery
    | ChatQuery
    | BatchQuery
    | StaticDocument
)
EndpointResult: TypeAlias = (
    tuple[ModelInfo, ...]
    | ModelInfo
    | int
    | Embeddings
    | Ranking
    | StoredResponse
    | StoredItems
    | StoredFile
    | tuple[StoredFile, ...]
    | FileContent
    | StoredChat
    | ChatPage
    | StoredBatch
    | BatchPage
    | tuple[BatchRowResult, ...]
    | None
)


class ServerEndpoint(msgspec.Struct, frozen=True):
    """A path of a dialect besides generation."""

    route: Route
    decode: Callable[[HttpRequest], EndpointRequest]
    encode: Callable[[Any, Any], HttpResponse]
    """Takes the endpoint request and its result."""
    is_public: bool = False
    """Whether it needs no API key."""
    is_json: bool = True
    """Whether the body is JSON; otherwise it is a form with a file."""
    server: "ServerHalf | None" = None
    """The server half that checks its requests and encodes its errors; None is that of its wire."""


class StoredResponseQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What a request wants of stored responses: which one it continues from, and whether its own is stored."""

    previous_id: str | None = None
    item_list: str | None = None
    """The id of the list of items that the request continues, and that its own items are added to."""
    references: tuple[str, ...] = ()
    """The ids of stored items that stand for themselves in the request."""
    incomplete: tuple[str, ...] = ()
    """The ids of items without their reasoning state, which the store may have."""
    store: bool = False
    is_background: bool = False
    """Whether the client gets a response at once, and fetches the answer later."""
    is_warmup: bool = False
    """Whether nothing is generated: a later request continues from this one."""
    needs_own_wire: str | None = None
    """A field that only a provider of the same wire can honour."""
    notices: tuple[Notice, ...] = ()


class ResponseContinuation(Protocol):
    """How the requests of a dialect continue from stored responses."""

    PREFIX: str
    """The prefix of the ids of responses; the server makes these ids itself, because clients send them back."""
    FIELD: str
    """The field of a request that names the response which it continues from."""

    def split(self, request: Request, body: bytes, /) -> tuple[StoredResponseQuery, Request]:
        """The query of a request, and the request without it. `extra` gets the fields that responses repeat."""
        ...

    def response_of(self, item_id: str, /) -> str | None:
        """The id of the response that an item belongs to, if the id of the item contains it."""
        ...

    def items(self, stored: StoredResponse, /) -> list[JsonObject]:
        """The items of a stored response."""
        ...

    def request_items(self, body: bytes, /) -> list[JsonObject]:
        """The items of a request, without references."""
        ...

    def is_stored_alone(self, item: JsonObject, /) -> bool:
        """Whether an item is stored by its own id, because that does not contain the id of the response, or because
        requests may lack its state.
        """
        ...

    def insert_items(
        self, body: bytes, items: dict[str, JsonObject], before: list[JsonObject], /, *, needs_state: bool
    ) -> tuple[bytes, bool]:
        """The body of a request with stored items before its own, and in place of the references to them.

        Also whether reasoning was removed because nobody has its state. `needs_state`: a target cannot do without.
        """
        ...

    def note_completed(self, request: Request, at: int, /) -> None:
        """Note in a request of `split` when its response was complete, in Unix seconds."""
        ...

    def join(self, stored: StoredResponse, request: Request, /) -> Request:
        """The request with the messages of the stored conversation before its own."""
        ...

    def record(self, request: Request, response: Response, /) -> StoredResponse:
        """What to store of the response to a joined request."""
        ...


class StoredChats(Protocol):
    """How the requests of a dialect ask for a stored chat, and what is stored of it."""

    @property
    def PREFIX(self) -> str:  # noqa: N802 - a constant
        """The prefix of the ids of stored chats; the server makes these ids itself."""
        ...

    def split(self, request: Request, /) -> Request | None:
        """The request without the field that asks for it; None if the chat is not to be stored."""
        ...

    def record(self, id: str, model: str, created: int, body: bytes, answer: bytes, /) -> StoredChat:
        """What to store of a request and its answer, as they were on the wire."""
        ...


def list_models_endpoint(route: Route, encode: Callable[[tuple[ModelInfo, ...]], JsonObject], /) -> ServerEndpoint:
    """An endpoint that lists models."""
    return ServerEndpoint(route, lambda _: ListModels(), lambda _, models: json_response(encode(models)))


def show_model_endpoint(route: Route, encode: Callable[[ModelInfo], JsonObject], /) -> ServerEndpoint:
    """An endpoint that describes the model named in the path."""
    return ServerEndpoint(
        route, lambda http: ShowModel(path_parameter(route, http)), lambda _, model: json_response(encode(model))
    )


def count_tokens_endpoint(
    route: Route, decode: Callable[[HttpRequest], tuple[str, Request]], encode: Callable[[int], JsonObject], /
) -> ServerEndpoint:
    """An endpoint that counts the tokens of a request."""
    return ServerEndpoint(route, lambda http: CountTokens(*decode(http)), lambda _, count: json_response(encode(count)))


def embeddings_endpoint(
    route: Route, decode: Callable[[HttpRequest], Embed], encode: Callable[[Embed, Embeddings], JsonObject], /
) -> ServerEndpoint:
    """An endpoint that embeds texts."""
    return ServerEndpoint(route, decode, lambda embed, embeddings: json_response(encode(embed, embeddings)))


def static_endpoint(route: Route, respond: Callable[[], HttpResponse], /) -> ServerEndpoint:
    """A public endpoint that always gives the same response."""
    return ServerEndpoint(route, lambda _: StaticDocument(), lambda _request, _result: respond(), is_public=True)


def json_response(body: JsonObject, /) -> HttpResponse:
    """A response with a JSON body."""
    return HttpResponse(body=encode_json(body))


def first_and_last(data: Sequence[JsonObject], empty: str | None = None, /) -> JsonObject:
    """The members of a page with the ids of its first and its last item; `empty` stands for them if it has none."""
    return {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": empty, "last_id": empty}


def error_response(error: DragomanError, body: JsonObject, status: int | None = None, /) -> HttpResponse:
    """The response for an error; its status is that of the error by default."""
    return HttpResponse(status=status or error.http_status, headers=error_headers(error), body=encode_json(body))


def path_parameters(route: Route, http: HttpRequest, /) -> tuple[str, ...]:
    """The values of all parameters in a route's path.

    >>> route = Route(method="GET", path="/v1/a/{id}/items/{item}")
    >>> path_parameters(route, HttpRequest(method="GET", path="/v1/a/1/items/2"))
    ('1', '2')
    """
    pattern = re.sub(r"\\\{\w+\\\}", "(.+)", re.escape(route.path))
    match = re.fullmatch(pattern, http.path.partition("?")[0])
    return tuple(map(unquote, match.groups())) if match else ()


def path_parameter(route: Route, http: HttpRequest, /) -> str:
    """The value of the parameter in a route's path.

    >>> route = Route(method="GET", path="/v1/models/{model}")
    >>> path_parameter(route, HttpRequest(method="GET", path="/v1/models/a%2Fb?x=1"))
    'a/b'
    """
    return next(iter(path_parameters(route, http)), "")
