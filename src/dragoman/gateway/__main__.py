"""`python -m dragoman.gateway [CONFIG] [--host H] [--port P] [--workers N] [--no-auth] [--reload]`."""

import argparse
import sys
from pathlib import Path

from dragoman.errors import SetupError
from dragoman.gateway.server.run import serve


def main() -> int:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="dragoman.gateway")
    parser.add_argument("config", nargs="?", type=Path)
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--no-auth", action="store_true")
    parser.add_argument("--reload", action="store_true")
    arguments = parser.parse_args()
    try:
        serve(**vars(arguments))
    except SetupError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
