"""What holds for every command: exit codes, one-line errors, help, encodings, closed pipes, interrupts."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.cli.parser import COMMANDS, DIALECTS, parser_of
from dragoman.testing import Server, Silence
from dragoman.wires import NAMES
from tests.cli.executable import COMMAND, dragoman, environment


def test_without_words_it_says_what_there_is() -> None:
    done = dragoman()
    assert (done.code, done.err) == (0, "")
    assert all(f"  {name} " in done.out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: dragoman {command}")
    assert f"examples:\n  {COMMANDS[command].examples[0]}" in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_json_and_debug(command: str) -> None:
    options = parser_of(command).format_help()
    assert "--json" in options
    assert "--debug" in options


def test_help_of_a_command_has_two_spellings(capsys: pytest.CaptureFixture[str]) -> None:
    main(["help", "chat"])
    assert capsys.readouterr().out.startswith("usage: dragoman chat")


def test_the_version_is_told() -> None:
    assert dragoman("--version").out.startswith("dragoman 0.")


def test_the_dialects_are_the_wires_and_canonical() -> None:
    assert set(DIALECTS) == {*NAMES, "canonical"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("chatt",), "dragoman: no command 'chatt'; did you mean 'chat'?; dragoman --help lists them"),
        (("chat", "--max-tokens", "none"), "dragoman: chat: argument --max-tokens: 'none' is no number of at least 1"),
        (("translate", "--from", "latin"), "dragoman: translate: "),
        (
            ("batch", "in"),
            "dragoman: batch: the following arguments are required: OUT.jsonl; see dragoman batch --help",
        ),
        (("chat",), "dragoman: chat: nothing is asked; give a prompt, or pipe one in"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(words: tuple[str, ...], said: str) -> None:
    done = dragoman(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(said)
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("chat", "-m", "grok/x", "hi"), "dragoman: no provider 'grok'"),
        (("chat", "-m", "groq/x", "hi"), "dragoman: AuthFailed: no target answered: groq/x failed ("),
        (("chat", "-i", "nowhere.png", "hi"), "dragoman: nowhere.png: No such file or directory"),
        (("explain", "x", "--config", "nowhere.toml"), "dragoman: nowhere.toml: No such file or directory"),
    ],
)
def test_a_failure_is_one_line_and_exit_code_1(words: tuple[str, ...], said: str) -> None:
    done = dragoman(*words)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(said)
    assert done.err.count("\n") == 1


def test_a_failure_is_a_value_where_json_is_wanted() -> None:
    done = dragoman("chat", "--json", "-m", "demo/overloaded", "hi")
    assert done.code == 1
    error = json.loads(done.out)["error"]
    assert (error["kind"], error["status"]) == ("ChainExhausted", 503)


def test_debug_shows_the_trace() -> None:
    done = dragoman("chat", "--debug", "-m", "grok/x", "hi")
    assert done.code == 1
    assert "Traceback" in done.err


def test_no_key_is_ever_shown() -> None:
    key = "sk-test-0123456789abcdef"
    with Server(repeat=True) as server:
        url = f"http://127.0.0.1:{server.port}/v1?key={key}"
        for words in (("explain", "openai/x"), ("chat", "-m", "openai/x", "hi"), ("providers",), ("doctor",)):
            done = dragoman(*words, OPENAI_API_KEY=key, OPENAI_BASE_URL=url, LLM_OWN=f"openai://{key}@host.invalid")
            assert key not in done.out + done.err


def test_utf8_whatever_the_locale() -> None:
    done = dragoman("chat", "-m", "demo/any", "Où est-ce?", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.out == "You said “Où est-ce?”, which is 2 words.\n"


def test_bytes_that_are_no_utf8_are_read_all_the_same() -> None:
    assert dragoman("chat", "-m", "demo/any", stdin=b"caf\xe9 is it?").code == 0


def test_a_closed_pipe_is_no_trace() -> None:
    with subprocess.Popen(
        [*COMMAND, "providers"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
    assert (process.returncode, err) == (141, b"")


def test_an_interrupt_is_130_and_no_trace() -> None:
    with Server(Silence()) as server:
        with subprocess.Popen(
            [*COMMAND, "chat", "-m", "server/m", "hi"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(LLM_SERVER=f"vllm+http://127.0.0.1:{server.port}/v1"),
        ) as process:
            assert server.asked.acquire(timeout=60)
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            err = process.stderr.read()
        assert server.left.acquire(timeout=60)
    assert (process.returncode, err) == (130, b"")


def test_what_nobody_expected_is_one_line_too(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_bytes(b"\xff\xfe")
    done = dragoman("explain", "--config", tmp_path / "broken.toml")
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
