"""Inspects type hints: metadata, fields of classes, parameters of functions, values of enumerations."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache, partial
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NewType,
    NotRequired,
    Required,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from dragoman.errors import InvalidRequest, InvalidTool

_WRAPPERS = frozenset({"Required", "NotRequired", "ReadOnly", "Final"})


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of an object, or one parameter of a function."""

    name: str
    """The name of the argument; empty for the tag of a Struct, which is not an argument."""
    key: str
    """Its name in JSON."""
    hint: Any
    required: bool = True
    description: str | None = None
    default: Any = None
    """The default of a parameter; None for fields of classes."""


def unwrap_hint(hint: Any, /) -> tuple[Any, tuple[Any, ...]]:
    """A hint without Annotated, NewType and similar wrappers, and their metadata, innermost first.

    >>> from typing import Annotated
    >>> unwrap_hint(Annotated[int, "metres"])
    (<class 'int'>, ('metres',))
    """
    metadata: tuple[Any, ...] = ()
    while True:
        origin = get_origin(hint)
        if hasattr(hint, "__metadata__"):
            hint, metadata = hint.__origin__, (*hint.__metadata__, *metadata)
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        elif getattr(origin, "_name", None) in _WRAPPERS:
            hint = get_args(hint)[0]
        elif isinstance(hint, TypeVar):
            hint = hint.__bound__ or Any
        else:
            return hint, metadata


def is_hint(value: Any, /) -> bool:
    """Whether a value can be a type hint: a class, or a construct of `typing`.

    >>> is_hint(list[int]), is_hint(3)
    (True, False)
    """
    makers = ("typing", "typing_extensions", "types", "annotationlib")
    return value is None or isinstance(value, type) or type(value).__module__ in makers or is_alias(value)


def is_alias(hint: Any, /) -> bool:
    """Whether a hint is an alias, such as `type Tree = list[Tree]`."""
    return type(get_origin(hint) or hint).__name__ == "TypeAliasType"


def alias_target(hint: Any, /) -> Any:
    """The hint behind an alias."""
    alias = get_origin(hint) or hint
    return _bound(alias.__value__, dict(zip(alias.__type_params__, get_args(hint), strict=False)))


def qualified_name(hint: Any, /) -> str:
    """The module and name of a class, for tables of classes that are not imported."""
    return f"{getattr(hint, '__module__', '')}.{getattr(hint, '__qualname__', '')}"


def name_of(hint: Any, /) -> str:
    """The name of a hint.

    >>> name_of(list[int]), name_of(str | None)
    ('list[int]', 'str | None')
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " | ".join(map(name_of, arguments))
    if isinstance(origin, type):
        return f"{origin.__name__}[{', '.join(map(name_of, arguments))}]"
    if hint is NoneType:
        return "None"
    return hint.__name__ if isinstance(hint, type) or is_alias(hint) else str(hint).replace("typing.", "")


def is_pydantic(hint: Any, /) -> bool:
    """Whether a class is a pydantic model; pydantic is not imported."""
    return isinstance(hint, type) and hasattr(hint, "__pydantic_validator__")


def is_enum(hint: Any, /) -> bool:
    """Whether a hint is an enumeration."""
    return isinstance(hint, type) and hasattr(hint, "__members__") and hasattr(hint, "_member_map_")


def choices_of(hint: Any, /) -> tuple[Any, ...] | None:
    """The values of an enumeration or a Literal; None for other hints.

    >>> choices_of(Literal["a", "b"]), choices_of(str)
    (('a', 'b'), None)
    """
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(hint) if is_enum(hint) else None


def choice_value(choice: Any, /) -> Any:
    """A choice as JSON: the value of a member of an enumeration."""
    return choice.value if is_enum(type(choice)) else choice


def fields_of(hint: Any, /) -> tuple[Field, ...] | None:
    """The fields of a dataclass, TypedDict, Struct or NamedTuple; None for other hints.

    >>> class Point(msgspec.Struct, tag="point"):
    ...     x: int
    ...     label: str = ""
    >>> [(field.key, field.required) for field in fields_of(Point)]
    [('type', True), ('x', True), ('label', False)]
    """
    try:
        return _cached_fields(hint, repr(hint))
    except TypeError:  # metadata that cannot be hashed
        return _read_fields(hint)


@lru_cache(maxsize=1000)
def _cached_fields(hint: Any, _repr: str) -> tuple[Field, ...] | None:
    """`_read_fields` is slow. The repr distinguishes `int | str` from `str | int`, which are equal."""
    return _read_fields(hint)


def _read_fields(hint: Any) -> tuple[Field, ...] | None:
    cls = get_origin(hint) or hint
    if isinstance(cls, type):
        for is_kind, read in _KINDS:
            if is_kind(cls):
                return tuple(read(cls, _bound_hints(cls, get_args(hint))))
    return None


def parameters(function: Callable[..., Any], /, *, skip: Collection[str] = ()) -> tuple[Field, ...]:
    """The parameters of a function, without those in `skip`.

    >>> def tide(port: str, days: int = 1) -> str: ...
    >>> [(field.name, field.required) for field in parameters(tide)]
    [('port', True), ('days', False)]
    """
    import inspect

    fields: list[Field] = []
    function_name = getattr(function, "__name__", repr(function))
    hints = hints_of(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if name in skip:
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidTool(f"{function_name}: {parameter} must be a parameter that can be passed by name")
        required = parameter.default is parameter.empty
        default = None if required else parameter.default
        fields.append(Field(name=name, key=name, hint=hints.get(name, Any), required=required, default=default))
    return tuple(fields)


def hints_of(function: Callable[..., Any], /) -> dict[str, Any]:
    """The annotations of a function; wrappers and partials are unwrapped.

    >>> def tide(port: "str") -> float: ...
    >>> hints_of(tide)["port"]
    <class 'str'>
    """
    import inspect

    source = inspect.unwrap(function)
    while isinstance(source, partial):
        source = inspect.unwrap(source.func)
    return _resolve_hints(function, source)


# Kinds of classes -----------------------------------------------------------------------------------------------------


def _resolve_hints(what: Any, source: Any) -> dict[str, Any]:
    """The hints of a class or function, with hints that are strings evaluated."""
    own = {source.__name__: source} if isinstance(source, type) else None
    try:
        return get_type_hints(source, localns=own, include_extras=True)
    except NameError as error:
        name = getattr(what, "__name__", repr(what))
        raise InvalidRequest(f"{name}: {error}; a type that is annotated as a string must be global") from error


def _bound_hints(cls: type, arguments: tuple[Any, ...]) -> dict[str, Any]:
    bindings = _bindings(cls, arguments)
    return {name: _bound(hint, bindings) for name, hint in _resolve_hints(cls, cls).items()}


def _bindings(cls: Any, arguments: tuple[Any, ...]) -> dict[Any, Any]:
    """The arguments for the type variables of a class and its bases."""
    bindings = dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))
    for base in getattr(cls, "__orig_bases__", ()):
        bindings |= _bindings(get_origin(base), tuple(_bound(argument, bindings) for argument in get_args(base)))
    return bindings


def _bound(hint: Any, bindings: Mapping[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return bindings.get(hint, hint)
    free: tuple[Any, ...] = () if isinstance(hint, type) else getattr(hint, "__parameters__", ())
    return cast("Any", hint)[tuple(bindings.get(one, one) for one in free)] if free and bindings else hint


def _is_typed_dict(cls: type) -> bool:
    return hasattr(cls, "__required_keys__") and issubclass(cls, dict)


def _of_typed_dict(cls: Any, hints: dict[str, Any]) -> Iterator[Field]:
    for name, hint in hints.items():
        marks = {Required: True, NotRequired: False}
        required = marks.get(get_origin(hint), name in cls.__required_keys__)
        yield Field(name=name, key=name, hint=hint, required=required)


def _is_struct(cls: type) -> bool:
    return issubclass(cls, msgspec.Struct)


def _of_struct(cls: Any, hints: dict[str, Any]) -> Iterator[Field]:
    config = cls.__struct_config__
    if config.tag is not None:
        yield Field(name="", key=config.tag_field, hint=Literal[config.tag])
    for field in msgspec.structs.fields(cls):
        yield Field(
            name=field.name, key=field.encode_name, hint=_without_unset(hints[field.name]), required=field.required
        )


def _without_unset(hint: Any) -> Any:
    if get_origin(hint) not in (Union, UnionType) or msgspec.UnsetType not in get_args(hint):
        return hint
    return Union[tuple(arm for arm in get_args(hint) if arm is not msgspec.UnsetType)]  # noqa: UP007 - made here


def _is_dataclass(cls: type) -> bool:
    return hasattr(cls, "__dataclass_fields__")


def _of_dataclass(cls: Any, hints: dict[str, Any]) -> Iterator[Field]:
    import dataclasses

    if names := [name for name, hint in hints.items() if isinstance(hint, dataclasses.InitVar)]:
        raise InvalidRequest(f"{cls.__name__}.{names[0]}: InitVar is not supported; use a field or another class")
    for field in dataclasses.fields(cls):
        if field.init:
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            text = field.metadata.get("description") or getattr(field, "doc", None)
            yield Field(name=field.name, key=field.name, hint=hints[field.name], required=required, description=text)


def _is_named_tuple(cls: type) -> bool:
    return hasattr(cls, "_field_defaults") and issubclass(cls, tuple)


def _of_named_tuple(cls: Any, hints: dict[str, Any]) -> Iterator[Field]:
    for name in cls._fields:
        yield Field(name=name, key=name, hint=hints.get(name, Any), required=name not in cls._field_defaults)


_KINDS: tuple[tuple[Callable[[type], bool], Callable[[Any, dict[str, Any]], Iterator[Field]]], ...] = (
    (_is_typed_dict, _of_typed_dict),
    (_is_struct, _of_struct),
    (_is_dataclass, _of_dataclass),
    (_is_named_tuple, _of_named_tuple),
)
