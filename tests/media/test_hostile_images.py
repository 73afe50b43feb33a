"""Hostile files end in a clear error, or in a picture that can be decoded: in bounded time and memory, never a crash."""

import random
import struct
import sys
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image as Pillow

from dragoman.errors import Unsupported
from dragoman.media import fit, measure
from dragoman.media.fit_image import MAX_SCANS, Bounds, FittedImage, fit_image
from dragoman.media.image_header import ImageHeader
from dragoman.media.sniff import sniff
from dragoman.media.transcode import MAX_PIXELS
from dragoman.targets.target import Capabilities
from dragoman.types import Image, Request, user
from tests.support.images import FORMATS, bomb, chunk, noise, opened, picture, saved

SMALL = Bounds(side=16, size=100_000, types=("image/png", "image/jpeg"))
LARGE = Bounds(side=60_000)
BOTH = pytest.mark.parametrize("bounds", [SMALL, LARGE], ids=["made anew", "passed on"])


def attempt(data: bytes, bounds: Bounds) -> FittedImage | None:
    """What comes of a file: a picture, or None for a refusal."""
    try:
        return fit_image(data, bounds)
    except Unsupported:
        return None


# Bombs ----------------------------------------------------------------------------------------------------------------


def header_of(mime: str, width: int, height: int) -> bytes:
    """A small file that claims a size."""
    data = bytearray(picture(64, 64, mime))
    match mime:
        case "image/gif":
            data[6:10] = struct.pack("<HH", width, height)
        case "image/bmp":
            data[18:26] = struct.pack("<ii", width, height)
        case "image/jpeg":
            at = data.index(b"\xff\xc0")
            data[at + 5 : at + 9] = struct.pack(">HH", height, width)
        case "image/avif" | "image/heic":
            at = data.index(b"ispe")
            data[at + 8 : at + 16] = struct.pack(">II", width, height)
        case "image/tiff":
            for tag, value in ((256, width), (257, height)):
                at = (
                    data.index(struct.pack("<HH", tag, 3))
                    if struct.pack("<HH", tag, 3) in data
                    else data.index(struct.pack("<HH", tag, 4))
                )
                data[at + 2 : at + 12] = struct.pack("<HII", 4, 1, value)
        case _:
            return bomb(width, height)
    return bytes(data)


@BOTH
@pytest.mark.parametrize("mime", [mime for mime in FORMATS if mime != "image/webp"])
def test_a_bomb_is_refused_by_its_header(mime: str, bounds: Bounds) -> None:
    data = header_of(mime, 20_000, 20_000)
    tracemalloc.start()
    try:
        with pytest.raises(Unsupported, match=r"20000 by 20000.* too large to be decoded"):
            fit_image(data, bounds)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@BOTH
@pytest.mark.parametrize("size", [(1, 1_000_000), (1_000_000, 1), (65_536, 1)])
def test_a_side_without_end_is_refused(size: tuple[int, int], bounds: Bounds) -> None:
    with pytest.raises(Unsupported, match="too large"):
        fit_image(bomb(*size), bounds)


@BOTH
@pytest.mark.parametrize("size", [(0, 10), (10, 0), (0, 0)])
def test_a_picture_without_pixels_is_refused(size: tuple[int, int], bounds: Bounds) -> None:
    with pytest.raises(Unsupported, match="has no size"):
        fit_image(bomb(*size), bounds)


def test_a_picture_just_below_the_bound_is_no_bomb() -> None:
    assert fit_image(bomb(10_000, MAX_PIXELS // 10_000), LARGE).mime == "image/png"


def test_a_gif_whose_frame_is_larger_than_its_screen_is_refused() -> None:
    data = bytearray(picture(64, 64, "image/gif"))
    at = data.index(b",", 13 + 3 * (2 << (data[10] & 7)))
    data[at + 5 : at + 9] = struct.pack("<HH", 12_000, 12_000)
    with pytest.raises(Unsupported, match="cannot be decoded"):
        fit_image(bytes(data), SMALL)


@pytest.mark.parametrize("side", [9_800, 12_000, 60_000])
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_gif_whose_frame_is_larger_than_its_screen_is_refused_without_warnings(side: int) -> None:
    data = bytearray(picture(64, 64, "image/gif"))
    at = data.index(b",", 13 + 3 * (2 << (data[10] & 7)))
    data[at + 5 : at + 9] = struct.pack("<HH", side, side)
    with pytest.raises(Unsupported, match="cannot be decoded"):
        fit_image(bytes(data), SMALL)


def test_what_the_text_chunks_of_a_png_unpack_to_is_bounded() -> None:
    data = picture()
    stuffed = data[:33] + chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(200_000_000))) + data[33:]
    tracemalloc.start()
    try:
        attempt(stuffed, SMALL)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


# Cut off, and not what they say ---------------------------------------------------------------------------------------


def kinds() -> Iterator[tuple[str, bytes]]:
    for mime in FORMATS:
        yield mime, noise(40, 30, mime)
    yield "progressive", noise(40, 30, "image/jpeg", progressive=True)
    yield "lossless", noise(40, 30, "image/webp", lossless=True)
    yield "with exif", noise(40, 30, "image/webp", exif=b"Exif\0\0MM")
    yield "tiles", noise(40, 30, "image/tiff", compression="tiff_lzw")
    frames = [Pillow.new("RGB", (40, 30), colour) for colour in ("red", "blue")]
    for mime in ("image/gif", "image/webp", "image/png"):
        yield f"animated {mime}", saved(frames[0], mime, save_all=True, append_images=frames[1:])


KINDS = dict(kinds())


@BOTH
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_cut_anywhere_is_refused(kind: str, bounds: Bounds) -> None:
    data = KINDS[kind]
    assert attempt(data, bounds) is not None
    cuts = {*range(0, len(data), 64), *range(1, 40)}
    assert [cut for cut in sorted(cuts) if attempt(data[:cut], bounds) is not None] == []


@BOTH
@pytest.mark.parametrize("size", [0, 1, 3, 8, 100, 100_000])
def test_zeros_and_noise_are_no_pictures(size: int, bounds: Bounds) -> None:
    for data in (bytes(size), random.Random(size).randbytes(size), b"<html>" + bytes(size), b"%PDF-1.7" + bytes(size)):
        with pytest.raises(Unsupported, match=r"unknown type|is empty"):
            fit_image(data[:size], bounds)


@BOTH
@pytest.mark.parametrize("mime", FORMATS)
def test_a_signature_with_noise_behind_it_is_refused(mime: str, bounds: Bounds) -> None:
    head = picture(mime=mime)[:16]
    for seed in range(50):
        made = attempt(head + random.Random(seed).randbytes(3000), bounds)
        assert made is None or bounds is LARGE or opened(made.data).width <= 16


@pytest.mark.parametrize("kind", KINDS)
def test_spoilt_bytes_give_a_picture_or_a_refusal(kind: str) -> None:
    rng = random.Random(kind)
    for _ in range(60):
        data = bytearray(KINDS[kind])
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        made = attempt(bytes(data), SMALL)
        assert made is None or max(opened(made.data).size) <= 16


@BOTH
def test_a_file_of_two_kinds_is_what_its_first_bytes_say(bounds: Bounds) -> None:
    both = picture() + b"PK\x03\x04" + b"<script>alert(1)</script>"
    made = fit_image(both, bounds)
    assert opened(made.data).format == "PNG"
    with pytest.raises(Unsupported):
        fit_image(b"GIF89a=1;alert(1)//" + picture(), bounds)


def test_a_second_header_deceives_nobody() -> None:
    head = struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)
    with pytest.raises(Unsupported, match="the header is wrong: the image has 20000 by 20000 pixels"):
        fit_image(picture()[:33] + chunk(b"IHDR", head) + picture()[33:], SMALL)


def test_a_header_that_lies_about_the_rest_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"an image \(image/png, 3000 by 3000\) cannot be decoded"):
        fit_image(bomb(3000, 3000), SMALL)


# Without end ----------------------------------------------------------------------------------------------------------

ENDLESS = {
    "chunks of a PNG": picture()[:33] + chunk(b"tEXt") * 300_000,
    "blocks of a GIF": picture(mime="image/gif")[:13] + b"!\xfe" + b"\x01x" * 2_000_000,
    "extensions of a GIF": picture(mime="image/gif")[:13] + b"!\xfe\0" * 1_200_000,
    "segments of a JPEG": b"\xff\xd8" + b"\xff\xe0\0\x02" * 1_000_001 + b"\xff" * 10,
    "fill of a JPEG": b"\xff\xd8" + b"\xff" * 5_000_000,
    "boxes": b"\0\0\0\x14ftypavif\0\0\0\0avif" + b"\0\0\0\x08free" * 500_000,
    "boxes in boxes": b"\0\0\0\x14ftypavif\0\0\0\0avif\0\0\0\0meta\0\0\0\0" + b"\0\0\0\0iprp\0\0\0\0ipco" * 100_000,
    "boxes without a size": b"\0\0\0\x14ftypavif\0\0\0\0avif" + b"\0\0\0\x02meta" * 10,
    "tags of a TIFF": b"II*\0\x08\0\0\0\xff\xff" + b"\0\x01\x03\0\xff\xff\x0f\0\x08\0\0\0" * 65_535,
}


@BOTH
@pytest.mark.parametrize("kind", ENDLESS)
def test_structures_without_end_are_refused_soon(kind: str, bounds: Bounds) -> None:
    start = time.process_time()
    assert attempt(ENDLESS[kind], bounds) is None
    assert time.process_time() - start < 5


# Scans ----------------------------------------------------------------------------------------------------------------


def scanned(more: int, *, width: int = 64, between: bytes = b"", **options: Any) -> bytes:
    """A JPEG whose last scan is there so many times more."""
    data = picture(width, 64, "image/jpeg", **options)
    start, end = data.rindex(b"\xff\xda"), data.rindex(b"\xff\xd9")
    return data[:end] + (between + data[start:end]) * more + data[end:]


@BOTH
@pytest.mark.parametrize("between", [b"", b"\xff\xfe\0\x04\xff\xd9"], ids=["plain", "behind a false end"])
def test_a_jpeg_of_endless_scans_is_refused(between: bytes, bounds: Bounds) -> None:
    with pytest.raises(Unsupported, match="has too many scans to be decoded"):
        fit_image(scanned(300, between=between, progressive=True), bounds)


def test_a_large_jpeg_may_have_fewer_scans() -> None:
    few = scanned(30, progressive=True)
    at = few.index(b"\xff\xc2")
    many = few[: at + 5] + struct.pack(">HH", 9000, 9000) + few[at + 9 :]
    assert fit_image(few, SMALL).mime == "image/jpeg"
    with pytest.raises(Unsupported, match=r"9000 by 9000\) has too many scans to be decoded \(40\)"):
        fit_image(many, SMALL)


def test_what_lies_behind_the_end_of_a_jpeg_is_no_scan() -> None:
    made = measure(picture(64, 64, "image/jpeg", progressive=True) + b"\xff\xda\0\x02" * 200)
    assert made is not None
    assert made.scans < 16
    cut = measure(picture(64, 64, "image/jpeg", progressive=True)[:-2] + b"\xff\xda\0\x02" * 200)
    assert cut is not None
    assert (cut.is_whole, cut.scans > 200) == (False, True)


def test_a_jpeg_of_one_scan_is_decoded_once_whatever_comes() -> None:
    assert measure(scanned(300)) == ImageHeader("image/jpeg", 64, 64)


def test_scans_are_counted_in_bounded_steps() -> None:
    found = measure(scanned(16, progressive=True)[:-2] + b"\xff\xfe\0\x02" * 200_000)
    assert found is not None
    assert found.scans > MAX_SCANS


# Headers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mime", FORMATS)
def test_every_format_is_measured_as_pillow_does(mime: str) -> None:
    for size in ((64, 64), (300, 2), (1, 1), (128, 70)):
        if mime == "image/heic" and min(size) < 64:
            continue
        found = measure(picture(*size, mime))
        assert found is not None
        assert (found.mime, found.width) == (mime, size[0])
        # HEVC codes whole blocks, and its header has their size.
        assert found.height == size[1] or (mime == "image/heic" and found.height - size[1] < 64)
        assert (found.is_whole, found.is_animated) == (True, False)


def test_fill_before_a_marker_is_skipped() -> None:
    data = picture(mime="image/jpeg")
    assert measure(data[:2] + b"\xff\xff" + data[2:]) == ImageHeader("image/jpeg", 100, 50)


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n" + chunk(b"IDAT", bytes(13)),
        b"RIFF\x20\0\0\0WEBPXXXX" + bytes(30),
        b"\xff\xd8\xff\xda\0\x02" + bytes(30),
        b"\xff\xd8\xff\xe0\0\x04\0\0\0\0\0\0",
        b"\xff\xd8\xff\xe0\0\x10",
        b"MM\0*\0\0\0\x08\0\0\0\0\0\0",
        b"\0\0\0\x10ftypmp42\0\0\0\0",
        b"\0\0\0\x10ftypheic\0\0\0\0",
    ],
)
def test_what_has_no_readable_header_is_not_measured(data: bytes) -> None:
    assert measure(data) is None


def test_a_large_box_has_its_size_behind_its_name() -> None:
    data = picture(mime="image/avif")
    at = data.index(b"mdat") - 4
    size = int.from_bytes(data[at : at + 4], "big")
    large = data[:at] + struct.pack(">I4sQ", 1, b"mdat", size + 8) + data[at + 8 :]
    assert measure(large) == measure(data)
    assert measure(data[:at] + b"\0\0\0\0mdat" + data[at + 8 :]) == measure(data)


@BOTH
def test_a_gif_without_its_last_byte_is_taken(bounds: Bounds) -> None:
    data = picture(mime="image/gif")
    assert data[-1:] == b";"
    assert opened(fit_image(data[:-1], bounds).data).format in ("GIF", "PNG", "JPEG")


def test_an_old_bitmap_is_measured() -> None:
    rows = bytes(8 * 3 * 2)
    head = struct.pack("<IHHHH", 12, 8, 2, 1, 24)
    data = b"BM" + struct.pack("<IHHI", 26 + len(rows), 0, 0, 26) + head + rows
    assert measure(data) == ImageHeader("image/bmp", 8, 2)
    assert opened(fit_image(data, Bounds(side=4)).data).size == (4, 1)


@pytest.mark.parametrize(
    ("head", "mime"),
    [
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "image/heic"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1miaf", "image/heif"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0miafavif", "image/avif"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0isommp42", None),
        (b"BMx", None),
    ],
)
def test_brands_are_told_apart(head: bytes, mime: str | None) -> None:
    assert sniff(head) == mime


def test_pillow_is_not_needed_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "PIL"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Unsupported):
        fit(Request(messages=(user(Image(data=bomb(20_000, 20_000))),)), Capabilities(max_image_side=8))
