"""A spec such as "a/x,b/y,tier" in, targets out: providers, aliases, resolvers, and what the environment defines."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias

import msgspec

from dragoman.errors import SetupError
from dragoman.families import facts_of
from dragoman.providers import PROVIDERS, Provider
from dragoman.target import Limits, Quirks, Target

Resolver: TypeAlias = Callable[[str], str | None]
PREFIX = "LLM_"


class Registry:
    """Names and what they stand for. It sees nothing but the environment that it is given.

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
        self._aliases: dict[str, str] = {}
        self._resolvers: list[Resolver] = []
        self._broken: dict[str, SetupError] = {}
        self._facts: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self.load_env(env)

    # Filling it ------------------------------------------------------------------------------------------------------

    def load_env(self, env: Mapping[str, str], /) -> dict[str, SetupError]:
        """Define a provider for each LLM_* variable; those that are malformed are given back, and raised when used."""
        broken: dict[str, SetupError] = {}
        for variable, dsn in env.items():
            if variable.startswith(PREFIX) and len(variable) > len(PREFIX):
                name = variable[len(PREFIX) :].lower()
                try:
                    self._providers[name] = self.decode_dsn(name, dsn)
                except SetupError as error:
                    broken[name] = error
        self._broken.update(broken)
        return broken

    def decode_dsn(self, name: str, dsn: str, /) -> Provider:
        """The provider that `scheme://[token@]host[:port][/path]` defines."""
        scheme, separator, rest = dsn.strip().partition("://")
        token, at, place = rest.partition("@")
        place = (place if at else rest).rstrip("/")
        kind, plus, transport = scheme.partition("+")
        if not separator or not scheme or not place or place.startswith(("/", ":")):
            raise SetupError(f"{PREFIX}{name.upper()} is malformed; write scheme://[token@]host[:port][/path]")
        if kind not in self._schemes or (plus and transport not in ("http", "https")):
            raise SetupError(f"{PREFIX}{name.upper()}: no scheme {scheme!r}{_nearest(kind, self._schemes)}")
        record = self._schemes[kind]
        plain = transport == "http" or (not plus and record.plain_http)
        host, slash, path = place.partition("/")
        tail = f"/{path}" if slash else _path_of(record.base_url)
        return msgspec.structs.replace(
            record,
            name=name,
            base_url=f"{'http' if plain else 'https'}://{host}{tail}",
            base_url_names=(),
            api_key=token if at and token else None,
            family=record.family or record.name,
        )

    def add_provider(self, provider: Provider | None = None, /, **fields: Any) -> Provider:
        """A provider of the user's own: a record, or the fields of one; `like=` names one to start from."""
        if provider is None:
            like = fields.pop("like", None)
            base = msgspec.structs.asdict(self.provider(like)) if like else {}
            try:
                provider = Provider(**{**base, **fields})
            except TypeError as error:
                raise SetupError(f"add_provider: {error}") from error
        self._providers[provider.name] = provider
        self._broken.pop(provider.name, None)
        return provider

    def add_scheme(self, scheme: str, provider: Provider, /) -> None:
        """A scheme for DSNs, after a record."""
        self._schemes[scheme] = provider

    def add_resolver(self, resolver: Resolver, /) -> None:
        """A function that may know what a bare name stands for; asked after the aliases."""
        self._resolvers.append(resolver)

    def alias(self, name: str, spec: str, /) -> None:
        """A bare name for a spec."""
        if "/" in name or "," in name or not name.strip():
            raise SetupError(f"{name!r} cannot be an alias: it is empty, or has a slash or a comma")
        self._aliases[name.strip()] = spec

    def set_limits(self, name: str, /, **facts: Any) -> None:
        """What a provider (`groq`) or one model (`groq/llama`) can do, over what is known of it."""
        limits, quirks = self._facts.get(name, ({}, {}))
        unknown = facts.keys() - set(Limits.__struct_fields__) - set(Quirks.__struct_fields__)
        if unknown:
            known = (*Limits.__struct_fields__, *Quirks.__struct_fields__)
            raise SetupError(f"no limit {sorted(unknown)[0]!r}{_nearest(sorted(unknown)[0], known)}")
        self._facts[name] = (
            {**limits, **{key: value for key, value in facts.items() if key in Limits.__struct_fields__}},
            {**quirks, **{key: value for key, value in facts.items() if key in Quirks.__struct_fields__}},
        )

    # Asking it -------------------------------------------------------------------------------------------------------

    def targets(self, spec: str, /) -> list[Target]:
        """The targets of a spec, each once, in order."""
        return [self.target(name) for name in dict.fromkeys(self._expand(spec, ()))]

    def target(self, name: str, /) -> Target:
        """The target that `provider/model` names, with all that is known of it."""
        provider_name, _, model = name.partition("/")
        if not model:
            raise SetupError(f"{name!r} names no model; write provider/model")
        provider = self.provider(provider_name)
        if self._base_url:
            provider = msgspec.structs.replace(provider, base_url=self._base_url, base_url_names=())
        if self._api_key:
            provider = msgspec.structs.replace(provider, api_key=self._api_key)
        target = provider.target(model, env=self.env)
        limits, quirks = facts_of(f"{provider.family or provider.name}/{model}", target.limits, target.quirks)
        for key in (provider_name, name):
            more_limits, more_quirks = self._facts.get(key, ({}, {}))
            limits = msgspec.structs.replace(limits, **more_limits)
            quirks = msgspec.structs.replace(quirks, **more_quirks)
        return msgspec.structs.replace(target, limits=limits, quirks=quirks)

    def provider(self, name: str, /) -> Provider:
        """A provider: registered, or defined by a variable that was not there at the start."""
        variable = PREFIX + name.upper().replace("-", "_")
        if name in self._broken:
            raise self._broken[name]
        if name not in self._providers and variable in self.env:
            self._providers[name] = self.decode_dsn(name, self.env[variable])
        if name not in self._providers:
            raise SetupError(
                f"no provider {name!r}, and no {variable} that defines one{_nearest(name, self._providers)}"
            )
        return self._providers[name]

    def aliases(self) -> dict[str, str]:
        """All aliases."""
        return dict(self._aliases)

    def _expand(self, spec: str, path: tuple[str, ...]) -> list[str]:
        names: list[str] = []
        for element in (element.strip() for element in spec.split(",")):
            if not element:
                raise SetupError(f"{spec!r} has an empty element")
            if "/" in element:
                names.append(element)
                continue
            if element in path:
                raise SetupError(f"aliases go in a circle: {' -> '.join((*path, element))}")
            names += self._expand(self._meaning(element), (*path, element))
        return names

    def _meaning(self, name: str) -> str:
        if name in self._aliases:
            return self._aliases[name]
        for resolver in self._resolvers:
            if (spec := resolver(name)) is not None:
                return spec
        raise SetupError(f"no alias {name!r}; write provider/model, or define it{_nearest(name, self._aliases)}")


def _path_of(base_url: str) -> str:
    _, _, rest = base_url.partition("://")
    _, slash, path = rest.partition("/")
    return slash + path


def _nearest(name: str, known: Any) -> str:
    close = get_close_matches(name, list(known), n=3)
    return f"; did you mean {' or '.join(repr(match) for match in close)}?" if close else ""
