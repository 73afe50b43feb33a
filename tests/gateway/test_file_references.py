"""Ids of the gateway's files become content in the form of every wire."""

from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.engine.attempt import build_request
from dragoman.gateway.file_references import insert_files
from dragoman.http import HttpRequest
from dragoman.registry import Registry
from dragoman.types import Audio, Document, Image, Message, Opaque, Request, ToolResult, user
from dragoman.wires.common.server_endpoints import FileContent, StoredFile

ID = "file-dragoman-1"
PDF = b"%PDF-1.4 tides"


def content(data: bytes = PDF, mime: str = "application/octet-stream") -> dict[str, FileContent]:
    file = StoredFile(id=ID, name="tides.pdf", mime=mime, size=len(data), created=1, expires=2)
    return {ID: FileContent(file, data)}


def block(wire: str, **data: Any) -> Opaque:
    return Opaque(wire=wire, data=data)


DOCUMENT = block(
    "anthropic",
    type="document",
    source={"type": "file", "file_id": ID},
    title="Tides",
    cache_control={"type": "ephemeral"},
)


def test_a_part_has_the_type_of_its_file() -> None:
    (message,) = insert_files(Request(messages=(user("a", DOCUMENT),)), content()).messages
    extra = {"anthropic": {"cache_control": {"type": "ephemeral"}}}
    assert message.parts[1] == Document(data=PDF, mime="application/pdf", name="Tides", extra=extra)
    image = block("openai_responses", type="input_image", file_id=ID, detail="high")
    (message,) = insert_files(Request(messages=(user(image),)), content(b"GIF", "image/gif")).messages
    assert message.parts == (Image(data=b"GIF", mime="image/gif", detail="high"),)
    sound = block("openai_chat", type="file", file={"file_id": ID})
    (message,) = insert_files(Request(messages=(user(sound),)), content(b"RIFF", "audio/wav")).messages
    assert message.parts == (Audio(data=b"RIFF", mime="audio/wav"),)


def test_a_result_of_a_tool_may_have_a_file() -> None:
    result = ToolResult(id="t", content=(DOCUMENT,))
    request = Request(messages=(Message(role="tool", parts=(result,)),))
    (message,) = insert_files(request, content()).messages
    assert isinstance(message.tool_results[0].parts[0], Document)


def test_a_request_without_files_is_the_same() -> None:
    request = Request(messages=(user("a", block("anthropic", type="document", source={"file_id": "file_011"})),))
    assert insert_files(request, {}) is request
    assert insert_files(request, content()).messages == request.messages


@pytest.mark.parametrize(
    "spec",
    [
        "anthropic/claude-sonnet-5",
        "openai/gpt-4.1",
        "openai-responses/gpt-4.1",
        "google/gemini-3-pro-preview",
        "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
)
@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("anthropic", {"messages": [{"role": "user", "content": [DOCUMENT.data]}], "max_tokens": 9}),
        (
            "openai_chat",
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": ID}}]}]},
        ),
        ("openai_responses", {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": ID}]}]}),
    ],
)
def test_every_dialect_reaches_every_wire(spec: str, dialect: str, body: dict[str, Any]) -> None:
    http = HttpRequest(method="POST", path="/", body=msgspec.json.encode({"model": "m", **body}))
    _, request = wires.get(dialect).server.decode_request(http)
    target = Registry(env={"AWS_REGION": "eu-west-1"}).target(spec)
    sent = build_request(insert_files(request, content()), target)
    assert b"JVBERi0xLjQgdGlkZXM=" in sent.body
    assert ID.encode() not in sent.body


def test_no_client_makes_a_provider_store_its_prompt() -> None:
    from dragoman.gateway.catalog import without_stored_prompts
    from dragoman.types import CachePoint

    registry = Registry(env={})
    targets = (registry.target("google/gemini-3-pro-preview"), registry.target("openai/gpt-4.1"))
    pointed = Request(messages=(user("a", CachePoint(), "b"),))
    changed = without_stored_prompts(pointed, targets)
    assert [target.quirks.caching for target in changed] == [None, "key"]
    assert without_stored_prompts(Request(messages=(user("a"),)), targets) is targets
