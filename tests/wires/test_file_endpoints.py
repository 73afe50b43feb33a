"""Files in OpenAI's and in Anthropic's dialect: what clients send, and what they get."""

from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.wires.common.multipart import FormField, encode_form
from dragoman.wires.common.server_endpoints import FileContent, FileQuery, ServerEndpoint, StoredFile, UploadedFile

FILES = tuple(
    StoredFile(id=f"file-{i}", name=f"{i}.pdf", mime="application/pdf", size=i, created=i, expires=86400 + i)
    for i in (3, 2, 1)
)


def find(wire: str, method: str, path: str) -> ServerEndpoint:
    return next(
        each for each in wires.get(wire).server_endpoints if (each.route.method, each.route.path) == (method, path)
    )


def upload(wire: str, **fields: FormField) -> UploadedFile:
    headers, body = encode_form((name.replace("__", "[") + "]" * ("__" in name), f) for name, f in fields.items())
    query = find(wire, "POST", "/v1/files").decode(
        HttpRequest(method="POST", path="/v1/files", headers=headers, body=body)
    )
    assert isinstance(query, FileQuery)
    assert query.file is not None
    return query.file


def listed(wire: str, query: str = "") -> Any:
    endpoint = find(wire, "GET", "/v1/files")
    request = endpoint.decode(HttpRequest(method="GET", path=f"/v1/files{query}"))
    return msgspec.json.decode(endpoint.encode(request, FILES).body)


TEXT = FormField(data=b"tides", filename="../a.txt", mime="application/octet-stream")


def test_an_upload_to_openai() -> None:
    file = upload("openai_chat", file=TEXT, purpose=FormField(data=b"batch"), expires_after__seconds=_seconds("3600"))
    assert file == UploadedFile(data=b"tides", name="a.txt", mime="text/plain", purpose="batch", seconds=3600)


def test_an_upload_to_anthropic() -> None:
    file = upload(
        "anthropic", file=FormField(data=b"GIF89a", mime="text/plain; x=y"), expires_in_seconds=_seconds("7776000")
    )
    assert file == UploadedFile(data=b"GIF89a", name="unnamed", mime="image/gif", seconds=7776000)


def test_a_file_of_unknown_type_is_bytes() -> None:
    assert upload("anthropic", file=FormField(data=b"?", filename="a")).mime == "application/octet-stream"
    assert upload("anthropic", file=FormField(data=b"?", filename="a", mime="Text/CSV")).mime == "text/csv"


def _seconds(text: str) -> FormField:
    return FormField(data=text.encode())


@pytest.mark.parametrize(
    ("wire", "fields", "why"),
    [
        ("openai_chat", {"file": TEXT}, "purpose is required"),
        ("openai_chat", {"purpose": _seconds("batch")}, "file is required"),
        ("openai_chat", {"file": TEXT, "purpose": _seconds("1")}, "purpose must be assistants, batch"),
        (
            "openai_chat",
            {"file": TEXT, "purpose": _seconds("batch"), "expires_after__anchor": _seconds("now")},
            "expires_after.anchor must be created_at, got 'now'",
        ),
        ("anthropic", {"file": FormField(data=b"")}, "file must have content"),
        ("anthropic", {"file": TEXT, "expires_in_seconds": _seconds("soon")}, "must be a number of seconds from 3600"),
    ],
)
def test_wrong_uploads_are_refused(wire: str, fields: dict[str, FormField], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        upload(wire, **fields)


def test_pages_for_openai() -> None:
    assert [file["id"] for file in listed("openai_chat")["data"]] == ["file-3", "file-2", "file-1"]
    page = listed("openai_chat", "?limit=1&after=file-3")
    assert [file["id"] for file in page["data"]] == ["file-2"]
    assert page["has_more"]
    assert listed("openai_chat", "?order=asc")["first_id"] == "file-1"
    assert listed("openai_chat", "?purpose=batch") == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }


def test_pages_for_anthropic() -> None:
    page = listed("anthropic", "?limit=2")
    assert [file["id"] for file in page["data"]] == ["file-3", "file-2"]
    assert page["next_page"] == "page_file-2"
    rest = listed("anthropic", "?page=page_file-2")
    assert (rest["next_page"], rest["has_more"], rest["first_id"]) == (None, False, "file-1")
    assert [file["id"] for file in listed("anthropic", "?after_id=file-3")["data"]] == ["file-2", "file-1"]
    assert [file["id"] for file in listed("anthropic", "?before_id=file-1&limit=1")["data"]] == ["file-2"]
    assert [file["id"] for file in listed("anthropic", "?ids[]=file-1&ids=file-9")["data"]] == ["file-1"]
    assert listed("anthropic", "?ids=file-9")["first_id"] is None


@pytest.mark.parametrize(
    ("wire", "query", "why"),
    [
        ("openai_chat", "?order=up", "order must be asc or desc"),
        ("openai_chat", "?limit=0", "limit must be a number from 1 to 10000, got '0'"),
        ("anthropic", "?limit=many", "limit must be a number from 1 to 1000"),
        ("anthropic", "?page=page_file-9", "page must be the id of a file in the list"),
    ],
)
def test_wrong_pages_are_refused(wire: str, query: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        listed(wire, query)


@pytest.mark.parametrize("wire", ["openai_chat", "anthropic"])
def test_one_file(wire: str) -> None:
    one = "/v1/files/{id}"
    table: list[tuple[str, str, Any]] = [
        ("GET", one, "fetch"),
        ("GET", f"{one}/content", "content"),
        ("DELETE", one, "drop"),
    ]
    for method, path, action in table:
        request = find(wire, method, path).decode(HttpRequest(method=method, path=path.replace("{id}", "file-1")))
        assert request == FileQuery(action, "file-1")
    fetched = msgspec.json.decode(find(wire, "GET", one).encode(None, FILES[0]).body)
    assert fetched["id"] == "file-3"
    dropped = msgspec.json.decode(find(wire, "DELETE", one).encode(None, FILES[0]).body)
    assert dropped["id"] == "file-3"
    assert find(wire, "GET", f"{one}/content").encode(None, FileContent(FILES[0], b"abc")).body == b"abc"
    assert msgspec.json.decode(find(wire, "POST", "/v1/files").encode(None, FILES[0]).body) == fetched
