import json
from pathlib import Path

from dragoman.cli.translation import RequestPayload, decode
from dragoman.engine.attempt import build_request
from dragoman.targets.providers import target
from tests.support.cli import dragoman

REQUEST = '{"model":"m","messages":[{"role":"user","content":"hi"}],"seed":7}'


def test_a_spec_is_shown_with_its_aliases_and_targets(tmp_path: Path) -> None:
    config = tmp_path / "dragoman.toml"
    config.write_text('[aliases]\ntier = "fast, demo/any"\nfast = "groq/llama"\n', encoding="utf-8")
    out = dragoman("explain", "tier", "--config", config).out
    assert out.splitlines()[:3] == ["tier", "  tier = fast, demo/any", "  fast = groq/llama"]
    assert "1. groq/llama" in out
    assert "url          https://api.groq.com/openai/v1/chat/completions" in out
    assert "key          no key; set GROQ_API_KEY" in out
    assert "2. demo/any" in out


def test_each_target_shows_the_exact_bytes_without_the_key(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_text(REQUEST, encoding="utf-8")
    words = ("anthropic/c,openai/g", "--request", path, "--from", "openai_chat", "--json")
    keys = {"ANTHROPIC_API_KEY": "sk-ant-test-0123456789", "OPENAI_API_KEY": "sk-test-0123456789"}
    done = dragoman("explain", *words, **keys)
    reports = json.loads(done.out)["targets"]
    assert not [key for key in keys.values() if key in done.out]
    assert [one["headers"].get("x-api-key", one["headers"].get("authorization")) for one in reports] == [
        "[redacted]"
    ] * 2
    payload = decode(REQUEST.encode(), "openai_chat")
    assert isinstance(payload, RequestPayload)
    plain = build_request(payload.request, target("openai/g", api_key="k"))
    assert reports[1]["body"] == plain.body.decode()
    assert [notice["what"] for notice in reports[0]["notices"]] == ["seed"]


def test_the_bytes_are_shown_as_they_go_out() -> None:
    out = dragoman("explain", "demo/any", "--request", "-", "--from", "openai_chat", stdin=REQUEST).out
    assert "POST demo://local/v1/chat/completions\ncontent-type: application/json\n\n{" in out


def test_a_request_that_a_target_cannot_take_is_a_problem() -> None:
    request = '{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"now"}}]}'
    done = dragoman("explain", "perplexity/sonar,demo/any", "--request", "-", "--from", "openai_chat", stdin=request)
    assert done.code == 0
    assert "problem      does not support tools" in done.out


def test_without_a_spec_the_default_is_explained() -> None:
    assert dragoman("explain", GROQ_API_KEY="k").out.splitlines()[0] == "groq/openai/gpt-oss-20b"


def test_a_request_of_another_dialect_is_refused_with_a_hint() -> None:
    done = dragoman("explain", "demo/any", "--request", "-", stdin=REQUEST)
    assert (done.code, done.out) == (1, "")
    assert "messages[0]: a message has no field 'content'" in done.err
    assert "--from openai_chat" in done.err
