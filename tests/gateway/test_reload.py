"""A config that changes under a running gateway: taken whole, or refused, and the old one stays."""

from pathlib import Path

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.reload import Reloader
from dragoman.gateway.runtime import Runtime, read_gateway_config
from dragoman.targets.health_policy import HealthPolicy

KEYED = f'[keys.alice]\nhash = "{new_key()[1]}"\n'


def reloading(path: Path) -> tuple[App, Reloader]:
    app = App(Runtime(read_gateway_config(path, {}), {}))
    return app, Reloader(app, path, {})


@pytest.mark.parametrize("text", ["", '[aliases]\nfast = "demo/any"\n'], ids=["empty", "without keys"])
def test_a_reload_does_not_open_a_gateway_to_all(tmp_path: Path, text: str) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text(KEYED)
    app, reloader = reloading(path)
    path.write_text(text)
    assert not reloader.reload()
    assert app.runtime.config.keys


def test_limits_that_every_worker_would_count_alone_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text("[gateway]\nworkers = 2\n" + KEYED)
    app, reloader = reloading(path)
    path.write_text("[gateway]\nworkers = 2\n" + KEYED + "concurrent = 1\n")
    assert not reloader.reload()
    assert "store must be shared" in (app.runtime.file_problem or "")


def test_a_config_whose_file_is_gone_stays(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text('[aliases]\nfast = "demo/any"\n')
    app, reloader = reloading(path)
    before = app.runtime
    path.unlink()
    reloader.check()
    assert app.runtime is before


def test_keys_may_change_and_come(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text("")
    app, reloader = reloading(path)
    path.write_text(KEYED)
    assert reloader.reload()
    assert len(app.runtime.config.keys) == 1


def test_the_health_policy_follows_the_config(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text("[health]\nthreshold = 7\n")
    app, reloader = reloading(path)
    policies = [app.runtime.registry.health.policy]
    for text in ('[aliases]\nfast = "demo/any"\n', "[health]\ncap = 60\n"):
        path.write_text(text)
        assert reloader.reload()
        policies.append(app.runtime.registry.health.policy)
    assert policies == [HealthPolicy(threshold=7), HealthPolicy(), HealthPolicy(cap=60.0)]
