"""Where the credentials of clouds would come from, without a network and without a secret."""

import json
from pathlib import Path

import pytest

from dragoman.errors import SetupError
from dragoman.io.cloud_sources import aws_source, azure_source, google_source

SSO = "[profile work]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = dev\nregion = eu-west-1\n"


def aws(tmp_path: Path, config: str = "", credentials: str = "", **env: str) -> tuple[str, str | None] | None:
    for name, text in (("config", config), ("credentials", credentials)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")}
    return aws_source({**files, **env})


def test_a_login_of_aws_has_a_hint(tmp_path: Path) -> None:
    assert aws(tmp_path, SSO, AWS_PROFILE="work") == (
        "AWS (profile work: SSO)",
        "run aws sso login --profile work if it has expired",
    )


@pytest.mark.parametrize(
    ("config", "env", "source"),
    [
        ("", {}, None),
        ("", {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "s"}, "AWS (environment)"),
        ("[default]\naws_access_key_id = AKID\naws_secret_access_key = s", {}, "AWS (profile default)"),
        ("[profile a]\nrole_arn = arn\nsource_profile = b", {"AWS_PROFILE": "a"}, "AWS (profile a: role)"),
        ("[default]\ncredential_process = /bin/x", {}, "AWS (profile default: credential_process)"),
        ("", {"AWS_ROLE_ARN": "r", "AWS_WEB_IDENTITY_TOKEN_FILE": "f"}, "AWS (AWS_WEB_IDENTITY_TOKEN_FILE)"),
        ("", {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "u"}, "AWS (AWS_CONTAINER_CREDENTIALS_FULL_URI)"),
    ],
)
def test_the_source_of_aws_is_named(tmp_path: Path, config: str, env: dict[str, str], source: str | None) -> None:
    found = aws(tmp_path, config, **env)
    assert found == (None if source is None else (source, None))


def test_a_profile_that_no_file_has_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"AWS_PROFILE must be a profile in ~/\.aws, got 'x'"):
        aws(tmp_path, AWS_PROFILE="x")


def test_the_source_of_google_is_named(tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"type": "service_account", "private_key": "very-secret"}), encoding="utf-8")
    found = google_source({"GOOGLE_APPLICATION_CREDENTIALS": str(key)})
    assert found == ("Google (GOOGLE_APPLICATION_CREDENTIALS: service_account)", None)
    assert google_source({}) is None
    assert google_source({"HOME": str(tmp_path)}) is None
    login = tmp_path / ".config" / "gcloud" / "application_default_credentials.json"
    login.parent.mkdir(parents=True)
    login.write_text('{"type": "authorized_user"}', encoding="utf-8")
    found = google_source({"HOME": str(tmp_path)})
    assert found is not None
    assert found.name == "Google (gcloud: authorized_user)"
    assert "gcloud auth application-default login" in (found.hint or "")


@pytest.mark.parametrize("text", [None, "very-secret", "[]", "{}", '{"type": "-----BEGIN KEY"}'])
def test_a_file_of_google_that_is_wrong_is_named_without_its_text(tmp_path: Path, text: str | None) -> None:
    key = tmp_path / "key.json"
    if text is not None:
        key.write_text(text, encoding="utf-8")
    with pytest.raises(SetupError, match="GOOGLE_APPLICATION_CREDENTIALS must be") as caught:
        google_source({"GOOGLE_APPLICATION_CREDENTIALS": str(key)})
    assert "secret" not in str(caught.value)
    assert "BEGIN" not in str(caught.value)


CLIENT = {"AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t"}


@pytest.mark.parametrize(
    ("env", "source"),
    [
        ({}, None),
        (CLIENT, None),
        ({**CLIENT, "AZURE_CLIENT_SECRET": "s"}, "Microsoft Entra (environment: AZURE_CLIENT_SECRET)"),
        ({**CLIENT, "AZURE_FEDERATED_TOKEN_FILE": "f"}, "Microsoft Entra (workload identity)"),
        ({"IDENTITY_ENDPOINT": "http://x"}, "Microsoft Entra (managed identity)"),
    ],
)
def test_the_source_of_entra_is_named(env: dict[str, str], source: str | None) -> None:
    found = azure_source(env)
    assert (None if found is None else found.name) == source


def test_a_login_of_azure_has_a_hint(tmp_path: Path) -> None:
    (tmp_path / "azureProfile.json").write_text("{}", encoding="utf-8")
    assert azure_source({"AZURE_CONFIG_DIR": str(tmp_path)}) == (
        "Microsoft Entra (Azure CLI)",
        "run az login if it has expired",
    )
