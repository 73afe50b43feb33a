"""The events of a call in, what users like to see out: pieces of text and thinking, calls, and last the response."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

import msgspec

from dragoman.engine.typed import Parsed, Partials
from dragoman.errors import InvalidRequest
from dragoman.events import PartDelta, PartEnded, PartStarted, Restarted, StreamEvent
from dragoman.schema.output_type import OutputType
from dragoman.schema.unstrict import NO_VALUE
from dragoman.types import Response, ToolCall


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the answer's text.

    >>> TextDelta("hel").text
    'hel'
    """

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True):
    """A piece of the model's thinking.

    >>> ThinkingDelta("Hmm.").text
    'Hmm.'
    """

    text: str


Item: TypeAlias = TextDelta | ThinkingDelta | ToolCall | Restarted | Response


class View:
    """Events to the friendly items."""

    def __init__(self) -> None:
        self._thinking: set[int] = set()

    def item(self, event: StreamEvent) -> Item | None:
        """What users like to see of an event; None for nothing."""
        match event:
            case PartDelta():
                return ThinkingDelta(event.text) if event.index in self._thinking else TextDelta(event.text)
            case PartStarted(kind="thinking"):
                self._thinking.add(event.index)
                return None
            case PartEnded(part=ToolCall() as call):
                return call
            case Restarted():
                self._thinking.clear()
                return event
            case _:
                return None


_OVER = (
    "this stream is over: it was closed, left or broken before its end; ask anew, and where a loop is left and taken "
    "up again, do it inside of `with`"
)


class Closing:
    """What is left by `with` as by `close`: its events end, and with them the connection or the run.

    Inside of `with`, a loop that is left can be taken up again where it stood; without it, leaving the loop closes.

    >>> with Closing(event for event in ()) as left:
    ...     pass
    """

    def __init__(self, events: Generator[Any, None, Any]) -> None:
        self._events = events
        self._is_held = False
        self._result: Any = None

    def close(self) -> None:
        """End what is under way, if it is not at its end. It is for the thread that reads; another one is told so."""
        try:
            self._events.close()
        except ValueError as error:
            raise InvalidRequest(
                "another thread is reading this stream; close it in that one, when it has what it waits for"
            ) from error

    def __enter__(self) -> Self:
        """Itself."""
        self._is_held = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what is under way, if it is not at its end."""
        self._is_held = False
        self.close()

    def _rest(self) -> Iterator[Any]:
        """The events that are left; their result is kept. A generator that is over gives None: a result never is."""
        try:
            while self._result is None:
                yield next(self._events)
        except StopIteration as stop:
            if stop.value is None:
                raise InvalidRequest(_OVER) from None
            self._result = stop.value
        finally:
            if not self._is_held:
                self.close()


class AsyncClosing:
    """The same, async.

    >>> hasattr(AsyncClosing, "aclose")
    True
    """

    def __init__(self, events: AsyncGenerator[Any, None], results: list[Any]) -> None:
        self._events = events
        self._results = results
        self._is_held = False

    async def aclose(self) -> None:
        """End what is under way, if it is not at its end. It is for the task that reads; another one cancels that."""
        try:
            await self._events.aclose()
        except RuntimeError as error:
            raise InvalidRequest("another task is reading this stream; cancel that task") from error

    async def __aenter__(self) -> Self:
        """Itself."""
        self._is_held = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what is under way, if it is not at its end."""
        self._is_held = False
        await self.aclose()

    async def _leave(self) -> None:
        """A loop is left: inside of `with` it may be taken up again."""
        if not self._is_held:
            await self.aclose()

    def _ended(self) -> Any:
        """The result of what is at its end."""
        if not self._results:
            raise InvalidRequest(_OVER)
        return self._results[0]


class Stream(Closing):
    """A streamed answer: iterate it for its items, the last of which is the Response. Leaving it closes the connection.

    >>> from dragoman import Registry
    >>> with Registry(env={}).model("demo/any").stream("hello") as stream:
    ...     items = list(stream)
    >>> items[0], items[-1] is stream.response
    (TextDelta(text='Hello! '), True)
    """

    def __init__(self, events: Generator[StreamEvent, None, Response]) -> None:
        super().__init__(events)
        self._view = View()

    @property
    def response(self) -> Response | None:
        """The response, once the stream is at its end."""
        response: Response | None = self._result
        return response

    def __iter__(self) -> Iterator[Item]:
        """Pieces of text and thinking, whole calls, and last the response."""
        for event in self._rest():
            if (item := self._view.item(event)) is not None:
                yield item
        yield self._result

    def events(self) -> Iterator[StreamEvent]:
        """The events themselves."""
        return self._rest()


class AsyncStream(AsyncClosing):
    """A streamed answer, async: iterate it for its items, the last of which is the Response.

    >>> import asyncio
    >>> from dragoman import Registry
    >>> async def main() -> list[str]:
    ...     async with Registry(env={}).model("demo/any").astream("hello") as stream:
    ...         return [item.text async for item in stream]
    >>> asyncio.run(main())[0]
    'Hello! '
    """

    def __init__(self, events: AsyncGenerator[StreamEvent, None], results: list[Response]) -> None:
        super().__init__(events, results)
        self._view = View()

    @property
    def response(self) -> Response | None:
        """The response, once the stream is at its end."""
        return self._results[0] if self._results else None

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Pieces of text and thinking, whole calls, and last the response."""
        try:
            async for event in self._events:
                if (item := self._view.item(event)) is not None:
                    yield item
            yield self._ended()
        finally:
            await self._leave()

    async def events(self) -> AsyncIterator[StreamEvent]:
        """The events themselves."""
        try:
            async for event in self._events:
                yield event
            self._ended()
        finally:
            await self._leave()


T = TypeVar("T")


class TypedStream(Closing, Generic[T]):
    """A typed answer as it grows: iterate it for plain JSON values, the last of which is the value of the type.

    What was yielded is never changed or taken back. Leaving the stream closes the connection.

    >>> from dragoman import Registry
    >>> with Registry(env={}).model("demo/any").stream_extract(list[int], "One, 2, 3") as stream:
    ...     values = list(stream)
    >>> values[-1] == stream.parsed
    True
    """

    def __init__(self, events: Generator[StreamEvent, None, Parsed[T]], form: OutputType[T]) -> None:
        super().__init__(events)
        self._partials = Partials(form)

    @property
    def response(self) -> Parsed[T] | None:
        """The response, once the stream is at its end."""
        response: Parsed[T] | None = self._result
        return response

    @property
    def parsed(self) -> T | None:
        """The value, once the stream is at its end."""
        return self.response.parsed if self.response is not None else None

    def __iter__(self) -> Iterator[Any]:
        """What there is so far, and last the value itself."""
        for event in self._rest():
            if (value := self._partials.feed(event)) is not NO_VALUE:
                yield value
        yield self.parsed


class AsyncTypedStream(AsyncClosing, Generic[T]):
    """A typed answer as it grows, async: iterate it for plain JSON values, the last of which is the value of the type.

    >>> import asyncio
    >>> from dragoman import Registry
    >>> async def main() -> list[object]:
    ...     async with Registry(env={}).model("demo/any").astream_extract(bool, "Is it so?") as stream:
    ...         return [value async for value in stream]
    >>> asyncio.run(main())[-1]
    True
    """

    def __init__(
        self, events: AsyncGenerator[StreamEvent, None], results: list[Parsed[T]], form: OutputType[T]
    ) -> None:
        super().__init__(events, results)
        self._partials = Partials(form)

    @property
    def response(self) -> Parsed[T] | None:
        """The response, once the stream is at its end."""
        return self._results[0] if self._results else None

    @property
    def parsed(self) -> T | None:
        """The value, once the stream is at its end."""
        return self._results[0].parsed if self._results else None

    async def __aiter__(self) -> AsyncIterator[Any]:
        """What there is so far, and last the value itself."""
        try:
            async for event in self._events:
                if (value := self._partials.feed(event)) is not NO_VALUE:
                    yield value
            yield self._ended().parsed
        finally:
            await self._leave()
