"""Conversations under a pseudo-terminal."""

import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.testing import FaultyServer, NoResponse
from dragoman.types import Image, Request, Text, load
from tests.support.cli import COMMAND, environment
from tests.support.images import picture

pexpect: Any = pytest.importorskip("pexpect")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal")
PROMPT = "> "


class Terminal:
    """A conversation in a child process."""

    def __init__(self, folder: Path, *words: str, **variables: str) -> None:
        env = environment(XDG_STATE_HOME=str(folder), TERM="xterm", **{"NO_COLOR": "1", **variables})
        self.child = pexpect.spawn(
            COMMAND[0], [*COMMAND[1:], "chat", *words], env=env, encoding="utf-8", timeout=30, echo=False, cwd=folder
        )

    def expect(self, text: str) -> str:
        self.child.expect_exact(text)
        before: str = self.child.before
        return before

    def send(self, line: str) -> None:
        self.child.sendline(line)

    def exit_code(self) -> int:
        self.child.expect(pexpect.EOF)
        self.child.close()
        status: int = self.child.exitstatus
        return status


def test_a_conversation_remembers(tmp_path: Path) -> None:
    with FaultyServer("First.", "Second.") as server:
        terminal = Terminal(tmp_path, "-m", "server/m", LLM_SERVER=f"vllm+http://127.0.0.1:{server.port}/v1")
        terminal.expect(PROMPT)
        terminal.send("one")
        terminal.expect("First.")
        terminal.expect("server/m · ")
        terminal.expect(PROMPT)
        terminal.send("two")
        terminal.expect("Second.")
        terminal.expect(PROMPT)
        terminal.send("/quit")
        assert terminal.exit_code() == 0
        assert [message.text for message in server.requests[1].messages] == ["one", "First.", "two"]


def test_it_says_in_one_line_that_the_demo_answers(tmp_path: Path) -> None:
    for words, is_said in (((), True), (("-m", "demo/any"), False)):
        terminal = Terminal(tmp_path, *words)
        before = terminal.expect(PROMPT)
        terminal.send("/quit")
        assert terminal.exit_code() == 0
        assert before.count("no API key is set, so the demo answers; set OPENAI_API_KEY") == is_said


def test_it_can_be_saved_and_loaded(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "-s", "Be brief.")
    terminal.expect(PROMPT)
    terminal.send("Is it so?")
    terminal.expect("which is 3 words")
    terminal.expect(PROMPT)
    terminal.send("/save talk.json")
    terminal.expect("saved 2 messages to talk.json")
    terminal.expect(PROMPT)
    terminal.send("/new")
    terminal.expect("new conversation")
    terminal.expect(PROMPT)
    terminal.send("/load talk.json")
    terminal.expect("loaded 2 messages")
    terminal.expect(PROMPT)
    terminal.child.sendeof()
    assert terminal.exit_code() == 0
    request = load((tmp_path / "talk.json").read_bytes(), Request)
    assert (request.system, [message.role for message in request.messages]) == ("Be brief.", ["user", "assistant"])


def test_the_model_can_be_changed(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    terminal.expect("model: demo/any")
    terminal.expect(PROMPT)
    terminal.send("/model demo/overloaded,demo/any")
    terminal.expect("model: demo/overloaded,demo/any")
    terminal.expect(PROMPT)
    terminal.send("hello")
    terminal.expect("demo/overloaded failed")
    terminal.expect(PROMPT)
    terminal.send("/model grok/x")
    terminal.expect("unknown provider 'grok'")
    terminal.expect(PROMPT)
    terminal.send("/quit")
    assert terminal.exit_code() == 0


def test_help_and_unknown_commands(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    terminal.expect(PROMPT)
    terminal.send("/help")
    terminal.expect("/save")
    terminal.expect(PROMPT)
    terminal.send("/sing")
    terminal.expect("unknown command /sing")
    terminal.expect(PROMPT)
    terminal.send("/save")
    terminal.expect("/save needs a file name")
    terminal.expect(PROMPT)
    terminal.send("/load nowhere.json")
    terminal.expect("nowhere.json: No such file or directory")
    terminal.expect(PROMPT)
    terminal.send("/exit")
    assert terminal.exit_code() == 0


def test_ctrl_c_stops_an_answer_and_not_the_conversation(tmp_path: Path) -> None:
    with FaultyServer(NoResponse(), "Here.") as server:
        terminal = Terminal(tmp_path, "-m", "server/m", LLM_SERVER=f"vllm+http://127.0.0.1:{server.port}/v1")
        terminal.expect(PROMPT)
        terminal.send("one")
        assert server.request_received.acquire(timeout=30)
        terminal.child.sendintr()
        terminal.expect("stopped; this message is not part of the conversation")
        terminal.expect(PROMPT)
        terminal.child.sendintr()
        terminal.expect(PROMPT)
        terminal.send("two")
        terminal.expect("Here.")
        terminal.expect(PROMPT)
        terminal.send("/quit")
        assert terminal.exit_code() == 0
        assert [message.text for message in server.requests[1].messages] == ["two"]


def test_pasted_lines_are_one_message(tmp_path: Path) -> None:
    with FaultyServer("Here.") as server:
        terminal = Terminal(tmp_path, "-q", "-m", "server/m", LLM_SERVER=f"vllm+http://127.0.0.1:{server.port}/v1")
        terminal.expect(PROMPT)
        terminal.child.send("\x1b[200~one\rtwo\r\x1b[201~\r")
        terminal.expect("Here.")
        terminal.expect(PROMPT)
        terminal.send("/quit")
        assert terminal.exit_code() == 0
        assert [message.text for message in server.requests[0].messages] == ["one\ntwo"]


def test_an_image_without_a_prompt_starts_a_conversation(tmp_path: Path) -> None:
    (tmp_path / "pic.png").write_bytes(picture())
    with FaultyServer("First.", "Second.") as server:
        place = f"vllm+http://127.0.0.1:{server.port}/v1"
        terminal = Terminal(tmp_path, "-i", "pic.png", "-m", "server/m", LLM_SERVER=place)
        terminal.expect("1 file is sent with your first message")
        for line, reply in (("one", "First."), ("two", "Second."), ("/quit", None)):
            terminal.expect(PROMPT)
            terminal.send(line)
            if reply is not None:
                terminal.expect(reply)
        assert terminal.exit_code() == 0
        kinds = [[type(part) for part in message.parts] for message in server.requests[1].messages]
        assert kinds == [[Image, Text], [Text], [Text]]


def test_the_line_history_is_saved(tmp_path: Path) -> None:
    for _ in range(2):
        terminal = Terminal(tmp_path)
        terminal.expect(PROMPT)
        # The last line of the first one is /quit.
        terminal.child.send("\x1b[A\x1b[A\r" if (tmp_path / "dragoman" / "history").exists() else "Is it so?\r")
        terminal.expect("which is 3 words")
        terminal.expect(PROMPT)
        terminal.send("/quit")
        assert terminal.exit_code() == 0
    history = tmp_path / "dragoman" / "history"
    assert history.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("variables", "coloured"), [({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color_turns_colours_off(tmp_path: Path, variables: dict[str, str], coloured: bool) -> None:  # noqa: FBT001
    terminal = Terminal(tmp_path, "hello", **variables)
    terminal.child.expect(pexpect.EOF)
    assert ("\x1b[2m" in terminal.child.before) is coloured
    terminal.child.close()


def test_control_characters_of_an_answer_are_replaced(tmp_path: Path) -> None:
    with FaultyServer("be\x1b]52;c;aGk=\x07 careful") as server:
        place = f"vllm+http://127.0.0.1:{server.port}/v1"
        terminal = Terminal(tmp_path, "-q", "-m", "server/m", "hi", LLM_SERVER=place)
        assert terminal.expect(" careful").endswith("be\N{REPLACEMENT CHARACTER}]52;c;aGk=\N{REPLACEMENT CHARACTER}")
        assert terminal.exit_code() == 0


def test_a_batch_shows_a_progress_bar(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": 1, "prompt": "hello"}\n{"id": 2, "prompt": "hello"}\n', encoding="utf-8")
    child = pexpect.spawn(
        COMMAND[0],
        [*COMMAND[1:], "batch", "in.jsonl", "out.jsonl", "-m", "demo/any"],
        env=environment(TERM="xterm"),
        encoding="utf-8",
        timeout=30,
        cwd=tmp_path,
    )
    child.expect_exact("100% · 2/2")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
