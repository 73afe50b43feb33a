"""`Model.batch`: rows in, rows out."""

import asyncio
import json
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from dragoman import Registry
from dragoman.engine.effects import Open, OpenResponse, Send
from dragoman.errors import DragomanError
from dragoman.http import HttpResponse
from dragoman.models import Model
from tests.support.batch_provider import BatchProvider, batch_provider

PROMPTS = ["Is it so?", "Why not?"]
TEXTS = ["You said “Is it so?”, which is 3 words.", "You said “Why not?”, which is 2 words."]


def model(provider: BatchProvider) -> Model:
    return Registry(env={"OPENAI_BASE_URL": f"{provider.url}/v1", "OPENAI_API_KEY": "k"}).model("openai/gpt-x")


def test_prompts_are_answered_by_a_batch() -> None:
    with batch_provider() as provider:
        provider.is_released.set()
        found = model(provider).batch(PROMPTS, poll=0.01)
    assert [(row["id"], row["text"]) for row in found] == [*enumerate(TEXTS)]
    assert (len(provider.jobs), provider.calls) == (1, [])


def test_rows_have_ids_and_options_of_their_own() -> None:
    rows: list[Any] = [{"id": "b", "prompt": PROMPTS[1]}, {"id": "a", "prompt": PROMPTS[0], "max_tokens": 3}]
    found = asyncio.run(Registry(env={}).model("demo/any", system="Be brief.").abatch(rows))
    assert [row["id"] for row in found] == ["b", "a"]
    assert found[0]["text"] == TEXTS[1]
    assert found[1]["response"]["finish"]["reason"] == "length"


def test_a_journal_keeps_what_was_answered(tmp_path: Path) -> None:
    with batch_provider() as provider:
        provider.is_released.set()
        first = model(provider).batch(PROMPTS[:1], poll=0.01, journal=tmp_path / "out.jsonl")
        both = model(provider).batch(PROMPTS, poll=0.01, journal=tmp_path / "out.jsonl")
    assert both[0] == first[0]
    assert [row["text"] for row in both] == TEXTS
    assert [len(job["rows"]) for job in provider.jobs.values()] == [1, 1]
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(("path", "name"), [("openai", "gpt-4o-mini"), ("anthropic", "claude-haiku-4-5")])
def test_a_row_of_a_batch_costs_half_of_a_call(path: str, name: str) -> None:
    """The proxy is the provider's: requests for its own address reach the server of the test."""
    with batch_provider() as provider:
        provider.is_released.set()
        registry = Registry(env={}, api_key="k", http_client=Redirected(provider.url))
        priced = registry.model(f"{path}/{name}", max_tokens=50)
        call = priced.generate(PROMPTS[0])
        (row,) = priced.batch(PROMPTS[:1], poll=0.01)
    assert (len(provider.jobs), len(provider.calls)) == (1, 1)
    assert call.cost is not None
    assert call.cost.usd > 0
    assert row["response"]["usage"]["output"] == call.usage.output
    assert row["response"]["cost"]["usd"] == pytest.approx(call.cost.usd / 2)


def test_a_row_that_is_sent_by_itself_costs_the_whole_price() -> None:
    with batch_provider() as provider:
        provider.is_released.set()
        provider.fate = lambda _: "expired"
        priced = Registry(env={}, api_key="k", http_client=Redirected(provider.url)).model("openai/gpt-4o-mini")
        call = priced.generate(PROMPTS[0])
        (row,) = priced.batch(PROMPTS[:1], poll=0.01)
    assert call.cost is not None
    assert row["response"]["cost"]["usd"] == pytest.approx(call.cost.usd)


class Redirected:
    """A transport that sends every request to another server, as a proxy does."""

    def __init__(self, origin: str) -> None:
        self._host = origin.removeprefix("http://")

    def send(self, effect: Send, /) -> HttpResponse:
        http, connection = effect.request, HTTPConnection(self._host)
        try:
            connection.request(http.method, http.path, http.body, dict(http.headers))
            answer = connection.getresponse()
            return HttpResponse(status=answer.status, headers=dict(answer.getheaders()), body=answer.read())
        finally:
            connection.close()

    async def asend(self, effect: Send, /) -> HttpResponse:
        return await asyncio.to_thread(self.send, effect)

    def open(self, _effect: Open, /) -> OpenResponse:
        raise NotImplementedError

    async def aopen(self, _effect: Open, /) -> OpenResponse:
        raise NotImplementedError

    def close(self) -> None:
        """Do nothing: no connection is kept."""


def test_a_row_at_another_address_has_no_price() -> None:
    with batch_provider() as provider:
        provider.is_released.set()
        registry = Registry(env={"OPENAI_API_KEY": "k"}, http_client=None)
        assert registry.model("openai/gpt-4o-mini").targets()[0].quirks.batches == "files"
        row = model(provider).batch(PROMPTS[:1], poll=0.01)[0]
    assert row["response"].get("cost") is None, "prices hold only at the provider's own address"


@pytest.mark.parametrize(
    "rows", ["a text", {"id": 1}, 3, [3], [{"id": 1, "prompt": object()}], [{"id": 1}, {"id": 1}], [{"id": []}]]
)
def test_wrong_rows_are_refused(rows: Any) -> None:
    with pytest.raises(DragomanError, match="rows"):
        Registry(env={}).model("demo/any").batch(rows)


def test_a_blocking_batch_in_an_event_loop_is_refused() -> None:
    async def run() -> None:
        Registry(env={}).model("demo/any").batch(PROMPTS)

    with pytest.raises(DragomanError, match="await abatch"):
        asyncio.run(run())


def test_no_rows_are_no_answers() -> None:
    assert Registry(env={}).model("demo/any").batch([]) == []
    assert json.dumps(Registry(env={}).model("demo/any").batch(PROMPTS)[0]["id"]) == "0"
