import shutil
import subprocess

import pytest

from dragoman.cli.parser import COMMANDS, SHELLS, parser_of
from tests.support.cli import dragoman


def complete(*words: str) -> list[str]:
    """What bash offers for the last word."""
    script = dragoman("completion", "bash").out
    line = " ".join(f"'{word}'" for word in words)
    code = f'{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _dragoman; printf "%s\\n" "${{COMPREPLY[@]}}"'
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    return subprocess.run([bash, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes_commands() -> None:
    assert complete("dragoman", "") == list(COMMANDS)
    assert complete("dragoman", "tr") == ["translate"]


def test_bash_completes_options_and_their_words() -> None:
    assert complete("dragoman", "chat", "--sy") == ["--system"]
    assert complete("dragoman", "translate", "--to", "oll") == ["ollama"]
    assert complete("dragoman", "completion", "z") == ["zsh"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_option_of_every_command_is_in_the_script(shell: str) -> None:
    script = dragoman("completion", shell).out
    for command in COMMANDS:
        assert command in script
        for action in parser_of(command)._actions:
            for option in action.option_strings:
                assert (
                    f"-l {option[2:]}" if shell == "fish" and option.startswith("--") else option.lstrip("-")
                ) in script


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_reads_its_script(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell}")
    script = dragoman("completion", shell).out
    subprocess.run([program, "-n"], input=script, text=True, check=True)
