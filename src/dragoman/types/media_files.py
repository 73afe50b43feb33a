"""Reads media from files and from Pillow images."""

from io import BytesIO
from typing import Any, Protocol, TypeGuard

from dragoman.errors import InvalidRequest
from dragoman.types.checks import is_encodable, wrong_value

UNKNOWN_TYPE = "application/octet-stream"
_PNG_MODES = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"})
_JPEG_MODES = frozenset({"L", "RGB", "CMYK"})


def read_media(path: object, default: str | None = None, /) -> tuple[bytes, str, str]:
    """The bytes of a file, their MIME type, and the name of the file. Raises InvalidRequest if it cannot be read.

    If the type is unknown, it is `default`, or else that of text or of any bytes.
    """
    from pathlib import Path

    from dragoman.media.sniff import sniff

    if not isinstance(path, str | Path) or not str(path) or not is_encodable(str(path).replace("\0", "\ud800")):
        raise wrong_value("path", "a str or a Path", path)
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise wrong_value("path", "a file that can be read", str(path), error.strerror or "") from error
    return data, sniff(data) or guess_type(file.name) or default or _text_type(data), file.name


def guess_type(name: str, /) -> str | None:
    """The MIME type by the ending of a name.

    >>> guess_type("notes.md"), guess_type("voice.mp3"), guess_type("unknown")
    ('text/markdown', 'audio/mpeg', None)
    """
    import mimetypes

    _, dot, ending = name.rpartition(".")
    ending = f".{ending.lower()}" if dot else ""
    return _TYPES.get(ending) or mimetypes.guess_type(f"file{ending}")[0]


_OFFICE = "application/vnd.openxmlformats-officedocument."
_TYPES = {
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".m4a": "audio/mp4",
    ".webp": "image/webp",
    ".docx": f"{_OFFICE}wordprocessingml.document",
    ".xlsx": f"{_OFFICE}spreadsheetml.sheet",
    ".pptx": f"{_OFFICE}presentationml.presentation",
    ".mp4": "video/mp4",
    ".mov": "video/quicktime",
    ".webm": "video/webm",
}
"""Endings that some systems do not know, or know by another name."""


def _text_type(data: bytes) -> str:
    try:
        data.decode()
    except UnicodeDecodeError:
        return UNKNOWN_TYPE
    return "text/plain"


class PillowImage(Protocol):
    """What is needed of Pillow's `Image` to recognise it; Pillow itself is an optional dependency."""

    @property
    def mode(self) -> str: ...
    @property
    def size(self) -> tuple[int, int]: ...


def is_pil(value: object, /) -> TypeGuard[PillowImage]:
    """Whether a value is a Pillow image. Pillow is not imported for this."""
    return any(kind.__module__ == "PIL.Image" and kind.__name__ == "Image" for kind in type(value).__mro__)


def encode_pil(value: PillowImage, /) -> tuple[bytes, str]:
    """The bytes of a Pillow image and their MIME type."""
    if not is_pil(value):
        raise wrong_value("image", "a Pillow image", value)
    image: Any = value
    if 0 in image.size:
        raise InvalidRequest("image must be a Pillow image with pixels, got an empty one", param="image")
    try:
        return _encode_pil(image)
    except (OSError, SyntaxError, ValueError) as error:  # Pillow reads the pixels of an opened file only here
        reason = f"image must be a Pillow image that can be read and saved, got an error: {error}"
        raise InvalidRequest(reason, param="image") from error


def _encode_pil(image: Any) -> tuple[bytes, str]:
    file = BytesIO()
    if image.format == "JPEG" and image.mode in _JPEG_MODES:
        image.save(file, "JPEG", quality=95)
        return file.getvalue(), "image/jpeg"
    (image if image.mode in _PNG_MODES else image.convert("RGBA" if image.mode == "PA" else "RGB")).save(file, "PNG")
    return file.getvalue(), "image/png"
