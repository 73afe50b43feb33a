"""Tools that the provider runs itself: web search, code execution and others.

Each provider has its own form of them. A target without the tool raises Unsupported, or gets the `fallback`.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import force_setattr

from dragoman.errors import InvalidRequest
from dragoman.types.base import Extra
from dragoman.types.checks import is_mapping, wrong_value
from dragoman.types.data_urls import check_url
from dragoman.types.fields import check_struct
from dragoman.types.messages import Tool
from dragoman.types.structs import Value

HostedKind: TypeAlias = Literal["web_search", "web_fetch", "code_execution", "file_search", "image_generation", "mcp"]
HOSTED_KINDS: tuple[HostedKind, ...] = get_args(HostedKind)


class Location(Value, frozen=True, kw_only=True):
    """Roughly where the user is, for results that depend on it."""

    city: str | None = None
    region: str | None = None
    country: str | None = None
    """The code of two letters."""
    timezone: str | None = None


class WebSearch(Value, frozen=True, kw_only=True, tag="web_search"):
    """The provider's web search. The answer has its calls, their results, and citations.

    >>> WebSearch(allowed_domains=["example.org"]).allowed_domains
    ('example.org',)
    """

    max_uses: int | None = None
    """How often the model may search."""
    allowed_domains: tuple[str, ...] = ()
    """Search only there."""
    blocked_domains: tuple[str, ...] = ()
    """Never search there."""
    context_size: Literal["low", "medium", "high"] | None = None
    """How much of the results the model reads."""
    location: Location | None = None
    fallback: Any = None
    """A tool of yours for targets without web search: a function, or a Tool."""
    extra: Extra = {}

    if TYPE_CHECKING:  # the constructor takes more than the fields hold

        def __init__(
            self,
            *,
            max_uses: int | None = None,
            allowed_domains: str | Iterable[str] = (),
            blocked_domains: str | Iterable[str] = (),
            context_size: Literal["low", "medium", "high"] | None = None,
            location: Location | None = None,
            fallback: Any = None,
            extra: Extra | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        _check(self)
        if self.allowed_domains and self.blocked_domains:
            raise InvalidRequest(
                "blocked_domains must be empty if there are allowed_domains; use one of them", param="blocked_domains"
            )


class WebFetch(Value, frozen=True, kw_only=True, tag="web_fetch"):
    """The provider fetches the pages of URLs that stand in the conversation."""

    max_uses: int | None = None
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    fallback: Any = None
    """A tool of yours for targets that fetch no pages."""
    extra: Extra = {}

    if TYPE_CHECKING:  # the constructor takes more than the fields hold

        def __init__(
            self,
            *,
            max_uses: int | None = None,
            allowed_domains: str | Iterable[str] = (),
            blocked_domains: str | Iterable[str] = (),
            fallback: Any = None,
            extra: Extra | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        _check(self)


class CodeExecution(Value, frozen=True, kw_only=True, tag="code_execution"):
    """The provider runs code that the model writes, in a sandbox of its own."""

    fallback: Any = None
    """A tool of yours for targets that run no code."""
    extra: Extra = {}

    def __post_init__(self) -> None:
        _check(self)


class FileSearch(Value, frozen=True, kw_only=True, tag="file_search"):
    """The provider searches files that you stored there, by the ids of the stores."""

    stores: tuple[str, ...]
    max_results: int | None = None
    fallback: Any = None
    """A tool of yours for targets without file search."""
    extra: Extra = {}

    if TYPE_CHECKING:  # the constructor takes more than the fields hold

        def __init__(
            self,
            *,
            stores: str | Iterable[str],
            max_results: int | None = None,
            fallback: Any = None,
            extra: Extra | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        _check(self)


class ImageGeneration(Value, frozen=True, kw_only=True, tag="image_generation"):
    """The model may make images. They are `Image` parts of the answer."""

    size: str | None = None
    """Pixels, as `1024x1024`."""
    quality: Literal["low", "medium", "high"] | None = None
    format: Literal["png", "jpeg", "webp"] | None = None
    fallback: Any = None
    """A tool of yours for targets that make no images."""
    extra: Extra = {}

    def __post_init__(self) -> None:
        _check(self)


class McpServer(Value, frozen=True, kw_only=True, tag="mcp"):
    """An MCP server that the provider connects to. To connect from here, use `Toolbox.from_mcp`.

    >>> McpServer(name="wiki", url="https://mcp.example.org", token="t0p-secret")
    McpServer(name='wiki', url='https://mcp.example.org')
    """

    name: str
    url: str
    token: str | None = None
    """What the server wants as a bearer token. It is not shown."""
    allowed_tools: tuple[str, ...] = ()
    """The tools of the server that the model may call; empty means all."""
    fallback: Any = None
    """A tool of yours for targets that connect to no MCP server."""
    extra: Extra = {}

    if TYPE_CHECKING:  # the constructor takes more than the fields hold

        def __init__(
            self,
            *,
            name: str,
            url: str,
            token: str | None = None,
            allowed_tools: str | Iterable[str] = (),
            fallback: Any = None,
            extra: Extra | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        _check(self)
        if not self.url.startswith(("https://", "http://")):
            raise wrong_value("url", "an https URL", self.url)
        check_url(self.url)

    def __repr__(self) -> str:
        return f"McpServer(name={self.name!r}, url={self._shown_url!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("name", self.name), ("url", self._shown_url)]

    @property
    def _shown_url(self) -> str:
        from dragoman.http import redact_url

        return redact_url(self.url)


HostedTool: TypeAlias = WebSearch | WebFetch | CodeExecution | FileSearch | ImageGeneration | McpServer
HOSTED_TYPES: frozenset[type] = frozenset(get_args(HostedTool))


def _check(tool: HostedTool) -> None:
    for name in ("allowed_domains", "blocked_domains", "stores", "allowed_tools"):
        if isinstance(value := getattr(tool, name, None), str):
            force_setattr(tool, name, (value,))
    check_struct(tool)
    if is_mapping(tool.fallback):
        force_setattr(tool, "fallback", _loaded_fallback(tool.fallback))
    for name in ("max_uses", "max_results"):
        if (count := getattr(tool, name, None)) is not None and count < 1:
            raise wrong_value(name, "an int >= 1", count)
    if tool.fallback is not None and not isinstance(tool.fallback, Tool) and not callable(tool.fallback):
        raise wrong_value("fallback", "a function or a Tool", tool.fallback)


def _loaded_fallback(data: Any) -> Tool:
    """The fallback of a tool that `load` reads."""
    try:
        return msgspec.convert(data, Tool)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise wrong_value("fallback", "a function or a Tool", data) from error


def kind_of_tool(tool: HostedTool, /) -> HostedKind:
    """What a tool is, in one word."""
    kind: HostedKind = tool.__struct_config__.tag  # type: ignore[assignment]  # the tags are the kinds
    return kind
