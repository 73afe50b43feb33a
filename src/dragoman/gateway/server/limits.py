"""Limits on the body of a request: how deep its JSON is nested, and how large a compressed body gets.

Depth is counted on the bytes, before the JSON is decoded. Decompression stops as soon as the limit is passed, and runs
in a thread so that other requests go on.
"""

import asyncio
import re
import zlib
from typing import Protocol, Self

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
MAX_MEMBERS = 10_000
"""Gzip members of one body; programs that write many make one for each 64 KiB."""
_PIECE = 16 * 1024
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
    work = _Decompression(http.body, max_body, encoding)
    try:
        return replace(http, body=await asyncio.to_thread(work.run))
    except asyncio.CancelledError:
        work.is_cancelled = True
        raise


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes | memoryview, max_length: int, /) -> bytes: ...


class _Decompression:
    """Decompresses a body in small pieces, so that the rest after each gzip member is small and cheap to copy."""

    def __init__(self, body: bytes, max_body: int, encoding: str) -> None:
        self.is_cancelled = False
        self._body = memoryview(body)
        self._max_body = max_body
        self._encoding = encoding
        self._remaining = max_body
        self._members = 0

    def run(self) -> bytes:
        output: list[bytes] = []
        decompressor = self._new_member()
        for start in range(0, len(self._body), _PIECE):
            if self.is_cancelled:
                return b""
            piece: bytes | memoryview = self._body[start : start + _PIECE]
            while piece:
                if decompressor.eof:
                    decompressor = self._new_member()
                output.append(self._decompress(decompressor, piece))
                piece = decompressor.unused_data
        if not decompressor.eof:
            raise InvalidRequest(f"the body ends before its {self._encoding} data is complete")
        return b"".join(output)

    def _new_member(self) -> _Decompressor:
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise InvalidRequest(f"the body has more than {MAX_MEMBERS} gzip members")
        return zlib.decompressobj(_ANY_ZLIB)

    def _decompress(self, decompressor: _Decompressor, piece: bytes | memoryview) -> bytes:
        try:
            data = decompressor.decompress(piece, self._remaining + 1)
        except zlib.error as error:
            message = f"the body must be {self._encoding}, as {CONTENT_ENCODING} says: {error}"
            raise InvalidRequest(message) from error
        self._remaining -= len(data)
        if self._remaining < 0:
            raise BodyTooLarge(f"the decompressed body is larger than {self._max_body} bytes")
        return data
