"""HTTP/1.1 without I/O: a request as bytes, and a parser for its response.

Both connections, on sockets and on asyncio, share this module. The parser is httptools, the llhttp of Node.js: it finds
the borders of headers and chunks in C and calls back for each piece. What is decided here is when a response is
complete, how large its head may be, whether the connection can be used again, and how a compressed body is read.
"""

import re
import zlib
from collections.abc import Mapping
from typing import NamedTuple, Protocol, cast
from urllib.parse import quote

import httptools

from dragoman.errors import DragomanError, Malformed, TooLarge
from dragoman.http import HttpRequest
from dragoman.io.connect import Destination

MAX_HEAD = 256 * 1024
MAX_INFLATED = 16 * 1024 * 1024
"""Bytes that one read of a compressed body may expand to."""
PIECE = 8 * 1024
"""Bytes of a stream that an async call takes at a time: to translate more of them would let other tasks wait.

A smaller piece lets others have their turn sooner, and costs more for each byte: a stream of tiny chunks took a fifth
more processor time with 4 KiB than with 16, and a tenth more with 8.
"""
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PATH = re.compile(r"/[!-~]*")
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_BAD_VALUE = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
_OWN = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})
"""Headers that the client writes itself."""
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose requests say that their body is empty."""


class RequestHead(NamedTuple):
    """The bytes of a request up to its content-length, and what they depend on.

    The requests of one target differ in their bodies alone. To write and check the same headers for each of them would
    be a tenth of the cost of a call, so a client keeps its heads, and compares before it uses one again.
    """

    destination: Destination
    method: str
    headers: Mapping[str, str]
    data: bytes

    def fits(self, request: HttpRequest) -> bool:
        """Whether a request to the same URL has this head."""
        headers = request.headers
        return (headers is self.headers or headers == self.headers) and self.method == request.method

    def with_body(self, body: bytes) -> bytes:
        if body or self.method in _WITH_BODY:
            return b"%bcontent-length: %d\r\n\r\n%b" % (self.data, len(body), body)
        return self.data + b"\r\n"


def encode_head(request: HttpRequest, destination: Destination, /) -> RequestHead | None:
    """The head of a request; None if it has a header that cannot be sent."""
    path = request.path if _PATH.fullmatch(request.path) else quote(request.path, safe=_PRINTABLE)
    if destination.proxy is not None and not destination.tls:
        path = f"http://{destination.authority}{path}"
    lines = [f"{request.method} {path} HTTP/1.1\r\nhost: {destination.authority}\r\naccept-encoding: identity\r\n"]
    has_agent, authorization = False, destination.authorization
    for name, value in request.headers.items():
        lower = name.lower()
        if lower in _OWN:
            continue
        if _BAD_VALUE.search(value) or not _TOKEN.fullmatch(name):
            return None
        if lower == "user-agent":
            has_agent = True
        elif lower == "authorization":
            authorization = ""
        lines.append(f"{name}: {value}\r\n")
    if not has_agent:
        lines.append("user-agent: dragoman\r\n")
    if destination.proxy is not None and not destination.tls:
        lines.append(destination.proxy.header)
    lines.append(authorization)
    return RequestHead(destination, request.method, dict(request.headers), "".join(lines).encode("latin-1"))


_MAX_NAMES = 1024
_MAX_NAME = 64
"""Bytes. A server may send longer names, which are not kept."""


class _HeaderNames(dict[bytes, str]):
    """The names of headers as text, in lower case. Messages of one program have the same twenty or so."""

    def __missing__(self, name: bytes) -> str:
        text = name.decode("latin-1").lower()
        if len(name) <= _MAX_NAME:
            if len(self) >= _MAX_NAMES:
                self.clear()
            self[name] = text
        return text


HEADER_NAMES = _HeaderNames()


class _Inflater(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes: ...


class ResponseParser:
    """Reads the responses of one connection, one after the other.

    Feed it bytes, and b"" at the end of the connection. `take` gives what has come of the body since the last time.
    """

    __slots__ = (
        "_body_size",
        "_buffered",
        "_chunks",
        "_has_length",
        "_head_size",
        "_inflater",
        "_limit",
        "_parser",
        "complete",
        "has_head",
        "has_more",
        "headers",
        "keeps_alive",
        "status",
    )

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        # Servers in the wild do these; none of them makes it unclear where a response ends.
        self._parser.set_dangerous_leniencies(
            lenient_chunked_length=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self.start()

    def end(self) -> None:
        """Nothing more will be fed. What was read can still be taken.

        This parser and that of httptools refer to each other. Without this, what an abandoned stream had buffered
        would wait for the garbage collector, which rarely checks old objects.
        """
        self._parser = cast("httptools.HttpResponseParser", None)

    def start(self, limit: int | None = None) -> None:
        """Expect the response of the next request, with a body of at most `limit` bytes."""
        self.status = 0
        self.headers: dict[str, str] = {}
        self.has_head = False
        self.complete = False
        self.has_more = False
        """Whether the last piece that was taken was not all."""
        self.keeps_alive = False
        self._head_size = 0
        self._limit = limit
        self._body_size = 0
        self._buffered = 0
        self._chunks: list[bytes] = []
        self._has_length = False
        self._inflater: _Inflater | None = None

    @property
    def has_bytes(self) -> bool:
        """Whether anything of the response has come."""
        return self.has_head or self._head_size > 0

    @property
    def buffered(self) -> int:
        """How many bytes of the body wait to be taken."""
        return self._buffered

    @property
    def needs_more(self) -> bool:
        """Whether more bytes must come before there is something to take."""
        return not self._chunks and not self.complete

    def feed(self, data: bytes | memoryview, /) -> None:
        """More bytes of the connection; b"" is its end, which completes a body of unknown length."""
        if not data:
            if self.has_head and not self._has_length:
                self.complete = True
            return
        if self.complete:  # bytes without a request: the connection cannot be used for another one
            self.keeps_alive = False
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            if isinstance(cause, DragomanError) or not isinstance(cause, Exception | None):
                raise cause from error  # Ctrl-C may arrive in a callback of the parser
            raise Malformed(f"not HTTP: {error}") from error
        except httptools.HttpParserUpgrade as error:
            raise Malformed("the server switched to another protocol") from error
        except httptools.HttpParserError as error:
            self._check_complete(error)
            self.keeps_alive = False
        if not self.has_head:
            self._head_size += len(data)
            if self._head_size > MAX_HEAD:
                raise Malformed(f"the head of the response is larger than {MAX_HEAD} bytes")

    def _check_complete(self, error: Exception) -> None:
        """Bytes that are not HTTP do not matter after the response."""
        if not self.complete:
            raise Malformed(f"not HTTP: {error}") from error

    def take(self) -> bytes:
        """The bytes of the body that have come."""
        chunks = self._chunks
        if not chunks:
            return b""
        self._chunks = []
        self._buffered = 0
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def take_piece(self) -> bytes:
        """At most PIECE bytes of the body that have come; `has_more` says whether there are others."""
        self.has_more = self._buffered > PIECE
        if not self.has_more:
            return self.take()
        chunks = self._chunks
        if len(first := chunks[0]) > PIECE:
            chunks[:1] = [first[start : start + PIECE] for start in range(0, len(first), PIECE)]
        count = size = 0
        while size + len(chunks[count]) <= PIECE:
            size += len(chunks[count])
            count += 1
        data = b"".join(chunks[:count])
        del chunks[:count]
        self._buffered -= size
        return data

    # What httptools calls; bytes after a response are ignored, and the connection is not used again -------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; several of one name are joined, as RFC 9110 allows. Trailers are ignored."""
        if self.has_head:
            return
        key, text, headers = HEADER_NAMES[name], value.decode("latin-1"), self.headers
        headers[key] = text if key not in headers else f"{headers[key]}, {text}"

    def on_headers_complete(self) -> None:
        """The end of a head: of the response, or of one like `100 Continue` that comes before it."""
        if self.complete:
            return
        self.status = self._parser.get_status_code()
        headers = self.headers
        if 100 <= self.status < 200:
            self.headers = {}
            return
        self.has_head = True
        self._has_length = "content-length" in headers or "chunked" in headers.get("transfer-encoding", "").lower()
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("gzip", "x-gzip", "deflate"):
            self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)
        elif encoding not in ("", "identity"):
            raise Malformed(f"the server sent content-encoding {encoding!r} though only identity was accepted")

    def on_body(self, data: bytes) -> None:
        if self.complete:
            return
        if self._inflater is not None:
            data = self._inflate(data, self._inflater)
            if not data:
                return
        self._chunks.append(data)
        self._buffered += len(data)
        self._body_size += len(data)
        if self._limit is not None and self._body_size > self._limit:
            raise TooLarge(f"the body is larger than {self._limit} bytes")

    def on_message_complete(self) -> None:
        """The end of a response."""
        if self.complete:
            self.keeps_alive = False
            return
        if not self.has_head:
            return
        if self._inflater is not None and self._body_size and not self._inflater.eof:
            raise Malformed("the compressed body ends too early")
        self.complete = True
        self.keeps_alive = self._parser.should_keep_alive()

    def _inflate(self, data: bytes, inflater: "_Inflater") -> bytes:
        try:
            data = inflater.decompress(data, MAX_INFLATED)
        except zlib.error as error:
            raise Malformed(f"the compressed body is corrupt: {error}") from error
        if inflater.unconsumed_tail:
            raise Malformed(f"the compressed body expands to more than {MAX_INFLATED} bytes at once")
        return data
