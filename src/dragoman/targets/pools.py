"""Pools: several deployments of the same models behind one name, and how requests are shared between them.

A deployment is a target of a pool: an account, a key or a server of its own. A pool of `targets` is used by its name,
like an alias. A pool of `providers` stands before a model, like a provider: `acme/gpt-5`. `engine/routing.py` chooses.
"""

from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args

import msgspec

from dragoman.errors import SetupError
from dragoman.types import is_list, is_object
from dragoman.types.checks import is_text, shown
from dragoman.types.fields import check_struct
from dragoman.types.structs import SetupStruct

Order: TypeAlias = Literal["in_order", "weighted", "least_busy", "fastest", "cheapest"]
Affinity: TypeAlias = Literal["none", "conversation", "prefix"]
"""What requests have in common that go to the same deployment: the begin of a conversation, or system and tools."""
ErrorKind: TypeAlias = Literal[
    "context_too_long", "content_filter", "rate_limited", "overloaded", "timed_out", "unsupported"
]
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)
_OTHER_KINDS: dict[str, ErrorKind] = {
    "blocked": "content_filter",
    "content_policy": "content_filter",
    "context_window": "context_too_long",
    "refusal": "content_filter",
    "timeout": "timed_out",
}
"""What else a kind of error may be called."""
Fallbacks: TypeAlias = Mapping[str, Any]
"""By kind of error: the spec whose targets come next, or a function that returns them."""
Weight: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
_Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
MAX_KEYS = 100
"""Keys of one pool."""


class DeploymentLimits(SetupStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each model of a provider may get: from this process, or from all gateways that share a store.

    None means no limit.
    """

    requests_per_minute: _Limit | None = None
    """Requests in any 60 seconds."""
    tokens_per_minute: _Limit | None = None
    """Tokens of prompts and answers."""
    concurrent: _Limit | None = None
    """Requests at the same time."""


class DeploymentPool(SetupStruct, frozen=True, kw_only=True):
    """Deployments behind one name.

    >>> DeploymentPool(name="gpt", targets=("east/gpt-5", "west/gpt-5")).spec("")
    'east/gpt-5,west/gpt-5'
    """

    name: str
    """The name that stands for the pool in a spec."""
    targets: tuple[str, ...] = ()
    """The deployments of a pool that is used by its name alone."""
    providers: tuple[str, ...] = ()
    """The providers of a pool that is used with a model."""
    order: Order = "least_busy"
    """Which deployment comes first."""
    weights: Mapping[str, Weight] = {}
    """By target or provider: a deployment of weight 2 gets twice as much as one of weight 1, which is the default."""
    costs: Mapping[str, Weight] = {}
    """By target or provider: relative costs, for `cheapest` and `weighted`; without them, `cheapest` reads prices."""
    affinity: Affinity = "none"
    """What requests have in common that go to the same deployment, whose prompt cache then helps."""
    fallbacks: Fallbacks = {}
    """By kind of error: the spec to continue with."""

    def __post_init__(self) -> None:
        check_struct(self, SetupError)
        if self.fallbacks:
            check_fallbacks(self.fallbacks)

    def spec(self, model: str, /) -> str:
        """The targets of the pool, for a model if it is a pool of providers."""
        return ",".join(self.targets or [f"{provider}/{model}" for provider in self.providers])


class RoutingShare(msgspec.Struct, frozen=True):
    """What the order of a deployment depends on: its weight and its relative cost."""

    weight: float = 1.0
    cost: float | None = None


def share_of(pool: DeploymentPool, provider: str, name: str, /) -> RoutingShare:
    """The weight and the cost of a deployment: those of the target, else those of its provider.

    >>> share_of(DeploymentPool(name="gpt", weights={"east": 3}), "east", "east/gpt-5").weight
    3
    """
    weight = pool.weights.get(name, pool.weights.get(provider, 1.0))
    return RoutingShare(weight, pool.costs.get(name, pool.costs.get(provider)))


def make_pool(name: object, fields: Mapping[str, Any], /) -> tuple[DeploymentPool, dict[str, dict[str, Any]]]:
    """A pool from its fields, and the fields of the providers that its `api_keys` define.

    `targets` and `providers` are lists, or tables of weights. With `api_keys`, there is one provider for each key, like
    the provider `like`, or like the one with the name of the pool.

    >>> pool, providers = make_pool("openai", {"api_keys": ["sk-1", "sk-2"]})
    >>> pool.providers, providers["openai-2"]["like"]
    (('openai-1', 'openai-2'), 'openai')
    """
    if not isinstance(name, str) or not name.strip() or set(name) & set("/,*\t\n ") or not name.isprintable():
        reason = f"the name of a pool must be a text without slash, comma, star and blank, got {shown(name)}"
        raise SetupError(reason, param="name")
    own = dict(fields)
    keys, like = own.pop("api_keys", None), own.pop("like", None)
    if sum(members is not None for members in (keys, own.get("targets"), own.get("providers"))) != 1:
        raise SetupError("a pool must have one of targets, providers and api_keys", param="targets")
    if like is not None and keys is None:
        raise SetupError("like must not be set without api_keys; it is the provider that the keys belong to")
    providers = {} if keys is None else _providers_of(name, keys, like)
    if providers:
        own["providers"] = list(providers)
    weights: Any = {**_weights(own, "targets"), **_weights(own, "providers")}
    if weights:
        own["weights"] = {**weights, **own.get("weights", {})}
    pool = DeploymentPool(name=name, **own)
    _check_members(pool)
    return pool, providers


def _providers_of(name: str, keys: object, like: object) -> dict[str, dict[str, Any]]:
    if not is_list(keys) or not 1 <= len(keys) <= MAX_KEYS:
        raise SetupError(f"api_keys must be a list of 1 to {MAX_KEYS} keys", param="api_keys")
    return {
        f"{name}-{number}": {"like": name if like is None else like, "api_key": key}
        for number, key in enumerate(keys, 1)
    }


def _weights(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """The weights in a table of members, which becomes a list."""
    members = fields.get(name)
    if not is_object(members):
        return {}
    for weight in members.values():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < inf:
            reason = f"{name} must be a list of names, or a table of names and weights >= 0, got {shown(weight)}"
            raise SetupError(reason, param=name)
    fields[name] = list(members)
    return members


def _check_members(pool: DeploymentPool) -> None:
    members = (*pool.targets, *pool.providers)
    if not members:
        raise SetupError("a pool must have at least one deployment", param="targets")
    for member in pool.targets:
        if not all(member.partition("/")) or "," in member or not member.isprintable():
            raise SetupError(f"targets must be like provider/model, got {shown(member)}", param="targets")
    for member in pool.providers:
        if not member or set(member) & set("/,") or not member.isprintable():
            raise SetupError(f"providers must be names of providers, got {shown(member)}", param="providers")
    providers = {member.partition("/")[0] for member in members}
    for field in ("weights", "costs"):
        unknown = [name for name in cast("Mapping[str, float]", getattr(pool, field)) if name not in providers]
        unknown = [name for name in unknown if name not in members and name.partition("/")[0] not in providers]
        if unknown:
            raise SetupError(f"{field} must name deployments of the pool, got {shown(unknown[0])}", param=field)


def check_fallbacks(fallbacks: Fallbacks, /) -> None:
    """Refuse a kind of error that is not known, and what is not a spec."""
    for kind, spec in fallbacks.items():
        if kind not in ERROR_KINDS:
            known = ", ".join(ERROR_KINDS)
            reason = f"fallbacks must be by kind of error, one of {known}, got {shown(kind)}{_kind_hint(kind)}"
            raise SetupError(reason, param="fallbacks")
        if not callable(spec) and (not is_text(spec) or not spec.strip()):
            raise SetupError(
                f"fallbacks.{kind} must be a spec such as 'google/gemini-2.5-pro', got {shown(spec)}", param="fallbacks"
            )


def _kind_hint(kind: object) -> str:
    from difflib import get_close_matches  # only for errors

    name = _OTHER_KINDS.get(kind) if isinstance(kind, str) else None
    close = [name] if name else get_close_matches(str(kind), ERROR_KINDS, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def bind_fallbacks(fallbacks: Fallbacks, find: Callable[[str], Any], /) -> dict[str, Callable[[], Any]]:
    """Fallbacks as functions that return the targets of their specs, with the keys of that moment.

    >>> bind_fallbacks({"timed_out": "groq/llama"}, lambda spec: [spec])["timed_out"]()
    ['groq/llama']
    """
    return {kind: spec if callable(spec) else partial(find, spec) for kind, spec in fallbacks.items()}
