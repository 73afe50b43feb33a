"""Claude on clouds: the SDK of Anthropic is the oracle for what is sent; streams of InvokeModel are cut anywhere."""

import json
from base64 import b64encode
from importlib import import_module
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import DragomanError, InvalidRequest, Malformed, RateLimited, Truncated, Unsupported
from dragoman.events import fold, to_events
from dragoman.http import Head, HttpRequest
from dragoman.registry import Registry
from dragoman.targets.target import Target
from dragoman.types import Finish, Request, Response, Tool, ToolCall, ToolResult, Usage, assistant, tool_results, user
from dragoman.wires.common.event_stream import encode_event, encode_exception

anthropic: Any = import_module("anthropic")
httpx2: Any = import_module("httpx2")
WIRE = wires.get("anthropic")
(INVOKE,) = WIRE.other_servers
ENV = {"AWS_REGION": "eu-west-1", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west4"}
SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}
CALL = ToolCall(id="toolu_1", name="tide", arguments={"port": "Brest"})
REQUEST = Request(
    system="Be brief.",
    messages=(
        user("When?"),
        assistant("I look.", CALL),
        tool_results(ToolResult(id="toolu_1", name="tide", content="04:12")),
    ),
    tools=(Tool(name="tide", description="A tide table", parameters=SCHEMA),),
    max_tokens=300,
)
ARGUMENTS: dict[str, Any] = {
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": "When?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "tide", "input": {"port": "Brest"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "04:12"}]},
    ],
    "tools": [{"name": "tide", "description": "A tide table", "input_schema": SCHEMA}],
    "max_tokens": 300,
}
MODELS = {
    "vertex-anthropic": "claude-haiku-4-5@20251001",
    "bedrock-anthropic": "eu.anthropic.claude-haiku-4-5-20251001-v1:0",
}


def target(provider: str) -> Target:
    return Registry(env=ENV, api_key="k").target(f"{provider}/{MODELS[provider]}")


def sent_by_sdk(provider: str, *, stream: bool, **headers: str) -> Any:
    sent: list[Any] = []

    def answer(request: Any) -> Any:
        sent.append(request)
        return httpx2.Response(400, json={"error": {"message": "no"}})

    http_client = anthropic.DefaultHttpxClient(transport=httpx2.MockTransport(answer))
    if provider == "vertex-anthropic":
        client = anthropic.AnthropicVertex(
            region="europe-west4", project_id="p", access_token="k", http_client=http_client, max_retries=0
        )
    else:
        client = anthropic.AnthropicBedrock(aws_region="eu-west-1", api_key="k", http_client=http_client, max_retries=0)
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(model=MODELS[provider], stream=stream, extra_headers=headers, **ARGUMENTS)
    return sent[0]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("provider", MODELS)
def test_the_sdk_sends_the_same(provider: str, stream: bool) -> None:  # noqa: FBT001
    theirs = sent_by_sdk(provider, stream=stream)
    ours = WIRE.client.encode_request(replace(REQUEST, stream=stream), target(provider))
    body = json.loads(theirs.content)
    if body.get("stream") is False:
        del body["stream"]
    # The SDK of 2026-11 sends the version 2026-10-21, which refuses some options; recorded requests have the cloud's own.
    body["anthropic_version"] = {"vertex": "vertex-2023-10-16", "bedrock": "bedrock-2023-05-31"}[
        provider.split("-", maxsplit=1)[0]
    ]
    assert json.loads(ours.body) == body
    assert ours.url.replace("%3A", ":").replace("%40", "@") == str(theirs.url).replace("%3A", ":").replace("%40", "@")
    assert ours.headers["authorization"] == theirs.headers["authorization"] == "Bearer k"


def test_betas_are_in_the_body_of_invoke() -> None:
    theirs = sent_by_sdk("bedrock-anthropic", stream=False, **{"anthropic-beta": "a-1,b-2"})
    request = Request(messages=(user("x"),), extra={"anthropic": {"betas": ["a-1", "b-2"]}})
    ours = WIRE.client.encode_request(request, target("bedrock-anthropic"))
    assert json.loads(ours.body)["anthropic_beta"] == json.loads(theirs.content)["anthropic_beta"] == ["a-1", "b-2"]
    assert "anthropic-beta" not in ours.headers


def test_vertex_counts_tokens_and_bedrock_does_not() -> None:
    http = WIRE.endpoints.encode_tokens(REQUEST, target("vertex-anthropic"))
    assert http.path.endswith("/publishers/anthropic/models/count-tokens:rawPredict")
    assert json.loads(http.body)["model"] == MODELS["vertex-anthropic"]
    assert json.loads(http.body)["anthropic_version"] == "vertex-2023-10-16"
    with pytest.raises(Unsupported, match="bedrock-anthropic does not count tokens"):
        WIRE.endpoints.encode_tokens(REQUEST, target("bedrock-anthropic"))


@pytest.mark.parametrize("provider", MODELS)
def test_clouds_do_not_list_models(provider: str) -> None:
    with pytest.raises(Unsupported, match=f"{provider}: listing models is not supported"):
        WIRE.endpoints.encode_models(target(provider))


# Streams of InvokeModel -----------------------------------------------------------------------------------------------

ANSWER = Response(
    message=assistant("It is high.", CALL),
    finish=Finish(reason="tool_calls"),
    usage=Usage(input=10, output=5),
    id="msg_1",
    model="claude",
)


def stream() -> bytes:
    encoder = INVOKE.stream_encoder(REQUEST)
    return b"".join(encoder.feed(event) for event in to_events(ANSWER))


def read(*pieces: bytes) -> Response:
    decoder = WIRE.client.stream_decoder()
    return fold([event for piece in (*pieces, b"") for event in decoder.feed(piece)])


@pytest.mark.parametrize("size", [1, 2, 7, 100, 10_000])
def test_a_stream_is_read_however_it_is_cut(size: int) -> None:
    data = stream()
    response = read(*(data[at : at + size] for at in range(0, len(data), size)))
    assert (response.text, response.tool_calls, response.usage) == ("It is high.", (CALL,), ANSWER.usage)


@pytest.mark.no_cover
def test_every_cut_raises() -> None:
    data = stream()
    for end in range(len(data)):
        with pytest.raises(Truncated):
            read(data[:end])


def test_an_exception_in_a_stream_is_its_error() -> None:
    start = stream()[:400]
    chunk = encode_event("chunk", json.dumps({"bytes": b64encode(b'{"type":"ping"}').decode()}).encode())
    assert start
    with pytest.raises(RateLimited, match="slow down"):
        read(chunk + encode_exception("throttlingException", b'{"message":"slow down"}'))


@pytest.mark.parametrize("payload", [b"{}", b"no json", b'{"bytes":1}', b'{"bytes":"%%"}', b"[]"])
def test_a_chunk_without_bytes_is_malformed_or_ignored(payload: bytes) -> None:
    with pytest.raises((Malformed, Truncated)):
        read(encode_event("chunk", payload))


def test_other_events_are_ignored() -> None:
    assert read(encode_event("initial-response", b"{}") + stream()).text == "It is high."


def test_an_error_response_of_aws_has_its_name_in_a_header() -> None:
    head = Head(status=400, headers={"x-amzn-errortype": "ThrottlingException:http://x"})
    assert isinstance(WIRE.client.decode_error(head, b'{"message":"Too many requests"}'), RateLimited)


# The server half ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "stream"),
    [
        ("/model/eu.anthropic.claude-x-v1%3A0/invoke", False),
        ("/model/eu.anthropic.claude-x-v1:0/invoke-with-response-stream", True),
    ],
)
def test_the_path_has_the_model(path: str, stream: bool) -> None:  # noqa: FBT001
    body = json.dumps({"anthropic_version": "bedrock-2023-05-31", **ARGUMENTS}).encode()
    model, request = INVOKE.decode_request(HttpRequest(method="POST", path=path, body=body))
    assert (model, request.stream) == ("eu.anthropic.claude-x-v1:0", stream)
    assert request.messages == REQUEST.messages


def test_an_error_has_the_form_of_aws() -> None:
    response = INVOKE.encode_error(InvalidRequest("no"))
    assert response.headers["x-amzn-errortype"] == "ValidationException"
    encoder = INVOKE.stream_encoder(REQUEST)
    with pytest.raises(DragomanError, match="slow"):
        read(encoder.feed(RateLimited("slow down")))
