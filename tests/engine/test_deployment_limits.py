"""Requests besides generation count in the limits of a deployment."""

import json
from typing import Any

import pytest

from dragoman.engine import deployment_limits
from dragoman.engine.call_context import Timeouts
from dragoman.engine.effects import Claim, Open, Read, Send
from dragoman.engine.failover import ChainOptions
from dragoman.engine.pass_through import pass_through
from dragoman.engine.target_load import SLOT_CHECK, LimitState, Loads
from dragoman.errors import ConnectFailed, RateLimited
from dragoman.http import HttpRequest
from dragoman.targets.pools import DeploymentLimits
from dragoman.targets.target import Quirks, Target
from dragoman.types import user
from dragoman.types.embedding import EmbeddingOptions
from dragoman.types.requests import Request
from tests.support.plans import Status, World, target

OPTIONS = ChainOptions(retries=0)
VECTOR = Status(200, json.dumps({"embeddings": [[0.5]], "prompt_eval_count": 7}).encode())
HTTP = HttpRequest(method="POST", path="/v1/images", origin="http://aa", body=b"{}")


def limits(**most: int) -> Target:
    return target("aa/m", deployment_limits=DeploymentLimits(**most))


def embed(to: Target, loads: Loads, text: str = "one") -> Any:
    return deployment_limits.embed([text], EmbeddingOptions(), to, loads, OPTIONS)


def test_requests_are_counted_and_refused_if_there_is_no_room_soon() -> None:
    world, loads, to = World(VECTOR, VECTOR), Loads(), limits(requests_per_minute=2)
    for _ in range(2):
        world.run(embed(to, loads))
    with pytest.raises(RateLimited, match=r"^aa/m was not called: its limit of 2 requests per minute is") as caught:
        world.run(embed(to, loads))
    assert caught.value.retry_after is not None
    assert 59 < caught.value.retry_after <= 61
    assert len(world.requests) == 2
    assert loads.snapshot() == {"aa/m": 0}


def test_a_request_waits_for_room_that_comes_soon() -> None:
    world, loads, to = World(VECTOR), Loads(), limits(requests_per_minute=1)
    assert loads.start(to, world.now - 58.0, 0) is not None
    world.run(embed(to, loads))
    assert world.slept == [3.0]


def test_a_request_waits_for_room_once() -> None:
    """The retries of a call are for what a provider answers: each of them would wait again."""
    world, loads, to = World(), Loads(), limits(concurrent=1)
    assert loads.start(to, world.now, 0) is not None
    with pytest.raises(RateLimited, match=r"^aa/m was not called: it has 1 requests in progress") as caught:
        world.run(deployment_limits.embed(["one"], EmbeddingOptions(), to, loads, ChainOptions()))
    assert 4.75 < sum(world.slept) < 5.25
    assert (caught.value.provider, caught.value.model) == ("aa", "m")
    assert caught.value.retry_after == SLOT_CHECK
    assert (world.requests, loads.in_progress("aa/m")) == ([], 1)


def test_what_a_provider_refuses_is_tried_again() -> None:
    world, loads, to = World(Status(429), VECTOR), Loads(), limits(concurrent=1)
    world.run(deployment_limits.embed(["one"], EmbeddingOptions(), to, loads, ChainOptions()))
    assert (len(world.requests), loads.in_progress("aa/m")) == (2, 0)


def test_the_time_of_the_wait_is_part_of_the_timeout() -> None:
    world, loads, to = World(VECTOR), Loads(), limits(requests_per_minute=1)
    options = ChainOptions(retries=0, timeouts=Timeouts(total=10.0))
    assert loads.start(to, world.now - 58.0, 0) is not None
    world.run(deployment_limits.embed(["one"], EmbeddingOptions(), to, loads, options))
    assert world.requests[0].total_timeout == 7.0
    assert loads.start(to, world.now, 0) is None


@pytest.mark.parametrize(("first_event", "head"), [(None, 7.0), (8.0, 7.0), (4.0, 4.0)])
def test_the_time_of_the_wait_is_part_of_the_time_of_a_stream(first_event: float | None, head: float) -> None:
    world, loads, to = World([b"one"]), Loads(), limits(requests_per_minute=1)
    assert loads.start(to, world.now - 58.0, 0) is not None
    timeouts = Timeouts(total=10.0, first_event=first_event)
    world.run(deployment_limits.limit_requests(pass_through(HTTP, to, timeouts), to, loads, OPTIONS))
    (sent,) = world.requests
    assert isinstance(sent, Open)
    assert (sent.total_timeout, sent.head_timeout) == (7.0, head)


def test_tokens_are_estimated_and_corrected() -> None:
    world, loads, to = World(VECTOR), Loads(), limits(tokens_per_minute=100)
    world.run(embed(to, loads, "a" * 200))
    assert loads.full(to, world.now, 93) is None
    assert loads.full(to, world.now, 94) is not None


@pytest.mark.parametrize("failure", [Status(500), ConnectFailed("no")])
def test_a_failed_request_uses_no_tokens(failure: Any) -> None:
    world, loads, to = World(failure), Loads(), limits(tokens_per_minute=100, requests_per_minute=1)
    with pytest.raises(Exception, match="aa/m"):
        world.run(embed(to, loads, "a" * 200))
    assert loads.in_progress("aa/m") == 0
    assert loads.full(to, world.now, 1) is not None  # it was a request
    free = limits(tokens_per_minute=100)
    assert loads.full(free, world.now, 100) is None


def test_each_batch_of_texts_is_a_request() -> None:
    many = limits(requests_per_minute=1)
    world, loads = World(VECTOR, VECTOR), Loads()
    plan = deployment_limits.limit_requests(two(HTTP), many, loads, OPTIONS)
    with pytest.raises(RateLimited):
        world.run(plan)
    assert len(world.requests) == 1


def two(http: HttpRequest) -> Any:
    yield Send(http)
    yield Send(http)


def test_token_counts_and_rankings_are_counted() -> None:
    world, loads = World(Status(200, b'{"totalTokens": 3}')), Loads()
    to = target("aa/m", deployment_limits=DeploymentLimits(requests_per_minute=1))
    google = Target(
        provider="aa",
        model="m",
        wire="google",
        base_url="http://aa",
        api_key="k",
        deployment_limits=to.deployment_limits,
    )
    count = world.run(deployment_limits.count_or_estimate(Request(messages=(user("hi"),)), google, loads, OPTIONS))
    assert count == 3
    with pytest.raises(RateLimited):
        world.run(deployment_limits.count_or_estimate(Request(messages=(user("hi"),)), google, loads, OPTIONS))
    vllm = Target(
        provider="bb",
        model="m",
        wire="openai_chat",
        base_url="http://bb/v1",
        api_key="k",
        quirks=Quirks(rerank="/rerank"),
        deployment_limits=to.deployment_limits,
    )
    ranking = Status(200, json.dumps({"results": [{"index": 0, "relevance_score": 1.0}]}).encode())
    world.scripts.append(ranking)
    world.run(deployment_limits.rerank("q", ["d"], None, vllm, loads, OPTIONS))
    with pytest.raises(RateLimited):
        world.run(deployment_limits.rerank("q", ["d"], None, vllm, loads, OPTIONS))


def test_a_stream_has_its_place_until_its_end() -> None:
    world, loads, to = World([b"one", b"two"]), Loads(), limits(concurrent=1)
    plan = deployment_limits.limit_requests(pass_through(HTTP, to, Timeouts()), to, loads, OPTIONS)
    pending = world.until(plan, Read)
    assert loads.in_progress("aa/m") == 1
    world.run(plan, pending)
    assert loads.in_progress("aa/m") == 0
    assert world.shown[1:] == [b"one", b"two"]


def test_a_plan_that_is_closed_gives_its_place_back() -> None:
    world, loads, to = World([b"one"]), Loads(), limits(concurrent=1)
    plan = deployment_limits.limit_requests(pass_through(HTTP, to, Timeouts()), to, loads, OPTIONS)
    world.until(plan, Read)
    plan.close()
    assert loads.in_progress("aa/m") == 0


def test_a_plan_that_fails_at_its_end_gives_its_place_back() -> None:
    world, loads, to = World(), Loads(), limits(concurrent=1)
    plan = deployment_limits.limit_requests(failing(HTTP), to, loads, OPTIONS)
    world.until(plan, Send)
    assert loads.in_progress("aa/m") == 1
    with pytest.raises(ValueError, match="a bug"):
        plan.close()
    assert loads.in_progress("aa/m") == 0


def failing(http: HttpRequest) -> Any:
    try:
        yield Send(http)
    finally:
        raise ValueError("a bug")


def test_limits_that_processes_share_are_asked() -> None:
    world, loads, to = World(VECTOR), Loads(), limits(requests_per_minute=5)
    plan = embed(to, loads)
    assert isinstance(world.until(plan, Claim), Claim)
    with pytest.raises(RateLimited, match="its limit is used up"):
        _refuse(world, plan)


def _refuse(world: World, plan: Any) -> None:
    answer: Any = LimitState(50.0, "its limit is used up")
    while True:
        answer = world.perform(plan.send(answer))


def test_a_target_without_limits_is_not_counted() -> None:
    world, loads = World(VECTOR), Loads()
    world.run(embed(target("aa/m"), loads))
    assert loads.snapshot() == {}


def test_what_the_provider_reports_is_learnt() -> None:
    world, loads, to = (
        World(Status(200, VECTOR.body, {"x-ratelimit-remaining-requests": "0"})),
        Loads(),
        limits(concurrent=9),
    )
    world.run(embed(to, loads))
    full = loads.full(to, world.now, 1)
    assert full is not None
    assert full.is_reported


def test_the_size_of_a_form_is_no_number_of_tokens() -> None:
    assert deployment_limits.body_tokens(HttpRequest(method="POST", path="/", body=b"--boundary" * 100)) == 0
