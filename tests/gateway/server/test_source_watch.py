"""`--reload`: a change of the code or the config replaces the workers."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dragoman.gateway.server.source_watch import stamps
from tests.gateway.server.test_stopping import Slow
from tests.support.gateway.live import PATIENCE, Gateway, chat, record


def test_python_files_and_the_config_are_watched(tmp_path: Path) -> None:
    names = ("a.py", "b/c.py", "a.txt", ".hidden/a.py", "__pycache__/a.py", "dragoman.toml")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = stamps(tmp_path, tmp_path / "dragoman.toml")
    assert found.keys() == {str(tmp_path / name) for name in ("a.py", "b/c.py", "dragoman.toml")}
    assert stamps(tmp_path, tmp_path / "gone.toml").keys() == {str(tmp_path / name) for name in ("a.py", "b/c.py")}
    os.utime(tmp_path / "a.py", ns=(1, 1))
    assert stamps(tmp_path, None)[str(tmp_path / "a.py")] == 1


def test_a_config_that_is_wrong_is_named_and_the_old_workers_stay(tmp_path: Path) -> None:
    with Gateway(tmp_path, options=("--reload",)) as gateway:
        config, before = gateway.path, gateway.processes()
        good = config.read_text()
        config.write_text(f"{good}\n[hooks.h]\nuse = 'nothing'\n")
        gateway.wait_until(lambda: "hooks.h: unknown hook 'nothing'" in gateway.log.read_text())
        gateway.wait_until(lambda: "the workers stay" in gateway.log.read_text())
        assert gateway.processes() == before
        assert gateway.get("/health/live")[0] == 200
        config.write_text(good)
        gateway.wait_until(lambda: before[1] not in gateway.processes())
        assert gateway.get("/health/live")[0] == 200


def test_a_new_worker_answers_while_the_old_one_finishes(tmp_path: Path) -> None:
    hook = tmp_path / "hook.py"
    hook.write_text("")
    with (
        Slow() as upstream,
        Gateway(tmp_path, record("up", upstream.base_url()), options=("--reload",)) as gateway,
    ):
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(gateway.post, "/v1/chat/completions", chat("up/m"))
            assert upstream.request_received.acquire(timeout=PATIENCE)
            old = gateway.processes()[1]
            os.utime(hook, ns=(1, 1))
            gateway.wait_until(lambda: len(gateway.processes()) == 3)
            gateway.wait_until(lambda: gateway.get("/health/live")[0] == 200)
            assert old in gateway.processes()
            upstream.may_go.set()
            assert answer.result()[0] == 200
        gateway.wait_until(lambda: old not in gateway.processes())
        assert len(gateway.processes()) == 2


def test_a_changed_file_replaces_the_workers(tmp_path: Path) -> None:
    hook = tmp_path / "hook.py"
    hook.write_text("")
    with Gateway(tmp_path, options=("--reload",)) as gateway:
        parent, worker = gateway.processes()
        os.utime(hook, ns=(1, 1))
        gateway.wait_until(lambda: worker not in gateway.processes())
        gateway.wait_until(lambda: gateway.get("/health/live")[0] == 200)
        assert gateway.processes()[0] == parent
        assert gateway.process.poll() is None
