import pytest

from dragoman import wires
from dragoman.errors import SetupError
from dragoman.http import split_base_url
from dragoman.providers import PROVIDERS, Provider, target
from dragoman.target import Limits, Quirks

PLACED = [provider for provider in PROVIDERS.values() if provider.base_url]
OWN = Provider(
    name="own-place",
    wire="openai_chat",
    base_url="",
    base_url_names=("OWN_URL", "OWN_HOST"),
    key_names=("OWN_KEY", "OWN_TOKEN"),
    auth="x-own-key",
    headers={"x-title": "t"},
    limits=Limits(max_images=3),
    quirks=Quirks(stop=False),
)


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
def test_a_provider_speaks_a_wire_that_there_is(provider: Provider) -> None:
    assert provider.wire in wires.NAMES


@pytest.mark.parametrize("provider", PLACED, ids=lambda provider: provider.name)
def test_a_providers_place_is_a_whole_address(provider: Provider) -> None:
    assert "".join(split_base_url(provider.base_url)) == provider.base_url


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
def test_a_provider_that_needs_a_key_says_where_it_is_looked_for(provider: Provider) -> None:
    assert provider.key_names or not provider.needs_key


@pytest.mark.parametrize("provider", PLACED, ids=lambda provider: provider.name)
def test_a_target_is_named_by_its_spec(provider: Provider) -> None:
    assert target(f"{provider.name}/some/model").name == f"{provider.name}/some/model"


def test_a_target_has_the_key_and_the_place_that_it_is_given() -> None:
    made = target("anthropic/claude-x", api_key="hush", base_url="https://proxy/v1")
    assert (made.api_key, made.base_url, made.wire) == ("hush", "https://proxy/v1", "anthropic")


def test_a_target_has_the_place_of_its_provider() -> None:
    assert target("ollama/llama").base_url == "http://localhost:11434"


@pytest.mark.parametrize("spec", ["anthropic", "anthropic/", "", "/"])
def test_a_spec_without_a_model_is_a_wrong_set_up(spec: str) -> None:
    with pytest.raises(SetupError, match="names no model; write provider/model"):
        target(spec)


def test_an_unknown_provider_is_a_wrong_set_up_that_names_the_known() -> None:
    with pytest.raises(SetupError, match=r"no provider 'grok'; there are anthropic, .*groq"):
        target("grok/x")


def test_a_provider_without_a_place_says_how_to_tell_it() -> None:
    with pytest.raises(SetupError, match=r"^own-place: no base URL; set OWN_URL or OWN_HOST or LLM_OWN_PLACE, or pass"):
        OWN.target("m", env={"OWN_URL": ""})


@pytest.mark.parametrize(
    ("told", "base_url"),
    [
        ("https://x/v1", "https://x/v1"),
        ("https://x/v1/", "https://x/v1"),
        (" box:8080 ", "http://box:8080"),
        ("0.0.0.0:11434", "http://127.0.0.1:11434"),
        (":8080", "http://127.0.0.1:8080"),
        ("::1", "http://[::1]"),
        ("[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_the_environment_tells_a_place(told: str, base_url: str) -> None:
    assert OWN.target("m", env={"OWN_HOST": told}).base_url == base_url


def test_the_first_key_of_the_environment_counts() -> None:
    env = {"OWN_URL": "https://x", "OWN_KEY": "", "OWN_TOKEN": "hush"}
    assert OWN.target("m", env=env).auth_headers() == {"x-own-key": "hush"}


def test_a_target_has_the_facts_of_its_provider() -> None:
    made = OWN.target("m", env={"OWN_URL": "https://x"})
    assert (made.headers, made.limits, made.quirks, made.needs_key) == (OWN.headers, OWN.limits, OWN.quirks, True)


def test_a_repr_shows_no_key() -> None:
    provider = Provider(name="own", wire="ollama", base_url="https://x", api_key="hush")
    assert repr(provider) == "Provider(own, wire=ollama, https://x)"


def test_rich_shows_no_key() -> None:
    provider = Provider(name="own", wire="ollama", base_url="https://x", api_key="hush")
    assert provider.__rich_repr__() == [("name", "own"), ("wire", "ollama"), ("base_url", "https://x")]
