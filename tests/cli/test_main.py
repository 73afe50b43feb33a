"""Rules for every command: exit codes, one-line errors, help, encodings, closed pipes, interrupts."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.cli.parser import COMMANDS, DIALECTS, parser_of
from dragoman.testing import FaultyServer, NoResponse
from dragoman.wires import NAMES
from tests.support.cli import COMMAND, dragoman, environment


def test_without_arguments_it_lists_the_commands() -> None:
    done = dragoman()
    assert (done.code, done.err) == (0, "")
    assert all(f"  {name} " in done.out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: dragoman {command}")
    assert f"examples:\n  {COMMANDS[command].examples[0]}" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_json_and_debug(command: str) -> None:
    options = parser_of(command).format_help()
    assert "--json" in options
    assert "--debug" in options


def test_help_of_a_command_has_two_spellings(capsys: pytest.CaptureFixture[str]) -> None:
    main(["help", "chat"])
    assert capsys.readouterr().out.startswith("usage: dragoman chat")


def test_version() -> None:
    assert dragoman("--version").out.startswith("dragoman 0.")


def test_the_dialects_are_the_wires_and_canonical() -> None:
    assert set(DIALECTS) == {*NAMES, "canonical"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("chatt",), "dragoman: unknown command 'chatt'; did you mean 'chat'?"),
        (("chat", "--max-tokens", "none"), "dragoman: chat: argument --max-tokens: must be a number >= 1, got 'none'"),
        (("translate", "--from", "latin"), "dragoman: translate: "),
        (
            ("batch", "in"),
            "dragoman: batch: the following arguments are required: OUT.jsonl; see dragoman batch --help",
        ),
        (("chat",), "dragoman: chat: a prompt is required; pass it as an argument or through a pipe"),
        (("chat", "Is", "it", "so?"), "dragoman: chat: unrecognized arguments: it so?; put the prompt in quotes"),
        (("chat", "-m", "", "hi"), "dragoman: chat: argument -m/--model: must not be empty"),
        (("help", "caht"), "dragoman: unknown command 'caht'; did you mean 'chat'?"),
        (("keys",), "dragoman: keys: the following arguments are required: new, NAME; see dragoman keys --help"),
        (
            ("chat", "-m", "demo/any", "-i", __file__, "hi"),
            f"dragoman: chat: --image must be an image file, got {__file__}: an image is of an unknown type",
        ),
    ],
)
def test_a_usage_error_is_one_line_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    done = dragoman(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(message)
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("chat", "-m", "grok/x", "hi"), "dragoman: unknown provider 'grok'"),
        (("chat", "-m", "groq/x", "hi"), "dragoman: groq/x: no API key; set GROQ_API_KEY"),
        (("chat", "-i", "nowhere.png", "hi"), "dragoman: InvalidRequest: path must be a file that can be read"),
        (("explain", "x", "--config", "nowhere.toml"), "dragoman: nowhere.toml: No such file or directory"),
        (("serve", "--config", "nowhere.toml"), "dragoman: nowhere.toml: No such file or directory"),
        (
            ("chat", "-m", "llama3", "hi"),
            "dragoman: model must be provider/model or an alias, got 'llama3'; for example ollama/llama3",
        ),
        (("models", "nope"), "dragoman: unknown provider 'nope': it is not registered, and LLM_NOPE is not set; "),
        (("health", "--gateway", "localhost"), "dragoman: --gateway must be a URL with a scheme and a host"),
    ],
)
def test_a_failure_is_one_line_and_exit_code_1(arguments: tuple[str, ...], message: str) -> None:
    done = dragoman(*arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(message)
    assert done.err.count("\n") == 1


def test_the_failures_of_several_targets_are_a_list() -> None:
    done = dragoman("chat", "-m", "groq/x,demo/empty", "hi")
    assert done.code == 1
    assert done.err.splitlines() == [
        "dragoman: no target answered:",
        "- groq/x failed: AuthFailed: no API key; set GROQ_API_KEY",
        "- demo/empty failed: EmptyResponse: the answer is empty (finish: stop)",
    ]


def test_the_help_names_the_config_only_where_one_is_read() -> None:
    assert "--config" not in dragoman("keys", "--help").out
    assert "(default: $DRAGOMAN_CONFIG)" in dragoman("chat", "--help").out
    assert "$DRAGOMAN_CONFIG, or ./dragoman.toml)" in " ".join(dragoman("usage", "--help").out.split())
    assert dragoman("keys", "new", "alice", "--config", "nowhere.toml").code == 0


def test_a_failure_is_json_with_json() -> None:
    done = dragoman("chat", "--json", "-m", "demo/overloaded", "hi")
    assert done.code == 1
    error = json.loads(done.out)["error"]
    assert (error["kind"], error["status"]) == ("Overloaded", 503)


def test_debug_shows_the_trace() -> None:
    done = dragoman("chat", "--debug", "-m", "grok/x", "hi")
    assert done.code == 1
    assert "Traceback" in done.err


def test_no_key_is_ever_shown() -> None:
    key = "sk-test-0123456789abcdef"
    with FaultyServer(repeat=True) as server:
        url = f"http://127.0.0.1:{server.port}/v1?key={key}"
        for words in (("explain", "openai/x"), ("chat", "-m", "openai/x", "hi"), ("providers",), ("doctor",)):
            done = dragoman(*words, OPENAI_API_KEY=key, OPENAI_BASE_URL=url, LLM_OWN=f"openai://{key}@host.invalid")
            assert key not in done.out + done.err


def test_utf8_whatever_the_locale() -> None:
    done = dragoman("chat", "-m", "demo/any", "Où est-ce?", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.out == "You said “Où est-ce?”, which is 2 words.\n"


def test_input_that_is_not_utf8_is_read() -> None:
    assert dragoman("chat", "-m", "demo/any", stdin=b"caf\xe9 is it?").code == 0


def test_a_closed_pipe_gives_no_traceback() -> None:
    with subprocess.Popen(
        [*COMMAND, "providers"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
    assert (process.returncode, err) == (141, b"")


def test_an_interrupt_is_130_and_no_traceback() -> None:
    with FaultyServer(NoResponse()) as server:
        with subprocess.Popen(
            [*COMMAND, "chat", "-m", "server/m", "hi"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(LLM_SERVER=f"vllm+http://127.0.0.1:{server.port}/v1"),
        ) as process:
            assert server.request_received.acquire(timeout=60)
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            err = process.stderr.read()
        assert server.client_disconnected.acquire(timeout=60)
    assert (process.returncode, err) == (130, b"")


def test_an_unexpected_error_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_bytes(b"\xff\xfe")
    done = dragoman("explain", "--config", tmp_path / "broken.toml")
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "arguments", [("chat", "--json", "--max-tokens", "none"), ("chatt", "--json"), ("chat", "--json")]
)
def test_a_usage_error_is_json_with_json(arguments: tuple[str, ...]) -> None:
    done = dragoman(*arguments)
    assert done.code == 2
    assert json.loads(done.out)["error"]["kind"] == "UsageError"


def test_an_error_in_a_config_names_the_file(tmp_path: Path) -> None:
    for data in (b"\xff\xfe", b"[aliases"):
        (tmp_path / "broken.toml").write_bytes(data)
        done = dragoman("explain", "--config", tmp_path / "broken.toml")
        assert done.err.startswith(f"dragoman: {tmp_path / 'broken.toml'}: ")
        assert "Error" not in done.err


def test_an_argument_that_is_not_utf8_is_an_error_in_json() -> None:
    with subprocess.Popen(
        [*COMMAND, "explain", "--json", b"\xff/x"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert r"got '\udcff/x', which is not valid Unicode" in json.loads(out)["error"]["message"]
    assert err.count(b"\n") == 1


@pytest.mark.parametrize(
    ("shell", "code", "message"),
    [
        ("chat -q -m demo/any hi 0<&-", 0, ""),
        ("translate --from google --to ollama 0<&-", 2, "dragoman: translate: stdin is empty\n"),
        ("chat -q -m demo/any hi >&-", 1, "dragoman: stdout is closed\n"),
        ("chat -q -m demo/any hi 2>&-", 0, ""),
    ],
)
def test_closed_streams_give_no_traceback(shell: str, code: int, message: str) -> None:
    script = f"{' '.join(COMMAND)} {shell}"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, env=environment(), check=False, timeout=60)
    assert (done.returncode, done.stderr.decode()) == (code, message)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "providers"], stdout=full, stderr=subprocess.PIPE, env=environment(), check=False, timeout=60
        )
    assert (done.returncode, done.stderr) == (1, b"dragoman: No space left on device\n")


@pytest.mark.parametrize("arguments", [("serve", "--port", "99999"), ("keys", "new", ""), ("chat", "-d", "", "hi")])
def test_an_invalid_value_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    done = dragoman(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("command", ["chat", "batch"])
@pytest.mark.parametrize("schema", ['{"type": "nope"}', '{"type": }', "7"])
def test_an_invalid_schema_is_an_error_before_any_request(tmp_path: Path, command: str, schema: str) -> None:
    path = tmp_path / "schema.json"
    path.write_text(schema, encoding="utf-8")
    (tmp_path / "in.jsonl").write_text('{"id": 1, "prompt": "hi"}\n', encoding="utf-8")
    words = ("hi",) if command == "chat" else (str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"))
    done = dragoman(command, "-m", "demo/any", "--schema", path, *words)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"dragoman: {path}: ")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    (tmp_path / "c.toml").write_bytes(mark + b'[aliases]\nown = "demo/any"\n')
    (tmp_path / "s.json").write_bytes(mark + b'{"type": "object"}')
    (tmp_path / "in.jsonl").write_bytes(mark + b'{"id": 1, "prompt": "hi"}\n')
    request = mark + b'{"messages": [{"role": "user", "content": "hi"}]}'
    words = ("--config", tmp_path / "c.toml", "-m", "own")
    assert dragoman("batch", tmp_path / "in.jsonl", "-", *words, "--schema", tmp_path / "s.json").code == 0
    assert dragoman("translate", "--from", "openai_chat", "--to", "ollama", stdin=request).code == 0
    assert "\ufeff" not in dragoman("chat", *words, stdin=mark + b"Is it so?").out


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_fits_a_terminal_and_has_an_example(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = parser_of(command).format_help()
    assert max(map(len, text.splitlines())) <= 80
    assert f"dragoman {command}" in text.partition("examples:")[2]
