"""An MCP server of the official SDK for the tests, over stdio or over HTTP. Over HTTP it prints its port.

Run `python tests/support/mcp_server.py MODE`; MODE is stdio, http, or odd (stdio with one invalid tool).
"""

import asyncio
import base64
import os
import socket
import sys

import mcp.types as mcp_types
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("harbour")
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


@server.tool()
def tide(port: str, day: int = 1) -> str:
    """Tide height at a port."""
    return f"4.2 m in {port} on day {day}"


@server.tool(name="harbour.depth")
def depth(port: str) -> dict[str, float]:
    """Depth of a harbour."""
    return {"metres": 12.5}


@server.tool()
def chart() -> Image:
    """A chart."""
    return Image(data=DOT, format="png")


@server.tool()
def drawing() -> list[mcp_types.ContentBlock]:
    """An image type that no model accepts."""
    svg = mcp_types.ImageContent(data=base64.b64encode(b"<svg/>").decode(), mime_type="image/svg+xml")
    return [mcp_types.TextContent(text="See:"), svg]


@server.tool()
def storm() -> str:
    """Fails."""
    raise ToolError("too much wind")


@server.tool()
async def wait() -> str:
    """Never ends."""
    await asyncio.sleep(3600)
    return "never"


@server.tool()
def crash() -> str:
    """Ends the server."""
    os._exit(3)


@server.tool()
def report() -> list[mcp_types.ContentBlock]:
    """Content of every type."""
    page = mcp_types.BlobResourceContents(
        uri="file:///page.pdf", mime_type="application/pdf", blob=base64.b64encode(b"%PDF").decode()
    )
    return [
        mcp_types.TextContent(text="See:"),
        mcp_types.EmbeddedResource(resource=page),
        mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents(uri="file:///a.txt", text="Low water.")),
        mcp_types.ResourceLink(name="log", uri="file:///log.txt"),
        mcp_types.AudioContent(data="AAAA", mime_type="audio/wav"),
    ]


def main(mode: str) -> None:
    if mode == "odd":
        server.add_tool(depth, name="harbour_depth")  # after cleaning, the same name as another tool
    if mode in ("stdio", "odd"):
        server.run("stdio")
        return
    import uvicorn

    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1])
