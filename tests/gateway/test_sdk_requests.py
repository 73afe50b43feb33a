"""What the official packages make of what a gateway says back, counts, embeds and refuses."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway.live import Gateway
from tests.support.gateway.sdks import anthropic, genai, ollama, openai

HELLO = [{"role": "user", "content": "hello"}]
TIDE: dict[str, Any] = {
    "type": "function",
    "name": "tide",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running.url


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="sk-client", max_retries=0) as client:
        yield client


def test_a_response_has_the_types_of_what_was_asked(client: Any) -> None:
    request: dict[str, Any] = {"model": "demo/any", "input": "hello", "instructions": "Be brief.", "tools": [TIDE]}
    created = client.responses.create(**request, text={"verbosity": "low"}, reasoning={"effort": "low"})
    found = client.responses.retrieve(created.id)
    streamed = [
        event.response for event in client.responses.create(**request, stream=True) if hasattr(event, "response")
    ]
    assert (created.tools[0].name, created.text.format.type, created.text.verbosity) == ("tide", "text", "low")
    assert (created.reasoning.effort, found.reasoning.effort, found.tools[0].name) == ("low", "low", "tide")
    assert {response.instructions for response in (created, found, *streamed)} == {"Be brief."}


def test_a_response_in_the_background_can_be_waited_for(client: Any) -> None:
    created = client.responses.create(model="demo/any", input="hello", background=True)
    assert created.status == "queued"
    events = list(client.responses.retrieve(created.id, stream=True))
    assert client.responses.retrieve(created.id).output_text == events[-1].response.output_text


@pytest.mark.parametrize("wrong", [{"n": 0}, {"temperature": 3}, {"messages": []}, {"max_tokens": 0}])
def test_openai_names_the_field_that_is_wrong(client: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(**{"model": "demo/any", "messages": HELLO, **wrong})
    assert raised.value.param == next(iter(wrong))


def test_tokens_have_vectors(client: Any) -> None:
    assert len(client.embeddings.create(model="demo/any", input=[[1, 2], [3]]).data) == 2


def test_tokens_are_counted_for_every_package(url: str, client: Any) -> None:
    counts = [client.responses.input_tokens.count(model="demo/any", input="hello there").input_tokens]
    with anthropic.Anthropic(base_url=url, api_key="sk-client") as asking:
        messages = [{"role": "user", "content": "hello there"}]
        counts.append(asking.messages.count_tokens(model="demo/any", messages=messages).input_tokens)
    with genai.Client(api_key="sk-client", http_options={"base_url": url}) as asking:
        counts.append(asking.models.count_tokens(model="demo/any", contents="hello there").total_tokens)
    assert counts == [11, 11, 11]


def test_ollama_loads_a_model(url: str) -> None:
    with ollama.Client(host=url) as asking:
        loaded = asking.generate(model="demo/any")
    assert (loaded.done_reason, loaded.response) == ("load", "")
