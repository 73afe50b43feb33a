"""A Redis of one's own: on a socket in a folder of its own, ended by its id."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


class RedisServer:
    """A server that can be killed and started again; it remembers what it held where `keeps` is said."""

    def __init__(self, *, keeps: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dr"))
        self.url = f"unix://{self.folder / 'redis.sock'}"
        self._keeps = keeps
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip("no redis-server on this machine: apt-get install redis-server")
        options = ["--port", "0", "--unixsocket", str(self.folder / "redis.sock"), "--dir", str(self.folder)]
        options += ["--save", "", "--appendonly", "yes" if self._keeps else "no", "--appendfsync", "always"]
        self._process = subprocess.Popen([program, *options], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert any("ready to accept connections" in line.lower() for line in self._process.stdout)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
