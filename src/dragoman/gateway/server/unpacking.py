"""A request whose body was packed by its client in, the same with the body as it was out; never more than a limit."""

import asyncio
import zlib

from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.gateway.errors import BodyTooLarge, UnknownEncoding
from dragoman.http import HttpRequest

HEADER = "content-encoding"
PACKINGS = ("gzip", "deflate")
_EITHER = 32 + zlib.MAX_WBITS
"""zlib's word for both of them, told apart by their first bytes."""


async def unpack(http: HttpRequest, most: int, /) -> HttpRequest:
    """The request with its body unpacked, beside the event loop; at most so many bytes of it.

    >>> packed = HttpRequest(method="POST", path="/", headers={HEADER: "deflate"}, body=zlib.compress(b"{}"))
    >>> asyncio.run(unpack(packed, 100)).body
    b'{}'
    """
    packing = http.headers[HEADER].strip().lower()
    if packing in ("", "identity") or not http.body:
        return http
    if packing not in PACKINGS:
        raise UnknownEncoding(f"{HEADER}: {packing[:40]!r} is none of {', '.join(PACKINGS)}; send the body as it is")
    return replace(http, body=await asyncio.to_thread(_unpacked, http.body, most, packing))


def _unpacked(body: bytes, most: int, packing: str) -> bytes:
    pieces: list[bytes] = []
    left = most
    while body:  # a gzip may have several members
        packer = zlib.decompressobj(_EITHER)
        try:
            data = packer.decompress(body, left + 1)
        except zlib.error as error:
            raise InvalidRequest(f"the body is not {packing}, as {HEADER} says: {error}") from error
        if (left := left - len(data)) < 0:
            raise BodyTooLarge(f"the body is larger than {most} bytes when it is unpacked")
        if not packer.eof:
            raise InvalidRequest(f"the body ends before its {packing} does")
        pieces.append(data)
        body = packer.unused_data
    return b"".join(pieces)
