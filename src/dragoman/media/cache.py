"""The images of one call that were fetched or made to fit, so that its attempts do neither twice."""

from collections.abc import Callable, Sequence

import msgspec

from dragoman.errors import Unsupported
from dragoman.media.fit_image import Bounds, FittedImage, Stop, fit_image
from dragoman.types import Image

MAX_FETCHED = 20 * 1024 * 1024
"""Bytes of one fetched image."""
MAX_FETCHED_TOGETHER = 64 * 1024 * 1024


class MediaCache(msgspec.Struct):
    """Fetched images by URL and fitted images by their data and bounds; failures, too.

    >>> cache = MediaCache()
    >>> cache.add("https://example.org/a.gif", b"GIF89a")
    >>> cache.find(Image(url="https://example.org/a.gif"))
    b'GIF89a'
    """

    fetched: dict[str, bytes | Unsupported] = {}
    fitted: dict[tuple[bytes, Bounds], FittedImage | Unsupported] = {}

    def add(self, url: str, result: bytes | Unsupported, /) -> None:
        """Keep the result of fetching a URL."""
        self.fetched[url] = result

    def missing(self, urls: Sequence[str], is_required: Callable[[str], bool], /) -> list[str]:
        """The URLs that were not fetched yet, each once; raises Unsupported if a required one has failed before."""
        for url in urls:
            if isinstance(result := self.fetched.get(url), Unsupported) and is_required(url):
                raise _copy(result) from result.__cause__
        return [url for url in dict.fromkeys(urls) if url not in self.fetched]

    @property
    def room(self) -> int:
        """Bytes that the next fetched image may have."""
        used = sum(len(result) for result in self.fetched.values() if isinstance(result, bytes))
        return min(MAX_FETCHED, MAX_FETCHED_TOGETHER - used)

    def find(self, image: Image, /) -> bytes | None:
        """The bytes of an image: its own, or those that were fetched."""
        if image.data is not None:
            return image.data
        result = self.fetched.get(image.url or "")
        return result if isinstance(result, bytes) else None

    def has_fitted(self, data: bytes, bounds: Bounds, /) -> bool:
        """Whether an image was made to fit these bounds before."""
        return bool(self.fitted) and (data, bounds) in self.fitted

    def fit(self, data: bytes, bounds: Bounds, stop: Stop, /) -> FittedImage:
        """An image within its bounds: unchanged, from before, or changed now."""
        result = self.fitted.get((data, bounds)) if self.fitted else None
        if result is None:
            try:
                result = fit_image(data, bounds, stop=stop)
            except Unsupported as error:
                result = error.with_traceback(None)  # its frames hold the image and this cache
            if isinstance(result, Unsupported) or result.data is not data:
                self.fitted[data, bounds] = result
        if isinstance(result, Unsupported):
            raise _copy(result) from result.__cause__
        return result


def _copy(error: Unsupported) -> Unsupported:
    """A new error for another attempt: each attempt annotates its own."""
    return Unsupported(error.message)
