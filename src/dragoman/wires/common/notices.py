"""TODO describe."""

from dragoman.errors import Unsupported
from dragoman.types import (
    Notice,
    NoticeKind,
)


class NoticeCollector:
    """Collects notices on the way to one target; under `strict`, a loss is refused instead.

    A wire that `carries_all` takes along what only other wires understand.

    >>> notes = NoticeCollector("ollama")
    >>> notes.add("dropped", "user", "it has no user id")
    >>> notes.notices[0].why
    'ollama: it has no user id'
    """

    def __init__(self, wire: str, *, strict: bool = False, carries_all: bool = False) -> None:
        self.wire = wire
        self.carries_all = carries_all
        self._strict = strict
        self._notices: dict[Notice, None] = {}

    @property
    def notices(self) -> tuple[Notice, ...]:
        """All of them, each once, in order."""
        return tuple(self._notices)

    def add(self, kind: NoticeKind, what: str, why: str) -> None:
        """Note one thing."""
        self.extend(Notice(kind=kind, what=what, why=f"{self.wire}: {why}"))

    def extend(self, *notices: Notice) -> None:
        """Note what somebody else found."""
        for notice in notices:
            if self._strict and notice.loss:
                raise Unsupported(f"{notice.what}: {notice.why} (strict)")
            self._notices[notice] = None
