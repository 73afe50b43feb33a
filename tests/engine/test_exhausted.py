from collections.abc import Sequence

import pytest

from dragoman.engine.exhausted import exhausted, exhausted_class, total_usage
from dragoman.errors import (
    ChainExhausted,
    DragomanError,
    EmptyResponse,
    Interrupted,
    InvalidRequest,
    Malformed,
    MalformedToolCall,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestError,
    Reset,
    TimedOut,
    TransportError,
    Unsupported,
)
from dragoman.types import Usage


@pytest.mark.parametrize(
    ("errors", "kind"),
    [
        ([RateLimited("a"), RateLimited("b")], RateLimited),
        ([RateLimited("a"), Overloaded("b")], ProviderError),
        ([TimedOut("a"), Reset("b")], TransportError),
        ([Unsupported("a"), Unsupported("b")], Unsupported),
        ([Unsupported("a"), InvalidRequest("b")], RequestError),
        ([EmptyResponse("a"), Interrupted("b"), Reset("c")], Interrupted),
    ],
)
def test_it_is_also_what_its_errors_have_in_common(errors: Sequence[DragomanError], kind: type[DragomanError]) -> None:
    made = exhausted_class(errors)
    assert issubclass(made, ChainExhausted)
    assert issubclass(made, kind)
    assert made.http_status == kind.http_status
    assert made is exhausted_class(errors)


@pytest.mark.parametrize("errors", [[], [EmptyResponse("a"), Reset("b")], [DragomanError("a")]])
def test_where_errors_have_nothing_in_common_it_is_only_exhausted(errors: Sequence[DragomanError]) -> None:
    assert exhausted_class(errors) is ChainExhausted


def test_an_interruption_at_the_end_has_no_partial_of_another() -> None:
    error = exhausted([MalformedToolCall("no", name="tide"), Malformed("?")], [])
    assert type(error).__name__ == "WireErrorByAll"
    assert not hasattr(error, "partial")
    assert not hasattr(error, "text")


def test_usage_is_summed_as_far_as_it_was_told() -> None:
    assert total_usage([]) is None
    assert total_usage([Reset("x"), Reset("y", usage=Usage(input=1))]) == Usage(input=1)
    both = [Reset("x", usage=Usage(input=1)), Reset("y", usage=Usage(input=2, output=3))]
    assert total_usage(both) == Usage(input=3, output=3, source="partial")


def test_it_has_the_notes_of_all_and_gives_none_back() -> None:
    first, last = Unsupported("a"), Unsupported("b")
    first.add_note("one")
    last.add_note("two")
    error = exhausted([first, last], [])
    error.add_note("three")
    assert error.__notes__ == ["one", "two", "three"]
    assert last.__notes__ == ["two"]
