"""Stored interactions for clients of the Interactions API."""

from urllib.parse import parse_qs

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.events import to_events
from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import JsonObject
from dragoman.wires.common.server_endpoints import (
    CancelResponse,
    DropResponse,
    FetchResponse,
    Route,
    ServerEndpoint,
    StoredResponse,
    json_response,
    path_parameters,
)
from dragoman.wires.google_interactions.previous_interaction import input_steps
from dragoman.wires.google_interactions.server import PREFIXES, InteractionsServer
from dragoman.wires.google_interactions.stream_encoder import InteractionsStreamEncoder

_END = b"\n\n"


class _Fetch(msgspec.Struct, frozen=True):
    """How a client wants a stored interaction."""

    stream: bool = False
    after: int = 0
    """The id of the event after which a stream starts."""
    with_input: bool = False


def _decode_fetch(http: HttpRequest) -> _Fetch:
    query = parse_qs(http.path.partition("?")[2])
    after = query.get("last_event_id", ["0"])[-1]
    if not after.isdecimal() or len(after) > _MAX_DIGITS:
        raise InvalidRequest(f"last_event_id must be the id of an event, got {after[:40]!r}", param="last_event_id")
    return _Fetch(stream=_flag(query, "stream"), after=int(after), with_input=_flag(query, "include_input"))


_MAX_DIGITS = 9


def _flag(query: dict[str, list[str]], name: str) -> bool:
    return query.get(name, ["false"])[-1].lower() in ("true", "1")


def _encode_stored(request: FetchResponse, stored: StoredResponse) -> HttpResponse:
    options: _Fetch = request.options
    if options.stream:
        encoder = InteractionsStreamEncoder(stored.request)
        data = b"".join(encoder.feed(event) for event in to_events(stored.response))
        # Each frame but the last, [DONE], is one event, and the events are numbered from 1.
        frames = [frame + _END for frame in data.split(_END) if frame]
        body = b"".join([*frames[options.after : -1], frames[-1]])
        return HttpResponse(headers={"content-type": encoder.content_type}, body=body)
    whole = InteractionsServer().encode_body(stored.response, stored.request)
    if not options.with_input:
        return whole
    answer = msgspec.json.decode(whole.body, type=JsonObject)
    return json_response({**answer, "input": input_steps(stored)})


def _endpoints(prefix: str) -> tuple[ServerEndpoint, ...]:
    fetch, drop = (Route(method=method, path=f"{prefix}/interactions/{{id}}") for method in ("GET", "DELETE"))
    cancel = Route(method="POST", path=f"{prefix}/interactions/{{id}}/cancel")
    return (
        ServerEndpoint(
            fetch, lambda http: FetchResponse(path_parameters(fetch, http)[-1], _decode_fetch(http)), _encode_stored
        ),
        ServerEndpoint(
            drop,
            lambda http: DropResponse(path_parameters(drop, http)[-1]),
            lambda _request, _result: json_response({}),
        ),
        ServerEndpoint(
            cancel,
            lambda http: CancelResponse(path_parameters(cancel, http)[-1]),
            lambda _request, result: json_response(result),
        ),
    )


SERVER_ENDPOINTS = tuple(endpoint for prefix in PREFIXES for endpoint in _endpoints(prefix))
