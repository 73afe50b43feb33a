"""The text of a tool that takes free text, while the JSON around it arrives."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wires.common.raw_input import CallWriter, RawInput
from tests.support.wires.laws import split

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def pieces(text: str, cuts: list[int]) -> list[str]:
    return [part.decode() for part in split(text.encode("ascii"), cuts)]


@given(TEXTS, st.lists(st.integers(0, 200), max_size=8), st.sampled_from(['{"input":%s}', ' {\n"input" : %s }']))
def test_any_split_of_the_json_gives_the_text(text: str, cuts: list[int], form: str) -> None:
    reader = RawInput()
    assert "".join(map(reader.read, pieces(form % json.dumps(text), cuts))) == text


@given(TEXTS, st.integers(0, 200))
def test_what_is_read_is_always_the_beginning_of_the_text(text: str, cut: int) -> None:
    assert text.startswith(RawInput().read(json.dumps({"input": text})[:cut]))


@pytest.mark.parametrize(
    "data", ['{"patch":"a"}', '["input"', '{"input":1}', '{"input":"\\ud83dx"}', '{"input":"\\q"}', '{"input":"\x01"}']
)
def test_another_form_is_not_read(data: str) -> None:
    reader = RawInput()
    assert reader.read(data) == ""
    assert reader.read('{"input":"a"}') == ""


def test_nothing_follows_the_end() -> None:
    reader = RawInput()
    assert [reader.read(text) for text in ('{"input":"a"', ',"input":"b"}')] == ["a", ""]


def test_the_rest_of_a_call_is_what_was_not_written() -> None:
    writer = CallWriter(raw=True)
    assert writer.read('{"input":"ab') == "ab"
    assert writer.rest("abc") == "c"
    assert writer.rest("xyz") == ""
    plain = CallWriter(raw=False)
    assert (plain.read("{"), plain.rest("{}")) == ("{", "}")
