"""The curl commands and official packages that the pages show work against a running gateway."""

import gc
import json
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import wires
from dragoman.gateway.auth.api_keys import hash_key
from tests.support.gateway.live import Gateway
from tests.support.paths import ROOT

HERE = "localhost:8080"
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/native.md", "docs/gateway.md")}
LINES = [
    line
    for page in (PAGES["README.md"], PAGES["docs/native.md"])
    for line in re.findall(rf"^\$ (curl .*{HERE}.*)$", page, re.MULTILINE)
]
BLOCKS = [
    block
    for name in ("README.md", "docs/gateway.md")
    for block in re.findall(r"^```py\n(.*?)^```", PAGES[name], re.MULTILINE | re.DOTALL)
    if HERE in block
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
@pytest.mark.parametrize("line", LINES)
def test_a_curl_command_is_answered(gateway: Gateway, line: str) -> None:
    words = [word.replace(HERE, f"127.0.0.1:{gateway.port}") for word in shlex.split(line)]
    run = subprocess.run([*words, "--silent", "--show-error", "--fail-with-body"], capture_output=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout


@pytest.mark.parametrize("block", BLOCKS, ids=[f"{block.split()[1]} {number}" for number, block in enumerate(BLOCKS)])
def test_an_official_package_is_answered(gateway: Gateway, block: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(block.replace(HERE, f"127.0.0.1:{gateway.port}"), names)  # noqa: S102 - what a page shows
    with warnings.catch_warnings(action="ignore"):  # a page does not close its client
        names.clear()
        gc.collect()
    assert [line[:6] for line in capsys.readouterr().out.splitlines()] == ["Hello!"] * block.count("print(")


def _blocks(page: str) -> list[str]:
    return re.findall(r"^```py\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_batch_of_the_page_is_created(gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    body = {"model": "demo/any", "messages": [{"role": "user", "content": "hello"}]}
    row = {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": body}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row), encoding="utf-8")
    names: dict[str, Any] = {}
    (block,) = _blocks("docs/batches.md")
    with warnings.catch_warnings(action="ignore"):  # a page does not close its client and its file
        exec(block.replace(HERE, f"127.0.0.1:{gateway.port}"), names)  # noqa: S102 - what a page shows
        assert names["batch"].status in {"validating", "in_progress", "finalizing", "completed"}
        names.clear()
        gc.collect()


def test_the_gateway_of_the_tutorial_answers_its_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (config,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (harbour,) = re.findall(r"Save this as `harbour.py`:\n\n```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "harbour.py").write_text(harbour, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    key = "dg-a-key-for-the-tutorial"
    with Gateway(tmp_path, config, env={"ALICE_HASH": hash_key(key)}) as running:
        for block in _blocks("docs/tutorial.md"):
            code = block.replace(HERE, f"127.0.0.1:{running.port}").replace("the key of alice", key)
            with warnings.catch_warnings(action="ignore"):  # a page does not close its client
                names: dict[str, Any] = {}
                exec(code, names)  # noqa: S102 - what a page shows
                names.clear()
                gc.collect()
    assert [line[:6] for line in capsys.readouterr().out.splitlines()] == ["Hello!", "tide s"]
    sys.modules.pop("harbour")


def test_every_official_package_is_shown() -> None:
    assert {block.split()[1] for block in BLOCKS} == {"anthropic", "google", "ollama", "openai"}


def test_the_table_of_routes_has_the_end_of_every_path() -> None:
    page = (ROOT / "docs" / "gateway.md").read_text(encoding="utf-8")
    table = page.partition("## Dialects")[2].partition("\n## ")[0]
    halves = [half for name in wires.NAMES for half in (wires.get(name).server, *wires.get(name).other_servers)]
    ends = {re.split(r"(?=[/:][\w-]+$)", route.path)[-1] for half in halves for route in half.routes}
    assert {end for end in ends if f"{end}`" not in table} == set()
