"""Streams that are left, taken up again, closed and broken: what a user's loop sees, blocking and async."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from typing import Any

import pytest

from dragoman import Agent, Interrupted, InvalidRequest, Registry, Response
from dragoman.streaming import AsyncClosableStream, ClosableStream
from dragoman.testing import Scripted


def model() -> Any:
    return Registry(env={}).model("demo/any")


def pieces(items: list[Any]) -> list[Any]:
    """All but the response, which tells how long it took."""
    assert isinstance(items[-1], Response)
    return items[:-1]


WHOLE = pieces(list(model().stream("hello")))


# ── inside of with ──────────────────────────────────────────────────────────


def test_a_peek_inside_of_with_loses_nothing() -> None:
    with model().stream("hello") as stream:
        first = next(iter(stream))
        rest = list(stream)
    assert pieces([first, *rest]) == WHOLE
    assert rest[-1] is stream.response


def test_a_loop_that_is_left_inside_of_with_continues() -> None:
    with model().stream("hello there, friend", reasoning="low") as stream:
        seen: list[Any] = []
        for item in stream:
            seen.append(item)
            if len(seen) == 2:
                break
        seen += stream
    assert pieces(seen) == pieces(list(model().stream("hello there, friend", reasoning="low")))


def test_events_continue() -> None:
    with model().stream("hello") as stream:
        events = [next(stream.events()), *stream.events()]
    assert events == list(model().stream("hello").events())


def test_an_async_loop_that_is_left_inside_of_with_continues() -> None:
    async def work() -> list[Any]:
        async with model().astream("hello") as stream:
            first = await anext(aiter(stream))
            await asyncio.sleep(0)  # a generator that was dropped is closed by now
            await asyncio.sleep(0)
            return [first, *[item async for item in stream]]

    assert pieces(asyncio.run(work())) == WHOLE


def test_a_typed_stream_continues() -> None:
    def ask() -> Any:
        return Scripted('{"value": ["ships", "harbours", "tides"]}').model().stream_extract(list[str], "Which?")

    with ask() as stream:
        values = [next(iter(stream)), *stream]
    assert values == list(ask())
    assert values[-1] == ["ships", "harbours", "tides"]


def test_the_stream_of_an_agent_continues() -> None:
    with Agent(model()).stream("hello") as stream:
        kinds = [type(next(iter(stream))).__name__, *(type(item).__name__ for item in stream)]
    assert (kinds[0], kinds[1], kinds[-1]) == ("StepStarted", "TextDelta", "Result")


# ── without with ────────────────────────────────────────────────────────────


def test_without_with_leaving_the_loop_ends_the_stream() -> None:
    stream = model().stream("hello")
    for _ in stream:
        break
    with pytest.raises(InvalidRequest, match="in a `with` block"):
        list(stream)


def test_without_with_leaving_an_async_loop_ends_the_stream() -> None:
    async def work() -> None:
        stream = model().astream("hello")
        items: AsyncIterator[Any] = aiter(stream)
        await anext(items)
        await items.aclose()  # type: ignore[attr-defined]  # it is a generator
        with pytest.raises(InvalidRequest, match="the stream is closed"):
            [item async for item in stream]

    asyncio.run(work())


def test_a_stream_that_was_read_keeps_its_response() -> None:
    stream = model().stream("hello")
    list(stream)
    assert list(stream) == [stream.response]
    assert list(stream.events()) == []


# ── over ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("begun", [False, True])
def test_a_closed_stream_raises(begun: bool) -> None:  # noqa: FBT001
    with model().stream("hello") as stream:
        if begun:
            next(iter(stream))
        stream.close()
        with pytest.raises(InvalidRequest, match="the stream is closed"):
            list(stream)
        with pytest.raises(InvalidRequest, match="the stream is closed"):
            list(stream.events())


def test_a_closed_async_stream_raises() -> None:
    async def work() -> None:
        async with model().astream("hello") as stream:
            await stream.aclose()
            with pytest.raises(InvalidRequest, match="the stream is closed"):
                [item async for item in stream]
            with pytest.raises(InvalidRequest, match="the stream is closed"):
                [event async for event in stream.events()]

    asyncio.run(work())


def test_a_stream_that_broke_raises_again() -> None:
    with Registry(env={}).model("demo/cut").stream("Well?") as stream:
        with pytest.raises(Interrupted):
            list(stream)
        with pytest.raises(InvalidRequest, match="the stream is closed"):
            list(stream)
    assert stream.response is None


def test_closing_from_another_thread_is_refused() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def events() -> Generator[str, None, None]:
        inside.set()
        go_on.wait(10)
        yield "an event"

    stream = ClosableStream(given := events())
    reader = threading.Thread(target=next, args=(given,))
    reader.start()
    assert inside.wait(10)
    try:
        with pytest.raises(InvalidRequest, match="another thread is reading"):
            stream.close()
    finally:
        go_on.set()
        reader.join()


def test_closing_from_another_task_is_refused() -> None:
    async def work() -> None:
        inside, go_on = asyncio.Event(), asyncio.Event()

        async def events() -> AsyncGenerator[str, None]:
            inside.set()
            await go_on.wait()
            yield "an event"

        stream = AsyncClosableStream(given := events(), [])
        reading = asyncio.ensure_future(anext(given))
        await inside.wait()
        with pytest.raises(InvalidRequest, match="cancel that task"):
            await stream.aclose()
        go_on.set()
        await reading
        await stream.aclose()

    asyncio.run(work())
