"""The URL of a picture in, its bytes out: only over https, and only from addresses that anybody may reach.

A host's name is resolved once, what it stands for is checked, and the connection goes to that very address: a name that
means something else a moment later changes nothing. Every redirect is a new URL, checked in the same way.
"""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from ipaddress import ip_address, ip_network
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeAlias, TypeVar
from urllib.parse import quote, urljoin, urlsplit

from dragoman.engine.effects import Fetch, HttpResponse, Send
from dragoman.errors import DragomanError, TimedOut, Unsupported
from dragoman.http import HttpRequest, redact_url
from dragoman.io.pyreqwest import PyreqwestTransport
from dragoman.media.sniff import sniff

T = TypeVar("T")
Resolve: TypeAlias = Callable[[str, int], Iterable[str]]
"""The addresses of a host."""

MAX_REDIRECTS = 5
_HEADERS = {"accept": "image/*", "user-agent": "dragoman"}
_HOST = re.compile(r"[a-z0-9]([a-z0-9_.-]*[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_CLOSED = tuple(
    map(
        ip_network,
        (
            "168.63.129.16",  # Azure's own services answer each virtual machine here, amid the public addresses
            *("192.0.0.0/24", "192.88.99.0/24"),
            *("2001::/23", "2002::/16", "3fff::/20"),  # some of these hold an IPv4 address, which may be any
        ),
    )
)
"""What Python's own tables of private addresses lack, in one version or the other."""
_OPEN6 = ip_network("2000::/3")


def is_public(address: str, /) -> bool:
    """Whether an address is one that anybody may reach: not private, loopback, link-local, metadata or the like.

    >>> is_public("93.184.216.34"), is_public("169.254.169.254"), is_public("::ffff:10.0.0.1")
    (True, False, False)
    """
    try:
        known = ip_address(address)
    except ValueError:
        return False
    if not known.is_global or known.is_multicast or (known.version == 6 and known not in _OPEN6):
        return False
    return not any(known in network for network in _CLOSED)


def addresses_of(host: str, port: int, /) -> list[str]:
    """The addresses of a host, as the system tells them, those that work everywhere first.

    >>> addresses_of("127.0.0.1", 443)
    ['127.0.0.1']
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return sorted((str(address[4][0]) for address in found), key=lambda address: ":" in address)


class UrlFetcher:
    """Fetches pictures for targets that cannot do it by themselves.

    >>> UrlFetcher().fetch(Fetch("http://example.org/a.png", 5.0, 1000))
    Traceback (most recent call last):
        ...
    dragoman.errors.Unsupported: cannot fetch http://example.org/a.png: only https is fetched
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
        """The bytes of a picture; Unsupported where it is not safe, not there, or no picture."""
        ends = time.monotonic() + effect.timeout
        url = effect.url
        try:
            for _ in range(MAX_REDIRECTS + 1):
                reply = self._ask(url, ends, effect.limit)
                place = reply.head.header("location")
                if reply.head.status not in _REDIRECTS or place is None:
                    return _picture(reply)
                url = urljoin(url, place)
            raise Unsupported(f"more than {MAX_REDIRECTS} redirects")
        except (DragomanError, OSError, ValueError) as error:
            why = error.message if isinstance(error, DragomanError) else str(error)
            raise Unsupported(f"cannot fetch {redact_url(effect.url)}: {why}") from error

    def _ask(self, url: str, ends: float, limit: int) -> HttpResponse:
        host, port, path = _parts(url)
        address = self._address(host, port, ends)
        name = f"[{host}]" if ":" in host else host
        request = HttpRequest(method="GET", origin=f"https://{name}:{port}", path=path, headers=_HEADERS)
        transport = PyreqwestTransport(ca=self._ca, pin=(host, address))
        try:
            return transport.send(Send(request, _left(ends), _left(ends), limit))
        finally:
            transport.close()

    def _address(self, host: str, port: int, ends: float) -> str:
        """The one address to connect to; refused where any of them is not for everybody."""
        found = list(_within(_left(ends), lambda: self._resolve(host, port)))
        if not found:
            raise Unsupported(f"{host} has no address")
        for address in found:
            if not self._allow(address):
                raise Unsupported(f"{host} is not at a public address")
        return found[0]


_REDIRECTS = (301, 302, 303, 307, 308)


def _parts(url: str) -> tuple[str, int, str]:
    """Host, port and path of a URL, each in a form that can be read in one way only."""
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise Unsupported("only https is fetched")
    if "@" in parts.netloc:
        raise Unsupported("its URL has a password")
    path = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    return _host(parts.hostname or ""), parts.port or 443, path


_SAFE = "/%:@!$&'()*+,;=~-._?"


def _host(told: str) -> str:
    """A name, or an address in its usual form: others, as 0x7f.1, are read differently by different readers."""
    if ":" in told:
        return str(ip_address(told))
    host = told.encode("idna").decode("ascii").lower().removesuffix(".")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return str(ip_address(host))
    if not _HOST.fullmatch(host):
        raise Unsupported("its URL has no host")
    return host


def _picture(reply: HttpResponse) -> bytes:
    if reply.head.status != 200:
        raise Unsupported(f"the answer is {reply.head.status}")
    if sniff(reply.body) is None:
        raise Unsupported("it is no picture of a type that is known")
    return reply.body


def _left(ends: float) -> float:
    left = ends - time.monotonic()
    if left <= 0:
        raise TimedOut("it took too long")
    return left


def _within(seconds: float, work: Callable[[], T]) -> T:
    """The result of some work that cannot be stopped; TimedOut where it takes longer."""
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
        raise TimedOut("its host could not be found in time") from None
    if isinstance(result, OSError | UnicodeError):
        raise result
    return result
