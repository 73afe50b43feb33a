"""Typed output on llama.cpp's own server: a model that says anything is kept to the type by grammar, or by a tool."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

import annotated_types
import pytest

from dragoman import Registry
from tests.real.conftest import Server


@dataclass
class Hull:
    planks: Annotated[int, annotated_types.Interval(ge=1, le=99)]
    wood: Literal["oak", "pine"]


@dataclass
class Ship:
    """A ship."""

    masts: Annotated[int, annotated_types.Interval(ge=1, le=5)]
    ports: Annotated[list[Literal["Brest", "Cadiz"]], annotated_types.Len(2, 3)]
    hull: Hull
    size: tuple[Literal[1, 2], bool]
    afloat: bool = True
    boats: Annotated[list[Hull], annotated_types.MaxLen(2)] = field(default_factory=list[Hull])


@pytest.mark.parametrize("structured", [True, False], ids=["native", "tool"])
@pytest.mark.parametrize("way", ["llama-cpp", "chat"])
def test_every_answer_is_of_the_type(registry: Registry, server: Server, way: str, structured: bool) -> None:  # noqa: FBT001
    registry.set_capabilities(f"{way}/{server.name}", structured=structured)
    model = registry.model(f"{way}/{server.name}", max_tokens=1000, retries=1, timeout=30)
    for seed in range(5):
        assert isinstance(model.extract(Ship, "A ship!", seed=seed, max_repairs=0), Ship)


@pytest.mark.parametrize("way", ["llama-cpp", "chat"])
def test_a_stream_ends_in_the_type(registry: Registry, server: Server, way: str) -> None:
    model = registry.model(f"{way}/{server.name}", max_tokens=1000, retries=2, timeout=30)
    with model.stream_extract(Ship, "A ship!", seed=3, max_repairs=0) as stream:
        *grown, last = stream
    assert isinstance(last, Ship)
    assert len(grown) > 3


@pytest.mark.parametrize("way", ["responses", "messages"])
def test_a_tool_serves_where_a_schema_is_not_known(registry: Registry, server: Server, way: str) -> None:
    registry.set_capabilities(f"{way}/{server.name}", structured=False)
    model = registry.model(f"{way}/{server.name}", max_tokens=1000, retries=1, timeout=30)
    assert isinstance(model.extract(Ship, "A ship!", seed=1), Ship)
