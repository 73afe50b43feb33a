"""Several answers to one request, with the official packages against a live gateway."""

from collections.abc import Iterator
from typing import Any

import pytest
from google import genai
from google.genai import types
from openai import BadRequestError, OpenAI

from dragoman.testing import FaultyServer
from dragoman.types import Choice, Finish, Response, Usage, assistant
from tests.support.gateway.live import Gateway, record

TEXTS = ["One.", "Two.", "Three."]
STOP = Finish(reason="stop", raw="stop")
ANSWER = Response(
    message=assistant(TEXTS[0]),
    finish=STOP,
    usage=Usage(input=3, output=6),
    other_choices=tuple(Choice(message=assistant(text), finish=STOP) for text in TEXTS[1:]),
)
MESSAGES: Any = [{"role": "user", "content": "Count."}]


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(upstream: FaultyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = (
        record("chat", upstream.base_url())
        + record("gemini2", upstream.base_url("google"), "google")
        + record("claude", upstream.base_url("anthropic"), "anthropic")
    )
    with Gateway(tmp_path_factory.mktemp("gateway"), config) as running:
        yield running


@pytest.fixture
def openai(gateway: Gateway) -> OpenAI:
    return OpenAI(base_url=f"{gateway.url}/v1", api_key="k", max_retries=0)


@pytest.fixture
def google(gateway: Gateway) -> genai.Client:
    return genai.Client(api_key="k", http_options=types.HttpOptions(base_url=gateway.url))


@pytest.mark.parametrize("model", ["chat/m", "gemini2/m"])
def test_openai_has_all_answers_of_a_target_with_n(openai: OpenAI, upstream: FaultyServer, model: str) -> None:
    upstream.add(ANSWER)
    completion = openai.chat.completions.create(model=model, messages=MESSAGES, n=3)
    assert [choice.index for choice in completion.choices] == [0, 1, 2]
    assert [choice.message.content for choice in completion.choices] == TEXTS
    assert [choice.finish_reason for choice in completion.choices] == ["stop"] * 3
    assert upstream.requests[-1].n == 3


@pytest.mark.parametrize("model", ["chat/m", "gemini2/m"])
def test_a_stream_of_openai_has_all_answers(openai: OpenAI, upstream: FaultyServer, model: str) -> None:
    upstream.add(ANSWER)
    texts, ends = {0: "", 1: "", 2: ""}, {}
    for chunk in openai.chat.completions.create(model=model, messages=MESSAGES, n=3, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            if choice.finish_reason:
                ends[choice.index] = choice.finish_reason
    assert list(texts.values()) == TEXTS
    assert ends == {0: "stop", 1: "stop", 2: "stop"}


@pytest.mark.parametrize("model", ["chat/m", "gemini2/m"])
def test_google_has_all_candidates_of_a_target_with_them(
    google: genai.Client, upstream: FaultyServer, model: str
) -> None:
    upstream.add(ANSWER)
    config = types.GenerateContentConfig(candidate_count=3)
    response = google.models.generate_content(model=model, contents="Count.", config=config)
    texts = [part.text for candidate in response.candidates or () for part in (candidate.content or _NONE).parts or ()]
    assert texts == TEXTS
    assert upstream.requests[-1].n == 3


_NONE = types.Content()


def test_a_target_without_n_is_called_once_for_each_answer(
    openai: OpenAI, upstream: FaultyServer, gateway: Gateway
) -> None:
    before = len(upstream.requests)
    upstream.add(*(Response(message=assistant(text), finish=STOP, usage=Usage(input=3, output=2)) for text in TEXTS))
    raw = openai.chat.completions.with_raw_response.create(model="claude/m", messages=MESSAGES, n=3)
    completion = raw.parse()
    assert sorted(choice.message.content or "" for choice in completion.choices) == sorted(TEXTS)
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (9, 6)
    assert raw.headers["x-dragoman-notice"] == "info n: anthropic: not supported; 3 requests were sent"
    assert len(upstream.requests) == before + 3


def test_google_has_all_candidates_of_a_target_without_them(google: genai.Client, upstream: FaultyServer) -> None:
    upstream.add(*TEXTS)
    config = types.GenerateContentConfig(candidate_count=3)
    response = google.models.generate_content(model="claude/m", contents="Count.", config=config)
    texts = [part.text for candidate in response.candidates or () for part in (candidate.content or _NONE).parts or ()]
    assert sorted(text or "" for text in texts) == sorted(TEXTS)


def test_a_stream_of_a_target_without_n_has_one_answer_and_says_so(openai: OpenAI, upstream: FaultyServer) -> None:
    before = len(upstream.requests)
    upstream.add("One.")
    raw = openai.chat.completions.with_raw_response.create(model="claude/m", messages=MESSAGES, n=3, stream=True)
    text = "".join(choice.delta.content or "" for chunk in raw.parse() for choice in chunk.choices)
    assert text == "One."
    assert raw.headers["x-dragoman-notice"] == "dropped n: anthropic: not supported"
    assert len(upstream.requests) == before + 1


@pytest.mark.parametrize("n", [0, 129, 1_000_000])
def test_n_has_a_limit(openai: OpenAI, upstream: FaultyServer, n: int) -> None:
    before = len(upstream.requests)
    with pytest.raises(BadRequestError, match="n must be between 1 and 128"):
        openai.chat.completions.create(model="chat/m", messages=MESSAGES, n=n)
    assert len(upstream.requests) == before
