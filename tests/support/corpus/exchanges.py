"""The recorded exchanges with real providers, read where they are; none where that folder is not there."""

import functools
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dragoman import wires
from dragoman.http import HttpRequest
from dragoman.wires.base import ServerHalf
from dragoman.wires.common.event_stream import encode_event_message
from dragoman.wires.common.invoke import body_form
from tests.support.paths import CORPUS

FOLDER = CORPUS
WIRES = {
    "chat": "openai_chat",
    "responses": "openai_responses",
    "anthropic": "anthropic",
    "converse": "bedrock",
    "google": "google",
    "interactions": "google_interactions",
    "ollama": "ollama",
    "completions": "openai_chat",
    "ollama-generate": "ollama",
}
TEXTS = ("completions", "ollama-generate")
"""Recorded forms of a wire for a plain text, with a server half of their own."""
ENDPOINTS = ("embeddings", "count-tokens", "models")
"""Recorded calls that do not generate; `tests.support.corpus.endpoints` has them."""
NOT_SPOKEN = (
    "writer-completions--openllmetry--test-completions-test-writer-async-streaming-completions-legacy--0-61bea5"
)
"""A stream of a provider that we have no record for, in a form of its own and without an end mark."""


class Exchange(NamedTuple):
    """One request and its answer."""

    id: str
    folder: str
    provider: str
    wire: str
    model: str
    method: str
    path: str
    request: dict[str, Any] | None
    status: int
    headers: dict[str, str]
    kind: str
    body: bytes
    chunk_lengths: list[int]
    features: list[str]
    is_text: bool = False
    """Whether the request is a plain text, and not a chat."""

    @property
    def server(self) -> ServerHalf:
        """The server half for its path."""
        wire = wires.get(self.wire)
        if self.form is not None:
            halves = {route.accepts: half for half in wire.other_servers for route in half.routes}
            return next(half for accepts, half in halves.items() if accepts is not None and accepts(self.request or {}))
        return wire.other_servers[0] if self.is_text else wire.server

    @property
    def form(self) -> str | None:
        """What the body is, if it is one of InvokeModel."""
        return body_form(self.request or {}) if self.folder == "bedrock-invoke" else None

    @property
    def is_stream_asked(self) -> bool:
        """Whether the path of InvokeModel asks for a stream."""
        return self.path.endswith("-stream")

    @property
    def streamed(self) -> bool:
        """Whether the answer is a stream."""
        return self.kind in ("sse", "ndjson", "json-array-stream", "aws-eventstream")


@functools.cache
def exchanges() -> tuple[Exchange, ...]:
    """All that are of a wire we speak."""
    found = (_read(path) for path in sorted(FOLDER.glob("*/*.json")))
    return tuple(exchange for exchange in found if exchange is not None)


@functools.cache
def not_loaded() -> dict[str, tuple[str, ...]]:
    """The recordings that `exchanges` leaves out: their ids by the reason."""
    reasons: dict[str, list[str]] = {}
    for path in sorted(FOLDER.glob("*/*.json")):
        data = msgspec.json.decode(path.read_bytes())
        if (reason := _reason(data)) is not None:
            reasons.setdefault(reason, []).append(f"{path.parent.name}/{data['id']}")
    return {reason: tuple(ids) for reason, ids in reasons.items()}


OWN_TEST = "a test of their own"
INVOKED = {"messages": "anthropic", "converse": "bedrock", "chat": "openai_chat", "text": "bedrock"}
"""The wires of bodies of InvokeModel that generate; `invoked_endpoints` has the others."""


class InvokedEndpoint(NamedTuple):
    """A recorded call of InvokeModel that embeds or ranks texts."""

    id: str
    model: str
    http: HttpRequest
    answer: bytes


@functools.cache
def invoked_endpoints() -> tuple[InvokedEndpoint, ...]:
    """The recordings of InvokeModel that do not generate."""
    found = [msgspec.json.decode(path.read_bytes()) for path in sorted(FOLDER.glob("bedrock-invoke/*.json"))]
    return tuple(
        InvokedEndpoint(
            data["id"],
            data["model"],
            HttpRequest(method="POST", path=data["request"]["path"], body=msgspec.json.encode(data["request"]["body"])),
            _body(data["response"]),
        )
        for data in found
        if body_form(data["request"].get("body") or {}) in ("embeddings", "rerank")
    )


def _reason(data: dict[str, Any]) -> str | None:
    """Why a recording is not loaded; None if it is."""
    if data["id"] == NOT_SPOKEN:
        return "a form without a record and without an end mark"
    if data["wire"] in WIRES:
        return None
    if data["wire"] in ENDPOINTS:
        return f"{data['wire']}: {OWN_TEST}"
    if data["wire"] != "invoke":
        return f"{data['wire']}: not the form of a wire that generates"
    form = body_form(data["request"].get("body") or {})
    if form is None:
        return "InvokeModel: unknown body"
    return None if form in INVOKED else f"InvokeModel: {form}: {OWN_TEST}"


def by_folder(recordings: Iterable[Exchange]) -> dict[str, dict[str, dict[str, Exchange]]]:
    """The recordings as batches, one per folder and wire, for `tests.support.batch.grouped`."""
    groups: dict[str, dict[str, dict[str, Exchange]]] = {}
    for recording in recordings:
        groups.setdefault(f"{recording.wire}-{recording.folder}", {})[recording.id] = {"exchange": recording}
    return groups


def _body(response: dict[str, Any]) -> bytes:
    body = response["body"]
    if response["body_kind"] == "aws-eventstream":
        messages = [msgspec.json.decode(line) for line in body.splitlines()]
        return b"".join(encode_event_message(each["headers"], _payload(each["payload"])) for each in messages)
    return body.encode() if isinstance(body, str) else msgspec.json.encode(body)


def _payload(payload: dict[str, Any]) -> bytes:
    """The payload of a message; those of InvokeModel were recorded without base64."""
    if "decoded" in payload:
        payload = {"p": payload.get("p"), "bytes": b64encode(msgspec.json.encode(payload["decoded"])).decode()}
    return msgspec.json.encode(payload)


def _read(path: Path) -> Exchange | None:
    data = msgspec.json.decode(path.read_bytes())
    request, response = data["request"], data["response"]
    if _reason(data) is not None:
        return None
    return Exchange(
        id=data["id"],
        folder=path.parent.name,
        provider=data["provider"],
        wire=WIRES.get(data["wire"]) or INVOKED[body_form(request.get("body") or {}) or ""],
        model=data.get("model") or "",
        method=request.get("method") or "POST",
        path=request.get("path") or "",
        request=request.get("body") if isinstance(request.get("body"), dict) else None,
        status=response["status"],
        headers=response.get("headers") or {},
        kind=response["body_kind"],
        body=_body(response),
        chunk_lengths=response.get("chunk_lengths") or [],
        features=data.get("features") or [],
        is_text=data["wire"] in TEXTS or (data["wire"] == "invoke" and body_form(request["body"]) == "text"),
    )
