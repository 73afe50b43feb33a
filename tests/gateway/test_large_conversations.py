"""A stored conversation cannot become larger than one request may be: every request of it reads the whole."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway.live import Gateway

ROUNDS = 6


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = '[gateway]\nproviders = ["demo"]\nmax_objects = 2000\nmax_body = 100000\n'
    with Gateway(tmp_path_factory.mktemp("large"), config) as running:
        yield running


def post(gateway: Gateway, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    connection = gateway.connect()
    try:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def items(parts: int, size: int) -> list[Any]:
    return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "{" * size}] * parts}]


CASES = pytest.mark.parametrize(
    ("parts", "size", "reason"), [(900, 1, "objects|parts"), (2, 40_000, "bytes")], ids=["objects", "bytes"]
)


@CASES
def test_items_of_a_conversation(gateway: Gateway, parts: int, size: int, reason: str) -> None:
    id = post(gateway, "/v1/conversations", {})[1]["id"]
    path = f"/v1/conversations/{id}/items"
    statuses = [post(gateway, path, {"items": items(parts, size)}) for _ in range(4)]
    assert [status for status, _ in statuses[:1]] == [200]
    status, body = statuses[-1]
    assert status == 400
    assert any(word in body["error"]["message"] for word in reason.split("|"))
    assert "start another one" in body["error"]["message"]
    # What is stored can still be continued with little, and read.
    assert gateway.get(path)[0] == 200
    assert post(gateway, "/v1/responses", {"model": "demo/any", "conversation": id, "input": "hi"})[0] == 200


@CASES
def test_responses_that_continue_each_other(gateway: Gateway, parts: int, size: int, reason: str) -> None:
    previous: dict[str, str] = {}
    statuses: list[int] = []
    answer: Any = None
    while len(statuses) < ROUNDS and set(statuses) <= {200}:
        body = {"model": "demo/any", "input": items(parts, size), "store": True, **previous}
        status, answer = post(gateway, "/v1/responses", body)
        statuses.append(status)
        previous = {"previous_response_id": answer.get("id", "")}
    assert statuses[0] == 200
    assert statuses[-1] == 400
    assert any(word in answer["error"]["message"] for word in reason.split("|"))


def test_text_with_many_braces_is_no_large_conversation(gateway: Gateway) -> None:
    id = post(gateway, "/v1/conversations", {})[1]["id"]
    for _ in range(3):
        assert post(gateway, f"/v1/conversations/{id}/items", {"items": items(1, 20_000)})[0] == 200
