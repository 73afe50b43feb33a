"""A traceback shows the caller's line and one of ours, the last error of a provider as its cause, and no internals."""

import asyncio
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman import Agent, ChainExhausted, DragomanError, Registry, errors
from dragoman.testing import refused_url

FAST: Any = {"retries": 0}


def model() -> dragoman.Model:
    registry = Registry(env={})
    registry.alias("one", "demo/ratelimited")
    registry.add_provider(name="second", like="demo")
    return registry.model("one, second/ratelimited", **FAST)


def counting() -> dragoman.Model:
    """A model whose provider counts tokens, and is not there."""
    registry = Registry(env={})
    registry.add_provider(name="away", like="anthropic", base_url=refused_url(), api_key="k")
    return registry.model("away/m", **FAST)


async def aread(stream: Any) -> None:
    async for _ in stream:
        continue


CALLS: dict[str, Callable[[dragoman.Model], object]] = {
    "generate": lambda model: model.generate("hi"),
    "extract": lambda model: model.extract(bool, "hi"),
    "stream": lambda model: list(model.stream("hi")),
    "events": lambda model: list(model.stream("hi").events()),
    "text_deltas": lambda model: list(model.stream("hi").text_deltas()),
    "stream_extract": lambda model: list(model.stream_extract(bool, "hi")),
    "count_tokens": lambda _: counting().count_tokens("hi"),
    "agent": lambda model: Agent(model).run("hi"),
    "agent stream": lambda model: list(Agent(model).stream("hi")),
    "an invalid option": lambda model: model.generate("hi", temprature=1),  # type: ignore[call-overload]
}
ASYNC_CALLS: dict[str, Callable[[dragoman.Model], Any]] = {
    "agenerate": lambda model: model.agenerate("hi"),
    "aextract": lambda model: model.aextract(bool, "hi"),
    "acount_tokens": lambda _: counting().acount_tokens("hi"),
    "aembed": lambda model: model.aembed("hi", dimensions=-1),
    "agent": lambda model: Agent(model).arun("hi"),
}
ASYNC_STREAMS: dict[str, Callable[[dragoman.Model], Any]] = {
    "astream": lambda model: model.astream("hi"),
    "events": lambda model: model.astream("hi").events(),
    "text_deltas": lambda model: model.astream("hi").text_deltas(),
    "astream_extract": lambda model: model.astream_extract(bool, "hi"),
    "agent stream": lambda model: Agent(model).astream("hi"),
}
FUNCTIONS: dict[str, Callable[[], object]] = {
    "generate": lambda: dragoman.generate("demo/ratelimited", "hi", **FAST),
    "extract": lambda: dragoman.extract("demo/ratelimited", bool, "hi", **FAST),
    "stream": lambda: list(dragoman.stream("demo/ratelimited", "hi", **FAST)),
    "count_tokens": lambda: dragoman.count_tokens("nobody/m", "hi"),
    "an unknown provider": lambda: dragoman.generate("nobody/m", "hi"),
    "an unknown option of a model": lambda: dragoman.model("demo/any", temprature=1),  # type: ignore[call-arg]
    "a wrong option of a model": lambda: Registry(env={}).model("demo/any", retries=-1),
    "an agent": lambda: Agent("demo/any", tools=[3]),  # type: ignore[list-item]
    "an environment": lambda: Registry(env=3),  # type: ignore[arg-type]
    "an alias": lambda: Registry(env={}).alias("a b", 3),  # type: ignore[arg-type]
    "a record": lambda: Registry(env={}).add_provider(name="x", like="nobody"),
    "a message": lambda: dragoman.user(3),  # type: ignore[arg-type]
    "a tool": lambda: dragoman.tool(3),  # type: ignore[call-overload]
    "a file": lambda: dragoman.Image.from_path("/nowhere.png"),
}


def own_frames(error: BaseException) -> list[str]:
    """The frames of the package in a traceback."""
    package = str(Path(dragoman.__file__).parent)
    return [frame.name for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(package)]


def caught(call: Callable[[], object]) -> DragomanError:
    with pytest.raises(DragomanError) as error:
        call()
    return error.value


def check(error: DragomanError) -> None:
    assert len(own_frames(error)) == 1
    cause = error.__cause__ or error.__context__
    while cause is not None:
        assert own_frames(cause) == []
        cause = cause.__cause__ or cause.__context__


@pytest.mark.parametrize("name", CALLS)
def test_one_frame_of_ours_is_shown(name: str) -> None:
    check(caught(lambda: CALLS[name](model())))


@pytest.mark.parametrize("name", ASYNC_CALLS)
def test_one_frame_of_ours_is_shown_by_async_calls(name: str) -> None:
    async def main() -> None:
        await ASYNC_CALLS[name](model())

    check(caught(lambda: asyncio.run(main())))


@pytest.mark.parametrize("name", ASYNC_STREAMS)
def test_one_frame_of_ours_is_shown_by_async_streams(name: str) -> None:
    check(caught(lambda: asyncio.run(aread(ASYNC_STREAMS[name](model())))))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_frame_of_ours_is_shown_by_functions(name: str) -> None:
    check(caught(FUNCTIONS[name]))


def test_a_chain_that_failed_for_one_reason_is_an_error_of_that_class() -> None:
    with pytest.raises(errors.RateLimited) as caught:
        model().generate("hi")
    error = caught.value
    assert isinstance(error, ChainExhausted)
    assert isinstance(error.__cause__, errors.RateLimited)
    assert (error.__cause__.provider, error.__cause__.model) == ("second", "ratelimited")
    text = "".join(traceback.format_exception(error))
    assert text.count("File ") == 2
    assert "dragoman.errors.RateLimited: no target answered: demo/ratelimited failed" in text


def test_the_reason_of_a_connection_that_failed_is_shown_without_its_frames() -> None:
    registry = Registry(env={})
    registry.add_provider(name="gone", like="vllm", base_url=refused_url())
    error = caught(lambda: registry.model("gone/m", **FAST).generate("hi"))
    check(error)
    assert isinstance(error.__cause__, OSError)


def test_frames_of_the_users_own_functions_are_shown() -> None:
    def key_of_the_vault() -> str:
        raise RuntimeError("the vault is locked")

    registry = Registry(env={})
    registry.add_provider(name="locked", like="openai", base_url="http://127.0.0.1:9/v1", api_key=key_of_the_vault)
    error = caught(lambda: registry.model("locked/m", **FAST).generate("hi"))
    check(error)
    assert "in key_of_the_vault" in "".join(traceback.format_exception(error))


def test_an_unknown_option_is_the_only_error_that_is_shown() -> None:
    error = caught(lambda: CALLS["an invalid option"](model()))
    assert "another exception occurred" not in "".join(traceback.format_exception(error))
