"""InvokeModel with the bodies of each maker, as a client and as a server: exact JSON."""

import json
from base64 import b64decode, b64encode
from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.engine.exchange import decode_answer
from dragoman.errors import InvalidRequest, Malformed, RateLimited, Truncated, Unsupported
from dragoman.events import fold, to_events
from dragoman.http import Head, HttpRequest
from dragoman.registry import Registry
from dragoman.types import (
    Choice,
    Embeddings,
    Finish,
    JsonObject,
    Message,
    Opaque,
    RankedDocument,
    Ranking,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Usage,
    assistant,
    user,
)
from dragoman.types.embedding import EmbeddingOptions
from dragoman.wires.base import ServerHalf, Wire
from dragoman.wires.bedrock.text import TextServer
from dragoman.wires.common.event_stream import EventStreamDecoder, encode_event, encode_exception
from dragoman.wires.common.header_counts import counts_in_headers
from dragoman.wires.common.invoke import (
    COUNT_PATH,
    METRICS,
    WHOLE_PATH,
    body_form,
    counted_form,
    read_metrics,
    read_path,
)
from dragoman.wires.common.server_endpoints import CountTokens, Embed, Rerank, ServerEndpoint
from tests.support.wires import laws

REGISTRY = Registry(env={"AWS_REGION": "us-east-1"}, api_key="k")
BEDROCK, CHAT, CLAUDE = wires.get("bedrock"), wires.get("openai_chat"), wires.get("anthropic")
TALK = [{"role": "user", "content": "hi"}]
BLOCKS = [{"role": "user", "content": [{"text": "hi"}]}]


def half_of(body: JsonObject, /) -> tuple[Wire, ServerHalf]:
    """The server half that takes a body."""
    halves = [(wire, half) for wire in (CLAUDE, CHAT, BEDROCK) for half in wire.other_servers]
    found = [(wire, half) for wire, half in halves for route in half.routes if route.accepts and route.accepts(body)]
    assert len({id(half) for _, half in found}) == 1
    return found[0]


def asked(body: JsonObject, /, *, stream: bool = False) -> HttpRequest:
    path = "/model/us.m%3A0/invoke" + ("-with-response-stream" if stream else "")
    return HttpRequest(method="POST", path=path, body=msgspec.json.encode(body))


def decoded(body: JsonObject, /, *, stream: bool = False) -> Request:
    model, request = half_of(body)[1].decode_request(asked(body, stream=stream))
    assert (model, bool(request.stream)) == ("us.m:0", stream)
    return request


def sent(spec: str, request: Request) -> tuple[str, JsonObject]:
    target = REGISTRY.target(spec)
    http = wires.get(target.wire).client.encode_request(request, target)
    return http.path, json.loads(http.body)


def answer(text: str = "Hello", **fields: Any) -> Response:
    finish = fields.pop("finish", Finish(reason="stop"))
    return Response(message=assistant(text), finish=finish, usage=Usage(input=3, output=1), **fields)


def chunks(body: JsonObject, response: Response) -> list[JsonObject]:
    encoder = half_of(body)[1].stream_encoder(decoded(body, stream=True))
    data = b"".join(encoder.feed(event) for event in to_events(response))
    assert encoder.content_type == "application/vnd.amazon.eventstream"
    frames = EventStreamDecoder().feed(data)
    assert {frame.name for frame in frames} == {"chunk"}
    return [json.loads(b64decode(json.loads(frame.data)["bytes"])) for frame in frames]


def wrapped(*events: JsonObject) -> bytes:
    payloads = [b64encode(json.dumps(event).encode()).decode() for event in events]
    return b"".join(encode_event("chunk", json.dumps({"bytes": each, "p": "abc"}).encode()) for each in payloads)


METRIC = {METRICS: {"inputTokenCount": 3, "outputTokenCount": 1}}


# Which body it is -----------------------------------------------------------------------------------------------------


BODIES: list[tuple[JsonObject, str | None]] = [
    ({"anthropic_version": "bedrock-2023-05-31", "messages": TALK}, "messages"),
    ({"messages": TALK, "system": "Be brief."}, "messages"),
    ({"messages": TALK, "tools": [{"name": "tide", "input_schema": {}}]}, "messages"),
    ({"schemaVersion": "messages-v1", "messages": BLOCKS}, "converse"),
    ({"messages": BLOCKS}, "converse"),
    ({"messages": TALK}, "chat"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}, "chat"),
    ({"messages": "no list"}, "chat"),
    ({"prompt": "hi"}, "text"),
    ({"inputText": "hi", "textGenerationConfig": {}}, "text"),
    ({"inputText": "hi"}, "embeddings"),
    ({"schemaVersion": "nova-multimodal-embed-v1", "singleEmbeddingParams": {}}, "embeddings"),
    ({"texts": ["hi"]}, "embeddings"),
    ({"query": "hi", "documents": []}, "rerank"),
    ({"query": "hi"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("body", "form"), BODIES)
def test_the_members_of_a_body_tell_what_it_is(body: JsonObject, form: str | None) -> None:
    assert body_form(body) == form


def test_a_path_that_is_not_of_invoke_model() -> None:
    assert read_path(HttpRequest(method="POST", path="/v1/messages")) == ("", False)
    assert read_metrics({METRICS: {"inputTokenCount": "x"}}) == Usage()


# Chat Completions -----------------------------------------------------------------------------------------------------


def test_chat_completions_as_a_client() -> None:
    path, body = sent(
        "bedrock-openai/openai.gpt-oss-20b-1:0", Request(messages=(user("hi"),), stream=True, max_tokens=9)
    )
    assert path == "/model/openai.gpt-oss-20b-1%3A0/invoke-with-response-stream"
    assert body == {"messages": TALK, "max_tokens": 9, "stream_options": {"include_usage": True}}
    assert sent("bedrock-openai/m", Request(messages=(user("hi"),))) == ("/model/m/invoke", {"messages": TALK})


def test_a_stream_of_chat_completions() -> None:
    first = {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello"}}]}
    last: JsonObject = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **METRIC}
    data = wrapped(first, last)
    events, error = laws.read(CHAT.client.stream_decoder(), [data])
    assert error is None
    assert (fold(events).text, fold(events).usage) == ("Hello", Usage(input=3, output=1))
    for cut in range(len(data)):
        _, error = laws.read(CHAT.client.stream_decoder(), [data[:cut]])
        assert isinstance(error, Truncated)


def test_an_exception_in_a_stream_of_chat_completions() -> None:
    data = encode_exception("throttlingException", b'{"message": "slow down"}')
    _, error = laws.read(CHAT.client.stream_decoder(), [data])
    assert isinstance(error, RateLimited)
    head = Head(status=400, headers={"x-amzn-errortype": "ThrottlingException"})
    assert isinstance(CHAT.client.decode_error(head, b"{}"), RateLimited)


def test_chat_completions_as_a_server() -> None:
    body = {"messages": TALK, "model": "other", "stream": True}
    assert decoded(body).messages == (user("hi"),)
    _, half = half_of(body)
    response = half.encode_body(answer(id="c", model="m"), decoded(body))
    assert json.loads(response.body)["choices"][0]["message"]["content"] == "Hello"
    assert response.headers["x-amzn-bedrock-input-token-count"] == "3"
    found = chunks(body, answer(id="c", model="m"))
    assert found[-1]["choices"][0]["finish_reason"] == "stop"
    assert found[-1][METRICS] == METRIC[METRICS]


def test_an_error_is_one_of_aws() -> None:
    _, half = half_of({"messages": TALK})
    assert half.encode_error(InvalidRequest("no")).headers["x-amzn-errortype"] == "ValidationException"
    data = half.stream_encoder(Request()).feed(InvalidRequest("no"))
    assert EventStreamDecoder().feed(data)[0].name == "!ValidationException"
    half.check("m", Request(messages=(user("hi"),)))
    assert half.supports_part(Text(text="hi"))
    assert half.has_citations


def test_an_answer_without_counts_has_no_metrics() -> None:
    response = msgspec.structs.replace(answer(), usage=Usage(source="unknown"))
    assert METRICS not in chunks({"messages": TALK}, response)[-1]
    assert "x-amzn-bedrock-input-token-count" not in half_of({"messages": TALK})[1].encode_body(response).headers


def test_counts_of_tokens_are_in_headers_of_an_answer_without_them() -> None:
    usage = Usage(input=10, output=1, cache_read=4, cache_write=3)
    response = msgspec.structs.replace(answer(), usage=usage)
    _, half = half_of(TEXTS["claude"][1])
    http = half.encode_body(response, decoded(TEXTS["claude"][1]))
    assert http.headers["x-amzn-bedrock-input-token-count"] == "3"
    assert counts_in_headers(http) == usage
    back = decode_answer(http, Request(), REGISTRY.target("bedrock/anthropic.claude-v2:1"), BEDROCK.client)
    assert (back.text, back.usage) == ("Hello", usage)
    upper = Head(status=200, headers={"X-Amzn-Bedrock-Output-Token-Count": "4"})
    assert counts_in_headers(upper) == Usage(output=4)
    for odd in ("", "x", "٣", "9" * 16):
        headers = {"x-amzn-bedrock-input-token-count": odd}
        assert counts_in_headers(Head(status=200, headers=headers)) == Usage(source="unknown")


# Nova -----------------------------------------------------------------------------------------------------------------


def test_nova_as_a_client() -> None:
    request = Request(messages=(user("hi"),), max_tokens=5, top_k=20, stream=True)
    path, body = sent("bedrock-nova/us.amazon.nova-2-lite-v1:0", msgspec.structs.replace(request, reasoning="low"))
    assert path == "/model/us.amazon.nova-2-lite-v1%3A0/invoke-with-response-stream"
    assert body == {
        "schemaVersion": "messages-v1",
        "inferenceConfig": {"maxTokens": 5, "topK": 20},
        "reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"},
        "messages": BLOCKS,
    }
    target = REGISTRY.target("bedrock-nova/m")
    assert BEDROCK.endpoints.encode_tokens(request, target).path == "/model/m/count-tokens"


def test_nova_as_a_server() -> None:
    config = {"max_new_tokens": 5, "top_p": 0.5, "topK": 20, "stopSequences": ["."]}
    reasoning = {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}
    request = decoded({"schemaVersion": "messages-v1", "messages": BLOCKS, "inferenceConfig": config, **reasoning})
    options = (request.max_tokens, request.top_p, request.top_k, request.stop, request.reasoning)
    assert options == (5, 0.5, 20, (".",), "low")
    path, body = sent("bedrock-nova/amazon.nova-2-lite-v1:0", request)
    assert (path, body["reasoningConfig"], "additionalModelRequestFields" in body) == (
        "/model/amazon.nova-2-lite-v1%3A0/invoke",
        reasoning["reasoningConfig"],
        False,
    )
    with pytest.raises(InvalidRequest, match="topK must be"):
        decoded({"messages": BLOCKS, "inferenceConfig": {"topK": "x"}})


def test_an_answer_of_nova() -> None:
    body = {"messages": BLOCKS}
    usage = Usage(input=5, output=1, cache_read=2)
    response = msgspec.structs.replace(answer(), usage=usage)
    whole = json.loads(half_of(body)[1].encode_body(response).body)
    counts = {"inputTokens": 3, "outputTokens": 1, "totalTokens": 6, "cacheReadInputTokenCount": 2}
    assert whole == {
        "output": {"message": {"role": "assistant", "content": [{"text": "Hello"}]}},
        "stopReason": "end_turn",
        "usage": counts,
    }
    assert fold(BEDROCK.client.decode_body(msgspec.json.encode(whole))).usage == usage
    found = chunks(body, response)
    assert found[0] == {"messageStart": {"role": "assistant"}}
    metrics = {"inputTokenCount": 3, "outputTokenCount": 1, "cacheReadInputTokenCount": 2}
    assert found[-1] == {"metadata": {"usage": counts}, METRICS: metrics}
    events, error = laws.read(BEDROCK.client.stream_decoder(), [wrapped(*found)])
    assert error is None
    assert (fold(events).text, fold(events).usage) == ("Hello", usage)


NOVA_STREAM: list[JsonObject] = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"delta": {"reasoningContent": {"reasoningText": {"text": "Hm."}}}, "contentBlockIndex": 0}},
    {"contentBlockStop": {"contentBlockIndex": 0}},
    {"contentBlockDelta": {"delta": {"text": "Höher"}, "contentBlockIndex": 1}},
    {"contentBlockDelta": {"delta": {"text": " now"}, "contentBlockIndex": 1}},
    {"contentBlockStop": {"contentBlockIndex": 1}},
    {"contentBlockStart": {"start": {"toolUse": {"toolUseId": "t", "name": "tide"}}, "contentBlockIndex": 2}},
    {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"port":"Brest"}'}}, "contentBlockIndex": 2}},
    {"contentBlockStop": {"contentBlockIndex": 2}},
    {"messageStop": {"stopReason": "tool_use"}},
    {"metadata": {"usage": {"inputTokens": 3, "outputTokens": 1}, "metrics": {}, "trace": {}}, **METRIC},
]


def test_a_stream_of_nova_is_read() -> None:
    whole, error = laws.read(BEDROCK.client.stream_decoder(), [wrapped(*NOVA_STREAM)])
    assert error is None
    response = fold(whole)
    assert (response.thinking, response.text, response.usage) == ("Hm.", "Höher now", Usage(input=3, output=1))
    assert response.tool_calls == (ToolCall(id="t", name="tide", arguments={"port": "Brest"}),)


@pytest.mark.no_cover
def test_every_cut_of_a_stream_of_nova_raises() -> None:
    data = wrapped(*NOVA_STREAM)
    whole, _ = laws.read(BEDROCK.client.stream_decoder(), [data])
    for cut in range(len(data)):
        events, error = laws.read(BEDROCK.client.stream_decoder(), [data[:cut]])
        assert isinstance(error, Truncated)
        assert events == whole[: len(events)]
        if cut:
            assert laws.read(BEDROCK.client.stream_decoder(), [data[:cut], data[cut:]]) == (whole, None)
    for damaged in range(0, len(data), 7):
        broken = data[:damaged] + bytes([data[damaged] ^ 1]) + data[damaged + 1 :]
        assert laws.read(BEDROCK.client.stream_decoder(), [broken])[1] is not None


def test_a_version_of_nova_that_is_not_spoken_is_sent_on() -> None:
    request = decoded({"schemaVersion": "messages-v2", "messages": BLOCKS})
    assert sent("bedrock-nova/m", request)[1]["schemaVersion"] == "messages-v2"
    assert "schemaVersion" in str(CHAT.client.encode_request(request, REGISTRY.target("openai/m")).notices)


def test_chunks_that_are_none() -> None:
    odd = encode_event("chunk", b'{"bytes": 7}') + wrapped({"what": 1}, {"messageStart": 1})
    events, error = laws.read(BEDROCK.client.stream_decoder(), [odd])
    assert (events, type(error)) == ([], Truncated)
    data = encode_event("chunk", json.dumps({"bytes": b64encode(b"[]").decode()}).encode())
    assert isinstance(laws.read(BEDROCK.client.stream_decoder(), [data])[1], Malformed)


def test_nova_with_tools_over_the_stream() -> None:
    call = ToolCall(id="t", name="tide", arguments={"port": "Brest"})
    response = Response(message=Message(role="assistant", parts=(call,)), finish=Finish(reason="tool_calls"))
    body: JsonObject = {
        "messages": BLOCKS,
        "toolConfig": {"tools": [{"toolSpec": {"name": "tide", "inputSchema": {"json": {}}}}]},
    }
    assert decoded(body).tools == (Tool(name="tide", parameters={}),)
    events, _ = laws.read(BEDROCK.client.stream_decoder(), [wrapped(*chunks(body, response))])
    assert fold(events).tool_calls == (call,)


# Texts to continue ----------------------------------------------------------------------------------------------------

TITAN = {"inputText": "Once", "textGenerationConfig": {"maxTokenCount": 5, "topP": 0.5, "stopSequences": ["."]}}
TEXTS: dict[str, tuple[str, JsonObject]] = {
    "titan": ("amazon.titan-text-lite-v1", TITAN),
    "claude": (
        "anthropic.claude-v2:1",
        {"prompt": "Once", "max_tokens_to_sample": 5, "top_p": 0.5, "top_k": 9, "stop_sequences": ["."]},
    ),
    "llama": ("us.meta.llama3-70b-instruct-v1:0", {"prompt": "Once", "max_gen_len": 5, "top_p": 0.5}),
    "cohere": (
        "cohere.command-text-v14",
        {"prompt": "Once", "max_tokens": 5, "p": 0.5, "k": 9, "stop_sequences": ["."], "num_generations": 2},
    ),
    "mistral": (
        "mistral.mistral-7b-instruct-v0:2",
        {"prompt": "Once", "max_tokens": 5, "top_p": 0.5, "top_k": 9, "stop": ["."]},
    ),
}
WHOLE: dict[str, JsonObject] = {
    "titan": {
        "results": [{"outputText": "Hello", "completionReason": "FINISH", "tokenCount": 1}],
        "inputTextTokenCount": 3,
    },
    "claude": {"type": "completion", "completion": "Hello", "stop_reason": "stop_sequence"},
    "llama": {"generation": "Hello", "stop_reason": "stop", "prompt_token_count": 3, "generation_token_count": 1},
    "cohere": {"id": "c", "generations": [{"text": "Hello", "finish_reason": "COMPLETE"}]},
    "mistral": {"outputs": [{"text": "Hello", "stop_reason": "stop"}]},
}
CHUNKS: dict[str, list[JsonObject]] = {
    "titan": [
        {"outputText": "Hello", "completionReason": None},
        {"outputText": "", "completionReason": "FINISH", "inputTextTokenCount": 3, "totalOutputTextTokenCount": 1},
    ],
    "claude": [{"completion": "Hello", "stop_reason": None}, {"completion": "", "stop_reason": "stop_sequence"}],
    "llama": [
        {"generation": "Hello", "stop_reason": None},
        {"generation": "", "stop_reason": "stop", "prompt_token_count": 3, "generation_token_count": 1},
    ],
    "cohere": [
        {"text": "Hello", "is_finished": False},
        {"text": "", "finish_reason": "COMPLETE", "is_finished": True},
    ],
    "mistral": [
        {"outputs": [{"text": "Hello", "stop_reason": None}]},
        {"outputs": [{"text": "", "stop_reason": "stop"}]},
    ],
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_to_continue(name: str) -> None:
    model, body = TEXTS[name]
    request = decoded(body)
    assert (request.raw, request.messages, request.max_tokens) == (True, (user("Once"),), 5)
    assert sent(f"bedrock/{model}", request)[1] == body
    half_of(body)[1].check("m", request)
    streamed = sent(f"bedrock/{model}", msgspec.structs.replace(request, stream=True))[1]
    assert streamed == {**body, **({"stream": True} if name == "cohere" else {})}


@pytest.mark.parametrize("name", TEXTS)
def test_an_answer_that_continues_a_text(name: str) -> None:
    _, body = TEXTS[name]
    whole = json.loads(half_of(body)[1].encode_body(answer(id="c"), decoded(body)).body)
    assert whole == WHOLE[name]
    back = fold(BEDROCK.client.decode_body(msgspec.json.encode(whole)))
    assert (back.text, back.finish.reason) == ("Hello", "stop")
    found = chunks(body, answer(id="c"))
    assert found == [*CHUNKS[name][:-1], {**CHUNKS[name][-1], **METRIC}]
    data = wrapped(*found)
    events, error = laws.read(BEDROCK.client.stream_decoder(), [data])
    assert error is None
    assert (fold(events).text, fold(events).usage) == ("Hello", Usage(input=3, output=1))
    for cut in range(len(data)):
        assert isinstance(laws.read(BEDROCK.client.stream_decoder(), [data[:cut]])[1], Truncated)


def test_several_answers_and_other_members() -> None:
    body = TEXTS["cohere"][1]
    other = Choice(message=assistant("Ho"), finish=Finish(reason="length", raw="MAX_TOKENS"))
    response = answer(other_choices=(other,))
    back = fold(BEDROCK.client.decode_body(half_of(body)[1].encode_body(response, decoded(body)).body))
    assert back.other_choices == (other,)
    whole = {"completion": "Hi", "stop_reason": "stop_sequence", "stop": "\n\nHuman:"}
    back = fold(BEDROCK.client.decode_body(json.dumps(whole).encode()))
    assert back.finish.extra == {"bedrock_text": {"stop": "\n\nHuman:"}}
    assert json.loads(half_of(body)[1].encode_body(back).body)["stop"] == "\n\nHuman:"
    assert (
        fold(BEDROCK.client.decode_body(b'{"choices": [{"text": "Hi", "stop_reason": "odd"}]}')).finish.reason
        == "other"
    )


def test_a_guardrail_that_intervenes_ends_the_text() -> None:
    action = {"amazon-bedrock-guardrailAction": "INTERVENED"}
    events, error = laws.read(BEDROCK.client.stream_decoder(), [wrapped({"outputText": "no", "index": 0, **action})])
    assert error is None
    assert (fold(events).text, fold(events).finish.reason) == ("no", "blocked")


def test_members_without_a_meaning_are_kept() -> None:
    config = {"maxTokenCount": 5, "odd": 1, "top_k": 2}
    request = decoded({"inputText": "Once", "textGenerationConfig": config, "other": 2})
    _, body = sent("bedrock/amazon.titan-text-lite-v1", request)
    assert body == {"inputText": "Once", "textGenerationConfig": config, "other": 2}
    target = REGISTRY.target("bedrock/mistral.mistral-7b-instruct-v0:2")
    with_n = Request(messages=(user("Once"),), raw=True, n=2, extra={"bedrock": {"safe": True}})
    http = BEDROCK.client.encode_request(with_n, target)
    assert json.loads(http.body) == {"prompt": "Once", "safe": True}
    assert [notice.what for notice in http.notices] == ["n"]


def test_prompts_that_are_refused() -> None:
    target = REGISTRY.target("bedrock/meta.llama3-8b-instruct-v1:0")
    tokens = Message(role="user", parts=(Opaque(wire="openai_chat", data={"tokens": [1]}),))
    for messages in ((user("a"), user("b")), (tokens,)):
        with pytest.raises(Unsupported, match="one text"):
            BEDROCK.client.encode_request(Request(messages=messages, raw=True), target)
    with pytest.raises(Unsupported, match="suffix"):
        BEDROCK.client.encode_request(Request(messages=(user("a"),), suffix="b"), target)
    _, half = half_of({"prompt": "a"})
    for body, match in (
        ({"prompt": None}, "prompt is required"),
        ({"prompt": 7}, "prompt must be"),
        ({"prompt": "a", "max_gen_len": "x"}, "max_gen_len must be"),
    ):
        with pytest.raises(InvalidRequest, match=match):
            half.decode_request(asked(body))
    titan = {"inputText": "a", "textGenerationConfig": 5}
    with pytest.raises(InvalidRequest, match="textGenerationConfig must be object, got int"):
        half_of(titan)[1].decode_request(asked(titan))
    with pytest.raises(InvalidRequest, match="modelId is required"):
        half.check("", Request(messages=(user("a"),), raw=True))
    assert TextServer().encode_error(InvalidRequest("no")) == half.encode_error(InvalidRequest("no"))


def test_what_a_text_cannot_express() -> None:
    body = TEXTS["llama"][1]
    _, half = half_of(body)
    assert (half.supports_part(Thinking(text="hm")), half.supports_part(Text(text="hi"))) == (False, True)
    thought = Message(role="assistant", parts=(Thinking(text="hm"), Text(text="Hello")))
    assert chunks(body, Response(message=thought, finish=Finish(reason="stop")))[0]["generation"] == "Hello"
    encoder = half.stream_encoder(decoded(body))
    events = [event for event in to_events(answer()) if type(event).__name__ != "PartDelta"]
    assert len(EventStreamDecoder().feed(b"".join(map(encoder.feed, events)))) == 2


# Embeddings and rankings ----------------------------------------------------------------------------------------------


def endpoint_of(body: JsonObject, path: str = WHOLE_PATH) -> ServerEndpoint:
    there = [each for each in BEDROCK.server_endpoints if each.route.path == path]
    (found,) = [each for each in there if each.route.accepts and each.route.accepts(body)]
    return found


VECTORS = Embeddings(vectors=((0.5, 1.0),), usage=Usage(input=2))


@pytest.mark.parametrize(
    ("body", "texts", "dimensions", "answer"),
    [
        (
            {"inputText": "hi", "dimensions": 2},
            ("hi",),
            2,
            {"embedding": [0.5, 1.0], "embeddingsByType": {"float": [0.5, 1.0]}, "inputTextTokenCount": 2},
        ),
        (
            {"texts": ["hi"], "input_type": "search_query", "truncate": "NONE"},
            ("hi",),
            None,
            {"embeddings": [[0.5, 1.0]], "id": "", "response_type": "embeddings_floats", "texts": ["hi"]},
        ),
        (
            {"texts": ["hi"], "output_dimension": 2, "embedding_types": ["float"]},
            ("hi",),
            2,
            {"embeddings": {"float": [[0.5, 1.0]]}, "id": "", "response_type": "embeddings_by_type", "texts": ["hi"]},
        ),
        (
            {
                "taskType": "SINGLE_EMBEDDING",
                "singleEmbeddingParams": {"text": {"value": "hi"}, "embeddingDimension": 2},
            },
            ("hi",),
            2,
            {"embeddings": [{"embeddingType": "TEXT", "embedding": [0.5, 1.0]}]},
        ),
    ],
)
def test_embeddings_as_a_server(
    body: JsonObject, texts: tuple[str, ...], dimensions: int | None, answer: JsonObject
) -> None:
    endpoint = endpoint_of(body)
    embed = endpoint.decode(asked(body))
    assert isinstance(embed, Embed)
    assert (embed.model, embed.texts, embed.options.dimensions) == ("us.m:0", texts, dimensions)
    encoded = endpoint.encode(embed, VECTORS).body
    assert json.loads(encoded) == answer
    assert BEDROCK.endpoints.decode_embeddings(encoded).vectors == VECTORS.vectors


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ({"inputText": "hi", "embeddingTypes": ["binary"]}, r'embeddingTypes must be \[float\], got \["binary"\]'),
        ({"texts": ["hi"], "embedding_types": ["int8"]}, r'embedding_types must be \[float\], got \["int8"\]'),
        ({"taskType": "SEGMENTED_EMBEDDING", "singleEmbeddingParams": {}}, "taskType must be SINGLE_EMBEDDING"),
        ({"taskType": "SINGLE_EMBEDDING", "singleEmbeddingParams": {"image": {}}}, "text.value must be a text"),
    ],
)
def test_embeddings_that_are_refused(body: JsonObject, match: str) -> None:
    with pytest.raises(InvalidRequest, match=match):
        endpoint_of(body).decode(asked(body))


def test_embeddings_of_nova_as_a_client() -> None:
    target = REGISTRY.target("bedrock/amazon.nova-2-multimodal-embeddings-v1:0")
    params = {"embeddingPurpose": "GENERIC_INDEX", "text": {"truncationMode": "NONE", "value": "hi"}}
    http = BEDROCK.endpoints.encode_embeddings(["hi"], EmbeddingOptions(dimensions=256), target)
    assert json.loads(http.body) == {
        "taskType": "SINGLE_EMBEDDING",
        "singleEmbeddingParams": {**params, "embeddingDimension": 256},
    }


CARRIED: dict[str, tuple[str, JsonObject]] = {
    "titan": ("amazon.titan-embed-text-v2:0", {"inputText": "hi", "dimensions": 2, "normalize": False}),
    "cohere": (
        "cohere.embed-english-v3",
        {"texts": ["hi"], "input_type": "search_query", "truncate": "END", "embedding_types": ["float"]},
    ),
    "cohere with its own words": (
        "cohere.embed-v4:0",
        {"texts": ["hi"], "input_type": "image", "truncate": "LEFT", "max_tokens": 9, "embedding_types": ["float"]},
    ),
    "nova": (
        "amazon.nova-2-multimodal-embeddings-v1:0",
        {
            "taskType": "SINGLE_EMBEDDING",
            "singleEmbeddingParams": {
                "embeddingPurpose": "GENERIC_RETRIEVAL",
                "embeddingDimension": 2,
                "text": {"truncationMode": "START", "value": "hi"},
            },
        },
    ),
    "nova with its own words": (
        "amazon.nova-2-multimodal-embeddings-v1:0",
        {
            "taskType": "SINGLE_EMBEDDING",
            "singleEmbeddingParams": {
                "embeddingPurpose": "TEXT_RETRIEVAL",
                "odd": 1,
                "text": {"truncationMode": "NONE", "value": "hi"},
            },
        },
    ),
}


@pytest.mark.parametrize("name", CARRIED)
def test_what_a_client_says_about_embeddings_is_sent_on(name: str) -> None:
    model, body = CARRIED[name]
    embed = endpoint_of(body).decode(asked(body))
    assert isinstance(embed, Embed)
    http = BEDROCK.endpoints.encode_embeddings(embed.texts, embed.options, REGISTRY.target(f"bedrock/{model}"))
    assert (json.loads(http.body), http.notices, embed.ignored_fields) == (body, (), ())
    other = CHAT.endpoints.encode_embeddings(embed.texts, embed.options, REGISTRY.target("openai/m"))
    said = body.get("singleEmbeddingParams", body).keys() - {"inputText", "texts", "text", "embedding_types"}
    assert len(other.notices) >= len(said - {"dimensions", "embeddingDimension"})


def test_fields_of_titan_do_not_go_to_nova() -> None:
    body: JsonObject = {"inputText": "hi", "normalize": False, "embeddingTypes": ["float"]}
    embed = endpoint_of(body).decode(asked(body))
    assert isinstance(embed, Embed)
    nova = REGISTRY.target("bedrock/amazon.nova-2-multimodal-embeddings-v1:0")
    http = BEDROCK.endpoints.encode_embeddings(embed.texts, embed.options, nova)
    assert json.loads(http.body)["singleEmbeddingParams"].keys() == {"embeddingPurpose", "text"}
    assert [(notice.kind, notice.what) for notice in http.notices] == [("dropped", "normalize")]


def test_what_nova_has_no_place_for_is_said() -> None:
    text = {"value": "hi", "odd": 1}
    body: JsonObject = {"taskType": "SINGLE_EMBEDDING", "singleEmbeddingParams": {"text": text}, "schemaVersion": "v9"}
    embed = endpoint_of(body).decode(asked(body))
    assert isinstance(embed, Embed)
    assert embed.ignored_fields == ("text.odd", "schemaVersion")


def test_counts_of_embeddings_and_rankings_are_in_headers() -> None:
    body = {"texts": ["hi"]}
    http = endpoint_of(body).encode(endpoint_of(body).decode(asked(body)), VECTORS)
    assert counts_in_headers(http) == Usage(input=2)


def test_a_ranking() -> None:
    body = {"query": "grey", "documents": ["a", "b"], "top_n": 1, "api_version": 2, "odd": 1}
    endpoint = endpoint_of(body)
    rerank = endpoint.decode(asked(body))
    assert rerank == Rerank("us.m:0", "grey", ("a", "b"), 1, extra={"bedrock": {"odd": 1}})
    ranking = Ranking(documents=(RankedDocument(index=1, score=0.5),), usage=Usage(source="unknown"))
    encoded = endpoint.encode(rerank, ranking).body
    assert json.loads(encoded) == {"results": [{"index": 1, "relevance_score": 0.5}]}
    assert BEDROCK.endpoints.decode_rerank(encoded) == ranking
    for model, version in (("cohere.rerank-v3-5:0", {"api_version": 2}), ("amazon.rerank-v1:0", {})):
        http = BEDROCK.endpoints.encode_rerank("grey", ["a"], None, REGISTRY.target(f"bedrock/{model}"))
        assert json.loads(http.body) == {"query": "grey", "documents": ["a"], **version}
        assert http.path.endswith("/invoke")


# Token counts ---------------------------------------------------------------------------------------------------------


def counted(inner: object, model: str = "us.m%3A0") -> tuple[JsonObject, HttpRequest]:
    text = inner if isinstance(inner, str) else b64encode(json.dumps(inner).encode()).decode()
    body: JsonObject = {"input": {"invokeModel": {"body": text}}}
    return body, HttpRequest(method="POST", path=f"/model/{model}/count-tokens", body=json.dumps(body).encode())


@pytest.mark.parametrize(
    ("wire", "inner"),
    [
        (CLAUDE, {"anthropic_version": "bedrock-2023-05-31", "messages": TALK, "max_tokens": 5}),
        (CHAT, {"messages": TALK}),
        (BEDROCK, {"messages": BLOCKS}),
    ],
)
def test_tokens_of_a_body_are_counted_by_its_wire(wire: Wire, inner: JsonObject) -> None:
    body, http = counted(inner)
    every = [(each, end) for each in (CLAUDE, CHAT, BEDROCK) for end in each.server_endpoints]
    there = [(each, end) for each, end in every if end.route.path == COUNT_PATH]
    (found,) = [(each, end) for each, end in there if end.route.accepts and end.route.accepts(body)]
    assert found[0] is wire
    count = found[1].decode(http)
    assert isinstance(count, CountTokens)
    assert (count.model, count.request.messages) == ("us.m:0", (user("hi"),))
    assert json.loads(found[1].encode(count, 7).body) == {"inputTokens": 7}
    assert found[1].server is not None
    assert found[1].server.encode_error(InvalidRequest("no")).headers["x-amzn-errortype"] == "ValidationException"


@pytest.mark.parametrize("inner", ["no base64!", "bm8gSlNPTg==", [], {"prompt": "hi"}])
def test_tokens_of_other_bodies_are_not_counted(inner: object) -> None:
    body, http = counted(inner)
    with pytest.raises(InvalidRequest, match="must have the member converse, or invokeModel"):
        endpoint_of(body, COUNT_PATH).decode(http)


def test_a_request_without_a_body_of_invoke_model_has_no_form() -> None:
    assert counted_form({"input": {"converse": {}}}) is None


def test_a_model_may_be_named_like_the_end_of_the_path() -> None:
    body, http = counted({"messages": TALK}, "count-tokens")
    endpoint = next(end for end in CHAT.server_endpoints if end.route.path == COUNT_PATH)
    assert endpoint.route.accepts is not None
    assert endpoint.route.accepts(body)
    assert endpoint.decode(http) == CountTokens("count-tokens", Request(messages=(user("hi"),)))


@pytest.mark.parametrize(
    ("inner", "excess"),
    [
        (b'{"messages":[' + b"{}," * 20_000 + b"{}]}", "has more than 20000 objects and lists"),
        (b'{"messages":' + b"[" * 200 + b"]" * 200 + b"}", "is nested more than 128 levels deep"),
    ],
)
def test_a_body_in_base64_has_limits_too(inner: bytes, excess: str) -> None:
    body, http = counted(b64encode(inner).decode())
    for wire in (CLAUDE, CHAT, BEDROCK):
        for endpoint in (end for end in wire.server_endpoints if end.route.path == COUNT_PATH):
            assert endpoint.route.accepts is not None
            with pytest.raises(InvalidRequest, match=f"^input.invokeModel.body {excess}; send less"):
                endpoint.route.accepts(body)
    with pytest.raises(InvalidRequest, match=excess):
        next(end for end in CHAT.server_endpoints if end.route.path == COUNT_PATH).decode(http)
