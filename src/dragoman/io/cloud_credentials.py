"""Credentials of clouds: roles and profiles of AWS, the default credentials of Google, identities of Microsoft Entra.

The libraries of Google and Microsoft are extras, imported when a target needs them first.
"""

import os
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from msgspec.structs import replace

from dragoman.errors import AuthFailed
from dragoman.http import HttpRequest
from dragoman.io.aws_credentials import AwsCredential
from dragoman.io.credentials import CachedCredential, import_libraries
from dragoman.targets.credentials import Credential, Token
from dragoman.targets.target import Identity, Target

GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
AZURE_SCOPE, FOUNDRY_SCOPE = "https://cognitiveservices.azure.com/.default", "https://ai.azure.com/.default"
_AZURE_CLOUDS = {"login.microsoftonline.us": "azure.us", "login.chinacloudapi.cn": "azure.cn"}
"""The clouds of governments and of China: the host of their logins, and the domain of their services."""

_QUOTA_HEADER = "x-goog-user-project"
_GOOGLE_HINT = "run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS"
_AZURE_HINT = "run az login, or set the key's variable"


def cloud_credential(identity: Identity, env: Mapping[str, str], /) -> Credential:
    """What signs the requests to targets of a cloud, if they have no key."""
    match identity:
        case "aws":
            return AwsCredential(env)
        case "google":
            return GoogleCredential(env)
        case "azure":
            return EntraCredential(env)
        case "azure-foundry":
            return EntraCredential(env, FOUNDRY_SCOPE)


class _BearerCredential(CachedCredential[Token]):
    """Sends a token that expires."""

    def __init__(self, env: Mapping[str, str], /) -> None:
        super().__init__()
        self._env = env
        self._library: Any = None

    def forget(self) -> None:
        """Let the library look for a token again: it does not know that a server rejected the last one."""
        self._library = None

    def apply(self, http: HttpRequest, secret: Token, _target: Target, /) -> HttpRequest:
        headers = {**http.headers, "authorization": f"Bearer {secret.value}"}
        return replace(http, headers=headers, secret=secret.value)


class GoogleCredential(_BearerCredential):
    """Application default credentials: a service account, a workload identity, gcloud's login, a metadata server."""

    source = "Google"
    _quota_project: str | None = None

    def fetch(self) -> Token:
        """A token of the first source that has one."""
        missing = "no token; set GOOGLE_ACCESS_TOKEN, or use google-auth: pip install 'dragoman[google]'"
        auth, transport = import_libraries("google.auth", "google.auth.transport.requests", missing=missing)
        try:
            if self._library is None:
                self._library = self._load(auth)
            self._library.refresh(transport.Request())
        except auth.exceptions.GoogleAuthError as error:
            self._library = None
            raise AuthFailed(f"google-auth found no token ({type(error).__name__}); {_GOOGLE_HINT}") from error
        expiry = self._library.expiry
        self._quota_project = getattr(self._library, "quota_project_id", None)
        self.source = f"Google ({type(self._library).__module__.rpartition('.')[2]})"
        return Token(value=self._library.token, expires_at=expiry and expiry.replace(tzinfo=UTC).timestamp())

    def apply(self, http: HttpRequest, secret: Token, target: Target, /) -> HttpRequest:
        """The request with the token, and the project that pays for it if that is another one."""
        http = super().apply(http, secret, target)
        if not self._quota_project or any(name.lower() == _QUOTA_HEADER for name in http.headers):
            return http
        return replace(http, headers={**http.headers, _QUOTA_HEADER: self._quota_project})

    def _load(self, auth: Any) -> Any:
        # google-auth reads the environment of the process; a registry with another one has only the file that it names.
        if self._env is os.environ:
            return auth.default(scopes=[GOOGLE_SCOPE])[0]
        file = self._env.get("GOOGLE_APPLICATION_CREDENTIALS")
        if not file:
            raise AuthFailed("no token; set GOOGLE_ACCESS_TOKEN or GOOGLE_APPLICATION_CREDENTIALS")
        quota_project = self._env.get("GOOGLE_CLOUD_QUOTA_PROJECT") or None
        return auth.load_credentials_from_file(file, scopes=[GOOGLE_SCOPE], quota_project_id=quota_project)[0]


class EntraCredential(_BearerCredential):
    """Microsoft Entra through azure-identity: environment, workload identity, managed identity, logins of tools."""

    source = "Microsoft Entra"

    def __init__(self, env: Mapping[str, str], scope: str = AZURE_SCOPE, /) -> None:
        super().__init__(env)
        login = env.get("AZURE_AUTHORITY_HOST", "").removeprefix("https://").strip("/")
        self._scope = scope.replace("azure.com", _AZURE_CLOUDS.get(login, "azure.com"))

    def fetch(self) -> Token:
        """A token of the first source that has one."""
        if self._env is not os.environ:
            # azure-identity reads the environment of the process.
            raise AuthFailed("no key; set the key's variable, or pass api_key= (a function may return a token)")
        missing = "no key; set the key's variable, or use azure-identity: pip install 'dragoman[azure]'"
        identity, core = import_libraries("azure.identity", "azure.core.exceptions", missing=missing)
        self._library = self._library or identity.DefaultAzureCredential()
        try:
            token = self._library.get_token(self._scope)
        except core.AzureError as error:
            raise AuthFailed(f"azure-identity found no token ({type(error).__name__}); {_AZURE_HINT}") from error
        return Token(value=token.token, expires_at=float(token.expires_on))
