"""The parts of messages: text, media, thinking, tool calls and their results."""

import re
from math import isfinite
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import force_setattr

from dragoman.errors import InvalidRequest
from dragoman.types.base import Extra, JsonObject
from dragoman.types.checks import (
    as_bytes,
    as_items,
    as_object,
    as_text,
    check_flag,
    check_texts,
    naming,
    set_extra,
    shown,
    wrong_value,
)
from dragoman.types.citations import Citation
from dragoman.types.data_urls import check_url, decode_base64, is_data_url, split_data_url
from dragoman.types.fields import check_struct
from dragoman.types.json_values import encode_value
from dragoman.types.media_files import UNKNOWN_TYPE, PillowImage, encode_pil, guess_type, read_media
from dragoman.types.parameters import named_parameters
from dragoman.types.structs import Value

if TYPE_CHECKING:
    from pathlib import Path


class TokenLogprob(Value, frozen=True, kw_only=True):
    """A token of an answer with its log probability, and the other likely tokens at its place."""

    token: str
    logprob: float
    id: int | None = None
    """The number of the token, if the provider says it."""
    bytes: tuple[int, ...] | None = None
    """The bytes of the token; a character may be split over several tokens."""
    top: "tuple[TokenLogprob, ...]" = ()
    """The most likely tokens at this place, as many as `top_logprobs`."""

    def __post_init__(self) -> None:
        # The usual case is quick, because an answer may have many thousands.
        if not (
            type(self.token) is str
            and self.token.isascii()
            and type(self.logprob) is float
            and isfinite(self.logprob)
            and self.id is None
            and (self.bytes is None or (type(self.bytes) is tuple and _INTS.issuperset(map(type, self.bytes))))
            and type(self.top) is tuple
            and all_are(self.top, _LOGPROBS)
        ):
            check_struct(self)


class Text(Value, frozen=True, tag="text"):
    """A piece of text."""

    text: str
    extra: Extra = {}
    logprobs: tuple[TokenLogprob, ...] = ()
    """The tokens of the text with their probabilities, in an answer to a request with `logprobs=True`."""
    citations: tuple[Citation, ...] = ()
    """The sources of the text, if the model names some."""

    def __post_init__(self) -> None:
        text = self.text
        if type(text) is not str or not text.isascii():
            force_setattr(self, "text", as_text("text", text))
        if type(self.extra) is not dict:
            set_extra(self)
        # An empty tuple is always the same object, and most texts have it.
        if self.logprobs is not _NO_LOGPROBS:
            _set_items(self, "logprobs", TokenLogprob)
        if self.citations is not _NO_CITATIONS:
            _set_items(self, "citations", Citation)


class Image(Value, frozen=True, kw_only=True, tag="image"):
    """An image: bytes with their MIME type, or a URL that the target fetches.

    >>> Image.from_data_url("data:image/gif;base64,R0lGODlh").mime
    'image/gif'
    """

    data: bytes | None = None
    mime: str | None = None
    url: str | None = None
    detail: str | None = None
    extra: Extra = {}

    def __post_init__(self) -> None:
        if self.data is None:
            if self.url is None:
                raise InvalidRequest(
                    "data must be bytes, or url must be a URL, got neither; or use Image.from_path", param="data"
                )
        elif type(self.data) is not bytes:
            hint = "use Image.from_path, Image.from_base64 or Image.from_pil"
            force_setattr(self, "data", as_bytes("data", self.data, hint))
        check_texts(self, ("mime", "url", "detail"))
        if self.url is not None:
            check_url(self.url)

    @classmethod
    @named_parameters
    def from_path(cls, path: "str | Path", *, detail: str | None = None) -> "Image":
        """The image in a file."""
        data, mime, _ = read_media(path, UNKNOWN_TYPE)
        return cls(data=data, mime=mime, detail=detail)

    @classmethod
    @named_parameters
    def from_url(cls, url: str, *, mime: str | None = None, detail: str | None = None) -> "Image":
        """The image at a URL. Targets that cannot fetch it get its bytes. A data URL is read at once."""
        url = as_text("url", url)
        if not is_data_url(url):
            return cls(url=url, mime=mime, detail=detail)
        with naming("url"):
            declared, data = split_data_url(url)
        return cls(data=data, mime=mime or declared, detail=detail)

    @classmethod
    @named_parameters
    def from_pil(cls, image: PillowImage, *, detail: str | None = None) -> "Image":
        """A Pillow image: as JPEG if it was read from a JPEG, otherwise as PNG."""
        data, mime = encode_pil(image)
        return cls(data=data, mime=mime, detail=detail)

    @classmethod
    @named_parameters
    def from_base64(cls, text: str, *, mime: str, detail: str | None = None) -> "Image":
        with naming("text"):
            data = decode_base64(as_text("text", text))
        return cls(data=data, mime=mime, detail=detail)

    @classmethod
    @named_parameters
    def from_data_url(cls, url: str, *, detail: str | None = None) -> "Image":
        mime, data = split_data_url(as_text("url", url))
        return cls(data=data, mime=mime, detail=detail)


class Document(Value, frozen=True, kw_only=True, tag="document"):
    """A PDF, a text, an office file, or a video: bytes, or a URL that the target fetches.

    >>> Document.from_url("https://youtu.be/9hE5-98ZeCg").mime
    'video/mp4'
    """

    data: bytes
    """Empty if there is a URL."""
    mime: str
    name: str | None = None
    url: str | None = None
    extra: Extra = {}

    def __post_init__(self) -> None:
        if type(self.data) is not bytes:
            force_setattr(self, "data", as_bytes("data", self.data, "use Document.from_path"))
        if type(self.mime) is not str or not self.mime.isascii():
            force_setattr(self, "mime", as_text("mime", self.mime, "such as application/pdf"))
        check_texts(self, ("name", "url"))
        if self.url is not None:
            check_url(self.url)

    @classmethod
    @named_parameters
    def from_path(cls, path: "str | Path", *, name: str | None = None) -> "Document":
        """The document in a file; its name is that of the file."""
        data, mime, file = read_media(path)
        return cls(data=data, mime=mime, name=name or file)

    @classmethod
    @named_parameters
    def from_url(cls, url: str, *, mime: str | None = None, name: str | None = None) -> "Document":
        """The document at a URL, for targets that fetch documents themselves. A data URL is read at once."""
        url = check_url(as_text("url", url))
        if is_data_url(url):
            declared, data = split_data_url(url)
            return cls(data=data, mime=mime or declared, name=name)
        file = url.partition("?")[0].partition("#")[0].rpartition("/")[2]
        mime = mime or guess_type(file) or ("video/mp4" if _YOUTUBE.match(url) else "application/pdf")
        return cls(data=b"", mime=mime, name=name or file or None, url=url)


class Audio(Value, frozen=True, kw_only=True, tag="audio"):
    """An audio clip, as input."""

    data: bytes
    mime: str
    extra: Extra = {}

    def __post_init__(self) -> None:
        if type(self.data) is not bytes:
            force_setattr(self, "data", as_bytes("data", self.data, "use Audio.from_path"))
        if type(self.mime) is not str or not self.mime.isascii():
            force_setattr(self, "mime", as_text("mime", self.mime, "such as audio/wav"))
        check_texts(self, ())

    @classmethod
    @named_parameters
    def from_path(cls, path: "str | Path") -> "Audio":
        """The sound in a file. A container for videos, such as mp4, may have only sound."""
        data, mime, _ = read_media(path, UNKNOWN_TYPE)
        mime = mime.replace("video/", "audio/", 1)
        if not mime.startswith("audio/") and mime != UNKNOWN_TYPE:
            raise wrong_value("path", "an audio file", mime, "use Document.from_path or Image.from_path")
        return cls(data=data, mime=mime)


class Thinking(Value, frozen=True, tag="thinking"):
    """Thinking of the model. Its signature or encrypted form is in `extra`."""

    text: str
    redacted: bool = False
    extra: Extra = {}

    def __post_init__(self) -> None:
        text = self.text
        if type(text) is not str or not text.isascii():
            force_setattr(self, "text", as_text("text", text))
        redacted: object = self.redacted
        if type(redacted) is not bool:
            check_flag("redacted", redacted)
        if type(self.extra) is not dict:
            set_extra(self)


class ToolCall(Value, frozen=True, kw_only=True, tag="tool_call"):
    """A call of a tool. The arguments may be JSON text; `raw` is the provider's text of them, if it differs from ours.

    >>> ToolCall(id="call_1", name="tide", arguments='{"port": "Brest"}').arguments["port"]
    'Brest'
    """

    id: str
    name: str
    arguments: JsonObject = {}
    raw: str | None = None
    extra: Extra = {}

    if TYPE_CHECKING:  # the constructor takes more than the field holds

        def __init__(
            self,
            *,
            id: str,
            name: str,
            arguments: JsonObject | str | None = None,
            raw: str | None = None,
            extra: Extra | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        id, name = self.id, self.name
        if type(id) is not str or type(name) is not str or not id.isascii() or not name.isascii():
            check_texts(self, ("id", "name"), required=True)
        arguments = self.arguments
        if type(arguments) is not dict:
            _set_arguments(self, arguments)
        elif not _is_plain(arguments, _PLAIN_DEPTH):
            _check_arguments(self, arguments)
        if self.raw is not None:
            force_setattr(self, "raw", as_text("raw", self.raw))
        if type(self.extra) is not dict:
            set_extra(self)


class Opaque(Value, frozen=True, kw_only=True, tag="opaque"):
    """A part or a tool of one wire that the vocabulary does not have, such as a provider's own web search.

    It stays at its place in the message and goes back unchanged to the same wire. A target of another wire refuses it
    with Unsupported, unless it `is_optional`; then it is left out, with a notice.
    """

    wire: str
    data: JsonObject
    is_optional: bool = False
    """Whether a conversation means the same without it."""

    def __post_init__(self) -> None:
        if type(self.wire) is not str or not self.wire.isascii() or type(self.data) is not dict:
            force_setattr(self, "wire", as_text("wire", self.wire))
            force_setattr(self, "data", as_object("data", self.data))
        is_optional: object = self.is_optional
        if type(is_optional) is not bool:
            check_flag("is_optional", is_optional)


class HostedCall(Value, frozen=True, kw_only=True, tag="hosted_call"):
    """A call of a tool that the provider ran itself, such as a web search.

    >>> HostedCall(id="ws_1", tool="web_search", arguments={"query": "tide at Brest"}).text
    'web_search: tide at Brest'
    """

    id: str
    tool: str
    """`web_search`, `web_fetch`, `code_execution`, `file_search`, `image_generation`, `mcp`, or the provider's name."""
    arguments: JsonObject = {}
    """What was searched, fetched or run: `query`, `url`, `code`, or the arguments of a tool of an MCP server."""
    name: str | None = None
    """The tool of an MCP server."""
    server: str | None = None
    """The name of the MCP server."""
    extra: Extra = {}
    """By wire: the block of the provider, which goes back to it unchanged."""

    def __post_init__(self) -> None:
        check_struct(self)
        if self.arguments:
            encode_value("arguments", self.arguments, _EXPECTED_ARGUMENTS)

    @property
    def text(self) -> str:
        """The call as a line of text."""
        label = "/".join(name for name in (self.tool, self.server, self.name) if name)
        values = [*self.arguments.values()]
        if len(values) == 1 and isinstance(values[0], str):
            return f"{label}: {values[0]}"
        return f"{label}: {encode_value('arguments', self.arguments, 'JSON').decode()}" if values else label


class HostedResult(Value, frozen=True, kw_only=True, tag="hosted_result"):
    """What came back from a tool that the provider ran itself: a text, sources, or both.

    >>> found = (Citation(url="https://example.org", title="Tides"),)
    >>> HostedResult(id="ws_1", tool="web_search", sources=found).text
    '[1] Tides: https://example.org'
    """

    id: str
    tool: str
    content: str = ""
    """What the tool printed or returned."""
    sources: tuple[Citation, ...] = ()
    """What a search found."""
    is_error: bool = False
    extra: Extra = {}
    """By wire: the block of the provider, which goes back to it unchanged."""

    @property
    def text(self) -> str:
        """The result as text; its sources are numbered."""
        return "\n".join([*([self.content] if self.content else []), *number_sources(self.sources)])


def number_sources(sources: "tuple[Citation, ...] | list[Citation]", /) -> list[str]:
    """A line for each source, numbered from 1.

    >>> number_sources([Citation(title="Tides", cited_text="It turns at six.")])
    ['[1] Tides (“It turns at six.”)']
    """
    lines: list[str] = []
    for number, source in enumerate(sources, 1):
        names = [name for name in (source.title, source.url or source.source) if name]
        if not names and source.document_index is not None:
            names = [f"document {source.document_index + 1}"]
        quote = f" (“{source.cited_text}”)" if source.cited_text else ""
        lines.append(f"[{number}] {': '.join(names)}{quote}")
    return lines


_YOUTUBE = re.compile(r"https://((www\.|m\.)?youtube\.com|youtu\.be)/")


ResultPart: TypeAlias = Text | Image | Document | Opaque


class ToolResult(Value, frozen=True, kw_only=True, tag="tool_result"):
    """The result of a tool; `id` is that of the call. The content may be text, parts, or any JSON value.

    >>> ToolResult(id="call_1", name="tide", content={"metres": 4.2}).text
    '{"metres":4.2}'
    """

    id: str
    name: str = ""
    content: str | tuple[ResultPart, ...] = ""
    is_error: bool = False
    extra: Extra = {}

    if TYPE_CHECKING:  # the constructor takes more than the field holds

        def __init__(
            self, *, id: str, name: str = "", content: Any = "", is_error: bool = False, extra: Extra | None = None
        ) -> None: ...

    def __post_init__(self) -> None:
        id, name = self.id, self.name
        if type(id) is not str or type(name) is not str or not id.isascii() or not name.isascii():
            check_texts(self, ("id", "name"), required=True)
        content: Any = self.content
        kind: object = content.__class__
        if not (content.isascii() if kind is str else kind is tuple and all_are(content, _RESULT_PARTS)):
            from dragoman.types.content import read_result_content

            with naming("content"):
                force_setattr(self, "content", read_result_content(content))
        is_error: object = self.is_error
        if type(is_error) is not bool:
            check_flag("is_error", is_error)
        if type(self.extra) is not dict:
            set_extra(self)

    @property
    def parts(self) -> tuple[ResultPart, ...]:
        """The content as parts."""
        if not isinstance(self.content, str):
            return self.content
        return (msgspec.structs.replace(_EMPTY, text=self.content, extra={}),)

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


Part: TypeAlias = (
    Text | Image | Document | Audio | Thinking | ToolCall | ToolResult | HostedCall | HostedResult | Opaque
)


PartKind: TypeAlias = Literal[
    "text",
    "image",
    "document",
    "audio",
    "thinking",
    "tool_call",
    "tool_result",
    "hosted_call",
    "hosted_result",
    "opaque",
]


def kind_of(part: Part, /) -> PartKind:
    """The kind of a part."""
    kind: PartKind = part.__struct_config__.tag  # type: ignore[assignment]  # the tags are the kinds
    return kind


_RESULT_PARTS: frozenset[type] = frozenset(get_args(ResultPart))
_LOGPROBS: frozenset[type] = frozenset({TokenLogprob})
_NO_LOGPROBS: tuple[TokenLogprob, ...] = ()
_NO_CITATIONS: tuple[Citation, ...] = ()
_INTS: frozenset[type] = frozenset({int})


def _set_items(text: Text, field: str, kind: type) -> None:
    value = getattr(text, field)
    if type(value) is tuple and all_are(value, frozenset({kind})):
        return
    expected = f"a list of {kind.__name__}"
    items = as_items(field, value, expected)
    for item in items:
        if type(item) is not kind:
            raise wrong_value(field, expected, item)
    force_setattr(text, field, items)


def all_are(items: Any, kinds: frozenset[type], /) -> bool:
    """Whether all items have exactly one of some types."""
    for item in items:  # noqa: SIM110 - a generator takes twice as long, and every message is checked
        if type(item) not in kinds:
            return False
    return True


_PLAIN_TYPES: frozenset[type] = frozenset({NoneType, bool, int})
_PLAIN_DEPTH = 8
_JSON_TYPES: frozenset[type] = frozenset({*_PLAIN_TYPES, str, float, list, tuple, dict})
_EXPECTED_ARGUMENTS = "a JSON object or its text"


def _is_plain(value: Any, depth: int) -> bool:
    """Whether a value is JSON without numbers and letters that need a closer look, as most are: a quick check."""
    kind: object = value.__class__
    if kind is str:
        text: str = value
        return text.isascii()
    if kind is dict and depth:
        for key, item in value.items():
            if type(key) is not str or not key.isascii() or not _is_plain(item, depth - 1):
                return False
        return True
    if kind is list and depth:
        for item in value:  # noqa: SIM110 - a generator takes twice as long
            if not _is_plain(item, depth - 1):
                return False
        return True
    return kind in _PLAIN_TYPES


def _check_arguments(call: ToolCall, arguments: dict[str, Any]) -> None:
    """Refuse what JSON cannot express. Dates become text, structs and dataclasses objects."""
    arguments = as_object("arguments", arguments)
    data = encode_value("arguments", arguments, _EXPECTED_ARGUMENTS)
    if any(type(item) not in _JSON_TYPES for item in arguments.values()):
        force_setattr(call, "arguments", msgspec.json.decode(data))


def _set_arguments(call: ToolCall, arguments: Any) -> None:
    """Parse arguments that are JSON text; keep the text if it is not ours."""
    if arguments is None:
        force_setattr(call, "arguments", {})
        return
    if not isinstance(arguments, str):
        arguments = as_object("arguments", arguments, "or pass its JSON text")
        force_setattr(call, "arguments", arguments)
        _check_arguments(call, arguments)
        return
    try:
        # Llama models at some servers write null if a tool takes no arguments (seen 2026-08).
        parsed: Any = msgspec.json.decode(arguments) if arguments.strip() not in ("", "null") else {}
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"arguments must be {_EXPECTED_ARGUMENTS}, got {shown(arguments)}; {error}", param="arguments"
        ) from error
    if not isinstance(parsed, dict):
        raise wrong_value("arguments", _EXPECTED_ARGUMENTS, parsed)
    force_setattr(call, "arguments", parsed)
    if call.raw is None and arguments.strip() and arguments.encode() != msgspec.json.encode(parsed):
        force_setattr(call, "raw", str.__str__(arguments))


_EMPTY = Text("")
