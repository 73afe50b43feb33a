"""A real MCP server, of the official SDK, for the tests: over stdio, or over HTTP at the port that it prints.

Run as `python tests/support/mcp_server.py stdio`, `… http`, or `… odd` for one with a tool that cannot be used.
"""

import asyncio
import base64
import os
import socket
import sys

import mcp.types as shapes
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
def drawing() -> list[shapes.ContentBlock]:
    """What no model sees."""
    svg = shapes.ImageContent(data=base64.b64encode(b"<svg/>").decode(), mime_type="image/svg+xml")
    return [shapes.TextContent(text="See:"), svg]


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
def report() -> list[shapes.ContentBlock]:
    """Many things at once."""
    page = shapes.BlobResourceContents(
        uri="file:///page.pdf", mime_type="application/pdf", blob=base64.b64encode(b"%PDF").decode()
    )
    return [
        shapes.TextContent(text="See:"),
        shapes.EmbeddedResource(resource=page),
        shapes.EmbeddedResource(resource=shapes.TextResourceContents(uri="file:///a.txt", text="Low water.")),
        shapes.ResourceLink(name="log", uri="file:///log.txt"),
        shapes.AudioContent(data="AAAA", mime_type="audio/wav"),
    ]


def main(way: str) -> None:
    """Serve until the input ends, or until it is ended."""
    if way == "odd":
        server.add_tool(depth, name="harbour_depth")  # to us the same name as that of another tool
    if way in ("stdio", "odd"):
        server.run("stdio")
        return
    import uvicorn

    with socket.create_server(("127.0.0.1", 0)) as bound:
        print(bound.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        uvicorn.Server(config).run(sockets=[bound])


if __name__ == "__main__":
    main(sys.argv[1])
