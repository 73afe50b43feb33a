"""One request on its way through the gateway.

`RequestContext` holds all that is known of a request so far. The app makes it when the request arrives. `prepare` takes
the decoded request, chooses its targets and loads what is stored of its conversation. `plan` is what the driver runs.
`store_conversation` stores what the next request of the conversation needs.
"""

import random
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import count
from typing import cast

from msgspec.structs import replace

from dragoman.engine.effects import Plan
from dragoman.engine.failover import Chain, ChainOptions
from dragoman.engine.routing import chain_routing, weighted_order
from dragoman.engine.several_answers import several_answers
from dragoman.errors import InvalidRequest, StoreDown, redact
from dragoman.gateway.accounting.accounting import RequestRecord
from dragoman.gateway.accounting.quotas import UNLIMITED, LimitHeaders
from dragoman.gateway.auth.api_keys import Key
from dragoman.gateway.auth.authenticate import check_model, check_name
from dragoman.gateway.catalog import TargetChoice, without_stored_prompts
from dragoman.gateway.conversations import ConversationState, RecentResponses
from dragoman.gateway.errors import NotStored, UnknownPreviousResponse
from dragoman.gateway.file_references import insert_files, load_files
from dragoman.gateway.hooks.base import NOTE_HEADER, HookCall, safe_headers
from dragoman.gateway.hooks.run import hooked
from dragoman.gateway.observability.tracing import Operation
from dragoman.gateway.reasoning.incoming import MAX_LOOKUPS, RequestTags
from dragoman.gateway.reasoning.outgoing import AnswerTagger, part_has_state
from dragoman.gateway.reasoning.places import DIALECTS_WITHOUT_TAGS
from dragoman.gateway.response_cache import HEADER as CACHE_HEADER
from dragoman.gateway.response_cache import CacheEntry, ResponseCache
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.server.body_limits import decode_body
from dragoman.gateway.special_plans import compacted, without_answer
from dragoman.gateway.tiers import effective_tier, put_conversation_first
from dragoman.gateway.tool_call_ids import HEADER, ToolCallIds, decode_ids
from dragoman.http import HttpRequest
from dragoman.io.forks import FORKS
from dragoman.schema.cost_bounds import check_size
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Message, Notice, Opaque, Request, Response, Tool, ToolResult, dump
from dragoman.wires.base import Wire, WireCompaction
from dragoman.wires.common.extra import VERBATIM, wire_extra
from dragoman.wires.common.notices import NOT_STORED_REASON, notice_text
from dragoman.wires.common.server_endpoints import (
    FileContent,
    ResponseContinuation,
    StoredChats,
    StoredResponse,
    StoredResponseQuery,
)
from dragoman.wires.native.schema import NAME as NATIVE

MAX_ID = 128
"""Characters of a request id that a client chose."""
MAX_NOTICES = 16
"""`X-Dragoman-Notice` headers of one response; the last one lists the remaining notices."""
MAX_NOTICE = 200
MAX_LAST_NOTICE = 1000
GATEWAY_FIELDS = NATIVE + VERBATIM
"""Key of `extra` with the fields of a native request that the gateway itself reads."""
NO_REQUEST = Request()
NO_CHOICE = TargetChoice((), ChainOptions())
NO_STORED_QUERY = StoredResponseQuery()
_STORE_IS_DOWN = Notice(kind="dropped", what="store", why=f"{NOT_STORED_REASON}the store is down")
redact_name = lru_cache(maxsize=1024)(redact)
"""`redact` for names of models and targets, of which there are few: a search costs as much as ten headers."""


class RequestContext:
    """All that is known of one request. It keeps the runtime it started with, even if the config is reloaded."""

    __slots__ = (
        "_chain",
        "_files",
        "_request_items",
        "_stored_query",
        "_stores_chat",
        "_tags",
        "choice",
        "conversation",
        "conversation_id",
        "hook_call",
        "http",
        "id",
        "key",
        "model",
        "must_store",
        "notices",
        "operation",
        "recent",
        "record",
        "request",
        "response_id",
        "runtime",
        "slot",
        "tool_ids",
        "usage_id",
        "wire",
    )

    def __init__(self, runtime: Runtime, http: HttpRequest, /) -> None:
        self.runtime = runtime
        self.http = http
        client_id = _client_request_id(http)
        self.id = client_id or new_request_id()
        self.usage_id = self.id if client_id is None else f"{client_id}~{new_request_id()}"
        """The id of the row in the usage log: clients may send the same `x-request-id` twice."""
        self.wire: Wire | None = None
        """The client's dialect, once it is known."""
        self.key: Key | None = None
        self.slot = UNLIMITED
        """The concurrency slot of the request; the record takes it over."""
        self.operation: Operation = "chat"
        self.model = ""
        """The model, alias or tier that the client named."""
        self.request = NO_REQUEST
        self.choice = NO_CHOICE
        """The targets that may answer, and the options of their chain."""
        self.notices: tuple[Notice, ...] = ()
        """What the gateway itself dropped or changed."""
        self.record: RequestRecord | None = None
        """The accounting of this request, once its key's limits let it pass."""
        self.conversation_id: str | None = None
        self.conversation: ConversationState | None = None
        """What was stored of the conversation when this request came."""
        self.tool_ids: ToolCallIds | None = None
        """The gateway's own tool call ids; None if the dialect does not need them."""
        self.response_id: str | None = None
        """The id of the response if clients can fetch it later; None for the provider's."""
        self.recent: RecentResponses | None = None
        """The last responses of the client's WebSocket, if it has one."""
        self.must_store = False
        """Whether `store_conversation` has something to store."""
        self._stored_query = NO_STORED_QUERY
        self._stores_chat = False
        """Whether the client wants the chat completion stored."""
        self._request_items: list[JsonObject] = []
        """The items of the request itself, if it continues a list of items."""
        self._tags: RequestTags | None = None
        self._files: dict[str, FileContent] = {}
        """The files of the gateway that the request refers to, by id."""
        self.hook_call: HookCall | None = None
        """What hooks see of the request, if there are hooks."""
        self._chain: Chain | None = None

    # Facts -----------------------------------------------------------------------------------------------------------

    @property
    def owner(self) -> str | None:
        """The id of the key; conversations and stored responses belong to it."""
        return None if self.key is None else self.key.id

    @property
    def dialect(self) -> Wire:
        """The client's dialect, of a request that has one."""
        assert self.wire is not None, "only requests of a dialect are answered by a model"  # noqa: S101
        return self.wire

    @property
    def is_background(self) -> bool:
        """Whether the client gets a response at once, and fetches the answer later."""
        return self._stored_query.is_background

    @property
    def current_target(self) -> str | None:
        """The target that is being called."""
        if self.operation != "chat":
            return self.choice.targets[0].name
        return None if self._chain is None else self._chain.current_target

    # Before the call -------------------------------------------------------------------------------------------------

    async def find_model(self, model: str, /) -> TargetChoice:
        """The targets of the model that the client named; its key must be allowed to use it."""
        check_name(model)
        self.model = model
        catalog = self.runtime.catalog
        full = model if "/" in model else await catalog.full_name(model)
        check_model(self.key, model, full)
        return catalog.find(full)

    async def prepare(self, model: str, request: Request, /) -> None:
        """Choose the targets, and load what is stored of the conversation."""
        wire, runtime = self.dialect, self.runtime
        wire.server.check(model, request)
        _check_schemas(request)
        choice = await self.find_model(model or runtime.catalog.default())
        self.notices += choice.notices
        if GATEWAY_FIELDS in request.extra:
            self.conversation_id, request = take_conversation_id(request)
        if self.conversation_id is not None:
            self.conversation = await runtime.conversations.load(self.owner, self.conversation_id)
            choice = self._choice_for_conversation(choice)
        self.choice = choice
        if wire.gateway_call_ids:
            header = self.http.headers.get(HEADER, "")
            known = decode_ids(header) if self.conversation is None else self.conversation.ids
            self.tool_ids = ToolCallIds(known, in_extra=self.conversation_id is None)
            request = self.tool_ids.to_provider(request)
        if wire.continuation is not None:
            request = await self.load_stored(request)
        if request.schema is not None:  # clients cannot know which targets have native structured output
            request = replace(request, schema_mode="auto")
        if request.extra and wire.stored_chats is not None and (chat := wire.stored_chats.split(request)) is not None:
            request, self._stores_chat = chat, True
            self.response_id = wire.stored_chats.PREFIX + secrets.token_hex(24)
        self.request = request
        has_answers, may_have_files = _has_answers_or_files(request.messages)
        if may_have_files:
            self._files = await self._load_files(request)
        if has_answers:
            self._tags = await runtime.reasoning.read_tags(wire.name, request, choice.targets, self.owner)
        is_listed = self._stored_query.item_list is not None
        is_kept = self._stored_query.store or self.recent is not None
        self.must_store = self.conversation_id is not None or is_kept or is_listed or self._stores_chat

    def _choice_for_conversation(self, choice: TargetChoice) -> TargetChoice:
        """The choice for a conversation: the tier never goes down, and the last target comes first."""
        if choice.tier is not None and (tier := effective_tier(choice.tier, self.conversation)) != choice.tier:
            choice = self.runtime.catalog.find(tier)
        targets, options = list(choice.targets), choice.options
        if options.order == "weighted":
            targets = weighted_order(targets, options.costs, [random.random() for _ in targets])  # noqa: S311 - no secret
            options = replace(options, order="in_order")
        first, *rest = put_conversation_first(targets, self.conversation, choice.tier)
        if self.conversation is not None and first.name == self.conversation.target:
            # The first target is fixed; the others are a pool with the order of the chain.
            if options.order != "in_order" or options.affinity != "none":
                rest = [replace(target, pool=chain_routing(options)) for target in rest]
                options = replace(options, order="in_order", affinity="none")
            first = replace(first, pool=None)
        return TargetChoice((first, *rest), options, choice.tier)

    async def load_stored(self, request: Request, /) -> Request:
        """The request with the stored messages that it continues. Also sets the id of its response, and notices."""
        continuation = self.dialect.continuation
        if continuation is None:
            return request
        self.response_id = continuation.PREFIX + secrets.token_hex(24)
        self._stored_query, request = continuation.split(request, self.http.body)
        if self._stored_query.references or self._stored_query.incomplete or self._stored_query.item_list is not None:
            request = await self._insert_items()
        self.notices += self._stored_query.notices
        if (field := self._stored_query.needs_own_wire) is not None:
            self._keep_own_wire(field)
        if (id := self._stored_query.previous_id) is None:
            return request
        previous = await self._load_response(id)
        if previous is None:
            field = continuation.FIELD
            raise UnknownPreviousResponse(f"{field} must be the id of a stored response, got {id[:200]!r}", field=field)
        request = continuation.join(previous, request)
        limit = self.runtime.config.gateway.max_objects
        if sum(len(message.parts) for message in request.messages) > limit:
            raise InvalidRequest(f"the conversation up to {id[:200]!r} has more than {limit} parts; start a new one")
        return request

    async def _insert_items(self) -> Request:
        """The request with the items of its conversation and those that it refers to."""
        wire, query = self.dialect, self._stored_query
        continuation = cast("ResponseContinuation", wire.continuation)
        before: list[JsonObject] = []
        if query.item_list is not None:
            before = (await self.runtime.item_lists.load(self.owner, query.item_list)).items
        known = {item.get("id"): item for item in before}
        items: dict[str, JsonObject] = {}
        for id in query.references:
            if (item := known.get(id) or await self._find_item(id)) is None:
                raise InvalidRequest(f"Item with id {id[:200]!r} not found.", param="input")
            items[id] = item
        for id in query.incomplete[:MAX_LOOKUPS]:
            if (item := known.get(id) or await self.runtime.responses.load_item(self.owner, id)) is not None:
                items[id] = item
        self._request_items = continuation.request_items(self.http.body)
        needs_state = any(target.quirks.signed_thinking and target.wire == wire.name for target in self.choice.targets)
        body, lacks_state = continuation.insert_items(self.http.body, items, before, needs_state=needs_state)
        if lacks_state:
            why = "has no encrypted content, and the gateway has not stored any"
            self.notices += (Notice(kind="dropped", what="thinking", why=why),)
        self.http = replace(self.http, body=body)
        _, request = await decode_body(self.http, self.runtime.config.gateway, wire.server.decode_request)
        self._stored_query, request = continuation.split(request, self.http.body)
        return request

    async def _find_item(self, id: str) -> JsonObject | None:
        """A stored item by its id; None if there is none."""
        continuation = cast("ResponseContinuation", self.dialect.continuation)
        if (response_id := continuation.response_of(id)) is None:
            return await self.runtime.responses.load_item(self.owner, id)
        stored = await self._load_response(response_id)
        items = [] if stored is None else continuation.items(stored)
        return next((item for item in items if item.get("id") == id), None)

    async def _load_response(self, id: str) -> StoredResponse | None:
        recent = None if self.recent is None else self.recent.get(id)
        return recent or await self.runtime.responses.load(self.owner, id)

    def _keep_own_wire(self, field: str) -> None:
        """Keep only targets of the client's wire: others do not support the field."""
        name = self.dialect.name
        targets = tuple(target for target in self.choice.targets if target.wire == name)
        if not targets:
            why = f"{field} is not supported by the targets of {self.model!r}"
            raise InvalidRequest(f"{why}; leave it out, or use a target of {name}", param=field)
        self.choice = replace(self.choice, targets=targets)

    def plan(self) -> Plan[Response]:
        """The chain of targets. Ollama's empty "load model" request is answered without a call."""
        request = self.request
        if self.dialect.empty_request_loads_model and not (request.messages or request.system):
            return without_answer("load")
        if self._stored_query.is_warmup:
            return without_answer("completed")
        make_plan: Callable[[Request], Plan[Response]] = self._chain_plan
        if self.runtime.cache is not None and (entry := self._cache_entry(self.runtime.cache)) is not None:
            make_plan = partial(entry.plan, make_plan)
        if self.runtime.hooks:
            make_plan = self._with_hooks(make_plan)
        return make_plan(request)

    def _with_hooks(self, make_plan: Callable[[Request], Plan[Response]]) -> Callable[[Request], Plan[Response]]:
        """The plan with the hooks of the config that are for this request."""
        self.hook_call = call = HookCall(
            self.request,
            id=self.id,
            model=self.model,
            dialect=self.dialect.name,
            key=self.owner,
            team=None if self.key is None else self.key.team,
            headers=safe_headers(self.http.headers),
        )
        hooks = [hook for hook in self.runtime.hooks if hook.applies(call)]
        return partial(hooked, make_plan, hooks, call) if hooks else make_plan

    def _chain_plan(self, request: Request) -> Plan[Response]:
        if self._files:
            request = insert_files(request, self._files)
        wire = self.dialect
        compaction = None if wire.compaction is None else self._compaction(wire.compaction)
        if compaction is not None:
            request = compaction.summary_request(request)
        # Clients give up if nothing comes while the model writes a long tool call, so its fragments are passed on.
        options = replace(self.choice.options, call_deltas=True) if request.stream else self.choice.options
        make_chain = self._call if request.n is None else partial(several_answers, self._call)
        plan = make_chain(request, without_stored_prompts(request, self.choice.targets), options)
        return plan if compaction is None else compacted(plan, compaction)

    def _call(self, request: Request, targets: Sequence[Target], options: ChainOptions) -> Plan[Response]:
        # A method: the annotations of a function inside `_chain_plan` would be evaluated for each request.
        adapt = None if self._tags is None else self._tags.for_target
        self._chain = Chain(request, self.runtime.registry.health, options, adapt=adapt)
        return self._chain.start(targets)

    def _cache_entry(self, cache: ResponseCache) -> CacheEntry | None:
        """The cache entry of the request, or None if caching is off for it."""
        entry = cache.entry(self.model, self.key, len(self.http.body), self.http.headers.get(CACHE_HEADER))
        if self.record is not None:
            self.record.cache = entry
        return entry

    def _compaction(self, compaction: WireCompaction) -> WireCompaction | None:
        """How to compact the conversation, if the request asks for it and not every target can do it itself."""
        if not compaction.is_requested(self.request):
            return None
        name = self.dialect.name
        is_native = all(target.wire == name and target.capabilities.compaction for target in self.choice.targets)
        return None if is_native else compaction

    async def _load_files(self, request: Request) -> dict[str, FileContent]:
        return await load_files(request, self.runtime.files, self.owner, max_bytes=self.runtime.config.gateway.max_body)

    async def restored(self, request: Request, target: Target, /) -> Request:
        """A request as one target gets it, with its files and the reasoning state of its own answers."""
        request = insert_files(request, await self._load_files(request))
        tags = await self.runtime.reasoning.read_tags(self.dialect.name, request, (target,), self.owner)
        if tags is None:
            return request
        request, notices = tags.for_target(request, target)
        self.notices += notices
        return request

    def may_need_tags(self, name: str | None, /) -> bool:
        """Whether a target's answer may need tags for its reasoning state; `make_tagger` decides."""
        target, dialect = self._target(name), self.dialect.name
        if target is None:
            return False
        return target.wire != dialect or dialect in DIALECTS_WITHOUT_TAGS or target.quirks.calls_need_reasoning

    async def make_tagger(self, name: str | None, /, *, parts_before: int = 0) -> AnswerTagger | None:
        """What puts the reasoning state of a target into its answer, after some parts; None if it is not needed."""
        target = self._target(name)
        if target is None:
            return None
        wire = self.dialect
        returned = None if wire.returned_call is None else wire.returned_call(self.request)
        losses = 0 if self._tags is None else self._tags.losses.get(target.name, 0)
        return await self.runtime.reasoning.make_tagger(
            wire.name, target, self.owner, self.request, parts_before=parts_before, losses=losses, returned=returned
        )

    def _target(self, name: str | None) -> Target | None:
        for target in self.choice.targets:
            if target.name == name:
                return target
        if name is not None and "/" in name:  # the target of a fallback
            return self.runtime.registry.target(name)
        return None

    # After the call --------------------------------------------------------------------------------------------------

    def note_completed(self, at: int, /) -> None:
        """Note when the response was complete, in Unix seconds, for dialects that say so."""
        if (continuation := self.dialect.continuation) is not None:
            continuation.note_completed(self.request, at)

    async def store_conversation(self, response: Response, /) -> tuple[Notice, ...]:
        """Store what the next request of the conversation needs, and the response if the client wants it stored."""
        runtime, continuation = self.runtime, self.dialect.continuation
        notices: tuple[Notice, ...] = ()
        if self.conversation_id is not None and response.target is not None:
            ids = {} if self.tool_ids is None else self.tool_ids.new
            state = ConversationState(target=response.target, tier=self.choice.tier, ids=ids)
            try:
                await runtime.conversations.update(self.owner, self.conversation_id, state, before=self.conversation)
            except StoreDown:
                # The answer is paid for, so the client gets it.
                why = "the store is down, so the target and tool call ids of this turn are not stored"
                notices += (Notice(kind="dropped", what="conversation_id", why=why),)
        if continuation is not None and response.id is not None:
            notices += await self._store_response(continuation, response, response.id)
        if self._stores_chat:
            notices += await self._store_chat(response)
        return notices

    async def _store_chat(self, response: Response) -> tuple[Notice, ...]:
        answer = self.dialect.server.encode_body(response, self.request).body
        chats, id, created = cast("StoredChats", self.dialect.stored_chats), response.id or "", response.created or 0
        try:
            await self.runtime.chats.save(self.owner, chats.record(id, self.model, created, self.http.body, answer))
        except StoreDown:
            return (_STORE_IS_DOWN,)
        return ()

    async def _store_response(self, protocol: ResponseContinuation, response: Response, id: str) -> tuple[Notice, ...]:
        runtime, query, stored = self.runtime, self._stored_query, protocol.record(self.request, response)
        items = protocol.items(stored)
        notices: tuple[Notice, ...] = ()
        if self.recent is not None:
            size = len(self.http.body) + len(dump(response.message))
            self.recent.add(id, stored, size, previous=query.previous_id)
        if query.store:
            try:
                alone = [item for item in items if protocol.is_stored_alone(item)]
                await runtime.responses.save(self.owner, id, stored, items=alone)
            except StoreDown:
                notices += (_STORE_IS_DOWN,)
        if query.item_list is not None:
            try:
                await runtime.item_lists.append(self.owner, query.item_list, [*self._request_items, *items])
            except (StoreDown, NotStored, InvalidRequest) as error:
                notices += (Notice(kind="dropped", what="conversation", why=f"{NOT_STORED_REASON}{error}"),)
        return notices

    async def tag_response(self, response: Response, /) -> tuple[Response, tuple[Notice, ...]]:
        """The response with the reasoning state of its target, if `may_need_tags` says that it may need that."""
        tagged, notices = await self._tagged(response)
        others = list(response.other_choices)
        for i, choice in enumerate(others):
            answer, more = await self._tagged(replace(response, message=choice.message, other_choices=()))
            others[i] = replace(choice, message=answer.message)
            notices += more
        return replace(tagged, other_choices=tuple(others)) if others else tagged, notices

    async def _tagged(self, response: Response) -> tuple[Response, tuple[Notice, ...]]:
        if not any(map(part_has_state, response.message.parts)):
            return response, ()
        tagger = await self.make_tagger(response.target)
        if tagger is None:
            return response, ()
        response = tagger.tag_response(response)
        return response, await self.keep_state(tagger, is_finished=True)

    async def keep_state(self, tagger: AnswerTagger, /, *, is_finished: bool) -> tuple[Notice, ...]:
        """Store the reasoning state that is not in the tags of the answer."""
        not_stored = await self.runtime.reasoning.store(tagger, self.request, is_finished=is_finished)
        return (*tagger.notices, *not_stored) if is_finished else ()

    def routing_headers(self, target: str | None = None, /) -> list[tuple[str, str]]:
        """The id of the request, which target and tier answered, and how many attempts it took."""
        headers = id_headers(self.id)
        if target is not None:
            headers.append(("x-dragoman-target", header_value(redact_name(target))))
        if self.choice.tier is not None:
            headers.append(("x-dragoman-tier", header_value(self.choice.tier)))
        if (record := self.record) is not None:
            if record.cache is not None and record.cache.status is not None:
                headers.append((CACHE_HEADER, record.cache.status))
            if attempts := record.attempts:
                headers.append(("x-dragoman-attempts", str(attempts)))
        return headers

    def response_headers(self, target: str | None = None, notices: tuple[Notice, ...] = (), /) -> list[tuple[str, str]]:
        """The routing headers, the notices, and the tool call ids, if only the client keeps them."""
        headers = self.routing_headers(target)
        if self.hook_call is not None:
            notices = (*notices, *self.hook_call.notices)
            headers += [(f"{NOTE_HEADER}{name}", header_value(value)) for name, value in self.hook_call.notes.items()]
        if notices or self.notices:
            headers += notice_headers(self.notices + notices)
        if self.tool_ids is not None and self.conversation_id is None and (ids := self.tool_ids.header()):
            headers.append((HEADER, ids))
        return headers

    async def limit_headers(self) -> LimitHeaders:
        """How much of the key's limits is used; empty if there is no key, or the key has no limits."""
        if self.record is not None:
            return self.record.limit_headers
        if self.key is None or not self.key.is_limited:
            return ()
        return await self.runtime.accounting.quotas.limit_headers(self.key)


def _has_answers_or_files(messages: tuple[Message, ...]) -> tuple[bool, bool]:
    """Whether there is an answer of a model, and whether a message may refer to a file."""
    has_answers = may_have_files = False
    for message in messages:
        has_answers = has_answers or message.role == "assistant"
        for part in message.parts:
            may_have_files = may_have_files or type(part) is Opaque or type(part) is ToolResult
    return has_answers, may_have_files


def _check_schemas(request: Request) -> None:
    if request.schema is None and not request.tools:
        return
    for schema in (request.schema, *(tool.parameters for tool in request.tools if isinstance(tool, Tool))):
        if schema is not None:
            check_size(schema, limit_patterns=True)


def id_headers(id: str, /) -> list[tuple[str, str]]:
    """The id of a request, in the headers where the client libraries of each dialect look for it."""
    return [("x-request-id", id), ("request-id", id)]


def notice_headers(notices: Iterable[Notice], /) -> list[tuple[str, str]]:
    """One header for each notice."""
    notices = [*dict.fromkeys(notices)]
    first, rest = notices[: MAX_NOTICES - 1], notices[MAX_NOTICES - 1 :]
    texts = [notice_text(notice)[:MAX_NOTICE] for notice in first]
    if rest:
        texts.append(f"and {', '.join(f'{notice.kind} {notice.what}' for notice in rest)}"[:MAX_LAST_NOTICE])
    return [("x-dragoman-notice", header_value(text)) for text in texts]


def header_value(text: str, /) -> str:
    """The text with only the characters that a header may have."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(letter if " " <= letter <= "~" else " " if letter.isspace() else "?" for letter in text)


def take_conversation_id(request: Request, /) -> tuple[str | None, Request]:
    """The conversation id of a request, and the request without the fields that are for the gateway."""
    fields = wire_extra(request.extra, GATEWAY_FIELDS)
    extra = {name: data for name, data in request.extra.items() if name != GATEWAY_FIELDS}
    return fields.get("conversation_id"), replace(request, extra=extra)


class _RequestIds:
    """Makes the ids of requests: a random prefix for each process, then a number."""

    def __init__(self) -> None:
        self._forks = -1
        self._prefix = ""
        self._count = count()

    def next(self) -> str:
        if self._forks != FORKS.count:
            self._forks, self._prefix = FORKS.count, secrets.token_hex(8)
        return f"req_{self._prefix}{next(self._count):08x}"


new_request_id = _RequestIds().next


def _client_request_id(http: HttpRequest) -> str | None:
    """The id that a client or a proxy gave the request, if it can be used."""
    id = http.headers.get("x-request-id")
    if not id or len(id) > MAX_ID or not id.isascii() or not id.isprintable() or " " in id:
        return None
    return id
