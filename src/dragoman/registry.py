"""A spec such as "a/x,b/y,tier" in, targets out: providers, aliases, resolvers, and what the environment defines."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from msgspec.structs import replace

from dragoman.errors import SetupError
from dragoman.targets.config import (
    LibraryConfig,
    ModelFacts,
    check_alias,
    checked,
    make_facts,
    make_provider,
    read_config,
    told_circle,
)
from dragoman.targets.dsn import PREFIX, decode_dsn, nearest, variable_of
from dragoman.targets.model_families import facts_of
from dragoman.targets.providers import PROVIDERS, Provider, placed
from dragoman.targets.target import Capabilities, Target

Spec: TypeAlias = str | Sequence[str]
"""Whom to ask: a text, or several in a list, which are a chain."""
Resolver: TypeAlias = Callable[[str], Spec | None]
"""Gives what a bare name stands for, or None where it does not know."""
MAX_DEPTH = 64
"""Aliases inside aliases: resolvers could go on for ever without a circle."""
MAX_KNOWN = 1024
"""Models whose facts are kept ready."""


def as_spec(spec: object, /) -> str:
    """A spec as one text.

    >>> as_spec(["groq/llama", "fast, demo/any"])
    'groq/llama,fast, demo/any'
    """
    if isinstance(spec, str):
        return spec
    given = cast("Sequence[object]", spec) if isinstance(spec, list | tuple) else (spec,)
    elements = [element for element in given if isinstance(element, str)]
    if len(elements) < len(given):
        kind = next(type(element).__name__ for element in given if not isinstance(element, str))
        raise SetupError(f"a spec is a text, as 'groq/llama, demo/any', or a list of such, no {kind}")
    return ",".join(elements)


class Registry:
    """Names and what they stand for. It sees nothing but the environment that it is given.

    `api_key` is for providers that have none of their own, and is asked before the environment; `base_url` is for those
    that are known from the start.

    >>> registry = Registry(env={"LLM_BOX": "ollama+http://box:11434"})
    >>> registry.alias("fast", "box/qwen3, groq/llama")
    >>> [target.name for target in registry.targets("fast,box/qwen3")]
    ['box/qwen3', 'groq/llama']
    """

    def __init__(self, *, env: Mapping[str, str], api_key: str | None = None, base_url: str | None = None) -> None:
        self.env = env
        self._api_key = api_key
        self._base_url = base_url
        self._providers: dict[str, Provider] = dict(PROVIDERS)
        self._schemes: dict[str, Provider] = dict(PROVIDERS)
        self._broken: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        self._resolvers: list[Resolver] = []
        self._facts: dict[str, ModelFacts] = {}
        self._known: dict[str, tuple[Provider, Provider]] = {}
        self.load_env(env)

    # Filling it ------------------------------------------------------------------------------------------------------

    def load_env(self, env: Mapping[str, str], /) -> dict[str, SetupError]:
        """Define a provider for each LLM_* variable; those that are malformed are given back, and raised when used.

        >>> Registry(env={}).load_env({"LLM_MODEL": "gpt-4"})
        {'model': SetupError('LLM_MODEL is malformed; write scheme://[token@]host[:port][/path]')}
        """
        broken: dict[str, SetupError] = {}
        for variable, dsn in dict(env).items():
            if variable.startswith(PREFIX) and variable != PREFIX:
                name = variable[len(PREFIX) :].lower()
                try:
                    self._define(name, dsn)
                except SetupError as error:
                    broken[name] = error
        return broken

    def load_config(self, config: Mapping[str, Any] | str, /) -> None:
        """Take the providers, aliases and limits of a dragoman.toml: all of it, or nothing and one error.

        `${NAME}` and `${NAME:default}` in its texts stand for variables of the registry's environment.

        >>> registry = Registry(env={})
        >>> registry.load_config('[capabilities."groq/llama"]\\nmax_images = 0')
        >>> registry.target("groq/llama").capabilities.max_images
        0
        """
        self._take(read_config(config, self._providers, aliases=self._aliases, env=self.env))

    def load_tables(self, tables: Mapping[str, Any], /) -> None:
        """As `load_config`, but of tables whose variables are filled in: `${NAME}` stands for nothing else here.

        >>> registry = Registry(env={})
        >>> registry.load_tables({"aliases": {"fast": "groq/llama"}})
        >>> registry.aliases()
        {'fast': 'groq/llama'}
        """
        self._take(read_config(tables, self._providers, aliases=self._aliases))

    def _take(self, settings: LibraryConfig) -> None:
        for provider in settings.providers.values():
            self.add_provider(provider)
        self._aliases.update(settings.aliases)
        for name, facts in settings.facts.items():
            self._lay_over(name, facts)

    def add_provider(self, provider: Provider | None = None, /, **fields: Any) -> Provider:
        """A provider of the user's own, or in the place of another: a record, or its fields; `like=` names one to copy.

        >>> Registry(env={}).add_provider(name="box", like="vllm", base_url="http://box:8000/v1")
        Provider(box, wire=openai_chat, http://box:8000/v1)
        """
        if provider is not None and "like" in fields:
            raise SetupError("a provider is a record, or like= another, not both")
        made = make_provider(fields, self._providers, provider)
        self._providers[made.name] = made
        self._broken.pop(made.name, None)
        return made

    def add_scheme(self, scheme: str, provider: Provider | str, /) -> None:
        """A scheme for DSNs, after a record or the provider of that name.

        >>> registry = Registry(env={"LLM_BOX": "mine://box"})
        >>> registry.add_scheme("mine", "openai")
        >>> registry.target("box/m").base_url
        'https://box/v1'
        """
        if not scheme or set(scheme) & set("+:/@, "):
            raise SetupError(f"{scheme!r} cannot be a scheme: it is empty, or has one of + : / @ , or a blank")
        self._schemes[scheme.lower()] = self.provider(provider) if isinstance(provider, str) else checked(provider)

    def add_resolver(self, resolver: Resolver, /) -> None:
        """A function that may know what a bare name stands for; asked after the aliases, in the order of adding.

        >>> registry = Registry(env={})
        >>> registry.add_resolver(lambda name: "demo/any" if name == "cheap" else None)
        >>> registry.targets("cheap")
        [Target(demo/any)]
        """
        self._resolvers.append(resolver)

    def alias(self, name: str, spec: str, /) -> None:
        """A bare name for a spec.

        >>> registry = Registry(env={})
        >>> registry.alias("pair", "aa/m1,bb/m2")
        """
        self._aliases.update([check_alias(name, spec)])

    def set_capabilities(self, name: str, /, **facts: Any) -> None:
        """What a provider (`groq`) or one model (`groq/llama`) can do, over what is known of it; quirks, too.

        >>> registry = Registry(env={})
        >>> registry.set_capabilities("openai/m", max_image_side=32, tools=False)
        >>> registry.target("openai/m").capabilities.max_image_side
        32
        """
        if not name.strip():
            raise SetupError("capabilities of what? write provider or provider/model")
        self._lay_over(name, make_facts(facts))

    # Asking it -------------------------------------------------------------------------------------------------------

    def targets(self, spec: Spec, /) -> list[Target]:
        """The targets of a spec, each once, in order."""
        names: dict[str, None] = {}
        self._expand(as_spec(spec), (), names, set())
        return list(map(self.target, names))

    def capabilities(self, spec: Spec, /) -> Capabilities:
        """What a chain can do: that is what its head can.

        >>> Registry(env={}).capabilities("deepseek/x,openai/y").max_images
        0
        """
        return self.targets(spec)[0].capabilities

    def target(self, name: str, /) -> Target:
        """The target that `provider/model` names, with all that is known of it.

        >>> Registry(env={}).target("openrouter/meta/llama-3:free").model
        'meta/llama-3:free'
        """
        provider_name, _, model = name.partition("/")
        if not provider_name or not model:
            raise SetupError(f"{name!r} names no model; write provider/model")
        provider = self.provider(provider_name)
        known = self._known.get(name)
        if known is None or known[0] is not provider:
            if len(self._known) >= MAX_KNOWN:
                self._known = {}
            known = self._known[name] = provider, self._with_facts(provider, name, model)
        return known[1].target(model, env=self.env)

    def _with_facts(self, provider: Provider, name: str, model: str) -> Provider:
        """The record with all that is known of one of its models, and with what all providers here share."""
        capabilities, quirks = facts_of(
            f"{provider.family or provider.name}/{model}", provider.wire, provider.capabilities, provider.quirks
        )
        for told in (self._facts.get(provider.name), self._facts.get(name)):
            if told is not None:
                capabilities, quirks = told.over(capabilities, quirks)
        if self._base_url and provider is PROVIDERS.get(provider.name):
            place = placed(self._base_url, provider.default_path)
            provider = replace(provider, base_url=place, base_url_names=())
        return replace(provider, capabilities=capabilities, quirks=quirks, api_key=provider.api_key or self._api_key)

    def provider(self, name: str, /) -> Provider:
        """A provider: registered, or defined by a variable that was not there at the start.

        >>> Registry(env={}).provider("groq")
        Provider(groq, wire=openai_chat, https://api.groq.com/openai/v1)
        """
        if name in self._broken:
            return self._define(name, self._broken[name])
        if name in self._providers:
            return self._providers[name]
        variable = variable_of(name)
        if variable in self.env:
            return self._define(name, self.env[variable])
        raise SetupError(
            f"no provider {name!r}: none is registered by that name, and no {variable} in the environment defines it"
            f"{nearest(name, self._providers)}"
        )

    def providers(self) -> list[str]:
        """The names of all providers.

        >>> "groq" in Registry(env={}).providers()
        True
        """
        return sorted(self._providers)

    def aliases(self) -> dict[str, str]:
        """All aliases.

        >>> Registry(env={}).aliases()
        {}
        """
        return dict(self._aliases)

    def _define(self, name: str, dsn: str) -> Provider:
        try:
            provider = decode_dsn(name, dsn, self._schemes)
        except SetupError:
            self._broken[name] = dsn
            raise
        self._broken.pop(name, None)
        self._providers[name] = provider
        return provider

    def _lay_over(self, name: str, facts: ModelFacts) -> None:
        old = self._facts.get(name, ModelFacts())
        self._known = {}
        self._facts[name] = ModelFacts({**old.capabilities, **facts.capabilities}, {**old.quirks, **facts.quirks})

    def _expand(self, spec: str, path: tuple[str, ...], names: dict[str, None], done: set[str]) -> None:
        """Put the targets of a spec into `names`; an alias that is done has given all it can."""
        for element in map(str.strip, spec.split(",")):
            if not element:
                raise SetupError(f"{spec!r} has an empty element{_inside(path)}")
            if "/" in element:
                names[element] = None
                continue
            if element in path:
                raise SetupError(told_circle((*path[path.index(element) :], element)))
            if len(path) >= MAX_DEPTH:
                raise SetupError(f"aliases inside aliases, {MAX_DEPTH} deep: {' -> '.join(path[:3])} -> …")
            if element not in done:
                self._expand(self._meaning(element, path), (*path, element), names, done)
                done.add(element)

    def _meaning(self, name: str, path: tuple[str, ...]) -> str:
        if name in self._aliases:
            return self._aliases[name]
        for resolver in tuple(self._resolvers):
            if (spec := resolver(name)) is not None:
                return as_spec(spec)
        if name in self._providers:
            raise SetupError(f"{name!r} is a provider and names no model{_inside(path)}; write {name}/model")
        raise SetupError(
            f"no alias {name!r}{_inside(path)}, and no resolver knows it; write provider/model, or define it"
            f"{nearest(name, self._aliases)}"
        )


def _inside(path: tuple[str, ...]) -> str:
    return f" (in {' -> '.join(path)})" if path else ""
