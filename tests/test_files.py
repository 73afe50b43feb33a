"""The value `File`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman import File, InvalidRequest, user
from dragoman.types import Audio, Document, Image
from dragoman.types.files import file_name, is_file


def test_a_file_is_a_part_with_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "voice.wav"
    path.write_bytes(b"RIFF")
    (part,) = user(File.from_path(path)).parts
    assert part == Audio(data=b"RIFF", mime="audio/wav", extra={"file": {"name": "voice.wav"}})
    assert is_file(part)
    assert isinstance(File(data=bytearray(b"x"), mime="image/png").part, Image)  # type: ignore[arg-type]
    document = File(data=b"x", mime="text/plain", name="é").part
    assert isinstance(document, Document)
    assert file_name(document) == "é"
    assert file_name(Image(data=b"x", extra={"file": 3})) == "file"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: File.from_path("/no/such/file.pdf"), "path must be a file that can be read, got '/no/such/file.pdf'"),
        (lambda: File(data="x", mime="text/plain"), "data must be bytes, got 'x'; use File.from_path"),  # type: ignore[arg-type]
        (lambda: File(data=b"x", mime=3), "mime must be a str, got 3; such as application/pdf"),  # type: ignore[arg-type]
    ],
)
def test_wrong_files_are_refused(make: Callable[[], object], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        make()
