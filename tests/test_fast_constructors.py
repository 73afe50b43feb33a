"""Values that are made without checks are those of the constructors."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.errors import InvalidRequest
from dragoman.types import Cost, Message, Request, Text, Usage
from dragoman.types.fast_constructors import new_cost, new_usage, text_message, text_request
from dragoman.types.messages import Role

TEXTS = st.text(st.characters(codec="utf-8"))
COUNTS = st.none() | st.integers()
ROLES: st.SearchStrategy[Role] = st.sampled_from(("user", "assistant", "system"))


@given(ROLES, TEXTS)
def test_a_message_of_one_text(role: Role, text: str) -> None:
    message = text_message(role, text)
    assert message == Message(role=role, parts=(Text(text),))
    part = message.parts[0]
    assert isinstance(part, Text)
    message.extra["wire"] = part.extra["wire"] = {}
    assert text_message(role, text) == Message(role=role, parts=(Text(text),))


@given(
    messages=st.lists(st.builds(text_message, ROLES, TEXTS)).map(tuple),
    system=st.none() | TEXTS,
    temperature=st.none() | st.floats(0, 2),
    top_p=st.none() | st.floats(0, 1),
    max_tokens=st.none() | st.integers(1, 10**6),
    stream=st.booleans(),
)
def test_a_request_of_texts(
    messages: tuple[Message, ...],
    system: str | None,
    temperature: float | None,
    top_p: float | None,
    max_tokens: int | None,
    *,
    stream: bool,
) -> None:
    made = text_request(messages, system, temperature, top_p, max_tokens, stream=stream)
    assert made == Request(
        messages=messages, system=system, temperature=temperature, top_p=top_p, max_tokens=max_tokens, stream=stream
    )
    made.extra["wire"] = {}
    made.metadata["name"] = "value"
    assert not text_request((), None, None, None, None, stream=False).extra
    assert not text_request((), None, None, None, None, stream=False).metadata


@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
@example(2**64 - 1, -(2**63), 0, None, None)
def test_a_usage(
    input: int | None, output: int | None, read: int | None, written: int | None, reasoning: int | None
) -> None:
    try:
        usage = Usage(input=input, output=output, cache_read=read, cache_write=written, reasoning=reasoning)
    except InvalidRequest as error:
        with pytest.raises(InvalidRequest, match=f"^{re.escape(error.message)}$"):
            new_usage(input, output, read, written, reasoning)
    else:
        assert new_usage(input, output, read, written, reasoning) == usage


@pytest.mark.parametrize("counts", [(-1, 2**70), (-(2**70), None), (2**64, None), (None, -(2**63) - 1)])
def test_a_count_of_more_than_64_bits_is_refused(counts: tuple[int | None, int | None]) -> None:
    with pytest.raises(InvalidRequest, match="put must be an int"):
        new_usage(*counts)


def test_a_cost() -> None:
    assert new_cost(0.5, "a list", "2026-11-09") == Cost(usd=0.5, source="a list", date="2026-11-09")
