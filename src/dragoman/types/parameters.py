"""Wrong names of parameters: what the structs that users make say about them, in errors of our tree."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.errors import InvalidRequest

_OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "api_base": ("base_url",),
    "args": ("arguments",),
    "base64": ("data",),
    "call_id": ("id",),
    "content": ("parts", "text", "data"),
    "cost": ("money",),
    "endpoint": ("base_url",),
    "file_data": ("data",),
    "filename": ("name",),
    "format": ("mime",),
    "function": ("handler",),
    "input": ("arguments",),
    "input_schema": ("parameters",),
    "key": ("api_key",),
    "max_tokens": ("tokens",),
    "media_type": ("mime",),
    "messages": ("parts",),
    "mime_type": ("mime",),
    "output": ("content",),
    "result": ("content",),
    "schema": ("parameters",),
    "thinking": ("text",),
    "timeout": ("seconds", "total"),
    "tool_call_id": ("id",),
    "tool_name": ("name",),
    "tool_use_id": ("id",),
}
"""Parameters of other libraries, and what they may be called here."""


class NamedParameters(msgspec.StructMeta):
    """The metaclass of structs that users make: a wrong name of a parameter is an InvalidRequest, not a TypeError.

    A construction takes about 0.4 µs longer. Code that makes many values uses `msgspec.structs.replace` on an empty
    one, which does not come here and checks the values, too.

    >>> from dragoman import ToolResult
    >>> ToolResult(tool_call_id="call_1", content="4.2 m")
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: ToolResult has no parameter tool_call_id; write id=
    """

    if not TYPE_CHECKING:  # pragma: no branch - type checkers read the fields, not this signature

        def __call__(cls, *values: Any, **fields: Any) -> Any:  # noqa: N805 - of a metaclass
            try:
                return _construct(cls, *values, **fields)
            except TypeError as error:
                wrong = _parameter_error(cls, str(error))
                if wrong is None:  # it is not about the names
                    raise
                raise wrong from None


_construct = msgspec.StructMeta.__call__


def _parameter_error(struct: type[msgspec.Struct], message: str) -> InvalidRequest | None:
    """The error of ours for a TypeError of msgspec; None if it is not about the names of parameters."""
    name, known = struct.__name__, struct.__struct_fields__
    kind, _, field = message.rstrip("'").partition(" '")
    if kind == "Unexpected keyword argument":
        return InvalidRequest(f"{name} has no parameter {field}; {_advice(field, known)}", param=field)
    if kind == "Missing required argument":
        return InvalidRequest(f"{field} must be passed to {name}, got nothing; write {field}=", param=field)
    if kind == "Extra positional arguments provided":
        field = known[0] if known else "values"
        return InvalidRequest(
            f"{name} must be called with names, got too many values without; write {field}=", param=field
        )
    if message.endswith("given by name and position"):
        field = message.split("'")[1]
        return InvalidRequest(f"{field} must be passed once, got it by position and by name", param=field)
    return None


def _advice(field: str, known: Collection[str]) -> str:
    for other in _OTHER_NAMES.get(field, ()):
        if other in known:
            return f"write {other}="
    from difflib import get_close_matches  # only for errors

    close = get_close_matches(field, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"it must be one of {', '.join(known)}"
