"""The values of a run: its steps, its result, and the events it emits."""

from typing import Generic, TypeAlias, TypeVar

import msgspec

from dragoman.tools.events import HookFailed, ToolFinished, ToolStarted
from dragoman.types import UNKNOWN_USAGE, Attempt, Message, Response, ToolResult, Usage

T = TypeVar("T")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One response of the model, and the results of its tool calls."""

    index: int
    response: Response
    results: tuple[ToolResult, ...] = ()
    duration: float = 0.0
    """Seconds for the whole step."""
    durations: tuple[float, ...] = ()
    """Seconds for each tool, in the order of the results."""


class Result(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The result of a run. If the run was stopped, it is the result so far, and the output is None."""

    output: T
    messages: tuple[Message, ...] = ()
    """The conversation without the system prompt. Pass `[*messages, dragoman.user("…")]` to the next run."""
    steps: tuple[Step, ...] = ()
    usage: Usage = UNKNOWN_USAGE
    """Of all steps and their sub-agents."""
    attempts: tuple[Attempt, ...] = ()
    cost: float | None = None
    """Dollars of all steps and their sub-agents; None if the price of a step is not known."""


class StepStarted(msgspec.Struct, frozen=True):
    """A step starts: the model will be called."""

    index: int


class StepFinished(msgspec.Struct, frozen=True):
    """A step is complete, with the results of all its calls."""

    step: Step


RunEvent: TypeAlias = StepStarted | ToolStarted | ToolFinished | StepFinished | HookFailed
