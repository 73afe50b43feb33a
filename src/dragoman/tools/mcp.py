"""A command or a URL in, the tools of the MCP server there out. The connection lives on a loop in a thread of its own.

So the tools can be called from any loop, and from none, for as long as the toolbox is open.
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
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from dragoman.errors import ConnectFailed, InvalidTool, SetupError
from dragoman.io.task_runner import begin_thread
from dragoman.tools.decorator import TIMEOUT, Handler, gather
from dragoman.tools.toolbox import Toolbox
from dragoman.types import Document, Image, JsonObject, ResultPart, Text, Tool, ToolResult, decode_base64
from dragoman.wires.common.json import encode_json

if TYPE_CHECKING:
    from pathlib import Path

    import mcp
    from mcp import types as shapes

PATIENCE = 30.0
"""Seconds that a server may take to say which tools it has."""
STOP_TIMEOUT = 15.0
"""Seconds that it may take to end."""


class McpConnection:
    """A toolbox that is about to be opened: await it, or enter it with `async with` or `with`."""

    def __init__(
        self,
        server: "str | Sequence[str | Path]",
        /,
        *,
        env: Mapping[str, str] | None = None,
        cwd: "str | Path | None" = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = TIMEOUT,
    ) -> None:
        self._session = McpSession(server, env=env, cwd=cwd, headers=headers, timeout=timeout)

    def __await__(self) -> Generator[Any, Any, Toolbox]:
        """The toolbox, open; close it when it is no longer needed."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Toolbox:
        """The toolbox, open."""
        coming = self._session.begin()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._session.aclose)
            toolbox = self._toolbox(await asyncio.wrap_future(coming))
            stack.pop_all()
        return toolbox

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the server."""
        await self._session.aclose()

    def __enter__(self) -> Toolbox:
        """The toolbox, open."""
        coming = self._session.begin()
        with ExitStack() as stack:
            stack.callback(self._session.close)
            toolbox = self._toolbox(coming.result())
            stack.pop_all()
        return toolbox

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the server."""
        self._session.close()

    def _toolbox(self, listed: tuple[Tool, ...]) -> Toolbox:
        """The tools that can be used; one that cannot is left out, and takes no other with it."""
        usable: list[Tool] = []
        for tool in listed:
            try:
                usable = [*gather([*usable, tool])]
            except InvalidTool as error:
                warnings.warn(f"mcp: {self._session.name}: a tool is left out: {error.message}", stacklevel=4)
        return Toolbox(*usable, session=self._session)


class McpSession:
    """A connection to a server, on its own loop."""

    def __init__(
        self,
        server: "str | Sequence[str | Path]",
        *,
        env: Mapping[str, str] | None = None,
        cwd: "str | Path | None" = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = TIMEOUT,
    ) -> None:
        self._url, self._command = _place(server)
        self._timeout = timeout
        self._env = env
        self._cwd = cwd
        self._headers = headers
        self._tools: Future[tuple[Tool, ...]] = Future()
        self._ended: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leave = asyncio.Event()

    @property
    def name(self) -> str:
        """Where the server is, without what may be secret of it."""
        return self._command[0] if self._url is None else _shown(self._url)

    def begin(self) -> "Future[tuple[Tool, ...]]":
        """Connect; what comes of it is the server's tools."""
        try:
            import_module("mcp")
        except ImportError as error:
            raise SetupError("MCP servers need the official SDK; pip install 'dragoman[mcp]'") from error
        begin_thread(lambda: asyncio.run(self._serve()), self._end)
        return self._tools

    def close(self) -> None:
        """Leave the server, and wait until it is left."""
        self._say_goodbye()
        self._ended.result(STOP_TIMEOUT)

    async def aclose(self) -> None:
        """Leave the server, and wait until it is left."""
        self._say_goodbye()
        async with asyncio.timeout(STOP_TIMEOUT):
            await asyncio.shield(asyncio.wrap_future(self._ended))

    def _say_goodbye(self) -> None:
        if self._loop is None or self._ended.done():
            return
        try:
            self._loop.call_soon_threadsafe(self._leave.set)
        except RuntimeError:
            return  # it has just ended

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(PATIENCE):
                client = await self._connect(stack)
                tools = await self._list(client)
            self._tools.set_result(tools)
            await self._leave.wait()

    def _end(self, _value: object, error: BaseException | None) -> None:
        """The loop has ended: goodbye was said, or there was no connection in the first place, or it broke."""
        if not self._tools.done():
            self._tools.set_exception(ConnectFailed(f"mcp: {self.name}: no tools came: {_told(error)}"))
        self._ended.set_result(None)

    async def _connect(self, stack: AsyncExitStack) -> "mcp.Client":
        import mcp

        server = self._url
        if server is None:
            command, *arguments = self._command
            env = None if self._env is None else dict(self._env)
            started = mcp.StdioServerParameters(command=command, args=arguments, env=env, cwd=self._cwd)
            return await stack.enter_async_context(mcp.Client(started))
        if self._headers is None:
            return await stack.enter_async_context(mcp.Client(server))
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        # A server may hold an answer open for minutes: the SDK's own client waits as long.
        own = httpx2.AsyncClient(headers=dict(self._headers), timeout=httpx2.Timeout(30.0, read=300.0))
        http = await stack.enter_async_context(own)
        return await stack.enter_async_context(mcp.Client(streamable_http_client(server, http_client=http)))

    async def _list(self, client: "mcp.Client") -> tuple[Tool, ...]:
        found: list[Tool] = []
        cursor: str | None = None
        while True:
            page = await client.list_tools(cursor=cursor)
            found += [self._tool(listed, client) for listed in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                return tuple(found)

    def _tool(self, listed: "shapes.Tool", client: "mcp.Client") -> Tool:
        async def call(**arguments: Any) -> ToolResult:
            return await self._call(client, listed.name, arguments)

        return Tool(
            name=re.sub(r"[^a-zA-Z0-9_-]", "_", listed.name)[:64],
            description=listed.description or listed.title or listed.name,
            parameters=listed.input_schema,
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


def _place(server: object) -> tuple[str | None, tuple[str, ...]]:
    """The URL of a server, or the words of its command; SetupError where it is neither."""
    if isinstance(server, str) and (scheme := _SCHEME.match(server.strip())):
        if scheme[1].lower() not in ("http", "https"):
            raise SetupError(f"mcp: a server is spoken to by http or https, not by {scheme[1]}")
        _shown(server.strip())
        return server.strip(), ()
    if isinstance(server, PathLike):
        path = fspath(cast("PathLike[str]", server))
        raise SetupError(f"mcp: {path!r} is a file alone; give the command that runs it, such as ['python', {path!r}]")
    words = _words(server) if isinstance(server, str) else _listed(server)
    if not words or not words[0].strip():
        raise SetupError("mcp: no command; give what starts the server, or its URL")
    return None, words


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def _shown(url: str) -> str:
    """A URL without what may be secret of it."""
    try:
        place = urlsplit(url)
        host, port = place.hostname, place.port
        if not host:
            raise ValueError("no host")
    except ValueError:
        # Its own words may hold a password.
        raise SetupError("mcp: the URL cannot be read: its host or its port is wrong") from None
    return f"{place.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}{place.path}"


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        why = f"{str(error).lower()}; quote it as for a shell, or give a list of words"
        raise SetupError(f"mcp: the command cannot be read: {why}") from error


def _listed(command: object) -> tuple[str, ...]:
    kind, words = type(command).__name__, cast("Sequence[Any]", command)
    if not isinstance(command, list | tuple) or not all(isinstance(word, str | PathLike) for word in words):
        raise SetupError(f"mcp: {kind} is no server; give a command, a list of its words, or a URL")
    return tuple(fspath(cast("str", word)) for word in words)


def _told(error: BaseException | None) -> str:
    """The words of an error; of a group those of its first."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return "it ended" if error is None else f"{type(error).__name__}: {error}".removesuffix(": ")


def _result(answer: "shapes.CallToolResult") -> ToolResult:
    """What a server's tool gave, in our words: text, images, documents; where it only gave a structure, its JSON."""
    parts = tuple(_part(block) for block in answer.content)
    if not parts and answer.structured_content is not None:
        return ToolResult(id="", content=encode_json(answer.structured_content).decode(), is_error=answer.is_error)
    match parts:
        case (Text(text=text),):
            return ToolResult(id="", content=text, is_error=answer.is_error)
        case _:
            return ToolResult(id="", content=parts, is_error=answer.is_error)


def _part(block: "shapes.ContentBlock") -> ResultPart:
    from mcp import types as shapes

    match block:
        case shapes.TextContent():
            return Text(text=block.text)
        case shapes.ImageContent():
            return Image(data=decode_base64(block.data), mime=block.mime_type)
        case shapes.AudioContent():
            return Text(text=f"[a sound of type {block.mime_type}, which cannot be passed on]")
        case shapes.ResourceLink():
            return Text(text=f"[{block.title or block.name}: {block.uri}]")
        case shapes.EmbeddedResource():
            return _resource(block.resource)


def _resource(found: "shapes.TextResourceContents | shapes.BlobResourceContents") -> ResultPart:
    from mcp import types as shapes

    if isinstance(found, shapes.TextResourceContents):
        return Text(text=found.text)
    mime = found.mime_type or "application/octet-stream"
    data = decode_base64(found.blob)
    return Image(data=data, mime=mime) if mime.startswith("image/") else Document(data=data, mime=mime)
