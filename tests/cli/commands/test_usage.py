import asyncio
import json
import time
from pathlib import Path

import pytest

from dragoman.gateway.store import open_store
from dragoman.gateway.store.base import UsageRow
from tests.support.cli import dragoman


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "dragoman.toml"
    path.write_text(f'[gateway]\nstore = "sqlite:{tmp_path / "store.db"}"\n', encoding="utf-8")
    return path


async def record(url: str, row: UsageRow) -> None:
    store = open_store(url)
    await store.record([row])
    await store.aclose()


def test_usage_is_shown_by_day_key_model_and_target(config: Path) -> None:
    row = UsageRow(
        id="r1",
        started_at=time.time(),
        key="alice",
        model="fast",
        target="groq/llama",
        outcome="served",
        input=5,
        output=2,
    )
    asyncio.run(record(f"sqlite:{config.parent / 'store.db'}", row))
    lines = dragoman("usage", "--config", config).out.splitlines()
    assert lines[1].split("\t") == [row.day, "alice", "fast", "groq/llama", "1", "0", "0", "5", "2", "0.000000+"]
    (usage,) = json.loads(dragoman("usage", "--config", config, "--json").out)
    assert (usage["requests"], usage["output"]) == (1, 2)


@pytest.mark.parametrize("days", ["0", "-1", "x", "99999999"])
def test_a_wrong_number_of_days_is_refused(config: Path, days: str) -> None:
    done = dragoman("usage", "--config", config, f"--days={days}")
    assert done.code == 2
    assert "1 to 3660" in done.err
