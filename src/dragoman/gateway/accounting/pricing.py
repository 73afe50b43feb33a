"""The cost of usage, by the package genai-prices (extra `prices`), or else by the price list of this package."""

import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from dragoman.gateway.store.base import NANODOLLARS
from dragoman.registry import Registry
from dragoman.targets.prices import PRICE_NAMES, cost_of, is_official
from dragoman.targets.providers import PROVIDERS
from dragoman.types import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

HOUR = 3600.0
"""Some prices depend on the time of day, so the cache holds them for an hour."""


class Prices:
    """The prices of targets."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.names: Mapping[str, str | None] = {}
        """Providers of the config, and the providers whose prices they have; None if their prices are not known."""
        self.is_needed = True
        """Whether a provider of the config has prices. The list of genai-prices takes 16 MB and a part of a second."""
        self._is_loaded = False
        self._is_installed = find_spec("genai_prices") is not None
        self._price = lru_cache(maxsize=1024)(_find_price)

    def load(self) -> None:
        """Read the price list if it is needed. Call it in a thread if `must_load`: no request should wait for it."""
        if self.must_load:
            self._is_loaded = True
            self._price("demo/any", 0)

    @property
    def must_load(self) -> bool:
        """Whether the price list is needed and not read yet."""
        return self._is_installed and self.is_needed and not self._is_loaded

    def cost(self, target: str | None, usage: Usage, /) -> int | None:
        """The cost in billionths of a dollar; None if the price or the usage is unknown."""
        if target is None or (usage.input is None and usage.output is None):
            return None
        provider, _, model = target.partition("/")
        if (priced := self.names.get(provider, provider)) is None:
            return None
        if not self._is_installed:
            cost = cost_of(priced, model, usage)
            return None if cost is None else round(cost.usd * NANODOLLARS)
        price = self._price(f"{priced}/{model}", int(self._clock() / HOUR))
        if price is None:
            return None
        return price.cost(usage) if isinstance(price, Rates) else _calculate(price, usage)


def price_names(registry: Registry, /) -> dict[str, str | None]:
    """By provider: the one whose prices it has.

    That is its `price_name`, or else the built-in one that it is like, if it is the same service, such as another
    account of it. None if it is like one, but another service: then its prices are not known.
    """
    records = {name: registry.provider(name) for name in registry.providers()}
    names: dict[str, str | None] = {
        name: like if is_official(like, record.base_url) else None
        for name, record in records.items()
        if name not in PROVIDERS and (like := record.like_name) is not None and record.base_url
    }
    return names | {name: record.price_name for name, record in records.items() if record.price_name is not None}


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Prices per token, in trillionths of a dollar, for models whose price does not depend on the amount."""

    input: int
    output: int
    cache_read: int
    cache_write: int

    def cost(self, usage: Usage, /) -> int:
        """The cost in billionths of a dollar."""
        read, written = usage.cache_read or 0, usage.cache_write or 0
        uncached = max(0, (usage.input or 0) - read - written)
        cached = read * self.cache_read + written * self.cache_write
        return round((uncached * self.input + cached + (usage.output or 0) * self.output) / 1000)


def _find_price(target: str, _hour: int) -> "Rates | ModelPrice | None":
    from genai_prices import Usage as Counts
    from genai_prices import calc_price

    provider, _, model = target.partition("/")
    try:
        price = calc_price(Counts(input_tokens=1), model, provider_id=PRICE_NAMES.get(provider, provider)).model_price
    except LookupError:
        return None
    return _rates(price) or price


def _rates(price: "ModelPrice") -> Rates | None:
    """The rates of a price that is the same for any amount. They are a hundred times faster than `calc_price`."""
    prices = price.input_mtok, price.output_mtok, price.cache_read_mtok, price.cache_write_mtok
    input, output, read, written = (round(rate * 1_000_000) if isinstance(rate, Decimal) else rate for rate in prices)
    if not isinstance(input, int) or not isinstance(output, int):
        return None
    read, written = input if read is None else read, input if written is None else written
    if not isinstance(read, int) or not isinstance(written, int):
        return None
    return Rates(input=input, output=output, cache_read=read, cache_write=written)


def _calculate(price: "ModelPrice", usage: Usage) -> int:
    from genai_prices import Usage as Counts

    counts = Counts(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    return round(price.calc_price(counts)["total_price"] * NANODOLLARS)
