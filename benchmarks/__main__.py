"""Run all benchmarks and print the table of each as soon as it is measured."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from benchmarks.bodies import bodies
from benchmarks.growth import growth
from benchmarks.imports import imports
from benchmarks.long_bodies import long_bodies
from benchmarks.loopback import loopback
from benchmarks.media import media
from benchmarks.streams import calls, streams
from benchmarks.table import ABSENT, show

_PACKAGES = ("dragoman", "msgspec", "httptools", "httpx", "openai", "anthropic", "ollama")


def main() -> None:
    """Print the machine, then the tables."""
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    print(", ".join(f"{name} {_version(name)}" for name in _PACKAGES))
    print("CPU time of the process, all threads; no figure is compared with a fixed limit.", flush=True)
    for measure in (imports, streams, calls, bodies, media, loopback, long_bodies, growth):
        print(show([measure()]), flush=True)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ABSENT


if __name__ == "__main__":
    main()
