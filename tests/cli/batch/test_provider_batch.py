"""`dragoman batch --provider-batch` as a process: killed and run again, cancelled, refused."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.batch.test_run import read_rows, write_rows
from tests.support.batch_provider import BatchProvider, batch_provider
from tests.support.cli import COMMAND, Done, dragoman, environment

ROWS = [{"id": number, "prompt": f"Is it {number}?"} for number in range(20)]
TEXTS = {number: f"You said “Is it {number}?”, which is 3 words." for number in range(20)}


@pytest.fixture
def provider() -> Iterator[BatchProvider]:
    with batch_provider() as running:
        yield running


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write_rows(tmp_path / "in.jsonl", ROWS), tmp_path / "out.jsonl"


def variables(provider: BatchProvider) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"{provider.url}/v1", "OPENAI_API_KEY": "k"}


def words(files: tuple[Path, Path], *more: str) -> list[str]:
    return ["batch", *map(str, files), "-m", "openai/gpt-x", "--poll", "0.05", *more]


def run(provider: BatchProvider, files: tuple[Path, Path], *more: str) -> Done:
    return dragoman(*words(files, *more), **variables(provider))


def kill_while_it_waits(provider: BatchProvider, files: tuple[Path, Path]) -> None:
    """Begin a run, and kill it when the journal has the job."""
    command = [*COMMAND, *words(files, "--provider-batch", "-q")]
    process = subprocess.Popen(command, env=environment(**variables(provider)), stderr=subprocess.DEVNULL)
    try:
        assert provider.has_job.wait(60)
        # The second look at the job comes after its id was written.
        while ("GET", "/v1/batches/job0") not in provider.paths:
            assert process.poll() is None
            provider.is_released.wait(0.01)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


def test_a_run_that_was_killed_is_continued(provider: BatchProvider, files: tuple[Path, Path]) -> None:
    kill_while_it_waits(provider, files)
    provider.is_released.set()
    refused = run(provider, files)
    assert (refused.code, "add --provider-batch to continue" in refused.err) == (2, True)
    done = run(provider, files, "--provider-batch")
    assert done.code == 0, done.err
    assert {row["id"]: row["text"] for row in read_rows(files[1])} == TEXTS
    assert (len(provider.jobs), provider.calls) == (1, []), "every row is paid once"
    assert not files[1].with_name("out.jsonl.jobs").exists()


def test_a_batch_is_cancelled_and_its_rows_are_run_later(provider: BatchProvider, files: tuple[Path, Path]) -> None:
    kill_while_it_waits(provider, files)
    done = run(provider, files, "--cancel")
    assert done.code == 0, done.err
    assert len(read_rows(files[1])) == 10
    assert run(provider, files).code == 0
    assert {row["id"]: row["text"] for row in read_rows(files[1])} == TEXTS
    assert len(provider.calls) == 10


def test_a_batch_that_is_refused_is_sent_one_by_one(provider: BatchProvider, files: tuple[Path, Path]) -> None:
    provider.rejects = True
    done = run(provider, files, "--provider-batch")
    assert done.code == 0
    assert "batches are not enabled; 20 rows of the batch sent one by one" in done.err
    assert {row["id"]: row["text"] for row in read_rows(files[1])} == TEXTS


def test_rows_of_the_demo_are_sent_one_by_one(tmp_path: Path) -> None:
    files = write_rows(tmp_path / "in.jsonl", ROWS), tmp_path / "out.jsonl"
    done = dragoman("batch", *files, "-m", "demo/any", "--provider-batch")
    assert (done.code, len(read_rows(files[1]))) == (0, 20)
    assert "rows that cannot be in a batch of their provider are sent one by one" in done.err


def test_a_provider_batch_does_not_go_with_ray(tmp_path: Path) -> None:
    files = write_rows(tmp_path / "in.jsonl", ROWS), tmp_path / "out.jsonl"
    done = dragoman("batch", *files, "-m", "demo/any", "--provider-batch", "--ray")
    assert done.code == 2
    assert "--provider-batch must be left out with --ray" in done.err
