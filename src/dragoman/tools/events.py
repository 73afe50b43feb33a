"""Events of tool calls and hooks, which a run of an agent emits among its own."""

import msgspec

from dragoman.types import ToolCall, ToolResult


class ToolStarted(msgspec.Struct, frozen=True):
    """A tool starts to run."""

    call: ToolCall


class ToolFinished(msgspec.Struct, frozen=True):
    """A call has its result. It is an error if the tool failed, or if it did not run; then there is no ToolStarted."""

    call: ToolCall
    result: ToolResult
    duration: float


class HookFailed(msgspec.Struct, frozen=True):
    """One of your hooks raised an error. The run continues without it; a call whose `approve` raised is refused."""

    hook: str
    why: str
