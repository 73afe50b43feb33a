"""Provider records: wire, base URL, key variables, capabilities and quirks of each known provider.

Facts about servers that speak Chat Completions are of November 2026. Facts about families of models are in
model_families.json.
"""

from typing import Any, get_args

from msgspec.structs import replace

from dragoman.errors import SetupError
from dragoman.targets.clouds import CLOUD_RECORDS
from dragoman.targets.provider import Provider, with_default_path
from dragoman.targets.target import Capabilities, Quirks, RareOption, Target

_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""The types that OpenAI's Chat Completions takes; the default of servers that speak it."""
_MIB = 1024 * 1024
_COMPATIBLE = Quirks(
    max_tokens_field="max_tokens",
    metadata=False,
    strict=False,
    unsupported=("service_tier", "verbosity"),
    client_tools=False,
)
"""The quirks that most servers with Chat Completions share."""
_NO_CHATS = Capabilities(chats=False, tools=False, structured=False, streaming=False)
_FEW_OPTIONS: tuple[RareOption, ...] = ("logit_bias", "logprobs", "top_logprobs", "service_tier", "verbosity")
_NO_OPTIONS: tuple[RareOption, ...] = get_args(RareOption)
_LOCAL = replace(_COMPATIBLE, top_k=True, think_tags=True, completions="/completions")
_LLAMA_CPP = replace(_LOCAL, named_choice=False, rerank="/rerank", reasoning_replay_fields=("reasoning_content",))
"""tool_choice must be a string; an object is treated as auto, without an error."""
_LLAMA_CPP_CAPABILITIES = Capabilities(
    image_urls=True,
    documents=False,
    allowed_image_types=("image/png", "image/jpeg", "image/gif", "image/bmp"),
)
"""It decodes images with stb_image, which has no WebP; its own WebP decoder fails at some files (2026-09)."""


_OPENAI_CALL_IDS = Quirks(call_id=".{1,40}", call_id_length=40)
"""Chat Completions refuses longer ids of calls: "string too long. Expected a string with maximum length 40"."""
_OPENAI = Capabilities(
    uploads=True,
    compaction=True,
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
        name=name,
        wire="ollama",
        base_url=base_url,
        needs_key=False,
        capabilities=_OLLAMA,
        quirks=Quirks(think_tags=True),
        family="ollama",
    )
    return replace(record, **more)


_RECORDS = (
    Provider(
        name="openai",
        wire="openai_chat",
        base_url="https://api.openai.com/v1",
        base_url_names=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        key_names=("OPENAI_API_KEY",),
        header_names={"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"},
        capabilities=_OPENAI,
        quirks=replace(_OPENAI_CALL_IDS, system_turns=True, caching="key", batches="files"),
    ),
    Provider(
        name="openai-responses",
        wire="openai_responses",
        base_url="https://api.openai.com/v1",
        base_url_names=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        key_names=("OPENAI_API_KEY",),
        header_names={"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"},
        capabilities=replace(
            _OPENAI, audio=False, document_urls=True, allowed_document_types=("application/*", "text/*")
        ),
        quirks=Quirks(system_turns=True, caching="key", batches="files", signed_thinking=True),
        family="openai",
    ),
    Provider(
        name="anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com/v1",
        base_url_names=("ANTHROPIC_BASE_URL",),
        key_names=("ANTHROPIC_API_KEY",),
        token_names=("ANTHROPIC_AUTH_TOKEN",),
        auth="x-api-key",
        capabilities=Capabilities(
            uploads=True,
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
        quirks=Quirks(recursive_schemas=False, batches="inline"),
    ),
    Provider(
        name="google",
        wire="google",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        key_names=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        auth="x-goog-api-key",
        capabilities=Capabilities(
            uploads=True,
            allowed_image_types=("image/jpeg", "image/png", "image/webp", "image/heic", "image/heif"),
            max_images=100,
            max_image_bytes=15 * _MIB,
            # A request may have 20 MB, with base64.
            max_images_bytes=15 * _MIB,
            max_document_bytes=15_000_000,
            max_audio_bytes=15_000_000,
            video=True,
            video_urls=True,
        ),
        quirks=Quirks(empty_prompt=True, batches="inline", caching="contents"),
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
        quirks=Quirks(
            metadata=False,
            strict=False,
            stream_usage=False,
            reasoning_replay_fields=("reasoning",),
            think_tags=True,
            # Of the gpt-oss models; the compound models have them without a request.
            hosted_tools=("web_search=browser_search", "code_execution=code_interpreter"),
            batches="files",
            unsupported=(
                "frequency_penalty",
                "presence_penalty",
                "logit_bias",
                "logprobs",
                "top_logprobs",
                "n",
                "verbosity",
            ),
        ),
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
            unsupported=("n", "logit_bias", "service_tier", "verbosity"),
            # 400: "Thinking mode does not support this tool_choice"; it thinks by default (2026-08).
            forced_choice_with_thinking=False,
            reasoning_replay_fields=("reasoning_content",),
            calls_need_reasoning=True,
            completions="/beta/completions",
            fill_in="/beta/completions",
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
            batches="jobs",
            efforts=("none", "high"),
            unsupported=("logit_bias", "verbosity"),
            user_after_tool=False,
            reasoning_replay_fields=("content",),
            caching="key",
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
            unsupported=("n",),
            reasoning_replay_fields=("reasoning", "reasoning_details"),
            completions="/completions",
            rerank="/rerank",
            embeddings="search",
            caching="blocks",
            hosted_tools=(
                "web_search=openrouter:web_search",
                "web_fetch=openrouter:web_fetch",
                "image_generation=openrouter:image_generation",
            ),
            hosted_tool_options=True,
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
            rerank="/rerank",
            efforts=("low", "medium", "high"),
            # Its `logprobs` is a number.
            unsupported=("logprobs", "top_logprobs", "service_tier", "verbosity"),
            reasoning_replay_fields=("reasoning", "reasoning_content"),
        ),
        capabilities=Capabilities(image_urls=True, documents=False, audio=False),
    ),
    _chat(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        quirks=replace(
            _LOCAL,
            stream_usage=False,
            rerank="/rerank",
            reasoning_replay_fields=("reasoning_content",),
            unsupported=("verbosity",),
        ),
        capabilities=Capabilities(
            image_urls=True, max_images=30, max_images_bytes=7_500_000, documents=False, audio=False
        ),
    ),
    _chat(
        "xai",
        "https://api.x.ai/v1",
        "XAI_API_KEY",
        quirks=Quirks(metadata=False, reasoning_replay_fields=(), unsupported=("verbosity",)),
        capabilities=Capabilities(
            image_urls=True,
            allowed_image_types=("image/jpeg", "image/png"),
            max_image_bytes=20 * _MIB,
            documents=False,
            audio=False,
        ),
    ),
    _chat(
        "cohere",
        "https://api.cohere.ai/compatibility/v1",
        "COHERE_API_KEY",
        "CO_API_KEY",
        # Its own API ranks, and embeds with more options than the compatible one. Its page writes both hosts,
        # api.cohere.ai and api.cohere.com, for both of them (2026-11).
        quirks=replace(
            _COMPATIBLE,
            parallel_tool_calls=False,
            efforts=("none", "high"),
            named_choice=False,
            user_field=None,
            embeddings="v2_texts",
            rerank="/v2/rerank",
            rerank_at_host=True,
            unsupported=("logit_bias", "top_logprobs", "n", "service_tier", "verbosity"),
        ),
        capabilities=Capabilities(image_urls=True, documents=False, audio=False),
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
            unsupported=("frequency_penalty", "presence_penalty", "logit_bias", "n", "verbosity"),
        ),
        capabilities=Capabilities(max_images=0, documents=False, audio=False),
    ),
    _chat(
        "perplexity",
        "https://api.perplexity.ai",
        "PERPLEXITY_API_KEY",
        quirks=replace(
            _COMPATIBLE,
            think_tags=True,
            embeddings="int8",
            unsupported=(*_FEW_OPTIONS, "n"),
            hosted_tools=("web_search=web_search_options",),
        ),
        capabilities=Capabilities(image_urls=True, tools=False, documents=False, audio=False),
    ),
    _chat(
        "moonshot",
        "https://api.moonshot.ai/v1",
        "MOONSHOT_API_KEY",
        quirks=replace(_COMPATIBLE, unsupported=_FEW_OPTIONS, calls_need_reasoning=True),
        capabilities=Capabilities(documents=False, audio=False),
    ),
    _chat(
        "zai",
        "https://api.z.ai/api/paas/v4",
        "ZAI_API_KEY",
        quirks=replace(_COMPATIBLE, reasoning="switch", json_schema=False, user_field=None, unsupported=_NO_OPTIONS),
        capabilities=Capabilities(image_urls=True, documents=False, audio=False),
    ),
    _chat(
        "minimax",
        "https://api.minimax.io/v1",
        "MINIMAX_API_KEY",
        quirks=replace(_COMPATIBLE, unsupported=_NO_OPTIONS),
        capabilities=Capabilities(documents=False, audio=False),
    ),
    _chat(
        "huggingface",
        "https://router.huggingface.co/v1",
        "HF_TOKEN",
        "HUGGINGFACE_API_KEY",
        quirks=replace(_COMPATIBLE, think_tags=True),
        capabilities=Capabilities(image_urls=True, documents=False),
    ),
    _chat(
        "nvidia",
        "https://integrate.api.nvidia.com/v1",
        "NVIDIA_API_KEY",
        quirks=replace(_COMPATIBLE, think_tags=True, embeddings="passage"),
        capabilities=Capabilities(documents=False),
    ),
    _chat(
        "deepinfra",
        "https://api.deepinfra.com/v1/openai",
        "DEEPINFRA_API_KEY",
        "DEEPINFRA_API_TOKEN",
        quirks=replace(_LOCAL, metadata=False),
        capabilities=Capabilities(image_urls=True, documents=False, audio=False),
    ),
    _chat(
        "voyage",
        "https://api.voyageai.com/v1",
        "VOYAGE_API_KEY",
        quirks=replace(_COMPATIBLE, embeddings="input_type", rerank="/rerank", rerank_form="top_k"),
        capabilities=_NO_CHATS,
    ),
    _chat(
        "jina",
        "https://api.jina.ai/v1",
        "JINA_API_KEY",
        quirks=replace(_COMPATIBLE, embeddings="task", rerank="/rerank"),
        capabilities=_NO_CHATS,
    ),
    _local(
        "tei",
        "http://localhost:8080",
        "TEI",
        replace(_COMPATIBLE, embeddings="v1", rerank="/rerank", rerank_form="texts"),
        _NO_CHATS,
    ),
    _local(
        "vllm",
        "http://localhost:8000/v1",
        "VLLM",
        replace(_LOCAL, rerank="/rerank", reasoning_replay_fields=("reasoning", "reasoning_content")),
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
        replace(
            _LOCAL,
            named_choice=False,
            reasoning_replay_fields=(),
            unsupported=("n", "logprobs", "top_logprobs", "service_tier", "verbosity"),
        ),
        Capabilities(documents=False, audio=False, allowed_image_types=("image/png", "image/jpeg", "image/webp")),
    ),
    Provider(
        name="dragoman",
        wire="native",
        base_url_names=("DRAGOMAN_BASE_URL",),
        path="/native/v1",
        key_names=("DRAGOMAN_API_KEY",),
        needs_key=False,
        capabilities=Capabilities(image_urls=True, document_urls=True, video=True, video_urls=True),
    ),
    Provider(
        name="demo",
        wire="openai_chat",
        base_url="demo://local/v1",
        needs_key=False,
        quirks=Quirks(
            accepts_unknown_fields=False,
            unsupported=_NO_OPTIONS,
            completions="/completions",
            fill_in="/completions",
            rerank="/rerank",
            hosted_tools=(
                "web_search=web_search",
                "web_fetch=web_fetch",
            ),
        ),
    ),
)
PROVIDERS = {record.name: record for record in (*_RECORDS, *CLOUD_RECORDS)}
PROVIDERS["openai-chat"] = replace(PROVIDERS["openai"], name="openai-chat", family="openai")
PROVIDERS["xai-responses"] = replace(
    PROVIDERS["xai"],
    name="xai-responses",
    wire="openai_responses",
    quirks=Quirks(metadata=False, system_turns=True, unsupported=("verbosity",)),
    family="xai",
)
PROVIDERS["gemini"] = replace(PROVIDERS["google"], name="gemini", family="google")
PROVIDERS["google-interactions"] = replace(
    PROVIDERS["google"],
    name="google-interactions",
    wire="google_interactions",
    capabilities=replace(
        PROVIDERS["google"].capabilities,
        allowed_document_types=("application/pdf", "text/csv", "application/msword", "application/vnd.*"),
    ),
    quirks=Quirks(result_media=True),
    family="google",
)
OTHER_NAMES = {
    "openai": ("openai-chat", "openai-responses"),
    "google": ("gemini", "google-interactions"),
    "xai": ("xai-responses",),
}
"""The other records of a provider: the same account on another wire, or under another name."""
_ACCOUNT = (
    "base_url",
    "base_url_names",
    "key_names",
    "needs_key",
    "api_key",
    "auth",
    "headers",
    "http_client",
    "credential",
)
"""The fields of a record that belong to an account."""


def with_other_names(provider: Provider, /) -> list[Provider]:
    """A provider, and its other records with the same base URL, key and headers.

    >>> [record.name for record in with_other_names(PROVIDERS["openai"])]
    ['openai', 'openai-chat', 'openai-responses']
    """
    builtin = PROVIDERS.get(provider.name)
    if builtin is None or (provider.wire, _family(provider)) != (builtin.wire, _family(builtin)):
        return [provider]
    account = {field: getattr(provider, field) for field in _ACCOUNT}
    return [provider, *(replace(PROVIDERS[name], **account) for name in OTHER_NAMES.get(provider.name, ()))]


def _family(provider: Provider) -> str:
    return provider.family or provider.name


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
