"""Stored chat completions: `store: true`, and the paths to list, fetch, change and delete them."""

import re
from typing import Literal

import msgspec
from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import JsonObject, Request, is_object
from dragoman.types.checks import shown
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.file_endpoints import query_members, read_limit
from dragoman.wires.common.json import objects, without_none
from dragoman.wires.common.request_body import decode_request_json, invalid_field, missing_field
from dragoman.wires.common.server_endpoints import (
    ChatPage,
    ChatQuery,
    Route,
    ServerEndpoint,
    StoredChat,
    first_and_last,
    json_response,
    path_parameter,
)
from dragoman.wires.openai_chat.schema import NAME

MAX_LIMIT, DEFAULT_LIMIT = 100, 20
MAX_PAIRS, MAX_KEY, MAX_VALUE = 16, 64, 512
"""Limits of metadata: OpenAI's."""
_ECHO = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "tools", "tool_choice")
"""The fields of a request that a stored completion repeats."""
_METADATA = re.compile(r"metadata\[(.{1,64})\]")


class StoredChatCompletions:
    """How requests ask for a stored completion, and what is stored."""

    PREFIX = "chatcmpl-"

    def split(self, request: Request, /) -> Request | None:
        """The request without `store` if its completion is to be stored; else None."""
        extra = wire_extra(request.extra, NAME)
        if extra.get("store") is not True:
            return None
        check_metadata(request.metadata)
        rest = make_extra(NAME, {field: value for field, value in extra.items() if field != "store"})
        others = {name: data for name, data in request.extra.items() if name != NAME}
        return replace(request, extra={**others, **rest})

    def record(self, id: str, model: str, created: int, body: bytes, answer: bytes, /) -> StoredChat:
        """What to store of a request and its answer, as they were on the wire."""
        request_fields: JsonObject = msgspec.json.decode(body)
        completion: JsonObject = msgspec.json.decode(answer)
        echo = without_none({name: request_fields.get(name) for name in _ECHO})
        listed = request_fields.get("messages")
        messages = objects(listed)
        return StoredChat(
            id=id,
            model=model,
            created=created,
            completion={**echo, **completion},
            messages=messages,
            metadata=request_fields.get("metadata") or {},
        )


def check_metadata(metadata: object, /) -> dict[str, str]:
    """The metadata of a request, if it has at most sixteen short texts."""
    if not is_object(metadata) or len(metadata) > MAX_PAIRS:
        raise invalid_field("metadata", f"must be an object with at most {MAX_PAIRS} members, got {shown(metadata)}")
    for key, value in metadata.items():
        if not isinstance(value, str) or len(key) > MAX_KEY or len(value) > MAX_VALUE:
            raise invalid_field("metadata", f"must have keys of {MAX_KEY} characters and texts of {MAX_VALUE} at most")
    return metadata


def _encode_chat(chat: StoredChat) -> JsonObject:
    return {**chat.completion, "id": chat.id, "metadata": chat.metadata}


def _encode_messages(query: ChatQuery, chat: StoredChat) -> HttpResponse:
    messages = [{"content": None, **message, "id": f"{chat.id}-{i}"} for i, message in enumerate(chat.messages)]
    messages = messages if not query.is_newest_first else messages[::-1]
    if query.after:
        ids = [message["id"] for message in messages]
        if query.after not in ids:
            raise InvalidRequest(f"after must be the id of a message, got {query.after[:200]!r}", param="after")
        messages = messages[ids.index(query.after) + 1 :]
    return _encode_page(messages[: query.limit], has_more=len(messages) > query.limit)


def _encode_page(data: list[JsonObject], *, has_more: bool) -> HttpResponse:
    return json_response({"object": "list", "data": data, **first_and_last(data), "has_more": has_more})


def _encode_list(_: ChatQuery, page: ChatPage) -> HttpResponse:
    return _encode_page([_encode_chat(chat) for chat in page.chats], has_more=page.has_more)


def _decode_list(http: HttpRequest) -> ChatQuery:
    query = query_members(http)
    metadata = {match[1]: values[-1] for name, values in query.items() if (match := _METADATA.fullmatch(name))}
    return replace(_decode_page("list", "", http), model=query.get("model", [None])[-1], metadata=metadata)


def _decode_page(action: Literal["list", "fetch"], id: str, http: HttpRequest) -> ChatQuery:
    query = query_members(http)
    order = query.get("order", ["asc"])[-1]
    if order not in ("asc", "desc"):
        raise InvalidRequest(f"order must be asc or desc, got {order[:20]!r}", param="order")
    return ChatQuery(
        action,
        id,
        after=query.get("after", [""])[-1],
        limit=read_limit(query, DEFAULT_LIMIT, MAX_LIMIT),
        is_newest_first=order == "desc",
    )


def _decode_update(id: str, http: HttpRequest) -> ChatQuery:
    body = decode_request_json(http)
    if "metadata" not in body:
        raise missing_field("metadata")
    return ChatQuery("update", id, metadata=check_metadata(body["metadata"] or {}))


_PATH = "/v1/chat/completions"
_LIST = Route(method="GET", path=_PATH)
_FETCH, _UPDATE, _DROP = (Route(method=method, path=_PATH + "/{id}") for method in ("GET", "POST", "DELETE"))
_MESSAGES = Route(method="GET", path=_PATH + "/{id}/messages")

STORED_CHAT_ENDPOINTS = (
    ServerEndpoint(_LIST, _decode_list, _encode_list),
    ServerEndpoint(
        _FETCH,
        lambda http: ChatQuery("fetch", path_parameter(_FETCH, http)),
        lambda _, chat: json_response(_encode_chat(chat)),
    ),
    ServerEndpoint(
        _UPDATE,
        lambda http: _decode_update(path_parameter(_UPDATE, http), http),
        lambda _, chat: json_response(_encode_chat(chat)),
    ),
    ServerEndpoint(
        _DROP,
        lambda http: ChatQuery("drop", path_parameter(_DROP, http)),
        lambda _, chat: json_response({"id": chat.id, "object": "chat.completion.deleted", "deleted": True}),
    ),
    ServerEndpoint(
        _MESSAGES,
        lambda http: _decode_page("fetch", path_parameter(_MESSAGES, http), http),
        _encode_messages,
    ),
)
