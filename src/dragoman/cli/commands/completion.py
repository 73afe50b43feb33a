"""`dragoman completion`: print a completion script, generated from the argument parsers."""

from argparse import Action, Namespace
from collections.abc import Iterable

from dragoman.cli import terminal
from dragoman.cli.parser import COMMANDS, parser_of


def run(arguments: Namespace, /) -> int:
    """Print the script for a shell."""
    terminal.write(_SCRIPTS[arguments.shell]())
    return 0


def _actions(command: str) -> list[Action]:
    return parser_of(command)._actions  # noqa: SLF001 - argparse has no public list of actions


def _options(command: str) -> list[str]:
    return [option for action in _actions(command) for option in action.option_strings]


def _choices(command: str) -> Iterable[tuple[list[str], list[str]]]:
    """Each argument that has choices: its option strings (none if it is positional), and the choices."""
    for action in _actions(command):
        if action.choices is not None:
            yield list(action.option_strings), [str(choice) for choice in action.choices]


def _bash() -> str:
    cases: list[str] = []
    for command in COMMANDS:
        words = _options(command)
        for options, choices in _choices(command):
            if options:
                pattern = "|".join(f"{command}:{option}" for option in options)
                cases.append(f'    {pattern}) COMPREPLY=($(compgen -W "{" ".join(choices)}" -- "$word")); return ;;')
            else:
                words += choices
        cases.append(f'    {command}:*) words="{" ".join(words)}" ;;')
    return f"""\
# dragoman completion bash: eval "$(dragoman completion bash)"
_dragoman() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(COMMANDS)}" -- "$word")); return
  fi
  case "${{COMP_WORDS[1]}}:$before" in
{chr(10).join(cases)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _dragoman dragoman
"""


def _zsh() -> str:
    commands = "\n".join(f"    '{name}:{_plain(command.help)}'" for name, command in COMMANDS.items())
    cases = "\n".join(f"    {command}) _arguments {_zsh_arguments(command)} ;;" for command in COMMANDS)
    return f"""\
#compdef dragoman
# dragoman completion zsh: source <(dragoman completion zsh)
_dragoman() {{
  local -a commands=(
{commands}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command="$words[2]"
  shift words
  (( CURRENT-- ))
  case "$command" in
{cases}
  esac
}}
compdef _dragoman dragoman
"""


def _zsh_arguments(command: str) -> str:
    specs: list[str] = []
    for action in _actions(command):
        values = f"({' '.join(map(str, action.choices))})" if action.choices is not None else "_files"
        for option in action.option_strings:
            value = "" if action.nargs == 0 else f":{action.dest}:{values}"
            specs.append(f"'{option}[{_plain(action.help or action.dest)}]{value}'")
        if not action.option_strings:
            specs.append(f"'*:{action.dest}:{values}'")
    return " ".join(specs)


def _fish() -> str:
    lines = ["# dragoman completion fish: dragoman completion fish | source"]
    for name, command in COMMANDS.items():
        lines.append(f"complete -c dragoman -n __fish_use_subcommand -f -a {name} -d '{_plain(command.help)}'")
        for action in _actions(name):
            short = "".join(f" -s {option[1:]}" for option in action.option_strings if not option.startswith("--"))
            long = "".join(f" -l {option[2:]}" for option in action.option_strings if option.startswith("--"))
            requires = " -r" if action.option_strings and action.nargs != 0 else ""
            words = f" -a '{' '.join(map(str, action.choices))}'" if action.choices is not None else ""
            if action.option_strings or words:
                help = _plain(action.help or action.dest)
                condition = f"-n '__fish_seen_subcommand_from {name}'"
                lines.append(f"complete -c dragoman {condition}{short}{long}{requires}{words} -d '{help}'")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """The text without characters that are special to a shell."""
    return "".join(" " if letter in "'\"`$\\:[]{}" else letter for letter in text)


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
