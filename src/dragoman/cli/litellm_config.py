"""Turns the config of a LiteLLM proxy into the tables of a dragoman.toml, and lists what differs."""

import re
from collections.abc import Mapping
from itertools import chain, count
from typing import Any, Final

from dragoman.errors import SetupError
from dragoman.gateway.auth.api_keys import MIN_LENGTH, hash_key
from dragoman.targets.model_families import maker_of
from dragoman.targets.providers import PROVIDERS
from dragoman.types import is_list, is_object

PROVIDER_NAMES: Final = {
    "azure_ai": "azure-ai",
    "bedrock_converse": "bedrock",
    "custom_openai": "openai-chat",
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "hosted_vllm": "vllm",
    "lm_studio": "lmstudio",
    "nvidia_nim": "nvidia",
    "ollama_chat": "ollama",
    "openai_like": "openai-chat",
    "text-completion-openai": "openai",
    "together_ai": "together",
    "vertex_ai": "vertex",
    "vertex_ai_beta": "vertex",
}
"""Our names of LiteLLM's providers, if they differ."""
ORDERS: Final = {
    "simple-shuffle": "weighted",
    "least-busy": "least_busy",
    "latency-based-routing": "fastest",
    "cost-based-routing": "cheapest",
    "usage-based-routing": "least_busy",
    "usage-based-routing-v2": "least_busy",
}
LIKES: Final = {"openai": "openai-chat"}
"""Other servers of a provider's protocol: LiteLLM speaks Chat Completions with them."""
LIMITS: Final = {
    "rpm": "requests_per_minute",
    "tpm": "tokens_per_minute",
    "max_parallel_requests": "concurrent",
}
_USED_PARAMS = frozenset({"model", "api_key", "api_base", "base_url", "api_version", "weight", "order", *LIMITS})
CLOUD_VARIABLES: Final = {
    "aws_region_name": "AWS_REGION",
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "vertex_project": "GOOGLE_CLOUD_PROJECT",
    "vertex_location": "GOOGLE_CLOUD_LOCATION",
    "vertex_credentials": "GOOGLE_APPLICATION_CREDENTIALS",
}
"""Parameters that are environment variables here."""
PASS_THROUGH_MODES: Final = {
    "image_generation": "images",
    "image_edit": "images",
    "audio_speech": "audio",
    "audio_transcription": "audio",
    "moderation": "moderations",
}
"""Modes of a model whose requests are not translated, and their setting in [pass_through]."""
_OWN_PRICES = "own prices are not taken over; prices come from the extra prices"
_GROUP_FALLBACKS = {"context_window_fallbacks": "context_too_long", "content_policy_fallbacks": "content_filter"}
_NOTES: Final = {
    "litellm_settings.drop_params": "an option that a target lacks is always left out, with a notice in the response",
    "litellm_settings.set_verbose": "the access log has one line per request; there is no verbose mode",
    "litellm_settings.json_logs": "the access log is JSON",
    "litellm_settings.callbacks": "use traces = true in [gateway] (OpenTelemetry), /metrics, or hooks",
    "litellm_settings.success_callback": "use traces = true in [gateway] (OpenTelemetry), /metrics, or hooks",
    "litellm_settings.failure_callback": "use traces = true in [gateway] (OpenTelemetry), /metrics, or hooks",
    "general_settings.database_url": "keys and spend of LiteLLM's database are not read; make keys with dragoman admin",
    "general_settings.store_model_in_db": "providers and aliases of the admin API are always stored",
    "general_settings.alerting": "use [alerts]",
    "general_settings.max_parallel_requests": "set max_requests in [gateway]",
    "general_settings.pass_through_endpoints": "use [pass_through]",
    "litellm_settings.max_budget": "make a team: dragoman admin teams create NAME budgets=100/month",
    "litellm_settings.budget_duration": "budgets are per day, week or month",
    "litellm_settings.default_internal_user_params": "make keys: dragoman admin keys create NAME budgets=1/day",
    "router_settings.enable_pre_call_checks": "limits of deployments are always checked before a call",
}
_SETTINGS = (
    "litellm_settings.num_retries router_settings.num_retries litellm_settings.request_timeout router_settings.timeout "
    "router_settings.allowed_fails litellm_settings.allowed_fails router_settings.cooldown_time litellm_settings.cache "
    "litellm_settings.cache_params router_settings.routing_strategy router_settings.model_group_alias "
    "litellm_settings.fallbacks router_settings.fallbacks litellm_settings.default_fallbacks "
    "router_settings.default_fallbacks general_settings.master_key router_settings.redis_host "
    "router_settings.redis_port router_settings.redis_password router_settings.redis_url"
)
_READ: Final = frozenset(_SETTINGS.split()) | {
    f"{table}.{name}" for table in ("litellm_settings", "router_settings") for name in _GROUP_FALLBACKS
}


class Conversion:
    """The tables of a dragoman.toml, made of a LiteLLM config."""

    def __init__(self, config: Mapping[str, Any], /) -> None:
        self.tables: dict[str, Any] = {}
        self.differences: list[str] = []
        self.variables: set[str] = set()
        """Environment variables that providers read themselves."""
        self._config = config
        self._accounts: dict[tuple[Any, ...], str] = {}
        self._plain: set[str] = set()
        """Providers that a deployment uses without a key, an address or limits of its own."""
        self._names: dict[str, str] = {}
        """Our name of each model group."""
        self._own: dict[str, str] = {}
        """The spec of each model group without its fallbacks."""
        groups = self._read_models()
        self._write_groups(groups)
        self._write_settings()
        self._note_rest()

    # Models ----------------------------------------------------------------------------------------------------------

    def _read_models(self) -> dict[str, list[tuple[str, dict[str, Any]]]]:
        """The targets of each model group, with their parameters."""
        models = self._config.get("model_list")
        if not is_list(models) or not models:
            raise SetupError("model_list must be a list of models; is this the config of a LiteLLM proxy?")
        entries: list[tuple[str, str, dict[str, Any]]] = []
        for number, entry in enumerate(models):
            where = f"model_list[{number}]"
            params = entry.get("litellm_params") if is_object(entry) else None
            name = entry.get("model_name") if is_object(entry) else None
            if not is_object(params) or not isinstance(name, str) or not isinstance(params.get("model"), str):
                self.differences.append(f"{where} has no model_name or litellm_params.model; it is left out")
                continue
            entries.append((where, name, params))
            self._note_model_info(f"{where} ({name})", entry.get("model_info"))
            provider = _split(params["model"])[0]
            if provider is not None and not _account_table(provider, params):
                self._plain.add(provider)
        groups: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        for where, name, params in entries:
            target = self._target(where, name, params)
            if target is not None:
                groups.setdefault(name, []).append((target, params))
        return groups

    def _note_model_info(self, where: str, info: Any) -> None:
        """Say what becomes of the facts about a model."""
        facts = info if is_object(info) else {}
        if (mode := facts.get("mode")) in PASS_THROUGH_MODES:
            table = PASS_THROUGH_MODES[mode]
            self.differences.append(f"{where}: mode {mode} needs [pass_through] with {table} = PROVIDER")
        if any("cost_per" in name for name in facts):
            self.differences.append(f"{where}: {_OWN_PRICES}")

    def _target(self, where: str, name: str, params: dict[str, Any]) -> str | None:
        provider, model = _split(params["model"])
        if params["model"] == "*":
            self.differences.append(f"{where} ({name}): '*' is left out; name the providers in [gateway] providers")
            return None
        if provider is None:
            self.differences.append(
                f"{where} ({name}): there is no provider for {params['model']!r}; add [providers.…] with its base_url "
                "and wire by hand"
            )
            return None
        if (key := _text(params.get("api_key"))).startswith("${"):
            self.variables.add(key[2:-1])
        if "api_version" in params and provider == "azure":
            self.differences.append(
                f"{where} ({name}): api_version is not used: azure is /openai/v1, which needs none; "
                'for the older paths, set like = "azure-deployments" and AZURE_OPENAI_API_VERSION'
            )
        used = {"aws_region_name"} if provider == "bedrock" else set[str]()
        for param in sorted((CLOUD_VARIABLES.keys() & params.keys()) - used):
            self.variables.add(CLOUD_VARIABLES[param])
            self.differences.append(f"{where} ({name}): set the variable {CLOUD_VARIABLES[param]} instead of {param}")
        if any("cost_per" in param for param in params):
            self.differences.append(f"{where} ({name}): {_OWN_PRICES}")
        unused = {param for param in params if "cost_per" not in param}
        if others := sorted(unused - _USED_PARAMS - CLOUD_VARIABLES.keys()):
            self.differences.append(f"{where} ({name}): {', '.join(others)} is not taken over; clients send options")
        return f"{self._account(provider, params)}/{model}"

    def _account(self, provider: str, params: dict[str, Any]) -> str:
        """The name of the provider with the key, the address and the limits of a deployment."""
        table = _account_table(provider, params)
        if not table:
            return provider
        identity = provider, repr(sorted(table.items()))
        if identity not in self._accounts:
            providers = self.tables.setdefault("providers", {})
            # The name of a provider stays for deployments without a table, and for its own address.
            is_free = provider not in self._plain and not ("base_url" in table and PROVIDERS[provider].base_url)
            names = chain([provider] if is_free else [], (f"{provider}-{number}" for number in count(2)))
            name = next(name for name in names if name not in providers)
            providers[name] = table if name == provider else {"like": LIKES.get(provider, provider), **table}
            self._accounts[identity] = name
        return self._accounts[identity]

    # Groups ----------------------------------------------------------------------------------------------------------

    def _write_groups(self, groups: dict[str, list[tuple[str, dict[str, Any]]]]) -> None:
        strategy = str(self._setting("router_settings", "routing_strategy") or "simple-shuffle")
        order = ORDERS.get(strategy, "least_busy")
        if strategy.startswith("usage-based") or strategy not in ORDERS:
            self.differences.append(f"router_settings.routing_strategy {strategy!r} is {order!r} here")
        self._names = {name: self._group_name(name) for name in groups if "*" not in name}
        for name, deployments in groups.items():
            if "*" in name:
                self._allow_all(name, deployments)
            else:
                self._own[name] = self._write_pool(name, deployments, order)
        for name, own in self._own.items():
            spec = ", ".join(self._with_fallbacks(name))
            if self._names[name] != own or spec != own:
                self._alias(self._names[name], spec)
        for name, other in self._pairs("router_settings", "model_group_alias"):
            target = other.get("model") if is_object(other) else other
            self._alias(self._group_name(name), self._names.get(str(target), str(target)))

    def _group_name(self, name: str) -> str:
        if "/" not in name and "," not in name:
            return name
        ours = re.sub(r"[/,]", "-", name)
        self.differences.append(f"model {name!r} is called {ours!r}: the name of an alias has no slash or comma")
        return ours

    def _allow_all(self, name: str, deployments: list[tuple[str, dict[str, Any]]]) -> None:
        for target, _ in deployments:
            provider = target.partition("/")[0]
            if provider not in self.tables.get("providers", {}):
                allowed = self.tables.setdefault("gateway", {}).setdefault("providers", [])
                allowed += [] if provider in allowed else [provider]
            if name != f"{provider}/*":
                self.differences.append(f"model {name!r}: clients ask for {provider}/MODEL, or for a bare name")

    def _write_pool(self, name: str, deployments: list[tuple[str, dict[str, Any]]], order: str) -> str:
        """Write the pool of a model group, if it needs one; returns the spec of its deployments."""
        ours = self._names[name]
        targets = list(dict.fromkeys(target for target, _ in deployments))
        weights = {target: params["weight"] for target, params in deployments if params.get("weight") is not None}
        if not weights and order == "weighted":
            weights = {target: params["rpm"] for target, params in deployments if params.get("rpm") is not None}
        if any(params.get("order") is not None for _, params in deployments):
            ranks = {target: params.get("order") or 10**6 for target, params in reversed(deployments)}
            targets, order, weights = sorted(targets, key=lambda target: ranks[target]), "in_order", {}
        by_kind = {
            kind: ", ".join(self._names.get(other, other) for other in others)
            for setting, kind in _GROUP_FALLBACKS.items()
            if (others := self._fallbacks(setting).get(name))
        }
        if len(targets) == 1 and not by_kind:
            return targets[0]
        pool = f"{ours}-pool" if self._next_groups(name) else ours
        table: dict[str, Any] = {"targets": targets, "order": order if len(targets) > 1 else "in_order"}
        table |= {"weights": weights} if weights else {}
        table |= {"fallbacks": by_kind} if by_kind else {}
        self.tables.setdefault("pools", {})[pool] = table
        return pool

    def _with_fallbacks(self, name: str) -> list[str]:
        """The deployments of a group, then those of the groups that it falls back to, and so on; each once."""
        specs: dict[str, str] = {}

        def add(group: str) -> None:
            if group not in specs:
                specs[group] = self._own.get(group, group)
                for other in self._next_groups(group):
                    add(other)

        add(name)
        return list(specs.values())

    def _next_groups(self, name: str) -> list[str]:
        return self._fallbacks("fallbacks").get(name) or self._defaults(name)

    def _alias(self, name: str, spec: str) -> None:
        self.tables.setdefault("aliases", {})[name] = spec

    def _fallbacks(self, setting: str) -> dict[str, list[str]]:
        fallbacks: dict[str, list[str]] = {}
        for table in ("litellm_settings", "router_settings"):
            items = self._setting(table, setting)
            for item in filter(is_object, items if is_list(items) else []):
                fallbacks |= {name: [str(each) for each in others] for name, others in item.items()}
        return fallbacks

    def _defaults(self, name: str) -> list[str]:
        for table in ("litellm_settings", "router_settings"):
            names = self._setting(table, "default_fallbacks")
            if is_list(names):
                return [str(each) for each in names if each != name]
        return []

    # Settings --------------------------------------------------------------------------------------------------------

    def _write_settings(self) -> None:
        places = (
            ("chain", "retries", ("litellm_settings.num_retries", "router_settings.num_retries")),
            ("timeouts", "total", ("litellm_settings.request_timeout", "router_settings.timeout")),
            ("health", "threshold", ("litellm_settings.allowed_fails", "router_settings.allowed_fails")),
            ("health", "base", ("router_settings.cooldown_time",)),
        )
        for table, field, paths in places:
            value = next((value for path in paths if (value := self._setting(*path.split("."))) is not None), None)
            if isinstance(value, int | float) and not isinstance(value, bool):
                self.tables.setdefault(table, {})[field] = max(1, value) if field == "threshold" else value
        self._write_store()
        if self._setting("litellm_settings", "cache"):
            params = self._setting("litellm_settings", "cache_params")
            cache = self.tables["cache"] = {"always": True, "scope": "all"}
            if is_object(params) and isinstance(params.get("ttl"), int | float):
                cache["ttl"] = params["ttl"]
            store = _redis_url(params, "") if is_object(params) else ""
            cache |= {"store": store} if store else {}
            place = "in its Redis" if store else "in memory (set its store for another place)"
            self.differences.append(f"litellm_settings.cache: [cache] finds exactly equal requests only, {place}")
        self._write_master_key()

    def _write_store(self) -> None:
        router = self._config.get("router_settings")
        store = _redis_url(router, "redis_") if is_object(router) else ""
        if not store:
            store = "sqlite:dragoman.db"
            self.differences.append("LiteLLM's database: usage, limits and run-time changes are in sqlite:dragoman.db")
        self.tables.setdefault("gateway", {})["store"] = store

    def _write_master_key(self) -> None:
        key = self._setting("general_settings", "master_key")
        if not isinstance(key, str):
            return
        if key.startswith("os.environ/") or len(key) < MIN_LENGTH:
            self.differences.append(
                "general_settings.master_key is not taken over; make a key with `dragoman keys new admin`, and add its "
                'lines with role = "admin"'
            )
            return
        self.tables["keys"] = {"master": {"hash": hash_key(key), "role": "admin"}}

    def _setting(self, table: str, name: str) -> Any:
        settings = self._config.get(table)
        return settings.get(name) if is_object(settings) else None

    def _pairs(self, table: str, name: str) -> list[tuple[str, Any]]:
        setting = self._setting(table, name)
        return list(setting.items()) if is_object(setting) else []

    def _note_rest(self) -> None:
        """Say what was not taken over."""
        for table, settings in self._config.items():
            if table == "model_list":
                continue
            if table == "environment_variables":
                self.differences.append("environment_variables: set these variables where the gateway starts")
                continue
            for name in settings if is_object(settings) else [""]:
                path = f"{table}.{name}".rstrip(".")
                if path in _NOTES:
                    self.differences.append(f"{path}: {_NOTES[path]}")
                elif path not in _READ:
                    self.differences.append(f"{path} is not taken over")


def _text(value: Any) -> str:
    """A value as text; `os.environ/NAME` is `${NAME}`."""
    text = "" if value is None else str(value)
    return f"${{{text.removeprefix('os.environ/')}}}" if text.startswith("os.environ/") else text


def _redis_url(settings: Mapping[str, Any], prefix: str) -> str:
    """The address of a Redis; empty if the settings name none."""
    url, host, port, password = (_text(settings.get(f"{prefix}{part}")) for part in ("url", "host", "port", "password"))
    login = f":{password}@" if password else ""
    return url or (f"redis://{login}{host}:{port or 6379}/0" if host else "")


def _split(spec: str) -> tuple[str | None, str]:
    """The provider and the model of LiteLLM's name of a model; None if there is no such provider."""
    prefix, slash, model = spec.partition("/")
    if not slash:
        return maker_of(spec), spec
    provider = PROVIDER_NAMES.get(prefix, prefix)
    if provider == "vertex" and model.startswith("claude"):
        provider = "vertex-anthropic"
    if provider == "bedrock":
        model = re.sub(r"^(converse|invoke|converse_like)/", "", model)
    return (provider if provider in PROVIDERS else None), model


def _account_table(provider: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """What a deployment has of its own: an address, a key that is not in the provider's variable, limits."""
    table: dict[str, Any] = {}
    if base := params.get("api_base") or params.get("base_url"):
        table["base_url"] = _text(base)
    elif provider == "bedrock" and (region := _text(params.get("aws_region_name"))):
        table["base_url"] = f"https://bedrock-runtime.{region}.amazonaws.com"
    key = _text(params.get("api_key"))
    if key and ("base_url" in table or key not in [f"${{{name}}}" for name in PROVIDERS[provider].key_names]):
        table["api_key"] = key
    limits = {ours: params[name] for name, ours in LIMITS.items() if params.get(name) is not None}
    return {**table, "deployment_limits": limits} if limits else table
