"""`dragoman import-litellm`: a config of a LiteLLM proxy becomes a config of ours that starts, and what differs is said."""

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli import main
from dragoman.gateway.config import Config, configure_registry, decode_config
from dragoman.registry import Registry

CONFIG = """\
model_list:
  - model_name: gpt-4o
    litellm_params:
      model: azure/gpt-4o-eu
      api_base: https://europe.openai.azure.com/
      api_key: os.environ/AZURE_API_KEY_EU
      api_version: "2024-10-21"
      rpm: 6
  - model_name: gpt-4o
    litellm_params:
      model: azure/gpt-4o-ca
      api_base: https://canada.openai.azure.com/
      api_key: os.environ/AZURE_API_KEY_CA
      rpm: 12
  - model_name: gpt-4o
    litellm_params: {model: openai/gpt-4o, api_key: os.environ/OPENAI_API_KEY}
  - model_name: claude
    litellm_params: {model: anthropic/claude-sonnet-4-5, temperature: 0.2}
  - model_name: anthropic/claude-3
    litellm_params: {model: bedrock/converse/anthropic.claude-3-sonnet, aws_region_name: us-east-1}
  - model_name: local
    litellm_params: {model: openai/qwen3, api_base: "http://box:8000/v1", api_key: none}
  - model_name: second
    litellm_params: {model: openai/gpt-4o, api_key: os.environ/OTHER_OPENAI_KEY}
  - model_name: "groq/*"
    litellm_params: {model: "groq/*", api_key: os.environ/GROQ_API_KEY}
  - model_name: bare
    litellm_params: {model: gpt-4o-mini}
  - model_name: odd
    litellm_params: {model: watsonx/granite}
litellm_settings:
  num_retries: 3
  request_timeout: 120
  drop_params: true
  fallbacks: [{"gpt-4o": ["claude"]}]
  context_window_fallbacks: [{"claude": ["gpt-4o"]}]
router_settings:
  routing_strategy: simple-shuffle
  model_group_alias: {"gpt-4": "gpt-4o"}
  redis_host: os.environ/REDIS_HOST
  allowed_fails: 3
general_settings:
  master_key: sk-0123456789-0123456789-0123
  alerting: ["slack"]
"""
ENV = {
    "AZURE_API_KEY_EU": "key-eu-123456",
    "AZURE_API_KEY_CA": "key-ca-123456",
    "OPENAI_API_KEY": "key-openai-123456",
    "OTHER_OPENAI_KEY": "key-other-123456",
    "REDIS_HOST": "redis",
    "AWS_REGION": "us-east-1",
}


def convert(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[Config, list[str], dict[str, Any]]:
    source, output = folder / "config.yaml", folder / "dragoman.toml"
    source.write_text(text, encoding="utf-8")
    assert main(["import-litellm", str(source), "-o", str(output), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    return decode_config(output.read_text(encoding="utf-8"), ENV), report["differences"], report


def test_every_model_has_its_targets_and_their_own_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, _, report = convert(tmp_path, CONFIG, capsys)
    registry = Registry(env=ENV)
    configure_registry(registry, config)
    found = {name: [target.name for target in registry.targets(name)] for name in registry.aliases()}
    assert found["gpt-4o"] == ["azure/gpt-4o-eu", "azure-2/gpt-4o-ca", "openai/gpt-4o", "anthropic/claude-sonnet-4-5"]
    assert found["gpt-4"] == found["gpt-4o"]
    assert found["bare"] == ["openai/gpt-4o-mini"]
    assert found["anthropic-claude-3"] == ["bedrock-2/anthropic.claude-3-sonnet"]
    keys = {
        name: (target.base_url.split("/")[2], target.api_key) for name in found for target in registry.targets(name)
    }
    assert keys["local"] == ("box:8000", "none")
    assert keys["bare"] == ("api.openai.com", "key-openai-123456")
    assert keys["second"] == ("api.openai.com", "key-other-123456")
    azure = registry.target("azure-2/gpt-4o-ca")
    assert (azure.api_key, "canada" in azure.base_url) == ("key-ca-123456", True)
    pool = registry.pools["gpt-4o-pool"]
    assert (pool.order, pool.weights) == ("weighted", {"azure/gpt-4o-eu": 6, "azure-2/gpt-4o-ca": 12})
    assert [*registry.pools["claude"].fallbacks] == ["context_too_long"]
    assert "groq" in config.providers
    own = ["GROQ_API_KEY", "OPENAI_API_KEY"]
    assert report["variables"] == sorted(
        [*own, "AZURE_API_KEY_CA", "AZURE_API_KEY_EU", "OTHER_OPENAI_KEY", "REDIS_HOST"]
    )


def test_settings_are_taken_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, _, _ = convert(tmp_path, CONFIG, capsys)
    assert (config.options.retries, config.options.timeouts.total) == (3, 120)
    assert config.gateway.store == "redis://redis:6379/0"
    (master,) = config.keys
    assert (master.id, master.is_admin) == ("master", True)


def test_each_difference_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, differences, _ = convert(tmp_path, CONFIG, capsys)
    expected = (
        "model_list[0] (gpt-4o): api_version is not used",
        "model_list[3] (claude): temperature",
        "model_list[9] (odd): there is no provider",
        "model 'anthropic/claude-3' is called 'anthropic-claude-3'",
        "litellm_settings.drop_params",
        "general_settings.alerting: use [alerts]",
    )
    for text in expected:
        assert any(each.startswith(text) for each in differences), text
    assert len(differences) == len(expected)


COMPANY = """\
model_list:
  - model_name: gpt
    litellm_params: {model: azure/gpt-eu, api_base: os.environ/AZURE_API_BASE, api_key: os.environ/AZURE_API_KEY, weight: 3}
  - model_name: gpt
    litellm_params: {model: openai/gpt-4o, max_parallel_requests: 20}
  - model_name: claude
    litellm_params: {model: anthropic/claude-sonnet-4-5, input_cost_per_token: 0.1}
  - model_name: gemini
    litellm_params: {model: vertex_ai/gemini-2.5-pro, vertex_credentials: /secrets/key.json}
  - model_name: fast
    litellm_params: {model: groq/llama-3.3-70b-versatile}
  - model_name: "openai/*"
    litellm_params: {model: "openai/*"}
router_settings:
  fallbacks: [{gpt: [claude]}, {claude: [gpt, gemini]}]
  context_window_fallbacks: [{gpt: [gemini, claude]}]
  redis_host: os.environ/REDIS_HOST
  redis_port: os.environ/REDIS_PORT
  redis_password: os.environ/REDIS_PASSWORD
litellm_settings:
  default_fallbacks: [fast]
  cache: true
  cache_params: {type: redis, url: os.environ/CACHE_URL}
  max_budget: 1000
general_settings:
  max_parallel_requests: 500
"""
COMPANY_ENV = {
    "AZURE_API_BASE": "https://eu.openai.azure.com",
    "AZURE_API_KEY": "key-azure-123456",
    "OPENAI_API_KEY": "key-openai-123456",
    "ANTHROPIC_API_KEY": "key-anthropic-123456",
    "GROQ_API_KEY": "key-groq-123456",
    "GOOGLE_CLOUD_PROJECT": "project",
    "GOOGLE_CLOUD_LOCATION": "global",
    "REDIS_HOST": "redis",
    "REDIS_PORT": "6380",
    "REDIS_PASSWORD": "secret",
    "CACHE_URL": "redis://cache:6379/1",
}


def test_groups_that_fall_back_to_each_other_and_addresses_in_variables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "config.yaml", tmp_path / "dragoman.toml"
    source.write_text(COMPANY, encoding="utf-8")
    assert main(["import-litellm", str(source), "-o", str(output), "--json"]) == 0
    differences = json.loads(capsys.readouterr().out)["differences"]
    config = decode_config(output.read_text(encoding="utf-8"), COMPANY_ENV)
    assert config.gateway.store == "redis://:secret@redis:6380/0"
    assert config.cache is not None
    assert config.cache.store == "redis://cache:6379/1"
    registry = Registry(env=COMPANY_ENV)
    configure_registry(registry, config)
    names = {alias: [target.name for target in registry.targets(alias)] for alias in registry.aliases()}
    gpt, claude = ["azure/gpt-eu", "openai-2/gpt-4o"], "anthropic/claude-sonnet-4-5"
    gemini, fast = "vertex/gemini-2.5-pro", "groq/llama-3.3-70b-versatile"
    assert names == {
        "gpt": [*gpt, claude, gemini, fast],
        "claude": [claude, *gpt, gemini, fast],
        "gemini": [gemini, fast],
        "fast": [fast],
    }
    pool = tomllib.loads(output.read_text(encoding="utf-8"))["pools"]["gpt-pool"]
    assert pool["fallbacks"] == {"context_too_long": "gemini, claude"}
    for text in (
        "model_list[2] (claude): own prices are not taken over",
        "model_list[3] (gemini): set the variable GOOGLE_APPLICATION_CREDENTIALS",
        "litellm_settings.max_budget: make a team",
        "general_settings.max_parallel_requests: set max_requests",
    ):
        assert any(each.startswith(text) for each in differences), text
    assert not [each for each in differences if "clients send options" in each]


def test_a_file_is_not_replaced_by_accident(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    convert(tmp_path, CONFIG, capsys)
    words = ["import-litellm", str(tmp_path / "config.yaml"), "-o", str(tmp_path / "dragoman.toml")]
    assert main(words) == 2
    assert "use --force" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("model_list: []", "model_list must be a list of models"),
        ("- 1", "it must be the config of a LiteLLM proxy"),
        ("a: [", "it must be YAML"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert main(["import-litellm", str(path), "-o", str(tmp_path / "out.toml")]) == 1
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "out.toml").exists()


def test_model_facts_and_cache_settings_are_imported_or_listed_as_different(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = """
model_list:
  - {model_name: eu, litellm_params: {model: azure/eu, api_base: "https://eu.openai.azure.com", api_key: os.environ/EU,
     api_version: "2024-10-21"}}
  - {model_name: opus, litellm_params: {model: vertex_ai/claude-opus-4-1, vertex_project: p, vertex_location: l}}
  - {model_name: draw, litellm_params: {model: openai/dall-e-3, api_key: os.environ/OPENAI_API_KEY},
     model_info: {mode: image_generation, input_cost_per_token: 0.1}}
  - {model_name: haiku, litellm_params: {model: bedrock/claude-haiku, aws_region_name: us-west-2}}
  - {model_name: haiku, litellm_params: {model: bedrock/claude-haiku, aws_region_name: os.environ/REGION}}
  - {model_name: "*", litellm_params: {model: "*"}}
litellm_settings:
  cache: true
  cache_params: {type: redis, host: os.environ/CACHE_HOST, password: os.environ/CACHE_PASSWORD, ttl: 60}
"""
    (tmp_path / "config.yaml").write_text(config)
    output = tmp_path / "dragoman.toml"
    assert main(["import-litellm", str(tmp_path / "config.yaml"), "-o", str(output), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    text = output.read_text()
    assert 'opus = "vertex-anthropic/claude-opus-4-1"' in text
    assert 'base_url = "https://bedrock-runtime.us-west-2.amazonaws.com"' in text
    assert 'base_url = "https://bedrock-runtime.${REGION}.amazonaws.com"' in text
    assert 'store = "redis://:${CACHE_PASSWORD}@${CACHE_HOST}:6379/0"' in text
    assert report["variables"] == [
        "CACHE_HOST",
        "CACHE_PASSWORD",
        "EU",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_CLOUD_PROJECT",
        "OPENAI_API_KEY",
        "REGION",
    ]
    said = "\n".join(report["differences"])
    for part in (
        "(eu): api_version is not used",
        "(draw): mode image_generation needs [pass_through] with images = PROVIDER",
        "(draw): own prices are not taken over",
        "(*): '*' is left out",
        "exactly equal requests only, in its Redis",
    ):
        assert part in said
