"""A type in, what a model is asked for and how its answer is read out: a strict schema, a name, text to value."""

import re
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from dragoman.errors import OutputError
from dragoman.schema.from_type import outline
from dragoman.schema.strict import close, tighten
from dragoman.schema.to_value import decode
from dragoman.schema.type_hints import bare, name_of
from dragoman.schema.unstrict import Loosening
from dragoman.schema.validate import is_strict, validate
from dragoman.types import JsonObject

T = TypeVar("T")
_FENCE = re.compile(r"```(?:[\w-]+(?=[\s{\[\"]))?")
_END = re.compile(r"\n[ \t]*```")
"""A fence at the beginning of a line: no text of JSON has a line's end in it."""
_MAX_REASONS = 10


def schema_of(hint: Any, /) -> JsonObject:
    """The JSON Schema that a model is given for a type: every property required, every object closed.

    >>> schema_of(bool)["properties"]
    {'value': {'type': 'boolean'}}
    """
    return output_type_of(hint).schema


def output_type_of(hint: Any, /) -> "OutputType[Any]":
    """The form of a type, made once.

    >>> output_type_of(list[int]) is output_type_of(list[int])
    True
    """
    try:
        return _kept(hint, repr(hint))
    except TypeError:  # metadata that cannot be hashed
        return OutputType(hint)


@lru_cache(maxsize=1000)
def _kept(hint: Any, _words: str) -> "OutputType[Any]":
    """The words tell `int | str` from `str | int`, which are equal."""
    return OutputType(hint)


class OutputType(Generic[T]):
    """How a type is asked for, and how the answer is read.

    >>> OutputType(list[int]).read('```json\\n{"value": [1, 2]}\\n```')
    [1, 2]
    """

    def __init__(self, hint: Any) -> None:
        self.hint = hint
        self.outline = outline(hint)
        """What the type itself says."""
        self.schema = tighten(self.outline)
        """What a model is asked for."""
        self.is_strict = is_strict(self.schema)
        """Whether OpenAI's strict mode takes it: all but what may be anything."""
        self.loosening = Loosening(self.outline)
        """How an answer is made what the type itself says."""

    @property
    def closed(self) -> JsonObject:
        """What a model is asked for, with all that providers cannot enforce."""
        return close(self.outline)

    @property
    def name(self) -> str:
        """The type's name, in small letters; `response` where it has none."""
        kind, _ = bare(self.hint)
        return name_of(kind).lower() if isinstance(kind, type) else "response"

    def read(self, text: str, /) -> T:
        """The value that an answer says; OutputError with the reasons where it says none."""
        try:
            value = msgspec.json.decode(unfenced(text))
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._wrong(text, (f"$: not JSON: {error}",)) from error
        try:
            plain = self.loosening.whole(value)
            if reasons := validate(plain, self.outline):
                raise self._wrong(text, reasons)
            made: T = decode(plain, self.hint)
        except OutputError as error:
            raise self._wrong(text, error.reasons) from error.__cause__
        return made

    def _wrong(self, text: str, reasons: tuple[str, ...]) -> OutputError:
        shown = "; ".join(reasons[:_MAX_REASONS])
        return OutputError(f"the answer is not {name_of(self.hint)}: {shown}", text=text, reasons=reasons)


def unfenced(text: str, /) -> str:
    """An answer without white space and code fences around it.

    >>> unfenced(" ```json\\n{}\\n``` ")
    '{}'
    """
    text = text.strip("\ufeff \t\r\n")
    fence = None if text[:1] in ("{", "[", '"') else _FENCE.search(text)
    if fence is None:
        return text
    inner = text[fence.end() :]
    end = _END.search(inner)
    return (inner[: end.start()] if end else inner.rpartition("```")[0] or inner).strip()
