"""How each wire uploads a file, and how its requests refer to it."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import Malformed, ProviderError
from dragoman.http import HttpResponse
from dragoman.registry import Registry
from dragoman.targets.target import Target
from dragoman.types import CachePoint, File, Image, Request, user
from dragoman.types.caching import mark_part
from dragoman.wires.base import WireFiles
from dragoman.wires.common.multipart import decode_form
from dragoman.wires.common.uploads import FILE_TTL, MARGIN, NextUpload, Uploaded

PDF = File(data=b"%PDF", mime="application/pdf", name="tides.pdf").part
PNG = File(data=b"PNG", mime="image/png").part
CSV = File(data=b"a,b", mime="text/csv", name="a.csv").part
ZIP = File(data=b"PK", mime="application/zip").part
VIDEO = File(data=b"00", mime="video/mp4").part
SPECS = ("anthropic/claude-sonnet-5", "openai/gpt-4.1", "openai-responses/gpt-4.1", "google/gemini-3-pro-preview")


def target(spec: str) -> Target:
    return Registry(env={}, api_key="k-123456").target(spec)


def hooks(spec: str) -> WireFiles:
    files = wires.get(target(spec).wire).files
    assert files is not None
    return files


def answer(body: Any, **headers: str) -> HttpResponse:
    return HttpResponse(
        headers={name.replace("_", "-"): value for name, value in headers.items()}, body=json.dumps(body).encode()
    )


@pytest.mark.parametrize(
    ("spec", "accepted"),
    [
        (SPECS[0], (True, True, True, False, False)),
        (SPECS[1], (True, False, True, True, False)),
        (SPECS[2], (True, True, True, True, False)),
        (SPECS[3], (True, True, True, True, True)),
    ],
)
def test_each_provider_stores_some_types(spec: str, accepted: tuple[bool, ...]) -> None:
    starts = [hooks(spec).start(part, target(spec)) is not None for part in (PDF, PNG, CSV, ZIP, VIDEO)]
    assert tuple(starts) == accepted
    assert hooks(spec).start(Image(url="https://a.example/a.png"), target(spec)) is None


@pytest.mark.parametrize("spec", SPECS[:3])
def test_a_form_has_the_file_and_says_for_how_long(spec: str) -> None:
    http = hooks(spec).start(PDF, target(spec))
    assert http is not None
    assert http.secret == "k-123456"
    fields = decode_form(http)
    assert (fields["file"].filename, fields["file"].data) == ("tides.pdf", b"%PDF")
    assert str(FILE_TTL) in [field.text for name, field in fields.items() if "seconds" in name]
    step = hooks(spec).follow(answer({"id": "file-1"}), PDF, target(spec))
    assert step == Uploaded("file-1", FILE_TTL - MARGIN)
    wrong_answers: tuple[Any, ...] = ({}, {"id": ""}, [])
    for wrong in wrong_answers:
        with pytest.raises(Malformed, match="has no id"):
            hooks(spec).follow(answer(wrong), PDF, target(spec))


def test_references() -> None:
    claude, chat, responses, gemini = map(hooks, SPECS)
    assert claude.refer(PNG, "f").data == {"type": "image", "source": {"type": "file", "file_id": "f"}}
    assert claude.refer(mark_part(PDF, CachePoint()), "f").data == {
        "type": "document",
        "source": {"type": "file", "file_id": "f"},
        "title": "tides.pdf",
    }
    own = replace(PNG, extra={"anthropic": {"cache_control": {"type": "x"}}, "cache": {}})
    assert claude.refer(own, "f").data["cache_control"] == {"type": "x"}
    assert chat.refer(PDF, "f").data == {"type": "file", "file": {"file_id": "f"}}
    assert responses.refer(PDF, "f").data == {"type": "input_file", "file_id": "f"}
    assert responses.refer(PNG, "f").data == {"type": "input_image", "file_id": "f", "detail": "auto"}
    assert gemini.refer(PDF, "https://g/f").data == {
        "fileData": {"mimeType": "application/pdf", "fileUri": "https://g/f"}
    }


def test_what_else_a_request_needs() -> None:
    request = Request(messages=(user("hi"),))
    for spec in SPECS[1:]:
        assert hooks(spec).complete(request) is request
    claude = hooks(SPECS[0])
    assert claude.complete(request).extra == {"anthropic": {"betas": ["files-api-2025-04-14"]}}
    assert claude.complete(claude.complete(request)) == claude.complete(request)
    texts = replace(request, extra={"anthropic": {"betas": "a-1"}})
    assert claude.complete(texts).extra == {"anthropic": {"betas": ["a-1", "files-api-2025-04-14"]}}


def test_an_upload_to_google_has_several_steps() -> None:
    spec = SPECS[3]
    gemini, place = hooks(spec), target(spec)
    step = gemini.follow(answer({}, x_goog_upload_url="https://u.example/a"), PDF, place)
    assert isinstance(step, NextUpload)
    assert (step.http.url, step.http.body, step.http.secret) == ("https://u.example/a", b"%PDF", None)
    step = gemini.follow(answer({}, x_goog_upload_url="https://u.example/a?b=c"), PDF, place)
    assert isinstance(step, NextUpload)
    assert step.http.path == "/a?b=c"
    file = {"name": "files/f1", "uri": "https://g/files/f1", "state": "PROCESSING"}
    step = gemini.follow(answer({"file": file}), PDF, place)
    assert isinstance(step, NextUpload)
    assert (step.http.method, step.http.path, step.wait > 0) == ("GET", "/v1beta/files/f1", True)
    assert gemini.follow(answer({**file, "state": "ACTIVE"}), PDF, place) == Uploaded(
        "https://g/files/f1", 48 * 3600 - MARGIN
    )
    with pytest.raises(ProviderError, match="could not process the file tides"):
        gemini.follow(answer({**file, "state": "FAILED"}), PDF, place)
    wrong_answers: tuple[Any, ...] = ([], {"file": {}})
    for wrong in wrong_answers:
        with pytest.raises(Malformed, match="has no uri"):
            gemini.follow(answer(wrong), PDF, place)
    with pytest.raises(Malformed, match="must use https"):
        gemini.follow(answer({}, x_goog_upload_url="http://u.example/a"), PDF, place)


def test_vertex_ai_has_no_files() -> None:
    cloud = replace(target(SPECS[3]), base_url="https://a.example/v1/publishers/google")
    assert hooks(SPECS[3]).start(PDF, cloud) is None


def test_the_name_of_a_file_is_optional() -> None:
    http = hooks(SPECS[1]).start(File(data=b"%PDF", mime="application/pdf").part, target(SPECS[1]))
    assert http is not None
    assert decode_form(http)["file"].filename == "file"
    odd = replace(PDF, extra={"file": {"name": 3}})
    assert msgspec.json.encode(odd)
