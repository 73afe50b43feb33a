"""Every image fits every target: what the target would get is decoded again."""

import itertools
import sys
from importlib import import_module
from typing import Any

import pytest
from msgspec.structs import replace
from PIL import Image as Pillow
from PIL import ImageDraw

from dragoman.engine.attempt import build_request
from dragoman.errors import InvalidRequest, TimedOut, Unsupported
from dragoman.media import MediaCache, RequestMedia, find_media, fit
from dragoman.media.cache import MAX_FETCHED, MAX_FETCHED_TOGETHER
from dragoman.media.fit_image import Bounds, fit_image
from dragoman.registry import Registry
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import Capabilities
from dragoman.types import (
    Audio,
    Document,
    Image,
    Notice,
    Request,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)
from dragoman.types.data_urls import encode_base64
from tests.support.images import FORMATS, noise, opened, picture, saved, sent

COMMON = ("image/png", "image/jpeg", "image/webp", "image/gif")


def request_of(*images: Image | bytes) -> Request:
    parts = [image if isinstance(image, Image) else Image(data=image) for image in images]
    return Request(messages=tuple(user("see", part) for part in parts))


def images(request: Request) -> list[Image]:
    return [part for message in request.messages for part in message.parts if isinstance(part, Image)]


def fitted(data: bytes, **capabilities: Any) -> Image:
    return images(fit(request_of(data), Capabilities(**capabilities)))[0]


def fit_with_notices(request: Request, **capabilities: Any) -> tuple[list[Image], tuple[Notice, ...]]:
    """The images that a target would get, and the notices."""
    fitted = media_of(request, Capabilities(**capabilities)).fit()
    return images(fitted.request), fitted.notices


def media_of(request: Request, capabilities: Capabilities, cache: MediaCache | None = None) -> RequestMedia:
    media = find_media(request, capabilities, cache)
    assert media is not None
    return media


def pixels(image: Image) -> Pillow.Image:
    assert image.data is not None
    seen = opened(image.data)
    assert image.mime == ("image/heif" if seen.format == "HEIF" else Pillow.MIME[str(seen.format)])
    return seen


def at(image: Pillow.Image, *spot: int) -> Any:
    return image.getpixel((spot[0], spot[1]))


def is_red(colour: tuple[int, ...]) -> bool:
    return colour[0] > 180 and max(colour[1:3]) < 80


def is_blue(colour: tuple[int, ...]) -> bool:
    return colour[2] > 180 and max(colour[0:2]) < 80


# 1 · the bytes tell the type ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mime", FORMATS)
def test_the_true_type_wins_over_the_declared_one(mime: str) -> None:
    data = picture(mime=mime)
    declared = "image/gif" if mime != "image/gif" else "image/png"
    (seen,), notices = fit_with_notices(request_of(Image(data=data, mime=declared)))
    assert (seen.mime, seen.data is data) == (mime, True)
    assert [(notice.kind, notice.why) for notice in notices] == [
        ("repaired", f"{declared} was declared, but the data are {mime}")
    ]


def test_a_type_that_was_not_told_is_added_without_a_word() -> None:
    (seen,), notices = fit_with_notices(request_of(picture()))
    assert (seen.mime, notices) == ("image/png", ())


def test_a_data_url_is_its_bytes() -> None:
    data = picture()
    url = f"data:image/gif;base64,{encode_base64(data)}"
    (seen,), notices = fit_with_notices(request_of(Image(url=url)))
    assert seen == Image(data=data, mime="image/png")
    assert [(notice.kind, notice.why) for notice in notices] == [
        ("repaired", "image/gif was declared, but the data are image/png")
    ]
    assert fit_with_notices(request_of(Image(url=f"DATA:;base64,{encode_base64(data)}"))) == ([seen], ())
    with pytest.raises(InvalidRequest):
        fit(request_of(Image(url="data:image/gif;base64,????")), Capabilities())


def test_a_type_that_only_the_target_knows_is_taken_as_it_is_told() -> None:
    drawing = Image(data=b"<svg/>", mime="image/svg+xml")
    capabilities = Capabilities(allowed_image_types=("image/svg+xml", "image/png"), max_image_bytes=6)
    assert images(fit(request_of(drawing), capabilities))[0] is drawing
    with pytest.raises(Unsupported, match="has 7 bytes; at most 6 are allowed"):
        fit(request_of(replace(drawing, data=b"<svg />")), capabilities)
    with pytest.raises(Unsupported, match="of an unknown type"):
        fit(request_of(drawing), Capabilities(allowed_image_types=("image/png",)))


# 2 · what fits is left alone ------------------------------------------------------------------------------------------


def test_what_fits_is_the_very_same_request() -> None:
    request = request_of(
        Image(data=picture(), mime="image/png"), Image(data=picture(mime="image/jpeg"), mime="image/jpeg")
    )
    assert fit(request, PROVIDERS["anthropic"].capabilities) is request


def test_what_fits_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "PIL" or name.startswith("PIL.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    data = PASSED
    assert fitted(data, max_image_side=100, max_image_bytes=len(data), allowed_image_types=COMMON).data is data


PASSED = picture()


def test_a_request_without_media_is_itself() -> None:
    request = Request(messages=(user("hello"),))
    assert fit(request, Capabilities(max_images=0, documents=False, audio=False)) is request


# 3 · too many pixels --------------------------------------------------------------------------------------------------


def test_the_worked_example() -> None:
    data = picture(100, 50)
    registry = Registry(env={"OPENAI_API_KEY": "k"})
    registry.set_capabilities("openai/m", max_image_side=32)
    registry.set_capabilities("openai/large", max_image_side=8000)
    request = request_of(Image(data=data, mime="image/png"))
    small = opened(sent(build_request(request, registry.target("openai/m")).body)[0])
    assert (small.format, small.size) == ("PNG", (32, 16))
    assert fit(request, registry.target("openai/large").capabilities) is request
    assert sent(build_request(request, registry.target("openai/large")).body) == [data]
    assert images(request)[0].data is data


@pytest.mark.parametrize("mime", [mime for mime in FORMATS if mime != "image/heic"])
def test_a_format_is_kept_when_it_shrinks(mime: str) -> None:
    seen = pixels(fitted(picture(100, 50, mime), max_image_side=32))
    assert (seen.size, Pillow.MIME[str(seen.format)]) == ((32, 16), mime)
    colours = seen.convert("RGB")
    assert is_red(at(colours, 3, 8))
    assert is_blue(at(colours, 28, 8))


@pytest.mark.parametrize(
    ("size", "side", "becomes"),
    [
        ((1, 20_000), 8000, (1, 8000)),
        ((20_000, 1), 32, (32, 1)),
        ((33, 32), 32, (32, 31)),
        ((1000, 3), 100, (100, 1)),
        ((50, 100), 10, (5, 10)),
    ],
)
def test_sides_shrink_together_and_never_to_nothing(size: tuple[int, int], side: int, becomes: tuple[int, int]) -> None:
    assert pixels(fitted(picture(*size), max_image_side=side)).size == becomes


@pytest.mark.parametrize("size", [(1, 1), (32, 32), (32, 1)])
def test_nothing_is_enlarged(size: tuple[int, int]) -> None:
    data = picture(*size)
    assert fitted(data, max_image_side=32).data is data
    assert pixels(fitted(data, max_image_side=32, allowed_image_types=("image/jpeg",))).size == size


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("mime", ["image/jpeg", "image/png", "image/webp", "image/tiff"])
def test_pictures_are_turned_upright(orientation: int, mime: str) -> None:
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    upright = Pillow.new("RGB", (96, 48), "white")
    ImageDraw.Draw(upright).rectangle((0, 0, 47, 23), "red")
    turn = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}.get(orientation)
    stored = upright if turn is None else upright.transpose(Pillow.Transpose(turn))
    seen = pixels(fitted(saved(stored, mime, exif=exif), max_image_side=24))
    assert seen.size == (24, 12)
    assert seen.getexif().get(0x0112, 1) == 1
    colours = seen.convert("RGB")
    assert [is_red(at(colours, *spot)) for spot in ((3, 2), (20, 2), (3, 9), (20, 9))] == [
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA", "I;16"])
def test_every_mode_of_a_png_is_taken(mode: str) -> None:
    grey = Pillow.linear_gradient("L").resize((100, 50))
    stored = (
        grey.convert("I").point(lambda value: value * 257).convert("I;16") if mode == "I;16" else grey.convert(mode)
    )
    for types in (("image/jpeg",), ("image/png",)):
        seen = pixels(fitted(saved(stored), max_image_side=32, allowed_image_types=types)).convert("L")
        levels = [at(seen, 16, row) for row in (0, 8, 15)]
        assert seen.size == (32, 16)
        assert [abs(level - wanted) < 60 for level, wanted in zip(levels, (8, 135, 248), strict=True)] == [True] * 3


@pytest.mark.parametrize("mode", ["I", "F", "CMYK", "YCbCr", "LAB", "PA"])
def test_the_modes_that_only_a_tiff_has_are_taken(mode: str) -> None:
    grey = Pillow.linear_gradient("L").resize((100, 50))
    stored = grey.convert("RGB").convert(mode) if mode in ("CMYK", "YCbCr") else grey.convert(mode)
    seen = pixels(fitted(saved(stored, "image/tiff"), allowed_image_types=("image/png",))).convert("L")
    levels = [at(seen, 50, row) for row in (0, 25, 49)]
    assert [abs(level - wanted) < 20 for level, wanted in zip(levels, (2, 130, 253), strict=True)] == [True] * 3


@pytest.mark.parametrize(
    ("mode", "level", "becomes", "white"),
    [
        ("I;16", 0x8000, 128, 65_535),
        ("I;16B", 0x8000, 128, 65_535),
        ("I;16", 200, 1, 65_535),
        ("I", 100, 100, 255),
        ("I", 0x8000, 128, 65_535),
        ("I", 2**30, 128, 2**31 - 1),
        ("F", 0.5, 128, 1),
        ("F", 128.0, 128, 255),
        ("F", 0.0, 0, 1),
        ("F", 1e9, 255, 1e9),
    ],
)
def test_grey_of_more_than_eight_bits_keeps_its_lightness(mode: str, level: float, becomes: int, white: float) -> None:
    data = saved(Pillow.new(mode, (8, 8), level), "image/tiff")
    (seen,), notices = fit_with_notices(request_of(data), allowed_image_types=("image/png",))
    assert abs(at(pixels(seen), 4, 4) - becomes) <= 1
    assert notices[1].why == f"the grey values have more than eight bits; {white:g} is sent as white"


@pytest.mark.parametrize("options", [{"progressive": True}, {"subsampling": 2}, {"quality": 5}, {"keep_rgb": True}])
def test_every_kind_of_jpeg_is_taken(options: dict[str, Any]) -> None:
    colours = pixels(fitted(picture(4000, 1000, "image/jpeg", **options), max_image_side=400)).convert("RGB")
    assert colours.size == (400, 100)
    assert is_red(at(colours, 20, 50))
    assert is_blue(at(colours, 380, 50))


def test_a_jpeg_of_four_inks_is_sent_in_three_colours() -> None:
    inks = Pillow.new("CMYK", (100, 50), (0, 255, 255, 0))
    seen = pixels(fitted(saved(inks, "image/jpeg"), max_image_side=32))
    assert (seen.mode, is_red(at(seen, 16, 8))) == ("RGB", True)


def test_the_profile_of_the_colours_stays() -> None:
    profile = b"a profile of colours"
    seen = pixels(fitted(picture(100, 50, "image/jpeg", icc_profile=profile), max_image_side=32))
    assert seen.info["icc_profile"] == profile


@pytest.mark.parametrize(("size", "most"), [(70_000, None), (5000, 20_000)])
def test_a_profile_that_takes_too_much_is_left_out(size: int, most: int | None) -> None:
    data = picture(100, 50, "image/jpeg", icc_profile=b"?" * size)
    (seen,), notices = fit_with_notices(request_of(data), max_image_side=32, max_image_bytes=most)
    assert "icc_profile" not in pixels(seen).info
    assert notices[1].why.startswith(f"the colour profile ({size} bytes) is dropped: ")


def test_colours_are_made_usual_before_their_profile_is_left_out() -> None:
    colours: Any = import_module("PIL.ImageCms")
    profile: bytes = colours.ImageCmsProfile(colours.createProfile("sRGB")).tobytes()
    data = picture(100, 50, "image/jpeg", icc_profile=profile)
    (seen,), notices = fit_with_notices(request_of(data), max_image_side=32, max_image_bytes=4000)
    assert notices[1].why == f"the colour profile ({len(profile)} bytes) is dropped, the colours are converted to sRGB"
    assert is_red(at(pixels(seen), 4, 8))


# 4 · types that are not allowed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mime", "types", "becomes"),
    [
        ("image/bmp", COMMON, "image/jpeg"),
        ("image/tiff", COMMON, "image/jpeg"),
        ("image/avif", COMMON, "image/jpeg"),
        ("image/heic", COMMON, "image/jpeg"),
        ("image/gif", ("image/jpg", "image/png"), "image/jpeg"),
        ("image/gif", ("image/webp", "image/png"), "image/png"),
        ("image/png", ("image/avif", "image/webp"), "image/avif"),
        ("image/png", ("image/heic", "image/bmp"), "image/bmp"),
        ("image/png", ("image/tiff",), "image/tiff"),
        ("image/png", ("image/gif",), "image/gif"),
    ],
)
def test_a_type_that_is_not_allowed_is_written_anew(mime: str, types: tuple[str, ...], becomes: str) -> None:
    seen = fitted(picture(mime=mime), allowed_image_types=types)
    assert (seen.mime, pixels(seen).size) == (becomes, (100, 50))


@pytest.mark.parametrize("types", [("image/heic",), ("image/heif", "image/jpeg")])
def test_heic_and_heif_are_allowed_together(types: tuple[str, ...]) -> None:
    data = picture(mime="image/heic")
    assert fitted(data, allowed_image_types=types).data is data


def test_a_type_that_nobody_can_write_is_unsupported() -> None:
    with pytest.raises(Unsupported, match=r"an image \(image/png\) cannot be converted to image/heic or image/x"):
        fitted(picture(), allowed_image_types=("image/heic", "image/x"))


def test_transparency_is_laid_over_white() -> None:
    clear = Pillow.new("RGBA", (100, 50), (0, 0, 0, 0))
    clear.paste((255, 0, 0, 255), (0, 0, 50, 50))
    for data in (saved(clear), saved(clear, "image/gif"), saved(clear, "image/webp", lossless=True)):
        (seen,), notices = fit_with_notices(request_of(data), allowed_image_types=("image/jpeg",))
        assert min(at(pixels(seen), 75, 25)) > 240
        assert is_red(at(pixels(seen), 25, 25))
        assert notices[-1].why == "image/jpeg has no transparency; the background is white"


def test_transparency_stays_where_the_type_has_it() -> None:
    clear = Pillow.new("RGBA", (100, 50), (0, 0, 255, 0))
    for mime in ("image/png", "image/webp", "image/gif"):
        seen = pixels(fitted(saved(clear, mime), max_image_side=32)).convert("RGBA")
        assert at(seen, 16, 8)[3] == 0


# 5 · too many bytes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mime", ["image/jpeg", "image/webp", "image/avif"])
def test_quality_is_lowered_before_size(mime: str) -> None:
    data = noise(256, 256, mime, quality=95)
    seen = fitted(data, max_image_bytes=len(data) // 2)
    assert len(seen.data or b"") <= len(data) // 2
    assert (seen.mime, pixels(seen).size) == (mime, (256, 256))


def test_sides_are_halved_when_quality_is_at_its_end() -> None:
    data = noise(256, 256, "image/jpeg")
    seen = fitted(data, max_image_bytes=3000)
    assert len(seen.data or b"") <= 3000
    assert pixels(seen).size == (128, 128)


@pytest.mark.parametrize("mime", ["image/jpeg", "image/webp"])
def test_quality_starts_high_again_after_the_sides_are_halved(mime: str) -> None:
    pixels_of_data = opened(noise(256, 256))
    half = pixels_of_data.resize((128, 128), Pillow.Resampling.LANCZOS, reducing_gap=2.0)
    budget = len(saved(half, mime, quality=85)) + 1
    assert budget < len(saved(pixels_of_data, mime, quality=30))
    seen = fitted(saved(pixels_of_data, mime, quality=95), max_image_bytes=budget)
    assert pixels(seen).size == (128, 128)
    assert len(seen.data or b"") > 0.9 * budget


def test_a_png_that_must_stay_one_gets_a_palette_only_if_it_must() -> None:
    data = noise(256, 256)
    seen = fitted(data, max_image_bytes=len(data) * 51 // 200, allowed_image_types=("image/png",))
    assert (pixels(seen).mode, pixels(seen).size) == ("RGB", (128, 128))


def test_a_png_gets_a_palette_before_it_gives_up_its_format() -> None:
    seen = fitted(noise(200, 200), max_image_bytes=60_000)
    assert (pixels(seen).format, pixels(seen).mode) == ("PNG", "P")


def test_a_png_becomes_a_jpeg_when_a_palette_is_not_enough() -> None:
    data = noise(200, 200)
    seen = fitted(data, max_image_bytes=20_000, allowed_image_types=COMMON)
    assert (pixels(seen).format, pixels(seen).size) == ("JPEG", (200, 200))


def test_a_png_with_transparency_becomes_a_webp() -> None:
    clear = opened(noise(200, 200)).convert("RGBA")
    clear.putalpha(Pillow.linear_gradient("L").resize((200, 200)))
    seen = fitted(saved(clear), max_image_bytes=20_000, allowed_image_types=COMMON)
    assert (pixels(seen).format, pixels(seen).mode) == ("WEBP", "RGBA")
    opaque = fitted(saved(clear), max_image_bytes=20_000, allowed_image_types=("image/png", "image/jpeg"))
    assert pixels(opaque).format == "JPEG"


@pytest.mark.parametrize("only", ["image/png", "image/gif", "image/bmp"])
def test_a_target_of_one_type_gets_it_smaller(only: str) -> None:
    seen = fitted(noise(200, 200), max_image_bytes=9000, allowed_image_types=(only,))
    assert seen.mime == only
    assert len(seen.data or b"") <= 9000
    assert pixels(seen).width < 200


def test_a_side_that_a_format_cannot_write_is_halved() -> None:
    assert pixels(fitted(picture(20_000, 1), allowed_image_types=("image/webp",))).size == (10_000, 1)
    assert pixels(fitted(picture(40_000, 1), allowed_image_types=("image/avif",))).size == (20_000, 1)


def test_what_cannot_be_made_small_enough_is_unsupported() -> None:
    with pytest.raises(
        Unsupported, match="cannot be made to fit: at most 100 bytes are allowed, the smallest version has"
    ):
        fitted(noise(200, 200), max_image_bytes=100)


def test_images_share_what_they_may_have_together() -> None:
    files = [noise(100, 100, "image/jpeg", quality=95) for _ in range(3)]
    total = sum(map(len, files))
    request = request_of(files[0], Image(url=f"data:image/jpeg;base64,{encode_base64(files[1])}"), files[2])
    seen = images(fit(request, Capabilities(max_images_bytes=total // 2)))
    assert sum(len(image.data or b"") for image in seen) <= total // 2
    assert [pixels(image).format for image in seen] == ["JPEG"] * 3
    assert [image.data for image in images(fit(request_of(*files), Capabilities(max_images_bytes=total)))] == files
    assert [
        image.data for image in images(fit(request_of(*files), Capabilities(max_images=1, max_images_bytes=total // 2)))
    ] == [files[2]]


def test_small_images_keep_what_they_have_and_large_ones_share_the_rest() -> None:
    photo, icons = noise(300, 300, "image/jpeg", quality=95), [picture(20 + side, 20) for side in range(10)]
    together = sum(map(len, icons)) + len(photo) - 1000
    seen = images(fit(request_of(*icons, photo), Capabilities(max_images_bytes=together)))
    assert [image.data for image in seen[:-1]] == icons
    assert together // 2 < len(seen[-1].data or b"") <= len(photo) - 1000


def test_images_that_the_target_fetches_share_nothing() -> None:
    data = noise(100, 100, "image/jpeg")
    links = [Image(url=f"https://x/{number}") for number in range(9)]
    capabilities = Capabilities(image_urls=True, max_images_bytes=len(data))
    assert images(fit(request_of(*links, data), capabilities))[-1].data is data


def test_a_png_is_not_written_again_as_it_is() -> None:
    data, steps = saved(opened(noise(50, 50)).resize((200, 200))), itertools.count()
    fit_image(data, Bounds(size=len(data) - 1, types=("image/png",)), stop=lambda: next(steps) < 0)
    assert next(steps) == 2  # it was decoded, and got its palette


def test_a_png_that_was_never_packed_is_packed() -> None:
    data = picture(200, 200, compress_level=0)
    seen = fitted(data, max_image_bytes=len(data) // 20)
    assert (pixels(seen).format, pixels(seen).mode) == ("PNG", "RGB")


def test_work_stops_between_its_steps() -> None:
    answers = iter((False, False, True))
    with pytest.raises(TimedOut, match="while an image was made to fit") as caught:
        fit_image(noise(200, 200, "image/jpeg"), Bounds(size=1000), stop=lambda: next(answers))
    assert not caught.value.count_failure


def test_a_large_png_keeps_its_format_and_size() -> None:
    data = saved(Pillow.effect_mandelbrot((2400, 2000), (-2, -1, 1, 1), 20).convert("RGB"), compress_level=0)
    seen = fitted(data, max_image_bytes=len(data) // 4, allowed_image_types=COMMON)
    assert (pixels(seen).size, pixels(seen).format) == ((2400, 2000), "PNG")


def test_what_cannot_be_written_is_told_as_the_cause() -> None:
    with pytest.raises(Unsupported, match="the smallest version has") as caught:
        fitted(picture(20_000, 1), allowed_image_types=("image/webp",), max_image_bytes=10)
    assert "16383" in str(caught.value.__cause__)


# 6 · too many images --------------------------------------------------------------------------------------------------


def test_of_thirty_images_the_newest_eight_are_kept() -> None:
    files = [picture(30 + number, 20) for number in range(30)]
    target = Registry(env={"OLLAMA_API_KEY": "k"}).target("ollama-cloud/m")
    http = build_request(request_of(*files), target)
    assert sent(http.body) == files[-8:]
    assert http.body.count(b"[An earlier image was left out: the model takes at most 8.]") == 22
    assert [(notice.kind, notice.what) for notice in http.notices] == [("dropped", "22 of 30 images")]
    with pytest.raises(Unsupported, match="strict"):
        build_request(replace(request_of(*files), strict=True), target)


def test_images_of_results_count_and_are_fitted() -> None:
    files = [picture(40 + number, 20) for number in range(3)]
    call = ToolCall(id="call_1", name="look")
    result = ToolResult(id="call_1", content=(Text(text="two"), Image(data=files[0]), Image(data=files[1])))
    untouched = ToolResult(id="call_2", content=(Text(text="none"),))
    request = Request(
        messages=(assistant(call), tool_results(result, untouched), user(Image(data=files[2], mime="image/png")))
    )
    seen = fit(request, Capabilities(max_images=2, max_image_side=20))
    first, second = seen.messages[1].tool_results
    assert second is untouched
    text, note, inner = first.parts
    assert text == Text(text="two")
    assert isinstance(note, Text)
    assert isinstance(inner, Image)
    assert pixels(inner).size == (20, 10)
    assert pixels(images(seen)[0]).size == (20, 10)
    assert seen.messages[0] is request.messages[0]


def test_an_image_that_is_left_out_may_be_anything() -> None:
    seen = fit(request_of(b"no picture", picture()), Capabilities(max_images=1))
    assert [type(part) for message in seen.messages for part in message.parts] == [Text, Text, Text, Image]


def test_above_twenty_images_a_stricter_side_holds() -> None:
    capabilities = PROVIDERS["anthropic"].capabilities
    large = picture(2001, 10)
    for count, side in ((20, 2001), (21, 2000)):
        seen = images(fit(request_of(*[large] * count), capabilities))
        assert {pixels(image).width for image in seen} == {side}


def test_images_that_are_left_out_do_not_count_as_many() -> None:
    capabilities = Capabilities(max_images=2, many_images=2, many_images_side=10)
    data = picture()
    assert [image.data for image in images(fit(request_of(data, data, data), capabilities))] == [data, data]


# 7 · animation --------------------------------------------------------------------------------------------------------


def animation(mime: str) -> bytes:
    frames = [Pillow.new("RGB", (100, 50), colour) for colour in ("red", "blue", "green")]
    return saved(frames[0], mime, save_all=True, append_images=frames[1:], duration=100)


@pytest.mark.parametrize("mime", ["image/gif", "image/webp", "image/png", "image/avif", "image/tiff"])
def test_an_animation_that_fits_stays_whole(mime: str) -> None:
    data = animation(mime)
    assert fitted(data, max_image_side=100).data is data


@pytest.mark.parametrize("mime", ["image/gif", "image/webp", "image/png", "image/avif", "image/tiff"])
@pytest.mark.parametrize("capabilities", [{"max_image_side": 32}, {"animated_images": False}])
def test_an_animation_that_must_change_becomes_its_first_frame(mime: str, capabilities: dict[str, Any]) -> None:
    (seen,), notices = fit_with_notices(request_of(animation(mime)), **capabilities)
    assert getattr(pixels(seen), "n_frames", 1) == 1
    assert is_red(at(pixels(seen).convert("RGB"), 8, 8))
    assert ("changed", "only the first frame is sent") in [(notice.kind, notice.why) for notice in notices]


# 8 · what cannot be taken ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "capabilities", "why"),
    [
        (Image(data=PASSED), {"max_images": 0}, "does not support images"),
        (
            Image(url="https://x/a.png?token=1"),
            {},
            "cannot fetch https://x/a.png; send the bytes of the image",
        ),
        (Image(url="https://me:secret@x/a.png"), {}, "cannot fetch https://x/a.png; send"),
        (Document(data=b"%PDF", mime="application/pdf"), {"documents": False}, "does not support documents"),
        (Document(data=b"PK", mime="application/zip"), {}, "does not support documents of the type application/zip"),
        (
            Document(data=b"\xff", mime="text/plain"),
            {"allowed_document_types": ("application/pdf",)},
            "does not support documents of the type text/plain",
        ),
        (Document(data=b"x", mime="video/mp4"), {}, "does not support video"),
        (
            Document.from_url("https://x/a.mp4"),
            {"video": True},
            "cannot fetch https://x/a.mp4; send the bytes of the vid",
        ),
        (
            Document(data=b"PK", mime="video/mp4"),
            {"video": True, "max_document_bytes": 1},
            "a video has 2 bytes; at most 1 are allowed",
        ),
        (Document(data=b"%PDF", mime="application/pdf"), {"max_document_bytes": 3}, "a document has 4 bytes"),
        (Document.from_url("https://x/a.pdf"), {}, "cannot fetch https://x/a.pdf; send the bytes of the document"),
        (Audio(data=b"RIFF", mime="audio/wav"), {"audio": False}, "does not support audio"),
        (
            Audio(data=b"RIFF", mime="audio/wav"),
            {"max_audio_bytes": 3},
            "an audio file has 4 bytes; at most 3 are allowed",
        ),
    ],
)
def test_what_a_target_cannot_take_is_unsupported(part: Any, capabilities: dict[str, Any], why: str) -> None:
    with pytest.raises(Unsupported, match=f"^{why}"):
        fit(Request(messages=(user(part),)), Capabilities(**capabilities))


@pytest.mark.parametrize(
    ("document", "capabilities", "text"),
    [
        (Document(data=b"a,b", mime="text/csv", name="t.csv"), {"documents": False}, "[Document t.csv]\na,b"),
        (Document(data=b"a,b", mime="text/csv"), {"allowed_document_types": ("application/pdf",)}, "a,b"),
        (Document(data=b'{"a":1}', mime="application/json"), {}, '{"a":1}'),
        (Document(data=b"\xef\xbb\xbfa", mime="Text/Plain; charset=utf-8"), {"documents": False}, "a"),
    ],
)
def test_a_document_of_text_is_sent_as_text_where_it_is_not_supported(
    document: Document, capabilities: dict[str, Any], text: str
) -> None:
    target = Capabilities(**capabilities)
    result = ToolResult(id="call_1", content=(document,))
    media = find_media(Request(messages=(user(document, result),)), target)
    assert media is not None
    media.check()
    fitted = media.fit()
    assert fitted.request.messages[0].parts == (
        Text(text=text),
        ToolResult(id="call_1", content=(Text(text=text),)),
    )
    assert [notice.kind for notice in fitted.notices] == ["changed", "changed"]
    why = f"documents of the type {document.mime} are not supported; it is sent as text"
    assert fitted.notices[0].why == why
    degraded = find_media(Request(messages=(user(result),)), target, degrade_tool_media=True)
    assert degraded is not None
    assert degraded.fit().request.messages[0].tool_results[0].text == text


def test_documents_that_are_supported_stay() -> None:
    office = Document(data=b"PK", mime="application/vnd.openxmlformats-officedocument.wordprocessingml.document")
    request = Request(messages=(user(office, Document(data=b"a,b", mime="text/csv")),))
    for office_types in ("application/*", "application/vnd.*", "*/*"):
        assert fit(request, Capabilities(allowed_document_types=(office_types, "text/*"))) is request
    video = Request(messages=(user(Document.from_url("https://youtu.be/9hE5-98ZeCg")),))
    assert fit(video, Capabilities(video=True, video_urls=True, documents=False)) is video
    with pytest.raises(Unsupported, match="does not support documents of the type application/vnd"):
        fit(request, Capabilities())


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (Image(data=b""), "an image is empty"),
        (Document(data=b"", mime="text/plain"), "a document is empty"),
        (Audio(data=b"", mime="audio/wav"), "an audio file is empty"),
        (ToolResult(id="call_1", content=(Image(data=b""),)), "an image is empty"),
    ],
)
@pytest.mark.parametrize("name", ["openai/m", "anthropic/m", "google/m", "ollama/m", "deepseek/m"])
def test_nothing_is_invalid_whoever_is_asked(part: Any, why: str, name: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        build_request(Request(messages=(user(part),)), Registry(env={}).target(name))


def test_documents_and_sounds_that_fit_pass() -> None:
    parts = (
        Document(data=b"%PDF", mime="application/pdf"),
        Document(data=b"a,b", mime="Text/CSV; charset=utf-8"),
        Audio(data=b"RIFF", mime="audio/wav"),
    )
    request = Request(messages=(user(*parts),))
    assert fit(request, Capabilities(max_document_bytes=4, max_audio_bytes=4)) is request


def test_a_url_is_left_to_a_target_that_fetches_it() -> None:
    request = request_of(Image(url="https://x/a.png"))
    assert fit(request, Capabilities(image_urls=True, max_image_bytes=1)) is request


def test_heic_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    data = picture(mime="image/heic")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(Unsupported, match=r"pip install 'dragoman\[heif\]'"):
        fitted(data, max_image_side=32)
    assert fitted(data, allowed_image_types=("image/heic",)).data is data


# Once a call, and where it blocks nobody ------------------------------------------------------------------------------


def test_a_picture_is_made_once_for_equal_limits() -> None:
    cache, data = MediaCache(), picture()
    request, capabilities = request_of(data, bytes(bytearray(data))), Capabilities(max_image_side=32)
    twins = [media_of(request, capabilities, cache).fit().request for _ in range(2)]
    made = [image.data for twin in twins for image in images(twin)]
    assert all(left is right for left, right in itertools.pairwise(made))
    other = images(media_of(request_of(data), Capabilities(max_image_side=16), cache).fit().request)[0]
    assert pixels(other).size == (16, 8)


def test_what_cannot_be_made_to_fit_is_not_tried_again() -> None:
    cache, capabilities, steps = MediaCache(), Capabilities(max_image_bytes=10), itertools.count()
    seen: list[int] = []
    for _ in range(2):
        with pytest.raises(Unsupported, match="cannot be made to fit"):
            media_of(request_of(PASSED), capabilities, cache).fit(lambda: next(steps) < 0)
        seen.append(next(steps))
    assert seen[1] == seen[0] + 1
    assert not media_of(request_of(PASSED), capabilities, cache).is_heavy


def test_fetched_bytes_are_fitted() -> None:
    cache = MediaCache()
    cache.add("https://x/a", picture())
    linked = request_of(Image(url="https://x/a", detail="low"))
    seen = images(media_of(linked, Capabilities(max_image_side=32), cache).fit().request)[0]
    assert (pixels(seen).size, seen.url, seen.detail) == ((32, 16), None, "low")


@pytest.mark.parametrize(
    ("part", "capabilities", "heavy"),
    [
        (Text(text="hello"), {}, False),
        (Image(data=PASSED), {}, False),
        (Image(data=b"no picture"), {}, False),
        (Image(data=PASSED), {"max_image_side": 32}, True),
        (Image(data=b" " * 300_000), {}, True),
        (Image(url="https://x/a.png"), {}, False),
        (Image(url="data:image/png;base64,iVBO"), {}, True),
        (Document(data=b" " * 300_000, mime="text/plain"), {}, True),
        (ToolResult(id="call_1", content=(Image(data=PASSED),)), {"max_image_bytes": 1}, True),
    ],
)
def test_work_is_heavy_where_pixels_or_many_bytes_are_touched(
    part: Any, capabilities: dict[str, Any], *, heavy: bool
) -> None:
    media = find_media(Request(messages=(user(part),)), Capabilities(**capabilities))
    assert (media is not None and media.is_heavy) is heavy


def test_what_was_fetched_may_be_heavy() -> None:
    cache = MediaCache()
    cache.add("https://x/a", PASSED)
    request, capabilities = request_of(Image(url="https://x/a")), Capabilities(max_image_side=32)
    assert not media_of(request, Capabilities(), cache).is_heavy
    assert media_of(request, capabilities, cache).is_heavy
    media_of(request, capabilities, cache).fit()
    assert not media_of(request, capabilities, cache).is_heavy


def test_only_what_is_sent_and_cannot_be_fetched_by_the_target_is_fetched() -> None:
    request = request_of(*(Image(url=url) for url in ("https://x/1", "data:,", "https://x/2")), picture())
    assert media_of(request, Capabilities()).urls == ["https://x/1", "https://x/2"]
    assert media_of(request, Capabilities(max_images=2)).urls == ["https://x/2"]
    assert media_of(request, Capabilities(image_urls=True)).urls == []


def test_a_picture_in_bounds_is_itself() -> None:
    assert fit_image(PASSED, Bounds(side=100, size=len(PASSED), types=("image/png",))).data is PASSED


# Media in tool results that a target does not take --------------------------------------------------------------------


def with_result(*content: Any) -> Request:
    return Request(messages=(user("?"), tool_results(ToolResult(id="c", name="see", content=tuple(content)))))


@pytest.mark.parametrize(
    ("part", "capabilities", "reason", "note"),
    [
        (Image(data=PASSED), {"max_images": 0}, None, "[An image was left out for this model: "),
        (
            Document(data=b"x", mime="application/pdf"),
            {"documents": False},
            None,
            "[A document was left out for this model: ",
        ),
        (Image(data=PASSED), {}, Unsupported("only texts"), "[An image was left out for this model: only texts.]"),
        (Image(data=PASSED), {}, None, None),
    ],
)
def test_a_note_replaces_media_in_tool_results(
    part: Any, capabilities: dict[str, Any], reason: Unsupported | None, note: str | None
) -> None:
    request = with_result(Text(text="seen"), part)
    media = find_media(request, Capabilities(**capabilities), degrade_tool_media=True)
    assert media is not None
    media.check()
    fitted = media.fit(reason=reason)
    (result,) = fitted.request.messages[1].parts
    assert isinstance(result, ToolResult)
    text, other = result.parts
    assert text == Text(text="seen")
    if note is None:
        assert isinstance(other, Image)
        assert not fitted.notices
    else:
        assert isinstance(other, Text)
        assert other.text.startswith(note)
        assert [notice.kind for notice in fitted.notices] == ["dropped"]


def test_a_url_that_could_not_be_fetched_is_not_tried_again() -> None:
    cache = MediaCache()
    cache.add("https://x/a", Unsupported("HTTP 404"))
    with pytest.raises(Unsupported, match="HTTP 404"):
        _ = media_of(request_of(Image(url="https://x/a")), Capabilities(), cache).urls
    degraded = find_media(with_result(Image(url="https://x/a")), Capabilities(), cache, degrade_tool_media=True)
    assert degraded is not None
    assert degraded.urls == []


def test_a_cache_has_room_for_images() -> None:
    cache = MediaCache()
    assert cache.room == MAX_FETCHED
    cache.add("https://x/a", b"x" * (MAX_FETCHED_TOGETHER - 5))
    assert cache.room == 5
