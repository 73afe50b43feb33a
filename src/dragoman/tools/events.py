"""Events of tool calls and hooks, which a run of an agent emits among its own."""

import msgspec

from dragoman.types import ToolCall, ToolResult


class ToolStarted(msgspec.Struct, frozen=True):
    """A tool starts to run."""

    call: ToolCall


class ToolFinished(msgspec.Struct, frozen=True):
    """A call has its result. The result is an error if the tool failed or did not run."""

    call: ToolCall
    result: ToolResult
    duration: float


class HookFailed(msgspec.Struct, frozen=True):
    """One of your hooks raised an error; the run continues without it."""

    hook: str
    why: str
