"""What clients ask of each dialect: said back, refused as its provider would, carried on or told of."""

import json
from typing import Any

import pytest

from dragoman import wires
from dragoman.gateway.auth.api_keys import new_key
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.testing import FaultyServer, RawResponse
from dragoman.types import Request, user
from dragoman.wires.openai_responses.request_echo import read_echo
from tests.support.gateway.dialects import ClientResponse, app_of, post, send_blocking
from tests.support.gateway.live import record

ECHOED: dict[str, Any] = {
    "instructions": "Be brief.",
    "max_output_tokens": 100,
    "metadata": {"port": "Brest"},
    "parallel_tool_calls": False,
    "reasoning": {"effort": "low", "summary": None},
    "store": False,
    "temperature": 0.5,
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "tool_choice": "none",
    "tools": [
        {"type": "function", "name": "tide", "parameters": {"type": "object", "properties": {}}, "strict": False}
    ],
    "top_p": 0.9,
    "truncation": "auto",
}


def responses(**body: Any) -> list[dict[str, Any]]:
    """The response objects that a client of the Responses API sees."""
    data = json.dumps({"model": "demo/any", "input": "hello", **body}).encode()
    seen = send_blocking(app_of(), post("/v1/responses", data))
    if not body.get("stream"):
        return [json.loads(seen.body)]
    events = [json.loads(line.removeprefix("data: ")) for line in seen.body.decode().splitlines() if "data: " in line]
    return [event["response"] for event in events if "response" in event]


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_says_back_what_was_asked(stream: bool) -> None:  # noqa: FBT001
    for response in responses(**ECHOED, stream=stream):
        assert {field: response[field] for field in ECHOED} == ECHOED


def test_a_response_says_no_secret_of_a_tool_back() -> None:
    server = {"server_url": "https://me:pass@example.org/hidden?key=1", "headers": {"X-Key": "hidden"}}
    tool = {"type": "mcp", "server_label": "ports", "authorization": "hidden", **server}
    assert read_echo(json.dumps({"model": "m", "input": "hello", "tools": [tool]}).encode())["tools"] == [
        {
            "type": "mcp",
            "server_label": "ports",
            "server_url": "https://example.org/<redacted>",
            "headers": {"X-Key": "<redacted>"},
        }
    ]


def test_a_response_says_which_one_it_goes_on_from() -> None:
    app = app_of()

    def ask(**body: Any) -> dict[str, Any]:
        data = json.dumps({"model": "demo/any", "input": "hello", **body}).encode()
        response: dict[str, Any] = json.loads(send_blocking(app, post("/v1/responses", data)).body)
        return response

    first = ask()
    assert ask(previous_response_id=first["id"])["previous_response_id"] == first["id"]


# What a provider would refuse ----------------------------------------------------------------------------------------

HELLO = [{"role": "user", "content": "hello"}]
CHAT, MESSAGES, RESPONSES, GOOGLE = (
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/responses",
    "/v1beta/models/demo/any:generateContent",
)
QUESTION: dict[str, dict[str, Any]] = {
    CHAT: {"model": "demo/any", "messages": HELLO},
    MESSAGES: {"model": "demo/any", "messages": HELLO, "max_tokens": 99},
    RESPONSES: {"model": "demo/any", "input": "hello"},
    GOOGLE: {"contents": [{"parts": [{"text": "hello"}]}]},
}
"""A sound request of each dialect."""


def ask(path: str, **fields: Any) -> ClientResponse:
    """A sound request but for some fields; None leaves one out."""
    body = {name: value for name, value in {**QUESTION[path], **fields}.items() if value is not None}
    return send_blocking(app_of('[tiers.simple]\nmodels = ["demo/any"]\n'), post(path, json.dumps(body).encode()))


@pytest.mark.parametrize("path", QUESTION)
def test_a_sound_request_is_answered(path: str) -> None:
    assert ask(path).status == 200


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    (CHAT, {"model": None}, "model", "missing_required_parameter"),
    (CHAT, {"messages": None}, "messages", "missing_required_parameter"),
    (CHAT, {"messages": []}, "messages", "missing_required_parameter"),
    (CHAT, {"messages": "hello"}, "messages", "invalid_type"),
    (CHAT, {"messages": [{"content": "hello"}]}, "messages[0].role", "missing_required_parameter"),
    (CHAT, {"messages": [{"role": "captain", "content": "hello"}]}, "messages[0].role", "invalid_value"),
    (CHAT, {"temperature": 2.1}, "temperature", "invalid_value"),
    (CHAT, {"temperature": -0.1}, "temperature", "invalid_value"),
    (CHAT, {"temperature": "hot"}, "temperature", "invalid_type"),
    (CHAT, {"top_p": 1.1}, "top_p", "invalid_value"),
    (CHAT, {"max_tokens": 0}, "max_tokens", "invalid_value"),
    (CHAT, {"max_completion_tokens": -1}, "max_tokens", "invalid_value"),
    (RESPONSES, {"model": None}, "model", "missing_required_parameter"),
    (RESPONSES, {"input": None}, "input", "missing_required_parameter"),
    (RESPONSES, {"input": []}, "input", "missing_required_parameter"),
    (RESPONSES, {"temperature": 3}, "temperature", "invalid_value"),
    (RESPONSES, {"top_p": -1}, "top_p", "invalid_value"),
    (RESPONSES, {"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
]


@pytest.mark.parametrize(("path", "fields", "param", "code"), REFUSED)
def test_clients_of_openai_are_told_which_field_is_wrong(
    path: str, fields: dict[str, Any], param: str, code: str
) -> None:
    seen = ask(path, **fields)
    error = json.loads(seen.body)["error"]
    assert seen.status == 400
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"model": None}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "captain", "content": "hello"}]}, "messages[0].role"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"temperature": 1.1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"stop_sequences": "END"}, "stop_sequences"),
    ],
)
def test_clients_of_anthropic_are_told_which_field_is_wrong(fields: dict[str, Any], field: str) -> None:
    seen = ask(MESSAGES, **fields)
    error = json.loads(seen.body)["error"]
    assert (seen.status, error["type"]) == (400, "invalid_request_error")
    assert error["message"].startswith((f"{field} must be ", f"{field} is required", f"{field}: "))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"contents": None}, "contents"),
        ({"contents": []}, "contents"),
        ({"generationConfig": {"temperature": 2.1}}, "generationConfig.temperature"),
        ({"generationConfig": {"topP": 1.1}}, "generationConfig.topP"),
        ({"generationConfig": {"maxOutputTokens": 0}}, "generationConfig.maxOutputTokens"),
        ({"generationConfig": {"stopSequences": "END"}}, "generationConfig.stopSequences"),
    ],
)
def test_clients_of_google_are_told_which_field_is_wrong(fields: dict[str, Any], field: str) -> None:
    seen = ask(GOOGLE, **fields)
    error = json.loads(seen.body)["error"]
    assert (seen.status, error["status"]) == (400, "INVALID_ARGUMENT")
    assert error["details"][0]["fieldViolations"][0]["field"] == field


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate", "/api/show", "/api/embed"])
def test_clients_of_ollama_must_name_a_model(path: str) -> None:
    seen = send_blocking(app_of(), post(path, b'{"input": "hello"}'))
    assert (seen.status, json.loads(seen.body)) == (400, {"error": "model is required"})


@pytest.mark.parametrize("body", [b'{"model": "demo/any", "input": [{"role": "system", "content": "Hi"}]}'])
def test_a_system_prompt_alone_is_a_request(body: bytes) -> None:
    assert send_blocking(app_of(), post(RESPONSES, body)).status == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "nothing"), [("/api/chat", {"messages": []}), ("/api/generate", {"prompt": ""})])
def test_a_model_of_ollama_that_is_told_nothing_is_loaded(
    path: str,
    nothing: dict[str, Any],
    stream: bool,  # noqa: FBT001
) -> None:
    body = json.dumps({"model": "demo/overloaded", **nothing, "stream": stream}).encode()
    response = json.loads(send_blocking(app_of(), post(path, body)).body)
    assert (response["done"], response["done_reason"]) == (True, "load")


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        (CHAT, {"n": 129}, "n"),
        (CHAT, {"frequency_penalty": 3}, "frequency_penalty"),
        (CHAT, {"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
        (GOOGLE, {"generationConfig": {"candidateCount": 0}}, "generationConfig.candidateCount"),
        (GOOGLE, {"generationConfig": {"presencePenalty": -3}}, "generationConfig.presencePenalty"),
        (RESPONSES, {"include": ["message.output_text.logprobs"], "top_logprobs": -1}, "top_logprobs"),
    ],
)
def test_an_option_out_of_its_range_is_refused_by_its_name(path: str, fields: dict[str, Any], param: str) -> None:
    seen = ask(path, **fields)
    assert (seen.status, f"{param} must be between" in seen.body.decode()) == (400, True)


@pytest.mark.parametrize(("path", "fields"), [(CHAT, {"n": 2}), (GOOGLE, {"generationConfig": {"candidateCount": 2}})])
def test_several_answers_of_a_target_without_them_come_from_several_calls(path: str, fields: dict[str, Any]) -> None:
    seen = ask(path, **fields)
    assert (seen.status, seen.notices) == (200, ("info n: openai_chat: not supported; 2 requests were sent",))
    body = json.loads(seen.body)
    assert len(body.get("choices", body.get("candidates"))) == 2


# What cannot be carried ----------------------------------------------------------------------------------------------

OWN: dict[str, tuple[str, dict[str, Any]]] = {
    "openai_chat": (
        CHAT,
        {
            "audio": {"voice": "alloy", "format": "wav"},
            "modalities": ["text", "audio"],
            "prediction": {"type": "content", "content": "x"},
            "prompt_cache_key": "k",
            "safety_identifier": "s",
            "store": True,
            "what_nobody_knows": 1,
        },
    ),
    "openai_responses": (
        RESPONSES,
        {
            "context_management": [{"type": "compaction"}],
            "conversation": "conv_1",
            "include": ["reasoning.encrypted_content"],
            "max_tool_calls": 3,
            "prompt": {"id": "pmpt_1"},
            "truncation": "auto",
            "what_nobody_knows": 1,
        },
    ),
    "anthropic": (
        MESSAGES,
        {
            "container": "c",
            "context_management": {"edits": []},
            "inference_geo": "us",
            "speed": "fast",
            "what_nobody_knows": 1,
        },
    ),
    "google": (
        GOOGLE,
        {
            "cachedContent": "cachedContents/a",
            "generationConfig": {"mediaResolution": "LOW", "responseModalities": ["AUDIO"]},
            "labels": {"a": "b"},
            "safetySettings": [{"category": "A", "threshold": "B"}],
            "whatNobodyKnows": 1,
        },
    ),
    "ollama": ("/api/chat", {"keep_alive": "5m", "options": {"mirostat": 1}, "truncate": True, "what_nobody_knows": 1}),
}
"""What only one dialect has a word for."""


@pytest.mark.parametrize("wire", wires.NAMES)
@pytest.mark.parametrize("dialect", OWN)
def test_what_only_one_dialect_says_reaches_its_own_wire_or_is_told_of(dialect: str, wire: str) -> None:
    path, fields = OWN[dialect]
    body = {**QUESTION.get(path, {"model": "m", "messages": HELLO}), **fields}
    http = HttpRequest(method="POST", path=path, body=json.dumps(body).encode())
    target = Target(provider="up", model="m", wire=wire, base_url="http://up.invalid/v1")
    sent = wires.get(wire).client.encode_request(wires.get(dialect).server.decode_request(http)[1], target)
    dropped = {notice.what.removeprefix(f"{dialect}: ") for notice in sent.notices}
    passed = {field for field, value in fields.items() if json.loads(sent.body).get(field) == value}
    assert wire != dialect or passed == fields.keys()
    assert fields.keys() - passed <= dropped


def test_a_notice_names_what_stood_in_a_field_that_is_left_out() -> None:
    request = Request(messages=(user("hello"),), extra={"ollama": {"options": {"mirostat": 1, "num_ctx": 9}}})
    target = Target(provider="up", model="m", wire="openai_chat", base_url="http://up.invalid/v1")
    (notice,) = wires.get("openai_chat").client.encode_request(request, target).notices
    assert notice.why == "openai_chat: belongs to another wire (mirostat, num_ctx)"


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (CHAT, {"n": 1, "logprobs": False, "frequency_penalty": 0, "modalities": ["text"], "logit_bias": {}}),
        (RESPONSES, {"background": False, "truncation": "disabled", "service_tier": "auto", "include": []}),
        (GOOGLE, {"generationConfig": {"candidateCount": 1, "responseModalities": ["TEXT"]}}),
    ],
)
def test_an_option_that_asks_for_nothing_is_no_loss(path: str, fields: dict[str, Any]) -> None:
    assert ask(path, **fields).notices == ()


@pytest.mark.parametrize("stream", [False, True])
def test_the_demo_tells_what_it_cannot(stream: bool) -> None:  # noqa: FBT001
    seen = ask(CHAT, logprobs=True, logit_bias={"5": 1}, stream=stream)
    assert seen.notices == (
        "dropped logit_bias: openai_chat: not supported",
        "dropped logprobs: openai_chat: not supported",
    )


def test_however_many_notices_there_are_all_of_them_are_named() -> None:
    seen = ask(CHAT, **{f"field_{i}": i for i in range(40)})
    assert len(seen.notices) == 16
    assert all(f"field_{i}" in " ".join(seen.notices) for i in range(40))


def test_a_request_in_the_background_is_answered_at_once() -> None:
    seen = ask(RESPONSES, background=True)
    assert json.loads(seen.body)["status"] == "queued"
    assert seen.notices == ()


# Tokens and vectors --------------------------------------------------------------------------------------------------

COUNTS = {
    "/v1/messages/count_tokens": ("input_tokens", QUESTION[MESSAGES]),
    "/v1/responses/input_tokens": ("input_tokens", QUESTION[RESPONSES]),
    "/v1beta/models/demo/any:countTokens": ("totalTokens", QUESTION[GOOGLE]),
}


@pytest.mark.parametrize("path", COUNTS)
def test_tokens_are_estimated_where_a_provider_counts_none(path: str) -> None:
    field, body = COUNTS[path]
    seen = send_blocking(app_of(), post(path, json.dumps({**body, "model": "demo/any"}).encode()))
    assert (seen.status, json.loads(seen.body)[field]) == (200, 9)
    assert seen.notices == ("info token count: demo does not count tokens, so this is an estimate",)


def count_before(line: RawResponse, **fields: Any) -> ClientResponse:
    """A question for tokens whose provider answers with that."""
    body = {**QUESTION[MESSAGES], "model": "up/m", **fields}
    return ask_upstream("anthropic", line, post("/v1/messages/count_tokens", json.dumps(body).encode()))


def ask_upstream(wire: str, line: RawResponse, http: HttpRequest) -> ClientResponse:
    """A question to a gateway whose provider answers with that."""
    with FaultyServer(line) as upstream:
        return send_blocking(app_of(record("up", upstream.base_url(wire), wire) + "[chain]\nretries = 0\n"), http)


def test_tokens_are_those_that_the_provider_counts() -> None:
    seen = count_before(RawResponse(body=b'{"input_tokens": 42}'))
    assert (json.loads(seen.body), seen.notices) == ({"input_tokens": 42}, ())


def test_tokens_are_estimated_where_the_server_does_not_know_the_path() -> None:
    seen = count_before(RawResponse(status=404, body=b"404 page not found"))
    assert (seen.status, len(seen.notices)) == (200, 1)


@pytest.mark.parametrize(("status", "word"), [(529, "overloaded_error"), (404, "not_found_error")])
def test_a_refusal_to_count_is_told(status: int, word: str) -> None:
    body = json.dumps({"type": "error", "error": {"type": word, "message": "no"}}).encode()
    assert count_before(RawResponse(status=status, body=body)).status == status


def test_tools_and_schemas_count() -> None:
    tool = {"name": "tide", "description": "The height of the tide", "input_schema": {"type": "object"}}
    line = RawResponse(status=405, body=b"")
    fewer, more = (json.loads(count_before(line, tools=tools).body)["input_tokens"] for tools in ([], [tool]))
    assert more > fewer + 10


def test_what_is_empty_has_no_tokens_to_count() -> None:
    assert count_before(RawResponse(body=b'{"input_tokens": 42}'), messages=[]).status == 400


@pytest.mark.parametrize("input", [[1, 2, 3], [[1, 2], [3]]])
def test_tokens_have_vectors_where_the_target_takes_them(input: list[Any]) -> None:
    vectors = b'{"data": [{"embedding": [1.0]}, {"embedding": [0.5]}]}'
    line = RawResponse(body=vectors if len(input) == 2 else b'{"data": [{"embedding": [1.0]}]}')
    seen = ask_upstream("openai_chat", line, _embedding(input))
    assert (seen.status, len(json.loads(seen.body)["data"])) == (200, 2 if len(input) == 2 else 1)


def test_tokens_are_refused_where_the_target_takes_texts_only() -> None:
    seen = ask_upstream("google", RawResponse(), _embedding([1, 2, 3]))
    assert (seen.status, json.loads(seen.body)["error"]["param"]) == (400, "input")


def _embedding(input: object, **fields: Any) -> HttpRequest:
    return post("/v1/embeddings", json.dumps({"model": "up/m", "input": input, **fields}).encode())


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"dimensions": 0}, "dimensions"),
    ],
)
def test_clients_of_vectors_are_told_which_field_is_wrong(fields: dict[str, Any], param: str) -> None:
    body = {"model": "demo/any", "input": "hello", **fields}
    seen = send_blocking(
        app_of(), post("/v1/embeddings", json.dumps({k: v for k, v in body.items() if v is not None}).encode())
    )
    assert (seen.status, json.loads(seen.body)["error"]["param"]) == (400, param)


def test_a_field_beside_the_texts_is_told_of() -> None:
    http = post("/v1/embeddings", b'{"model": "demo/any", "input": "hello", "flavour": "u"}')
    assert [notice.partition(":")[0] for notice in send_blocking(app_of(), http).notices] == ["dropped flavour"]


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/messages/count_tokens", "/api/show", "/api/embed"])
def test_the_key_is_looked_at_before_the_body(path: str) -> None:
    app = app_of(f'[keys.alice]\nhash = "{new_key()[1]}"\n')
    assert send_blocking(app, post(path, b"{")).status == 401
