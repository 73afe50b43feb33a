"""Messages and tools are decoded once, and what is decoded from the cache is what is decoded without it."""

import gc
import json
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.types import JsonObject, Request
from dragoman.wires.common import item_cache
from dragoman.wires.common.item_cache import ItemCache, decode_with_cache
from dragoman.wires.common.request_body import decode_items, read_body


class Body(msgspec.Struct):
    items: list[JsonObject] = []
    others: list[JsonObject] | None = None


class Counting:
    """Decodes items, and counts how often."""

    def __init__(self) -> None:
        self.places: list[str] = []

    def __call__(self, item: JsonObject, where: str) -> tuple[str, Any]:
        self.places.append(where)
        if "bad" in item:
            raise InvalidRequest(f"{where} is bad")
        return ("item", item)


def post(body: bytes) -> HttpRequest:
    return HttpRequest(method="POST", path="/", body=body)


def decoder(decode: Counting) -> Callable[[HttpRequest], tuple[list[Any], list[Any], JsonObject]]:
    def decode_request(http: HttpRequest) -> tuple[list[Any], list[Any], JsonObject]:
        body, rest = read_body(Body, http, ("items", "others"))
        return decode_items(body.items, decode, "items"), decode_items(body.others, decode, "others"), rest

    return decode_request


def decoded(cache: ItemCache, decode: Counting, body: bytes) -> tuple[list[Any], list[Any], JsonObject]:
    return decode_with_cache(decoder(decode), cache, post(body))


@pytest.fixture
def decode() -> Counting:
    return Counting()


def test_an_item_is_decoded_once(decode: Counting) -> None:
    cache = ItemCache()
    first = decoded(cache, decode, b'{"items": [{"a": 1}], "x": 2}')
    second = decoded(cache, decode, b'{"items": [{"a": 1}, {"b": 1}], "x": 2, "others": [{"a": 1}]}')
    assert decode.places == ["items[0]", "items[1]"]
    assert first == ([("item", {"a": 1})], [], {"x": 2})
    assert second == ([("item", {"a": 1}), ("item", {"b": 1})], [("item", {"a": 1})], {"x": 2})
    assert second[0][0] is first[0][0]


def test_the_functions_of_items_have_tables_of_their_own() -> None:
    cache = ItemCache()
    one, other = Counting(), Counting()
    decoded(cache, one, b'{"items": [{}]}')
    decoded(cache, other, b'{"items": [{}]}')
    assert other.places == ["items[0]"]


@pytest.mark.parametrize("other", [b'{"a":1.0}', b'{"a": 1}', b'{"a":1,"a":1}', b'{"\\u0061":1}'])
def test_other_bytes_are_another_item(decode: Counting, other: bytes) -> None:
    cache = ItemCache()
    decoded(cache, decode, b'{"items":[{"a":1}]}')
    assert decoded(cache, decode, b'{"items":[%s]}' % other)[0] == [("item", json.loads(other))]
    assert len(decode.places) == 2


def test_a_large_item_is_not_stored(decode: Counting) -> None:
    cache = ItemCache()
    body = b'{"items": [{"image": "%s"}]}' % (b"x" * item_cache.MAX_ITEM)
    assert decoded(cache, decode, body) == decoded(cache, decode, body)
    assert len(decode.places) == 2


def many(item: str, count: int) -> str:
    return f"[{','.join([item] * count)}]"


DENSE = {
    "objects with lists": many('{"a":[]}', 500),
    "empty lists": many("[]", 1250),
    "small numbers": many("-9", 2500),
    "floats": many("1.5", 2500),
    "short strings": many('"ab"', 1250),
    "strings that are not ASCII": many('"\N{GRINNING FACE}b"', 900),
    "nested lists": many("[" * 100 + "]" * 100, 10),
    "nested objects": many('{"a":' * 100 + "1" + "}" * 100, 5),
    "different keys": many("{%s}", 75) % tuple(",".join(f'"{n}{c}":{n}' for c in "abcdef") for n in range(75)),
    "a text": '"%s"' % ("x" * 12_500),
    "a wide text": '"\N{GRINNING FACE}%s"' % ("x" * 7500),
    "a wide text with an escape": '"\\ud83d\\ude00%s"' % ("x" * 7500),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("shape", DENSE)
def test_the_memory_is_bounded_for_dense_items(shape: str) -> None:
    most = 500_000
    cache = ItemCache(max_memory=most)
    decode = wires.get("anthropic").server.decode_request

    def send(number: int) -> None:
        call = f'{{"type":"tool_use","id":"{number}","name":"a","input":{{"a":{DENSE[shape]}}}}}'
        message = f'{{"role":"assistant","content":[{call}]}}'
        body = f'{{"model":"m","max_tokens":9,"messages":[{message}]}}'.encode()
        request = decode_with_cache(decode, cache, post(body))[1]
        msgspec.json.encode(request.messages)  # a text that is not ASCII has its UTF-8 beside it from now on

    send(0)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(1, 31):
            send(number)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert most // 5 < taken < most * 1.1  # at least one generation is in use, so the items are stored


def test_a_value_that_takes_much_memory_is_not_stored(decode: Counting) -> None:
    cache = ItemCache()
    body = f'{{"items": [{{"a": {many("[[]]", 15_000)}}}]}}'.encode()
    assert len(body) < item_cache.MAX_ITEM
    assert decoded(cache, decode, body) == decoded(cache, decode, body)
    assert (len(decode.places), cache.memory) == (2, 0)


def test_the_items_that_were_not_used_for_a_while_are_dropped(decode: Counting) -> None:
    cache = ItemCache(max_memory=40_000)
    used = b'{"items": [{"used": 1}]}'
    for number in range(100):
        decoded(cache, decode, used)
        decoded(cache, decode, b'{"items": [{"n": %d}]}' % number)
    assert len(decode.places) == 101
    decoded(cache, decode, b'{"items": [{"n": 99}]}')
    assert len(decode.places) == 101
    decoded(cache, decode, b'{"items": [{"n": 0}]}')
    assert len(decode.places) == 102


def test_what_fails_is_not_stored_and_the_error_is_that_of_the_whole_body(decode: Counting) -> None:
    cache = ItemCache()
    for _ in range(2):
        with pytest.raises(InvalidRequest, match=r"items\[1\] is bad"):
            decoded(cache, decode, b'{"items": [{"good": 1}, {"bad": 1}]}')
    # The first is looked up the second time, but for the error all are decoded without the cache.
    assert decode.places == ["items[0]", "items[1]"] * 2 + ["items[1]"] + ["items[0]", "items[1]"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"items": [',
        b'{"items": [1]}',
        b'{"items": [{"a": "\xff"}]}',
        b'{"items": 1}',
        b'{"items": null}',
        b'{"others": {}}',
        b'{"items": [{"a": "\\ud800"}]}',
        b'{"items": [' + b"[" * 100_000,
    ],
)
def test_the_error_of_a_body_is_the_same(decode: Counting, body: bytes) -> None:
    with pytest.raises(InvalidRequest) as plain:
        decoder(decode)(post(body))
    with pytest.raises(InvalidRequest) as cached:
        decoded(ItemCache(), decode, body)
    assert (cached.value.message, cached.value.param) == (plain.value.message, plain.value.param)


@pytest.mark.parametrize(
    "body",
    [
        b'{"items": [{"a": 1}], "items": [{"b": 2}]}',
        b' { "items" : [ { "a" : 1e2 } , {"a":[1 ,2]} ] , "x" : 1.0 } ',
        b'{"others": null, "x": {"y": [null]}}',
        b'{"items": [{"a": 1, "a": 2}, {}], "x": 1, "x": 2}',
        b'{"items": [{"a": "\xc3\xa9\\u00e9\\ud83d\\ude00"}]}',
    ],
)
def test_the_value_of_a_body_is_the_same(decode: Counting, body: bytes) -> None:
    cache = ItemCache()
    plain = decoder(decode)(post(body))
    assert decoded(cache, decode, body) == decoded(cache, decode, body) == plain


# Wires ----------------------------------------------------------------------------------------------------------------

CALL = {"id": "call_1", "type": "function", "function": {"name": "tide", "arguments": '{"port": "Brest"}'}}
CHAT: list[JsonObject] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "?"},
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "4.2 m"},
]


def chat(cache: ItemCache, messages: list[JsonObject]) -> Request:
    body = json.dumps({"model": "m", "messages": messages, "tools": []}).encode()
    decode = partial(decode_with_cache, wires.get("openai_chat").server.decode_request, cache)
    return decode(post(body))[1]


def test_the_messages_of_an_earlier_turn_are_the_same_values() -> None:
    cache = ItemCache()
    first = chat(cache, CHAT)
    second = chat(cache, [*CHAT, {"role": "user", "content": "And now?"}])
    assert all(map(lambda one, other: one is other, first.messages[:2], second.messages[:2]))
    assert first.messages[2].tool_results[0].content is second.messages[2].tool_results[0].content


def test_a_result_has_the_name_of_its_call_in_each_conversation() -> None:
    cache = ItemCache()
    other = {**CALL, "function": {"name": "wind", "arguments": "{}"}}
    changed = [*CHAT[:2], {"role": "assistant", "tool_calls": [other]}, CHAT[3]]
    names = [chat(cache, messages).messages[2].tool_results[0].name for messages in (CHAT, changed, CHAT)]
    assert names == ["tide", "wind", "tide"]


def test_tools_beside_mcp_servers_are_decoded() -> None:
    tools = [{"name": "now", "input_schema": {"type": "object"}}, {"type": "mcp_toolset", "mcp_server_name": "s"}]
    servers = [{"type": "url", "name": "s", "url": "https://mcp.example"}]
    body = {"model": "m", "max_tokens": 9, "messages": [], "tools": tools, "mcp_servers": servers}
    decode = wires.get("anthropic").server.decode_request
    http = post(json.dumps(body).encode())
    assert decode_with_cache(decode, ItemCache(), http) == decode(http)


@pytest.mark.parametrize("size", [4096, 8192])
def test_the_context_size_of_ollama_is_that_of_its_messages(size: int) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "?"}], "options": {"num_ctx": size}}
    decode = wires.get("ollama").server.decode_request
    http = post(json.dumps(body).encode())
    assert decode_with_cache(decode, ItemCache(), http) == decode(http)
