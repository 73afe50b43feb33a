"""An agent with tools, skills, a sub-agent and a look at what it does. On `demo`: no key, no network."""

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

    print("\n--- as it happens")
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

    print("\n--- as the tool of another agent")
    chief = Agent(model, tools=[agent.as_tool("harbour", "Knows all about the tide at a port")])
    done = chief.run("Ask the harbour: 'What is the tide in Brest?'")
    print(done.output)
    print(f"[{done.usage.input} tokens in, {done.usage.output} out, all agents together]")


if __name__ == "__main__":
    main()
