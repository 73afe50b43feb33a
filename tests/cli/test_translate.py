import json
from pathlib import Path

import pytest

from dragoman.cli.parser import DIALECTS
from tests.cli.executable import dragoman

TAPES = Path(__file__).parents[1] / "wires"
REQUEST = '{"model":"m","messages":[{"role":"user","content":"hi"}],"seed":7}'


def test_a_request_goes_round_all_dialects() -> None:
    said = REQUEST
    for source, target in zip(DIALECTS, [*DIALECTS[1:], DIALECTS[0]], strict=True):
        done = dragoman("translate", "--from", source, "--to", target, stdin=said)
        assert done.code == 0
        said = done.out
    assert json.loads(said)["messages"] == [{"role": "user", "content": "hi"}]


def test_a_stream_goes_round_all_dialects() -> None:
    said = (TAPES / "openai_chat" / "tapes" / "hello.sse").read_text(encoding="utf-8")
    first = dragoman("translate", "--from", "openai_chat", "--to", "canonical", stdin=said).out
    for source, target in zip(DIALECTS, [*DIALECTS[1:], DIALECTS[0]], strict=True):
        done = dragoman("translate", "--from", source, "--to", target, stdin=said)
        assert done.code == 0
        said = done.out
    last = dragoman("translate", "--from", "openai_chat", "--to", "canonical", stdin=said).out
    texts = [
        "".join(event.get("text", "") for event in map(json.loads, lines.splitlines()) if event["type"] == "part_delta")
        for lines in (first, last)
    ]
    assert texts[0] == texts[1] != ""


def test_what_is_bent_and_where_it_goes_is_said_beside_it() -> None:
    done = dragoman("translate", "--from", "openai_chat", "--to", "anthropic", stdin=REQUEST)
    assert done.err.splitlines() == ["POST /v1/messages", "dropped: seed: anthropic: it has no such option"]


def test_a_request_is_fitted_to_a_target() -> None:
    words = ("--from", "openai_chat", "--to", "openai_chat")
    plain = json.loads(dragoman("translate", *words, stdin=REQUEST).out)
    mistral = json.loads(dragoman("translate", *words, "-m", "mistral/m", stdin=REQUEST).out)
    assert (plain["seed"], mistral["random_seed"]) == (7, 7)


def test_a_target_of_another_dialect_is_refused() -> None:
    done = dragoman("translate", "--from", "openai_chat", "--to", "google", "-m", "groq/m", stdin=REQUEST)
    assert (done.code, done.out) == (2, "")
    assert "groq/m speaks openai_chat" in done.err


def test_a_model_and_a_stream_that_stand_in_the_url_can_be_told() -> None:
    body = '{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}'
    words = ("--from", "google", "--to", "ollama", "-m", "ollama/qwen", "--stream")
    made = json.loads(dragoman("translate", *words, stdin=body).out)
    assert (made["model"], made["stream"]) == ("qwen", True)


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


def test_json_has_the_place_and_the_notices() -> None:
    done = dragoman("translate", "--from", "openai_chat", "--to", "google", "--json", stdin=REQUEST)
    made = json.loads(done.out)
    assert made["place"] == "POST /v1beta/models/m:generateContent"
    assert json.loads(made["data"])["contents"][0]["role"] == "user"


@pytest.mark.parametrize("stdin", ["", "\n"])
def test_nothing_is_misuse(stdin: str) -> None:
    assert dragoman("translate", "--from", "google", "--to", "ollama", stdin=stdin).code == 2


def test_what_is_no_request_is_a_failure() -> None:
    done = dragoman("translate", "--from", "openai_chat", "--to", "ollama", stdin='{"messages": 7}')
    assert (done.code, done.out) == (1, "")
    assert "InvalidRequest" in done.err
