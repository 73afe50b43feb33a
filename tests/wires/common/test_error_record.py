import msgspec
import pytest

from dragoman import errors
from dragoman.engine.exhausted import exhausted, exhausted_class
from dragoman.errors import (
    ChainExhausted,
    ContextTooLong,
    DragomanError,
    Interrupted,
    MalformedToolCall,
    OutputError,
    RateLimited,
)
from dragoman.types import Attempt, Finish, Response, Usage, assistant
from dragoman.wires.common.error_record import ErrorRecord, dump_error, load_error

PARTIAL = Response(message=assistant("4.2"), finish=Finish(reason="other"))
ERRORS = [
    ContextTooLong("too long", provider="groq", model="m", status=400, code="x", tokens=9, limit=8),
    MalformedToolCall("no object", id="call_1", name="tide", text="{", usage=Usage(input=3)),
    Interrupted("cut", partial=PARTIAL),
    OutputError("no", text="4", reasons=("$: not an object",)),
    ChainExhausted("nobody", attempts=(Attempt(target="a/b", outcome="skipped"),), retry_after=2.5),
    DragomanError("odd", retry=False, fail_over=False, count_failure=False),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_saved_and_read_back(error: DragomanError) -> None:
    saved = msgspec.json.encode(dump_error(error))
    assert msgspec.json.decode(saved)["type"] == "error"
    back = load_error(msgspec.json.decode(saved, type=ErrorRecord))
    assert type(back) is type(error)
    assert vars(back) == vars(error)
    assert str(back) == str(error)


def test_every_class_of_the_tree_can_be_saved() -> None:
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, DragomanError) and not name.startswith("_"):
            assert type(load_error(dump_error(kind("no")))) is kind


def test_an_exhausted_chain_is_saved_as_one() -> None:
    kind = exhausted_class([errors.Overloaded("busy")])
    assert type(load_error(dump_error(kind("nobody")))) is ChainExhausted


def test_an_unknown_kind_is_a_plain_error() -> None:
    facts = ErrorRecord(kind="Tired", message="no", retry=True, fail_over=True, count_failure=True)
    assert type(load_error(facts)) is DragomanError


def test_the_class_of_a_chain_is_saved_as_that_of_its_targets() -> None:
    error = exhausted([RateLimited("slow"), RateLimited("slow")], [])
    assert isinstance(error, RateLimited)
    assert type(load_error(dump_error(error))) is not type(error)
    assert type(load_error(dump_error(RateLimited("no")))) is RateLimited
