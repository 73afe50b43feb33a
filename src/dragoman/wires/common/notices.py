"""Collects the notices of one encoded request."""

from dragoman.errors import Unsupported
from dragoman.types import Notice, NoticeKind


class NoticeCollector:
    """Collects notices while a request is encoded; with `strict`, a loss raises `Unsupported` instead.

    A wire that `carries_all` also transports data that only other wires understand.

    >>> notes = NoticeCollector("ollama")
    >>> notes.add("dropped", "user", "not supported")
    >>> notes.notices[0].why
    'ollama: not supported'
    """

    def __init__(self, wire: str, *, strict: bool = False, carries_all: bool = False) -> None:
        self.wire = wire
        self.carries_all = carries_all
        self._strict = strict
        self._notices: dict[Notice, None] = {}

    @property
    def notices(self) -> tuple[Notice, ...]:
        """All notices in order, without duplicates."""
        return tuple(self._notices)

    def add(self, kind: NoticeKind, what: str, why: str) -> None:
        """Add a notice whose reason starts with the name of the wire."""
        self.extend(Notice(kind=kind, what=what, why=f"{self.wire}: {why}"))

    def extend(self, *notices: Notice) -> None:
        """Add notices that were made elsewhere."""
        for notice in notices:
            if self._strict and notice.loss:
                raise Unsupported(f"{notice.what}: {notice.why} (strict)")
            self._notices[notice] = None
