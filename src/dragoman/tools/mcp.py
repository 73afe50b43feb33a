"""The tools of an MCP server, which is a command to start or a URL.

Each connection has a thread with its own event loop. So you can call the tools from any event loop, or from blocking
code, while the toolbox is open.
"""

import asyncio
import re
import shlex
import warnings
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from dragoman.errors import ConnectFailed, InvalidTool, SetupError
from dragoman.io.task_runner import start_thread
from dragoman.targets.connection_options import check_headers
from dragoman.tools.decorator import TIMEOUT, Handler, gather, is_tool_timeout
from dragoman.tools.toolbox import Toolbox
from dragoman.types import Document, Image, JsonObject, ResultPart, Text, Tool, ToolResult
from dragoman.types.checks import is_encodable, wrong_value
from dragoman.types.data_urls import decode_base64
from dragoman.types.fields import WRONG, field_kind
from dragoman.wires.common.json import encode_json

if TYPE_CHECKING:
    import mcp
    from mcp import types as mcp_types

CONNECT_TIMEOUT = 30.0
"""Seconds to connect and to list the tools."""
STOP_TIMEOUT = 15.0
"""Seconds to close the connection and end the command."""


class McpConnection:
    """Opens a toolbox: await it, or enter it with `async with` or `with`."""

    def __init__(self, session: "McpSession", /) -> None:
        self._session = session

    def __await__(self) -> Generator[Any, Any, Toolbox]:
        """Return the open toolbox; close it at the end."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Toolbox:
        tools = self._session.start()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._session.aclose)
            toolbox = self._toolbox(await asyncio.wrap_future(tools))
            stack.pop_all()
        return toolbox

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.aclose()

    def __enter__(self) -> Toolbox:
        tools = self._session.start()
        with ExitStack() as stack:
            stack.callback(self._session.close)
            toolbox = self._toolbox(tools.result())
            stack.pop_all()
        return toolbox

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()

    def _toolbox(self, tools: tuple[Tool, ...]) -> Toolbox:
        """Return a toolbox with the valid tools. An invalid one is skipped with a warning."""
        usable: list[Tool] = []
        for tool in tools:
            try:
                usable = [*gather([*usable, tool])]
            except InvalidTool as error:
                warnings.warn(f"mcp: {self._session.name}: skipped a tool: {error.message}", stacklevel=4)
        return Toolbox(*usable, session=self._session)


class McpSession:
    """A connection to a server, on its own event loop."""

    def __init__(
        self,
        server: "str | Sequence[str | Path]",
        *,
        env: Mapping[str, str] | None = None,
        cwd: "str | Path | None" = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = TIMEOUT,
    ) -> None:
        self._url, self._command = _url_or_command(server)
        _check_options(env=env, cwd=cwd, headers=headers, timeout=timeout)
        self._timeout = timeout
        self._env = env
        self._cwd = cwd
        self._headers = headers
        self._tools: Future[tuple[Tool, ...]] = Future()
        self._ended: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()

    @property
    def name(self) -> str:
        """The URL without secrets, or the command without its arguments."""
        return self._command[0] if self._url is None else _public_url(self._url)

    def start(self) -> "Future[tuple[Tool, ...]]":
        """Connect in a new thread; the future gets the tools of the server."""
        try:
            import_module("mcp")
        except ImportError as error:
            raise SetupError("MCP servers need the package mcp; pip install 'dragoman[mcp]'") from error
        start_thread(lambda: asyncio.run(self._serve()), self._end)
        return self._tools

    def close(self) -> None:
        """Close the connection, and wait until it is closed."""
        self._request_stop()
        self._ended.result(STOP_TIMEOUT)

    async def aclose(self) -> None:
        """Close the connection, and wait until it is closed."""
        self._request_stop()
        async with asyncio.timeout(STOP_TIMEOUT):
            await asyncio.shield(asyncio.wrap_future(self._ended))

    def _request_stop(self) -> None:
        if self._loop is None or self._ended.done():
            return
        try:
            self._loop.call_soon_threadsafe(self._stop.set)
        except RuntimeError:
            return  # the loop has just ended

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                client = await self._connect(stack)
                tools = await self._list(client)
            self._tools.set_result(tools)
            await self._stop.wait()

    def _end(self, _value: object, error: BaseException | None) -> None:
        """Called when the loop has ended: after a stop, after a failed connect, or after the connection broke."""
        if not self._tools.done():
            self._tools.set_exception(ConnectFailed(f"mcp: {self.name}: cannot list the tools: {_message(error)}"))
        self._ended.set_result(None)

    async def _connect(self, stack: AsyncExitStack) -> "mcp.Client":
        import mcp

        server = self._url
        if server is None:
            command, *arguments = self._command
            env = None if self._env is None else dict(self._env)
            parameters = mcp.StdioServerParameters(command=command, args=arguments, env=env, cwd=self._cwd)
            return await stack.enter_async_context(mcp.Client(parameters))
        if self._headers is None:
            return await stack.enter_async_context(mcp.Client(server))
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        # The read timeout of the SDK's own client: a server may take minutes to answer.
        client = httpx2.AsyncClient(headers=dict(self._headers), timeout=httpx2.Timeout(30.0, read=300.0))
        http = await stack.enter_async_context(client)
        return await stack.enter_async_context(mcp.Client(streamable_http_client(server, http_client=http)))

    async def _list(self, client: "mcp.Client") -> tuple[Tool, ...]:
        tools: list[Tool] = []
        cursor: str | None = None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += [self._tool(definition, client) for definition in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                return tuple(tools)

    def _tool(self, definition: "mcp_types.Tool", client: "mcp.Client") -> Tool:
        async def call(**arguments: Any) -> ToolResult:
            return await self._call(client, definition.name, arguments)

        return Tool(
            name=re.sub(r"[^a-zA-Z0-9_-]", "_", definition.name)[:64],
            description=definition.description or definition.title or definition.name,
            parameters=definition.input_schema,
            handler=Handler(call, timeout=self._timeout),
        )

    async def _call(self, client: "mcp.Client", name: str, arguments: JsonObject) -> ToolResult:
        if self._loop is None or self._ended.done():
            raise ConnectFailed(f"mcp: {self.name}: the connection is closed")
        answer = asyncio.run_coroutine_threadsafe(client.call_tool(name, arguments), self._loop)
        try:
            return _result(await asyncio.wrap_future(answer))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise ConnectFailed(f"mcp: {self.name}: the connection was closed") from error


def _url_or_command(server: object) -> tuple[str | None, tuple[str, ...]]:
    """Return the URL of a server, or its command as a list of arguments."""
    if isinstance(server, str) and (scheme := _SCHEME.match(server.strip())):
        if scheme[1].lower() not in ("http", "https"):
            reason = f"mcp: server must be a URL that starts with http:// or https://, got {scheme[1]}://"
            raise SetupError(reason, param="server")
        _public_url(server.strip())
        return server.strip(), ()
    if isinstance(server, PathLike):
        path = fspath(cast("PathLike[str]", server))
        reason = f"mcp: server must be a command or a URL, got the file {path!r}; pass ['python', {path!r}]"
        raise SetupError(reason, param="server")
    command = _split(server) if isinstance(server, str) else _as_command(server)
    if not command or not command[0].strip():
        raise SetupError("mcp: server must be a command or a URL, got an empty command", param="server")
    if any("\0" in argument or not is_encodable(argument) for argument in command):
        reason = "mcp: server must be a command that can be started, got a character that cannot be passed"
        raise SetupError(reason, param="server")
    return None, command


def _is_directory(path: object) -> bool:
    text = str(cast("object", path)) if isinstance(path, str | PathLike) else ""
    return bool(text) and is_encodable(text) and "\0" not in text and Path(text).is_dir()


def _check_options(*, env: object, cwd: object, headers: object, timeout: object) -> None:
    for name, value in (("env", env), ("headers", headers)):
        if value is not None and field_kind(dict[str, str]).read(value) is WRONG:
            raise wrong_value(name, "a dict of str or None", value)
    if headers is not None:
        check_headers(headers)
    if cwd is not None and not _is_directory(cwd):
        raise wrong_value("cwd", "the path of a directory or None", cwd)
    if not is_tool_timeout(timeout):
        raise wrong_value("timeout", "seconds > 0 or None", timeout)


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def _public_url(url: str) -> str:
    """Return a URL without user, password and query, which may be secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        if not host:
            raise ValueError("no host")
    except ValueError:
        # The message of the ValueError may contain a password.
        reason = "mcp: server must be a valid URL, got one with an invalid host or port"
        raise SetupError(reason, param="server") from None
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}{parts.path}"


def _split(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        reason = str(error).lower()
        raise SetupError(
            f"mcp: server must be a command, got one that cannot be split ({reason}); quote it, or pass a list",
            param="server",
        ) from error


def _as_command(command: object) -> tuple[str, ...]:
    kind, arguments = type(command).__name__, cast("Sequence[Any]", command)
    if not isinstance(command, list | tuple) or not all(isinstance(one, str | PathLike) for one in arguments):
        reason = f"mcp: server must be a command, a list of its arguments, or a URL, got {kind}"
        raise SetupError(reason, param="server")
    return tuple(fspath(cast("str", one)) for one in arguments)


def _message(error: BaseException | None) -> str:
    """Return the message of an error; of a group, that of its first error."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return "the connection ended" if error is None else f"{type(error).__name__}: {error}".removesuffix(": ")


def _result(answer: "mcp_types.CallToolResult") -> ToolResult:
    """Convert the result of a server: text, images and documents, or else the structured content as JSON."""
    parts = tuple(_part(block) for block in answer.content)
    if not parts and answer.structured_content is not None:
        return ToolResult(id="", content=encode_json(answer.structured_content).decode(), is_error=answer.is_error)
    match parts:
        case (Text(text=text),):
            return ToolResult(id="", content=text, is_error=answer.is_error)
        case _:
            return ToolResult(id="", content=parts, is_error=answer.is_error)


def _part(block: "mcp_types.ContentBlock") -> ResultPart:
    from mcp import types as mcp_types

    match block:
        case mcp_types.TextContent():
            return Text(text=block.text)
        case mcp_types.ImageContent():
            return Image(data=decode_base64(block.data), mime=block.mime_type)
        case mcp_types.AudioContent():
            return Text(text=f"[audio of type {block.mime_type}, not supported in a tool result]")
        case mcp_types.ResourceLink():
            return Text(text=f"[{block.title or block.name}: {block.uri}]")
        case mcp_types.EmbeddedResource():
            return _resource(block.resource)


def _resource(resource: "mcp_types.TextResourceContents | mcp_types.BlobResourceContents") -> ResultPart:
    from mcp import types as mcp_types

    if isinstance(resource, mcp_types.TextResourceContents):
        return Text(text=resource.text)
    mime = resource.mime_type or "application/octet-stream"
    data = decode_base64(resource.blob)
    return Image(data=data, mime=mime) if mime.startswith("image/") else Document(data=data, mime=mime)
