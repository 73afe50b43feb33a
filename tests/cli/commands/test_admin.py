"""`dragoman admin`: every operation of the admin API, against a running gateway."""

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli import gateway_client, main
from dragoman.cli.gateway_config import gateway_url
from dragoman.gateway.management.api import OPERATIONS
from tests.support.gateway.admin import ADMIN, ROOT_CONFIG
from tests.support.gateway.live import PATIENCE, Gateway, chat, free_port

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    with Gateway(folder, f'{ROOT_CONFIG}[gateway]\nstore = "sqlite:{folder / "store.db"}"\n') as running:
        yield running


@pytest.fixture
def run(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("DRAGOMAN_GATEWAY", gateway.url)
    monkeypatch.setenv("DRAGOMAN_KEY", ADMIN)

    def admin(*words: str) -> tuple[int, str, str]:
        code = main(["admin", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return admin


def test_the_gateway_is_found_by_the_config(
    run: Run, gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gateway_client, "START_WAIT", 0.0)
    config = tmp_path / "dragoman.toml"
    config.write_text(f'[gateway]\nport = {gateway.port}\nhost = "0.0.0.0"\n[providers.up]\napi_key = "${{NOT_SET}}"\n')
    monkeypatch.delenv("DRAGOMAN_GATEWAY")
    assert answer(run, "me", "show")["name"] == "root"
    config.rename(tmp_path / "other.toml")
    code, _, err = run("me", "show", "--gateway", f"http://127.0.0.1:{free_port()}")
    assert (code, "no gateway runs" in err) == (1, True)
    assert answer(run, "me", "show", "--config", str(tmp_path / "other.toml"))["name"] == "root"
    monkeypatch.setenv("DRAGOMAN_GATEWAY", f"http://127.0.0.1:{free_port()}")
    code, _, err = run("me", "show", "--config", str(tmp_path / "other.toml"))
    assert (code, "no gateway runs" in err) == (1, True)


@pytest.mark.parametrize(
    ("table", "url"),
    [
        ("", "http://127.0.0.1:8080"),
        ("port = 9000", "http://127.0.0.1:9000"),
        ('host = "::"', "http://[::1]:8080"),
        ('host = "box"\ntls_certificate = "server.pem"', "https://box:8080"),
    ],
)
def test_the_address_in_the_config_is_one_to_call(tmp_path: Path, table: str, url: str) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text(f"[gateway]\n{table}\n")
    assert gateway_url(Namespace(gateway=None, config=str(path))) == url


def test_a_gateway_that_only_starts_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gateway_client, "START_WAIT", PATIENCE)
    starting = Gateway(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        keys = pool.submit(main, ["admin", "keys", "list", "--gateway", starting.url])
        with starting:
            assert keys.result() == 0
    capsys.readouterr()


def answer(run: Run, *words: str) -> Any:
    code, out, err = run(*words, "--json")
    assert code == 0, err
    return json.loads(out)


def test_every_operation_is_listed(run: Run) -> None:
    code, out, _ = run()
    listed = [" ".join(line.split()[:2]) for line in out.splitlines()]
    assert (code, listed) == (0, [operation.id.replace(".", " ") for operation in OPERATIONS])


def test_a_team_a_key_and_their_usage(run: Run, gateway: Gateway) -> None:
    team = answer(run, "teams", "create", "research", "budgets=100/month,1_000_000tokens/day", "tags=a,b")
    assert team["budgets"] == [{"per": "month", "dollars": 100.0}, {"per": "day", "tokens": 1_000_000}]
    code, key, note = run("keys", "create", "alice", "team=research", "requests_per_minute=9", "expires_at=90d")
    assert (code, "shown only once" in note) == (0, True)
    body = {**chat("demo/any"), "user": "u1"}
    assert gateway.post("/v1/chat/completions", body, authorization=f"Bearer {key.strip()}")[0] == 200
    shown = answer(run, "keys", "show", "alice")
    assert (shown["team"], shown["requests_per_minute"], shown["levels"][0]["used"]) == ("research", 9, 1)
    _, out, _ = run("keys", "list")
    assert "alice" in out
    assert key.strip() not in out
    (bucket,) = answer(run, "usage", "sums", "by=total", "group=team,user", "key=alice")["buckets"]
    assert (bucket["team"], bucket["user"], bucket["requests"]) == ("research", "u1", 1)
    _, out, _ = run("usage", "sums", "by=total", "key=alice")
    assert len(out.splitlines()) == 2  # a head and one sum: totals are not printed again
    assert "\tp50\tp95\tp99" in out
    _, out, _ = run("usage", "requests", "key=alice")
    heads, *rows = (line.split("\t") for line in out.splitlines())
    assert [row for row in rows if len(row[heads.index("duration")].partition(".")[2]) > 6] == []
    code, csv, _ = run("usage", "requests-csv", "key=alice")
    assert (code, len(csv.splitlines())) == (0, 2)
    assert answer(run, "keys", "update", "alice", "team=null", "models=demo/*")["team"] is None
    _, new, _ = run("keys", "rotate", "alice", "overlap=60")
    assert new != key
    assert answer(run, "audit", "list", "limit=1")["changes"][0]["action"] == "keys.rotate"


def test_lists_of_a_table_are_separated_by_commas(run: Run) -> None:
    pool = answer(run, "pools", "set", "both", "targets=demo/any, demo/slow", "order=fastest")
    assert pool["table"] == {"targets": ["demo/any", "demo/slow"], "order": "fastest"}
    tier = answer(run, "tiers", "set", "cheap", 'models={"demo/any": 1}')
    assert tier["table"] == {"models": {"demo/any": 1}}


def test_a_kind_alone_lists_its_operations(run: Run) -> None:
    code, out, _ = run("teams")
    assert (code, {line.split()[0] for line in out.splitlines()}) == (0, {"teams"})


def test_errors_say_what_to_write(run: Run) -> None:
    assert run("keys", "create", "late", "expires_at=never")[2] == (
        "dragoman: admin: expires_at must be like 90d (s, m, h, d, w), 2027-01-31T00:00:00Z or null, got 'never'\n"
    )
    _, _, past = run("keys", "create", "late", "expires_at=2020-01-01T00:00:00Z")
    assert past == "dragoman: expires_at must be in the future, got 2020-01-01 00:00:00+00:00\n"
    assert run("keys", "show", "nobody")[2] == "dragoman: there is no key 'nobody'\n"


def test_tables_are_for_people(run: Run) -> None:
    run("teams", "create", "people", "requests_per_minute=60", "budgets=50/month")
    _, out, _ = run("limits", "list")
    assert "0/60 requests/minute, 0/50 dollars/month" in out
    code, out, err = run("teams", "update", "people", "requests_per_minute=null")
    assert (code, err) == (0, "")
    assert "budgets\t50.0 dollars/month" in out
    _, out, _ = run("audit", "list", "limit=1")
    assert out.splitlines()[1].split("\t")[1][:2] == "20"


def test_a_secret_is_read_from_a_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "key.txt"
    path.write_text("sk-secret-1234567890\n")
    table = answer(run, "providers", "set", "box", "like=vllm", "base_url=http://127.0.0.1:9/v1", f"api_key=@{path}")
    assert table["table"] == {"like": "vllm", "base_url": "http://127.0.0.1:9/v1", "api_key": "(set)"}
    assert answer(run, "aliases", "set", "fast-*", "spec=box/qwen, demo/any")["targets"] == ["box/qwen", "demo/any"]
    assert answer(run, "tiers", "set", "simple", 'models={"demo/any": 1}')["targets"] == ["demo/any"]
    for kind, name in (("tiers", "simple"), ("aliases", "fast-*"), ("providers", "box")):
        assert answer(run, kind, "delete", name) == {"name": name}


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("key", "list"), 2, "KIND must be one of me, keys, limits, teams"),
        (("keys", "make"), 2, "ACTION must be one of list, create"),
        (("keys", "create"), 2, "NAME is missing: dragoman admin keys create NAME"),
        (("keys", "create", "a", "color=red"), 2, "unknown field 'color'"),
        (("keys", "create", "a", "red"), 2, "'red' must be a field and its value"),
        (("keys", "create", "a", "budgets=50"), 2, "budgets must be like 50/month"),
        (("keys", "disable", "a", "x=1"), 2, "keys disable takes no fields"),
        (("keys", "create", "a b"), 1, "the name of a key must be"),
        (("keys", "show", "nobody"), 1, "there is no key 'nobody'"),
        (("usage", "sums", "by=year"), 1, "by must be"),
    ],
)
def test_a_mistake_is_explained(run: Run, words: tuple[str, ...], code: int, problem: str) -> None:
    got, out, err = run(*words)
    assert (got, out) == (code, "")
    assert problem in err


def test_a_missing_key_is_explained(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAGOMAN_KEY")
    code, _, err = run("keys", "list")
    assert (code, "set DRAGOMAN_KEY to a key with the role admin" in err) == (1, True)
