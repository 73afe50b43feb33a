import pickle
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
    combined = exhausted_class(errors)
    assert issubclass(combined, ChainExhausted)
    assert issubclass(combined, kind)
    assert combined.__name__ == kind.__name__
    assert combined.http_status == kind.http_status
    assert combined is exhausted_class(errors)


def test_it_is_the_same_after_pickling() -> None:
    error = exhausted([RateLimited("a"), RateLimited("b")], [], retry_after=2.0)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled here
    assert type(copy) is type(error)
    assert (str(copy), copy.retry_after) == (str(error), 2.0)


@pytest.mark.parametrize("errors", [[], [EmptyResponse("a"), Reset("b")], [DragomanError("a")]])
def test_errors_that_have_nothing_in_common_give_a_plain_chain_exhausted(errors: Sequence[DragomanError]) -> None:
    assert exhausted_class(errors) is ChainExhausted


def test_an_interruption_at_the_end_has_no_partial_of_another() -> None:
    error = exhausted([MalformedToolCall("no", name="tide"), Malformed("?")], [])
    assert type(error).__name__ == "WireError"
    assert not hasattr(error, "partial")
    assert not hasattr(error, "text")


def test_known_usage_is_summed() -> None:
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
