"""Streams as users see them: iterate one for pieces of text and thinking, tool calls, and last the response.

The driver yields the events of a call. A stream converts them to items, keeps the result, and closes the connection
when you leave the loop.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

import msgspec

from dragoman.engine.typed_output import Parsed, Partials
from dragoman.errors import InvalidRequest
from dragoman.events import CallDelta, PartDelta, PartEnded, PartStarted, Restarted, StreamEvent
from dragoman.io.driver import short_traceback
from dragoman.io.stopper import Stopper
from dragoman.schema.output_type import OutputType
from dragoman.schema.unstrict import NO_VALUE
from dragoman.types import HostedCall, HostedResult, Response, ToolCall


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the text of an answer."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True):
    """A piece of the thinking of an answer."""

    text: str


class ToolCallDelta(msgspec.Struct, frozen=True):
    """A piece of the JSON text of a call's arguments, if the call was made with `call_deltas=True`.

    It can be shown while the call is written; only the whole ToolCall, which follows, can be run.
    """

    id: str
    name: str
    text: str


Item: TypeAlias = (
    TextDelta | ThinkingDelta | ToolCallDelta | ToolCall | HostedCall | HostedResult | Restarted | Response
)


class ItemConverter:
    """Converts events to the items that users iterate."""

    def __init__(self) -> None:
        self._thinking: set[int] = set()
        self._calls: dict[int, tuple[str, str]] = {}

    def convert(self, event: StreamEvent) -> Item | None:
        """The item of an event; None if it has none."""
        match event:
            case PartDelta():
                return ThinkingDelta(event.text) if event.index in self._thinking else TextDelta(event.text)
            case PartStarted(kind="thinking"):
                self._thinking.add(event.index)
                return None
            case PartStarted(id=str(id), name=str(name)):
                self._calls[event.index] = id, name
                return None
            case CallDelta():
                return ToolCallDelta(*self._calls[event.index], event.text)
            case PartEnded(part=ToolCall() | HostedCall() | HostedResult() as part):
                return part
            case Restarted():
                self._thinking.clear()
                self._calls.clear()
                return event
            case _:
                return None


_CLOSED = (
    "the stream is closed: it broke, or its loop ended early; start a new call. To continue a loop after `break`, put "
    "the stream in a `with` block"
)


class ClosableStream:
    """A stream that closes its events, and so the connection or the agent run, at the end of `with` or by `close`.

    Leaving the loop closes it too. Inside a `with` block it does not: there, another loop continues.
    """

    def __init__(self, start: Callable[[Stopper], Generator[Any, None, Any]]) -> None:
        self._stopper = Stopper()
        self._events = start(self._stopper)
        self._in_with_block = False
        self._result: Any = None

    def close(self) -> None:
        """Stop the call, if it still runs, and close its connection.

        Another thread may do this while one reads the stream; the loop of that thread ends with Reset.
        """
        try:
            self._events.close()
        except ValueError:  # another thread runs the generator
            self._stopper.stop()

    def __enter__(self) -> Self:
        self._in_with_block = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._in_with_block = False
        self.close()

    def _remaining_events(self) -> Iterator[Any]:
        """The events that are not read yet; stores the result. A closed generator returns None, which no result is."""
        try:
            while self._result is None:
                yield next(self._events)
        except StopIteration as stop:
            if stop.value is None:
                raise InvalidRequest(_CLOSED) from None
            self._result = stop.value
        except ValueError as error:
            if str(error) == "generator already executing":  # another thread closes it
                raise self._stopper.error from None
            raise
        finally:
            if not self._in_with_block:
                self.close()


class AsyncClosableStream:
    """As ClosableStream, async."""

    def __init__(self, start: Callable[[Stopper], AsyncGenerator[Any, None]], results: list[Any]) -> None:
        self._stopper = Stopper()
        self._events = start(self._stopper)
        self._results = results
        self._in_with_block = False

    async def aclose(self) -> None:
        """Stop the call, if it still runs, and close its connection.

        Another task may do this while one reads the stream; the loop of that task ends with Reset.
        """
        if getattr(self._events, "ag_running", False):
            self._stopper.stop()
        else:
            await self._events.aclose()

    async def __aenter__(self) -> Self:
        self._in_with_block = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._in_with_block = False
        await self.aclose()

    async def _loop_ended(self) -> None:
        if not self._in_with_block:
            await self.aclose()

    def _final_result(self) -> Any:
        if not self._results:
            raise InvalidRequest(_CLOSED)
        return self._results[0]


class Stream(ClosableStream):
    """A streamed answer: iterate it for its items; the last is the Response.

    Leaving the loop closes the connection. Inside a `with` block it does not: there, another loop continues.

    >>> from dragoman import Registry
    >>> with Registry(env={}).model("demo/any").stream("hello") as stream:
    ...     items = list(stream)
    >>> items[0], items[-1] is stream.response
    (TextDelta(text='Hello! '), True)
    """

    def __init__(self, start: Callable[[Stopper], Generator[StreamEvent, None, Response]]) -> None:
        super().__init__(start)
        self._converter = ItemConverter()

    @property
    def response(self) -> Response | None:
        """The response, or None before the end of the stream."""
        response: Response | None = self._result
        return response

    def __iter__(self) -> Iterator[Item]:
        """Pieces of text and thinking, whole tool calls, and last the response."""
        with short_traceback:
            for event in self._remaining_events():
                if (item := self._converter.convert(event)) is not None:
                    yield item
            yield self._result

    def text_deltas(self) -> Iterator[str]:
        """The pieces of the text as strings, and nothing else; the response is in `response`.

        If the answer starts again with another target (`on_interrupt="restart"`), its text follows the earlier one;
        iterate over the stream itself to see that.
        """
        with short_traceback:
            for item in self:
                if isinstance(item, TextDelta):
                    yield item.text

    def events(self) -> Iterator[StreamEvent]:
        """The events, in place of the items."""
        with short_traceback:
            yield from self._remaining_events()


class AsyncStream(AsyncClosableStream):
    """A streamed answer, async: iterate it for its items; the last one is the Response.

    >>> import asyncio
    >>> from dragoman import Registry
    >>> async def main() -> list[str]:
    ...     async with Registry(env={}).model("demo/any").astream("hello") as stream:
    ...         return [item.text async for item in stream]
    >>> asyncio.run(main())[0]
    'Hello! '
    """

    def __init__(self, start: Callable[[Stopper], AsyncGenerator[StreamEvent, None]], results: list[Response]) -> None:
        super().__init__(start, results)
        self._converter = ItemConverter()

    @property
    def response(self) -> Response | None:
        """The response, or None before the end of the stream."""
        return self._results[0] if self._results else None

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Pieces of text and thinking, whole tool calls, and last the response."""
        with short_traceback:
            try:
                async for event in self._events:
                    if (item := self._converter.convert(event)) is not None:
                        yield item
                yield self._final_result()
            finally:
                await self._loop_ended()

    async def text_deltas(self) -> AsyncIterator[str]:
        """As `Stream.text_deltas`, async."""
        with short_traceback:
            try:
                async for event in self._events:
                    if isinstance(item := self._converter.convert(event), TextDelta):
                        yield item.text
                self._final_result()
            finally:
                await self._loop_ended()

    async def events(self) -> AsyncIterator[StreamEvent]:
        """The events, in place of the items."""
        with short_traceback:
            try:
                async for event in self._events:
                    yield event
                self._final_result()
            finally:
                await self._loop_ended()


T = TypeVar("T")


class TypedStream(ClosableStream, Generic[T]):
    """A typed answer while it arrives: iterate it for partial JSON values; the last item is the value of the type.

    Yielded values are never changed. Leaving the loop closes the connection, except inside a `with` block.

    >>> from dragoman import Registry
    >>> with Registry(env={}).model("demo/any").stream_extract(list[int], "One, 2, 3") as stream:
    ...     values = list(stream)
    >>> values[-1] == stream.parsed
    True
    """

    def __init__(
        self, start: Callable[[Stopper], Generator[StreamEvent, None, Parsed[T]]], output_type: OutputType[T]
    ) -> None:
        super().__init__(start)
        self._partials = Partials(output_type)

    @property
    def response(self) -> Parsed[T] | None:
        """The response, or None before the end of the stream."""
        response: Parsed[T] | None = self._result
        return response

    @property
    def parsed(self) -> T | None:
        """The value, or None before the end of the stream."""
        return self.response.parsed if self.response is not None else None

    def __iter__(self) -> Iterator[Any]:
        """Partial JSON values, and last the value itself."""
        with short_traceback:
            for event in self._remaining_events():
                if (value := self._partials.feed(event)) is not NO_VALUE:
                    yield value
            yield self.parsed


class AsyncTypedStream(AsyncClosableStream, Generic[T]):
    """A typed answer while it arrives, async: iterate it for partial JSON values; the last item is the value.

    >>> import asyncio
    >>> from dragoman import Registry
    >>> async def main() -> list[object]:
    ...     async with Registry(env={}).model("demo/any").astream_extract(bool, "Is it so?") as stream:
    ...         return [value async for value in stream]
    >>> asyncio.run(main())[-1]
    True
    """

    def __init__(
        self,
        start: Callable[[Stopper], AsyncGenerator[StreamEvent, None]],
        results: list[Parsed[T]],
        output_type: OutputType[T],
    ) -> None:
        super().__init__(start, results)
        self._partials = Partials(output_type)

    @property
    def response(self) -> Parsed[T] | None:
        """The response, or None before the end of the stream."""
        return self._results[0] if self._results else None

    @property
    def parsed(self) -> T | None:
        """The value, or None before the end of the stream."""
        return self._results[0].parsed if self._results else None

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Partial JSON values, and last the value itself."""
        with short_traceback:
            try:
                async for event in self._events:
                    if (value := self._partials.feed(event)) is not NO_VALUE:
                        yield value
                yield self._final_result().parsed
            finally:
                await self._loop_ended()
