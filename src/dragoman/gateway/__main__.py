"""`python -m dragoman.gateway [CONFIG] [--host H] [--port P] [--workers N] [--no-auth]`."""

import argparse
import sys
from pathlib import Path

from dragoman.errors import SetupError
from dragoman.gateway.server.run import serve


def main() -> int:
    """Serve, as the words on the command line say."""
    parser = argparse.ArgumentParser(prog="dragoman.gateway")
    parser.add_argument("config", nargs="?", type=Path)
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--no-auth", action="store_true")
    told = parser.parse_args()
    try:
        serve(told.config, host=told.host, port=told.port, workers=told.workers, no_auth=told.no_auth)
    except SetupError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command's own voice
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
