"""The rows of a batch: decode an input row to a request, encode a response or an error as an output row.

An input row has one of three forms:

{"id": 1, "prompt": "…"}                          plus any field of a Request: system, temperature, …
{"id": 1, "messages": [{"role", "content"}]}      Chat Completions with its options, or messages with our parts
{"custom_id": "a", "url": "/v1/…", "body": {…}}   OpenAI's batch form; its output row has that form, too
"""

from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import DragomanError, InvalidRequest
from dragoman.http import HttpRequest
from dragoman.io.json_input import decode_json, json_errors, reject_unknown_fields, strip_bom
from dragoman.types import JsonObject, Request, Response, dump, is_list, is_object, user
from dragoman.wires.base import Wire
from dragoman.wires.common.error_record import dump_error

Id: TypeAlias = str | int
_CHAT = "/v1/chat/completions"


class BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One input row."""

    id: Id
    model: str | None = None
    request: Request | None = None
    wire: str | None = None
    """The dialect of the output row; None for our own."""
    problem: DragomanError | None = None
    """The error, if the row has no valid request."""


class _RowFields(msgspec.Struct):
    custom_id: Id | None = None
    id: Id | None = None
    error: Any = None


class _ResponseFields(msgspec.Struct):
    target: str | None = None
    request_id: str | None = None


class _OutputFields(_RowFields):
    response: _ResponseFields | None = None


def read_row_status(line: bytes, /) -> tuple[Id, bool]:
    """The id of an input or output row, and whether it is an error row; ValueError if it has no id.

    >>> read_row_status(b'{"id": 7, "error": null}')
    (7, False)
    """
    fields = _decode_fields(line, _RowFields)
    return _id_of(fields), fields.error is not None


def read_output_status(line: bytes, /) -> tuple[Id, bool, bool]:
    """The id of an output row, whether it is an error row, and whether the demo answered.

    >>> read_output_status(b'{"id": 7, "text": "hi", "response": {"target": "demo/any"}}')
    (7, False, True)
    """
    fields = _decode_fields(line, _OutputFields)
    response = fields.response or _ResponseFields()
    # Rows in OpenAI's form do not name their target, but the ids of the demo's answers start with its name.
    is_demo = (response.target or "").startswith("demo/") or (
        response.target is None and (response.request_id or "").startswith("demo-")
    )
    return _id_of(fields), fields.error is not None, is_demo


_Fields = TypeVar("_Fields", bound=_RowFields)


def _decode_fields(line: bytes, kind: type[_Fields]) -> _Fields:
    try:
        with json_errors():
            return msgspec.json.decode(strip_bom(line), type=kind)
    except InvalidRequest as error:
        raise ValueError(f"not a row: {error.message}") from error


def _id_of(fields: _RowFields) -> Id:
    id = fields.id if fields.custom_id is None else fields.custom_id
    if id is None:
        raise ValueError("the row must have an id or a custom_id")
    return id


def read_row(line: bytes, /) -> BatchRow:
    """The request of a row; an invalid request becomes `problem` instead of an exception.

    >>> read_row(b'{"id": 1, "prompt": "hello", "max_tokens": 5}').request.max_tokens
    5
    """
    id, _ = read_row_status(line)
    wire: str | None = None
    try:
        data: JsonObject = decode_json(strip_bom(line))
        if "body" in data or "url" in data:
            wire = "openai_chat"
            decoder = _wire_at(str(data.get("url", _CHAT)))
            wire = decoder.name
            model, request = _decode(decoder, _object_of(data.get("body"), "body"))
        else:
            model, request = _read_plain({name: value for name, value in data.items() if name != "id"})
    except DragomanError as error:
        return BatchRow(id=id, wire=wire, problem=error)
    return BatchRow(id=id, model=model or None, request=replace(request, stream=False), wire=wire)


def _wire_at(url: str) -> Wire:
    for name in wires.NAMES:
        wire = wires.get(name)
        if any(route.path == url for route in wire.server.routes):
            return wire
    raise InvalidRequest(f"url must be the path of a chat endpoint, got {url!r}; for example {_CHAT}")


def _decode(wire: Wire, body: JsonObject) -> tuple[str, Request]:
    path = wire.server.routes[0].path
    model, request = wire.server.decode_request(HttpRequest(method="POST", path=path, body=msgspec.json.encode(body)))
    wire.server.check(model or "one that is named elsewhere", request)
    return model, request


def _read_plain(data: JsonObject) -> tuple[str, Request]:
    if "prompt" in data:
        if not isinstance(data["prompt"], str) or "messages" in data:
            raise InvalidRequest("prompt must be a string, and a row must not have both prompt and messages")
        prompt = data.pop("prompt")
        return _convert({**data, "messages": msgspec.to_builtins([user(prompt)])})
    messages = data.get("messages")
    if not is_list(messages) or not messages:
        raise InvalidRequest("a row must have prompt, messages or body")
    if any("parts" in _object_of(message, "messages") for message in messages):
        return _convert(data)
    return _decode(wires.get("openai_chat"), {"model": "", **data})


def _convert(data: JsonObject) -> tuple[str, Request]:
    model = str(data.pop("model", "") or "")
    try:
        request = msgspec.convert(data, Request)
    except msgspec.ValidationError as error:
        raise InvalidRequest(str(error)) from error
    reject_unknown_fields(request, data)
    return model, request


def _object_of(value: object, where: str) -> JsonObject:
    if not is_object(value):
        raise InvalidRequest(f"{where} must be an object, got {type(value).__name__}")
    return value


# Writing --------------------------------------------------------------------------------------------------------------


def write_answer(row: BatchRow, response: Response, value: Any = None, /) -> bytes:
    """The output row of a response; `value` is its JSON value if the request has a schema."""
    if row.wire is None:
        fields = {"text": response.text} if value is None else {"text": response.text, "value": value}
        return _line({"id": row.id, **fields, "response": msgspec.Raw(dump(response))})
    body = msgspec.Raw(wires.get(row.wire).server.encode_body(response).body)
    result = {"status_code": 200, "request_id": response.id, "body": body}
    return _line({"id": f"batch_req_{row.id}", "custom_id": row.id, "response": result, "error": None})


def write_error(row: BatchRow, error: DragomanError, /) -> bytes:
    """The output row of an error."""
    record = dump_error(error)
    if row.wire is None:
        return _line({"id": row.id, "error": record})
    http = wires.get(row.wire).server.encode_error(error)
    result = {"status_code": http.status, "request_id": None, "body": msgspec.Raw(http.body)}
    short = {"code": record.kind, "message": record.message}
    return _line({"id": f"batch_req_{row.id}", "custom_id": row.id, "response": result, "error": short})


def _line(value: JsonObject) -> bytes:
    return msgspec.json.encode(value) + b"\n"
