"""Method and path of a request in, who answers it out: a table made of every wire with a server half."""

import re
from collections.abc import Iterable
from typing import Generic, TypeVar

from dragoman.gateway.refusals import NoRoute, WrongMethod

T = TypeVar("T")


class Routes(Generic[T]):
    """Paths and who answers them; `{model}` stands for anything.

    >>> routes = Routes([("POST", "/v1/models/{model}:count", "google"), ("GET", "/health", "us")])
    >>> routes.find("POST", "/v1/models/a/b:count"), routes.find("GET", "/health")
    ('google', 'us')
    """

    def __init__(self, table: Iterable[tuple[str, str, T]]) -> None:
        self._exact: dict[str, dict[str, T]] = {}
        self._patterns: dict[str, tuple[re.Pattern[str], dict[str, T]]] = {}
        for method, path, who in table:
            if "{" not in path:
                self._exact.setdefault(path, {})[method] = who
            else:
                pattern = re.sub(r"\\\{\w+\\\}", ".+", re.escape(path))
                self._patterns.setdefault(path, (re.compile(pattern), {}))[1][method] = who

    def find(self, method: str, path: str, /) -> T:
        """Who answers; NoRoute or WrongMethod where nobody does."""
        methods = self._exact.get(path) or self._match(path)
        if methods is None:
            raise NoRoute(f"nothing answers at {path[:200]}")
        who = methods.get(method)
        if who is None:
            raise WrongMethod(f"{path[:200]} takes {' and '.join(sorted(methods))}, no {method[:20]}")
        return who

    def _match(self, path: str) -> dict[str, T] | None:
        return next((methods for pattern, methods in self._patterns.values() if pattern.fullmatch(path)), None)
