"""Amazon Bedrock's InvokeModel: a path and an envelope around the body of another protocol, in both directions.

The path has the model, and says whether to stream. Each event of a stream is base64 in a message of AWS's event stream;
the last one has the counts of tokens. Errors are those of AWS. The maker of a model decides what the body is, so a
server tells by the members of the body which protocol it is: `body_form`.
"""

import re
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, unquote

import msgspec

from dragoman.errors import DragomanError, InvalidRequest
from dragoman.events import Event, Finished
from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import JsonObject, Part, Request, Response, Usage, is_object
from dragoman.types.data_urls import decode_base64
from dragoman.wires.base import ServerHalf, StreamEncoder
from dragoman.wires.common.aws_errors import encode_aws_error, encode_error, exception_name
from dragoman.wires.common.event_stream import CONTENT_TYPE, EventStreamDecoder, encode_event, encode_exception
from dragoman.wires.common.framing import DetectedFraming, Frame
from dragoman.wires.common.header_counts import count_headers, join_counts, split_counts
from dragoman.wires.common.json import DECODE_ERRORS, encode_json, objects, whole_number
from dragoman.wires.common.request_body import check_inner_json, decode_request_json
from dragoman.wires.common.server_endpoints import CountTokens, Route, ServerEndpoint, json_response

METRICS = "amazon-bedrock-invocationMetrics"
"""The member of the last event that has the counts of tokens."""
CHUNK = "chunk"
"""The name of a message that has an event."""
WHOLE_PATH = "/model/{model}/invoke"
STREAM_PATH = "/model/{model}/invoke-with-response-stream"
COUNT_PATH = "/model/{model}/count-tokens"
_PATH = re.compile(r".*?/model/(?P<model>[^?]+)/(?P<method>invoke|invoke-with-response-stream)(?:\?.*)?")
Form: TypeAlias = Literal["messages", "converse", "chat", "text", "embeddings", "rerank"]


def body_form(body: JsonObject, /) -> Form | None:
    """What a body of InvokeModel is, by its members; None if it is unknown.

    >>> body_form({"anthropic_version": "bedrock-2023-05-31", "messages": []}), body_form({"prompt": "Once"})
    ('messages', 'text')
    """
    return next((form for form, is_form in _FORMS if is_form(body)), None)


def _is_anthropic(body: JsonObject) -> bool:
    return (
        "anthropic_version" in body
        or ("messages" in body and isinstance(body.get("system"), str))
        or any("input_schema" in tool for tool in objects(body.get("tools")))
    )


def _is_converse(body: JsonObject) -> bool:
    """Whether it is a body of Nova; its blocks have no type, and each member of a block is what the block is."""
    if "singleEmbeddingParams" in body:
        return False
    if body.keys() & {"schemaVersion", "inferenceConfig", "toolConfig"}:
        return True
    contents = [message.get("content") for message in objects(body.get("messages"))]
    return any("type" not in block for content in contents for block in objects(content))


_FORMS: tuple[tuple[Form, Callable[[JsonObject], bool]], ...] = (
    ("messages", _is_anthropic),
    ("converse", _is_converse),
    ("chat", lambda body: "messages" in body),
    ("text", lambda body: bool(body.keys() & {"prompt", "textGenerationConfig"})),
    ("embeddings", lambda body: bool(body.keys() & {"inputText", "texts", "singleEmbeddingParams"})),
    ("rerank", lambda body: {"query", "documents"} <= body.keys()),
)


def routes_of(form: Form, /) -> tuple[Route, Route]:
    """The routes of a form, whole and streamed."""

    def accepts(body: JsonObject) -> bool:
        return body_form(body) == form

    return (
        Route(method="POST", path=WHOLE_PATH, accepts=accepts),
        Route(method="POST", path=STREAM_PATH, accepts=accepts),
    )


def read_path(http: HttpRequest, /) -> tuple[str, bool]:
    """The model in the path, and whether the path asks for a stream.

    >>> read_path(HttpRequest(method="POST", path="/model/a%2Fb/invoke"))
    ('a/b', False)
    """
    path = _PATH.fullmatch(http.path)
    return (unquote(path["model"]), path["method"] != "invoke") if path else ("", False)


def invoke_path(model: str, /, *, stream: bool) -> str:
    """The path of a call.

    >>> invoke_path("a:0", stream=False)
    '/model/a%3A0/invoke'
    """
    return (STREAM_PATH if stream else WHOLE_PATH).replace("{model}", quote(model, safe=""))


# Client half ----------------------------------------------------------------------------------------------------------


class ChunkDecoder:
    """An event stream whose messages named CHUNK have one event in base64; the name of their frames is empty."""

    def __init__(self) -> None:
        self._decoder = EventStreamDecoder()

    def feed(self, data: bytes, /) -> list[Frame]:
        return [_unwrap(frame) if frame.name == CHUNK else frame for frame in self._decoder.feed(data)]


SSE_OR_CHUNKS = partial(DetectedFraming, {b"\0": ChunkDecoder})
"""The framing of an answer that is server-sent events, or an event stream with one in each message."""


def _unwrap(frame: Frame) -> Frame:
    try:
        return Frame(name="", data=_CHUNK.decode(frame.data).data)
    except msgspec.DecodeError:
        return frame


class _Chunk(msgspec.Struct):
    data: bytes = msgspec.field(name="bytes")


_CHUNK = msgspec.json.Decoder(_Chunk)


# Server half ----------------------------------------------------------------------------------------------------------


class InvokeServer:
    """A server half of another path, on the paths of InvokeModel."""

    def __init__(self, inner: ServerHalf, form: Form, /) -> None:
        self._inner = inner
        self.routes: tuple[Route, ...] = routes_of(form)
        self.has_citations = inner.has_citations

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        model, stream = read_path(http)
        return model, msgspec.structs.replace(self._inner.decode_request(http)[1], stream=stream)

    def check(self, model: str, request: Request, /) -> None:
        self._inner.check(model, request)

    def encode_body(self, response: Response, request: Request | None = None, /) -> HttpResponse:
        whole = self._inner.encode_body(response, request)
        return msgspec.structs.replace(whole, headers={**whole.headers, **count_headers(response.usage)})

    def supports_part(self, part: Part, /) -> bool:
        return self._inner.supports_part(part)

    def encode_error(self, error: DragomanError, /) -> HttpResponse:
        return encode_aws_error(error)

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        return _InvokeStreamEncoder(self._inner.stream_encoder(request))


def count_endpoint(half: InvokeServer, form: Form, /) -> ServerEndpoint:
    """The endpoint that counts the tokens of a body of InvokeModel."""

    def decode(http: HttpRequest) -> CountTokens:
        path = http.path.partition("?")[0].removesuffix("/count-tokens") + "/invoke"
        inner = counted_body(decode_request_json(http)) or b""
        return CountTokens(*half.decode_request(msgspec.structs.replace(http, path=path, body=inner)))

    def accepts(body: JsonObject) -> bool:
        return counted_form(body) == form

    route = Route(method="POST", path=COUNT_PATH, accepts=accepts)
    return ServerEndpoint(route, decode, lambda _, count: json_response({"inputTokens": count}), server=half)


def counted_form(body: JsonObject, /) -> Form | None:
    """What is in a request to count tokens, if it has a body of InvokeModel.

    >>> counted_form({"input": {"invokeModel": {"body": "eyJtZXNzYWdlcyI6IFtdfQ=="}}}), counted_form({"input": {}})
    ('chat', None)
    """
    try:
        inner = msgspec.json.decode(counted_body(body) or b"null")
    except DECODE_ERRORS:
        return None
    return body_form(inner) if is_object(inner) else None


def counted_body(body: JsonObject, /) -> bytes | None:
    """The body of InvokeModel in a request to count tokens; None if there is none."""
    match body:
        case {"input": {"invokeModel": {"body": str(text)}}}:
            try:
                data = decode_base64(text)
            except InvalidRequest:
                return None
            check_inner_json(data, "input.invokeModel.body")
            return data
        case _:
            return None


class _InvokeStreamEncoder:
    """Wraps each event of a stream in a message of AWS's event stream."""

    content_type = CONTENT_TYPE

    def __init__(self, inner: StreamEncoder) -> None:
        self._inner = inner
        self._payloads = _from_event_stream if inner.content_type == CONTENT_TYPE else _from_sse

    def feed(self, event: Event | DragomanError, /) -> bytes:
        if isinstance(event, DragomanError):
            return encode_exception(exception_name(event), encode_json(encode_error(event)))
        payloads = self._payloads(self._inner.feed(event))
        if isinstance(event, Finished) and (metrics := _metrics(event.usage)):
            payloads[-1] = payloads[-1][:-1] + b"," + encode_json({METRICS: metrics})[1:]
        return b"".join(encode_event(CHUNK, encode_json({"bytes": b64encode(data).decode()})) for data in payloads)


def _from_sse(data: bytes) -> list[bytes]:
    lines = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: ")]
    return [line for line in lines if line != b"[DONE]"]


def _from_event_stream(data: bytes) -> list[bytes]:
    """Each event is a member of an object, under its name."""
    frames = EventStreamDecoder().feed(data) if data else []
    return [encode_json({frame.name: msgspec.Raw(frame.data)}) for frame in frames]


_COUNTS = {
    "input": "inputTokenCount",
    "output": "outputTokenCount",
    "cache_read": "cacheReadInputTokenCount",
    "cache_write": "cacheWriteInputTokenCount",
}


def _metrics(usage: Usage) -> JsonObject:
    counts = split_counts(usage)
    return {name: counts[field] for field, name in _COUNTS.items() if field in counts}


def read_metrics(event: JsonObject, /) -> Usage | None:
    """The usage of the last event; None if this is not the last.

    >>> read_metrics({"amazon-bedrock-invocationMetrics": {"inputTokenCount": 3, "outputTokenCount": 1}}).input
    3
    """
    metrics: Any = event.get(METRICS)
    if not is_object(metrics):
        return None
    return join_counts({field: whole_number(metrics.get(name)) for field, name in _COUNTS.items()})
