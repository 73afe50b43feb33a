"""A question beside generation in, what was found out: models, tokens, vectors, answers that were kept."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, cast

from dragoman.engine import endpoints as ask
from dragoman.engine.effects import Plan
from dragoman.engine.failover import ChainOptions
from dragoman.errors import DragomanError, ProviderError, Unsupported
from dragoman.gateway.accounting.estimates import prompt_tokens
from dragoman.gateway.auth.authenticate import check_model, check_name
from dragoman.gateway.catalog import TargetChoice
from dragoman.gateway.errors import NotStored
from dragoman.gateway.observability.tracing import Operation
from dragoman.gateway.request import RequestContext
from dragoman.targets.target import Target
from dragoman.types import Embeddings, ModelInfo, Notice, Request, Usage, load, user
from dragoman.wires.base import Wire
from dragoman.wires.common.request_body import missing_field
from dragoman.wires.common.server_endpoints import (
    CountTokens,
    DropResponse,
    Embed,
    EndpointRequest,
    EndpointResult,
    FetchResponse,
    ListModels,
    ShowModel,
    StaticDocument,
    StoredResponse,
)

T = TypeVar("T")
NO_USAGE = Usage(input=0, output=0)
"""Counting tokens takes none."""


async def find(context: RequestContext, question: EndpointRequest, /) -> EndpointResult:
    """What a dialect's service asks for."""
    runtime = context.runtime
    match question:
        case ListModels():
            key = context.key
            return tuple(model for model in runtime.catalog.models() if key is None or key.may_use(model.id))
        case ShowModel(id=id):
            check_name(id)
            check_model(context.key, id)
            runtime.catalog.find(id)
            return next((model for model in runtime.catalog.models() if model.id == id), ModelInfo(id=id))
        case CountTokens():
            cast("Wire", context.wire).server.check(question.model, question.request)
            choice = _choose(context, question.model)
            counting = _count(question.request, choice.targets[0], choice.options)
            count = await _ask(context, choice, "count_tokens", Request(), counting, lambda _: NO_USAGE)
            if count is None:
                why = f"{choice.targets[0].provider}: it counts no tokens, so this is an estimate"
                context.notices += (Notice(kind="info", what="count of tokens", why=why),)
            return prompt_tokens(question.request) if count is None else count
        case Embed():
            choice = _choose(context, question.model)
            context.notices += tuple(Notice(kind="dropped", what=field, why=_UNREAD) for field in question.unread)
            embedding = ask.embed(question.texts, question.dimensions, choice.targets[0], choice.options)
            request = Request(messages=tuple(user(_words(text)) for text in question.texts))
            return await _ask(context, choice, "embeddings", request, embedding, _used)
        case FetchResponse(id=id):
            kept = await recalled(context, id)
            if kept is None:
                raise NotStored(f"no response {id[:200]!r} is kept here")
            return kept
        case DropResponse(id=id):
            if not await runtime.responses.delete(context.owner, id):
                raise NotStored(f"no response {id[:200]!r} is kept here")
            return None
        case StaticDocument():
            return None


_UNREAD = "it is no option of vectors that targets are told of"
_NOWHERE = frozenset({404, 405, 501})
"""Statuses of a server that does not know the path."""


def _count(request: Request, target: Target, options: ChainOptions) -> Plan[int | None]:
    """How many tokens there are as the provider counts them; None where it does not."""
    try:
        return (yield from ask.count_tokens(request, target, options))
    except Unsupported:
        return None
    except ProviderError as error:
        if error.status not in _NOWHERE or error.code is not None:
            raise
        return None


def _words(text: str | tuple[int, ...]) -> str:
    return text if isinstance(text, str) else " ".join(map(str, text))


def _choose(context: RequestContext, name: str) -> TargetChoice:
    if not name:
        raise missing_field("model")
    context.name(name)
    return context.runtime.catalog.find(name)


async def _ask(
    context: RequestContext,
    choice: TargetChoice,
    operation: Operation,
    request: Request,
    plan: Plan[T],
    used: Callable[[T], Usage],
) -> T:
    """What a provider says, within the limits of the key; it has a row as an answer has."""
    target = choice.targets[0].name
    account = await context.open(request, choice.targets[:1], operation)
    try:
        found = await context.runtime.registry.driver.arun(plan)
        await account.settle("served", status=200, target=target, usage=used(found))
    except asyncio.CancelledError:
        await account.leave(target)
        raise
    except DragomanError as error:
        await account.fail(error)
        raise
    finally:
        # Nothing is done here but where the fault is our own.
        await account.settle("failed", status=500, target=target)
    return found


def _used(found: Embeddings) -> Usage:
    return found.usage


async def recalled(context: RequestContext, id: str, /) -> StoredResponse | None:
    """An answer that was kept for the same key."""
    value = await context.runtime.responses.load(context.owner, id)
    return None if value is None else load(value, StoredResponse)
