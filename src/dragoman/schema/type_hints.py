"""A type hint in, what it is made of out: its bare form and metadata, its fields, the parameters of a function."""

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
    """One field of an object, or one parameter of a function.

    >>> Field(name="port", key="port", hint=str).required
    True
    """

    name: str
    """The argument that it is given as; empty for a tag, which is none."""
    key: str
    """Its name in JSON."""
    hint: Any
    required: bool = True
    description: str | None = None
    default: Any = None
    """What a parameter is without being told; classes keep theirs to themselves."""


def unwrap_hint(hint: Any, /) -> tuple[Any, tuple[Any, ...]]:
    """A hint without what is wrapped around it, and the metadata of the wrapping, the innermost first.

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


def is_alias(hint: Any, /) -> bool:
    """Whether a hint is a name for another one: `type Tree = list[Tree]`.

    >>> is_alias(list[int])
    False
    """
    return type(get_origin(hint) or hint).__name__ == "TypeAliasType"


def alias_target(hint: Any, /) -> Any:
    """The hint that an alias stands for."""
    alias = get_origin(hint) or hint
    return _bound(alias.__value__, dict(zip(alias.__type_params__, get_args(hint), strict=False)))


def qualified_name(hint: Any, /) -> str:
    """Where a class comes from, for tables of classes that need not be imported.

    >>> qualified_name(int)
    'builtins.int'
    """
    return f"{getattr(hint, '__module__', '')}.{getattr(hint, '__qualname__', '')}"


def name_of(hint: Any, /) -> str:
    """What a hint is called.

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
    """Whether pydantic made a class: one that nobody uses is not imported.

    >>> is_pydantic(int)
    False
    """
    return isinstance(hint, type) and hasattr(hint, "__pydantic_validator__")


def is_enum(hint: Any, /) -> bool:
    """Whether a hint is an enumeration.

    >>> is_enum(int)
    False
    """
    return isinstance(hint, type) and hasattr(hint, "__members__") and hasattr(hint, "_member_map_")


def choices_of(hint: Any, /) -> tuple[Any, ...] | None:
    """The values that an enumeration or a Literal has; None for all else.

    >>> choices_of(Literal["a", "b"]), choices_of(str)
    (('a', 'b'), None)
    """
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(hint) if is_enum(hint) else None


def choice_value(choice: Any, /) -> Any:
    """A choice as JSON has it: the value of an enumeration's member.

    >>> choice_value("a")
    'a'
    """
    return choice.value if is_enum(type(choice)) else choice


def fields_of(hint: Any, /) -> tuple[Field, ...] | None:
    """The fields of a dataclass, TypedDict, Struct or NamedTuple; None for all else.

    >>> class Point(msgspec.Struct, tag="point"):
    ...     x: int
    ...     label: str = ""
    >>> [(field.key, field.required) for field in fields_of(Point)]
    [('type', True), ('x', True), ('label', False)]
    """
    try:
        return _kept_fields(hint, repr(hint))
    except TypeError:  # metadata that cannot be hashed
        return _read_fields(hint)


@lru_cache(maxsize=1000)
def _kept_fields(hint: Any, _words: str) -> tuple[Field, ...] | None:
    """As `_read_fields`: looking hints up is slow. The words tell `int | str` from `str | int`, which are equal."""
    return _read_fields(hint)


def _read_fields(hint: Any) -> tuple[Field, ...] | None:
    made = get_origin(hint) or hint
    if isinstance(made, type):
        for is_kind, read in _KINDS:
            if is_kind(made):
                return tuple(read(made, _bound_hints(made, get_args(hint))))
    return None


def parameters(function: Callable[..., Any], /, *, skip: Collection[str] = ()) -> tuple[Field, ...]:
    """The parameters of a function that can be given by name, without those to skip.

    >>> def tide(port: str, days: int = 1) -> str: ...
    >>> [(field.name, field.required) for field in parameters(tide)]
    [('port', True), ('days', False)]
    """
    import inspect

    found: list[Field] = []
    called = getattr(function, "__name__", repr(function))
    told = hints_of(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if name in skip:
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidTool(f"{called}: {parameter} cannot be given by name; give it a name and a default")
        required = parameter.default is parameter.empty
        default = None if required else parameter.default
        found.append(
            Field(name=name, key=name, hint=told.get(name, Any), required=required, default=default),
        )
    return tuple(found)


def hints_of(function: Callable[..., Any], /) -> dict[str, Any]:
    """The annotations of a function, of what it wraps, or of the part that is left of one.

    >>> def tide(port: "str") -> float: ...
    >>> hints_of(tide)["port"]
    <class 'str'>
    """
    import inspect

    source = inspect.unwrap(function)
    while isinstance(source, partial):
        source = inspect.unwrap(source.func)
    return _resolved(function, source)


# The kinds of objects -------------------------------------------------------------------------------------------------


def _resolved(what: Any, source: Any) -> dict[str, Any]:
    """The hints of a class or function, with names that are told as text looked up."""
    own = {source.__name__: source} if isinstance(source, type) else None
    try:
        return get_type_hints(source, localns=own, include_extras=True)
    except NameError as error:
        called = getattr(what, "__name__", repr(what))
        raise InvalidRequest(f"{called}: {error}; a hint that is told as text is defined in its module") from error


def _bound_hints(made: type, arguments: tuple[Any, ...]) -> dict[str, Any]:
    bindings = _bindings(made, arguments)
    return {name: _bound(hint, bindings) for name, hint in _resolved(made, made).items()}


def _bindings(made: Any, arguments: tuple[Any, ...]) -> dict[Any, Any]:
    """What the type variables of a class and of those that it is made from stand for."""
    found = dict(zip(getattr(made, "__parameters__", ()), arguments, strict=False))
    for parent in getattr(made, "__orig_bases__", ()):
        found |= _bindings(get_origin(parent), tuple(_bound(argument, found) for argument in get_args(parent)))
    return found


def _bound(hint: Any, bindings: Mapping[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return bindings.get(hint, hint)
    free: tuple[Any, ...] = () if isinstance(hint, type) else getattr(hint, "__parameters__", ())
    return cast("Any", hint)[tuple(bindings.get(one, one) for one in free)] if free and bindings else hint


def _is_typed_dict(made: type) -> bool:
    return hasattr(made, "__required_keys__") and issubclass(made, dict)


def _of_typed_dict(made: Any, hints: dict[str, Any]) -> Iterator[Field]:
    for name, hint in hints.items():
        words = {Required: True, NotRequired: False}
        required = words.get(get_origin(hint), name in made.__required_keys__)
        yield Field(name=name, key=name, hint=hint, required=required)


def _is_struct(made: type) -> bool:
    return issubclass(made, msgspec.Struct)


def _of_struct(made: Any, hints: dict[str, Any]) -> Iterator[Field]:
    config = made.__struct_config__
    if config.tag is not None:
        yield Field(name="", key=config.tag_field, hint=Literal[config.tag])
    for field in msgspec.structs.fields(made):
        yield Field(name=field.name, key=field.encode_name, hint=_set(hints[field.name]), required=field.required)


def _set(hint: Any) -> Any:
    """The hint of what is there, where it may be UNSET."""
    if get_origin(hint) not in (Union, UnionType) or msgspec.UnsetType not in get_args(hint):
        return hint
    return Union[tuple(arm for arm in get_args(hint) if arm is not msgspec.UnsetType)]  # noqa: UP007 - made here


def _is_dataclass(made: type) -> bool:
    return hasattr(made, "__dataclass_fields__")


def _of_dataclass(made: Any, hints: dict[str, Any]) -> Iterator[Field]:
    import dataclasses

    if lost := [name for name, hint in hints.items() if isinstance(hint, dataclasses.InitVar)]:
        raise InvalidRequest(f"{made.__name__}.{lost[0]}: an InitVar is no field; make it one, or use another class")
    for field in dataclasses.fields(made):
        if field.init:
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            told = field.metadata.get("description") or getattr(field, "doc", None)
            yield Field(name=field.name, key=field.name, hint=hints[field.name], required=required, description=told)


def _is_named_tuple(made: type) -> bool:
    return hasattr(made, "_field_defaults") and issubclass(made, tuple)


def _of_named_tuple(made: Any, hints: dict[str, Any]) -> Iterator[Field]:
    for name in made._fields:
        yield Field(name=name, key=name, hint=hints.get(name, Any), required=name not in made._field_defaults)


_KINDS: tuple[tuple[Callable[[type], bool], Callable[[Any, dict[str, Any]], Iterator[Field]]], ...] = (
    (_is_typed_dict, _of_typed_dict),
    (_is_struct, _of_struct),
    (_is_dataclass, _of_dataclass),
    (_is_named_tuple, _of_named_tuple),
)
