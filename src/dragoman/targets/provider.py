"""A provider record: the wire, base URL, key, capabilities and quirks of one provider."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from dragoman.errors import SetupError
from dragoman.http import SENSITIVE_NAME, redact_url, split_base_url
from dragoman.targets.pools import DeploymentLimits
from dragoman.targets.target import BatchStorage, Capabilities, Hosting, Identity, Quirks, Target
from dragoman.types.checks import is_encodable, is_mapping, is_text, shown
from dragoman.types.structs import SetupStruct

STORAGE_NAMES = {
    "uri": "AWS_BEDROCK_BATCH_S3_URI",
    "role": "AWS_BEDROCK_BATCH_ROLE_ARN",
    "s3_url": "AWS_ENDPOINT_URL_S3",
    "jobs_url": "AWS_ENDPOINT_URL_BEDROCK",
}
"""The environment variables of a `BatchStorage`; the last two are those of AWS's own SDKs."""
_VARIABLE = r"\{([A-Z_|]+)(?::([\w.-]+))?\}"


class Provider(SetupStruct, frozen=True, kw_only=True):
    """One provider: its wire, base URL, key, capabilities and quirks. Its repr does not show the key.

    >>> Provider(name="anthropic", wire="anthropic", base_url="https://api.anthropic.com/v1", api_key="k")
    Provider(anthropic, wire=anthropic, https://api.anthropic.com/v1)
    """

    name: str
    """The name before the slash of a spec."""
    wire: str
    """The protocol that it speaks, such as `openai_chat` or `anthropic`."""
    base_url: str = ""
    """The address of the server, with its path. Empty if every user has another one; then it must be set.

    `{A|B:x}` stands for the environment variable A or B, such as that of a region, or for x if neither is set.
    """
    base_url_names: tuple[str, ...] = ()
    """Environment variables that may hold another base URL."""
    path: str | None = None
    """The path for a base URL without one; None is the path of `base_url`."""
    key_names: tuple[str, ...] = ()
    """Environment variables that may hold the key; the first that is set is used."""
    token_names: tuple[str, ...] = ()
    """Environment variables that may hold a bearer token, if there is no key."""
    needs_key: bool = True
    """Whether a call without a key fails before anything is sent."""
    api_key: str | None = None
    """The key; it comes before the environment variables."""
    auth: str = "bearer"
    """`bearer`, or the name of the header that holds the key."""
    identity: Identity | None = None
    """The cloud whose own credentials are used if there is no key."""
    plain_http: bool = False
    """Whether an address in an `LLM_…` variable with this scheme means http, not https."""
    headers: Mapping[str, str] = {}
    """Headers of every request."""
    header_names: Mapping[str, str] = {}
    """By header, the environment variable that may hold its value."""
    capabilities: Capabilities = Capabilities()
    """What its models take."""
    quirks: Quirks = Quirks()
    """How it differs from its protocol."""
    hosting: Hosting | None = None
    """How a cloud serves the wire; None if it is served as its maker does."""
    hosts: Mapping[str, str] = {}
    """Beginnings of the base URL that are written otherwise, such as those of regions with another host name."""
    family: str | None = None
    """The provider whose entries in model_families.json apply; None is its own."""
    family_prefix: str = ""
    """What stands before the family's own name of a model, such as `anthropic.` in `us.anthropic.claude-x`."""
    http_client: object = None
    """An httpx client or a Transport for its requests; None is the registry's."""
    credential: object = None
    """A function that returns the key, or a `Credential`; it comes before `api_key` and the environment."""
    price_name: str | None = None
    """The provider whose prices hold, at any base URL. None: its own prices, at its own addresses only."""
    like_name: str | None = None
    """The provider that it was made like: that one's prices hold, at that one's addresses only."""
    batch_storage: BatchStorage | None = None
    """Where the rows of batches are stored, at Bedrock; None is what the environment says."""
    deployment_limits: DeploymentLimits | None = None
    """What each of its models may get at most, so that the provider need not refuse requests."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that it reads."""
        return (*self.key_names, *self.token_names, *self.base_url_names, *self.header_names.values())

    @property
    def default_path(self) -> str:
        """The path for a base URL without one."""
        return urlsplit(self.base_url).path if self.path is None else self.path

    def target(self, model: str, *, env: Mapping[str, str] | None = None) -> Target:
        """One model of this provider, with the key and the base URL from the environment."""
        if not is_text(model) or not is_encodable(model):
            raise SetupError(f"model must be a name, got {shown(model)}", param="model")
        if env is not None and not is_mapping(env):
            raise SetupError(f"env must be a dict of str, got {shown(env)}", param="env")
        env = env or {}
        base_url = self._base_url(env)
        if not base_url:
            names = " or ".join((*self.base_url_names, f"LLM_{self.name.upper().replace('-', '_')}"))
            raise SetupError(f"{self.name}: no base URL; set {names}, or pass base_url=")
        api_key, auth = self._key(env)
        return Target(
            provider=self.name,
            model=model,
            wire=self.wire,
            base_url=base_url,
            api_key=api_key,
            needs_key=self.needs_key,
            key_names=self.key_names,
            auth=auth,
            identity=self.identity,
            hosting=self._hosting(env),
            headers=self._headers(env) if self.header_names else self.headers,
            capabilities=self.capabilities,
            quirks=self.quirks,
            http_client=self.http_client,
            credential=self.credential,
            batch_storage=self._batch_storage(env),
            deployment_limits=self.deployment_limits,
            price_name=self.price_name,
            like_name=self.like_name,
        )

    def _base_url(self, env: Mapping[str, str]) -> str:
        for name in self.base_url_names:
            if value := env.get(name, "").strip():
                try:
                    return _complete_url(value, self.base_url, self.default_path)
                except SetupError as error:
                    raise SetupError(f"{self.name}: {name}: {error}") from None
        url = self._with_variables(self.base_url, env)
        return next((new + url[len(old) :] for old, new in self.hosts.items() if url.startswith(old)), url)

    def _hosting(self, env: Mapping[str, str]) -> Hosting | None:
        hosting = self.hosting
        return hosting and replace(hosting, path=self._with_variables(hosting.path, env))

    def _batch_storage(self, env: Mapping[str, str]) -> BatchStorage | str | None:
        """The storage, or what is wrong with it: only batches need one."""
        if self.batch_storage is not None or self.quirks.batches != "s3":
            return self.batch_storage
        fields = {field: value for field, name in STORAGE_NAMES.items() if (value := env.get(name, "").strip())}
        if "uri" not in fields or "role" not in fields:
            return None
        try:
            return BatchStorage(**fields)
        except SetupError as error:
            return f"{self.name}: {STORAGE_NAMES[error.param or 'uri']}: {error}"

    def _with_variables(self, text: str, env: Mapping[str, str]) -> str:
        return re.sub(_VARIABLE, lambda match: self._variable(match[1].split("|"), match[2], env), text)

    def _variable(self, names: list[str], default: str | None, env: Mapping[str, str]) -> str:
        value = next((value for name in names if (value := env.get(name, "").strip())), default or "")
        if not re.fullmatch(r"[\w.-]+", value):
            raise SetupError(f"{self.name}: {' or '.join(names)} must be set, or pass base_url=")
        return value

    def _key(self, env: Mapping[str, str]) -> tuple[str | None, str]:
        """The key, and how it is sent."""
        if self.credential is not None:
            return None, self.auth
        if self.api_key and (key := clean_key(self.api_key, self.name, "api_key")):
            return key, self.auth
        if (name := key_variable(self, env)) is None:
            return None, self.auth
        # A token of Entra, or of a server in front of Anthropic, is always a bearer token, whatever its form.
        is_token = name.endswith("_AD_TOKEN") or name in self.token_names
        return clean_key(env[name], self.name, name), "bearer" if is_token else self.auth

    def _headers(self, env: Mapping[str, str]) -> dict[str, str]:
        headers = {
            header: value
            for header, name in self.header_names.items()
            if (value := clean_key(env.get(name, ""), self.name, name, param=None))
        }
        return {**headers, **self.headers}

    def __repr__(self) -> str:
        return f"Provider({self.name}, wire={self.wire}, {redact_url(self.base_url)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # msgspec's own would show the key.
        return [("name", self.name), ("wire", self.wire), ("base_url", redact_url(self.base_url))]


def without_credentials(record: Provider, /) -> Provider:
    """A record without keys, secret headers and client, as the start for another server.

    >>> without_credentials(Provider(name="a", wire="ollama", headers={"x-api-key": "k", "x-team": "b"})).headers
    {'x-team': 'b'}
    """
    headers = {name: value for name, value in record.headers.items() if not re.search(SENSITIVE_NAME, name.lower())}
    return replace(
        record,
        api_key=None,
        credential=None,
        key_names=(),
        token_names=(),
        base_url_names=(),
        headers=headers,
        header_names={},
        http_client=None,
    )


def key_variable(record: Provider, env: Mapping[str, str], /) -> str | None:
    """The environment variable that holds a provider's key or token; None if no such variable is set.

    >>> record = Provider(name="own", wire="ollama", key_names=("OWN_KEY", "OWN_TOKEN"))
    >>> key_variable(record, {"OWN_KEY": '""', "OWN_TOKEN": "t"})
    'OWN_TOKEN'
    """
    return next((name for name in (*record.key_names, *record.token_names) if _unquote(env.get(name, ""))), None)


def clean_key(key: object, /, *names: str, param: str | None = "api_key") -> str | None:
    """A key without the blanks, line breaks and quotes around it, which files often have; None if it is empty.

    >>> clean_key('"sk-1"\\n', "GROQ_API_KEY")
    'sk-1'
    """
    text = _unquote(key)
    if not text.isascii() or not text.isprintable():
        reason = f"{': '.join(names)} must be a str of printable ASCII characters, got another value"
        raise SetupError(reason, param=param)
    return text or None


def _unquote(key: object) -> str:
    """The text of a key; not a printable one if it is not a str."""
    text = key.strip() if isinstance(key, str) else "\0"
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip()
    return text


def with_default_path(base_url: str, path: str, /) -> str:
    """A base URL, with this path if it has none.

    >>> with_default_path("https://api.anthropic.com/", "/v1"), with_default_path("https://proxy/llm", "/v1")
    ('https://api.anthropic.com/v1', 'https://proxy/llm')
    """
    origin, own = split_base_url(base_url.strip())
    scheme = origin.partition("://")[0]
    if scheme not in _URL_SCHEMES:
        raise SetupError(f"base_url must start with http:// or https://, got {scheme}://", param="base_url")
    return origin + (own or path)


_URL_SCHEMES = ("http", "https", "demo")
"""The demo answers in process."""


@lru_cache(maxsize=256)
def _complete_url(text: str, default: str, path: str) -> str:
    """A base URL from a variable such as OLLAMA_HOST, which may hold only a part of one: `box`, `:8080`, `0.0.0.0`."""
    text = text.strip(" \t\r\n\"'").rstrip("/")
    scheme, separator, rest = text.partition("://")
    host, slash, own = (rest if separator else text).partition("/")
    if not separator:
        scheme, host = "http", _with_port(host, urlsplit(default).port)
    # A server that listens on every address is reached at the loopback address.
    host = host.replace("0.0.0.0", "127.0.0.1", 1) if host.startswith("0.0.0.0") else host  # noqa: S104
    return with_default_path(f"{scheme}://{host}{slash}{own}", path)


def _with_port(host: str, port: int | None) -> str:
    """`box` gets the default port, `:8080` the loopback address, and IPv6 its brackets."""
    if host.startswith(":") and host[1:].isdecimal():
        return f"127.0.0.1{host}"
    bare = host.strip("[]")
    if bare.count(":") > 1 and not host.startswith("["):
        host = f"[{bare}]"
    has_port = host.rpartition("]")[2].count(":") == 1
    return host if has_port or port is None else f"{host or '127.0.0.1'}:{port}"
