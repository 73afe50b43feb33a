"""botocore's own client as the oracle: it sends what we send, and reads what we answer."""

import io
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import ContextTooLong, DragomanError, RateLimited
from dragoman.events import to_events
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.types import (
    Document,
    Finish,
    Image,
    Request,
    Response,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    tool_results,
    user,
)

session: Any = pytest.importorskip("botocore.session")
awsrequest: Any = pytest.importorskip("botocore.awsrequest")
exceptions: Any = pytest.importorskip("botocore.exceptions")
WIRE = wires.get("bedrock")
MODEL = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-x-v1:0"
PLAIN = target(f"bedrock/{MODEL}", api_key="k", base_url="https://bedrock-runtime.us-east-1.amazonaws.com")
TARGET = replace(PLAIN, capabilities=replace(PLAIN.capabilities, structured=True))
SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}}


class Raw(io.BytesIO):
    """A body as urllib3 has it."""

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        while piece := self.read(7):
            yield piece


def client(sent: list[Any], status: int, headers: dict[str, str], body: bytes) -> Any:
    """A client whose requests are kept, and answered with this."""
    made = session.Session().create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        aws_access_key_id="AKID",
        aws_secret_access_key="secret",
        config=pytest.importorskip("botocore.config").Config(retries={"total_max_attempts": 1}),
    )

    def answer(request: Any, **_: object) -> Any:
        sent.append(request)
        return awsrequest.AWSResponse(request.url, status, headers, Raw(body))

    made.meta.events.register("before-send.bedrock-runtime", answer)
    return made


REQUESTS: list[tuple[dict[str, Any], Request]] = [
    (
        {
            "messages": [{"role": "user", "content": [{"text": "hi"}]}],
            "system": [{"text": "Be brief."}],
            "inferenceConfig": {"maxTokens": 5, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
            "requestMetadata": {"team": "tides"},
        },
        Request(
            messages=(user("hi"),),
            system="Be brief.",
            max_tokens=5,
            temperature=0.5,
            top_p=0.9,
            stop=("END",),
            metadata={"team": "tides"},
        ),
    ),
    (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"image": {"format": "png", "source": {"bytes": b"png"}}},
                        {"document": {"format": "pdf", "name": "tides", "source": {"bytes": b"pdf"}}},
                        {"text": "?"},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
                        {"toolUse": {"toolUseId": "t1", "name": "tide", "input": {"port": "Brest"}}},
                    ],
                },
                {
                    "role": "user",
                    "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "no"}], "status": "error"}}],
                },
            ],
            "toolConfig": {
                "tools": [{"toolSpec": {"name": "tide", "description": "d", "inputSchema": {"json": SCHEMA}}}],
                "toolChoice": {"auto": {}},
            },
        },
        Request(
            messages=(
                user(
                    Image(data=b"png", mime="image/png"),
                    Document(data=b"pdf", mime="application/pdf", name="tides"),
                    "?",
                ),
                assistant(
                    Thinking(text="hm", extra={"bedrock": {"signature": "s"}}),
                    ToolCall(id="t1", name="tide", arguments={"port": "Brest"}),
                ),
                tool_results(ToolResult(id="t1", name="tide", content="no", is_error=True)),
            ),
            tools=(Tool(name="tide", description="d", parameters=SCHEMA),),
            tool_choice="auto",
        ),
    ),
]
ANSWER = Response(
    message=assistant(
        Thinking(text="hm", extra={"bedrock": {"signature": "s"}}), "Six.", ToolCall(id="t2", name="tide", arguments={})
    ),
    finish=Finish(reason="tool_calls"),
    usage=Usage(input=9, output=2),
)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("arguments", "request_"), REQUESTS)
def test_the_same_request_has_the_same_bytes(arguments: dict[str, Any], request_: Request, *, stream: bool) -> None:
    sent: list[Any] = []
    body = WIRE.server.encode_body(ANSWER).body
    made = client(sent, 200, {}, b"" if stream else body)
    (made.converse_stream if stream else made.converse)(modelId=MODEL, **arguments)
    ours = WIRE.client.encode_request(replace(request_, stream=stream), TARGET)
    assert sent[0].url == ours.url
    assert msgspec.json.decode(sent[0].body) == msgspec.json.decode(ours.body)
    assert sent[0].headers["Content-Type"].decode() == ours.headers["content-type"]
    theirs = HttpRequest(method="POST", path=ours.path, body=sent[0].body)
    model, decoded = WIRE.server.decode_request(theirs)
    assert (model, decoded) == (MODEL, replace(request_, stream=stream))


def test_botocore_reads_a_whole_answer() -> None:
    answer = client([], 200, {}, WIRE.server.encode_body(ANSWER).body).converse(modelId="m", **REQUESTS[0][0])
    assert answer["output"]["message"]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"text": "Six."},
        {"toolUse": {"toolUseId": "t2", "name": "tide", "input": {}}},
    ]
    assert answer["stopReason"] == "tool_use"
    assert answer["usage"] == {"inputTokens": 9, "outputTokens": 2, "totalTokens": 11}


def test_botocore_reads_a_stream() -> None:
    encoder = WIRE.server.stream_encoder(Request(stream=True))
    data = b"".join(encoder.feed(event) for event in to_events(ANSWER))
    headers = {"content-type": encoder.content_type}
    stream = client([], 200, headers, data).converse_stream(modelId="m", **REQUESTS[0][0])["stream"]
    events = [next(iter(event)) for event in stream]
    assert events[0] == "messageStart"
    assert events[-2:] == ["messageStop", "metadata"]
    assert events.count("contentBlockStop") == 3


@pytest.mark.parametrize(
    ("error", "name"),
    [(RateLimited("slow down"), "ThrottlingException"), (ContextTooLong("9000 tokens"), "ValidationException")],
)
def test_botocore_knows_the_errors(error: DragomanError, name: str) -> None:
    reply = WIRE.server.encode_error(error)
    with pytest.raises(exceptions.ClientError) as caught:
        client([], reply.status, dict(reply.headers), reply.body).converse(modelId="m", **REQUESTS[0][0])
    assert caught.value.response["Error"]["Code"] == name
    assert error.message in caught.value.response["Error"]["Message"]


def test_botocore_knows_an_error_inside_a_stream() -> None:
    data = WIRE.server.stream_encoder(Request(stream=True)).feed(RateLimited("slow down"))
    stream = client([], 200, {}, data).converse_stream(modelId="m", **REQUESTS[0][0])["stream"]
    with pytest.raises(exceptions.EventStreamError) as caught:
        list(stream)
    assert caught.value.response["Error"] == {"Code": "throttlingException", "Message": "slow down"}
