"""`assert_prefix_stable`, which users call in their own tests."""

import pytest

from dragoman.http import HttpRequest
from dragoman.testing import assert_prefix_stable

FIRST = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
SECOND = b'{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"a"}]}'


def test_a_conversation_that_grows_passes() -> None:
    assert_prefix_stable([FIRST, HttpRequest(method="POST", path="/", body=SECOND), SECOND])
    assert_prefix_stable([])
    assert_prefix_stable([b'{"input": [ "a" ] }\n', b'{"input": [ "a", "b" ] }'.replace(b'"a",', b'"a" ,')])


def test_the_message_shows_the_first_byte_that_moved() -> None:
    moved = SECOND.replace(b'"hi"', b'"ho"')
    with pytest.raises(AssertionError) as caught:
        assert_prefix_stable([FIRST, moved])
    head, old, new, mark = str(caught.value).splitlines()
    assert head == "request 2 must begin with the bytes of request 1, but byte 52 moved:"
    assert (FIRST[52:53], moved[52:53]) == (b"i", b"o")
    assert old.endswith('"content":"hi"}')
    assert new[mark.index("^")] == "o"


def test_a_request_that_is_cut_is_shown_at_its_end() -> None:
    with pytest.raises(AssertionError, match="byte 25 moved"):
        assert_prefix_stable([FIRST, b'{"model":"m","messages":[]}'])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"messages":[],"model":"m"}', "the last member of request 1 must be one of the lists"),
        (b"[]", "got None"),
        (b"{}", "got None"),
        (b'{"messages":{}}', "got 'messages'"),
        (b"hello", "the body of request 1 must be JSON"),
    ],
)
def test_a_body_without_a_list_at_its_end_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        assert_prefix_stable([body])
