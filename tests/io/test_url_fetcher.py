"""Pictures by their URL: https only, public addresses only, at every step; real connections on loopback."""

import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trustme

from dragoman.engine.effects import Fetch
from dragoman.errors import Unsupported
from dragoman.io.url_fetcher import MAX_REDIRECTS, UrlFetcher, addresses_of, is_public
from tests.support.images import picture

PNG = picture()
HOST = "pictures.example"


class Site:
    """An https server for one host's name: paths and what they are answered with, byte by byte."""

    def __init__(self, authority: trustme.CA) -> None:
        self.pages: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.holds = threading.Event()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        leaf: Any = authority.issue_cert(HOST, "other.example")
        leaf.configure_cert(self._context)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def url(self, path: str, host: str = HOST) -> str:
        return f"https://{host}:{self.port}{path}"

    def add(self, path: str, body: bytes = PNG, status: str = "200 OK", **headers: str) -> str:
        fields = {"content-length": str(len(body)), **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.pages[path] = f"HTTP/1.1 {status}\r\n{lines}connection: close\r\n\r\n".encode() + body
        return self.url(path)

    def redirect(self, path: str, to: str, status: int = 302) -> str:
        return self.add(path, b"", f"{status} Found", location=to)

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            try:
                with plain, self._context.wrap_socket(plain, server_side=True) as stream:
                    path = stream.recv(4096).split(b" ")[1].decode()
                    self.requests.append(path)
                    stream.sendall(self.pages.get(path, b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n"))
                    if path == "/slow":
                        self.holds.wait(10)
            except OSError:
                continue

    def stop(self) -> None:
        self.holds.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def site(authority: trustme.CA) -> Iterator[Site]:
    made = Site(authority)
    yield made
    made.stop()


class Names:
    """What names stand for; each answer is used once, the last for ever."""

    def __init__(self, **more: list[str]) -> None:
        self.known = {HOST: ["127.0.0.1"], "other.example": ["127.0.0.1"], **more}
        self.requests: list[str] = []

    def __call__(self, host: str, port: int) -> list[str]:
        self.requests.append(host)
        if host not in self.known:
            return addresses_of(host, port)
        known = self.known[host]
        return [known.pop(0) if len(known) > 1 else known[0]] if known else []


def fetcher(authority: trustme.CA, names: Names | None = None) -> UrlFetcher:
    """One that takes 127.0.0.1 for a public address, and no other that is not."""
    return UrlFetcher(
        ca=authority.cert_pem.bytes(),
        resolve=names or Names(),
        allow=lambda address: address == "127.0.0.1" or is_public(address),
    )


def refused(url_fetcher: UrlFetcher, url: str, why: str, *, timeout: float = 5.0, limit: int = 100_000) -> str:
    with pytest.raises(Unsupported, match=why) as caught:
        url_fetcher.fetch(Fetch(url, timeout, limit))
    assert caught.value.message.startswith("cannot fetch ")
    return caught.value.message


def test_an_image_is_fetched(site: Site, authority: trustme.CA) -> None:
    url = site.add("/a%20b.png?x=%C3%A4")
    assert fetcher(authority).fetch(Fetch(url, 5.0, len(PNG))) == PNG
    assert fetcher(authority).fetch(Fetch(site.url("/a b.png?x=ä#part"), 5.0, len(PNG))) == PNG


def test_redirects_are_followed(site: Site, authority: trustme.CA) -> None:
    site.redirect("/1", "/2", 301)
    site.redirect("/2", site.url("/3", "other.example"), 308)
    site.add("/3")
    names = Names()
    assert fetcher(authority, names).fetch(Fetch(site.url("/1"), 5.0, 10_000)) == PNG
    assert names.requests == [HOST, HOST, "other.example"]


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1"),  # noqa: S104
        *("169.254.169.254", "169.254.170.2", "100.64.0.1", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
        *("224.0.0.1", "240.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1"),
        *("::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::"),
        *("fe80::1%eth0", "no address", ""),
    ],
)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not is_public(address)
    url_fetcher = UrlFetcher(resolve=lambda _host, _port: [address])
    refused(url_fetcher, "https://pictures.example/a.png", "pictures.example does not have a public address")


@pytest.mark.parametrize("address", ["93.184.216.34", "1.1.1.1", "2606:4700::1111"])
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://pictures.example/a.png", "only https"),
        ("ftp://pictures.example/a.png", "only https"),
        ("file:///etc/passwd", "only https"),
        ("//pictures.example/a.png", "only https"),
        ("", "only https"),
        ("https://user:secret@pictures.example/a.png", "must not have a user name or password"),
        ("https://pictures.example\\@127.0.0.1/", "must not have a user name or password"),
        ("https:///a.png", "no valid host"),
        ("https://a b/", "no valid host"),
        ("https://pictures.example:99999/", "[Pp]ort"),
        ("https://[fe80::1", "Invalid IPv6"),
        ("https://[::1]/", "does not have a public address"),
        ("https://127.0.0.1/", "does not have a public address"),
        ("https://127.0.0.1./", "does not have a public address"),
        ("https://１２７.0.0.1/", "does not have a public address"),  # noqa: RUF001
        ("https://169.254.169.254/latest/meta-data/", "does not have a public address"),
        ("https://localhost/", "does not have a public address"),
        ("https://2130706433/", "does not appear to be"),
        ("https://0x7f.1/", "does not appear to be"),
        ("https://127.1/", "does not appear to be"),
        ("https://017700000001/", "does not appear to be"),
    ],
)
def test_an_unsafe_url_is_refused(url: str, why: str) -> None:
    assert "secret" not in refused(UrlFetcher(), url, why)


def test_one_private_address_among_others_is_enough() -> None:
    refused(
        UrlFetcher(resolve=lambda _host, _port: ["1.1.1.1", "10.0.0.1"]), "https://x.example/", "does not have a public"
    )
    refused(UrlFetcher(resolve=lambda _host, _port: []), "https://x.example/", "has no address")


def test_a_name_that_changes_its_address_does_not_help(site: Site, authority: trustme.CA) -> None:
    names = Names(**{HOST: ["127.0.0.1", "127.0.0.2"]})
    assert fetcher(authority, names).fetch(Fetch(site.add("/a"), 5.0, 10_000)) == PNG
    assert names.requests == [HOST]
    refused(fetcher(authority, names), site.url("/a"), "does not have a public address")
    assert site.requests == ["/a"]


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("http://pictures.example/a.png", "only https"),
        ("https://10.0.0.1/a.png", "does not have a public address"),
        ("https://169.254.169.254/latest/meta-data/", "does not have a public address"),
        ("https://[::1]/a.png", "does not have a public address"),
        ("//127.0.0.2/a.png", "does not have a public address"),
        ("file:///etc/passwd", "only https"),
    ],
)
def test_a_redirect_to_any_of_these_is_refused(site: Site, authority: trustme.CA, to: str, why: str) -> None:
    refused(fetcher(authority), site.redirect("/a", to), why)
    assert site.requests == ["/a"]


def test_redirects_without_end_are_refused(site: Site, authority: trustme.CA) -> None:
    refused(fetcher(authority), site.redirect("/a", "/a"), f"more than {MAX_REDIRECTS} redirects")
    assert len(site.requests) == MAX_REDIRECTS + 1


@pytest.mark.parametrize("is_honest", [True, False], ids=["honest length", "wrong length"])
def test_a_body_that_is_too_large_is_not_read(site: Site, authority: trustme.CA, *, is_honest: bool) -> None:
    headers: dict[str, Any] = {} if is_honest else {"content-length": str(10**9)}
    url = site.add("/a", PNG + bytes(100_000), **headers)
    refused(fetcher(authority), url, "larger than 1000 bytes", limit=1000)


def test_a_body_that_unpacks_to_too_much_is_not_read(site: Site, authority: trustme.CA) -> None:
    import gzip

    url = site.add("/a", gzip.compress(PNG + bytes(10_000_000)), **{"content-encoding": "gzip"})
    refused(fetcher(authority), url, "larger than 100000 bytes")


def test_a_body_that_never_ends_times_out(site: Site, authority: trustme.CA) -> None:
    url = site.add("/slow", PNG[:20], **{"content-length": "1000"})
    refused(fetcher(authority), url, "took too long|in time|broke", timeout=0.3)
    site.holds.set()


def test_a_name_that_is_never_resolved_times_out() -> None:
    release = threading.Event()

    def resolve(_host: str, _port: int) -> list[str]:
        release.wait(10)
        return []

    refused(UrlFetcher(resolve=resolve), "https://x.example/", "was not resolved in time", timeout=0.05)
    release.set()


def test_without_time_nothing_is_sent() -> None:
    refused(UrlFetcher(), "https://x.example/", "timed out", timeout=0.0)


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (PNG, "404 Not Found", "HTTP 404"),
        (PNG, "206 Partial", "HTTP 206"),
        (b"", "302 Found", "HTTP 302"),
        (b"<html></html>", "200 OK", "not an image of a known type"),
        (b"", "200 OK", "not an image of a known type"),
    ],
)
def test_what_is_not_an_image_is_refused(site: Site, authority: trustme.CA, body: bytes, status: str, why: str) -> None:
    refused(fetcher(authority), site.add("/a", body, status, **{"content-type": "image/png"}), why)


def test_an_unknown_certificate_is_refused(site: Site) -> None:
    url_fetcher = UrlFetcher(resolve=Names(), allow=lambda _address: True)
    refused(url_fetcher, site.add("/a"), "cannot connect|certificate")


def test_an_error_does_not_show_the_query(site: Site, authority: trustme.CA) -> None:
    assert "token" not in refused(fetcher(authority), site.url("/none?token=abc"), "HTTP 404")


def test_proxies_are_not_used(site: Site, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert fetcher(authority).fetch(Fetch(site.add("/a"), 5.0, 10_000)) == PNG
