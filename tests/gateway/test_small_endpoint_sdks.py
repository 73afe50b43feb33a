"""Completions of a text, stored chats and rankings by the official packages against a live gateway."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import openai
import pytest
from openai import OpenAI

from dragoman.gateway.auth.api_keys import hash_key
from tests.support.gateway.live import Gateway

ANN, BEN = (f"sk-dragoman-{name * 8}" for name in ("ann", "ben"))
CONFIG = """[gateway]
providers = ["demo"]
[keys.ann]
hash = "{ann}"
[keys.ben]
hash = "{ben}"
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = CONFIG.format(ann=hash_key(ANN), ben=hash_key(BEN))
    with Gateway(tmp_path_factory.mktemp("small"), config) as running:
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=ANN, max_retries=0) as client:
        yield client


def test_a_text_is_continued(client: OpenAI) -> None:
    found = client.completions.create(model="demo/any", prompt="Once upon a time", suffix="the end")
    assert found.object == "text_completion"
    assert (found.choices[0].text, found.choices[0].finish_reason) == (
        " and so on, after 4 words and before 2.",
        "stop",
    )
    assert found.usage is not None
    assert found.usage.prompt_tokens == 4


def test_a_text_is_continued_in_a_stream(client: OpenAI) -> None:
    options: Any = {"include_usage": True}
    stream = client.completions.create(model="demo/any", prompt="Once", stream=True, stream_options=options)
    chunks = list(stream)
    text = "".join(choice.text for chunk in chunks for choice in chunk.choices)
    assert text == " and so on, after 1 words."
    assert chunks[-1].usage is not None


def test_a_wrong_prompt_is_an_error_of_the_package(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="demo/any", prompt=[])
    assert refused.value.param == "prompt"


def test_a_stored_chat_can_be_listed_read_changed_and_deleted(client: OpenAI) -> None:
    question: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it so?"}]
    made = [
        client.chat.completions.create(model="demo/any", messages=question, store=True, metadata={"n": str(number)})
        for number in range(3)
    ]
    kept = [chat.id for chat in client.chat.completions.list(limit=2)]
    assert kept == [chat.id for chat in made]
    found = client.chat.completions.retrieve(made[0].id)
    assert found.choices == made[0].choices
    assert [chat.id for chat in client.chat.completions.list(metadata={"n": "1"})] == [made[1].id]
    assert [chat.id for chat in client.chat.completions.list(order="desc", after=made[1].id)] == [made[0].id]
    messages = list(client.chat.completions.messages.list(made[0].id, limit=1))
    assert [message.content for message in messages] == ["Be brief.", "Is it so?"]
    changed = client.chat.completions.update(made[0].id, metadata={"n": "new"})
    assert (changed.to_dict()["metadata"], changed.id) == ({"n": "new"}, made[0].id)
    for chat in made:
        assert client.chat.completions.delete(chat.id).deleted
    assert list(client.chat.completions.list()) == []
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.retrieve(made[0].id)


def test_a_stored_stream_is_stored_whole(client: OpenAI, gateway: Gateway) -> None:
    question: Any = [{"role": "user", "content": "Is it so?"}]
    chunks = list(client.chat.completions.create(model="demo/any", messages=question, store=True, stream=True))
    found = client.chat.completions.retrieve(chunks[0].id)
    assert found.choices[0].message.content == "You said “Is it so?”, which is 3 words."
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=BEN, max_retries=0) as other:
        assert list(other.chat.completions.list()) == []
        for action in (other.chat.completions.retrieve, other.chat.completions.delete):
            with pytest.raises(openai.NotFoundError):
                action(chunks[0].id)


def test_a_chat_is_stored_only_if_the_client_asks_for_it(client: OpenAI) -> None:
    question: Any = [{"role": "user", "content": "Is it so?"}]
    chat = client.chat.completions.create(model="demo/any", messages=question, store=False)
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.retrieve(chat.id)


@pytest.mark.parametrize("metadata", [{"a" * 65: "b"}, {"a": "b" * 513}, {str(n): "" for n in range(17)}])
def test_metadata_have_limits(client: OpenAI, metadata: dict[str, str]) -> None:
    question: Any = [{"role": "user", "content": "Is it so?"}]
    with pytest.raises(openai.BadRequestError, match="metadata must"):
        client.chat.completions.create(model="demo/any", messages=question, store=True, metadata=metadata)


def test_documents_are_ranked(gateway: Gateway) -> None:
    body = {"model": "demo/any", "query": "grey ships", "documents": ["a harbour", "two grey ships"], "top_n": 1}
    headers = {"authorization": f"Bearer {ANN}", "content-type": "application/json"}
    request = Request(f"{gateway.url}/v2/rerank", json.dumps(body).encode(), headers)  # noqa: S310 - our own server
    with urlopen(request, timeout=10) as response:  # noqa: S310 - our own server
        found = json.loads(response.read())
    assert [result["index"] for result in found["results"]] == [1]
