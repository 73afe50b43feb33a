"""Several answers from a target without `n`: one call for each."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from dragoman import Registry, wires
from dragoman.engine import failover
from dragoman.engine.call_context import Timeouts
from dragoman.engine.failover import ChainOptions
from dragoman.engine.health import Health
from dragoman.errors import RateLimited, Unsupported
from dragoman.targets.estimates import MAX_CALLS, estimate_usage, has_choices
from dragoman.targets.target import Target
from dragoman.testing import FaultyServer
from dragoman.types import Request, Response, user
from tests.support.plans import OK, Status, World, last_line, target

ONE = target("one/m")
TWO = target("two/m")
BUSY = Status(429, b'{"error": "busy"}')


def answer(text: str) -> Status:
    return Status(200, last_line(text, prompt_eval_count=3, eval_count=2))


def run(world: World, n: int | None, targets: Sequence[Target] = (ONE,), **options: Any) -> Response:
    request = Request(messages=(user("Hi"),), n=n)
    return world.run(failover.run(request, targets, Health(), ChainOptions(retries=0, **options)))


def texts(response: Response) -> list[str]:
    return [choice.message.text for choice in response.choices]


def test_each_answer_has_a_call_and_all_of_them_count() -> None:
    world = World(answer("a"), answer("b"), answer("c"))
    response = run(world, 3)
    assert texts(response) == ["a", "b", "c"]
    assert (response.usage.input, response.usage.output) == (9, 6)
    assert [(attempt.target, attempt.outcome) for attempt in response.attempts] == [("one/m", "served")] * 3
    assert world.observed == [*response.attempts]
    notice = response.notices[0]
    assert (notice.kind, notice.what, notice.why) == ("info", "n", "ollama: not supported; 3 requests were sent")


def test_all_answers_come_from_the_target_that_gave_the_first() -> None:
    world = World(one=[BUSY], two=[answer("a"), answer("b")])
    response = run(world, 2, (ONE, TWO))
    assert (response.target, texts(response)) == ("two/m", ["a", "b"])
    assert world.hosts == ["one", "two", "two"]


def test_the_number_of_calls_is_bounded() -> None:
    world = World(*[OK] * MAX_CALLS)
    response = run(world, MAX_CALLS + 1)
    assert len(response.choices) == len(world.requests) == MAX_CALLS
    assert response.notices[0].loss
    assert response.notices[0].why == "ollama: not supported; 8 requests were sent, which is the limit"


def test_an_answer_is_kept_if_another_call_fails() -> None:
    response = run(World(answer("a"), BUSY, answer("c")), 3)
    assert texts(response) == ["a", "c"]
    assert [attempt.outcome for attempt in response.attempts] == ["served", "failed", "served"]
    assert (response.notices[0].kind, response.notices[0].loss) == ("changed", True)
    assert response.notices[0].why.endswith("3 requests were sent; one failed: RateLimited")


def test_an_error_of_the_first_call_is_the_error() -> None:
    world = World(BUSY)
    with pytest.raises(RateLimited):
        run(world, 3)
    assert len(world.requests) == 1


@pytest.mark.parametrize(("n", "why"), [(2, []), (5, ["one/m: the answer has 2 of 5 choices"])])
def test_a_target_that_gives_fewer_answers_than_it_was_asked_for_is_a_notice(n: int, why: list[str]) -> None:
    choices = [{"index": index, "message": {"content": text}} for index, text in enumerate("ab")]
    chat = Target(provider="one", model="m", wire="openai_chat", base_url="http://one", api_key="k")
    response = run(World(Status(200, json.dumps({"choices": choices}).encode())), n, (chat,))
    assert texts(response) == ["a", "b"]
    assert [notice.why for notice in response.notices if notice.what == "n"] == why


@pytest.mark.parametrize("n", [None, 1])
def test_one_answer_is_one_call(n: int | None) -> None:
    response = run(World(OK), n)
    assert (texts(response), response.notices) == (["fine"], ())


def test_strict_refuses() -> None:
    request = Request(messages=(user("Hi"),), n=2, strict=True)
    with pytest.raises(Unsupported, match="n"):
        World().run(failover.run(request, (ONE,), Health(), ChainOptions()))


def test_the_answer_of_a_fallback_stays_alone() -> None:
    fallbacks = {"rate_limited": lambda: [TWO]}
    world = World(one=[BUSY], two=[OK])
    response = run(world, 3, fallbacks=fallbacks)
    assert (response.target, texts(response)) == ("two/m", ["fine"])
    assert [(notice.kind, notice.what) for notice in response.notices] == [("dropped", "n")]


def test_the_other_calls_get_the_time_that_is_left() -> None:
    class Slow(World):
        def answer(self, effect: Any) -> Any:
            found = super().answer(effect)
            self.now += 4
            return found

    world = Slow(OK, OK, OK)
    run(world, 3, timeouts=Timeouts(total=10))
    assert [effect.total_timeout for effect in world.requests] == [10, 6, 6]


# Real calls -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["blocking", "async"])
def test_real_calls_block_or_are_async(way: str) -> None:
    with FaultyServer() as server:
        server.add(*"abcd")
        registry = Registry(env={})
        registry.add_provider(name="claude", like="anthropic", base_url=server.base_url("anthropic"), api_key="k")
        model = registry.model("claude/m")
        seen: list[object] = []
        registry.driver.observers.append(seen.append)
        response = model.generate("Hi", n=4) if way == "blocking" else asyncio.run(_agenerate(model))
        assert sorted(texts(response)) == ["a", "b", "c", "d"]
        assert len(seen) == len(response.attempts) == 4


async def _agenerate(model: Any) -> Response:
    response: Response = await model.agenerate("Hi", n=4)
    return response


# The estimate before a call -------------------------------------------------------------------------------------------


def test_has_choices_says_what_the_wires_do() -> None:
    for name in wires.NAMES:
        target = Target(provider="p", model="m", wire=name, base_url="https://x", api_key="k")
        http = wires.get(name).client.encode_request(Request(messages=(user("Hi"),), n=2), target)
        assert has_choices(target) == all(notice.what != "n" for notice in http.notices), name


def test_the_estimate_has_a_prompt_for_each_call() -> None:
    request = Request(messages=(user("Hi"),), n=100, max_tokens=5)
    one = estimate_usage(Request(messages=(user("Hi"),), max_tokens=5), (ONE,)).input or 0
    assert estimate_usage(request, (ONE,)).input == one * MAX_CALLS
    openai = Target(provider="p", model="m", wire="openai_chat", base_url="https://x")
    assert estimate_usage(request, (openai,)).input == one
    assert estimate_usage(request, (openai, ONE)).input == one * MAX_CALLS
