"""HTTP as plain values: HttpRequest, HttpResponse, Head; base URLs, and the wait that a response asks for."""

import re
from binascii import a2b_base64
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from dragoman.errors import SetupError
from dragoman.types import Notice
from dragoman.types.checks import check_type
from dragoman.types.fields import check_struct
from dragoman.types.structs import CheckedStruct

MIN_SECRET = 6
"""Characters. A shorter key is a placeholder for a local server, such as "x", and may occur inside other texts."""
SENSITIVE_NAME = "auth|key|token|secret|cookie|password|credential|signature"
"""Matches the name of a header or query field that may hold a secret."""
_KEY_PREFIX = r"(?i)^(?:(?:Bearer|Basic|Token|ApiKey|Api-Key|Key|Negotiate) +|AWS4-HMAC-SHA256 .*Signature=)"
_COOKIE = r"[^=;,\s]+=([^;,\s]+)"


class HttpRequest(CheckedStruct, frozen=True, kw_only=True):
    """A request to a provider, or one that a server received. Its repr does not show the key.

    >>> HttpRequest(method="POST", path="/v1/messages", headers={"x-api-key": "k"}, body=b"{}")
    HttpRequest(POST /v1/messages, headers={'x-api-key': '[redacted]'}, 2 bytes)
    """

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    origin: str = ""
    notices: tuple[Notice, ...] = ()
    secret: str | None = None
    """The key. A target may send it in any header, so `redacted` looks for the value."""

    def __post_init__(self) -> None:
        # The usual case is quick: each call makes one. The client checks the headers when it sends them.
        if not (
            type(self.method) is type(self.path) is type(self.origin) is str
            and type(self.body) is bytes
            and type(self.headers) is dict
            and type(self.notices) is tuple
        ):
            check_struct(self)

    @property
    def url(self) -> str:
        """The whole URL."""
        return self.origin + self.path

    @property
    def sent_secrets(self) -> list[str]:
        """The keys, tokens and signatures in a request, the longest first: a server may repeat them.

        >>> HttpRequest(method="POST", path="/", headers={"authorization": "Bearer sk-12345"}).sent_secrets
        ['sk-12345']
        """
        sent = [value for name, value in self.headers.items() if re.search(SENSITIVE_NAME, name.lower())]
        secrets = {re.sub(_KEY_PREFIX, "", value.strip()).strip() for value in (*sent, self.secret or "")}
        for value in sent:
            secrets.update(re.findall(_COOKIE, value) if "=" in value.rstrip("=") else ())
            secrets.update(_basic_secret(value))
        for value in re.findall(rf"(?i)[?&][^=&]*(?:{SENSITIVE_NAME})[^=&]*=([^&#]*)", self.path):
            secrets |= {value, unquote(value)}
        for value in re.findall(r"//[^/@:]*:([^/@]*)@", self.origin):
            secrets |= {value, unquote(value)}
        return sorted((value for value in secrets if len(value) >= MIN_SECRET), key=len, reverse=True)

    def redacted(self) -> "HttpRequest":
        """The same request with its secrets replaced."""
        headers = {
            name: "[redacted]" if re.search(SENSITIVE_NAME, name.lower()) or self._has_secret(value) else value
            for name, value in self.headers.items()
        }
        path = re.sub(rf"(?i)([?&][^=&]*(?:{SENSITIVE_NAME})[^=&]*=)[^&#]*", r"\1[redacted]", self.path)
        origin = re.sub(r"//[^/@]*@", "//[redacted]@", self.origin)
        return msgspec.structs.replace(self, headers=headers, path=path, origin=origin, secret=None)

    def _has_secret(self, value: str) -> bool:
        if not self.secret:
            return False
        return self.secret in value if len(self.secret) >= MIN_SECRET else value.removeprefix("Bearer ") == self.secret

    def __repr__(self) -> str:
        safe = self.redacted()
        return f"HttpRequest({self.method} {safe.url}, headers={safe.headers!r}, {len(self.body)} bytes)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # msgspec's own would show the key.
        safe = self.redacted()
        return [("method", safe.method), ("url", safe.url), ("headers", safe.headers)]


def _basic_secret(authorization: str) -> list[str]:
    """The password of an `Authorization: Basic` header, or the token that is its user."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return []
    try:
        user, _, password = a2b_base64(encoded).decode("latin-1").partition(":")
    except ValueError:
        return []
    return [password or user]


class Head(CheckedStruct, frozen=True, kw_only=True):
    """Status and headers of a response.

    >>> Head(status=200, headers={"Retry-After": "3"}).header("retry-after")
    '3'
    """

    status: int
    headers: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        if type(self.status) is not int or type(self.headers) is not dict:
            check_struct(self)

    def header(self, name: str, /) -> str | None:
        """The value of a header; the case of the name does not matter."""
        check_type("name", name, str)
        name = name.lower()
        return next((value for key, value in self.headers.items() if key.lower() == name), None)


_REQUEST_IDS = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "x-ms-request-id",
                "x-goog-request-id", "mistral-correlation-id", "x-generation-id", "cf-ray")  # fmt: skip
"""Headers that have the id of a request, the most specific first."""
_IS_REQUEST_ID = frozenset(_REQUEST_IDS)


def provider_headers(head: Head, /) -> tuple[str | None, dict[str, str]]:
    """The provider's id of a request, and its headers about rate limits.

    >>> provider_headers(Head(status=200, headers={"request-id": "req_1", "X-RateLimit-Remaining-Requests": "9"}))
    ('req_1', {'x-ratelimit-remaining-requests': '9'})
    """
    check_type("head", head, Head)
    ids: dict[str, str] = {}
    limits: dict[str, str] = {}
    for name, value in head.headers.items():
        lower = name.lower()
        if "ratelimit" in lower or "rate-limit" in lower:
            limits[lower] = value
        elif value and lower in _IS_REQUEST_ID:
            ids[lower] = value
    return next((ids[name] for name in _REQUEST_IDS if name in ids), None) if ids else None, limits


class HttpResponse(Head, frozen=True, kw_only=True):
    """A whole response: of a provider, or of our own server.

    >>> HttpResponse(status=200, body=b"{}").headers["content-type"]
    'application/json'
    """

    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=lambda: {"content-type": "application/json"})
    body: bytes = b""

    def __post_init__(self) -> None:
        if type(self.status) is not int or type(self.headers) is not dict or type(self.body) is not bytes:
            check_struct(self)


def split_base_url(base_url: str, /) -> tuple[str, str]:
    """Origin and path prefix of a base URL.

    >>> split_base_url("https://api.example.org/v1/")
    ('https://api.example.org', '/v1')
    """
    check_type("base_url", base_url, str)
    return _split_base_url(base_url)


@lru_cache(maxsize=256)
def _split_base_url(base_url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(base_url)
        is_whole = bool(parts.scheme and parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_whole = urlsplit(""), False
    if not is_whole:  # the URL is not shown: it may have a password
        reason = "base_url must be a URL with a scheme and a host, such as https://host/path, got another text"
        raise SetupError(reason, param="base_url")
    if parts.query or parts.fragment:
        raise SetupError("base_url must not have a query or a fragment; use headers= instead", param="base_url")
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")


def redact_url(url: str, /) -> str:
    """A URL without user, password and query.

    >>> redact_url("https://me:secret@example.org/a.png?token=1")
    'https://example.org/a.png'
    """
    check_type("url", url, str)
    try:
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "an invalid URL"
    path = parts.path if parts.netloc else parts.path.rpartition("@")[2]
    return f"{parts.scheme}://{host}{port}{path}" if parts.scheme else path


MAX_WAIT = 86400.0
"""Seconds. A provider's longer wait is cut to this."""
_NUMBER = r"\d{1,15}(?:\.\d*)?|\.\d+"
_DURATION = rf"({_NUMBER})(ns|us|µs|μs|ms|s|m|h|d)"
_MICRO = 1e-6
_SECONDS = {"ns": 1e-9, "us": _MICRO, "µs": _MICRO, "μs": _MICRO, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SECONDS["d"] = 86400.0


def decode_duration(text: str, /) -> float | None:
    """Seconds of a number or of a duration such as `6m0s`, `120ms`, `48s`; None for any other text.

    >>> decode_duration("6m0.5s"), decode_duration("3"), decode_duration("soon")
    (360.5, 3.0, None)
    """
    check_type("text", text, str)
    text = text.strip()
    if re.fullmatch(_NUMBER, text, re.ASCII):
        return float(text)
    pairs = re.findall(_DURATION, text, re.ASCII)
    if not pairs or "".join(number + unit for number, unit in pairs) != text:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in pairs)


def retry_after(head: Head, /) -> float | None:
    """Seconds to wait: from retry-after-ms, Retry-After (seconds or date), or the reset of an exhausted rate limit.

    A date is compared with the Date header of the response, so that no clock is needed. The maximum is one day.

    >>> retry_after(Head(status=429, headers={"retry-after-ms": "250"}))
    0.25
    >>> retry_after(Head(status=429, headers={"retry-after": "99999999"}))
    86400.0
    """
    check_type("head", head, Head)
    wait = _requested_wait(head)
    return None if wait is None else min(MAX_WAIT, wait)


def _requested_wait(head: Head) -> float | None:
    ms = decode_duration(head.header("retry-after-ms") or "")
    if ms:
        return ms / 1000
    # Azure sends retry-after-ms: 0 with retry-after: 1 (2026-08); the second is right.
    if (seconds := _wait(head.header("retry-after") or "", head)) is not None or ms is not None:
        return seconds or 0.0
    if head.status != 429:
        return None
    waits = [wait for name, value in head.headers.items() if (wait := _reset(name.lower(), value, head)) is not None]
    return max(waits, default=None)


def _reset(name: str, value: str, head: Head) -> float | None:
    if "ratelimit" not in name or "reset" not in name:
        return None
    if decode_duration(head.header(name.replace("reset", "remaining")) or "0"):
        return None
    return _wait(value, head)


def _wait(text: str, head: Head) -> float | None:
    """Seconds to wait, from a duration or a point in time. A number above 1e9 is a timestamp."""
    seconds = decode_duration(text)
    if seconds is not None and seconds < 1e9:
        return seconds
    now, then = _timestamp(head.header("date") or ""), _timestamp(text.strip())
    return None if now is None or then is None else max(0.0, then - now)


def _timestamp(text: str) -> float | None:
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    if re.fullmatch(r"\d{10,13}(\.\d*)?", text, re.ASCII):
        return float(text) / (1000 if float(text) > 1e11 else 1)
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = read(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None


def rate_limit_states(head: Head, /) -> dict[str, tuple[Literal["requests", "tokens"], int, float | None]]:
    """The rate limits in the headers of a response, by their names: kind, what remains, and the seconds until a reset.

    >>> head = Head(status=200, headers={"x-ratelimit-remaining-requests": "9", "x-ratelimit-reset-requests": "6s"})
    >>> rate_limit_states(head)
    {'x-ratelimit-requests': ('requests', 9, 6.0)}
    """
    check_type("head", head, Head)
    states: dict[str, tuple[Literal["requests", "tokens"], int, float | None]] = {}
    for name, value in head.headers.items():
        words = name.lower().split("-")
        if "remaining" not in words or not ("ratelimit" in words or "rate" in words) or not value.strip().isdecimal():
            continue
        words.remove("remaining")
        reset = next(
            (
                wait
                for other, text in head.headers.items()
                if (parts := other.lower().split("-")).count("reset")
                and [word for word in parts if word != "reset"] == words
                and (wait := _wait(text, head)) is not None
            ),
            None,
        )
        kind: Literal["requests", "tokens"] = "tokens" if "tokens" in words else "requests"
        states["-".join(words)] = kind, int(value), reset
    return states
