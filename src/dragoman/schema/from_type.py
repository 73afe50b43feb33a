"""A Python type or function in, its JSON Schema out: what the annotations say, in JSON's words."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from itertools import count
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.schema.traverse import as_list, json_type, reachable, subschemas
from dragoman.schema.type_hints import (
    Field,
    alias_target,
    choice_value,
    choices_of,
    fields_of,
    is_alias,
    is_enum,
    is_pydantic,
    name_of,
    parameters,
    qualified_name,
    unwrap_hint,
)
from dragoman.types import JsonObject, is_list, is_object

_HOME = "#/$defs/"
_LEAVES: Mapping[str, JsonObject] = {
    "builtins.str": {"type": "string"},
    "builtins.int": {"type": "integer"},
    "builtins.float": {"type": "number"},
    "builtins.bool": {"type": "boolean"},
    "builtins.NoneType": {"type": "null"},
    "datetime.datetime": {"type": "string", "format": "date-time"},
    "datetime.date": {"type": "string", "format": "date"},
    "datetime.time": {"type": "string", "format": "time"},
    "datetime.timedelta": {"type": "string", "format": "duration"},
    "uuid.UUID": {"type": "string", "format": "uuid"},
    # As text: a number would be read as a float, which has lost digits by then.
    "decimal.Decimal": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"},
}
_LISTS = frozenset(
    "builtins.list builtins.set builtins.frozenset collections.deque collections.abc.Sequence collections.abc.Iterable "
    "collections.abc.MutableSequence collections.abc.Collection collections.abc.Set collections.abc.MutableSet".split()
)
_MAPS = frozenset(
    "builtins.dict collections.OrderedDict collections.defaultdict collections.abc.Mapping "
    "collections.abc.MutableMapping".split()
)
_EMPTY_TUPLE: JsonObject = {"type": "array", "items": {"type": "null"}, "maxItems": 0}
_BYTES = frozenset({"builtins.bytes", "builtins.bytearray", "builtins.memoryview"})
_WORDS: Mapping[str, tuple[str, type | UnionType]] = {
    "ge": ("minimum", int | float),
    "gt": ("exclusiveMinimum", int | float),
    "le": ("maximum", int | float),
    "lt": ("exclusiveMaximum", int | float),
    "multiple_of": ("multipleOf", int | float),
    "pattern": ("pattern", str),
    "examples": ("examples", list),
    "description": ("description", str),
    "documentation": ("description", str),
}
"""What metadata may tell, and in which form: msgspec's Meta, pydantic's Field, annotated_types, Doc, re.Pattern."""
_CHOSEN = frozenset({"string", "boolean", "integer", "number", "null"})
_SIZES = {"string": "Length", "array": "Items", "object": "Properties"}


def schema_from_type(hint: Any, /) -> JsonObject:
    """The JSON Schema of a type, as the type itself has it: what has a default is not required.

    >>> schema_from_type(list[int | None])
    {'type': 'array', 'items': {'type': ['integer', 'null']}}
    """
    outliner = _Outliner()
    return outliner.finish(outliner.schema_from_type(hint))


def parameters_schema(
    function: Callable[..., Any],
    /,
    *,
    skip: Collection[str] = (),
    descriptions: Mapping[str, str] | None = None,
) -> JsonObject:
    """The JSON Schema of a function's arguments, as an object; what has a default is not required.

    >>> def tide(port: str, days: int = 1) -> str: ...
    >>> parameters_schema(tide, descriptions={"port": "The harbour"})["properties"]
    {'port': {'type': 'string', 'description': 'The harbour'}, 'days': {'type': 'integer', 'default': 1}}
    """
    outliner, told = _Outliner(), descriptions or {}
    fields = [
        msgspec.structs.replace(field, description=told.get(field.name)) for field in parameters(function, skip=skip)
    ]
    return outliner.finish({**outliner.object(fields), "additionalProperties": False})


class _Outliner:
    """One run: what was defined so far, each named type once."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, str], str] = {}
        self._defined: dict[str, JsonObject] = {}

    def finish(self, root: JsonObject) -> JsonObject:
        """The root with its definitions: those that are used once stand in their place."""
        homes = {_HOME + name: schema for name, schema in self._defined.items()}
        nodes = [node for schema in (root, *homes.values()) for node, _ in subschemas(schema)]
        used = Counter(str(node["$ref"]) for node in nodes if "$ref" in node)
        circular = {home for home, schema in homes.items() if home in reachable(schema, homes)}
        inlined = {home.removeprefix(_HOME) for home in homes if used[home] == 1 and home not in circular}
        whole = self._placed(root, inlined)
        kept = {name: self._placed(self._defined[name], inlined) for name in self._defined if name not in inlined}
        if whole.keys() == {"$ref"}:
            whole = kept[whole["$ref"].removeprefix(_HOME)]
        return {**whole, "$defs": kept} if kept else whole

    def _placed(self, schema: Any, inlined: set[str]) -> Any:
        if is_list(schema):
            return [self._placed(item, inlined) for item in schema]
        if not is_object(schema):
            return schema
        name = schema["$ref"].removeprefix(_HOME) if isinstance(schema.get("$ref"), str) else None
        if name in inlined:
            return {
                **self._placed(self._defined[name], inlined),
                **{key: schema[key] for key in schema if key != "$ref"},
            }
        return {key: self._placed(value, inlined) for key, value in schema.items()}

    # Types ------------------------------------------------------------------------------------------------------------

    def schema_from_type(self, hint: Any) -> JsonObject:
        kind, metadata = unwrap_hint(hint)
        schema = self._kind(kind)
        for item in metadata:
            schema = {**schema, **_told(item, schema)}
        return schema

    def _kind(self, kind: Any) -> JsonObject:
        if kind is Any or kind is object:
            return {}
        if kind is None:
            return {"type": "null"}
        if is_alias(kind) or is_pydantic(kind) or is_enum(kind):
            return self._named(kind)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Literal:
            return _choice(arguments, kind)
        if origin in (Union, UnionType):
            return _any_of([self.schema_from_type(arm) for arm in arguments])
        made = qualified_name(origin or kind)
        if made in _LEAVES:
            return dict(_LEAVES[made])
        if made == "builtins.tuple" and not hasattr(kind, "_fields"):
            return _EMPTY_TUPLE if kind == tuple[()] else self._tuple(arguments)
        if made in _LISTS:
            # Nothing is said of a set's items being unique: what comes twice is in it once.
            return {"type": "array", "items": self.schema_from_type(arguments[0]) if arguments else {}}
        if made in _MAPS:
            return self._map(arguments or (str, Any))
        if fields_of(kind) is not None:
            return self._named(kind)
        raise _refused(kind)

    def _named(self, kind: Any) -> JsonObject:
        """A reference to a type that is defined once."""
        key = id(get_origin(kind) or kind), repr(kind)  # metadata may not be hashable
        if key not in self._names:
            wanted = "".join(letter if letter.isalnum() else "_" for letter in name_of(kind)).strip("_")
            taken = {*self._names.values(), *self._defined}
            names = (wanted if number == 1 else f"{wanted}_{number}" for number in count(1))
            name = next(name for name in names if name not in taken)
            self._names[key] = name
            self._defined[name] = self._definition(kind, name)
        return {"$ref": _HOME + self._names[key]}

    def _definition(self, kind: Any, name: str) -> JsonObject:
        if is_alias(kind):
            return self.schema_from_type(alias_target(kind))
        if is_enum(kind):
            return {**_choice(tuple(kind), kind), **_documented(kind)}
        if is_pydantic(kind):
            return self._of_pydantic(kind, name)
        return {**self.object(fields_of(kind) or ()), **_documented(get_origin(kind) or kind)}

    def object(self, fields: Collection[Field]) -> JsonObject:
        """An object of these fields."""
        properties: JsonObject = {}
        for field in fields:
            schema = self.schema_from_type(field.hint)
            if field.description:
                schema = {**schema, "description": field.description}
            if isinstance(field.default, str | int | float):
                schema = {**schema, "default": field.default}
            properties[field.key] = schema
        return {
            "type": "object",
            "properties": properties,
            "required": [field.key for field in fields if field.required],
        }

    def _tuple(self, arguments: tuple[Any, ...]) -> JsonObject:
        if not arguments:
            return {"type": "array", "items": {}}
        if arguments[-1] is Ellipsis:
            return {"type": "array", "items": self.schema_from_type(arguments[0])}
        items = [self.schema_from_type(argument) for argument in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    def _map(self, arguments: tuple[Any, ...]) -> JsonObject:
        keys, values = schema_from_type(_plain_key(arguments[0])), self.schema_from_type(arguments[1])
        if not {*as_list(keys.get("type", "string"))} <= _CHOSEN:
            raise InvalidRequest(f"dict[{name_of(arguments[0])}, …]: a key is text, a number or a choice of these")
        named = {"propertyNames": keys} if keys.get("type") == "string" and len(keys) > 1 else {}
        return {"type": "object", "additionalProperties": values, **named}

    def _of_pydantic(self, kind: Any, own: str) -> JsonObject:
        """Pydantic's own schema; its definitions become ours."""
        from pydantic import PydanticUserError, TypeAdapter

        before = ""
        try:
            schema = TypeAdapter(kind).json_schema(ref_template=_HOME + "{model}")
            if schema.get("$defs", {}).keys() & ({*self._names.values(), *self._defined} - {own}):
                before = f"{own}."
                schema = TypeAdapter(kind).json_schema(ref_template=_HOME + before + "{model}")
        except PydanticUserError as error:
            raise InvalidRequest(f"{name_of(kind)}: {str(error).splitlines()[0]}") from error
        for node, _ in subschemas(schema):
            node.pop("uniqueItems", None)
            if node.get("format") == "binary":
                raise _refused(bytes)
        known = {before + name: defined for name, defined in schema.pop("$defs", {}).items()}
        recursive = known.pop(own, None)
        self._defined |= known
        return recursive or schema


def _choice(values: tuple[Any, ...], kind: Any) -> JsonObject:
    plain = [choice_value(value) for value in values]
    if not plain:
        raise InvalidRequest(f"{name_of(kind)}: there is nothing to choose from")
    types = [*dict.fromkeys(map(json_type, plain))]
    if not set(types) <= _CHOSEN:
        raise InvalidRequest(f"{name_of(kind)}: a choice is made of text, numbers, booleans and None")
    said: JsonObject = {"type": types[0] if len(types) == 1 else types}
    return {**said, "const": plain[0]} if len(plain) == 1 else {**said, "enum": plain}


def _plain_key(hint: Any) -> Any:
    """The hint of a key: JSON has only text, so a choice is one of texts."""
    kind = unwrap_hint(hint)[0]
    if kind is int:
        return Annotated[str, msgspec.Meta(pattern="^-?[0-9]+$")]
    choices = choices_of(kind)
    return hint if choices is None else Literal[tuple(str(choice_value(choice)) for choice in choices)]


def _any_of(arms: list[JsonObject]) -> JsonObject:
    rest = [arm for arm in arms if arm != {"type": "null"}]
    lone = rest[0] if len(rest) == 1 < len(arms) else {}
    if isinstance(kind := lone.get("type"), str) and not lone.keys() & {"const", "enum"}:
        return {**lone, "type": [kind, "null"]}
    return {"anyOf": arms}


def _told(item: Any, schema: JsonObject) -> JsonObject:
    """What one piece of metadata says."""
    if isinstance(item, str):
        return {"description": item}
    told: JsonObject = {}
    inner = getattr(item, "metadata", None)
    for one in inner if is_list(inner) else ():
        told |= _told(one, schema)
    for word, (keyword, form) in _WORDS.items():
        if isinstance(value := getattr(item, word, None), form):
            told[keyword] = value
    kinds = as_list(schema.get("type", "string"))
    size = next((_SIZES[kind] for kind in kinds if kind in _SIZES), "Length")
    for word, least in (("min_length", "min"), ("max_length", "max")):
        if isinstance(value := getattr(item, word, None), int):
            told[least + size] = value
    more = getattr(item, "extra_json_schema", None)
    return {**told, **more} if is_object(more) else told


def _documented(made: type) -> JsonObject:
    """The first paragraph of a class's own words; those that are made by machines say nothing."""
    words = made.__dict__.get("__doc__") or ""
    if not words.strip() or words.startswith(f"{made.__name__}("):
        return {}
    return {"description": " ".join(words.strip().partition("\n\n")[0].split())}


def _refused(kind: Any) -> InvalidRequest:
    if qualified_name(kind) in _BYTES:
        return InvalidRequest(f"{name_of(kind)}: bytes are no JSON; use str, and base64 in it")
    return InvalidRequest(f"{name_of(kind)}: no JSON Schema is known of it; use a dataclass, a TypedDict or a model")
