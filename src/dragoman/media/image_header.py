"""Reads the headers of an image: its size, its frames, and whether the file is complete. No pixel is decoded.

Each reader follows the structure of its format with a bounded number of steps. If the structure goes past the end of
the data, the file is truncated.
"""

import re
import struct
from collections.abc import Callable, Iterator

import msgspec

from dragoman.media.sniff import sniff
from dragoman.types.checks import as_bytes

MAX_STEPS = 100_000
"""Chunks, blocks or segments of one file; more of them are an attack."""


class ImageHeader(msgspec.Struct, frozen=True):
    """What the headers of an image say.

    >>> ImageHeader("image/png", 100, 50).side
    100
    """

    mime: str
    width: int
    height: int
    is_whole: bool = True
    """Whether the file is complete."""
    is_animated: bool = False
    scans: int = 1
    """How often a decoder goes over all pixels."""

    @property
    def side(self) -> int:
        """The longer side."""
        return max(self.width, self.height)

    @property
    def pixels(self) -> int:
        """The number of pixels to decode."""
        return self.width * self.height


def measure(data: bytes, /) -> ImageHeader | None:
    """The header of an image; None if it cannot be read.

    >>> measure(b"GIF89a" + bytes([2, 0, 3, 0, 0, 0, 0]) + b",....").width
    2
    """
    mime = sniff(as_bytes("data", data))
    if mime is None:
        return None
    try:
        return _READERS[mime](data, mime)
    except (struct.error, IndexError):
        return None


def _png(data: bytes, mime: str) -> ImageHeader | None:
    first, width, height = struct.unpack_from(">4sII", data, 12)
    if first != b"IHDR":
        return None
    at, animated = 8, False
    for _ in range(MAX_STEPS):
        if at + 12 > len(data):
            break
        size, name = struct.unpack_from(">I4s", data, at)
        at += 12 + size
        if name == b"IEND":
            return ImageHeader(mime, width, height, at <= len(data), animated)
        animated = animated or name == b"acTL"
    return ImageHeader(mime, width, height, is_whole=False, is_animated=animated)


def _jpeg(data: bytes, mime: str) -> ImageHeader | None:
    at, frame = 2, None
    for _ in range(MAX_STEPS):
        if data[at + 1] == 0xFF:
            at = len(data) - len(data[at:].lstrip(b"\xff")) - 1
        mark, marker, length = struct.unpack_from(">BBH", data, at)
        if mark != 0xFF:
            return None
        if marker in _FRAMES:
            frame = (marker, *struct.unpack_from(">HHB", data, at + 5))
        if marker == _SCAN:
            if frame is None:
                return None
            coding, height, width, parts = frame
            # Coded pixels never contain an end marker.
            is_whole = data.rfind(b"\xff\xd9", at) >= 0
            is_one = coding not in _PROGRESSIVE and data[at + 4] >= parts
            return ImageHeader(mime, width, height, is_whole, scans=1 if is_one else _scans(data, at))
        at += 2 + length
        if at + 4 > len(data):
            break
    return None if frame is None else ImageHeader(mime, frame[2], frame[1], is_whole=False)


_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE = (0xC2, 0xC6, 0xCA, 0xCE)
_SCAN, _END = 0xDA, 0xD9
_MARKER = re.compile(rb"\xff[^\x00\x01\xff\xd0-\xd7]")
"""The start of a segment: neither coded pixels nor a restart marker."""
_FEW_SCANS = 16


def _scans(data: bytes, at: int) -> int:
    """The number of scans from the first on."""
    upper_bound = data.count(b"\xff\xda", at)
    if upper_bound <= _FEW_SCANS:
        return upper_bound
    count = 0
    for _ in range(MAX_STEPS):
        mark = _MARKER.search(data, at)
        if mark is None or data[mark.start() + 1] == _END:
            return count
        count += data[mark.start() + 1] == _SCAN
        at = mark.end() + int.from_bytes(data[mark.end() : mark.end() + 2], "big")
    return MAX_STEPS


def _gif(data: bytes, mime: str) -> ImageHeader:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at, frames = 13 + _table(flags), 0
    for _ in range(MAX_STEPS):
        kind = data[at : at + 1]
        if kind == b";":
            return ImageHeader(mime, width, height, frames > 0, frames > 1)
        if kind == b"," and at + 10 < len(data):
            frames += 1
            at = _after_blocks(data, at + 11 + _table(data[at + 9]))
        elif kind == b"!":
            at = _after_blocks(data, at + 2)
        else:
            break
    # Some writers omit the last byte, and every reader accepts that.
    return ImageHeader(mime, width, height, frames > 0 and at == len(data), frames > 1)


def _table(flags: int) -> int:
    """Bytes of a colour table."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _after_blocks(data: bytes, at: int) -> int:
    """The position after a sequence of blocks with their sizes, which ends with an empty one."""
    end = len(data)
    while at < end and (size := data[at]):
        at += 1 + size
    return at + 1


def _webp(data: bytes, mime: str) -> ImageHeader | None:
    kind, is_whole = data[12:16], 8 + int.from_bytes(data[4:8], "little") <= len(data)
    if kind == b"VP8X":
        flags, sides = data[20], data[24:30].ljust(6, b"\0")
        width, height = (1 + int.from_bytes(side, "little") for side in (sides[:3], sides[3:]))
        return ImageHeader(mime, width, height, is_whole, bool(flags & 2))
    if kind == b"VP8L":
        bits: int = struct.unpack_from("<I", data, 21)[0]
        return ImageHeader(mime, 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF), is_whole)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return ImageHeader(mime, width & 0x3FFF, height & 0x3FFF, is_whole)
    return None


def _bmp(data: bytes, mime: str) -> ImageHeader:
    size, start = struct.unpack_from("<2xI4xI", data)
    header_size: int = struct.unpack_from("<I", data, 14)[0]
    width, height = struct.unpack_from("<HH" if header_size == 12 else "<ii", data, 18)
    return ImageHeader(mime, max(width, 0), abs(height), start < len(data) >= size)


def _tiff(data: bytes, mime: str) -> ImageHeader | None:
    order = "<" if data[:2] == b"II" else ">"
    place: int = struct.unpack_from(order + "I", data, 4)[0]
    count: int = struct.unpack_from(order + "H", data, place)[0]
    tags: dict[int, list[int]] = {}
    for at in range(place + 2, place + 2 + 12 * count, 12):
        tag, kind, many = struct.unpack_from(order + "HHI", data, at)
        letter = {3: "H", 4: "I"}.get(kind)
        if tag in _TIFF_TAGS and letter and many <= MAX_STEPS:
            layout = f"{order}{many}{letter}"
            spot: int = at + 8 if struct.calcsize(layout) <= 4 else struct.unpack_from(order + "I", data, at + 8)[0]
            tags[tag] = list(struct.unpack_from(layout, data, spot))
    if not (tags.get(256) and tags.get(257)):
        return None
    starts, sizes = tags.get(273) or tags.get(324, []), tags.get(279) or tags.get(325, [])
    ends = [start + size for start, size in zip(starts, sizes, strict=False)]
    more: int = struct.unpack_from(order + "I", data, place + 2 + 12 * count)[0]
    return ImageHeader(mime, tags[256][0], tags[257][0], max(ends, default=len(data) + 1) <= len(data), more > 0)


_TIFF_TAGS = (256, 257, 273, 279, 324, 325)
"""Width, height, and the positions and sizes of the strips or tiles."""


def _iso(data: bytes, mime: str) -> ImageHeader | None:
    """AVIF and HEIC: boxes in boxes. The largest image counts, because tiles and previews have sizes, too."""
    boxes = list(_boxes(data, 0, len(data)))
    is_whole = bool(boxes) and boxes[-1][2] <= len(data) and any(name == b"mdat" for name, _, _ in boxes)
    sizes: list[tuple[int, int]] = []
    for name, start, end in boxes:
        if name == b"meta":
            sizes += _extents(data, start + 4, min(end, len(data)))
    if not sizes:
        return None
    width, height = max(sizes, key=lambda size: size[0] * size[1])
    return ImageHeader(mime, width, height, is_whole, data[8:12] in (b"avis", b"msf1", b"hevc"))


def _extents(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The sizes in the item properties."""
    spans = [(start, end)]
    for kind in (b"iprp", b"ipco"):
        boxes = (box for span in spans for box in _boxes(data, *span))
        spans = [(inner, min(last, end)) for name, inner, last in boxes if name == kind]
    for span in spans:
        for name, inner, _ in _boxes(data, *span):
            if name == b"ispe":
                yield struct.unpack_from(">II", data, inner + 4)


def _boxes(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and end of each box; the last may end after the data."""
    for _ in range(MAX_STEPS):
        if at + 8 > end:
            break
        size, name = struct.unpack_from(">I4s", data, at)
        head = 8
        if size == 1:
            size, head = struct.unpack_from(">Q", data, at + 8)[0], 16
        last = end if size == 0 else at + max(size, head)
        yield name, at + head, last
        at = last


_READERS: dict[str, Callable[[bytes, str], ImageHeader | None]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
    "image/bmp": _bmp,
    "image/tiff": _tiff,
    "image/avif": _iso,
    "image/heic": _iso,
    "image/heif": _iso,
}
