"""`Toolbox`: a set of tools that runs the calls of a model, blocking and async."""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dragoman.engine.effects import Plan
from dragoman.errors import MalformedToolCall
from dragoman.io.driver import Driver
from dragoman.io.transport import make_transport
from dragoman.tools.decorator import TIMEOUT, Context, ToolLike, gather
from dragoman.tools.executor import ToolRunner, execute
from dragoman.tools.results import error_result
from dragoman.types import Tool, ToolCall, ToolResult
from dragoman.types.checks import naming, wrong_value
from dragoman.types.parameters import named_methods, named_parameters

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.tools.mcp import McpConnection, McpSession


@named_methods("__init__", "execute")
class Toolbox:
    """Tools with unique names, in order. It runs tool calls; an error becomes a result, never an exception.

    >>> from dragoman import tool
    >>> @tool
    ... def tide(port: str) -> str:
    ...     "Tide height at a port."
    ...     return f"4.2 m in {port}"
    >>> toolbox = Toolbox(tide)
    >>> toolbox.execute(ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})).content
    '4.2 m in Brest'
    >>> toolbox.execute(ToolCall(id="call_2", name="tied")).content
    "no tool named 'tied'; the tools are tide"
    """

    def __init__(self, *tools: ToolLike | list[ToolLike], session: "McpSession | None" = None) -> None:
        with naming("tools"):
            self.tools: tuple[Tool, ...] = gather(tools)
        self._by_name = {tool.name: tool for tool in self.tools}
        self._session = session

    def __repr__(self) -> str:
        return f"Toolbox({', '.join(self._by_name)})"

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    def execute(self, call: ToolCall | MalformedToolCall, /, *, data: Any = None) -> ToolResult:
        """Run a call and return its result. An error is a result, too."""
        _check_call(call)
        return _driver().run(self._plan(call, data))

    async def aexecute(self, call: ToolCall | MalformedToolCall, /, *, data: Any = None) -> ToolResult:
        """Run a call and return its result, async. An error is a result, too."""
        _check_call(call)
        return await _driver().arun(self._plan(call, data))

    def _plan(self, call: ToolCall | MalformedToolCall, data: Any) -> Plan[ToolResult]:
        if isinstance(call, MalformedToolCall):
            return error_result(call, f"{call.name or 'the call'} was not run: {call.message}")
        runner = ToolRunner(tools=self._by_name, context=lambda call: Context(call=call, data=data))
        (timed,) = yield from execute([call], runner)
        return timed.result

    # MCP servers -----------------------------------------------------------------------------------------------------

    @classmethod
    @named_parameters
    def from_mcp(
        cls,
        server: "str | Sequence[str | Path]",
        /,
        *,
        env: Mapping[str, str] | None = None,
        cwd: "str | Path | None" = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = TIMEOUT,
    ) -> "McpConnection":
        """Connect to an MCP server and return its tools. `server` is a command to start, or the URL of a server.

        `env` and `cwd` are for a command, `headers` for a URL. `timeout` limits each tool call, in seconds. Await the
        result, or enter it with `async with` or `with`. Closing the toolbox closes the connection and ends the command.
        """
        from dragoman.tools.mcp import McpConnection, McpSession

        return McpConnection(McpSession(server, env=env, cwd=cwd, headers=headers, timeout=timeout))

    def close(self) -> None:
        """Close the connection to the MCP server, if there is one."""
        if self._session is not None:
            self._session.close()

    async def aclose(self) -> None:
        """Close the connection to the MCP server, if there is one."""
        if self._session is not None:
            await self._session.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _driver() -> Driver:
    return Driver(make_transport())


def _check_call(call: object) -> None:
    if not isinstance(call, ToolCall | MalformedToolCall):
        raise wrong_value("call", "a ToolCall", call)
