"""A provider's name in, its record out: which wire, where, as whom, with which limits and quirks."""

import msgspec

from dragoman.errors import SetupError
from dragoman.target import Limits, Quirks, Target


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One provider: a wire, a place, a way to say who asks, and what is known of it.

    >>> PROVIDERS["anthropic"].wire
    'anthropic'
    """

    name: str
    wire: str
    base_url: str
    auth: str = "bearer"
    limits: Limits = Limits()
    quirks: Quirks = Quirks()

    def target(self, model: str, /, *, api_key: str | None = None, base_url: str | None = None) -> Target:
        """One model of this provider."""
        return Target(
            provider=self.name,
            model=model,
            wire=self.wire,
            base_url=base_url or self.base_url,
            api_key=api_key,
            auth=self.auth,
            limits=self.limits,
            quirks=self.quirks,
        )


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider(
            name="anthropic",
            wire="anthropic",
            base_url="https://api.anthropic.com/v1",
            auth="x-api-key",
            limits=Limits(image_urls=True),
        ),
        Provider(
            name="google",
            wire="google",
            base_url="https://generativelanguage.googleapis.com/v1beta",
            auth="x-goog-api-key",
        ),
        Provider(name="ollama", wire="ollama", base_url="http://localhost:11434"),
        Provider(
            name="openai", wire="openai_chat", base_url="https://api.openai.com/v1", limits=Limits(image_urls=True)
        ),
        Provider(
            name="openai-responses",
            wire="openai_responses",
            base_url="https://api.openai.com/v1",
            limits=Limits(image_urls=True),
        ),
    )
}


def target(spec: str, /, *, api_key: str | None = None, base_url: str | None = None) -> Target:
    """The target that `provider/model` names.

    >>> target("anthropic/claude-x", api_key="k").name
    'anthropic/claude-x'
    """
    name, slash, model = spec.partition("/")
    if not slash or not model:
        raise SetupError(f"{spec!r} names no model; write provider/model")
    if name not in PROVIDERS:
        raise SetupError(f"no provider {name!r}; there are {', '.join(PROVIDERS)}")
    return PROVIDERS[name].target(model, api_key=api_key, base_url=base_url)
