"""Prompts that a provider stores under a name: the values that plans and wires share."""

import msgspec

from dragoman.http import HttpRequest
from dragoman.types import JsonObject


class CacheSplit(msgspec.Struct, frozen=True, kw_only=True):
    """A request in two parts: its beginning, which the provider stores, and the rest."""

    key: str
    """A hash of the beginning."""
    create: HttpRequest
    """The request that stores the beginning."""
    whole: HttpRequest
    """The request without a stored beginning."""
    rest: JsonObject
    """The body of the request that refers to the stored beginning."""


class StoredPrompt(msgspec.Struct, frozen=True):
    """The beginning of a prompt that a provider stores: its name, and its tokens if the provider says them."""

    name: str
    tokens: int | None
