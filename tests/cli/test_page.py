"""Every console block of the pages shows the real output; `…` stands for what varies."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import COMMAND, environment
from tests.support.paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "docs" / "cli.md"]
ROWS = """\
{"id": 1, "prompt": "Is it so?"}
{"id": 2, "messages": [{"role": "user", "content": "And this?"}], "temperature": 0}
{"custom_id": "c", "url": "/v1/chat/completions", "body": {"model": "any", "messages": [{"role": "user", "content": "hello"}]}}
"""


TOOL = '''\
def tide(port: str) -> str:
    """Tide height at a port."""
    return f"4.2 m in {port}"
'''


@pytest.mark.skipif(sys.platform == "win32", reason="the blocks are for a POSIX shell")
@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_console_blocks_of_a_page_show_the_real_output(page: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(ROWS, encoding="utf-8")
    (tmp_path / "harbour.py").write_text(TOOL, encoding="utf-8")
    shim = tmp_path / "bin" / "dragoman"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    env = environment(LC_ALL="C.UTF-8")
    env["PATH"] = f"{shim.parent}:{env['PATH']}"
    shell = shutil.which("bash") or "/bin/sh"
    for block in re.findall(r"^```console\n(\$ .*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        steps: list[tuple[str, str]] = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
        if not any(output for _, output in steps):
            continue  # the page shows no output
        for command, output in steps:
            # Both outputs go into one pipe, so that they appear in the order in which they were written.
            done = subprocess.run(
                [shell, "-c", command],
                cwd=tmp_path,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=120,
            )
            assert re.fullmatch(re.escape(output).replace("…", ".*"), done.stdout.decode()), (
                command,
                done.stdout.decode(),
            )
