"""A request and a target's limits in, the request that the target can take out: images fitted, the oldest left out."""

from collections.abc import Callable
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
from dragoman.types import (
    Audio,
    Document,
    Image,
    Message,
    Notice,
    Part,
    Request,
    ResultPart,
    Text,
    ToolResult,
    is_data_url,
    split_data_url,
)

T = TypeVar("T")
_Media: TypeAlias = Image | Document | Audio
HEAVY = 256 * 1024
"""Bytes of media that take long enough to be encoded elsewhere than in an event loop."""
_HEIF = ("image/heic", "image/heif")


class Fitted(msgspec.Struct, frozen=True):
    """A request as a target can take it, and what was bent for that.

    >>> Fitted(Request()).notices
    ()
    """

    request: Request
    notices: tuple[Notice, ...] = ()


def fit(request: Request, capabilities: Capabilities, /) -> Request:
    """The request with every image as the limits want it, and itself where all of it fits.

    Unsupported where something cannot be taken, or be made to fit; `Media` tells what was bent, too.

    >>> request = Request(messages=(Message(role="user", parts=(Text(text="hello"),)),))
    >>> fit(request, Capabilities(max_image_side=32)) is request
    True
    """
    media = Media(request, capabilities)
    media.check()
    return media.fit().request


class Media:
    """The media of one request on their way to one target: gathered once, then asked what is to be done.

    Where tools are to be spared, what cannot be taken of their results is refused no more: words stand in its place.

    >>> Media(Request(), Capabilities()).is_heavy
    False
    """

    def __init__(
        self, request: Request, capabilities: Capabilities, album: MediaCache | None = None, /, *, spare: bool = False
    ) -> None:
        self._request = request
        self._limits = capabilities
        self._album = album or MediaCache()
        self._spare = spare
        self._all = _media(request)
        self._needed = _media(request, results=False) if spare else self._all
        images = [part for part in self._all if isinstance(part, Image) and capabilities.max_images != 0]
        self._left_out = 0 if capabilities.max_images is None else max(0, len(images) - capabilities.max_images)
        self._kept = images[self._left_out :]

    def check(self) -> None:
        """Refuse what is nothing, kinds that the target does not take, and documents and sounds too large for it."""
        for part in self._all:
            _check_whole(part)
        for part in self._needed:
            _check_kind(part, self._limits)

    @property
    def urls(self) -> list[str]:
        """What must be fetched, each once: images that would be sent to a target that cannot fetch them by itself.

        Unsupported where one of them could not be fetched before, and is needed.
        """
        if self._limits.image_urls:
            return []
        urls = [image.url for image in self._kept if image.data is None and image.url and not is_data_url(image.url)]
        return self._album.missing(urls, self.needs)

    def needs(self, url: str, /) -> bool:
        """Whether the picture of a URL must be there."""
        return any(isinstance(part, Image) and part.url == url for part in self._needed)

    @property
    def is_heavy(self) -> bool:
        """Whether it takes long to be made ready: an image must be made anew, or there are many bytes to encode."""
        if not self._all:
            return False
        if sum(map(self._size, self._all)) > HEAVY:
            return True
        if any(image.data is None and is_data_url(image.url or "") for image in self._kept):
            return True
        bounds, files = self._bounds(), filter(None, map(self._album.find, self._kept))
        found = ((data, header) for data in files if (header := measure(data)) is not None)
        return any(
            not bounds.hold(header, len(data)) and not self._album.has_fitted(data, bounds) for data, header in found
        )

    def fit(self, stop: Stop = lambda: False, /, *, bar: Unsupported | None = None) -> Fitted:
        """The request with every image as the limits want it, and itself where all of it fits.

        Unsupported where something cannot be made to fit, TimedOut where `stop` says that the time is over. `bar` is
        why nothing of the results can be taken, where tools are to be spared.
        """
        if not self._kept and not self._left_out and not self._spare:
            return Fitted(self._request)
        work = (_Sparing if self._spare else _Fitting)(
            self._limits, self._bounds(), self._album, stop, self._left_out, bar
        )
        messages = _mapped(self._request.messages, work.message)
        if messages is self._request.messages:
            return Fitted(self._request, tuple(work.notices))
        return Fitted(replace(self._request, messages=messages), tuple(work.notices))

    def _size(self, part: _Media) -> int:
        """How many bytes there are of it; of a data URL about so many."""
        data = self._album.find(part) if isinstance(part, Image) else part.data
        if data is not None:
            return len(data)
        url = (isinstance(part, Image) and part.url) or ""
        return len(url) * 3 // 4 if is_data_url(url) else 0

    def _bounds(self) -> Bounds:
        """What each of the images must keep to."""
        capabilities = self._limits
        sides, sizes = [capabilities.max_image_side], [capabilities.max_image_bytes]
        if capabilities.many_images is not None and len(self._kept) > capabilities.many_images:
            sides.append(capabilities.many_images_side)
        if capabilities.max_images_bytes is not None:
            sizes.append(_share([*map(self._size, self._kept)], capabilities.max_images_bytes))
        types = tuple("image/jpeg" if kind == "image/jpg" else kind for kind in capabilities.allowed_image_types)
        if not set(_HEIF).isdisjoint(types):
            types = tuple(dict.fromkeys((*types, *_HEIF)))
        return Bounds(side=_least(sides), size=_least(sizes), types=types, animated=capabilities.animated_images)


def _media(request: Request, *, results: bool = True) -> list[_Media]:
    """All media of a conversation, those of results too unless told otherwise, the oldest first."""
    found: list[_Media] = []
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Text):
                continue
            if isinstance(part, (Image, Document, Audio)):
                found.append(part)
            elif results and isinstance(part, ToolResult) and not isinstance(part.content, str):
                found += [inner for inner in part.content if isinstance(inner, (Image, Document))]
    return found


def has_result_media(request: Request, /) -> bool:
    """Whether there are pictures or documents in the results of tools.

    >>> has_result_media(Request(messages=(Message(role="tool", parts=(ToolResult(id="call_1"),)),)))
    False
    """
    return len(_media(request)) > len(_media(request, results=False))


def _share(sizes: list[int], together: int) -> int | None:
    """What each may have so that all fit: the small ones keep what they have, the large ones share the rest."""
    left = together
    for done, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - done)
        if size > share:
            return share
        left -= size
    return None


def _least(bounds: list[int | None]) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


# What is refused ------------------------------------------------------------------------------------------------------

_NAMES = {Image: "an image", Document: "a document", Audio: "a sound"}
_WAYS: dict[type, str] = {Image: ", or base64 by Image.from_base64"}


def check_readable(part: _Media, /) -> None:
    """Refuse what no target could take: nothing, or a picture that is none, is not whole or is a bomb.

    >>> check_readable(Image(data=b"<svg/>", mime="image/svg+xml"))
    Traceback (most recent call last):
    dragoman.errors.Unsupported: an image is of no type that is known
    """
    _check_whole(part)
    if not isinstance(part, Image):
        return
    data = part.data if part.data is not None or not is_data_url(part.url or "") else split_data_url(part.url or "")[1]
    if data is not None:
        read_header(data)


def _check_whole(part: _Media) -> None:
    """Refuse what is nothing."""
    what = _NAMES[type(part)]
    data = part.data
    if data is not None and not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - callers err
        raise InvalidRequest(f"{what} is {type(data).__name__}; give bytes{_WAYS.get(type(part), '')}")
    if not data and not (isinstance(part, Image) and part.url):
        raise InvalidRequest(f"{what} is empty" if data is not None else f"{what} has neither bytes nor a URL")


def _check_kind(part: _Media, capabilities: Capabilities) -> None:
    match part:
        case Image() if capabilities.max_images == 0:
            raise Unsupported("cannot take images")
        case Document() if not capabilities.documents:
            raise Unsupported("cannot take documents")
        case Audio() if not capabilities.audio:
            raise Unsupported("cannot take audio")
        case Document():
            if not _is_allowed(part.mime, capabilities.allowed_document_types):
                raise Unsupported(f"cannot take a document of the type {part.mime}")
            _check_size("a document", part.data, capabilities.max_document_bytes)
        case Audio():
            _check_size("a sound", part.data, capabilities.max_audio_bytes)
        case _:
            return


def _is_allowed(mime: str, types: tuple[str, ...]) -> bool:
    plain = mime.partition(";")[0].strip().lower()
    return not types or plain in types or f"{plain.partition('/')[0]}/*" in types


def _check_size(what: str, data: bytes, most: int | None) -> None:
    if most is not None and len(data) > most:
        raise Unsupported(f"{what} has {len(data)} bytes; it takes {most} at most")


# What is changed ------------------------------------------------------------------------------------------------------


def _mapped(values: tuple[T, ...], change: Callable[[T], T]) -> tuple[T, ...]:
    """The changed values; the very tuple where none was."""
    changed = tuple(map(change, values))
    return values if all(new is old for new, old in zip(changed, values, strict=True)) else changed


class _Fitting:
    """One request on its way to one target."""

    def __init__(
        self,
        capabilities: Capabilities,
        bounds: Bounds,
        album: MediaCache,
        stop: Stop,
        too_many: int,
        bar: Unsupported | None,
    ) -> None:
        self.notices: list[Notice] = []
        self._bar = bar
        self._limits = capabilities
        self._bounds = bounds
        self._album = album
        self._stop = stop
        self._too_many = too_many
        if too_many:
            what = f"{too_many} of {too_many + (capabilities.max_images or 0)} images"
            why = f"it takes {capabilities.max_images} at most, so a note stands in the place of the {too_many} oldest"
            self.notices.append(Notice(kind="dropped", what=what, why=why))

    def message(self, message: Message) -> Message:
        parts = _mapped(message.parts, self._part)
        return message if parts is message.parts else replace(message, parts=parts)

    def _part(self, part: Part) -> Part:
        match part:
            case Image():
                return self._image(part)
            case ToolResult(content=content) if not isinstance(content, str):
                fitted = _mapped(content, self._inner)
                return part if fitted is content else replace(part, content=fitted)
            case _:
                return part

    def _inner(self, part: ResultPart) -> ResultPart:
        return self._image(part) if isinstance(part, Image) else part

    def _image(self, image: Image) -> Image | Text:
        if self._too_many:
            self._too_many -= 1
            return Text(text=f"[An earlier image was left out: the model takes {self._limits.max_images} at most.]")
        told, data = self._told(image)
        if data is None or self._is_foreign(image, data):
            return image
        picture = self._album.fit(data, self._bounds, self._stop)
        self.notices += picture.notices
        true = sniff(data)
        if told not in (None, true):
            why = f"it says {told}, but it is {true}"
            self.notices.append(Notice(kind="repaired", what="the type of an image", why=why))
        if picture.data is image.data and picture.mime == image.mime:
            return image
        return replace(image, data=picture.data, mime=picture.mime, url=None)

    def _told(self, image: Image) -> tuple[str | None, bytes | None]:
        """Its type as it is told, and the bytes to send; None where the target fetches them by itself."""
        url = image.url or ""
        if image.data is None and is_data_url(url):
            mime, data = split_data_url(url)
            return image.mime or mime or None, data
        found = self._album.find(image)
        if found is None and not self._limits.image_urls:
            error = Unsupported(f"cannot fetch {redact_url(url)}; give the bytes of the image in its place")
            error.add_note("fetch_images=True lets dragoman fetch it.")  # no word for the clients of a gateway
            raise error
        return image.mime, found

    def _is_foreign(self, image: Image, data: bytes) -> bool:
        """Whether it is of a type that only the target knows: then it is taken as it is told."""
        if image.mime in KNOWN or image.mime not in self._limits.allowed_image_types or sniff(data) is not None:
            return False
        _check_size(f"an image ({image.mime})", data, self._bounds.size)
        return True


class _Sparing(_Fitting):
    """The same with words in the place of what cannot be taken of results."""

    def _inner(self, part: ResultPart) -> ResultPart:
        if not isinstance(part, Image | Document):
            return part
        try:
            if self._bar is not None:
                raise self._bar
            _check_kind(part, self._limits)
            return super()._inner(part)
        except Unsupported as error:
            what = _NAMES[type(part)]
            why = f"{error.message}, so a note stands in its place"
            self.notices.append(Notice(kind="dropped", what=f"{what} of a tool's result", why=why))
            return Text(text=f"[{what.capitalize()} was left out for this model: {error.message}.]")
