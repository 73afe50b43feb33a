"""Messages and a way to ask in, the result of a run out: ask, run the tools, ask again. A plan."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from dragoman.agents.budget import Budget, BudgetTracker
from dragoman.agents.events import HookFailed, Result, Step, StepFinished, StepStarted
from dragoman.agents.final_answer import answer, is_weak
from dragoman.engine.effects import Emit, Job, JobResult, Now, Plan, perform
from dragoman.engine.typed import explained, read
from dragoman.errors import (
    DragomanError,
    EmptyResponse,
    Interrupted,
    InvalidRequest,
    MalformedToolCall,
    MaxSteps,
    OutputError,
    ToolLoop,
    redact,
)
from dragoman.events import to_events
from dragoman.schema.output_type import OutputType
from dragoman.tools.decorator import Context
from dragoman.tools.executor import Approve, TimedResult, ToolRunner, dispatch, misfits, refusal
from dragoman.tools.results import failure
from dragoman.types import (
    Attempt,
    Finish,
    Message,
    Request,
    Response,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    dump,
    tool_results,
    user,
)

T = TypeVar("T")
Ask: TypeAlias = Callable[[Request, float | None], Plan[Response]]
"""How a model is asked: a request, and the seconds that are left for its answer."""
STEPS = 10
NUDGE = "You said nothing. Call a tool, or give your answer."
WRONG = "That is not the answer that was asked for: {reasons}. Give it again, whole, and nothing beside it."
ENDED = "not run: the run ended with this turn"
ACCEPTED = "accepted"
NAMELESS = "unnamed"
"""What a tool is called that was called without a name."""
NOTHING = Usage()


class LoopSettings(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """How a run goes: what is asked beside the messages, the tools, the caller's functions, the limits.

    >>> LoopSettings().max_steps
    10
    """

    request: Request = Request()
    tools: tuple[Tool, ...] = ()
    form: OutputType[T] | None = None
    """How the output is read; None takes the text as it is."""
    terminal: str | None = None
    """The tool whose call is the output."""
    max_steps: int | Callable[[Result[Any]], Any] | None = STEPS
    """Rounds of tools; None has no limit."""
    parallel: bool = True
    approve: Approve | None = None
    steer: Callable[[], Any] | None = None
    compact: Callable[[tuple[Message, ...]], Any] | None = None
    budget: Budget = Budget()
    tool_error_limit: int | None = 3
    """Rounds in a row that may give only errors; None or 0 has no limit."""
    repeat_limit: int | None = 3
    """Rounds in a row that may be the same; None or 0 has no limit."""
    nudges: int | None = 3
    max_repairs: int | None = 1
    step_timeout: float | None = None
    """Seconds that one answer of the model may take."""
    tool_timeout: float | None = None
    """Seconds that no tool may exceed."""
    total_timeout: float | None = None


class Run(Generic[T]):
    """One run: what was said and done so far, and the plan that goes on from there.

    >>> run = Run((user("hi"),), LoopSettings(), lambda request, seconds: iter(()))
    >>> run.result.messages[0].text
    'hi'
    """

    def __init__(
        self,
        messages: Iterable[Message],
        settings: LoopSettings[T],
        ask: Ask,
        /,
        *,
        data: Any = None,
        spend: Callable[[Response], None] | None = None,
    ) -> None:
        self._settings = settings
        self._ask = ask
        self._data = data
        self._messages = list(messages)
        self._steps: list[Step] = []
        self._attempts: list[Attempt] = []
        self._purse = BudgetTracker(settings.budget, settings.total_timeout, spend)
        self._tools = {tool.name: tool for tool in settings.tools}
        self._rounds = self._failed_rounds = self._same_rounds = 0
        self._nudges, self._repairs = settings.nudges or 0, settings.max_repairs or 0
        self._last_round: frozenset[bytes] = frozenset()
        self._refusals: dict[str, str] = {}
        self._under_way: tuple[Response, dict[int, TimedResult]] | None = None
        self._output: Any = None

    @property
    def result(self) -> Result[T]:
        """What there is by now, with what has come of a round of tools that is under way."""
        messages, steps = tuple(self._messages), tuple(self._steps)
        if self._under_way is not None and self._under_way[1]:
            response, ran = self._under_way
            step = _step(len(steps), response, [ran[number] for number in sorted(ran)])
            messages, steps = (*messages, tool_results(*step.results)), (*steps, step)
        return Result(
            output=self._output,
            messages=messages,
            steps=steps,
            usage=self._purse.usage,
            attempts=tuple(self._attempts),
            cost=self._purse.cost,
        )

    def plan(self) -> Plan[Result[T]]:
        """The run. An error that ends it has the result so far."""
        self._purse.begin((yield Now()))
        try:
            while not (yield from self._step()):
                continue
        except DragomanError as error:
            error.result = self.result
            raise
        return self.result

    # One step --------------------------------------------------------------------------------------------------------

    def _step(self) -> Plan[bool]:
        """Ask once, and run what is called; whether that was the end."""
        self._refusals = {}
        yield from self._steer()
        began: float = yield Now()
        self._purse.check(began)
        index = len(self._steps)
        yield Emit([StepStarted(index)])
        try:
            response = yield from self._answer(began)
        except EmptyResponse as error:
            return self._nudge(error)
        yield from self._take(response)
        calls = response.tool_calls
        if not calls:
            yield from self._finish_step(index, response, (), began)
            return (yield from self._end(response))
        if (yield from self._is_terminal(response, began)):
            return True
        beyond = yield from self._begin_round()
        ran = _unrun(calls) if beyond else (yield from self._dispatch(response, index))
        yield from self._finish_step(index, response, ran, began)
        if beyond is not None:
            raise beyond
        self._guard(calls, ran)
        return False

    def _answer(self, now: float) -> Plan[Response]:
        request = self._request((yield from self._sent()))
        try:
            response = yield from self._ask(request, self._purse.left(now, self._settings.step_timeout))
        except DragomanError as error:
            self._attempts += error.attempts
            self._purse.spend(error.usage)
            slip = _slip(error)
            if slip is not None:
                return self._spoilt(error, slip)
            moment: float = yield Now()
            self._purse.check(moment, error)
            raise
        if not request.stream:
            yield Emit(to_events(response))
        return response

    def _spoilt(self, error: DragomanError, slip: MalformedToolCall) -> Response:
        """The answer that a malformed call was part of: the call has no arguments, and is refused with the reason."""
        said = error.partial.message.parts if isinstance(error, Interrupted) and error.partial is not None else ()
        call = ToolCall(id=slip.id or f"malformed_{len(self._steps)}", name=slip.name or NAMELESS)
        self._refusals[call.id] = f"{call.name} was not run: {slip.message}"
        return Response(message=assistant(*said, call), finish=Finish(reason="tool_calls"), usage=NOTHING)

    def _request(self, messages: tuple[Message, ...]) -> Request:
        """What is sent. A choice that forces a call holds for the first step: otherwise the run would never end."""
        request = replace(self._settings.request, messages=messages)
        if self._steps and self._settings.terminal is None and request.tool_choice not in (None, "auto", "none"):
            return replace(request, tool_choice="auto")
        return request

    def _take(self, response: Response) -> Plan[None]:
        self._attempts += response.attempts
        if not response.is_empty:
            self._messages.append(response.message)
        paid = yield from perform(Job(partial(self._purse.take, response), is_quick=True))
        if isinstance(paid.error, DragomanError):
            raise paid.error
        if paid.error is not None:
            why = f"budget: price= failed: {type(paid.error).__name__}: {paid.error}; it gives dollars for a response"
            raise InvalidRequest(why) from paid.error

    def _finish_step(self, index: int, response: Response, ran: Sequence[TimedResult], began: float) -> Plan[None]:
        now: float = yield Now()
        step = _step(index, response, ran, now - began)
        self._under_way = None
        self._steps.append(step)
        if step.results:
            self._messages.append(tool_results(*step.results))
        yield Emit([StepFinished(step)])

    def _dispatch(self, response: Response, index: int) -> Plan[tuple[TimedResult, ...]]:
        settings = self._settings
        messages = tuple(self._messages)
        now: float = yield Now()

        def context(call: ToolCall) -> Context:
            return Context(call=call, step=index, messages=messages, data=self._data, spend=self._purse.take)

        bench = ToolRunner(
            tools=self._tools,
            context=context,
            approve=settings.approve,
            parallel=settings.parallel,
            longest=self._purse.left(now, settings.tool_timeout),
            refusals=self._refusals,
        )
        self._under_way = response, bench.ran
        return (yield from dispatch(response.tool_calls, bench))

    # The end ---------------------------------------------------------------------------------------------------------

    def _end(self, response: Response) -> Plan[bool]:
        """Whether an answer without calls is the end; where it is, the output is known."""
        reason = response.finish.reason
        if reason == "pause":  # the provider's own tools have taken long: it goes on when it is asked again
            if (beyond := (yield from self._begin_round())) is not None:
                raise beyond
            return False
        if response.is_empty and reason != "blocked" and self._nudges > 0:
            return self._nudge(None)
        text = response.text
        if self._settings.form is None:
            self._output = answer([step.response.text for step in self._steps])
            return True
        try:
            self._output = yield from read(self._settings.form, text)
        except OutputError as wrong:
            error = explained(wrong, response)
        else:
            return True
        if self._repairs <= 0 or response.is_empty:
            error.usage = self._purse.usage
            raise error
        self._repairs -= 1
        self._messages.append(user(WRONG.format(reasons="; ".join(error.reasons))))
        return False

    def _nudge(self, error: EmptyResponse | None) -> bool:
        """Ask again where nothing was said; when that has been done often enough, what was said before must do."""
        if self._nudges > 0:
            self._nudges -= 1
            self._messages.append(user(NUDGE))
            return False
        said = answer([*(step.response.text for step in self._steps), ""])
        if error is not None and (is_weak(said) or self._settings.form is not None):
            raise error
        self._output = said
        return True

    def _is_terminal(self, response: Response, began: float) -> Plan[bool]:
        """Whether the terminal tool was called with what it takes: then its arguments are the output."""
        called = (one for one in response.tool_calls if one.name == self._settings.terminal)
        call = next((one for one in called if one.id not in self._refusals), None)
        if call is None:
            return False
        try:
            self._output = yield from self._read_arguments(call)
        except OutputError as error:
            self._refusals[call.id] = refusal(call, error.reasons)
            return False
        accepted = ToolResult(id=call.id, name=call.name, content=ACCEPTED)
        ran = [TimedResult(accepted) if one.result.id == call.id else one for one in _unrun(response.tool_calls)]
        yield from self._finish_step(len(self._steps), response, ran, began)
        return True

    def _read_arguments(self, call: ToolCall) -> Plan[Any]:
        """The output that a terminal call says; OutputError where it is none."""
        if self._settings.form is not None:
            return (yield from read(self._settings.form, msgspec.json.encode(call.arguments).decode()))
        tool = self._tools[call.name]
        if tool.parameters is not None and (reasons := misfits(call, tool)):
            raise OutputError(refusal(call, reasons), reasons=reasons)
        return call.arguments

    # Guards ----------------------------------------------------------------------------------------------------------

    def _begin_round(self) -> Plan[MaxSteps | None]:
        """Count one more round of tools; the error where there may be no more."""
        limit = self._settings.max_steps
        if limit is None:
            return None
        if not isinstance(limit, int):
            told = yield from self._hook("max_steps", partial(limit, self.result))
            limit = told.value if isinstance(told.value, int) else STEPS
        self._rounds += 1
        return MaxSteps(f"{limit} steps were made, and the model asks for more") if self._rounds > limit else None

    def _guard(self, calls: Sequence[ToolCall], ran: Sequence[TimedResult]) -> None:
        """Stop a model that only fails, or does the same again and again."""
        settings = self._settings
        self._failed_rounds = self._failed_rounds + 1 if all(one.result.is_error for one in ran) else 0
        if settings.tool_error_limit and self._failed_rounds >= settings.tool_error_limit:
            last = ran[-1].result
            raise ToolLoop(f"{self._failed_rounds} steps in a row gave only errors, the last from {last.name}")
        this = frozenset(_signature(call, one.result) for call, one in zip(calls, ran, strict=True))
        self._same_rounds = self._same_rounds + 1 if this == self._last_round else 1
        self._last_round = this
        if settings.repeat_limit and self._same_rounds >= settings.repeat_limit:
            names = ", ".join(dict.fromkeys(call.name for call in calls))
            raise ToolLoop(f"{self._same_rounds} steps in a row made the same calls with the same results: {names}")

    # The caller's functions ------------------------------------------------------------------------------------------

    def _hook(self, name: str, function: Callable[[], Any], *, is_quick: bool = False) -> Plan[JobResult]:
        outcome = yield from perform(Job(function, is_quick=is_quick))
        if outcome.error is not None:
            yield Emit([HookFailed(name, redact(f"{type(outcome.error).__name__}: {outcome.error}"))])
        return outcome

    def _told(self, name: str, function: Callable[[], Any]) -> Plan[tuple[Message, ...]]:
        """The messages that one of the caller's functions gives."""
        outcome = yield from self._hook(name, function)
        return (yield from self._hook(name, partial(_as_messages, outcome.value), is_quick=True)).value or ()

    def _steer(self) -> Plan[None]:
        if self._settings.steer is not None:
            self._messages += yield from self._told("steer", self._settings.steer)

    def _sent(self) -> Plan[tuple[Message, ...]]:
        """The messages that are sent: the transcript, or what is made of it."""
        whole = tuple(self._messages)
        if self._settings.compact is None:
            return whole
        return (yield from self._told("compact", partial(self._settings.compact, whole))) or whole


def _step(index: int, response: Response, ran: Sequence[TimedResult], duration: float = 0.0) -> Step:
    results, durations = tuple(one.result for one in ran), tuple(one.duration for one in ran)
    return Step(index=index, response=response, results=results, duration=duration, durations=durations)


def _unrun(calls: Sequence[ToolCall]) -> tuple[TimedResult, ...]:
    return tuple(TimedResult(failure(call, ENDED)) for call in calls)


def _signature(call: ToolCall, result: ToolResult) -> bytes:
    arguments = msgspec.json.encode(call.arguments, order="deterministic")
    return b"\0".join((call.name.encode(), arguments, dump(replace(result, id=""))))


def _as_messages(given: Any) -> tuple[Message, ...]:
    """Messages from a message, a text, some of these, or nothing."""
    if given is None:
        return ()
    items = (given,) if isinstance(given, Message | str) else tuple(given)
    if wrong := [item for item in items if not isinstance(item, Message | str)]:
        raise TypeError(f"{type(wrong[0]).__name__} is no message; give messages or texts")
    return tuple(item if isinstance(item, Message) else user(item) for item in items)


def _slip(error: DragomanError) -> MalformedToolCall | None:
    """The malformed call that an error tells of, by itself or as what broke a stream."""
    cause = error.__cause__ if isinstance(error, Interrupted) else error
    return cause if isinstance(cause, MalformedToolCall) else None
