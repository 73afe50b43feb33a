"""Small things that agents trip over: long user ids, paths, durations, aliases for helper models, losses in the log."""

import json
from typing import Any

import pytest

from dragoman.errors import SetupError
from dragoman.gateway.config import decode_config
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.testing import Scripted
from dragoman.types import Request, Tool, ToolResult, tool_results, user
from tests.support.gateway.dialects import ClientResponse, app_of, post, request_of, response_of, send_blocking
from tests.support.gateway.live import record
from tests.support.gateway.loops import answer, gateway
from tests.support.gateway.matrix_cases import DEPTH, TIDE, call

ALIASES = '[aliases]\nfast = "up/small"\n"claude-haiku-*" = "fast"\n"claude-*" = "up/big"\n'


def ask(app: Any, path: str, body: dict[str, Any]) -> ClientResponse:
    return send_blocking(app, post(path, json.dumps(body).encode()))


def messages(model: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **more}


# Long user ids --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["openai_chat", "openai_responses"])
def test_a_long_user_id_is_sent_as_a_hash(provider: str) -> None:
    app, script = gateway(provider)
    script.add("hi", "hi", "hi")
    for id in ("user_" + "a" * 145, "user_" + "b" * 145, "u1"):
        seen = ask(app, "/v1/messages", messages(f"up_{provider}/m", metadata={"user_id": id}))
        assert seen.status == 200
    users = [json.loads(http.body)["user"] for http in script.http]
    assert [len(each) for each in users] == [64, 64, 2]
    assert len(set(users)) == 3
    assert users[2] == "u1"


# Ollama ---------------------------------------------------------------------------------------------------------------


def test_models_have_digests_of_their_own() -> None:
    app = app_of(record("up", "http://up.invalid/v1") + ALIASES)
    from dragoman.http import HttpRequest

    models = json.loads(send_blocking(app, HttpRequest(method="GET", path="/api/tags")).body)["models"]
    digests = {model["digest"] for model in models}
    assert len(digests) == len(models) > 1
    assert all(len(digest) == 64 for digest in digests)


@pytest.mark.parametrize("stream", [False, True])
def test_answers_for_ollama_have_durations(*, stream: bool) -> None:
    app, script = gateway("openai_chat")
    script.add("Hello there.")
    body = {"model": "up_openai_chat/m", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    last = json.loads(ask(app, "/api/chat", body).body.splitlines()[-1])
    names = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
    assert all(isinstance(last[name], int) and last[name] > 0 for name in names)
    assert last["total_duration"] >= last["eval_duration"]


# Google ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1beta", "v1"])
@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent?alt=sse"])
def test_a_path_without_models_names_a_target(version: str, method: str) -> None:
    app, script = gateway("openai_chat")
    script.add("Hello.")
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    seen = ask(app, f"/{version}/up_openai_chat/some/m:{method}", body)
    assert seen.status == 200
    assert b"Hello." in seen.body
    assert json.loads(script.http[0].body)["model"] == "some/m"


@pytest.mark.parametrize("version", ["v1beta", "v1"])
@pytest.mark.parametrize("group", ["", "models/"])
def test_tokens_are_counted_on_a_path_without_models(version: str, group: str) -> None:
    app, _ = gateway("openai_chat")
    contents = [{"role": "user", "parts": [{"text": "How high is the tide?"}]}]
    for body in ({"contents": contents}, {"generateContentRequest": {"model": "models/x", "contents": contents}}):
        seen = ask(app, f"/{version}/{group}up_openai_chat/some/m:countTokens", body)
        assert seen.status == 200, seen.body
        assert json.loads(seen.body)["totalTokens"] > 0


@pytest.mark.parametrize("method", ["embedContent", "batchEmbedContents"])
def test_texts_are_embedded_on_a_path_without_models(method: str) -> None:
    app = app_of('[gateway]\nproviders = ["demo"]\n')
    one = {"content": {"parts": [{"text": "hi"}]}}
    body: dict[str, Any] = one if method == "embedContent" else {"requests": [one]}
    paths = [f"/v1beta/{group}demo/any:{method}" for group in ("models/", "")]
    first, second = (ask(app, path, body) for path in paths)
    assert (second.status, second.body) == (first.status, first.body)
    assert b"no route" not in second.body


ENUM = {"type": "STRING", "enum": ["Percussion", "String"]}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("field", ["responseSchema", "responseJsonSchema"])
def test_an_enum_is_answered_as_plain_text(field: str, *, stream: bool) -> None:
    app, script = gateway("openai_chat")
    script.add('"Percussion"')
    schema = ENUM if field == "responseSchema" else {"type": "string", "enum": ENUM["enum"]}
    config = {"responseMimeType": "text/x.enum", field: schema}
    body = {"contents": [{"role": "user", "parts": [{"text": "A drum?"}]}], "generationConfig": config}
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    seen = ask(app, f"/v1beta/models/up_openai_chat/m:{method}", body)
    assert b'"text":"Percussion"' in seen.body
    assert b"enum" in script.http[0].body


def test_an_enum_reaches_google_as_it_came() -> None:
    app, script = gateway("google")
    script.add("Percussion")
    config = {"responseMimeType": "text/x.enum", "responseSchema": ENUM}
    body = {"contents": [{"role": "user", "parts": [{"text": "A drum?"}]}], "generationConfig": config}
    seen = ask(app, "/v1beta/models/up_google/m:generateContent", body)
    assert json.loads(script.http[0].body)["generationConfig"] == config
    assert b'"text":"Percussion"' in seen.body


# Aliases --------------------------------------------------------------------------------------------------------------


def targets_of(config: str, model: str) -> list[str]:
    return [
        target.name
        for target in app_of(record("up", "http://up.invalid/v1") + config).runtime.catalog.find(model).targets
    ]


def test_a_pattern_is_an_alias_for_all_names_that_match() -> None:
    assert targets_of(ALIASES, "claude-haiku-4-5-20251001") == ["up/small"]
    assert targets_of(ALIASES, "claude-opus-4-8") == ["up/big"]
    assert targets_of(ALIASES, "fast") == ["up/small"]


def test_patterns_are_not_listed_as_models() -> None:
    app = app_of(record("up", "http://up.invalid/v1") + ALIASES)
    assert [model.id for model in app.runtime.catalog.models()] == ["fast", "up/small"]


def test_other_names_are_the_default() -> None:
    config = record("up", "http://up.invalid/v1") + '[aliases]\ndefault = "up/big"\n'
    app = app_of(config)
    app.runtime.registry.transport = Scripted("Hello.", "Hello.")
    seen = ask(app, "/v1/messages", messages("claude-next"))
    assert seen.status == 200
    assert seen.headers["x-dragoman-target"] == "up/big"
    assert json.loads(seen.body)["model"] == "claude-next"
    assert any("claude-next" in notice for notice in seen.notices)
    assert ask(app, "/native/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}).status == 200
    assert ask(app, "/v1/messages", messages("nobody/model")).status == 404


def test_a_pattern_that_refers_to_itself_is_refused() -> None:
    with pytest.raises(SetupError, match="aliases"):
        decode_config(record("up", "http://up.invalid/v1") + '[aliases]\n"claude-*" = "claude-haiku"\n')


# The log --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_losses_are_in_the_log_line_by_kind(*, stream: bool) -> None:
    app, script = gateway("anthropic")
    lines: list[str] = []
    app.runtime.accounting.log = log = AccessLog(lines.append)
    script.add("Hello.", "Hello.")
    body = {"model": "up_anthropic/m", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    ask(app, "/v1/chat/completions", {**body, "seed": 7, "temperature": 1.5})
    ask(app, "/v1/chat/completions", body)
    log.flush()
    first, second = map(json.loads, "".join(lines).splitlines())
    assert first["losses"] == {"dropped": 1, "changed": 1}
    assert "losses" not in second


# The demo -------------------------------------------------------------------------------------------------------------

TOOLS = (Tool(name="hello_world", description="Say hello to somebody."), TIDE, DEPTH)


def demo(request: Request) -> Any:
    app = app_of('[gateway]\nproviders = ["demo"]\n')
    return response_of("native", request, send_blocking(app, request_of("native", "demo/any", request)))


def test_the_demo_calls_no_tool_on_a_greeting() -> None:
    assert demo(Request(messages=(user("Hello, hello world!"),), tools=TOOLS)).tool_calls == ()
    assert demo(Request(messages=(user("Hello!"),), tools=TOOLS, tool_choice="required")).tool_calls != ()


def test_the_demo_calls_a_tool_after_a_result_if_it_must() -> None:
    first = answer(call(1, "tide")).message
    history = (
        user("When is the tide at Brest?"),
        first,
        tool_results(ToolResult(id="call_1", name="tide", content="6")),
    )
    assert demo(Request(messages=history, tools=TOOLS)).tool_calls == ()
    assert demo(Request(messages=history, tools=TOOLS, tool_choice="required")).tool_calls != ()
