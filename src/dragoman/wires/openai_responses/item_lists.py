"""Lists of items: the input of a stored response, its output, and pages of both for clients."""

from typing import Any
from urllib.parse import parse_qs

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import JsonObject, Message, is_list, is_object
from dragoman.wires.common.server_endpoints import StoredResponse, first_and_last, json_response
from dragoman.wires.openai_responses.incoming_items import item_kind
from dragoman.wires.openai_responses.messages import encode_result, encode_user_items
from dragoman.wires.openai_responses.parts import type_of
from dragoman.wires.openai_responses.schema import make_item_id
from dragoman.wires.openai_responses.stream_encoder import encode_output

DEFAULT_LIMIT = 20
MAX_LIMIT = 100


def input_items(stored: StoredResponse, /) -> list[JsonObject]:
    """The items that a stored response answered, each with an id."""
    id = f"{stored.response.id or ''} in"
    items: list[JsonObject] = []
    for message in stored.messages[:-1]:
        items += _with_ids(_items(message, f"{id} {len(items)}"), id, len(items))
    return items


def output_items(stored: StoredResponse, /) -> list[JsonObject]:
    """The items of a stored response."""
    return encode_output(stored.response.message.parts, stored.response.id)


def _items(message: Message, id: str) -> list[JsonObject]:
    match message.role:
        case "assistant":
            return encode_output(message.parts, id)
        case "tool":
            return [encode_result(result) for result in message.tool_results]
        case "user":
            return encode_user_items([message])
        case role:
            return [{**item, "role": role} for item in encode_user_items([message])]


def _with_ids(items: list[JsonObject], id: str, start: int) -> list[JsonObject]:
    prefixes = {"message": "msg", "function_call_output": "fco"}
    return [
        {"id": make_item_id(prefixes.get(item["type"], "item"), id, start + i), "status": "completed", **item}
        for i, item in enumerate(items)
    ]


def complete_item(item: JsonObject, /) -> JsonObject:
    """An item that a client sent, with the members that items of a list must have."""
    kind, status = item_kind(item), {"status": "completed"}
    match kind:
        case "message":
            text = "output_text" if item.get("role") == "assistant" else "input_text"
            return {**status, **item, "type": kind, "content": _content(item.get("content"), text)}
        case "function_call":
            return {**status, **item}
        case "function_call_output":
            output = item.get("output")
            return {**status, **item, "output": output if isinstance(output, str) else _content(output, "")}
        case _:
            return item


def _content(content: Any, kind: str) -> list[JsonObject]:
    """The parts of a content, which may be a text."""
    if isinstance(content, str):
        content = [{"type": kind, "text": content}]
    parts = filter(is_object, content) if is_list(content) else ()
    return [_PART_DEFAULTS.get(type_of(part), {}) | part for part in parts]


_PART_DEFAULTS: dict[str, JsonObject] = {"output_text": {"annotations": []}, "input_image": {"detail": "auto"}}


class Page:
    """Which items of a list a client wants: the members of its query."""

    def __init__(self, http: HttpRequest, /) -> None:
        query = parse_qs(http.path.partition("?")[2])
        self.after = query.get("after", [""])[-1]
        self.order = query.get("order", ["desc"])[-1]
        if self.order not in ("asc", "desc"):
            raise InvalidRequest(f"order must be asc or desc, got {self.order[:20]!r}", param="order")
        self.limit = whole_number(query, "limit", DEFAULT_LIMIT)
        if not 1 <= self.limit <= MAX_LIMIT:
            raise InvalidRequest(f"limit must be a number from 1 to {MAX_LIMIT}, got {self.limit}", param="limit")

    def encode(self, items: list[JsonObject], /) -> HttpResponse:
        """The page of these items."""
        ordered = items if self.order == "asc" else items[::-1]
        if self.after:
            ids = [item.get("id") for item in ordered]
            if self.after not in ids:
                raise InvalidRequest(f"after must be the id of an item, got {self.after[:200]!r}", param="after")
            ordered = ordered[ids.index(self.after) + 1 :]
        data = ordered[: self.limit]
        more = len(ordered) > len(data)
        return json_response({"object": "list", "data": data, **first_and_last(data, ""), "has_more": more})


def whole_number(query: dict[str, list[Any]], name: str, default: int, /) -> int:
    """A number of a query."""
    text = query.get(name, [str(default)])[-1]
    try:
        return int(text)
    except ValueError:
        raise InvalidRequest(f"{name} must be a whole number, got {text[:20]!r}", param=name) from None
