"""Batches of Amazon Bedrock: rows and results are files in a folder of the user in S3.

Shapes are those of `CreateModelInvocationJob` in AWS's documentation, November 2026. Requests go to two other services:
the API that runs the jobs, and S3.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Literal
from urllib.parse import quote

from dragoman.errors import SetupError
from dragoman.http import HttpRequest, split_base_url
from dragoman.targets.target import S3_HASH, BatchStorage, Target
from dragoman.types import is_object
from dragoman.wires.common.batches import (
    TOKEN,
    EncodedRow,
    ProviderJob,
    RowResult,
    count,
    job_object,
    job_objects,
    read_lines,
)
from dragoman.wires.common.json import encode_json, whole_number

MIN_ROWS = 100
"""The default of the quota "Minimum number of records per batch inference job", which each model has; AWS fails jobs
with fewer rows (2026-11)."""
_JOBS = "/model-invocation-job"
_NAME = f"{TOKEN}-"
_ENDED = frozenset({"Completed", "PartiallyCompleted", "Failed", "Stopped", "Expired"})
_RUNTIME = "bedrock-runtime"
"""In the name of a host: the service that answers single requests."""


class S3Batches:
    """The `Batches` of Bedrock, with rows in the form of one of its APIs."""

    max_rows = 50_000
    max_bytes = 100_000_000

    def __init__(self, api: Literal["Converse", "InvokeModel"], /) -> None:
        self._api = api

    def encode_upload(self, rows: Sequence[EncodedRow], token: str, target: Target, /) -> HttpRequest:
        """PUT of an object with the rows as JSONL."""
        storage = _storage(target)
        if len(rows) < MIN_ROWS:
            raise SetupError(f"{target.provider}: a batch must have at least {MIN_ROWS} rows, got {len(rows)}")
        data = b"".join(_encode_row(row) + b"\n" for row in rows)
        bucket, folder = storage.folder
        return _object_request("PUT", f"s3://{bucket}/{folder}{_NAME}{token}/rows.jsonl", target, data)

    def decode_upload(self, _body: bytes, /) -> str:
        """The answer is empty: the name of the object says where the rows are."""
        return ""

    def encode_job(self, _rows: Sequence[EncodedRow], _file: str | None, token: str, target: Target, /) -> HttpRequest:
        """POST /model-invocation-job. AWS runs a job with the same token once."""
        storage = _storage(target)
        bucket, folder = storage.folder
        place = f"s3://{bucket}/{folder}{_NAME}{token}"
        body = {
            "jobName": f"{_NAME}{token}",
            "clientRequestToken": token,
            "roleArn": storage.role,
            "modelId": target.model,
            "modelInvocationType": self._api,
            "inputDataConfig": {"s3InputDataConfig": {"s3InputFormat": "JSONL", "s3Uri": f"{place}/rows.jsonl"}},
            "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": f"{place}/results/"}},
        }
        return _jobs_request("POST", "", target, encode_json(body))

    def decode_job(self, body: bytes, /) -> ProviderJob:
        """The job of a response; a new one is known only by its ARN."""
        data = job_object(body, "jobArn")
        id = str(data["jobArn"]).rpartition("/")[2]
        status, name = data.get("status"), data.get("jobName")
        is_over = status in _ENDED
        message = f": {data['message']}" if data.get("message") else ""
        done = count(data, "processedRecordCount")
        has_results = status == "Completed" or done > 0
        return ProviderJob(
            id=id,
            state="ended" if is_over else "running",
            total=whole_number(data.get("totalRecordCount")),
            done=done,
            token=name.removeprefix(_NAME) if isinstance(name, str) and name.startswith(_NAME) else None,
            problem=f"{status}{message}" if is_over and status != "Completed" else None,
            results=(_results_uri(data, id),) if is_over and has_results else (),
        )

    def encode_fetch(self, id: str, target: Target, /) -> HttpRequest:
        """GET /model-invocation-job/{id}."""
        return _jobs_request("GET", f"/{id}", target)

    def encode_cancel(self, id: str, target: Target, /) -> HttpRequest:
        """POST /model-invocation-job/{id}/stop."""
        return _jobs_request("POST", f"/{id}/stop", target)

    def encode_list(self, target: Target, /) -> HttpRequest:
        """GET /model-invocation-jobs."""
        query = f"maxResults=100&nameContains={_NAME}&sortBy=CreationTime&sortOrder=Descending"
        return _jobs_request("GET", f"s?{query}", target)

    def decode_list(self, body: bytes, /) -> list[ProviderJob]:
        return [self.decode_job(job) for job in job_objects(body, "invocationJobSummaries")]

    def encode_results(self, place: str, target: Target, /) -> HttpRequest:
        """GET of the object with the results."""
        return _object_request("GET", place, target)

    def decode_results(self, body: bytes, /) -> Iterable[RowResult]:
        for row in read_lines(body):
            id = str(row.get("recordId") or "").replace("x", "-")
            match row:
                case {"modelOutput": output} if is_object(output):
                    yield RowResult(custom_id=id, status=200, body=encode_json(output))
                case {"error": error} if is_object(error):
                    status = whole_number(error.get("errorCode")) or 400
                    # A row that expired was not run.
                    body = b"" if error.get("expired") else encode_json({"message": error.get("errorMessage")})
                    yield RowResult(custom_id=id, status=max(status, 400), body=body)
                case _:
                    yield RowResult(custom_id=id, status=400)


def _encode_row(row: EncodedRow) -> bytes:
    """A row of the file. The id of a record has letters and digits only; ours has digits, a to f and a hyphen."""
    head = encode_json({"recordId": row.custom_id.replace("-", "x")})
    return head[:-1] + b',"modelInput":' + row.http.body + b"}"


def _results_uri(data: dict[str, object], id: str) -> str:
    """The object with the results: each file of rows has one, in a folder with the name of the job."""
    rows, results = _uri(data, "input").rpartition("/")[2], _uri(data, "output").rstrip("/")
    return f"{results}/{id}/{rows}.out"


def _uri(data: dict[str, object], side: str) -> str:
    config = data.get(f"{side}DataConfig")
    place = config.get(f"s3{side.capitalize()}DataConfig") if is_object(config) else None
    return str(place.get("s3Uri") or "") if is_object(place) else ""


def _storage(target: Target) -> BatchStorage:
    storage = target.batch_storage
    if isinstance(storage, str):
        raise SetupError(storage)
    if storage is None:
        raise SetupError(
            f"{target.provider}: batch_storage must be set for batches, got none; set AWS_BEDROCK_BATCH_S3_URI and"
            " AWS_BEDROCK_BATCH_ROLE_ARN"
        )
    if target.credential is None:
        raise SetupError(
            f"{target.provider}: a batch must have keys of AWS, got a bearer token, which S3 does not take; set"
            " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead"
        )
    return storage


def _jobs_request(method: str, path: str, target: Target, body: bytes = b"") -> HttpRequest:
    own = target.batch_storage.jobs_url if isinstance(target.batch_storage, BatchStorage) else None
    origin, prefix = split_base_url(own) if own else (_service(target, "bedrock"), "")
    headers = {"content-type": "application/json"} if method == "POST" else {}
    headers |= {**target.auth_headers(), **target.headers}
    path = f"{prefix}{_JOBS}{path}"
    return HttpRequest(method=method, origin=origin, path=path, headers=headers, body=body, secret=target.api_key)


def _object_request(method: str, uri: str, target: Target, body: bytes = b"") -> HttpRequest:
    """A request for an object. The bucket is in the host if the host is AWS's and its certificate has such names."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    own = _storage(target).s3_url
    origin, prefix = split_base_url(own) if own else (_service(target, "s3"), "")
    if own is None and "." not in bucket and _RUNTIME in target.origin_and_prefix[0]:
        origin = origin.replace("://", f"://{bucket}.", 1)
    else:
        prefix = f"{prefix}/{bucket}"
    headers = {S3_HASH: hashlib.sha256(body).hexdigest()}
    if method == "PUT":
        headers["content-type"] = "application/jsonl"
    return HttpRequest(
        method=method, origin=origin, path=f"{prefix}/{quote(key, safe='/~')}", headers=headers, body=body
    )


def _service(target: Target, name: str) -> str:
    """The address of another service of AWS in the same region."""
    return target.origin_and_prefix[0].replace(_RUNTIME, name, 1)
