"""Where the keys of AWS come from, and what the registry signs with them."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.engine.effects import Sign
from dragoman.errors import AuthFailed, DragomanError, SetupError
from dragoman.http import HttpRequest
from dragoman.io.aws_credentials import AwsCredential
from dragoman.registry import Registry
from dragoman.targets.target import Target

ENV = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret-1"}
FILE = """
[default]
aws_access_key_id = A1
aws_secret_access_key = secret-2
[work]
aws_access_key_id = A2
aws_secret_access_key = secret-3
"""


def sign(env: Any, base_url: str = "https://bedrock-runtime.eu-west-1.amazonaws.com") -> tuple[str, str]:
    credential = AwsCredential(env)
    target = Target(provider="bedrock", model="m", wire="bedrock", base_url=base_url, credential=credential)
    signed = credential.sign(Sign(HttpRequest(method="POST", origin=base_url, path="/x", body=b"{}"), target))
    return signed.headers["authorization"].partition("Credential=")[2].partition(",")[0], credential.source


def test_keys_of_the_environment() -> None:
    scope, source = sign(ENV)
    assert scope.startswith("AKID/")
    assert scope.endswith("/eu-west-1/bedrock/aws4_request")
    assert source == "AWS (environment)"


@pytest.mark.parametrize(
    ("host", "service"),
    [
        ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1/bedrock"),
        ("vpce-1.bedrock-runtime.eu-west-1.vpce.amazonaws.com", "eu-west-1/bedrock"),
        ("bedrock-mantle.eu-west-1.api.aws", "eu-west-1/bedrock-mantle"),
        ("vpce-1.bedrock-mantle.eu-west-1.vpce.amazonaws.com", "eu-west-1/bedrock-mantle"),
        ("aws-external-anthropic.eu-west-1.api.aws", "eu-west-1/aws-external-anthropic"),
        ("runtime.sagemaker.eu-west-1.amazonaws.com", "eu-west-1/sagemaker"),
    ],
)
def test_the_service_is_that_of_the_host(host: str, service: str) -> None:
    assert sign(ENV, f"https://{host}")[0].endswith(f"/{service}/aws4_request")


def test_the_region_comes_from_the_environment_if_the_host_has_none() -> None:
    assert "/us-west-2/" in sign({**ENV, "AWS_REGION": "us-west-2"}, "http://localhost:8080")[0]
    with pytest.raises(Exception, match="no region; set AWS_REGION"):
        sign(ENV, "http://localhost:8080")


def test_a_provider_that_signs_for_aws_in_the_region_of_the_environment() -> None:
    registry = Registry(env={**ENV, "AWS_DEFAULT_REGION": "eu-west-1"})
    base_url = "https://llm.{AWS_REGION|AWS_DEFAULT_REGION}.amazonaws.com"
    registry.add_provider(name="cloud", wire="openai_chat", base_url=base_url, identity="aws", key_names=("TOKEN",))
    target = registry.target("cloud/m")
    assert target.base_url == "https://llm.eu-west-1.amazonaws.com"
    assert isinstance(target.credential, AwsCredential)
    assert target.credential is registry.target("cloud/n").credential
    assert not target.lacks_key


def test_a_bearer_key_comes_before_a_signature() -> None:
    registry = Registry(env={**ENV, "TOKEN": "bearer-key"})
    registry.add_provider(name="cloud", wire="openai_chat", base_url="https://x", identity="aws", key_names=("TOKEN",))
    target = registry.target("cloud/m")
    assert target.credential is None
    assert target.auth_headers() == {"authorization": "Bearer bearer-key"}


@pytest.mark.parametrize("region", ["", "evil.org/"])
def test_a_base_url_needs_its_variable(region: str) -> None:
    registry = Registry(env={"AWS_REGION": region})
    registry.add_provider(name="cloud", wire="openai_chat", base_url="https://llm.{AWS_REGION}.aws", identity="aws")
    with pytest.raises(SetupError, match="cloud: AWS_REGION must be set, or pass base_url="):
        registry.target("cloud/m")


def test_keys_of_profiles(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(FILE)
    home = {"HOME": str(tmp_path)}
    assert sign(home)[0].startswith("A1/")
    scope, source = sign({**home, "AWS_PROFILE": "work"})
    assert scope.startswith("A2/")
    assert source == "AWS (profile work)"
    assert sign({**home, **ENV})[0].startswith("AKID/")
    assert sign({**home, **ENV, "AWS_PROFILE": "work"})[0].startswith("AKID/"), "as with AWS's own SDKs"
    with pytest.raises(AuthFailed, match=r"AWS_PROFILE must be a profile in ~/\.aws, got 'other'"):
        sign({**home, "AWS_PROFILE": "other"})


def test_the_region_of_a_profile(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[default]\nregion = eu-north-1\n[profile work]\nregion = us-west-2\n")
    home = {"HOME": str(tmp_path)}
    assert Registry(env=home).target("bedrock/m").base_url == "https://bedrock-runtime.eu-north-1.amazonaws.com"
    assert "us-west-2" in Registry(env={**home, "AWS_PROFILE": "work"}).target("bedrock-mantle/m").base_url
    assert "eu-west-3" in Registry(env={**home, "AWS_REGION": "eu-west-3"}).target("bedrock/m").base_url
    with pytest.raises(SetupError, match="AWS_REGION or AWS_DEFAULT_REGION must be set"):
        Registry(env={}).target("bedrock/m")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_bytes(b"\xff\xfe")
    with pytest.raises(
        AuthFailed, match="credentials must be a file that can be read as UTF-8, got UnicodeDecodeError"
    ):
        sign({"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")})
    with pytest.raises(AuthFailed, match="got IsADirectoryError"):
        sign({"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path)})


def test_what_botocore_must_do_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text("[default]\nsso_account_id = 1\nsso_role_name = r\n")
    env = {"AWS_CONFIG_FILE": str(tmp_path / "config")}
    with pytest.raises(AuthFailed, match="sso_account_id needs a Registry without env="):
        sign(env)
    web = {"AWS_ROLE_ARN": "arn:aws:iam::1:role/x", "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token")}
    with pytest.raises(AuthFailed, match="AWS_WEB_IDENTITY_TOKEN_FILE needs a Registry without env="):
        sign(web)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    with pytest.raises(AuthFailed, match=r"containers and instances need botocore: pip install 'dragoman\[aws\]'"):
        sign(os.environ)
    monkeypatch.setenv("AWS_CONFIG_FILE", env["AWS_CONFIG_FILE"])
    with pytest.raises(AuthFailed, match=r"sso_account_id needs botocore: pip install 'dragoman\[aws\]'"):
        sign(os.environ)


def test_botocore_looks_again_after_a_rejection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("botocore")
    count = tmp_path / "count"
    script = tmp_path / "keys.sh"
    script.write_text(
        f'echo x >> {count}; n=$(wc -l < {count}); echo "{{\\"Version\\": 1, \\"AccessKeyId\\": \\"A$n\\", '
        f'\\"SecretAccessKey\\": \\"secret-$n\\"}}"'
    )
    (tmp_path / "config").write_text(f"[default]\ncredential_process = sh {script}\n")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    credential = AwsCredential(os.environ)
    base_url = "https://bedrock-runtime.eu-west-1.amazonaws.com"
    target = Target(provider="bedrock", model="m", wire="bedrock", base_url=base_url, credential=credential)
    http = HttpRequest(method="POST", origin=base_url, path="/x", body=b"{}")
    assert [credential.sign(Sign(http, target)).secret for _ in range(2)] == ["secret-1", "secret-1"]
    assert credential.sign(Sign(http, target, "secret-1")).secret == "secret-2"


def test_no_keys_at_all(tmp_path: Path) -> None:
    with pytest.raises(AuthFailed, match="set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID"):
        sign({"HOME": str(tmp_path)})


def test_other_sources_go_through_botocore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("botocore")
    script = tmp_path / "keys.sh"
    script.write_text('echo \'{"Version": 1, "AccessKeyId": "A9", "SecretAccessKey": "s", "SessionToken": "t"}\'')
    (tmp_path / "config").write_text(f"[profile tool]\ncredential_process = sh {script}\n")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "tool")
    scope, source = sign(os.environ)
    assert scope.startswith("A9/")
    assert source == "AWS (botocore: custom-process)"


def our_key() -> str:
    try:
        return AwsCredential(os.environ).fetch().access_key
    except DragomanError as error:
        return type(error).__name__


def key_of_botocore() -> str:
    session, exceptions = pytest.importorskip("botocore.session"), pytest.importorskip("botocore.exceptions")
    try:
        keys = session.Session().get_credentials()
        return str(keys and keys.get_frozen_credentials().access_key)
    except exceptions.BotoCoreError as error:
        return type(error).__name__


SHARED = """
[default]
aws_access_key_id = D1
aws_secret_access_key = s
[process]
aws_access_key_id = P1
aws_secret_access_key = s
[half]
aws_access_key_id = H1
"""
CONFIG = """
[profile process]
credential_process = sh SCRIPT
[profile process2]
credential_process = sh SCRIPT
aws_access_key_id = P2
aws_secret_access_key = s
[profile config]
aws_access_key_id = C1
aws_secret_access_key = s
[profile "two words"]
aws_access_key_id = W1
aws_secret_access_key = s
"""


@pytest.mark.parametrize(
    "env",
    [
        {},
        ENV,
        {**ENV, "AWS_PROFILE": "config"},
        {"AWS_ACCESS_KEY_ID": "A1"},
        {"AWS_SECRET_ACCESS_KEY": "s"},
        *({"AWS_PROFILE": name} for name in ("default", "process", "process2", "config", "two words", "half", "none")),
        {"AWS_DEFAULT_PROFILE": "config"},
    ],
    ids=str,
)
def test_the_same_keys_as_botocore(env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "keys.sh"
    script.write_text('echo \'{"Version": 1, "AccessKeyId": "X9", "SecretAccessKey": "s"}\'')
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(SHARED)
    (tmp_path / ".aws" / "config").write_text(CONFIG.replace("SCRIPT", str(script)))
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true", **env}.items():
        monkeypatch.setenv(name, value)
    ours, theirs = our_key(), key_of_botocore()
    errors = ("Error", "NotFound", "Failed", "None")
    assert ours == theirs or (ours.endswith(errors) and theirs.endswith(errors))
