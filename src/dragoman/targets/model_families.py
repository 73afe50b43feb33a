"""A target's name in, what is known of its model's family out: limits and quirks, by glob, from model_families.json.

So no wire looks at a model's name. The file's later entries win over its earlier ones.
"""

from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dragoman.targets.target import Capabilities, Quirks

T = TypeVar("T", Capabilities, Quirks)


class Family(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts about the models whose `provider/model` matches, on every wire or on one.

    >>> Family(match="openai/gpt-*").capabilities
    {}
    """

    match: str
    wire: str | None = None
    capabilities: dict[str, Any] = {}
    quirks: dict[str, Any] = {}


@cache
def families() -> tuple[Family, ...]:
    """All that the file has, read at first use.

    >>> len(families()) > 0
    True
    """
    data = Path(__file__).with_name("model_families.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[Family, ...])


@lru_cache(maxsize=1024)
def apply_families(name: str, wire: str, capabilities: Capabilities, quirks: Quirks, /) -> tuple[Capabilities, Quirks]:
    """Limits and quirks of a provider with what is known of one of its models laid over them.

    >>> apply_families("ollama/gpt-oss:20b", "ollama", Capabilities(), Quirks())[1].reasoning
    'level'
    """
    for family in families():
        if family.wire in (None, wire) and fnmatchcase(name, family.match):
            capabilities, quirks = override(capabilities, family.capabilities), override(quirks, family.quirks)
    return capabilities, quirks


def override(record: T, facts: dict[str, Any], /) -> T:
    """A record with some facts laid over it; ValidationError where one has the wrong type.

    >>> override(Capabilities(tools=False), {"max_images": 3}).max_images
    3
    """
    return msgspec.convert({**msgspec.to_builtins(record), **facts}, type(record)) if facts else record
