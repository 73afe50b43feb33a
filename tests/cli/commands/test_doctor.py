import json
import socket
import tomllib
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.cli.commands.doctor import EXTRAS
from dragoman.testing import FaultyServer, RawResponse
from tests.support.cli import dragoman
from tests.support.paths import ROOT


def test_a_machine_without_keys_is_ok_and_gets_hints() -> None:
    done = dragoman("doctor")
    assert done.code == 0
    assert "ok     default model: demo/any\n" in done.out
    assert (
        "hint   no provider has a key; for example, export ANTHROPIC_API_KEY=…; dragoman providers lists the variables\n"
        in done.out
    )


def test_extras_that_are_not_installed_are_hints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Their parent packages are missing, too, as after `pip install dragoman`.
    monkeypatch.setitem(EXTRAS, "google", ("no_such_package.auth", "Google credentials"))
    main(["doctor"])
    out = capsys.readouterr().out
    assert "google (Google credentials)" in out
    assert out.count("not installed") == 1


def test_it_knows_every_extra_for_users() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(EXTRAS) == set(project["optional-dependencies"]) - {"bench", "dev", "docs", "real", "sdks"}


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
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
        HTTPS_PROXY="socks5://proxy:1080",
    )
    wrong = [line for line in done.out.splitlines() if line.startswith("wrong")]
    assert done.code == 1
    assert len(wrong) == 6
    assert "LLM_BOX must be scheme" in wrong[0]
    assert "/nowhere.pem" in wrong[1]
    assert "HTTPS_PROXY: proxies of kind socks5" in wrong[2]
    assert wrong[3].endswith("dragoman.toml: invalid config:")
    assert "\n       - aliases.fast: aliases form a cycle" in done.out
    for fix in ("unset it", "\n       correct the file\n", "export GROQ_API_KEY=…", "set DRAGOMAN_MODEL to a spec"):
        assert fix in done.out


def test_without_config_it_checks_the_file_that_serve_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRAGOMAN_CONFIG", raising=False)
    file = tmp_path / "dragoman.toml"
    file.write_text('[aliases]\nhouse = "demo/any"\n', encoding="utf-8")
    main(["doctor"])
    assert "ok     dragoman.toml: 1 alias," in capsys.readouterr().out
    file.write_text('[keys.alice]\nhash = "${DRAGOMAN_NO_SUCH_VARIABLE}"\n', encoding="utf-8")
    assert main(["doctor"]) == 1
    assert "DRAGOMAN_NO_SUCH_VARIABLE" in capsys.readouterr().out


def test_json_has_the_status_of_each_check() -> None:
    results = json.loads(dragoman("doctor", "--json").out)
    assert {result["status"] for result in results} <= {"ok", "hint", "wrong"}


def test_online_calls_the_providers_that_have_a_key() -> None:
    with FaultyServer(RawResponse(status=401, body=b'{"error":{"message":"no"}}'), repeat=True) as server:
        done = dragoman("doctor", "--online", LLM_BOX=f"vllm+http://secret-key-1@127.0.0.1:{server.port}/v1")
    assert done.code == 1
    assert "ok     demo: 6 models" in done.out
    assert "wrong  box: AuthFailed" in done.out
    assert "secret-key-1" not in done.out


def test_a_config_that_is_wrong_is_named_once(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("[aliases", encoding="utf-8")
    for path in (broken, tmp_path / "nowhere.toml"):
        assert dragoman("doctor", "--config", path).out.count(path.name) == 1


def _doctor_of(config: str, folder: Path) -> str:
    """The output of doctor for a config."""
    file = folder / "dragoman.toml"
    file.write_text(config, encoding="utf-8")
    return dragoman("doctor", "--config", file).out


def test_a_store_that_does_not_answer_is_wrong(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    out = _doctor_of(f'[gateway]\nstore = "redis://127.0.0.1:{port}"\n', tmp_path)
    assert "wrong  gateway.store: redis: ConnectionError; start it, or correct store in [gateway]\n" in out


def test_an_address_at_which_the_gateway_cannot_listen_is_named(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
        out = _doctor_of(f"[gateway]\nport = {port}\n", tmp_path)
    assert f"hint   a program listens at 127.0.0.1:{port} already; if that is not your gateway, change port" in out
    assert f"listen at 127.0.0.1:{port}" not in _doctor_of(f"[gateway]\nport = {port}\n", tmp_path)
    out = _doctor_of('[gateway]\nhost = "host.invalid"\n', tmp_path)
    assert "wrong  the gateway cannot listen at host.invalid:8080: " in out
    assert out.count("correct host in [gateway]") == 1


def test_a_gateway_that_everybody_could_use_is_wrong(tmp_path: Path) -> None:
    out = _doctor_of('[gateway]\nhost = "0.0.0.0"\nport = 8099\n', tmp_path)
    assert "wrong  " in out
    assert "can be reached from other machines, and there are no keys; add a key (dragoman keys new NAME)" in out


def test_a_config_for_the_library_alone_has_no_checks_of_a_gateway(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))):
        out = _doctor_of('[aliases]\nhouse = "demo/any"\n', tmp_path)
    assert "1 alias" in out
    assert "gateway cannot" not in out


def test_the_advice_is_not_given_twice(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    out = dragoman("doctor", "--online", LLM_BOX=f"vllm+http://key-1@127.0.0.1:{port}/v1").out
    assert "wrong  box: ConnectFailed" in out
    assert out.count("the network") == 1


def test_it_says_where_the_credentials_of_a_cloud_come_from() -> None:
    env = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "very-secret"}
    done = dragoman("doctor", DRAGOMAN_MODEL="bedrock/m", **env)
    assert "bedrock: credentials from AWS (environment)" in done.out
    assert "very-secret" not in done.out + done.err


def test_a_spec_with_a_colon_names_a_cloud_too() -> None:
    env = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "very-secret"}
    assert "bedrock: credentials from AWS (environment)" in dragoman("doctor", DRAGOMAN_MODEL="bedrock:m", **env).out


def test_credentials_of_a_cloud_that_are_missing_are_named() -> None:
    done = dragoman("doctor", DRAGOMAN_MODEL="vertex/gemini-x", GOOGLE_CLOUD_PROJECT="p")
    assert "vertex: AuthFailed" in done.out or "vertex: no key from Google" in done.out


def test_each_cloud_that_is_configured_has_its_source(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    config = "[profile work]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = dev\nregion = eu-west-1\n"
    (tmp_path / ".aws" / "config").write_text(config, encoding="utf-8")
    key = tmp_path / "key.json"
    key.write_text('{"type": "service_account", "private_key": "very-secret"}', encoding="utf-8")
    env = {"HOME": str(tmp_path), "AWS_PROFILE": "work", "GOOGLE_APPLICATION_CREDENTIALS": str(key)}
    done = dragoman("doctor", AZURE_OPENAI_ENDPOINT="https://x.openai.azure.com", **env)
    sso = "AWS: a model would use credentials from AWS (profile work: SSO); run aws sso login --profile work"
    assert sso in done.out
    assert "Google Cloud: a model would use credentials from Google (GOOGLE_APPLICATION_CREDENTIALS: serv" in done.out
    assert "hint   Azure: AZURE_OPENAI_ENDPOINT is set, but no credentials are; run az login" in done.out
    assert "very-secret" not in done.out + done.err


def test_a_key_of_a_cloud_is_its_source() -> None:
    done = dragoman("doctor", AWS_BEARER_TOKEN_BEDROCK="very-secret-1", AWS_REGION="eu-west-1", AWS_PROFILE="nowhere")
    assert "bedrock: AWS_BEARER_TOKEN_BEDROCK is set" in done.out
    assert "AWS:" not in done.out


def test_a_login_of_aws_that_has_expired_says_what_to_run(tmp_path: Path) -> None:
    pytest.importorskip("botocore")
    (tmp_path / ".aws").mkdir()
    config = "[profile work]\nsso_start_url = https://x\nsso_region = eu-west-1\nsso_account_id = 1\n"
    config += "sso_role_name = dev\nregion = eu-west-1\n"
    (tmp_path / ".aws" / "config").write_text(config, encoding="utf-8")
    done = dragoman("doctor", DRAGOMAN_MODEL="bedrock/m", HOME=str(tmp_path), AWS_PROFILE="work")
    assert done.code == 1
    assert "run aws sso login --profile work" in done.out


def test_it_counts_the_providers_of_the_file_and_not_all_that_are_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "dragoman.toml"
    config.write_text('[aliases]\nhouse = "demo/any"\n\n[providers.box]\nlike = "vllm"\nbase_url = "http://box/v1"\n')
    main(["doctor", "--config", str(config)])
    assert f"{config}: 1 alias, 1 provider of its own\n" in capsys.readouterr().out
