"""Changes the media of a request so that a target can take them.

Images are made smaller, too many are dropped, and a document of text becomes text if the target takes no such document.
"""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from dragoman.errors import InvalidRequest, Unsupported
from dragoman.http import redact_url
from dragoman.media.cache import MediaCache
from dragoman.media.fit_image import Bounds, Stop, read_header
from dragoman.media.image_header import measure
from dragoman.media.sniff import KNOWN, sniff
from dragoman.targets.target import Capabilities
from dragoman.types import Audio, Document, Image, Message, Notice, Part, Request, ResultPart, Text, ToolResult
from dragoman.types.checks import check_type, wrong_value
from dragoman.types.data_urls import is_data_url, split_data_url

T = TypeVar("T")
_Media: TypeAlias = Image | Document | Audio
OFFLOAD_BYTES = 256 * 1024
"""Bytes of media. More are fitted and encoded outside the event loop."""
_HEIF = ("image/heic", "image/heif")


class FittedRequest(msgspec.Struct, frozen=True):
    """A request that a target can take, and the notices of what was changed for that."""

    request: Request
    notices: tuple[Notice, ...] = ()


def fit(request: Request, capabilities: Capabilities, /) -> Request:
    """The request with every image changed to fit the capabilities; the same object if all of it fits.

    Raises Unsupported if the target does not take something, or if it cannot be made to fit.
    """
    media = find_media(request, capabilities)
    if media is None:
        return request
    media.check()
    return media.fit().request


def find_media(
    request: Request,
    capabilities: Capabilities,
    cache: MediaCache | None = None,
    /,
    *,
    degrade_tool_media: bool = False,
) -> "RequestMedia | None":
    """The media of a request, including those of tool results; None if there are none."""
    check_type("request", request, Request)
    check_type("capabilities", capabilities, Capabilities)
    if cache is not None:
        check_type("cache", cache, MediaCache)
    parts = _media_parts(request)
    if not parts:
        return None
    return RequestMedia(request, parts, capabilities, cache or MediaCache(), degrade_tool_media=degrade_tool_media)


def check_media(request: Request, capabilities: Capabilities, /) -> None:
    """Raise Unsupported if the target does not take the media of a request as they are.

    >>> request = Request(messages=(Message(role="user", parts=(Image(url="https://x"),)),))
    >>> check_media(request, Capabilities(max_images=0))
    Traceback (most recent call last):
    dragoman.errors.Unsupported: does not support images
    """
    media = find_media(request, capabilities)
    if media is not None:
        media.check_kinds()
        media.check_bounds()


class RequestMedia:
    """The media of one request on their way to one target.

    With `degrade_tool_media`, a note takes the place of media in tool results that the target does not take.
    """

    def __init__(
        self,
        request: Request,
        parts: "list[_Media]",
        capabilities: Capabilities,
        cache: MediaCache,
        /,
        *,
        degrade_tool_media: bool,
    ) -> None:
        self.request = request
        self.degrade_tool_media = degrade_tool_media
        self._capabilities = capabilities
        self._cache = cache
        self._all = parts
        self._required = _media_parts(request, with_results=False) if degrade_tool_media else parts
        images = [part for part in parts if isinstance(part, Image) and capabilities.max_images != 0]
        self._excess = 0 if capabilities.max_images is None else max(0, len(images) - capabilities.max_images)
        self._images = images[self._excess :]

    def check(self) -> None:
        """Raise if a part is empty, of a kind that the target does not take, or a document or sound too large."""
        for part in self._all:
            _check_not_empty(part)
        for part in self._required:
            if self._text_of(part) is None:
                _check_kind(part, self._capabilities)

    def _text_of(self, part: _Media) -> str | None:
        return text_of_document(part, self._capabilities) if isinstance(part, Document) else None

    def check_kinds(self) -> None:
        """Raise Unsupported if a part is of a kind that the target does not take, or a document or sound too large."""
        for part in self._required:
            _check_kind(part, self._capabilities)

    def check_bounds(self) -> None:
        """Raise Unsupported if an image must be changed or dropped to fit the target. URLs are not checked here."""
        if self._excess:
            count = len(self._images) + self._excess
            raise Unsupported(f"at most {self._capabilities.max_images} images are allowed, got {count}")
        bounds = self._bounds()
        for image in self._images:
            try:
                mime, data = _read_image(image)
            except InvalidRequest:
                continue  # the wire refuses the URL
            if data is not None:
                _check_image(mime, data, bounds)

    @property
    def urls(self) -> list[str]:
        """The image URLs to fetch, each once: of the images to send, if the target cannot fetch them itself.

        Raises Unsupported if fetching a required one has failed before.
        """
        if self._capabilities.image_urls:
            return []
        urls = [image.url for image in self._images if image.data is None and image.url and not is_data_url(image.url)]
        return self._cache.missing(urls, self.requires)

    def requires(self, url: str, /) -> bool:
        """Whether the image of a URL cannot be replaced by a note."""
        return any(isinstance(part, Image) and part.url == url for part in self._required)

    @property
    def is_heavy(self) -> bool:
        """Whether fitting and encoding take long: an image must be transcoded, or there are many bytes."""
        if sum(map(self._size, self._all)) > OFFLOAD_BYTES:
            return True
        if any(image.data is None and is_data_url(image.url or "") for image in self._images):
            return True
        bounds, files = self._bounds(), filter(None, map(self._cache.find, self._images))
        headers = ((data, header) for data in files if (header := measure(data)) is not None)
        return any(
            not bounds.allow(header, len(data)) and not self._cache.has_fitted(data, bounds) for data, header in headers
        )

    def fit(self, stop: Stop = lambda: False, /, *, reason: Unsupported | None = None) -> FittedRequest:
        """The request with every image changed to fit; the same object if all of it fits.

        Raises Unsupported if something cannot be made to fit, and TimedOut if `stop()` is true. With
        `degrade_tool_media`, `reason` is why the wire cannot send any media in tool results.
        """
        has_texts = any(self._text_of(part) is not None for part in self._all)
        if not self._images and not self._excess and not self.degrade_tool_media and not has_texts:
            return FittedRequest(self.request)
        fitter_class = _DegradingFitter if self.degrade_tool_media else _Fitter
        fitter = fitter_class(self._capabilities, self._bounds(), self._cache, stop, self._excess, reason)
        messages = _map(self.request.messages, fitter.message)
        if messages is self.request.messages:
            return FittedRequest(self.request, tuple(fitter.notices))
        return FittedRequest(replace(self.request, messages=messages), tuple(fitter.notices))

    def _size(self, part: _Media) -> int:
        """The number of bytes; an estimate for a data URL."""
        data = self._cache.find(part) if isinstance(part, Image) else part.data
        if data is not None:
            return len(data)
        url = (isinstance(part, Image) and part.url) or ""
        return len(url) * 3 // 4 if is_data_url(url) else 0

    def _bounds(self) -> Bounds:
        """The bounds of each image."""
        capabilities = self._capabilities
        sides, sizes = [capabilities.max_image_side], [capabilities.max_image_bytes]
        if capabilities.many_images is not None and len(self._images) > capabilities.many_images:
            sides.append(capabilities.many_images_side)
        if capabilities.max_images_bytes is not None:
            sizes.append(_share([*map(self._size, self._images)], capabilities.max_images_bytes))
        types = tuple("image/jpeg" if kind == "image/jpg" else kind for kind in capabilities.allowed_image_types)
        if not set(_HEIF).isdisjoint(types):
            types = tuple(dict.fromkeys((*types, *_HEIF)))
        return Bounds(side=_minimum(sides), size=_minimum(sizes), types=types, animated=capabilities.animated_images)


def _media_parts(request: Request, *, with_results: bool = True) -> list[_Media]:
    """The media of all messages, the oldest first; with or without those of tool results."""
    media: list[_Media] = []
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Text):
                continue
            if isinstance(part, (Image, Document, Audio)):
                media.append(part)
            elif with_results and isinstance(part, ToolResult) and not isinstance(part.content, str):
                media += [inner for inner in part.content if isinstance(inner, (Image, Document))]
    return media


def has_result_media(request: Request, /) -> bool:
    """Whether there are images or documents in tool results."""
    check_type("request", request, Request)
    return len(_media_parts(request)) > len(_media_parts(request, with_results=False))


def _share(sizes: list[int], together: int) -> int | None:
    """Bytes for each so that all fit: the small ones keep their size, the large ones share the rest."""
    remaining = together
    for done, size in enumerate(sorted(sizes)):
        share = remaining // (len(sizes) - done)
        if size > share:
            return share
        remaining -= size
    return None


def _minimum(bounds: list[int | None]) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


# Checks --------------------------------------------------------------------------------------------------------------

_NAMES = {Image: "an image", Document: "a document", Audio: "an audio file"}


def check_readable(part: _Media, /) -> None:
    """Raise for media that no target could take: empty, of an unknown type, truncated, or a decompression bomb.

    >>> check_readable(Image(data=b"<svg/>", mime="image/svg+xml"))
    Traceback (most recent call last):
    dragoman.errors.Unsupported: an image is of an unknown type
    """
    if type(part) not in _NAMES:
        raise wrong_value("part", "an Image, a Document or an Audio", part)
    _check_not_empty(part)
    if not isinstance(part, Image):
        return
    data = part.data if part.data is not None or not is_data_url(part.url or "") else split_data_url(part.url or "")[1]
    if data is not None:
        read_header(data)


def _check_not_empty(part: _Media) -> None:
    what = _NAMES[type(part)]
    if not part.data and not (isinstance(part, Image | Document) and part.url):
        raise InvalidRequest(f"{what} is empty")


def _check_kind(part: _Media, capabilities: Capabilities) -> None:
    match part:
        case Image() if capabilities.max_images == 0:
            raise Unsupported("does not support images")
        case Document() if is_video(part):
            _check_video(part, capabilities)
        case Document() if not capabilities.documents:
            raise Unsupported("does not support documents")
        case Audio() if not capabilities.audio:
            raise Unsupported("does not support audio")
        case Document():
            if part.url and not part.data and not capabilities.document_urls:
                raise Unsupported(f"cannot fetch {redact_url(part.url)}; send the bytes of the document instead")
            if not _is_allowed(part.mime, capabilities.allowed_document_types):
                raise Unsupported(f"does not support documents of the type {part.mime}")
            _check_size("a document", part.data, capabilities.max_document_bytes)
        case Audio():
            _check_size("an audio file", part.data, capabilities.max_audio_bytes)
        case _:
            return


def _check_video(video: Document, capabilities: Capabilities) -> None:
    if not capabilities.video:
        raise Unsupported("does not support video")
    if video.url and not video.data and not capabilities.video_urls:
        raise Unsupported(f"cannot fetch {redact_url(video.url)}; send the bytes of the video instead")
    _check_size("a video", video.data, capabilities.max_document_bytes)


def is_video(document: Document, /) -> bool:
    """Whether a document is a video."""
    return document.mime.lower().startswith("video/")


def text_of_document(document: Document, capabilities: Capabilities, /) -> str | None:
    """The text of a document to send in its place, because the target takes no documents of its type; else None.

    >>> text_of_document(Document(data=b"a,b", mime="text/csv", name="t.csv"), Capabilities(documents=False))
    '[Document t.csv]\\na,b'
    """
    mime = document.mime.partition(";")[0].strip().lower()
    is_taken = capabilities.documents and _is_allowed(mime, capabilities.allowed_document_types)
    if is_taken or not document.data or not (mime.startswith("text/") or mime.endswith(_TEXT_ENDINGS)):
        return None
    try:
        text = document.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return f"[Document {document.name}]\n{text}" if document.name else text


_TEXT_ENDINGS = tuple("/json +json /xml +xml /yaml /x-yaml /toml /csv /x-ndjson /jsonl /javascript /sql".split())
"""Of types other than text/* that are text."""


def _check_image(declared: str | None, data: bytes, bounds: Bounds) -> None:
    header = measure(data)
    mime = declared if header is None else header.mime
    if mime is not None and bounds.types and mime not in bounds.types:
        raise Unsupported(f"does not support images of the type {mime}")
    _check_size("an image", data, bounds.size)
    if header is None:
        return
    if bounds.side is not None and header.side > bounds.side:
        size = f"{header.width} by {header.height} pixels"
        raise Unsupported(f"an image has {size}; at most {bounds.side} are allowed on a side")
    if header.is_animated and not bounds.animated:
        raise Unsupported("does not support animated images")


def _read_image(image: Image) -> tuple[str | None, bytes | None]:
    """The declared type of an image and its bytes, also from a data URL; None if there is another URL."""
    if image.data is None and is_data_url(image.url or ""):
        mime, data = split_data_url(image.url or "")
        return image.mime or mime or None, data
    return image.mime, image.data


def _is_allowed(mime: str, types: tuple[str, ...]) -> bool:
    plain = mime.partition(";")[0].strip().lower()
    return not types or any(fnmatchcase(plain, each) for each in types)


def _check_size(what: str, data: bytes, maximum: int | None) -> None:
    if maximum is not None and len(data) > maximum:
        raise Unsupported(f"{what} has {len(data)} bytes; at most {maximum} are allowed")


# Changes -------------------------------------------------------------------------------------------------------------


def _map(values: tuple[T, ...], change: Callable[[T], T]) -> tuple[T, ...]:
    """The changed values; the same tuple if none changed."""
    changed = tuple(map(change, values))
    return values if all(new is old for new, old in zip(changed, values, strict=True)) else changed


class _Fitter:
    def __init__(
        self,
        capabilities: Capabilities,
        bounds: Bounds,
        cache: MediaCache,
        stop: Stop,
        excess: int,
        reason: Unsupported | None,
    ) -> None:
        self.notices: list[Notice] = []
        self._reason = reason
        self._capabilities = capabilities
        self._bounds = bounds
        self._cache = cache
        self._stop = stop
        self._excess = excess
        if excess:
            what = f"{excess} of {excess + (capabilities.max_images or 0)} images"
            why = f"at most {capabilities.max_images} are allowed; a note replaces the {excess} oldest"
            self.notices.append(Notice(kind="dropped", what=what, why=why))

    def message(self, message: Message) -> Message:
        parts = _map(message.parts, self._part)
        return message if parts is message.parts else replace(message, parts=parts)

    def _part(self, part: Part) -> Part:
        match part:
            case Image():
                return self._image(part)
            case Document():
                return self._document(part)
            case ToolResult(content=content) if not isinstance(content, str):
                fitted = _map(content, self._result_part)
                return part if fitted is content else replace(part, content=fitted)
            case _:
                return part

    def _result_part(self, part: ResultPart) -> ResultPart:
        if isinstance(part, Document):
            return self._document(part)
        return self._image(part) if isinstance(part, Image) else part

    def _document(self, document: Document) -> Document | Text:
        text = text_of_document(document, self._capabilities)
        if text is None:
            return document
        why = f"documents of the type {document.mime} are not supported; it is sent as text"
        self.notices.append(Notice(kind="changed", what="a document", why=why))
        return Text(text=text)

    def _image(self, image: Image) -> Image | Text:
        if self._excess:
            self._excess -= 1
            return Text(
                text=f"[An earlier image was left out: the model takes at most {self._capabilities.max_images}.]"
            )
        declared, data = self._load(image)
        if data is None or self._is_foreign(image, data):
            return image
        fitted = self._cache.fit(data, self._bounds, self._stop)
        self.notices += fitted.notices
        actual = sniff(data)
        if declared not in (None, actual):
            why = f"{declared} was declared, but the data are {actual}"
            self.notices.append(Notice(kind="repaired", what="the type of an image", why=why))
        if fitted.data is image.data and fitted.mime == image.mime:
            return image
        return replace(image, data=fitted.data, mime=fitted.mime, url=None)

    def _load(self, image: Image) -> tuple[str | None, bytes | None]:
        """The declared type, and the bytes to send; None if the target fetches them itself."""
        mime, data = _read_image(image)
        data = self._cache.find(image) if data is None else data
        if data is None and not self._capabilities.image_urls:
            error = Unsupported(f"cannot fetch {redact_url(image.url or '')}; send the bytes of the image instead")
            error.add_note("fetch_images=True lets dragoman fetch it.")  # a note: clients of a gateway do not see it
            raise error
        return mime, data

    def _is_foreign(self, image: Image, data: bytes) -> bool:
        """Whether it is of a type that the target allows and this package does not know: it is sent as it is."""
        if image.mime in KNOWN or image.mime not in self._capabilities.allowed_image_types or sniff(data) is not None:
            return False
        _check_size(f"an image ({image.mime})", data, self._bounds.size)
        return True


class _DegradingFitter(_Fitter):
    """Replaces media in tool results by a note if the target does not take them."""

    def _result_part(self, part: ResultPart) -> ResultPart:
        if not isinstance(part, Image | Document):
            return part
        try:
            if isinstance(part, Document) and isinstance(text := self._document(part), Text):
                return text
            if self._reason is not None:
                raise self._reason
            _check_kind(part, self._capabilities)
            return super()._result_part(part)
        except Unsupported as error:
            what = _NAMES[type(part)]
            why = f"{error.message}; a note replaces it"
            self.notices.append(Notice(kind="dropped", what=f"{what} in a tool result", why=why))
            return Text(text=f"[{what.capitalize()} was left out for this model: {error.message}.]")
