"""Stored chat completions: what is stored, and the exact JSON of their paths."""

import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.types import Request, user
from dragoman.wires.common.server_endpoints import ChatPage, ChatQuery, StoredChat
from dragoman.wires.openai_chat.stored_chats import STORED_CHAT_ENDPOINTS, StoredChatCompletions

HOOKS = StoredChatCompletions()
CHAT = StoredChat(
    id="c",
    model="m",
    created=5,
    completion={"object": "chat.completion"},
    messages=[{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": []}],
    metadata={"k": "v"},
)
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "a", "id": "c-0"},
    {"role": "assistant", "content": None, "tool_calls": [], "id": "c-1"},
]


def decoded(method: str, path: str, body: Any = None) -> Any:
    routes = wires.get("openai_chat").server_endpoints
    ending = {"/c": "/{id}", "/c/messages": "/{id}/messages"}.get(path.partition("?")[0], "")
    found = next(
        each
        for each in routes
        if each in STORED_CHAT_ENDPOINTS
        and each.route.path == f"/v1/chat/completions{ending}"
        and each.route.method == method
    )
    data = b"" if body is None else json.dumps(body).encode()
    return found, found.decode(HttpRequest(method=method, path=f"/v1/chat/completions{path}", body=data))


def answered(method: str, path: str, result: Any, body: Any = None) -> Any:
    endpoint, query = decoded(method, path, body)
    return json.loads(endpoint.encode(query, result).body)


def test_only_store_true_asks_for_it() -> None:
    request = Request(messages=(user("a"),), extra={"openai_chat": {"store": True, "x": 1}, "groq": {"y": 2}})
    without = HOOKS.split(request)
    assert without is not None
    assert without.extra == {"openai_chat": {"x": 1}, "groq": {"y": 2}}
    assert HOOKS.split(Request(extra={"openai_chat": {"store": False}})) is None
    with pytest.raises(InvalidRequest, match="metadata must"):
        HOOKS.split(Request(metadata={"a": "b" * 600}, extra={"openai_chat": {"store": True}}))


def test_the_answer_and_the_messages_are_stored() -> None:
    asked = {"messages": [{"role": "user", "content": "a"}], "temperature": 0, "metadata": {"k": "v"}, "n": 1}
    chat = HOOKS.record("c", "m", 5, json.dumps(asked).encode(), b'{"object": "chat.completion"}')
    assert chat.completion == {"temperature": 0, "object": "chat.completion"}
    assert (chat.messages, chat.metadata) == (asked["messages"], {"k": "v"})
    assert HOOKS.record("c", "m", 5, b"{}", b"{}").messages == []


def test_a_list_can_be_filtered_by_page_model_and_metadata() -> None:
    path = "?after=a&limit=2&order=desc&model=m&metadata[k]=v"
    expected = ChatQuery("list", "", {"k": "v"}, "m", "a", 2, is_newest_first=True)
    assert decoded("GET", path)[1] == expected
    assert decoded("GET", "")[1] == ChatQuery("list")
    page = {"first_id": "c", "last_id": "c", "has_more": True}
    chat = {"object": "chat.completion", "id": "c", "metadata": {"k": "v"}}
    assert answered("GET", "", ChatPage((CHAT,), has_more=True)) == {"object": "list", "data": [chat], **page}
    empty: dict[str, Any] = {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    assert answered("GET", "", ChatPage(())) == empty


@pytest.mark.parametrize("query", ["order=up", "limit=0", "limit=101", "limit=x"])
def test_a_wrong_page_is_refused(query: str) -> None:
    with pytest.raises(InvalidRequest):
        decoded("GET", f"?{query}")


def test_a_chat_is_read_changed_and_deleted() -> None:
    chat = {"object": "chat.completion", "id": "c", "metadata": {"k": "v"}}
    assert decoded("GET", "/c")[1] == ChatQuery("fetch", "c")
    assert answered("GET", "/c", CHAT) == chat
    assert decoded("POST", "/c", {"metadata": {"a": "b"}})[1] == ChatQuery("update", "c", {"a": "b"})
    assert decoded("POST", "/c", {"metadata": None})[1] == ChatQuery("update", "c")
    assert answered("POST", "/c", CHAT, {"metadata": {}}) == chat
    assert answered("DELETE", "/c", CHAT) == {"id": "c", "object": "chat.completion.deleted", "deleted": True}


@pytest.mark.parametrize("body", [{}, {"metadata": 3}, {"metadata": {"a": 1}}])
def test_wrong_metadata_are_refused(body: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decoded("POST", "/c", body)
    assert refused.value.param == "metadata"


def test_the_messages_of_a_chat_are_listed() -> None:
    assert answered("GET", "/c/messages", CHAT)["data"] == MESSAGES
    assert answered("GET", "/c/messages?order=desc&limit=1", CHAT) == {
        "object": "list",
        "data": MESSAGES[1:],
        "first_id": "c-1",
        "last_id": "c-1",
        "has_more": True,
    }
    assert answered("GET", "/c/messages?after=c-0", CHAT)["data"] == MESSAGES[1:]
    with pytest.raises(InvalidRequest, match="after must be"):
        answered("GET", "/c/messages?after=x", CHAT)
