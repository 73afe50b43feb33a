"""Batches of Bedrock: the exact requests, compared with botocore's own, and what is read from the answers."""

import hashlib
import json
from importlib import import_module
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import SetupError
from dragoman.http import Head, HttpRequest
from dragoman.targets.provider import Provider
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import BatchStorage, Target
from dragoman.types import Request, user
from dragoman.wires.common.batches import EncodedRow, ProviderJob, RowResult
from dragoman.wires.common.s3_batches import S3Batches

ENV = {"AWS_REGION": "eu-west-1"}
STORAGE = BatchStorage(uri="s3://tides/a/b", role="arn:aws:iam::123456789012:role/batches")
ARN = "arn:aws:bedrock:eu-west-1:123456789012:model-invocation-job/abc123def456"
APIS = {"bedrock": "Converse", "bedrock-anthropic": "InvokeModel"}


def target_of(provider: str = "bedrock", storage: BatchStorage | None = STORAGE, **fields: Any) -> Target:
    found = PROVIDERS[provider].target("anthropic.claude-x", env=ENV)
    return replace(found, batch_storage=storage, **{"credential": object(), **fields})


def batches_of(provider: str = "bedrock") -> S3Batches:
    found = wires.get(PROVIDERS[provider].wire).batches["s3"]
    assert isinstance(found, S3Batches)
    return found


def rows_of(target: Target, size: int = 100) -> list[EncodedRow]:
    http = wires.get(target.wire).client.encode_request(Request(messages=(user("hi"),)), target)
    return [EncodedRow(f"0af-{number}", http) for number in range(size)]


def oracle(operation: str, arguments: dict[str, Any]) -> tuple[str, str, Any]:
    """The method, path and body that botocore sends; it refuses arguments that are not of the API."""
    model = import_module("botocore.session").Session().get_service_model("bedrock").operation_model(operation)
    report = import_module("botocore.validate").ParamValidator().validate(arguments, model.input_shape)
    assert not report.has_errors(), report.generate_report()
    made = import_module("botocore.serialize").create_serializer("rest-json").serialize_to_request(arguments, model)
    query = "&".join(f"{name}={value}" for name, value in sorted(made["query_string"].items()))
    return made["method"], made["url_path"] + (f"?{query}" if query else ""), json.loads(made["body"] or "null")


def sent(http: HttpRequest) -> tuple[str, str, Any]:
    return http.method, http.path, json.loads(http.body or b"null")


@pytest.mark.parametrize("provider", APIS)
def test_a_job_is_created_as_botocore_does(provider: str) -> None:
    http = batches_of(provider).encode_job([], "", "0af", target_of(provider))
    arguments = {
        "jobName": "dragoman-0af",
        "clientRequestToken": "0af",
        "roleArn": STORAGE.role,
        "modelId": "anthropic.claude-x",
        "modelInvocationType": APIS[provider],
        "inputDataConfig": {
            "s3InputDataConfig": {"s3InputFormat": "JSONL", "s3Uri": "s3://tides/a/b/dragoman-0af/rows.jsonl"}
        },
        "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "s3://tides/a/b/dragoman-0af/results/"}},
    }
    assert sent(http) == oracle("CreateModelInvocationJob", arguments)
    assert http.origin == "https://bedrock.eu-west-1.amazonaws.com"
    assert http.headers["content-type"] == "application/json"


def test_a_job_is_fetched_cancelled_and_listed_as_botocore_does() -> None:
    batches, at, id = batches_of(), target_of(), {"jobIdentifier": "abc123def456"}
    assert sent(batches.encode_fetch("abc123def456", at)) == oracle("GetModelInvocationJob", id)
    assert sent(batches.encode_cancel("abc123def456", at)) == oracle("StopModelInvocationJob", id)
    query = {"maxResults": 100, "nameContains": "dragoman-", "sortBy": "CreationTime", "sortOrder": "Descending"}
    assert sent(batches.encode_list(at)) == oracle("ListModelInvocationJobs", query)


@pytest.mark.parametrize("provider", APIS)
def test_rows_are_an_object_of_the_bucket(provider: str) -> None:
    at = target_of(provider)
    rows = rows_of(at)
    http = batches_of(provider).encode_upload(rows, "0af", at)
    assert (http.method, http.url) == (
        "PUT",
        "https://tides.s3.eu-west-1.amazonaws.com/a/b/dragoman-0af/rows.jsonl",
    )
    assert http.headers["x-amz-content-sha256"] == hashlib.sha256(http.body).hexdigest()
    lines = [json.loads(line) for line in http.body.splitlines()]
    assert lines[99] == {"recordId": "0afx99", "modelInput": json.loads(rows[0].http.body)}
    assert batches_of().decode_upload(b"") == ""


@pytest.mark.parametrize(
    ("storage", "base_url", "url"),
    [
        ({"uri": "s3://tides"}, None, "https://tides.s3.eu-west-1.amazonaws.com/k%20%C3%A9"),
        ({"uri": "s3://tides.net/"}, None, "https://s3.eu-west-1.amazonaws.com/tides.net/k%20%C3%A9"),
        ({"s3_url": "http://box:9000/s3"}, None, "http://box:9000/s3/tides/k%20%C3%A9"),
        ({}, "http://box:8000", "http://box:8000/tides/k%20%C3%A9"),
    ],
)
def test_the_bucket_is_in_the_host_where_that_works(storage: dict[str, Any], base_url: str | None, url: str) -> None:
    at = target_of(storage=replace(STORAGE, **storage))
    at = at if base_url is None else replace(at, base_url=base_url)
    bucket = replace(STORAGE, **storage).folder[0]
    assert batches_of().encode_results(f"s3://{bucket}/k é", at).url == url


def test_the_jobs_have_an_address_of_their_own() -> None:
    at = target_of(storage=replace(STORAGE, jobs_url="https://vpce.example/x"))
    assert batches_of().encode_fetch("j", at).url == "https://vpce.example/x/model-invocation-job/j"
    assert batches_of().encode_fetch("j", target_of(storage=None)).origin == "https://bedrock.eu-west-1.amazonaws.com"


@pytest.mark.parametrize(
    ("fields", "size", "reason"),
    [
        ({"storage": None}, 100, "set AWS_BEDROCK_BATCH_S3_URI and AWS_BEDROCK_BATCH_ROLE_ARN"),
        ({"credential": None, "api_key": "k"}, 100, "got a bearer token"),
        ({}, 99, "a batch must have at least 100 rows, got 99"),
    ],
)
def test_what_a_job_needs_is_said(fields: dict[str, Any], size: int, reason: str) -> None:
    at = target_of(**fields)
    with pytest.raises(SetupError, match=reason):
        batches_of().encode_upload(rows_of(target_of(), size), "t", at)


PLACES = {
    "inputDataConfig": {"s3InputDataConfig": {"s3Uri": "s3://tides/a/dragoman-0af/rows.jsonl"}},
    "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "s3://tides/a/dragoman-0af/results/"}},
}
RESULTS = ("s3://tides/a/dragoman-0af/results/abc123def456/rows.jsonl.out",)
JOB = {"jobArn": ARN, "jobName": "dragoman-0af", **PLACES, "totalRecordCount": 3, "processedRecordCount": 2}


@pytest.mark.parametrize(
    ("body", "job"),
    [
        ({"jobArn": ARN}, ProviderJob(id="abc123def456", state="running")),
        *(
            (
                {**JOB, "status": status},
                ProviderJob(id="abc123def456", state="running", total=3, done=2, token="0af"),
            )
            for status in ("Submitted", "Validating", "Scheduled", "InProgress", "Stopping")
        ),
        (
            {**JOB, "status": "Completed"},
            ProviderJob(id="abc123def456", state="ended", total=3, done=2, token="0af", results=RESULTS),
        ),
        *(
            (
                {**JOB, "status": status},
                ProviderJob(
                    id="abc123def456", state="ended", total=3, done=2, token="0af", problem=status, results=RESULTS
                ),
            )
            for status in ("PartiallyCompleted", "Stopped", "Expired")
        ),
        (
            {"jobArn": ARN, "jobName": "other", "status": "Failed", "message": "no bucket", **PLACES},
            ProviderJob(id="abc123def456", state="ended", problem="Failed: no bucket"),
        ),
        (
            {"jobArn": ARN, "status": "Completed", "inputDataConfig": {}},
            ProviderJob(id="abc123def456", state="ended", results=("/abc123def456/.out",)),
        ),
    ],
)
def test_the_state_of_a_job_is_read(body: Any, job: ProviderJob) -> None:
    batches = batches_of()
    assert batches.decode_job(json.dumps(body).encode()) == job
    assert batches.decode_list(json.dumps({"invocationJobSummaries": [body]}).encode()) == [job]


def test_results_are_read() -> None:
    rows: list[Any] = [
        {"recordId": "0afx0", "modelInput": {}, "modelOutput": {"output": {}}},
        {"recordId": "0afx1", "error": {"errorCode": 429, "errorMessage": "slow"}},
        {"recordId": "0afx2", "error": {"errorCode": 1, "errorMessage": "no"}},
        {"recordId": "0afx3", "error": {"errorCode": 400, "errorMessage": "late", "expired": True}},
        {"recordId": "0afx4"},
    ]
    body = b"\n".join(json.dumps(row).encode() for row in rows)
    assert list(batches_of().decode_results(body)) == [
        RowResult(custom_id="0af-0", status=200, body=b'{"output":{}}'),
        RowResult(custom_id="0af-1", status=429, body=b'{"message":"slow"}'),
        RowResult(custom_id="0af-2", status=400, body=b'{"message":"no"}'),
        RowResult(custom_id="0af-3", status=400),
        RowResult(custom_id="0af-4", status=400),
    ]


XML = b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>%s</Code>%s<Resource>/tides</Resource></Error>'


@pytest.mark.parametrize("wire", ["bedrock", "anthropic"])
def test_the_errors_of_the_bucket_are_read(wire: str) -> None:
    decode = wires.get(wire).client.decode_error
    missing = decode(Head(status=404), XML % (b"NoSuchBucket", b"<Message>no such bucket</Message>"))
    assert (missing.status, missing.code, missing.message) == (404, "NoSuchBucket", "no such bucket")
    expired = decode(Head(status=400), XML % (b"ExpiredToken", b"<Message>old</Message>"))
    assert expired.status == 401
    assert "<Code>Strange</Code>" in decode(Head(status=500), XML % (b"Strange", b"")).message


# The storage ----------------------------------------------------------------------------------------------------------

NAMED = {"AWS_BEDROCK_BATCH_S3_URI": "s3://tides/a/b", "AWS_BEDROCK_BATCH_ROLE_ARN": STORAGE.role}


def storage_of(record: Provider, **env: str) -> BatchStorage | str | None:
    return record.target("m", env={**ENV, **env}).batch_storage


def test_the_storage_is_read_from_the_environment() -> None:
    bedrock = PROVIDERS["bedrock"]
    assert storage_of(bedrock, **NAMED) == STORAGE
    assert storage_of(PROVIDERS["bedrock-anthropic"], **NAMED) == STORAGE
    own = {"AWS_ENDPOINT_URL_S3": "http://box:1", "AWS_ENDPOINT_URL_BEDROCK": "http://box:2"}
    assert storage_of(bedrock, **NAMED, **own) == replace(STORAGE, s3_url="http://box:1", jobs_url="http://box:2")
    assert storage_of(bedrock, AWS_BEDROCK_BATCH_S3_URI="s3://tides") is None
    other = replace(STORAGE, uri="s3://other")
    assert storage_of(replace(bedrock, batch_storage=other), **NAMED) == other
    assert storage_of(PROVIDERS["openai"], **NAMED) is None


@pytest.mark.parametrize(
    ("variable", "value"),
    [("AWS_BEDROCK_BATCH_S3_URI", "tides"), ("AWS_BEDROCK_BATCH_ROLE_ARN", "batches")],
)
def test_a_wrong_variable_is_named_by_a_batch_and_hinders_no_call(variable: str, value: str) -> None:
    target = PROVIDERS["bedrock"].target("m", env={**ENV, **NAMED, variable: value})
    rows = rows_of(target)
    assert rows[0].http.path == "/model/m/converse"
    with pytest.raises(SetupError, match=f"bedrock: {variable}: .* must be .*, got '{value}'"):
        batches_of().encode_upload(rows, "0af", target)
    assert batches_of().encode_fetch("j", target).origin == "https://bedrock.eu-west-1.amazonaws.com"
