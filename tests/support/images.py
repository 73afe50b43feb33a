"""Pictures for tests: made here by Pillow, and read back from what a target would get."""

import io
import json
import struct
import zlib
from importlib import import_module
from typing import Any

from PIL import Image as Pillow

from dragoman.types import Image, is_list
from dragoman.types.data_urls import decode_base64

FORMATS = {
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WEBP",
    "image/bmp": "BMP",
    "image/tiff": "TIFF",
    "image/avif": "AVIF",
    "image/heic": "HEIF",
}


def saved(pixels: Pillow.Image, mime: str = "image/png", **options: Any) -> bytes:
    """The file of some pixels."""
    file = io.BytesIO()
    if mime == "image/heic":
        heif: Any = import_module("pillow_heif")
        heif.from_pillow(pixels).save(file, **options)
    else:
        pixels.save(file, FORMATS[mime], **options)
    return file.getvalue()


def picture(width: int = 100, height: int = 50, mime: str = "image/png", **options: Any) -> bytes:
    """A file of so many pixels: red on the left, blue on the right."""
    pixels = Pillow.new("RGB", (width, height), "red")
    pixels.paste("blue", (width // 2, 0, width, height))
    return saved(pixels, mime, **options)


def noise(width: int, height: int, mime: str = "image/png", **options: Any) -> bytes:
    """A file that no format makes small, always the same."""
    state, rows = 1, bytearray()
    for _ in range(width * height * 3 // 4 + 1):
        state = state * 6364136223846793005 + 1442695040888963407 & 0xFFFFFFFFFFFFFFFF
        rows += (state >> 32).to_bytes(4, "big")
    return saved(Pillow.frombytes("RGB", (width, height), bytes(rows[: width * height * 3])), mime, **options)


def opened(data: bytes) -> Pillow.Image:
    """The pixels of a file, all of them decoded."""
    pixels = Pillow.open(io.BytesIO(data))
    pixels.load()
    return pixels


def chunk(name: bytes, data: bytes = b"") -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def bomb(width: int, height: int) -> bytes:
    """A PNG that says it has so many pixels, and is whole by its chunks."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND")


def sent(body: bytes) -> list[bytes]:
    """The images in a body of Ollama's or of Chat Completions, in order."""
    found: list[bytes] = []
    for message in json.loads(body)["messages"]:
        found += map(decode_base64, message.get("images", ()))
        content: Any = message.get("content")
        for part in content if is_list(content) else ():
            if part["type"] == "image_url":
                found.append(Image.from_data_url(part["image_url"]["url"]).data or b"")
    return found
