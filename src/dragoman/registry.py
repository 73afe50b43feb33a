"""The registry turns a spec such as "groq/llama, box/qwen3, fast" into the targets to call.

A spec has elements separated by commas. `provider/model` or `provider:model` names a target. A bare name is an alias, a
name of a resolver, or a model whose family has one provider (`gpt-5`). A target is the provider's record plus facts
about the model: of its family (`targets/model_families.json`), then of the user, for the provider and for the model.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack

from msgspec.structs import replace

from dragoman.engine.call_options import CallOptions, check_options
from dragoman.engine.failover import ChainOptions
from dragoman.engine.health import Health
from dragoman.errors import InvalidRequest, SetupError, redact
from dragoman.io.aws_credentials import add_region
from dragoman.io.cloud_credentials import cloud_credential
from dragoman.io.credentials import KeyFunction
from dragoman.io.driver import Driver, Observer
from dragoman.io.hooks import Hooks, as_hooks
from dragoman.io.transport import make_transport
from dragoman.io.upload_index import UploadIndex, index_path
from dragoman.io.url_fetcher import UrlFetcher
from dragoman.models import Model
from dragoman.targets.config import (
    LibraryConfig,
    ModelFacts,
    check_alias,
    check_pool_fields,
    check_provider,
    cycle_message,
    find_alias,
    make_facts,
    make_provider,
    read_config,
)
from dragoman.targets.connection_options import (
    ConnectionOptions,
    check_base_url,
    check_connection,
    check_headers,
    check_key_text,
)
from dragoman.targets.credentials import Credential
from dragoman.targets.dsn import PREFIX, decode_dsn, did_you_mean, variable_of
from dragoman.targets.health_policy import HealthPolicy
from dragoman.targets.model_families import apply_families, maker_of, record_of
from dragoman.targets.pools import DeploymentPool, bind_fallbacks, make_pool
from dragoman.targets.provider import Provider, with_default_path
from dragoman.targets.providers import PROVIDERS, with_other_names
from dragoman.targets.read_env import ReadEnv, check_env
from dragoman.targets.spec_hints import provider_hint, providers_with_key, shorten_name, spec_hint
from dragoman.targets.specs import Resolver, Spec, as_spec, inside
from dragoman.targets.target import Capabilities, Identity, Target
from dragoman.types.checks import as_items, is_encodable, is_mapping, is_text, naming, shown, wrong_value
from dragoman.types.parameters import named_methods

MAX_DEPTH = 64
"""Aliases inside aliases. Resolvers could nest without end and without a cycle."""
MAX_KEY_FUNCTIONS = 64
"""Functions for `api_key` whose keys are cached."""
_WIRE_FIELDS = ("wire", "path", "capabilities", "quirks", "family")
"""The fields of a record that depend on its wire."""
MAX_CACHED = 1024
"""Models whose resolved record is cached."""


@named_methods(
    *"__init__ add_hooks add_provider add_resolver add_scheme alias capabilities".split(),
    *"load_config load_env load_tables model observe".split(),
)
class Registry:
    """Providers, aliases and resolvers, with the health, the transport and the observers that its models share.

    It reads only the environment in `env`; the default is the environment of the process. `api_key` is used for
    providers without a key of their own, before the environment. `base_url` replaces that of the built-in providers.
    `http_client` is an httpx client or a Transport. `health_policy` says when a target is put on cooldown.

    >>> registry = Registry(env={"LLM_BOX": "ollama+http://box:11434"})
    >>> registry.alias("fast", "box/qwen3, groq/llama")
    >>> [target.name for target in registry.targets("fast,box/qwen3")]
    ['box/qwen3', 'groq/llama']
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str] | None = None,
        api_key: str | Callable[[], Any] | None = None,
        base_url: str | None = None,
        http_client: object = None,
        health: Health | None = None,
        health_policy: HealthPolicy | None = None,
        observers: Iterable[Observer] = (),
        hooks: Hooks | Iterable[Hooks] | None = None,
    ) -> None:
        if env is not None:
            check_env(env)
        watchers = as_items("observers", observers, "a list of functions")
        for observer in watchers:
            if not callable(observer):
                raise wrong_value("observers", "a list of functions", observer)
        self.env: Mapping[str, str] = os.environ if env is None else env
        for name, value, kind in (("health", health, Health), ("health_policy", health_policy, HealthPolicy)):
            if value is not None and not isinstance(value, kind):
                raise wrong_value(name, f"a {kind.__name__} or None", value)
        if health is not None and health_policy is not None:
            raise SetupError("health must not be set together with health_policy; pass Health(policy)", param="health")
        self.health = health or Health(health_policy, lock=threading.Lock(), clock=time.monotonic)
        ca = self.env.get("SSL_CERT_FILE") or None
        self.transport = make_transport(http_client, ca=ca, env=None if self.env is os.environ else self.env)
        self.hooks = as_hooks(hooks)
        """The hooks of all its models."""
        uploads = UploadIndex(index_path(self.env))
        self.driver = Driver(self.transport, list(watchers), fetcher=UrlFetcher(ca=ca), uploads=uploads)
        self._key_functions: list[tuple[Callable[[], Any], KeyFunction]] = []
        own = self._default_connection(api_key, base_url)
        self._api_key, self._base_url, self._credential = own.api_key, own.base_url, own.credential
        self._cloud_credentials: dict[Identity, Credential] = {}
        self._providers: dict[str, Provider] = dict(PROVIDERS)
        self._derived: dict[str, Provider] = dict(PROVIDERS)
        """The records that nobody defined under their own name."""
        self._schemes: dict[str, Provider] = dict(PROVIDERS)
        self._invalid_dsns: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        self._pools: dict[str, DeploymentPool] = {}
        self._resolvers: list[Resolver] = []
        self._facts: dict[str, ModelFacts] = {}
        self._cache: dict[str, tuple[Provider, Provider]] = {}
        """By target: the provider's record, and the same with all facts about the model."""
        self._resolved: dict[str, tuple[list[Target], list[tuple[str, str | None]]]] = {}
        """By spec: its targets, and the environment variables that they depend on. Any definition empties it."""
        self.load_env(self.env)

    # Calls ------------------------------------------------------------------------------------------------------------

    def model(
        self,
        spec: Spec,
        *,
        chain_options: ChainOptions | None = None,
        hooks: Hooks | Iterable[Hooks] | None = None,
        **options: Unpack[CallOptions],
    ) -> Model:
        """A model for a spec. `options` apply to all its calls; a call may override them. `hooks` see its calls.

        >>> Registry(env={"GROQ_API_KEY": "k"}).model("groq/llama", temperature=0)
        Model('groq/llama')
        """
        check_options(options)
        if chain_options is not None and not isinstance(chain_options, ChainOptions):
            raise wrong_value("chain_options", "ChainOptions or None", chain_options)
        chain_options = chain_options or ChainOptions()
        model = Model(self, as_spec(spec), chain_options=chain_options, options=options, hooks=as_hooks(hooks))
        model.targets()
        model.request("")  # checks the options
        return model

    def observe(self, observer: Observer) -> None:
        """Call this function after every attempt."""
        if not callable(observer):
            raise wrong_value("observer", "a function", observer)
        self.driver.observers.append(observer)

    def add_hooks(self, hooks: Hooks) -> None:
        """Call these functions in the course of every call, also of models that exist already.

        >>> registry = Registry(env={})
        >>> registry.add_hooks(Hooks(before=lambda call: print("before", call.spec)))
        >>> registry.model("demo/any").generate("Is it so?").finish.reason
        before demo/any
        'stop'
        """
        self.hooks = (*self.hooks, *as_hooks(hooks))

    def close(self) -> None:
        """Close the pooled connections; the next call opens new ones.

        A call without an answer yet ends as Reset, which is not retried and does not count against the target. An
        answer that has begun is read to its end.
        """
        self.transport.close()

    # Definitions ------------------------------------------------------------------------------------------------------

    def load_env(self, env: Mapping[str, str]) -> dict[str, SetupError]:
        """Define a provider for each LLM_* variable. Returns the malformed ones; using one of them raises.

        >>> Registry(env={}).load_env({"LLM_MODEL": "gpt-4"})
        {'model': SetupError('LLM_MODEL must be scheme://[token@]host[:port][/path]')}
        """
        check_env(env)
        errors: dict[str, SetupError] = {}
        for variable, dsn in dict(env).items():
            if variable.startswith(PREFIX) and variable != PREFIX:
                name = variable[len(PREFIX) :].lower()
                # A variable cannot have a hyphen, the name of a built-in provider can.
                name = dashed if (dashed := name.replace("_", "-")) in PROVIDERS else name
                try:
                    self._define(name, dsn)
                except SetupError as error:
                    errors[name] = error
        return errors

    def load_config(self, config: Mapping[str, Any] | str | Path) -> None:
        """Add what is in the library's tables of a dragoman.toml: its path, its text or its tables.

        `${NAME}` and `${NAME:default}` in its texts stand for variables of the registry's environment. If anything is
        wrong, nothing is added, and one SetupError lists every problem.

        >>> registry = Registry(env={})
        >>> registry.load_config('[capabilities."groq/llama"]\\nmax_images = 0')
        >>> registry.target("groq/llama").capabilities.max_images
        0
        """
        if not isinstance(config, Path):
            return self._apply(read_config(config, self._providers, aliases=self._aliases, env=self.env))
        try:
            return self.load_config(config.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise SetupError(f"{config}: cannot be read: {error}", param="config") from error
        except SetupError as error:
            raise SetupError(f"{config}: {error}", param="config") from error

    def load_tables(self, tables: Mapping[str, Any]) -> None:
        """As `load_config`, for tables whose variables are already expanded: `${NAME}` is plain text here.

        >>> registry = Registry(env={})
        >>> registry.load_tables({"aliases": {"fast": "groq/llama"}})
        >>> registry.aliases()
        {'fast': 'groq/llama'}
        """
        if not is_mapping(tables):
            raise wrong_value("tables", "a dict of tables", tables)
        with naming("tables"):
            self._apply(read_config(tables, self._providers, aliases=self._aliases))

    def _apply(self, config: LibraryConfig) -> None:
        for provider in config.providers.values():
            self.add_provider(provider)
        self._aliases.update(config.aliases)
        for pool in config.pools.values():
            self._put_pool(pool)
        self._resolved = {}
        for name, facts in config.facts.items():
            self._add_facts(name, facts)
        if config.health is not None:
            self.health.policy = config.health

    def add_provider(self, provider: Provider | None = None, /, **fields: Any) -> Provider:
        """Add or replace a provider: a record, or its fields, of which `like=` names a provider to copy.

        An `http_client` sends the provider's requests; its owner closes it. `api_key` may be a function, sync or async,
        that returns a key or a `Token`; its key is cached until shortly before it expires or a server rejects it.

        >>> Registry(env={}).add_provider(name="box", like="vllm", base_url="http://box:8000/v1")
        Provider(box, wire=openai_chat, http://box:8000/v1)
        """
        if provider is not None and not isinstance(provider, Provider):
            raise wrong_value("provider", "a Provider", provider, "or pass its fields by their names")
        if provider is not None and "like" in fields:
            raise SetupError("like must not be set together with a record; pass one of them", param="like")
        client = fields.get("http_client", None if provider is None else provider.http_client)
        if client is not None:
            fields["http_client"] = make_transport(client)
        function = fields.get("api_key") or fields.get("credential", None if provider is None else provider.credential)
        if callable(function):
            fields |= {"api_key": None, "credential": KeyFunction(function)}
        return self._put(make_provider(fields, self._providers, provider))

    def _put(self, provider: Provider) -> Provider:
        """Add a provider, and give its account to the records of the same service that are not defined themselves."""
        own, *others = with_other_names(provider)
        self._providers[own.name] = own
        for other in others:
            if self._providers[other.name] is self._derived[other.name]:
                self._providers[other.name] = self._derived[other.name] = other
        self._invalid_dsns.pop(own.name, None)
        self._resolved = {}
        return own

    def add_scheme(self, scheme: str, provider: Provider | str) -> None:
        """Add a scheme for DSNs. Its providers start from this record, or from the provider of this name.

        >>> registry = Registry(env={"LLM_BOX": "mine://box"})
        >>> registry.add_scheme("mine", "openai")
        >>> registry.target("box/m").base_url
        'https://box/v1'
        """
        if not is_text(scheme) or not scheme or set(scheme) & set("+:/@, ") or not is_encodable(scheme):
            raise SetupError(f"scheme must be a name without + : / @ , and blanks, got {shown(scheme)}", param="scheme")
        with naming("provider"):
            record = self.provider(provider) if isinstance(provider, str) else check_provider(provider)
        self._schemes[scheme.lower()] = record

    def add_resolver(self, resolver: Resolver) -> None:
        """Add a function that maps bare names to specs. Aliases come first, then resolvers in the order of adding.

        >>> registry = Registry(env={})
        >>> registry.add_resolver(lambda name: "demo/any" if name == "cheap" else None)
        >>> registry.targets("cheap")
        [Target(demo/any)]
        """
        if not callable(resolver):
            raise wrong_value("resolver", "a function", resolver)
        self._resolvers.append(resolver)
        self._resolved = {}

    def alias(self, name: str, spec: str) -> None:
        """Define a bare name for a spec.

        >>> registry = Registry(env={})
        >>> registry.alias("pair", "groq/llama, demo/any")
        >>> registry.targets("pair")
        [Target(groq/llama), Target(demo/any)]
        """
        self._aliases.update([check_alias(name, spec)])
        self._resolved = {}

    def add_pool(self, name: str, **fields: Any) -> DeploymentPool:
        """Define a pool: its `targets`, `providers` or `api_keys`, and the other fields of `DeploymentPool`.

        >>> registry = Registry(env={})
        >>> pool = registry.add_pool("acme", api_keys=["sk-1", "sk-2"], like="openai", order="fastest")
        >>> registry.targets("acme/gpt-5")
        [Target(acme-1/gpt-5), Target(acme-2/gpt-5)]
        """
        check_pool_fields(fields)
        pool, accounts = make_pool(name, fields)
        for account, own in accounts.items():
            self.add_provider(name=account, **own)
        return self._put_pool(pool)

    def _put_pool(self, pool: DeploymentPool) -> DeploymentPool:
        bound = replace(pool, fallbacks=bind_fallbacks(pool.fallbacks, self.targets))
        self._pools[pool.name] = bound
        self._resolved = {}
        return bound

    @property
    def pools(self) -> Mapping[str, DeploymentPool]:
        """All pools by their names."""
        return self._pools

    def set_capabilities(self, name: str, **facts: Any) -> None:
        """Set capabilities or quirks of a provider (`groq`) or of one model (`groq/llama`).

        >>> registry = Registry(env={})
        >>> registry.set_capabilities("openai/m", max_image_side=32, tools=False)
        >>> registry.target("openai/m").capabilities.max_image_side
        32
        """
        if not is_text(name) or not name.strip() or not is_encodable(name):
            raise SetupError(f"name must be a provider or provider/model, got {shown(name)}", param="name")
        self._add_facts(name, make_facts(facts))

    # Lookup -----------------------------------------------------------------------------------------------------------

    def targets(self, spec: Spec, *, connection: ConnectionOptions | None = None) -> list[Target]:
        """The targets of a spec in order, without duplicates."""
        text = spec if isinstance(spec, str) and spec.isascii() else as_spec(spec)
        resolved = self._resolved  # a definition in another thread replaces it
        if connection is None and (known := resolved.get(text)) is not None:
            for variable, value in known[1]:
                if self.env.get(variable) != value:
                    break
            else:
                return known[0].copy()
        names: dict[str, DeploymentPool | None] = {}
        self._expand(text, (), names, set())
        if connection is not None:
            check_connection(connection).check_providers(name.partition("/")[0] for name in names)
            return [_in_pool(self.target(name, connection=connection), pool) for name, pool in names.items()]
        env = ReadEnv(self.env)
        targets = [_in_pool(self._target(name, env), pool) for name, pool in names.items()]
        # What a resolver returns may change, and so may the meaning of a colon before the slash.
        if not self._resolvers and not any(":" in element.partition("/")[0] for element in text.split(",")):
            if len(resolved) >= MAX_CACHED:
                resolved.clear()
            resolved[text] = targets.copy(), list(env.values_read.items())
        return targets

    def connection(
        self,
        *,
        api_key: str | Callable[[], Any] | None = None,
        headers: Mapping[str, str] | None = None,
        base_url: str | None = None,
    ) -> ConnectionOptions:
        """The connection options of a model or call. Calls with the same function share its key.

        >>> Registry(env={}).connection(api_key="sk-1")
        ConnectionOptions(api_key)
        """
        if not (api_key is None or isinstance(api_key, str) or callable(api_key)):
            raise wrong_value("api_key", "a str or a function that returns it", api_key)
        return ConnectionOptions(
            api_key=check_key_text(api_key) if isinstance(api_key, str) else None,
            credential=self._key_function(api_key) if callable(api_key) else None,
            headers={} if headers is None else check_headers(headers),
            base_url=None if base_url is None else check_base_url(base_url),
        )

    def _default_connection(self, api_key: Any, base_url: Any) -> ConnectionOptions:
        """As `connection`, but a blank text is None, as it may be that of a variable."""
        own: dict[str, Any] = {"api_key": api_key, "base_url": base_url}
        own = {name: value for name, value in own.items() if not isinstance(value, str) or value.strip()}
        try:
            return self.connection(**own)
        except InvalidRequest as error:
            raise SetupError(error.message, param=error.param) from None

    def _key_function(self, function: Callable[[], Any]) -> KeyFunction:
        known = self._key_functions
        for own, credential in known:
            if own == function:
                return credential
        credential = KeyFunction(function)
        self._key_functions = [*known[1 - MAX_KEY_FUNCTIONS :], (function, credential)]
        return credential

    def capabilities(self, spec: Spec) -> Capabilities:
        """The capabilities of a chain: those of its first target.

        >>> Registry(env={}).capabilities("deepseek/x,openai/y").max_images
        0
        """
        return self.targets(spec)[0].capabilities

    def target(self, name: str, *, connection: ConnectionOptions | None = None) -> Target:
        """The target named `provider/model`, with everything known about it.

        >>> Registry(env={}).target("openrouter/meta/llama-3:free").model
        'meta/llama-3:free'
        """
        if not isinstance(name, str):
            raise wrong_value("name", "provider/model", name)
        return self._target(name, self.env, None if connection is None else check_connection(connection))

    def _target(self, name: str, env: Mapping[str, str], connection: ConnectionOptions | None = None) -> Target:
        provider_name, _, model = name.partition("/")
        if not provider_name or not model:
            hint = "targets() takes aliases and models without a provider, too"
            raise SetupError(f"target must be provider/model, got {shown(name)}; {hint}", param="name")
        provider = self.provider(provider_name)
        entry = self._cache.get(name)
        if entry is None or entry[0] is not provider:
            if len(self._cache) >= MAX_CACHED:
                self._cache = {}
            entry = self._cache[name] = provider, self._with_facts(provider, name, model)
        record = entry[1] if connection is None else connection.over(entry[1])
        try:
            target = record.target(model, env=env)
        except SetupError:
            if record.identity != "aws" or (with_region := add_region(env)) is env:
                raise
            target = record.target(model, env=with_region)
        if target.identity is not None and target.lacks_key:
            return replace(target, credential=self._cloud_credential(target.identity))
        return target

    def _cloud_credential(self, identity: Identity) -> Credential:
        if identity not in self._cloud_credentials:
            self._cloud_credentials[identity] = cloud_credential(identity, self.env)
        return self._cloud_credentials[identity]

    def _with_facts(self, provider: Provider, name: str, model: str) -> Provider:
        provider = self._record_of(provider, name)
        own_name = model.rpartition(provider.family_prefix)[2] if provider.family_prefix else model
        capabilities, quirks = apply_families(
            f"{provider.family or provider.name}/{own_name}", provider.wire, provider.capabilities, provider.quirks
        )
        for key in (provider.name, name):
            if key in self._facts:
                capabilities, quirks = self._facts[key].over(capabilities, quirks)
        if self._base_url and provider is PROVIDERS.get(provider.name):
            base_url = with_default_path(self._base_url, provider.default_path)
            provider = replace(provider, base_url=base_url, base_url_names=())
        credential = provider.credential or (None if provider.api_key else self._credential)
        api_key = provider.api_key or self._api_key
        return replace(provider, capabilities=capabilities, quirks=quirks, api_key=api_key, credential=credential)

    def _record_of(self, provider: Provider, name: str) -> Provider:
        """The record for a model. Some models are on another wire, if the provider is the original one.

        A server at another base URL may speak only the wire of the record.
        """
        other, builtin = record_of(name), PROVIDERS.get(provider.name)
        if other is None or builtin is None:
            return provider
        is_elsewhere = self._base_url or any(self.env.get(key) for key in provider.base_url_names)
        if is_elsewhere or (provider.wire, provider.base_url) != (builtin.wire, builtin.base_url):
            return provider
        record = PROVIDERS[other]
        fields = [field for field in _WIRE_FIELDS if getattr(provider, field) == getattr(builtin, field)]
        return replace(provider, **{field: getattr(record, field) for field in fields})

    def provider(self, name: str) -> Provider:
        """The provider of this name: a registered one, or one that an LLM_* variable set later defines.

        >>> Registry(env={}).provider("groq")
        Provider(groq, wire=openai_chat, https://api.groq.com/openai/v1)
        """
        if not is_text(name) or not name.isprintable():
            raise wrong_value("name", "the name of a provider", name)
        if name in self._invalid_dsns:
            return self._define(name, self._invalid_dsns[name])
        if name in self._providers:
            return self._providers[name]
        variable = variable_of(name)
        if variable in self.env:
            return self._define(name, self.env[variable])
        where = f"{variable} is not set" if redact(name) == name else "no variable defines it"
        reason = f"it is not registered, and {where}{provider_hint(name, self._providers)}"
        raise SetupError(f"unknown provider {name!r}: {reason}", param="name")

    def providers(self) -> list[str]:
        """The names of all providers."""
        return sorted(self._providers)

    def aliases(self) -> dict[str, str]:
        """All aliases and their specs."""
        return dict(self._aliases)

    def _define(self, name: str, dsn: str) -> Provider:
        try:
            provider = decode_dsn(name, dsn, self._schemes)
        except SetupError:
            self._invalid_dsns[name] = dsn
            raise
        return self._put(provider)

    def _add_facts(self, name: str, facts: ModelFacts) -> None:
        old = self._facts.get(name, ModelFacts())
        self._cache = {}
        self._facts[name] = ModelFacts({**old.capabilities, **facts.capabilities}, {**old.quirks, **facts.quirks})
        self._resolved = {}

    def _expand(
        self, spec: str, path: tuple[str, ...], names: dict[str, DeploymentPool | None], expanded: set[str]
    ) -> None:
        """Add the targets of a spec to `names`. `path` has the aliases being expanded, `expanded` the finished ones."""
        for element in map(str.strip, spec.split(",")):
            if not element:
                raise SetupError(f"spec must not have empty elements, got {spec!r}{inside(path)}", param="spec")
            if "/" in element:
                self._add_target(self._with_slash(element), names)
                continue
            if (pool := self._pools.get(element)) is not None and pool.targets:
                for name in pool.targets:
                    names.setdefault(name, pool)
                continue
            if element in path:
                raise SetupError(cycle_message((*path[path.index(element) :], element)), param="spec")
            if len(path) >= MAX_DEPTH:
                reason = f"aliases are nested more than {MAX_DEPTH} deep: {' -> '.join(path[:3])} -> …"
                raise SetupError(reason, param="spec")
            if element not in expanded:
                self._expand(self._spec_of(element, path), (*path, element), names, expanded)
                expanded.add(element)

    def _add_target(self, name: str, names: dict[str, DeploymentPool | None]) -> None:
        provider, _, model = name.partition("/")
        pool = self._pools.get(provider)
        if pool is None or not pool.providers or not model:
            names.setdefault(name, None)
            return
        for each in pool.spec(model).split(","):
            names.setdefault(each, pool)

    def _spec_of(self, name: str, path: tuple[str, ...]) -> str:
        if (alias := find_alias(name, self._aliases)) is not None:
            return self._aliases[alias]
        for resolver in tuple(self._resolvers):
            if (spec := resolver(name)) is not None:
                return as_spec(spec)
        if "/" in (spec := self._with_slash(name)):
            return spec
        if name not in self._providers and (provider := maker_of(name)) is not None:
            return f"{provider}/{name}"
        hint = "" if name in self._providers else did_you_mean(name, self._aliases)
        if not hint and name.isprintable():
            hint = spec_hint(name, self._providers, providers_with_key(self._providers, self.env))
        reason = f"model must be provider/model or an alias, got {shorten_name(name)!r}{inside(path)}{hint}"
        raise SetupError(reason, param="model")

    def _with_slash(self, element: str) -> str:
        """`openai:gpt-5` as `openai/gpt-5`. A colon after the slash is part of the model: `ollama/llama3:8b`."""
        provider, _, model = element.partition(":")
        is_provider = provider in self._providers or variable_of(provider) in self.env
        return f"{provider}/{model}" if model and "/" not in provider and is_provider else element


def _in_pool(target: Target, pool: DeploymentPool | None) -> Target:
    return target if pool is None else replace(target, pool=pool)
