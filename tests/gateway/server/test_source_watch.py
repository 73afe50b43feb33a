"""`--reload`: a change of the code or the config replaces the workers."""

import os
from pathlib import Path

from dragoman.gateway.server.source_watch import stamps
from tests.support.gateway.live import Gateway


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


def test_a_config_that_is_wrong_is_named_and_the_next_one_starts(tmp_path: Path) -> None:
    with Gateway(tmp_path, options=("--reload",)) as gateway:
        config = gateway.path
        good = config.read_text()
        config.write_text(f"{good}\n[hooks.h]\nuse = 'nothing'\n")
        gateway.wait_until(lambda: "hooks.h: unknown hook 'nothing'" in gateway.log.read_text())
        config.write_text(good)
        gateway.wait_until(lambda: gateway.get("/health/live")[0] == 200)
        # A worker that cannot start is replaced after a second, not at once.
        assert gateway.log.read_text().count("could not start") <= 3


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
