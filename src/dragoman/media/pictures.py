"""A picture and its bounds in, a picture within them out: shrunk, upright, written anew by Pillow."""

import struct
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from dragoman.errors import Unsupported
from dragoman.media.headers import Header, measure
from dragoman.types import Notice

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels

MAX_PIXELS = 100_000_000
"""More of them by the header are a decompression bomb."""
MAX_SIDE = 65_535
"""The longest side that a JPEG can have, and any picture that is one."""

_JPEG, _PNG, _WEBP = "image/jpeg", "image/png", "image/webp"
_STEMS = {
    _JPEG: "Jpeg",
    _PNG: "Png",
    _WEBP: "WebP",
    "image/gif": "Gif",
    "image/bmp": "Bmp",
    "image/tiff": "Tiff",
    "image/avif": "Avif",
}
"""What Pillow reads and writes, by type: the stem of its plugin's name."""
_LOSSY = (_JPEG, _WEBP, "image/avif")
_OPAQUE = (_JPEG, "image/bmp")
_BROKEN = (
    *(OSError, SyntaxError, ValueError, TypeError, EOFError, ArithmeticError, LookupError, AttributeError),
    *(RuntimeError, MemoryError, Warning, struct.error),
)
"""What Pillow raises at files that are not what they say."""
_TURNS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
"""Pillow's transposition for each orientation that EXIF has a number for."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a picture must keep to; None and an empty tuple are no bound.

    >>> Bounds(side=8000).size is None
    True
    """

    side: int | None = None
    """Pixels of the longer side."""
    size: int | None = None
    """Bytes."""
    types: tuple[str, ...] = ()
    animated: bool = True

    def hold(self, header: Header, size: int, /) -> bool:
        """Whether a picture keeps to them as it is."""
        return (
            (not self.types or header.mime in self.types)
            and (self.side is None or header.side <= self.side)
            and (self.size is None or size <= self.size)
            and (self.animated or not header.is_animated)
        )


class Picture(msgspec.Struct, frozen=True):
    """The bytes of a picture, what they are, and what was done to them.

    >>> Picture(b"...", "image/png").notices
    ()
    """

    data: bytes
    mime: str
    notices: tuple[Notice, ...] = ()


class _Try(NamedTuple):
    """One way to write a picture."""

    mime: str
    quality: int = 85
    palette: bool = False
    fraction: int = 1
    """The sides are divided by it."""


def read_header(data: bytes, /) -> Header:
    """The header of a picture that can be taken; Unsupported for what is none, is not whole, or is a bomb.

    >>> read_header(b"hello")
    Traceback (most recent call last):
        ...
    dragoman.errors.Unsupported: an image is of no type that is known
    """
    header = measure(data)
    if header is None:
        raise Unsupported("an image is of no type that is known" if data else "an image has no bytes")
    if not header.pixels:
        raise Unsupported(f"{_told(header)} has no size")
    if header.pixels > MAX_PIXELS or header.side > MAX_SIDE:
        raise Unsupported(f"{_told(header)} is too large to be decoded")
    if not header.is_whole:
        raise Unsupported(f"{_told(header)} is cut off")
    return header


def fit_picture(data: bytes, bounds: Bounds, /) -> Picture:
    """The picture itself where it keeps to the bounds, otherwise made anew; Unsupported where that cannot be.

    >>> gif = bytes.fromhex("47494638396101000100000000 2c000000000100010000 0202 4401 00 3b")
    >>> fit_picture(gif, Bounds(side=8)).data is gif
    True
    """
    header = read_header(data)
    return Picture(data, header.mime) if bounds.hold(header, len(data)) else _remade(data, header, bounds)


def _told(header: Header) -> str:
    return f"an image ({header.mime}, {header.width} by {header.height})"


# Reading --------------------------------------------------------------------------------------------------------------


def _remade(data: bytes, header: Header, bounds: Bounds) -> Picture:
    try:
        pixels, profile = decode_pixels(data, header, bounds.side)
    except _BROKEN as error:
        raise Unsupported(f"{_told(header)} cannot be decoded: {str(error) or type(error).__name__}") from error
    sizes: list[int] = []
    for way in _ways(header.mime, bounds.types, has_alpha=pixels.mode == "RGBA"):
        try:
            made = _written(pixels, way, profile)
        except (OSError, ValueError):
            continue  # a side is longer than the format has numbers for
        if bounds.size is None or len(made) <= bounds.size:
            return Picture(made, way.mime, _notices(header, pixels, way, len(made)))
        sizes.append(len(made))
    least = min(sizes, default=None)
    raise Unsupported(f"{_told(header)} cannot be made to fit: it takes {bounds.size} bytes, and the least are {least}")


def decode_pixels(data: bytes, header: Header, side: int | None) -> "tuple[Pixels, bytes | None]":
    """The pixels of its first frame, upright and in eight bits, with the profile of their colours."""
    from PIL import Image

    try:
        source = _opened(data, header.mime)
    except Image.DecompressionBombError as error:
        raise ValueError(str(error)) from error
    if source.width * source.height > MAX_PIXELS:
        raise ValueError(f"its header lies, as it has {source.width} by {source.height} pixels")
    size = _within(source.size, side)
    # A JPEG can be decoded to a half, a quarter or an eighth at a fraction of the cost.
    is_draft = source.draft(None, size) is not None
    source.load()
    if not is_draft:
        size = _within(source.size, side)  # a TIFF is turned as it is loaded
    profile = source.info.get("icc_profile") if source.mode in ("RGB", "RGBA", "P") else None
    turn = _TURNS.get(_orientation(source))
    pixels = _plain(source)
    if pixels.size != size:
        pixels = pixels.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
    if turn is not None:
        pixels = pixels.transpose(Image.Transpose(turn))
    if pixels.mode == "RGBA" and pixels.getchannel("A").getextrema() == (255, 255):
        pixels = pixels.convert("RGB")
    pixels.info = {}
    return pixels, profile


def _opened(data: bytes, mime: str) -> "Pixels":
    """The file, read by the one plugin that it is for: Pillow's own search would try others, and warn of its size."""
    if mime not in _STEMS:
        return _opened_heif(data)
    image: Pixels = getattr(_plugin(mime), f"{_STEMS[mime]}ImageFile")(BytesIO(data))
    return image


def _plugin(mime: str) -> Any:
    from importlib import import_module

    return import_module(f"PIL.{_STEMS[mime]}ImagePlugin")


def _opened_heif(data: bytes) -> "Pixels":
    from importlib import import_module

    try:
        heif: Any = import_module("pillow_heif")
    except ImportError as error:
        raise Unsupported("a HEIC image needs pillow-heif; pip install 'dragoman[heif]'") from error
    image: Pixels = heif.open_heif(BytesIO(data)).to_pillow()
    return image


def _orientation(image: "Pixels") -> int:
    """The number that its EXIF tells; what is broken there tells nothing of the pixels."""
    try:
        told: object = image.getexif().get(0x0112)
    except _BROKEN:
        return 1
    return told if isinstance(told, int) else 1


def _within(size: tuple[int, int], side: int | None) -> tuple[int, int]:
    """A size with its longer side cut to a length, in the same proportion."""
    longer = max(size)
    if side is None or longer <= side:
        return size
    width, height = (max(1, round(length * side / longer)) for length in size)
    return width, height


def _plain(image: "Pixels") -> "Pixels":
    """The same in grey, in colour, or in colour with transparency, of eight bits each."""
    if image.mode in ("I", "F"):
        low, high = cast("tuple[float, float]", image.getextrema())
        scale = 255 / (high - low or 1)
        image = image.point(lambda value: value * scale - low * scale)
    elif image.mode.startswith("I;16"):
        image = image.point(lambda value: value * (1 / 257))
    if image.has_transparency_data:
        return image.convert("RGBA")
    plain = "L" if image.mode[0] in "1LIF" and image.mode != "LAB" else "RGB"
    return image if image.mode == plain else image.convert(plain)


# Writing --------------------------------------------------------------------------------------------------------------


def _ways(mime: str, types: tuple[str, ...], *, has_alpha: bool) -> Iterator[_Try]:
    """How a picture may be written, the best first: its own format, lower qualities, another format, smaller."""
    first = _format(mime, types)
    smaller = [kind for kind in (_WEBP, _JPEG) if not types or kind in types]
    smaller.sort(key=lambda kind: has_alpha != (kind == _WEBP))
    last = first if first in _LOSSY else next(iter(smaller), first)
    yield _Try(first)
    if first == _PNG:
        yield _Try(first, palette=True)
    if last != first:
        yield _Try(last)
    if last in _LOSSY:
        yield from (_Try(last, quality) for quality in (65, 45, 30))
    yield from (_Try(last, 45, palette=last == _PNG, fraction=fraction) for fraction in (2, 4, 8))


def _format(mime: str, types: tuple[str, ...]) -> str:
    """The type to write: the picture's own where that may be, or what nearly everybody takes."""
    wanted = [kind for kind in (mime, _JPEG, _PNG, *types) if kind in _STEMS and (not types or kind in types)]
    if not wanted:
        raise Unsupported(f"an image ({mime}) cannot be made into {' or '.join(types)}")
    return wanted[0]


def _written(pixels: "Pixels", way: _Try, profile: bytes | None) -> bytes:
    from PIL.Image import Quantize, Resampling

    if way.fraction > 1:
        width, height = (max(1, length // way.fraction) for length in pixels.size)
        pixels = pixels.resize((width, height), Resampling.LANCZOS, reducing_gap=2.0)
    if way.mime in _OPAQUE and pixels.mode == "RGBA":
        pixels = _over_white(pixels)
    if way.palette:
        pixels = pixels.quantize(256, Quantize.FASTOCTREE)  # the others take seconds for a large photo
    _plugin(way.mime)
    file = BytesIO()
    # What a writer has no word for, it leaves alone.
    pixels.save(file, _STEMS[way.mime], quality=way.quality, optimize=way.palette, icc_profile=profile)
    return file.getvalue()


def _over_white(pixels: "Pixels") -> "Pixels":
    from PIL import Image

    white = Image.new("RGB", pixels.size, "white")
    white.paste(pixels, mask=pixels.getchannel("A"))
    return white


def _notices(header: Header, pixels: "Pixels", way: _Try, size: int) -> tuple[Notice, ...]:
    width, height = (max(1, length // way.fraction) for length in pixels.size)
    made = f"it is sent as {way.mime}, {width} by {height}, {size} bytes, to fit what the target takes"
    notices = [Notice(kind="told", what=_told(header), why=made)]
    if header.is_animated:
        notices.append(Notice(kind="changed", what=_told(header), why="only its first frame is sent"))
    if way.mime in _OPAQUE and pixels.mode == "RGBA":
        notices.append(Notice(kind="told", what=_told(header), why=f"{way.mime} is opaque, so it is laid over white"))
    return tuple(notices)
