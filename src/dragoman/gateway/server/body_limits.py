"""Limits on the body of a request: its size, the structure of its JSON, and how large a compressed body gets.

The structure is counted on the bytes, before the JSON is decoded. Decompression stops as soon as the limit is passed.
Both run in a thread if there is much to do, so that other requests go on.
"""

import asyncio
import threading
import zlib
from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.gateway.config import GatewaySettings
from dragoman.gateway.errors import BodyTooLarge, Busy, UnknownEncoding
from dragoman.http import HttpRequest
from dragoman.types.json_size import find_excess

T = TypeVar("T")

MAX_HEADERS = 64 * 1024
"""Bytes of all headers of a request."""
MAX_DRAINED = 64 * 1024 * 1024
"""Bytes above `max_body` that are read and dropped: many clients read no response before they sent their whole body."""
CONTENT_ENCODING = "content-encoding"
ENCODINGS = ("gzip", "deflate")
MAX_MEMBERS = 10_000
"""Gzip members of one body; programs that write many make one for each 64 KiB."""
_PIECE = 16 * 1024
_OUTPUT_PIECE = 64 * 1024
"""Bytes that are decompressed before they are counted."""
LARGE_BODY = 128 * 1024
"""Bytes of a body that is decoded in a thread."""
_ANY_ZLIB = 32 + zlib.MAX_WBITS
"""zlib finds out by the first bytes whether it is gzip or deflate."""


class BodyMemory:
    """The bytes of all request bodies that a worker holds."""

    def __init__(self) -> None:
        self.held = 0
        self.lock = threading.Lock()
        """For `held`: bodies are decompressed in threads."""

    def request(self, settings: GatewaySettings, /) -> "BodyBytes":
        """Count the body of one request, until it has been answered."""
        return BodyBytes(self, settings)


class BodyBytes:
    """The bytes of one request body, counted as they arrive."""

    __slots__ = ("_held", "_is_over", "_memory", "_settings")

    def __init__(self, memory: BodyMemory, settings: GatewaySettings, /) -> None:
        self._memory = memory
        self._settings = settings
        self._held = 0
        self._is_over = False

    def add(self, size: int, /) -> None:
        """Count bytes before they are held; raises Busy if the bodies of all requests are too large together."""
        with self._memory.lock:
            # One body of the largest size always fits, and so does a file alone.
            limit = max(self._settings.max_body_memory, self._settings.max_body)
            if size > 0 and self._memory.held > 0 and self._memory.held + size > limit:
                raise Busy(f"the bodies of all requests have {limit} bytes; try again later", retry_after=1.0)
            self._count(size)

    def keep(self, size: int, /) -> None:
        """Count bytes that are held already."""
        with self._memory.lock:
            self._count(size)

    def _count(self, size: int) -> None:
        if not self._is_over:  # a thread may work on for a moment after its request has ended
            self._held += size
            self._memory.held += size

    def hold(self, size: int, /) -> None:
        """Count this many bytes instead of those before; raises Busy."""
        self.add(size - self._held)

    def release(self) -> None:
        """Give all bytes back."""
        with self._memory.lock:
            self._is_over = True
            self._memory.held -= self._held
            self._held = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def has_body(http: HttpRequest, /) -> bool:
    """Whether a body follows the headers of a request.

    >>> has_body(HttpRequest(method="POST", path="/", headers={"content-length": "0"}))
    False
    """
    return http.headers.get("content-length", "0").strip() != "0" or "transfer-encoding" in http.headers


async def decode_body(
    http: HttpRequest, settings: GatewaySettings, decode: Callable[[HttpRequest], T], /, *, is_json: bool = True
) -> T:
    """Check the structure of a JSON body and decode it; a large one in a thread, so that other requests go on."""
    if len(http.body) > LARGE_BODY:
        return await asyncio.to_thread(_decode, http, settings if is_json else None, decode)
    return _decode(http, settings if is_json else None, decode)


def _decode(http: HttpRequest, settings: GatewaySettings | None, decode: Callable[[HttpRequest], T]) -> T:
    if settings is not None:
        check_structure(http.body, settings)
    return decode(http)


def check_structure(body: bytes, settings: GatewaySettings, /) -> None:
    """Raise InvalidRequest if the JSON is nested too deep, or has too many objects, keys or values."""
    excess = find_excess(body, depth=settings.max_depth, objects=settings.max_objects)
    if excess is not None:
        raise InvalidRequest(f"the body {excess}")


async def decompress(http: HttpRequest, max_body: int, body_bytes: BodyBytes, /) -> HttpRequest:
    """The request with its body decompressed. The bytes are counted as they appear."""
    encoding = http.headers[CONTENT_ENCODING].strip().lower()
    if encoding in ("", "identity") or not http.body:
        return http
    if encoding not in ENCODINGS:
        raise UnknownEncoding(
            f"{CONTENT_ENCODING} must be one of {', '.join(ENCODINGS)}, got {encoding[:40]!r}; send it uncompressed"
        )
    work = _Decompression(http.body, max_body, encoding, body_bytes)
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

    @property
    def unconsumed_tail(self) -> bytes: ...

    def decompress(self, data: bytes | memoryview, max_length: int, /) -> bytes: ...


class _Decompression:
    """Decompresses a body in small pieces, so that the rest after each gzip member is small and cheap to copy."""

    def __init__(self, body: bytes, max_body: int, encoding: str, body_bytes: BodyBytes) -> None:
        self.is_cancelled = False
        self._body_bytes = body_bytes
        self._body = memoryview(body)
        self._max_body = max_body
        self._encoding = encoding
        self._remaining = max_body
        self._members = 0

    def run(self) -> bytes:
        output: list[bytes] = []
        decompressor = self._new_member()
        for start in range(0, len(self._body), _PIECE):
            piece: bytes | memoryview = self._body[start : start + _PIECE]
            data = b""
            while piece or len(data) == _OUTPUT_PIECE:  # after so much output, there may be more without more input
                if self.is_cancelled:
                    return b""
                if decompressor.eof:
                    if not piece:
                        break
                    decompressor = self._new_member()
                data = self._decompress(decompressor, piece)
                output.append(data)
                piece = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
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
            data = decompressor.decompress(piece, _OUTPUT_PIECE)
        except zlib.error as error:
            message = f"the body must be {self._encoding}, as {CONTENT_ENCODING} says: {error}"
            raise InvalidRequest(message) from error
        self._remaining -= len(data)
        if self._remaining < 0:
            raise BodyTooLarge(f"the decompressed body is larger than {self._max_body} bytes")
        self._body_bytes.add(len(data))
        return data
