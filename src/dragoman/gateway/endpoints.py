"""The endpoints besides generation: model lists, token counts, embeddings, stored responses, files."""

from collections.abc import Callable
from typing import TypeVar, cast

from msgspec.structs import replace

from dragoman import wires
from dragoman.engine import deployment_limits
from dragoman.engine.effects import Plan
from dragoman.engine.failover import ChainOptions
from dragoman.errors import InvalidRequest
from dragoman.gateway.auth.authenticate import check_model, check_name
from dragoman.gateway.catalog import TargetChoice
from dragoman.gateway.errors import NotStored
from dragoman.gateway.observability.tracing import Operation
from dragoman.gateway.request import RequestContext
from dragoman.targets.target import Target
from dragoman.types import Embeddings, ModelInfo, Notice, Ranking, Request, Usage, user
from dragoman.wires.base import Wire
from dragoman.wires.common.batch_values import BatchQuery
from dragoman.wires.common.embedding_forms import check_numbers
from dragoman.wires.common.request_body import missing_field
from dragoman.wires.common.server_endpoints import (
    CancelResponse,
    ChatQuery,
    CountTokens,
    DropResponse,
    Embed,
    EndpointRequest,
    EndpointResult,
    FetchResponse,
    FileQuery,
    ItemListQuery,
    ListModels,
    Rerank,
    ShowModel,
    StaticDocument,
    StoredResponse,
)

T = TypeVar("T")
MAX_INPUTS = 2048
"""Texts of one request for embeddings; OpenAI takes as many (2026)."""
NO_USAGE = Usage(input=0, output=0)
"""Providers count tokens for free."""


async def run_endpoint(context: RequestContext, endpoint_request: EndpointRequest, /) -> EndpointResult:
    """What the endpoint of a dialect asks for."""
    runtime = context.runtime
    match endpoint_request:
        case ListModels():
            key = context.key
            models = await runtime.catalog.all_models()
            return tuple(model for model in models if key is None or key.may_use(model.id))
        case ShowModel(id=id):
            check_name(id)
            full = await runtime.catalog.full_name(id)
            check_model(context.key, id, full)
            runtime.catalog.find(full)
            same_id = (model for model in await runtime.catalog.all_models() if model.id == full)
            return replace(next(same_id, ModelInfo(id=id)), id=id)
        case CountTokens():
            return await _count_tokens(context, endpoint_request)
        case Embed():
            return await _embed(context, endpoint_request)
        case Rerank():
            return await _rerank(context, endpoint_request)
        case FetchResponse(id=id):
            return await _stored_response(context, id)
        case CancelResponse(id=id):
            stored, background = await _stored_response(context, id), cast("Wire", context.wire).background
            if background is None or not background.was_background(stored.request):
                raise InvalidRequest("Cannot cancel a synchronous response.", param="id")
            return stored
        case DropResponse(id=id):
            if not await runtime.responses.delete(context.owner, id):
                raise NotStored(f"no stored response {id[:200]!r}")
            return None
        case ItemListQuery():
            return await runtime.item_lists.run(context.owner, endpoint_request)
        case FileQuery():
            return await runtime.files.run(context.owner, endpoint_request)
        case ChatQuery():
            return await runtime.chats.run(context.owner, endpoint_request)
        case BatchQuery():
            return await runtime.batches.run(context.owner, endpoint_request)
        case StaticDocument():
            return None


async def _stored_response(context: RequestContext, id: str) -> StoredResponse:
    if (stored := await context.runtime.responses.load(context.owner, id)) is None:
        raise NotStored(f"no stored response {id[:200]!r}")
    return stored


async def _count_tokens(context: RequestContext, body: CountTokens) -> int:
    cast("Wire", context.wire).server.check(body.model, body.request)
    target, options = await _choose_target(context, body.model)
    request = await context.restored(await context.load_stored(body.request), target)
    # The prompt is not sent to a model, so it is not counted as used.
    plan = deployment_limits.count_or_estimate(request, target, context.runtime.registry.health.loads, options)
    count = await _run(context, "count_tokens", Request(), plan, _no_usage)
    if count.is_estimate:
        why = f"{target.provider} does not count tokens, so this is an estimate"
        context.notices += (Notice(kind="info", what="token count", why=why),)
    return int(count)


async def _embed(context: RequestContext, body: Embed) -> Embeddings:
    if (count := len(body.texts)) > MAX_INPUTS:
        raise InvalidRequest(f"input must have at most {MAX_INPUTS} texts, got {count}; send them in several requests")
    target, options = await _choose_target(context, body.model)
    form = wires.get(target.wire).endpoints.embedding_form(target)
    check_numbers(body.vector_formats, body.options, form, target)
    why = "not an option of embeddings that targets know"
    context.notices += tuple(Notice(kind="dropped", what=field, why=why) for field in body.ignored_fields)
    plan = deployment_limits.embed(body.texts, body.options, target, context.runtime.registry.health.loads, options)
    request = Request(messages=tuple(user(_as_text(text)) for text in body.texts))
    embeddings = await _run(context, "embeddings", request, plan, lambda embeddings: embeddings.usage)
    context.notices += embeddings.notices
    return embeddings


async def _rerank(context: RequestContext, body: Rerank) -> Ranking:
    if (count := len(body.documents)) > MAX_INPUTS:
        raise InvalidRequest(f"documents must have at most {MAX_INPUTS} texts, got {count}; send several requests")
    target, options = await _choose_target(context, body.model)
    why = "not an option of rankings that targets know"
    foreign = [field for wire, fields in body.extra.items() if wire != target.wire for field in fields]
    context.notices += tuple(Notice(kind="dropped", what=field, why=why) for field in (*body.ignored_fields, *foreign))
    loads, wire_fields = context.runtime.registry.health.loads, body.extra.get(target.wire)
    plan = deployment_limits.rerank(body.query, body.documents, body.top, target, loads, options, wire_fields)
    request = Request(messages=tuple(map(user, (body.query, *body.documents))))
    return await _run(context, "rerank", request, plan, lambda ranking: ranking.usage)


async def _choose_target(context: RequestContext, model: str) -> tuple[Target, ChainOptions]:
    if not model:
        raise missing_field("model")
    choice = await context.find_model(model)
    context.choice = TargetChoice(choice.targets[:1], choice.options)
    return choice.targets[0], choice.options


async def _run(
    context: RequestContext, operation: Operation, request: Request, plan: Plan[T], usage_of: Callable[[T], Usage]
) -> T:
    """Run a plan within the limits of the key, with a row in the usage log."""
    context.operation, context.request = operation, request
    record = context.record = await context.runtime.accounting.open(context)
    result = await context.runtime.registry.driver.arun(plan)
    await record.finish("served", status=200, target=context.current_target, usage=usage_of(result))
    return result


def _no_usage(_count: int) -> Usage:
    return NO_USAGE


def _as_text(text: str | tuple[int, ...]) -> str:
    return text if isinstance(text, str) else " ".join(map(str, text))
