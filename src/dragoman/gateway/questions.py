"""A question beside generation in, what was found out: models, tokens, vectors, answers that were kept."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from dragoman import ask
from dragoman.drive import Driver
from dragoman.errors import DragomanError
from dragoman.flow import Flow
from dragoman.gateway.access import check_model, check_name
from dragoman.gateway.catalog import Choice
from dragoman.gateway.refusals import NotKept
from dragoman.gateway.traces import Operation
from dragoman.gateway.visit import Visit
from dragoman.serving import (
    CountTokens,
    DropResponse,
    Embed,
    FetchResponse,
    Found,
    Kept,
    ListModels,
    Question,
    Recite,
    ShowModel,
)
from dragoman.types import Embeddings, ModelInfo, Request, Usage, load, user

T = TypeVar("T")
FREE = Usage(input=0, output=0)
"""Counting tokens takes none."""


async def find(visit: Visit, question: Question, /) -> Found:
    """What a dialect's service asks for."""
    setup = visit.setup
    match question:
        case ListModels():
            key = visit.key
            return tuple(model for model in setup.catalog.models() if key is None or key.may_use(model.id))
        case ShowModel(id=id):
            check_name(id)
            check_model(visit.key, id)
            setup.catalog.find(id)
            return next((model for model in setup.catalog.models() if model.id == id), ModelInfo(id=id))
        case CountTokens():
            choice = _choose(visit, question.model)
            counting = ask.count_tokens(question.request, choice.targets[0], choice.options)
            return await _ask(visit, choice, "count_tokens", Request(), counting, lambda _: FREE)
        case Embed():
            choice = _choose(visit, question.model)
            embedding = ask.embed(question.texts, question.dimensions, choice.targets[0], choice.options)
            request = Request(messages=tuple(map(user, question.texts)))
            return await _ask(visit, choice, "embeddings", request, embedding, _used)
        case FetchResponse(id=id):
            kept = await recalled(visit, id)
            if kept is None:
                raise NotKept(f"no response {id[:200]!r} is kept here")
            return kept.response
        case DropResponse(id=id):
            if not await setup.responses.delete(visit.owner, id):
                raise NotKept(f"no response {id[:200]!r} is kept here")
            return None
        case Recite():
            return None


def _choose(visit: Visit, name: str) -> Choice:
    visit.name(name)
    return visit.setup.catalog.find(name)


async def _ask(
    visit: Visit, choice: Choice, operation: Operation, request: Request, plan: Flow[T], used: Callable[[T], Usage]
) -> T:
    """What a provider says, within the limits of the key; it has a row as an answer has."""
    target = choice.targets[0].name
    account = await visit.open(request, choice.targets[:1], operation)
    try:
        found = await Driver(visit.setup.registry.transport).arun(plan)
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


async def recalled(visit: Visit, id: str, /) -> Kept | None:
    """An answer that was kept for the same key."""
    value = await visit.setup.responses.load(visit.owner, id)
    return None if value is None else load(value, Kept)
