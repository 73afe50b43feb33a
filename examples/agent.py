"""An agent with tools, skills, a stream of events and a sub-agent.

It runs on the `demo` provider: no key, no network.
"""

import dragoman
from dragoman import Agent, Budget, TextDelta, ToolFinished, tool
from dragoman.tools import skills


@tool
def tide(port: str) -> str:
    """Tide height at a port, in metres."""
    return f"4.2 m in {port}"


def main() -> None:
    model = dragoman.model("demo/any")
    agent = Agent(
        model,
        system="You are a harbour master.",
        tools=[tide],
        skills=[skills.clock(), skills.calc()],
        budget=Budget(tokens=10_000, seconds=60),
    )
    result = agent.run("Please calculate the value of the expression '6 * 7'.")
    print(result.output)
    for step in result.steps:
        print(f"  step {step.index}: {[call.name for call in step.response.tool_calls]}, {step.duration:.3f} s")

    print("\n--- streamed")
    with agent.stream([*result.messages, dragoman.user("What is the tide in Brest?")]) as stream:
        for item in stream:
            match item:
                case TextDelta():
                    print(item.text, end="", flush=True)
                case ToolFinished():
                    print(f"[{item.call.name} -> {item.result.text}]")
                case _:
                    continue
    print()

    print("\n--- one agent as a tool of another")
    manager = Agent(model, tools=[agent.as_tool("harbour", "Answers questions about the tide at a port")])
    result = manager.run("Ask the harbour: 'What is the tide in Brest?'")
    print(result.output)
    print(f"[{result.usage.input} tokens in, {result.usage.output} out, for both agents]")


if __name__ == "__main__":
    main()
