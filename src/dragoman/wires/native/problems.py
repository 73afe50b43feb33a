"""Validates the fields of a native request, and reports all problems in one error."""

from collections.abc import Container, Mapping
from typing import Any, TypeVar

import msgspec

from dragoman.errors import InvalidRequest, explain_validation
from dragoman.types import is_object
from dragoman.wires.common.request_body import name_field

T = TypeVar("T")
MAX_PROBLEMS = 100
"""Problems that one error lists at most."""


class Problem(msgspec.Struct, frozen=True):
    """One problem of a request: the parameter, a code for programs, a message for people."""

    param: str
    code: str
    message: str


class InvalidNativeRequest(InvalidRequest):
    """A request with problems.

    >>> InvalidNativeRequest([Problem("messages", "missing", "there are none")]).message
    'messages: there are none'
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(name_field(problem.param, problem.message) for problem in problems))
        self.problems = tuple(problems)


class ProblemCollector:
    """Collects problems while a request is decoded.

    >>> problems = ProblemCollector()
    >>> problems.read("warm", float, "temperature") is None
    True
    >>> problems.items[0]
    Problem(param='temperature', code='invalid_value', message='must be float, got str')
    """

    def __init__(self) -> None:
        self.items: list[Problem] = []

    def add(self, param: str, code: str, message: str) -> None:
        """Add a problem, unless there are too many."""
        if len(self.items) < MAX_PROBLEMS:
            self.items.append(Problem(param, code, message))

    def check(self) -> None:
        """Raise if there is a problem."""
        if self.items:
            raise InvalidNativeRequest(self.items)

    def read(self, value: object, kind: Any, param: str) -> Any:
        """The value converted to a type; None and a problem if it does not match."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            path, reason = explain_validation(error)
            self.add(param + path, "missing" if reason == "is required" else "invalid_value", reason)
            return None

    def read_object(
        self, data: object, kinds: Mapping[str, Any], param: str, *, required: Container[str] = ()
    ) -> dict[str, Any]:
        """The valid fields of an object; null means the same as leaving a field out."""
        if not is_object(data):
            self.read(data, dict[str, Any], param)
            return {}
        prefix = f"{param}." if param else ""
        for name in sorted(data.keys() - kinds.keys()):
            self.add(f"{prefix}{name}", "unknown_field", f"unknown field; known are {', '.join(kinds)}")
        fields: dict[str, Any] = {}
        for name, kind in kinds.items():
            value = data.get(name)
            if value is not None:
                fields[name] = self.read(value, kind, f"{prefix}{name}")
            elif name in required:
                self.add(f"{prefix}{name}", "missing", "is required")
        return fields
