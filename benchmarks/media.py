"""CPU time to fit an image to a target, compared with Pillow, and how long an event loop is blocked by it."""

import asyncio
import io
import random
from collections.abc import Callable, Coroutine
from statistics import median
from time import perf_counter

from PIL import Image as Pillow
from PIL import ImageOps

from benchmarks.clock import per_call, seconds
from benchmarks.table import Section, ms, times, us
from dragoman.media import fit
from dragoman.models import Model
from dragoman.registry import Registry
from dragoman.targets.target import Capabilities
from dragoman.types import Image, Request, user

SIDE, SIZE = 1568, 5 * 1024 * 1024
_LIMITS = Capabilities(max_image_side=SIDE, max_image_bytes=SIZE, allowed_image_types=("image/jpeg", "image/png"))


def photo() -> bytes:
    """A JPEG of twelve megapixels and about 5 MB, like a phone takes them."""
    generator = random.Random(7)
    grain = Pillow.frombytes("RGB", (800, 600), generator.randbytes(800 * 600 * 3))
    file = io.BytesIO()
    grain.resize((4000, 3000), Pillow.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    return file.getvalue()


def media() -> Section:
    """Fitting an image and passing one on, each compared with the minimum of work; then the longest block of a loop."""
    data = photo()
    request = Request(messages=(user("see", Image(data=data, mime="image/jpeg")),))
    fitted, plain = seconds(lambda: fit(request, _LIMITS)), seconds(lambda: _by_hand(data))
    passed, copied = (
        per_call(lambda: fit(request, Capabilities(max_image_side=8000))),
        per_call(lambda: bytearray(data)),
    )
    registry = Registry(env={})
    registry.set_capabilities("demo/any", max_image_side=SIDE, max_image_bytes=SIZE)
    model = registry.model("demo/any")
    stop, stop_plain = _longest_stop(lambda: _sending(model, data)), _longest_stop(lambda: _by_hand_inside(data))
    rows = [
        ("fit a JPEG of 12 megapixels to 1568 px", ms(fitted), times(1)),
        ("  Pillow: open, turn, resize, save", ms(plain), times(plain / fitted)),
        ("pass on the same where it fits", us(passed), times(1)),
        ("  copy its bytes", us(copied), times(copied / passed)),
        ("longest stop of an event loop that sends it", ms(stop), times(1)),
        ("  Pillow inside the loop", ms(stop_plain), times(stop_plain / stop)),
    ]
    return Section("(e) images", ("", "time", "time / ours"), rows)


def _by_hand(data: bytes) -> bytes:
    pixels = ImageOps.exif_transpose(Pillow.open(io.BytesIO(data)))
    scale = SIDE / max(pixels.size)
    size = round(pixels.width * scale), round(pixels.height * scale)
    file = io.BytesIO()
    pixels.resize(size, Pillow.Resampling.LANCZOS).save(file, "JPEG", quality=85)
    return file.getvalue()


async def _by_hand_inside(data: bytes) -> None:
    await asyncio.sleep(0)
    _by_hand(data)


async def _sending(model: Model, data: bytes) -> None:
    await model.agenerate(["see", Image(data=data, mime="image/jpeg")])


def _longest_stop(make: Callable[[], Coroutine[None, None, None]]) -> float:
    """The longest wall time between two turns of a loop that has one every millisecond, after a first run."""

    async def watched() -> float:
        task, longest, last = asyncio.ensure_future(make()), 0.0, perf_counter()
        while not task.done():
            await asyncio.sleep(0.001)
            now = perf_counter()
            longest, last = max(longest, now - last), now
        return longest

    return median([asyncio.run(watched()) for _ in range(8)][1:])
