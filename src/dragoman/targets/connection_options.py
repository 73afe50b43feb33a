"""The key, headers and base URL of one model or call, instead of those in the provider's record."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman.errors import InvalidRequest, SetupError
from dragoman.targets.config import check_header
from dragoman.targets.provider import Provider, clean_key, with_default_path
from dragoman.types.checks import is_mapping, wrong_value


class ConnectionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a call sets itself. Its repr shows no key and no header.

    >>> ConnectionOptions(api_key="sk-1", headers={"x-team": "a"})
    ConnectionOptions(api_key, headers)
    """

    api_key: str | None = None
    credential: Any = None
    """A `Credential` instead of a key."""
    headers: Mapping[str, str] = {}
    base_url: str | None = None

    def over(self, provider: Provider, /) -> Provider:
        """The provider's record with these values."""
        changes: dict[str, Any] = {}
        if self.base_url is not None:
            changes |= {"base_url": with_default_path(self.base_url, provider.default_path), "base_url_names": ()}
        if self.api_key is not None or self.credential is not None:
            changes |= {"api_key": self.api_key, "credential": self.credential}
        if self.headers:
            own = {name: value for name, value in provider.headers.items() if name.lower() not in self.headers}
            changes["headers"] = {**own, **self.headers}
        return replace(provider, **changes)

    def check_providers(self, names: Iterable[str], /) -> None:
        """Refuse a key or a base URL for several providers: each has its own, and must not see another's key."""
        providers = sorted(set(names))
        parameter = "base_url" if self.base_url is not None else "api_key"
        has_any = self.base_url is not None or self.api_key is not None or self.credential is not None
        if has_any and len(providers) > 1:
            raise InvalidRequest(
                f"{parameter} must be for one provider, got a spec with {', '.join(providers)}; "
                f"set each with Registry.add_provider(like=…, {parameter}=…)",
                param=parameter,
            )

    def __repr__(self) -> str:
        names = [name for name in self.__struct_fields__ if getattr(self, name)]
        return f"ConnectionOptions({', '.join(names)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # msgspec's own would show the key.
        return [("base_url", self.base_url is not None)]


def check_connection(connection: object, /) -> ConnectionOptions:
    """The connection options that a user passed, or InvalidRequest."""
    if not isinstance(connection, ConnectionOptions):
        raise wrong_value("connection", "ConnectionOptions or None", connection)
    return connection


def check_key_text(api_key: str, /) -> str:
    """A key without blanks around it; InvalidRequest if it is empty or cannot be sent.

    >>> check_key_text("sk-1\\n")
    'sk-1'
    """
    try:
        key = clean_key(api_key, "api_key")
    except SetupError as error:
        raise InvalidRequest(error.message, param="api_key") from None
    if key is None:
        raise InvalidRequest(
            "api_key must be a key, got an empty text; pass None for the provider's own", param="api_key"
        )
    return key


def check_headers(headers: object, /) -> dict[str, str]:
    """Headers with names in lower case; InvalidRequest if one cannot be sent.

    >>> check_headers({"X-Team": " a "})
    {'x-team': 'a'}
    """
    if not is_mapping(headers):
        raise wrong_value("headers", "a dict of str", headers)
    checked: dict[str, str] = {}
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise wrong_value("headers", "a dict of str", value if isinstance(name, str) else name)
        try:
            checked[name.lower()] = check_header(name, value)
        except SetupError as error:
            raise InvalidRequest(f"headers: {error.message}", param="headers") from None
    return checked


def check_base_url(base_url: object, /) -> str:
    """Check a base URL; InvalidRequest if it is not valid."""
    if not isinstance(base_url, str):
        raise wrong_value("base_url", "a URL with a scheme and a host", base_url)
    try:
        return with_default_path(base_url, "")
    except SetupError as error:
        raise InvalidRequest(error.message, param="base_url") from None
