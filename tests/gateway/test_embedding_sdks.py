"""Embeddings by the official packages against a live gateway."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway.live import Gateway

TEXTS = ["ships", "harbours"]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("embeddings"), '[gateway]\nproviders = ["demo"]\n') as running:
        yield running


@pytest.fixture(scope="module")
def expected(gateway: Gateway) -> list[list[float]]:
    """The vectors as OpenAI's package reads them."""
    from openai import OpenAI

    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none") as client:
        found = client.embeddings.create(model="demo/any", input=TEXTS, encoding_format="float")
    return [row.embedding for row in found.data]


def test_googles_package_gets_the_same_vectors(gateway: Gateway, expected: list[list[float]]) -> None:
    from google.genai import Client
    from google.genai.types import HttpOptions

    client: Any = Client(api_key="none", http_options=HttpOptions(base_url=gateway.url))
    with client:
        found = client.models.embed_content(model="demo/any", contents=TEXTS)
    assert [each.values for each in found.embeddings] == [pytest.approx(vector) for vector in expected]


def test_what_the_target_has_no_word_for_is_in_a_header(gateway: Gateway) -> None:
    from openai import OpenAI

    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none") as client:
        create = client.embeddings.with_raw_response.create
        raw = create(model="demo/any", input="a", user="u", extra_body={"input_type": "query", "late_chunking": True})
        assert raw.headers["x-dragoman-notice"].count("dropped") == 2
        assert "late_chunking" in raw.headers["x-dragoman-notice"]
        assert len(raw.parse().data) == 1


def test_ollamas_package_gets_the_same_vectors(gateway: Gateway, expected: list[list[float]]) -> None:
    from ollama import Client

    client: Any = Client(host=gateway.url)
    with client:
        one = client.embeddings(model="demo/any", prompt=TEXTS[0]).embedding
        many = client.embed(model="demo/any", input=TEXTS).embeddings
    assert list(one) == pytest.approx(expected[0])
    assert [list(vector) for vector in many] == [pytest.approx(vector) for vector in expected]
