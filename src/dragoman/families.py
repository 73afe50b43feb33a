"""A target's name in, what is known of its model's family out: limits and quirks, by glob, from families.json."""

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from dragoman.target import Limits, Quirks


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the models whose `provider/model` matches; later entries of the file win.

    >>> Family(match="openai/gpt-*").limits
    {}
    """

    match: str
    limits: dict[str, Any] = {}
    quirks: dict[str, Any] = {}


@cache
def families() -> tuple[Family, ...]:
    """All that the file has, read at first use.

    >>> len(families()) > 0
    True
    """
    data = Path(__file__).with_name("families.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[Family, ...])


def facts_of(name: str, limits: Limits, quirks: Quirks, /) -> tuple[Limits, Quirks]:
    """Limits and quirks of a provider with what is known of one of its models laid over them.

    >>> facts_of("nobody/nothing", Limits(), Quirks()) == (Limits(), Quirks())
    True
    """
    for family in families():
        if fnmatchcase(name, family.match):
            limits, quirks = _over(limits, family.limits), _over(quirks, family.quirks)
    return limits, quirks


def _over(record: Any, facts: dict[str, Any]) -> Any:
    return msgspec.convert({**msgspec.to_builtins(record), **facts}, type(record)) if facts else record
