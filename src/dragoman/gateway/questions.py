"""A question beside generation in, what was found out: models, tokens, vectors, answers that were kept."""

from dragoman import ask
from dragoman.drive import Driver
from dragoman.gateway.access import check_model
from dragoman.gateway.refusals import NotKept
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
from dragoman.types import ModelInfo, load


async def find(visit: Visit, question: Question, /) -> Found:
    """What a dialect's service asks for."""
    setup = visit.setup
    match question:
        case ListModels():
            key = visit.key
            return tuple(model for model in setup.catalog.models() if key is None or key.may_use(model.id))
        case ShowModel(id=id):
            check_model(visit.key, id)
            setup.catalog.find(id)
            return next((model for model in setup.catalog.models() if model.id == id), ModelInfo(id=id))
        case CountTokens():
            check_model(visit.key, question.model)
            choice = setup.catalog.find(question.model)
            plan = ask.count_tokens(question.request, choice.targets[0], choice.options)
            return await Driver(setup.registry.transport).arun(plan)
        case Embed():
            check_model(visit.key, question.model)
            choice = setup.catalog.find(question.model)
            wanted = ask.embed(question.texts, question.dimensions, choice.targets[0], choice.options)
            return await Driver(setup.registry.transport).arun(wanted)
        case FetchResponse(id=id):
            return (await recalled(visit, id)).response
        case DropResponse(id=id):
            if not await setup.responses.delete(visit.owner, id):
                raise NotKept(f"no response {id[:200]!r} is kept here")
            return None
        case Recite():
            return None


async def recalled(visit: Visit, id: str, /) -> Kept:
    """An answer that was kept for the same key."""
    value = await visit.setup.responses.load(visit.owner, id)
    if value is None:
        raise NotKept(f"no response {id[:200]!r} is kept here")
    return load(value, Kept)
