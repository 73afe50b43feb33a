import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import SetupError
from dragoman.http import split_base_url
from dragoman.registry import Registry
from dragoman.targets.provider import Provider
from dragoman.targets.providers import PROVIDERS, target
from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.types import Request, Tool, ToolCall, ToolResult, assistant, tool_results, user
from dragoman.wires.base import ClientHalf

PLACED = [provider for provider in PROVIDERS.values() if provider.base_url and "{" not in provider.base_url]
OWN = Provider(
    name="own-place",
    wire="openai_chat",
    base_url="",
    base_url_names=("OWN_URL", "OWN_HOST"),
    key_names=("OWN_KEY", "OWN_TOKEN"),
    auth="x-own-key",
    headers={"x-title": "t"},
    capabilities=Capabilities(max_images=3),
    quirks=Quirks(stop=False),
)


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
def test_a_provider_speaks_a_wire_that_there_is(provider: Provider) -> None:
    assert provider.wire in wires.NAMES


@pytest.mark.parametrize("provider", PLACED, ids=lambda provider: provider.name)
def test_a_base_url_is_complete(provider: Provider) -> None:
    assert "".join(split_base_url(provider.base_url)) == provider.base_url


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
def test_a_provider_that_needs_a_key_says_where_it_is_looked_for(provider: Provider) -> None:
    assert provider.key_names or not provider.needs_key


@pytest.mark.parametrize("provider", PLACED, ids=lambda provider: provider.name)
def test_a_target_is_named_by_its_spec(provider: Provider) -> None:
    assert target(f"{provider.name}/some/model").name == f"{provider.name}/some/model"


def test_a_base_url_has_the_region_of_the_environment() -> None:
    bedrock = PROVIDERS["bedrock"].target("m", env={"AWS_DEFAULT_REGION": "eu-west-1"})
    assert bedrock.base_url == "https://bedrock-runtime.eu-west-1.amazonaws.com"
    with pytest.raises(SetupError, match="bedrock: AWS_REGION or AWS_DEFAULT_REGION must be set, or pass base_url="):
        target("bedrock/m")
    assert target("bedrock/m", base_url="https://proxy").base_url == "https://proxy"


def test_a_target_has_the_key_and_the_base_url_of_its_arguments() -> None:
    own = target("anthropic/claude-x", api_key="hush", base_url="https://proxy/v1")
    assert (own.api_key, own.base_url, own.wire) == ("hush", "https://proxy/v1", "anthropic")


def test_a_target_has_the_base_url_of_its_provider() -> None:
    assert target("ollama/llama").base_url == "http://localhost:11434"


@pytest.mark.parametrize("spec", ["anthropic", "anthropic/", "", "/"])
def test_a_spec_without_a_model_is_a_wrong_set_up(spec: str) -> None:
    with pytest.raises(SetupError, match="target must be provider/model, got"):
        target(spec)


def test_an_unknown_provider_is_a_wrong_set_up_that_names_the_known() -> None:
    with pytest.raises(SetupError, match=r"unknown provider 'grok'; use one of anthropic, .*groq"):
        target("grok/x")


def test_a_provider_without_a_base_url_says_how_to_set_it() -> None:
    with pytest.raises(SetupError, match=r"^own-place: no base URL; set OWN_URL or OWN_HOST or LLM_OWN_PLACE, or pass"):
        OWN.target("m", env={"OWN_URL": ""})


@pytest.mark.parametrize(
    ("value", "base_url"),
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
def test_the_environment_sets_the_base_url(value: str, base_url: str) -> None:
    assert OWN.target("m", env={"OWN_HOST": value}).base_url == base_url


@pytest.mark.parametrize("spec", ["openai/gpt-4o", "openai-responses/gpt-5", "openai/gpt-6"])
def test_the_variables_of_openais_sdk_are_read(spec: str) -> None:
    env = {"OPENAI_ORG_ID": " org-1 ", "OPENAI_PROJECT_ID": "proj-1", "OPENAI_API_BASE": "http://box:8000"}
    chosen = Registry(env=env).target(spec)
    assert chosen.headers == {"openai-organization": "org-1", "openai-project": "proj-1"}
    assert chosen.base_url == "http://box:8000/v1"
    assert Registry(env={**env, "OPENAI_BASE_URL": "http://own"}).target(spec).base_url == "http://own/v1"
    assert Registry(env={"OPENAI_ORG_ID": "", "OPENAI_PROJECT_ID": '""'}).target(spec).headers == {}


def test_quotes_around_the_id_of_an_account_are_removed() -> None:
    headers = Registry(env={"OPENAI_ORG_ID": '"org-1"'}).target("openai/gpt-6").headers
    assert headers == {"openai-organization": "org-1"}


@pytest.mark.parametrize("value", ["a\nb", "orgé"])
def test_the_id_of_an_account_that_cannot_be_sent_is_refused(value: str) -> None:
    with pytest.raises(SetupError, match=r": OPENAI_ORG_ID must be a str of printable ASCII characters") as caught:
        Registry(env={"OPENAI_ORG_ID": value}).target("openai/gpt-6")
    assert caught.value.param is None


def test_another_server_gets_no_header_of_the_account() -> None:
    registry = Registry(env={"OPENAI_ORG_ID": "org-1", "LLM_BOX": "openai+http://box:8000"})
    registry.add_provider(name="own", like="openai", base_url="http://own/v1")
    assert [registry.target(spec).headers for spec in ("box/m", "own/m")] == [{}, {}]


def test_a_token_for_anthropic_is_a_bearer_token() -> None:
    env = {"ANTHROPIC_AUTH_TOKEN": "hush"}
    assert Registry(env=env).target("anthropic/c").auth_headers() == {"authorization": "Bearer hush"}
    env["ANTHROPIC_API_KEY"] = "key"
    assert Registry(env=env).target("anthropic/c").auth_headers() == {"x-api-key": "key"}


@pytest.mark.parametrize("empty", ["", " ", '""', "' '"])
def test_a_token_is_a_bearer_token_beside_an_empty_key(empty: str) -> None:
    env = {"ANTHROPIC_API_KEY": empty, "ANTHROPIC_AUTH_TOKEN": "tok"}
    record = Registry(env={}).provider("anthropic")
    for each in (record, replace(record, api_key=empty)):
        assert each.target("c", env=env).auth_headers() == {"authorization": "Bearer tok"}


def test_a_function_for_the_key_does_not_use_the_token_of_the_environment() -> None:
    registry = Registry(env={"ANTHROPIC_AUTH_TOKEN": "tok"}, api_key=lambda: "key")
    assert registry.target("anthropic/c").auth == "x-api-key"


@pytest.mark.parametrize("value", ['"sk-1"', "'sk-1'\n", ' " sk-1 " '])
def test_quotes_around_a_key_are_removed(value: str) -> None:
    assert Registry(env={"GROQ_API_KEY": value}).target("groq/m").api_key == "sk-1"


@pytest.mark.parametrize("value", ['""', "'", '"'])
def test_quotes_alone_are_not_two_quotes(value: str) -> None:
    assert Registry(env={"GROQ_API_KEY": value}).target("groq/m").api_key == (None if len(value) == 2 else value)


def test_the_first_key_of_the_environment_counts() -> None:
    env = {"OWN_URL": "https://x", "OWN_KEY": "", "OWN_TOKEN": "hush"}
    assert OWN.target("m", env=env).auth_headers() == {"x-own-key": "hush"}


def test_a_target_has_the_facts_of_its_provider() -> None:
    own = OWN.target("m", env={"OWN_URL": "https://x"})
    assert (own.headers, own.capabilities, own.quirks, own.needs_key) == (
        OWN.headers,
        OWN.capabilities,
        OWN.quirks,
        True,
    )


def test_a_repr_shows_no_key() -> None:
    provider = Provider(name="own", wire="ollama", base_url="https://x", api_key="hush")
    assert repr(provider) == "Provider(own, wire=ollama, https://x)"


def test_rich_shows_no_key() -> None:
    provider = Provider(name="own", wire="ollama", base_url="https://x", api_key="hush")
    assert provider.__rich_repr__() == [("name", "own"), ("wire", "ollama"), ("base_url", "https://x")]


# Facts of each -------------------------------------------------------------------------------------------------------

NAMED = (
    "openai openai-chat openai-responses azure azure-responses azure-deployments azure-ai azure-anthropic anthropic bedrock "
    "bedrock-anthropic bedrock-nova bedrock-openai bedrock-mantle bedrock-mantle-anthropic bedrock-mantle-responses vertex vertex-anthropic "
    "vertex-express vertex-openai google gemini google-interactions ollama ollama-cloud foreman llama-swap groq deepseek mistral "
    "openrouter together fireworks xai xai-responses cohere cerebras perplexity moonshot zai minimax huggingface nvidia vllm llama-cpp "
    "lmstudio deepinfra voyage jina tei dragoman demo"
).split()


def test_the_records_are_those_of_the_list_and_no_other() -> None:
    assert sorted(PROVIDERS) == sorted(NAMED)
    assert all(record.name == name for name, record in PROVIDERS.items())


def test_gemini_is_google() -> None:
    assert PROVIDERS["gemini"] == replace(PROVIDERS["google"], name="gemini", family="google")


@pytest.mark.parametrize(
    ("value", "base_url"),
    [
        ("box", "http://box:11434"),
        ("box:8080", "http://box:8080"),
        (":8080", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:11434"),  # noqa: S104 - nothing is bound
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("10.0.0.0:8080", "http://10.0.0.0:8080"),
        ("http://box", "http://box"),
        ("https://box/", "https://box"),
        ("https://box:8443/ollama/", "https://box:8443/ollama"),
        ("box/ollama", "http://box:11434/ollama"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("[::1]", "http://[::1]:11434"),
        ("::1", "http://[::1]:11434"),
        ('"box:8080" ', "http://box:8080"),
        ("/", "http://127.0.0.1:11434"),
    ],
)
def test_ollama_host_may_be_less_than_a_url(value: str, base_url: str) -> None:
    assert PROVIDERS["ollama"].target("m", env={"OLLAMA_HOST": value}).base_url == base_url


@pytest.mark.parametrize(
    ("variable", "value", "base_url"),
    [
        ("AZURE_OPENAI_ENDPOINT", "https://res.openai.azure.com/", "https://res.openai.azure.com/openai/v1"),
        ("AZURE_OPENAI_BASE_URL", "https://res.openai.azure.com/openai/v2", "https://res.openai.azure.com/openai/v2"),
        ("VLLM_BASE_URL", "box", "http://box:8000/v1"),
        ("VLLM_BASE_URL", "http://box:9000", "http://box:9000/v1"),
        ("OPENAI_BASE_URL", "https://proxy/v1/", "https://proxy/v1"),
    ],
)
def test_each_variable_sets_the_base_url(variable: str, value: str, base_url: str) -> None:
    record = next(record for record in PROVIDERS.values() if variable in record.base_url_names)
    assert record.target("m", env={variable: value}).base_url == base_url


def body(name: str, **fields: Any) -> dict[str, Any]:
    """What a target of the provider is sent."""
    to = Registry(env={"AWS_REGION": "us-east-1", "GOOGLE_CLOUD_PROJECT": "p"}).target(f"{name}/m")
    if to.api_key is None:
        to = replace(to, api_key="k")
    request = Request(messages=fields.pop("messages", (user("hi"),)), **fields)
    sent: dict[str, Any] = json.loads(to_wire(to).encode_request(request, to).body)
    return sent


def to_wire(to: Target) -> ClientHalf:
    return wires.get(to.wire).client


CHAT = [
    name
    for name, record in PROVIDERS.items()
    if record.wire == "openai_chat" and record.base_url and record.capabilities.chats
]
USES_MAX_COMPLETION_TOKENS = {"openai", "openai-chat", "groq", "xai", "cerebras", "demo"}
STREAMS_USAGE_UNASKED = {"groq", "mistral", "together", "fireworks", "bedrock-openai"}


@pytest.mark.parametrize("name", CHAT)
def test_the_token_limit_has_the_name_that_the_server_knows(name: str) -> None:
    assert ("max_completion_tokens" if name in USES_MAX_COMPLETION_TOKENS else "max_tokens") in body(name, max_tokens=5)


@pytest.mark.parametrize(
    ("name", "field"), [("openai", "seed"), ("groq", "seed"), ("mistral", "random_seed"), ("deepseek", None)]
)
def test_the_seed_has_the_name_that_the_server_knows(name: str, field: str | None) -> None:
    sent = body(name, seed=7)
    assert [key for key, value in sent.items() if value == 7] == ([field] if field else [])


@pytest.mark.parametrize(
    ("name", "choice"),
    [("openai", "required"), ("groq", "required"), ("mistral", "any"), ("deepseek", "auto"), ("llama-cpp", "required")],
)
def test_tool_choice_has_the_servers_value(name: str, choice: str) -> None:
    assert body(name, tools=(Tool(name="tide"),), tool_choice="required")["tool_choice"] == choice


@pytest.mark.parametrize("name", ["llama-cpp", "llama-swap", "lmstudio"])
def test_servers_that_cannot_name_a_tool_are_given_it_alone(name: str) -> None:
    sent = body(name, tools=(Tool(name="tide"), Tool(name="moon")), tool_choice="moon")
    assert sent["tool_choice"] == "required"
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["moon"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("openai", "json_schema"), ("mistral", "json_schema"), ("deepseek", "json_object"), ("zai", "json_object")],
)
def test_a_schema_is_sent_where_the_server_takes_one(name: str, kind: str) -> None:
    assert body(name, schema={"type": "object"})["response_format"]["type"] == kind


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("openai", {"reasoning_effort": "high"}),
        ("groq", {"reasoning_effort": "high"}),
        ("deepseek", {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("mistral", {"reasoning_effort": "high"}),
        ("openrouter", {"reasoning": {"effort": "high"}}),
        ("zai", {"thinking": {"type": "enabled"}}),
    ],
)
def test_reasoning_has_the_servers_form(name: str, fields: dict[str, Any]) -> None:
    sent = body(name, reasoning="high")
    assert {key: value for key, value in sent.items() if key not in ("model", "messages")} == fields


def test_deepseek_can_switch_thinking_off() -> None:
    assert body("deepseek", reasoning="none")["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize("name", CHAT)
def test_include_usage_is_sent_only_if_it_is_needed(name: str) -> None:
    assert ("stream_options" in body(name, stream=True)) == (name not in STREAMS_USAGE_UNASKED)


def test_mistral_gets_ids_of_nine_characters() -> None:
    call = ToolCall(id="call_1", name="tide")
    turns = (user("hi"), assistant(call), tool_results(ToolResult(id="call_1", name="tide", content="4 m")))
    sent = body("mistral", messages=turns, tools=(Tool(name="tide"),))
    assert re.fullmatch("[A-Za-z0-9]{9}", sent["messages"][1]["tool_calls"][0]["id"])


@pytest.mark.parametrize(
    ("name", "capabilities"),
    [
        ("anthropic", {"max_images": 100, "max_image_bytes": 7_864_320, "max_image_side": 8000, "audio": False}),
        ("google", {"max_images": 100, "max_image_bytes": 15_728_640, "image_urls": False}),
        ("ollama-cloud", {"max_images": 8, "documents": False, "forced_choice": False}),
        ("openai", {"max_images": 1500, "image_urls": True}),
        ("groq", {"max_images": 5, "documents": False}),
        ("mistral", {"max_images": 8, "max_image_bytes": 10_000_000}),
        ("xai", {"allowed_image_types": ("image/jpeg", "image/png")}),
        ("deepseek", {"max_images": 0}),
        ("cerebras", {"max_images": 0}),
    ],
)
def test_limits_are_those_of_the_provider(name: str, capabilities: dict[str, Any]) -> None:
    assert {fact: getattr(PROVIDERS[name].capabilities, fact) for fact in capabilities} == capabilities


@pytest.mark.parametrize(
    ("name", "header"),
    [("openai", "authorization"), ("azure", "api-key"), ("anthropic", "x-api-key"), ("google", "x-goog-api-key")],
)
def test_a_key_goes_into_the_header_that_the_provider_reads(name: str, header: str) -> None:
    own = target(f"{name}/m", api_key="hush", base_url="https://x")
    assert list(own.auth_headers()) == [header]
