"""A Python type as the output of a model: the strict schema to request, and the function that reads the answer."""

from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from dragoman.errors import OutputError
from dragoman.schema.find_json import find_json
from dragoman.schema.from_type import schema_from_type
from dragoman.schema.strict import close_with_root, is_strict, to_strict
from dragoman.schema.to_value import to_value
from dragoman.schema.type_hints import is_hint, name_of, unwrap_hint
from dragoman.schema.unstrict import StrictConverter
from dragoman.schema.validate import validate
from dragoman.types import JsonObject
from dragoman.types.checks import naming, wrong_value
from dragoman.types.parameters import named_parameters

T = TypeVar("T")
_MAX_REASONS = 10
ADVICE = "; raise max_repairs, or describe the type better"
"""The end of the message; a notice about a repair that worked leaves it out."""


@named_parameters
def schema_of(hint: Any, /) -> JsonObject:
    """The JSON Schema that is sent for a type: every property required, every object closed.

    >>> schema_of(bool)["properties"]
    {'value': {'type': 'boolean'}}
    """
    with naming("hint"):
        return output_type_of(hint).schema


def output_type_of(hint: Any, parameter: str = "hint", /) -> "OutputType[Any]":
    """The OutputType of a type, cached. `parameter` is what the caller's parameter is called."""
    if not is_hint(hint):
        raise wrong_value(parameter, "a type", hint, "use a dataclass, a TypedDict or a pydantic model")
    try:
        return _cached_output_type(hint, repr(hint))
    except TypeError:  # metadata that cannot be hashed
        return OutputType(hint)


@lru_cache(maxsize=1000)
def _cached_output_type(hint: Any, _repr: str) -> "OutputType[Any]":
    """The repr distinguishes `int | str` from `str | int`, which are equal."""
    return OutputType(hint)


class OutputType(Generic[T]):
    """A type that a model is to answer with.

    >>> OutputType(list[int]).read('```json\\n{"value": [1, 2]}\\n```')
    [1, 2]
    """

    def __init__(self, hint: Any) -> None:
        self.hint = hint
        self.type_schema = schema_from_type(hint)
        """The schema of the type itself."""
        self.schema = to_strict(self.type_schema)
        """The schema that is sent."""
        self.is_strict = is_strict(self.schema)
        """Whether OpenAI's strict mode takes the schema: it does unless some part may be any value."""
        self.converter = StrictConverter(self.type_schema)
        """Converts an answer to `schema` into one to `type_schema`."""

    @property
    def closed_schema(self) -> JsonObject:
        """Like `schema`, with the constraints that providers cannot enforce."""
        return close_with_root(self.type_schema)

    @property
    def name(self) -> str:
        """The name of the type in lower case, or `response` if it has no name."""
        kind, _ = unwrap_hint(self.hint)
        return name_of(kind).lower() if isinstance(kind, type) else "response"

    def read(self, text: str, /) -> T:
        """The value of an answer; OutputError with the reasons if it does not match the type.

        The JSON may stand in prose, in a code fence or after thinking. Of several values, one that matches is taken.
        """
        try:
            first, *others = find_json(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._error(text, (f"$: not JSON: {error}",)) from error
        try:
            return self._read_value(first, text)
        except OutputError as error:
            for value in others:
                try:
                    return self._read_value(value, text)
                except OutputError:
                    continue
            raise error from error.__cause__

    def _read_value(self, value: Any, text: str) -> T:
        try:
            plain = self.converter.convert(value)
            if reasons := validate(plain, self.type_schema, add_formats=True):
                raise self._error(text, reasons)
            result: T = to_value(plain, self.hint)
        except OutputError as error:
            raise self._error(text, error.reasons) from error.__cause__
        return result

    def _error(self, text: str, reasons: tuple[str, ...]) -> OutputError:
        shown = "; ".join(reasons[:_MAX_REASONS])
        return OutputError(
            f"the answer does not match {name_of(self.hint)}: {shown}{ADVICE}", text=text, reasons=reasons
        )
