"""Lines that somebody types in, answers out, until they leave: with a memory, and a few words for the command line."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dragoman.cli import terminal as screen
from dragoman.cli.commands.chat import answer
from dragoman.cli.defaults import check_answer
from dragoman.cli.input_files import without_mark
from dragoman.cli.translation import load_all
from dragoman.errors import DragomanError, SetupError
from dragoman.models import CallOptions, Model
from dragoman.registry import Registry
from dragoman.types import Message, Part, Request, dump, user

PROMPT = "> "
MAX_HISTORY = 1000


class Conversation:
    """One conversation: who answers, and what was said.

    >>> from dragoman import Registry
    >>> registry = Registry(env={})
    >>> Conversation(registry, registry.model("demo/any"), {}, quiet=True).hear("Is it so?")
    You said “Is it so?”, which is 3 words.
    True
    """

    def __init__(
        self,
        registry: Registry,
        model: Model,
        asked: CallOptions,
        /,
        *,
        tools: Sequence[Callable[..., Any]] = (),
        files: Sequence[Part] = (),
        quiet: bool,
    ) -> None:
        self._registry = registry
        self._model = model
        self._asked = asked.copy()
        self._tools = tools
        self._files = files
        """What goes with the next question."""
        self._quiet = quiet
        self._messages: list[Message] = []
        self._commands: dict[str, tuple[str, Callable[[str], None]]] = {
            "/model": ("SPEC  who answers from now on", self._choose),
            "/new": ("      forget what was said", self._forget),
            "/save": ("FILE  write the conversation to a file", self._save),
            "/load": ("FILE  go on with a saved conversation", self._load),
            "/help": ("      this", self._help),
        }

    def run(self) -> int:
        """Listen until the end of the file or /quit."""
        history = _open_history()
        screen.note(f"{self._model.spec} answers. /help lists the commands, /quit or Ctrl-D leaves.")
        if self._files:
            count = len(self._files)
            screen.note(f"{count} {'file goes' if count == 1 else 'files go'} with what is said first")
        try:
            while self._listen():
                continue
        finally:
            history()
        return 0

    def _listen(self) -> bool:
        try:
            line = input(PROMPT)
        except EOFError:
            screen.write("\n")
            return False
        except KeyboardInterrupt:
            screen.write("\n")
            return True
        return self.hear(line)

    def hear(self, line: str, /) -> bool:
        """One line; whether another may follow."""
        word, _, rest = line.strip().partition(" ")
        if word in ("/quit", "/exit"):
            return False
        try:
            if line.startswith("/"):
                self._obey(word, rest.strip())
            elif line.strip():
                self._ask(line.strip())
        except KeyboardInterrupt:
            screen.note("stopped; that was not said", style="yellow")
        except (DragomanError, SetupError, OSError) as error:
            screen.fail(screen.told(error))
        return True

    def _ask(self, text: str) -> None:
        messages = (*self._messages, user(*self._files, text))
        said = answer(self._model, messages, self._asked, tools=self._tools, shown="answer" if self._quiet else "all")
        self._messages, self._files = list(said.messages), ()
        if not self._quiet:
            screen.note_receipt(said.response)
        check_answer(said.response.text, self._asked.get("schema"))

    # Commands --------------------------------------------------------------------------------------------------------

    def _obey(self, word: str, rest: str) -> None:
        if word not in self._commands:
            screen.fail(f"no command {word}; /help lists them; put a blank before what shall be said")
            return
        self._commands[word][1](rest)

    def _choose(self, spec: str) -> None:
        if spec:
            self._model = self._registry.model(spec)
        screen.note(f"{self._model.spec} answers")

    def _forget(self, _rest: str) -> None:
        self._messages, self._files = [], ()
        screen.note("forgotten")

    def _save(self, path: str) -> None:
        if not path:
            screen.fail("/save to where? write /save FILE")
            return
        said = Request(messages=tuple(self._messages), system=self._asked.get("system"))
        Path(path).expanduser().write_bytes(dump(said) + b"\n")
        screen.note(f"{len(self._messages)} messages are in {path}")

    def _load(self, path: str) -> None:
        if not path:
            screen.fail("/load from where? write /load FILE")
            return
        said = load_all(without_mark(Path(path).expanduser().read_bytes()), Request)
        self._messages = list(said.messages)
        self._asked["system"] = said.system
        screen.note(f"{len(self._messages)} messages are loaded")

    def _help(self, _rest: str) -> None:
        for word, (does, _) in self._commands.items():
            screen.note(f"{word:<7}{does}")
        screen.note("/quit         leave; Ctrl-C stops an answer")


def _open_history() -> Callable[[], None]:
    """Read the lines of earlier conversations, where readline is there; what is given back writes them."""
    if not sys.stdin.isatty():
        return lambda: None
    try:
        import readline
    except ImportError:
        return lambda: None
    import os

    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "dragoman"
    path = folder / "history"
    # Python turns it off: several lines that are pasted are one question.
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
