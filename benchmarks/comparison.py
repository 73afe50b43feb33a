"""Reruns the figures of docs/comparison.md: packages, size on disk and time to import, each in a fresh environment.

    python -m benchmarks.comparison [NAME...]      about three minutes; needs a package index and npm

It prints a line for each peer, for docs/comparison.md, and then the two rows of the table in the README.
Each Python package is installed into a venv of its own, without pip in the count. The time is CPU time of a fresh
interpreter with compiled byte code, the median of five, minus that of a bare interpreter.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RUNS = 5
_CPU = "import time\n{}\nprint(time.process_time())"
_COUNT = (
    "import importlib.metadata as m, json; "
    "print(json.dumps({d.metadata['Name'].lower(): d.version for d in m.distributions()}))"
)


class Peer(NamedTuple):
    """What is installed, and the statement whose time is measured."""

    requirement: str
    statement: str


PYTHON = {
    "dragoman": Peer(str(ROOT), "import dragoman"),
    "litellm": Peer("litellm", "import litellm"),
    "pydantic-ai-slim": Peer("pydantic-ai-slim[openai,anthropic,google]", "import pydantic_ai"),
}
NPM = {"ai": ("ai", "@ai-sdk/openai", "@ai-sdk/anthropic", "@ai-sdk/google")}


class Figures(NamedTuple):
    """What was measured for one peer."""

    version: str
    packages: int
    megabytes: float
    import_ms: float | None
    """None if there is no import to measure."""

    def __str__(self) -> str:
        time = "" if self.import_ms is None else f"   import {self.import_ms:>6.0f} ms CPU"
        return f"{self.version:<10} {self.packages:>3} packages {self.megabytes:>6.1f} MB{time}"


COLUMNS = ("dragoman", "litellm", "pydantic-ai-slim", "ai", "bifrost")
"""The peers in the order of the README."""


def main() -> None:
    """Print a line for each peer, and the rows of the README."""
    names = sys.argv[1:] or [*PYTHON, *NPM]
    if unknown := set(names) - {*PYTHON, *NPM}:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; name one or more of {', '.join([*PYTHON, *NPM])}")
    print(f"Python {sys.version.split()[0]}, {sys.platform}")
    measured: dict[str, Figures] = {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                figures = _npm(Path(folder), NPM[name]) if name in NPM else _python(Path(folder), name, PYTHON[name])
            except (subprocess.CalledProcessError, OSError) as error:
                print(f"{name:<18} could not be installed: {error}", flush=True)
                continue
        measured[name] = figures
        print(f"{name:<18} {figures}", flush=True)
    print("\nFor the table of README.md:", *readme_rows(measured), sep="\n")


def readme_rows(measured: Mapping[str, Figures]) -> tuple[str, str]:
    """The rows of the table in the README, in Markdown."""
    figures = [measured.get(name) for name in COLUMNS]
    packages = [str(each.packages) if each else MISSING for each in figures]
    times = [f"{each.import_ms:.0f} ms" if each and each.import_ms is not None else MISSING for each in figures]
    return (
        f"| packages that are installed | {' | '.join(packages)} |",
        f"| CPU time of the import | {' | '.join(times)} |",
    )


MISSING = "not measured"


def _python(folder: Path, name: str, peer: Peer) -> Figures:
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    site = next(folder.glob("lib/python*/site-packages"))
    before, size = _packages(python), _size(site)
    _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", peer.requirement)
    packages = {package: version for package, version in _packages(python).items() if package not in before}
    megabytes = (_size(site) - size) / 1e6
    _run(python, "-c", peer.statement)  # compiles
    bare, cost = (_cpu(python, statement) for statement in ("pass", peer.statement))
    return Figures(packages[name], len(packages), megabytes, 1000 * (cost - bare))


def _npm(folder: Path, packages: tuple[str, ...]) -> Figures:
    _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, *packages)
    lock = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    version = lock[f"node_modules/{packages[0]}"]["version"]
    return Figures(version, len(lock) - 1, _size(folder / "node_modules") / 1e6, None)


def _packages(python: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads(_run(python, "-c", _COUNT))
    return found


def _cpu(python: Path, statement: str) -> float:
    return statistics.median(float(_run(python, "-c", _CPU.format(statement)).split()[-1]) for _ in range(RUNS))


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc")


def _run(*command: str | Path) -> str:
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, capture_output=True, text=True, cwd=tempfile.gettempdir()).stdout


if __name__ == "__main__":
    main()
