"""The first bytes of a picture in, its type and size in pixels out."""

import struct


def measure(data: bytes, /) -> tuple[str, int, int] | None:
    """Type, width and height of a PNG, GIF, JPEG or WebP; None for what is none of them.

    >>> measure(b"GIF89a" + bytes([2, 0, 3, 0]))
    ('GIF', 2, 3)
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        return "PNG", *struct.unpack(">II", data[16:24])
    if data.startswith(b"GIF8") and len(data) >= 10:
        return "GIF", *struct.unpack("<HH", data[6:10])
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 30:
        return _measure_webp(data)
    return _measure_jpeg(data) if data.startswith(b"\xff\xd8\xff") else None


def _measure_webp(data: bytes) -> tuple[str, int, int]:
    if data[12:16] == b"VP8X":
        return "WebP", 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if data[12:16] == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return "WebP", 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = struct.unpack("<HH", data[26:30])
    return "WebP", width & 0x3FFF, height & 0x3FFF


def _measure_jpeg(data: bytes) -> tuple[str, int, int] | None:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return "JPEG", width, height
        at += 2 + length
    return None
