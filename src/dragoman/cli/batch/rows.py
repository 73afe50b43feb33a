"""A line of a batch in, the request that it makes out; an answer or an error in, its line out. Pure.

{"id": 1, "prompt": "…"}                          beside it any field of a Request: system, temperature, …
{"id": 1, "messages": [{"role", "content"}]}      as Chat Completions has them, with its options; or our own parts
{"custom_id": "a", "url": "/v1/…", "body": {…}}   a row of OpenAI's batches; answered in that form, too
"""

from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from dragoman import wires
from dragoman.cli.input_files import decode, readable, refuse_unknown, without_mark
from dragoman.errors import DragomanError, InvalidRequest
from dragoman.http import HttpRequest
from dragoman.types import JsonObject, Request, Response, dump, is_list, is_object, user
from dragoman.wires.base import Wire
from dragoman.wires.common.error_record import dump_error

Id: TypeAlias = str | int
_CHAT = "/v1/chat/completions"


class BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the input, as far as it could be read."""

    id: Id
    model: str | None = None
    request: Request | None = None
    wire: str | None = None
    """The dialect that the answer is written in; None is our own."""
    problem: DragomanError | None = None
    """Why it is no request."""


class _Marked(msgspec.Struct):
    custom_id: Id | None = None
    id: Id | None = None
    error: Any = None


def read_mark(line: bytes, /) -> tuple[Id, bool]:
    """The id of a row, of the input or the output, and whether it is an error; ValueError where it has none.

    >>> read_mark(b'{"id": 7, "error": null}')
    (7, False)
    """
    try:
        with readable():
            marked = msgspec.json.decode(without_mark(line), type=_Marked)
    except InvalidRequest as error:
        raise ValueError(f"not a row: {error.message}") from error
    id = marked.id if marked.custom_id is None else marked.custom_id
    if id is None:
        raise ValueError("a row without an id")
    return id, marked.error is not None


def read_row(line: bytes, /) -> BatchRow:
    """The request of a row; what is wrong with it is its problem, and nobody else's.

    >>> read_row(b'{"id": 1, "prompt": "hello", "max_tokens": 5}').request.max_tokens
    5
    """
    id, _ = read_mark(line)
    data: JsonObject = decode(without_mark(line))
    wire: str | None = None
    try:
        if "body" in data or "url" in data:
            wire = "openai_chat"
            found = _wire_at(str(data.get("url", _CHAT)))
            wire = found.name
            model, request = _decode(found, _object_of(data.get("body"), "body"))
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
    raise InvalidRequest(f"url: nothing is asked at {url!r}; write {_CHAT}, say")


def _decode(wire: Wire, body: JsonObject) -> tuple[str, Request]:
    path = wire.server.routes[0].path
    model, request = wire.server.decode_request(HttpRequest(method="POST", path=path, body=msgspec.json.encode(body)))
    wire.server.check(model or "one that is named elsewhere", request)
    return model, request


def _read_plain(data: JsonObject) -> tuple[str, Request]:
    if "prompt" in data:
        if not isinstance(data["prompt"], str) or "messages" in data:
            raise InvalidRequest("prompt: a text is needed, and no messages beside it")
        prompt = data.pop("prompt")
        return _convert({**data, "messages": msgspec.to_builtins([user(prompt)])})
    messages = data.get("messages")
    if not is_list(messages) or not messages:
        raise InvalidRequest("a row needs a prompt, messages, or a body")
    if any("parts" in _object_of(message, "messages") for message in messages):
        return _convert(data)
    return _decode(wires.get("openai_chat"), {"model": "", **data})


def _convert(data: JsonObject) -> tuple[str, Request]:
    model = str(data.pop("model", "") or "")
    try:
        request = msgspec.convert(data, Request)
    except msgspec.ValidationError as error:
        raise InvalidRequest(str(error)) from error
    refuse_unknown(request, data)
    return model, request


def _object_of(value: object, where: str) -> JsonObject:
    if not is_object(value):
        raise InvalidRequest(f"{where}: not an object")
    return value


# Writing --------------------------------------------------------------------------------------------------------------


def write_answer(row: BatchRow, response: Response, value: Any = None, /) -> bytes:
    """The line of an answer; `value` is what it says, where it has a schema.

    >>> from dragoman.types import Finish, assistant
    >>> answer = Response(message=assistant("hi"), finish=Finish(reason="stop"))
    >>> write_answer(BatchRow(id=1), answer)[:22]
    b'{"id":1,"text":"hi","r'
    """
    if row.wire is None:
        said = {"text": response.text} if value is None else {"text": response.text, "value": value}
        return _line({"id": row.id, **said, "response": msgspec.Raw(dump(response))})
    body = msgspec.Raw(wires.get(row.wire).server.encode_body(response).body)
    reply = {"status_code": 200, "request_id": response.id, "body": body}
    return _line({"id": f"batch_req_{row.id}", "custom_id": row.id, "response": reply, "error": None})


def write_error(row: BatchRow, error: DragomanError, /) -> bytes:
    """The line of an error.

    >>> write_error(BatchRow(id=1), InvalidRequest("no prompt"))[:46]
    b'{"id":1,"error":{"type":"error","kind":"Invali'
    """
    facts = dump_error(error)
    if row.wire is None:
        return _line({"id": row.id, "error": facts})
    said = wires.get(row.wire).server.encode_error(error)
    reply = {"status_code": said.status, "request_id": None, "body": msgspec.Raw(said.body)}
    short = {"code": facts.kind, "message": facts.message}
    return _line({"id": f"batch_req_{row.id}", "custom_id": row.id, "response": reply, "error": short})


def _line(value: JsonObject) -> bytes:
    return msgspec.json.encode(value) + b"\n"
