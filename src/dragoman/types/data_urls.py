"""Base64 and data URLs."""

import binascii
import re
from collections.abc import Iterator

from dragoman.errors import InvalidRequest


def decode_base64(text: str, /) -> bytes:
    """The bytes of standard or URL-safe base64, padded or not; InvalidRequest for any other text.

    >>> decode_base64("aGk")
    b'hi'
    """
    plain = text.translate(_URL_SAFE)
    try:
        return binascii.a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
    except ValueError as error:
        raise InvalidRequest("data must be base64, got another text; encode the bytes", param="data") from error


_URL_SAFE = str.maketrans({"-": "+", "_": "/", **dict.fromkeys("\n\r\t =")})


def encode_base64(data: bytes, /) -> str:
    """Standard base64."""
    return "".join(_base64_slices(data))


def _base64_slices(data: bytes) -> Iterator[str]:
    """base64 in slices: between two of them other threads can run, such as that of an event loop."""
    view = memoryview(data)
    for start in range(0, len(data), _SLICE):
        yield binascii.b2a_base64(view[start : start + _SLICE], newline=False).decode("ascii")


_SLICE = 3 * 256 * 1024
"""Bytes; a multiple of three."""


def data_url(mime: str, data: bytes, /) -> str:
    """A data URL of some bytes.

    >>> data_url("text/plain", b"hi")
    'data:text/plain;base64,aGk='
    """
    return "".join((f"data:{mime};base64,", *_base64_slices(data)))


def is_data_url(url: str, /) -> bool:
    """Whether a URL is a data URL.

    >>> is_data_url("Data:text/plain;base64,aGk=")
    True
    """
    return url[:5].lower() == "data:"


def check_url(url: str, /) -> str:
    """The URL of something that a target fetches; InvalidRequest if it has no scheme, or is that of a file."""
    scheme = _SCHEME.match(url)
    if scheme is None or scheme[1].lower() == "file":
        hint = "use from_path for a file"  # the URL is not shown: it may hold a key
        raise InvalidRequest(f"url must start with https:// or another scheme, got another text; {hint}", param="url")
    return url


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):\S")


def split_data_url(url: str, /) -> tuple[str, bytes]:
    """MIME type and bytes of a base64 data URL; InvalidRequest for any other text.

    >>> split_data_url("data:text/plain;base64,aGk=")
    ('text/plain', b'hi')
    """
    head, comma, payload = url.partition(",")
    head = head.lower()
    if not (head.startswith("data:") and head.endswith(";base64") and comma):
        raise InvalidRequest("url must be data:<type>;base64,<data>, got another text", param="url")
    return head[5:-7].partition(";")[0].strip(), decode_base64(payload.replace("%3D", "=").replace("%3d", "="))
