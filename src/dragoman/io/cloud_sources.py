"""Where the credentials of a cloud would come from: found out from the environment and files, without a network.

`dragoman doctor` shows it for each cloud, also for those that no model uses yet. It never shows a credential.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import SetupError
from dragoman.io.aws_credentials import AwsCredential
from dragoman.types import is_object


class CredentialSource(NamedTuple):
    """Where the credentials of a cloud would come from, and what to do about it."""

    name: str
    hint: str | None = None


def aws_source(env: Mapping[str, str], /) -> CredentialSource | None:
    """The source of AWS keys, in the order of AWS's own SDKs; None if nothing is set.

    >>> aws_source({"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "s"})
    CredentialSource(name='AWS (environment)', hint=None)
    """
    credential = AwsCredential(env)
    name = credential.expected_source
    return None if name is None else CredentialSource(name, credential.login_hint)


def google_source(env: Mapping[str, str], /) -> CredentialSource | None:
    """The source of Google's default credentials; None if nothing is set."""
    variable = "GOOGLE_APPLICATION_CREDENTIALS"
    if file := env.get(variable):
        return CredentialSource(f"Google ({variable}: {_google_type(Path(file), variable)})")
    home = env.get("HOME") or env.get("USERPROFILE")
    roots = (env.get("CLOUDSDK_CONFIG"), home and f"{home}/.config/gcloud", _below(env.get("APPDATA"), "gcloud"))
    for root in filter(None, roots):
        if (login := Path(root) / "application_default_credentials.json").is_file():
            return CredentialSource(
                f"Google (gcloud: {_google_type(login, 'the login of gcloud')})",
                "run gcloud auth application-default login if it has expired",
            )
    return None


def _google_type(file: Path, name: str) -> str:
    """The kind of credentials in a file, such as service_account."""
    try:
        data = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise SetupError(f"{name} must be a JSON file that can be read, got {type(error).__name__}") from None
    kind = data.get("type") if is_object(data) else None
    if not isinstance(kind, str) or not kind.replace("_", "").isalpha():
        raise SetupError(f"{name} must be a file of Google credentials, got JSON without a type")
    return kind


def azure_source(env: Mapping[str, str], /) -> CredentialSource | None:
    """The source of Entra tokens, in the order of azure-identity; None if nothing is set.

    >>> azure_source({"AZURE_FEDERATED_TOKEN_FILE": "f", "AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t"}).name
    'Microsoft Entra (workload identity)'
    """
    client = ("AZURE_CLIENT_ID", "AZURE_TENANT_ID")
    for secret in ("AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH"):
        if all(map(env.get, (*client, secret))):
            return CredentialSource(f"Microsoft Entra (environment: {secret})")
    if all(map(env.get, (*client, "AZURE_FEDERATED_TOKEN_FILE"))):
        return CredentialSource("Microsoft Entra (workload identity)")
    if env.get("IDENTITY_ENDPOINT") or env.get("MSI_ENDPOINT"):
        return CredentialSource("Microsoft Entra (managed identity)")
    home = env.get("HOME") or env.get("USERPROFILE")
    folder = env.get("AZURE_CONFIG_DIR") or _below(home, ".azure")
    if folder and (Path(folder) / "azureProfile.json").is_file():
        return CredentialSource("Microsoft Entra (Azure CLI)", "run az login if it has expired")
    return None


def _below(folder: str | None, name: str) -> str | None:
    return f"{folder}/{name}" if folder else None


class Cloud(NamedTuple):
    """A cloud as `dragoman doctor` sees it."""

    name: str
    identities: tuple[str, ...]
    find_source: Callable[[Mapping[str, str]], CredentialSource | None]
    variables: tuple[str, ...]
    """Variables that show that somebody wants to use the cloud."""
    hint: str


CLOUDS = (
    Cloud(
        "AWS",
        ("aws",),
        aws_source,
        ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"),
        "set AWS_BEARER_TOKEN_BEDROCK or AWS_PROFILE, or run aws configure sso",
    ),
    Cloud(
        "Google Cloud",
        ("google",),
        google_source,
        ("GOOGLE_CLOUD_PROJECT",),
        "run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS",
    ),
    Cloud(
        "Azure",
        ("azure", "azure-foundry"),
        azure_source,
        ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL", "ANTHROPIC_FOUNDRY_RESOURCE"),
        "run az login, or set the key's variable",
    ),
)
