"""A script in, a real server on 127.0.0.1 out, that follows it, and misbehaves where the script says so."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, Unpack

from dragoman.errors import DragomanError
from dragoman.http import HttpRequest
from dragoman.models import CallOptions, Model, Registry
from dragoman.targets.providers import Provider
from dragoman.testing.script import Line, Raw, Rendered, base_path, render, truncated_script, wire_of
from dragoman.types import Request

_LOST = (OSError, ssl.SSLError, ValueError)


class Server:
    """A server that speaks every wire by a script; it stops all that it started when it is left.

    >>> from dragoman import Overloaded
    >>> with Server(Overloaded("busy"), "Hello!") as server:
    ...     server.model(backoff=0).generate("hi").text
    'Hello!'
    """

    def __init__(self, *lines: Line, repeat: bool = False, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        """What was asked, decoded."""
        self.http: list[HttpRequest] = []
        """What was asked, as it came in, with its keys redacted."""
        self.connections = 0
        """How many connections were made."""
        self.asked = threading.Semaphore(0)
        """Released once for each request that has come in."""
        self.left = threading.Semaphore(0)
        """Released once for each client that went before its answer was complete."""
        self._lines = list(lines)
        self._repeat = repeat
        self._tls = tls
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._stopped = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def base_url(self, wire: str = "openai_chat", /) -> str:
        """Where a wire is spoken."""
        return self.origin + base_path(wire)

    def registry(self, wire: str = "openai_chat", /, *, http_client: object = None) -> Registry:
        """A registry whose provider `server` is this one."""
        registry = Registry(env={}, http_client=http_client)
        record = Provider(
            name="server", wire=wire, base_url=self.base_url(wire), needs_key=False, api_key="sk-test-key"
        )
        registry.add_provider(record)
        return registry

    def model(self, wire: str = "openai_chat", /, **asked: Unpack[CallOptions]) -> Model:
        """A model that is this server."""
        return self.registry(wire).model("server/model", **asked)

    def add(self, *lines: Line) -> None:
        """More lines."""
        self._lines += lines

    def __enter__(self) -> Self:
        """Start to listen."""
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and wait until all is quiet."""
        self.stop()

    def stop(self) -> None:
        """Close all connections, and wait until all is quiet."""
        self._stopped.set()
        _shut(self._listener)
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            _shut(connection)
        for thread in self._threads:
            thread.join()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                break
            with self._lock:
                self._open.add(connection)
                self.connections += 1
            self._start(self._serve, connection)
        self._listener.close()

    def _serve(self, connection: socket.socket) -> None:
        speaking = connection
        try:
            if self._tls is not None:
                speaking = self._tls.wrap_socket(connection, server_side=True)
                with self._lock:
                    self._open.add(speaking)
            reader = _Reader(speaking)
            while (http := reader.request()) is not None:
                if not self._answer(speaking, http):
                    break
        except _LOST:
            self.left.release()
        finally:
            with self._lock:
                self._open -= {connection, speaking}
            speaking.close()
            connection.close()

    def _answer(self, connection: socket.socket, http: HttpRequest) -> bool:
        """Answer one request; whether another may follow on this connection."""
        rendered = self._next(http)
        self.asked.release()
        if rendered.status is not None:
            connection.sendall(_head(rendered))
        for piece in rendered.pieces:
            connection.sendall(_chunk(piece) if rendered.streamed else piece)
        match rendered.ending:
            case "end":
                if rendered.streamed:
                    connection.sendall(b"0\r\n\r\n")
                return True
            case "stall" | "open":
                if not connection.recv(1) and not self._stopped.is_set():
                    self.left.release()
            case "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            case "cut":
                return False
        return False

    def _next(self, http: HttpRequest) -> Rendered:
        with self._lock:
            number = len(self.http)
            self.http.append(http.redacted())
            if self._repeat and self._lines:
                number %= len(self._lines)
            line: Line = self._lines[number] if number < len(self._lines) else truncated_script(len(self._lines))
        wire = wire_of(http)
        if wire is None:
            reply = line if isinstance(line, Raw) else Raw(status=404, body=b'{"error":"no such path"}')
            return Rendered(status=reply.status, headers=reply.headers, pieces=[reply.body], length=len(reply.body))
        try:
            _, request = wire.server.decode_request(http)
        except DragomanError as error:
            return render(error, wire, Request())
        with self._lock:
            self.requests.append(request)
        return render(line, wire, request)


class _Reader:
    """Reads requests off a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""

    def request(self) -> HttpRequest | None:
        """The next request; None where the client has gone."""
        while b"\r\n\r\n" not in self._buffer:
            if not self._more():
                return None
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        while len(self._buffer) < length:
            if not self._more():
                return None
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return HttpRequest(method=method, path=path, headers=headers, body=body)

    def _more(self) -> bool:
        data = self._connection.recv(65536)
        self._buffer += data
        return bool(data)


def _head(rendered: Rendered) -> bytes:
    headers = dict(rendered.headers)
    if rendered.streamed:
        headers["transfer-encoding"] = "chunked"
    elif rendered.length is not None:
        headers["content-length"] = str(rendered.length)
    lines = [f"HTTP/1.1 {rendered.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        connection.close()


def refused_url() -> str:
    """An address of 127.0.0.1 where nobody listens.

    >>> refused_url().startswith("http://127.0.0.1:")
    True
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"
