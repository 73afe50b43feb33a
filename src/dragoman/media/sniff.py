"""The type of an image by its first bytes: a file name or a caller may be wrong."""

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
)
_BRANDS = (
    ("image/avif", (b"avif", b"avis")),
    ("image/heic", (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis")),
    ("image/heif", (b"mif1", b"msf1")),
)
KNOWN = ("image/bmp", "image/webp", *dict(_SIGNATURES).values(), *dict(_BRANDS))
"""All types that `sniff` knows."""


def sniff(data: bytes, /) -> str | None:
    """The type of an image; None if it is unknown.

    >>> sniff(b"GIF89a..."), sniff(b"hello")
    ('image/gif', None)
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp":
        return _brand(data)
    if data[:2] == b"BM" and data[6:10] == b"\0\0\0\0":
        return "image/bmp"
    return next((mime for signature, mime in _SIGNATURES if data.startswith(signature)), None)


def _brand(data: bytes) -> str | None:
    """The type by the major and compatible brands of an ISO file, the most specific first."""
    end = min(int.from_bytes(data[:4], "big"), 256)
    brands = {data[8:12], *(data[at : at + 4] for at in range(16, end, 4))}
    return next((mime for mime, names in _BRANDS if not brands.isdisjoint(names)), None)
