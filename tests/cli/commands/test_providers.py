import json

from tests.support.cli import dragoman


def test_providers_are_listed_with_the_state_of_their_keys() -> None:
    rows = [line.split("\t") for line in dragoman("providers", GROQ_API_KEY="k").out.splitlines()]
    state = {row[0]: row[3] for row in rows}
    assert state["groq"] == "GROQ_API_KEY is set"
    assert state["anthropic"] == "no key; set ANTHROPIC_API_KEY"
    assert state["ollama"] == "needs no key"


def test_empty_quotes_are_not_a_key() -> None:
    rows = [line.split("\t") for line in dragoman("providers", GROQ_API_KEY='""').out.splitlines()]
    assert {row[0]: row[3] for row in rows}["groq"] == "no key; set GROQ_API_KEY"


def test_providers_as_json() -> None:
    listed = {one["name"]: one for one in json.loads(dragoman("providers", "--json", OLLAMA_HOST="box").out)}
    assert listed["ollama"]["base_url"] == "http://box:11434"
    assert listed["demo"]["needs_key"] is False
