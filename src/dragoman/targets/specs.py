"""Specs: the texts that name targets."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from dragoman.errors import SetupError
from dragoman.types.checks import is_encodable, shown

Spec: TypeAlias = str | Sequence[str]
"""The targets to call: a text, or a list of texts, which is a chain."""
Resolver: TypeAlias = Callable[[str], Spec | None]
"""Returns the spec that a bare name stands for, or None if it does not know the name."""


def as_spec(spec: object, /) -> str:
    """A spec as one text.

    >>> as_spec(["groq/llama", "fast, demo/any"])
    'groq/llama,fast, demo/any'
    """
    if isinstance(spec, str) and (spec.isascii() or is_encodable(spec)):
        return spec
    items = cast("Sequence[object]", spec) if isinstance(spec, list | tuple) else (spec,)
    for item in items:
        if not isinstance(item, str) or not is_encodable(item):
            expected = "a str such as 'groq/llama, demo/any', or a list of these"
            got = f"{ascii(item)[:200]}, which is not valid Unicode" if isinstance(item, str) else shown(item)
            hint = "; call its methods, such as model.generate(prompt)" if hasattr(type(item), "agenerate") else ""
            raise SetupError(f"spec must be {expected}, got {got}{hint}", param="spec")
    return ",".join(cast("Sequence[str]", items))


def inside(path: tuple[str, ...], /) -> str:
    """The aliases that led to a mistake, for its message.

    >>> inside(("fast", "any"))
    ' (in fast -> any)'
    """
    return f" (in {' -> '.join(path)})" if path else ""
