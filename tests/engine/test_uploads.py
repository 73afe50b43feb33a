"""Files are uploaded once per provider and account, and used by their id."""

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import CachePoint, File, Registry, TimedOut, Unsupported, user
from dragoman.engine.call_context import CallContext
from dragoman.engine.effects import RemoteCopy
from dragoman.engine.uploads import file_key, resolve_files
from dragoman.errors import AuthFailed, BadRequest, Malformed
from dragoman.http import HttpRequest
from dragoman.io.driver import Driver
from dragoman.io.upload_index import MAX_ENTRIES, UploadIndex, index_path
from dragoman.testing.fake_provider import InProcessProvider
from dragoman.testing.script import EncodedAnswer
from dragoman.types import Document, Opaque, Request
from dragoman.wires.common.multipart import decode_form
from tests.support.images import picture

PDF = b"%PDF-1.4 tides"
FILE = File(data=PDF, mime="application/pdf", name="tides.pdf")
Answers = Callable[[HttpRequest], tuple[int, Any, dict[str, str]]]


class Provider(InProcessProvider):
    """A provider that stores files: its endpoints are functions of the test."""

    def __init__(self, **endpoints: Answers) -> None:
        self.seen: list[HttpRequest] = []
        self.endpoints = endpoints

    def answer(self, http: HttpRequest, /) -> EncodedAnswer:
        self.seen.append(http)
        path = http.path.partition("?")[0]
        name = next((name for name in self.endpoints if path.endswith(name.replace("_", "/"))), "generate")
        status, body, headers = self.endpoints.get(name, generated)(http)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return EncodedAnswer(status=status, headers={"content-type": "application/json", **headers}, chunks=[data])

    @property
    def paths(self) -> list[str]:
        return [http.path.partition("?")[0] for http in self.seen]


def generated(http: HttpRequest) -> tuple[int, Any, dict[str, str]]:
    if "messages" in http.path:
        content = [{"type": "text", "text": "ok"}]
        return 200, {"id": "m", "content": content, "stop_reason": "end_turn", "role": "assistant"}, {}
    if "generateContent" in http.path:
        return 200, {"candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}]}, {}
    if "responses" in http.path:
        item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}
        return 200, {"id": "r", "status": "completed", "output": [item]}, {}
    return 200, {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}, {}


def numbered(prefix: str = "file-") -> Answers:
    count = iter(range(1, 100))
    return lambda _: (200, {"id": f"{prefix}{next(count)}"}, {})


def registry_of(provider: Provider, **env: str) -> Registry:
    return Registry(env=env, api_key="k-123456", http_client=provider)


def last_body(provider: Provider) -> Any:
    return json.loads(provider.seen[-1].body)


def test_anthropic_gets_a_file_once_and_then_its_id() -> None:
    provider = Provider(files=numbered())
    model = registry_of(provider).model("anthropic/claude-sonnet-5")
    for _ in range(2):
        answer = model.generate([FILE, CachePoint(ttl="1h"), "What is it?"])
        assert answer.text == "ok"
    assert provider.paths == ["/v1/files", "/v1/messages", "/v1/messages"]
    upload = provider.seen[0]
    fields = decode_form(upload)
    assert (fields["file"].data, fields["file"].filename, fields["file"].mime) == (PDF, "tides.pdf", "application/pdf")
    assert upload.headers["x-api-key"] == "k-123456"
    assert upload.headers["anthropic-version"] == "2023-06-01"
    block = last_body(provider)["messages"][0]["content"][0]
    assert block == {
        "type": "document",
        "source": {"type": "file", "file_id": "file-1"},
        "title": "tides.pdf",
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
    }
    assert provider.seen[-1].headers["anthropic-beta"] == "files-api-2025-04-14"


def test_the_betas_of_the_caller_stay() -> None:
    provider = Provider(files=numbered())
    model = registry_of(provider).model("anthropic/claude-sonnet-5")
    for betas in (["a-1"], "a-1,files-api-2025-04-14"):
        model.generate(FILE, extra={"anthropic": {"betas": betas}})
        assert provider.seen[-1].headers["anthropic-beta"] == "a-1,files-api-2025-04-14"


def test_the_types_that_anthropic_stores() -> None:
    provider = Provider(files=numbered())
    model = registry_of(provider).model("anthropic/claude-sonnet-5")
    model.generate([File(data=picture(2, 2), mime="image/png"), File(data=b"a,b", mime="text/csv", name="a.csv")])
    kinds = [block["type"] for block in last_body(provider)["messages"][0]["content"]]
    assert kinds == ["image", "document"]
    assert decode_form(provider.seen[1])["file"].mime == "text/plain"
    with pytest.raises(Unsupported):
        model.generate(File(data=b"PK", mime="application/zip"))


def test_openai_gets_documents_and_in_responses_also_images() -> None:
    provider = Provider(files=numbered())
    registry = registry_of(provider)
    image = File(data=picture(2, 2), mime="image/png", name="a.png")
    registry.model("openai-responses/gpt-4.1").generate([FILE, image, "What is it?"])
    fields = {name: field.text for name, field in decode_form(provider.seen[0]).items() if name != "file"}
    assert fields == {
        "purpose": "user_data",
        "expires_after[anchor]": "created_at",
        "expires_after[seconds]": "604800",
    }
    assert last_body(provider)["input"][0]["content"][:2] == [
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_image", "file_id": "file-2", "detail": "auto"},
    ]
    registry.model("openai/gpt-4.1").generate([FILE, image, "What is it?"])
    content = last_body(provider)["messages"][0]["content"]
    assert content[0] == {"type": "file", "file": {"file_id": "file-3"}}
    assert content[1]["image_url"]["url"].startswith("data:image/png")


def test_a_provider_without_files_gets_the_bytes_or_refuses() -> None:
    provider = Provider()
    registry = registry_of(provider)
    registry.model("openrouter/x").generate(FILE)
    assert last_body(provider)["messages"][0]["content"][0]["file"]["file_data"].startswith("data:application/pdf")
    with pytest.raises(Unsupported, match="does not support"):
        registry.model("deepseek/deepseek-chat").generate(FILE)
    assert provider.paths == ["/api/v1/chat/completions"]


def test_a_refused_upload_is_sent_as_bytes_with_a_notice() -> None:
    provider = Provider(files=lambda _: (404, {"error": {"message": "no such path"}}, {}))
    answer = registry_of(provider).model("openai/gpt-4.1").generate(FILE)
    assert "file_data" in last_body(provider)["messages"][0]["content"][0]["file"]
    assert [notice.what for notice in answer.notices] == ["file tides.pdf"]
    assert "the upload was refused, so the bytes are sent" in answer.notices[0].why


def test_an_upload_that_fails_otherwise_fails_the_attempt() -> None:
    provider = Provider(files=lambda _: (401, {"error": {"message": "bad key"}}, {}))
    with pytest.raises(AuthFailed):
        registry_of(provider).model("openai/gpt-4.1").generate(FILE)
    provider = Provider(files=lambda _: (200, {"object": "file"}, {}))
    with pytest.raises(Malformed, match="has no id"):
        registry_of(provider).model("openai/gpt-4.1", retries=0).generate(FILE)
    with pytest.raises(AuthFailed, match="no API key"):
        Registry(env={}, http_client=provider).model("openai/gpt-4.1").generate(FILE)


@pytest.mark.parametrize("status", [404, 400])
def test_an_id_that_the_provider_forgot_is_uploaded_again(status: int) -> None:
    forgotten = {"file-1"}

    def messages(http: HttpRequest) -> tuple[int, Any, dict[str, str]]:
        id = json.loads(http.body)["messages"][0]["content"][0]["source"]["file_id"]
        if id in forgotten and len(provider.seen) > 2:
            error = {"type": "not_found_error", "message": f"File not found: {id}"}
            return status, {"type": "error", "error": error}, {}
        return generated(http)

    provider = Provider(files=numbered(), messages=messages)
    model = registry_of(provider).model("anthropic/claude-sonnet-5")
    for _ in range(2):
        assert model.generate(FILE).text == "ok"
    assert provider.paths == ["/v1/files", "/v1/messages", "/v1/messages", "/v1/files", "/v1/messages"]
    forgotten.add("file-2")
    provider.endpoints["files"] = lambda _: (200, {"id": "file-2"}, {})
    with pytest.raises((BadRequest, Exception), match="File not found: file-2"):
        model.generate(FILE)


def test_a_chain_uploads_to_each_provider_only_when_it_is_its_turn() -> None:
    provider = Provider(files=numbered(), messages=lambda _: (529, {"type": "error", "error": {"type": "x"}}, {}))
    model = registry_of(provider).model("anthropic/claude-sonnet-5, openai/gpt-4.1", retries=0)
    assert model.generate(FILE).target == "openai/gpt-4.1"
    assert provider.paths == ["/v1/files", "/v1/messages", "/v1/files", "/v1/chat/completions"]


def test_async_calls_and_streams_upload_too() -> None:
    async def run() -> None:
        provider = Provider(files=numbered())
        model = registry_of(provider).model("openai/gpt-4.1")
        assert (await model.agenerate(FILE)).text == "ok"
        assert (await model.agenerate(FILE)).text == "ok"
        assert provider.paths.count("/v1/files") == 1

    asyncio.run(run())


# Google ---------------------------------------------------------------------------------------------------------------

VIDEO = File(data=b"\0\0video", mime="video/mp4", name="tide.mp4")


def google(states: list[str], url: str = "https://upload.example/u?id=1") -> Provider:
    def file(_: HttpRequest) -> tuple[int, Any, dict[str, str]]:
        found = {"name": "files/f1", "uri": "https://g.example/v1beta/files/f1", "state": states.pop(0)}
        return 200, {"file": found} if _.method == "POST" else found, {}

    def start(http: HttpRequest) -> tuple[int, Any, dict[str, str]]:
        assert json.loads(http.body) == {"file": {"displayName": "tide.mp4"}}
        return 200, {}, {"x-goog-upload-url": url}

    return Provider(upload_v1beta_files=start, u=file, files_f1=file)


def test_google_gets_a_file_in_two_requests_and_processes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.wires.google.files.POLL", 0.001)
    provider = google(["PROCESSING", "PROCESSING", "ACTIVE"])
    registry_of(provider).model("google/gemini-3-pro-preview").generate([VIDEO, "What happens?"])
    assert provider.paths == [
        "/upload/v1beta/files",
        "/u",
        "/v1beta/files/f1",
        "/v1beta/files/f1",
        "/v1beta/models/gemini-3-pro-preview:generateContent",
    ]
    start, content = provider.seen[:2]
    assert start.headers["x-goog-upload-header-content-type"] == "video/mp4"
    assert (content.origin, content.body) == ("https://upload.example", VIDEO.data)
    assert "x-goog-api-key" not in content.headers
    assert last_body(provider)["contents"][0]["parts"][0] == {
        "fileData": {"mimeType": "video/mp4", "fileUri": "https://g.example/v1beta/files/f1"}
    }


def test_a_file_that_google_cannot_process_is_an_error() -> None:
    with pytest.raises(Exception, match=r"could not process the file tide\.mp4"):
        registry_of(google(["FAILED"])).model("google/gemini-3-pro-preview", retries=0).generate(VIDEO)


def test_a_file_is_not_processed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    model = registry_of(google(["PROCESSING"] * 9)).model("google/gemini-3-pro-preview", retries=0, timeout=1.0)
    with pytest.raises(TimedOut, match="did not process the file"):
        model.generate(VIDEO)
    monkeypatch.setattr("dragoman.engine.uploads.MAX_STEPS", 1)
    with pytest.raises(TimedOut, match="did not process the file"):
        registry_of(google(["PROCESSING"])).model("google/gemini-3-pro-preview", retries=0).generate(VIDEO)


def test_the_address_of_an_upload_must_be_safe() -> None:
    provider = google([], url="http://elsewhere.example/u")
    with pytest.raises(Malformed, match="must use https"):
        registry_of(provider).model("google/gemini-3-pro-preview", retries=0).generate(VIDEO)


def test_an_answer_without_an_address_is_malformed() -> None:
    provider = Provider(upload_v1beta_files=lambda _: (200, {"file": {}}, {}))
    with pytest.raises(Malformed, match="has no uri"):
        registry_of(provider).model("google/gemini-3-pro-preview", retries=0).generate(VIDEO)


# Explain --------------------------------------------------------------------------------------------------------------


def test_explain_says_what_would_be_uploaded() -> None:
    registry = Registry(env={}, api_key="k")
    (plan,) = registry.model("anthropic/claude-sonnet-5").explain(FILE)
    assert [notice.what for notice in plan.notices] == ["file tides.pdf"]
    assert "uploaded once when the call is made" in plan.notices[0].why
    assert registry.model("groq/x").explain("hi")[0].notices == ()


def test_a_request_without_files_needs_nothing() -> None:
    request = Request(messages=(user("hi", Opaque(wire="anthropic", data={})),))
    target = Registry(env={}).target("anthropic/claude-sonnet-5")
    driver = Driver(Provider())
    assert driver.run(resolve_files(request, target, CallContext())).request is request
    vertex = replace(Registry(env={}).target("google/x"), base_url="https://a.example/v1/publishers/google")
    asked = Request(messages=(user(FILE),))
    assert driver.run(resolve_files(asked, vertex, CallContext())).request is asked


# The index ------------------------------------------------------------------------------------------------------------


def test_another_process_and_another_account(tmp_path: Path) -> None:
    provider = Provider(files=numbered())
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    for _ in range(2):
        registry_of(provider, **env).model("openai/gpt-4.1").generate(FILE)
    assert provider.paths.count("/v1/files") == 1
    Registry(env=env, api_key="k-another", http_client=provider).model("openai/gpt-4.1").generate(FILE)
    assert provider.paths.count("/v1/files") == 2
    path = tmp_path / "dragoman" / "uploads.db"
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"k-123456" not in path.read_bytes()


def test_entries_expire(tmp_path: Path) -> None:
    now = [1000.0]
    for path in (None, tmp_path / "index.db"):
        index = UploadIndex(path, clock=lambda: now[0])
        assert index.get("a") is None
        index.put("a", RemoteCopy("file-1", 60.0))
        assert index.get("a") == RemoteCopy("file-1", 60.0)
        now[0] += 61
        assert index.get("a") is None
        index.put("a", RemoteCopy("file-2", 60.0))
        index.put("a", None)
        assert index.get("a") is None
        assert index.get("b") is None


def test_a_file_that_cannot_be_used_is_replaced_by_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broken = tmp_path / "index.db"
    broken.write_bytes(b"not a database, but long enough to be looked at" * 40)
    for path in (broken, tmp_path / "index.db" / "below.db"):
        index = UploadIndex(path)
        index.put("a", RemoteCopy("file-1", 60.0))
        assert index.get("a") is not None
    assert "uploads are remembered in this process only" in caplog.text
    assert UploadIndex(broken).get("a") is None


@pytest.mark.skipif(sys.platform != "linux", reason="looks for open files in /proc")
def test_a_file_that_is_no_database_is_closed(tmp_path: Path) -> None:
    broken = tmp_path / "index.db"
    broken.write_bytes(b"not a database, but long enough to be looked at" * 40)
    with pytest.raises(sqlite3.Error) as refused:
        UploadIndex(broken)._open(broken)  # pyright: ignore[reportPrivateUsage] - its callers hide the error
    files = {os.path.realpath(file) for file in Path("/proc/self/fd").iterdir()}
    assert str(broken) not in files, refused  # the error holds the frame, and so the connection


def test_the_index_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.io.upload_index.MAX_ENTRIES", 2)
    index = UploadIndex()
    for i in range(4):
        index.put(str(i), RemoteCopy(str(i), 60.0))
    assert [index.get(str(i)) is not None for i in range(4)] == [False, False, True, True]
    assert MAX_ENTRIES == 10_000


def test_where_the_index_is() -> None:
    assert index_path({"DRAGOMAN_UPLOADS": "memory", "HOME": "/h"}) is None
    assert index_path({"DRAGOMAN_UPLOADS": "/a/b.db"}) == Path("/a/b.db")
    assert index_path({"HOME": "/h"}) == Path("/h/.cache/dragoman/uploads.db")


def test_the_key_of_a_file_depends_on_account_and_content() -> None:
    target = Registry(env={}, api_key="k").target("openai/gpt-4.1")
    other = replace(target, api_key="l")
    parts = (FILE.part, File(data=b"x", mime="application/pdf").part)
    assert len({file_key(part, each) for part in parts for each in (target, other)}) == 4


# Cache points after files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider_name", ["openai", "openai-responses"])
def test_openai_gets_a_breakpoint_at_the_reference(provider_name: str) -> None:
    provider = Provider(files=numbered())
    registry_of(provider).model(f"{provider_name}/gpt-5.6").generate([FILE, CachePoint(), "What is it?"])
    body = last_body(provider)
    block = (body.get("messages") or body["input"])[0]["content"][0]
    assert block["prompt_cache_breakpoint"] == {"mode": "explicit"}
    assert "file-1" in json.dumps(block)
    assert body["prompt_cache_key"]


def test_a_provider_that_decides_itself_gives_a_notice() -> None:
    provider = Provider(files=numbered())
    answer = registry_of(provider).model("openai/gpt-4o").generate([FILE, CachePoint(), "What is it?"])
    assert any(notice.what == "cache point" for notice in answer.notices)
    assert "cache" not in json.dumps(last_body(provider)["messages"])


def test_bedrock_gets_a_point_after_the_bytes() -> None:
    provider = Provider()
    model = Registry(env={"AWS_REGION": "us-east-1"}, http_client=provider).model(
        "bedrock/anthropic.claude-x", api_key="k-123456"
    )
    (plan,) = model.explain([FILE, CachePoint(ttl="1h"), "What is it?"])
    assert plan.cache == ("messages[0].content[2] (1h)",)
    assert plan.request is not None
    blocks = json.loads(plan.request.body)["messages"][0]["content"]
    assert blocks[1] == {"text": "\n"}, "Bedrock refuses a point directly after a document"
    (plan,) = model.explain(["What is it?", FILE], cache=True)
    assert plan.cache == ("messages[0].content[3]",)


def test_google_stores_a_prompt_that_ends_with_a_file() -> None:
    def start(_: HttpRequest) -> tuple[int, Any, dict[str, str]]:
        return 200, {}, {"x-goog-upload-url": "https://upload.example/1"}

    def content(_: HttpRequest) -> tuple[int, Any, dict[str, str]]:
        return 200, {"file": {"uri": "https://g/files/f", "state": "ACTIVE"}}, {}

    def store(_: HttpRequest) -> tuple[int, Any, dict[str, str]]:
        return 200, {"name": "cachedContents/c", "usageMetadata": {"totalTokenCount": 5000}}, {}

    provider = Provider(**{"upload_v1beta_files": start, "1": content, "cachedContents": store})
    registry_of(provider).model("google/gemini-2.5-flash").generate([FILE, CachePoint(ttl="10m"), "What is it?"])
    (created,) = [json.loads(http.body) for http in provider.seen if http.path.endswith("cachedContents")]
    assert created["contents"][0]["parts"] == [
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://g/files/f"}}
    ]
    assert created["ttl"] == "600s"
    body = last_body(provider)
    assert (body["cachedContent"], body["contents"][0]["parts"]) == ("cachedContents/c", [{"text": "What is it?"}])


def test_at_most_four_points_after_files() -> None:
    provider = Provider(files=numbered())
    prompt = [part for _ in range(5) for part in (FILE, CachePoint())]
    answer = registry_of(provider).model("anthropic/claude-sonnet-5").generate([*prompt, "What is it?"])
    blocks = last_body(provider)["messages"][0]["content"]
    assert ["cache_control" in block for block in blocks] == [True] * 4 + [False] * 2
    assert any("at most 4" in notice.why for notice in answer.notices)


def test_a_mark_of_the_wire_stays_as_it_is() -> None:
    provider = Provider(files=numbered())
    own = {"anthropic": {"cache_control": {"type": "ephemeral", "ttl": "1h"}}}
    (part,) = user(FILE).parts
    assert isinstance(part, Document)
    marked = replace(part, extra={**part.extra, **own})
    registry_of(provider).model("anthropic/claude-sonnet-5").generate([marked, "What is it?"])
    assert last_body(provider)["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
