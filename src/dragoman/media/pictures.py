"""A picture and its bounds in, a picture within them out: shrunk, upright, written anew by Pillow."""

import struct
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import msgspec

from dragoman.errors import TimedOut, Unsupported
from dragoman.media.headers import Header, measure
from dragoman.types import Notice

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels

MAX_PIXELS = 100_000_000
"""More of them by the header are a decompression bomb."""
MAX_SIDE = 65_535
"""The longest side that a JPEG can have, and any picture that is one."""
MAX_SCANS = 100
MAX_PASSES = 2_000_000_000
"""Pixels times scans: a JPEG that asks for more work is a bomb, however few its pixels are."""
MAX_PROFILE = 64 * 1024
"""Bytes of a profile of colours; one that is larger, or has more than an eighth of what there may be, is left out."""
Stop: TypeAlias = Callable[[], bool]
"""Says that the time for some work is over; asked between its steps."""

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


class _Decoded(NamedTuple):
    pixels: "Pixels"
    profile: bytes | None = None
    notes: tuple[str, ...] = ()
    """What the pixels have lost."""


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
    if header.scans > MAX_SCANS or header.scans * header.pixels > MAX_PASSES:
        raise Unsupported(f"{_told(header)} has {header.scans} scans, which are too many to be decoded")
    if not header.is_whole:
        raise Unsupported(f"{_told(header)} is cut off")
    return header


def fit_picture(data: bytes, bounds: Bounds, /, *, stop: Stop = lambda: False) -> Picture:
    """The picture itself where it keeps to the bounds, otherwise made anew; Unsupported where that cannot be.

    TimedOut as soon as `stop` says so.

    >>> gif = bytes.fromhex("47494638396101000100000000 2c000000000100010000 0202 4401 00 3b")
    >>> fit_picture(gif, Bounds(side=8)).data is gif
    True
    """
    header = read_header(data)
    return Picture(data, header.mime) if bounds.hold(header, len(data)) else _remade(data, header, bounds, stop)


def _told(header: Header) -> str:
    return f"an image ({header.mime}, {header.width} by {header.height})"


# Reading --------------------------------------------------------------------------------------------------------------


def _remade(data: bytes, header: Header, bounds: Bounds, stop: Stop) -> Picture:
    _check(stop)
    try:
        found = _coloured(_decode(data, header, bounds.side), bounds.size)
    except _BROKEN as error:
        raise Unsupported(f"{_told(header)} cannot be decoded: {str(error) or type(error).__name__}") from error
    sizes: list[int] = []
    broken: Exception | None = None
    for way in _worthwhile(data, header, found.pixels, bounds):
        _check(stop)
        try:
            made = _written(found, way)
        except _BROKEN as error:  # a side is longer than the format has numbers for
            broken = error
            continue
        if bounds.size is None or len(made) <= bounds.size:
            return Picture(made, way.mime, _notices(header, found, way, len(made)))
        sizes.append(len(made))
    if not sizes:
        raise Unsupported(f"{_told(header)} cannot be written: {broken}") from broken
    why = f"it takes {bounds.size} bytes, and the least are {min(sizes)}"
    raise Unsupported(f"{_told(header)} cannot be made to fit: {why}") from broken


def _check(stop: Stop) -> None:
    if stop():
        # The target had no part in it.
        raise TimedOut("the deadline of the call has passed while an image was made to fit", penalise=False)


def _decode(data: bytes, header: Header, side: int | None) -> _Decoded:
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
    pixels, notes = _plain(source)
    if pixels.size != size:
        pixels = pixels.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
    if turn is not None:
        pixels = pixels.transpose(Image.Transpose(turn))
    if pixels.mode == "RGBA" and pixels.getchannel("A").getextrema() == (255, 255):
        pixels = pixels.convert("RGB")
    pixels.info = {}
    return _Decoded(pixels, profile, notes)


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


def _plain(image: "Pixels") -> "tuple[Pixels, tuple[str, ...]]":
    """The same in grey, in colour, or in colour with transparency, of eight bits each, and what was done for it."""
    notes: tuple[str, ...] = ()
    if image.mode in _WHITES or image.mode.startswith("I;16"):
        image, white = _eight_bits(image)
        notes = (f"its grey values have more than eight bits: {white:g} is sent as white",)
    if image.has_transparency_data:
        return image.convert("RGBA"), notes
    plain = "L" if image.mode[0] in "1LIF" and image.mode != "LAB" else "RGB"
    return (image if image.mode == plain else image.convert(plain)), notes


_WHITES = {"I": (255, 65_535, 2**31 - 1), "F": (1.0, 255.0, 65_535.0)}
"""What may stand for white where the file does not say: the least that no value is above."""


def _eight_bits(image: "Pixels") -> "tuple[Pixels, float]":
    """The values of one channel from 0 to 255, and which of them was white."""
    if image.mode in _WHITES:
        _, high = cast("tuple[float, float]", image.getextrema())
        white = next((white for white in _WHITES[image.mode] if high <= white), high)
    else:
        image, white = image.convert("I"), 65_535
    scale = 255 / white
    return image.point(lambda value: value * scale + 0), white


def _coloured(found: _Decoded, size: int | None) -> _Decoded:
    """The same without a profile that is too large; its colours are made those that all take for granted."""
    profile = found.profile
    if profile is None or len(profile) <= min(MAX_PROFILE, MAX_PROFILE if size is None else size // 8):
        return found
    try:
        from PIL import ImageCms

        usual = ImageCms.createProfile("sRGB")
        pixels = ImageCms.profileToProfile(found.pixels, BytesIO(profile), usual)
    except (ImportError, *_BROKEN) as error:
        note = f"its profile of colours ({len(profile)} bytes) is left out: {error}"
        return _Decoded(found.pixels, None, (*found.notes, note))
    note = f"its profile of colours ({len(profile)} bytes) is left out, and its colours are sRGB"
    return _Decoded(pixels or found.pixels, None, (*found.notes, note))


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


def _worthwhile(data: bytes, header: Header, pixels: "Pixels", bounds: Bounds) -> Iterator[_Try]:
    """The ways without those that cannot be short enough: a large PNG takes seconds to be written."""
    area = pixels.width * pixels.height / header.pixels
    for way in _ways(header.mime, bounds.types, has_alpha=pixels.mode == "RGBA"):
        if way.mime == header.mime == _PNG and way.fraction == 1 and bounds.size is not None:
            # The same pixels take the same bytes, fewer of them no less for each, and a palette about a third.
            least = len(data) * area / (_PALETTE_GAIN if way.palette else 1)
            if least > bounds.size:
                continue
        yield way


_PALETTE_GAIN = 5


def _format(mime: str, types: tuple[str, ...]) -> str:
    """The type to write: the picture's own where that may be, or what nearly everybody takes."""
    wanted = [kind for kind in (mime, _JPEG, _PNG, *types) if kind in _STEMS and (not types or kind in types)]
    if not wanted:
        raise Unsupported(f"an image ({mime}) cannot be made into {' or '.join(types)}")
    return wanted[0]


def _written(found: _Decoded, way: _Try) -> bytes:
    from PIL.Image import Quantize, Resampling

    pixels = found.pixels
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
    pixels.save(file, _STEMS[way.mime], quality=way.quality, optimize=way.palette, icc_profile=found.profile)
    return file.getvalue()


def _over_white(pixels: "Pixels") -> "Pixels":
    from PIL import Image

    white = Image.new("RGB", pixels.size, "white")
    white.paste(pixels, mask=pixels.getchannel("A"))
    return white


def _notices(header: Header, found: _Decoded, way: _Try, size: int) -> tuple[Notice, ...]:
    pixels, what = found.pixels, _told(header)
    width, height = (max(1, length // way.fraction) for length in pixels.size)
    made = f"it is sent as {way.mime}, {width} by {height}, {size} bytes, to fit what the target takes"
    notices = [Notice(kind="told", what=what, why=why) for why in (made, *found.notes)]
    if header.is_animated:
        notices.append(Notice(kind="changed", what=what, why="only its first frame is sent"))
    if way.mime in _OPAQUE and pixels.mode == "RGBA":
        notices.append(Notice(kind="told", what=what, why=f"{way.mime} is opaque, so it is laid over white"))
    return tuple(notices)
