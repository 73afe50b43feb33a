"""A caption for every image of a folder: `python examples/image_captions.py FOLDER [SPEC]`.

Images of any size and type are resized and converted for the target. Without arguments, it draws two pictures, and a
simulated Claude answers.
"""

import sys
import tempfile
from pathlib import Path

from PIL import Image as Picture

import dragoman
from dragoman.testing import ClaudeSimulator

TYPES = {".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tiff"}


def caption(model: dragoman.Model, path: Path) -> dragoman.Response:
    return model.generate(
        ["Describe this image in one line, for a reader who cannot see it.", dragoman.Image.from_path(path)]
    )


def caption_all(model: dragoman.Model, folder: Path) -> None:
    for path in sorted(path for path in folder.iterdir() if path.suffix.lower() in TYPES):
        response = caption(model, path)
        print(f"{path.name}: {response.text}")
        for notice in response.notices:
            print(f"    {notice.kind}: {notice.why}")


def main() -> None:
    if len(sys.argv) > 1:
        caption_all(dragoman.model(sys.argv[2] if len(sys.argv) > 2 else "demo/any"), Path(sys.argv[1]))
        return
    claude = ClaudeSimulator("A plain blue area, like a calm sea.", "A wide red band, like a sunset.")
    with tempfile.TemporaryDirectory() as folder:
        Picture.new("RGB", (640, 480), "navy").save(Path(folder) / "sea.bmp")
        Picture.new("RGB", (9000, 300), "red").save(Path(folder) / "sunset.png")
        caption_all(claude.model(), Path(folder))


if __name__ == "__main__":
    main()
