"""Where a connection goes and what protects it: addresses, proxies and TLS.

Names are resolved in a thread of their own, because `getaddrinfo` can neither be given a time limit nor be stopped;
a call that is cancelled leaves that thread to end by itself. TLS is Python's own `ssl`, with the trust store of the
system; OpenSSL reads SSL_CERT_FILE and SSL_CERT_DIR.
"""

import os
import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from dragoman.errors import SetupError

if TYPE_CHECKING:
    from ssl import SSLContext

Address: TypeAlias = tuple[Any, ...]
"""What `socket.getaddrinfo` gives: family, kind, protocol, name, address."""
Addresses: TypeAlias = list[Address] | OSError
"""The addresses of a host, or why there are none."""
STAGGER = 0.25
"""Seconds until the next address of a host is tried if one does not answer (RFC 8305)."""


class Proxy(NamedTuple):
    """An HTTP proxy, and the header line that it wants."""

    host: str
    port: int
    header: str


class Destination(NamedTuple):
    """Where a request goes. Requests to one destination can share connections."""

    host: str
    port: int
    tls: bool
    proxy: Proxy | None
    authority: str
    """The value of the Host header."""
    authorization: str = ""
    """A header line for the user and the password of the URL."""

    @property
    def is_tunnel(self) -> bool:
        """Whether the proxy only passes bytes on, as it must for TLS."""
        return self.proxy is not None and self.tls

    @property
    def next_hop(self) -> tuple[str, int]:
        """The host and port to connect to."""
        return (self.host, self.port) if self.proxy is None else (self.proxy.host, self.proxy.port)

    def connect_request(self) -> bytes:
        """The request that asks the proxy for a tunnel."""
        header = "" if self.proxy is None else self.proxy.header
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"CONNECT {name}:{self.port} HTTP/1.1\r\nhost: {name}:{self.port}\r\n{header}\r\n".encode("latin-1")


def destination_of(origin: str, env: Mapping[str, str], /) -> Destination | None:
    """The destination of an origin such as `https://host:8443`; None if it is not one."""
    try:
        parts = urlsplit(origin)
        host, port = parts.hostname, parts.port
        name = host if host is None or ":" in host else host.encode("idna").decode("ascii")
    except (ValueError, UnicodeError):
        return None
    if not name or parts.scheme not in ("http", "https"):
        return None
    tls = parts.scheme == "https"
    bracketed = f"[{name}]" if ":" in name else name
    default = 443 if tls else 80
    authority = bracketed if port in (None, default) else f"{bracketed}:{port}"
    proxy = _proxy_for(parts.scheme, name, port or default, env)
    return Destination(name, port or default, tls, proxy, authority, _basic_auth("authorization", parts))


def _proxy_for(scheme: str, host: str, port: int, env: Mapping[str, str]) -> Proxy | None:
    if _is_loopback(host) or _bypasses(host, port, _variable(env, "NO_PROXY")):
        return None
    name = f"{scheme.upper()}_PROXY"
    url = _variable(env, name)
    if not url:
        name, url = "ALL_PROXY", _variable(env, "ALL_PROXY")
    return _proxy(name, url) if url else None


def _variable(env: Mapping[str, str], name: str) -> str:
    return (env.get(name.lower()) or env.get(name) or "").strip()


@lru_cache(maxsize=64)
def _proxy(name: str, url: str) -> Proxy:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if not host:
        raise SetupError(f"{name} must be the URL of a proxy, such as http://proxy:3128")
    if parts.scheme != "http":
        raise SetupError(
            f"{name}: proxies of kind {parts.scheme}:// are not supported; use an http:// proxy, or pass your own "
            "httpx client as http_client="
        )
    return Proxy(host, port or 80, _basic_auth("proxy-authorization", parts))


def _basic_auth(name: str, parts: SplitResult) -> str:
    """The header line for the user and the password of a URL, if it has them."""
    if parts.username is None:
        return ""
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"{name}: Basic {b64encode(user.encode()).decode()}\r\n"


@lru_cache(maxsize=256)
def _bypasses(host: str, port: int, no_proxy: str) -> bool:
    """Whether NO_PROXY names a host: by its name or a domain above it, its address, a network, or `*` for all."""
    return any(_matches(entry.strip().lower(), host.lower(), port) for entry in no_proxy.split(",") if entry.strip())


def _matches(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return ip_address(host) in ip_network(entry, strict=False)
        except ValueError:
            return False
    name, _, number = entry.partition(":") if entry.count(":") == 1 else (entry, "", "")
    if number and number != str(port):
        return False
    name = name.removeprefix("*").strip("[]").lstrip(".")
    return host == name or host.endswith(f".{name}")


@lru_cache(maxsize=256)
def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_address(host: str, /) -> bool:
    """Whether a host is an IP address, so that there is nothing to resolve."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def resolve(host: str, port: int, done: Callable[[Addresses], object], /) -> None:
    """Look up the addresses of a host in a thread, and hand them, or the error, to `done` there."""

    def run() -> None:
        try:
            result: Addresses = list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            result = error
        except UnicodeError:
            result = OSError(f"{host} is not a host name")
        done(result)

    threading.Thread(target=run, name="dragoman-resolve", daemon=True).start()


def tls_context(ca: "bytes | str | Path | SSLContext | None" = None, /) -> "SSLContext":
    """A context that trusts the authorities of the system, and those of `ca`, a PEM file or its bytes."""
    if ca is None or isinstance(ca, bytes):
        return _tls_context(ca)
    if not isinstance(ca, str | Path):
        return ca
    try:
        return _tls_context(Path(ca).read_bytes())
    except OSError as error:
        raise SetupError(f"{CERTIFICATES} cannot be read: {error}") from error


CERTIFICATES = "the certificates of ca= or SSL_CERT_FILE"
_MANY = 50
"""A folder with so many certificates is the system's trust store, and not an addition to it."""
_STORES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where systems keep their authorities. A Python that was built elsewhere may look in none of these places."""


@lru_cache(maxsize=8)
def _tls_context(pem: bytes | None) -> "SSLContext":
    import ssl

    context = _system_context()
    context.set_alpn_protocols(["http/1.1"])
    if pem is None:
        return context
    if b"-----BEGIN CERTIFICATE-----" not in pem:
        raise SetupError(f"{CERTIFICATES} cannot be used: the file has no PEM certificate")
    try:
        context.load_verify_locations(cadata=pem.decode("ascii", "ignore"))
    except ssl.SSLError as error:
        raise SetupError(f"{CERTIFICATES} cannot be used: {error.reason or error}") from error
    return context


def _system_context() -> "SSLContext":
    import ssl

    folder = ssl.get_default_verify_paths().capath
    is_usual = not {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys()
    if folder and is_usual and sum(1 for _ in Path(folder).glob("*.0")) >= _MANY:
        # OpenSSL reads a folder when it needs a certificate. To read the system's bundle at once takes 20 to 50 ms.
        return ssl.create_default_context(capath=folder)
    context = ssl.create_default_context()
    if not folder and not context.cert_store_stats()["x509_ca"]:
        for path in _STORES:
            if Path(path).is_file():
                context.load_verify_locations(path)
                break
    return context


def ordered(addresses: Iterable[Address], /) -> list[Address]:
    """The addresses to try, the two families in turn, so that a broken one costs one attempt only."""
    families: dict[Any, list[Address]] = {}
    for address in addresses:
        families.setdefault(address[0], []).append(address)
    queues = list(families.values())
    return [queue[index] for index in range(max(map(len, queues), default=0)) for queue in queues if index < len(queue)]
