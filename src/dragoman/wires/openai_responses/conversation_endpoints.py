"""Conversation objects of the Responses API: lists of items that requests continue from."""

from collections.abc import Callable
from typing import Any

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import JsonObject, is_list, is_object
from dragoman.wires.common.request_body import decode_request_json
from dragoman.wires.common.server_endpoints import (
    ItemListQuery,
    Route,
    ServerEndpoint,
    StoredItems,
    first_and_last,
    json_response,
    path_parameters,
)
from dragoman.wires.openai_responses.item_lists import Page, complete_item

MAX_ITEMS = 20
"""Items that one request may add."""
_ONE = "/v1/conversations/{id}"
_ITEMS = f"{_ONE}/items"
_ITEM = f"{_ITEMS}/{{item}}"


def _items(body: JsonObject) -> tuple[JsonObject, ...]:
    items = body.get("items")
    if items is None:
        return ()
    if not is_list(items) or len(items) > MAX_ITEMS or not all(map(is_object, items)):
        raise InvalidRequest(f"items must be a list of at most {MAX_ITEMS} objects", param="items")
    return tuple(items)


def _metadata(body: JsonObject) -> JsonObject | None:
    metadata = body.get("metadata")
    if metadata is not None and not is_object(metadata):
        raise InvalidRequest("metadata must be an object of texts", param="metadata")
    return metadata


def _ids(http: HttpRequest, route: Route) -> tuple[str, str]:
    """The ids of the conversation and of one item; "" for one that the path does not have."""
    id, item, *_ = (*path_parameters(route, http), "", "")
    return id, item


def _create(http: HttpRequest, _: Route) -> ItemListQuery:
    body = decode_request_json(http) if http.body else {}
    return ItemListQuery("create", items=_items(body), metadata=_metadata(body))


def _update(http: HttpRequest, route: Route) -> ItemListQuery:
    return ItemListQuery("update", *_ids(http, route), metadata=_metadata(decode_request_json(http)) or {})


def _add(http: HttpRequest, route: Route) -> ItemListQuery:
    return ItemListQuery("add", *_ids(http, route), items=_items(decode_request_json(http)))


def _list(http: HttpRequest, route: Route) -> ItemListQuery:
    return ItemListQuery("fetch", *_ids(http, route), options=Page(http))


def _plain(action: Any) -> Callable[[HttpRequest, Route], ItemListQuery]:
    return lambda http, route: ItemListQuery(action, *_ids(http, route))


def _encode_conversation(_: ItemListQuery, stored: StoredItems) -> HttpResponse:
    head = {"id": stored.id, "object": "conversation", "created_at": stored.created}
    return json_response({**head, "metadata": stored.metadata})


def _encode_dropped(_: ItemListQuery, stored: StoredItems) -> HttpResponse:
    return json_response({"id": stored.id, "object": "conversation.deleted", "deleted": True})


def _encode_added(query: ItemListQuery, stored: StoredItems) -> HttpResponse:
    data = [complete_item(item) for item in stored.items[len(stored.items) - len(query.items) :]]
    return json_response({"object": "list", "data": data, **first_and_last(data, ""), "has_more": False})


def _encode_items(query: ItemListQuery, stored: StoredItems) -> HttpResponse:
    page: Page = query.options
    return page.encode([complete_item(item) for item in stored.items])


def _encode_item(query: ItemListQuery, stored: StoredItems) -> HttpResponse:
    return json_response(complete_item(next(item for item in stored.items if item["id"] == query.item)))


_TABLE: tuple[tuple[str, str, Callable[[HttpRequest, Route], ItemListQuery], Callable[..., HttpResponse]], ...] = (
    ("POST", "/v1/conversations", _create, _encode_conversation),
    ("GET", _ONE, _plain("fetch"), _encode_conversation),
    ("POST", _ONE, _update, _encode_conversation),
    ("DELETE", _ONE, _plain("drop"), _encode_dropped),
    ("GET", _ITEMS, _list, _encode_items),
    ("POST", _ITEMS, _add, _encode_added),
    ("GET", _ITEM, _plain("fetch"), _encode_item),
    ("DELETE", _ITEM, _plain("remove"), _encode_conversation),
)


def _endpoint(
    method: str, path: str, decode: Callable[[HttpRequest, Route], ItemListQuery], encode: Callable[..., HttpResponse]
) -> ServerEndpoint:
    route = Route(method=method, path=path)
    return ServerEndpoint(route, lambda http: decode(http, route), encode)


CONVERSATION_ENDPOINTS = tuple(_endpoint(*row) for row in _TABLE)
