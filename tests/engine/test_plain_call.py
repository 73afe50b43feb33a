"""A plain call takes the fast path, with the same result, the same attempts and the same effects as the full chain."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.engine.call_context import Timeouts
from dragoman.engine.effects import Now, Observe, Plan, Send
from dragoman.engine.exchange import HEAVY_BODY
from dragoman.engine.failover import Chain, ChainOptions, run
from dragoman.engine.health import Health
from dragoman.engine.plain_call import is_plain
from dragoman.errors import ConnectFailed, ConnectTimeout, DragomanError, ReadTimeout, Reset, TooLarge
from dragoman.targets.target import Capabilities, Target
from dragoman.types import Image, Request, Response, system, user
from tests.support.plans import EMPTY, OK, Script, Status, World, last_line, target

AA, BB = target("aa/m1"), target("bb/m2")
ASK = Request(messages=(user("hello"),))
PRICED = Target(
    provider="openai", model="gpt-4o", wire="openai_chat", base_url="https://api.openai.com/v1", api_key="sk-secret-key"
)
CHAT = {
    "id": "c",
    "choices": [{"index": 0, "message": {"content": "fine"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2},
}


def scripts() -> list[Script]:
    """Made anew for each way: an error is changed on its way."""
    limits = {"x-request-id": "r1", "x-ratelimit-remaining-requests": "3"}
    return [
        OK,
        Status(200, last_line("fine", eval_count=2), limits),
        EMPTY,
        Status(200, b"not JSON", limits),
        Status(503, b'{"error": "busy"}', limits),
        Status(400, b'{"error": "wrong"}', limits),
        Status(401, b'{"error": "the key sk-secret-key is wrong"}'),
        Status(404, b'{"error": "no such model"}'),
        Status(429, b'{"error": "slow down"}', {"retry-after": "3"}),
        Status(429, b'{"error": "slow down"}', {"retry-after": "700"}),
        ConnectFailed("http://aa: cannot connect"),
        ConnectTimeout("http://aa: no connection in time"),
        ReadTimeout("http://aa: no answer in time"),
        Reset("http://aa: the connection broke"),
        Reset("http://aa: the connection broke", count_failure=False, retry_after=0.0),
        TooLarge("http://aa: the body is larger than 3 bytes"),
    ]


COUNT = len(scripts())
REQUESTS = [
    ASK,
    Request(messages=(system("Be brief."), user("hello", " you")), system="Be kind.", temperature=0.5, seed=3),
    replace(ASK, strict=True, frequency_penalty=1.0),
    replace(ASK, user="me", extra={"ollama": {"keep_alive": 3}}),
    Request(),
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"retries": 0},
    {"retries": 1, "max_retry_after": 0.0},
    {"fail_over_on_permanent": True},
    {"timeouts": Timeouts(total=1.0, first_event=0.1)},
    {"timeouts": Timeouts(total=None, connect=None)},
]


def outcome(plan: Plan[Response], indexes: Iterable[int], health: Health) -> dict[str, Any]:
    lines = scripts()
    world = World(*(lines[index] for index in indexes), *[OK] * 20)
    try:
        result: object = world.run(plan)
    except DragomanError as error:
        facts = ("message", "status", "code", "provider", "model", "retry_after", "request_id", "rate_limits",
                 "usage", "attempts", "limit_name", "count_failure")  # fmt: skip
        result = type(error), {name: getattr(error, name, None) for name in facts}, type(error.__cause__)
    effects = [(each.request, each.total_timeout, each.connect_timeout, type(each)) for each in world.requests]
    health_after = {name: replace(each, last_latency=None) for name, each in health.snapshot().items()}
    return {
        "result": result,
        "requests": effects,
        "observed": world.observed,
        "slept": world.slept,
        "now": world.now,
        "health": health_after,
    }


@given(
    st.lists(st.integers(0, COUNT - 1), min_size=0, max_size=5),
    st.sampled_from(REQUESTS),
    st.sampled_from(OPTIONS),
    st.sampled_from([(AA,), (AA, BB), (BB, AA)]),
    st.sampled_from(["healthy", "failed once", "cooldown", "cooldown is over"]),
)
def test_both_ways_do_the_same(
    indexes: list[int], request: Request, changes: dict[str, Any], targets: tuple[Target, ...], state: str
) -> None:
    def both(*, is_short: bool) -> dict[str, Any]:
        health = Health()
        if state == "failed once":
            health.record_failure("aa/m1", 90.0, "busy")
        elif state != "healthy":
            health.cool_down("aa/m1", 120.0 if state == "cooldown" else 99.0, "busy")
        options = ChainOptions(**changes)
        plan = run(request, targets, health, options) if is_short else Chain(request, health, options).run(targets)
        return outcome(plan, indexes, health)

    assert both(is_short=True) == both(is_short=False)


def test_the_short_way_has_four_effects() -> None:
    """Its use is that there is little of it."""
    plan, world, kinds = run(ASK, [AA], Health(), ChainOptions()), World(OK), list[type]()

    def watched() -> Plan[Response]:
        answer: Any = None
        while True:
            try:
                effect = plan.send(answer)
            except StopIteration as stop:
                response: Response = stop.value
                return response
            kinds.append(type(effect))
            answer = yield effect

    assert world.run(watched()).text == "fine"
    assert kinds == [Now, Send, Now, Observe]


def test_the_response_has_the_cost_and_what_the_headers_say() -> None:
    world = World(Status(200, json.dumps(CHAT).encode(), {"x-request-id": "r1", "x-ratelimit-limit": "9"}))
    response = world.run(run(ASK, [PRICED], Health(), ChainOptions()))
    assert (response.request_id, response.rate_limits) == ("r1", {"x-ratelimit-limit": "9"})
    assert response.cost is not None
    assert response.cost.usd > 0


def test_a_long_answer_is_decoded_outside_the_event_loop() -> None:
    world = World(Status(200, last_line("a" * HEAVY_BODY)))
    response = world.run(run(ASK, [AA], Health(), ChainOptions()))
    assert (len(response.text), world.computed) == (HEAVY_BODY, 1)


def test_an_error_does_not_repeat_the_key() -> None:
    world = World(Status(401, b'{"error": {"message": "the key sk-secret-key is wrong"}}'))
    with pytest.raises(DragomanError, match=r"\[redacted\]") as caught:
        world.run(run(ASK, [PRICED], Health(), ChainOptions()))
    assert "sk-secret-key" not in str(caught.value)


PLAIN_TARGET = replace(AA, capabilities=Capabilities())


@pytest.mark.parametrize(
    ("request_", "at", "timeouts"),
    [
        (replace(ASK, schema={}), PLAIN_TARGET, Timeouts()),
        (Request(messages=(user(Image(url="https://x/a.png")),)), PLAIN_TARGET, Timeouts()),
        (ASK, replace(PLAIN_TARGET, credential=object()), Timeouts()),
        (ASK, replace(PLAIN_TARGET, needs_key=True), Timeouts()),
        (ASK, PLAIN_TARGET, Timeouts(total=0)),
    ],
)
def test_other_calls_take_the_long_way(request_: Request, at: Target, timeouts: Timeouts) -> None:
    assert not is_plain(request_, at, timeouts)
    assert is_plain(ASK, PLAIN_TARGET, Timeouts())
