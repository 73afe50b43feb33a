"""Every program of examples/ runs by itself, without a key and without a network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SERVERS = {"chat_app", "claude_code_local"}
"""Programs that serve until they are stopped; with `--try` they send themselves one request and end."""


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.stem for example in EXAMPLES])
def test_an_example_runs(example: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_TOKEN"))}
    arguments = ["--try"] if example.stem in SERVERS else []
    run = subprocess.run(
        [sys.executable, str(example), *arguments], env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.strip()
