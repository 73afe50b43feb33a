"""A real HTTP server on 127.0.0.1 that answers from a script. It has the faults that only sockets can have.

It accepts each connection in a thread of its own and speaks just enough HTTP/1.1 for the wires.
"""

import socket
import ssl
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, Unpack

from dragoman.engine.call_options import CallOptions
from dragoman.errors import DragomanError
from dragoman.http import HttpRequest, HttpResponse
from dragoman.models import Model
from dragoman.registry import Registry
from dragoman.targets.provider import Provider
from dragoman.testing.script import (
    EncodedAnswer,
    RawResponse,
    ScriptLine,
    base_path,
    check_lines,
    render,
    script_ended_error,
    whole_answer,
    wire_of,
)
from dragoman.types import Request
from dragoman.types.checks import check_flag, wrong_value
from dragoman.types.parameters import named_methods

_DISCONNECTED = (OSError, ssl.SSLError, ValueError)


@named_methods("__init__", "registry", "base_url")
class FaultyServer:
    """A server that speaks every wire and answers each request with the next line of a script.

    Leaving the `with` block closes all connections and ends all threads.

    >>> from dragoman import Overloaded
    >>> with FaultyServer(Overloaded("busy"), "Hello!") as server:
    ...     server.model(backoff=0).generate("hi").text
    'Hello!'
    """

    def __init__(self, *lines: ScriptLine, repeat: bool = False, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        """The requests so far, decoded."""
        self.http: list[HttpRequest] = []
        """The requests so far as HTTP, with keys redacted."""
        self.connections = 0
        """How many connections clients opened."""
        self.request_received = threading.Semaphore(0)
        """Released once for each request."""
        self.client_disconnected = threading.Semaphore(0)
        """Released once for each client that disconnects before its answer is complete, or before its first request."""
        self._lines = check_lines(lines)
        check_flag("repeat", repeat)
        self._repeat = repeat
        self._used_lines = 0
        if tls is not None and not isinstance(tls, ssl.SSLContext):
            raise wrong_value("tls", "an SSLContext or None", tls)
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
        """Return the base URL for a wire."""
        return self.origin + base_path(wire)

    def registry(self, wire: str = "openai_chat", /, *, http_client: object = None) -> Registry:
        """Return a registry whose provider `server` is this server."""
        registry = Registry(env={}, http_client=http_client)
        record = Provider(
            name="server", wire=wire, base_url=self.base_url(wire), needs_key=False, api_key="sk-test-key"
        )
        registry.add_provider(record)
        return registry

    def model(self, wire: str = "openai_chat", /, **options: Unpack[CallOptions]) -> Model:
        """Return a model of this server."""
        return self.registry(wire).model("server/model", **options)

    def add(self, *lines: ScriptLine) -> None:
        """Append lines to the script."""
        self._lines += check_lines(lines)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Close all connections, and wait until all threads have ended."""
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
        stream = connection
        try:
            if self._tls is not None:
                stream = self._tls.wrap_socket(connection, server_side=True)
                with self._lock:
                    self._open.add(stream)
            reader = _RequestReader(stream)
            has_request = False
            while (http := reader.request()) is not None:
                has_request = True
                if not self._answer(stream, http):
                    break
            if not has_request and not self._stopped.is_set():
                self.client_disconnected.release()
        except _DISCONNECTED:
            self.client_disconnected.release()
        finally:
            with self._lock:
                self._open -= {connection, stream}
            stream.close()
            connection.close()

    def _answer(self, connection: socket.socket, http: HttpRequest) -> bool:
        """Answer one request; return whether the connection can take another one."""
        answer = self._next(http)
        self.request_received.release()
        if answer.status is not None:
            connection.sendall(_head(answer))
        for chunk in answer.chunks:
            connection.sendall(_http_chunk(chunk) if answer.streamed else chunk)
            if answer.streamed and answer.delay:
                self._stopped.wait(answer.delay)
        match answer.ending:
            case "end":
                if answer.streamed:
                    connection.sendall(b"0\r\n\r\n")
                return True
            case "stall" | "open":
                if not connection.recv(1) and not self._stopped.is_set():
                    self.client_disconnected.release()
            case "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            case "close":
                return False
        return False

    def _next(self, http: HttpRequest) -> EncodedAnswer:
        wire = wire_of(http)
        with self._lock:
            number = self._used_lines
            self.http.append(http.redacted())
            if self._repeat and self._lines:
                number %= len(self._lines)
            line: ScriptLine = (
                self._lines[number] if number < len(self._lines) else script_ended_error(len(self._lines))
            )
            if wire is not None or isinstance(line, RawResponse):
                self._used_lines += 1
        if wire is None:  # a list of models, for example: only a RawResponse can answer it
            missing = HttpResponse(status=404, body=b'{"error":"no such path"}')
            return whole_answer(line if isinstance(line, RawResponse) else missing)
        try:
            _, request = wire.server.decode_request(http)
        except DragomanError as error:
            return render(error, wire, Request())
        with self._lock:
            self.requests.append(request)
        return render(line, wire, request)


class _RequestReader:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""

    def request(self) -> HttpRequest | None:
        """Return the next request; None if the client closed the connection."""
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


def _head(answer: EncodedAnswer) -> bytes:
    headers = dict(answer.headers)
    if answer.streamed:
        headers["transfer-encoding"] = "chunked"
    elif answer.length is not None:
        headers["content-length"] = str(answer.length)
    lines = [f"HTTP/1.1 {answer.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _http_chunk(chunk: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(chunk), chunk)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        connection.close()


def refused_url() -> str:
    """Return a URL of 127.0.0.1 that refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"
