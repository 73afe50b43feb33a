"""Files by the official packages against a live gateway."""

import io
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.gateway.auth.api_keys import hash_key
from tests.support.gateway.live import Gateway

ALICE, BOB = "dgm-alice-000000000000000000000000", "dgm-bob-00000000000000000000000000"
CONFIG = f"""
[gateway]
providers = ["demo"]
max_body = 1000000
max_file_storage = 1500000
[keys.alice]
hash = "{hash_key(ALICE)}"
[keys.bob]
hash = "{hash_key(BOB)}"
"""
PDF = b"%PDF-1.4\n" + bytes(range(256)) * 40 + b"\r\n--dragoman\r\n{[{[" * 300


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("files"), CONFIG) as running:
        yield running


@pytest.fixture
def openai(gateway: Gateway) -> Iterator[Any]:
    from openai import OpenAI

    with OpenAI(base_url=f"{gateway.url}/v1", api_key=ALICE, max_retries=0) as client:
        yield client


@pytest.fixture
def anthropic(gateway: Gateway) -> Iterator[Any]:
    from anthropic import Anthropic

    with Anthropic(base_url=gateway.url, api_key=ALICE, max_retries=0) as client:
        yield client


def test_openais_package_stores_lists_reads_and_deletes_files(openai: Any) -> None:
    made = openai.files.create(file=("tides.pdf", PDF), purpose="user_data")
    assert (made.object, made.bytes, made.filename, made.purpose) == ("file", len(PDF), "tides.pdf", "user_data")
    assert made.expires_at == made.created_at + 30 * 86400
    other = openai.files.create(
        file=io.BytesIO(b"{}\n"), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert other.expires_at == other.created_at + 3600
    assert openai.files.retrieve(made.id) == made
    assert openai.files.content(made.id).read() == PDF
    assert [file.id for file in openai.files.list(limit=1)] == [other.id, made.id]
    assert [file.id for file in openai.files.list(purpose="batch")] == [other.id]
    assert [file.id for file in openai.files.list(order="asc")] == [made.id, other.id]
    for file in (made, other):
        assert openai.files.delete(file.id).deleted
    assert openai.files.list().data == []


def test_anthropics_package_stores_lists_reads_and_deletes_files(anthropic: Any) -> None:
    files = anthropic.beta.files
    made = [files.upload(file=(f"{i}.pdf", PDF, "application/pdf")) for i in range(3)]
    assert (made[0].type, made[0].size_bytes, made[0].mime_type) == ("file", len(PDF), "application/pdf")
    assert (made[0].expires_at - made[0].created_at).days == 30
    assert files.retrieve_metadata(made[0].id) == made[0]
    assert files.download(made[0].id).read() == PDF
    assert [file.id for file in files.list(limit=2)] == [file.id for file in made[::-1]]
    for file in made:
        assert files.delete(file.id).type == "file_deleted"
    assert files.list().data == []


def test_a_file_of_one_dialect_is_there_in_the_other_one(openai: Any, anthropic: Any) -> None:
    file = openai.files.create(file=("a.txt", b"high water at noon"), purpose="user_data")
    assert anthropic.beta.files.retrieve_metadata(file.id).mime_type == "text/plain"
    anthropic.beta.files.delete(file.id)


def test_a_file_of_another_key_does_not_exist(gateway: Gateway, openai: Any) -> None:
    from openai import NotFoundError, OpenAI

    file = openai.files.create(file=("a.txt", b"secret"), purpose="user_data")
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=BOB, max_retries=0) as bob:
        assert bob.files.list().data == []
        for act in (bob.files.retrieve, bob.files.content, bob.files.delete):
            with pytest.raises(NotFoundError, match="belongs to another key"):
                act(file.id)
    assert openai.files.content(file.id).read() == b"secret"
    openai.files.delete(file.id)


def test_anthropics_package_says_that_a_file_does_not_exist(anthropic: Any) -> None:
    from anthropic import NotFoundError

    with pytest.raises(NotFoundError, match="upload it again"):
        anthropic.beta.files.download("file-dragoman-0")


def test_wrong_uploads_are_refused(openai: Any) -> None:
    from openai import BadRequestError

    with pytest.raises(BadRequestError, match="file must have content"):
        openai.files.create(file=("a.txt", b""), purpose="user_data")
    with pytest.raises(BadRequestError, match="purpose must be assistants"):
        openai.files.create(file=("a.txt", b"x"), purpose="Any Thing")
    with pytest.raises(BadRequestError, match="must be a number of seconds from 3600 to 2592000, got '5'"):
        openai.files.create(file=("a.txt", b"x"), purpose="batch", expires_after={"anchor": "created_at", "seconds": 5})
    with pytest.raises(BadRequestError, match="after must be the id of a file"):
        openai.files.list(after="file-1")


def test_uploads_are_bounded(openai: Any) -> None:
    from openai import APIStatusError

    with pytest.raises(APIStatusError, match="larger than 1000000 bytes") as caught:
        openai.files.create(file=("a.bin", b"x" * 1_000_000), purpose="user_data")
    assert caught.value.status_code == 413
    first = openai.files.create(file=("a.bin", b"x" * 900_000), purpose="user_data")
    with pytest.raises(APIStatusError, match="900000 of other files; delete some") as caught:
        openai.files.create(file=("b.bin", b"x" * 900_000), purpose="user_data")
    assert caught.value.status_code == 413
    openai.files.delete(first.id)
    openai.files.delete(openai.files.create(file=("b.bin", b"x" * 900_000), purpose="user_data").id)


def test_a_browser_never_runs_an_uploaded_page(gateway: Gateway, openai: Any) -> None:
    file = openai.files.create(file=("a.html", b"<script>1</script>", "text/html"), purpose="user_data")
    headers = openai.files.with_raw_response.content(file.id).headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["x-content-type-options"] == "nosniff"
    openai.files.delete(file.id)
