"""Functions as tools: the model calls them, and a toolbox runs the calls.

It runs on the `demo` provider: no key, no network.
"""

from typing import Literal

import dragoman
from dragoman import Toolbox, tool, tool_results, user


@tool
def tide(port: str, unit: Literal["m", "ft"] = "m") -> str:
    """Tide height at a port.

    Args:
        port: The name of the port.
        unit: Metres or feet.
    """
    return f"{4.2 if unit == 'm' else 13.8} {unit} in {port}"


@tool(timeout=5)
async def ships(port: str) -> list[str]:
    """The names of the ships at a port."""
    return [f"Pride of {port}", "Ann"]


def main() -> None:
    model = dragoman.model("demo/any")
    toolbox = Toolbox(tide, ships)
    question = user("What is the tide at the port of Brest?")

    response = model.generate([question], tools=[toolbox], tool_choice="required")
    results = [toolbox.execute(call) for call in response.tool_calls]
    for call, result in zip(response.tool_calls, results, strict=True):
        print(f"{call.name}({call.arguments}) -> {result.text}")
    print(model.generate([question, response.message, tool_results(*results)], tools=[toolbox]).text)

    wrong = dragoman.ToolCall(id="call_9", name="tide", arguments={"port": 7})
    print(toolbox.execute(wrong).text)


if __name__ == "__main__":
    main()
