import json
from pathlib import Path

from dragoman.testing import FaultyServer, RawResponse
from tests.support.cli import dragoman


def test_a_bare_machine_is_well_and_told_what_to_do() -> None:
    done = dragoman("doctor")
    assert done.code == 0
    assert "ok     without -m, demo/any answers\n" in done.out
    assert (
        "hint   no key of any provider is set; export ANTHROPIC_API_KEY=…, say; dragoman providers lists all\n"
        in done.out
    )


def test_what_is_wrong_is_found_all_at_once(tmp_path: Path) -> None:
    config = tmp_path / "dragoman.toml"
    config.write_text('[aliases]\nfast = "slow"\nslow = "fast"\n', encoding="utf-8")
    done = dragoman(
        "doctor",
        "--config",
        config,
        LLM_BOX="nonsense",
        GROQ_API_KEY="k\n1",
        DRAGOMAN_MODEL="nobody/x",
        SSL_CERT_FILE="/nowhere.pem",
    )
    wrong = [line for line in done.out.splitlines() if line.startswith("wrong")]
    assert done.code == 1
    assert len(wrong) == 5
    assert "LLM_BOX is malformed" in wrong[0]
    assert "aliases form a cycle" in wrong[2]


def test_json_has_verdicts() -> None:
    findings = json.loads(dragoman("doctor", "--json").out)
    assert {finding["verdict"] for finding in findings} <= {"ok", "hint", "wrong"}


def test_online_asks_those_who_have_a_key() -> None:
    with FaultyServer(RawResponse(status=401, body=b'{"error":{"message":"no"}}'), repeat=True) as server:
        done = dragoman("doctor", "--online", LLM_BOX=f"vllm+http://secret-key-1@127.0.0.1:{server.port}/v1")
    assert done.code == 1
    assert "ok     demo answers, and lists 6 models" in done.out
    assert "wrong  box does not answer: AuthFailed" in done.out
    assert "secret-key-1" not in done.out


def test_a_config_that_is_wrong_is_named_once(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("[aliases", encoding="utf-8")
    for path in (broken, tmp_path / "nowhere.toml"):
        assert dragoman("doctor", "--config", path).out.count(path.name) == 1
