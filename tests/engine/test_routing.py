import json
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.engine.effects import Send, Sleep
from dragoman.engine.failover import ChainOptions, run
from dragoman.engine.health import Health
from dragoman.engine.routing import affinity_prefix, by_affinity, order_targets
from dragoman.engine.target_load import Loads
from dragoman.errors import Blocked, ContextTooLong, DragomanError, RateLimited, SetupError
from dragoman.targets.pools import DeploymentLimits, DeploymentPool, Order, check_fallbacks
from dragoman.targets.target import Target
from dragoman.types import Attempt, Request, Response, Text, Tool, assistant, user
from tests.support.plans import OK, Status, World, last_line, target

ASK = Request(messages=(user("hello"),))
BUSY = Status(503, b'{"error": "busy"}')
DENIED = Status(401, b'{"error": "bad key"}')
TOO_LONG = Status(400, b'{"error": "the prompt is too long: context length exceeded"}')
CHAT = replace(target("aa/m"), wire="openai_chat")
_BLOCKED = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "content_filter"}]
}
_BLOCKED_CHUNK: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "content_filter"}]}
BLOCKED = {
    False: Status(200, json.dumps(_BLOCKED).encode()),
    True: Status(200, f"data: {json.dumps(_BLOCKED_CHUNK)}\n\ndata: [DONE]\n\n".encode()),
}


def pool(*names: str, order: Order = "least_busy", **fields: Any) -> list[Target]:
    own = DeploymentPool(name="pool", targets=names, order=order, **fields)
    return [target(name, pool=own) for name in names]


def ordered(
    targets: list[Target],
    *,
    request: Request = ASK,
    loads: Loads | None = None,
    random_number: float = 0.0,
    **options: Any,
) -> list[str]:
    fields: dict[str, Any] = {"order": "in_order", **options}
    chain = DeploymentPool(name="", **fields)
    world = World(random_number=random_number)
    return [each.name for each in world.run(order_targets(targets, chain, request, loads or Loads(), 100.0))]


def busy(**counts: int) -> Loads:
    loads = Loads()
    for provider, count in counts.items():
        for _ in range(count):
            loads.start(target(f"{provider}/m"), 0.0, 0)
    return loads


def ask(world: World, targets: list[Target], health: Health | None = None, **options: Any) -> Response:
    request = options.pop("request", ASK)
    return world.run(run(request, targets, health or Health(), ChainOptions(**options)))


# Orders ---------------------------------------------------------------------------------------------------------------


def test_the_least_busy_target_comes_first() -> None:
    assert ordered(pool("aa/m", "bb/m", "cc/m"), loads=busy(aa=2, bb=0, cc=1)) == ["bb/m", "cc/m", "aa/m"]


def test_a_heavier_target_may_be_busier() -> None:
    targets = pool("aa/m", "bb/m", weights={"aa": 4.0})
    assert ordered(targets, loads=busy(aa=3, bb=1)) == ["aa/m", "bb/m"]


def test_the_fastest_target_comes_first_and_nearly_equal_ones_share() -> None:
    loads, targets = Loads(), pool("aa/m", "bb/m", "cc/m", order="fastest")
    for name, seconds in (("aa/m", 1.0), ("bb/m", 1.05), ("cc/m", 0.2)):
        loads.record_latency(name, 90.0, seconds, stream=False)
    assert ordered(targets, loads=loads)[0] == "cc/m"
    loads.record_latency("cc/m", 91.0, 9.0, stream=False)
    loads.start(target("aa/m"), 99.0, 0)
    assert ordered(targets, loads=loads) == ["bb/m", "aa/m", "cc/m"]


def test_one_request_at_a_time_finds_out_how_fast_a_target_is() -> None:
    loads, targets = Loads(), pool("aa/m", "bb/m", order="fastest")
    loads.record_latency("aa/m", 90.0, 1.0, stream=False)
    assert ordered(targets, loads=loads) == ["bb/m", "aa/m"]
    loads.start(target("bb/m"), 99.0, 0)
    assert ordered(targets, loads=loads) == ["aa/m", "bb/m"]


def test_the_cheapest_target_comes_first_and_an_unknown_price_last() -> None:
    own = DeploymentPool(name="p", order="cheapest")
    openai = {"base_url": "https://api.openai.com/v1", "pool": own}
    targets = [
        target("box/m", pool=own),
        replace(target("openai/gpt-4o"), **openai),
        replace(target("openai/gpt-4o-mini"), **openai),
    ]
    assert ordered(targets) == ["openai/gpt-4o-mini", "openai/gpt-4o", "box/m"]


def test_costs_come_before_prices() -> None:
    targets = pool("aa/m", "bb/m", order="cheapest", costs={"aa": 2.0, "bb/m": 1.0})
    assert ordered(targets) == ["bb/m", "aa/m"]


@pytest.mark.parametrize(("random_number", "first"), [(0.0, "aa/m"), (0.7, "aa/m"), (0.8, "bb/m")])
def test_plain_weights_share_requests(random_number: float, first: str) -> None:
    targets = pool("aa/m", "bb/m", order="weighted", weights={"aa/m": 3.0})
    assert ordered(targets, random_number=random_number)[0] == first


def test_weights_and_costs_multiply() -> None:
    targets = pool("aa/m", "bb/m", order="weighted", weights={"aa": 3.0}, costs={"aa": 3.0, "bb": 1.0})
    assert (ordered(targets, random_number=0.4)[0], ordered(targets, random_number=0.6)[0]) == ("aa/m", "bb/m")


def test_each_pool_of_a_chain_has_its_own_order() -> None:
    first = pool("aa/m", "bb/m")
    last = [replace(each, pool=DeploymentPool(name="two", order="cheapest", costs={"dd": 1.0, "cc": 2.0}))
            for each in pool("cc/m", "dd/m")]  # fmt: skip
    names = ordered([*first, target("plain/m"), *last], loads=busy(aa=1))
    assert names == ["bb/m", "aa/m", "plain/m", "dd/m", "cc/m"]


def test_the_order_of_a_call_comes_before_that_of_its_pools() -> None:
    targets = [*pool("aa/m", "bb/m"), target("cc/m")]
    assert ordered(targets, order="least_busy", loads=busy(aa=1, bb=1)) == ["cc/m", "aa/m", "bb/m"]


def test_a_pool_in_order_keeps_its_order() -> None:
    assert ordered(pool("bb/m", "aa/m", order="in_order")) == ["bb/m", "aa/m"]


# Affinity -------------------------------------------------------------------------------------------------------------


def conversation(number: int, *more: str) -> Request:
    turns = [assistant(text) if index % 2 == 0 else user(text) for index, text in enumerate(more)]
    return Request(system="Be brief.", messages=(user(f"question {number}"), *turns))


def test_a_conversation_stays_with_its_target() -> None:
    targets = pool("aa/m", "bb/m", "cc/m", affinity="conversation")
    for number in range(20):
        first = ordered(targets, request=conversation(number))
        assert ordered(targets, request=conversation(number, "yes", "and then?")) == first


def test_conversations_are_spread_by_weight() -> None:
    targets = pool("aa/m", "bb/m", weights={"aa": 3.0}, affinity="conversation")
    first = Counter(ordered(targets, request=conversation(number))[0] for number in range(800))
    assert 540 < first["aa/m"] < 660


def test_a_new_target_moves_few_conversations() -> None:
    own = DeploymentPool(name="p", affinity="conversation")
    two, three = pool("aa/m", "bb/m"), pool("aa/m", "bb/m", "cc/m")
    for number in range(50):
        before, after = (by_affinity(each, own, conversation(number))[0].name for each in (two, three))
        assert after in (before, "cc/m")


def test_a_prefix_is_the_system_prompt_and_the_tools() -> None:
    one = Request(system=(Text(text="Be brief."),), tools=(Tool(name="tide"),), messages=(user("a"),))
    assert affinity_prefix(one, "prefix") == affinity_prefix(replace(one, messages=(user("b"),)), "prefix")
    assert affinity_prefix(one, "prefix") != affinity_prefix(replace(one, tools=()), "prefix")
    assert affinity_prefix(replace(one, messages=()), "conversation") == affinity_prefix(one, "prefix")


def test_affinity_gives_way_to_health() -> None:
    targets, health = pool("aa/m", "bb/m", affinity="conversation"), Health()
    chosen, other = ordered(targets)
    health.cool_down(chosen, 200.0, "busy")
    assert ask(World(OK), targets, health).target == other


def test_the_affinity_of_a_call_needs_no_pool() -> None:
    targets = [target("aa/m"), target("bb/m")]
    firsts = {ask(World(OK), targets, affinity="conversation", request=conversation(n)).target for n in range(20)}
    assert firsts == {"aa/m", "bb/m"}


# Failures -------------------------------------------------------------------------------------------------------------


def test_a_failed_deployment_is_left_at_once_if_its_pool_has_another() -> None:
    world = World(BUSY, OK)
    response = ask(world, [*pool("aa/m", "bb/m", order="in_order"), target("cc/m")])
    assert (response.target, world.hosts, world.slept) == ("bb/m", ["aa", "bb"], [])


def test_a_deployment_gets_its_retries_after_the_others() -> None:
    world = World(BUSY, BUSY, OK)
    assert ask(world, pool("aa/m", "bb/m", order="in_order")).target == "aa/m"


def test_a_key_that_is_refused_puts_its_deployment_on_cooldown() -> None:
    health, targets = Health(), pool("aa/m", "bb/m", order="in_order")
    world = World(DENIED, OK, DENIED, OK, OK)
    for _ in range(3):
        assert ask(world, targets, health).target == "bb/m"
    assert world.hosts == ["aa", "bb", "aa", "bb", "bb"]


# Limits ---------------------------------------------------------------------------------------------------------------


def limited(*targets: Target, **limits: int) -> list[Target]:
    return [replace(each, deployment_limits=DeploymentLimits(**limits)) for each in targets]


def test_a_target_at_its_limit_is_passed_over_and_named() -> None:
    health, targets = Health(), [*limited(target("aa/m"), requests_per_minute=1), target("bb/m")]
    assert ask(World(OK), targets, health).target == "aa/m"
    response = ask(World(OK), targets, health)
    assert response.target == "bb/m"
    assert response.attempts[0].error == "its limit of 1 requests per minute is used up for 61.0 s more"


def test_a_single_target_keeps_its_limit_too() -> None:
    health, targets = Health(), limited(target("aa/m"), requests_per_minute=1)
    ask(World(OK), targets, health)
    with pytest.raises(RateLimited) as caught:
        ask(World(), targets, health)
    assert caught.value.retry_after == 61.0
    assert "aa/m skipped (its limit of 1 requests per minute is used up for 61.0 s more)" in str(caught.value)


def test_a_call_waits_for_room_if_it_comes_soon() -> None:
    health, targets = Health(), limited(target("aa/m"), requests_per_minute=1)
    ask(World(OK), targets, health)
    world = World(OK, now=158.0)
    assert ask(world, targets, health).target == "aa/m"
    assert world.slept == [3.0]


class Freeing(World):
    """A world in which another request ends while this one waits."""

    def __init__(self, health: Health, busy: Target, *scripts: Any) -> None:
        super().__init__(*scripts)
        self._loads, self._slot = health.loads, health.loads.start(busy, 0.0, 0)

    def perform(self, effect: Any) -> Any:
        if isinstance(effect, Sleep) and len(self.slept) == 2:
            assert self._slot is not None
            self._loads.end(self._slot, self.now)
        return super().perform(effect)


def test_a_call_waits_for_a_free_slot() -> None:
    health, targets = Health(), limited(target("aa/m"), concurrent=1)
    world = Freeing(health, targets[0], OK)
    assert ask(world, targets, health).target == "aa/m"
    assert world.slept == [0.05] * 3
    assert health.loads.in_progress("aa/m") == 0


def test_a_slot_is_free_again_after_a_failure_and_after_a_plan_that_was_closed() -> None:
    health, targets = Health(), limited(target("aa/m"), concurrent=1)
    with pytest.raises(DragomanError):
        ask(World(DENIED), targets, health)
    plan = run(ASK, targets, health, ChainOptions())
    World().until(plan, Send)
    assert health.loads.in_progress("aa/m") == 1
    plan.close()
    assert health.loads.in_progress("aa/m") == 0


def test_a_retry_keeps_the_limit() -> None:
    health, targets = Health(), limited(target("aa/m"), requests_per_minute=1)
    world = World(BUSY)
    with pytest.raises(DragomanError):
        ask(world, targets, health)
    assert world.hosts == ["aa"]


def test_a_limit_that_a_provider_reports_is_respected_before_it_refuses() -> None:
    health, targets = Health(), [target("aa/m"), target("bb/m")]
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "30s"}
    world = World(Status(200, last_line("fine"), headers), OK, OK, random_number=0.0)
    order = "weighted"
    assert [ask(world, targets, health, order=order, weights={"aa/m": 1e9}).target for _ in range(2)] == [
        "aa/m",
        "bb/m",
    ]
    health.disable("bb/m", 60.0, now=100.0)
    # Headers may be old: if no other target is left, it is called all the same.
    assert ask(world, targets, health, order=order).target == "aa/m"


def test_a_plain_chain_learns_limits_too() -> None:
    health, targets = Health(), [target("aa/m"), target("bb/m")]
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "30s"}
    world = World(Status(200, last_line("fine"), headers), OK, OK)
    assert [ask(world, targets, health).target for _ in range(2)] == ["aa/m", "bb/m"]
    world.now += 31.0
    assert ask(world, targets, health).target == "aa/m"


def test_tokens_are_learnt_and_limited() -> None:
    health = Health()
    targets = [*limited(target("aa/m"), tokens_per_minute=20), target("bb/m")]
    world = World(Status(200, last_line("fine", prompt_eval_count=15, eval_count=4)), OK)
    assert [ask(world, targets, health).target for _ in range(2)] == ["aa/m", "bb/m"]


def test_a_failed_request_gives_its_tokens_back() -> None:
    health = Health()
    targets = [*limited(target("aa/m"), tokens_per_minute=15), target("bb/m")]
    world = World(DENIED, OK, OK)
    assert [ask(world, targets, health).target for _ in range(2)] == ["bb/m", "aa/m"]


def test_another_thread_may_take_the_last_room() -> None:
    health, targets = Health(), [*limited(target("aa/m"), concurrent=1), target("bb/m")]

    class Late(Loads):
        def full(self, *_: Any) -> None:
            return None

        def start(self, to: Target, now: float, tokens: int, /) -> Any:
            return None if to.deployment_limits else super().start(to, now, tokens)

    health.loads = Late()
    assert ask(World(OK), targets, health).target == "bb/m"


# Fallbacks ------------------------------------------------------------------------------------------------------------


def fall_back(**specs: str) -> dict[str, Any]:
    return {kind: lambda name=name: [target(name)] for kind, name in specs.items()}


def test_a_prompt_that_is_too_long_goes_to_a_larger_model() -> None:
    world = World(TOO_LONG, OK)
    targets = [target("aa/m"), target("bb/m")]
    response = ask(world, targets, fallbacks=fall_back(context_too_long="large/m", content_filter="other/m"))
    assert (response.target, world.hosts) == ("large/m", ["aa", "large"])


def test_if_the_fallback_fails_the_chain_goes_on() -> None:
    world = World(TOO_LONG, DENIED, OK)
    targets = [target("aa/m"), target("bb/m")]
    assert ask(world, targets, fallbacks=fall_back(context_too_long="large/m")).target == "bb/m"


@pytest.mark.parametrize("stream", [False, True])
def test_a_blocked_answer_goes_to_another_model(stream: bool) -> None:  # noqa: FBT001 - a parameter
    world = World(BLOCKED[stream], OK)
    request = replace(ASK, stream=stream)
    response = ask(world, [CHAT], fallbacks=fall_back(content_filter="other/m"), request=request)
    assert (response.target, response.text) == ("other/m", "fine")
    assert response.attempts[0].error == "Blocked: a content filter ended the answer (finish: content_filter)"


def test_without_a_fallback_a_blocked_answer_is_an_answer() -> None:
    assert ask(World(BLOCKED[False]), [CHAT]).finish.reason == "blocked"


def test_a_fallback_has_no_fallback() -> None:
    other = {"content_filter": lambda: [replace(CHAT, provider="other")]}
    with pytest.raises(Blocked):
        ask(World(*[BLOCKED[False]] * 2), [CHAT], fallbacks=other)


def test_a_fallback_is_not_looked_for_if_a_retry_is_enough() -> None:
    def search() -> list[Target]:
        raise AssertionError("a retry came first")

    assert ask(World(BUSY, OK), [target("aa/m")], fallbacks={"overloaded": search}).attempts[-1].outcome == "served"


def test_a_fallback_that_cannot_be_found_is_an_error_after_the_attempt_was_recorded() -> None:
    def search() -> list[Target]:
        raise SetupError("the alias is gone")

    world = World(TOO_LONG)
    with pytest.raises(SetupError, match="the alias is gone"):
        ask(world, [CHAT], fallbacks={"context_too_long": search})
    assert [each.outcome for each in world.observed if isinstance(each, Attempt)] == ["failed"]


def test_a_fallback_that_was_tried_is_not_tried_again() -> None:
    with pytest.raises(ContextTooLong):
        ask(World(TOO_LONG), [target("aa/m")], fallbacks=fall_back(context_too_long="aa/m"))


def test_a_pool_has_fallbacks_of_its_own() -> None:
    world = World(TOO_LONG, OK)
    targets = pool("aa/m", fallbacks=fall_back(context_too_long="large/m"))
    assert ask(world, targets, fallbacks=fall_back(context_too_long="other/m")).target == "large/m"


def test_fallbacks_must_be_known_kinds() -> None:
    with pytest.raises(SetupError, match="fallbacks must be by kind of error, one of context_too_long"):
        ChainOptions(fallbacks={"too_long": "aa/m"})


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("blocked", "'blocked'; did you mean 'content_filter'?"),
        ("rate_limit", "'rate_limit'; did you mean 'rate_limited'?"),
        ("sad", "got 'sad'"),
        (3, "got 3"),
    ],
)
def test_a_kind_of_error_that_is_not_known_is_refused_with_a_hint(kind: Any, hint: str) -> None:
    with pytest.raises(SetupError) as caught:
        check_fallbacks({kind: "demo/any"})
    assert str(caught.value).endswith(hint)
