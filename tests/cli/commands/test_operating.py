"""The operator's commands against a real gateway, and the store that it writes to."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import threading
import time
import tomllib
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.engine.health import Health
from dragoman.gateway.auth.api_keys import Key, Keys
from dragoman.gateway.config import decode_config
from dragoman.gateway.observability.shared_health import SharedHealthStore
from dragoman.gateway.store import Store, open_store
from dragoman.gateway.store.base import UsageRow
from dragoman.registry import Registry
from tests.support.cli import COMMAND, dragoman, environment

SPEC = "groq/llama"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "dragoman.toml"
    path.write_text(f'[gateway]\nstore = "sqlite:{tmp_path / "store.db"}"\n', encoding="utf-8")
    return path


@contextmanager
def serving(*words: str) -> Generator[str, None, None]:
    """A gateway of this command line; where it listens."""
    with subprocess.Popen(
        [*COMMAND, "serve", *words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(), text=True
    ) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            found = re.search(r"http://\S+", line)
            assert found, line
            wait_until_ready(found[0])
            yield found[0]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    assert process.returncode == 0


def wait_until_ready(url: str) -> None:
    """Its workers listen a moment after it says where."""
    pause = threading.Event()
    for _ in range(1000):
        try:
            with urllib.request.urlopen(f"{url}/health/ready") as reply:  # noqa: S310 - our own address
                if reply.status == 200:
                    return
        except OSError:
            pause.wait(0.02)
    raise AssertionError(f"{url} is not ready")


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def test_a_gateway_answers_and_tells_of_its_health() -> None:
    with serving("--port", free_port()) as url:
        registry = Registry(env={"LLM_GATEWAY": url.replace("http://", "vllm+http://") + "/v1"})
        assert (
            registry.model("gateway/demo/any").generate("Is it so?").text == "You said “Is it so?”, which is 3 words."
        )
        done = dragoman("health", "--gateway", url)
        assert done.code == 0
        assert done.out.startswith("demo/any\twell\t")
        assert json.loads(dragoman("health", "--json", DRAGOMAN_GATEWAY=url).out)["status"] == "ok"
        shown = dragoman("explain", "demo/any", "--gateway", url).out
    assert "   health   well" in shown


def test_a_gateway_that_is_not_there_is_one_line() -> None:
    done = dragoman("health", "--gateway", f"http://127.0.0.1:{free_port()}")
    assert done.code == 1
    assert done.err.startswith("dragoman: ConnectFailed: ")
    assert done.err.count("\n") == 1


def test_a_wrong_config_stops_serve_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text("[gatewya]\nport = 1\n", encoding="utf-8")
    done = dragoman("serve", "--config", path)
    assert done.code == 1
    assert done.err == f"dragoman: {path}: invalid config: - gatewya: unknown table; did you mean 'gateway'?\n"


def test_serve_beyond_this_machine_needs_keys() -> None:
    done = dragoman("serve", "--host", "0.0.0.0", "--port", free_port())  # noqa: S104 - it is refused
    assert done.code == 1
    assert "there are no keys" in done.err


def test_a_new_key_is_shown_once_and_its_hash_knows_it() -> None:
    done = dragoman("keys", "new", "alice")
    table = tomllib.loads(done.err[done.err.index("[keys") :])["keys"]["alice"]
    found = Keys([Key(id="alice", hash=table["hash"])]).check(done.out.strip())
    assert found is not None
    assert done.out.strip() not in done.err


def test_a_new_key_as_json() -> None:
    made = json.loads(dragoman("keys", "new", "alice", "--json").out)
    assert Keys([Key(id="alice", hash=made["hash"])]).check(made["key"]) is not None


def test_usage_is_told_by_day_key_and_model(config: Path) -> None:
    row = UsageRow(
        id="r1", moment=time.time(), key="alice", model="fast", target=SPEC, outcome="served", input=5, output=2
    )
    asyncio.run(record(config, row))
    lines = dragoman("usage", "--config", config).out.splitlines()
    assert lines[1].split("\t") == [row.day, "alice", "fast", SPEC, "1", "0", "0", "5", "2", "0.000000+"]
    (use,) = json.loads(dragoman("usage", "--config", config, "--json").out)
    assert (use["requests"], use["output"]) == (1, 2)


@pytest.mark.parametrize("days", ["0", "-1", "x", "99999999"])
def test_days_that_there_are_not_are_refused(config: Path, days: str) -> None:
    done = dragoman("usage", "--config", config, f"--days={days}")
    assert done.code == 2
    assert "1 to 3660" in done.err


def store_of(config: Path) -> Store:
    return open_store(decode_config(config.read_text(encoding="utf-8")).gateway.store)


async def record(config: Path, row: UsageRow) -> None:
    store = store_of(config)
    await store.record([row])
    await store.aclose()


def test_a_gateway_hears_of_a_bench_and_of_its_end(config: Path) -> None:
    assert asyncio.run(heard(config)) == "healthy"
    assert dragoman("bench", SPEC, "--seconds", "600", "--config", config).code == 0
    assert asyncio.run(heard(config)) == "cooldown"
    assert json.loads(dragoman("enable", SPEC, "--config", config, "--json").out) == {
        "target": SPEC,
        "state": "healthy",
    }
    assert asyncio.run(heard(config)) == "healthy"


async def heard(config: Path) -> str:
    """What a gateway that looks at the store now takes a target for."""
    store = store_of(config)
    shared = SharedHealthStore(store)
    await shared.sync()
    await store.aclose()
    return shared.read(SPEC).state


def test_who_benched_it_hears_that_it_was_put_back(config: Path) -> None:
    async def main() -> str:
        store = store_of(config)
        shared = SharedHealthStore(store)
        Health(conditions=shared, clock=time.monotonic).disable(SPEC, 600)
        await shared.sync()
        done = await asyncio.to_thread(dragoman, "enable", SPEC, "--config", config)
        assert done.code == 0
        await shared.sync()
        await store.aclose()
        return shared.read(SPEC).state

    assert asyncio.run(main()) == "healthy"


@pytest.mark.parametrize("words", [("usage",), ("bench", SPEC), ("enable", SPEC)])
def test_a_store_that_only_the_gateway_sees_cannot_be_asked(words: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text("", encoding="utf-8")
    done = dragoman(*words, "--config", path)
    assert done.code == 1
    assert "no store that others can see" in done.err


def test_a_port_that_is_taken_is_an_error_before_anything_is_served() -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = dragoman("serve", "--port", str(port))
    assert (done.code, done.err) == (
        1,
        f"dragoman: cannot listen at http://127.0.0.1:{port}: Address already in use\n",
    )


def test_a_target_that_nobody_could_ask_is_not_benched(config: Path) -> None:
    done = dragoman("bench", "nobody/x", "--config", config)
    assert done.code == 1
    assert "unknown provider 'nobody'" in done.err


def test_an_alias_is_not_benched(config: Path) -> None:
    with config.open("a", encoding="utf-8") as file:
        file.write('[aliases]\nfast = "groq/llama"\n')
    done = dragoman("bench", "fast", "--config", config)
    assert (done.code, done.err) == (2, "dragoman: bench: fast is no target; it stands for groq/llama\n")
