"""Limits on the body of a request: how deep its JSON is nested, and how large a compressed body gets.

Depth is counted on the bytes, before the JSON is decoded. Decompression stops as soon as the limit is passed, and runs
in a thread so that other requests go on.
"""

import asyncio
import re
import zlib
from typing import Self

from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.gateway.config import GatewaySettings
from dragoman.gateway.errors import BodyTooLarge, Busy, UnknownEncoding
from dragoman.http import HttpRequest

MAX_HEADERS = 64 * 1024
"""Bytes of all headers of a request."""
MAX_DRAINED = 64 * 1024 * 1024
"""Bytes above `max_body` that are read and dropped: many clients read no response before they sent their whole body."""
CONTENT_ENCODING = "content-encoding"
ENCODINGS = ("gzip", "deflate")
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[][{}]', re.DOTALL)
_DEPTH_STEP = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}
_ANY_ZLIB = 32 + zlib.MAX_WBITS
"""zlib finds out by the first bytes whether it is gzip or deflate."""


class BodyBudget:
    """The bytes of all request bodies that a worker holds."""

    def __init__(self) -> None:
        self.held = 0

    def request(self, limits: GatewaySettings, /) -> "BodyBytes":
        """Count the body of one request, until it has been answered."""
        return BodyBytes(self, limits)


class BodyBytes:
    """The bytes of one request body, counted as they arrive."""

    __slots__ = ("_budget", "_held", "_limits")

    def __init__(self, budget: BodyBudget, limits: GatewaySettings, /) -> None:
        self._budget = budget
        self._limits = limits
        self._held = 0

    def add(self, size: int, /) -> None:
        """Count bytes before they are held; raises Busy if the bodies of all requests are too large together."""
        # One body of the largest size always fits.
        limit = max(self._limits.max_body_memory, self._limits.max_body)
        if self._budget.held + size > limit:
            raise Busy(f"the bodies of all requests have {limit} bytes; try again later", retry_after=1.0)
        self._held += size
        self._budget.held += size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.held -= self._held


def check_depth(body: bytes, max_depth: int, /) -> None:
    """Raise InvalidRequest if the JSON is nested too deep."""
    if body.count(b"{") + body.count(b"[") <= max_depth:
        return
    depth = 0
    for bracket in _STRING_OR_BRACKET.findall(body):
        depth += _DEPTH_STEP.get(bracket, 0)
        if depth > max_depth:
            raise InvalidRequest(f"the body is nested more than {max_depth} levels deep")


async def decompress(http: HttpRequest, max_body: int, /) -> HttpRequest:
    """The request with its body decompressed."""
    encoding = http.headers[CONTENT_ENCODING].strip().lower()
    if encoding in ("", "identity") or not http.body:
        return http
    if encoding not in ENCODINGS:
        raise UnknownEncoding(
            f"{CONTENT_ENCODING} must be one of {', '.join(ENCODINGS)}, got {encoding[:40]!r}; send it uncompressed"
        )
    return replace(http, body=await asyncio.to_thread(_decompress, http.body, max_body, encoding))


def _decompress(body: bytes, max_body: int, encoding: str) -> bytes:
    pieces: list[bytes] = []
    remaining = max_body
    while body:  # a gzip file may have several members
        decompressor = zlib.decompressobj(_ANY_ZLIB)
        try:
            data = decompressor.decompress(body, remaining + 1)
        except zlib.error as error:
            raise InvalidRequest(f"the body must be {encoding}, as {CONTENT_ENCODING} says: {error}") from error
        if (remaining := remaining - len(data)) < 0:
            raise BodyTooLarge(f"the decompressed body is larger than {max_body} bytes")
        if not decompressor.eof:
            raise InvalidRequest(f"the body ends before its {encoding} data is complete")
        pieces.append(data)
        body = decompressor.unused_data
    return b"".join(pieces)
