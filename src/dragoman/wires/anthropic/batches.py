"""Message batches of Anthropic: the rows are a part of the job, the results a file of lines."""

from collections.abc import Iterable, Sequence

import msgspec

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import is_object
from dragoman.wires.anthropic.encoder import version_header
from dragoman.wires.common.batches import (
    EncodedRow,
    InlineRows,
    ProviderJob,
    RowResult,
    count,
    job_object,
    job_objects,
    read_lines,
    read_time,
)
from dragoman.wires.common.http import get_request, post_request
from dragoman.wires.common.json import encode_json

_PATH = "/messages/batches"
_BETA = "anthropic-beta"


class MessageBatches(InlineRows):
    """The `Batches` of Anthropic. A job has no metadata, so it has no token."""

    max_rows = 100_000
    max_bytes = 200_000_000

    def encode_job(self, rows: Sequence[EncodedRow], _file: str | None, _token: str, target: Target, /) -> HttpRequest:
        """POST /messages/batches, with the beta features of all rows."""
        betas = {beta.strip() for row in rows for beta in row.http.headers.get(_BETA, "").split(",") if beta.strip()}
        requests = [{"custom_id": row.custom_id, "params": msgspec.Raw(row.http.body)} for row in rows]
        headers = {**version_header(target), **({_BETA: ",".join(sorted(betas))} if betas else {})}
        http = post_request(target, _PATH, {}, None, **headers)
        return msgspec.structs.replace(http, body=msgspec.json.encode({"requests": requests}))

    def decode_job(self, body: bytes, /) -> ProviderJob:
        data = job_object(body)
        counts, is_over = data.get("request_counts"), data.get("processing_status") == "ended"
        done = count(counts, "succeeded", "errored", "canceled", "expired")
        lost = [name for name in ("canceled", "expired") if count(counts, name)]
        return ProviderJob(
            id=str(data["id"]),
            state="ended" if is_over else "running",
            total=done + count(counts, "processing"),
            done=done,
            created=read_time(data.get("created_at")),
            problem=" and ".join(lost) if is_over and lost else None,
            results=(f"{_PATH}/{data['id']}/results",) if is_over else (),
        )

    def encode_fetch(self, id: str, target: Target, /) -> HttpRequest:
        """GET /messages/batches/{id}."""
        return get_request(target, f"{_PATH}/{id}", **version_header(target))

    def encode_cancel(self, id: str, target: Target, /) -> HttpRequest:
        """POST /messages/batches/{id}/cancel."""
        return post_request(target, f"{_PATH}/{id}/cancel", {}, None, **version_header(target))

    def encode_list(self, target: Target, /) -> HttpRequest:
        """GET /messages/batches."""
        return get_request(target, f"{_PATH}?limit=100", **version_header(target))

    def decode_list(self, body: bytes, /) -> list[ProviderJob]:
        return [self.decode_job(job) for job in job_objects(body, "data")]

    def encode_results(self, place: str, target: Target, /) -> HttpRequest:
        """GET /messages/batches/{id}/results."""
        return get_request(target, place, **version_header(target))

    def decode_results(self, body: bytes, /) -> Iterable[RowResult]:
        for row in read_lines(body):
            result, id = row.get("result"), str(row.get("custom_id") or "")
            match result:
                case {"type": "succeeded", "message": message} if is_object(message):
                    yield RowResult(custom_id=id, status=200, body=encode_json(message))
                case {"type": "errored", "error": error} if is_object(error):
                    yield RowResult(custom_id=id, status=400, body=encode_json(error))
                case _:
                    yield RowResult(custom_id=id, status=400)
