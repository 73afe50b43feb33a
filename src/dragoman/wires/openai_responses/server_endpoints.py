"""Stored responses and token counts for clients of the Responses API."""

from dragoman.http import HttpResponse
from dragoman.wires.common.server_endpoints import (
    DropResponse,
    FetchResponse,
    Route,
    ServerEndpoint,
    StoredResponse,
    count_tokens_endpoint,
    json_response,
    path_parameter,
)
from dragoman.wires.openai_responses.server import OpenAIResponsesServer

_FETCH = Route(method="GET", path="/v1/responses/{id}")
_DROP = Route(method="DELETE", path="/v1/responses/{id}")


def _encode_stored(_: FetchResponse, stored: StoredResponse) -> HttpResponse:
    return OpenAIResponsesServer().encode_body(stored.response, stored.request)


def _encode_deleted(request: DropResponse, _: None) -> HttpResponse:
    return json_response({"id": request.id, "object": "response", "deleted": True})


SERVER_ENDPOINTS = (
    ServerEndpoint(_FETCH, lambda http: FetchResponse(path_parameter(_FETCH, http)), _encode_stored),
    ServerEndpoint(_DROP, lambda http: DropResponse(path_parameter(_DROP, http)), _encode_deleted),
    count_tokens_endpoint(
        Route(method="POST", path="/v1/responses/input_tokens"),
        OpenAIResponsesServer().decode_request,
        lambda count: {"object": "response.input_tokens", "input_tokens": count},
    ),
)
