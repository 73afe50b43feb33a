"""Which targets take which documents: office files, csv and video."""

from pathlib import Path

import pytest

from dragoman import Document, Message, Registry, ToolCall, ToolResult, Unsupported, tool_results, user
from dragoman.engine.explanation import Explanation

KEYS = "OPENAI_API_KEY ANTHROPIC_API_KEY GEMINI_API_KEY AWS_BEARER_TOKEN_BEDROCK".split()
ENV: dict[str, str] = dict.fromkeys(map(str, KEYS), "k")
TARGETS = {
    "openai": "openai/gpt-5",
    "responses": "openai-responses/gpt-5",
    "anthropic": "anthropic/claude-sonnet-5",
    "google": "google/gemini-3.5-flash",
    "bedrock": "bedrock/anthropic.claude-sonnet-5-v1:0",
    "ollama": "ollama/qwen3",
}


def explain(target: str, document: Document) -> Explanation:
    model = Registry(env={**ENV, "AWS_REGION": "us-east-1"}).model(TARGETS[target])
    (explanation,) = model.explain([user("What is this?", document)])
    return explanation


def file(tmp_path: Path, name: str, data: bytes = b"port,metres") -> Document:
    (tmp_path / name).write_bytes(data)
    return Document.from_path(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "mime"),
    [
        ("a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("a.XLSX", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("a.csv", "text/csv"),
        ("a.mp4", "video/mp4"),
        ("a.mov", "video/quicktime"),
    ],
)
def test_the_type_of_a_file_is_known(tmp_path: Path, name: str, mime: str) -> None:
    assert file(tmp_path, name).mime == mime
    assert Document.from_url(f"https://x/{name}").mime == mime


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx"])
@pytest.mark.parametrize("target", TARGETS)
def test_office_files(tmp_path: Path, target: str, name: str) -> None:
    found = explain(target, file(tmp_path, name, b"PK\3\4"))
    if target in ("responses", "bedrock"):
        assert found.request is not None
        assert b"UEsDBA==" in found.request.body
    else:
        assert found.request is None
        assert "does not support documents" in (found.reason or "")


@pytest.mark.parametrize("target", TARGETS)
def test_csv(tmp_path: Path, target: str) -> None:
    found = explain(target, file(tmp_path, "a.csv"))
    assert found.request is not None
    notices = [notice.why for notice in found.notices if notice.kind == "changed"]
    if target in ("openai", "ollama"):
        assert rb"[Document a.csv]\nport,metres" in found.request.body
        assert "documents of the type text/csv are not supported; it is sent as text" in notices[0]
    elif target == "anthropic":
        assert b'"data":"port,metres"' in found.request.body
        assert "text/csv is sent as text/plain" in notices[0]
    else:
        assert b"cG9ydCxtZXRyZXM=" in found.request.body
        assert notices == []


@pytest.mark.parametrize("target", TARGETS)
def test_video(tmp_path: Path, target: str) -> None:
    clip = file(tmp_path, "a.mp4", b"\0\0\0\x18ftypmp42")
    link = Document.from_url("https://www.youtube.com/watch?v=9hE5-98ZeCg")
    if target == "google":
        inline, linked = explain(target, clip).request, explain(target, link).request
        assert inline is not None
        assert linked is not None
        assert b'"inlineData":{"mimeType":"video/mp4"' in inline.body
        assert b'"fileUri":"https://www.youtube.com/watch?v=9hE5-98ZeCg"' in linked.body
        assert b'"mimeType":"video/mp4"' in linked.body
    else:
        assert "does not support video" in (explain(target, clip).reason or "")
        assert "does not support video" in (explain(target, link).reason or "")


def test_strict_refuses_text_in_place_of_a_document(tmp_path: Path) -> None:
    model = Registry(env=ENV).model("openai/gpt-5", strict=True)
    with pytest.raises(Unsupported, match="it is sent as text"):
        model.generate(["What is this?", file(tmp_path, "a.csv")])


@pytest.mark.parametrize("origin", ["anthropic", "bedrock"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_document_that_is_to_be_cited(origin: str, target: str) -> None:
    wish = {origin: {"citations": {"enabled": True}}}
    found = explain(target, Document(data=b"%PDF", mime="application/pdf", name="bill", extra=wish))
    lost = [notice.what for notice in found.notices if notice.loss]
    if target == "ollama":
        assert found.request is None
        return
    assert found.request is not None
    if target in ("anthropic", "bedrock"):
        assert b'"citations":{"enabled":true}' in found.request.body
        assert lost == []
    else:
        assert b"enabled" not in found.request.body
        assert "citations of a document" in lost


@pytest.mark.parametrize("target", ["anthropic", "bedrock", "google"])
def test_a_document_in_a_result_that_is_to_be_cited(target: str) -> None:
    for origin in ("anthropic", "bedrock"):
        wish = {origin: {"citations": {"enabled": True}}}
        bill = Document(data=b"%PDF", mime="application/pdf", name="bill", extra=wish)
        call = Message(role="assistant", parts=(ToolCall(id="c1", name="read"),))
        messages = [user("?"), call, tool_results(ToolResult(id="c1", name="read", content=(bill,)))]
        (found,) = Registry(env={**ENV, "AWS_REGION": "us-east-1"}).model(TARGETS[target]).explain(messages)
        assert found.request is not None
        lost = [notice.what for notice in found.notices if notice.loss]
        if target == "google":
            assert "citations of a document" in lost
        else:
            assert b'"citations":{"enabled":true}' in found.request.body
            assert lost == []


def test_a_document_that_is_not_to_be_cited_needs_no_notice() -> None:
    wish = {"anthropic": {"citations": {"enabled": False}}}
    explanation = explain("responses", Document(data=b"%PDF", mime="application/pdf", name="bill", extra=wish))
    assert [notice for notice in explanation.notices if notice.loss] == []
