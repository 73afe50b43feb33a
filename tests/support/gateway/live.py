"""Runs a gateway with a config in a process of its own on 127.0.0.1, and stops it at the end of the block."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.fork_server import Forked, can_fork

PATIENCE = 60.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def record(name: str, base_url: str, wire: str = "openai_chat") -> str:
    """The table of a provider at some place."""
    return f'[providers.{name}]\nwire = "{wire}"\nbase_url = "{base_url}"\nneeds_key = false\napi_key = "sk-test-key"\n'


def chat(model: str, /, *, stream: bool = False, text: str = "hi") -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], "stream": stream}


class Gateway:
    """A gateway in a process of its own, a fork of one that has imported it."""

    program: tuple[str, ...] | None = None
    """The interpreter that runs it, if it is not forked."""

    def __init__(
        self,
        folder: Path,
        config: str = "",
        /,
        *,
        workers: int = 1,
        env: dict[str, str] | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        self.port = free_port()
        self.path = folder / "dragoman.toml"
        self.log = folder / "log"
        self.path.write_text(config, encoding="utf-8")
        self._workers = workers
        self._env = env or {}
        self._options = options
        self._folder = folder

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        words = [str(self.path), "--port", str(self.port), "--workers", str(self._workers), *self._options]
        env = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "HOME")}
        with self.log.open("wb") as log:
            self.process = self._start(words, {**env, **self._env}, log.fileno())
        self.wait_until(lambda: self.get("/health/live")[0] == 200)
        return self

    def _start(self, words: list[str], env: dict[str, str], log: int) -> "subprocess.Popen[bytes] | Forked":
        if self.program is None and can_fork(env):
            with Path(os.devnull).open("rb") as nothing:
                files = (nothing.fileno(), log, log)
                return Forked("dragoman.gateway", words, env=env, cwd=self._folder, files=files)
        command = [*(self.program or (sys.executable,)), "-m", "dragoman.gateway", *words]
        return subprocess.Popen(command, cwd=self._folder, env=env, stdout=log, stderr=log)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(PATIENCE)  # closes what connects us with it, which a later test would be blamed for
            raise

    def kill(self) -> None:
        """End it and its workers at once, as a machine that fails does."""
        for each in self.processes():
            os.kill(each, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def processes(self) -> list[int]:
        """The ids of the gateway and its workers."""
        id = self.process.pid
        workers = Path(f"/proc/{id}/task/{id}/children").read_text(encoding="ascii").split()
        return [id, *map(int, workers)]

    def wait_until(self, is_so: Any) -> None:
        """Ask again and again, for some seconds."""
        pause = threading.Event()
        for _ in range(int(PATIENCE / 0.02)):
            try:
                if is_so():
                    return
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
            pause.wait(0.02)
        raise AssertionError(self.log.read_text())

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        connection = self.connect()
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = self.connect()
        try:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request("POST", path, data, {"content-type": "application/json", **headers})
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def send(self, body: Any, path: str = "/v1/chat/completions") -> socket.socket:
        """A request, sent by hand: nothing of its answer is read."""
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        connection.sendall(head.encode() + data)
        return connection


class ColdGateway(Gateway):
    """A gateway that imports what it needs by itself, as a user's does."""

    program = (sys.executable,)


def lines(data: bytes) -> Iterator[Any]:
    """The JSON of a stream of server-sent events."""
    for line in data.decode().split("\n"):
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line[6:])
