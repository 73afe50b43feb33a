import fcntl
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import AuthFailed, Overloaded, RateLimited
from dragoman.testing import CloseAfter, CloseAtOnce, ErrorInside200, FaultyServer, InvalidBody, ResetAfter, ScriptLine
from tests.support.cli import COMMAND, Done, dragoman, environment

SPEC = "server/model"
GOOD = "Hello!"
ROWS = int(os.environ.get("ROWS", "400"))
MISBEHAVIOUR: tuple[ScriptLine, ...] = (
    *([GOOD] * 9),
    RateLimited("slow down", retry_after=0.01),
    GOOD,
    CloseAfter(20),
    GOOD,
    ResetAfter(5),
    GOOD,
    CloseAtOnce(),
    GOOD,
    InvalidBody(),
    GOOD,
    Overloaded("busy"),
    GOOD,
    ErrorInside200(Overloaded("busy")),
)


def dsn(server: FaultyServer) -> str:
    return f"vllm+http://127.0.0.1:{server.port}/v1"


def write_rows(path: Path, rows: list[Any]) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return path


def read_rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def batch(tmp_path: Path, rows: list[Any], *words: str, **variables: str) -> tuple[Done, list[Any]]:
    source, out = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    done = dragoman("batch", source, out, *words, **variables)
    return done, read_rows(out) if out.exists() else []


def test_each_row_is_answered_under_its_id(tmp_path: Path) -> None:
    rows = [{"id": number, "prompt": f"Is it {number}?"} for number in range(50)]
    done, answers = batch(tmp_path, rows, "-m", "demo/any")
    assert done.code == 0
    assert {row["id"]: row["text"] for row in answers} == {
        number: f"You said “Is it {number}?”, which is 3 words." for number in range(50)
    }


def test_all_forms_of_a_row_are_taken(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Is it so?"}]
    rows: list[Any] = [
        {"id": "a", "prompt": "Is it so?", "system": "Be brief."},
        {"id": "b", "messages": messages, "temperature": 0},
        {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "Is it so?"}]}]},
        {
            "custom_id": "d",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "any", "messages": messages},
        },
        {"custom_id": "e", "method": "POST", "url": "/v1/responses", "body": {"model": "any", "input": "Is it so?"}},
    ]
    done, answers = batch(tmp_path, rows, "-m", "demo/any", "-c", "1")
    words = "You said “Is it so?”, which is 3 words."
    assert done.code == 0
    assert [row["text"] for row in answers[:3]] == [words] * 3
    chat, responses = answers[3:]
    assert chat["custom_id"] == "d"
    assert chat["response"]["status_code"] == 200
    assert chat["response"]["body"]["choices"][0]["message"]["content"] == words
    assert responses["response"]["body"]["output"][0]["content"][0]["text"] == words
    assert chat["error"] is responses["error"] is None


def test_a_row_that_is_wrong_is_an_error_and_breaks_no_other(tmp_path: Path) -> None:
    rows: list[Any] = [
        {"id": 1, "prompt": "hello"},
        {"id": 2},
        {"id": 3, "prompt": "hello", "temprature": 1},
        {"custom_id": "4", "url": "/v1/nowhere", "body": {}},
        {"custom_id": "5", "url": "/v1/chat/completions", "body": {"messages": 7}},
        {"custom_id": "6", "url": "/v1/chat/completions"},
        {"custom_id": "7", "body": {"messages": [{"role": "user", "content": "hello"}], "n": 0}},
    ]
    done, answers = batch(tmp_path, rows, "-m", "demo/any", "-c", "1")
    assert done.code == 1
    assert "6 rows of" in done.err
    assert "error" not in answers[0]
    assert [row["error"]["message"] for row in answers[1:4]] == [
        "a row must have prompt, messages or body",
        "a request has no field 'temprature'",
        "url must be the path of a chat endpoint, got '/v1/nowhere'; for example /v1/chat/completions",
    ]
    assert [row["custom_id"] for row in answers[3:]] == ["4", "5", "6", "7"]
    assert [row["response"]["status_code"] for row in answers[3:]] == [400] * 4


def test_the_model_of_a_row_counts_where_no_other_is_named(tmp_path: Path) -> None:
    rows = [{"id": 1, "prompt": "hello", "model": "demo/overloaded,demo/any"}, {"id": 2, "prompt": "hello"}]
    _, answers = batch(tmp_path, rows, "-c", "1", DRAGOMAN_MODEL="demo/any")
    assert [len(row["response"]["attempts"]) for row in answers] == [2, 1]


def test_without_a_key_and_a_model_nothing_is_answered(tmp_path: Path) -> None:
    rows = [{"id": 1, "prompt": "hello", "model": "demo/any"}, {"id": 2, "prompt": "hello"}]
    done, _ = batch(tmp_path, rows)
    assert done.code == 1
    assert done.err == (
        f"dragoman: {tmp_path / 'in.jsonl'} line 2: the row names no model, and no API key is set; set OPENAI_API_KEY "
        "or another key (`dragoman providers` lists them), or pass -m\n"
    )
    assert not (tmp_path / "out.jsonl").exists()
    assert dragoman("batch", "-", "-", stdin='{"id": 1, "prompt": "hello"}\n').out == ""


def test_without_a_key_rows_that_name_their_model_are_answered(tmp_path: Path) -> None:
    rows: list[Any] = [{"id": 1, "prompt": "hello", "model": SPEC}, {"id": 2}]
    with FaultyServer(GOOD) as server:
        done, answers = batch(tmp_path, rows, "-c", "1", LLM_SERVER=dsn(server))
    assert done.code == 1
    assert [row.get("error", {}).get("kind") for row in answers] == [None, "InvalidRequest"]
    done = dragoman("batch", "-", "-", stdin="nothing\n")
    assert "line 1: not a row" in done.err


def test_an_answer_of_the_demo_is_not_done_for_another_model(tmp_path: Path) -> None:
    chat = {"custom_id": "c", "url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": "hi"}]}}
    rows: list[Any] = [{"id": 1, "prompt": "hello"}, {"id": 2}, chat]
    assert "1 error" in batch(tmp_path, rows, "-m", "demo/any", "-c", "1")[0].err
    assert (
        "3 already done" in batch(tmp_path, rows, DRAGOMAN_MODEL="nowhere/x, demo/any", LLM_NOWHERE="ollama://x")[0].err
    )
    with FaultyServer(GOOD, repeat=True) as server:
        done, answers = batch(tmp_path, rows, "-m", SPEC, "-c", "1", LLM_SERVER=dsn(server))
    assert "1 already done · 2 answered" in done.err
    assert [row.get("custom_id") or row["id"] for row in answers] == [2, 1, "c"]
    assert answers[1]["response"]["target"] == SPEC


def test_a_second_run_asks_nothing_again(tmp_path: Path) -> None:
    rows = [{"id": number, "prompt": "hello"} for number in range(20)]
    with FaultyServer(GOOD, repeat=True) as server:
        assert batch(tmp_path, rows, "-m", SPEC, LLM_SERVER=dsn(server))[0].code == 0
        done, answers = batch(tmp_path, rows, "-m", SPEC, LLM_SERVER=dsn(server))
        assert len(server.http) == 20
    assert done.code == 0
    assert len(answers) == 20
    assert "20 already done" in done.err


def test_a_truncated_last_line_is_sent_again(tmp_path: Path) -> None:
    rows = [{"id": number, "prompt": "hello"} for number in range(3)]
    (tmp_path / "out.jsonl").write_bytes(b'{"id":0,"text":"kept"}\n{"id":1,"te')
    done, answers = batch(tmp_path, rows, "-m", "demo/any")
    assert done.code == 0
    assert sorted(row["id"] for row in answers) == [0, 1, 2]
    assert answers[0]["text"] == "kept"


def test_a_whole_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_bytes(b'{"id":0,"text":"kept"}')
    _, answers = batch(tmp_path, [{"id": number, "prompt": "hello"} for number in range(2)], "-m", "demo/any")
    assert [row["id"] for row in answers] == [0, 1]


def test_a_file_that_is_no_output_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("Dear diary,\n", encoding="utf-8")
    done = dragoman("batch", write_rows(tmp_path / "in.jsonl", []), tmp_path / "out.jsonl")
    assert done.code == 1
    assert "line 1: not a row" in done.err
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == "Dear diary,\n"


def test_a_duplicate_id_is_refused_before_any_request(tmp_path: Path) -> None:
    rows: list[Any] = [{"id": "a", "prompt": "hello"}, {"custom_id": "a", "body": {}}]
    done, answers = batch(tmp_path, rows, "-m", "demo/any")
    assert (done.code, answers) == (1, [])
    assert "line 2: id must be unique, got 'a' twice" in done.err


def test_a_row_without_an_id_is_refused_before_any_request(tmp_path: Path) -> None:
    done, answers = batch(tmp_path, [{"id": 1, "prompt": "hello"}, {"prompt": "hello"}], "-m", "demo/any")
    assert (done.code, answers) == (1, [])
    assert "line 2: the row must have an id or a custom_id" in done.err


def test_without_an_input_there_is_no_output(tmp_path: Path) -> None:
    done = dragoman("batch", tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert (done.code, done.err) == (1, f"dragoman: {tmp_path / 'in.jsonl'}: No such file or directory\n")
    assert not (tmp_path / "out.jsonl").exists()


def test_the_input_is_never_written_to(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in.jsonl", [])
    assert dragoman("batch", source, source).code == 2


def test_two_runs_do_not_write_to_one_file(tmp_path: Path) -> None:
    source, out = write_rows(tmp_path / "in.jsonl", []), tmp_path / "out.jsonl"
    with out.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = dragoman("batch", source, out, "-m", "demo/any")
    assert done.code == 1
    assert "another run is writing to it" in done.err


def test_errors_are_retried_with_retry_errors(tmp_path: Path) -> None:
    rows = [{"id": 1, "prompt": "hello"}, {"id": 2, "prompt": "hello"}]
    with FaultyServer("one", AuthFailed("no"), "two") as server:
        words = ("-m", SPEC, "-c", "1")
        done, answers = batch(tmp_path, rows, *words, LLM_SERVER=dsn(server))
        assert done.code == 1
        assert answers[1]["error"]["kind"] == "AuthFailed"
        done, _ = batch(tmp_path, rows, *words, LLM_SERVER=dsn(server))
        assert done.code == 1
        assert len(server.http) == 2
        done, answers = batch(tmp_path, rows, *words, "--retry-errors", LLM_SERVER=dsn(server))
    assert done.code == 0
    assert [(row["id"], row["text"]) for row in answers] == [(1, "one"), (2, "two")]


def test_many_failures_in_a_row_stop_it_and_write_no_more(tmp_path: Path) -> None:
    rows = [{"id": number, "prompt": "hello"} for number in range(100)]
    with FaultyServer(AuthFailed("no such key"), repeat=True) as server:
        done, answers = batch(tmp_path, rows, "-m", SPEC, LLM_SERVER=dsn(server))
    assert done.code == 1
    assert len(answers) == 20
    assert "consecutive rows failed" in done.err
    assert "no such key" in done.err


def test_without_a_key_nothing_starts(tmp_path: Path) -> None:
    done, answers = batch(tmp_path, [{"id": 1, "prompt": "hello"}], "-m", "groq/x")
    assert (done.code, answers) == (1, [])
    assert "set GROQ_API_KEY" in done.err


def test_a_schema_holds_for_every_row(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type":"object","properties":{"port":{"type":"string"}},"required":["port"]}', encoding="utf-8")
    with FaultyServer("no JSON", '{"port": "Brest"}') as server:
        words = ("-m", SPEC, "--schema", str(schema))
        done, answers = batch(tmp_path, [{"id": 1, "prompt": "hello"}], *words, LLM_SERVER=dsn(server))
        assert server.requests[0].schema is not None
    assert done.code == 0
    assert (answers[0]["text"], answers[0]["value"]) == ('{"port": "Brest"}', {"port": "Brest"})


def test_an_answer_that_never_satisfies_its_schema_is_an_error(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type":"object"}', encoding="utf-8")
    with FaultyServer("no JSON", repeat=True) as server:
        words = ("-m", SPEC, "--schema", str(schema), "--retries", "1")
        done, answers = batch(tmp_path, [{"id": 1, "prompt": "hello"}], *words, LLM_SERVER=dsn(server))
        assert len(server.http) == 2
    assert done.code == 1
    assert answers[0]["error"]["kind"] == "OutputError"


def test_a_rate_is_not_exceeded(tmp_path: Path) -> None:
    rows = [{"id": number, "prompt": "hello"} for number in range(11)]
    done, _ = batch(tmp_path, rows, "-m", "demo/any", "--rate", "20/s", "--json", "-q")
    assert json.loads(done.out)["seconds"] >= 0.5


def test_ctrl_c_leaves_whole_rows_and_says_how_to_go_on(tmp_path: Path) -> None:
    rows = [{"id": number, "prompt": "hello"} for number in range(1000)]
    source, out = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    with FaultyServer(GOOD, repeat=True) as server:
        process = start(source, out, "--rate", "200/s", LLM_SERVER=dsn(server))
        wait_for(server, 50)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"run it again to continue" in err
    assert b"Traceback" not in err
    assert 0 < len(read_rows(out)) < 1000


def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in.jsonl", [{"id": n, "prompt": f"{n}? " + "x" * 20_000} for n in range(2000)])
    words = [*COMMAND, "batch", str(source), str(tmp_path / "out.jsonl"), "-m", "demo/any", "-q"]
    # What a process held before it became another one counts as its own: so it is started by a small one.
    script = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, env=environment(), check=True)
    assert source.stat().st_size > 40_000_000
    assert int(done.stdout) < 64_000  # kilobytes


def start(source: Path, out: Path, *words: str, **variables: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*COMMAND, "batch", str(source), str(out), "-m", SPEC, *words],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(**variables),
    )


def wait_for(server: FaultyServer, requests: int) -> None:
    for _ in range(requests):
        assert server.request_received.acquire(timeout=60)


def test_rows_survive_a_kill_among_misbehaving_servers(tmp_path: Path) -> None:
    """`make soak` has ten thousand rows."""
    rows, concurrency = [{"id": number, "prompt": f"row {number}"} for number in range(ROWS)], 128
    source, out = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    words = ("-c", str(concurrency), "--retries", "60")  # no row may be out of luck that often
    with FaultyServer(*MISBEHAVIOUR, repeat=True) as server:
        process = start(source, out, *words, LLM_SERVER=dsn(server))
        wait_for(server, ROWS * 3 // 5)
        process.kill()
        process.communicate(timeout=60)
        assert 0 < len(out.read_bytes().splitlines()) < ROWS
        done = dragoman("batch", source, out, "-m", SPEC, *words, LLM_SERVER=dsn(server))
    assert done.code == 0, done.err
    assert sorted(row["id"] for row in read_rows(out)) == list(range(ROWS))
    paid = Counter(
        json.loads(http.body)["messages"][0]["content"]
        for number, http in enumerate(server.http)
        if MISBEHAVIOUR[number % len(MISBEHAVIOUR)] == GOOD
    )
    assert len(paid) == ROWS
    assert sum(paid.values()) - ROWS <= concurrency


@pytest.mark.parametrize("words", ["my only notes", '{"name": "x"}', '{"id": null}', '{"id":1,"text":"a"}\nmy notes'])
def test_a_file_of_somebody_else_is_left_as_it_is(tmp_path: Path, words: str) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text(words, encoding="utf-8")
    source = write_rows(tmp_path / "in.jsonl", [{"id": 1, "prompt": "hello"}])
    done = dragoman("batch", source, out, "-m", "demo/any")
    assert done.code == 1
    assert out.read_text(encoding="utf-8") == words


@pytest.mark.parametrize("source", ["-", "/dev/stdin"])
def test_rows_come_and_go_through_pipes(source: str) -> None:
    rows = b'{"id": 1, "prompt": "Is it so?"}\n{"id": 2, "prompt": "Is it so?"}\n'
    done = dragoman("batch", source, "-", "-m", "demo/any", stdin=rows)
    assert done.code == 0
    assert sorted(json.loads(line)["id"] for line in done.out.splitlines()) == [1, 2]


def test_an_output_that_is_no_file_is_refused() -> None:
    done = dragoman("batch", "-", "/dev/stdout", "-m", "demo/any", stdin='{"id": 1, "prompt": "hello"}\n')
    assert (done.code, done.out) == (1, "")
    assert "use - for stdout" in done.err


def test_without_retries_a_row_is_sent_once(tmp_path: Path) -> None:
    with FaultyServer(Overloaded("busy"), repeat=True) as server:
        words = ("-m", SPEC, "--retries", "0")
        batch(tmp_path, [{"id": 1, "prompt": "hello"}], *words, LLM_SERVER=dsn(server))
        assert len(server.http) == 1


def test_quiet_says_nothing_of_error_rows(tmp_path: Path) -> None:
    done, _ = batch(tmp_path, [{"id": 1}], "-m", "demo/any", "-q")
    assert (done.code, done.err) == (1, "")


def test_a_row_that_is_nested_too_deeply_is_a_plain_error(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"id": 1, "x": ' + "[" * 1_000_000 + "]" * 1_000_000 + "}\n", encoding="utf-8")
    done = dragoman("batch", source, tmp_path / "out.jsonl", "-m", "demo/any")
    assert (
        done.err
        == f"dragoman: {source} line 1: not a row: the input must be JSON, got JSON that is nested too deeply\n"
    )
