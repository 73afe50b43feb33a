"""The argument parsers of all commands, in one place; a command's module is imported only when it runs."""

import os
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from typing import NamedTuple, NoReturn

DIALECTS = (
    "openai_chat",
    "openai_responses",
    "anthropic",
    "google",
    "google_interactions",
    "bedrock",
    "ollama",
    "native",
    "canonical",
)
SHELLS = ("bash", "zsh", "fish")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


class UsageError(Exception):
    """The command line is not valid: exit code 2."""


class Parser(ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        command = self.prog.removeprefix("dragoman ")
        if command == "chat" and message.startswith("unrecognized arguments: ") and " -" not in message:
            message += "; put the prompt in quotes"
        raise UsageError(f"{command}: {message}; see {self.prog} --help")


def config_path(arguments: Namespace, /) -> str | None:
    """The path from --config or DRAGOMAN_CONFIG."""
    path: str | None = arguments.config or os.environ.get("DRAGOMAN_CONFIG") or None
    return path


_READ_CONFIG_HERE = {"admin", "doctor", "health", "serve", "targets", "usage"}
"""Commands that also read the config of the current folder."""
_READ_NO_CONFIG = {"completion", "import-litellm", "keys"}
"""Commands that read no config; the option is accepted as that of every command, but not shown."""


class Command(NamedTuple):
    """One command: its module in `commands/`, its help, its arguments and examples."""

    module: str
    help: str
    add: Callable[[ArgumentParser], None]
    examples: tuple[str, ...]


def parser_of(command: str, /) -> Parser:
    """The parser of one command.

    >>> parser_of("chat").parse_args(["-m", "demo/any", "hello"]).prompt
    'hello'
    """
    record = COMMANDS[command]
    parser = Parser(
        prog=f"dragoman {command}",
        description=record.help + ".",
        epilog="examples:\n" + "\n".join(f"  {line}" for line in record.examples),
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=command)
    record.add(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    here = ", or ./dragoman.toml" if command in _READ_CONFIG_HERE else ""
    default = SUPPRESS if command in _READ_NO_CONFIG else f"config file (default: $DRAGOMAN_CONFIG{here})"
    parser.add_argument("--config", metavar="FILE", help=default)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def overview() -> str:
    """The help of `dragoman` without a command."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}} {command.help}" for name, command in COMMANDS.items()]
    return "\n".join(
        (
            "usage: dragoman COMMAND [OPTIONS]",
            "",
            *lines,
            "",
            "A SPEC names the model, or a chain of models with failover: provider/model, an",
            "alias, or several of these with commas. Without -m it is $DRAGOMAN_MODEL, or a",
            "model of the first provider whose key is set, or demo/any, which needs no key",
            "and no network.",
            "",
            "Exit codes: 0 success, 1 failure, 2 usage error, 130 after Ctrl-C.",
            "More: dragoman COMMAND --help, dragoman --version.",
            "",
        )
    )


# Shared arguments -----------------------------------------------------------------------------------------------------


def _model(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-m",
        "--model",
        type=_name,
        metavar="SPEC",
        help="provider/model, an alias, or a chain (default: see dragoman --help)",
    )


def _call_options(parser: ArgumentParser) -> None:
    parser.add_argument("-s", "--system", metavar="TEXT", help="system prompt")
    parser.add_argument("--schema", metavar="FILE", help="JSON Schema that the answer must match")
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="sampling temperature (default: that of the provider)"
    )
    parser.add_argument(
        "--max-tokens", type=_count, metavar="N", help="limit of output tokens (default: that of the model)"
    )
    parser.add_argument("--reasoning", choices=EFFORTS, help="reasoning effort (default: that of the model)")
    parser.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="limit for one answer (default: 600)")


def _gateway(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--gateway", metavar="URL", help="running gateway (default: $DRAGOMAN_GATEWAY, or the address in the config)"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"must be a number >= 1, got {text!r}")
    return int(text)


def _days(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _MAX_DAYS:
        raise ArgumentTypeError(f"must be a number from 1 to {_MAX_DAYS}, got {text!r}")
    return int(text)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"must be a number >= 0, got {text!r}")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _MAX_PORT:
        raise ArgumentTypeError(f"must be a port from 0 to {_MAX_PORT}, got {text!r}")
    return int(text)


_MAX_DAYS = 3660
_MAX_PORT = 65535


def _name(text: str) -> str:
    if not text.strip():
        raise ArgumentTypeError("must not be empty")
    return text


def _key_name(text: str) -> str:
    from dragoman.gateway.auth.api_keys import check_id

    try:
        return check_id(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ArgumentTypeError(f"must be a number of seconds > 0, got {text!r}")
    return seconds


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def _rate(text: str) -> float:
    """Requests per second."""
    number, _, unit = text.partition("/")
    if not number.isdecimal() or not int(number) or (unit or "s") not in _UNITS:
        raise ArgumentTypeError(f"must be a rate such as 10/s, 600/m or 5000/h, got {text!r}")
    return int(number) / _UNITS[unit or "s"]


# Commands -------------------------------------------------------------------------------------------------------------


def _chat(parser: ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="?", help="the message; piped text is put before it")
    _model(parser)
    _call_options(parser)
    parser.add_argument(
        "-i",
        "--image",
        type=_name,
        action="append",
        default=[],
        metavar="FILE",
        help="attach an image; may be repeated",
    )
    parser.add_argument(
        "-d",
        "--document",
        type=_name,
        action="append",
        default=[],
        metavar="FILE",
        help="attach a PDF, a text, an office file or a video; may be repeated",
    )
    parser.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="MODULE:FUNCTION",
        help="function that the model may call; may be repeated",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the answer")


def _serve(parser: ArgumentParser) -> None:
    parser.add_argument("--host", default=None, help="address to listen on (default: config or 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=None, help="port to listen on (default: config or 8080)")
    parser.add_argument("--workers", type=_count, default=None, metavar="N", help="processes (default: config or 1)")
    parser.add_argument("--no-auth", action="store_true", help="serve without API keys, also on public addresses")
    parser.add_argument(
        "--reload", action="store_true", help="replace the workers if a Python file or the config changes"
    )


def _translate(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", default="-", help="request, response, recorded stream or error (default: stdin)"
    )
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        choices=DIALECTS,
        metavar="DIALECT",
        help="dialect of the file: " + ", ".join(DIALECTS),
    )
    parser.add_argument(
        "--to", dest="target", required=True, choices=DIALECTS, metavar="DIALECT", help="dialect to translate to"
    )
    parser.add_argument(
        "--kind", choices=("request", "response", "stream", "error"), help="what the file is (default: detected)"
    )
    parser.add_argument(
        "--status", type=_number, default=400, metavar="N", help="HTTP status of an error (default: 400)"
    )
    parser.add_argument(
        "--stream", action="store_true", help="the request is for a stream (for dialects that say so in the URL)"
    )
    parser.add_argument("-m", "--model", metavar="SPEC", help="adapt the request to this target")


def _explain(parser: ArgumentParser) -> None:
    parser.add_argument("spec", nargs="?", help="provider/model, an alias, or a chain (default: as for chat)")
    parser.add_argument("--request", metavar="FILE", help="show the exact bytes of this request for each target")
    parser.add_argument(
        "--from",
        dest="source",
        choices=DIALECTS,
        default="canonical",
        metavar="DIALECT",
        help="dialect of the request (default: canonical)",
    )
    parser.add_argument("--gateway", metavar="URL", help="also show the health of the targets in this running gateway")


def _models(parser: ArgumentParser) -> None:
    parser.add_argument("provider", nargs="?", help="provider name (default: all whose key is set)")


def _batch(parser: ArgumentParser) -> None:
    parser.add_argument(
        "input", metavar="IN.jsonl", help='rows {"id", "prompt"}, {"id", "messages"}, or OpenAI batch rows; - for stdin'
    )
    parser.add_argument("output", metavar="OUT.jsonl", help="one row per id; rows it has are skipped; - for stdout")
    _model(parser)
    _call_options(parser)
    parser.add_argument(
        "-c", "--concurrency", type=_count, default=8, metavar="N", help="requests at a time (default: 8)"
    )
    parser.add_argument(
        "--rate", type=_rate, metavar="N/s", help="requests per second, minute (/m) or hour (/h) (default: no limit)"
    )
    parser.add_argument(
        "--retries",
        type=_number,
        default=4,
        metavar="N",
        help="retries of a row after a temporary error (default: 4)",
    )
    parser.add_argument("--retry-errors", action="store_true", help="retry the error rows of the output")
    parser.add_argument("--keep-going", action="store_true", help="continue after many consecutive failures")
    parser.add_argument(
        "--provider-batch", action="store_true", help="send the rows as batches of their provider, at half the price"
    )
    parser.add_argument(
        "--poll", type=_seconds, metavar="S", help="seconds between two checks of a provider's batch (default: 2 to 60)"
    )
    parser.add_argument(
        "--no-fallback", action="store_true", help="rows that the provider's batch did not answer become error rows"
    )
    parser.add_argument("--cancel", action="store_true", help="cancel the provider's batches, and write their answers")
    parser.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="use all machines of a Ray cluster (default address: $RAY_ADDRESS, or this machine)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="write only errors to stderr")


def _doctor(parser: ArgumentParser) -> None:
    parser.add_argument("--online", action="store_true", help="also call each provider whose key is set")


def _keys(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("new",), metavar="new", help="create a key")
    parser.add_argument("name", type=_key_name, metavar="NAME", help="the id of the key, for example the client's name")
    parser.add_argument(
        "--role", choices=("admin", "viewer"), help="what it may do in the admin API (default: nothing)"
    )


def _admin(parser: ArgumentParser) -> None:
    parser.add_argument(
        "kind",
        nargs="?",
        metavar="KIND",
        help="keys, teams, aliases, tiers, pools, providers, limits, usage, audit, targets, system or me (default: "
        "list all operations)",
    )
    parser.add_argument("action", nargs="?", metavar="ACTION", help="list, show, create, update, delete, …")
    parser.add_argument("words", nargs="*", metavar="NAME FIELD=VALUE", help="the name, and fields with their values")
    _gateway(parser)


def _import_litellm(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="config.yaml", help="the config of a LiteLLM proxy")
    parser.add_argument(
        "-o", "--output", default="dragoman.toml", metavar="FILE", help="file to write, or - (default: dragoman.toml)"
    )
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")


def _usage(parser: ArgumentParser) -> None:
    parser.add_argument("--days", type=_days, default=30, metavar="N", help="the last N days (default: 30)")


def _targets(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("disable", "enable"), metavar="disable|enable", help="what to do")
    parser.add_argument("target", type=_name, metavar="TARGET", help="provider/model")
    parser.add_argument(
        "--seconds", type=_seconds, metavar="N", help="how long the target stays disabled (default: 300)"
    )


def _completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell that you use")


def _nothing(_parser: ArgumentParser) -> None:
    """For commands without arguments of their own."""


COMMANDS = {
    "chat": Command(
        "chat",
        "Send a prompt to a model, or start a conversation",
        _chat,
        (
            'dragoman chat "hello"',
            'cat notes.txt | dragoman chat -m groq/llama-3.3-70b-versatile "Summarize this"',
            "dragoman chat -m anthropic/claude-sonnet-5,demo/any",
        ),
    ),
    "batch": Command(
        "batch",
        "Answer the rows of a JSONL file; safe to stop and run again",
        _batch,
        ("dragoman batch in.jsonl out.jsonl -m demo/any -c 32",),
    ),
    "translate": Command(
        "translate",
        "Translate a request, response or stream to another dialect",
        _translate,
        ("dragoman translate --from openai_chat --to anthropic request.json",),
    ),
    "explain": Command(
        "explain",
        "Show how a spec resolves and what each target would get",
        _explain,
        (
            "dragoman explain groq/llama-3.3-70b-versatile,demo/any",
            "dragoman explain demo/any --request request.json --from openai_chat",
        ),
    ),
    "providers": Command(
        "providers", "List the known providers and whether their key is set", _nothing, ("dragoman providers",)
    ),
    "models": Command("models", "List the models of a provider", _models, ("dragoman models demo",)),
    "doctor": Command("doctor", "Check the setup and say what to fix", _doctor, ("dragoman doctor --online",)),
    "serve": Command(
        "serve", "Run the gateway: one server in front of all providers", _serve, ("dragoman serve --port 8080",)
    ),
    "keys": Command("keys", "Create an API key for a client of a gateway", _keys, ("dragoman keys new alice",)),
    "admin": Command(
        "admin",
        "Manage a running gateway: keys, teams, models, usage, audit log",
        _admin,
        (
            "dragoman admin teams create research budgets=100/month",
            "dragoman admin keys create alice team=research requests_per_minute=60",
            "dragoman admin keys rotate alice overlap=3600",
            "dragoman admin providers set box like=vllm base_url=http://box:8000/v1",
            "dragoman admin usage sums by=day group=team,model since=30d",
        ),
    ),
    "import-litellm": Command(
        "import_litellm",
        "Write a dragoman.toml from the config of a LiteLLM proxy",
        _import_litellm,
        ("dragoman import-litellm config.yaml",),
    ),
    "usage": Command("usage", "Show the requests, tokens and costs of a gateway", _usage, ("dragoman usage",)),
    "health": Command(
        "health", "Show the targets of a running gateway and their state", _gateway, ("dragoman health",)
    ),
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
        "completion", "Print a completion script for your shell", _completion, ('eval "$(dragoman completion bash)"',)
    ),
}
