"""An image in a chain: a target that does not accept images is skipped.

It runs on the `demo` provider: no key, no network.
"""

from io import BytesIO

from PIL import Image as Picture

import dragoman
from dragoman import Image


def draw() -> Image:
    """Return a red rectangle."""
    file = BytesIO()
    Picture.new("RGB", (120, 80), "red").save(file, "PNG")
    return Image(data=file.getvalue(), mime="image/png")


def main() -> None:
    registry = dragoman.Registry()
    registry.set_capabilities("demo/slow", max_images=0)
    response = registry.model("demo/slow, demo/any").generate(["What is this?", draw()])
    print(response.text)
    for attempt in response.attempts:
        print(f"  {attempt.target}: {attempt.outcome}{f' ({attempt.error})' if attempt.error else ''}")


if __name__ == "__main__":
    main()
