"""Files by the official packages against a live gateway."""

import io
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.gateway.auth.api_keys import hash_key
from tests.support.gateway.live import Gateway
from tests.support.images import picture

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


# In requests ----------------------------------------------------------------------------------------------------------


def test_an_id_stands_for_the_content_in_chat_completions(openai: Any) -> None:
    file = openai.files.create(file=("tides.pdf", PDF), purpose="user_data")
    parts = [{"type": "text", "text": "What is it?"}, {"type": "file", "file": {"file_id": file.id}}]
    answer = openai.chat.completions.create(model="demo/any", messages=[{"role": "user", "content": parts}])
    assert f"a document tides.pdf (application/pdf), {len(PDF)} bytes" in answer.choices[0].message.content
    openai.files.delete(file.id)


def test_an_id_stands_for_the_content_in_responses_and_later_ones(openai: Any) -> None:
    file = openai.files.create(file=("tides.png", picture(2, 3)), purpose="vision")
    image = {"type": "input_image", "file_id": file.id, "detail": "auto"}
    content = [{"type": "input_text", "text": "What is it?"}, image]
    first = openai.responses.create(model="demo/any", input=[{"role": "user", "content": content}])
    assert "an image (image/png) of 2 by 3 pixels" in first.output_text
    again = openai.responses.create(model="demo/any", input="And now?", previous_response_id=first.id)
    assert again.output_text
    openai.files.delete(file.id)
    from openai import BadRequestError

    with pytest.raises(BadRequestError, match="it expired, was deleted, or belongs to another key"):
        openai.responses.create(model="demo/any", input="And now?", previous_response_id=first.id)


def test_an_id_stands_for_the_content_in_messages(anthropic: Any) -> None:
    file = anthropic.beta.files.upload(file=("tides.txt", b"high water at noon", "text/plain"))
    block = {"type": "document", "source": {"type": "file", "file_id": file.id}, "title": "Tides"}
    answer = anthropic.beta.messages.create(
        model="demo/any",
        max_tokens=100,
        messages=[{"role": "user", "content": [block, {"type": "text", "text": "What is it?"}]}],
        betas=["files-api-2025-04-14"],
    )
    assert "a document Tides (text/plain), 18 bytes" in answer.content[0].text
    count = anthropic.messages.count_tokens(model="demo/any", messages=[{"role": "user", "content": [block]}])
    assert count.input_tokens > 0
    anthropic.beta.files.delete(file.id)


def test_another_keys_id_is_refused_in_a_request(gateway: Gateway, openai: Any) -> None:
    from openai import BadRequestError, OpenAI

    file = openai.files.create(file=("a.pdf", PDF), purpose="user_data")
    parts: Any = [{"type": "file", "file": {"file_id": file.id}}]
    with (
        OpenAI(base_url=f"{gateway.url}/v1", api_key=BOB, max_retries=0) as bob,
        pytest.raises(BadRequestError, match="belongs to another key") as caught,
    ):
        bob.chat.completions.create(model="demo/any", messages=[{"role": "user", "content": parts}])
    assert caught.value.param == "file_id"
    openai.files.delete(file.id)


def test_a_short_request_cannot_refer_to_more_content_than_a_long_one_has(openai: Any) -> None:
    from openai import APIStatusError

    file = openai.files.create(file=("a.bin", b"x" * 400_000), purpose="user_data")
    parts = [{"type": "file", "file": {"file_id": file.id}}] * 3
    with pytest.raises(APIStatusError, match="at most 1000000 bytes together") as caught:
        openai.chat.completions.create(model="demo/any", messages=[{"role": "user", "content": parts}])
    assert caught.value.status_code == 413
    openai.files.delete(file.id)


def test_a_file_of_the_gateway_is_not_for_the_tools_of_a_provider(anthropic: Any) -> None:
    from anthropic import BadRequestError

    block = {"type": "container_upload", "file_id": "file-dragoman-1"}
    with pytest.raises(BadRequestError, match="send it as a document"):
        anthropic.beta.messages.create(model="demo/any", max_tokens=9, messages=[{"role": "user", "content": [block]}])
