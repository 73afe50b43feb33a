"""Batches of a provider: many requests in one job, at a lower price, answered within hours.

A wire says how a job is created, watched, cancelled and read; `engine/provider_batches.py` has the plans. Each row has
a `custom_id`; a job has a token of the caller in its metadata or name, so that it can be found again if its id was
lost. Shapes are those of the providers' documentation, November 2026.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from dragoman.errors import Malformed
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import JsonObject, is_object
from dragoman.wires.common.json import DECODE_ERRORS, decode_json, encode_json, objects, whole_number

TOKEN = "dragoman"  # noqa: S105 - the name of a member
"""The member of a job's metadata with the token of the caller."""
_ANY = msgspec.json.Decoder()


class EncodedRow(msgspec.Struct, frozen=True):
    """A request of a batch: its id in the job, and the HTTP request that would send it by itself."""

    custom_id: str
    http: HttpRequest


class ProviderJob(msgspec.Struct, frozen=True, kw_only=True):
    """A batch at a provider, as far as it is."""

    id: str
    state: Literal["running", "ended"]
    total: int | None = None
    done: int = 0
    """Rows that have a result: an answer or an error."""
    token: str | None = None
    created: float | None = None
    """In Unix seconds."""
    problem: str | None = None
    """Why it ended without all of its results: it was refused, it expired, or it was cancelled."""
    results: tuple[str, ...] = ()
    """Where its results are: ids of files, or paths."""


class RowResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one row: the body of an answer, or of an error."""

    custom_id: str
    status: int
    body: bytes = b""
    """Empty if the row was not run: it expired or was cancelled."""


class Batches(Protocol):
    """How a provider runs batches."""

    max_rows: int
    max_bytes: int

    def encode_upload(self, rows: Sequence[EncodedRow], token: str, target: Target, /) -> HttpRequest | None:
        """The request that uploads the rows; None if they are a part of the job."""
        ...

    def decode_upload(self, body: bytes, /) -> str:
        """The id of the uploaded rows."""
        ...

    def encode_job(self, rows: Sequence[EncodedRow], file: str | None, token: str, target: Target, /) -> HttpRequest:
        """The request that creates the job."""
        ...

    def decode_job(self, body: bytes, /) -> ProviderJob:
        """A job, after it was created, fetched or cancelled."""
        ...

    def encode_fetch(self, id: str, target: Target, /) -> HttpRequest:
        """The request for the state of a job."""
        ...

    def encode_cancel(self, id: str, target: Target, /) -> HttpRequest:
        """The request that cancels a job."""
        ...

    def encode_list(self, target: Target, /) -> HttpRequest:
        """The request for the newest jobs."""
        ...

    def decode_list(self, body: bytes, /) -> list[ProviderJob]:
        """The jobs of a list."""
        ...

    def encode_results(self, place: str, target: Target, /) -> HttpRequest:
        """The request for the results at one place."""
        ...

    def decode_results(self, body: bytes, /) -> Iterable[RowResult]:
        """The results of some rows."""
        ...


class InlineRows:
    """Batches whose rows are a part of the job: nothing is uploaded."""

    def encode_upload(self, _rows: Sequence[EncodedRow], _token: str, _target: Target, /) -> HttpRequest | None:
        return None

    def decode_upload(self, _body: bytes, /) -> str:
        return ""


def job_object(body: bytes, id: str = "id", /) -> JsonObject:
    """The JSON object of a job; Malformed if it has no id."""
    data = decode_json(_ANY, body)
    if not is_object(data) or not isinstance(data.get(id), str):
        raise Malformed("the response is not a batch: it has no id")
    return data


def job_objects(body: bytes, name: str, /) -> list[bytes]:
    """The jobs of a list, each as JSON.

    >>> job_objects(b'{"data": [{"id": "batch_1"}]}', "data")
    [b'{"id":"batch_1"}']
    """
    data = decode_json(_ANY, body)
    listed = data.get(name) if is_object(data) else None
    return [encode_json(item) for item in objects(listed)]


def read_lines(body: bytes, /) -> Iterable[JsonObject]:
    """The objects of a JSONL file; a line that was cut off is left out, so that its row counts as not answered.

    >>> list(read_lines(b'{"a": 1}\\n\\n{"b"'))
    [{'a': 1}]
    """
    for line in body.split(b"\n"):
        if not line.strip():
            continue
        try:
            data = msgspec.json.decode(line)
        except DECODE_ERRORS:
            continue
        if is_object(data):
            yield data


def count(data: object, /, *names: str) -> int:
    """The sum of some members of an object that are whole numbers.

    >>> count({"completed": 2, "failed": 1}, "completed", "failed", "total_")
    3
    """
    return sum(whole_number(data.get(name)) or 0 for name in names) if is_object(data) else 0


def read_time(value: object, /) -> float | None:
    """The Unix seconds of a time that is written as such, or as text.

    >>> read_time(5), read_time("1970-01-01T00:00:05Z"), read_time(None)
    (5.0, 5.0, None)
    """
    if (seconds := whole_number(value)) is not None:
        return float(seconds)
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return None


def row_result(row: JsonObject, /) -> RowResult:
    """A result in the form of OpenAI, which Groq and Mistral share.

    >>> row_result({"custom_id": "a", "response": {"status_code": 200, "body": {"id": "x"}}}).body
    b'{"id":"x"}'
    """
    response, error = row.get("response"), row.get("error")
    id = str(row.get("custom_id") or "")
    if is_object(response) and response.get("body"):
        status = whole_number(response.get("status_code")) or 200
        body = response["body"]
        # Mistral has had the body as text.
        return RowResult(
            custom_id=id, status=status, body=body.encode() if isinstance(body, str) else encode_json(body)
        )
    is_error = is_object(error) and error.get("code") != "batch_expired"
    return RowResult(custom_id=id, status=400, body=encode_json({"error": error}) if is_error else b"")
