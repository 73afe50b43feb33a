import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.engine.call_context import Timeouts
from dragoman.engine.effects import Now, Open, Read, Send, Sleep
from dragoman.engine.error_policy import ErrorPolicy, error_policy
from dragoman.engine.failover import ChainOptions, run
from dragoman.engine.health import CooldownStarted, Health, TargetHealth, TrialLease
from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ChainExhausted,
    ConnectFailed,
    ContextTooLong,
    DragomanError,
    EmptyResponse,
    Interrupted,
    InvalidRequest,
    MalformedToolCall,
    ModelNotFound,
    Overloaded,
    RateLimited,
    RequestTooLarge,
    Reset,
    ServerFault,
    SetupError,
    TimedOut,
    Truncated,
    WireError,
)
from dragoman.events import Finished, Restarted, fold
from dragoman.targets.providers import target as known
from dragoman.targets.target import Capabilities, Target
from dragoman.types import Attempt, Image, Request, Response, Usage, user
from tests.support.images import picture
from tests.support.plans import EMPTY, OK, Script, Status, Wait, World, last_line, line, target

AA, BB, CC = target("aa/m1"), target("bb/m2"), target("cc/m3")
ASK = Request(messages=(user("hello"),))
STREAM = replace(ASK, stream=True)
BUSY = Status(503, b'{"error": "busy"}')
WRONG = Status(400, b'{"error": "wrong"}')


def slow_down(seconds: float | str, header: str = "retry-after", **headers: str) -> Status:
    return Status(429, b'{"error": "slow down"}', {header: str(seconds), **headers})


def ask(
    world: World,
    *targets: Target,
    request: Request = ASK,
    health: Health | None = None,
    timeouts: Timeouts | None = None,
    **options: Any,
) -> Response:
    chosen = ChainOptions(timeouts=timeouts or Timeouts(), **options)
    return world.run(run(request, targets or (AA, BB), health or Health(), chosen))


def fail(world: World, *targets: Target, **more: Any) -> DragomanError:
    with pytest.raises(DragomanError) as caught:
        ask(world, *targets, **more)
    return caught.value


def ill(*targets: Target, seconds: float = 30.0) -> Health:
    health = Health()
    for index, each in enumerate(targets):
        health.cool_down(each.name, 100.0 + seconds + index, "slow down")
    return health


# Head to tail ---------------------------------------------------------------------------------------------------------


def test_the_head_serves_when_it_can() -> None:
    world = World(OK)
    response = ask(world)
    assert (response.text, response.target, world.hosts) == ("fine", "aa/m1", ["aa"])


def test_the_receipt_names_who_served() -> None:
    (attempt,) = ask(World(Status(200, last_line("fine", eval_count=2)))).attempts
    assert attempt == Attempt(target="aa/m1", outcome="served", duration=0.0, usage=Usage(output=2))


def test_a_target_on_cooldown_is_skipped_and_named() -> None:
    world = World(OK)
    response = ask(world, health=ill(AA))
    assert (response.target, world.hosts) == ("bb/m2", ["bb"])
    assert response.attempts[0].outcome == "skipped"
    assert response.attempts[0].error == "on cooldown for 30.0 s more: slow down"


def test_a_target_on_cooldown_is_named_in_the_final_error() -> None:
    error = fail(World(EMPTY, EMPTY), health=ill(AA))
    assert "aa/m1 skipped (on cooldown for 30.0 s more: slow down)" in str(error)
    assert "bb/m2 failed (EmptyResponse" in str(error)


def test_a_target_that_cannot_do_it_is_left_to_the_next_without_a_penalty() -> None:
    health, blind = Health(), target("aa/m1", capabilities=Capabilities(max_images=0))
    sees = Request(messages=(user(Image(data=picture(), mime="image/png")),))
    response = ask(World(OK), blind, BB, request=sees, health=health)
    assert response.target == "bb/m2"
    assert response.attempts[0].error == "Unsupported: does not support images"
    assert "aa/m1" not in health.snapshot()


def test_success_resets_health() -> None:
    health = Health()
    health.record_failure("aa/m1", 100.0, "busy")
    ask(World(OK), health=health)
    assert health.get("aa/m1").failures == 0


def test_the_latency_is_remembered() -> None:
    health = Health()
    ask(World([Wait(0.5), line("fi"), Wait(3.0), last_line("ne")]), request=STREAM, health=health)
    assert health.get("aa/m1").last_latency == 0.5


def test_nothing_left_names_every_target_and_why() -> None:
    error = fail(World(Status(404), Status(413, b'{"error": "large"}')))
    assert isinstance(error, ChainExhausted)
    assert str(error).startswith("no target answered: aa/m1 failed (ModelNotFound: ")
    assert "; bb/m2 failed (RequestTooLarge: large)" in str(error)
    assert [attempt.outcome for attempt in error.attempts] == ["failed", "failed"]


def test_the_last_error_is_the_cause() -> None:
    error = fail(World(Status(404), Status(413)))
    assert isinstance(error.__cause__, BadRequest)
    assert (error.status, error.provider, error.model) == (413, "bb", "m2")


def test_no_targets_are_no_answer() -> None:
    with pytest.raises(ChainExhausted, match="the chain has no targets"):
        World().run(run(ASK, (), Health(), ChainOptions()))


# The table of faults, line by line ------------------------------------------------------------------------------------

TRANSIENT: list[Any] = [
    *[pytest.param(Status(status), id=str(status)) for status in (408, 409, 429, 500, 501, 502, 503, 504, 520, 529)],
    pytest.param(Status(418), id="a status that nobody knows"),
    pytest.param(Status(200, b'{"error": {"type": "overloaded_error", "message": "busy"}}'), id="overloaded_error"),
    pytest.param(TimedOut("slow"), id="time-out"),
    pytest.param(ConnectFailed("refused"), id="refused connection"),
    pytest.param(ConnectFailed("no such host"), id="DNS"),
    pytest.param(Reset("by peer"), id="reset connection"),
    pytest.param(Status(200, b'{"message": '), id="truncated body"),
    pytest.param(Status(200, b"<html>"), id="bytes that nobody knows"),
    pytest.param(DragomanError("?"), id="an error that nobody knows"),
]


@pytest.mark.parametrize("fault", TRANSIENT)
def test_a_transient_fault_is_retried_on_the_same_target(fault: Script) -> None:
    world = World(fault, OK)
    assert ask(world).target == "aa/m1"
    assert world.hosts == ["aa", "aa"]


@pytest.mark.parametrize("fault", TRANSIENT)
def test_a_transient_fault_that_stays_goes_on_and_counts_against_the_target(fault: Script) -> None:
    world, health = World(fault, fault, OK), Health()
    assert ask(world, health=health).target == "bb/m2"
    assert world.hosts == ["aa", "aa", "bb"]
    assert health.get("aa/m1").failures == 2
    assert health.get("aa/m1").state == "cooldown"


def test_a_stream_cut_before_its_first_event_is_transient() -> None:
    world = World([line("")], [line("fi"), last_line("ne")])
    assert ask(world, request=STREAM).text == "fine"
    assert world.hosts == ["aa", "aa"]


def test_an_empty_answer_leads_to_the_next_target_and_counts_nothing() -> None:
    world, health = World(EMPTY, OK), Health()
    assert ask(world, health=health).target == "bb/m2"
    assert world.hosts == ["aa", "bb"]
    assert "aa/m1" not in health.snapshot()


@pytest.mark.parametrize("request_", [ASK, STREAM], ids=["whole", "stream"])
def test_an_empty_answer_after_the_callers_own_stop_is_an_answer(request_: Request) -> None:
    world = World([last_line("")] if request_.stream else EMPTY)
    response = ask(world, AA, request=replace(request_, stop=("END",)))
    assert (response.text, response.target) == ("", "aa/m1")


def anthropic_answer(stop_reason: str) -> Status:
    answer: dict[str, Any] = {
        "id": "x",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": stop_reason,
    }
    return Status(200, json.dumps({**answer, "usage": {"input_tokens": 1, "output_tokens": 1}}).encode())


def test_an_empty_answer_after_anthropics_stop_sequence_is_an_answer() -> None:
    claude = known("anthropic/m", api_key="k")
    assert ask(World(anthropic_answer("stop_sequence")), claude).text == ""
    assert type(fail(World(anthropic_answer("end_turn")), claude)) is EmptyResponse


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"])
def test_a_mistake_of_gemini_in_a_call_is_retried_and_counts_nothing(reason: str) -> None:
    mistake = Status(200, json.dumps({"candidates": [{"content": {}, "finishReason": reason}]}).encode())
    answer = {"candidates": [{"content": {"parts": [{"text": "fine"}]}, "finishReason": "STOP"}]}
    world, health = World(mistake, Status(200, json.dumps(answer).encode())), Health()
    response = ask(world, known("google/m", api_key="k"), health=health)
    assert [attempt.outcome for attempt in response.attempts] == ["failed", "served"]
    assert health.get("google/m").failures == 0
    world = World(mistake, mistake, mistake)
    assert type(fail(world, known("google/m", api_key="k"), health=health)) is EmptyResponse
    assert (len(world.hosts), health.get("google/m").failures) == (3, 0)


GEMINI = known("google/m", api_key="k")
MISTAKES = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE")


def gemini_text(text: str, reason: str | None) -> bytes:
    candidate = {"content": {"parts": [{"text": text}]}, "finishReason": reason}
    counts = {"promptTokenCount": 9, "candidatesTokenCount": 2}
    return json.dumps({"candidates": [candidate], "usageMetadata": counts}).encode()


@pytest.mark.parametrize("reason", MISTAKES)
def test_the_text_of_an_answer_with_a_mistake_of_gemini_is_no_answer(reason: str) -> None:
    mistake = Status(200, gemini_text(",patch:true}]})", reason))
    world, health = World(mistake, Status(200, gemini_text("fine", "STOP"))), Health()
    response = ask(world, GEMINI, health=health)
    assert (response.text, response.attempts[0].usage) == ("fine", Usage(input=9, output=2))
    error = fail(World(mistake, mistake, mistake), GEMINI, health=health)
    assert isinstance(error, WireError)
    assert isinstance(error, MalformedToolCall) == ("CALL" in reason)
    assert reason in str(error)
    assert health.get("google/m").failures == 0
    assert ask(World(mistake, mistake, mistake, OK), GEMINI, BB, health=health).target == "bb/m2"


def test_a_mistake_of_the_model_beside_a_complete_call_is_an_answer() -> None:
    call_: dict[str, Any] = {"functionCall": {"name": "tide", "args": {}}}
    candidate: dict[str, Any] = {"content": {"parts": [call_]}, "finishReason": "TOO_MANY_TOOL_CALLS"}
    body = json.dumps({"candidates": [candidate]}).encode()
    assert ask(World(Status(200, body)), GEMINI).finish.reason == "tool_calls"


def test_an_empty_pause_is_retried() -> None:
    paused = Status(200, json.dumps({"candidates": [{"content": {}, "finishReason": "CONTINUATION"}]}).encode())
    assert ask(World(paused, Status(200, gemini_text("fine", "STOP"))), GEMINI).text == "fine"


BAD_CALL = Status(
    200,
    b'{"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"tool_calls": [{"id": "c", "type": "function",'
    b'"function": {"name": "tide", "arguments": "["}}]}}], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}',
)
OPENAI = known("openai/m", api_key="k")


def test_a_malformed_call_is_retried_and_goes_on_and_counts_nothing() -> None:
    world, health = World(BAD_CALL, BAD_CALL, BAD_CALL, OK), Health()
    response = ask(world, OPENAI, BB, health=health)
    assert response.target == "bb/m2"
    assert world.hosts == [*["https://api.openai.com"] * 3, "bb"]
    assert "openai/m" not in health.snapshot()
    assert response.attempts[0].usage == Usage(input=9, output=2)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Status(404, b"404 page not found"), ModelNotFound),
        (Status(400, b'{"error": {"code": "model_not_found", "message": "?"}}'), ModelNotFound),
        (Status(400, b'{"error": {"code": "context_length_exceeded", "message": "too long"}}'), ContextTooLong),
        (Status(413), RequestTooLarge),
        (Status(402), RateLimited),
        (Status(401), AuthFailed),
        (Status(403), AuthFailed),
        (
            Status(400, b'{"error": {"type": "invalid_request_error", "message": "Your credit balance is too low."}}'),
            RateLimited,
        ),
        (Status(429, b'{"error": {"code": "insufficient_quota", "message": "pay"}}'), RateLimited),
    ],
)
def test_what_another_target_may_do_goes_on_at_once(fault: Script, kind: type[DragomanError]) -> None:
    world = World(fault, OK)
    response = ask(world)
    assert (response.target, world.hosts) == ("bb/m2", ["aa", "bb"])
    assert (response.attempts[0].error or "").startswith(kind.__name__)


@pytest.mark.parametrize("status", [401, 403, 404, 413])
def test_what_another_target_may_do_counts_nothing(status: int) -> None:
    health = Health()
    ask(World(Status(status), OK), health=health)
    assert "aa/m1" not in health.snapshot()


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_of_a_single_target_is_raised_as_such(status: int) -> None:
    error = fail(World(Status(status, b'{"error": "no"}')), AA)
    assert (type(error), error.message, error.status) == (AuthFailed, "no", status)


def test_missing_credentials_go_on_and_are_named_if_all_fail() -> None:
    keyless, health = known("groq/llama"), Health()
    assert ask(World(OK), keyless, BB, health=health).target == "bb/m2"
    assert "groq/llama" not in health.snapshot()
    error = fail(World(EMPTY), keyless, BB)
    assert "groq/llama failed (AuthFailed: no API key; set GROQ_API_KEY" in str(error)


STOPPING: list[Any] = [
    pytest.param(WRONG, BadRequest, id="400"),
    pytest.param(Status(405), BadRequest, id="405"),
    pytest.param(Status(422), BadRequest, id="422"),
    pytest.param(Status(400, b'{"error": {"code": "content_filter", "message": "no"}}'), Blocked, id="blocked"),
]


@pytest.mark.parametrize(("fault", "kind"), STOPPING)
def test_what_no_target_will_do_stops(fault: Script, kind: type[DragomanError]) -> None:
    world, health = World(fault), Health()
    error = fail(world, health=health)
    assert type(error) is kind
    assert [attempt.target for attempt in error.attempts] == ["aa/m1"]
    assert world.hosts == ["aa"]
    assert health.snapshot() == {}


@pytest.mark.parametrize(("fault", "kind"), STOPPING)
def test_what_no_target_will_do_goes_on_where_the_caller_says_so(fault: Script, kind: type[DragomanError]) -> None:
    world = World(fault, OK)
    response = ask(world, fail_over_on_permanent=True)
    assert (response.target, world.hosts) == ("bb/m2", ["aa", "bb"])


def test_a_request_that_makes_no_sense_stops_whatever_the_caller_says() -> None:
    senseless = Request(messages=(user("x"),), extra={"ollama": {"a": object()}})
    assert type(fail(World(), request=senseless, fail_over_on_permanent=True)) is InvalidRequest


def test_cancelling_counts_nothing_and_closes_at_once() -> None:
    for kind in (Send, Sleep):
        health, world = Health(), World(Reset("by peer"))
        plan = run(ASK, (AA, BB), health, ChainOptions())
        world.until(plan, Now)
        while not isinstance(effect := plan.send(world.now), kind):
            if isinstance(effect, Send):
                plan.throw(Reset("by peer"))
        before = health.snapshot()
        plan.close()
        assert health.snapshot() == before
        assert world.hosts == []


def test_the_table_can_be_replaced() -> None:
    def classify(error: DragomanError) -> ErrorPolicy | None:
        if isinstance(error, BadRequest):
            return ErrorPolicy(retry=True, fail_over=True, count_failure=False)
        return None

    world = World(WRONG, WRONG, WRONG, Status(422))
    assert isinstance(fail(world, classify=classify, retries=1), BadRequest)
    assert world.hosts == ["aa", "aa", "bb", "bb"]


def test_a_verdict_may_retry_and_never_go_on() -> None:
    def classify(error: DragomanError) -> ErrorPolicy:
        return ErrorPolicy(retry=True, fail_over=False, count_failure=False)

    world = World(BUSY, BUSY, BUSY)
    assert type(fail(world, classify=classify)) is Overloaded
    assert world.hosts == ["aa", "aa", "aa"]


def test_a_verdict_is_what_the_error_says() -> None:
    def verdict(error: DragomanError, **options: Any) -> ErrorPolicy:
        return World().run(error_policy(error, ChainOptions(**options)))

    assert verdict(Overloaded("busy")) == ErrorPolicy(retry=True, fail_over=True, count_failure=True)
    assert verdict(Blocked("no"), fail_over_on_permanent=True).fail_over
    assert not verdict(Interrupted("cut"), fail_over_on_permanent=True).fail_over


# Retries and waits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_retries_are_as_many_as_the_caller_wants(retries: int) -> None:
    world = World(*[BAD_CALL] * (retries + 1), OK)
    ask(world, OPENAI, BB, retries=retries)
    assert len(world.hosts) == retries + 2


def test_a_target_just_put_on_cooldown_is_not_tried_again() -> None:
    health = Health()
    health.record_failure("aa/m1", 100.0, "busy")
    world = World(BUSY, OK)
    assert ask(world, health=health, retries=5).target == "bb/m2"
    assert (world.hosts, world.slept) == (["aa", "bb"], [])


def test_a_target_that_another_call_put_on_cooldown_is_not_tried_again() -> None:
    health = Health()
    plan, world = run(ASK, (AA, BB), health, ChainOptions()), World(BUSY, OK)
    world.until(plan, Sleep)
    health.disable("aa/m1", 30.0, now=100.0)
    assert world.run(plan).target == "bb/m2"
    assert world.hosts == ["aa", "bb"]


def test_backoff_doubles_from_a_quarter_of_a_second_to_four() -> None:
    world = World(*[BAD_CALL] * 7, OK)
    ask(world, OPENAI, BB, retries=6)
    assert world.slept == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0]


@given(st.floats(0, 1, exclude_max=True))
def test_backoff_has_full_jitter(random_number: float) -> None:
    world = World(BUSY, OK, random_number=random_number)
    ask(world)
    assert world.slept == [random_number * 0.25]


def test_no_backoff_between_targets() -> None:
    world = World(Status(404), OK)
    ask(world)
    assert world.slept == []


@pytest.mark.parametrize(
    ("fault", "wait"),
    [
        (slow_down(3), 3.0),
        (slow_down("1.5"), 1.5),
        (slow_down(250, "retry-after-ms"), 0.25),
        (slow_down("Sun, 15 Nov 2026 10:00:04 GMT", date="Sun, 15 Nov 2026 10:00:00 GMT"), 4.0),
        (slow_down("120ms", "x-ratelimit-reset-requests"), 0.12),
        (slow_down("2s", "x-ratelimit-reset-tokens"), 2.0),
        (slow_down(0), 0.0),
        (slow_down(5), 5.0),
    ],
)
def test_a_wait_that_a_provider_asks_for_is_obeyed(fault: Status, wait: float) -> None:
    world = World(fault, OK)
    assert ask(world).target == "aa/m1"
    assert world.slept == [wait]


def test_a_long_wait_benches_until_then_and_goes_on_at_once() -> None:
    world, health = World(slow_down(6), OK), Health()
    assert ask(world, health=health).target == "bb/m2"
    assert (world.slept, health.get("aa/m1").until) == ([], 106.0)


def test_the_patience_is_the_callers() -> None:
    world = World(slow_down(6), OK)
    assert ask(world, max_retry_after_with_fallback=6.0).target == "aa/m1"


def test_a_long_wait_prolongs_a_bench_of_just_now() -> None:
    health = Health()
    health.record_failure("aa/m1", 100.0, "busy")
    ask(World(slow_down(60), OK), health=health)
    assert health.get("aa/m1").until == 160.0


def test_a_long_wait_of_one_without_credit_benches_it_too() -> None:
    health = Health()
    fault = Status(429, b'{"error": {"code": "insufficient_quota", "message": "pay"}}', {"retry-after": "60"})
    ask(World(fault, OK), health=health)
    assert health.get("aa/m1").until == 160.0


def test_a_long_wait_of_the_last_target_is_waited_for() -> None:
    world = World(slow_down(30), OK)
    assert ask(world, AA).target == "aa/m1"
    assert world.slept == [30.0]


def test_a_target_on_cooldown_does_not_count_as_another_target() -> None:
    world = World(slow_down(30), OK)
    assert ask(world, health=ill(BB, seconds=500.0)).target == "aa/m1"
    assert world.slept == [30.0]


def test_a_target_whose_bench_is_over_is_another_target() -> None:
    world = World(slow_down(30), OK)
    assert ask(world, health=ill(BB, seconds=-1.0)).target == "bb/m2"


@pytest.mark.parametrize("capabilities", [{}, {"timeouts": Timeouts(total=20.0), "max_retry_after": 1000.0}])
def test_a_wait_that_is_too_long_ends_the_call_and_is_told(capabilities: dict[str, Any]) -> None:
    world, health = World(slow_down(90)), Health()
    error = fail(world, AA, health=health, **capabilities)
    assert isinstance(error, RateLimited)
    assert (error.retry_after, world.slept, health.get("aa/m1").until) == (90.0, [], 190.0)


def test_a_refusal_that_stops_does_not_bench() -> None:
    health = Health()
    fail(World(Status(405, b"{}", {"retry-after": "60"})), health=health)
    assert health.snapshot() == {}


# Deadlines ------------------------------------------------------------------------------------------------------------


def test_the_deadline_is_for_the_whole_call() -> None:
    world = World([Wait(20.0), Reset("by peer")], [last_line("fine")])
    ask(world, request=STREAM, timeouts=Timeouts(total=30.0), retries=0)
    assert [effect.total_timeout for effect in world.requests if not isinstance(effect, Send)] == [30.0, 10.0]


def test_the_deadline_is_checked_before_every_attempt_and_the_rest_is_named() -> None:
    world = World([Wait(31.0), Reset("by peer")])
    error = fail(world, AA, BB, CC, request=STREAM, timeouts=Timeouts(total=30.0))
    assert isinstance(error, TimedOut)
    assert isinstance(error, ChainExhausted)
    assert world.hosts == ["aa"]
    assert [(attempt.target, attempt.outcome) for attempt in error.attempts] == [
        ("aa/m1", "failed"),
        ("bb/m2", "skipped"),
        ("cc/m3", "skipped"),
    ]
    assert "bb/m2 skipped (the deadline of 30.0 s has passed)" in str(error)


def test_a_target_that_waits_for_a_retry_is_not_also_skipped_at_the_deadline() -> None:
    plan, world = run(ASK, (AA, BB), ill(BB), ChainOptions(timeouts=Timeouts(total=30.0))), World(BUSY)
    world.until(plan, Sleep)
    world.now += 60.0
    with pytest.raises(ChainExhausted, match=r"the deadline of 30\.0 s has passed") as caught:
        world.run(plan)
    assert [attempt.outcome for attempt in caught.value.attempts if attempt.target == "aa/m1"] == ["failed"]


def test_the_deadline_is_checked_before_a_retry() -> None:
    plan, world = run(ASK, (AA,), Health(), ChainOptions(timeouts=Timeouts(total=30.0))), World(BUSY)
    world.until(plan, Sleep)
    world.now += 60.0
    with pytest.raises(TimedOut):
        world.run(plan)
    assert world.hosts == ["aa"]


def test_a_backoff_that_would_pass_the_deadline_is_not_waited_for() -> None:
    world = World(BUSY, OK)
    assert ask(world, timeouts=Timeouts(total=0.25)).target == "bb/m2"
    assert world.slept == []


def test_without_a_deadline_there_is_none() -> None:
    world = World([Wait(1e6), last_line("fine")])
    assert ask(world, request=STREAM, timeouts=Timeouts(total=None)).text == "fine"


def test_a_deadline_that_passed_lets_a_trial_go() -> None:
    health = ill(AA, seconds=-1.0)
    fail(World(), AA, health=health, timeouts=Timeouts(total=0.0))
    assert health.admit("aa/m1", 100.0) == TrialLease(160.0)


# Streams --------------------------------------------------------------------------------------------------------------


def test_a_stream_fails_over_until_its_first_event() -> None:
    world = World([line("")], [line("")], [line("fine"), last_line("")])
    assert ask(world, request=STREAM).target == "bb/m2"
    assert fold(world.shown).text == "fine"
    assert not any(isinstance(event, Restarted) for event in world.shown)


def test_after_its_first_event_a_stream_is_interrupted_with_what_arrived() -> None:
    world, health = World([line("fi"), Reset("by peer")]), Health()
    error = fail(world, request=STREAM, health=health)
    assert type(error) is Interrupted
    assert error.partial is not None
    assert (error.partial.text, error.partial.target) == ("fi", "aa/m1")
    assert error.partial.attempts == error.attempts
    assert error.attempts[0].outcome == "failed"
    assert world.hosts == ["aa"]
    assert health.get("aa/m1").failures == 1


def test_all_empty_streams_are_an_empty_response() -> None:
    assert isinstance(fail(World([last_line("")], [last_line("")]), request=STREAM), EmptyResponse)


def test_who_wants_it_is_started_over() -> None:
    world = World([line("fi"), Reset("by peer")], [line("good"), last_line("")])
    response = ask(world, request=STREAM, on_interrupt="restart")
    assert (response.text, response.target, world.hosts) == ("good", "bb/m2", ["aa", "bb"])
    (again,) = [event for event in world.shown if isinstance(event, Restarted)]
    assert again == Restarted(previous="aa/m1", target="bb/m2", why="the stream broke: by peer")
    assert fold(world.shown).text == "good"


def test_a_restart_is_said_when_somebody_has_something_to_show() -> None:
    world = World([line("fi"), Reset("by peer")], BUSY, BUSY, [line("good"), last_line("")])
    ask(world, AA, BB, CC, request=STREAM, on_interrupt="restart")
    assert [event.target for event in world.shown if isinstance(event, Restarted)] == ["cc/m3"]


def test_a_stream_may_be_started_over_more_than_once() -> None:
    world = World([line("a"), Reset("by peer")], [line("b"), Reset("by peer")], [line("c"), last_line("")])
    assert ask(world, AA, BB, CC, request=STREAM, on_interrupt="restart").text == "c"
    assert [event.previous for event in world.shown if isinstance(event, Restarted)] == ["aa/m1", "bb/m2"]
    assert isinstance(world.shown[-1], Finished)


def test_when_nobody_can_start_over_it_is_an_interruption_with_what_was_shown_last() -> None:
    error = fail(World([line("fi"), Reset("by peer")], EMPTY), request=STREAM, on_interrupt="restart")
    assert isinstance(error, Interrupted)
    assert isinstance(error, ChainExhausted)
    assert error.partial is not None
    assert error.partial.text == "fi"
    assert len(error.attempts) == 2


def test_a_refusal_inside_a_stream_is_not_started_over() -> None:
    blocked = b'{"error": {"code": "content_filter", "message": "no"}}\n'
    world = World([line("fi"), blocked])
    assert type(fail(world, request=STREAM, on_interrupt="restart")) is Interrupted
    assert world.hosts == ["aa"]


def test_leaving_a_stream_lets_a_trial_go() -> None:
    health = ill(AA, seconds=-1.0)
    plan, world = run(STREAM, (AA,), health, ChainOptions()), World([line("fi"), last_line("")])
    world.until(plan, Read)
    assert health.get("aa/m1").state == "trial"
    plan.close()
    assert health.admit("aa/m1", 100.0) == TrialLease(160.0)


# Health ---------------------------------------------------------------------------------------------------------------


def test_one_request_tries_and_the_others_skip() -> None:
    health = ill(AA, seconds=-1.0)
    first = run(ASK, (AA, BB), health, ChainOptions())
    world = World(OK, OK)
    world.until(first, Send)
    second = ask(world, health=health)
    assert second.target == "bb/m2"
    assert (second.attempts[0].error or "").startswith("another request is testing it: ")


def test_a_failed_trial_benches_at_once_for_the_next_cooldown() -> None:
    health = Health()
    for _ in range(2):
        health.record_failure("aa/m1", 90.0, "busy")
    world = World(BUSY, OK)
    assert ask(world, health=health).target == "bb/m2"
    assert (world.hosts, health.get("aa/m1").until) == (["aa", "bb"], 110.0)


def test_a_trial_that_proves_nothing_lets_the_next_one_try() -> None:
    health = ill(AA, seconds=-1.0)
    ask(World(Status(404), OK), health=health)
    assert health.admit("aa/m1", 100.0) == TrialLease(160.0)


def test_a_trial_that_is_retried_stays_the_trial() -> None:
    health = Health()
    health.disable("openai/m", -1.0, now=100.0)
    plan, world = run(ASK, (OPENAI,), health, ChainOptions(retries=1)), World(BAD_CALL, BAD_CALL)
    world.until(plan, Sleep)
    assert health.admit("openai/m", 100.0) is None
    with pytest.raises(MalformedToolCall):
        world.run(plan)
    assert len(world.hosts) == 2
    assert health.admit("openai/m", 100.0) == TrialLease(160.0)


@pytest.mark.parametrize("wait", ["99999999999", "99999999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_no_wait_that_a_provider_asks_for_is_longer_than_a_day(wait: str) -> None:
    health = Health()
    headers = {"retry-after": wait, "date": "Tue, 17 Nov 2026 12:00:00 GMT"}
    fail(World(Status(429, headers=headers)), AA, health=health, retries=0)
    assert (health.get("aa/m1").until or 0.0) <= 100.0 + 86400.0


@pytest.mark.parametrize("wait", [float("inf"), float("nan"), 1e300])
def test_no_wait_without_an_end_is_believed(wait: float) -> None:
    health = Health()
    fail(World(RateLimited("slow down", retry_after=wait)), AA, health=health, retries=0)
    assert health.get("aa/m1").until == 100.0 + 86400.0


@pytest.mark.parametrize(
    "name", ["retries", "max_retry_after_with_fallback", "max_retry_after", "backoff", "backoff_cap"]
)
@pytest.mark.parametrize("given", [-1, None, "x", float("nan")])
def test_what_is_no_number_is_refused(name: str, given: Any) -> None:
    options: dict[str, Any] = {name: given}
    with pytest.raises(SetupError, match=rf"{name} must be (an int|a finite number) >= 0, got "):
        ChainOptions(**options)


def test_a_verdict_that_fails_is_told_with_what_it_was_asked_for() -> None:
    def classify(error: DragomanError) -> ErrorPolicy:
        raise KeyError(error.code)

    with pytest.raises(SetupError, match=r"classify failed for Overloaded: busy: KeyError"):
        ask(World(Overloaded("busy")), AA, classify=classify)


def test_a_verdict_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(SetupError, match="classify must return an ErrorPolicy or None, got bool"):
        ask(World(Overloaded("busy")), AA, classify=bool)


def test_an_error_that_ends_a_chain_names_its_target() -> None:
    error = fail(World(Status(405, b"")), AA, BB)
    assert (str(error), error.message) == ("aa/m1: HTTP 405", "HTTP 405")


def test_a_redirect_is_left_to_the_next_target_and_benches_nobody() -> None:
    world, health = World(Status(301, headers={"location": "https://example.org/"}), OK), Health()
    assert ask(world, AA, BB, health=health).target == "bb/m2"
    assert (world.hosts, health.get("aa/m1").failures) == (["aa", "bb"], 0)


# Cooldown chooses between targets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("retries", [0, 1, 5])
def test_a_single_target_is_tried_as_often_as_the_caller_wants(retries: int) -> None:
    world = World(*[BUSY] * (retries + 1))
    error = fail(world, AA, retries=retries)
    assert (type(error), error.message) == (Overloaded, "busy")
    assert len(world.hosts) == len(error.attempts) == retries + 1


def test_a_single_target_on_cooldown_is_called_all_the_same() -> None:
    world, health = World(BUSY, OK), ill(AA)
    response = ask(world, AA, health=health)
    assert (response.text, world.hosts) == ("fine", ["aa", "aa"])
    assert health.get("aa/m1").is_healthy


def test_a_single_target_that_another_call_tries_is_called_all_the_same() -> None:
    health = ill(AA, seconds=-1.0)
    first, world = run(ASK, (AA,), health, ChainOptions()), World(OK)
    world.until(first, Send)
    assert health.get("aa/m1").state == "trial"
    assert ask(world, AA, health=health).text == "fine"


def test_a_target_that_another_call_puts_on_cooldown_is_tried_again_if_no_other_is_left() -> None:
    health = Health()
    plan, world = run(ASK, (AA,), health, ChainOptions()), World(BUSY, OK)
    world.until(plan, Sleep)
    health.cool_down("aa/m1", 130.0, "slow down")
    assert world.run(plan).text == "fine"


def test_when_all_are_on_cooldown_the_first_to_end_is_called_first() -> None:
    world, health = World(OK), ill(BB, AA)
    response = ask(world, health=health)
    assert (response.target, world.hosts) == ("bb/m2", ["bb"])
    assert [attempt.outcome for attempt in response.attempts] == ["skipped", "skipped", "served"]
    assert health.get("bb/m2").is_healthy


def test_a_target_on_cooldown_is_called_when_all_others_have_failed() -> None:
    world = World(Status(404), OK)
    assert ask(world, health=ill(AA)).target == "aa/m1"
    assert world.hosts == ["bb", "aa"]


def test_retries_that_a_cooldown_stopped_are_made_when_all_others_have_failed() -> None:
    world = World(BUSY, BUSY, Status(404), BUSY, OK)
    assert ask(world, retries=3).target == "aa/m1"
    assert world.hosts == ["aa", "aa", "bb", "aa", "aa"]


def test_a_wait_of_the_first_target_is_waited_for_when_all_others_have_failed() -> None:
    world = World(slow_down(30), Status(404), OK)
    assert ask(world).target == "aa/m1"
    assert (world.hosts, world.slept) == (["aa", "bb", "aa"], [30.0])


@pytest.mark.parametrize("options", [{"max_retry_after": 20.0}, {"timeouts": Timeouts(total=20.0)}])
def test_a_wait_of_the_first_target_that_is_too_long_is_not_waited_for(options: dict[str, Any]) -> None:
    world = World(slow_down(30), Status(404))
    assert isinstance(fail(world, **options), ChainExhausted)
    assert (world.hosts, world.slept) == (["aa", "bb"], [])


def test_a_chain_that_is_down_tries_every_target_as_often_as_the_caller_wants() -> None:
    world = World(*[BUSY] * 8)
    error = fail(world, retries=3)
    assert isinstance(error, ChainExhausted)
    assert sorted(world.hosts) == [*["aa"] * 4, *["bb"] * 4]


def test_an_operator_decides_even_if_no_other_target_is_left() -> None:
    world, health = World(), ill(AA)
    health.disable("aa/m1", 60.0, now=100.0)
    error = fail(world, AA, health=health)
    assert (type(error), error.retry_after, world.hosts) == (ChainExhausted, 60.0, [])
    assert "aa/m1 skipped (on cooldown for 60.0 s more: disabled by an operator)" in str(error)


def test_an_operator_who_disables_the_target_during_a_wait_ends_the_retries() -> None:
    health = Health()
    plan, world = run(ASK, (AA,), health, ChainOptions()), World(BUSY)
    world.until(plan, Sleep)
    health.disable("aa/m1", 30.0, now=100.0)
    with pytest.raises(Overloaded, match="busy"):
        world.run(plan)


def test_failures_of_one_moment_count_once() -> None:
    health, world = Health(), World(*[BUSY] * 16)
    plans = [run(ASK, (AA,), health, ChainOptions(retries=0)) for _ in range(16)]
    sends = [world.until(plan, Send) for plan in plans]
    for number, (plan, send) in enumerate(zip(plans, sends, strict=True)):
        world.now = 101.0 + number / 100
        with pytest.raises(Overloaded):
            world.run(plan, send)
    assert (health.get("aa/m1").failures, health.get("aa/m1").is_healthy) == (1, True)


# A gateway sheds load -------------------------------------------------------------------------------------------------


def down(*targets: Target, reason: str = "Overloaded: busy", until: float = 120.0) -> Health:
    """Nothing but failures for the last 20 seconds, the last one two seconds ago."""
    health = Health()
    for each in targets:
        for moment in (78.0, 82.0, 86.0, 90.0, 98.0):
            health.record_failure(each.name, moment, reason)
        health.cool_down(each.name, until, reason)
    return health


def shed(world: World, *targets: Target, **more: Any) -> DragomanError:
    return fail(world, *targets, when_all_cooling_down="shed", **more)


def test_a_target_on_cooldown_that_is_not_down_is_called_by_a_gateway_too() -> None:
    world = World(OK, OK)
    assert ask(world, AA, health=ill(AA), when_all_cooling_down="shed").text == "fine"


def test_one_request_at_a_time_tries_a_target_that_is_down() -> None:
    health, world = down(AA), World(OK)
    first = run(ASK, (AA,), health, ChainOptions(when_all_cooling_down="shed"))
    send = world.until(first, Send)
    error = shed(world, AA, health=health)
    assert (error.http_status, error.retry_after) == (503, 5.0)
    assert 0.9 < sum(world.slept) < 1.1
    assert world.hosts == []
    assert world.run(first, send).text == "fine"
    assert health.get("aa/m1").is_healthy


def test_the_message_says_why_the_wait_is_shorter_than_the_cooldown() -> None:
    health = down(AA)
    health.record_failure("aa/m1", 99.5, "Overloaded: busy")
    error = shed(World(), AA, health=health)
    assert error.retry_after == 5.0
    assert str(error).endswith("; try again in 5 s: a success ends a cooldown early")


def test_requests_that_wait_for_a_trial_go_on_when_it_succeeds() -> None:
    health, world = down(AA), World(OK)
    assert health.admit_trial("aa/m1", 100.0) == TrialLease(160.0)
    plan = run(ASK, (AA,), health, ChainOptions(when_all_cooling_down="shed"))
    world.until(plan, Sleep)
    health.record_success("aa/m1")
    assert world.run(plan).text == "fine"


def test_requests_that_wait_for_a_trial_fail_when_it_fails() -> None:
    health, world = down(AA), World()
    trial = health.admit_trial("aa/m1", 100.0) or "healthy"
    plan = run(ASK, (AA,), health, ChainOptions(when_all_cooling_down="shed"))
    world.until(plan, Sleep)
    health.record_failure("aa/m1", 100.0, "Overloaded: busy", trial)
    with pytest.raises(ChainExhausted):
        world.run(plan)
    assert (world.hosts, world.slept) == ([], [])


def test_no_request_tries_just_after_a_failure() -> None:
    health = down(AA)
    health.record_failure("aa/m1", 99.5, "Overloaded: busy")
    world = World()
    assert shed(world, AA, health=health).http_status == 503
    assert (world.hosts, world.slept) == ([], [])


def test_a_gateway_answers_429_if_the_target_was_limited_by_a_429() -> None:
    health = down(AA, reason="RateLimited: slow down")
    health.admit_trial("aa/m1", 100.0)
    error = shed(World(), AA, health=health)
    assert isinstance(error, RateLimited)
    assert error.http_status == 429
    assert error.retry_after == pytest.approx(19.0, abs=0.06)


def test_a_gateway_tries_every_target_that_is_down() -> None:
    world, health = World(BUSY, OK), down(AA, BB)
    response = ask(world, health=health, when_all_cooling_down="shed", retries=0)
    assert (response.target, world.hosts) == ("bb/m2", ["aa", "bb"])


def test_the_shortest_wait_is_reported_if_not_all_are_on_cooldown() -> None:
    world = World(Status(413, b"{}", {"retry-after": "3"}), Status(404))
    assert fail(world).retry_after == 3.0
    assert fail(World(Status(404), Status(404))).retry_after is None


# Observers ------------------------------------------------------------------------------------------------------------


def test_observers_get_every_attempt_and_every_bench() -> None:
    world = World(BUSY, BUSY, OK)
    response = ask(world, CC, AA, BB, health=ill(CC))
    assert [type(item).__name__ for item in world.observed] == [
        "Attempt",
        "Attempt",
        "Attempt",
        "CooldownStarted",
        "Attempt",
    ]
    assert tuple(item for item in world.observed if isinstance(item, Attempt)) == response.attempts
    assert world.observed[3] == CooldownStarted(target="aa/m1", seconds=5.0, why="Overloaded: busy")


def test_observers_are_told_of_a_bench_that_a_provider_asked_for() -> None:
    world = World(slow_down(60), OK)
    ask(world)
    assert world.observed[1] == CooldownStarted(target="aa/m1", seconds=60.0, why="RateLimited: slow down")


def test_observers_are_not_told_of_a_bench_that_others_brought() -> None:
    health = Health()

    class Meanwhile(World):
        def answer(self, effect: Send | Open) -> Any:
            health.disable("aa/m1", 30.0, now=100.0)
            return super().answer(effect)

    world = Meanwhile(BUSY, OK)
    assert ask(world, health=health).target == "bb/m2"
    assert [item.outcome for item in world.observed] == ["failed", "served"]


def test_attempts_tell_how_long_they_took_and_what_they_used() -> None:
    world = World([Wait(2.0), last_line("", eval_count=1)], [Wait(3.0), last_line("fine", eval_count=4)])
    first, second = ask(world, request=STREAM).attempts
    assert (first.duration, first.usage) == (2.0, Usage(output=1))
    assert (second.duration, second.usage) == (3.0, Usage(output=4))


# Order ----------------------------------------------------------------------------------------------------------------


def test_the_fastest_comes_first_and_one_that_was_never_asked_before_it() -> None:
    health = Health()
    health.record_success("aa/m1", 2.0)
    health.record_success("bb/m2", 1.0)
    world = World(Status(404), Status(404), Status(404))
    fail(world, AA, BB, CC, health=health, order="fastest")
    assert world.hosts == ["cc", "bb", "aa"]


@pytest.mark.parametrize(
    ("random_number", "hosts"),
    [
        (0.0, ["aa", "bb", "cc"]),
        (0.56, ["aa", "bb", "cc"]),
        (0.58, ["bb", "aa", "cc"]),
        (0.86, ["cc", "bb", "aa"]),
        (0.999999, ["cc", "bb", "aa"]),
    ],
)
def test_weights_are_one_over_the_cost(random_number: float, hosts: list[str]) -> None:
    world = World(Status(404), Status(404), Status(404), random_number=random_number)
    fail(world, AA, BB, CC, order="weighted", costs={"bb/m2": 0.5, "cc/m3": 1.0, "aa/m1": 0.25})
    assert world.hosts == hosts


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=8), st.floats(0, 1, exclude_max=True))
def test_a_weighted_order_has_every_target_once(costs: list[float], random_number: float) -> None:
    targets = [target(f"p{index}/m") for index in range(len(costs))]
    world = World(*[Status(404)] * len(costs), random_number=random_number)
    fail(world, *targets, order="weighted", costs={to.name: cost for to, cost in zip(targets, costs, strict=True)})
    assert sorted(world.hosts) == sorted(to.provider for to in targets)


@pytest.mark.parametrize(
    "options", [{"order": "dearest"}, {"when_all_cooling_down": "fail"}, {"on_interrupt": "retry"}, {"retries": -1}]
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SetupError, match=next(iter(options))):
        ChainOptions(**options)


# The error at the end -------------------------------------------------------------------------------------------------


def test_the_error_of_a_single_target_is_the_providers() -> None:
    error = fail(World(BUSY, BUSY, BUSY), AA)
    assert (type(error), str(error), error.status) == (Overloaded, "aa/m1: busy", 503)
    assert len(error.attempts) == 3


def test_a_single_target_with_an_empty_answer_is_an_error_too() -> None:
    assert type(fail(World(EMPTY), AA)) is EmptyResponse


def test_the_error_of_a_single_target_has_the_usage_of_all_attempts() -> None:
    error = fail(World(BAD_CALL, BAD_CALL), OPENAI, retries=1)
    assert error.usage == Usage(input=18, output=4, source="partial")


def test_if_all_answers_were_empty_it_is_also_an_empty_response() -> None:
    assert isinstance(fail(World(EMPTY, EMPTY)), EmptyResponse)
    assert not isinstance(fail(World(EMPTY, Status(404))), EmptyResponse)


def test_it_has_the_facts_of_its_class() -> None:
    fault = Status(
        400, b'{"error": {"code": "exceed_context_size_error", "message": "x", "n_prompt_tokens": 9, "n_ctx": 5}}'
    )
    error = fail(World(fault), AA)
    assert isinstance(error, ContextTooLong)
    assert (error.tokens, error.limit, error.code) == (9, 5, "exceed_context_size_error")


def test_it_is_neither_transient_nor_to_be_left_to_another() -> None:
    error = fail(World(*[BUSY] * 6))
    assert (error.retry, error.fail_over, error.count_failure) == (False, False, False)


def test_it_tells_what_all_attempts_used() -> None:
    error = fail(
        World(
            Status(200, last_line("", prompt_eval_count=3)),
            Status(200, last_line("", prompt_eval_count=4, eval_count=1)),
        )
    )
    assert error.usage == Usage(input=7, output=1, source="partial")


def test_it_can_be_pickled() -> None:
    error = fail(World(*[BUSY] * 6))
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert isinstance(copy, Overloaded)
    assert isinstance(copy, ChainExhausted)
    assert (str(copy), copy.attempts, copy.status) == (str(error), error.attempts, 503)


# Random faults against a tiny model -----------------------------------------------------------------------------------

FAULTS: dict[str, Script] = {
    "ok": OK,
    "busy": BUSY,
    "slow": slow_down(8),
    "empty": EMPTY,
    "missing": Status(404),
    "wrong": WRONG,
}


HOSTS: tuple[str, ...] = ("aa", "bb", "cc")
ENDS = {"ok": "served", "wrong": "stopped", "missing": None, "empty": None}
"""What ends the tries of a target, and what then ends the call."""


class Reference:
    """What a chain of three does, written as one loop, for faults by name; times are whole seconds of backoff zero."""

    def __init__(self) -> None:
        self.strikes: dict[str, int] = dict.fromkeys(HOSTS, 0)
        self.cooldowns: dict[str, int] = dict.fromkeys(HOSTS, 0)
        self.until: dict[str, float | None] = dict.fromkeys(HOSTS)
        self.called: list[str] = []
        self.left: list[str] = []
        self.waits: dict[str, float] = {}

    def call(self, faults: dict[str, list[str]], now: float) -> tuple[list[str], str]:
        """The hosts that were called, in order, and how it ended."""
        self.called, self.left, self.waits = [], [*HOSTS], {}
        while self.left:
            open_hosts = [host for host in self.left if self.is_open(host, now)]
            host = open_hosts[0] if open_hosts else min(self.left, key=lambda host: self.until[host] or 0.0)
            self.left.remove(host)
            is_trial = bool(open_hosts) and self.until[host] is not None
            now = max(now, self.waits.get(host, now))
            end, now = self.tries(host, faults[host], now, is_trial=is_trial, is_healthy=self.until[host] is None)
            if end is not None:
                return self.called, end
        return self.called, "exhausted"

    def tries(
        self, host: str, faults: list[str], now: float, *, is_trial: bool, is_healthy: bool
    ) -> tuple[str | None, float]:
        while True:
            fault = faults[self.called.count(host)]
            self.called.append(host)
            if fault == "ok":
                self.strikes[host] = self.cooldowns[host] = 0
                self.until[host] = None
            if fault in ENDS:
                return ENDS[fault], now
            cooled_down = self.strike(host, now, is_trial=is_trial)
            is_trial = False
            others = any(self.is_open(other, now) for other in self.left)
            may_retry = self.called.count(host) <= 2
            stays = may_retry and not (others and (cooled_down or fault == "slow"))
            if fault == "slow" and not stays:
                self.waits[host] = now + 8
                self.until[host] = max(now + 8, self.until[host] or 0)
            if fault == "slow" and stays:
                now += 8
                others = any(self.is_open(other, now) for other in self.left)
                stays = not (others and is_healthy and self.until[host] is not None)
            if not stays:
                self.left += [host] if may_retry else []
                return None, now

    def is_open(self, host: str, now: float) -> bool:
        return (self.until[host] or 0.0) <= now

    def strike(self, host: str, now: float, *, is_trial: bool) -> bool:
        self.strikes[host] += 1
        if is_trial or (self.until[host] is None and self.strikes[host] >= 2):
            self.until[host] = now + min(300, 5 * 2 ** self.cooldowns[host])
            self.cooldowns[host] += 1
        return self.until[host] is not None


@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.lists(st.sampled_from(sorted(FAULTS)), min_size=9, max_size=9)), max_size=25
    )
)
def test_chain_and_health_follow_the_rules_whatever_happens(story: list[tuple[int, list[str]]]) -> None:
    health, reference, now = Health(), Reference(), 100.0
    for passes, names in story:
        now += passes
        faults = {"aa": names[0:3], "bb": names[3:6], "cc": names[6:9]}
        scripts = {host: [FAULTS[name] for name in left] for host, left in faults.items()}
        world = World(now=now, random_number=0.0, **scripts)
        ended = "served"
        try:
            ask(world, AA, BB, CC, health=health, timeouts=Timeouts(total=None))
        except ChainExhausted:
            ended = "exhausted"
        except BadRequest:
            ended = "stopped"
        assert (world.hosts, ended) == reference.call(faults, now)
        now = world.now
        for to in (AA, BB, CC):
            condition, host = health.get(to.name), to.provider
            assert (condition.until, condition.cooldowns) == (reference.until[host], reference.cooldowns[host])
            assert (condition.failures, condition.is_healthy) == (
                reference.strikes[host],
                reference.until[host] is None,
            )
            assert condition.state != "trial"


def test_conditions_are_of_the_target_and_not_of_the_provider() -> None:
    health = Health()
    ask(World(BUSY, BUSY, OK), AA, target("aa/other"), health=health)
    assert health.get("aa/m1").state == "cooldown"
    assert health.get("aa/other") == TargetHealth(last_latency=0.0)


def test_a_truncated_body_is_told_as_such() -> None:
    assert isinstance(fail(World(*[Status(200, b"")] * 3), AA), Truncated)


def test_a_fault_of_the_server_is_told_as_such() -> None:
    assert isinstance(fail(World(*[Status(500)] * 3), AA), ServerFault)
