"""A model's name as a client says it in, targets and how to choose among them out; only what the config names."""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from dragoman.engine.failover import ChainOptions, Order
from dragoman.errors import ModelNotFound
from dragoman.gateway.errors import NoModelNamed
from dragoman.gateway.tiers import TIERS
from dragoman.registry import Registry
from dragoman.targets.dsn import did_you_mean
from dragoman.targets.target import Target
from dragoman.types import ModelInfo

MAX_KNOWN = 4096
"""Names that are remembered: they come from clients, and could be any number."""
MAX_NAME = 2048


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """Models of one class with their relative costs, and how the next one is chosen.

    >>> Tier(spec="groq/llama,openai/gpt").order
    'weighted'
    """

    spec: str
    costs: dict[str, float] = {}
    order: Order = "weighted"


class TargetChoice(msgspec.Struct, frozen=True):
    """Who may answer, and how they are asked.

    >>> TargetChoice((), ChainOptions()).tier is None
    True
    """

    targets: tuple[Target, ...]
    options: ChainOptions
    tier: str | None = None


class Catalog:
    """What clients may ask for.

    >>> catalog = Catalog(Registry(env={}), providers={"demo"})
    >>> catalog.find("demo/any").targets
    (Target(demo/any),)
    """

    def __init__(
        self,
        registry: Registry,
        /,
        *,
        providers: Iterable[str],
        tiers: Mapping[str, Tier] | None = None,
        options: ChainOptions | None = None,
    ) -> None:
        self._registry = registry
        self._providers = frozenset(providers)
        self._tiers = dict(tiers or {})
        self._options = options or ChainOptions()
        self._known: dict[str, TargetChoice] = {}

    @property
    def tiers(self) -> tuple[str, ...]:
        """The tiers, from the lowest up."""
        return tuple(self._tiers)

    def default(self) -> str:
        """The tier of those who name nothing; Unnamed where there is none."""
        if (tier := TIERS[0]) in self._registry.aliases():
            return tier
        example = next((model.id for model in self.models()), "provider/model")
        raise NoModelNamed(
            f"neither a model nor a tier is named, and there is no tier {tier!r}: "
            f"send a model, as {example}, or add [tiers.{tier}] to the config"
        )

    def find(self, name: str, /) -> TargetChoice:
        """The targets of a name; ModelNotFound where there is no such, or none that clients may ask for."""
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            known = self._known[name] = self._resolve(name)
        return known

    def models(self) -> tuple[ModelInfo, ...]:
        """What can be asked for by name: tiers, aliases, and what these stand for."""
        names = dict.fromkeys((*self._tiers, *self._registry.aliases()))
        for name in tuple(names):
            names.update(dict.fromkeys(target.name for target in self.find(name).targets))
        if "demo" in self._providers:
            names["demo/any"] = None
        return tuple(ModelInfo(id=name) for name in names)

    def _resolve(self, name: str) -> TargetChoice:
        if len(name) > MAX_NAME:
            raise ModelNotFound(f"no model has a name of {len(name)} characters", fail_over=False)
        aliases = self._registry.aliases()
        for element in map(str.strip, name.split(",")):
            provider, slash, model = element.partition("/")
            if not (provider in self._providers and model if slash else element in aliases):
                raise ModelNotFound(
                    f"this gateway has no model {element!r}{did_you_mean(element, aliases)}", fail_over=False
                )
        targets = tuple(self._registry.targets(name))
        tier = self._tiers.get(name)
        if tier is None:
            return TargetChoice(targets, self._options)
        return TargetChoice(targets, replace(self._options, order=tier.order, costs=tier.costs), name)
