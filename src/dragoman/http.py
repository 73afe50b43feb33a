"""What a wire wants said and what it heard, as plain values: HttpRequest, Head, HttpReply."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from dragoman.types import Notice

SECRET_HEADERS = frozenset({"authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie", "proxy-authorization"})


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

    @property
    def url(self) -> str:
        """Where it goes."""
        return self.origin + self.path

    def redacted(self) -> "HttpRequest":
        """The same with its keys blotted out."""
        headers = {name: "[redacted]" if name.lower() in SECRET_HEADERS else v for name, v in self.headers.items()}
        return msgspec.structs.replace(self, headers=headers)

    def __repr__(self) -> str:
        """Without keys and without the body."""
        return f"HttpRequest({self.method} {self.url}, headers={self.redacted().headers!r}, {len(self.body)} bytes)"


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Status and headers of an answer.

    >>> Head(status=200, headers={"Retry-After": "3"}).header("retry-after")
    '3'
    """

    status: int
    headers: Mapping[str, str] = {}

    def header(self, name: str, /) -> str | None:
        """A header's value, whatever the case of its name."""
        return next((value for key, value in self.headers.items() if key.lower() == name), None)


class HttpReply(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer to give.

    >>> HttpReply(status=200, body=b"{}").headers["content-type"]
    'application/json'
    """

    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=lambda: {"content-type": "application/json"})
    body: bytes = b""


def split_base_url(base_url: str, /) -> tuple[str, str]:
    """Origin and path prefix of a base URL.

    >>> split_base_url("https://api.example.org/v1/")
    ('https://api.example.org', '/v1')
    """
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def decode_duration(text: str, /) -> float | None:
    """Seconds of a number or of a duration such as `6m0s`, `120ms`, `48s`.

    >>> decode_duration("6m0.5s"), decode_duration("3"), decode_duration("soon")
    (360.5, 3.0, None)
    """
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    found = _DURATION.findall(text)
    if not found or "".join(number + unit for number, unit in found) != text:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in found)


def retry_after(head: Head, /) -> float | None:
    """Seconds to wait, from retry-after-ms, Retry-After (seconds or date), or the reset of a used-up rate limit.

    A date is counted from the answer's own Date header, so that no clock is needed.

    >>> retry_after(Head(status=429, headers={"retry-after-ms": "250"}))
    0.25
    """
    if (ms := head.header("retry-after-ms")) and (seconds := decode_duration(ms)):
        return seconds / 1000
    if after := head.header("retry-after"):
        seconds = decode_duration(after)
        return seconds if seconds is not None else _until(after, head)
    if head.status != 429:
        return None
    waits = [wait for name, value in head.headers.items() if (wait := _reset(name.lower(), value, head)) is not None]
    return max(waits, default=None)


def _reset(name: str, value: str, head: Head) -> float | None:
    if "ratelimit" not in name or "reset" not in name:
        return None
    if (head.header(name.replace("reset", "remaining")) or "0") != "0":
        return None
    seconds = decode_duration(value)
    return seconds if seconds is not None and seconds < 1e9 else _until(value, head)


def _until(moment: str, head: Head) -> float | None:
    now, then = _timestamp(head.header("date") or ""), _timestamp(moment)
    return None if now is None or then is None else max(0.0, then - now)


def _timestamp(text: str) -> float | None:
    from datetime import datetime
    from email.utils import parsedate_to_datetime

    if re.fullmatch(r"\d{10,13}", text):
        return int(text) / (1000 if len(text) > 11 else 1)
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            return read(text).timestamp()
        except (ValueError, TypeError):
            continue
    return None
