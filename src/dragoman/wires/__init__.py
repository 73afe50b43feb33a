"""The protocols that dragoman speaks, one folder each; `dragoman.wires.base` explains how a wire works."""

from importlib import import_module

from dragoman.errors import SetupError
from dragoman.types.checks import is_text, shown
from dragoman.wires.base import Wire

NAMES = (
    "anthropic",
    "bedrock",
    "google",
    "google_interactions",
    "native",
    "ollama",
    "openai_chat",
    "openai_responses",
)
_LOADED: dict[str, Wire] = {}


def get(name: str, /) -> Wire:
    """The wire of that name, imported on first use.

    >>> get("ollama").name
    'ollama'
    """
    wire = _LOADED.get(name) if type(name) is str else None
    if wire is None:
        if not is_text(name) or name not in NAMES:
            raise SetupError(f"name must be one of {', '.join(NAMES)}, got {shown(name)}", param="name")
        wire = _LOADED[name] = import_module(f"dragoman.wires.{name}").WIRE
    return wire
