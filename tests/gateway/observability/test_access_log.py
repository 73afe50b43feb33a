import asyncio
import io
import json
import logging
import re

import pytest

from dragoman.gateway.accounting.accounting import Accounting
from dragoman.gateway.observability.access_log import AccessLog, JsonFormatter
from dragoman.gateway.store import open_store
from dragoman.gateway.store.base import UsageRow
from tests.support.paths import ROOT


def test_a_request_is_one_line_of_json() -> None:
    lines: list[str] = []
    row = UsageRow(
        id="req_1", started_at=60.0, key="team", model="fast", target="a/x", dialect="ollama", status=200, outcome="served",
        input=5, output=2, duration=0.25, attempts=1,
    )  # fmt: skip
    AccessLog(lines.append).write_request(row)
    (line,) = lines
    assert line.endswith("\n")
    assert json.loads(line) == {
        "time": "1970-01-01T00:01:00.250Z",
        "level": "info",
        "message": "request",
        "request_id": "req_1",
        "key": "team",
        "dialect": "ollama",
        "model": "fast",
        "target": "a/x",
        "stream": False,
        "status": 200,
        "outcome": "served",
        "input": 5,
        "output": 2,
        "attempts": 1,
        "duration": 0.25,
    }


def test_the_line_on_the_page_is_what_the_log_writes() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r'^(\{"time":.*\})$', page, re.MULTILINE)
    fields = {**json.loads(shown), "id": json.loads(shown)["request_id"]}
    lines: list[str] = []
    names = set(UsageRow.__struct_fields__) & set(fields)
    AccessLog(lines.append).write_request(UsageRow(started_at=60.0, **{name: fields[name] for name in names}))
    (line,) = lines
    assert line.partition('"level"')[2] == shown.partition('"level"')[2] + "\n"


def test_a_model_that_is_a_key_is_blotted_out() -> None:
    lines: list[str] = []
    AccessLog(lines.append).write_request(
        UsageRow(id="r", started_at=0.0, model="sk-proj-12345678\n{}", outcome="failed")
    )
    assert "12345678" not in lines[0]
    assert lines[0].count("\n") == 1
    assert json.loads(lines[0])["level"] == "warning"


def test_the_log_of_python_is_json_without_keys() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter())
    log = logging.getLogger("dragoman.test_logs")
    log.propagate = False
    log.addHandler(handler)
    try:
        raise ValueError("the key sk-proj-12345678 is bad")
    except ValueError:
        log.exception("request %s failed", "req_1")
    log.warning("told", extra={"fields": {"request_id": "req_2"}})
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert first["message"] == "request req_1 failed"
    assert "ValueError" in first["error"]
    assert "12345678" not in out.getvalue()
    assert (second["level"], second["request_id"]) == ("warning", "req_2")


def test_lines_of_a_moment_are_written_together() -> None:
    written: list[str] = []

    async def work() -> None:
        gathered = AccessLog(written.append)
        for id in ("req_1", "req_2"):
            gathered.write_request(UsageRow(id=id, started_at=0.0, model="fast", outcome="served"))
        assert written == []
        gathered.flush()
        gathered.flush()

    asyncio.run(work())
    (lines,) = written
    assert [json.loads(line)["request_id"] for line in lines.splitlines()] == ["req_1", "req_2"]


def test_no_line_waits_when_the_books_are_closed(capsys: pytest.CaptureFixture[str]) -> None:
    async def work() -> None:
        accounting = Accounting(open_store("memory"), log=AccessLog())
        accounting.count_finished(UsageRow(id="req_1", started_at=0.0, model="fast", outcome="served"))
        await accounting.aclose()

    asyncio.run(work())
    assert json.loads(capsys.readouterr().err)["request_id"] == "req_1"
