"""Token counts of providers, and estimates where a provider has none."""

import asyncio
import pickle

import pytest

from dragoman import AuthFailed, Overloaded, Registry, TokenCount
from dragoman.testing import FaultyServer, RawResponse


def test_the_count_of_a_provider_is_no_estimate() -> None:
    with FaultyServer(RawResponse(body=b'{"input_tokens": 7}')) as server:
        count = server.model("anthropic").count_tokens("Is it so?")
    assert (count, count.is_estimate) == (7, False)


@pytest.mark.parametrize("spec", ["demo/any", "openai/gpt-5", "ollama/qwen3"])
def test_a_provider_that_counts_nothing_gives_an_estimate(spec: str) -> None:
    model = Registry(env={}).model(spec)
    count = model.count_tokens("Is it so?")
    assert (count, count.is_estimate) == (10, True)
    assert asyncio.run(model.acount_tokens("Is it so?")).is_estimate
    assert model.count_tokens("Is it so? " * 100) > 300


def test_a_server_without_the_path_gives_an_estimate() -> None:
    with FaultyServer(RawResponse(status=404, body=b"not found")) as server:
        assert server.model("anthropic", retries=0).count_tokens("Is it so?").is_estimate


def test_another_failure_is_not_an_estimate() -> None:
    with FaultyServer(RawResponse(status=529, body=b"{}")) as server, pytest.raises(Overloaded):
        server.model("anthropic", retries=0).count_tokens("Is it so?")
    with pytest.raises(AuthFailed):
        Registry(env={}).model("anthropic/claude-sonnet-5").count_tokens("Is it so?")


def test_a_count_can_be_pickled() -> None:
    count = pickle.loads(pickle.dumps(TokenCount(7, is_estimate=True)))  # noqa: S301 - our own
    assert (count, count.is_estimate) == (7, True)
