"""Writes src/dragoman/targets/prices.json from the package genai-prices: `python -m tests.support.price_list`.

The list has the prices of the built-in providers. A model whose price depends on the time of day is left out, because
its cost cannot be computed from tokens alone.
"""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from genai_prices.types import StartDateConstraint, TieredPrices

from dragoman.targets.prices import PRICE_NAMES
from dragoman.targets.providers import PROVIDERS
from dragoman.types import is_list
from tests.support.paths import ROOT

data: Any = import_module("genai_prices.data")  # its literals take a type checker a minute
FILE = ROOT / "src" / "dragoman" / "targets" / "prices.json"
RATES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}


def price_list(today: date) -> dict[str, Any]:
    """The content of prices.json: the prices that hold on a day."""
    by_id: dict[str, Any] = {provider.id: provider for provider in data.providers}
    wanted = sorted({PRICE_NAMES.get(name, name) for name in PROVIDERS} & by_id.keys())
    models = {name: _models(by_id[name], today) for name in wanted}
    fallbacks: dict[str, list[str]] = {name: by_id[name].fallback_model_providers or [] for name in wanted}
    return {
        "source": f"genai-prices {version('genai-prices')}, https://github.com/pydantic/genai-prices (MIT)",
        "date": max(_dates(today)).isoformat(),
        "fallbacks": {name: [one for one in found if one in models] for name, found in fallbacks.items() if found},
        "models": models,
    }


def _dates(today: date) -> list[date]:
    """The days on which a price of the list changed."""
    models: list[Any] = [model for provider in data.providers for model in provider.models]
    prices: list[Any] = [one for model in models if is_list(model.prices) for one in model.prices]
    prices += [one for model in models for one in model.price_variants or ()]
    starts = [one.constraint.start_date for one in prices if isinstance(one.constraint, StartDateConstraint)]
    return [start for start in starts if start <= today]


def _models(provider: Any, today: date) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for model in provider.models:
        rates = _rates(model.prices, today)
        if rates is not None:
            found.append({"match": _pattern(model.match), **rates})
    return found


def _rates(prices: Any, today: date) -> dict[str, Any] | None:
    if is_list(prices):
        if not all(one.constraint is None or isinstance(one.constraint, StartDateConstraint) for one in prices):
            return None
        active = [one for one in prices if one.constraint is None or one.constraint.start_date <= today]
        prices = active[-1].prices
    rates: dict[str, Any] = {}
    for name, field in RATES.items():
        price = getattr(prices, field)
        if isinstance(price, TieredPrices):
            rates[name] = [[0, _number(price.base)], *([tier.start, _number(tier.price)] for tier in price.tiers)]
        elif price is not None:
            rates[name] = _number(price)
    return rates if "input" in rates or "output" in rates else None


def _number(price: Decimal) -> float | int:
    return int(price) if price == int(price) else float(price)


def _pattern(clause: Any) -> str:
    """A regular expression, for `re.search` in a lower-case name."""
    match clause.__class__.__name__:
        case "ClauseEquals":
            return f"^{_escape(clause.equals)}$"
        case "ClauseStartsWith":
            return f"^{_escape(clause.starts_with)}"
        case "ClauseEndsWith":
            return f"{_escape(clause.ends_with)}$"
        case "ClauseContains":
            return _escape(clause.contains)
        case "ClauseRegex":
            return str(clause.regex)
        case "ClauseOr":
            return "|".join(map(_pattern, clause.or_))
        case "ClauseAnd":
            return "".join(
                f"(?=.*(?:{_pattern(one)}))" if not _pattern(one).startswith("^") else f"(?={_pattern(one)})"
                for one in clause.and_
            )
        case other:
            raise NotImplementedError(other)


def _escape(text: str) -> str:
    return re.sub(r"([.+*?()\[\]{}|^$\\])", r"\\\1", text.lower())


def write(path: Path = FILE) -> None:
    lists = price_list(datetime.now(UTC).date())
    models = {name: [msgspec.json.encode(one).decode() for one in found] for name, found in lists["models"].items()}
    head = {key: lists[key] for key in ("source", "date", "fallbacks")}
    rows = ",\n".join(f'"{name}": [\n' + ",\n".join(found) + "\n]" for name, found in models.items())
    path.write_text(msgspec.json.encode(head).decode()[:-1] + f',\n"models": {{\n{rows}\n}}}}\n', encoding="utf-8")


if __name__ == "__main__":
    write()
