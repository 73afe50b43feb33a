"""Message batches for clients of Anthropic: the rows are in the request, the results in a list of lines."""

import re

import msgspec

from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import JsonObject
from dragoman.types.checks import shown
from dragoman.wires.anthropic.schema import NAME
from dragoman.wires.common.batch_values import (
    BatchInputRow,
    BatchPage,
    BatchQuery,
    BatchRowResult,
    NewBatch,
    StoredBatch,
)
from dragoman.wires.common.file_endpoints import query_members, read_limit
from dragoman.wires.common.request_body import decode_request_json, invalid_field, missing_field
from dragoman.wires.common.server_endpoints import Route, ServerEndpoint, first_and_last, json_response, path_parameter
from dragoman.wires.common.times import write_time

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PATH = "/v1/messages/batches"


class _Row(msgspec.Struct):
    custom_id: str
    params: msgspec.Raw


class _NewBatch(msgspec.Struct):
    requests: list[_Row]


_NEW = msgspec.json.Decoder(_NewBatch)


def _decode_create(http: HttpRequest) -> BatchQuery:
    decode_request_json(http)
    try:
        body = _NEW.decode(http.body)
    except msgspec.ValidationError as error:
        raise invalid_field("requests", f"must be a list of objects with custom_id and params: {error}") from error
    if not body.requests:
        raise missing_field("requests")
    rows: dict[str, BatchInputRow] = {}
    for index, row in enumerate(body.requests):
        if not _ID.fullmatch(row.custom_id):
            raise invalid_field(
                f"requests[{index}].custom_id",
                f"must have 1 to 64 letters, digits, - and _, got {shown(row.custom_id)}",
            )
        if row.custom_id in rows:
            raise invalid_field(f"requests[{index}].custom_id", f"must be unique, got {row.custom_id!r} twice")
        if not bytes(row.params).startswith(b"{"):
            raise invalid_field(f"requests[{index}].params", "must be an object")
        rows[row.custom_id] = BatchInputRow(row.custom_id, row.params.copy())
    return BatchQuery("create", NAME, new=NewBatch(wire=NAME, endpoint="/v1/messages", rows=tuple(rows.values())))


def _decode_list(http: HttpRequest) -> BatchQuery:
    query = query_members(http)
    return BatchQuery("list", NAME, after=query.get("after_id", [""])[-1], limit=read_limit(query, 20, 1000))


def _encode(batch: StoredBatch) -> JsonObject:
    counts = {outcome: batch.outcomes.get(outcome, 0) for outcome in ("succeeded", "errored", "canceled", "expired")}
    is_over = batch.state == "ended"
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": batch.state if batch.state != "running" else "in_progress",
        "request_counts": {"processing": batch.total - sum(counts.values()), **counts},
        "created_at": write_time(batch.created),
        "expires_at": write_time(batch.expires),
        "ended_at": write_time(batch.ended_at),
        "cancel_initiated_at": write_time(batch.canceled_at),
        "archived_at": None,
        "results_url": f"{_PATH}/{batch.id}/results" if is_over else None,
    }


def _encode_batch(_: BatchQuery, batch: StoredBatch) -> HttpResponse:
    return json_response(_encode(batch))


def _encode_list(_: BatchQuery, page: BatchPage) -> HttpResponse:
    data = [_encode(batch) for batch in page.batches]
    return json_response({"data": data, "has_more": page.has_more, **first_and_last(data)})


def _encode_results(_: BatchQuery, results: tuple[BatchRowResult, ...]) -> HttpResponse:
    lines = [msgspec.json.encode({"custom_id": each.custom_id, "result": _result(each)}) + b"\n" for each in results]
    return HttpResponse(headers={"content-type": "application/x-jsonl"}, body=b"".join(lines))


def _result(result: BatchRowResult) -> JsonObject:
    match result.outcome:
        case "succeeded":
            return {"type": "succeeded", "message": result.body}
        case "errored":
            return {"type": "errored", "error": result.body}
        case _:
            return {"type": result.outcome}


_FETCH, _DROP = (Route(method=method, path=_PATH + "/{id}") for method in ("GET", "DELETE"))
_CANCEL, _RESULTS = Route(method="POST", path=_PATH + "/{id}/cancel"), Route(method="GET", path=_PATH + "/{id}/results")

BATCH_ENDPOINTS = (
    ServerEndpoint(Route(method="POST", path=_PATH), _decode_create, _encode_batch),
    ServerEndpoint(Route(method="GET", path=_PATH), _decode_list, _encode_list),
    ServerEndpoint(_FETCH, lambda http: BatchQuery("fetch", NAME, path_parameter(_FETCH, http)), _encode_batch),
    ServerEndpoint(_CANCEL, lambda http: BatchQuery("cancel", NAME, path_parameter(_CANCEL, http)), _encode_batch),
    ServerEndpoint(_RESULTS, lambda http: BatchQuery("results", NAME, path_parameter(_RESULTS, http)), _encode_results),
    ServerEndpoint(
        _DROP,
        lambda http: BatchQuery("drop", NAME, path_parameter(_DROP, http)),
        lambda _, batch: json_response({"id": batch.id, "type": "message_batch_deleted"}),
    ),
)
