import json

import pytest

from dragoman.cli.parser import DIALECTS
from tests.support.cli import dragoman
from tests.support.paths import TESTS

TAPES = TESTS / "wires"
REQUEST = '{"model":"m","messages":[{"role":"user","content":"hi"}],"seed":7}'


def test_a_request_goes_round_all_dialects() -> None:
    text = REQUEST
    for source, target in zip(DIALECTS, [*DIALECTS[1:], DIALECTS[0]], strict=True):
        done = dragoman("translate", "--from", source, "--to", target, stdin=text)
        assert done.code == 0
        text = done.out
    assert json.loads(text)["messages"] == [{"role": "user", "content": "hi"}]


def test_a_stream_goes_round_all_dialects() -> None:
    text = (TAPES / "openai_chat" / "tapes" / "hello.sse").read_text(encoding="utf-8")
    first = dragoman("translate", "--from", "openai_chat", "--to", "canonical", stdin=text).out
    for source, target in zip(DIALECTS, [*DIALECTS[1:], DIALECTS[0]], strict=True):
        done = dragoman("translate", "--from", source, "--to", target, stdin=text)
        assert done.code == 0
        text = done.out
    last = dragoman("translate", "--from", "openai_chat", "--to", "canonical", stdin=text).out
    texts = [
        "".join(event.get("text", "") for event in map(json.loads, lines.splitlines()) if event["type"] == "part_delta")
        for lines in (first, last)
    ]
    assert texts[0] == texts[1] != ""


def test_the_path_and_the_notices_go_to_stderr() -> None:
    done = dragoman("translate", "--from", "openai_chat", "--to", "anthropic", stdin=REQUEST)
    assert done.err.splitlines() == [
        "POST /v1/messages",
        "dropped: seed: anthropic: not supported",
        "info: max_tokens: anthropic: required, so it is set to 4096",
    ]


def test_a_request_is_adapted_to_a_target() -> None:
    words = ("--from", "openai_chat", "--to", "openai_chat")
    plain = json.loads(dragoman("translate", *words, stdin=REQUEST).out)
    mistral = json.loads(dragoman("translate", *words, "-m", "mistral/m", stdin=REQUEST).out)
    assert (plain["seed"], mistral["random_seed"]) == (7, 7)


def test_a_target_of_another_dialect_is_refused() -> None:
    done = dragoman("translate", "--from", "openai_chat", "--to", "google", "-m", "groq/m", stdin=REQUEST)
    assert (done.code, done.out) == (2, "")
    assert "groq/m speaks openai_chat" in done.err


def test_options_set_what_a_dialect_has_in_the_url() -> None:
    body = '{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}'
    words = ("--from", "google", "--to", "ollama", "-m", "ollama/qwen", "--stream")
    result = json.loads(dragoman("translate", *words, stdin=body).out)
    assert (result["model"], result["stream"]) == ("qwen", True)


def test_an_error_is_translated_too() -> None:
    tape = TAPES / "ollama" / "tapes" / "busy.503.json"
    done = dragoman("translate", "--from", "ollama", "--to", "anthropic", "--status", "503", tape)
    assert json.loads(done.out)["error"]["type"] == "overloaded_error"


def test_a_stream_that_was_cut_fails_after_what_came() -> None:
    tape = TAPES / "ollama" / "tapes" / "cut.ndjson"
    done = dragoman("translate", "--from", "ollama", "--to", "canonical", "--kind", "stream", tape)
    assert done.code == 1
    assert json.loads(done.out.splitlines()[-1])["kind"] == "Truncated"
    assert "the stream ends with an error: Truncated" in done.err


def test_json_has_the_request_line_and_the_notices() -> None:
    done = dragoman("translate", "--from", "openai_chat", "--to", "google", "--json", stdin=REQUEST)
    result = json.loads(done.out)
    assert result["request_line"] == "POST /v1beta/models/m:generateContent"
    assert json.loads(result["data"])["contents"][0]["role"] == "user"


@pytest.mark.parametrize("stdin", ["", "\n"])
def test_empty_input_is_a_usage_error(stdin: str) -> None:
    assert dragoman("translate", "--from", "google", "--to", "ollama", stdin=stdin).code == 2


def test_an_invalid_request_is_a_failure() -> None:
    done = dragoman("translate", "--from", "openai_chat", "--to", "ollama", stdin='{"messages": 7}')
    assert (done.code, done.out) == (1, "")
    assert "InvalidRequest" in done.err


@pytest.mark.parametrize(
    ("dialect", "path"),
    [
        ("openai_chat", "/v1/chat/completions"),
        ("openai_responses", "/v1/responses"),
        ("anthropic", "/v1/messages"),
        ("google", "/v1beta/models/m:generateContent"),
        ("ollama", "/api/chat"),
    ],
)
def test_the_request_line_has_the_path_of_the_dialect(dialect: str, path: str) -> None:
    done = dragoman("translate", "--from", "openai_chat", "--to", dialect, stdin=REQUEST)
    assert done.err.splitlines()[0] == f"POST {path}"


@pytest.mark.parametrize(
    "text",
    [
        '{"messages": [], "temprature": 1}',
        '{"messages": [{"role": "user", "content": "hi"}]}',
        '{"messages": [{"role": "user", "parts": [{"type": "text", "text": "hi", "texts": 1}]}]}',
        '{"model": 7, "messages": []}',
        '{"error": 7}',
    ],
)
def test_what_is_not_canonical_is_an_error_in_one_line(text: str) -> None:
    done = dragoman("translate", "--from", "canonical", "--to", "ollama", stdin=text)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "_" not in done.err.replace("openai_chat", "")


def test_malformed_json_is_an_error_with_its_position() -> None:
    done = dragoman("translate", "--from", "openai_chat", "--to", "ollama", stdin='{"messages": [}')
    assert (
        done.err == "dragoman: InvalidRequest: the input must be JSON: JSON is malformed: invalid character (byte 14)\n"
    )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_nested_too_deeply_is_one_line(dialect: str) -> None:
    text = '{"messages": ' + "[" * 100_000 + "]" * 100_000 + "}"
    done = dragoman("translate", "--from", dialect, "--to", "ollama", stdin=text)
    assert done.err == "dragoman: InvalidRequest: the input must be JSON, got JSON that is nested too deeply\n"


def test_a_canonical_stream_that_is_only_an_error_is_read_again() -> None:
    tape = TAPES / "ollama" / "tapes" / "cut.ndjson"
    first = dragoman("translate", "--from", "ollama", "--to", "canonical", "--kind", "stream", tape).out
    last = first.splitlines()[-1]
    again = dragoman("translate", "--from", "canonical", "--to", "canonical", stdin=last)
    assert (again.code, json.loads(again.out)) == (1, json.loads(last))


def test_a_stream_without_a_finish_reason_gets_one_in_anthropics_dialect() -> None:
    text = 'data: {"id":"1","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\ndata: [DONE]\n\n'
    done = dragoman("translate", "--from", "openai_chat", "--to", "anthropic", stdin=text)
    assert '"delta":{"stop_reason":"end_turn"' in done.out
    assert done.err == "changed: finish: anthropic: 'other' became 'stop'\n"
