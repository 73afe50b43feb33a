"""Says whether this process is a fork of the one that made something.

After a fork, connections and random numbers belong to the parent as well. To compare `os.getpid()` costs a system call
each time; the interpreter itself says when it was forked.
"""

import os


class Forks:
    """Counts the forks between the first process and this one."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0
        if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.count += 1


FORKS = Forks()
