"""Which text of a run is its answer."""

import pytest

from dragoman.agents.final_answer import answer, is_weak

LONG = "The tide in Brest is 4.2 m high at noon and falls to 1.1 m by the evening. " * 3
SOLID = "The tide in Brest is 4.2 m high at noon, and falls to 1.1 m by six in the evening, says the harbour."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "See above.",
        "As described above.",
        "Please see my answer above for the details.",
        "I have already answered this.",
        "I already fully answered that question.",
        "The above answer is complete.",
        "Refer to my previous message.",
        "As I mentioned earlier.",
        "As I said.",
        "As stated previously",
        "As already explained above.",
        "Already answered above.",
        "Answered in my previous message.",
        "The answer is above.",
        "I have already answered that. Please see above!",
        "My previous answer stands.",
        "**See above**",
    ],
)
def test_a_text_that_is_blank_or_points_back_is_weak(text: str) -> None:
    assert is_weak(text)
    assert answer([LONG, text]) == LONG


@pytest.mark.parametrize(
    "text",
    [
        "Yes.",
        "42",
        "4.2 m",
        "Above sea level: 4.2 m",
        "Done.",
        "See above. " + "It is explained in detail there. " * 5,
        "Your last message was 'hello'.",
        "The water is as much as 3 m above datum.",
        "It was already covered by insurance: 300 EUR.",
        "See the flag above the door.",
        "As I said earlier, it is 42.",
        "Yes. See above.",
        "The earlier message was sent by Anna.",
        "It was answered by the court in 1912.",
        "The flag is above the door.",
        "I have already told Anna.",
    ],
)
def test_a_short_correct_answer_is_never_replaced(text: str) -> None:
    assert not is_weak(text)
    assert answer([LONG, text]) == text


@pytest.mark.parametrize(
    ("earlier", "is_taken"),
    [
        (LONG, True),
        ("Let me check. " + LONG, True),
        (SOLID, True),
        (
            "Let me look at the tide tables of Brest, and then at the ones of Cork, to compare them both carefully.",
            False,
        ),
        (
            "First, I shall look at the tide tables of Brest, and then at those of Cork, to compare them with care.",
            False,
        ),
        (
            "Checking the tide tables of Brest, then those of Cork, to compare them carefully with one another now.",
            False,
        ),
        ("Too short.", False),
    ],
)
def test_only_a_substantial_text_takes_its_place(earlier: str, is_taken: object) -> None:
    assert answer([earlier, "See above."]) == (earlier if is_taken else "See above.")


def test_a_solid_text_is_three_times_as_long_as_the_last() -> None:
    last = "I have already answered that question."
    assert answer([SOLID, last]) == last
    assert answer([SOLID, "See above."]) == SOLID


def test_the_last_substantial_text_is_taken() -> None:
    assert answer([LONG, SOLID, "Let me see.", ""]) == SOLID


def test_nothing_gives_nothing() -> None:
    assert answer([]) == ""
    assert answer(["", " "]) == " "
