"""Changes an image until it is within the bounds of a target: smaller, upright, in another format or quality.

The header is checked before Pillow decodes anything, so that a decompression bomb costs nothing. Then the image is
written in several ways, the best first, until one is short enough.
"""

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from dragoman.errors import TimedOut, Unsupported
from dragoman.media.image_header import ImageHeader, measure
from dragoman.media.transcode import BROKEN, MAX_PIXELS, STEMS, Decoded, decode_within, plugin, without_profile
from dragoman.types import Notice

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels

MAX_SIDE = 65_535
"""The longest side that a JPEG can have; longer ones are refused for all formats."""
MAX_SCANS = 100
MAX_PASSES = 2_000_000_000
"""Pixels times scans: a JPEG that needs more work is a bomb, even if it has few pixels."""
LARGE_PIXELS = 4_000_000
"""Pixels. Larger images are compressed with less effort, because it would take seconds."""
Stop: TypeAlias = Callable[[], bool]
"""Returns True when the time for some work is over; called between its steps."""

_JPEG, _PNG, _WEBP = "image/jpeg", "image/png", "image/webp"
_LOSSY = (_JPEG, _WEBP, "image/avif")
_OPAQUE = (_JPEG, "image/bmp")
_MAX_SIDES = {"image/avif": 32_768}
"""Longer sides can be written, but no decoder reads them."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of an image. None and an empty tuple mean no bound."""

    side: int | None = None
    """Pixels of the longer side."""
    size: int | None = None
    """Bytes."""
    types: tuple[str, ...] = ()
    animated: bool = True

    def allow(self, header: ImageHeader, size: int, /) -> bool:
        """Whether an image is within the bounds."""
        return (
            (not self.types or header.mime in self.types)
            and (self.side is None or header.side <= self.side)
            and (self.size is None or size <= self.size)
            and (self.animated or not header.is_animated)
        )


class FittedImage(msgspec.Struct, frozen=True):
    """The bytes of an image, their type, and the notices of what was changed."""

    data: bytes
    mime: str
    notices: tuple[Notice, ...] = ()


class _Encoding(NamedTuple):
    """One way to write an image."""

    mime: str
    quality: int = 85
    palette: bool = False
    divisor: int = 1
    """The sides are divided by this."""


def read_header(data: bytes, /) -> ImageHeader:
    """The header of an image. Raises Unsupported if it is of an unknown type, truncated, or a decompression bomb.

    >>> read_header(b"hello")
    Traceback (most recent call last):
        ...
    dragoman.errors.Unsupported: an image is of an unknown type
    """
    header = measure(data)
    if header is None:
        raise Unsupported("an image is of an unknown type" if data else "an image is empty")
    if not header.pixels:
        raise Unsupported(f"{_describe(header)} has no size")
    if header.pixels > MAX_PIXELS or header.side > MAX_SIDE:
        raise Unsupported(f"{_describe(header)} is too large to be decoded")
    if header.scans > MAX_SCANS or header.scans * header.pixels > MAX_PASSES:
        raise Unsupported(f"{_describe(header)} has too many scans to be decoded ({header.scans})")
    if not header.is_whole:
        raise Unsupported(f"{_describe(header)} is truncated")
    return header


def fit_image(data: bytes, bounds: Bounds, /, *, stop: Stop = lambda: False) -> FittedImage:
    """The image within the bounds; unchanged if it already is. Raises Unsupported if it cannot be made to fit.

    Raises TimedOut as soon as `stop()` is true.

    >>> gif = bytes.fromhex("47494638396101000100000000 2c000000000100010000 0202 4401 00 3b")
    >>> fit_image(gif, Bounds(side=8)).data is gif
    True
    """
    header = read_header(data)
    return FittedImage(data, header.mime) if bounds.allow(header, len(data)) else _transcode(data, header, bounds, stop)


def _describe(header: ImageHeader) -> str:
    return f"an image ({header.mime}, {header.width} by {header.height})"


def _transcode(data: bytes, header: ImageHeader, bounds: Bounds, stop: Stop) -> FittedImage:
    _check(stop)
    try:
        decoded = without_profile(decode_within(data, header, bounds.side), bounds.size)
    except BROKEN as error:
        raise Unsupported(f"{_describe(header)} cannot be decoded: {str(error) or type(error).__name__}") from error
    sizes: list[int] = []
    broken: Exception | None = None
    for encoding in _useful_encodings(data, header, decoded.pixels, bounds):
        _check(stop)
        try:
            encoded = _encode(decoded, encoding)
        except BROKEN as error:  # a side is longer than the format allows
            broken = error
            continue
        if bounds.size is None or len(encoded) <= bounds.size:
            return FittedImage(encoded, encoding.mime, _notices(header, decoded, encoding, len(encoded)))
        sizes.append(len(encoded))
    why = f"at most {bounds.size} bytes are allowed, the smallest version has {min(sizes)}" if sizes else str(broken)
    raise Unsupported(f"{_describe(header)} cannot be made to fit: {why}") from broken


def _check(stop: Stop) -> None:
    if stop():
        raise TimedOut("the deadline of the call passed while an image was made to fit", count_failure=False)


# Writing --------------------------------------------------------------------------------------------------------------


def _encodings(mime: str, types: tuple[str, ...], *, has_alpha: bool) -> Iterator[_Encoding]:
    """The ways to write an image, the best first: its own format, lower qualities, another format, smaller."""
    first = _format(mime, types)
    smaller = [kind for kind in (_WEBP, _JPEG) if not types or kind in types]
    smaller.sort(key=lambda kind: has_alpha != (kind == _WEBP))
    last = first if first in _LOSSY else next(iter(smaller), first)
    yield _Encoding(first)
    if first == _PNG:
        yield _Encoding(first, palette=True)
    if last != first:
        yield _Encoding(last)
    qualities = (85, 65, 45, 30) if last in _LOSSY else (85,)
    yield from (_Encoding(last, quality) for quality in qualities[1:])
    for divisor in (2, 4, 8):
        if last == _PNG:
            yield _Encoding(last, divisor=divisor)
        yield from (_Encoding(last, quality, palette=last == _PNG, divisor=divisor) for quality in qualities)


def _useful_encodings(data: bytes, header: ImageHeader, pixels: "Pixels", bounds: Bounds) -> Iterator[_Encoding]:
    """The encodings without those that cannot be short enough: writing a large PNG takes seconds."""
    area = pixels.width * pixels.height / header.pixels
    # Some programs write PNGs without compression: their size says nothing about the compressed size.
    is_compressed = header.mime == _PNG and len(data) < 0.9 * header.pixels * len(pixels.getbands())
    for encoding in _encodings(header.mime, bounds.types, has_alpha=pixels.mode == "RGBA"):
        if is_compressed and encoding.mime == _PNG and encoding.divisor == 1 and bounds.size is not None:
            # The size is about proportional to the pixels; a palette makes it at most five times smaller.
            smallest = len(data) * area / (_PALETTE_GAIN if encoding.palette else 1)
            if smallest > bounds.size:
                continue
        yield encoding


_PALETTE_GAIN = 5


def _format(mime: str, types: tuple[str, ...]) -> str:
    """The type to write: the image's own if it is allowed, otherwise a common one."""
    candidates = [kind for kind in (mime, _JPEG, _PNG, *types) if kind in STEMS and (not types or kind in types)]
    if not candidates:
        raise Unsupported(f"an image ({mime}) cannot be converted to {' or '.join(types)}")
    return candidates[0]


def _encode(decoded: Decoded, encoding: _Encoding) -> bytes:
    from PIL.Image import Quantize, Resampling

    pixels = decoded.pixels
    if encoding.divisor > 1:
        width, height = (max(1, length // encoding.divisor) for length in pixels.size)
        pixels = pixels.resize((width, height), Resampling.LANCZOS, reducing_gap=2.0)
    if encoding.mime in _OPAQUE and pixels.mode == "RGBA":
        pixels = _over_white(pixels)
    if encoding.palette:
        pixels = pixels.quantize(256, Quantize.FASTOCTREE)  # other methods take seconds for a large photo
    plugin(encoding.mime)
    if max(pixels.size) > _MAX_SIDES.get(encoding.mime, MAX_SIDE):
        raise ValueError(f"{encoding.mime} allows sides of at most {_MAX_SIDES[encoding.mime]} pixels")
    file = BytesIO()
    # zlib's default level takes three times as long for 2 % fewer bytes. Writers ignore options that they do not know.
    is_large = pixels.width * pixels.height > LARGE_PIXELS
    effort: dict[str, int] = {"compress_level": 3, "speed": 9} if is_large else {"optimize": encoding.palette}
    pixels.save(file, STEMS[encoding.mime], quality=encoding.quality, icc_profile=decoded.profile, **effort)
    return file.getvalue()


def _over_white(pixels: "Pixels") -> "Pixels":
    from PIL import Image

    white = Image.new("RGB", pixels.size, "white")
    white.paste(pixels, mask=pixels.getchannel("A"))
    return white


def _notices(header: ImageHeader, decoded: Decoded, encoding: _Encoding, size: int) -> tuple[Notice, ...]:
    pixels, what = decoded.pixels, _describe(header)
    width, height = (max(1, length // encoding.divisor) for length in pixels.size)
    sent = f"sent as {encoding.mime}, {width} by {height}, {size} bytes, to fit the target"
    notices = [Notice(kind="info", what=what, why=why) for why in (sent, *decoded.notes)]
    if header.is_animated:
        notices.append(Notice(kind="changed", what=what, why="only the first frame is sent"))
    if encoding.mime in _OPAQUE and pixels.mode == "RGBA":
        notices.append(
            Notice(kind="info", what=what, why=f"{encoding.mime} has no transparency; the background is white")
        )
    return tuple(notices)
