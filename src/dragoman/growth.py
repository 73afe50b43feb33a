"""The events of a typed call in, values that grow out, and last the value of the type."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any, Generic, TypeVar

from dragoman.events import StreamEvent
from dragoman.form import Form
from dragoman.loosening import NOTHING
from dragoman.streams import AsyncClosing, Closing
from dragoman.typed import Parsed, Partials

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

    def __init__(self, events: Generator[StreamEvent, None, Parsed[T]], form: Form[T]) -> None:
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
            if (value := self._partials.feed(event)) is not NOTHING:
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

    def __init__(self, events: AsyncGenerator[StreamEvent, None], results: list[Parsed[T]], form: Form[T]) -> None:
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
                if (value := self._partials.feed(event)) is not NOTHING:
                    yield value
            yield self._ended().parsed
        finally:
            await self._leave()
