"""What the modules of the vocabulary share: names of JSON types, and the base of all values."""

from typing import Annotated, Any, TypeAlias, TypeGuard, TypeVar

import msgspec
from msgspec.structs import force_setattr

S = TypeVar("S", bound=msgspec.Struct)

JsonObject: TypeAlias = dict[str, Any]
WholeNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Extra: TypeAlias = dict[str, Any]
"""Data of one wire that the vocabulary has no field for, by wire name: signatures, ids, flags.

It goes back unchanged to the wire that it came from, and to no other wire.
"""


def encode_unknown(value: object, /) -> object:
    """What msgspec encodes in place of a value that it does not know: handlers are left out, pydantic models dumped."""
    return None if callable(value) else dump_model(value)


def dump_model(value: object, /) -> object:
    """The plain value of a pydantic model, for msgspec; TypeError for any other value."""
    if not isinstance(value, type) and callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    raise TypeError(f"it must be JSON, a struct or a pydantic model, got {type(value).__name__}")


def to_plain(value: object, /) -> object:
    """A value as dicts, lists and scalars."""
    return msgspec.to_builtins(value, enc_hook=encode_unknown)


def unchecked(template: S, /, **fields: Any) -> S:
    """A copy of a struct with other fields. They are not checked, so they must be right.

    To check an answer field by field takes as long as the rest of a plain call, and all of it was read by a decoder.
    """
    source: Any = template
    changed: S = source.__copy__()  # as copy.copy() does, in a third of the time
    for name, value in fields.items():
        force_setattr(changed, name, value)
    return changed


def is_object(value: object, /) -> TypeGuard[JsonObject]:
    """Whether a JSON value is an object.

    >>> is_object({}), is_object([])
    (True, False)
    """
    return isinstance(value, dict)


def is_list(value: object, /) -> TypeGuard[list[Any]]:
    """Whether a JSON value is a list.

    >>> is_list([]), is_list("")
    (True, False)
    """
    return isinstance(value, list)


def prepare(*types: Any) -> None:
    """Let msgspec prepare types for decoding. Call it at the end of a module that decodes them later.

    Otherwise it does so at the first use, and two threads that do so at the same time crash the process (msgspec 0.22).
    A module is loaded by one thread.
    """
    for type in types:
        msgspec.json.Decoder(type)
