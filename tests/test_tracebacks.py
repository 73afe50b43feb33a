"""Tracebacks are shortened: the first frame stays, and frames of other packages."""

import json
import traceback

import pytest

from dragoman import DragomanError, user
from dragoman.errors import InvalidRequest
from dragoman.types.tracebacks import shorten_traceback


def test_an_error_that_was_not_raised_has_nothing_to_shorten() -> None:
    error = DragomanError("no")
    shorten_traceback(error)
    assert error.__traceback__ is None


def test_the_first_frame_stays_and_those_of_the_standard_library_go() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    shorten_traceback(caught.value)
    (frame,) = traceback.extract_tb(caught.value.__traceback__)
    assert frame.filename == __file__


def test_frames_of_the_caller_stay() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        fail()
    shorten_traceback(caught.value)
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][-1] == "fail"


def test_causes_that_form_a_ring_have_an_end() -> None:
    one, other = DragomanError("one"), DragomanError("other")
    one.__cause__, other.__cause__ = other, one
    shorten_traceback(one)
    assert (one.__cause__, other.__cause__) == (other, one)


def test_a_function_that_checks_its_parameters_shows_one_frame() -> None:
    with pytest.raises(InvalidRequest) as caught:
        user(3)  # type: ignore[arg-type]
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][1:] == ["user"]
