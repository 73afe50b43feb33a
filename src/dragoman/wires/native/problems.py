"""Values of a client's request in, checked values out; all that is wrong with them in one refusal."""

from collections.abc import Container, Mapping
from typing import Any, TypeVar

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.types import is_object

T = TypeVar("T")
MAX_PROBLEMS = 100
"""How many are told."""
_MISSING = "Object missing required field"


class Problem(msgspec.Struct, frozen=True):
    """What is wrong, where, and a word for it that programs can tell apart."""

    param: str
    code: str
    message: str


class InvalidNativeRequest(InvalidRequest):
    """A request with all its problems.

    >>> InvalidNativeRequest([Problem("messages", "missing", "there are none")]).message
    'messages: there are none'
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{problem.param}: {problem.message}" for problem in problems))
        self.problems = tuple(problems)


class ProblemCollector:
    """Gathers what is wrong while a request is read.

    >>> problems = ProblemCollector()
    >>> problems.read("warm", float, "temperature") is None
    True
    >>> problems.found[0]
    Problem(param='temperature', code='invalid_value', message='expected float, got str')
    """

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, param: str, code: str, message: str) -> None:
        """Note one, unless there are too many to be told."""
        if len(self.found) < MAX_PROBLEMS:
            self.found.append(Problem(param, code, message))

    def check(self) -> None:
        """Refuse, if anything is wrong."""
        if self.found:
            raise InvalidNativeRequest(self.found)

    def read(self, value: object, kind: Any, param: str) -> Any:
        """The value as that kind of thing; None, and a problem, where it is not."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            reason, _, path = str(error).partition(" - at `$")
            code = "missing" if reason.startswith(_MISSING) else "invalid_value"
            reason = reason.replace("`", "")
            self.add(param + path.rstrip("`"), code, reason[:1].lower() + reason[1:])
            return None

    def members(
        self, data: object, kinds: Mapping[str, Any], param: str, *, required: Container[str] = ()
    ) -> dict[str, Any]:
        """The members of an object that are what they should be; null is the same as not told."""
        if not is_object(data):
            self.read(data, dict[str, Any], param)
            return {}
        prefix = f"{param}." if param else ""
        for name in sorted(data.keys() - kinds.keys()):
            self.add(f"{prefix}{name}", "unknown_field", f"there is no such field; there are {', '.join(kinds)}")
        found: dict[str, Any] = {}
        for name, kind in kinds.items():
            value = data.get(name)
            if value is not None:
                found[name] = self.read(value, kind, f"{prefix}{name}")
            elif name in required:
                self.add(f"{prefix}{name}", "missing", "it is required")
        return found
