"""What a command uses if its options do not say otherwise: the registry, the model, call options, keys."""

from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dragoman.cli.input_files import errors_in, read_bytes
from dragoman.cli.parser import config_path
from dragoman.cli.terminal import decode_argument
from dragoman.engine.call_options import CallOptions
from dragoman.errors import InvalidRequest
from dragoman.io.json_input import decode_json
from dragoman.registry import Registry
from dragoman.targets.provider import Provider, key_variable
from dragoman.types import JsonObject, is_object

if TYPE_CHECKING:
    from dragoman.gateway.config import Config

FIRST_MODELS = {
    "openai": "gpt-5-mini",
    "anthropic": "claude-sonnet-5",
    "google": "gemini-3.5-flash",
    "ollama-cloud": "gpt-oss:20b",
    "groq": "openai/gpt-oss-20b",
    "deepseek": "deepseek-v4-flash",
    "mistral": "mistral-small-latest",
    "openrouter": "openai/gpt-5-mini",
    "together": "meta-llama/Llama-3.3-70B-Instruct-Turbo",
    "fireworks": "accounts/fireworks/models/deepseek-v3p1",
    "xai": "grok-4.3",
    "cerebras": "gpt-oss-120b",
    "perplexity": "sonar",
    "moonshot": "kimi-latest",
    "zai": "glm-4.7-flash",
    "minimax": "MiniMax-M2.7",
    "huggingface": "meta-llama/Llama-3.1-8B-Instruct",
    "nvidia": "meta/llama-3.1-8b-instruct",
}
"""The default model of each provider, small ones that answered in 2026, in order of preference."""
DEMO = "demo/any"
HOW_TO_SET_A_KEY = "set OPENAI_API_KEY or another key (`dragoman providers` lists them), or pass -m"


def open_registry(arguments: Namespace, /) -> Registry:
    """A registry with the providers of the environment and of the config file."""
    registry = Registry()
    registry.load_tables(read_tables(config_path(arguments), registry.env))
    return registry


def read_tables(path: str | None, env: Mapping[str, str], /) -> dict[str, Any]:
    """The tables of a config file with its ${VARIABLES} filled in; its tiers become aliases."""
    return {} if path is None else tables_of(read_config(path, env))


def read_config(path: str, env: Mapping[str, str], /) -> "Config":
    """The checked config of a file; its errors start with the path."""
    from dragoman.gateway.config import decode_config

    with errors_in(path):
        return decode_config(read_bytes(path).decode(), env)


def tables_of(config: "Config", /) -> dict[str, Any]:
    """The tables of a config that a registry reads; the tiers are aliases."""
    tiers = {name: tier.spec for name, tier in config.tiers.items()}
    return {**config.tables, "aliases": {**config.tables.get("aliases", {}), **tiers}}


def default_spec(spec: str | None, registry: Registry, /) -> str:
    """The spec, or DRAGOMAN_MODEL, or a model of the first provider whose key is set, or the demo.

    >>> default_spec(None, Registry(env={"GROQ_API_KEY": "k"}))
    'groq/openai/gpt-oss-20b'
    """
    return named_spec(spec, registry) or DEMO


def named_spec(spec: str | None, registry: Registry, /) -> str | None:
    """As `default_spec`, but None instead of the demo."""
    if spec := spec or registry.env.get("DRAGOMAN_MODEL"):
        return spec
    ready = (name for name in FIRST_MODELS if key_variable(registry.provider(name), registry.env))
    return next((f"{name}/{FIRST_MODELS[name]}" for name in ready), None)


CLOUDS = {"aws": "AWS", "azure": "Microsoft Entra", "azure-foundry": "Microsoft Entra", "google": "Google Cloud"}
"""Clouds with credentials of their own, as people call them."""


def key_state(provider: Provider, registry: Registry, /) -> str:
    """Whether a provider's key is set, and which variable to set if not.

    >>> registry = Registry(env={})
    >>> key_state(registry.provider("groq"), registry)
    'no key; set GROQ_API_KEY'
    """
    if variable := key_variable(provider, registry.env):
        return f"{variable} is set"
    if provider.api_key or provider.credential is not None:
        return "has a key"
    if provider.identity is not None:
        return f"no key; the credentials of {CLOUDS[provider.identity]} are used"
    return f"no key; set {' or '.join(provider.key_names)}" if provider.needs_key else "needs no key"


def call_options(arguments: Namespace, /) -> CallOptions:
    """The call options of the command line."""
    options: CallOptions = {}
    if arguments.system is not None:
        options["system"] = decode_argument(arguments.system)
    if arguments.schema is not None:
        options["schema"] = read_schema(arguments.schema)
    if arguments.temperature is not None:
        options["temperature"] = arguments.temperature
    if arguments.max_tokens is not None:
        options["max_tokens"] = arguments.max_tokens
    if arguments.reasoning is not None:
        options["reasoning"] = arguments.reasoning
    if arguments.timeout is not None:
        options["timeout"] = arguments.timeout
    return options


def read_schema(path: str, /) -> JsonObject:
    """The JSON Schema of a file; SetupError if it is not a valid schema."""
    from dragoman.schema.validate import validate

    with errors_in(path):
        schema = decode_json(read_bytes(path))
        if not is_object(schema):
            raise InvalidRequest("a JSON Schema must be an object")
        validate(None, schema)
    return schema
