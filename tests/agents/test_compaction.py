"""A conversation that became too long: what is sent of it."""

import asyncio

import pytest

from dragoman import (
    Agent,
    AuthFailed,
    Document,
    Image,
    Message,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    compact,
    system,
    tool,
    tool_results,
    user,
)
from dragoman.agents.compaction import SUMMARY, Compaction
from dragoman.testing import Scripted
from dragoman.types import Thinking

PAGE = Document(data=b"%PDF", mime="application/pdf")


def talk(count: int) -> list[Message]:
    return [user(f"question {number}") if number % 2 == 0 else assistant(f"answer {number}") for number in range(count)]


def compacted(shorten: Compaction, messages: list[Message]) -> tuple[Message, ...]:
    return asyncio.run(shorten(messages))


def test_a_short_conversation_stays_as_it_is() -> None:
    script = Scripted()
    messages = talk(6)
    assert compacted(compact(script.model(), keep=3), messages) == tuple(messages)
    assert not script.requests


def test_the_middle_is_summed_up_and_the_rest_stays() -> None:
    script = Scripted("All was said.")
    messages = [system("Be brief."), *talk(9)]
    short = compacted(compact(script.model(), keep=3), messages)
    assert short == (messages[0], user(SUMMARY + "All was said."), *messages[-3:])
    prompt = script.requests[0].messages[0].text
    assert "user: question 0" in prompt
    assert "assistant: answer 5" in prompt
    assert "question 6" not in prompt


def test_a_call_is_never_parted_from_its_result() -> None:
    call = ToolCall(id="1", name="tide", arguments={"port": "Brest"})
    round_ = [assistant("Let me see.", call), tool_results(ToolResult(id="1", name="tide", content="4.2 m"))]
    messages = [*talk(4), *round_, assistant("4.2 m."), user("And Cork?")]
    short = compacted(compact(Scripted("Sum.").model(), keep=3), messages)
    assert short[1:] == (*round_, *messages[-2:])


def test_a_summary_is_kept_until_there_is_as_much_again() -> None:
    script = Scripted("One.", "Two.")
    shorten = compact(script.model(), keep=3)
    messages = talk(14)
    compacted(shorten, messages[:7])
    assert compacted(shorten, messages[:10])[0].text == SUMMARY + "One."
    assert len(script.requests) == 1
    assert compacted(shorten, messages[:11]) == (user(SUMMARY + "Two."), *messages[8:11])
    assert "user: Summary of the conversation so far:\n\nOne." in script.requests[1].messages[0].text
    assert "question 0" not in script.requests[1].messages[0].text


def test_another_conversation_has_another_summary() -> None:
    script = Scripted("One.", "Two.")
    shorten = compact(script.model(), keep=2)
    compacted(shorten, talk(6))
    assert compacted(shorten, [user("other"), *talk(6)])[0].text == SUMMARY + "Two."


def test_every_part_is_told_in_words() -> None:
    script = Scripted("Sum.")
    call = ToolCall(id="1", name="tide", arguments={"port": "Brest"})
    failed = ToolResult(id="1", name="tide", content="no water", is_error=True)
    long = "x" * 9000
    parts = [
        user("See", Image(url="https://x/a.png"), PAGE, long),
        assistant(Thinking(text="Hmm."), call),
        tool_results(failed),
    ]
    compacted(compact(script.model(), keep=1), [*parts, user("a"), user("b")])
    prompt = script.requests[0].messages[0].text
    assert '[calls tide with {"port":"Brest"}]' in prompt
    assert "[tide fails: no water]" in prompt
    assert "[an image]" in prompt
    assert "[document]" in prompt
    assert "Hmm." not in prompt
    assert len(prompt) < 5000


def test_an_agent_sends_the_short_form_and_keeps_the_whole() -> None:
    @tool
    def tide(port: str) -> str:
        """Tide."""
        return f"4.2 m in {port}"

    calls = [ToolCall(id=f"call_{n}", name="tide", arguments={"port": str(n)}) for n in range(4)]
    script, summarizer = Scripted(*calls, "Done."), Scripted("Sum.", "Sum again.")
    result = Agent(script.model(), tools=[tide], compact=compact(summarizer.model(), keep=2)).run("Go.")
    assert len(result.messages) == 10
    assert script.requests[-1].messages[0].text.startswith(SUMMARY)
    assert len(script.requests[-1].messages) < 9


@pytest.mark.parametrize("way", ["blocking", "async"])
def test_the_original_is_sent_where_the_summary_fails(way: str) -> None:
    script = Scripted("ok")
    agent = Agent(script.model(), compact=compact(Scripted(AuthFailed("no")).model(), keep=1))
    messages = talk(5)
    result = agent.run(messages) if way == "blocking" else asyncio.run(agent.arun(messages))
    assert result.output == "ok"
    assert len(script.requests[0].messages) == 5


def test_a_model_may_be_given_by_its_spec() -> None:
    short = compacted(compact("demo/any", keep=1), [user(Text(text=f"number {n}")) for n in range(4)])
    assert len(short) == 2
