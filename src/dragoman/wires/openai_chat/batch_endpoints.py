"""Batches for clients of OpenAI: the rows are in a file that they uploaded, and so are the results."""

from collections.abc import Iterable
from typing import Any

import msgspec

from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import JsonObject
from dragoman.wires.common.batch_values import (
    BatchInputRow,
    BatchPage,
    BatchQuery,
    BatchRowResult,
    NewBatch,
    StoredBatch,
)
from dragoman.wires.common.file_endpoints import query_members, read_limit
from dragoman.wires.common.json import DECODE_ERRORS
from dragoman.wires.common.request_body import decode_request_json, invalid_field, missing_field, read_fields
from dragoman.wires.common.server_endpoints import Route, ServerEndpoint, first_and_last, json_response, path_parameter
from dragoman.wires.openai_chat.schema import NAME
from dragoman.wires.openai_chat.stored_chats import check_metadata

ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings")
WINDOW = "24h"
MAX_PROBLEMS = 100
"""Errors of a file that are listed; then it is not read further."""
MAX_LINES = 50_000
"""Lines of a file, with empty ones."""


class _NewBatch(msgspec.Struct):
    input_file_id: str | None = None
    endpoint: str = ""
    completion_window: str = ""
    metadata: dict[str, str] | None = None


class _Row(msgspec.Struct):
    custom_id: str
    url: str
    body: msgspec.Raw
    method: str = "POST"


_ROW = msgspec.json.Decoder(_Row)


def read_rows(data: bytes, endpoint: str, /) -> tuple[tuple[BatchInputRow, ...], list[JsonObject]]:
    """The rows of a file, and what is wrong with it."""
    rows: dict[str, BatchInputRow] = {}
    problems: list[JsonObject] = []
    if data.count(b"\n") > MAX_LINES:
        why = f"the file must have at most {MAX_LINES} lines; send several files"
        return (), [{"code": "too_many_lines", "line": None, "message": why, "param": None}]
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = _ROW.decode(line)
            why = _wrong(row, endpoint, rows)
        except (*DECODE_ERRORS, msgspec.ValidationError) as error:
            why = f"the line must be a JSON object with custom_id, method, url and body: {error}"
        else:
            if not why:
                rows[row.custom_id] = BatchInputRow(row.custom_id, row.body)
                continue
        problems.append({"code": "invalid_line", "line": number, "message": why, "param": None})
        if len(problems) == MAX_PROBLEMS:
            break
    if not rows and not problems:
        problems.append({"code": "empty_file", "line": None, "message": "the file has no rows", "param": None})
    return tuple(rows.values()), problems


def _wrong(row: _Row, endpoint: str, rows: dict[str, BatchInputRow]) -> str:
    if row.method != "POST":
        return f"method must be POST, got {row.method[:20]!r}"
    if row.url != endpoint:
        return f"url must be the endpoint of the batch, {endpoint}, got {row.url[:100]!r}"
    if not bytes(row.body).startswith(b"{"):
        return "body must be an object"
    return f"custom_id must be unique, got {row.custom_id[:100]!r} twice" if row.custom_id in rows else ""


def result_files(results: Iterable[BatchRowResult], /) -> tuple[bytes, bytes]:
    """The file with answers, and the file with errors; empty if there are none."""
    files: dict[bool, list[bytes]] = {True: [], False: []}
    for result in results:
        response: JsonObject = {"status_code": result.status, "request_id": result.request_id, "body": result.body}
        row: JsonObject = {"id": f"batch_req_{result.request_id or result.custom_id}", "custom_id": result.custom_id}
        if result.outcome in ("succeeded", "errored"):
            row |= {"response": response, "error": None}
        else:
            message = "the request was not run before the batch ended"
            row |= {"response": None, "error": {"code": _CODES[result.outcome], "message": message}}
        files[result.outcome == "succeeded"].append(msgspec.json.encode(row) + b"\n")
    return b"".join(files[True]), b"".join(files[False])


_CODES = {"canceled": "batch_cancelled", "expired": "batch_expired"}


def _decode_create(http: HttpRequest) -> BatchQuery:
    body, _ = read_fields(_NewBatch, decode_request_json(http), "body")
    for name in ("input_file_id", "endpoint", "completion_window"):
        if not getattr(body, name):
            raise missing_field(name)
    if body.endpoint not in ENDPOINTS:
        raise invalid_field("endpoint", f"must be one of {', '.join(ENDPOINTS)}, got {body.endpoint[:100]!r}")
    if body.completion_window != WINDOW:
        raise invalid_field("completion_window", f"must be {WINDOW}, got {body.completion_window[:20]!r}")
    new = NewBatch(
        wire=NAME,
        endpoint=body.endpoint,
        input_file=body.input_file_id,
        read_rows=lambda data: read_rows(data, body.endpoint),
        metadata=check_metadata(body.metadata or {}),
    )
    return BatchQuery("create", NAME, new=new)


def _decode_list(http: HttpRequest) -> BatchQuery:
    query = query_members(http)
    return BatchQuery("list", NAME, after=query.get("after", [""])[-1], limit=read_limit(query, 20, 100))


def _status(batch: StoredBatch) -> str:
    if batch.problems:
        return "failed"
    if batch.state != "ended":
        return "cancelling" if batch.state == "canceling" else "in_progress"
    if batch.canceled_at is not None:
        return "cancelled"
    return "expired" if batch.count("expired") else "completed"


def _encode(batch: StoredBatch) -> JsonObject:
    status = _status(batch)
    times: dict[str, Any] = {f"{name}_at": batch.ended_at if status == name else None for name in _ENDS}
    errors = {"object": "list", "data": batch.problems} if batch.problems else None
    counts = {
        "total": batch.total,
        "completed": batch.count("succeeded"),
        "failed": batch.count("errored", "expired", "canceled"),
    }
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "errors": errors,
        "input_file_id": batch.input_file or "",
        "completion_window": WINDOW,
        "status": status,
        "output_file_id": batch.output_file,
        "error_file_id": batch.error_file,
        "created_at": batch.created,
        "in_progress_at": None if batch.problems else batch.created,
        "expires_at": batch.expires,
        "finalizing_at": batch.ended_at if status == "completed" else None,
        "cancelling_at": batch.canceled_at,
        **times,
        "request_counts": counts,
        "metadata": batch.metadata or None,
    }


_ENDS = ("completed", "failed", "expired", "cancelled")


def _encode_list(_: BatchQuery, page: BatchPage) -> HttpResponse:
    data = [_encode(batch) for batch in page.batches]
    return json_response({"object": "list", "data": data, **first_and_last(data), "has_more": page.has_more})


_PATH = "/v1/batches"
_FETCH, _CANCEL = Route(method="GET", path=_PATH + "/{id}"), Route(method="POST", path=_PATH + "/{id}/cancel")


def _encode_batch(_: BatchQuery, batch: StoredBatch) -> HttpResponse:
    return json_response(_encode(batch))


BATCH_ENDPOINTS = (
    ServerEndpoint(Route(method="POST", path=_PATH), _decode_create, _encode_batch),
    ServerEndpoint(Route(method="GET", path=_PATH), _decode_list, _encode_list),
    ServerEndpoint(_FETCH, lambda http: BatchQuery("fetch", NAME, path_parameter(_FETCH, http)), _encode_batch),
    ServerEndpoint(_CANCEL, lambda http: BatchQuery("cancel", NAME, path_parameter(_CANCEL, http)), _encode_batch),
)
