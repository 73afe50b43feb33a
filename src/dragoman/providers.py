"""A provider's name in, its record out: which wire, where, as whom, with which limits and quirks."""

from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.errors import SetupError
from dragoman.target import Limits, Quirks, Target


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One provider: a wire, a place, a way to say who asks, and what is known of it. Its repr shows no key.

    >>> PROVIDERS["anthropic"]
    Provider(anthropic, wire=anthropic, https://api.anthropic.com/v1)
    """

    name: str
    wire: str
    base_url: str
    """Empty where there is no place that all users share: then a DSN, a variable or base_url= must tell."""
    base_url_names: tuple[str, ...] = ()
    """The environment variables that may hold another base URL."""
    key_names: tuple[str, ...] = ()
    needs_key: bool = True
    api_key: str | None = None
    auth: str = "bearer"
    plain_http: bool = False
    """Whether a DSN of this scheme means http."""
    headers: Mapping[str, str] = {}
    limits: Limits = Limits()
    quirks: Quirks = Quirks()
    family: str | None = None
    """The provider whose facts about model families hold here too; None is its own."""

    def target(self, model: str, /, *, env: Mapping[str, str] | None = None) -> Target:
        """One model of this provider, with the key and the place that the environment tells."""
        seen = env or {}
        base_url = next((_as_url(seen[name]) for name in self.base_url_names if seen.get(name)), self.base_url)
        if not base_url:
            names = " or ".join((*self.base_url_names, f"LLM_{self.name.upper().replace('-', '_')}"))
            raise SetupError(f"{self.name}: no base URL; set {names}, or pass base_url=")
        key = self.api_key or next((seen[name] for name in self.key_names if seen.get(name)), None)
        return Target(
            provider=self.name,
            model=model,
            wire=self.wire,
            base_url=base_url,
            api_key=key,
            needs_key=self.needs_key,
            key_names=self.key_names,
            auth=self.auth,
            headers=self.headers,
            limits=self.limits,
            quirks=self.quirks,
        )

    def __repr__(self) -> str:
        """Without the key."""
        return f"Provider({self.name}, wire={self.wire}, {self.base_url})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """As `repr`: msgspec's own would show the key."""
        return [("name", self.name), ("wire", self.wire), ("base_url", self.base_url)]


def _as_url(text: str) -> str:
    """A base URL from a variable that may hold only host and port, as OLLAMA_HOST does."""
    text = text.strip().rstrip("/")
    host = text if "://" in text else f"http://{text}"
    return host.replace("://0.0.0.0", "://127.0.0.1")


_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
_COMPATIBLE = Quirks(max_tokens_field="max_tokens", metadata=False)
"""What most servers that speak Chat Completions have in common."""
_LOCAL = Quirks(max_tokens_field="max_tokens", metadata=False, top_k=True)


def _chat(name: str, base_url: str, *key_names: str, quirks: Quirks = _COMPATIBLE, **more: object) -> Provider:
    record = Provider(name=name, wire="openai_chat", base_url=base_url, key_names=key_names, quirks=quirks)
    return msgspec.structs.replace(record, **more)


_RECORDS = (
    Provider(
        name="openai",
        wire="openai_chat",
        base_url="https://api.openai.com/v1",
        base_url_names=("OPENAI_BASE_URL",),
        key_names=("OPENAI_API_KEY",),
        limits=Limits(image_urls=True, allowed_image_types=_IMAGES, max_images=1500),
    ),
    Provider(
        name="openai-responses",
        wire="openai_responses",
        base_url="https://api.openai.com/v1",
        base_url_names=("OPENAI_BASE_URL",),
        key_names=("OPENAI_API_KEY",),
        limits=Limits(image_urls=True, allowed_image_types=_IMAGES, max_images=1500, audio=False),
        family="openai",
    ),
    Provider(
        name="azure",
        wire="openai_chat",
        base_url="",
        base_url_names=("AZURE_OPENAI_BASE_URL",),
        key_names=("AZURE_OPENAI_API_KEY",),
        auth="api-key",
        limits=Limits(image_urls=True, allowed_image_types=_IMAGES, documents=False),
        family="openai",
    ),
    Provider(
        name="anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com/v1",
        base_url_names=("ANTHROPIC_BASE_URL",),
        key_names=("ANTHROPIC_API_KEY",),
        auth="x-api-key",
        limits=Limits(
            image_urls=True,
            allowed_image_types=_IMAGES,
            max_images=100,
            max_image_side=8000,
            max_image_bytes=7_500_000,
            audio=False,
        ),
    ),
    Provider(
        name="google",
        wire="google",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        key_names=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        auth="x-goog-api-key",
        limits=Limits(
            allowed_image_types=("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"),
            max_images=3600,
            max_image_bytes=14_000_000,
        ),
    ),
    Provider(
        name="ollama",
        wire="ollama",
        base_url="http://localhost:11434",
        base_url_names=("OLLAMA_HOST",),
        key_names=("OLLAMA_API_KEY",),
        needs_key=False,
        limits=Limits(documents=False, audio=False, forced_choice=False),
    ),
    Provider(
        name="ollama-cloud",
        wire="ollama",
        base_url="https://ollama.com",
        key_names=("OLLAMA_API_KEY",),
        limits=Limits(documents=False, audio=False, forced_choice=False),
        family="ollama",
    ),
    Provider(
        name="foreman",
        wire="ollama",
        base_url="",
        base_url_names=("FOREMAN_HOST",),
        key_names=("FOREMAN_API_KEY",),
        needs_key=False,
        limits=Limits(documents=False, audio=False, forced_choice=False),
        family="ollama",
    ),
    _chat("llama-swap", "http://localhost:8080/v1", quirks=_LOCAL, needs_key=False, plain_http=True),
    _chat(
        "groq",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        quirks=Quirks(stream_usage=True, metadata=False),
        limits=Limits(image_urls=True, max_images=5, max_image_bytes=4_000_000, documents=False, audio=False),
    ),
    _chat(
        "deepseek",
        "https://api.deepseek.com",
        "DEEPSEEK_API_KEY",
        quirks=Quirks(
            max_tokens_field="max_tokens",
            metadata=False,
            seed_field=None,
            json_schema=False,
            parallel_tool_calls=False,
            reasoning="switch",
            user_field=None,
        ),
        limits=Limits(max_images=0, documents=False, audio=False),
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
            call_id="[A-Za-z0-9]{9}",
            call_id_length=9,
            efforts=("none", "high"),
        ),
        limits=Limits(image_urls=True, max_images=8, max_image_bytes=10_000_000, allowed_image_types=_IMAGES),
    ),
    _chat(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        quirks=Quirks(max_tokens_field="max_tokens", top_k=True, reasoning="object"),
        limits=Limits(image_urls=True),
    ),
    _chat(
        "together",
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        quirks=Quirks(max_tokens_field="max_tokens", metadata=False, top_k=True, parallel_tool_calls=False),
        limits=Limits(image_urls=True, documents=False),
    ),
    _chat(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        quirks=Quirks(max_tokens_field="max_tokens", metadata=False, top_k=True),
        limits=Limits(image_urls=True, max_images=30, max_image_bytes=10_000_000, documents=False),
    ),
    _chat(
        "xai",
        "https://api.x.ai/v1",
        "XAI_API_KEY",
        quirks=Quirks(metadata=False),
        limits=Limits(image_urls=True, allowed_image_types=("image/png", "image/jpeg"), documents=False, audio=False),
    ),
    _chat(
        "cerebras",
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
        quirks=Quirks(metadata=False),
        limits=Limits(max_images=0, documents=False, audio=False),
    ),
    _chat(
        "perplexity",
        "https://api.perplexity.ai",
        "PERPLEXITY_API_KEY",
        limits=Limits(image_urls=True, tools=False, documents=False, audio=False),
    ),
    _chat("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", limits=Limits(documents=False, audio=False)),
    _chat(
        "zai",
        "https://api.z.ai/api/paas/v4",
        "ZAI_API_KEY",
        quirks=msgspec.structs.replace(_COMPATIBLE, reasoning="switch", json_schema=False),
        limits=Limits(image_urls=True, audio=False),
    ),
    _chat("minimax", "https://api.minimax.io/v1", "MINIMAX_API_KEY", limits=Limits(documents=False, audio=False)),
    _chat("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN", limits=Limits(image_urls=True)),
    _chat("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    _chat(
        "vllm",
        "http://localhost:8000/v1",
        "VLLM_API_KEY",
        quirks=_LOCAL,
        needs_key=False,
        base_url_names=("VLLM_BASE_URL",),
        limits=Limits(image_urls=True),
    ),
    _chat(
        "llama-cpp",
        "http://localhost:8080/v1",
        "LLAMA_CPP_API_KEY",
        quirks=msgspec.structs.replace(_LOCAL, named_choice=False),
        needs_key=False,
        base_url_names=("LLAMA_CPP_BASE_URL",),
    ),
    _chat(
        "lmstudio",
        "http://localhost:1234/v1",
        "LMSTUDIO_API_KEY",
        quirks=msgspec.structs.replace(_LOCAL, named_choice=False),
        needs_key=False,
        base_url_names=("LMSTUDIO_BASE_URL",),
    ),
    Provider(name="demo", wire="openai_chat", base_url="demo://local/v1", needs_key=False),
)
PROVIDERS = {record.name: record for record in _RECORDS}
PROVIDERS["gemini"] = msgspec.structs.replace(PROVIDERS["google"], name="gemini", family="google")


def target(spec: str, /, *, api_key: str | None = None, base_url: str | None = None) -> Target:
    """The target that `provider/model` names, of the providers known from the start, without facts about its family.

    >>> target("anthropic/claude-x", api_key="k").name
    'anthropic/claude-x'
    """
    name, slash, model = spec.partition("/")
    if not slash or not model:
        raise SetupError(f"{spec!r} names no model; write provider/model")
    if name not in PROVIDERS:
        raise SetupError(f"no provider {name!r}; there are {', '.join(sorted(PROVIDERS))}")
    record = PROVIDERS[name]
    changes = {"api_key": api_key, "base_url": base_url or record.base_url}
    return msgspec.structs.replace(record, **changes).target(model)
