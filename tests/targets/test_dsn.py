import re

import pytest

from dragoman.errors import SetupError
from dragoman.targets.dsn import decode_dsn, variable_of
from dragoman.targets.provider import Provider
from dragoman.targets.providers import PROVIDERS

MALFORMED = [
    "",
    "box",
    "gpt-4",
    "sk-secret-key",
    "://box",
    "openai://",
    "openai:///v1",
    "openai://k@",
    "openai://k@/v1",
]


@pytest.mark.parametrize(
    ("dsn", "base_url", "key"),
    [
        ("openai+http://key@127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1", "key"),
        ("ollama+http://box:11434", "http://box:11434", None),
        ("foreman://token@box.example", "https://box.example", "token"),
        ("foreman://token@box.example:8443/", "https://box.example:8443", "token"),
        ("openai://box/", "https://box/v1", None),
        ("openai://box/llm/v2///", "https://box/llm/v2", None),
        ("llama-swap://box:8080", "http://box:8080/v1", None),
        ("llama-swap+https://box", "https://box/v1", None),
        ("vllm://box:8000", "https://box:8000/v1", None),
        ("azure://k@res.openai.azure.com", "https://res.openai.azure.com/openai/v1", "k"),
        ("openai://a/b:c@box/x", "https://box/x", "a/b:c"),
        ("openai://tok@b@c/x", "https://b@c/x", "tok"),
        ("openai://a://b@box", "https://box/v1", "a://b"),
        ("openai://@box", "https://box/v1", None),
        ("  OpenAI+HTTP://k@box  ", "http://box/v1", "k"),
        ("ollama+http://[::1]:11434", "http://[::1]:11434", None),
        ("demo://here", "demo://here/v1", None),
    ],
)
def test_a_dsn_is_split_at_its_scheme_and_then_at_the_first_at(dsn: str, base_url: str, key: str | None) -> None:
    provider = decode_dsn("box", dsn, PROVIDERS)
    assert (provider.name, provider.base_url, provider.api_key) == ("box", base_url, key)
    assert (provider.key_names, provider.needs_key, provider.base_url_names) == ((), False, ())


@pytest.mark.parametrize("dsn", [*MALFORMED, "openai://:8080", "openai:/box"])
def test_a_missing_scheme_or_host_is_malformed(dsn: str) -> None:
    with pytest.raises(SetupError, match=re.escape("LLM_MY_BOX must be scheme://[token@]host[:port][/path]")):
        decode_dsn("my-box", dsn, PROVIDERS)


@pytest.mark.parametrize("scheme", ["opnai", "openai+tcp"])
def test_an_unknown_scheme_is_refused_with_a_suggestion(scheme: str) -> None:
    with pytest.raises(SetupError, match=re.escape(f"LLM_BOX: unknown scheme '{scheme}'; did you mean 'openai'")):
        decode_dsn("box", f"{scheme}://box", PROVIDERS)


def test_an_error_of_a_dsn_does_not_say_the_key() -> None:
    for dsn in ("opnai://hush@box", "hush", "openai://hush@"):
        with pytest.raises(SetupError) as caught:
            decode_dsn("box", dsn, PROVIDERS)
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize("scheme", sorted(PROVIDERS))
def test_every_provider_name_is_a_scheme(scheme: str) -> None:
    provider = decode_dsn("box", f"{scheme}+http://k@box:1", PROVIDERS)
    assert (provider.wire, provider.auth) == (PROVIDERS[scheme].wire, PROVIDERS[scheme].auth)
    assert provider.base_url.startswith("http://box:1")


def test_credentials_of_a_scheme_are_not_copied_to_another_server() -> None:
    headers = {"X-Gateway-Key": "hush", "x-team": "tides"}
    record = Provider(name="corp", wire="openai_chat", api_key="hush", headers=headers, http_client=object())
    provider = decode_dsn("box", "corp://box", {"corp": record})
    assert (provider.api_key, provider.headers, provider.http_client) == (None, {"x-team": "tides"}, None)


def test_a_variable_is_named_after_its_provider() -> None:
    assert variable_of("my-own.box") == "LLM_MY_OWN.BOX"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_plain_url_is_refused_because_it_names_no_provider(scheme: str) -> None:
    with pytest.raises(
        SetupError, match=re.escape(f"LLM_BOX: {scheme} does not name a provider; write openai+{scheme}://")
    ):
        decode_dsn("box", f"{scheme}://hush@box", PROVIDERS)


def test_a_scheme_that_is_like_none_may_be_a_key_and_is_not_shown() -> None:
    with pytest.raises(SetupError, match=r"^LLM_BOX: unknown scheme; use one of openai, ") as caught:
        decode_dsn("box", "sk-hush-hush://box", PROVIDERS)
    assert "hush" not in str(caught.value)


def test_a_repr_shows_nothing_of_a_key_with_an_at() -> None:
    assert repr(decode_dsn("box", "openai://hu@sh@box", PROVIDERS)) == "Provider(box, wire=openai_chat, https://box/v1)"
