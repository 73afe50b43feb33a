"""`dragoman keys new NAME`: create an API key for a client of the gateway."""

from argparse import Namespace

import msgspec

from dragoman.cli import terminal
from dragoman.gateway.auth.api_keys import new_key


def run(arguments: Namespace, /) -> int:
    """Print a new key, and the config lines with its hash."""
    plain, hash = new_key()
    if arguments.json:
        terminal.write_json({"id": arguments.name, "key": plain, "hash": hash})
        return 0
    terminal.write(f"{plain}\n")
    table = msgspec.json.encode(arguments.name).decode()  # in quotes: a name may contain a dot
    role = f'\nrole = "{arguments.role}"' if arguments.role else ""
    terminal.note(f'The key is shown only once. Add this to the config:\n\n[keys.{table}]\nhash = "{hash}"{role}')
    return 0
