"""The keys of AWS: from the environment and the files of a profile; from all other sources through botocore."""

import os
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dragoman.errors import AuthFailed, SetupError
from dragoman.http import HttpRequest
from dragoman.io.credentials import CachedCredential
from dragoman.targets.aws import AwsKeys, Profile, keys_from_env, read_profile, region_of, sign_v4
from dragoman.targets.target import Target

SERVICE, MANTLE = "bedrock", "bedrock-mantle"
"""The names that signatures have: of the service, and of the one whose hosts begin with it."""
BOTOCORE_LIFETIME = 300.0
"""Seconds for which keys of botocore are used; botocore itself refreshes them before they expire."""


class AwsCredential(CachedCredential[AwsKeys]):
    """Signs requests with Signature Version 4.

    >>> AwsCredential({})
    AwsCredential(AWS)
    """

    source = "AWS"

    def __init__(self, env: Mapping[str, str], /) -> None:
        super().__init__()
        self._env = env
        self._session: Any = None

    def fetch(self) -> AwsKeys:
        """The keys of the first source that has some."""
        env = self._env
        if not env.get("AWS_PROFILE") and (keys := keys_from_env(env)):
            self.source = "AWS (environment)"
            return keys
        profile = self._profile()
        if profile.keys is not None:
            self.source = f"AWS (profile {self._profile_name})"
            return profile.keys
        if keys := self._from_botocore():
            self.source = "AWS (botocore)"
            return keys
        raise AuthFailed(
            "no keys; set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )

    def apply(self, http: HttpRequest, secret: AwsKeys, target: Target, /) -> HttpRequest:
        """The request with its signature."""
        host = urlsplit(target.base_url).netloc
        region = region_of(host) or self.region
        if region is None:
            raise SetupError(f"{target.provider}: no region; set AWS_REGION")
        return sign_v4(http, secret, region, MANTLE if host.startswith(MANTLE) else SERVICE, time.time())

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
            raise SetupError(f"AWS_PROFILE names the profile {self._profile_name!r}, which no file has")
        return profile

    def _read(self, variable: str, name: str) -> str:
        home = self._env.get("HOME") or self._env.get("USERPROFILE")
        file = self._env.get(variable) or (home and f"{home}/.aws/{name}")
        try:
            return Path(file).expanduser().read_text(encoding="utf-8") if file else ""
        except (OSError, UnicodeDecodeError):
            return ""

    def _from_botocore(self) -> AwsKeys | None:
        # botocore reads the environment of the process; a registry with another one must not.
        if self._env is not os.environ:
            return None
        try:
            exceptions: Any = import_module("botocore.exceptions")
            session: Any = import_module("botocore.session")
        except ImportError:
            return None
        self._session = self._session or session.Session(profile=self._env.get("AWS_PROFILE") or None)
        try:
            credentials = self._session.get_credentials()
            keys = credentials and credentials.get_frozen_credentials()
        except exceptions.BotoCoreError as error:
            raise AuthFailed(f"botocore found no keys ({type(error).__name__})") from error
        if not keys:
            return None
        return AwsKeys(
            access_key=keys.access_key,
            secret_key=keys.secret_key,
            session_token=keys.token or None,
            expires_at=time.time() + BOTOCORE_LIFETIME,
        )
