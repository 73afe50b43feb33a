"""The models that clients may use, and the targets behind their names. Only what the config names can be used."""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from dragoman.engine.failover import ChainOptions
from dragoman.engine.prompt_caches import has_points
from dragoman.errors import ModelNotFound
from dragoman.gateway.auth.authenticate import check_name
from dragoman.gateway.errors import NoModelNamed
from dragoman.gateway.provider_models import ProviderModels, as_listed
from dragoman.gateway.tiers import TIERS
from dragoman.registry import Registry
from dragoman.targets.config import find_alias
from dragoman.targets.dsn import did_you_mean
from dragoman.targets.model_families import maker_of
from dragoman.targets.pools import Affinity, Order, Weight, bind_fallbacks
from dragoman.targets.target import Target
from dragoman.types import ModelInfo, Notice, Request

MAX_CACHED = 4096
"""Names in the cache: clients choose them, so their number is not limited otherwise."""
DEFAULT = "default"
"""The alias for names that nothing else has."""


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """A class of models, with their relative costs and the order in which they are tried."""

    spec: str
    """The models, as a chain."""
    costs: dict[str, float] = {}
    """By model, its relative cost."""
    order: Order = "weighted"
    """Which model comes first; `in_order` if `models` is a list."""
    weights: dict[str, Weight] = {}
    """By model: a model of weight 2 gets twice as much as one of weight 1."""
    affinity: Affinity = "none"
    """What requests have in common that go to the same model."""


class TargetChoice(msgspec.Struct, frozen=True):
    """The targets that may answer a request, and the options of their chain."""

    targets: tuple[Target, ...]
    options: ChainOptions
    tier: str | None = None
    notices: tuple[Notice, ...] = ()


class Catalog:
    """Finds the targets of a model, alias or tier."""

    def __init__(
        self,
        registry: Registry,
        /,
        *,
        providers: Iterable[str],
        tiers: Mapping[str, Tier] | None = None,
        options: ChainOptions | None = None,
        listed: ProviderModels | None = None,
    ) -> None:
        """`listed`: the models that the providers list themselves."""
        self._registry = registry
        self.listed = listed or ProviderModels(registry, ())
        pools = registry.pools.values()
        self._providers = frozenset((*providers, *(pool.name for pool in pools if pool.providers)))
        self._tiers = dict(tiers or {})
        options = options or ChainOptions()
        self._options = replace(options, fallbacks=bind_fallbacks(options.fallbacks, registry.targets))
        self._cache: dict[str, TargetChoice] = {}

    @property
    def tiers(self) -> tuple[str, ...]:
        """The names of the tiers."""
        return tuple(self._tiers)

    def default(self) -> str:
        """The model of requests that name neither a model nor a tier; raises NoModelNamed if there is none."""
        tier, aliases = TIERS[0], self._registry.aliases()
        if (name := next((name for name in (DEFAULT, tier) if name in aliases), None)) is not None:
            return name
        example = next((model.id for model in self.models()), "provider/model")
        raise NoModelNamed(
            f"model is missing, and there is no default tier {tier!r}; "
            f"send a model such as {example!r}, or add [tiers.{tier}] to the config"
        )

    def find(self, name: str, /) -> TargetChoice:
        """The targets of a name; raises ModelNotFound if clients may not use it."""
        choice = self._cache.get(name)
        if choice is None:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            choice = self._cache[name] = self._resolve(name)
        return choice

    def models(self) -> tuple[ModelInfo, ...]:
        """The tiers, the pools, the aliases, and the models behind them."""
        aliases = (alias for alias in self._registry.aliases() if "*" not in alias)
        pools = (pool.name for pool in self._registry.pools.values() if pool.targets)
        names = dict.fromkeys((*self._tiers, *pools, *aliases))
        for name in tuple(names):
            names.update(dict.fromkeys(target.name for target in self.find(name).targets))
        if "demo" in self._providers:
            names["demo/any"] = None
        return tuple(ModelInfo(id=name) for name in names)

    async def all_models(self) -> tuple[ModelInfo, ...]:
        """Everything that clients can ask for: `models`, and what the providers list themselves."""
        models = {model.id: model for model in self.models()}
        for provider, model_list in (await self.listed.all()).items():
            for model in model_list.models or ():
                listed = as_listed(provider, model)
                models[listed.id] = listed
        return tuple(models.values())

    async def full_name(self, name: str, /) -> str:
        """The `provider/model` of a bare name if exactly one provider lists it; other names as they are.

        An alias called `default` answers all bare names itself.
        """
        aliases = self._registry.aliases()
        if not name or "/" in name or "," in name or DEFAULT in aliases or self._is_name(name, aliases):
            return name
        lists = await self.listed.all()
        providers = [provider for provider, model_list in lists.items() if name in model_list.ids]
        if len(providers) > 1:
            choices = ", ".join(f"{provider}/{name}" for provider in providers)
            raise ModelNotFound(f"model must name its provider, got {name!r}; use one of {choices}", fail_over=False)
        maker = maker_of(name)
        if not providers and maker in self._providers and maker not in lists:  # it did not answer with a list
            providers = [maker]
        return f"{providers[0]}/{name}" if providers else name

    def _resolve(self, name: str) -> TargetChoice:
        check_name(name)
        aliases = self._registry.aliases()
        for element in map(str.strip, name.split(",")):
            provider, slash, model = element.partition("/")
            if provider in self._providers and model if slash else self._is_name(element, aliases):
                continue
            if DEFAULT in aliases and not slash and element == name:
                notice = Notice(kind="info", what="model", why=f"there is no model {element!r}; the default answers")
                return TargetChoice(tuple(self._registry.targets(DEFAULT)), self._options, notices=(notice,))
            raise ModelNotFound(f"unknown model {element!r}{did_you_mean(element, aliases)}", fail_over=False)
        targets = tuple(self._registry.targets(name))
        tier = self._tiers.get(name)
        if tier is None:
            return TargetChoice(targets, self._options)
        own = replace(self._options, order=tier.order, costs=tier.costs, weights=tier.weights, affinity=tier.affinity)
        return TargetChoice(targets, own, name)

    def _is_name(self, name: str, aliases: Mapping[str, str]) -> bool:
        pool = self._registry.pools.get(name)
        return (pool is not None and bool(pool.targets)) or find_alias(name, aliases) is not None


def without_stored_prompts(request: Request, targets: tuple[Target, ...], /) -> tuple[Target, ...]:
    """The targets, so that no client makes the provider store prompts: the storage has a cost that no budget counts."""
    for target in targets:  # not any(), which takes three times as long for the one target of most requests
        if target.quirks.caching == "contents":
            break
    else:
        return targets
    if not has_points(request):
        return targets
    return tuple(
        replace(target, quirks=replace(target.quirks, caching=None)) if target.quirks.caching == "contents" else target
        for target in targets
    )
