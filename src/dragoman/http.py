"""What a wire wants said and what it heard, as plain values: HttpRequest, Head, HttpReply."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec

from dragoman.errors import SetupError
from dragoman.types import Notice

MIN_SECRET = 6
"""Characters of a key that is one: local servers are given words such as "x"."""
SENSITIVE_NAME = "auth|key|token|secret|cookie|password|credential|signature"
"""What stands in the name of a header or query field that holds a secret: a target may name its own."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to send, or one that came in. Its repr shows no key.

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
    """The key, so that it is known wherever it stands: a target may have any header for it."""

    @property
    def url(self) -> str:
        """Where it goes."""
        return self.origin + self.path

    def redacted(self) -> "HttpRequest":
        """The same with its keys blotted out."""
        headers = {
            name: "[redacted]" if re.search(SENSITIVE_NAME, name.lower()) or self._tells(value) else value
            for name, value in self.headers.items()
        }
        path = re.sub(rf"(?i)([?&][^=&]*(?:{SENSITIVE_NAME})[^=&]*=)[^&#]*", r"\1[redacted]", self.path)
        origin = re.sub(r"//[^/@]*@", "//[redacted]@", self.origin)
        return msgspec.structs.replace(self, headers=headers, path=path, origin=origin, secret=None)

    def _tells(self, value: str) -> bool:
        """Whether the key is in a header's value; one as short as a word only where it is all of it."""
        if not self.secret:
            return False
        return self.secret in value if len(self.secret) >= MIN_SECRET else value.removeprefix("Bearer ") == self.secret

    def __repr__(self) -> str:
        """Without keys and without the body."""
        shown = self.redacted()
        return f"HttpRequest({self.method} {shown.url}, headers={shown.headers!r}, {len(self.body)} bytes)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """As `repr`: msgspec's own would show the keys."""
        shown = self.redacted()
        return [("method", shown.method), ("url", shown.url), ("headers", shown.headers)]


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Status and headers of an answer.

    >>> Head(status=200, headers={"Retry-After": "3"}).header("retry-after")
    '3'
    """

    status: int
    headers: Mapping[str, str] = {}

    def header(self, name: str, /) -> str | None:
        """A header's value, whatever the case of its name."""
        name = name.lower()
        return next((value for key, value in self.headers.items() if key.lower() == name), None)


class HttpReply(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer to give.

    >>> HttpReply(status=200, body=b"{}").headers["content-type"]
    'application/json'
    """

    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=lambda: {"content-type": "application/json"})
    body: bytes = b""


@lru_cache(maxsize=256)
def split_base_url(base_url: str, /) -> tuple[str, str]:
    """Origin and path prefix of a base URL.

    >>> split_base_url("https://api.example.org/v1/")
    ('https://api.example.org', '/v1')
    """
    try:
        parts = urlsplit(base_url)
        is_whole = bool(parts.scheme and parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_whole = urlsplit(""), False
    if not is_whole:  # and not shown: what of it is misread may be a password
        raise SetupError("base_url must be a URL with a scheme and a host, such as https://host/path")
    if parts.query or parts.fragment:
        raise SetupError("base_url must not have a query or a fragment; use headers= instead")
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")


def redact_url(url: str, /) -> str:
    """A URL without what may be secret in it: neither a password nor a query.

    >>> redact_url("https://me:secret@example.org/a.png?token=1")
    'https://example.org/a.png'
    """
    try:
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "a URL that cannot be read"
    place = parts.path if parts.netloc else parts.path.rpartition("@")[2]
    return f"{parts.scheme}://{host}{port}{place}" if parts.scheme else place


MAX_WAIT = 86400.0
"""Seconds of a wait that a provider asks for and that is believed: one day."""
_NUMBER = r"\d{1,15}(?:\.\d*)?|\.\d+"
_DURATION = rf"({_NUMBER})(ns|us|µs|μs|ms|s|m|h|d)"
_MICRO = 1e-6
_SECONDS = {"ns": 1e-9, "us": _MICRO, "µs": _MICRO, "μs": _MICRO, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SECONDS["d"] = 86400.0


def decode_duration(text: str, /) -> float | None:
    """Seconds of a number or of a duration such as `6m0s`, `120ms`, `48s`.

    >>> decode_duration("6m0.5s"), decode_duration("3"), decode_duration("soon")
    (360.5, 3.0, None)
    """
    text = text.strip()
    if re.fullmatch(_NUMBER, text, re.ASCII):
        return float(text)
    found = re.findall(_DURATION, text, re.ASCII)
    if not found or "".join(number + unit for number, unit in found) != text:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in found)


def retry_after(head: Head, /) -> float | None:
    """Seconds to wait, from retry-after-ms, Retry-After (seconds or date), or the reset of a used-up rate limit.

    A date is counted from the answer's own Date header, so that no clock is needed. More than a day is a day.

    >>> retry_after(Head(status=429, headers={"retry-after-ms": "250"}))
    0.25
    >>> retry_after(Head(status=429, headers={"retry-after": "99999999"}))
    86400.0
    """
    wait = _told_wait(head)
    return None if wait is None else min(MAX_WAIT, wait)


def _told_wait(head: Head) -> float | None:
    ms = decode_duration(head.header("retry-after-ms") or "")
    if ms:
        return ms / 1000
    # Azure says 0 ms beside one second (2026-08): the second is meant.
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
    """Seconds to wait: told as a duration, or as a moment, which a number of more than thirty years is, too."""
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
