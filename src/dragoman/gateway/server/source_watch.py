"""Watches source files, for `dragoman serve --reload`."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

INTERVAL = 0.5
"""Seconds between two checks."""
MAX_FILES = 10_000
_SKIPPED = frozenset(("__pycache__", "node_modules", "site-packages"))


def watch(folder: Path, config: Path | None, changed: Callable[[], object], /) -> None:
    """Call `changed` in a thread each time the config or a Python file below the folder has changed."""
    threading.Thread(target=_watch, args=(folder, config, changed), name="dragoman-reload", daemon=True).start()


def _watch(folder: Path, config: Path | None, changed: Callable[[], object]) -> None:
    pause, before = threading.Event(), stamps(folder, config)
    while not pause.wait(INTERVAL):
        now = stamps(folder, config)
        if now != before:
            before = now
            changed()


def stamps(folder: Path, config: Path | None, /) -> dict[str, int]:
    """When the config and each Python file below the folder were changed, without hidden and installed ones."""
    times: dict[str, int] = {}
    for path in (*([] if config is None else [str(config)]), *_python_files(folder)):
        try:
            times[path] = os.stat(path).st_mtime_ns  # noqa: PTH116 - thousands of them
        except FileNotFoundError:
            continue
        if len(times) >= MAX_FILES:
            break
    return times


def _python_files(folder: Path) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED and not name.startswith(".")]
        yield from (os.path.join(place, name) for name in files if name.endswith(".py"))  # noqa: PTH118 - thousands of them
