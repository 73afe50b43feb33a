"""Answers against their schema."""

import pytest

from dragoman.errors import OutputError
from dragoman.schema.check_answer import check_answer


def test_a_value_that_matches_is_returned() -> None:
    assert check_answer('{"a": 1}', {"type": "object"}) == {"a": 1}
    assert check_answer("anything", None) is None


@pytest.mark.parametrize("text", ["[1]", "no JSON at all"])
def test_what_does_not_match_is_an_error(text: str) -> None:
    with pytest.raises(OutputError, match="does not match its schema"):
        check_answer(text, {"type": "object"})
