"""Batches of each provider: the exact requests, and what is read from the answers."""

import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.errors import Malformed
from dragoman.http import HttpRequest
from dragoman.targets.providers import PROVIDERS, target
from dragoman.targets.target import Target
from dragoman.types import Request, user
from dragoman.wires.common.batches import Batches, EncodedRow, ProviderJob, RowResult, count, job_objects, row_result
from dragoman.wires.common.multipart import decode_form

SPECS = ("openai/m", "openai-responses/m", "groq/m", "mistral/m", "anthropic/m", "google/m")


def batches_at(spec: str) -> tuple[Batches, Target, list[EncodedRow]]:
    at = target(spec, api_key="k")
    wire = wires.get(at.wire)
    http = wire.client.encode_request(Request(messages=(user("hi"),), max_tokens=20), at)
    return wire.batches[at.quirks.batches or ""], at, [EncodedRow("t-0", http), EncodedRow("t-1", http)]


def sent(http: HttpRequest) -> tuple[str, str, Any]:
    return http.method, http.url, json.loads(http.body) if http.body else None


JOBS: dict[str, tuple[str, Any]] = {
    "openai/m": (
        "https://api.openai.com/v1/batches",
        {
            "input_file_id": "f",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"dragoman": "t"},
        },
    ),
    "openai-responses/m": (
        "https://api.openai.com/v1/batches",
        {"input_file_id": "f", "endpoint": "/v1/responses", "completion_window": "24h", "metadata": {"dragoman": "t"}},
    ),
    "groq/m": (
        "https://api.groq.com/openai/v1/batches",
        {
            "input_file_id": "f",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"dragoman": "t"},
        },
    ),
    "mistral/m": (
        "https://api.mistral.ai/v1/batch/jobs",
        {"input_files": ["f"], "model": "m", "endpoint": "/v1/chat/completions", "metadata": {"dragoman": "t"}},
    ),
}


@pytest.mark.parametrize(
    ("provider", "endpoint"), [("azure", "/v1/chat/completions"), ("azure-responses", "/v1/responses")]
)
def test_azure_has_the_batches_of_openai(provider: str, endpoint: str) -> None:
    record = PROVIDERS[provider]
    at = record.target(
        "m", env={"AZURE_OPENAI_ENDPOINT": "https://tides.openai.azure.com", "AZURE_OPENAI_API_KEY": "k"}
    )
    batches = wires.get(at.wire).batches[at.quirks.batches or ""]
    rows = [EncodedRow("t-0", wires.get(at.wire).client.encode_request(Request(messages=(user("hi"),)), at))]
    upload = batches.encode_upload(rows, "t", at)
    assert upload is not None
    assert (upload.url, upload.headers["api-key"]) == ("https://tides.openai.azure.com/openai/v1/files", "k")
    line = json.loads(decode_form(upload)["file"].data)
    assert (line["url"], line["body"]["model"]) == (endpoint, "m")
    job = batches.encode_job(rows, "f", "t", at)
    assert job.url == "https://tides.openai.azure.com/openai/v1/batches"
    assert json.loads(job.body)["endpoint"] == endpoint
    assert PROVIDERS["azure-deployments"].quirks.batches is None


@pytest.mark.parametrize("spec", JOBS)
def test_rows_are_uploaded_and_named_by_the_job(spec: str) -> None:
    batches, at, rows = batches_at(spec)
    upload = batches.encode_upload(rows, "t", at)
    assert upload is not None
    assert upload.headers["authorization"] == "Bearer k"
    form = decode_form(upload)
    assert form["purpose"].text == "batch"
    lines = [json.loads(line) for line in form["file"].data.splitlines()]
    body = json.loads(rows[0].http.body)
    assert lines[1] == {"custom_id": "t-1", "method": "POST", "url": JOBS[spec][1]["endpoint"], "body": body}
    assert batches.decode_upload(b'{"id": "f"}') == "f"
    assert sent(batches.encode_job(rows, "f", "t", at)) == ("POST", *JOBS[spec])


def test_the_rows_of_anthropic_are_in_the_job() -> None:
    batches, at, rows = batches_at("anthropic/m")
    assert batches.encode_upload(rows, "t", at) is None
    assert batches.decode_upload(b"") == ""
    beta = HttpRequest(method="POST", path="/", headers={"anthropic-beta": "b, a"}, body=rows[0].http.body)
    http = batches.encode_job([rows[0], EncodedRow("t-1", beta)], None, "t", at)
    params = json.loads(rows[0].http.body)
    requests = [{"custom_id": "t-0", "params": params}, {"custom_id": "t-1", "params": params}]
    assert sent(http) == ("POST", "https://api.anthropic.com/v1/messages/batches", {"requests": requests})
    assert http.headers["anthropic-beta"] == "a,b"
    assert http.headers["anthropic-version"]
    assert "anthropic-beta" not in batches.encode_job(rows, None, "t", at).headers


def test_the_rows_of_google_are_in_the_job() -> None:
    batches, at, rows = batches_at("google/m")
    assert batches.encode_upload(rows, "t", at) is None
    assert batches.decode_upload(b"") == ""
    request = json.loads(rows[0].http.body)
    listed = [{"request": request, "metadata": {"key": f"t-{number}"}} for number in range(2)]
    body = {"batch": {"displayName": "t", "inputConfig": {"requests": {"requests": listed}}}}
    url = "https://generativelanguage.googleapis.com/v1beta/models/m:batchGenerateContent"
    assert sent(batches.encode_job(rows, None, "t", at)) == ("POST", url, body)


PATHS = {
    "openai/m": ("/batches/j", "/batches/j/cancel", "/batches?limit=100", "/files/r/content"),
    "mistral/m": ("/batch/jobs/j", "/batch/jobs/j/cancel", "/batch/jobs?page_size=100", "/files/r/content"),
    "anthropic/m": (
        "/messages/batches/j",
        "/messages/batches/j/cancel",
        "/messages/batches?limit=100",
        "/messages/batches/j/results",
    ),
    "google/m": ("/batches/j", "/batches/j:cancel", "/batches?pageSize=100", "/batches/j"),
}


@pytest.mark.parametrize("spec", PATHS)
def test_a_job_is_fetched_cancelled_listed_and_read(spec: str) -> None:
    batches, at, _ = batches_at(spec)
    id = "batches/j" if spec == "google/m" else "j"
    place = {"google/m": "batches/j", "anthropic/m": "/messages/batches/j/results"}.get(spec, "r")
    made = [
        batches.encode_fetch(id, at),
        batches.encode_cancel(id, at),
        batches.encode_list(at),
        batches.encode_results(place, at),
    ]
    assert tuple(http.url.removeprefix(at.base_url) for http in made) == PATHS[spec]
    assert [http.method for http in made] == ["GET", "POST", "GET", "GET"]


OPENAI = {"id": "j", "created_at": 5, "metadata": {"dragoman": "t"}, "request_counts": {"total": 3, "completed": 1}}
READ: list[tuple[str, Any, ProviderJob]] = [
    (
        "openai/m",
        {**OPENAI, "status": "in_progress", "output_file_id": None},
        ProviderJob(id="j", state="running", total=3, done=1, token="t", created=5),
    ),
    (
        "openai/m",
        {**OPENAI, "status": "completed", "output_file_id": "o", "error_file_id": "e"},
        ProviderJob(id="j", state="ended", total=3, done=1, token="t", created=5, results=("o", "e")),
    ),
    (
        "openai/m",
        {"id": "j", "status": "failed", "errors": {"data": [{"message": "bad line"}]}, "metadata": None},
        ProviderJob(id="j", state="ended", problem="failed: bad line"),
    ),
    (
        "openai/m",  # as Azure writes it
        {
            "id": "j",
            "status": "Validating",
            "created_at": "1970-01-01T00:00:05.2491382+00:00",
            "metadata": None,
            "request_counts": {"total": None, "completed": None},
        },
        ProviderJob(id="j", state="running", created=5.249138),
    ),
    ("openai/m", {"id": "j", "status": "Failed"}, ProviderJob(id="j", state="ended", problem="failed")),
    ("openai/m", {"id": "j", "status": "expired", "errors": {}}, ProviderJob(id="j", state="ended", problem="expired")),
    (
        "mistral/m",
        {"id": "j", "status": "RUNNING", "total_requests": 3, "succeeded_requests": 1, "failed_requests": 1},
        ProviderJob(id="j", state="running", total=3, done=2),
    ),
    (
        "mistral/m",
        {"id": "j", "status": "SUCCESS", "output_file": "o", "metadata": {"dragoman": 3}},
        ProviderJob(id="j", state="ended", results=("o",)),
    ),
    (
        "mistral/m",
        {"id": "j", "status": "TIMEOUT_EXCEEDED", "errors": [{"message": "late"}]},
        ProviderJob(id="j", state="ended", problem="TIMEOUT_EXCEEDED: late"),
    ),
    (
        "anthropic/m",
        {"id": "j", "processing_status": "in_progress", "request_counts": {"processing": 2, "succeeded": 1}},
        ProviderJob(id="j", state="running", total=3, done=1),
    ),
    (
        "anthropic/m",
        {
            "id": "j",
            "processing_status": "ended",
            "request_counts": {"succeeded": 1, "expired": 2},
            "created_at": "1970-01-01T00:00:05+00:00",
        },
        ProviderJob(
            id="j",
            state="ended",
            total=3,
            done=3,
            created=5.0,
            problem="expired",
            results=("/messages/batches/j/results",),
        ),
    ),
    (
        "google/m",
        {
            "name": "batches/j",
            "metadata": {
                "state": "BATCH_STATE_RUNNING",
                "displayName": "t",
                "batchStats": {"requestCount": "3", "successfulRequestCount": 1},
            },
        },
        ProviderJob(id="batches/j", state="running", total=3, done=1, token="t"),
    ),
    (
        "google/m",
        {"name": "batches/j", "metadata": {"state": "JOB_STATE_EXPIRED"}},
        ProviderJob(id="batches/j", state="ended", problem="expired", results=("batches/j",)),
    ),
    (
        "google/m",
        {"name": "batches/j", "done": True, "error": {"message": "no quota"}},
        ProviderJob(id="batches/j", state="ended", problem="no quota", results=("batches/j",)),
    ),
    (
        "google/m",
        {"name": "batches/j", "state": "BATCH_STATE_SUCCEEDED"},
        ProviderJob(id="batches/j", state="ended", results=("batches/j",)),
    ),
]


@pytest.mark.parametrize(("spec", "body", "job"), READ)
def test_the_state_of_a_job_is_read(spec: str, body: Any, job: ProviderJob) -> None:
    batches, _, _ = batches_at(spec)
    assert batches.decode_job(json.dumps(body).encode()) == job
    name = "operations" if spec == "google/m" else "data"
    assert batches.decode_list(json.dumps({name: [body, 3]}).encode()) == [job]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"id": 3}', b"x"])
def test_a_body_that_is_not_a_job_is_malformed(spec: str, body: bytes) -> None:
    with pytest.raises(Malformed):
        batches_at(spec)[0].decode_job(body)


def test_a_list_without_jobs_is_empty() -> None:
    assert job_objects(b'{"data": null}', "data") == []
    assert job_objects(b"[]", "data") == []
    assert count(None, "a") == 0


def test_results_of_files_are_read() -> None:
    rows: list[Any] = [
        {"custom_id": "a", "response": {"status_code": 200, "body": {"id": "x"}}, "error": None},
        {"custom_id": "b", "response": {"status_code": 400, "body": {"error": {"message": "no"}}}},
        {"custom_id": "c", "response": None, "error": {"code": "batch_expired", "message": "late"}},
        {"custom_id": "d", "response": None, "error": {"code": "other"}},
        {"custom_id": "e", "response": {"body": '{"id":"y"}'}},
        [1],
    ]
    body = b"\n".join(json.dumps(row).encode() for row in rows) + b'\n\n{"custom_id": "cut'
    assert list(batches_at("openai/m")[0].decode_results(body)) == [
        RowResult(custom_id="a", status=200, body=b'{"id":"x"}'),
        RowResult(custom_id="b", status=400, body=b'{"error":{"message":"no"}}'),
        RowResult(custom_id="c", status=400),
        RowResult(custom_id="d", status=400, body=b'{"error":{"code":"other"}}'),
        RowResult(custom_id="e", status=200, body=b'{"id":"y"}'),
    ]
    assert row_result({}) == RowResult(custom_id="", status=400)


def test_results_of_anthropic_are_read() -> None:
    refused = {"type": "error", "error": {"message": "no"}}
    rows: list[Any] = [
        {"custom_id": "a", "result": {"type": "succeeded", "message": {"id": "x"}}},
        {"custom_id": "b", "result": {"type": "errored", "error": refused}},
        {"custom_id": "c", "result": {"type": "expired"}},
    ]
    body = b"\n".join(json.dumps(row).encode() for row in rows)
    assert list(batches_at("anthropic/m")[0].decode_results(body)) == [
        RowResult(custom_id="a", status=200, body=b'{"id":"x"}'),
        RowResult(custom_id="b", status=400, body=json.dumps(refused, separators=(",", ":")).encode()),
        RowResult(custom_id="c", status=400),
    ]


@pytest.mark.parametrize("place", ["response", "metadata", "output"])
def test_results_of_google_are_read(place: str) -> None:
    rows: list[Any] = [
        {"metadata": {"key": "a"}, "response": {"id": "x"}},
        {"metadata": {"key": "b"}, "error": {"code": 3, "message": "no"}},
        {"metadata": {"key": "c"}, "error": {"code": 429}},
        {"metadata": {"key": "d"}},
        {"response": {}},
        3,
    ]
    inlined = {"inlinedResponses": {"inlinedResponses": rows}}
    body = {"name": "batches/j", place: {"output": inlined} if place == "metadata" else inlined}
    assert list(batches_at("google/m")[0].decode_results(json.dumps(body).encode())) == [
        RowResult(custom_id="a", status=200, body=b'{"id":"x"}'),
        RowResult(custom_id="b", status=400, body=b'{"error":{"code":3,"message":"no"}}'),
        RowResult(custom_id="c", status=429, body=b'{"error":{"code":429}}'),
        RowResult(custom_id="d", status=400),
        RowResult(custom_id="", status=200, body=b"{}"),
    ]
    assert list(batches_at("google/m")[0].decode_results(b'{"name": "batches/j"}')) == []
