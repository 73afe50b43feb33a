"""Fetch images by URL: only over https, and only from public addresses.

The host name is resolved once, its addresses are checked, and the connection goes to a checked address. So a name that
resolves to another address a moment later (DNS rebinding) does not help an attacker. Each redirect is checked again.
"""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from ipaddress import ip_address, ip_network
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from urllib.parse import quote, urljoin, urlsplit

from dragoman.engine.effects import Fetch, Send
from dragoman.errors import DragomanError, TimedOut, Unsupported
from dragoman.http import HttpRequest, HttpResponse, redact_url
from dragoman.io.connect import tls_context
from dragoman.io.http_client import HttpClient
from dragoman.media.sniff import sniff

if TYPE_CHECKING:
    from ssl import SSLContext

T = TypeVar("T")
Resolve: TypeAlias = Callable[[str, int], Iterable[str]]
"""The addresses of a host and a port."""

MAX_REDIRECTS = 5
_HEADERS = {"accept": "image/*", "user-agent": "dragoman"}
_HOST = re.compile(r"[a-z0-9]([a-z0-9_.-]*[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_BLOCKED = tuple(
    map(
        ip_network,
        (
            "168.63.129.16",  # Azure's own services, in the middle of the public addresses
            *("192.0.0.0/24", "192.88.99.0/24"),
            *("2001::/23", "2002::/16", "3fff::/20"),  # some of these embed an arbitrary IPv4 address
        ),
    )
)
"""Networks that the `is_global` of some Python versions does not exclude."""
_PUBLIC_IPV6 = ip_network("2000::/3")


def is_public(address: str, /) -> bool:
    """Whether an address is public: not private, loopback, link-local, a metadata service or similar.

    >>> is_public("93.184.216.34"), is_public("169.254.169.254"), is_public("::ffff:10.0.0.1")
    (True, False, False)
    """
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if not ip.is_global or ip.is_multicast or (ip.version == 6 and ip not in _PUBLIC_IPV6):
        return False
    return not any(ip in network for network in _BLOCKED)


def addresses_of(host: str, port: int, /) -> list[str]:
    """The addresses of a host from the system's resolver, IPv4 first."""
    records = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return sorted((str(record[4][0]) for record in records), key=lambda address: ":" in address)


class UrlFetcher:
    """Fetches images for targets that do not accept image URLs.

    >>> UrlFetcher().fetch(Fetch("http://example.org/a.png", 5.0, 1000))
    Traceback (most recent call last):
        ...
    dragoman.errors.Unsupported: cannot fetch http://example.org/a.png: only https URLs are allowed
    """

    def __init__(
        self,
        *,
        ca: bytes | str | Path | None = None,
        resolve: Resolve = addresses_of,
        allow: Callable[[str], bool] = is_public,
    ) -> None:
        self._ca = ca
        self._resolve = resolve
        self._allow = allow

    def fetch(self, effect: Fetch, /) -> bytes:
        """The bytes of an image; Unsupported if the URL is not safe, fails, or is not an image."""
        deadline = time.monotonic() + effect.timeout
        url = effect.url
        try:
            for _ in range(MAX_REDIRECTS + 1):
                http_response = self._get(url, deadline, effect)
                location = http_response.header("location")
                if http_response.status not in _REDIRECTS or location is None:
                    return _image(http_response)
                url = urljoin(url, location)
            raise Unsupported(f"more than {MAX_REDIRECTS} redirects")
        except (DragomanError, OSError, ValueError) as error:
            reason = error.message if isinstance(error, DragomanError) else str(error)
            raise Unsupported(f"cannot fetch {redact_url(effect.url)}: {reason}") from error

    @cached_property
    def _tls(self) -> "SSLContext":
        return tls_context(self._ca)

    def _get(self, url: str, deadline: float, effect: Fetch) -> HttpResponse:
        host, port, path = _parts(url)
        address = self._address(host, port, deadline)
        name = f"[{host}]" if ":" in host else host
        request = HttpRequest(method="GET", origin=f"https://{name}:{port}", path=path, headers=_HEADERS)
        transport = HttpClient(ca=self._tls, pin=(host, address))
        try:
            timeout = _remaining(deadline)
            return transport.send(Send(request, timeout, timeout, limit=effect.limit, stopper=effect.stopper))
        finally:
            transport.close()

    def _address(self, host: str, port: int, deadline: float) -> str:
        """The address to connect to; Unsupported if any address of the host is not public."""
        addresses = list(_within(_remaining(deadline), lambda: self._resolve(host, port)))
        if not addresses:
            raise Unsupported(f"{host} has no address")
        for address in addresses:
            if not self._allow(address):
                raise Unsupported(f"{host} does not have a public address")
        return addresses[0]


_REDIRECTS = (301, 302, 303, 307, 308)


def _parts(url: str) -> tuple[str, int, str]:
    """Host, port and path of a URL, normalized so that every parser reads them alike."""
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise Unsupported("only https URLs are allowed")
    if "@" in parts.netloc:
        raise Unsupported("the URL must not have a user name or password")
    path = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    return _host(parts.hostname or ""), parts.port or 443, path


_SAFE = "/%:@!$&'()*+,;=~-._?"


def _host(text: str) -> str:
    """A host name, or an address in its usual form: parsers disagree on others, such as 0x7f.1."""
    if ":" in text:
        return str(ip_address(text))
    host = text.encode("idna").decode("ascii").lower().removesuffix(".")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return str(ip_address(host))
    if not _HOST.fullmatch(host):
        raise Unsupported("the URL has no valid host")
    return host


def _image(http_response: HttpResponse) -> bytes:
    if http_response.status != 200:
        raise Unsupported(f"HTTP {http_response.status}")
    if sniff(http_response.body) is None:
        raise Unsupported("not an image of a known type")
    return http_response.body


def _remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimedOut("timed out")
    return remaining


def _within(seconds: float, work: Callable[[], T]) -> T:
    """The result of a function that cannot be stopped; TimedOut if it takes longer."""
    done: SimpleQueue[T | OSError | UnicodeError] = SimpleQueue()

    def run() -> None:
        try:
            done.put(work())
        except (OSError, UnicodeError) as error:
            done.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        result = done.get(timeout=seconds)
    except Empty:
        raise TimedOut("the host name was not resolved in time") from None
    if isinstance(result, OSError | UnicodeError):
        raise result
    return result
