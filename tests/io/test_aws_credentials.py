"""Where the keys of AWS come from, and what the registry signs with them."""

import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.engine.effects import Sign
from dragoman.errors import AuthFailed, SetupError
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
    scope, source = sign({**home, **ENV, "AWS_PROFILE": "work"})
    assert scope.startswith("A2/")
    assert source == "AWS (profile work)"
    assert sign({**home, **ENV})[0].startswith("AKID/")
    with pytest.raises(AuthFailed, match="profile 'other'"):
        sign({**home, "AWS_PROFILE": "other"})


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
    assert source == "AWS (botocore)"
