"""The bases of the structs that users make: wrong names and wrong values of parameters are errors of dragoman."""

from typing import Any

import msgspec

from dragoman.errors import SetupError
from dragoman.types.base import JsonObject, to_plain
from dragoman.types.fields import check_struct
from dragoman.types.parameters import NamedParameters


class CheckedStruct(msgspec.Struct, metaclass=NamedParameters, frozen=True):
    """A frozen struct whose fields are checked by their annotations; a wrong value is an InvalidRequest."""

    def __post_init__(self) -> None:
        check_struct(self)


class SetupStruct(CheckedStruct, frozen=True):
    """A struct of the set-up: a wrong value is a SetupError."""

    def __post_init__(self) -> None:
        check_struct(self, SetupError)


class Value(CheckedStruct, frozen=True, omit_defaults=True):
    """A value of the vocabulary. It can be a field of pydantic models."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object, /) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else msgspec.convert(value, cls),
            serialization=core_schema.plain_serializer_function_ser_schema(to_plain),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: object, handler: object, /) -> JsonObject:
        return {"type": "object", "title": cls.__name__}
