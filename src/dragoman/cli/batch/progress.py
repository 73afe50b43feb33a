"""Rows that are done in, a bar on a terminal out; nothing where there is none."""

import sys
import time

REDRAW = 0.1
WIDTH = 24


class Progress:
    """A bar on stderr: how many, how fast, how long still.

    >>> Progress(10, 0, shown=False).tick(is_error=False)
    """

    def __init__(self, total: int, done: int, /, *, shown: bool) -> None:
        self._total = total
        self._before = self._done = done
        self._errors = 0
        self._began = time.monotonic()
        self._drawn = 0.0
        self._shown = shown and sys.stderr.isatty()

    def tick(self, *, is_error: bool) -> None:
        """One more."""
        self._done += 1
        self._errors += is_error
        now = time.monotonic()
        if self._shown and (now - self._drawn >= REDRAW or self._done == self._total):
            self._drawn = now
            self._draw(now)

    def close(self) -> None:
        """Leave the bar as it is, and go to a fresh line."""
        if self._shown:
            self._draw(time.monotonic())
            sys.stderr.write("\n")

    def _draw(self, now: float) -> None:
        share = self._done / max(1, self._total)
        full = int(share * WIDTH)
        rate = (self._done - self._before) / max(now - self._began, 1e-6)
        left = (self._total - self._done) / rate if rate else 0.0
        errors = f" · {self._errors} errors" if self._errors else ""
        bar = "█" * full + "░" * (WIDTH - full)
        told = f"{self._done}/{self._total} · {rate:.0f}/s · {int(left) // 60}:{int(left) % 60:02d} left{errors}"
        sys.stderr.write(f"\r\x1b[K{bar} {share:4.0%} · {told}")
        sys.stderr.flush()
