"""Batches that a server runs: the exact JSON of their paths, and the rows of their files."""

import json
import time
from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.wires.common.batch_values import BatchPage, BatchQuery, BatchRowResult, StoredBatch
from dragoman.wires.openai_chat.batch_endpoints import MAX_PROBLEMS, read_rows, result_files
from tests.support.clock import slowness

CHAT = "/v1/chat/completions"
BATCH = StoredBatch(id="b", wire="w", endpoint=CHAT, created=5, expires=9, total=3, input_file="f", metadata={"k": "v"})
RAW = msgspec.Raw(b'{"id":"x"}')
RESULTS = (
    BatchRowResult(custom_id="a", outcome="succeeded", status=200, request_id="r", body=RAW),
    BatchRowResult(custom_id="b", outcome="errored", status=400, request_id="s", body=RAW),
    BatchRowResult(custom_id="c", outcome="expired"),
    BatchRowResult(custom_id="d", outcome="canceled"),
)


def endpoint(wire: str, method: str, path: str) -> Any:
    return next(
        each
        for each in wires.get(wire).server_endpoints
        if (each.route.method, each.route.path) == (method, path) and each.route.header is None
    )


def decoded(wire: str, method: str, path: str, body: Any = None, at: str | None = None) -> Any:
    data = b"" if body is None else json.dumps(body).encode()
    return endpoint(wire, method, path).decode(HttpRequest(method=method, path=at or path, body=data))


def encoded(wire: str, method: str, path: str, result: Any) -> Any:
    return json.loads(endpoint(wire, method, path).encode(BatchQuery("fetch", wire), result).body)


def line(**fields: Any) -> bytes:
    return json.dumps({"custom_id": "a", "method": "POST", "url": CHAT, "body": {"n": 1}, **fields}).encode()


def test_the_rows_of_a_file_are_read() -> None:
    rows, problems = read_rows(b"\xef\xbb\xbf" + line() + b"\n\n" + line(custom_id="b"), CHAT)
    assert ([row.custom_id for row in rows], problems) == (["a", "b"], [])
    assert json.loads(bytes(rows[0].body)) == {"n": 1}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (line(method="GET"), "method must be POST"),
        (line(url="/v1/other"), "url must be the endpoint of the batch"),
        (line(body=[1]), "body must be an object"),
        (line(custom_id="first"), "custom_id must be unique"),
        (line(custom_id=3), "the line must be a JSON object"),
        (b"no", "the line must be a JSON object"),
        (b"\xff", "the line must be a JSON object"),
    ],
)
def test_a_wrong_line_is_named(wrong: bytes, why: str) -> None:
    _, problems = read_rows(line(custom_id="first") + b"\n" + wrong, CHAT)
    assert problems[0]["line"] == 2
    assert why in problems[0]["message"]


def test_the_problems_of_a_file_are_limited_and_an_empty_file_is_one() -> None:
    assert len(read_rows(b"no\n" * (MAX_PROBLEMS + 5), CHAT)[1]) == MAX_PROBLEMS
    assert read_rows(b"\n", CHAT)[1][0]["code"] == "empty_file"


def test_results_are_a_file_of_answers_and_a_file_of_errors() -> None:
    answers, errors = result_files(RESULTS)
    response = {"status_code": 200, "request_id": "r", "body": {"id": "x"}}
    assert json.loads(answers) == {"id": "batch_req_r", "custom_id": "a", "response": response, "error": None}
    failed = [json.loads(each) for each in errors.splitlines()]
    assert failed[0]["response"]["status_code"] == 400
    assert [each["error"] and each["error"]["code"] for each in failed] == [None, "batch_expired", "batch_cancelled"]
    assert result_files(()) == (b"", b"")


NEW = {"input_file_id": "f", "endpoint": CHAT, "completion_window": "24h"}


def test_a_batch_of_openai_is_created_from_a_file() -> None:
    query = decoded("openai_chat", "POST", "/v1/batches", {**NEW, "metadata": {"k": "v"}})
    assert (query.action, query.new.input_file, query.new.endpoint, query.new.metadata) == (
        "create",
        "f",
        CHAT,
        {"k": "v"},
    )
    assert len(query.new.read_rows(line())[0]) == 1


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"input_file_id": None}, "input_file_id"),
        ({"endpoint": ""}, "endpoint"),
        ({"endpoint": "/v1/other"}, "endpoint"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"metadata": {"k": "v" * 600}}, "metadata"),
    ],
)
def test_a_wrong_batch_of_openai_is_refused(wrong: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decoded("openai_chat", "POST", "/v1/batches", {**NEW, **wrong})
    assert refused.value.param == param


def test_batches_of_openai_are_fetched_listed_and_cancelled() -> None:
    path = "/v1/batches/{id}"
    assert decoded("openai_chat", "GET", path, at="/v1/batches/b") == BatchQuery("fetch", "openai_chat", "b")
    cancel = decoded("openai_chat", "POST", f"{path}/cancel", {}, "/v1/batches/b/cancel")
    assert cancel == BatchQuery("cancel", "openai_chat", "b")
    listed = decoded("openai_chat", "GET", "/v1/batches", at="/v1/batches?after=a&limit=3")
    assert listed == BatchQuery("list", "openai_chat", after="a", limit=3)
    page = encoded("openai_chat", "GET", "/v1/batches", BatchPage((BATCH,), has_more=True))
    assert (page["first_id"], page["last_id"], page["has_more"]) == ("b", "b", True)
    assert encoded("openai_chat", "GET", "/v1/batches", BatchPage(()))["data"] == []


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "in_progress"),
        ({"state": "canceling", "canceled_at": 7}, "cancelling"),
        ({"state": "ended", "ended_at": 8}, "completed"),
        ({"state": "ended", "ended_at": 8, "canceled_at": 7}, "cancelled"),
        ({"state": "ended", "ended_at": 8, "outcomes": {"expired": 1}}, "expired"),
        ({"state": "ended", "ended_at": 8, "problems": [{"message": "no"}]}, "failed"),
    ],
)
def test_the_state_of_a_batch_has_the_words_of_openai(changes: Any, status: str) -> None:
    batch = encoded("openai_chat", "GET", "/v1/batches/{id}", msgspec.structs.replace(BATCH, **changes))
    assert batch["status"] == status
    if status not in ("in_progress", "cancelling"):
        assert batch[f"{status}_at"] == 8
    assert (batch["errors"] is None) == (status != "failed")
    assert batch["request_counts"]["total"] == 3


PATH = "/v1/messages/batches"


def test_batches_of_anthropic_are_created_from_rows() -> None:
    body = {"requests": [{"custom_id": "a", "params": {"n": 1}}]}
    query = decoded("anthropic", "POST", PATH, body)
    assert [(row.custom_id, bytes(row.body)) for row in query.new.rows] == [("a", b'{"n": 1}')]
    assert query.new.endpoint == "/v1/messages"


WRONG: list[tuple[Any, str]] = [
    ([], "requests"),
    (3, "requests"),
    ([{"custom_id": "a"}], "requests"),
    ([{"custom_id": "a b", "params": {}}], "requests[0].custom_id"),
    ([{"custom_id": "a", "params": {}}] * 2, "requests[1].custom_id"),
    ([{"custom_id": "a", "params": []}], "requests[0].params"),
]


@pytest.mark.parametrize(("requests", "param"), WRONG)
def test_a_wrong_batch_of_anthropic_is_refused(requests: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decoded("anthropic", "POST", PATH, {"requests": requests})
    assert refused.value.param == param


def test_batches_of_anthropic_are_fetched_listed_cancelled_and_deleted() -> None:
    path, at = PATH + "/{id}", PATH + "/b"
    assert decoded("anthropic", "GET", path, at=at).action == "fetch"
    assert decoded("anthropic", "POST", f"{path}/cancel", {}, f"{at}/cancel") == BatchQuery("cancel", "anthropic", "b")
    assert decoded("anthropic", "GET", f"{path}/results", at=f"{at}/results").action == "results"
    assert decoded("anthropic", "DELETE", path, at=at) == BatchQuery("drop", "anthropic", "b")
    assert decoded("anthropic", "GET", PATH, at=f"{PATH}?after_id=a&limit=2").after == "a"
    batch = encoded("anthropic", "GET", path, msgspec.structs.replace(BATCH, outcomes={"succeeded": 1}))
    assert batch == {
        "id": "b",
        "type": "message_batch",
        "processing_status": "in_progress",
        "request_counts": {"processing": 2, "succeeded": 1, "errored": 0, "canceled": 0, "expired": 0},
        "created_at": "1970-01-01T00:00:05Z",
        "expires_at": "1970-01-01T00:00:09Z",
        "ended_at": None,
        "cancel_initiated_at": None,
        "archived_at": None,
        "results_url": None,
    }
    over = encoded("anthropic", "GET", path, msgspec.structs.replace(BATCH, state="ended"))
    assert (over["processing_status"], over["results_url"]) == ("ended", f"{PATH}/b/results")
    assert encoded("anthropic", "GET", PATH, BatchPage((BATCH,)))["last_id"] == "b"
    assert encoded("anthropic", "GET", PATH, BatchPage(()))["last_id"] is None
    assert encoded("anthropic", "DELETE", path, BATCH) == {"id": "b", "type": "message_batch_deleted"}


def test_the_results_of_anthropic_are_lines() -> None:
    query = BatchQuery("results", "anthropic", "b")
    body = endpoint("anthropic", "GET", PATH + "/{id}/results").encode(query, RESULTS).body
    assert [json.loads(each) for each in body.splitlines()] == [
        {"custom_id": "a", "result": {"type": "succeeded", "message": {"id": "x"}}},
        {"custom_id": "b", "result": {"type": "errored", "error": {"id": "x"}}},
        {"custom_id": "c", "result": {"type": "expired"}},
        {"custom_id": "d", "result": {"type": "canceled"}},
    ]


def test_a_file_of_empty_lines_is_refused_at_once() -> None:
    start = time.process_time()
    rows, problems = read_rows(b"\n" * 32 * 1024 * 1024, CHAT)
    assert time.process_time() - start < 1 * slowness()
    assert not rows
    assert problems[0]["code"] == "too_many_lines"
