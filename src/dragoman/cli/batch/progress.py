"""The progress bar of a batch."""

import sys
import time

from dragoman.cli.terminal import plural

REDRAW_INTERVAL = 0.1
WIDTH = 24


class Progress:
    """A bar on stderr with count, rate and remaining time; drawn only on a terminal."""

    def __init__(self, total: int, done: int, /, *, is_visible: bool) -> None:
        self._total = total
        self._done_before = self._done = done
        self._errors = 0
        self._began = time.monotonic()
        self._drawn = 0.0
        self._status = ""
        self._is_visible = is_visible and sys.stderr.isatty()

    def tick(self, *, is_error: bool) -> None:
        """Count one more row."""
        self._done += 1
        self._errors += is_error
        now = time.monotonic()
        if self._is_visible and (now - self._drawn >= REDRAW_INTERVAL or self._done == self._total):
            self._drawn = now
            self._draw(now)

    def set_status(self, text: str) -> None:
        """Show what the batch waits for."""
        self._status = text
        if self._is_visible:
            self._draw(time.monotonic())

    def close(self) -> None:
        """Draw the bar a last time and start a new line."""
        if self._is_visible:
            self._draw(time.monotonic())
            sys.stderr.write("\n")

    def _draw(self, now: float) -> None:
        share = self._done / max(1, self._total)
        full = int(share * WIDTH)
        rate = (self._done - self._done_before) / max(now - self._began, 1e-6)
        seconds = int((self._total - self._done) / rate) if rate else 0
        errors = f" · {plural(self._errors, 'error')}" if self._errors else ""
        blocks = "█" * full + "░" * (WIDTH - full)
        counts = f"{self._done}/{self._total} · {rate:.0f}/s · {seconds // 60}:{seconds % 60:02d} left{errors}"
        counts += f" · {self._status}" if self._status else ""
        sys.stderr.write(f"\r\x1b[K{blocks} {share:4.0%} · {counts}")
        sys.stderr.flush()
