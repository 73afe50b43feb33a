"""A request and a target's limits in, the request that the target can take out: images fitted, the oldest left out."""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from dragoman.errors import Unsupported
from dragoman.media.headers import measure
from dragoman.media.pictures import Bounds, Picture, fit_picture
from dragoman.signatures import KNOWN, sniff
from dragoman.target import Limits
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
    split_data_url,
)

T = TypeVar("T")
_Media: TypeAlias = Image | Document | Audio
HEAVY = 256 * 1024
"""Bytes of media that take long enough to be encoded elsewhere than in an event loop."""
_HEIF = ("image/heic", "image/heif")


class Album:
    """The pictures of one call: what was fetched and what was made, so that no target has it done again.

    >>> Album().fetched
    {}
    """

    def __init__(self) -> None:
        self.fetched: dict[str, bytes] = {}
        """Bytes by URL."""
        self._made: dict[tuple[bytes, Bounds], Picture] = {}

    def known(self, image: Image, /) -> bytes | None:
        """Its bytes, or those that were fetched."""
        return self.fetched.get(image.url or "") if image.data is None else image.data

    def size(self, part: _Media, /) -> int:
        """How many bytes there are of it; of a data URL about so many."""
        data = self.known(part) if isinstance(part, Image) else part.data
        if data is not None:
            return len(data)
        return len(part.url) * 3 // 4 if isinstance(part, Image) and part.url and _is_data_url(part.url) else 0

    def fit(self, data: bytes, bounds: Bounds, /) -> Picture:
        """A picture within its bounds: itself, or what was made of it before, or now."""
        key = data, bounds
        picture = self._made.get(key) if self._made else None
        if picture is None:
            picture = fit_picture(data, bounds)
            if picture.data is not data:
                self._made[key] = picture
        return picture


def fit(
    request: Request, limits: Limits, /, *, album: Album | None = None, notices: list[Notice] | None = None
) -> Request:
    """The request with every image as the limits want it, and itself where all of it fits.

    What was bent is added to `notices`. Unsupported where something cannot be taken, or be made to fit.

    >>> request = Request(messages=(Message(role="user", parts=(Text(text="hello"),)),))
    >>> fit(request, Limits(max_image_side=32)) is request
    True
    """
    media = _media(request)
    if not media:
        return request
    _check(media, limits)
    images = [part for part in media if isinstance(part, Image)]
    if not images:
        return request
    work = _Fitting(images, limits, album or Album(), [] if notices is None else notices)
    messages = _mapped(request.messages, work.message)
    return request if messages is request.messages else replace(request, messages=messages)


def check(request: Request, limits: Limits, /) -> None:
    """Refuse the kinds of media that a target does not take, and documents and sounds that are too large for it.

    >>> check(Request(), Limits(max_images=0, documents=False))
    """
    if media := _media(request):
        _check(media, limits)


def _check(media: list[_Media], limits: Limits) -> None:
    for part in media:
        match part:
            case Image() if limits.max_images == 0:
                raise Unsupported("cannot take images")
            case Document() if not limits.documents:
                raise Unsupported("cannot take documents")
            case Audio() if not limits.audio:
                raise Unsupported("cannot take audio")
            case Document():
                _check_size("a document", part.data, limits.max_document_bytes)
            case Audio():
                _check_size("a sound", part.data, limits.max_audio_bytes)
            case _:
                continue


def _check_size(what: str, data: bytes, most: int | None) -> None:
    if most is not None and len(data) > most:
        raise Unsupported(f"{what} has {len(data)} bytes; it takes {most} at most")


def is_heavy(request: Request, limits: Limits, /, *, album: Album | None = None) -> bool:
    """Whether making the request ready takes long: an image must be made anew, or there are many bytes to encode.

    >>> is_heavy(Request(), Limits())
    False
    """
    media = _media(request)
    if not media:
        return False
    album = album or Album()
    if sum(album.size(part) for part in media) > HEAVY:
        return True
    images = [part for part in media if isinstance(part, Image)]
    if any(image.data is None and _is_data_url(image.url or "") for image in images):
        return True
    bounds = _bounds(images, limits, album)
    found = ((data, measure(data)) for data in map(album.known, images) if data is not None)
    return any(header is not None and not bounds.hold(header, len(data)) for data, header in found)


def urls_to_fetch(request: Request, limits: Limits, /) -> list[str]:
    """The URLs of the images that would be sent to a target that cannot fetch them by itself.

    >>> urls_to_fetch(Request(), Limits())
    []
    """
    if limits.image_urls:
        return []
    images = [part for part in _media(request) if isinstance(part, Image)]
    kept = images[_left_out(images, limits) :]
    return [image.url for image in kept if image.data is None and image.url and not _is_data_url(image.url)]


def _media(request: Request) -> list[_Media]:
    """All media of a conversation, those of results too, the oldest first."""
    found: list[_Media] = []
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Text):
                continue
            if isinstance(part, (Image, Document, Audio)):
                found.append(part)
            elif isinstance(part, ToolResult) and not isinstance(part.content, str):
                found += [inner for inner in part.content if isinstance(inner, (Image, Document))]
    return found


def _left_out(images: list[Image], limits: Limits) -> int:
    """How many of the oldest images are too many."""
    return 0 if limits.max_images is None else max(0, len(images) - limits.max_images)


def _bounds(images: list[Image], limits: Limits, album: Album) -> Bounds:
    """What each of these images must keep to."""
    kept = images[_left_out(images, limits) :]
    sides, sizes = [limits.max_image_side], [limits.max_image_bytes]
    if limits.many_images is not None and len(kept) > limits.many_images:
        sides.append(limits.many_images_side)
    together = limits.max_images_bytes
    if together is not None and sum(map(album.size, kept)) > together:
        sizes.append(together // len(kept))
    types = tuple("image/jpeg" if kind == "image/jpg" else kind for kind in limits.allowed_image_types)
    if not set(_HEIF).isdisjoint(types):
        types = tuple(dict.fromkeys((*types, *_HEIF)))
    return Bounds(
        side=_least(sides),
        size=_least(sizes),
        types=types,
        animated=limits.animated_images,
    )


def _least(bounds: list[int | None]) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


def _is_data_url(url: str) -> bool:
    return url[:5].lower() == "data:"


def _mapped(values: tuple[T, ...], change: Callable[[T], T]) -> tuple[T, ...]:
    """The changed values; the very tuple where none was."""
    changed = tuple(map(change, values))
    return values if all(new is old for new, old in zip(changed, values, strict=True)) else changed


class _Fitting:
    """One request on its way to one target."""

    def __init__(self, images: list[Image], limits: Limits, album: Album, notices: list[Notice]) -> None:
        self._limits = limits
        self._bounds = _bounds(images, limits, album)
        self._album = album
        self._notices = notices
        self._too_many = _left_out(images, limits)
        if self._too_many:
            why = f"it takes {limits.max_images} at most, so a note stands in the place of the {self._too_many} oldest"
            notices.append(Notice(kind="dropped", what=f"{self._too_many} of {len(images)} images", why=why))

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
        data = self._bytes(image)
        if data is None or self._is_foreign(image, data):
            return image
        picture = self._album.fit(data, self._bounds)
        self._notices += picture.notices
        true = sniff(data)
        if image.mime not in (None, true):
            why = f"it says {image.mime}, but it is {true}"
            self._notices.append(Notice(kind="repaired", what="the type of an image", why=why))
        if picture.data is image.data and picture.mime == image.mime:
            return image
        return replace(image, data=picture.data, mime=picture.mime, url=None)

    def _bytes(self, image: Image) -> bytes | None:
        """What there is to send; None where the target fetches it by itself."""
        if image.data is not None:
            return image.data
        url = image.url or ""
        if _is_data_url(url):
            return split_data_url(url)[1]
        data = self._album.known(image)
        if data is None and not self._limits.image_urls:
            place = url.partition("?")[0]
            raise Unsupported(f"cannot fetch {place}; give the bytes of the image, or pass fetch_images=True")
        return data

    def _is_foreign(self, image: Image, data: bytes) -> bool:
        """Whether it is of a type that only the target knows: then it is taken as it is told."""
        if image.mime in KNOWN or image.mime not in self._limits.allowed_image_types or sniff(data) is not None:
            return False
        _check_size(f"an image ({image.mime})", data, self._bounds.size)
        return True
