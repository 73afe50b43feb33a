"""The values of a run: its steps, its result, and the events it emits."""

from typing import Generic, TypeAlias, TypeVar

import msgspec

from dragoman.types import UNKNOWN_USAGE, Attempt, Message, Response, ToolCall, ToolResult, Usage

T = TypeVar("T")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One response of the model, and the results of its tool calls.

    >>> from dragoman.types import Finish, assistant
    >>> Step(index=0, response=Response(message=assistant("hi"), finish=Finish(reason="stop"))).results
    ()
    """

    index: int
    response: Response
    results: tuple[ToolResult, ...] = ()
    duration: float = 0.0
    """Seconds for the whole step."""
    durations: tuple[float, ...] = ()
    """Seconds for each tool, in the order of the results."""


class Result(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The result of a run. If the run was stopped, it is the result so far, and the output is None.

    >>> Result(output="4.2 m").output
    '4.2 m'
    """

    output: T
    messages: tuple[Message, ...] = ()
    """The whole conversation. Pass it to the next run to continue."""
    steps: tuple[Step, ...] = ()
    usage: Usage = UNKNOWN_USAGE
    """Of all steps and their sub-agents."""
    attempts: tuple[Attempt, ...] = ()
    cost: float | None = None
    """Dollars, if the budget limits money."""


class StepStarted(msgspec.Struct, frozen=True):
    """A step starts: the model will be called.

    >>> StepStarted(0).index
    0
    """

    index: int


class ToolStarted(msgspec.Struct, frozen=True):
    """A tool starts to run.

    >>> ToolStarted(ToolCall(id="call_1", name="tide")).call.name
    'tide'
    """

    call: ToolCall


class ToolFinished(msgspec.Struct, frozen=True):
    """A call has its result. The result is an error if the tool failed or did not run.

    >>> ToolFinished(ToolCall(id="call_1", name="tide"), ToolResult(id="call_1", content="4.2 m"), 0.1).result.text
    '4.2 m'
    """

    call: ToolCall
    result: ToolResult
    duration: float


class StepFinished(msgspec.Struct, frozen=True):
    """A step is complete, with the results of all its calls.

    >>> from dragoman.types import Finish, assistant
    >>> StepFinished(Step(index=0, response=Response(message=assistant("hi"), finish=Finish(reason="stop")))).step.index
    0
    """

    step: Step


class HookFailed(msgspec.Struct, frozen=True):
    """One of your hooks raised an error; the run continues without it.

    >>> HookFailed("compact", "KeyError: 'x'").hook
    'compact'
    """

    hook: str
    why: str


RunEvent: TypeAlias = StepStarted | ToolStarted | ToolFinished | StepFinished | HookFailed
