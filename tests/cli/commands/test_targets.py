import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.engine.health import Health
from dragoman.gateway.config import decode_config
from dragoman.gateway.management.managed_state import ManagedState, encode_state
from dragoman.gateway.management.manager import KEY, StateRead, read_state
from dragoman.gateway.observability.shared_health import SharedHealthStore
from dragoman.gateway.store import Store, open_store
from tests.support.cli import dragoman

TARGET = "groq/llama"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "dragoman.toml"
    path.write_text(f'[gateway]\nstore = "sqlite:{tmp_path / "store.db"}"\n', encoding="utf-8")
    return path


def store_of(config: Path) -> Store:
    return open_store(decode_config(config.read_text(encoding="utf-8")).gateway.store)


async def state_in_gateway(config: Path) -> str:
    """The state of the target in a gateway that reads the store now."""
    store = store_of(config)
    shared = SharedHealthStore(store)
    await shared.sync()
    await store.aclose()
    return shared.read(TARGET).state


async def stored_state(config: Path) -> StateRead:
    store = store_of(config)
    try:
        return await read_state(store)
    finally:
        await store.aclose()


def test_a_gateway_follows_disable_and_enable(config: Path) -> None:
    assert asyncio.run(state_in_gateway(config)) == "healthy"
    disabled = dragoman("targets", "disable", TARGET, "--seconds", "600", "--config", config, "--json")
    assert json.loads(disabled.out) == {"target": TARGET, "state": "disabled"}
    assert asyncio.run(state_in_gateway(config)) == "cooldown"
    enabled = dragoman("targets", "enable", TARGET, "--config", config, "--json")
    assert json.loads(enabled.out) == {"target": TARGET, "state": "healthy"}
    assert asyncio.run(state_in_gateway(config)) == "healthy"


def test_the_gateway_that_disabled_a_target_follows_enable(config: Path) -> None:
    async def main() -> str:
        store = store_of(config)
        shared = SharedHealthStore(store)
        Health(store=shared, clock=time.monotonic).disable(TARGET, 600)
        await shared.sync()
        done = await asyncio.to_thread(dragoman, "targets", "enable", TARGET, "--config", config)
        assert done.code == 0
        await shared.sync()
        await store.aclose()
        return shared.read(TARGET).state

    assert asyncio.run(main()) == "healthy"


@pytest.mark.parametrize("words", [("usage",), ("targets", "disable", TARGET), ("targets", "enable", TARGET)])
def test_a_store_in_memory_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text("", encoding="utf-8")
    done = dragoman(*words, "--config", path)
    assert done.code == 1
    assert "store must be shared with the gateway" in done.err


def test_a_folder_without_a_config_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = dragoman("usage")
    message = "there is no dragoman.toml in this folder; name the config of the gateway with --config FILE"
    assert (done.code, done.err) == (1, f"dragoman: {message}\n")


def test_a_target_of_an_unknown_provider_is_not_disabled(config: Path) -> None:
    done = dragoman("targets", "disable", "nobody/x", "--config", config)
    assert done.code == 1
    assert "'nobody'" in done.err


def test_an_alias_is_not_disabled(config: Path) -> None:
    with config.open("a", encoding="utf-8") as file:
        file.write('[aliases]\nfast = "groq/llama"\n')
    done = dragoman("targets", "disable", "fast", "--config", config)
    message = "TARGET must be provider/model, got 'fast', which stands for groq/llama; name one of these"
    assert (done.code, done.err) == (2, f"dragoman: targets: {message}\n")


def test_every_change_is_in_the_audit_log(config: Path) -> None:
    dragoman("targets", "disable", TARGET, "--seconds", "600", "--config", config)
    dragoman("targets", "enable", TARGET, "--config", config)
    state, _ = asyncio.run(stored_state(config))
    entries = [(each.id, each.actor, each.action, each.name, each.fields) for each in state.changes]
    assert entries == [
        (1, "command line", "targets.disable", TARGET, {"target": TARGET, "seconds": 600.0}),
        (2, "command line", "targets.enable", TARGET, {"target": TARGET}),
    ]


def test_a_target_of_a_provider_that_was_made_at_run_time_is_disabled(config: Path) -> None:
    async def make() -> None:
        store = store_of(config)
        table: dict[str, Any] = {"like": "vllm", "base_url": "http://box:8000/v1"}
        await store.write(KEY, encode_state(ManagedState(providers={"box": table})), ttl=None)
        await store.aclose()

    asyncio.run(make())
    done = dragoman("targets", "disable", "box/m", "--config", config, "--json")
    assert json.loads(done.out) == {"target": "box/m", "state": "disabled"}
    state, _ = asyncio.run(stored_state(config))
    assert list(state.providers) == ["box"]


def test_seconds_are_only_for_disable(config: Path) -> None:
    done = dragoman("targets", "enable", TARGET, "--seconds", "5", "--config", config)
    assert (done.code, done.err) == (2, "dragoman: targets: --seconds is only for disable\n")
