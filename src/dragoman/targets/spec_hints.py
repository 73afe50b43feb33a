"""What to write instead of a spec that names no target: the exact spec, or a few to choose from."""

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase

from dragoman.targets.dsn import did_you_mean
from dragoman.targets.model_families import any_host_of, maker_of
from dragoman.targets.provider import Provider

_OTHER_NAMES = {
    "aws_bedrock": "bedrock",
    "azure_ai": "azure-ai",
    "azure_openai": "azure",
    "bedrock_converse": "bedrock",
    "deepseek-ai": "deepseek",
    "fireworks_ai": "fireworks",
    "google-gla": "google",
    "google-vertex": "vertex",
    "google_anthropic_vertex": "vertex-anthropic",
    "google_genai": "google",
    "google_vertexai": "vertex",
    "hosted_vllm": "vllm",
    "lm_studio": "lmstudio",
    "mistralai": "mistral",
    "moonshotai": "moonshot",
    "nvidia_nim": "nvidia",
    "ollama_chat": "ollama",
    "openai_responses": "openai-responses",
    "text-completion-openai": "openai",
    "together_ai": "together",
    "vertex_ai": "vertex",
    "x-ai": "xai",
    "z-ai": "zai",
    "zhipuai": "zai",
}
"""Our providers by their names in LiteLLM, pydantic-ai, LangChain and OpenRouter."""
_HOSTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("glm-*", ("zai", "openrouter")),
    ("kimi-*", ("moonshot", "openrouter")),
    ("minimax-*", ("minimax", "openrouter")),
    ("gpt-oss*", ("ollama", "groq", "vllm")),
    ("gpt*", ("openai",)),
    ("deepseek*", ("deepseek", "ollama", "openrouter")),
    ("llama-*", ("groq", "together", "vllm")),
    *(
        (pattern, ("ollama", "vllm", "openrouter"))
        for pattern in ("qwen*", "qwq*", "llama*", "gemma*", "phi*", "mistral*", "mixtral*", "granite*", "smollm*")
    ),
)
"""Providers that serve a family of models under its plain name, the likeliest first. The first pattern that fits
counts."""
_FAMILIES = {"claude": "anthropic", "gemini": "google", "gpt": "openai", "grok": "xai"}
"""Names of whole families, which are no model, and who makes them."""
_MAKERS = frozenset(
    "amazon cohere ibm-granite meta-llama microsoft nousresearch qwen tencent thudm tngtech unsloth zai-org".split()
)
"""The names of open models begin with their maker: meta-llama/Llama-3.3-70B-Instruct."""
_MAX_CHOICES = 3
_MAX_SHOWN = 100


def spec_hint(name: str, providers: Collection[str], ready: Sequence[str], /) -> str:
    """The end of the error about a bare name; `ready` are the providers that have a key.

    >>> spec_hint("GPT-5", ["openai"], []), spec_hint("qwen3", ["ollama", "vllm"], [])
    ('; write openai/gpt-5', '; for example ollama/qwen3 or vllm/qwen3')
    """
    name = shorten_name(name)
    if name.strip(":") in providers:
        return f"; add the model: {name.strip(':')}/…"
    if set(name) & set(" \t\r\n") or not name.strip(":"):
        return "; a name has no blanks: the model comes first, then the prompt" if name.strip(": ") else ""
    provider, _, model = name.partition(":")
    if model and (own := _own_name(provider, providers)) is not None:
        return f"; write {own}/{model}"
    if (maker := maker_of(name.lower())) in providers:
        return f"; write {maker}/{name.lower()}"
    if (maker := _FAMILIES.get(name.lower())) in providers:
        return f"; write the name of a model, such as {maker}/{name.lower()}-…; dragoman models {maker} lists them"
    hosts = dict.fromkeys(host for host in _hosts(name, ready, has_tag=bool(model)) if host in providers)
    choices = [f"{host}/{name}" for host in hosts][:_MAX_CHOICES]
    return f"; for example {' or '.join(choices)}" if choices else ""


def shorten_name(name: str, /) -> str:
    """A name for an error message; of a text that is too long for a name, only the start.

    >>> shorten_name("gpt-5"), len(shorten_name("a" * 1000))
    ('gpt-5', 101)
    """
    return name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}…"


def provider_hint(name: str, providers: Collection[str], /) -> str:
    """The end of the error about an unknown provider.

    >>> provider_hint("vertex_ai", ["vertex", "openai"])
    "; did you mean 'vertex'?"
    """
    if (own := _own_name(name, providers)) is not None:
        return f"; did you mean {own!r}?"
    if hint := did_you_mean(name, providers):
        return hint
    if name.lower() in ("http:", "https:"):
        return "; a model is provider/model: set LLM_BOX=vllm+http://host:8000/v1 or similar, and write box/model"
    if name.lower() not in _MAKERS or "openrouter" not in providers:
        return "; dragoman providers lists the known ones"
    return f"; if {name!r} is part of the model's name, write its host first, such as openrouter/{name}/…"


def _own_name(provider: str, providers: Collection[str]) -> str | None:
    """Our name for a provider of another library."""
    own = _OTHER_NAMES.get(provider.lower())
    if own in providers:
        return own
    return next((known for known in providers if provider.startswith((f"{known}-", f"{known}_"))), None)


def _hosts(name: str, ready: Sequence[str], *, has_tag: bool) -> Sequence[str]:
    host = any_host_of(name)
    if host == "bedrock":  # its ids have a colon, too: anthropic.claude-v2:1
        return [host]
    if has_tag:  # only the tags of Ollama have a colon: llama3:8b
        return ["ollama"]
    for pattern, hosts in _HOSTS:
        if fnmatchcase(name.lower(), pattern):
            return hosts
    return [*ready, host or "openai", "ollama"]


def providers_with_key(providers: Mapping[str, Provider], env: Mapping[str, str], /) -> list[str]:
    """The providers whose key is in the environment, one for each key.

    >>> from dragoman.targets.providers import PROVIDERS
    >>> providers_with_key(PROVIDERS, {"GROQ_API_KEY": "k"})
    ['groq']
    """
    variables: dict[str, str] = {}
    for name, provider in providers.items():
        for variable in provider.key_names:
            if env.get(variable):
                variables.setdefault(variable, name)
    return [*variables.values()]
