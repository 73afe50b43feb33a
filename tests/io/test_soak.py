"""Thousands of calls with random faults and random cancels leave nothing behind. `make soak` makes twenty thousand."""

import json
import os
import subprocess
import sys

import pytest

CALLS = int(os.environ.get("CALLS", "2000"))
GROWTH = 1024 * 1024
"""Bytes that the memory may grow by, after the first quarter of the calls."""

BLOCKS = 2000
"""Objects of Python that may be added in that time, whatever the number of calls."""


@pytest.mark.skipif(sys.platform != "linux", reason="counts sockets and memory in /proc")
def test_calls_with_faults_and_cancels_leave_no_socket_task_or_thread() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-m", "tests.support.soak", str(CALLS)],
        capture_output=True,
        text=True,
        check=True,
        timeout=30 + CALLS / 20,
        # One pool of memory: those of threads keep what they have freed, which grows for a while without a leak.
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
    )
    left = json.loads(ran.stdout)
    assert (left["sockets"], left["threads"], left["tasks"], ran.stderr) == (0, [], [], "")
    assert {"served", "Reset", "ReadTimeout", "Malformed", "Interrupted"} <= left["attempts"].keys()
    assert sum(left["attempts"].values()) >= CALLS / 2
    assert left["blocks"][-1] - left["blocks"][1] < BLOCKS, left["blocks"]
    assert left["sizes"][-1] - left["sizes"][1] < GROWTH, left["sizes"]
