"""One streamed response of the gateway: events of the target in, bytes in the client's dialect out."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from dragoman.engine.effects import Emit
from dragoman.errors import DragomanError
from dragoman.events import Event, Finished, PartEnded, PartStarted, Ping, Started, fold
from dragoman.gateway.accounting.accounting import RequestRecord
from dragoman.gateway.errors import to_client_error, to_dragoman_error
from dragoman.gateway.reasoning.outgoing import AnswerTagger, has_state
from dragoman.gateway.request import RequestContext, redact_name
from dragoman.gateway.server.response import Write
from dragoman.types import Notice, Part, Response, Text
from dragoman.types.base import unchecked
from dragoman.wires.base import StreamEncoder, Wire, unsupported_parts

TICKS = 4
"""How often per `ping` interval the app looks for silent streams."""

ResponseOrStarted = TypeVar("ResponseOrStarted", Response, Started)


class ResponseStream:
    """One streamed response. Events that arrive together are written together."""

    def __init__(
        self,
        context: RequestContext,
        record: RequestRecord,
        emissions: AsyncGenerator[Emit, None],
        encoder: StreamEncoder,
    ) -> None:
        self.first: Emit | None = None
        """The first batch of events, once it is there."""
        self._context = context
        self._record = record
        self._emissions = emissions
        self._encoder = encoder
        self._first_result: asyncio.Task[bytes | DragomanError | None] | None = None
        self._write: Write | None = None
        self._ping_write: asyncio.Future[None] | None = None
        self._task: asyncio.Task[Any] | None = None
        """The task that writes the stream."""
        self._ended_by: DragomanError | None = None
        self._silent_ticks = 0
        self._needs_response = context.must_store or record.span is not None or record.bodies is not None
        self._may_need_tags = False
        """Whether the target's answer may need tags for its reasoning state."""
        self._tagger: AnswerTagger | None = None
        self._part_count = 0
        self._has_headers = False
        """Whether the headers are made, with or without the notices of the first events."""
        self._header_notices: frozenset[Notice] = frozenset()
        self._lost: dict[Notice, None] = {}
        """Notices of parts that the dialect cannot express."""
        self._events: list[Event] = []
        """All events, if the whole response is needed at the end."""

    async def wait_for_first(self, timeout: float) -> None:  # noqa: ASYNC109 - the task goes on after the timeout
        """Wait for the first events, so that an error before them gets its own status. After `timeout` it goes on."""
        self._first_result = task = asyncio.create_task(self._next())
        try:
            await asyncio.wait((task,), timeout=timeout)
        except asyncio.CancelledError:
            task.cancel()
            raise
        self._has_headers = True
        if task.done() and isinstance(error := task.result(), DragomanError):
            raise error

    async def write(self, write: Write) -> None:
        """Write the whole stream."""
        self._write = write
        self._task = asyncio.current_task()
        try:
            try:
                error = await self._write_events(write)
            except asyncio.CancelledError:
                if self._ended_by is None:
                    raise
                error = self._ended_by
            if error is not None:
                await self._record.fail(error)
                await write(self._encoder.feed(to_client_error(error, self._context.id)))
        finally:
            self._write = None
            await self._emissions.aclose()
            if not self._record.is_finished:
                await self._record.client_disconnected(self._context.current_target)

    async def _write_events(self, write: Write) -> DragomanError | None:
        """Write everything; returns the error that ended the stream."""
        if self.first is None:
            self._ping()
        result = await (self._first_result or self._next())
        while isinstance(result, bytes):
            if result:
                self._silent_ticks = 0
                await write(result)
            result = await self._next()
        return result

    def end(self, error: DragomanError) -> None:
        """End the stream with an error event."""
        if self._task is not None and not self._record.is_finished:
            self._ended_by = error
            self._task.cancel()

    async def _next(self) -> bytes | DragomanError | None:
        """The next events, encoded; the error that ends the stream; None at the end."""
        try:
            emission = await anext(self._emissions, None)
            if emission is None:
                return None
            events = self._to_client(emission)
            if self._may_need_tags:
                events = await self._tag(events, emission.target)
            if self._needs_response:
                self._events += events
            self._record.count_streamed(events)
            self._note_lost(events)
            if isinstance(last := events[-1], Finished):
                events = [*events[:-1], await self._finish(last, emission)]
            elif self._tagger is not None and self._tagger.has_writes:
                await self._keep(is_finished=False)
            feed = self._encoder.feed
            return b"".join([feed(event) for event in events])
        except Exception as error:  # noqa: BLE001 - it ends the stream, in the client's dialect
            return to_dragoman_error(error, self._context.id)

    def _to_client(self, emission: Emit) -> Sequence[Event]:
        """The events of an emission, with the model and the tool call ids that the client knows."""
        context = self._context
        # No Restarted: the chain of a gateway never restarts a stream.
        events = cast("Sequence[Event]", emission.events)
        if self.first is None:
            self.first = emission
            if not self._has_headers:
                self._header_notices = frozenset((*context.notices, *emission.notices))
            self._may_need_tags = context.may_need_tags(emission.target)
            events = [set_client_fields(event, context) if isinstance(event, Started) else event for event in events]
        if context.tool_ids is not None:
            events = [context.tool_ids.event_to_client(event) for event in events]
        return events

    async def _finish(self, last: Finished, emission: Emit) -> Finished:
        """The last event with all notices; before, the request is accounted and everything is stored."""
        wire = cast("Wire", self._context.wire)
        if wire.add_durations is not None:
            last = replace(last, finish=wire.add_durations(last.finish, *self._record.seconds()))
        notices = (*emission.notices, *last.notices, *self._lost)
        notices += await self._account_and_store(last, emission.target, notices)
        notices += await self._keep(is_finished=True)
        if not wire.lists_notices:
            notices = tuple(n for n in (*self._context.notices, *notices) if n not in self._header_notices)
        return replace(last, notices=tuple(dict.fromkeys(notices))) if notices or last.notices else last

    async def _account_and_store(
        self, finished: Finished, target: str | None, notices: tuple[Notice, ...]
    ) -> tuple[Notice, ...]:
        """Store everything before the last byte is sent: the next request of the conversation may follow at once."""
        self._context.note_completed(int(time.time()))
        response = replace(fold(self._events), target=target) if self._needs_response else None
        await self._record.finish(
            "served",
            status=200,
            target=target,
            usage=finished.usage,
            response=response,
            notices=tuple(dict.fromkeys((*self._context.notices, *notices))),
        )
        if response is not None and self._context.must_store:
            return await self._context.store_conversation(response)
        return ()

    def _note_lost(self, events: Sequence[Event]) -> None:
        """Find the parts that the dialect cannot express: the headers are sent before they are known."""
        parts = [event.part for event in events if type(event) is PartEnded and not _is_plain(event.part)]
        others = last.other_choices if isinstance(last := events[-1], Finished) else ()
        if parts or others:
            self._lost |= dict.fromkeys(unsupported_parts(cast("Wire", self._context.wire), parts, others))

    async def _tag(self, events: Sequence[Event], target: str | None) -> Sequence[Event]:
        """The events with the reasoning state of the target; most answers have none."""
        if self._tagger is None:
            before = self._part_count
            for event in events:
                self._part_count += type(event) is PartStarted
            if not any(map(has_state, events)):
                return events
            self._tagger = await self._context.make_tagger(target, parts_before=before)
        return events if self._tagger is None else self._tagger.tag_events(events)

    async def _keep(self, *, is_finished: bool) -> tuple[Notice, ...]:
        """Store the reasoning state that is not in the tags of the answer."""
        if self._tagger is None:
            return ()
        return await self._context.keep_state(self._tagger, is_finished=is_finished)

    def tick(self) -> None:
        """Send a ping if the stream was silent for a whole interval."""
        self._silent_ticks += 1
        if self._silent_ticks >= TICKS:
            self._ping()

    def _ping(self) -> None:
        self._silent_ticks = 0
        if self._write is not None and (ping := self._encoder.feed(Ping())):
            self._ping_write = asyncio.ensure_future(self._write(ping))
            self._ping_write.add_done_callback(_ignore_failure)


def _is_plain(part: Part) -> bool:
    """Whether a part is a text that every dialect can express; most are."""
    return isinstance(part, Text) and not part.citations


def set_client_fields(value: ResponseOrStarted, context: RequestContext) -> ResponseOrStarted:
    """The value with the model name of the client, and with an id and a time if the provider sent none."""
    id, created = context.response_id or value.id or context.id, value.created or int(time.time())
    return unchecked(value, id=id, model=redact_name(context.model), created=created)


def _ignore_failure(ping: "asyncio.Future[None]") -> None:
    # If the client is gone, the next write or the server adapter finds out.
    if not ping.cancelled():
        ping.exception()
