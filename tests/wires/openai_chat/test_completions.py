"""`/completions`: exact JSON in both directions, and what a target gets that cannot continue a text."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import Registry, wires
from dragoman.errors import InvalidRequest, Overloaded, Unsupported
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started, fold
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import (
    Choice,
    Finish,
    Image,
    Message,
    Opaque,
    Request,
    Response,
    Text,
    Thinking,
    TokenLogprob,
    Tool,
    Usage,
    assistant,
    user,
)
from dragoman.wires.openai_chat.completions import CompletionStreamEncoder, OpenAICompletionsServer
from tests.support.work import memory_of

SERVER = OpenAICompletionsServer()
CLIENT = wires.get("openai_chat").client
REGISTRY = Registry(env={"OPENAI_API_KEY": "k", "MISTRAL_API_KEY": "k", "DEEPSEEK_API_KEY": "k"})
INSTRUCT = REGISTRY.target("openai/gpt-3.5-turbo-instruct")
CHAT = REGISTRY.target("openai/gpt-4o")


def decoded(path: str = "/v1/completions", **body: Any) -> tuple[str, Request]:
    return SERVER.decode_request(HttpRequest(method="POST", path=path, body=json.dumps(body).encode()))


def sent(request: Request, target: Target = INSTRUCT) -> tuple[str, Any]:
    http = CLIENT.encode_request(request, target)
    return http.path, json.loads(http.body)


BODY: dict[str, Any] = {
    "model": "gpt-3.5-turbo-instruct",
    "prompt": "def f(",
    "suffix": "    return x",
    "temperature": 0.5,
    "top_p": 0.9,
    "seed": 7,
    "stop": ["\n\n"],
    "max_tokens": 0,
    "user": "ann",
    "frequency_penalty": 1.0,
    "presence_penalty": -1.0,
    "logit_bias": {"50256": -100},
    "n": 2,
    "logprobs": 3,
    "stream": True,
    "stream_options": {"include_usage": True},
    "echo": True,
    "best_of": 3,
}


def test_a_request_comes_back_as_it_was() -> None:
    model, request = decoded(**BODY)
    assert model == BODY["model"]
    assert request.raw is True
    assert sent(request) == ("/v1/completions", BODY)


@pytest.mark.parametrize("prompt", ["a", ["a"], ["a", "b"], [1, 2], [[1, 2], [3]]])
def test_each_form_of_a_prompt_comes_back(prompt: Any) -> None:
    _, request = decoded(model="m", prompt=prompt)
    body = sent(request)[1]
    assert body["prompt"] == prompt


@pytest.mark.parametrize("prompt", [[], [1, "a"], [1, [2]]])
def test_a_mixed_or_empty_prompt_is_refused(prompt: Any) -> None:
    with pytest.raises(InvalidRequest, match="prompt must be a text"):
        decoded(model="m", prompt=prompt)


def test_a_prompt_and_a_model_are_required() -> None:
    with pytest.raises(InvalidRequest, match="prompt is required"):
        decoded(model="m")
    with pytest.raises(InvalidRequest, match="model is required"):
        SERVER.check(*decoded(prompt="a"))
    with pytest.raises(InvalidRequest, match="temperature must be"):
        SERVER.check(*decoded(model="m", prompt="a", temperature=3))
    with pytest.raises(InvalidRequest, match="at most 128 answers"):
        SERVER.check(*decoded(model="m", prompt=["a"] * 65, n=2))


def test_many_prompts_are_refused_before_they_are_messages() -> None:
    http = HttpRequest(method="POST", path="/v1/completions", body=json.dumps({"prompt": ["a"] * 200_000}).encode())

    def decode() -> None:
        with pytest.raises(InvalidRequest, match="at most 128 answers"):
            SERVER.decode_request(http)

    assert memory_of(decode)[1] < 20 * len(http.body)  # it was 66 times as much


def test_the_deployment_of_azure_is_the_model() -> None:
    assert decoded("/openai/deployments/my%20gpt/completions?api-version=1", prompt="a")[0] == "my gpt"


def test_default_values_get_no_notice() -> None:
    _, request = decoded(
        model="m", prompt="a", suffix="", echo=False, best_of=1, stream_options={"include_usage": True}
    )
    assert request.suffix is None
    http = CLIENT.encode_request(request, CHAT)
    assert [notice.what for notice in http.notices] == ["raw"]
    assert json.loads(http.body) == {"model": "gpt-4o", "messages": [{"role": "user", "content": "a"}]}


def test_a_server_that_refuses_unknown_fields_gets_none() -> None:
    _, request = decoded(model="m", prompt="a", echo=True)
    closed = replace(INSTRUCT, quirks=replace(INSTRUCT.quirks, accepts_unknown_fields=False))
    http = CLIENT.encode_request(request, closed)
    assert [notice.what for notice in http.notices] == ["echo"]
    assert json.loads(http.body) == {"model": "gpt-3.5-turbo-instruct", "prompt": "a"}


def test_a_chat_target_gets_a_message_and_notices() -> None:
    _, request = decoded(model="m", prompt="a", echo=True)
    http = CLIENT.encode_request(request, CHAT)
    assert http.path == "/v1/chat/completions"
    assert [notice.what for notice in http.notices] == ["raw", "openai_completions: echo"]
    with pytest.raises(Unsupported, match="strict"):
        CLIENT.encode_request(replace(request, strict=True), CHAT)


@pytest.mark.parametrize("fields", [{"suffix": "b"}, {"prompt": ["a", "b"]}, {"prompt": [1, 2]}])
@pytest.mark.parametrize("name", ["openai/gpt-4o", "anthropic/claude-x", "dragoman/any"])
def test_what_a_chat_cannot_express_is_refused(name: str, fields: dict[str, Any]) -> None:
    registry = Registry(env={"DRAGOMAN_BASE_URL": "http://x", "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"})
    target = registry.target(name)
    _, request = decoded(**{"model": "m", "prompt": "a", **fields})
    with pytest.raises(Unsupported):
        wires.get(target.wire).client.encode_request(request, target)


@pytest.mark.parametrize(
    ("request_", "match"),
    [
        (Request(messages=(user("a"),), raw=True, system="b"), "raw must be left out with system"),
        (Request(messages=(user("a"),), raw=True, tools=(Tool(name="t"),)), "raw must be left out"),
        (Request(messages=(user("a"),), suffix="b", schema={}), "suffix must be left out"),
        (Request(messages=(user("a"), assistant("b")), raw=True), "user messages"),
        (Request(raw=True), "user messages"),
        (Request(messages=(user(Image(data=b"GIF89a")),), raw=True), "only text"),
    ],
)
def test_only_texts_can_be_continued(request_: Request, match: str) -> None:
    with pytest.raises((InvalidRequest, Unsupported), match=match):
        CLIENT.encode_request(request_, INSTRUCT)


def test_options_that_the_path_does_not_have_get_a_notice() -> None:
    request = Request(
        messages=(user("a"),),
        raw=True,
        metadata={"a": "b"},
        service_tier="flex",
        reasoning="high",
        top_k=3,
        logprobs=True,
        extra={"openai": {"suffix_mode": 1}, "ollama": {"keep_alive": 1}},
    )
    http = CLIENT.encode_request(request, INSTRUCT)
    assert json.loads(http.body) == {
        "model": "gpt-3.5-turbo-instruct",
        "prompt": "a",
        "logprobs": 0,
        "suffix_mode": 1,
    }
    dropped = {notice.what for notice in http.notices}
    assert dropped == {"metadata", "service_tier", "reasoning", "top_k", "ollama: keep_alive"}


@pytest.mark.parametrize(
    ("name", "path", "seed"),
    [("mistral/codestral-latest", "/v1/fim/completions", "random_seed"), ("deepseek/x", "/beta/completions", None)],
)
def test_a_gap_is_filled_where_the_provider_does_it(name: str, path: str, seed: str | None) -> None:
    request = Request(messages=(user("a("),), suffix=")", seed=1)
    body = {"model": name.partition("/")[2], "prompt": "a(", "suffix": ")", **({seed: 1} if seed else {})}
    assert sent(request, REGISTRY.target(name)) == (path, body)


ANSWER = Response(
    id="cmpl-1",
    model="m",
    created=5,
    message=Message(role="assistant", parts=(Text(text=" time"),)),
    finish=Finish(reason="length", raw="length"),
    usage=Usage(input=3, output=1),
    other_choices=(Choice(message=assistant(" day"), finish=Finish(reason="stop", raw="stop")),),
)


def test_a_body_is_text_completion() -> None:
    body = json.loads(SERVER.encode_body(ANSWER).body)
    assert body == {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 5,
        "model": "m",
        "choices": [
            {"text": " time", "index": 0, "logprobs": None, "finish_reason": "length"},
            {"text": " day", "index": 1, "logprobs": None, "finish_reason": "stop"},
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
    }
    assert fold(CLIENT.decode_body(SERVER.encode_body(ANSWER).body)).choices == ANSWER.choices


def test_log_probabilities_have_the_form_of_this_api() -> None:
    tokens = (
        TokenLogprob(token=" ti", logprob=-0.5, top=(TokenLogprob(token=" ti", logprob=-0.5),)),
        TokenLogprob(token="me", logprob=-1.0),
    )
    text = Text(text=" time", logprobs=tokens)
    response = replace(ANSWER, message=Message(role="assistant", parts=(text,)), other_choices=())
    _, request = decoded(model="m", prompt="Once")
    expected = {
        "text_offset": [4, 7],
        "token_logprobs": [-0.5, -1.0],
        "tokens": [" ti", "me"],
        "top_logprobs": [{" ti": -0.5}, {}],
    }
    whole = SERVER.encode_body(response, request).body
    assert json.loads(whole)["choices"][0]["logprobs"] == expected
    assert fold(CLIENT.decode_body(whole)).message == response.message
    _, echoed = decoded(model="m", prompt="Once", echo=True)
    choice = json.loads(SERVER.encode_body(response, echoed).body)["choices"][0]
    assert choice["logprobs"]["text_offset"] == [0, 3]
    encoder = CompletionStreamEncoder(request)
    streamed = encoder.feed(PartStarted(index=0, kind="text")) + encoder.feed(PartEnded(index=0, part=text))
    chunk = json.loads(streamed.removeprefix(b"data: "))
    assert chunk["choices"][0] == {"text": " time", "index": 0, "logprobs": expected, "finish_reason": None}


def test_a_stream_is_chunks_of_text() -> None:
    _, request = decoded(model="m", prompt="Once", stream=True, stream_options={"include_usage": True})
    encoder = SERVER.stream_encoder(request)
    thinking, text = Thinking(text="hm"), Text(text=" time")
    events: list[Event] = [
        Started(id="c", model="m", created=5),
        PartStarted(index=0, kind="thinking"),
        PartDelta(index=0, text="hm"),
        PartEnded(index=0, part=thinking),
        PartStarted(index=1, kind="text"),
        PartDelta(index=1, text=" time"),
        PartEnded(index=1, part=text),
        Finished(finish=ANSWER.finish, usage=ANSWER.usage, other_choices=ANSWER.other_choices),
    ]
    data = b"".join(map(encoder.feed, events))
    decoder = CLIENT.stream_decoder()
    response = fold([*decoder.feed(data), *decoder.feed(b"")])
    assert (response.text, response.usage, response.finish.reason) == (" time", ANSWER.usage, "length")
    assert response.choices[1].message.text == " day"
    frames = [line for line in data.split(b"\n\n") if line]
    assert json.loads(frames[-2].removeprefix(b"data: "))["choices"] == []
    assert frames[-1] == b"data: [DONE]"
    assert encoder.feed(Ping()) == b": ping\n\n"
    assert b"overloaded" in encoder.feed(Overloaded("overloaded"))


def test_the_usage_is_in_the_last_chunk_unless_it_has_a_chunk_of_its_own() -> None:
    encoder = SERVER.stream_encoder(Request())
    data = encoder.feed(Finished(finish=ANSWER.finish, usage=Usage(input=1, output=2)))
    assert json.loads(data.split(b"\n\n")[0].removeprefix(b"data: "))["usage"]["total_tokens"] == 3
    unknown = encoder.feed(Finished(finish=ANSWER.finish, usage=Usage(source="unknown")))
    assert b"usage" not in unknown


def test_only_text_can_be_in_an_answer() -> None:
    assert SERVER.supports_part(Text(text="a"))
    assert not SERVER.supports_part(Opaque(wire="openai_chat", data={}))


def test_a_native_target_gets_the_text_as_a_message() -> None:
    target = Target(provider="box", model="m", wire="native", base_url="http://127.0.0.1:1")
    http = wires.get("native").client.encode_request(Request(messages=(user("Once"),), raw=True), target)
    assert json.loads(http.body)["messages"][0]["content"] == "Once"
    assert [notice.what for notice in http.notices] == ["raw"]
