"""The events of a call in, what users like to see out: pieces of text and thinking, calls, and last the response."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from types import TracebackType
from typing import Any, Self, TypeAlias

import msgspec

from dragoman.events import PartDelta, PartEnded, PartStarted, Restarted, StreamEvent
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


class Closing:
    """What is left by `with` as by `close`: its events end, and with them the connection or the run.

    >>> with Closing(event for event in ()) as left:
    ...     pass
    """

    def __init__(self, events: Generator[Any, None, Any]) -> None:
        self._events = events

    def close(self) -> None:
        """End what is under way, if it is not at its end."""
        self._events.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what is under way, if it is not at its end."""
        self.close()


class AsyncClosing:
    """The same, async.

    >>> hasattr(AsyncClosing, "aclose")
    True
    """

    def __init__(self, events: AsyncGenerator[Any, None]) -> None:
        self._events = events

    async def aclose(self) -> None:
        """End what is under way, if it is not at its end."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what is under way, if it is not at its end."""
        await self.aclose()


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
        self.response: Response | None = None

    def __iter__(self) -> Iterator[Item]:
        """Pieces of text and thinking, whole calls, and last the response."""
        view = View()
        for event in self.events():
            if (item := view.item(event)) is not None:
                yield item
        if self.response is not None:
            yield self.response

    def events(self) -> Iterator[StreamEvent]:
        """The events themselves."""
        try:
            if self.response is None:
                self.response = yield from self._events
        finally:
            self.close()


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
        super().__init__(events)
        self._results = results

    @property
    def response(self) -> Response | None:
        """The response, once the stream is at its end."""
        return self._results[0] if self._results else None

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Pieces of text and thinking, whole calls, and last the response."""
        view = View()
        try:
            async for event in self._events:
                if (item := view.item(event)) is not None:
                    yield item
            if self.response is not None:
                yield self.response
        finally:
            await self.aclose()

    async def events(self) -> AsyncIterator[StreamEvent]:
        """The events themselves."""
        try:
            async for event in self._events:
                yield event
        finally:
            await self.aclose()
