"""`batch --ray` on a local cluster of two machines; where Ray is not installed (extra `ray`), it is skipped."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from dragoman.errors import Overloaded
from dragoman.testing import CloseAfter, FaultyServer
from tests.cli.batch.test_run import dsn, read_rows, write_rows
from tests.support.cli import dragoman, environment

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
print("at", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.mark.skipif(find_spec("ray") is None, reason="the extra `ray` is not installed")
def test_every_machine_of_a_cluster_asks_and_each_row_is_answered_once(tmp_path: Path) -> None:
    source, out = (
        write_rows(tmp_path / "in.jsonl", [{"id": n, "prompt": f"row {n}"} for n in range(300)]),
        tmp_path / "o",
    )
    with (
        FaultyServer(*["Hello!"] * 8, Overloaded("busy"), CloseAfter(20), repeat=True) as server,
        subprocess.Popen(
            [sys.executable, "-c", CLUSTER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(RAY_USAGE_STATS_ENABLED="0"),
            text=True,
        ) as cluster,
    ):
        assert cluster.stdout is not None
        address = next(line for line in cluster.stdout if line.startswith("at ")).split()[1]
        words = ("-m", "server/model", "-c", "16", "--ray", address)
        done = dragoman("batch", source, out, *words, LLM_SERVER=dsn(server))
        cluster.communicate("", timeout=60)
    assert done.code == 0, done.err
    assert sorted(row["id"] for row in read_rows(out)) == list(range(300))


@pytest.mark.skipif(find_spec("ray") is not None, reason="the extra `ray` is installed")
def test_without_ray_it_says_what_to_install(tmp_path: Path) -> None:
    done = dragoman("batch", write_rows(tmp_path / "in.jsonl", []), tmp_path / "out", "--ray")
    assert done.code == 1
    assert "pip install 'dragoman[ray]'" in done.err
