"""A request in, who answers it out: a table made of every wire with a server half."""

import re
from collections.abc import Iterable
from typing import Generic, TypeVar

from dragoman.gateway.refusals import NoRoute, WrongMethod
from dragoman.http import HttpRequest
from dragoman.wire import Route

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

    def find(self, http: HttpRequest) -> T:
        for method, header, who in self.marked:
            if method == http.method and header in http.headers:
                return who
        found = self.plain.get(http.method)
        if found is None:
            methods = sorted({*self.plain, *(method for method, _, _ in self.marked)})
            path = http.path.partition("?")[0]
            raise WrongMethod(f"{path[:200]} takes {' and '.join(methods)}, no {http.method[:20]}")
        return found


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
        path = http.path.partition("?")[0]
        place = self._exact.get(path) or self._match(path)
        if place is None:
            raise NoRoute(f"nothing answers at {path[:200]}")
        return place.find(http)

    def _match(self, path: str) -> _Place[T] | None:
        return next((place for pattern, place in self._open.values() if pattern.fullmatch(path)), None)
