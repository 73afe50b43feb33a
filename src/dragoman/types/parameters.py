"""Calls of the public types and functions with wrong parameters: InvalidRequest with a hint, not TypeError."""

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from dragoman.errors import DragomanError, InvalidRequest
from dragoman.types.tracebacks import shorten_traceback

F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K", bound=type)
_OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "allowed_fails": ("threshold",),
    "api_base": ("base_url",),
    "args": ("arguments",),
    "base64": ("data",),
    "call_id": ("id",),
    "content": ("parts", "text", "data"),
    "cooldown_time": ("base",),
    "cost": ("money",),
    "dialect": ("wire",),
    "dollars": ("money",),
    "endpoint": ("base_url",),
    "file": ("path",),
    "file_data": ("data",),
    "file_path": ("path",),
    "filename": ("name", "path"),
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
    "provider": ("wire",),
    "read": ("idle",),
    "result": ("content",),
    "schema": ("parameters",),
    "thinking": ("text",),
    "timeout": ("seconds", "total"),
    "tool_call_id": ("id",),
    "tool_name": ("name",),
    "tool_use_id": ("id",),
    "usd": ("money",),
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


def named_parameters(function: F) -> F:
    """A function that raises InvalidRequest, not TypeError, if it is called with wrong names or too few values.

    A call takes about 0.1 µs longer. It is not for async functions: a wrapper of one looks like a blocking function.

    >>> from dragoman import user
    >>> user(content="hi")
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: user has no parameter content; write user(…) without a name
    """

    @wraps(function)
    def call(*values: Any, **fields: Any) -> Any:
        try:
            return function(*values, **fields)
        except DragomanError as error:
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # without this frame
            shorten_traceback(error)
            raise
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # the function itself raised it
                raise
            raise _call_error(function, values, fields) from None

    return cast("F", call)


def missing_is_none(function: F) -> F:
    """A function whose missing values are None, which it refuses with an error that says what to pass.

    It costs a call nothing, so it is for the functions that are called for each request, and for async functions. The
    signature still shows which values are required. Too many positional arguments raise Python's TypeError.

    >>> from dragoman import generate
    >>> generate("demo/any")
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: prompt must be a str, Message, Part, or a list of these, got None; pass it after ...
    """
    from inspect import signature

    shown = signature(function)
    named = [each for each in shown.parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    changed = cast("Any", function)
    changed.__signature__ = shown
    changed.__defaults__ = tuple(
        None if each.default is each.empty else each.default for each in named if each.name != "self"
    )
    return function


def named_methods(*names: str) -> Callable[[K], K]:
    """Apply `named_parameters` to the methods of a class with these names.

    >>> from dragoman import Registry
    >>> Registry(apikey="k")
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: Registry has no parameter apikey; did you mean api_key?
    """

    def apply(kind: K) -> K:
        for name in names:
            setattr(kind, name, named_parameters(getattr(kind, name)))
        return kind

    return apply


def _call_error(function: Callable[..., Any], values: tuple[Any, ...], fields: Mapping[str, Any]) -> InvalidRequest:
    """What is wrong with the names or the number of the arguments of a call."""
    from inspect import signature  # only for errors

    name = function.__qualname__.removesuffix(".__init__")
    parameters = signature(function).parameters.values()
    ordered = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    own = {"self", "cls"}
    known = [
        each.name
        for each in parameters
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) and each.name not in own
    ]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    for field in fields:
        if field not in known and not takes_any:
            advice = _advice(field, known) if known else f"write {name}(…) without a name"
            return InvalidRequest(f"{name} has no parameter {field}; {advice}", param=field)
        if field in ordered[: len(values)]:
            return InvalidRequest(f"{field} must be passed once, got it by position and by name", param=field)
    for each in parameters:
        is_passed = each.name in ordered[: len(values)] or each.name in fields
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) and not is_passed:
            text = f"{each.name} must be passed to {name}, got nothing"
            advice = f"write {name}({each.name})" if each.kind is each.POSITIONAL_ONLY else f"write {each.name}="
            return InvalidRequest(f"{text}; {advice}", param=each.name)
    field = next((each for each in known if each not in ordered), known[0] if known else "values")
    return InvalidRequest(f"{name} must be called with names, got too many values without; write {field}=", param=field)


def _advice(field: str, known: Collection[str]) -> str:
    for other in _OTHER_NAMES.get(field, ()):
        if other in known:
            return f"write {other}="
    from difflib import get_close_matches  # only for errors

    close = get_close_matches(field, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"it must be one of {', '.join(known)}"
