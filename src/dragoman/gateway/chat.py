"""A decoded request in, the plan that answers it out; a conversation is remembered before it and after it.

Only dialects with ids of our own, or a conversation, pay for either.
"""

import random
from secrets import token_hex
from typing import TypeVar, cast

from msgspec.structs import replace

from dragoman.engine.effects import Emit, Plan
from dragoman.engine.failover import Chain, weighted_order
from dragoman.errors import StoreDown
from dragoman.events import StreamEvent, to_events
from dragoman.gateway.accounting.accounting import RequestRecord
from dragoman.gateway.catalog import TargetChoice
from dragoman.gateway.endpoints import recalled
from dragoman.gateway.errors import UnknownPreviousResponse
from dragoman.gateway.request import RequestContext
from dragoman.gateway.sessions import ConversationState
from dragoman.gateway.tiers import arrange, tier_of
from dragoman.gateway.tool_call_ids import HEADER, CallIds, decode_ids
from dragoman.gateway.wish import Wish, split_wish
from dragoman.targets.target import Target
from dragoman.types import Finish, Message, Notice, Request, Response, Usage, dump
from dragoman.wires.base import Wire
from dragoman.wires.common.server_endpoints import StoredConversations, StoredResponseQuery

E = TypeVar("E", bound=StreamEvent)
NOTHING = StoredResponseQuery()


class Chat:
    """One request for an answer."""

    __slots__ = ("_chain", "_choice", "_context", "_ids", "_memory", "_recall", "_session", "_wish", "id", "request")

    def __init__(
        self,
        context: RequestContext,
        request: Request,
        choice: TargetChoice,
        /,
        *,
        wish: Wish,
        session: ConversationState | None,
        ids: CallIds | None,
        recall: StoredResponseQuery,
        memory: StoredConversations | None,
    ) -> None:
        self.request = request
        self.id: str | None = None if memory is None else memory.PREFIX + token_hex(24)
        """The id of the answer, where a client may ask for it again; otherwise it is the provider's."""
        self._context = context
        self._chain: Chain | None = None
        self._choice = choice
        self._wish = wish
        self._session = session
        self._ids = ids
        self._recall = recall
        self._memory = memory

    @property
    def has_ids(self) -> bool:
        """Whether calls go by ids of our own."""
        return self._ids is not None

    @property
    def targets(self) -> tuple[Target, ...]:
        """Who may be asked."""
        return self._choice.targets

    @property
    def _is_idle(self) -> bool:
        return cast("Wire", self._context.wire).empty_request_loads_model and not (
            self.request.messages or self.request.system
        )

    @property
    def is_remembered(self) -> bool:
        """Whether something is to be written when it is answered."""
        return self._wish.conversation is not None or self._recall.keep

    async def open(self) -> RequestRecord:
        """Ask its key's limits whether it may go on."""
        return await self._context.open(self.request, self._choice.targets, conversation=self._wish.conversation)

    def plan(self) -> Plan[Response]:
        """Ask those who may answer; nobody, where nothing is asked but that they be there."""
        if self._is_idle:
            return _load()
        self._chain = Chain(self.request, self._context.runtime.registry.health, self._choice.options)
        return self._chain.run(self._choice.targets)

    @property
    def asked(self) -> str | None:
        """Who is being asked."""
        return None if self._chain is None else self._chain.asked

    def lift(self, response: Response, /) -> Response:
        """The answer with ids of our own, where the dialect wants them."""
        return response if self._ids is None else self._ids.lift(response)

    def lift_event(self, event: E, /) -> E:
        """As `lift`, for a stream."""
        return event if self._ids is None else self._ids.lift_event(event)

    def headers(self) -> list[tuple[str, str]]:
        """The ids that nobody remembers but the client."""
        told = None if self._ids is None or self._wish.conversation is not None else self._ids.header()
        return [] if told is None else [(HEADER, told)]

    async def settle(self, response: Response, /) -> tuple[Notice, ...]:
        """Remember who answered and under which ids, keep the answer where that is wanted; told is what was not."""
        runtime, owner = self._context.runtime, self._context.owner
        if self._wish.conversation is not None and response.target is not None:
            made = {} if self._ids is None else self._ids.made
            await runtime.sessions.settle(
                owner,
                self._wish.conversation,
                target=response.target,
                tier=self._choice.tier,
                ids=made,
                seen=self._session,
            )
        if self._recall.keep and self._memory is not None and response.id is not None:
            try:
                await runtime.responses.save(owner, response.id, dump(self._memory.record(self.request, response)))
            except StoreDown:
                return (Notice(kind="dropped", what="store", why="the store cannot be reached: it is not kept"),)
        return ()


def _load() -> Plan[Response]:
    """The answer of a model that is there."""
    finish, usage = Finish(reason="stop", raw="load"), Usage(input=0, output=0)
    response = Response(message=Message(role="assistant"), finish=finish, usage=usage)
    yield Emit(to_events(response))
    return response


async def begin(context: RequestContext, name: str, request: Request, /) -> Chat:
    """Who may be asked, by the name that the client said and what is remembered of its conversation."""
    wire, runtime = cast("Wire", context.wire), context.runtime
    wire.server.check(name, request)
    name = name or runtime.catalog.default()
    context.name(name)
    choice = runtime.catalog.find(name)
    wish, request = split_wish(request)
    if request.schema is not None:  # a client cannot know which targets have structured output of their own
        request = replace(request, schema_mode="auto")
    session, ids, recall = None, None, NOTHING
    if wish.conversation is not None:
        session = await runtime.sessions.load(context.owner, wish.conversation)
        choice = _kept(context, choice, session)
    context.tier = choice.tier
    if wire.gateway_call_ids:
        told = context.http.headers.get(HEADER)
        ids = CallIds(session.ids if session is not None else decode_ids(told) if told else {})
        request = ids.lower(request)
    if (memory := wire.stored_conversations) is not None:
        recall, request = memory.split(request, context.http.body)
        context.notices = recall.notices
        if recall.previous is not None:
            kept = await recalled(context, recall.previous)
            if kept is None:
                raise UnknownPreviousResponse(f"no response {recall.previous[:200]!r} is kept here")
            request = memory.join(kept, request)
    return Chat(context, request, choice, wish=wish, session=session, ids=ids, recall=recall, memory=memory)


def _kept(context: RequestContext, choice: TargetChoice, session: ConversationState | None) -> TargetChoice:
    """The choice as a session wants it: its tier never falls, and its target is asked first."""
    if choice.tier is not None and (tier := tier_of(choice.tier, session)) != choice.tier:
        choice = context.runtime.catalog.find(tier)
    targets, options = list(choice.targets), choice.options
    if options.order == "weighted":
        targets = weighted_order(targets, options.costs, [random.random() for _ in targets])  # noqa: S311 - no secret
        options = replace(options, order="given")
    return TargetChoice(tuple(arrange(targets, session, choice.tier)), options, choice.tier)
