"""How to test code that calls a model: a scripted provider with answers and errors. No key, no network."""

from dragoman import Agent, Model, RateLimited, ToolCall, tool
from dragoman.testing import Scripted


@tool
def tide(port: str) -> str:
    """Tide height at a port."""
    return f"4.2 m in {port}"


def advise(model: Model) -> str:
    """The code under test."""
    return Agent(model, tools=[tide]).run("Can I leave Brest at noon?").output


def test_the_tide_is_looked_up() -> None:
    call = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})
    script = Scripted(RateLimited("slow down"), call, "Yes, at 4.2 m.")
    assert advise(script.model(backoff=0)) == "Yes, at 4.2 m."
    assert [message.role for message in script.requests[-1].messages] == ["user", "assistant", "tool"]
    assert script.requests[-1].messages[-1].tool_results[0].text == "4.2 m in Brest"


def test_every_wire_works() -> None:
    for wire in ("openai_chat", "anthropic", "google", "ollama"):
        assert advise(Scripted("Wait for the flood.").model(wire)) == "Wait for the flood."


def main() -> None:
    for test in (test_the_tide_is_looked_up, test_every_wire_works):
        test()
        print(f"{test.__name__}: ok")


if __name__ == "__main__":
    main()
