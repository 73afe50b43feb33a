"""The loop of an agent, driven by hand: no model, no thread, no clock."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dragoman import (
    AuthFailed,
    Budget,
    BudgetExceeded,
    Context,
    DragomanError,
    EmptyResponse,
    Finish,
    HookFailed,
    Image,
    Interrupted,
    InvalidRequest,
    MalformedToolCall,
    MaxSteps,
    Message,
    OutputError,
    Request,
    Response,
    Result,
    StepFinished,
    StepStarted,
    Text,
    TimedOut,
    Tool,
    ToolCall,
    ToolFinished,
    ToolLoop,
    ToolResult,
    ToolStarted,
    Usage,
    assistant,
    tool,
    tool_results,
    user,
)
from dragoman.agents.events import RunEvent
from dragoman.agents.loop import EMPTY_ANSWER, LoopSettings, Run
from dragoman.engine.effects import Emit, Plan, Sleep, StartJobs
from dragoman.events import PartDelta
from dragoman.schema.output_type import OutputType
from dragoman.testing import as_response
from dragoman.tools.decorator import gather
from tests.support.plans import World

ScriptLine = str | ToolCall | tuple[ToolCall, ...] | Message | Response | DragomanError
LONG = "The tide in Brest is 4.2 m high at noon, and falls to 1.1 m by six in the evening. " * 3


@tool
def tide(port: str) -> str:
    """Tide height."""
    return f"4.2 m in {port}"


@tool
def broken() -> str:
    """Fails."""
    raise RuntimeError("no water")


def call(name: str = "tide", id: str = "call_1", **arguments: Any) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments or ({"port": "Brest"} if name == "tide" else {}))


def saying(value: object, /) -> Callable[[Any], Any]:
    return lambda _given: value


two = saying(2)


def yes(_call: ToolCall) -> bool:
    return True


def no(_call: ToolCall) -> bool:
    return False


def fails(_given: object) -> float:
    return 1 / 0


def last_only(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    return messages[-1:]


class ScriptedModel:
    """A model that follows a script and records the requests and time limits."""

    def __init__(self, *lines: ScriptLine, seconds: float = 0.0) -> None:
        self.lines = list(lines)
        self.requests: list[Request] = []
        self.seconds_left: list[float | None] = []
        self.seconds = seconds

    def __call__(self, request: Request, seconds: float | None) -> Plan[Response]:
        self.requests.append(request)
        self.seconds_left.append(seconds)
        if self.seconds:
            yield Sleep(self.seconds)
        line = self.lines.pop(0)
        if isinstance(line, DragomanError):
            raise line
        return as_response(line)

    @property
    def last(self) -> tuple[Message, ...]:
        return self.requests[-1].messages


def run(
    model: ScriptedModel, /, *, world: World | None = None, prompt: Sequence[Message] = (user("?"),), **settings: Any
) -> Result[Any]:
    fields: dict[str, Any] = {"tools": gather([tide, broken]), **settings}
    return (world or World()).run(Run(prompt, LoopSettings[Any](**fields), model).plan())


def stopped(kind: type[DragomanError], model: ScriptedModel, /, **settings: Any) -> DragomanError:
    with pytest.raises(kind) as caught:
        run(model, **settings)
    assert isinstance(caught.value.result, Result)
    return caught.value


# ── the loop ────────────────────────────────────────────────────────────────


def test_an_answer_without_calls_is_the_end() -> None:
    result = run(ScriptedModel("Noon."))
    assert result.output == "Noon."
    assert result.messages == (user("?"), assistant("Noon."))
    assert [step.index for step in result.steps] == [0]


def test_calls_are_run_and_the_model_is_asked_again() -> None:
    model = ScriptedModel((call(), call("broken", "call_2")), "4.2 m.")
    result = run(model)
    assert result.output == "4.2 m."
    first, second = result.steps
    assert [one.text for one in first.results] == ["4.2 m in Brest", "RuntimeError: no water"]
    assert [one.is_error for one in first.results] == [False, True]
    assert second.results == ()
    assert result.messages[1] == assistant(call(), call("broken", "call_2"))
    assert result.messages[2] == tool_results(*first.results)
    assert model.last == result.messages[:3]


def test_jobs_begin_together_or_one_after_the_other() -> None:
    for parallel, sizes in ((True, [2]), (False, [1, 1])):
        world = World()
        run(ScriptedModel((call(), call(id="call_2")), "ok"), world=world, parallel=parallel)
        timed = [len(jobs) for jobs in world.jobs if jobs[0].timeout is not None]
        assert timed == sizes


def test_events_tell_what_happens() -> None:
    world = World()
    run(ScriptedModel(call(), "ok"), world=world)
    kinds = [StepStarted, ToolStarted, ToolFinished, StepFinished, StepStarted, StepFinished]
    assert [type(event) for event in world.shown if isinstance(event, RunEvent)] == kinds


def test_an_answer_that_is_not_streamed_is_shown_at_once() -> None:
    world = World()
    run(ScriptedModel("Noon."), world=world)
    assert [event.text for event in world.shown if isinstance(event, PartDelta)] == ["Noon."]


def test_the_time_of_steps_and_tools_is_told() -> None:
    world = World()

    @tool
    def slow() -> str:
        """Slow."""
        world.now += 2.0
        return "done"

    result = run(ScriptedModel(call("slow"), "ok", seconds=1.0), world=world, tools=gather([slow]))
    assert result.steps[0].duration == 3.0
    assert result.steps[0].durations == (2.0,)


def test_usage_is_summed_with_what_tools_spent() -> None:
    inner = Response(message=assistant("x"), finish=Finish(reason="stop"), usage=Usage(input=100, output=50))

    @tool
    def ask(context: Context) -> str:
        """Ask."""
        context.spend(inner)
        return "x"

    outer = Response(message=assistant(call("ask")), finish=Finish(reason="tool_calls"), usage=Usage(input=3, output=4))
    result = run(ScriptedModel(outer, "ok"), tools=gather([ask]))
    assert (result.usage.input, result.usage.output) == (3 + 100 + 1, 4 + 50 + 1)


def test_a_context_knows_its_call_step_messages_and_data() -> None:
    seen: list[Context] = []

    @tool
    def look(context: Context) -> str:
        """Look."""
        seen.append(context)
        return "seen"

    settings = LoopSettings[str](tools=gather([look]))
    World().run(Run([user("?")], settings, ScriptedModel(call("look"), "ok"), data={"a": 1}).plan())
    assert (seen[0].call, seen[0].step, seen[0].data) == (call("look"), 0, {"a": 1})
    assert [message.role for message in seen[0].messages] == ["user", "assistant"]


def test_a_run_goes_on_from_its_messages() -> None:
    first = run(ScriptedModel(call(), "4.2 m."))
    model = ScriptedModel("As I said, 4.2 m, and that will not change before the evening.")
    run(model, prompt=[*first.messages, user("Sure?")])
    assert model.last == (*first.messages, user("Sure?"))


def test_a_forced_choice_holds_for_the_first_step() -> None:
    model = ScriptedModel(call(), "ok")
    run(model, request=Request(tool_choice="required"))
    assert [request.tool_choice for request in model.requests] == ["required", "auto"]


def test_a_pause_of_the_provider_is_gone_over() -> None:
    paused = Response(message=assistant("Searching"), finish=Finish(reason="pause"))
    result = run(ScriptedModel(paused, "Found."))
    assert result.output == "Found."
    assert result.messages[1:] == (assistant("Searching"), assistant("Found."))
    assert len(stopped(MaxSteps, ScriptedModel(*[paused] * 3), max_steps=2).result.steps) == 3


# ── what ends a run early ───────────────────────────────────────────────────


def test_an_error_of_the_model_has_the_result_so_far() -> None:
    error = stopped(AuthFailed, ScriptedModel(call(), AuthFailed("no key", usage=Usage(input=5))))
    assert error.result.output is None
    assert len(error.result.steps) == 1
    assert [message.role for message in error.result.messages] == ["user", "assistant", "tool"]
    assert error.result.usage.input == 6


@pytest.mark.parametrize("limit", [2, two], ids=["number", "function"])
def test_n_steps_are_n_rounds_of_tools(limit: Any) -> None:
    lines = [call(port="Brest"), call(port="Cork"), call(port="Riga")]
    assert run(ScriptedModel(*lines[:2], "done"), max_steps=limit).output == "done"
    error = stopped(MaxSteps, ScriptedModel(*lines), max_steps=limit)
    assert [one.text for step in error.result.steps for one in step.results][:2] == ["4.2 m in Brest", "4.2 m in Cork"]
    assert error.result.steps[2].results[0].text.startswith("not run")
    assert error.result.messages[-1].role == "tool"


def test_a_limit_that_fails_is_the_usual_one() -> None:
    world = World()
    result = run(ScriptedModel(call(), "ok"), world=world, max_steps=fails)
    assert result.output == "ok"
    assert [event.hook for event in world.shown if isinstance(event, HookFailed)] == ["max_steps"]


@pytest.mark.parametrize("off", [None, 0])
def test_the_guards_may_be_off(off: int | None) -> None:
    lines = [call("broken")] * 5
    assert (
        run(ScriptedModel(*lines, "ok"), tools=gather([broken]), tool_error_limit=off, repeat_limit=off).output == "ok"
    )


def test_steps_may_be_without_limit() -> None:
    lines = [call(port=f"port {number}") for number in range(20)]
    assert run(ScriptedModel(*lines, "ok"), max_steps=None).output == "ok"


def test_steps_that_only_fail_are_a_loop() -> None:
    lines = [call("broken"), call("broken", a=1), call("nothing")]
    error = stopped(ToolLoop, ScriptedModel(*lines))
    assert "3 steps in a row gave only errors" in error.message
    assert len(error.result.steps) == 3


def test_one_good_result_breaks_the_row_of_errors() -> None:
    both = (call(), call("broken", "call_2"))
    assert run(ScriptedModel(call("broken"), call("nothing"), both, call("broken", a=2), "ok")).output == "ok"


def test_the_same_calls_with_the_same_results_are_a_loop() -> None:
    error = stopped(ToolLoop, ScriptedModel(*[call(id=f"call_{number}") for number in range(3)]))
    assert "3 steps in a row made the same calls" in error.message


def test_the_same_call_with_another_result_is_none() -> None:
    heights = iter(range(9))

    @tool
    def gauge() -> int:
        """Gauge."""
        return next(heights)

    assert run(ScriptedModel(*[call("gauge")] * 4, "ok"), tools=gather([gauge])).output == "ok"


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (Budget(tokens=3), "4 of 3 tokens used"),
        (Budget(money=0.5, price=saying(0.6)), "0.6000 of 0.5000 dollars"),
        (Budget(seconds=1.5), "2.0 of 1.5 seconds"),
    ],
)
def test_a_budget_ends_a_run_before_the_next_step(budget: Budget, why: str) -> None:
    response = Response(message=assistant(call()), finish=Finish(reason="tool_calls"), usage=Usage(input=3, output=1))
    error = stopped(BudgetExceeded, ScriptedModel(response, seconds=2.0), budget=budget)
    assert why in error.message
    assert len(error.result.steps) == 1


@pytest.mark.parametrize("price", [fails, saying(None)])
def test_a_price_that_fails_is_told_with_the_result_so_far(price: Any) -> None:
    error = stopped(InvalidRequest, ScriptedModel("4.2 m"), budget=Budget(money=1.0, price=price))
    assert "budget.price must return the dollars of a response, got " in error.message
    assert error.result.messages[-1].text == "4.2 m"


def test_an_answer_is_given_though_it_used_up_the_budget() -> None:
    result = run(ScriptedModel("Here it is."), budget=Budget(tokens=1, money=0.1, price=saying(3.0)))
    assert result.output == "Here it is."
    assert result.cost == 3.0


def test_the_time_that_is_left_is_told_to_the_model_and_the_tools() -> None:
    world = World()
    model = ScriptedModel(call(), "ok", seconds=1.0)
    run(model, world=world, budget=Budget(seconds=10.0), step_timeout=9.5)
    assert model.seconds_left == [9.5, 9.0]
    assert [job.timeout for jobs in world.jobs for job in jobs if job.timeout] == [9.0]


def test_a_model_that_is_out_of_time_by_the_budget_exceeds_it() -> None:
    error = stopped(BudgetExceeded, ScriptedModel(TimedOut("slow"), seconds=5.0), budget=Budget(seconds=5.0))
    assert isinstance(error.__cause__, TimedOut)


def test_a_run_that_is_out_of_time_is_timed_out() -> None:
    assert "more than 5 s" in stopped(TimedOut, ScriptedModel(call(), seconds=6.0), total_timeout=5.0).message


# ── saying nothing ──────────────────────────────────────────────────────────


def blank(reason: Any = "length") -> Response:
    return Response(message=assistant(" "), finish=Finish(reason=reason), usage=Usage(input=1, output=0))


@pytest.mark.parametrize("nothing", [EmptyResponse("blank", usage=Usage(input=1)), blank()], ids=["error", "response"])
def test_a_blank_stop_is_asked_again_with_a_message(nothing: Any) -> None:
    model = ScriptedModel(nothing, nothing, nothing, "Noon.")
    result = run(model)
    assert result.output == "Noon."
    assert model.last == (user("?"), user(EMPTY_ANSWER), user(EMPTY_ANSWER), user(EMPTY_ANSWER))
    assert result.usage.input == 4


def test_after_three_retries_a_blank_stop_is_the_end() -> None:
    error = EmptyResponse("blank")
    assert len(stopped(EmptyResponse, ScriptedModel(*[error] * 4)).result.messages) == 4
    assert run(ScriptedModel(*[blank()] * 4)).output == " "


def test_empty_retries_are_not_steps() -> None:
    assert run(ScriptedModel(blank(), call(), "ok"), max_steps=1).output == "ok"


def test_what_was_said_before_serves_when_nothing_is_said_at_the_end() -> None:
    written = Response(message=assistant(LONG, call()), finish=Finish(reason="tool_calls"))
    assert run(ScriptedModel(written, *[EmptyResponse("blank")] * 4)).output == LONG


def test_a_short_earlier_text_is_not_the_output() -> None:
    preamble = Response(message=assistant("Let me see.", call()), finish=Finish(reason="tool_calls"))
    assert len(stopped(EmptyResponse, ScriptedModel(preamble, *[EmptyResponse("blank")] * 4)).result.steps) == 1
    assert run(ScriptedModel(preamble, *[blank()] * 4)).output == " "


def test_a_blocked_answer_is_not_asked_for_again() -> None:
    assert run(ScriptedModel(blank("blocked"))).output == " "


# ── calls that are malformed ────────────────────────────────────────────────


def test_a_malformed_call_becomes_an_error_result() -> None:
    malformed = MalformedToolCall("arguments of tide are not a JSON object: {", id="call_1", name="tide", text="{")
    result = run(ScriptedModel(malformed, "ok"))
    assert result.output == "ok"
    assert result.steps[0].results[0].is_error
    assert "not a JSON object" in result.steps[0].results[0].text
    assert result.messages[1] == assistant(ToolCall(id="call_1", name="tide"))


def test_a_stream_that_broke_by_a_malformed_call_keeps_what_was_said() -> None:
    malformed = MalformedToolCall("no JSON", name="tide", text="{", usage=Usage(input=2))
    partial = Response(message=assistant("Let me see."), finish=Finish(reason="other"))
    error = Interrupted("broke", partial=partial)
    error.__cause__ = malformed
    result = run(ScriptedModel(error, "ok"))
    assert result.messages[1] == assistant("Let me see.", ToolCall(id="malformed_0", name="tide"))


def test_a_malformed_call_of_nothing_becomes_an_error_result() -> None:
    result = run(ScriptedModel(MalformedToolCall("no JSON"), "ok"))
    assert (result.output, result.steps[0].results[0].is_error) == ("ok", True)
    assert result.messages[1] == assistant(ToolCall(id="malformed_0", name="unnamed"))


def test_a_refusal_holds_for_one_step_though_ids_come_again() -> None:
    malformed = MalformedToolCall("no JSON", id="call_1", name="tide")
    assert run(ScriptedModel(malformed, call(id="call_1"), "ok")).steps[1].results[0].text == "4.2 m in Brest"


# ── the caller's functions ──────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("approve", "text", "is_error"),
    [
        (yes, "4.2 m in Brest", False),
        (no, "tide was not run: it was not approved", True),
        (saying(None), "tide was not run: it was not approved", True),
        (saying(ToolResult(id="?", content="3 m")), "3 m", False),
        (
            saying(ToolResult(id="?", content=(Image(data=b"<svg/>"),))),
            "tide: the result cannot be sent: an image is of an unknown type",
            True,
        ),
        (fails, "tide was not run: the approve hook failed (ZeroDivisionError)", True),
    ],
)
def test_a_call_is_run_when_it_is_approved(approve: Callable[[ToolCall], Any], text: str, is_error: object) -> None:
    (result,) = run(ScriptedModel(call(), "ok"), approve=approve).steps[0].results
    assert (result.id, result.text, result.is_error) == ("call_1", text, is_error)


def test_approval_that_fails_is_told() -> None:
    world = World()
    run(ScriptedModel(call(), "ok"), approve=fails, world=world)
    assert [event for event in world.shown if isinstance(event, HookFailed)] == [
        HookFailed("approve", "ZeroDivisionError: division by zero")
    ]


def test_steering_adds_messages_before_a_step() -> None:
    given: list[Any] = [None, ["Hurry.", user("Please.")], "Now."]
    model = ScriptedModel(call(), call(port="Cork"), "ok")
    result = run(model, steer=lambda: given.pop(0))
    assert [message.text for message in model.requests[1].messages if message.role == "user"] == [
        "?",
        "Hurry.",
        "Please.",
    ]
    assert model.last[-1] == user("Now.")
    assert user("Hurry.") in result.messages


def test_compaction_shortens_what_is_sent_and_not_the_transcript() -> None:
    model = ScriptedModel(call(), "ok")
    result = run(model, compact=last_only)
    assert [len(request.messages) for request in model.requests] == [1, 1]
    assert len(result.messages) == 4


@pytest.mark.parametrize("compact", [fails, saying(7), saying([7])])
def test_compaction_that_fails_leaves_the_original(compact: Any) -> None:
    model, world = ScriptedModel("ok"), World()
    run(model, world=world, compact=compact)
    assert model.last == (user("?"),)
    assert [event.hook for event in world.shown if isinstance(event, HookFailed)] == ["compact"]


def test_steering_that_fails_is_told_and_harmless() -> None:
    world = World()
    assert run(ScriptedModel("ok"), world=world, steer=lambda: 1 / 0).output == "ok"
    assert [event.why for event in world.shown if isinstance(event, HookFailed)] == [
        "ZeroDivisionError: division by zero"
    ]


# ── the output ──────────────────────────────────────────────────────────────


def test_the_last_text_is_the_output() -> None:
    written = Response(message=assistant(LONG, call()), finish=Finish(reason="tool_calls"))
    assert run(ScriptedModel(written, "See above.")).output == "See above."
    assert run(ScriptedModel(written, "4.2 m")).output == "4.2 m"


def test_a_typed_output_is_read_from_the_last_text() -> None:
    assert run(ScriptedModel(call(), '{"value": 4}'), output_type=OutputType[int](int)).output == 4


def test_a_wrong_output_is_asked_for_again_with_the_reasons() -> None:
    model = ScriptedModel("four", '{"value": 4}')
    assert run(model, output_type=OutputType[int](int)).output == 4
    assert "not JSON" in model.last[-1].text


def test_an_output_that_stays_wrong_is_an_error_with_all_that_was_used() -> None:
    error = stopped(OutputError, ScriptedModel("four", "4 m"), output_type=OutputType[int](int))
    assert isinstance(error, OutputError)
    assert error.text == "4 m"
    assert error.usage is not None
    assert error.usage.input == 2


def test_an_output_whose_validator_raises_anything_is_asked_for_again() -> None:
    @dataclasses.dataclass
    class Picky:
        metres: float

        def __post_init__(self) -> None:
            if self.metres > 9:
                raise LookupError("too high")

    model = ScriptedModel('{"metres": 10}', '{"metres": 4}')
    assert run(model, output_type=OutputType[Picky](Picky)).output == Picky(4)
    assert "LookupError: too high" in model.last[-1].text


def test_an_output_that_was_cut_off_says_so() -> None:
    cut = Response(message=assistant('{"value'), finish=Finish(reason="length"))
    assert (
        "length limit"
        in stopped(OutputError, ScriptedModel(cut), output_type=OutputType[int](int), max_repairs=0).message
    )


def test_a_terminal_call_ends_the_run_unexecuteed() -> None:
    model = ScriptedModel((call("finish", "call_1", answer="4.2 m"), call(id="call_2")))
    result = run(model, terminal="finish", tools=gather([tide, Tool(name="finish", description="End")]))
    assert result.output == {"answer": "4.2 m"}
    assert [one.text for one in result.steps[0].results] == ["accepted", "not run: the run ended with this step"]
    assert result.messages[-1].role == "tool"


def test_a_terminal_call_can_be_typed_and_is_refused_where_it_does_not_fit() -> None:
    form = OutputType[int](int)
    finish = Tool(name="finish", description="End", parameters=form.schema)
    model = ScriptedModel(call("finish", value="four"), call("finish", "call_2", value=4))
    result = run(model, terminal="finish", output_type=form, tools=(finish,))
    assert result.output == 4
    refused = result.steps[0].results[0]
    assert refused.is_error
    assert "$" in refused.text


def test_a_malformed_call_of_the_terminal_tool_is_no_end() -> None:
    finish = Tool(name="finish", description="End")
    malformed = MalformedToolCall("no JSON", id="call_1", name="finish", text="{")
    result = run(ScriptedModel(malformed, call("finish", port="Brest")), terminal="finish", tools=gather([finish]))
    assert result.output == {"port": "Brest"}
    assert result.steps[0].results[0].is_error


def test_a_terminal_call_is_refused_where_its_arguments_are_wrong() -> None:
    wrong, right = call(port=4), call()
    result = run(ScriptedModel(wrong, right), terminal="tide")
    assert result.output == {"port": "Brest"}
    assert "was not run: invalid arguments: $.port" in result.steps[0].results[0].text


def test_a_forced_choice_stays_where_a_terminal_tool_ends_the_run() -> None:
    model = ScriptedModel(call(), call("finish"))
    tools = gather([tide, Tool(name="finish", description="End")])
    run(model, terminal="finish", tools=tools, request=Request(tool_choice="required"))
    assert [request.tool_choice for request in model.requests] == ["required", "required"]


# ── leaving it ──────────────────────────────────────────────────────────────


def test_a_plan_that_is_closed_among_its_tools_leaves_what_there_was() -> None:
    going = Run([user("?")], LoopSettings[str](tools=gather([tide])), ScriptedModel(call(), "never"))
    plan, world = going.plan(), World()
    effect = next(plan)
    while not (isinstance(effect, StartJobs) and effect.jobs[0].timeout):
        effect = plan.send(world.perform(effect))
    plan.close()
    assert [message.role for message in going.result.messages] == ["user", "assistant"]
    assert going.result.output is None


def test_a_plan_that_is_closed_among_its_tools_keeps_the_results_that_there_are() -> None:
    calls = (call(id="call_1"), call(id="call_2", port="Cork"))
    going = Run([user("?")], LoopSettings[str](tools=gather([tide]), parallel=False), ScriptedModel(calls, "never"))
    plan, world = going.plan(), World()
    effect = next(plan)
    while not (isinstance(effect, Emit) and isinstance(effect.events[0], ToolFinished)):
        effect = plan.send(world.perform(effect))
    plan.close()
    assert going.result.messages[-1] == tool_results(
        ToolResult(id="call_1", name="tide", content="4.2 m in Brest"),
    )
    assert [one.text for one in going.result.steps[0].results] == ["4.2 m in Brest"]


def test_thinking_and_parts_stay_in_the_transcript() -> None:
    message = assistant(Text(text="Look", extra={"x": 1}), call())
    assert run(ScriptedModel(message, "ok")).messages[1] == message
