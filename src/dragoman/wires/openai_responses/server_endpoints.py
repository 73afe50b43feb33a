"""Stored responses and token counts for clients of the Responses API."""

from urllib.parse import parse_qs

from dragoman.events import to_events
from dragoman.http import HttpRequest, HttpResponse
from dragoman.wires.common.server_endpoints import (
    CancelResponse,
    DropResponse,
    FetchResponse,
    Route,
    ServerEndpoint,
    StoredResponse,
    count_tokens_endpoint,
    json_response,
    path_parameter,
)
from dragoman.wires.openai_responses.conversation_endpoints import CONVERSATION_ENDPOINTS
from dragoman.wires.openai_responses.item_lists import Page, input_items, whole_number
from dragoman.wires.openai_responses.server import OpenAIResponsesServer

_FETCH = Route(method="GET", path="/v1/responses/{id}")
_DROP = Route(method="DELETE", path="/v1/responses/{id}")
_ITEMS = Route(method="GET", path="/v1/responses/{id}/input_items")
_CANCEL = Route(method="POST", path="/v1/responses/{id}/cancel")


def _decode_fetch(http: HttpRequest) -> FetchResponse:
    """The options are the number of the event after which a stream starts; None if the client wants no stream."""
    query = parse_qs(http.path.partition("?")[2])
    after = whole_number(query, "starting_after", -1)
    is_stream = query.get("stream", ["false"])[-1].lower() == "true"
    return FetchResponse(path_parameter(_FETCH, http), after if is_stream else None)


def _encode_stored(request: FetchResponse, stored: StoredResponse) -> HttpResponse:
    server = OpenAIResponsesServer()
    after: int | None = request.options
    if after is None:
        return server.encode_body(stored.response, stored.request)
    encoder = server.stream_encoder(stored.request)
    frames = [frame for event in to_events(stored.response) for frame in encoder.feed(event).split(_END) if frame]
    # Each frame is one event, and the events are numbered from 0.
    body = b"".join(frame + _END for frame in frames[after + 1 :])
    return HttpResponse(headers={"content-type": encoder.content_type}, body=body)


_END = b"\n\n"


def _encode_deleted(request: DropResponse, _: None) -> HttpResponse:
    return json_response({"id": request.id, "object": "response", "deleted": True})


def _encode_input_items(request: FetchResponse, stored: StoredResponse) -> HttpResponse:
    page: Page = request.options
    return page.encode(input_items(stored))


def _encode_cancelled(_: CancelResponse, stored: StoredResponse) -> HttpResponse:
    """A response that is complete is not changed by a client that cancels it."""
    return OpenAIResponsesServer().encode_body(stored.response, stored.request)


SERVER_ENDPOINTS = (
    ServerEndpoint(_FETCH, _decode_fetch, _encode_stored),
    ServerEndpoint(_DROP, lambda http: DropResponse(path_parameter(_DROP, http)), _encode_deleted),
    ServerEndpoint(_ITEMS, lambda http: FetchResponse(path_parameter(_ITEMS, http), Page(http)), _encode_input_items),
    ServerEndpoint(_CANCEL, lambda http: CancelResponse(path_parameter(_CANCEL, http)), _encode_cancelled),
    count_tokens_endpoint(
        Route(method="POST", path="/v1/responses/input_tokens"),
        OpenAIResponsesServer().decode_request,
        lambda count: {"object": "response.input_tokens", "input_tokens": count},
    ),
    *CONVERSATION_ENDPOINTS,
)
