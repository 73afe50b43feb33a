"""Never run: what type checkers see of typed output."""

from typing import Any, assert_type

import dragoman
from dragoman import AsyncTypedStream, Model, Parsed, Response, TypedStream
from tests.support.output_types import Bill, Circle, Port, Square


def blocking(model: Model) -> None:
    assert_type(model.extract(Port, "?"), Port)
    assert_type(model.extract(Bill, "?", temperature=0, max_repairs=2), Bill)
    assert_type(model.extract(list[Port], "?"), list[Port])
    assert_type(model.extract(int, "?"), int)
    shape: Circle | Square = model.extract(Circle | Square, "?")
    assert_type(shape, Circle | Square)
    assert_type(dragoman.extract("demo/any", Port, "?"), Port)
    assert_type(dragoman.generate("demo/any", "?", output=Port), Parsed[Port])
    assert_type(dragoman.generate("demo/any", "?"), Response)
    assert_type(dragoman.generate(model="demo/any", prompt="?"), Response)
    assert_type(dragoman.extract(model="demo/any", output_type=Port, prompt="?"), Port)
    assert_type(model.extract(output_type=Port, prompt="?"), Port)
    assert_type(model.generate("?"), Response)
    assert_type(model.generate("?", output=Port), Parsed[Port])
    assert_type(model.generate("?", output=Port).parsed, Port | None)
    assert_type(model.generate("?", output=Circle | Square, seed=1), Parsed[Any])
    assert_type(model.stream_extract(Port, "?"), TypedStream[Port])
    assert_type(model.stream_extract(Port, "?").parsed, Port | None)


async def awaiting(model: Model) -> None:
    assert_type(await model.aextract(Port, "?"), Port)
    assert_type(await model.agenerate("?"), Response)
    assert_type((await model.agenerate("?", output=Port)).parsed, Port | None)
    assert_type(model.astream_extract(Port, "?"), AsyncTypedStream[Port])
