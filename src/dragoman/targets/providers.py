"""Provider records: wire, base URL, key variables, capabilities and quirks of each known provider.

Facts about servers that speak Chat Completions are of November 2026. Facts about families of models are in
model_families.json.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from dragoman.errors import SetupError
from dragoman.http import SENSITIVE_NAME, redact_url, split_base_url
from dragoman.targets.target import Capabilities, Quirks, Target


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One provider: its wire, base URL, key, capabilities and quirks. Its repr does not show the key.

    >>> PROVIDERS["anthropic"]
    Provider(anthropic, wire=anthropic, https://api.anthropic.com/v1)
    """

    name: str
    wire: str
    base_url: str = ""
    """Empty if every user has another one; then a DSN, a variable or `base_url=` must set it.

    `{A|B}` stands for the environment variable A or B, such as that of a region.
    """
    base_url_names: tuple[str, ...] = ()
    """Environment variables that may hold another base URL."""
    path: str | None = None
    """The path for a base URL without one; None is the path of `base_url`."""
    key_names: tuple[str, ...] = ()
    """Environment variables that may hold the key; the first that is set is used."""
    needs_key: bool = True
    api_key: str | None = None
    auth: str = "bearer"
    """`bearer`, `aws` (a signature, or a bearer key), or the name of the header that holds the key."""
    plain_http: bool = False
    """Whether a DSN with this scheme means http, not https."""
    headers: Mapping[str, str] = {}
    capabilities: Capabilities = Capabilities()
    quirks: Quirks = Quirks()
    family: str | None = None
    """The provider whose entries in model_families.json apply; None is its own."""
    http_client: object = None
    """An httpx client or a Transport for its requests; None is the registry's."""
    credential: object = None
    """A function that returns the key, or a `Credential`; it comes before `api_key` and the environment."""

    @property
    def default_path(self) -> str:
        """The path for a base URL without one."""
        return urlsplit(self.base_url).path if self.path is None else self.path

    def target(self, model: str, *, env: Mapping[str, str] | None = None) -> Target:
        """One model of this provider, with the key and the base URL from the environment."""
        env = env or {}
        base_url = self._base_url(env)
        if not base_url:
            names = " or ".join((*self.base_url_names, f"LLM_{self.name.upper().replace('-', '_')}"))
            raise SetupError(f"{self.name}: no base URL; set {names}, or pass base_url=")
        return Target(
            provider=self.name,
            model=model,
            wire=self.wire,
            base_url=base_url,
            api_key=self._key(env) if self.credential is None else None,
            needs_key=self.needs_key,
            key_names=self.key_names,
            auth=self.auth,
            headers=self.headers,
            capabilities=self.capabilities,
            quirks=self.quirks,
            http_client=self.http_client,
            credential=self.credential,
        )

    def _base_url(self, env: Mapping[str, str]) -> str:
        for name in self.base_url_names:
            if value := env.get(name, "").strip():
                try:
                    return _complete_url(value, self.base_url, self.default_path)
                except SetupError as error:
                    raise SetupError(f"{self.name}: {name}: {error}") from None
        return re.sub(r"\{([A-Z_|]+)\}", lambda match: self._variable(match[1].split("|"), env), self.base_url)

    def _variable(self, names: list[str], env: Mapping[str, str]) -> str:
        value = next((value for name in names if (value := env.get(name, "").strip())), "")
        if not re.fullmatch(r"[\w.-]+", value):
            raise SetupError(f"{self.name}: {' or '.join(names)} must be set, or pass base_url=")
        return value

    def _key(self, env: Mapping[str, str]) -> str | None:
        if self.api_key and (key := clean_key(self.api_key, self.name, "api_key")):
            return key
        for name in self.key_names:
            if (value := env.get(name)) and (key := clean_key(value, self.name, name)):
                return key
        return None

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
        record, api_key=None, credential=None, key_names=(), base_url_names=(), headers=headers, http_client=None
    )


def clean_key(key: object, /, *names: str) -> str | None:
    """A key without the blanks and line breaks around it, which secret files often have; None if it is empty.

    >>> clean_key("sk-1\\n", "GROQ_API_KEY")
    'sk-1'
    """
    text = key.strip() if isinstance(key, str) else "\n"
    if not text.isascii() or not text.isprintable():
        raise SetupError(f"{': '.join(names)} must be a str of printable ASCII characters")
    return text or None


def with_default_path(base_url: str, path: str, /) -> str:
    """A base URL, with this path if it has none.

    >>> with_default_path("https://api.anthropic.com/", "/v1"), with_default_path("https://proxy/llm", "/v1")
    ('https://api.anthropic.com/v1', 'https://proxy/llm')
    """
    origin, own = split_base_url(base_url.strip())
    return origin + (own or path)


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


_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""The types that OpenAI's Chat Completions takes; the default of servers that speak it."""
_MIB = 1024 * 1024
_COMPATIBLE = Quirks(max_tokens_field="max_tokens", metadata=False, strict=False)
"""The quirks that most servers with Chat Completions share."""
_LOCAL = replace(_COMPATIBLE, top_k=True)
_LLAMA_CPP = replace(_LOCAL, named_choice=False, reasoning_replay_fields=("reasoning_content",))
"""tool_choice must be a string; an object is treated as auto, without an error."""
_LLAMA_CPP_CAPABILITIES = Capabilities(
    image_urls=True,
    documents=False,
    allowed_image_types=("image/png", "image/jpeg", "image/gif", "image/bmp"),
)
"""It decodes images with stb_image, which has no WebP; its own WebP decoder fails at some files (2026-09)."""


_OPENAI = Capabilities(
    image_urls=True,
    allowed_image_types=_IMAGES,
    animated_images=False,
    max_images=1500,
    allowed_document_types=("application/pdf",),
    max_document_bytes=50_000_000,
)
_OLLAMA = Capabilities(
    documents=False,
    audio=False,
    forced_choice=False,
    allowed_image_types=("image/png", "image/jpeg", "image/webp"),
)


def _chat(name: str, base_url: str, *key_names: str, quirks: Quirks = _COMPATIBLE, **more: Any) -> Provider:
    record = Provider(name=name, wire="openai_chat", base_url=base_url, key_names=key_names, quirks=quirks)
    record = replace(record, **more)
    types = record.capabilities.allowed_image_types or _IMAGES
    return replace(record, capabilities=replace(record.capabilities, allowed_image_types=types))


def _local(
    name: str, base_url: str, variable: str, quirks: Quirks, capabilities: Capabilities, **more: Any
) -> Provider:
    names = (f"{variable}_API_KEY",)
    more = {"needs_key": False, "base_url_names": (f"{variable}_BASE_URL",), "capabilities": capabilities, **more}
    return _chat(name, base_url, *names, quirks=quirks, **more)


def _ollama(name: str, base_url: str, **more: Any) -> Provider:
    record = Provider(
        name=name, wire="ollama", base_url=base_url, needs_key=False, capabilities=_OLLAMA, family="ollama"
    )
    return replace(record, **more)


_RECORDS = (
    Provider(
        name="openai",
        wire="openai_chat",
        base_url="https://api.openai.com/v1",
        base_url_names=("OPENAI_BASE_URL",),
        key_names=("OPENAI_API_KEY",),
        capabilities=_OPENAI,
    ),
    Provider(
        name="openai-responses",
        wire="openai_responses",
        base_url="https://api.openai.com/v1",
        base_url_names=("OPENAI_BASE_URL",),
        key_names=("OPENAI_API_KEY",),
        capabilities=replace(
            _OPENAI, audio=False, document_urls=True, allowed_document_types=("application/*", "text/*")
        ),
        family="openai",
    ),
    Provider(
        name="azure",
        wire="openai_chat",
        base_url_names=("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT"),
        path="/openai/v1",
        key_names=("AZURE_OPENAI_API_KEY",),
        auth="api-key",
        capabilities=Capabilities(image_urls=True, allowed_image_types=_IMAGES, animated_images=False, documents=False),
        family="openai",
    ),
    Provider(
        name="anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com/v1",
        base_url_names=("ANTHROPIC_BASE_URL",),
        key_names=("ANTHROPIC_API_KEY",),
        auth="x-api-key",
        capabilities=Capabilities(
            image_urls=True,
            document_urls=True,
            allowed_image_types=_IMAGES,
            max_images=100,
            max_image_side=8000,
            max_image_bytes=10 * _MIB * 3 // 4,  # the limit counts base64
            many_images=20,
            many_images_side=2000,
            # A request may have 32 MB, with base64.
            max_images_bytes=23_000_000,
            max_document_bytes=24_000_000,
            audio=False,
        ),
        quirks=Quirks(recursive_schemas=False),
    ),
    Provider(
        name="bedrock",
        wire="bedrock",
        base_url="https://bedrock-runtime.{AWS_REGION|AWS_DEFAULT_REGION}.amazonaws.com",
        base_url_names=("AWS_ENDPOINT_URL_BEDROCK_RUNTIME",),
        key_names=("AWS_BEARER_TOKEN_BEDROCK",),
        auth="aws",
        # Few models enforce a schema (2026-11); a forced tool call works with all that have tools.
        capabilities=Capabilities(
            structured=False,
            audio=False,
            allowed_image_types=_IMAGES,
            max_images=20,
            max_image_bytes=3_750_000,
            max_image_side=8000,
            allowed_document_types=("application/*", "text/*"),
            max_document_bytes=4_500_000,
        ),
        quirks=Quirks(strict=False, result_media=True),
    ),
    Provider(
        name="google",
        wire="google",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        key_names=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        auth="x-goog-api-key",
        capabilities=Capabilities(
            allowed_image_types=("image/jpeg", "image/png", "image/webp", "image/heic", "image/heif"),
            max_images=100,
            max_image_bytes=15 * _MIB,
            # A request may have 20 MB, with base64.
            max_images_bytes=15 * _MIB,
            max_document_bytes=15_000_000,
            max_audio_bytes=15_000_000,
        ),
    ),
    _ollama("ollama", "http://localhost:11434", base_url_names=("OLLAMA_HOST",), key_names=("OLLAMA_API_KEY",)),
    _ollama(
        "ollama-cloud",
        "https://ollama.com",
        key_names=("OLLAMA_API_KEY",),
        needs_key=True,
        capabilities=replace(_OLLAMA, max_images=8),
    ),
    _ollama("foreman", "", base_url_names=("FOREMAN_HOST",), key_names=("FOREMAN_API_KEY",)),
    _local(
        "llama-swap",
        "http://localhost:8080/v1",
        "LLAMA_SWAP",
        _LLAMA_CPP,
        _LLAMA_CPP_CAPABILITIES,
        plain_http=True,
    ),
    _chat(
        "groq",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        quirks=Quirks(metadata=False, strict=False, stream_usage=False, reasoning_replay_fields=("reasoning",)),
        capabilities=Capabilities(
            image_urls=True, max_images=5, max_images_bytes=3_000_000, documents=False, audio=False
        ),
    ),
    _chat(
        "deepseek",
        "https://api.deepseek.com",
        "DEEPSEEK_API_KEY",
        quirks=replace(
            _COMPATIBLE,
            seed_field=None,
            user_field=None,
            json_schema=False,
            parallel_tool_calls=False,
            reasoning="switch",
            efforts=("none", "low", "high", "max"),
            reasoning_replay_fields=("reasoning_content",),
        ),
        capabilities=Capabilities(max_images=0, documents=False, audio=False, forced_choice=False),
    ),
    _chat(
        "mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        quirks=Quirks(
            max_tokens_field="max_tokens",
            seed_field="random_seed",
            required_choice="any",
            stream_usage=False,
            user_field=None,
            top_k=True,
            call_id="[A-Za-z0-9]{9}",
            call_id_length=9,
            embeddings="output_dimension",
            efforts=("none", "high"),
            user_after_tool=False,
            reasoning_replay_fields=("content",),
        ),
        # Its documents and audio have a format of their own, which is not implemented.
        capabilities=Capabilities(
            image_urls=True,
            max_images=8,
            max_image_bytes=10_000_000,
            allowed_image_types=_IMAGES,
            animated_images=False,
            documents=False,
            audio=False,
        ),
    ),
    _chat(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        quirks=Quirks(
            max_tokens_field="max_tokens",
            top_k=True,
            reasoning="object",
            reasoning_replay_fields=("reasoning", "reasoning_details"),
        ),
        capabilities=Capabilities(image_urls=True),
    ),
    _chat(
        "together",
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        quirks=replace(
            _LOCAL,
            parallel_tool_calls=False,
            stream_usage=False,
            efforts=("low", "medium", "high"),
            reasoning_replay_fields=("reasoning", "reasoning_content"),
        ),
        capabilities=Capabilities(image_urls=True, documents=False, audio=False),
    ),
    _chat(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        quirks=replace(_LOCAL, stream_usage=False, reasoning_replay_fields=("reasoning_content",)),
        capabilities=Capabilities(
            image_urls=True, max_images=30, max_images_bytes=7_500_000, documents=False, audio=False
        ),
    ),
    _chat(
        "xai",
        "https://api.x.ai/v1",
        "XAI_API_KEY",
        quirks=Quirks(metadata=False, reasoning_replay_fields=()),
        capabilities=Capabilities(
            image_urls=True,
            allowed_image_types=("image/jpeg", "image/png"),
            max_image_bytes=20 * _MIB,
            documents=False,
            audio=False,
        ),
    ),
    _chat(
        "cerebras",
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
        quirks=Quirks(
            metadata=False,
            efforts=("none", "low", "medium", "high"),
            reasoning_replay_fields=("reasoning",),
            recursive_schemas=False,
        ),
        capabilities=Capabilities(max_images=0, documents=False, audio=False),
    ),
    _chat(
        "perplexity",
        "https://api.perplexity.ai",
        "PERPLEXITY_API_KEY",
        capabilities=Capabilities(image_urls=True, tools=False, documents=False, audio=False),
    ),
    _chat(
        "moonshot",
        "https://api.moonshot.ai/v1",
        "MOONSHOT_API_KEY",
        capabilities=Capabilities(documents=False, audio=False),
    ),
    _chat(
        "zai",
        "https://api.z.ai/api/paas/v4",
        "ZAI_API_KEY",
        quirks=replace(_COMPATIBLE, reasoning="switch", json_schema=False, user_field=None),
        capabilities=Capabilities(image_urls=True, documents=False, audio=False),
    ),
    _chat(
        "minimax",
        "https://api.minimax.io/v1",
        "MINIMAX_API_KEY",
        capabilities=Capabilities(documents=False, audio=False),
    ),
    _chat(
        "huggingface",
        "https://router.huggingface.co/v1",
        "HF_TOKEN",
        "HUGGINGFACE_API_KEY",
        capabilities=Capabilities(image_urls=True, documents=False),
    ),
    _chat(
        "nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY", capabilities=Capabilities(documents=False)
    ),
    _local(
        "vllm",
        "http://localhost:8000/v1",
        "VLLM",
        replace(_LOCAL, reasoning_replay_fields=("reasoning", "reasoning_content")),
        Capabilities(image_urls=True, documents=False),
    ),
    _local(
        "llama-cpp",
        "http://localhost:8080/v1",
        "LLAMA_CPP",
        _LLAMA_CPP,
        _LLAMA_CPP_CAPABILITIES,
    ),
    _local(
        "lmstudio",
        "http://localhost:1234/v1",
        "LMSTUDIO",
        replace(_LOCAL, named_choice=False, reasoning_replay_fields=()),
        Capabilities(documents=False, audio=False, allowed_image_types=("image/png", "image/jpeg", "image/webp")),
    ),
    Provider(
        name="dragoman",
        wire="native",
        base_url_names=("DRAGOMAN_BASE_URL",),
        path="/native/v1",
        key_names=("DRAGOMAN_API_KEY",),
        needs_key=False,
        capabilities=Capabilities(image_urls=True, document_urls=True),
    ),
    Provider(
        name="demo",
        wire="openai_chat",
        base_url="demo://local/v1",
        needs_key=False,
        quirks=Quirks(accepts_unknown_fields=False),
    ),
)
PROVIDERS = {record.name: record for record in _RECORDS}
PROVIDERS["gemini"] = replace(PROVIDERS["google"], name="gemini", family="google")


def target(spec: str, /, *, api_key: str | None = None, base_url: str | None = None) -> Target:
    """The target `provider/model` of a built-in provider, without the facts about its model family.

    >>> target("anthropic/claude-x", api_key="k").name
    'anthropic/claude-x'
    """
    name, slash, model = spec.partition("/")
    if not slash or not model:
        raise SetupError(f"target must be provider/model, got {spec!r}")
    if name not in PROVIDERS:
        raise SetupError(f"unknown provider {name!r}; use one of {', '.join(sorted(PROVIDERS))}")
    record = PROVIDERS[name]
    base_url = with_default_path(base_url, record.default_path) if base_url else record.base_url
    return replace(record, api_key=api_key, base_url=base_url).target(model)
