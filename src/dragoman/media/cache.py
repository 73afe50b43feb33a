"""The pictures of one call in, the same out again: what was fetched and what was made, so that none is done twice."""

from collections.abc import Callable, Sequence

from dragoman.errors import Unsupported
from dragoman.media.fit_image import Bounds, Picture, Stop, fit_picture
from dragoman.types import Image

MAX_FETCHED = 20 * 1024 * 1024
"""Bytes of one picture that is fetched."""
MAX_FETCHED_TOGETHER = 64 * 1024 * 1024


class MediaCache:
    """Keeps pictures by their URL and by the bounds that they were made for; failures, too.

    >>> album = MediaCache()
    >>> album.keep("https://example.org/a.gif", b"GIF89a")
    >>> album.find(Image(url="https://example.org/a.gif"))
    b'GIF89a'
    """

    def __init__(self) -> None:
        self._fetched: dict[str, bytes | Unsupported] = {}
        self._made: dict[tuple[bytes, Bounds], Picture | Unsupported] = {}

    def keep(self, url: str, found: bytes | Unsupported, /) -> None:
        """What came of fetching a URL."""
        self._fetched[url] = found

    def missing(self, urls: Sequence[str], is_needed: Callable[[str], bool], /) -> list[str]:
        """Those that were not fetched yet, each once; Unsupported where one that is needed could not be."""
        for url in urls:
            if isinstance(found := self._fetched.get(url), Unsupported) and is_needed(url):
                raise _again(found) from found.__cause__
        return [url for url in dict.fromkeys(urls) if url not in self._fetched]

    @property
    def room(self) -> int:
        """Bytes that the next picture to be fetched may have."""
        used = sum(len(found) for found in self._fetched.values() if isinstance(found, bytes))
        return min(MAX_FETCHED, MAX_FETCHED_TOGETHER - used)

    def find(self, image: Image, /) -> bytes | None:
        """The bytes of an image, its own or those that were fetched."""
        if image.data is not None:
            return image.data
        found = self._fetched.get(image.url or "")
        return found if isinstance(found, bytes) else None

    def has_fitted(self, data: bytes, bounds: Bounds, /) -> bool:
        """Whether a picture was made for these bounds before."""
        return bool(self._made) and (data, bounds) in self._made

    def fit(self, data: bytes, bounds: Bounds, stop: Stop, /) -> Picture:
        """A picture within its bounds: itself, or what came of it before, or now."""
        made = self._made.get((data, bounds)) if self._made else None
        if made is None:
            try:
                made = fit_picture(data, bounds, stop=stop)
            except Unsupported as error:
                made = error
            if isinstance(made, Unsupported) or made.data is not data:
                self._made[data, bounds] = made
        if isinstance(made, Unsupported):
            raise _again(made) from made.__cause__
        return made


def _again(error: Unsupported) -> Unsupported:
    return Unsupported(error.message)
