"""Signature Version 4 of AWS: the keys, how they are written in the files of a profile, and the signature itself."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import msgspec
from msgspec.structs import replace

from dragoman.errors import SetupError
from dragoman.http import HttpRequest

ALGORITHM = "AWS4-HMAC-SHA256"
_SIGNED = ("host", "content-type")
"""Headers that are signed besides those of AWS; a proxy may change others."""


class AwsKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of an AWS account or role. Its repr shows only the id of the access key.

    >>> AwsKeys(access_key="AKID", secret_key="s")
    AwsKeys(AKID)
    """

    access_key: str
    secret_key: str
    session_token: str | None = None
    expires_at: float | None = None
    """Seconds since 1970."""

    @property
    def value(self) -> str:
        """The secret key."""
        return self.secret_key

    def __repr__(self) -> str:
        return f"AwsKeys({self.access_key})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # msgspec's own would show the keys.
        return [("access_key", self.access_key)]


# Where keys are written -----------------------------------------------------------------------------------------------


def keys_from_env(env: Mapping[str, str], /) -> AwsKeys | None:
    """The keys in environment variables; None if there are none.

    >>> keys_from_env({"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "s"})
    AwsKeys(AKID)
    """
    fields = {name.removeprefix("AWS_").lower(): value for name, value in env.items() if name.startswith("AWS_")}
    keys = _keys(fields)
    if keys is None and fields.get("access_key_id", "").strip():
        raise SetupError("AWS_SECRET_ACCESS_KEY must be set if AWS_ACCESS_KEY_ID is set, got no value")
    return keys


def _keys(fields: Mapping[str, str]) -> AwsKeys | None:
    # Files and variables have the same names, but for the prefix and the case.
    access = fields.get("access_key_id", "").strip()
    secret = fields.get("secret_access_key", "").strip()
    token = fields.get("session_token", "").strip() or fields.get("security_token", "").strip()
    return AwsKeys(access_key=access, secret_key=secret, session_token=token or None) if access and secret else None


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What the files of AWS say about one profile."""

    keys: AwsKeys | None = None
    delegate: str | None = None
    """The setting that says who gives the keys, such as `role_arn`; then the keys above are not the ones to use."""
    region: str | None = None
    is_known: bool = True
    """Whether one of the files has the profile."""


def read_profile(name: str, credentials: str, config: str, /) -> Profile:
    """A profile from the texts of ~/.aws/credentials and ~/.aws/config.

    >>> read_profile("work", "[work]\\naws_access_key_id = AKID\\naws_secret_access_key = s", "").keys
    AwsKeys(AKID)
    """
    own = _section(credentials, "credentials", name)
    other = _section(config, "config", f"profile {name}", f'profile "{name}"', name)
    fields = {**(other or {}), **(own or {})}
    keys = _keys({key.removeprefix("aws_"): value for key, value in fields.items()})
    # The order of AWS's own SDKs: a role or a login comes before keys, and a program before keys in the config file.
    has_own_keys = bool(own and own.get("aws_access_key_id"))
    delegates = (*_DELEGATES, *(() if has_own_keys else ("credential_process",)))
    return Profile(
        keys=keys,
        delegate=next((delegate for delegate in delegates if fields.get(delegate)), None),
        region=fields.get("region") or None,
        is_known=own is not None or other is not None,
    )


_DELEGATES = ("role_arn", "sso_account_id", "login_session")


def _section(text: str, file: str, *names: str) -> dict[str, str] | None:
    from configparser import Error, RawConfigParser

    parser = RawConfigParser(strict=False, default_section="\x00none")
    try:
        parser.read_string(text)
    except Error as error:
        raise SetupError(f"the {file} file of AWS is malformed ({type(error).__name__})") from None
    return next((dict(parser[name]) for name in names if name in parser), None)


# The signature --------------------------------------------------------------------------------------------------------


def region_of(host: str, /) -> str | None:
    """The region in the name of a host.

    >>> region_of("bedrock-runtime.eu-west-1.amazonaws.com"), region_of("localhost")
    ('eu-west-1', None)
    """
    match = re.search(r"\.((?:[a-z]{2,}-)+\d+)\.", host)
    return match[1] if match else None


def sign_v4(http: HttpRequest, keys: AwsKeys, region: str, service: str, now: float, /) -> HttpRequest:
    """The request with its signature, of this moment in seconds since 1970.

    >>> http = HttpRequest(method="GET", origin="https://example.amazonaws.com", path="/")
    >>> keys = AwsKeys(access_key="AKIDEXAMPLE", secret_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    >>> sign_v4(http, keys, "us-east-1", "service", 1440938160).headers["authorization"].rpartition("=")[2]
    '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31'
    """
    moment = datetime.fromtimestamp(int(now), UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    own = {"x-amz-date": moment}
    if keys.session_token:
        own["x-amz-security-token"] = keys.session_token
    headers = {**http.headers, **own}
    signed = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    signed = {name: value for name, value in signed.items() if name in _SIGNED or name.startswith("x-amz-")}
    signed.setdefault("host", _host(http.origin))
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        (
            http.method.upper(),
            _path(http.path.partition("?")[0], service),
            _query(http.path.partition("?")[2]),
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            hashlib.sha256(http.body).hexdigest(),
        )
    )
    text = "\n".join((ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{keys.secret_key}".encode()
    for step in scope.split("/"):
        key = _hmac(key, step)
    signature = _hmac(key, text).hex()
    authorization = f"{ALGORITHM} Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return replace(http, headers={**headers, "authorization": authorization}, secret=keys.secret_key)


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def _host(origin: str) -> str:
    """The header `host` as HTTP clients send it: without user, and without the default port."""
    parts = urlsplit(origin)
    host = parts.netloc.rpartition("@")[2]
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return host.rpartition(":")[0] if parts.port is not None and parts.port == default else host


def _path(path: str, service: str) -> str:
    """The path without dot segments, encoded once more. S3 signs the path as it is sent."""
    if service == "s3":
        return path
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    slash = "/" if segments and path.endswith("/") else ""
    return quote("/" + "/".join(segments) + slash, safe="/~")


def _query(query: str) -> str:
    pairs = [pair.partition("=")[::2] for pair in query.split("&") if pair]
    encoded = sorted((quote(unquote(name), safe="~"), quote(unquote(value), safe="~")) for name, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)
