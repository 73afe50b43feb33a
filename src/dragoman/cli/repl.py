"""An interactive conversation with a model: remembers messages, and has a few commands that start with a slash."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dragoman.cli import terminal
from dragoman.cli.commands.chat import OutputLevel, answer
from dragoman.cli.translation import load_strict
from dragoman.engine.call_options import CallOptions
from dragoman.errors import DragomanError, SetupError
from dragoman.io.json_input import strip_bom
from dragoman.models import Model
from dragoman.registry import Registry
from dragoman.schema.check_answer import check_answer
from dragoman.types import Message, Part, Request, dump, user

PROMPT = "> "
MAX_HISTORY = 1000


class Conversation:
    """One conversation: the model that answers, and the messages so far.

    >>> from dragoman import Registry
    >>> registry = Registry(env={})
    >>> Conversation(registry, registry.model("demo/any"), {}, quiet=True).handle_line("Is it so?")
    You said “Is it so?”, which is 3 words.
    True
    """

    def __init__(
        self,
        registry: Registry,
        model: Model,
        options: CallOptions,
        /,
        *,
        tools: Sequence[Callable[..., Any]] = (),
        files: Sequence[Part] = (),
        quiet: bool,
    ) -> None:
        self._registry = registry
        self._model = model
        self._options = options.copy()
        self._tools = tools
        self._files = files
        """Sent with the next message."""
        self._quiet = quiet
        self._messages: list[Message] = []
        self._commands: dict[str, tuple[str, Callable[[str], None]]] = {
            "/model": ("SPEC  use another model", self._use_model),
            "/new": ("      start a new conversation", self._clear),
            "/save": ("FILE  save the conversation", self._save),
            "/load": ("FILE  continue a saved conversation", self._load),
            "/help": ("      show this list", self._help),
        }

    def run(self) -> int:
        """Read lines until end of file or /quit."""
        save_history = _open_history()
        terminal.note(f"model: {self._model.spec}. /help lists the commands, /quit or Ctrl-D ends.")
        if self._files:
            count = len(self._files)
            terminal.note(f"{count} {'file is' if count == 1 else 'files are'} sent with your first message")
        try:
            while self._read_line():
                continue
        finally:
            save_history()
        return 0

    def _read_line(self) -> bool:
        try:
            line = input(PROMPT)
        except EOFError:
            terminal.write("\n")
            return False
        except KeyboardInterrupt:
            terminal.write("\n")
            return True
        return self.handle_line(line)

    def handle_line(self, line: str, /) -> bool:
        """Run a command or send a message; return whether to read another line."""
        word, _, rest = line.strip().partition(" ")
        if word in ("/quit", "/exit"):
            return False
        try:
            if line.startswith("/"):
                self._run_command(word, rest.strip())
            elif line.strip():
                self._send(line.strip())
        except KeyboardInterrupt:
            terminal.note("stopped; this message is not part of the conversation", style="yellow")
        except (DragomanError, SetupError, OSError) as error:
            terminal.fail(terminal.describe_error(error))
        return True

    def _send(self, text: str) -> None:
        messages = (*self._messages, user(*self._files, text))
        verbosity: OutputLevel = "answer" if self._quiet else "all"
        turn = answer(self._model, messages, self._options, tools=self._tools, verbosity=verbosity)
        self._messages, self._files = list(turn.messages), ()
        if not self._quiet:
            terminal.note_response(turn.response)
        check_answer(turn.response.text, self._options.get("schema"))

    # Commands --------------------------------------------------------------------------------------------------------

    def _run_command(self, word: str, rest: str) -> None:
        if word not in self._commands:
            terminal.fail(f"unknown command {word}; /help lists the commands; start with a space to send it as text")
            return
        self._commands[word][1](rest)

    def _use_model(self, spec: str) -> None:
        if spec:
            self._model = self._registry.model(spec)
        terminal.note(f"model: {self._model.spec}")

    def _clear(self, _rest: str) -> None:
        self._messages, self._files = [], ()
        terminal.note("new conversation")

    def _save(self, path: str) -> None:
        if not path:
            terminal.fail("/save needs a file name: /save FILE")
            return
        system: Any = self._options.get("system")
        request = Request(messages=tuple(self._messages), system=system)
        Path(path).expanduser().write_bytes(dump(request) + b"\n")
        terminal.note(f"saved {len(self._messages)} messages to {path}")

    def _load(self, path: str) -> None:
        if not path:
            terminal.fail("/load needs a file name: /load FILE")
            return
        request = load_strict(strip_bom(Path(path).expanduser().read_bytes()), Request)
        self._messages = list(request.messages)
        self._options["system"] = request.system
        terminal.note(f"loaded {len(self._messages)} messages")

    def _help(self, _rest: str) -> None:
        for word, (help, _) in self._commands.items():
            terminal.note(f"{word:<7}{help}")
        terminal.note("/quit         end; Ctrl-C stops an answer")


def _open_history() -> Callable[[], None]:
    """Load the line history if readline is available; the returned function saves it."""
    if not sys.stdin.isatty():
        return lambda: None
    try:
        import readline
    except ImportError:
        return lambda: None
    import os

    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "dragoman"
    path = folder / "history"
    # Python turns this off. With it, several pasted lines are one message.
    readline.parse_and_bind("set enable-bracketed-paste on")
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(MAX_HISTORY)

    def write() -> None:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
            readline.write_history_file(path)

    return write
