"""Batches by the official packages against a live gateway."""

import json
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from anthropic import Anthropic
from openai import OpenAI

from dragoman.gateway.auth.api_keys import hash_key
from tests.support.gateway.live import Gateway

ANN, BEN = "dgm-ann-000000000000000000000000", "dgm-ben-000000000000000000000000"
PATIENCE = 30.0
MESSAGES: Any = [{"role": "user", "content": "Is it so?"}]
ANSWER = "You said “Is it so?”, which is 3 words."


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("batches")
    config = f"""[gateway]
providers = ["demo"]
store = "sqlite:///{folder}/store.db"
[keys.ann]
hash = "{hash_key(ANN)}"
[keys.ben]
hash = "{hash_key(BEN)}"
"""
    with Gateway(folder, config) as running:
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=ANN, max_retries=0) as client:
        yield client


@pytest.fixture
def claude(gateway: Gateway) -> Iterator[Anthropic]:
    with Anthropic(base_url=gateway.url, api_key=ANN, max_retries=0) as client:
        yield client


def row(id: str, model: str = "demo/any", url: str = "/v1/chat/completions", **body: Any) -> Any:
    body = body or {"messages": MESSAGES}
    return {"custom_id": id, "method": "POST", "url": url, "body": {"model": model, **body}}


def submit(client: OpenAI, rows: list[Any], endpoint: Any = "/v1/chat/completions") -> Any:
    data = b"".join(json.dumps(each).encode() + b"\n" for each in rows)
    file = client.files.create(file=("rows.jsonl", data), purpose="batch")
    return client.batches.create(
        input_file_id=file.id, endpoint=endpoint, completion_window="24h", metadata={"team": "a"}
    )


def wait(client: OpenAI, id: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        batch = client.batches.retrieve(id)
        if batch.status not in ("validating", "in_progress", "finalizing", "cancelling"):
            return batch
        time.sleep(0.05)
    raise AssertionError("the batch does not end")


def lines(client: OpenAI, file: str) -> dict[str, Any]:
    found = [json.loads(line) for line in client.files.content(file).text.splitlines()]
    return {each["custom_id"]: each for each in found}


def test_a_batch_of_openai_is_run(client: OpenAI) -> None:
    batch = submit(client, [row("a"), row("b"), row("c", "demo/none")])
    assert (batch.status, batch.object) == ("in_progress", "batch")
    done = wait(client, batch.id)
    assert (done.status, done.metadata) == ("completed", {"team": "a"})
    assert (done.request_counts.total, done.request_counts.completed, done.request_counts.failed) == (3, 2, 1)
    answers = lines(client, done.output_file_id)
    assert {id: each["response"]["body"]["choices"][0]["message"]["content"] for id, each in answers.items()} == {
        "a": ANSWER,
        "b": ANSWER,
    }
    errors = lines(client, done.error_file_id)
    assert (errors["c"]["response"]["status_code"], errors["c"]["error"]) == (404, None)
    assert batch.id in [each.id for each in client.batches.list(limit=1)]


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("/v1/embeddings", {"input": "ships"}),
        ("/v1/responses", {"input": "Is it so?"}),
        ("/v1/completions", {"prompt": "Once"}),
    ],
)
def test_other_endpoints_can_be_in_a_batch(client: OpenAI, endpoint: str, body: Any) -> None:
    done = wait(client, submit(client, [row("a", url=endpoint, **body)], endpoint).id)
    assert done.status == "completed"
    assert lines(client, done.output_file_id)["a"]["response"]["status_code"] == 200


def test_a_stream_in_a_batch_is_an_error_of_its_row(client: OpenAI) -> None:
    done = wait(client, submit(client, [row("a", messages=MESSAGES, stream=True), row("b")]).id)
    assert "stream must be left out" in json.dumps(lines(client, done.error_file_id)["a"])
    assert list(lines(client, done.output_file_id)) == ["b"]


def test_a_wrong_file_is_a_failed_batch_that_says_why(client: OpenAI) -> None:
    rows = [row("a"), row("a"), row("b", url="/v1/responses"), {"custom_id": "c"}]
    batch = submit(client, rows)
    assert batch.status == "failed"
    assert [(error.line, error.code) for error in batch.errors.data] == [
        (2, "invalid_line"),
        (3, "invalid_line"),
        (4, "invalid_line"),
    ]
    assert client.batches.retrieve(batch.id).status == "failed"


def test_a_missing_file_is_an_error(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="upload it again"):
        client.batches.create(input_file_id="file-none", endpoint="/v1/chat/completions", completion_window="24h")
    with pytest.raises(openai.BadRequestError, match="endpoint must be one of"):
        client.batches.create(input_file_id="f", endpoint="/v1/moderations", completion_window="24h")


def test_a_batch_belongs_to_its_key(client: OpenAI, gateway: Gateway) -> None:
    batch = submit(client, [row("a")])
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=BEN, max_retries=0) as other:
        assert list(other.batches.list()) == []
        for action in (other.batches.retrieve, other.batches.cancel):
            with pytest.raises(openai.NotFoundError):
                action(batch.id)
    assert wait(client, batch.id).status == "completed"


def test_a_batch_that_has_ended_stays_as_it_is(client: OpenAI) -> None:
    done = wait(client, submit(client, [row("a")]).id)
    assert client.batches.cancel(done.id).status == "completed"


def test_a_batch_of_anthropic_is_run(claude: Anthropic, client: OpenAI) -> None:
    params: Any = {"model": "demo/any", "max_tokens": 50, "messages": MESSAGES}
    wrong: Any = {"model": "demo/none", "max_tokens": 50, "messages": MESSAGES}
    requests: Any = [{"custom_id": "a", "params": params}, {"custom_id": "b", "params": wrong}]
    batch = claude.messages.batches.create(requests=requests)
    assert batch.processing_status == "in_progress"
    deadline = time.monotonic() + PATIENCE
    while claude.messages.batches.retrieve(batch.id).processing_status != "ended":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    done = claude.messages.batches.retrieve(batch.id)
    assert (done.request_counts.succeeded, done.request_counts.errored, done.request_counts.processing) == (1, 1, 0)
    results: dict[str, Any] = {each.custom_id: each.result for each in claude.messages.batches.results(batch.id)}
    assert results["a"].message.content[0].text == ANSWER
    assert (results["b"].type, results["b"].error.error.type) == ("errored", "not_found_error")
    assert batch.id in [each.id for each in claude.messages.batches.list()]
    assert batch.id not in [each.id for each in client.batches.list()], "each dialect has its own batches"
    assert claude.messages.batches.delete(batch.id).id == batch.id
    with pytest.raises(anthropic.NotFoundError):
        claude.messages.batches.retrieve(batch.id)


@pytest.mark.parametrize("id", ["a b", "", "x" * 65])
def test_a_wrong_id_is_refused(claude: Anthropic, id: str) -> None:
    params: Any = {"model": "demo/any", "max_tokens": 50, "messages": MESSAGES}
    with pytest.raises(anthropic.BadRequestError, match="custom_id"):
        claude.messages.batches.create(requests=[{"custom_id": id, "params": params}])
