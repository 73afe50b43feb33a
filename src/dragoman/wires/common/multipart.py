"""Forms with files (`multipart/form-data`), as clients upload them and as providers take them."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest

MAX_FIELDS = 32
MAX_FIELD_HEAD = 16 * 1024
"""Bytes of the headers of one field."""
MAX_FILE_NAME = 255
_BOUNDARY = re.compile(r';\s*boundary=(?:"([^"]{1,200})"|([^\s;]{1,200}))', re.IGNORECASE)
_PARAMETER = re.compile(r';\s*([\w*-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;]*))')


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a form: a value, or a file with its name and type."""

    data: bytes
    filename: str | None = None
    mime: str | None = None

    @property
    def text(self) -> str:
        """The value as text."""
        return self.data.decode(errors="replace")


def decode_form(http: HttpRequest, /) -> dict[str, FormField]:
    """The fields of a form, by name, the last of each; raises InvalidRequest.

    >>> body = b'--x\\r\\ncontent-disposition: form-data; name="purpose"\\r\\n\\r\\nbatch\\r\\n--x--\\r\\n'
    >>> headers = {"content-type": "multipart/form-data; boundary=x"}
    >>> decode_form(HttpRequest(method="POST", path="/", headers=headers, body=body))["purpose"].text
    'batch'
    """
    return dict(form_fields(http))


def form_fields(http: HttpRequest, /) -> list[tuple[str, FormField]]:
    """The names and fields of a form, in their order; a name may come several times. Raises InvalidRequest."""
    kind = http.headers.get("content-type", "")
    boundary = _BOUNDARY.search(kind)
    if not kind.lower().startswith("multipart/form-data") or boundary is None:
        raise InvalidRequest(
            f"content-type must be multipart/form-data with a boundary, got {kind[:80]!r}; "
            "send the file as a field of a form"
        )
    mark = b"--" + (boundary[1] or boundary[2]).encode()
    body, fields = http.body, list[tuple[str, FormField]]()
    at = _after_mark(body, 0 if body.startswith(mark) else body.find(b"\r\n" + mark) + 2, mark)
    while at is not None:
        if len(fields) >= MAX_FIELDS:
            raise InvalidRequest(f"the form must have at most {MAX_FIELDS} fields")
        end, head_end = body.find(b"\r\n" + mark, at), body.find(b"\r\n\r\n", at, at + MAX_FIELD_HEAD)
        if end < 0 or head_end < 0 or head_end > end:
            raise InvalidRequest("the form ends before its last field is complete")
        fields.append(_field(body[at:head_end], body[head_end + 4 : end]))
        at = _after_mark(body, end + 2, mark)
    return fields


def _after_mark(body: bytes, at: int, mark: bytes) -> int | None:
    """Where the field after a mark starts; None after the last mark."""
    if not body.startswith(mark, at):
        raise InvalidRequest("the form must start with the boundary of its content-type")
    at += len(mark)
    if body.startswith(b"--", at):
        return None
    line = body.find(b"\r\n", at, at + 200)
    if line < 0:
        raise InvalidRequest("the form ends before its last field is complete")
    return line + 2


def _field(head: bytes, data: bytes) -> tuple[str, FormField]:
    headers = dict[str, str]()
    for line in head.decode(errors="replace").split("\r\n"):
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    parameters = _parameters(headers.get("content-disposition", ""))
    if "name" not in parameters:
        raise InvalidRequest("every field of the form must have a name in its content-disposition")
    filename = parameters.get("filename*", parameters.get("filename"))
    return parameters["name"], FormField(data=data, filename=filename, mime=headers.get("content-type"))


def _parameters(text: str) -> dict[str, str]:
    parameters = dict[str, str]()
    for name, quoted, plain in _PARAMETER.findall(text):
        value: str = re.sub(r"\\(.)", r"\1", quoted) or plain
        if name.endswith("*"):
            value = unquote(value.rpartition("'")[2], errors="replace")
        else:  # browsers and httpx write these characters so
            value = value.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")
        parameters[name.lower()] = value
    return parameters


def encode_form(fields: Iterable[tuple[str, FormField]], /) -> tuple[Mapping[str, str], bytes]:
    """The headers and the body of a form.

    >>> headers, body = encode_form([("purpose", FormField(data=b"vision"))])
    >>> decode_form(HttpRequest(method="POST", path="/", headers=headers, body=body))["purpose"].text
    'vision'
    """
    fields = list(fields)
    boundary = _free_boundary([field.data for _, field in fields])
    pieces: list[bytes] = []
    for name, field in fields:
        head = f'--{boundary}\r\ncontent-disposition: form-data; name="{_quoted(name)}"'
        if field.filename is not None:
            head += f'; filename="{_quoted(field.filename)}"'
        if field.mime is not None:
            head += f"\r\ncontent-type: {field.mime}"
        pieces += [head.encode(), b"\r\n\r\n", field.data, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode())
    return {"content-type": f"multipart/form-data; boundary={boundary}"}, b"".join(pieces)


def _free_boundary(data: list[bytes]) -> str:
    """A boundary that occurs in no file, the same one for the same form."""
    number = 0
    while any(f"dragoman-form-{number}".encode() in each for each in data):
        number += 1
    return f"dragoman-form-{number}"


def _quoted(text: str) -> str:
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def base_name(name: str | None, /) -> str | None:
    """The last part of a path, at most 255 characters; None for an empty one.

    >>> base_name("C:\\\\notes\\\\a.pdf"), base_name("../../etc/passwd"), base_name("")
    ('a.pdf', 'passwd', None)
    """
    last = re.split(r"[/\\]", name or "")[-1]
    return "".join(char for char in last if char.isprintable())[-MAX_FILE_NAME:] or None
