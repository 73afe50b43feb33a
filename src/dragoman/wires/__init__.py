"""A wire's name in, the wire out: each folder here is one protocol, both directions."""

from importlib import import_module

from dragoman.errors import SetupError
from dragoman.wires.base import Wire

NAMES = ("anthropic", "google", "native", "ollama", "openai_chat", "openai_responses")
_LOADED: dict[str, Wire] = {}


def get(name: str, /) -> Wire:
    """The wire of that name, loaded at first use.

    >>> get("ollama").name
    'ollama'
    """
    wire = _LOADED.get(name)
    if wire is None:
        if name not in NAMES:
            raise SetupError(f"no wire {name!r}; there are {', '.join(NAMES)}")
        wire = _LOADED[name] = import_module(f"dragoman.wires.{name}").WIRE
    return wire
