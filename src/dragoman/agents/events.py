"""What an agent did, as values: its steps, the events of a run, and its result."""

from typing import Generic, TypeAlias, TypeVar

import msgspec

from dragoman.types import UNKNOWN_USAGE, Attempt, Message, Response, ToolCall, ToolResult, Usage

T = TypeVar("T")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of the model, and the results of the tools that it called.

    >>> from dragoman.types import Finish, assistant
    >>> Step(index=0, response=Response(message=assistant("hi"), finish=Finish(reason="stop"))).results
    ()
    """

    index: int
    response: Response
    results: tuple[ToolResult, ...] = ()
    duration: float = 0.0
    """Seconds of the whole step."""
    durations: tuple[float, ...] = ()
    """Seconds of each tool, in the order of the results."""


class Result(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """What came of a run; of one that was stopped, what there was by then, with no output.

    >>> Result(output="4.2 m").output
    '4.2 m'
    """

    output: T
    messages: tuple[Message, ...] = ()
    """The whole conversation: pass it to the next run to go on."""
    steps: tuple[Step, ...] = ()
    usage: Usage = UNKNOWN_USAGE
    """Of all steps, and of the sub-agents that they ran."""
    attempts: tuple[Attempt, ...] = ()
    cost: float | None = None
    """What it cost in dollars, where there is a budget of money."""


class StepStarted(msgspec.Struct, frozen=True):
    """The model is about to be asked.

    >>> StepStarted(0).index
    0
    """

    index: int


class ToolStarted(msgspec.Struct, frozen=True):
    """A tool begins to run.

    >>> ToolStarted(ToolCall(id="call_1", name="tide")).call.name
    'tide'
    """

    call: ToolCall


class ToolFinished(msgspec.Struct, frozen=True):
    """A call has its result, whether its tool ran or not.

    >>> ToolFinished(ToolCall(id="call_1", name="tide"), ToolResult(id="call_1", content="4.2 m"), 0.1).result.text
    '4.2 m'
    """

    call: ToolCall
    result: ToolResult
    duration: float


class StepFinished(msgspec.Struct, frozen=True):
    """A step is done: its answer, and the results of all its calls.

    >>> from dragoman.types import Finish, assistant
    >>> StepFinished(Step(index=0, response=Response(message=assistant("hi"), finish=Finish(reason="stop")))).step.index
    0
    """

    step: Step


class HookFailed(msgspec.Struct, frozen=True):
    """A function of the caller's raised an error; the run goes on without it.

    >>> HookFailed("compact", "KeyError: 'x'").hook
    'compact'
    """

    hook: str
    why: str


RunEvent: TypeAlias = StepStarted | ToolStarted | ToolFinished | StepFinished | HookFailed
