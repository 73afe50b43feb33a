"""The prices of models, from prices.json, and the cost of an answer.

The list comes from the package genai-prices; `python -m tests.support.price_list` writes it. Its source and its date
are part of every cost, because prices change.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec

from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import Target
from dragoman.types import Cost, Usage
from dragoman.types.base import prepare
from dragoman.types.fast_constructors import new_cost
from dragoman.wires.common.options import STANDARD_TIERS

PRICE_NAMES = {
    "bedrock": "aws",
    "gemini": "google",
    "google-interactions": "google",
    "moonshot": "moonshotai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "vertex": "google",
    "xai": "x-ai",
    "xai-responses": "x-ai",
}
"""Providers that have another name in the list."""
_MILLION = 1_000_000
_LISTED_TIERS = frozenset({None, "auto", *STANDARD_TIERS})
_Rate: TypeAlias = float | list[tuple[int, float]]
"""Dollars per million tokens; or by the tokens of the prompt, from which on a price holds for the whole request."""


class ModelPrices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The prices of the models whose lower-case name matches a regular expression."""

    match: str
    input: _Rate = 0
    output: _Rate = 0
    cache_read: _Rate | None = None
    """None is the price of other input."""
    cache_write: _Rate | None = None

    def cost(self, usage: Usage, /) -> float:
        """The cost in dollars."""
        tokens = usage.input or 0
        read, written = usage.cache_read or 0, usage.cache_write or 0
        fresh = _at(self.input, tokens)
        dollars = max(0, tokens - read - written) * fresh + (usage.output or 0) * _at(self.output, tokens)
        dollars += read * (fresh if self.cache_read is None else _at(self.cache_read, tokens))
        dollars += written * (fresh if self.cache_write is None else _at(self.cache_write, tokens))
        return dollars / _MILLION


class PriceList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The prices of models by provider, where they are from, and the day of the newest of them."""

    source: str
    date: str
    fallbacks: dict[str, list[str]]
    """Providers that also serve the models of others, at the same prices."""
    models: dict[str, list[ModelPrices]]


@cache
def price_list() -> PriceList:
    """The list of the package, read at first use."""
    return msgspec.json.decode(Path(__file__).with_name("prices.json").read_bytes(), type=PriceList)


def cost_of(
    provider: str, model: str, usage: Usage, tier: str | None = None, /, *, base_url: str | None = None
) -> Cost | None:
    """The cost of a usage; None if the price or the usage is unknown. The list has the prices of the usual tier only.

    They are the provider's own prices: for a `base_url` that is not the provider's, the price is unknown.

    >>> cost_of("openai", "gpt-4o", Usage(input=1_000_000, output=0)).usd
    2.5
    """
    if (usage.input is None and usage.output is None) or tier not in _LISTED_TIERS:
        return None
    if base_url is not None and not is_official(provider, base_url):
        return None
    prices = find_prices(provider, model)
    if prices is None:
        return None
    listed = price_list()
    return new_cost(prices.cost(usage), listed.source, listed.date)


def target_cost(target: Target, usage: Usage, tier: str | None = None, /) -> Cost | None:
    """The cost of a usage at a target, by the name whose prices it has; None if the price or the usage is unknown."""
    if target.price_name is not None:
        return cost_of(target.price_name, target.model, usage, tier)
    return cost_of(target.like_name or target.provider, target.model, usage, tier, base_url=target.base_url)


@lru_cache(maxsize=1024)
def is_official(provider: str, base_url: str, /) -> bool:
    """Whether a base URL is in the provider's own domain; True if the provider has no domain that is known.

    >>> is_official("openai", "https://eu.api.openai.com/v1"), is_official("openai", "https://proxy.example/v1")
    (True, False)
    """
    record = PROVIDERS.get(provider)
    domain = None if record is None else _DOMAIN.search(record.base_url)
    if domain is None:
        return True
    host = urlsplit(base_url).hostname or ""
    return f".{host}".endswith(f".{domain[1]}")


_DOMAIN = re.compile(r"^https?://[^/]*?([\w-]+\.[\w-]+)(?:/|$)")
"""The last two labels of a host; the first ones of clouds have a variable, such as the region."""


@lru_cache(maxsize=1024)
def find_prices(provider: str, model: str, /) -> ModelPrices | None:
    """The prices of a model; None if the list does not have it."""
    listed, name = price_list(), PRICE_NAMES.get(provider, provider)
    return next(_matching(listed, (name, *listed.fallbacks.get(name, ())), model.lower()), None)


def _matching(listed: PriceList, providers: tuple[str, ...], model: str) -> Iterator[ModelPrices]:
    for provider in providers:
        for prices in listed.models.get(provider, ()):
            if re.search(prices.match, model):
                yield prices


def _at(rate: _Rate, tokens: int) -> float:
    """The price for a prompt of this many tokens."""
    if not isinstance(rate, list):
        return rate
    return [price for start, price in rate if tokens > start or not start][-1]


prepare(PriceList)
