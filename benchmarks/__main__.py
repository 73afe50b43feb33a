"""Measure, and print one table."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from benchmarks.bodies import bodies
from benchmarks.imports import imports
from benchmarks.media import media
from benchmarks.streams import calls, streams
from benchmarks.table import ABSENT, show


def main() -> None:
    """Facts of the machine, then the table."""
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    print(", ".join(f"{name} {_version(name)}" for name in ("dragoman", "msgspec", "openai", "anthropic", "ollama")))
    print("CPU time of this process, medians of several runs; nothing here is compared with a fixed number.")
    print(show([imports(), streams(), calls(), bodies(), media()]))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ABSENT


if __name__ == "__main__":
    main()
