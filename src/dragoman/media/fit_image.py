"""A picture and its bounds in, a picture within them out: shrunk, upright, written anew by Pillow."""

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from dragoman.errors import TimedOut, Unsupported
from dragoman.media.image_header import ImageHeader, measure
from dragoman.media.transcode import BROKEN, MAX_PIXELS, STEMS, Decoded, decode, plugin, without_profile
from dragoman.types import Notice

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels

MAX_SIDE = 65_535
"""The longest side that a JPEG can have, and any picture that is one."""
MAX_SCANS = 100
MAX_PASSES = 2_000_000_000
"""Pixels times scans: a JPEG that asks for more work is a bomb, however few its pixels are."""
LARGE = 4_000_000
"""Pixels that take seconds to be packed as tightly as can be."""
Stop: TypeAlias = Callable[[], bool]
"""Says that the time for some work is over; asked between its steps."""

_JPEG, _PNG, _WEBP = "image/jpeg", "image/png", "image/webp"
_LOSSY = (_JPEG, _WEBP, "image/avif")
_OPAQUE = (_JPEG, "image/bmp")
_LONGEST = {"image/avif": 32_768}
"""Sides that can be written, but are read by nobody."""


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

    def hold(self, header: ImageHeader, size: int, /) -> bool:
        """Whether a picture keeps to them as it is."""
        return (
            (not self.types or header.mime in self.types)
            and (self.side is None or header.side <= self.side)
            and (self.size is None or size <= self.size)
            and (self.animated or not header.is_animated)
        )


class FittedImage(msgspec.Struct, frozen=True):
    """The bytes of a picture, what they are, and what was done to them.

    >>> FittedImage(b"...", "image/png").notices
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


def read_header(data: bytes, /) -> ImageHeader:
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
    if header.scans > MAX_SCANS or header.scans * header.pixels > MAX_PASSES:
        raise Unsupported(f"{_told(header)} has {header.scans} scans, which are too many to be decoded")
    if not header.is_whole:
        raise Unsupported(f"{_told(header)} is cut off")
    return header


def fit_image(data: bytes, bounds: Bounds, /, *, stop: Stop = lambda: False) -> FittedImage:
    """The picture itself where it keeps to the bounds, otherwise made anew; Unsupported where that cannot be.

    TimedOut as soon as `stop` says so.

    >>> gif = bytes.fromhex("47494638396101000100000000 2c000000000100010000 0202 4401 00 3b")
    >>> fit_image(gif, Bounds(side=8)).data is gif
    True
    """
    header = read_header(data)
    return FittedImage(data, header.mime) if bounds.hold(header, len(data)) else _remade(data, header, bounds, stop)


def _told(header: ImageHeader) -> str:
    return f"an image ({header.mime}, {header.width} by {header.height})"


def _remade(data: bytes, header: ImageHeader, bounds: Bounds, stop: Stop) -> FittedImage:
    _check(stop)
    try:
        found = without_profile(decode(data, header, bounds.side), bounds.size)
    except BROKEN as error:
        raise Unsupported(f"{_told(header)} cannot be decoded: {str(error) or type(error).__name__}") from error
    sizes: list[int] = []
    broken: Exception | None = None
    for way in _worthwhile(data, header, found.pixels, bounds):
        _check(stop)
        try:
            made = _written(found, way)
        except BROKEN as error:  # a side is longer than the format has numbers for
            broken = error
            continue
        if bounds.size is None or len(made) <= bounds.size:
            return FittedImage(made, way.mime, _notices(header, found, way, len(made)))
        sizes.append(len(made))
    why = f"it takes {bounds.size} bytes, and the least are {min(sizes)}" if sizes else str(broken)
    raise Unsupported(f"{_told(header)} cannot be made to fit: {why}") from broken


def _check(stop: Stop) -> None:
    if stop():
        # The target had no part in it.
        raise TimedOut("the deadline of the call has passed while an image was made to fit", count_failure=False)


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


def _worthwhile(data: bytes, header: ImageHeader, pixels: "Pixels", bounds: Bounds) -> Iterator[_Try]:
    """The ways without those that cannot be short enough: a large PNG takes seconds to be written."""
    area = pixels.width * pixels.height / header.pixels
    # Some programs write PNGs as large as their pixels: nobody knows how short these can be.
    is_packed = header.mime == _PNG and len(data) < 0.9 * header.pixels * len(pixels.getbands())
    for way in _ways(header.mime, bounds.types, has_alpha=pixels.mode == "RGBA"):
        if is_packed and way.mime == _PNG and way.fraction == 1 and bounds.size is not None:
            # The same pixels take the same bytes, fewer of them no less for each, and a palette about a third.
            least = len(data) * area / (_PALETTE_GAIN if way.palette else 1)
            if least > bounds.size:
                continue
        yield way


_PALETTE_GAIN = 5


def _format(mime: str, types: tuple[str, ...]) -> str:
    """The type to write: the picture's own where that may be, or what nearly everybody takes."""
    wanted = [kind for kind in (mime, _JPEG, _PNG, *types) if kind in STEMS and (not types or kind in types)]
    if not wanted:
        raise Unsupported(f"an image ({mime}) cannot be made into {' or '.join(types)}")
    return wanted[0]


def _written(found: Decoded, way: _Try) -> bytes:
    from PIL.Image import Quantize, Resampling

    pixels = found.pixels
    if way.fraction > 1:
        width, height = (max(1, length // way.fraction) for length in pixels.size)
        pixels = pixels.resize((width, height), Resampling.LANCZOS, reducing_gap=2.0)
    if way.mime in _OPAQUE and pixels.mode == "RGBA":
        pixels = _over_white(pixels)
    if way.palette:
        pixels = pixels.quantize(256, Quantize.FASTOCTREE)  # the others take seconds for a large photo
    plugin(way.mime)
    if max(pixels.size) > _LONGEST.get(way.mime, MAX_SIDE):
        raise ValueError(f"{way.mime} has sides of {_LONGEST[way.mime]} pixels at most")
    file = BytesIO()
    # Zlib's usual level takes thrice the time for a fiftieth less. What a writer has no word for, it leaves alone.
    is_large = pixels.width * pixels.height > LARGE
    thoroughly: dict[str, int] = {"compress_level": 3, "speed": 9} if is_large else {"optimize": way.palette}
    pixels.save(file, STEMS[way.mime], quality=way.quality, icc_profile=found.profile, **thoroughly)
    return file.getvalue()


def _over_white(pixels: "Pixels") -> "Pixels":
    from PIL import Image

    white = Image.new("RGB", pixels.size, "white")
    white.paste(pixels, mask=pixels.getchannel("A"))
    return white


def _notices(header: ImageHeader, found: Decoded, way: _Try, size: int) -> tuple[Notice, ...]:
    pixels, what = found.pixels, _told(header)
    width, height = (max(1, length // way.fraction) for length in pixels.size)
    made = f"it is sent as {way.mime}, {width} by {height}, {size} bytes, to fit what the target takes"
    notices = [Notice(kind="info", what=what, why=why) for why in (made, *found.notes)]
    if header.is_animated:
        notices.append(Notice(kind="changed", what=what, why="only its first frame is sent"))
    if way.mime in _OPAQUE and pixels.mode == "RGBA":
        notices.append(Notice(kind="info", what=what, why=f"{way.mime} is opaque, so it is laid over white"))
    return tuple(notices)
