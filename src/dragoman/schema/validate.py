"""Validates values and schemas with jsonschema-rs, and words the reasons with their place in the value."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.schema.cost_bounds import CompileBudget, check_expansion, check_size, check_steps
from dragoman.schema.formats import FORMAT_CHECKS, wrong_format
from dragoman.types import JsonObject

if TYPE_CHECKING:
    from jsonschema_rs import FancyRegexOptions, ValidationError

MAX_REASONS = 100
"""Reasons that `validate` returns at most."""
MAX_BACKTRACKS = 100_000
"""Backtracks of one match: each may read the rest of the text again."""
_MAX_REASON = 500


def validate(
    value: object, schema: JsonObject, /, *, add_formats: bool = False, backtracks: int = MAX_BACKTRACKS
) -> tuple[str, ...]:
    """The reasons why a value does not satisfy a schema, each with its place. No `$ref` is fetched.

    A `format` alone makes a value invalid only if `$schema` names draft 7 or an older one. With `add_formats`, the
    reasons of an invalid value also name the texts that do not have their format, so that a model can correct
    everything at once. A pattern that needs more `backtracks` is not satisfied.

    >>> validate({"ages": ["x"]}, {"properties": {"ages": {"items": {"type": "integer"}}}})
    ('$.ages[0]: "x" is not of type "integer"',)
    """
    check_steps(value, schema)
    check_expansion(schema)
    reasons = _reasons(value, schema, backtracks)
    return _reasons(value, schema, backtracks, check_formats=True) if reasons and add_formats else reasons


def _reasons(value: object, schema: JsonObject, backtracks: int, *, check_formats: bool = False) -> tuple[str, ...]:
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(
            schema,
            retriever=_refuse,
            pattern_options=_pattern_options(backtracks),
            formats=FORMAT_CHECKS,
            validate_formats=check_formats or None,  # None: as the draft of the schema says
        )
    except ValueError as error:
        raise InvalidRequest(f"schema must be a valid JSON Schema: {_first_line(error)}") from error
    try:
        errors = [error for error, _ in zip(validator.iter_errors(value), range(MAX_REASONS), strict=False)]
    except ValueError as error:
        return (f"$: {_first_line(error)}",)
    return tuple(f"{json_path(error.instance_path)}: {_why(error)}" for error in errors)


def _why(error: "ValidationError") -> str:
    name = getattr(error.kind, "format", None)
    why = wrong_format(error.instance, name) if isinstance(name, str) else None
    return why or shorten_middle(error.message, _MAX_REASON)


def schema_error(schema: JsonObject, budget: CompileBudget | None = None, /) -> str | None:
    """Why a schema is not valid JSON Schema (draft 2020-12) or too large; None if it is neither. No `$ref` is fetched.

    The schemas of one request share a budget.

    >>> schema_error({"required": 3})
    'required: 3 is not of type "array"'
    """
    import jsonschema_rs

    try:
        check_size(schema)
        (budget or CompileBudget()).use(schema)
    except InvalidRequest as error:
        return error.message
    try:
        jsonschema_rs.Draft202012Validator(schema, retriever=_refuse, pattern_options=_pattern_options())
    except ValueError as error:
        path = getattr(error, "instance_path", None)
        where = json_path(path).lstrip("$.") if path else ""
        return f"{where}: {_first_line(error)}" if where else _first_line(error)
    return None


def json_path(path: Iterable[str | int], /) -> str:
    """The path of a value inside a JSON value, as text.

    >>> json_path(["ages", 0, "in years"])
    '$.ages[0]["in years"]'
    """
    return "$" + "".join(
        f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{msgspec.json.encode(step).decode()}]"
        for step in path
    )


def shorten_middle(text: str, length: int, /) -> str:
    """The text, with its middle left out if it is longer than `length`.

    >>> shorten_middle("abcdefgh", 4)
    'ab … gh'
    """
    return text if len(text) <= length else f"{text[: length // 2]} … {text[-(length // 2) :]}"


def _pattern_options(backtracks: int = MAX_BACKTRACKS) -> "FancyRegexOptions":
    """A pattern that is too large or takes too long is an error."""
    import jsonschema_rs

    return jsonschema_rs.FancyRegexOptions(backtrack_limit=backtracks, size_limit=1_000_000)


def _refuse(uri: str, /) -> JsonObject:
    raise ValueError(f"{uri} is not in the schema and is not fetched; put it in $defs")


def _first_line(error: ValueError) -> str:
    return shorten_middle(str(error).partition("\n")[0], _MAX_REASON)
