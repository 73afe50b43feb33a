"""Forms with files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.wires.common.multipart import MAX_FIELDS, FormField, decode_form, encode_form

KIND = "multipart/form-data; boundary=x"


def post(body: bytes, kind: str = KIND) -> HttpRequest:
    return HttpRequest(method="POST", path="/", headers={"content-type": kind}, body=body)


NAMES = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters='%\\"'), min_size=1, max_size=20)
FIELDS = st.dictionaries(
    NAMES,
    st.builds(
        FormField,
        data=st.binary(max_size=200) | st.sampled_from([b"dragoman-form-0", b"\r\n--dragoman-form-0--\r\n", b"--x"]),
        filename=st.none() | NAMES,
        mime=st.none() | st.just("application/pdf"),
    ),
    max_size=5,
)


@given(FIELDS)
def test_decode_undoes_encode(fields: dict[str, FormField]) -> None:
    headers, body = encode_form(fields.items())
    assert decode_form(HttpRequest(method="POST", path="/", headers=headers, body=body)) == fields


@given(st.binary(max_size=300))
def test_any_bytes_are_a_form_or_refused(data: bytes) -> None:
    for body in (data, b"--x\r\n" + data, b"--x\r\ncontent-disposition: form-data; name=a\r\n\r\n" + data):
        try:
            decode_form(post(body))
        except InvalidRequest:
            continue


def test_the_boundary_does_not_occur_in_a_file() -> None:
    field = FormField(data=b"--dragoman-form-0--", filename="a")
    headers, body = encode_form([("a", field)])
    assert decode_form(HttpRequest(method="POST", path="/", headers=headers, body=body)) == {"a": field}


def test_names_in_other_encodings_are_read() -> None:
    body = (
        b"preamble\r\n--x\r\nContent-Disposition: form-data; name=\"a\"; filename*=UTF-8''%C3%A9t%C3%A9.pdf\r\n\r\n1\r\n"
        b'--x\r\nContent-Disposition: form-data; name=b; filename="say %22hi\\".txt"\r\n\r\n2\r\n--x--'
    )
    fields = decode_form(post(body, 'multipart/form-data; boundary="x"'))
    assert (fields["a"].filename, fields["b"].filename) == ("été.pdf", 'say "hi".txt')


@pytest.mark.parametrize(
    ("body", "kind", "why"),
    [
        (b"{}", "application/json", "content-type must be multipart/form-data"),
        (b"{}", "multipart/form-data", "with a boundary"),
        (b"{}", KIND, "must start with the boundary"),
        (b"--x", KIND, "ends before its last field"),
        (b"--x\r\n", KIND, "ends before its last field"),
        (b"--x\r\ncontent-disposition: form-data; name=a\r\n\r\n1", KIND, "ends before its last field"),
        (b"--x\r\ncontent-type: a/b\r\n\r\n1\r\n--x--", KIND, "must have a name"),
    ],
)
def test_a_body_that_is_not_a_form_is_refused(body: bytes, kind: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        decode_form(post(body, kind))


def test_a_form_has_not_too_many_fields() -> None:
    headers, body = encode_form((str(i), FormField(data=b"")) for i in range(MAX_FIELDS + 1))
    with pytest.raises(InvalidRequest, match="at most 32 fields"):
        decode_form(HttpRequest(method="POST", path="/", headers=headers, body=body))


def test_the_boundary_is_not_in_a_file() -> None:
    data = b"--dragoman-form-0\r\n"
    headers, body = encode_form([("file", FormField(data=data))])
    form = decode_form(HttpRequest(method="POST", path="/", headers=headers, body=body))
    assert form["file"].data == data
