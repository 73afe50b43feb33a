"""An agent with the tools of an MCP server: `pip install 'dragoman[mcp]'`, then `python examples/mcp_agent.py [SPEC]`.

The server is this file, started with `--serve`, as any MCP server on your machine is. Without a spec, a scripted
provider answers.
"""

import sys

import dragoman
from dragoman import Agent, Toolbox, ToolCall
from dragoman.testing import Scripted

TIDES = {"Brest": 4.2, "Cork": 3.1}


def serve() -> None:
    """Run the MCP server on stdin and stdout."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("harbour")

    @server.tool()
    def tide(port: str) -> str:  # pyright: ignore[reportUnusedFunction]  # the server has it
        """Tide height at a port, in metres."""
        return f"{TIDES[port]} m in {port}"

    server.run()


def main() -> None:
    if "--serve" in sys.argv:
        serve()
        return
    script = Scripted(
        (
            ToolCall(id="1", name="tide", arguments={"port": "Brest"}),
            ToolCall(id="2", name="tide", arguments={"port": "Cork"}),
        ),
        "The tide is higher in Brest: 4.2 m, against 3.1 m in Cork.",
    )
    model = dragoman.model(sys.argv[1]) if len(sys.argv) > 1 else script.model()
    with Toolbox.from_mcp([sys.executable, __file__, "--serve"]) as toolbox:
        result = Agent(model, tools=[toolbox]).run("Where is the tide higher, in Brest or in Cork?")
    for step in result.steps:
        for one in step.results:
            print(f"{one.name}: {one.text}")
    print(result.output)


if __name__ == "__main__":
    main()
