"""Makes the JSON Schema of a Python type, or of the parameters of a function.

Named types become definitions. A definition that is used once is put in its place at the end; a recursive one, or one
that is used more often, stays in `$defs`.
"""

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

_DEFS = "#/$defs/"
_SIMPLE_TYPES: Mapping[str, JsonObject] = {
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
    # As text, because a JSON number is read as a float and loses digits.
    "decimal.Decimal": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"},
}
_LIST_TYPES = frozenset(
    "builtins.list builtins.set builtins.frozenset collections.deque collections.abc.Sequence collections.abc.Iterable "
    "collections.abc.MutableSequence collections.abc.Collection collections.abc.Set collections.abc.MutableSet".split()
)
_MAP_TYPES = frozenset(
    "builtins.dict collections.OrderedDict collections.defaultdict collections.abc.Mapping "
    "collections.abc.MutableMapping".split()
)
_EMPTY_TUPLE: JsonObject = {"type": "array", "items": {"type": "null"}, "maxItems": 0}
_BYTES = frozenset({"builtins.bytes", "builtins.bytearray", "builtins.memoryview"})
_METADATA: Mapping[str, tuple[str, type | UnionType]] = {
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
"""Keywords and types by attribute of metadata: msgspec's Meta, pydantic's Field, annotated_types, Doc, re.Pattern."""
_CHOICE_TYPES = frozenset({"string", "boolean", "integer", "number", "null"})
_SIZES = {"string": "Length", "array": "Items", "object": "Properties"}


def schema_from_type(hint: Any, /) -> JsonObject:
    """The JSON Schema of a type; a field with a default is not required.

    >>> schema_from_type(list[int | None])
    {'type': 'array', 'items': {'type': ['integer', 'null']}}
    """
    builder = _SchemaBuilder()
    return builder.finish(builder.schema_of(hint))


def parameters_schema(
    function: Callable[..., Any],
    /,
    *,
    skip: Collection[str] = (),
    descriptions: Mapping[str, str] | None = None,
) -> JsonObject:
    """The JSON Schema of the arguments of a function, as an object; a parameter with a default is not required.

    >>> def tide(port: str, days: int = 1) -> str: ...
    >>> parameters_schema(tide, descriptions={"port": "The harbour"})["properties"]
    {'port': {'type': 'string', 'description': 'The harbour'}, 'days': {'type': 'integer', 'default': 1}}
    """
    builder, texts = _SchemaBuilder(), descriptions or {}
    fields = [
        msgspec.structs.replace(field, description=texts.get(field.name)) for field in parameters(function, skip=skip)
    ]
    return builder.finish({**builder.object_of(fields), "additionalProperties": False})


class _SchemaBuilder:
    """One run, with the definitions so far."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, str], str] = {}
        self._defined: dict[str, JsonObject] = {}

    def finish(self, root: JsonObject) -> JsonObject:
        """The root with its definitions; those that are used once are inlined."""
        defined = {_DEFS + name: schema for name, schema in self._defined.items()}
        nodes = [node for schema in (root, *defined.values()) for node, _ in subschemas(schema)]
        used = Counter(str(node["$ref"]) for node in nodes if "$ref" in node)
        recursive = {pointer for pointer, schema in defined.items() if pointer in reachable(schema, defined)}
        inlined = {
            pointer.removeprefix(_DEFS) for pointer in defined if used[pointer] == 1 and pointer not in recursive
        }
        schema = self._inline(root, inlined)
        rest = {name: self._inline(self._defined[name], inlined) for name in self._defined if name not in inlined}
        if schema.keys() == {"$ref"}:
            schema = rest[schema["$ref"].removeprefix(_DEFS)]
        return {**schema, "$defs": rest} if rest else schema

    def _inline(self, schema: Any, inlined: set[str]) -> Any:
        if is_list(schema):
            return [self._inline(item, inlined) for item in schema]
        if not is_object(schema):
            return schema
        name = schema["$ref"].removeprefix(_DEFS) if isinstance(schema.get("$ref"), str) else None
        if name in inlined:
            return {
                **self._inline(self._defined[name], inlined),
                **{key: schema[key] for key in schema if key != "$ref"},
            }
        return {key: self._inline(value, inlined) for key, value in schema.items()}

    # Types ------------------------------------------------------------------------------------------------------------

    def schema_of(self, hint: Any) -> JsonObject:
        kind, metadata = unwrap_hint(hint)
        schema = self._kind(kind)
        for item in metadata:
            schema = {**schema, **_metadata_keywords(item, schema)}
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
            return _any_of([self.schema_of(arm) for arm in arguments])
        name = qualified_name(origin or kind)
        if name in _SIMPLE_TYPES:
            return dict(_SIMPLE_TYPES[name])
        if name == "builtins.tuple" and not hasattr(kind, "_fields"):
            return _EMPTY_TUPLE if kind == tuple[()] else self._tuple(arguments)
        if name in _LIST_TYPES:
            # No uniqueItems for a set: a duplicate does no harm.
            return {"type": "array", "items": self.schema_of(arguments[0]) if arguments else {}}
        if name in _MAP_TYPES:
            return self._map(arguments or (str, Any))
        if fields_of(kind) is not None:
            return self._named(kind)
        raise _unsupported(kind)

    def _named(self, kind: Any) -> JsonObject:
        """A reference to the definition of a type, which is made once."""
        key = id(get_origin(kind) or kind), repr(kind)  # metadata may not be hashable
        if key not in self._names:
            base = "".join(letter if letter.isalnum() else "_" for letter in name_of(kind)).strip("_")
            used = {*self._names.values(), *self._defined}
            names = (base if number == 1 else f"{base}_{number}" for number in count(1))
            name = next(name for name in names if name not in used)
            self._names[key] = name
            self._defined[name] = self._definition(kind, name)
        return {"$ref": _DEFS + self._names[key]}

    def _definition(self, kind: Any, name: str) -> JsonObject:
        if is_alias(kind):
            return self.schema_of(alias_target(kind))
        if is_enum(kind):
            return {**_choice(tuple(kind), kind), **_docstring(kind)}
        if is_pydantic(kind):
            return self._of_pydantic(kind, name)
        return {**self.object_of(fields_of(kind) or ()), **_docstring(get_origin(kind) or kind)}

    def object_of(self, fields: Collection[Field]) -> JsonObject:
        properties: JsonObject = {}
        for field in fields:
            schema = self.schema_of(field.hint)
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
            return {"type": "array", "items": self.schema_of(arguments[0])}
        items = [self.schema_of(argument) for argument in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    def _map(self, arguments: tuple[Any, ...]) -> JsonObject:
        keys, values = schema_from_type(_plain_key(arguments[0])), self.schema_of(arguments[1])
        if not {*as_list(keys.get("type", "string"))} <= _CHOICE_TYPES:
            raise InvalidRequest(
                f"dict[{name_of(arguments[0])}, …]: a key must be a str, a number or a Literal of these"
            )
        names = {"propertyNames": keys} if keys.get("type") == "string" and len(keys) > 1 else {}
        return {"type": "object", "additionalProperties": values, **names}

    def _of_pydantic(self, kind: Any, own: str) -> JsonObject:
        """The schema that pydantic makes; its definitions join the others."""
        from pydantic import PydanticUserError, TypeAdapter

        prefix = ""
        try:
            schema = TypeAdapter(kind).json_schema(ref_template=_DEFS + "{model}")
            if schema.get("$defs", {}).keys() & ({*self._names.values(), *self._defined} - {own}):
                prefix = f"{own}."
                schema = TypeAdapter(kind).json_schema(ref_template=_DEFS + prefix + "{model}")
        except PydanticUserError as error:
            raise InvalidRequest(f"{name_of(kind)}: {str(error).splitlines()[0]}") from error
        for node, _ in subschemas(schema):
            node.pop("uniqueItems", None)
            if node.get("format") == "binary":
                raise _unsupported(bytes)
        known = {prefix + name: defined for name, defined in schema.pop("$defs", {}).items()}
        recursive = known.pop(own, None)
        self._defined |= known
        return recursive or schema


def _choice(values: tuple[Any, ...], kind: Any) -> JsonObject:
    plain = [choice_value(value) for value in values]
    if not plain:
        raise InvalidRequest(f"{name_of(kind)} must have at least one value")
    types = [*dict.fromkeys(map(json_type, plain))]
    if not set(types) <= _CHOICE_TYPES:
        raise InvalidRequest(f"{name_of(kind)}: values must be str, numbers, bool or None")
    schema: JsonObject = {"type": types[0] if len(types) == 1 else types}
    return {**schema, "const": plain[0]} if len(plain) == 1 else {**schema, "enum": plain}


def _plain_key(hint: Any) -> Any:
    """The hint of a key; keys of JSON are text, so other values become text."""
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


def _metadata_keywords(item: Any, schema: JsonObject) -> JsonObject:
    """The keywords of one item of metadata."""
    if isinstance(item, str):
        return {"description": item}
    keywords: JsonObject = {}
    inner = getattr(item, "metadata", None)
    for one in inner if is_list(inner) else ():
        keywords |= _metadata_keywords(one, schema)
    for attribute, (keyword, kind) in _METADATA.items():
        if isinstance(value := getattr(item, attribute, None), kind):
            keywords[keyword] = value
    types = as_list(schema.get("type", "string"))
    size = next((_SIZES[one] for one in types if one in _SIZES), "Length")
    for attribute, prefix in (("min_length", "min"), ("max_length", "max")):
        if isinstance(value := getattr(item, attribute, None), int):
            keywords[prefix + size] = value
    more = getattr(item, "extra_json_schema", None)
    return {**keywords, **more} if is_object(more) else keywords


def _docstring(cls: type) -> JsonObject:
    """The first paragraph of a class's docstring; generated docstrings are left out."""
    text = cls.__dict__.get("__doc__") or ""
    if not text.strip() or text.startswith(f"{cls.__name__}("):
        return {}
    return {"description": " ".join(text.strip().partition("\n\n")[0].split())}


def _unsupported(kind: Any) -> InvalidRequest:
    if qualified_name(kind) in _BYTES:
        return InvalidRequest(f"type must have a JSON Schema, got {name_of(kind)}; use str with base64")
    return InvalidRequest(
        f"type must have a JSON Schema, got {name_of(kind)}; use a dataclass, a TypedDict or a pydantic model"
    )
