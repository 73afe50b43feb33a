"""The fast path of a plain call: texts to a healthy target, and an answer that is not streamed.

Most calls are of this kind, and succeed. A call waits for the network, and afterwards its code is no longer in the
caches of the processor, so its cost depends on how many functions it runs through. This plan does in one generator what
`Chain`, `attempt` and `exchange` do in four, for the case that nothing has to be chosen, fitted or repeated. It decides
nothing about errors: the first error goes to the chain, which continues as after a first attempt of its own.
`tests/engine/test_plain_call.py` compares it with the full chain.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from dragoman import wires
from dragoman.engine.attempt import HEAVY_MESSAGES, annotate_error
from dragoman.engine.call_context import CallContext, Timeouts
from dragoman.engine.effects import Compute, Now, Observe, Plan, Send
from dragoman.engine.exchange import (
    HEAVY_BODY,
    MAX_BODY,
    add_call_details,
    add_provider_headers,
    decode_answer,
    name_limit,
)
from dragoman.engine.health import Health
from dragoman.engine.prompt_caches import has_points
from dragoman.errors import DragomanError, TimedOut
from dragoman.http import Head, HttpRequest, HttpResponse
from dragoman.targets.target import Target
from dragoman.types import Request, Response
from dragoman.types.fast_constructors import served_attempt
from dragoman.wires.common.client_half import is_text_only

ContinueAsChain: TypeAlias = Callable[[Sequence[Target], DragomanError | None, float], Plan[Response]]
"""The plan of a chain that continues a call: after the error of its first attempt, which began at a moment, or before
any attempt, if there is no error."""


def is_plain(request: Request, target: Target, timeouts: Timeouts, /) -> bool:
    """Whether the fast path can serve a request without a stream, if the target is healthy.

    >>> is_plain(Request(schema={}), Target(provider="p", model="m", wire="w", base_url="https://x"), Timeouts())
    False
    """
    return (
        request.schema is None
        and len(request.messages) <= HEAVY_MESSAGES
        and target.credential is None
        and not (target.needs_key and not target.api_key)
        and (timeouts.total is None or timeouts.total > 0)
        and not (target.quirks.caching == "contents" and has_points(request))
        and is_text_only(request)
    )


def plain_call(
    request: Request,
    targets: Sequence[Target],
    health: Health,
    timeouts: Timeouts,
    continue_as_chain: ContinueAsChain,
    /,
) -> Plan[Response]:
    """The response of the first target; that of the chain if the target is not healthy, or if it fails."""
    target = targets[0]
    loads = health.loads if len(targets) > 1 else None  # the limits that targets report, if there is a choice
    began: float = yield Now()
    name = target.name
    if health.get(name).state != "healthy" or (loads is not None and loads.full(target, began, 1) is not None):
        return (yield from continue_as_chain(targets, None, began))
    http: HttpRequest | None = None
    head: Head | None = None
    try:
        client = wires.get(target.wire).client
        http = client.encode_request(request, target)
        http_response: HttpResponse = yield Send(
            http,
            timeouts.total,
            timeouts.connect,
            limit=MAX_BODY,
            head_timeout=timeouts.first_event,
            transport=target.http_client,
        )
        head = http_response
        if len(http_response.body) <= HEAVY_BODY:
            response = decode_answer(http_response, request, target, client)
        else:
            response = yield Compute(lambda _: decode_answer(http_response, request, target, client))
    except DragomanError as error:
        failure = error
    else:
        ended_at: float = yield Now()
        duration = ended_at - began
        health.record_success(name, duration)
        attempt = served_attempt(name, duration, response.usage)
        response = add_call_details(response, http, target, http_response, (attempt,))
        if loads is not None and response.rate_limits:
            loads.learn(name, http_response, ended_at)
        yield Observe(attempt)
        return response
    if head is not None:
        add_provider_headers(failure, head)
    elif isinstance(failure, TimedOut):
        deadline = None if timeouts.total is None else began + timeouts.total
        yield from name_limit(failure, CallContext(timeouts=timeouts, deadline=deadline), began)
    annotate_error(failure, target, http)
    return (yield from continue_as_chain(targets, failure, began))
