"""`dragoman import-litellm config.yaml`: write a dragoman.toml from the config of a LiteLLM proxy."""

import os
import re
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.cli import terminal
from dragoman.cli.litellm_config import CLOUD_VARIABLES, Conversion
from dragoman.cli.parser import UsageError
from dragoman.cli.toml_writer import encode_toml
from dragoman.errors import SetupError
from dragoman.gateway.config import decode_config
from dragoman.types import is_object

HEAD = "# Made by dragoman import-litellm. Set the variables in ${…} where the gateway starts.\n\n"


def run(arguments: Namespace, /) -> int:
    """Write the file, and say what differs."""
    output = None if arguments.output == "-" else Path(arguments.output)
    if output is not None and output.exists() and not arguments.force:
        raise UsageError(f"{output} exists; use --force to replace it, or -o FILE")
    conversion = Conversion(_read(Path(arguments.file)))
    text = HEAD + encode_toml(conversion.tables)
    variables = sorted(conversion.variables.union(re.findall(r"\$\{(\w+)\}", text)))
    # It must start, if the variables are set.
    decode_config(text, {name: _sample(name, text) for name in (*variables, *CLOUD_VARIABLES.values())})
    if output is None:
        terminal.write(text)
    else:
        _write(output, text)
    if arguments.json:
        report = {"file": arguments.output, "variables": variables, "differences": conversion.differences}
        terminal.write_json(report)
        return 0
    missing = [name for name in variables if name not in os.environ]
    for difference in conversion.differences:
        terminal.note(f"- {difference}", style="yellow")
    done = f"wrote {output}" if output is not None else "done"
    terminal.note(f"{done}; {terminal.plural(len(conversion.differences), 'difference')}")
    if missing:
        terminal.note(f"set these variables before dragoman serve: {', '.join(missing)}")
    return 0


def _sample(name: str, text: str) -> str:
    """A value that a variable may have where the file has it."""
    for place, value in _SAMPLES.items():
        if place.format(f"${{{name}}}") in text:
            return value
    return f"value-of-{name}"


_SAMPLES = {
    'base_url = "{}': "https://server.example.com",
    'store = "{}"': "redis://redis:6379/0",
    ":{}/0": "6379",
}


def _read(path: Path) -> dict[str, Any]:
    try:
        yaml: Any = import_module("yaml")  # it has no types
    except ImportError as error:
        raise SetupError("the package pyyaml is missing; run pip install 'dragoman[litellm]'") from error
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SetupError(f"{path}: it must be YAML: {' '.join(str(error).split())}") from error
    if not is_object(config):
        raise SetupError(f"{path}: it must be the config of a LiteLLM proxy, with model_list")
    return config


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read: it may have keys."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a path would be opened with another mode
        file.write(text)
