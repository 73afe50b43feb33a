"""What users hold: agents over the scripted provider and the demo, blocking and async."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from typing import Any, Protocol, cast

import msgspec
import pytest

from dragoman import (
    Agent,
    AuthFailed,
    Budget,
    BudgetExceeded,
    Context,
    Document,
    DragomanError,
    EmptyResponse,
    Image,
    InvalidRequest,
    InvalidTool,
    MaxSteps,
    Message,
    Opaque,
    OutputError,
    Registry,
    Result,
    Skill,
    StepFinished,
    StepStarted,
    Text,
    TextDelta,
    TimedOut,
    Timeouts,
    Tool,
    Toolbox,
    ToolCall,
    ToolFinished,
    ToolStarted,
    Unsupported,
    tool,
    user,
    wires,
)
from dragoman.agents.agent import AgentOptions
from dragoman.models import Prompt
from dragoman.testing import RawResponse, Scripted, StallAfter
from dragoman.tools import skills
from tests.support.images import picture

PATIENCE = 10.0
WIRES = wires.NAMES


class Port(msgspec.Struct):
    name: str
    metres: float


@tool
def tide(port: str) -> str:
    """Tide height at a port."""
    return f"4.2 m in {port}"


@tool
async def later(port: str) -> str:
    """Tide height at a port, later."""
    await asyncio.sleep(0)
    return f"1.1 m in {port}"


def call(name: str = "tide", id: str = "call_1", /, **arguments: Any) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments or {"port": "Brest"})


class Way(Protocol):
    """Blocking or async."""

    def run(self, agent: Agent[Any], prompt: Prompt = "?", **options: Any) -> Result[Any]: ...
    def stream(self, agent: Agent[Any], prompt: Prompt = "?") -> list[Any]: ...


class Blocking:
    def run(self, agent: Agent[Any], prompt: Prompt = "?", **options: Any) -> Result[Any]:
        return agent.run(prompt, **options)

    def stream(self, agent: Agent[Any], prompt: Prompt = "?") -> list[Any]:
        with agent.stream(prompt) as stream:
            return list(stream)


class Async:
    def run(self, agent: Agent[Any], prompt: Prompt = "?", **options: Any) -> Result[Any]:
        return asyncio.run(agent.arun(prompt, **options))

    def stream(self, agent: Agent[Any], prompt: Prompt = "?") -> list[Any]:
        async def main() -> list[Any]:
            async with agent.astream(prompt) as stream:
                return [item async for item in stream]

        return asyncio.run(main())


@pytest.fixture(params=[Blocking(), Async()], ids=["blocking", "async"])
def way(request: pytest.FixtureRequest) -> Way:
    chosen: Way = request.param
    return chosen


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    yield
    assert not [thread.name for thread in threading.enumerate() if thread.name == "dragoman-loop"]


# ── the loop, over every wire ───────────────────────────────────────────────


@pytest.mark.parametrize("wire", WIRES)
def test_a_run_over_each_wire(way: Way, wire: str) -> None:
    script = Scripted((call(), call("later", "call_2", port="Cork")), "Brest is higher.")
    result = way.run(Agent(script.model(wire), tools=[tide, later], system="Be brief."))
    assert result.output == "Brest is higher."
    assert [one.text for one in result.steps[0].results] == ["4.2 m in Brest", "1.1 m in Cork"]
    second = script.requests[1]
    assert [message.role for message in second.messages] == ["user", "assistant", "tool"]
    assert [one.text for one in second.messages[-1].tool_results] == ["4.2 m in Brest", "1.1 m in Cork"]
    system = second.system if isinstance(second.system, str) else "".join(part.text for part in second.system or ())
    assert system == "Be brief."


@pytest.mark.parametrize("wire", WIRES)
def test_a_run_goes_on_with_another_provider(wire: str) -> None:
    first = Agent(Scripted(call(), "4.2 m.").model("anthropic"), tools=[tide]).run("How high?")
    script = Scripted("Yes.")
    result = Agent(script.model(wire), tools=[tide]).run([*first.messages, user("Sure?")])
    assert result.output == "Yes."
    assert result.messages[: len(first.messages)] == first.messages
    assert [one.text for message in script.requests[0].messages for one in message.tool_results] == ["4.2 m in Brest"]


def test_a_transcript_is_the_same_after_it_was_saved() -> None:
    from dragoman import dump, load

    messages = Agent(Scripted(call(), "4.2 m.").model(), tools=[tide]).run("?").messages
    assert load(dump(messages)) == messages


def test_a_run_fails_over_within_a_step() -> None:
    registry = Registry(env={})
    result = Agent(registry.model("demo/overloaded,demo/any", retries=0), tools=[tide]).run(
        "What is the tide in Brest?"
    )
    assert [attempt.outcome for attempt in result.attempts] == ["failed", "served", "failed", "served"]


def test_four_tools_run_at_once_and_their_results_are_in_order(way: Way) -> None:
    meeting = threading.Barrier(4)

    @tool
    def slow(number: int) -> int:
        """Slow."""
        meeting.wait(PATIENCE)
        return number

    @tool
    async def slower(number: int) -> int:
        """Slow, too."""
        await asyncio.to_thread(meeting.wait, PATIENCE)
        return number

    calls = tuple(call("slow" if n % 2 else "slower", f"call_{n}", number=n) for n in range(4))
    result = way.run(Agent(Scripted(calls, "ok").model(), tools=[slow, slower]))
    assert [one.text for one in result.steps[0].results] == ["0", "1", "2", "3"]


def test_one_after_the_other_where_that_is_asked_for(way: Way) -> None:
    running: list[int] = []
    most: list[int] = []

    @tool
    def count(number: int) -> None:
        """Count."""
        running.append(number)
        most.append(len(running))
        running.remove(number)

    calls = tuple(call("count", f"call_{n}", number=n) for n in range(3))
    way.run(Agent(Scripted(calls, "ok").model(), tools=[count], parallel=False))
    assert most == [1, 1, 1]


# ── streams and events ──────────────────────────────────────────────────────


def test_a_stream_shows_what_happens_and_ends_in_the_result(way: Way) -> None:
    script = Scripted(call(), "4.2 m.")
    items = way.stream(Agent(script.model(), tools=[tide]))
    result: Result[str] = items.pop()
    kinds = [type(item).__name__ for item in items if not isinstance(item, TextDelta)]
    assert kinds == ["StepStarted", "ToolStarted", "ToolFinished", "StepFinished", "StepStarted", "StepFinished"]
    assert "".join(item.text for item in items if isinstance(item, TextDelta)) == "4.2 m."
    assert type(result) is Result
    assert result.output == "4.2 m."
    assert all(request.stream for request in script.requests)


def test_on_event_is_told_and_cannot_break_anything(way: Way) -> None:
    seen: list[Any] = []

    def on_event(event: Any) -> None:
        seen.append(event)
        raise RuntimeError("mine")

    assert way.run(Agent(Scripted(call(), "ok").model(), tools=[tide], on_event=on_event)).output == "ok"
    expected = [StepStarted, ToolStarted, ToolFinished, StepFinished, StepStarted, TextDelta, StepFinished]
    assert [type(event) for event in seen] == expected


def test_a_run_that_nobody_watches_is_not_streamed(way: Way) -> None:
    script = Scripted("ok")
    way.run(Agent(script.model()))
    assert not script.requests[0].stream


def test_who_cannot_stream_can_be_watched_too(way: Way) -> None:
    script = Scripted(call(), "4.2 m.")
    registry = script.registry()
    registry.set_capabilities("scripted/model", streaming=False)
    items = way.stream(Agent(registry.model("scripted/model"), tools=[tide]))
    assert [item.text for item in items if isinstance(item, TextDelta)] == ["4.2 m."]
    assert not any(request.stream for request in script.requests)


@pytest.mark.parametrize("name", ["on_event", "approve", "max_steps", "output"])
def test_an_option_of_the_agent_in_a_run_says_where_it_belongs(name: str) -> None:
    options: Any = {name: print}
    with pytest.raises(InvalidRequest, match=rf"unknown option '{name}'.*write Agent\(…, {name}=…\)") as caught:
        Agent("demo/any").run("hello", **options)
    assert caught.value.param == name


def test_an_awaitable_on_event_is_refused() -> None:
    async def on_event(_event: Any) -> None: ...

    with pytest.raises(InvalidRequest, match="not awaited"):
        Agent("demo/any", on_event=on_event)


def test_a_stream_has_its_result_in_hand_when_it_is_left() -> None:
    with Agent(Scripted(call(), "never").model(), tools=[tide]).stream("?") as stream:
        for item in stream:
            if isinstance(item, StepFinished):
                break
    assert [message.role for message in stream.result.messages] == ["user", "assistant", "tool"]
    assert stream.result.output is None


# ── tools that misbehave ────────────────────────────────────────────────────


def test_no_tool_breaks_the_loop(way: Way) -> None:
    gate = threading.Event()

    @tool
    def raises() -> None:
        """Raise."""
        raise RuntimeError("password is sk-proj-1234567890")

    @tool(timeout=0.02)
    def hangs() -> None:
        """Hang."""
        gate.wait(PATIENCE)

    @tool(timeout=0.02)
    async def ahangs() -> None:
        """Hang."""
        await asyncio.sleep(PATIENCE)

    @tool(limit=10)
    def babbles() -> str:
        """Babble."""
        return "x" * 100

    @tool
    def odd() -> object:
        """Odd."""
        return object()

    names = ["raises", "hangs", "ahangs", "babbles", "odd", "nothing", "tide"]
    calls = tuple(
        call(name, f"call_{name}") if name == "tide" else ToolCall(id=f"call_{name}", name=name) for name in names
    )
    agent = Agent(
        Scripted((*calls, call("tide", "call_7", harbour=1)), "ok").model(),
        tools=[raises, hangs, ahangs, babbles, odd, tide],
    )
    try:
        results = way.run(agent).steps[0].results
    finally:
        gate.set()
    texts = {one.id.removeprefix("call_"): one.text for one in results}
    assert texts["raises"] == "RuntimeError: password is [redacted]"
    assert texts["hangs"] == texts["ahangs"] == "TimeoutError: no result within 0.02 s"
    assert texts["babbles"].startswith("xxxxxxxxxx\n[cut")
    assert "a dataclass, got object" in texts["odd"]
    assert texts["nothing"] == "no tool named 'nothing'; the tools are raises, hangs, ahangs, babbles, odd, tide"
    assert texts["tide"] == "4.2 m in Brest"
    assert "harbour" in texts["7"]
    assert "port" in texts["7"]
    assert [one.is_error for one in results] == [True, True, True, False, True, True, False, True]


@tool
def see(what: str) -> object:
    """See."""
    if what == "text":
        return Image(data=cast("bytes", "iVBORw0KGgo="))
    return {
        "svg": Image(data=b"<svg/>", mime="image/svg+xml"),
        "cut": Image(data=picture()[:80], mime="image/png"),
        "nothing": Image(data=b""),
        "link": Image(url="https://example.org/a.png"),
        "zip": Document(data=b"PK", mime="application/zip"),
        "page": Document(data=b"%PDF", mime="application/pdf"),
        "dot": Image(data=picture(), mime="image/png"),
    }[what]


class Panic(BaseException):
    """As extensions in Rust raise it."""


@tool
def fail(how: str) -> None:
    """Fail."""
    raise Panic("at the disco") if how == "panic" else asyncio.CancelledError


@pytest.mark.parametrize("wire", WIRES)
def test_no_tool_breaks_the_loop_or_the_transcript(way: Way, wire: str) -> None:
    seen = [call("see", f"call_{one}", what=one) for one in "svg cut nothing text link zip page dot".split()]
    failed = [call("fail", f"call_{one}", how=one) for one in ("panic", "cancelled")]
    script = Scripted((*seen, *failed), "Done.", "Again.")
    registry = script.registry(wire)
    registry.set_capabilities("scripted/model", max_images=0, documents=False)
    agent = Agent(registry.model("scripted/model"), tools=[see, fail])
    result = way.run(agent)
    assert result.output == "Done."
    assert [one.is_error for one in result.steps[0].results] == [*[True] * 4, *[False] * 4, True, True]
    assert "An image was left out for this model: does not support images." in str(script.requests[1].messages)
    assert result.messages[2].tool_results[7].parts == (Image(data=picture(), mime="image/png"),)
    assert way.run(agent, [*result.messages, user("?")]).output == "Again."


def test_a_keyboard_interrupt_in_a_tool_passes_and_has_the_result(way: Way) -> None:
    @tool
    def interrupt() -> None:
        """Interrupt."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        way.run(Agent(Scripted(ToolCall(id="call_1", name="interrupt")).model(), tools=[interrupt]))
    assert [message.role for message in vars(caught.value)["result"].messages] == ["user", "assistant"]


def test_a_cancelled_run_leaves_nothing_behind_and_its_result_in_hand() -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    @tool
    async def hangs() -> None:
        """Hang."""
        begun.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.append("closed")

    async def main() -> tuple[int, Result[str], list[str]]:
        agent = Agent(Scripted((call(), ToolCall(id="call_2", name="hangs"))).model(), tools=[tide, hangs])
        stored: list[Result[str]] = []

        async def work() -> None:
            try:
                await agent.arun("?")
            except asyncio.CancelledError as error:
                stored.append(vars(error)["result"])
                raise

        running = asyncio.create_task(work())
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return len(asyncio.all_tasks()), stored[0], ended

    tasks, result, closed = asyncio.run(main())
    assert tasks == 1
    assert closed == ["closed"]
    assert [part.name for part in result.messages[-1].tool_calls] == ["tide", "hangs"]
    script = Scripted("Never mind.")
    assert Agent(script.model(), tools=[tide]).run([*result.messages, user("Leave it.")]).output == "Never mind."
    assert len(script.requests[0].messages[-2].tool_results) == 2


def test_a_malformed_call_is_told_to_the_model(way: Way) -> None:
    body = {
        "choices": [
            {
                "message": {
                    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "tide", "arguments": "{"}}]
                },
                "finish_reason": "tool_calls",
            }
        ]
    }
    broken = RawResponse(body=msgspec.json.encode(body))
    result = way.run(Agent(Scripted(broken, broken, "ok").model(backoff=0, retries=1), tools=[tide]))
    assert result.output == "ok"
    assert result.steps[0].results[0].is_error


# ── limits ──────────────────────────────────────────────────────────────────


def test_an_error_of_the_model_comes_with_the_partial_result(way: Way) -> None:
    script = Scripted(call(), AuthFailed("no"))
    with pytest.raises(AuthFailed) as caught:
        way.run(Agent(script.model(), tools=[tide]))
    result = caught.value.result
    assert len(result.steps) == 1
    assert [attempt.outcome for attempt in result.attempts] == ["served", "failed"]


def test_max_steps(way: Way) -> None:
    script = Scripted(*[call(port=f"port {n}") for n in range(3)])
    with pytest.raises(MaxSteps) as caught:
        way.run(Agent(script.model(), tools=[tide], max_steps=2))
    assert len(caught.value.result.steps) == 3


def test_a_budget_of_money_is_counted_by_known_prices() -> None:
    script = Scripted(call(), "ok")
    registry = script.registry()
    registry.add_provider(name="openai", like="scripted", base_url="http://scripted.invalid/v1")
    agent = Agent(registry.model("openai/gpt-4o"), tools=[tide], budget=Budget(money=1.0))
    result = agent.run("?")
    assert result.cost is not None
    assert 0 < result.cost < 0.01


def test_a_budget_of_money_refuses_a_model_whose_price_nobody_knows() -> None:
    script = Scripted("ok", "ok")
    agent = Agent(script.model(), budget=Budget(money=1.0))
    with pytest.raises(Unsupported, match=r"^scripted/model: no known price"):
        agent.run("?")
    assert script.requests == []
    registry = script.registry()
    registry.add_provider(name="priced", like="scripted", base_url="http://scripted.invalid/v1", price_name="openai")
    with pytest.raises(
        Unsupported, match=r"^scripted/m: no known price"
    ):  # one target has a price, and another answers
        Agent(registry.model("scripted/m, priced/gpt-4o"), budget=Budget(money=1.0)).run("?")
    assert len(script.requests) == 1
    assert Agent(registry.model("priced/gpt-4o"), budget=Budget(money=1.0)).run("?").cost == pytest.approx(0, abs=0.01)


def test_the_cost_of_a_run_is_the_sum_of_its_steps_if_all_are_known() -> None:
    script = Scripted(call(), "ok", call(), "ok")
    registry = script.registry()
    assert Agent(registry.model("scripted/gpt-4o"), tools=[tide]).run("?").cost is None
    registry.add_provider(name="scripted", price_name="openai")
    result = Agent(registry.model("scripted/gpt-4o"), tools=[tide]).run("?")
    costs = [step.response.cost for step in result.steps]
    assert len(costs) == 2
    assert result.cost == sum(cost.usd for cost in costs if cost is not None) > 0


def test_a_budget_of_dollars_is_called_money() -> None:
    with pytest.raises(InvalidRequest, match="Budget has no parameter dollars; write money="):
        Budget(dollars=5)  # type: ignore[call-arg]


def test_a_budget_of_money_needs_no_extra_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    registry = Scripted("ok").registry()
    registry.add_provider(name="openai", like="scripted", base_url="http://scripted.invalid/v1")
    result = Agent(registry.model("openai/gpt-4o"), budget=Budget(money=1.0)).run("?")
    assert result.cost is not None
    assert 0 < result.cost < 0.01
    with pytest.raises(Unsupported, match=r"no known price; .*dragoman\[prices\]"):
        Agent(Scripted("ok").model(), budget=Budget(money=1.0)).run("?")


def test_the_time_of_a_run_is_limited(way: Way) -> None:
    with pytest.raises(TimedOut) as caught:
        way.run(Agent(Scripted(StallAfter(0)).model(retries=0), timeout=Timeouts(total=5, step=0.1, tool=1)))
    assert caught.value.result.steps == ()


def test_a_tool_may_take_no_longer_than_the_run_allows(way: Way) -> None:
    gate = threading.Event()

    @tool
    def hangs() -> None:
        """Hang."""
        gate.wait(PATIENCE)

    agent = Agent(Scripted(ToolCall(id="1", name="hangs"), "ok").model(), tools=[hangs], timeout=Timeouts(tool=0.02))
    try:
        assert "no result within 0.02 s" in way.run(agent).steps[0].results[0].text
    finally:
        gate.set()


# ── hooks, awaited and not ──────────────────────────────────────────────────


def test_hooks_may_be_async(way: Way) -> None:
    async def approve(call: ToolCall) -> bool:
        await asyncio.sleep(0)
        return bool(call.arguments["port"] == "Brest")

    async def steer() -> str:
        return "Hurry."

    async def compact(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return messages

    calls = (call(), call("tide", "call_2", port="Cork"))
    script = Scripted(calls, "ok")
    result = way.run(Agent(script.model(), tools=[tide], approve=approve, steer=steer, compact=compact))
    assert [one.is_error for one in result.steps[0].results] == [False, True]
    assert script.requests[0].messages[-1].text.endswith("Hurry.")


# ── typed output ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wire", WIRES)
def test_an_output_has_its_type(way: Way, wire: str) -> None:
    script = Scripted(call(), '{"name": "Brest", "metres": 4.2}')
    result = way.run(Agent(script.model(wire), tools=[tide], output=Port))
    assert result.output == Port("Brest", 4.2)


@pytest.mark.parametrize("forced_choice", [True, False], ids=["by a tool", "in words"])
def test_an_output_has_its_type_where_the_target_cannot_enforce_it(way: Way, forced_choice: object) -> None:
    last = call("final_answer", name="Brest", metres=4.2) if forced_choice else '{"name": "Brest", "metres": 4.2}'
    script = Scripted(call(), last)
    registry = script.registry()
    registry.set_capabilities("scripted/model", structured=False, forced_choice=bool(forced_choice))
    result = way.run(Agent(registry.model("scripted/model"), tools=[tide], output=Port))
    assert result.output == Port("Brest", 4.2)
    assert [one.text for one in result.steps[0].results] == ["4.2 m in Brest"]


def test_repairs_are_limited_by_max_repairs(way: Way) -> None:
    script = Scripted("four", "five", '{"name": "Brest", "metres": 4.2}')
    assert way.run(Agent(script.model(), output=Port, max_repairs=2)).output == Port("Brest", 4.2)
    with pytest.raises(OutputError):
        way.run(Agent(Scripted("four", "never").model(), output=Port, max_repairs=0))


def test_a_terminal_tool_is_made_of_the_output(way: Way) -> None:
    script = Scripted(call("submit", name="Brest", metres="high"), call("submit", "call_2", name="Brest", metres=4.2))
    result = way.run(Agent(script.model(), output=Port, terminal_tool="submit"))
    assert result.output == Port("Brest", 4.2)
    assert "$.metres" in result.steps[0].results[0].text


def test_a_terminal_tool_gives_its_arguments(way: Way) -> None:
    ran: list[str] = []

    @tool
    def submit(port: str) -> None:
        """Submit."""
        ran.append(port)

    for agent in (
        Agent(Scripted(call("submit")).model(), tools=[submit], terminal_tool="submit"),
        Agent(Scripted(call("submit")).model(), terminal_tool=submit),
    ):
        assert way.run(agent).output == {"port": "Brest"}
    assert ran == []


def test_a_terminal_tool_that_is_not_there_is_told() -> None:
    with pytest.raises(InvalidTool, match="got 'submit'"):
        Agent("demo/any", terminal_tool="submit").run("?")


def test_an_unknown_option_is_told() -> None:
    with pytest.raises(InvalidRequest, match=r"no option tool; did you mean 'tools'\?"):
        Agent("demo/any", tool=[tide])  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"tools": "tide"}, "tools must be a tool or a list of tools, got 'tide'"),
        ({"tools": 7}, "tools must be a tool or a list of tools, got 7"),
        ({"skills": "clock"}, "skills must be a skill or a list of skills, got 'clock'"),
        ({"system": 7}, "system must be a str or None, got 7"),
        ({"max_steps": -1}, "max_steps must be a number >= 0, a function or None, got -1"),
        ({"max_steps": True}, "max_steps must be a number >= 0, a function or None, got True"),
        ({"repeat_limit": "3"}, "repeat_limit must be a number >= 0 or None, got '3'"),
        ({"max_empty_retries": -1}, "max_empty_retries must be a number >= 0 or None, got -1"),
        ({"approve": True}, "approve must be a function or None, got True"),
        ({"budget": 100}, "budget must be a Budget or None, got 100"),
        ({"timeout": 0}, "timeout must be seconds > 0, Timeouts or None, got 0"),
    ],
)
def test_an_option_that_cannot_be_is_told_at_once(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        Agent("demo/any", **options)


def test_options_may_be_none(way: Way) -> None:
    nothing: dict[str, Any] = dict.fromkeys(AgentOptions.__annotations__)
    assert way.run(Agent(Scripted("ok").model(), **nothing)).output == "ok"


@pytest.mark.parametrize("tools", [tide, Toolbox(tide), [tide], {"tide": tide}.values()])
def test_one_tool_may_be_given_as_it_is(way: Way, tools: Any) -> None:
    assert way.run(Agent(Scripted(call(), "ok").model(), tools=tools)).steps[0].results[0].text == "4.2 m in Brest"


# ── tools and skills ────────────────────────────────────────────────────────


def test_duplicates_fail_at_the_start_of_a_run() -> None:
    script = Scripted()
    skill = Skill(name="x", tools=(tide,))
    for agent in (
        Agent(script.model(), tools=[tide, Toolbox(tide)]),
        Agent(script.model(), tools=[tide], skills=[skill]),
    ):
        with pytest.raises(InvalidTool, match="two tools are named 'tide'"):
            agent.run("?")
    assert not script.requests


def test_a_tool_that_cannot_be_run_fails_at_the_start() -> None:
    with pytest.raises(InvalidTool, match="the tool has no handler"):
        Agent("demo/any", tools=[Tool(name="x", description="x")]).run("?")


def test_skills_teach_in_their_order_and_bring_their_tools() -> None:
    script = Scripted("ok", "ok", "ok")
    first, second = Skill(name="a", instructions="First.", tools=(tide,)), Skill(name="b", instructions="Second.")
    Agent(script.model(), system="Be brief.", skills=[first, second]).run("?")
    Agent(script.model(), skills=[second]).run("?")
    Agent(script.model("anthropic"), skills=[first]).run("?", system=(Text(text="One."), Text(text="Two.")))
    assert script.requests[0].system == "Be brief.\n\nFirst.\n\nSecond."
    assert [one.name for one in script.requests[0].tools if isinstance(one, Tool)] == ["tide"]
    assert script.requests[1].system == "Second."
    assert [part.text for part in script.requests[2].system or () if isinstance(part, Text)] == [
        "One.",
        "Two.",
        "First.",
    ]


def test_tools_of_the_model_and_of_a_provider_join() -> None:
    search = Opaque(wire="anthropic", data={"type": "web_search_20250305", "name": "web_search"})
    script = Scripted("ok")
    Agent(script.model("anthropic", tools=[search, later]), tools=[tide]).run("?")
    sent = msgspec.json.decode(script.http[0].body)["tools"]
    assert [one["name"] for one in sent] == ["later", "tide", "web_search"]


def test_an_agent_may_be_run_again(way: Way) -> None:
    script = Scripted("a", "b")
    agent = Agent(script.model(), tools=(one for one in [tide]), skills=(one for one in [skills.calc()]))
    assert [way.run(agent).output for _ in range(2)] == ["a", "b"]
    assert [len(request.tools) for request in script.requests] == [2, 2]


def test_data_reaches_the_tools(way: Way) -> None:
    @tool
    def whose(context: Context) -> str:
        """Whose."""
        return str(context.data)

    agent = Agent(Scripted(ToolCall(id="1", name="whose"), "ok").model(), tools=[whose])
    assert way.run(agent, data="Ann's").steps[0].results[0].text == "Ann's"


# ── sub-agents ──────────────────────────────────────────────────────────────


def test_a_sub_agent_is_a_tool_and_its_usage_counts(way: Way) -> None:
    inner = Agent(Scripted(call(), "4.2 m.").model(), tools=[tide])
    middle = Agent(
        Scripted(call("harbour", prompt="tide?"), "It is 4.2 m.").model(), tools=[inner.as_tool("harbour", "Knows")]
    )
    script = Scripted((call("expert", "a", prompt="x"), call("tide", "b")), "Done.")
    result = way.run(Agent(script.model(), tools=[middle.as_tool("expert", "Knows all"), tide]))
    assert [one.text for one in result.steps[0].results] == ["It is 4.2 m.", "4.2 m in Brest"]
    assert result.usage.input == 6
    assert len(result.steps) == 2


def test_a_sub_agent_that_fails_is_an_error_and_its_usage_counts(way: Way) -> None:
    inner = Agent(Scripted(*[call(port=str(n)) for n in range(3)]).model(), tools=[tide], max_steps=1)
    result = way.run(
        Agent(Scripted(call("harbour", prompt="?"), "ok").model(), tools=[inner.as_tool("harbour", "Knows")])
    )
    assert result.steps[0].results[0].text.startswith("MaxSteps: the run reached max_steps=1")
    assert result.usage.input == 4


def test_a_sub_agent_gets_the_data_and_gives_its_typed_output(way: Way) -> None:
    @tool
    def whose(context: Context) -> str:
        """Whose."""
        return str(context.data)

    inner_script = Scripted(ToolCall(id="1", name="whose"), '{"name": "Brest", "metres": 4.2}')
    inner = Agent(inner_script.model(), tools=[whose], output=Port)
    agent = Agent(Scripted(call("ask", prompt="?"), "ok").model(), tools=[inner.as_tool("ask", "Ask")])
    assert way.run(agent, data="Ann").steps[0].results[0].text == '{"name":"Brest","metres":4.2}'
    assert inner_script.requests[1].messages[-1].tool_results[0].text == "Ann"


def test_a_sub_agent_spends_the_budget_of_the_one_that_asks(way: Way) -> None:
    inner = Agent(Scripted("word " * 100).model())
    agent = Agent(
        Scripted(call("ask", prompt="?"), "never").model(),
        tools=[inner.as_tool("ask", "Ask")],
        budget=Budget(tokens=50),
    )
    with pytest.raises(BudgetExceeded):
        way.run(agent)


def test_cancelling_a_run_cancels_its_sub_agents() -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    @tool
    async def hangs() -> None:
        """Hang."""
        begun.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.append("closed")

    async def main() -> int:
        inner = Agent(Scripted(ToolCall(id="1", name="hangs")).model(), tools=[hangs])
        agent = Agent(Scripted(call("ask", prompt="?")).model(), tools=[inner.as_tool("ask", "Ask")])
        running = asyncio.create_task(agent.arun("?"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1
    assert ended == ["closed"]


# ── the demo ────────────────────────────────────────────────────────────────


def test_an_agent_on_the_demo(way: Way) -> None:
    agent = Agent(Registry(env={}).model("demo/any"), tools=[tide], skills=[skills.calc()])
    result = way.run(agent, "Please calculate: what is the value of the expression '6 * 7'?")
    assert result.output == "calculate says: 42"


def test_an_agent_takes_a_spec() -> None:
    assert repr(Agent(model="demo/any")) == "Agent('demo/any')"
    assert repr(Agent("demo/any")) == "Agent('demo/any')"
    assert Agent("demo/any").run("hello").output.startswith("Hello!")


def test_a_blank_answer_of_everybody_is_retried_and_then_an_error() -> None:
    with pytest.raises(EmptyResponse) as caught:
        Agent(Registry(env={}).model("demo/empty")).run("?")
    assert len(caught.value.result.messages) == 4


WRONG_TOOLS: list[tuple[dict[str, Any], str]] = [
    ({"terminal_tool": []}, "terminal_tool must be a tool, its name or None, got list"),
    ({"skills": [[]]}, "skills must be a Skill or a list of Skill, got list"),
    ({"skills": {"a": 1}}, "skills must be a skill or a list of skills, got dict"),
]


@pytest.mark.parametrize(("options", "words"), WRONG_TOOLS)
def test_a_wrong_tool_or_skill_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DragomanError, match=words):
        Agent(Registry(env={}).model("demo/any"), **options).run("hi")
