"""The words of a command line in, an exit code out: 0, 1 where it failed, 2 where the words were wrong.

Each command is a module with `run`, imported when it is chosen.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from dragoman.cli import terminal as screen
from dragoman.cli.parser import COMMANDS, UsageError, overview, parser_of
from dragoman.errors import DragomanError, SetupError

FAILED = 1
MISUSED = 2
INTERRUPTED = 130
CLOSED_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    >>> main(["chat", "--quiet", "-m", "demo/any", "Is it so?"])
    You said “Is it so?”, which is 3 words.
    0
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if not screen.open_all():
        screen.fail("stdout is closed")
        return FAILED
    screen.speak_utf8()
    if argv is None and "--debug" not in words:
        sys.excepthook = lambda kind, error, _: screen.fail(f"{kind.__name__}: {error}; --debug shows where")
    try:
        return _flushed(_run(words))
    except BrokenPipeError:
        screen.hush()
        return CLOSED_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED


def _flushed(code: int) -> int:
    """The exit code, once all is written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        screen.hush()
        if code:  # it was told why
            return code
        screen.fail(f"stdout: {screen.told(error)}")
        return FAILED
    return code


def _run(words: list[str]) -> int:
    first, *rest = words or ["--help"]
    if first in ("-h", "--help", "help"):
        screen.write(parser_of(rest[0]).format_help() if rest and rest[0] in COMMANDS else overview())
        return 0
    if first in ("-V", "--version"):
        from importlib.metadata import version

        screen.write(f"dragoman {version('dragoman')}\n")
        return 0
    try:
        arguments = _read(first, rest)
    except UsageError as error:
        return _fail(error, str(error), as_json="--json" in words)
    except SystemExit:  # argparse has shown its help
        return 0
    return _perform(first, arguments)


def _read(command: str, words: list[str]) -> Namespace:
    if command not in COMMANDS:
        from dragoman.targets.dsn import did_you_mean

        raise UsageError(f"no command {command!r}{did_you_mean(command, COMMANDS)}; dragoman --help lists them")
    return parser_of(command).parse_args(words)


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
        return _fail(error, screen.told(error), as_json=arguments.json)
    return code


def _fail(error: Exception, told: str, /, *, as_json: bool) -> int:
    screen.fail(told)
    if as_json:
        with suppress(OSError):  # told again when the rest is flushed
            screen.write_json({"error": screen.facts(error)})
    return MISUSED if isinstance(error, UsageError) else FAILED
