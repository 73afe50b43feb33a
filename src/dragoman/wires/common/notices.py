"""Collects the notices of one encoded request, and writes notices into answers."""

from collections.abc import Iterable

from dragoman.errors import Unsupported
from dragoman.schema.adapt import MAX_SUBSCHEMAS
from dragoman.types import JsonObject, Notice, NoticeKind

NOT_STORED_REASON = "not stored: "
"""How the reason starts if an answer, or the conversation it belongs to, could not be stored."""


def encode_notices(notices: Iterable[Notice], /) -> JsonObject:
    """The member `notices` of an answer, if there are any.

    >>> encode_notices([Notice(kind="dropped", what="store", why="not stored: the store is down")])
    {'notices': [{'kind': 'dropped', 'what': 'store', 'why': 'not stored: the store is down'}]}
    """
    encoded = [{"kind": notice.kind, "what": notice.what, "why": notice.why} for notice in notices]
    return {"notices": encoded} if encoded else {}


def notice_text(notice: Notice, /) -> str:
    """A notice on one line.

    >>> notice_text(Notice(kind="dropped", what="store", why="not stored: the store is down"))
    'dropped store: not stored: the store is down'
    """
    return f"{notice.kind} {notice.what}: {notice.why}"


def encode_not_stored(notices: Iterable[Notice], /) -> JsonObject:
    """The members of an answer that say what of it is not stored."""
    lost = [notice for notice in notices if notice.why.startswith(NOT_STORED_REASON)]
    return {**_store(lost), **encode_notices(lost)}


def encode_late_notices(notices: Iterable[Notice], /) -> JsonObject:
    """The members of the last event of a stream with the notices that came after its headers.

    >>> encode_late_notices([Notice(kind="dropped", what="store", why="not stored: the store is down")])["store"]
    False
    """
    notices = tuple(notices)
    return {**_store(notices), **encode_notices(notices)} if notices else {}


def _store(notices: Iterable[Notice]) -> JsonObject:
    is_lost = any(notice.what == "store" and notice.why.startswith(NOT_STORED_REASON) for notice in notices)
    return {"store": False} if is_lost else {}


class NoticeCollector:
    """Collects notices while a request is encoded; with `strict`, a loss raises `Unsupported` instead.

    A wire that `carries_all` also transports data that only other wires understand.

    >>> notices = NoticeCollector("ollama")
    >>> notices.add("dropped", "user", "not supported")
    >>> notices.notices[0].why
    'ollama: not supported'
    """

    def __init__(self, wire: str, *, strict: bool = False, carries_all: bool = False) -> None:
        self.wire = wire
        self.carries_all = carries_all
        self._strict = strict
        self._notices: dict[Notice, None] = {}
        self._inlined = 0

    @property
    def notices(self) -> tuple[Notice, ...]:
        """All notices in order, without duplicates."""
        return tuple(self._notices)

    def count_inlined(self, subschemas: int, /) -> None:
        """Count the subschemas of a tool whose `$ref`s were inlined; Unsupported if all tools have too many."""
        self._inlined += subschemas
        if self._inlined > MAX_SUBSCHEMAS:
            why = f"the tools have more than {MAX_SUBSCHEMAS} subschemas after $ref was inlined; make them smaller"
            raise Unsupported(f"{self.wire}: {why}")

    def add(self, kind: NoticeKind, what: str, why: str) -> None:
        """Add a notice whose reason starts with the name of the wire."""
        self.extend(Notice(kind=kind, what=what, why=f"{self.wire}: {why}"))

    def extend(self, *notices: Notice) -> None:
        """Add notices that were made elsewhere."""
        for notice in notices:
            if self._strict and notice.loss:
                raise Unsupported(f"{notice.what}: {notice.why} (strict)")
            self._notices[notice] = None
