"""`dragoman serve`: run the gateway."""

from argparse import Namespace
from pathlib import Path

from dragoman.cli.parser import config_path


def run(arguments: Namespace, /) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    from dragoman.gateway.server.run import serve

    path = config_path(arguments)
    serve(
        None if path is None else Path(path),
        host=arguments.host,
        port=arguments.port,
        workers=arguments.workers,
        no_auth=arguments.no_auth,
        reload=arguments.reload,
    )
    return 0
