"""The keys of AWS: from the environment and the files of a profile; from all other sources through botocore."""

import os
import time
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from dragoman.errors import AuthFailed, SetupError
from dragoman.http import HttpRequest
from dragoman.io.credentials import CachedCredential, import_libraries
from dragoman.targets.aws import AwsKeys, Profile, keys_from_env, read_profile, region_of, sign_v4
from dragoman.targets.target import S3_HASH, Target

SERVICE = "bedrock"
_OTHER_SERVICES = ("bedrock-mantle", "aws-external-anthropic", "sagemaker")
"""Services with another name in their signatures. The name is also a part of their hosts."""
BOTOCORE_LIFETIME = 300.0
"""Seconds for which keys of botocore are used; botocore itself refreshes them before they expire."""
_WEB_IDENTITY = "AWS_WEB_IDENTITY_TOKEN_FILE"
_CONTAINER = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
_DELEGATE_NAMES = {"role_arn": "role", "sso_account_id": "SSO", "login_session": "login"}
_LOGINS = ("sso_account_id", "login_session")
_NO_KEYS = "no keys; set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"


def add_region(env: Mapping[str, str], /) -> Mapping[str, str]:
    """The environment, with the region of its AWS profile if it has no region itself."""
    if env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION"):
        return env
    region = AwsCredential(env).region
    # A copy would read every variable, and the registry resolves a target again if a variable that it read changes.
    return ChainMap({"AWS_REGION": region}, cast("MutableMapping[str, str]", env)) if region else env


class _Choice(NamedTuple):
    """Which source has the keys, as far as the environment and the files of AWS say."""

    source: str | None
    keys: AwsKeys | None = None
    delegate: str | None = None


class AwsCredential(CachedCredential[AwsKeys]):
    """Signs requests with Signature Version 4."""

    source = "AWS"

    def __init__(self, env: Mapping[str, str], /) -> None:
        super().__init__()
        self._env = env
        self._session: Any = None

    def fetch(self) -> AwsKeys:
        """The keys of the first source that has some, in the order of AWS's own SDKs."""
        choice = self._choose()
        if choice.keys is None:
            return self._from_botocore(choice.delegate)
        self.source = f"AWS ({choice.source})"
        return choice.keys

    def _choose(self) -> "_Choice":
        if keys := keys_from_env(self._env):
            return _Choice("environment", keys)
        profile, name = self._profile(), f"profile {self._profile_name}"
        delegate = profile.delegate
        if delegate is None and self._env.get("AWS_ROLE_ARN") and self._env.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
            return _Choice(_WEB_IDENTITY, delegate=_WEB_IDENTITY)
        if delegate is not None:
            return _Choice(f"{name}: {_DELEGATE_NAMES.get(delegate, delegate)}", delegate=delegate)
        if profile.keys is not None:
            return _Choice(name, profile.keys)
        return _Choice(next((name for name in _CONTAINER if self._env.get(name)), None))

    @property
    def expected_source(self) -> str | None:
        """Where the keys would come from, found out without a network; None if nothing says it."""
        source = self._choose().source
        return source and f"AWS ({source})"

    @property
    def login_hint(self) -> str | None:
        """What to run if a login has expired; None if the keys do not come from a login."""
        if self._choose().delegate not in _LOGINS:
            return None
        return f"run aws sso login --profile {self._profile_name} if it has expired"

    def forget(self) -> None:
        """Let botocore look for keys again: it does not know that a server rejected them."""
        self._session = None

    def apply(self, http: HttpRequest, secret: AwsKeys, target: Target, /) -> HttpRequest:
        host = urlsplit(target.base_url).netloc
        region = region_of(host) or self.region
        if region is None:
            raise SetupError(f"{target.provider}: no region; set AWS_REGION")
        service = next((name for name in _OTHER_SERVICES if name in host.split(".")), SERVICE)
        if S3_HASH in http.headers:
            service = "s3"
        return sign_v4(http, secret, region, service, time.time())

    @property
    def region(self) -> str | None:
        """The region in the environment or in the profile."""
        return self._env.get("AWS_REGION") or self._env.get("AWS_DEFAULT_REGION") or self._profile().region

    @property
    def _profile_name(self) -> str:
        return self._env.get("AWS_PROFILE") or self._env.get("AWS_DEFAULT_PROFILE") or "default"

    def _profile(self) -> Profile:
        texts = (self._read("AWS_SHARED_CREDENTIALS_FILE", "credentials"), self._read("AWS_CONFIG_FILE", "config"))
        profile = read_profile(self._profile_name, *texts)
        if not profile.is_known and self._profile_name != "default":
            raise SetupError(f"AWS_PROFILE must be a profile in ~/.aws, got {self._profile_name!r}")
        return profile

    def _read(self, variable: str, name: str) -> str:
        home = self._env.get("HOME") or self._env.get("USERPROFILE")
        file = self._env.get(variable) or (home and f"{home}/.aws/{name}")
        try:
            return Path(file).expanduser().read_text(encoding="utf-8") if file else ""
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise SetupError(f"{file} must be a file that can be read as UTF-8, got {type(error).__name__}") from None

    def _from_botocore(self, delegate: str | None) -> AwsKeys:
        needs = f"{delegate} needs" if delegate else "roles of containers and instances need"
        # botocore reads the environment of the process; a registry with another one must not.
        if self._env is not os.environ:
            raise AuthFailed(f"{_NO_KEYS}; {needs} a Registry without env=")
        missing = f"{_NO_KEYS}; {needs} botocore: pip install 'dragoman[aws]'"
        exceptions, session = import_libraries("botocore.exceptions", "botocore.session", missing=missing)
        self._session = self._session or session.Session()
        try:
            credentials = self._session.get_credentials()
            keys = credentials and credentials.get_frozen_credentials()
        except exceptions.BotoCoreError as error:
            hint = self.login_hint
            why = f"botocore found no keys ({type(error).__name__})"
            raise AuthFailed(f"{why}; {hint}" if hint else why) from error
        if not keys:
            raise AuthFailed(_NO_KEYS)
        self.source = f"AWS (botocore: {credentials.method})"
        return AwsKeys(
            access_key=keys.access_key,
            secret_key=keys.secret_key,
            session_token=keys.token or None,
            expires_at=time.time() + BOTOCORE_LIFETIME,
        )
