"""The name of a command in, its parser out: every word that the command line takes, in one place."""

from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable
from typing import NamedTuple, NoReturn

DIALECTS = ("openai_chat", "openai_responses", "anthropic", "google", "ollama", "native", "canonical")
SHELLS = ("bash", "zsh", "fish")
EFFORTS = ("none", "minimal", "low", "medium", "high", "max")


class UsageError(Exception):
    """The words of the command line mean nothing: exit code 2.

    >>> str(UsageError("no command 'chatt'"))
    "no command 'chatt'"
    """


class Parser(ArgumentParser):
    """A parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        """Say it, and where to look."""
        raise UsageError(f"{self.prog.removeprefix('dragoman ')}: {message}; see {self.prog} --help")


class Command(NamedTuple):
    """One command: its module, what it does, what it takes, and how it is used."""

    module: str
    help: str
    add: Callable[[ArgumentParser], None]
    examples: tuple[str, ...]


def parser_of(command: str, /) -> Parser:
    """The parser of one command.

    >>> parser_of("chat").parse_args(["-m", "demo/any", "hello"]).prompt
    'hello'
    """
    known = COMMANDS[command]
    parser = Parser(
        prog=f"dragoman {command}",
        description=known.help + ".",
        epilog="examples:\n" + "\n".join(f"  {line}" for line in known.examples),
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=command)
    known.add(parser)
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.add_argument("--config", metavar="FILE", help="a dragoman.toml (default: DRAGOMAN_CONFIG)")
    parser.add_argument("--debug", action="store_true", help="show the whole trace of an error")
    return parser


def overview() -> str:
    """What there is.

    >>> overview().splitlines()[0]
    'usage: dragoman COMMAND [WORDS]'
    """
    lines = [f"  {name:<11} {command.help}" for name, command in COMMANDS.items()]
    return "\n".join(
        (
            "usage: dragoman COMMAND [WORDS]",
            "",
            *lines,
            "",
            "dragoman COMMAND --help tells more; dragoman --version. A SPEC is a model or a chain of them:",
            "provider/model, an alias, or several of these with commas. Without -m it is DRAGOMAN_MODEL, else a model",
            "of the first provider whose key is set, else demo/any, which needs neither key nor network.",
            "",
        )
    )


# What several commands take -------------------------------------------------------------------------------------------


def _model(parser: ArgumentParser) -> None:
    parser.add_argument("-m", "--model", metavar="SPEC", help="who answers: provider/model, an alias, or a chain")


def _asked(parser: ArgumentParser) -> None:
    parser.add_argument("-s", "--system", metavar="TEXT", help="the system prompt")
    parser.add_argument("--schema", metavar="FILE", help="a JSON Schema that the answer must satisfy")
    parser.add_argument("--temperature", type=float, metavar="T")
    parser.add_argument("--max-tokens", type=_count, metavar="N")
    parser.add_argument("--reasoning", choices=EFFORTS, help="how hard to think")
    parser.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="for one whole answer (default: 600)")


def _gateway(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--gateway", metavar="URL", help="a running gateway (default: DRAGOMAN_GATEWAY, else http://127.0.0.1:8080)"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def _days(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _MAX_DAYS:
        raise ArgumentTypeError(f"must be 1 to {_MAX_DAYS} days, got {text!r}")
    return int(text)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is no number")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise ArgumentTypeError(f"{text!r} is no port; there are 0 to {_LAST_PORT}")
    return int(text)


_MAX_DAYS = 3660
_LAST_PORT = 65535


def _name(text: str) -> str:
    if not text.strip():
        raise ArgumentTypeError("it is empty")
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def _rate(text: str) -> float:
    """Requests a second."""
    number, _, unit = text.partition("/")
    if not number.isdecimal() or not int(number) or (unit or "s") not in _UNITS:
        raise ArgumentTypeError(f"{text!r} is no rate; write 10/s, 600/m or 5000/h")
    return int(number) / _UNITS[unit or "s"]


# The commands ---------------------------------------------------------------------------------------------------------


def _chat(parser: ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="?", help="what to ask; with piped text, what to do with it")
    _model(parser)
    _asked(parser)
    parser.add_argument(
        "-i", "--image", type=_name, action="append", default=[], metavar="FILE", help="show a picture; again for more"
    )
    parser.add_argument(
        "-d", "--document", type=_name, action="append", default=[], metavar="FILE", help="give a PDF or a text file"
    )
    parser.add_argument(
        "--tool", action="append", default=[], metavar="MODULE:FUNCTION", help="a function that the model may call"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="the answer and nothing else")


def _serve(parser: ArgumentParser) -> None:
    parser.add_argument("--host", default=None, help="where to listen")
    parser.add_argument("--port", type=_port, default=None)
    parser.add_argument("--workers", type=_count, default=None, metavar="N")
    parser.add_argument("--no-auth", action="store_true", help="answer everybody, also beyond this machine")


def _translate(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", default="-", help="a request, a response or a recorded stream (default: stdin)"
    )
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        choices=DIALECTS,
        metavar="DIALECT",
        help="its dialect: " + ", ".join(DIALECTS),
    )
    parser.add_argument(
        "--to", dest="target", required=True, choices=DIALECTS, metavar="DIALECT", help="the dialect to say it in"
    )
    parser.add_argument(
        "--kind", choices=("request", "response", "stream", "error"), help="what it is (default: told by its shape)"
    )
    parser.add_argument(
        "--status", type=_number, default=400, metavar="N", help="the HTTP status of an error (default: 400)"
    )
    parser.add_argument(
        "--stream", action="store_true", help="the request asks for a stream, where its dialect says so in the URL"
    )
    parser.add_argument("-m", "--model", metavar="SPEC", help="a target whose limits and habits a request is fitted to")


def _explain(parser: ArgumentParser) -> None:
    parser.add_argument("spec", nargs="?", help="provider/model, an alias, or a chain (default: what -m of chat is)")
    parser.add_argument("--request", metavar="FILE", help="a request: shows the exact bytes that each target would get")
    parser.add_argument(
        "--from",
        dest="source",
        choices=DIALECTS,
        default="canonical",
        metavar="DIALECT",
        help="the dialect of that request (default: canonical)",
    )
    parser.add_argument("--gateway", metavar="URL", help="a running gateway that is asked how the targets are")


def _models(parser: ArgumentParser) -> None:
    parser.add_argument("provider", nargs="?", help="one provider (default: all whose key is set)")


def _batch(parser: ArgumentParser) -> None:
    parser.add_argument(
        "input", metavar="IN.jsonl", help='rows {"id", "prompt"}, {"id", "messages"}, or OpenAI batch rows; - is stdin'
    )
    parser.add_argument(
        "output", metavar="OUT.jsonl", help="one row an id; what is in it is not asked again; - is stdout"
    )
    _model(parser)
    _asked(parser)
    parser.add_argument(
        "-c", "--concurrency", type=_count, default=8, metavar="N", help="how many at a time (default: 8)"
    )
    parser.add_argument("--rate", type=_rate, metavar="N/s", help="at most so many a second, minute (/m) or hour (/h)")
    parser.add_argument(
        "--retries",
        type=_number,
        default=4,
        metavar="N",
        help="how often a row is asked again after a passing fault (default: 4)",
    )
    parser.add_argument("--retry-errors", action="store_true", help="ask again what the output has as an error")
    parser.add_argument("--keep-going", action="store_true", help="go on when many rows in a row have failed")
    parser.add_argument("--ray", nargs="?", const="", metavar="ADDRESS", help="ask from all machines of a Ray cluster")
    parser.add_argument("-q", "--quiet", action="store_true", help="nothing on stderr but errors")


def _doctor(parser: ArgumentParser) -> None:
    parser.add_argument("--online", action="store_true", help="also ask each provider whose key is set")


def _keys(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("new",))
    parser.add_argument("name", type=_name, help="the id of the key, for example the client's name")


def _usage(parser: ArgumentParser) -> None:
    parser.add_argument("--days", type=_days, default=30, metavar="N", help="the last N days (default: 30)")


def _targets(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("disable", "enable"))
    parser.add_argument("target", type=_name, help="provider/model")
    parser.add_argument(
        "--seconds", type=_seconds, metavar="N", help="how long the target stays disabled (default: 300)"
    )


def _completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS)


def _nothing(_parser: ArgumentParser) -> None:
    """What a command takes that takes nothing of its own."""


COMMANDS = {
    "chat": Command(
        "chat",
        "Ask a model, or talk with it",
        _chat,
        (
            'dragoman chat "hello"',
            'cat notes.txt | dragoman chat -m groq/llama-3.3-70b-versatile "Three lines of this"',
            "dragoman chat -m anthropic/claude-sonnet-5,demo/any",
        ),
    ),
    "batch": Command(
        "batch",
        "Ask thousands of questions from a file; may be stopped and run again",
        _batch,
        ("dragoman batch in.jsonl out.jsonl -m demo/any -c 32",),
    ),
    "translate": Command(
        "translate",
        "Say a request, a response or a recorded stream in another dialect, offline",
        _translate,
        ("dragoman translate --from openai_chat --to anthropic request.json",),
    ),
    "explain": Command(
        "explain",
        "How a spec resolves, and what each target would get",
        _explain,
        (
            "dragoman explain groq/llama-3.3-70b-versatile,demo/any",
            "dragoman explain demo/any --request request.json --from openai_chat",
        ),
    ),
    "providers": Command(
        "listings", "The providers that are known, and whose key is set", _nothing, ("dragoman providers",)
    ),
    "models": Command("listings", "The models that a provider lists", _models, ("dragoman models demo",)),
    "doctor": Command("doctor", "Check the set-up, and say what to do", _doctor, ("dragoman doctor --online",)),
    "serve": Command(
        "serve", "The gateway: one server in front of all providers", _serve, ("dragoman serve --port 8080",)
    ),
    "keys": Command("keys", "Create an API key for a client of a gateway", _keys, ("dragoman keys new alice",)),
    "usage": Command(
        "usage", "Requests, tokens and costs of a gateway, by day, key and target", _usage, ("dragoman usage",)
    ),
    "health": Command("health", "The targets of a running gateway and their state", _gateway, ("dragoman health",)),
    "targets": Command(
        "targets",
        "Disable or enable a target of a gateway",
        _targets,
        (
            "dragoman targets disable groq/llama-3.3-70b-versatile --seconds 600",
            "dragoman targets enable groq/llama-3.3-70b-versatile",
        ),
    ),
    "completion": Command(
        "completion", "A completion script for your shell", _completion, ('eval "$(dragoman completion bash)"',)
    ),
}
