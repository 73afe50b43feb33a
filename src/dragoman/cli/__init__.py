"""The command line. Exit codes: 0 success, 1 failure, 2 usage error.

Each command is a module of `commands/` with a function `run`. It is imported when the command runs, so that
`dragoman --help` starts fast.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from dragoman.cli import terminal
from dragoman.cli.parser import COMMANDS, UsageError, overview, parser_of
from dragoman.errors import DragomanError, SetupError

FAILURE = 1
USAGE_ERROR = 2
INTERRUPTED = 130
CLOSED_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    >>> main(["chat", "--quiet", "-m", "demo/any", "Is it so?"])
    You said “Is it so?”, which is 3 words.
    0
    """
    args = list(sys.argv[1:] if argv is None else argv)
    if not terminal.open_standard_streams():
        terminal.fail("stdout is closed")
        return FAILURE
    terminal.use_utf8()
    if argv is None and "--debug" not in args:
        sys.excepthook = lambda kind, error, _: terminal.fail(f"{kind.__name__}: {error}; --debug shows the traceback")
    try:
        return _flush(_run(args))
    except BrokenPipeError:
        terminal.discard_stdout()
        return CLOSED_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED


def _flush(code: int) -> int:
    """Flush stdout; the exit code is 1 if that fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        terminal.discard_stdout()
        if code:  # the first error is already on stderr
            return code
        terminal.fail(f"stdout: {terminal.describe_error(error)}")
        return FAILURE
    return code


def _run(args: list[str]) -> int:
    first, *rest = args or ["--help"]
    if first in ("-h", "--help", "help"):
        if rest and rest[0] not in COMMANDS:
            return _fail(error := _unknown_command(rest[0]), str(error), as_json=False)
        terminal.write(parser_of(rest[0]).format_help() if rest else overview())
        return 0
    if first in ("-V", "--version"):
        from importlib.metadata import version

        terminal.write(f"dragoman {version('dragoman')}\n")
        return 0
    try:
        arguments = _parse(first, rest)
    except UsageError as error:
        return _fail(error, str(error), as_json="--json" in args)
    except SystemExit:  # argparse printed its help
        return 0
    return _perform(first, arguments)


def _parse(command: str, args: list[str]) -> Namespace:
    if command not in COMMANDS:
        raise _unknown_command(command)
    return parser_of(command).parse_args(args)


def _unknown_command(command: str) -> UsageError:
    from dragoman.targets.dsn import did_you_mean

    hint = did_you_mean(command, COMMANDS) or "; see dragoman --help"
    return UsageError(f"unknown command {command!r}{hint}")


def _perform(command: str, arguments: Namespace) -> int:
    try:
        code: int = import_module(f"dragoman.cli.commands.{COMMANDS[command].module}").run(arguments)
    except UsageError as error:
        return _fail(error, f"{command}: {error}", as_json=arguments.json)
    except BrokenPipeError:
        raise
    except (DragomanError, SetupError, OSError) as error:
        if arguments.debug:
            raise
        return _fail(error, terminal.describe_error(error), as_json=arguments.json)
    return code


def _fail(error: Exception, message: str, /, *, as_json: bool) -> int:
    terminal.fail(message)
    if as_json:
        with suppress(OSError):  # reported when stdout is flushed
            terminal.write_json({"error": terminal.error_record(error)})
    return USAGE_ERROR if isinstance(error, UsageError) else FAILURE
