"""Answers that are kept, and counted tokens, as clients of the Responses API ask for them."""

from dragoman.http import HttpReply
from dragoman.wires.common.server_endpoints import (
    DropResponse,
    FetchResponse,
    Route,
    ServerEndpoint,
    StoredResponse,
    count_tokens_endpoint,
    json_reply,
    path_parameter,
)
from dragoman.wires.openai_responses.server import OpenAIResponsesServer

_FETCH = Route(method="GET", path="/v1/responses/{id}")
_DROP = Route(method="DELETE", path="/v1/responses/{id}")


def _say(_: FetchResponse, found: StoredResponse) -> HttpReply:
    return OpenAIResponsesServer().encode_body(found.response, found.request)


def _say_dropped(asked: DropResponse, _: None) -> HttpReply:
    return json_reply({"id": asked.id, "object": "response", "deleted": True})


SERVER_ENDPOINTS = (
    ServerEndpoint(_FETCH, lambda http: FetchResponse(path_parameter(_FETCH, http)), _say),
    ServerEndpoint(_DROP, lambda http: DropResponse(path_parameter(_DROP, http)), _say_dropped),
    count_tokens_endpoint(
        Route(method="POST", path="/v1/responses/input_tokens"),
        OpenAIResponsesServer().decode_request,
        lambda count: {"object": "response.input_tokens", "input_tokens": count},
    ),
)
