"""Streams that are left, taken up again, closed and broken: what a user's loop sees, blocking and async."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dragoman import Agent, Interrupted, InvalidRequest, Overloaded, Registry, Reset, Response, ToolCall, ToolCallDelta
from dragoman.events import CallDelta, PartStarted, Restarted
from dragoman.streaming import ItemConverter
from dragoman.testing import FaultyServer, Scripted, StallAfter


def model() -> Any:
    return Registry(env={}).model("demo/any")


def pieces(items: list[Any]) -> list[Any]:
    """All but the response, which tells how long it took."""
    assert isinstance(items[-1], Response)
    return items[:-1]


WHOLE = pieces(list(model().stream("hello")))


def test_the_pieces_of_a_call_are_an_option() -> None:
    call = ToolCall(id="c1", name="write", arguments={"text": "long"})
    plain = list(Scripted(call).model().stream("hello"))
    assert [type(item) for item in plain] == [ToolCall, Response]
    pieces = list(Scripted(call).model().stream("hello", call_deltas=True))
    deltas = [item for item in pieces if isinstance(item, ToolCallDelta)]
    assert {(item.id, item.name) for item in deltas} == {("c1", "write")}
    assert "".join(item.text for item in deltas) == '{"text":"long"}'
    assert [type(item) for item in pieces[-2:]] == [ToolCall, Response]


def test_a_call_is_not_given_twice_if_a_stream_starts_again() -> None:
    converter = ItemConverter()
    assert converter.convert(PartStarted(index=0, kind="tool_call", id="c1", name="write")) is None
    assert converter.convert(CallDelta(index=0, text="{")) == ToolCallDelta("c1", "write", "{")
    converter.convert(Restarted(previous="a/m", target="b/m", why="Reset"))
    assert converter.convert(PartStarted(index=0, kind="tool_call")) is None


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


def test_text_deltas_are_the_pieces_of_text_alone() -> None:
    with model().stream("hello", reasoning="low") as stream:
        first = next(stream.text_deltas())
        rest = list(stream.text_deltas())
    assert stream.response is not None
    assert len(rest) > 1
    assert "".join([first, *rest]) == stream.response.text
    assert stream.response.thinking


def test_leaving_text_deltas_ends_a_stream_without_with() -> None:
    stream = model().stream("hello")
    for _ in stream.text_deltas():
        break
    with pytest.raises(InvalidRequest, match="the stream is closed"):
        list(stream.text_deltas())


def test_async_text_deltas() -> None:
    async def work() -> None:
        stream = model().astream("hello", reasoning="low")
        texts = [text async for text in stream.text_deltas()]
        assert "".join(texts) == stream.response.text
        async with model().astream("hello") as stream:
            first = await anext(aiter(stream.text_deltas()))
            rest = [text async for text in stream.text_deltas()]
        assert first + "".join(rest) == stream.response.text
        await (closed := model().astream("hello")).aclose()
        with pytest.raises(InvalidRequest, match="the stream is closed"):
            [text async for text in closed.text_deltas()]

    asyncio.run(work())


def test_text_deltas_of_an_agent() -> None:
    stream = Agent(model()).stream("hello")
    assert "".join(stream.text_deltas()) == stream.result.output

    async def work() -> None:
        async with Agent(model()).astream("hello") as stream:
            assert "".join([text async for text in stream.text_deltas()]) == stream.result.output

    asyncio.run(work())


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


def test_closing_a_stream_stops_the_thread_that_reads_it() -> None:
    with FaultyServer(StallAfter(0)) as server:
        stream = server.model().stream("hi")
        timer = threading.Timer(0.05, stream.close)
        timer.start()
        with pytest.raises(Reset, match="the stream was closed while it was read") as caught:
            list(stream)
        timer.join()
        assert server.client_disconnected.acquire(timeout=10)
    assert [caught.value.retry, caught.value.fail_over] == [False, False]
    with pytest.raises(InvalidRequest, match="the stream is closed"):
        list(stream)


def test_closing_a_stream_stops_the_wait_before_a_retry() -> None:
    with FaultyServer(Overloaded("busy", retry_after=30.0)) as server:
        stream = server.model(max_retry_after_with_fallback=60.0).stream("hi")
        timer = threading.Timer(0.2, stream.close)
        timer.start()
        began = time.monotonic()
        with pytest.raises(Reset, match="closed while it was read"):
            list(stream)
        timer.join()
    assert time.monotonic() - began < 10


def test_closing_an_agent_stops_the_wait_for_its_tools() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        """Take long."""
        inside.set()
        go_on.wait(10)
        return "late"

    def close() -> None:
        inside.wait(10)
        stream.close()

    with FaultyServer(ToolCall(id="call_1", name="slow")) as server:
        stream = Agent(server.model(), tools=[slow]).stream("hi")
        closer = threading.Thread(target=close)
        closer.start()
        with pytest.raises(Reset, match="closed while it was read"):
            list(stream)
        closer.join()
    go_on.set()


def test_closing_a_stream_stops_the_task_that_reads_it() -> None:
    async def work(server: FaultyServer) -> None:
        stream = server.model().astream("hi")

        async def read() -> None:
            with pytest.raises(Reset, match="the stream was closed while it was read"):
                async for _ in stream:
                    pass
            await asyncio.sleep(0)  # it can wait again

        reading = asyncio.ensure_future(read())
        assert await asyncio.to_thread(server.request_received.acquire, timeout=10)
        await stream.aclose()
        await reading
        assert reading.cancelling() == 0

    with FaultyServer(StallAfter(0)) as server:
        asyncio.run(work(server))
        assert server.client_disconnected.acquire(timeout=10)


def test_a_task_that_is_cancelled_while_its_stream_is_closed_is_cancelled() -> None:
    async def work(server: FaultyServer) -> None:
        stream = server.model().astream("hi")
        reading = asyncio.ensure_future(anext(stream.events()))
        assert await asyncio.to_thread(server.request_received.acquire, timeout=10)
        await stream.aclose()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    with FaultyServer(StallAfter(0)) as server:
        asyncio.run(work(server))
