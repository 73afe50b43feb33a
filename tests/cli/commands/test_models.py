import json

from dragoman.testing import FaultyServer, RawResponse
from tests.support.cli import dragoman


def test_models_of_all_who_have_a_key() -> None:
    assert dragoman("models").out.splitlines()[0] == "demo/any"


def test_models_of_one_provider() -> None:
    body = b'{"object":"list","data":[{"id":"tiny","object":"model","created":1}]}'
    with FaultyServer(RawResponse(body=body), repeat=True) as server:
        place = f"vllm+http://127.0.0.1:{server.port}/v1"
        assert dragoman("models", "box", LLM_BOX=place).out == "box/tiny\n"
        assert json.loads(dragoman("models", "box", "--json", LLM_BOX=place).out)["box"][0]["id"] == "tiny"


def test_a_provider_that_does_not_answer_is_a_failure() -> None:
    done = dragoman("models", "groq")
    assert (done.code, done.out) == (1, "")
    assert "AuthFailed: groq/any: no API key; set GROQ_API_KEY" in done.err


def test_one_that_fails_hides_no_other() -> None:
    with FaultyServer(RawResponse(status=401, body=b"{}"), repeat=True) as server:
        done = dragoman(
            "models",
            GROQ_API_KEY="k",
            LLM_BOX=f"vllm+http://x@127.0.0.1:{server.port}/v1",
            LLM_GROQ=f"vllm+http://127.0.0.1:{server.port}/v1",
        )
    assert done.code == 0
    assert "demo/any\n" in done.out
    assert "box: AuthFailed" in done.err
