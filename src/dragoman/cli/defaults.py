"""The environment and a config file in, the registry of a command and the spec that it asks out."""

import os
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.cli.input_files import decode, named, read_bytes
from dragoman.cli.terminal import heard
from dragoman.errors import InvalidRequest, OutputError
from dragoman.models import CallOptions
from dragoman.registry import Registry
from dragoman.targets.providers import Provider
from dragoman.types import JsonObject, is_object

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
"""What is asked where nobody said which model: small ones that answered in 2026, in order of preference."""
LAST_RESORT = "demo/any"


def open_registry(arguments: Namespace, /) -> Registry:
    """The registry of the environment, with the config that was named."""
    registry = Registry()
    registry.load_tables(read_tables(config_path(arguments), registry.env))
    return registry


def read_tables(path: str | None, env: Mapping[str, str], /) -> dict[str, Any]:
    """What a config says of providers, aliases and limits, with its variables filled in; its tiers are aliases, too.

    >>> read_tables(None, {})
    {}
    """
    if path is None:
        return {}
    from dragoman.gateway.config import decode_config

    with named(path):
        config = decode_config(read_bytes(path).decode(), env)
    tiers = {name: tier.spec for name, tier in config.tiers.items()}
    return {**config.tables, "aliases": {**config.tables.get("aliases", {}), **tiers}}


def config_path(arguments: Namespace, /) -> str | None:
    """Where the config is, if there is one.

    >>> config_path(Namespace(config="dragoman.toml"))
    'dragoman.toml'
    """
    path: str | None = arguments.config or os.environ.get("DRAGOMAN_CONFIG") or None
    return path


def spec_of(told: str | None, registry: Registry, /) -> str:
    """What was told, or DRAGOMAN_MODEL, or a model of the first provider whose key is set, or the demo.

    >>> spec_of(None, Registry(env={"GROQ_API_KEY": "k"}))
    'groq/openai/gpt-oss-20b'
    """
    if spec := told or registry.env.get("DRAGOMAN_MODEL"):
        return spec
    known = (name for name in FIRST_MODELS if key_variable(registry.provider(name), registry))
    return next((f"{name}/{FIRST_MODELS[name]}" for name in known), LAST_RESORT)


def key_variable(provider: Provider, registry: Registry, /) -> str | None:
    """The variable that holds a provider's key; None where none does.

    >>> registry = Registry(env={"GROQ_API_KEY": "k"})
    >>> key_variable(registry.provider("groq"), registry)
    'GROQ_API_KEY'
    """
    return next((name for name in provider.key_names if registry.env.get(name, "").strip()), None)


def key_state(provider: Provider, registry: Registry, /) -> str:
    """How it is with a provider's key.

    >>> registry = Registry(env={})
    >>> key_state(registry.provider("groq"), registry)
    'no key; set GROQ_API_KEY'
    """
    if variable := key_variable(provider, registry):
        return f"{variable} is set"
    if provider.api_key:
        return "has a key"
    return f"no key; set {' or '.join(provider.key_names)}" if provider.needs_key else "needs no key"


def asked_of(arguments: Namespace, /) -> CallOptions:
    """What the command line says beside the prompt.

    >>> from dragoman.cli.parser import parser_of
    >>> asked_of(parser_of("chat").parse_args(["--max-tokens", "5"]))
    {'max_tokens': 5}
    """
    told: CallOptions = {}
    if arguments.system is not None:
        told["system"] = heard(arguments.system)
    if arguments.schema is not None:
        told["schema"] = read_schema(arguments.schema)
    if arguments.temperature is not None:
        told["temperature"] = arguments.temperature
    if arguments.max_tokens is not None:
        told["max_tokens"] = arguments.max_tokens
    if arguments.reasoning is not None:
        told["reasoning"] = arguments.reasoning
    if arguments.timeout is not None:
        told["timeout"] = arguments.timeout
    return told


def read_schema(path: str, /) -> JsonObject:
    """The JSON Schema of a file; refused where it is none, before anybody is asked to satisfy it."""
    from dragoman.schema.validate import validate

    with named(path):
        schema = decode(read_bytes(path))
        if not is_object(schema):
            raise InvalidRequest("not a JSON Schema: not an object")
        validate(None, schema)
    return schema


def check_answer(text: str, schema: JsonObject | None, /) -> Any:
    """The value of an answer that has a schema; OutputError where it does not satisfy it.

    >>> check_answer('{"a": 1}', {"properties": {"a": {"type": "integer"}}})
    {'a': 1}
    """
    if schema is None:
        return None
    from dragoman.schema.output_type import strip_code_fence
    from dragoman.schema.validate import validate

    try:
        value = msgspec.json.decode(strip_code_fence(text))
        reasons = validate(value, schema)
    except msgspec.DecodeError as error:
        value, reasons = None, (f"$: not JSON: {error}",)
    if reasons:
        raise OutputError(f"the answer does not satisfy its schema: {'; '.join(reasons)}", text=text, reasons=reasons)
    return value
