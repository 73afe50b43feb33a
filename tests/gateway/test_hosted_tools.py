"""Hosted tools and citations with the official packages, over sockets: each client sees the search of each provider."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types as google

from dragoman.testing import FaultyServer
from dragoman.types import Citation, Finish, HostedCall, HostedResult, Response, Text, Usage, WebSearch, assistant
from tests.support.gateway.live import Gateway, record

URL = "https://example.org/tides"
CITED = Text(text="At six.", citations=(Citation(url=URL, title="Tides", start=0, end=7, cited_text="Six."),))
ANSWER = Response(
    id="answer_1",
    model="m",
    created=1_794_900_000,
    message=assistant(
        HostedCall(id="s1", tool="web_search", arguments={"query": "tide at Brest"}),
        HostedResult(id="s1", tool="web_search", sources=(Citation(url=URL, title="Tides"),)),
        CITED,
    ),
    finish=Finish(reason="stop"),
    usage=Usage(input=12, output=7),
)
PROVIDERS = ("anthropic", "google", "google_interactions", "openai_responses")
"""Wires whose providers have a web search."""


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyServer]:
    with FaultyServer(ANSWER, repeat=True) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(upstream: FaultyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    records = [record(f"up-{wire.replace('_', '-')}", upstream.base_url(wire), wire) for wire in PROVIDERS]
    config = "".join(records) + '[gateway]\nproviders = ["demo"]\nlog = false\n[chain]\nretries = 0\n'
    folder: Path = tmp_path_factory.mktemp("hosted")
    with Gateway(folder, config) as running:
        yield running


@pytest.fixture(params=PROVIDERS)
def model(request: pytest.FixtureRequest) -> str:
    return f"up-{request.param.replace('_', '-')}/m"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_of_anthropic(gateway: Gateway, upstream: FaultyServer, model: str, *, stream: bool) -> None:
    client: Any = anthropic.Anthropic(base_url=gateway.url, api_key="k", max_retries=0)
    fields: Any = {
        "model": model,
        "max_tokens": 500,
        "messages": [{"role": "user", "content": "When does the tide turn?"}],
        "tools": [{"type": "web_search_20250305", "name": "web_search"}],
    }
    message: Any
    if stream:
        with client.messages.stream(**fields) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**fields)
    assert isinstance(upstream.requests[-1].tools[0], WebSearch)
    blocks = {block.type: block for block in message.content}
    use, result, text = blocks["server_tool_use"], blocks["web_search_tool_result"], blocks["text"]
    assert use.type == "server_tool_use"
    assert use.input == {"query": "tide at Brest"}
    assert result.type == "web_search_tool_result"
    assert result.content[0].url == URL
    assert text.type == "text"
    assert text.citations is not None
    assert text.citations[0].type == "web_search_result_location"
    assert text.citations[0].url == URL
    # The client sends all of it back.
    follow = [*fields["messages"], {"role": "assistant", "content": [block.model_dump() for block in message.content]}]
    again = client.messages.create(**{**fields, "messages": [*follow, {"role": "user", "content": "And tomorrow?"}]})
    assert again.stop_reason == "end_turn"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_of_the_responses_api(gateway: Gateway, upstream: FaultyServer, model: str, *, stream: bool) -> None:
    client: Any = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="k", max_retries=0)
    fields: Any = {
        "model": model,
        "input": "When does the tide turn?",
        "tools": [{"type": "web_search"}],
        "store": False,
    }
    response: Any
    if stream:
        with client.responses.stream(**fields) as events:
            kinds = [event.type for event in events]
            response = events.get_final_response()
        assert "response.output_text.annotation.added" in kinds
    else:
        response = client.responses.create(**fields)
    assert isinstance(upstream.requests[-1].tools[0], WebSearch)
    items = {item.type: item for item in response.output}
    search, message = items["web_search_call"], items["message"]
    assert search.type == "web_search_call"
    assert search.action.type == "search"
    assert search.action.query == "tide at Brest"
    assert message.type == "message"
    (content,) = message.content
    assert content.type == "output_text"
    (note,) = content.annotations[:1]
    assert note.type == "url_citation"
    assert (note.url, note.start_index, note.end_index) == (URL, 0, 7)
    follow = [{"role": "user", "content": fields["input"]}, *(item.model_dump() for item in response.output)]
    again = client.responses.create(**{**fields, "input": [*follow, {"role": "user", "content": "And tomorrow?"}]})
    assert again.output_text == "At six."


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_of_chat_completions(gateway: Gateway, model: str, *, stream: bool) -> None:
    client: Any = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="k", max_retries=0)
    fields: Any = {"model": model, "messages": [{"role": "user", "content": "?"}], "web_search_options": {}}
    notes: list[Any] = []
    if stream:
        for chunk in client.chat.completions.create(**fields, stream=True):
            for choice in chunk.choices:
                notes += getattr(choice.delta, "annotations", None) or []
    else:
        notes = client.chat.completions.create(**fields).model_dump()["choices"][0]["message"]["annotations"]
    assert notes[0]["type"] == "url_citation"
    assert notes[0]["url_citation"]["url"] == URL


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_of_google(gateway: Gateway, upstream: FaultyServer, model: str, *, stream: bool) -> None:
    client: Any = genai.Client(api_key="k", http_options=google.HttpOptions(base_url=gateway.url))
    config = google.GenerateContentConfig(tools=[google.Tool(google_search=google.GoogleSearch())])
    chunks: list[Any]
    if stream:
        chunks = list(client.models.generate_content_stream(model=model, contents="?", config=config))
    else:
        chunks = [client.models.generate_content(model=model, contents="?", config=config)]
    assert isinstance(upstream.requests[-1].tools[0], WebSearch)
    found = [
        candidate.grounding_metadata
        for chunk in chunks
        for candidate in chunk.candidates or ()
        if candidate.grounding_metadata and candidate.grounding_metadata.grounding_chunks
    ]
    assert found[-1].web_search_queries == ["tide at Brest"]
    source: Any = found[-1].grounding_chunks[0]
    assert source.web.uri == URL
    support: Any = found[-1].grounding_supports[0]
    assert support.segment.text == "At six."


def test_a_target_without_the_tool_is_an_error_that_says_so(gateway: Gateway) -> None:
    client: Any = anthropic.Anthropic(base_url=gateway.url, api_key="k", max_retries=0)
    tool: Any = {"type": "code_execution_20250825", "name": "code_execution"}
    with pytest.raises(anthropic.BadRequestError, match="does not have code execution"):
        client.messages.create(
            model="demo/any", max_tokens=50, messages=[{"role": "user", "content": "?"}], tools=[tool]
        )
