"""Files that are uploaded once to a provider, and then used by their id.

A `File` becomes an ordinary part: an image, a document or audio, with a mark in its `extra`. A target that stores files
gets the id of an upload for it; every other target gets its bytes.
"""

from typing import TYPE_CHECKING, Any

from msgspec.structs import force_setattr

from dragoman.types.base import is_object
from dragoman.types.checks import as_bytes, as_text
from dragoman.types.media_files import read_media
from dragoman.types.parameters import named_parameters
from dragoman.types.parts import Audio, Document, Image, Opaque, Part
from dragoman.types.structs import Value

if TYPE_CHECKING:
    from pathlib import Path

FILE = "file"
"""The name in `extra` under which a part has its mark."""


class File(Value, frozen=True, kw_only=True, tag="file", omit_defaults=False):
    """A file that each provider gets once: it is uploaded, and later requests use its id. It stands among parts.

    A provider that stores no files, or not this type, gets the bytes in every request.

    >>> File(data=b"%PDF-1.4", mime="application/pdf", name="tides.pdf").part.name
    'tides.pdf'
    """

    data: bytes
    mime: str
    name: str | None = None

    def __post_init__(self) -> None:
        if type(self.data) is not bytes:
            force_setattr(self, "data", as_bytes("data", self.data, "use File.from_path"))
        force_setattr(self, "mime", as_text("mime", self.mime, "such as application/pdf"))
        if self.name is not None:
            force_setattr(self, "name", as_text("name", self.name))

    @classmethod
    @named_parameters
    def from_path(cls, path: "str | Path", *, name: str | None = None) -> "File":
        """The file at a path; its name is that of the file."""
        data, mime, file = read_media(path)
        return cls(data=data, mime=mime, name=name or file)

    @property
    def part(self) -> Image | Document | Audio:
        """The file as a part of a message, with a mark that it may be uploaded."""
        extra: dict[str, Any] = {FILE: {} if self.name is None else {"name": self.name}}
        if self.mime.startswith("image/"):
            return Image(data=self.data, mime=self.mime, extra=extra)
        if self.mime.startswith("audio/"):
            return Audio(data=self.data, mime=self.mime, extra=extra)
        return Document(data=self.data, mime=self.mime, name=self.name, extra=extra)


def is_file(part: Part, /) -> bool:
    """Whether a part may be uploaded.

    >>> is_file(File(data=b"x", mime="text/plain").part), is_file(Document(data=b"x", mime="text/plain"))
    (True, False)
    """
    return not isinstance(part, Opaque) and FILE in part.extra and isinstance(part, Image | Document | Audio)


def file_name(part: Image | Document | Audio, /) -> str:
    """The name of a file for a provider.

    >>> file_name(File(data=b"x", mime="image/png").part)
    'file'
    """
    mark = part.extra.get(FILE)
    name = mark.get("name") if is_object(mark) else None
    return name if isinstance(name, str) else "file"
