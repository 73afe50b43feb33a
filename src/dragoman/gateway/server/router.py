"""Finds the endpoint for a request in a table made from the routes of every wire."""

import re
from collections.abc import Iterable
from functools import cache
from itertools import takewhile
from typing import Generic, TypeVar

from dragoman.gateway.errors import NoRoute, WrongMethod
from dragoman.http import HttpRequest
from dragoman.wires.common.server_endpoints import Route

T = TypeVar("T")
_PREFIX = "/v1"
"""Clients of OpenAI want it in their base URL; those of Anthropic, Google and Ollama add a path of their own."""
_PATTERNS = {"model": ".+", "id": ".+"}


@cache  # the paths are constants, and every gateway in a process has the same ones
def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", lambda match: _PATTERNS.get(match[1], "[^/]+"), re.escape(path)))


class _Path(Generic[T]):
    """The endpoints of one path, by method, and by the header that tells two dialects apart."""

    def __init__(self) -> None:
        self.by_method: dict[str, T] = {}
        self.by_header: list[tuple[str, str, T]] = []

    def add(self, route: Route, endpoint: T) -> None:
        if route.header is None:
            self.by_method.setdefault(route.method, endpoint)
        else:
            self.by_header.append((route.method, route.header, endpoint))

    def find(self, http: HttpRequest) -> T:
        wanted = "GET" if http.method == "HEAD" else http.method  # servers drop the body of a HEAD response
        for method, header, endpoint in self.by_header:
            if method == wanted and header in http.headers:
                return endpoint
        if wanted not in self.by_method:
            raise self._wrong_method(http)
        return self.by_method[wanted]

    def _wrong_method(self, http: HttpRequest) -> WrongMethod:
        methods = {*self.by_method, *(method for method, _, _ in self.by_header)}
        methods |= {"HEAD"} if "GET" in methods else set()
        path = http.path.partition("?")[0]
        expected = " or ".join(sorted(methods))
        return WrongMethod(
            f"method of {path[:200]} must be {expected}, got {http.method[:20]}", methods=sorted(methods)
        )


class Routes(Generic[T]):
    """Routes and their endpoints; `{model}` and `{id}` in a path match anything, other names one segment."""

    def __init__(self, table: Iterable[tuple[Route, T]], /) -> None:
        self._exact: dict[str, _Path[T]] = {}
        self._patterns: dict[str, tuple[re.Pattern[str], _Path[T]]] = {}
        for route, endpoint in table:
            if "{" not in route.path:
                self._exact.setdefault(route.path, _Path()).add(route, endpoint)
                continue
            self._patterns.setdefault(route.path, (_pattern(route.path), _Path()))[1].add(route, endpoint)
        # The longest first, so that "{model}" does not match a longer route's ending.
        self._patterns = dict(sorted(self._patterns.items(), key=lambda item: -len(item[0])))

    def find(self, http: HttpRequest, /) -> T:
        """The endpoint of a request; raises NoRoute or WrongMethod."""
        path = http.path.partition("?")[0]
        endpoints = self._match(path)
        if endpoints is None:
            raise NoRoute(f"no route for {path[:200]}{self._base_url_hint(path)}")
        return endpoints.find(http)

    def find_similar(self, http: HttpRequest, /) -> list[T]:
        """The endpoints of the same path with other methods, or of the paths that begin most like this one."""
        path = http.path.partition("?")[0]
        match = self._match(path) or self._match(_with_prefix(path)) or self._match(_without_prefix(path))
        near = self._nearest(path) if match is None else [match]
        by_header = [endpoint for each in near for _, header, endpoint in each.by_header if header in http.headers]
        return by_header or [endpoint for each in near for endpoint in each.by_method.values()]

    def _base_url_hint(self, path: str) -> str:
        """What to do if a client has a base URL that is right for clients of another protocol."""
        if self._match(_with_prefix(path)) is not None:
            return f"; set the base URL of the client to http://HOST:PORT{_PREFIX}"
        if self._match(_without_prefix(path)) is not None:
            return f"; set the base URL of the client to http://HOST:PORT, without {_PREFIX}"
        return ""

    def _match(self, path: str) -> _Path[T] | None:
        if (exact := self._exact.get(path)) is not None:
            return exact
        return next((endpoints for pattern, endpoints in self._patterns.values() if pattern.fullmatch(path)), None)

    def _nearest(self, path: str) -> list[_Path[T]]:
        known = {**self._exact, **{path: endpoints for path, (_, endpoints) in self._patterns.items()}}
        lengths = {other: _common_segments(path, other) for other in known}
        longest = max(lengths.values(), default=0)
        return [endpoints for other, endpoints in known.items() if lengths[other] == longest > 0]


def _with_prefix(path: str) -> str:
    return f"{_PREFIX}{path}"


def _without_prefix(path: str) -> str:
    """The path without its first `/v1`; the same path if it does not begin so."""
    return path.removeprefix(_PREFIX) if path.startswith(f"{_PREFIX}/") else path


def _common_segments(one: str, other: str) -> int:
    parts = other.split("/")
    pairs = zip(one.split("/", len(parts))[1:], parts[1:], strict=False)  # a client's path may have any number of parts
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
