import json
import resource
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from dragoman.cli.defaults import FIRST_MODELS, default_spec
from dragoman.errors import Overloaded
from dragoman.registry import Registry
from dragoman.targets.providers import PROVIDERS
from dragoman.testing import CloseAfter, FaultyServer
from tests.support.cli import COMMAND, SOURCE, dragoman, environment

HELLO = "Hello! I am the demo of dragoman: I need no key and no network, and say the same every time.\n"


def picture(path: Path) -> Path:
    """A red dot, as PNG."""
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\0\xff\0\0")),
        (b"IEND", b""),
    )
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return path


def test_hello_is_answered_without_a_key() -> None:
    done = dragoman("chat", "hello")
    assert (done.code, done.out) == (0, HELLO)
    why, how = done.err.splitlines()
    assert why == (
        "no API key is set, so the demo answers; set OPENAI_API_KEY or another key (`dragoman providers` lists them), "
        "or pass -m"
    )
    assert how.startswith("demo/any · 1 token in · 24 tokens out · ")
    assert dragoman("chat", "-m", "demo/any", "hello").err.startswith("demo/any · ")


def test_quiet_is_the_answer_alone() -> None:
    assert dragoman("chat", "-q", "hello") == (0, HELLO, "")


def test_hello_takes_little_time_of_a_processor() -> None:
    def spent(*words: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, env=environment(), check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Other processes slow a run down, so the minimum of five runs counts, relative to a bare `import asyncio`.
    times = [(spent(*COMMAND, "chat", "hello"), spent(COMMAND[0], "-c", "import asyncio")) for _ in range(5)]
    fastest, loop = map(min, zip(*times, strict=True))
    assert fastest < max(0.150, 3.5 * loop)


def test_piped_text_is_the_prompt() -> None:
    assert dragoman("chat", "-q", stdin="Is it so?\n").out == "You said “Is it so?”, which is 3 words.\n"


def test_piped_text_comes_before_the_prompt() -> None:
    with FaultyServer("Fine.") as server:
        dragoman("chat", "-m", "server/m", "Three lines of this", stdin="A long text.\n", LLM_SERVER=dsn(server))
        assert server.requests[0].messages[0].text == "A long text.\n\nThree lines of this"


def dsn(server: FaultyServer) -> str:
    return f"vllm+http://127.0.0.1:{server.port}/v1"


def test_options_are_sent_with_the_prompt() -> None:
    words = ("-s", "Be brief.", "--temperature", "0", "--max-tokens", "5", "--reasoning", "low")
    with FaultyServer("Fine.") as server:
        dragoman("chat", "-m", "server/m", *words, "hi", LLM_SERVER=dsn(server))
        request = server.requests[0]
    assert (request.system, request.temperature, request.max_tokens, request.reasoning) == ("Be brief.", 0, 5, "low")
    assert request.stream


def test_an_image_is_sent(tmp_path: Path) -> None:
    picture(tmp_path / "dot.png")
    with FaultyServer("A dot.") as server:
        dragoman("chat", "-m", "server/m", "-i", tmp_path / "dot.png", "What is this?", LLM_SERVER=dsn(server))
        assert [type(part).__name__ for part in server.requests[0].messages[0].parts] == ["Image", "Text"]


def test_a_document_is_sent(tmp_path: Path) -> None:
    (tmp_path / "bill.pdf").write_bytes(b"%PDF-1.7 bill")
    with FaultyServer("A bill.") as server:
        place = f"openai+http://127.0.0.1:{server.port}/v1"
        dragoman("chat", "-m", "server/m", "-d", tmp_path / "bill.pdf", "What is this?", LLM_SERVER=place)
        (part, _) = server.requests[0].messages[0].parts
    assert (part.mime, part.name) == ("application/pdf", "bill.pdf")  # type: ignore[union-attr]  # a Document


def test_an_office_file_is_attached_with_its_type(tmp_path: Path) -> None:
    (tmp_path / "bill.docx").write_bytes(b"PK\0\0")
    done = dragoman("chat", "-m", "openai/m", "-d", tmp_path / "bill.docx", "What is this?", OPENAI_API_KEY="k")
    assert "does not support documents of the type application/vnd.openxmlformats-officedocument.word" in done.err


def test_a_file_that_is_neither_pdf_nor_text_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0\1")
    done = dragoman("chat", "-d", tmp_path / "a.bin", "What is this?")
    assert (done.code, done.err.partition(": ")[2]) == (
        2,
        f"chat: --document must be a PDF, an office file, a video or a text file, got {tmp_path / 'a.bin'}\n",
    )


def test_json_is_the_whole_response() -> None:
    done = dragoman("chat", "--json", "-q", "Is it so?")
    response = json.loads(done.out)
    assert response["target"] == "demo/any"
    assert response["message"]["parts"][0]["text"] == "You said “Is it so?”, which is 3 words."


def test_failed_attempts_are_reported() -> None:
    done = dragoman("chat", "-m", "demo/overloaded,demo/any", "hello")
    assert (done.code, done.out) == (0, HELLO)
    assert "demo/overloaded failed: Overloaded: the demo is overloaded on purpose (2 attempts)\n" in done.err
    assert "demo/any · 1 token in" in done.err


def test_notices_are_reported() -> None:
    with FaultyServer("Fine.") as server:
        place = f"http://127.0.0.1:{server.port}"
        done = dragoman("chat", "-m", "ollama/m", "--reasoning", "minimal", "hi", OLLAMA_HOST=place)
    assert done.code == 0
    assert "changed: reasoning" in done.err


def test_a_stream_that_breaks_is_a_failure_after_what_came() -> None:
    with FaultyServer(CloseAfter(400, "one two three four five six"), Overloaded("busy")) as server:
        done = dragoman("chat", "-m", "server/m", "hi", LLM_SERVER=dsn(server))
    assert done.code == 1
    assert done.out.startswith("one")
    assert done.out.endswith("\n")
    assert "the stream broke: " in done.err


def test_an_answer_that_breaks_its_schema_is_a_failure(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type":"object","properties":{"port":{"type":"string"}},"required":["port"]}', encoding="utf-8")
    words = ("-m", "server/m", "--schema", schema, "hi")
    with FaultyServer('{"port": "Brest"}', '{"port": 7}', '{"port": 7}') as server:
        assert dragoman("chat", *words, LLM_SERVER=dsn(server)).code == 0
        done = dragoman("chat", *words, LLM_SERVER=dsn(server))
    assert done.code == 1
    assert '$.port: 7 is not of type "string"' in done.err


def test_the_demo_fills_a_schema(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type":"object","properties":{"port":{"type":"string"}},"required":["port"]}', encoding="utf-8")
    assert set(json.loads(dragoman("chat", "-q", "--schema", schema, "hi").out)) == {"port"}


def test_a_tool_is_called_and_reported(tmp_path: Path) -> None:
    (tmp_path / "harbour.py").write_text(
        'def tide(port: str) -> str:\n    """Tide height at a port."""\n    return f"4.2 m in {port}"\n',
        encoding="utf-8",
    )
    done = dragoman("chat", "--tool", "harbour:tide", "What is the tide in Brest?", PYTHONPATH=f"{SOURCE}:{tmp_path}")
    assert (done.code, done.out) == (0, "tide says: 4.2 m in Brest\n")
    assert 'tide {"port":"Brest"} → 4.2 m in Brest\n' in done.err
    assert done.err.splitlines()[-1].startswith("demo/any · ")
    done = dragoman(
        "chat", "--json", "--tool", "harbour:tide", "What is the tide in Brest?", PYTHONPATH=f"{SOURCE}:{tmp_path}"
    )
    assert json.loads(done.out)["message"]["parts"][0]["text"] == "tide says: 4.2 m in Brest"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("harbour", "--tool must be MODULE:FUNCTION, got 'harbour'"),
        ("nowhere:tide", "--tool nowhere:tide: no module 'nowhere'"),
        ("math:tide", "--tool math:tide: module 'math' has no 'tide'"),
        ("math:pi", "--tool must name a function, got 'math:pi'"),
    ],
)
def test_an_unknown_tool_is_a_usage_error(name: str, problem: str) -> None:
    done = dragoman("chat", "--tool", name, "hi")
    assert (done.code, done.out) == (2, "")
    assert problem in done.err


def test_a_config_brings_aliases(tmp_path: Path) -> None:
    config = tmp_path / "dragoman.toml"
    config.write_text('[aliases]\nfast = "demo/any"\n', encoding="utf-8")
    assert dragoman("chat", "-q", "-m", "fast", "--config", config, "hello").out == HELLO
    assert dragoman("chat", "-q", "hello", DRAGOMAN_CONFIG=str(config), DRAGOMAN_MODEL="fast").out == HELLO


@pytest.mark.parametrize(
    ("env", "spec"),
    [
        ({}, "demo/any"),
        ({"GROQ_API_KEY": "k"}, "groq/openai/gpt-oss-20b"),
        ({"GROQ_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "anthropic/claude-sonnet-5"),
        ({"GROQ_API_KEY": "k", "DRAGOMAN_MODEL": "ollama/x"}, "ollama/x"),
    ],
)
def test_the_default_model(env: dict[str, str], spec: str) -> None:
    assert default_spec(None, Registry(env=env)) == spec


def test_every_default_model_has_a_known_provider() -> None:
    assert set(FIRST_MODELS) <= set(PROVIDERS)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import sys\nsys.exit(3)\n", "exits with 3 when it is imported"),
        ("def tide(:\n", "cannot be imported: SyntaxError: "),
        ("import nowhere_at_all\n", "cannot be imported: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("1 / 0\n", "cannot be imported: ZeroDivisionError: "),
        ("", "has no 'tide'"),
    ],
)
def test_a_tool_module_that_fails_is_a_usage_error(tmp_path: Path, source: str, why: str) -> None:
    (tmp_path / "harbour.py").write_text(source, encoding="utf-8")
    done = dragoman("chat", "--tool", "harbour:tide", "hi", PYTHONPATH=f"{SOURCE}:{tmp_path}")
    assert (done.code, done.out) == (2, "")
    assert f"--tool harbour:tide: module 'harbour' {why}" in done.err


def test_an_empty_document_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    done = dragoman("chat", "-d", tmp_path / "empty.txt", "hi")
    assert (done.code, done.err) == (2, f"dragoman: chat: --document must not be empty, got {tmp_path / 'empty.txt'}\n")
