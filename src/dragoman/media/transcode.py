"""A picture's file in, its pixels out: the first frame, upright, in eight bits, with the profile of their colours."""

import struct
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dragoman.errors import Unsupported
from dragoman.media.image_header import ImageHeader

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels

MAX_PIXELS = 100_000_000
"""More of them by the header are a decompression bomb."""
MAX_PROFILE = 64 * 1024
"""Bytes of a profile of colours; one that is larger, or has more than an eighth of what there may be, is left out."""
STEMS = {
    "image/jpeg": "Jpeg",
    "image/png": "Png",
    "image/webp": "WebP",
    "image/gif": "Gif",
    "image/bmp": "Bmp",
    "image/tiff": "Tiff",
    "image/avif": "Avif",
}
"""What Pillow reads and writes, by type: the stem of its plugin's name."""
BROKEN = (
    *(OSError, SyntaxError, ValueError, TypeError, EOFError, ArithmeticError, LookupError, AttributeError),
    *(RuntimeError, MemoryError, Warning, struct.error),
)
"""What Pillow raises at files that are not what they say."""
_TURNS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
"""Pillow's transposition for each orientation that EXIF has a number for."""


class Decoded(NamedTuple):
    """Pixels, the profile of their colours, and what they have lost."""

    pixels: "Pixels"
    profile: bytes | None = None
    notes: tuple[str, ...] = ()


def decode(data: bytes, header: ImageHeader, side: int | None) -> Decoded:
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
    return Decoded(pixels, profile, notes)


def _opened(data: bytes, mime: str) -> "Pixels":
    """The file, read by the one plugin that it is for: Pillow's own search would try others, and warn of its size."""
    if mime not in STEMS:
        return _opened_heif(data)
    image: Pixels = getattr(plugin(mime), f"{STEMS[mime]}ImageFile")(BytesIO(data))
    return image


def plugin(mime: str) -> Any:
    """Pillow's module for a type."""
    from importlib import import_module

    return import_module(f"PIL.{STEMS[mime]}ImagePlugin")


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
    except BROKEN:
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


def without_profile(found: Decoded, size: int | None) -> Decoded:
    """The same without a profile that is too large; its colours are made those that all take for granted."""
    profile = found.profile
    if profile is None or len(profile) <= min(MAX_PROFILE, MAX_PROFILE if size is None else size // 8):
        return found
    try:
        from importlib import import_module

        colours: Any = import_module("PIL.ImageCms")
        known, usual = map(colours.ImageCmsProfile, (BytesIO(profile), colours.createProfile("sRGB")))
        mode = found.pixels.mode
        pixels: Pixels = colours.ImageCmsTransform(known, usual, mode, mode).apply(found.pixels)
    except (ImportError, *BROKEN) as error:
        note = f"its profile of colours ({len(profile)} bytes) is left out: {error}"
        return Decoded(found.pixels, None, (*found.notes, note))
    note = f"its profile of colours ({len(profile)} bytes) is left out, and its colours are sRGB"
    return Decoded(pixels, None, (*found.notes, note))
