"""Stops a call from outside: from another thread, or from another task."""

import threading
from collections.abc import Callable

from dragoman.errors import Reset


class Stopper:
    """Ends what a call waits for. Whatever waits attaches a function that wakes it, and detaches it afterwards.

    Either side may come first: the function is called by `stop`, or by `attach` if the call is stopped already.
    After `detach` it is not called any more.

    >>> stopper = Stopper()
    >>> stopper.attach(lambda: print("awake"))
    >>> stopper.stop()
    awake
    """

    __slots__ = ("_lock", "_wake", "is_stopped")

    def __init__(self) -> None:
        self.is_stopped = False
        self._lock = threading.Lock()
        self._wake: Callable[[], object] | None = None

    def attach(self, wake: Callable[[], object], /) -> None:
        """Set what wakes the call."""
        with self._lock:
            self._wake = wake
            if self.is_stopped:
                wake()

    def detach(self) -> None:
        """The call does not wait any more."""
        with self._lock:
            self._wake = None

    def stop(self) -> None:
        with self._lock:
            self.is_stopped = True
            if self._wake is not None:
                self._wake()

    @property
    def error(self) -> Reset:
        """What the reader of a stopped stream gets."""
        return Reset("the stream was closed while it was read", retry=False, fail_over=False, count_failure=False)
