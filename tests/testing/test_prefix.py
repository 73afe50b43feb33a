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


BLOCKS = b'{"messages":[{"role":"user","content":[{"text":"a"}]}]}'


def test_the_content_of_the_last_message_may_grow() -> None:
    longer = b'{"messages":[{"role":"user","content":[{"text":"a"},{"text":"b"}]},{"role":"assistant","content":[]}]}'
    assert_prefix_stable([BLOCKS, longer])
    assert_prefix_stable([BLOCKS.replace(b"]}]}", b" ] } ] }"), longer.replace(b'"},', b'"} ,')])


@pytest.mark.parametrize(
    "moved",
    [
        BLOCKS.replace(b"]}]}", b'],"name":"x"}]}'),
        BLOCKS.replace(b'[{"text":"a"}]', b'[{"text":"a","cachePoint":{}},{"text":"b"}]'),
        b'{"messages":[{"role":"user","content":[{"text":"b"},{"text":"a"}]}]}',
        b'{"messages":[{"role":"user","content":"a"}]}',
    ],
)
def test_no_other_change_of_the_last_message_passes(moved: bytes) -> None:
    with pytest.raises(AssertionError, match="moved"):
        assert_prefix_stable([BLOCKS, moved])


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
