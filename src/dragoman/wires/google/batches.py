"""Batches of Gemini: the rows are a part of the job, and so are the results."""

from collections.abc import Iterable, Sequence

import msgspec

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import JsonObject, is_list, is_object
from dragoman.wires.common.batches import EncodedRow, InlineRows, ProviderJob, RowResult, count, job_object, job_objects
from dragoman.wires.common.http import get_request, post_request
from dragoman.wires.common.json import encode_json, objects, whole_number

_ENDED = {"SUCCEEDED": None, "FAILED": "failed", "CANCELLED": "cancelled", "EXPIRED": "expired"}
_ANY = msgspec.json.Decoder()


class InlineBatches(InlineRows):
    """The `Batches` of Gemini. The display name of a job is its token, and the metadata of a row its id."""

    max_rows = 10_000
    max_bytes = 15_000_000
    """A job may have 20 MB."""

    def encode_job(self, rows: Sequence[EncodedRow], _file: str | None, token: str, target: Target, /) -> HttpRequest:
        """POST /models/{model}:batchGenerateContent."""
        listed = [{"request": msgspec.Raw(row.http.body), "metadata": {"key": row.custom_id}} for row in rows]
        batch = {"displayName": token, "inputConfig": {"requests": {"requests": listed}}}
        path = rows[0].http.path.removeprefix(target.origin_and_prefix[1])
        path = path.partition("?")[0].rpartition(":")[0] + ":batchGenerateContent"
        http = post_request(target, path, {}, None)
        return msgspec.structs.replace(http, body=msgspec.json.encode({"batch": batch}))

    def decode_job(self, body: bytes, /) -> ProviderJob:
        """The job of a response: an operation, or the job itself."""
        data = job_object(body, "name")
        job = data.get("metadata")
        job = job if is_object(job) else data
        state = str(job.get("state") or "").rpartition("STATE_")[2]
        is_over = state in _ENDED or data.get("done") is True
        error = data.get("error")
        problem = error.get("message") if is_object(error) else _ENDED.get(state)
        stats = job.get("batchStats")
        return ProviderJob(
            id=str(data["name"]),
            state="ended" if is_over else "running",
            total=_number(stats, "requestCount"),
            done=(_number(stats, "successfulRequestCount") or 0) + (_number(stats, "failedRequestCount") or 0),
            token=job.get("displayName"),
            problem=str(problem) if is_over and problem else None,
            results=(str(data["name"]),) if is_over else (),
        )

    def encode_fetch(self, id: str, target: Target, /) -> HttpRequest:
        """GET /batches/{id}."""
        return get_request(target, f"/{id}")

    def encode_cancel(self, id: str, target: Target, /) -> HttpRequest:
        """POST /batches/{id}:cancel."""
        return post_request(target, f"/{id}:cancel", {}, None)

    def encode_list(self, target: Target, /) -> HttpRequest:
        return get_request(target, "/batches?pageSize=100")

    def decode_list(self, body: bytes, /) -> list[ProviderJob]:
        return [self.decode_job(job) for job in job_objects(body, "operations")]

    def encode_results(self, place: str, target: Target, /) -> HttpRequest:
        """GET /batches/{id}: the results are in the job."""
        return get_request(target, f"/{place}")

    def decode_results(self, body: bytes, /) -> Iterable[RowResult]:
        for row in _inlined(job_object(body, "name")):
            metadata, response, error = row.get("metadata"), row.get("response"), row.get("error")
            id = str(metadata.get("key") if is_object(metadata) else "")
            if is_object(response):
                yield RowResult(custom_id=id, status=200, body=encode_json(response))
            else:
                status = (count(error, "code") or 400) if is_object(error) else 400
                # The codes are those of gRPC, whose largest is 16.
                status = max(status, 400)
                yield RowResult(custom_id=id, status=status, body=encode_json({"error": error}) if error else b"")


def _inlined(data: JsonObject) -> list[JsonObject]:
    """The list of results, in the answer of an operation or in the output of a job."""
    metadata = data.get("metadata")
    for place in (data.get("response"), metadata.get("output") if is_object(metadata) else None, data.get("output")):
        responses = place.get("inlinedResponses") if is_object(place) else None
        listed = responses.get("inlinedResponses") if is_object(responses) else responses
        if is_list(listed):
            return objects(listed)
    return []


def _number(data: object, name: str) -> int | None:
    """A number, which the JSON of gRPC writes as text."""
    value = data.get(name) if is_object(data) else None
    return int(value) if isinstance(value, str) and value.isdecimal() else whole_number(value)
