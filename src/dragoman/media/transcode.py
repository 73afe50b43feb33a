"""Decodes an image with Pillow: the first frame, upright, with eight bits per channel and its colour profile."""

import struct
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dragoman.errors import Unsupported
from dragoman.media.image_header import ImageHeader

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels

MAX_PIXELS = 100_000_000
"""An image with more pixels is a decompression bomb."""
MAX_PROFILE = 64 * 1024
"""Bytes of a colour profile. A larger one, or one of more than an eighth of the allowed size, is dropped."""
STEMS = {
    "image/jpeg": "Jpeg",
    "image/png": "Png",
    "image/webp": "WebP",
    "image/gif": "Gif",
    "image/bmp": "Bmp",
    "image/tiff": "Tiff",
    "image/avif": "Avif",
}
"""The types that Pillow reads and writes, with the stem of the plugin's name."""
BROKEN = (
    *(OSError, SyntaxError, ValueError, TypeError, EOFError, ArithmeticError, LookupError, AttributeError),
    *(RuntimeError, MemoryError, Warning, struct.error),
)
"""The exceptions that Pillow raises for broken files."""
_TRANSPOSITIONS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
"""Pillow's transposition for each EXIF orientation."""


class Decoded(NamedTuple):
    """Pixels, their colour profile, and notes on what was changed."""

    pixels: "Pixels"
    profile: bytes | None = None
    notes: tuple[str, ...] = ()


def decode_within(data: bytes, header: ImageHeader, max_side: int | None) -> Decoded:
    """The pixels of the first frame, made smaller if its longer side is longer than `max_side`."""
    from PIL import Image

    try:
        source = _open(data, header.mime)
    except Image.DecompressionBombError as error:
        raise ValueError(str(error)) from error
    if source.width * source.height > MAX_PIXELS:
        raise ValueError(f"the header is wrong: the image has {source.width} by {source.height} pixels")
    size = _shrink(source.size, max_side)
    # A JPEG can be decoded to a half, a quarter or an eighth at a fraction of the cost.
    is_draft = source.draft(None, size) is not None
    source.load()
    if not is_draft:
        size = _shrink(source.size, max_side)  # Pillow rotates a TIFF when it loads it
    profile = source.info.get("icc_profile") if source.mode in ("RGB", "RGBA", "P") else None
    transposition = _TRANSPOSITIONS.get(_orientation(source))
    pixels, notes = _to_eight_bits(source)
    if pixels.size != size:
        pixels = pixels.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
    if transposition is not None:
        pixels = pixels.transpose(Image.Transpose(transposition))
    if pixels.mode == "RGBA" and pixels.getchannel("A").getextrema() == (255, 255):
        pixels = pixels.convert("RGB")
    pixels.info = {}
    return Decoded(pixels, profile, notes)


def _open(data: bytes, mime: str) -> "Pixels":
    """Open the file with the plugin of its type: Pillow's own search would try others and warn about its size."""
    if mime not in STEMS:
        return _open_heif(data)
    image: Pixels = getattr(plugin(mime), f"{STEMS[mime]}ImageFile")(BytesIO(data))
    return image


def plugin(mime: str) -> Any:
    """The Pillow plugin for a type."""
    from importlib import import_module

    return import_module(f"PIL.{STEMS[mime]}ImagePlugin")


def _open_heif(data: bytes) -> "Pixels":
    from importlib import import_module

    try:
        heif: Any = import_module("pillow_heif")
    except ImportError as error:
        raise Unsupported("HEIC images need pillow-heif; run pip install 'dragoman[heif]'") from error
    image: Pixels = heif.open_heif(BytesIO(data)).to_pillow()
    return image


def _orientation(image: "Pixels") -> int:
    """The EXIF orientation; 1 if EXIF is missing or broken."""
    try:
        orientation: object = image.getexif().get(0x0112)
    except BROKEN:
        return 1
    return orientation if isinstance(orientation, int) else 1


def _shrink(size: tuple[int, int], max_side: int | None) -> tuple[int, int]:
    """A size scaled so that its longer side is at most `max_side`."""
    longer = max(size)
    if max_side is None or longer <= max_side:
        return size
    width, height = (max(1, round(length * max_side / longer)) for length in size)
    return width, height


def _to_eight_bits(image: "Pixels") -> "tuple[Pixels, tuple[str, ...]]":
    """The image in mode L, RGB or RGBA, and notes on what was changed."""
    notes: tuple[str, ...] = ()
    if image.mode in _WHITES or image.mode.startswith("I;16"):
        image, white = _scale_grey(image)
        notes = (f"the grey values have more than eight bits; {white:g} is sent as white",)
    if image.has_transparency_data:
        return image.convert("RGBA"), notes
    mode = "L" if image.mode[0] in "1LIF" and image.mode != "LAB" else "RGB"
    return (image if image.mode == mode else image.convert(mode)), notes


_WHITES = {"I": (255, 65_535, 2**31 - 1), "F": (1.0, 255.0, 65_535.0)}
"""The values that may mean white; the file does not say. The smallest that no value exceeds is used."""


def _scale_grey(image: "Pixels") -> "tuple[Pixels, float]":
    """The values of one channel, scaled to 0 to 255, and the value that was white."""
    if image.mode in _WHITES:
        _, high = cast("tuple[float, float]", image.getextrema())
        white = next((white for white in _WHITES[image.mode] if high <= white), high)
    else:
        image, white = image.convert("I"), 65_535
    scale = 255 / white
    return image.point(lambda value: value * scale + 0), white


def without_profile(decoded: Decoded, size: int | None) -> Decoded:
    """The image without a colour profile that is too large; its colours are converted to sRGB."""
    profile = decoded.profile
    if profile is None or len(profile) <= min(MAX_PROFILE, MAX_PROFILE if size is None else size // 8):
        return decoded
    try:
        from importlib import import_module

        image_cms: Any = import_module("PIL.ImageCms")
        source, srgb = map(image_cms.ImageCmsProfile, (BytesIO(profile), image_cms.createProfile("sRGB")))
        mode = decoded.pixels.mode
        pixels: Pixels = image_cms.ImageCmsTransform(source, srgb, mode, mode).apply(decoded.pixels)
    except (ImportError, *BROKEN) as error:
        note = f"the colour profile ({len(profile)} bytes) is dropped: {error}"
        return Decoded(decoded.pixels, None, (*decoded.notes, note))
    note = f"the colour profile ({len(profile)} bytes) is dropped, the colours are converted to sRGB"
    return Decoded(pixels, None, (*decoded.notes, note))
