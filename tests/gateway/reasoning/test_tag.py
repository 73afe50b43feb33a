"""Tags: what is put in comes out, what was changed does not, and the same state is the same text."""

import base64

from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.reasoning.tag import MAX_TAG, PREFIX, TagContent, TagKey, is_tag

KEY = TagKey(b"k" * 32, "alice")
contents = st.builds(TagContent, st.binary(max_size=400), st.booleans())


def tag_of(content: TagContent) -> str:
    tag = KEY.make(content)
    assert tag is not None
    return tag


@given(contents)
def test_a_tag_gives_back_what_it_was_made_of(content: TagContent) -> None:
    tag = tag_of(content)
    assert is_tag(tag)
    assert KEY.read(tag) == content


@given(contents)
def test_the_same_content_gives_the_same_tag(content: TagContent) -> None:
    assert tag_of(content) == TagKey(b"k" * 32, "alice").make(content)


@given(contents)
def test_a_tag_survives_clients_that_decode_and_encode_its_base64(content: TagContent) -> None:
    tag = tag_of(content)
    data = base64.b64decode(tag, validate=True)
    assert base64.b64encode(data).decode() == tag
    assert KEY.read(base64.urlsafe_b64encode(data).decode()) == content


@given(contents, st.data())
def test_a_changed_tag_is_not_read(content: TagContent, data: st.DataObject) -> None:
    tag = tag_of(content)
    place = data.draw(st.integers(len(PREFIX), len(tag) - 1))
    letter = data.draw(st.sampled_from("ABCabc019"))
    changed = tag[:place] + letter + tag[place + 1 :]
    assert KEY.read(changed) in ((content,) if changed == tag else (None,))


@given(contents, st.integers(0, 60))
def test_a_cut_tag_is_not_read(content: TagContent, length: int) -> None:
    tag = tag_of(content)
    assert KEY.read(tag[: min(len(PREFIX) + length, len(tag) - 1)]) is None


@given(contents)
def test_a_tag_is_of_one_gateway_and_one_client(content: TagContent) -> None:
    tag = tag_of(content)
    assert TagKey(b"k" * 32, "bob").read(tag) is None
    assert TagKey(b"k" * 32, None).read(tag) is None
    assert TagKey(b"j" * 32, "alice").read(tag) is None


@given(st.text(max_size=80))
def test_any_text_after_the_prefix_is_read_without_an_error(text: str) -> None:
    assert KEY.read(PREFIX + text) is None


def test_a_later_version_is_not_read() -> None:
    data = bytearray(base64.b64decode(tag_of(TagContent(b"x" * 10))[len(PREFIX) :]))
    data[0] = (data[0] & 0x0F) | 0x20
    assert KEY.read(PREFIX + base64.b64encode(data).decode()) is None


def test_a_tag_is_compact() -> None:
    signature = base64.b64encode(bytes(range(256)) * 8).decode()
    assert len(tag_of(TagContent(signature.encode()))) < len(signature) * 1.1


def test_a_tag_has_a_largest_size() -> None:
    import secrets

    assert KEY.make(TagContent(secrets.token_bytes(MAX_TAG))) is None
    assert KEY.read(PREFIX + "A" * MAX_TAG) is None


def test_digests_differ_by_client() -> None:
    assert KEY.digest("a") == KEY.digest("a") != TagKey(b"k" * 32, "bob").digest("a")
