"""A request in, who answers it out: a table made of every wire with a server half."""

import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Generic, TypeVar

from dragoman.gateway.errors import NoRoute, WrongMethod
from dragoman.http import HttpRequest
from dragoman.wires.common.server_endpoints import Route

T = TypeVar("T")


class _Place(Generic[T]):
    """Who answers at one path: by method, and by the header that tells dialects apart."""

    def __init__(self) -> None:
        self.plain: dict[str, T] = {}
        self.marked: list[tuple[str, str, T]] = []

    def add(self, route: Route, who: T) -> None:
        if route.header is None:
            self.plain.setdefault(route.method, who)
        else:
            self.marked.append((route.method, route.header, who))

    def by_mark(self, http: HttpRequest) -> list[T]:
        return [who for _, header, who in self.marked if header in http.headers]

    def find(self, http: HttpRequest) -> T:
        asked = "GET" if http.method == "HEAD" else http.method  # servers leave out the body of its answer
        for method, header, who in self.marked:
            if method == asked and header in http.headers:
                return who
        found = self.plain.get(asked)
        if found is None:
            raise self._wrong(http)
        return found

    def _wrong(self, http: HttpRequest) -> WrongMethod:
        methods = {*self.plain, *(method for method, _, _ in self.marked)}
        methods |= {"HEAD"} if "GET" in methods else set()
        path = http.path.partition("?")[0]
        words = " and ".join(sorted(methods))
        return WrongMethod(f"{path[:200]} takes {words}, no {http.method[:20]}", methods=sorted(methods))


class Routes(Generic[T]):
    """Paths and who answers them; `{model}` and `{id}` stand for anything.

    >>> routes = Routes([(Route(method="POST", path="/v1/models/{model}:count"), "google")])
    >>> routes.find(HttpRequest(method="POST", path="/v1/models/a/b:count?alt=sse"))
    'google'
    """

    def __init__(self, table: Iterable[tuple[Route, T]], /) -> None:
        self._exact: dict[str, _Place[T]] = {}
        self._open: dict[str, tuple[re.Pattern[str], _Place[T]]] = {}
        for route, who in table:
            if "{" not in route.path:
                self._exact.setdefault(route.path, _Place()).add(route, who)
                continue
            pattern = re.sub(r"\\\{\w+\\\}", ".+", re.escape(route.path))
            self._open.setdefault(route.path, (re.compile(pattern), _Place()))[1].add(route, who)
        # The longest first: what stands behind a name is not taken for a part of it.
        self._open = dict(sorted(self._open.items(), key=lambda item: -len(item[0])))

    def find(self, http: HttpRequest, /) -> T:
        """Who answers; NoRoute or WrongMethod where nobody does."""
        return self._place(http).find(http)

    def find_near(self, http: HttpRequest, /) -> list[T]:
        """Those who answer at the same path when asked by another method, or at the paths that begin as this one."""
        path = http.path.partition("?")[0]
        place = self._exact.get(path) or self._match(path)
        near = self._nearest(path) if place is None else [place]
        marked = [who for place in near for who in place.by_mark(http)]
        return marked or [who for place in near for who in place.plain.values()]

    def _place(self, http: HttpRequest) -> _Place[T]:
        path = http.path.partition("?")[0]
        place = self._exact.get(path) or self._match(path)
        if place is None:
            raise NoRoute(f"nothing answers at {path[:200]}")
        return place

    def _match(self, path: str) -> _Place[T] | None:
        return next((place for pattern, place in self._open.values() if pattern.fullmatch(path)), None)

    def _nearest(self, path: str) -> list[_Place[T]]:
        """The places whose paths have the longest beginning in common with this one."""
        known = {**self._exact, **{path: place for path, (_, place) in self._open.items()}}
        lengths = {other: _shared(path, other) for other in known}
        longest = max(lengths.values(), default=0)
        return [place for other, place in known.items() if lengths[other] == longest > 0]


def _shared(one: str, other: str) -> int:
    """How many steps two paths have in common at their beginning."""
    pairs = zip(one.split("/")[1:], other.split("/")[1:], strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
