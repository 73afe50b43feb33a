"""Batches of OpenAI, and of the servers that have the same: rows in a file, results in another one.

Azure writes some values otherwise: a time as text, and the first letter of a status as a capital.
"""

from collections.abc import Iterable, Sequence

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import JsonObject, is_list, is_object
from dragoman.wires.common.batches import (
    TOKEN,
    EncodedRow,
    ProviderJob,
    RowResult,
    count,
    job_object,
    job_objects,
    read_lines,
    read_time,
    row_result,
)
from dragoman.wires.common.http import get_request, post_request
from dragoman.wires.common.json import encode_json, whole_number
from dragoman.wires.common.multipart import FormField, encode_form
from dragoman.wires.common.uploads import upload_request

_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_MISTRAL_ENDED = frozenset({"SUCCESS", "FAILED", "TIMEOUT_EXCEEDED", "CANCELLED"})


class FileBatches:
    """The `Batches` of OpenAI and Groq."""

    max_rows = 50_000
    max_bytes = 100_000_000
    _path = "/batches"

    def encode_upload(self, rows: Sequence[EncodedRow], _token: str, target: Target, /) -> HttpRequest:
        """POST /files with the rows as JSONL."""
        data = b"".join(encode_row(row, target) + b"\n" for row in rows)
        fields = [
            ("purpose", FormField(data=b"batch")),
            ("file", FormField(data=data, filename="rows.jsonl", mime="application/jsonl")),
        ]
        headers, body = encode_form(fields)
        return upload_request(target, "/files", body, headers)

    def decode_upload(self, body: bytes, /) -> str:
        return str(job_object(body)["id"])

    def encode_job(self, rows: Sequence[EncodedRow], file: str | None, token: str, target: Target, /) -> HttpRequest:
        body = {
            "input_file_id": file,
            "endpoint": _endpoint(rows[0], target),
            "completion_window": "24h",
            "metadata": {TOKEN: token},
        }
        return post_request(target, self._path, body, None)

    def decode_job(self, body: bytes, /) -> ProviderJob:
        data = job_object(body)
        status, counts = str(data.get("status")).lower(), data.get("request_counts")
        places = [data.get("output_file_id"), data.get("error_file_id")]
        return ProviderJob(
            id=str(data["id"]),
            state="ended" if status in _ENDED else "running",
            total=count(counts, "total") or None,
            done=count(counts, "completed", "failed"),
            token=read_token(data),
            created=read_time(data.get("created_at")),
            problem=None if status == "completed" or status not in _ENDED else f"{status}{_reason(data.get('errors'))}",
            results=tuple(place for place in places if isinstance(place, str) and place),
        )

    def encode_fetch(self, id: str, target: Target, /) -> HttpRequest:
        """GET /batches/{id}."""
        return get_request(target, f"{self._path}/{id}")

    def encode_cancel(self, id: str, target: Target, /) -> HttpRequest:
        """POST /batches/{id}/cancel."""
        return post_request(target, f"{self._path}/{id}/cancel", {}, None)

    def encode_list(self, target: Target, /) -> HttpRequest:
        return get_request(target, f"{self._path}?limit=100")

    def decode_list(self, body: bytes, /) -> list[ProviderJob]:
        return [self.decode_job(job) for job in job_objects(body, "data")]

    def encode_results(self, place: str, target: Target, /) -> HttpRequest:
        """GET /files/{id}/content."""
        return get_request(target, f"/files/{place}/content")

    def decode_results(self, body: bytes, /) -> Iterable[RowResult]:
        return [row_result(row) for row in read_lines(body)]


class JobBatches(FileBatches):
    """The `Batches` of Mistral: as those of OpenAI, with a path and words of its own."""

    _path = "/batch/jobs"

    def encode_job(self, rows: Sequence[EncodedRow], file: str | None, token: str, target: Target, /) -> HttpRequest:
        body = {
            "input_files": [file],
            "model": target.model,
            "endpoint": _endpoint(rows[0], target),
            "metadata": {TOKEN: token},
        }
        return post_request(target, self._path, body, None)

    def decode_job(self, body: bytes, /) -> ProviderJob:
        data = job_object(body)
        status = data.get("status")
        places = [data.get("output_file"), data.get("error_file")]
        is_over = status in _MISTRAL_ENDED
        return ProviderJob(
            id=str(data["id"]),
            state="ended" if is_over else "running",
            total=count(data, "total_requests") or None,
            done=count(data, "succeeded_requests", "failed_requests"),
            token=read_token(data),
            created=whole_number(data.get("created_at")),
            problem=f"{status}{_reason(data.get('errors'))}" if is_over and status != "SUCCESS" else None,
            results=tuple(place for place in places if isinstance(place, str) and place),
        )

    def encode_list(self, target: Target, /) -> HttpRequest:
        return get_request(target, f"{self._path}?page_size=100")


def encode_row(row: EncodedRow, target: Target, /) -> bytes:
    """A row of the file."""
    head = encode_json({"custom_id": row.custom_id, "method": "POST", "url": _endpoint(row, target)})
    return head[:-1] + b',"body":' + row.http.body + b"}"


def _endpoint(row: EncodedRow, target: Target) -> str:
    """The path of a request, below /v1 wherever the server has it."""
    return "/v1" + row.http.path.removeprefix(target.origin_and_prefix[1])


def read_token(data: JsonObject, /) -> str | None:
    """The token in the metadata of a job."""
    metadata = data.get("metadata")
    token = metadata.get(TOKEN) if is_object(metadata) else None
    return token if isinstance(token, str) else None


def _reason(errors: object) -> str:
    """The first message of the errors of a job, with a colon before it."""
    listed = errors.get("data") if is_object(errors) else errors
    first = listed[0] if is_list(listed) and listed else None
    message = first.get("message") if is_object(first) else None
    return f": {message}" if message else ""
