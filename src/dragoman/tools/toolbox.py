"""Tools in, calls of them executed out: blocking and async. What users hold beside a model."""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dragoman.engine.effects import Plan
from dragoman.errors import MalformedToolCall
from dragoman.io.driver import Driver
from dragoman.io.pyreqwest import transport_of
from dragoman.tools.decorator import TIMEOUT, Context, ToolLike, gather
from dragoman.tools.executor import ToolRunner, dispatch
from dragoman.tools.results import failure
from dragoman.types import Tool, ToolCall, ToolResult

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.tools.mcp import Connecting, McpSession


class Toolbox:
    """Tools in their order, each name once. It runs what a model calls, and never raises for it.

    >>> from dragoman import tool
    >>> @tool
    ... def tide(port: str) -> str:
    ...     "Tide height at a port."
    ...     return f"4.2 m in {port}"
    >>> toolbox = Toolbox(tide)
    >>> toolbox.execute(ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})).content
    '4.2 m in Brest'
    >>> toolbox.execute(ToolCall(id="call_2", name="tied")).content
    "no tool 'tied'; there are tide"
    """

    def __init__(self, *tools: ToolLike | list[ToolLike], session: "McpSession | None" = None) -> None:
        self.tools: tuple[Tool, ...] = gather(tools)
        self._by_name = {tool.name: tool for tool in self.tools}
        self._session = session

    def __repr__(self) -> str:
        """The names of its tools."""
        return f"Toolbox({', '.join(self._by_name)})"

    def __iter__(self) -> Iterator[Tool]:
        """Its tools, in order."""
        return iter(self.tools)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.tools)

    def execute(self, call: ToolCall | MalformedToolCall, /, *, data: Any = None) -> ToolResult:
        """What a call gives, blocking; whatever goes wrong is a result that says so."""
        return _driver().run(self._plan(call, data))

    async def aexecute(self, call: ToolCall | MalformedToolCall, /, *, data: Any = None) -> ToolResult:
        """What a call gives, async; whatever goes wrong is a result that says so."""
        return await _driver().arun(self._plan(call, data))

    def _plan(self, call: ToolCall | MalformedToolCall, data: Any) -> Plan[ToolResult]:
        if isinstance(call, MalformedToolCall):
            return failure(call, f"{call.name or 'the call'} was not run: {call.message}")
        bench = ToolRunner(tools=self._by_name, context=lambda call: Context(call=call, data=data))
        (ran,) = yield from dispatch([call], bench)
        return ran.result

    # A server's tools ------------------------------------------------------------------------------------------------

    @classmethod
    def from_mcp(
        cls,
        server: "str | Sequence[str | Path]",
        /,
        *,
        env: Mapping[str, str] | None = None,
        cwd: "str | Path | None" = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = TIMEOUT,
    ) -> "Connecting":
        """The tools of an MCP server: a command that is started, or the URL of one that runs.

        `env` and `cwd` are for a command, `headers` for a URL; `timeout` is what each call of a tool may take.
        Await it, or enter it with `async with` or `with`; closing the toolbox ends the connection, and the command.
        """
        from dragoman.tools.mcp import Connecting

        return Connecting(server, env=env, cwd=cwd, headers=headers, timeout=timeout)

    def close(self) -> None:
        """Leave the server whose tools these are, if they are one's."""
        if self._session is not None:
            self._session.close()

    async def aclose(self) -> None:
        """Leave the server whose tools these are, if they are one's."""
        if self._session is not None:
            await self._session.aclose()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the server."""
        self.close()

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the server."""
        await self.aclose()


def _driver() -> Driver:
    return Driver(transport_of())
