"""Facts about families of models, by glob, from model_families.json. So no wire looks at a model's name.

All entries whose pattern matches apply, in the order of the file; later entries override earlier ones.
"""

import re
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dragoman.targets.target import Capabilities, Quirks
from dragoman.types.base import prepare

T = TypeVar("T", Capabilities, Quirks)
_WILDCARD = re.compile(r"[*?\[]")


class Family(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts about the models whose `provider/model` matches, on one wire or on all."""

    match: str
    wire: str | None = None
    capabilities: dict[str, Any] = {}
    quirks: dict[str, Any] = {}
    use: str | None = None
    """Another record of the same provider that its models are called with, such as that of another wire."""
    bare: bool = False
    """Whether only this provider has these models under this name, so that the name alone is enough."""


@cache
def families() -> tuple[Family, ...]:
    """The entries of the file, read at first use."""
    data = Path(__file__).with_name("model_families.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[Family, ...])


@lru_cache(maxsize=1024)
def apply_families(name: str, wire: str, capabilities: Capabilities, quirks: Quirks, /) -> tuple[Capabilities, Quirks]:
    """The capabilities and quirks of a provider, overridden by the facts about one of its models.

    >>> apply_families("ollama/gpt-oss:20b", "ollama", Capabilities(), Quirks())[1].reasoning
    'level'
    """
    for family in families():
        if family.wire in (None, wire) and _matches(name, family.match):
            capabilities, quirks = override(capabilities, family.capabilities), override(quirks, family.quirks)
    return capabilities, quirks


@lru_cache(maxsize=1024)
def record_of(name: str, /) -> str | None:
    """The record to call a model with, if it is not that of its provider.

    >>> record_of("openai/gpt-6-sol"), record_of("openai/gpt-4o")
    ('openai-responses', None)
    """
    return next((family.use for family in reversed(families()) if family.use and _matches(name, family.match)), None)


@lru_cache(maxsize=1024)
def maker_of(model: str, /) -> str | None:
    """The provider of a model that is named without one; None if several providers may have it, or none is known.

    >>> maker_of("claude-sonnet-5"), maker_of("gpt-oss-20b")
    ('anthropic', None)
    """
    return _provider_of(model, is_bare=True)


def any_host_of(model: str, /) -> str | None:
    """A provider that has models of this family, as an example; None if none is known.

    >>> any_host_of("gpt-oss-20b")
    'ollama'
    """
    return _provider_of(model, is_bare=False)


def _provider_of(model: str, *, is_bare: bool) -> str | None:
    for family in families():
        provider, _, pattern = family.match.partition("/")
        if (family.bare if is_bare else pattern != "*") and _matches(model, pattern):
            return provider
    return None


def _matches(name: str, pattern: str) -> bool:
    """As `fnmatchcase`, but the text before the first wildcard is compared first: so few patterns are compiled."""
    return name.startswith(_WILDCARD.split(pattern, 1)[0]) and fnmatchcase(name, pattern)


def override(record: T, facts: dict[str, Any], /) -> T:
    """A record with some fields replaced; ValidationError if one has the wrong type.

    >>> override(Capabilities(tools=False), {"max_images": 3}).max_images
    3
    """
    return msgspec.convert({**msgspec.to_builtins(record), **facts}, type(record)) if facts else record


prepare(tuple[Family, ...], Capabilities, Quirks)
