"""The loop of an agent: call the model, run its tool calls, append the results, and call the model again.

`Run` is one run of the loop. Its `plan` yields effects like every other plan, so it does no I/O and reads no clock. A
run ends with an answer without tool calls, with a call of the terminal tool, or with an error that carries the result
so far. Tool errors, malformed calls and empty answers do not end it: the model gets the error and another turn.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from dragoman.agents.budget import Budget, BudgetTracker
from dragoman.agents.events import Result, Step, StepFinished, StepStarted
from dragoman.engine.effects import Emit, Job, JobResult, Now, Plan, perform
from dragoman.engine.typed_output import parse_output, repair_prompt, with_finish_reason
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
from dragoman.tools.events import HookFailed
from dragoman.tools.executor import Approve, TimedResult, ToolRunner, argument_errors, execute, invalid_arguments
from dragoman.tools.results import error_result
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
CallModel: TypeAlias = Callable[[Request, float | None], Plan[Response]]
"""Sends a request to the model; the second argument is the time limit in seconds."""
DEFAULT_MAX_STEPS = 10
EMPTY_ANSWER = "Your answer was empty. Call a tool, or give your answer."
NOT_RUN = "not run: the run ended with this step"
ACCEPTED = "accepted"
UNNAMED_TOOL = "unnamed"
"""The name in the transcript for a malformed call that has no tool name."""
MIN_FALLBACK_LENGTH = 200
"""Characters of an earlier text that may serve as the output if the final answer stays empty."""


class LoopSettings(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The request without messages, the tools, the hooks and the limits of a run."""

    request: Request = Request()
    tools: tuple[Tool, ...] = ()
    output_type: OutputType[T] | None = None
    """None if the output is the text of the answer."""
    terminal: str | None = None
    """The tool whose arguments are the output."""
    max_steps: int | Callable[[Result[Any]], Any] | None = DEFAULT_MAX_STEPS
    """How many steps may call tools; None has no limit."""
    parallel: bool = True
    approve: Approve | None = None
    steer: Callable[[], Any] | None = None
    compact: Callable[[tuple[Message, ...]], Any] | None = None
    budget: Budget = Budget()
    tool_error_limit: int | None = 3
    """Steps in a row whose results may all be errors; None or 0 has no limit."""
    repeat_limit: int | None = 3
    """Steps in a row that may be identical; None or 0 has no limit."""
    max_empty_retries: int | None = 3
    max_repairs: int | None = 1
    step_timeout: float | None = None
    """Seconds for one answer of the model."""
    tool_timeout: float | None = None
    """Seconds for one tool. The timeout of a tool may be shorter, not longer."""
    total_timeout: float | None = None


class Run(Generic[T]):
    """One run: the transcript so far, and the plan that continues it."""

    def __init__(
        self,
        messages: Iterable[Message],
        settings: LoopSettings[T],
        call_model: CallModel,
        /,
        *,
        data: Any = None,
        spend: Callable[[Response], None] | None = None,
    ) -> None:
        self._settings = settings
        self._call_model = call_model
        self._data = data
        self._messages = list(messages)
        self._steps: list[Step] = []
        self._attempts: list[Attempt] = []
        self._budget = BudgetTracker(settings.budget, settings.total_timeout, spend)
        self._tools = {tool.name: tool for tool in settings.tools}
        self._tool_steps = self._failed_steps = self._identical_steps = 0
        self._empty_retries, self._repairs = settings.max_empty_retries or 0, settings.max_repairs or 0
        self._last_step: frozenset[bytes] = frozenset()
        self._refusals: dict[str, str] = {}
        self._running: tuple[Response, dict[int, TimedResult]] | None = None
        """The response whose tools are running, and the results so far."""
        self._output: Any = None

    @property
    def result(self) -> Result[T]:
        """The result so far, with the finished tools of a step that is still running."""
        messages, steps = tuple(self._messages), tuple(self._steps)
        if self._running is not None and self._running[1]:
            response, finished = self._running
            step = _step(len(steps), response, [finished[index] for index in sorted(finished)])
            messages, steps = (*messages, tool_results(*step.results)), (*steps, step)
        return Result(
            output=self._output,
            messages=messages,
            steps=steps,
            usage=self._budget.usage,
            attempts=tuple(self._attempts),
            cost=self._budget.cost,
        )

    def plan(self) -> Plan[Result[T]]:
        """Run until the end. An error that ends the run has the result so far as `error.result`."""
        self._budget.start((yield Now()))
        try:
            while not (yield from self._run_step()):
                continue
        except DragomanError as error:
            error.annotate(result=self.result)
            raise
        return self.result

    # One step --------------------------------------------------------------------------------------------------------

    def _run_step(self) -> Plan[bool]:
        """Call the model once and run its tool calls; return whether the run is at its end."""
        self._refusals = {}
        if self._settings.steer is not None:
            self._messages += yield from self._hook_messages("steer", self._settings.steer)
        started_at: float = yield Now()
        self._budget.check(started_at)
        index = len(self._steps)
        yield Emit([StepStarted(index)])
        try:
            response = yield from self._respond(started_at)
        except EmptyResponse:
            if self._retry_empty():
                return False
            self._output = None if self._settings.output_type is not None else self._earlier_text()
            if self._output is None:
                raise
            return True
        yield from self._add_response(response)
        calls = response.tool_calls
        if not calls:
            yield from self._finish_step(index, response, (), started_at)
            return (yield from self._finish(response))
        if (yield from self._finish_terminal(response, started_at)):
            return True
        max_steps = yield from self._count_step()
        results = _not_run(calls) if max_steps else (yield from self._execute(response, index))
        yield from self._finish_step(index, response, results, started_at)
        if max_steps is not None:
            raise max_steps
        self._check_progress(calls, results)
        return False

    def _respond(self, now: float) -> Plan[Response]:
        request = self._request((yield from self._messages_to_send()))
        try:
            seconds = self._budget.remaining_seconds(now, self._settings.step_timeout)
            response = yield from self._call_model(request, seconds)
        except DragomanError as error:
            self._attempts += error.attempts
            self._budget.add_usage(error.usage)
            malformed_call = _malformed_call(error)
            if malformed_call is not None:
                return self._corrupt_response(error, malformed_call)
            failed_at: float = yield Now()
            self._budget.check(failed_at, error)
            raise
        if not request.stream:
            yield Emit(to_events(response))
        return response

    def _corrupt_response(self, error: DragomanError, malformed_call: MalformedToolCall) -> Response:
        """Build the response that a malformed call was part of. The call has no arguments and gets an error result."""
        partial = error.partial if isinstance(error, Interrupted) else None
        parts = () if partial is None else partial.message.parts
        call = ToolCall(
            id=malformed_call.id or f"malformed_{len(self._steps)}", name=malformed_call.name or UNNAMED_TOOL
        )
        self._refusals[call.id] = f"{call.name} was not run: {malformed_call.message}"
        return Response(message=assistant(*parts, call), finish=Finish(reason="tool_calls"), usage=Usage())

    def _request(self, messages: tuple[Message, ...]) -> Request:
        request = replace(self._settings.request, messages=messages)
        # A forced tool choice in every step would never let the model answer.
        if self._steps and self._settings.terminal is None and request.tool_choice not in (None, "auto", "none"):
            return replace(request, tool_choice="auto")
        return request

    def _add_response(self, response: Response) -> Plan[None]:
        self._attempts += response.attempts
        if not response.is_empty:
            self._messages.append(response.message)
        outcome = yield from perform(Job(partial(self._budget.add_response, response), is_quick=True))
        if isinstance(outcome.error, DragomanError):
            raise outcome.error
        if outcome.error is not None:
            kind = type(outcome.error).__name__
            raise InvalidRequest(
                f"budget.price must return the dollars of a response, got {kind}: {outcome.error}"
            ) from outcome.error

    def _finish_step(
        self, index: int, response: Response, results: Sequence[TimedResult], started_at: float
    ) -> Plan[None]:
        now: float = yield Now()
        step = _step(index, response, results, now - started_at)
        self._running = None
        self._steps.append(step)
        if step.results:
            self._messages.append(tool_results(*step.results))
        yield Emit([StepFinished(step)])

    def _execute(self, response: Response, index: int) -> Plan[tuple[TimedResult, ...]]:
        settings = self._settings
        messages = tuple(self._messages)
        now: float = yield Now()

        def context(call: ToolCall) -> Context:
            return Context(call=call, step=index, messages=messages, data=self._data, spend=self._budget.add_response)

        runner = ToolRunner(
            tools=self._tools,
            context=context,
            approve=settings.approve,
            parallel=settings.parallel,
            max_timeout=self._budget.remaining_seconds(now, settings.tool_timeout),
            refusals=self._refusals,
        )
        self._running = response, runner.results
        return (yield from execute(response.tool_calls, runner))

    # The end ---------------------------------------------------------------------------------------------------------

    def _finish(self, response: Response) -> Plan[bool]:
        """Take the output from an answer without calls; return whether the run is at its end."""
        reason = response.finish.reason
        if reason == "pause":  # the provider's own tools are still running: it continues with the next request
            if (max_steps := (yield from self._count_step())) is not None:
                raise max_steps
            return False
        if response.is_empty and reason != "blocked" and self._retry_empty():
            return False
        if self._settings.output_type is None:
            self._output = response.text if response.text.strip() else self._earlier_text() or response.text
            return True
        try:
            self._output = yield from parse_output(self._settings.output_type, response.text)
        except OutputError as wrong:
            error = with_finish_reason(wrong, response)
        else:
            return True
        if self._repairs <= 0 or response.is_empty:
            raise error.annotate(usage=self._budget.usage)
        self._repairs -= 1
        self._messages.append(user(repair_prompt(error)))
        return False

    def _retry_empty(self) -> bool:
        """Ask for an answer again after an empty one; return False if that was tried often enough."""
        if self._empty_retries <= 0:
            return False
        self._empty_retries -= 1
        self._messages.append(user(EMPTY_ANSWER))
        return True

    def _earlier_text(self) -> str | None:
        """Return the last long text of the run: the best output there is if the final answer stays empty."""
        texts = (step.response.text for step in reversed(self._steps))
        return next((text for text in texts if len(text.strip()) >= MIN_FALLBACK_LENGTH), None)

    def _finish_terminal(self, response: Response, started_at: float) -> Plan[bool]:
        """If the terminal tool was called with valid arguments, take them as the output."""
        calls = (call for call in response.tool_calls if call.name == self._settings.terminal)
        call = next((call for call in calls if call.id not in self._refusals), None)
        if call is None:
            return False
        try:
            self._output = yield from self._read_arguments(call)
        except OutputError as error:
            self._refusals[call.id] = invalid_arguments(call, error.reasons)
            return False
        accepted = TimedResult(ToolResult(id=call.id, name=call.name, content=ACCEPTED))
        results = [accepted if one.result.id == call.id else one for one in _not_run(response.tool_calls)]
        yield from self._finish_step(len(self._steps), response, results, started_at)
        return True

    def _read_arguments(self, call: ToolCall) -> Plan[Any]:
        if self._settings.output_type is not None:
            return (yield from parse_output(self._settings.output_type, msgspec.json.encode(call.arguments).decode()))
        tool = self._tools[call.name]
        if tool.parameters is not None and (reasons := argument_errors(call, tool)):
            raise OutputError(invalid_arguments(call, reasons), reasons=reasons)
        return call.arguments

    # Limits ----------------------------------------------------------------------------------------------------------

    def _count_step(self) -> Plan[MaxSteps | None]:
        """Count one more step that calls tools; return the error if that is one too many."""
        limit = self._settings.max_steps
        if limit is None:
            return None
        if not isinstance(limit, int):
            outcome = yield from self._run_hook("max_steps", partial(limit, self.result))
            limit = outcome.value if isinstance(outcome.value, int) else DEFAULT_MAX_STEPS
        self._tool_steps += 1
        if self._tool_steps <= limit:
            return None
        return MaxSteps(f"the run reached max_steps={limit} and the model still calls tools; raise max_steps")

    def _check_progress(self, calls: Sequence[ToolCall], results: Sequence[TimedResult]) -> None:
        """Raise ToolLoop if the steps only fail, or repeat themselves."""
        settings = self._settings
        self._failed_steps = self._failed_steps + 1 if all(one.result.is_error for one in results) else 0
        if settings.tool_error_limit and self._failed_steps >= settings.tool_error_limit:
            last = results[-1].result
            raise ToolLoop(f"{self._failed_steps} steps in a row gave only errors, the last from {last.name}")
        signature = frozenset(_signature(call, one.result) for call, one in zip(calls, results, strict=True))
        self._identical_steps = self._identical_steps + 1 if signature == self._last_step else 1
        self._last_step = signature
        if settings.repeat_limit and self._identical_steps >= settings.repeat_limit:
            names = ", ".join(dict.fromkeys(call.name for call in calls))
            raise ToolLoop(f"{self._identical_steps} steps in a row made the same calls with the same results: {names}")

    # Hooks -----------------------------------------------------------------------------------------------------------

    def _run_hook(self, name: str, function: Callable[[], Any], *, is_quick: bool = False) -> Plan[JobResult]:
        outcome = yield from perform(Job(function, is_quick=is_quick))
        if outcome.error is not None:
            yield Emit([HookFailed(name, redact(f"{type(outcome.error).__name__}: {outcome.error}"))])
        return outcome

    def _hook_messages(self, name: str, function: Callable[[], Any]) -> Plan[tuple[Message, ...]]:
        """Run a hook that returns messages. A hook that fails returns none."""
        outcome = yield from self._run_hook(name, function)
        return (yield from self._run_hook(name, partial(_as_messages, outcome.value), is_quick=True)).value or ()

    def _messages_to_send(self) -> Plan[tuple[Message, ...]]:
        messages = tuple(self._messages)
        if self._settings.compact is None:
            return messages
        return (yield from self._hook_messages("compact", partial(self._settings.compact, messages))) or messages


def _step(index: int, response: Response, timed: Sequence[TimedResult], duration: float = 0.0) -> Step:
    results, durations = tuple(one.result for one in timed), tuple(one.duration for one in timed)
    return Step(index=index, response=response, results=results, duration=duration, durations=durations)


def _not_run(calls: Sequence[ToolCall]) -> tuple[TimedResult, ...]:
    return tuple(TimedResult(error_result(call, NOT_RUN)) for call in calls)


def _signature(call: ToolCall, result: ToolResult) -> bytes:
    arguments = msgspec.json.encode(call.arguments, order="deterministic")
    return b"\0".join((call.name.encode(), arguments, dump(replace(result, id=""))))


def _as_messages(value: Any) -> tuple[Message, ...]:
    if value is None:
        return ()
    items = (value,) if isinstance(value, Message | str) else tuple(value)
    if wrong := [item for item in items if not isinstance(item, Message | str)]:
        raise TypeError(f"a hook must return messages or strings, got {type(wrong[0]).__name__}")
    return tuple(item if isinstance(item, Message) else user(item) for item in items)


def _malformed_call(error: DragomanError) -> MalformedToolCall | None:
    """Return the malformed call behind an error, also if it broke a stream."""
    cause = error.__cause__ if isinstance(error, Interrupted) else error
    return cause if isinstance(cause, MalformedToolCall) else None
