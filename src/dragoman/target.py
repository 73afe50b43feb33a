"""Where a request goes, as whom, and what is known of the place: Target, Limits, Quirks."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from dragoman.types import Effort


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a target can do. None means: not known, so not limited.

    >>> Limits(max_images=0).max_images
    0
    """

    tools: bool = True
    structured: bool = True
    streaming: bool = True
    forced_choice: bool = True
    thinking: bool = True
    documents: bool = True
    audio: bool = True
    image_urls: bool = False
    max_images: int | None = None
    max_image_bytes: int | None = None
    max_image_side: int | None = None
    allowed_image_types: tuple[str, ...] = ()
    context_window: int | None = None
    max_output: int | None = None


class Quirks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a target's dialect differs from its wire's plain form. Facts, never guessed from a model's name.

    >>> Quirks(max_tokens_field="max_tokens").named_choice
    True
    """

    max_tokens_field: str | None = None
    seed_field: str | None = "seed"
    required_choice: str = "required"
    named_choice: bool = True
    parallel_tool_calls: bool = True
    stream_usage: bool = True
    user_field: str | None = "user"
    metadata: bool = True
    stop: bool = True
    top_k: bool = False
    sampling: bool = True
    json_schema: bool = True
    call_id: str | None = None
    """A regular expression that call ids must match whole."""
    call_id_length: int = 9
    reasoning: Literal["effort", "object", "switch", "budget", "adaptive", "level", "think"] | None = None
    """The form in which thinking is asked for; None is the wire's own."""
    efforts: tuple[Effort, ...] | None = None
    """The words that the target takes; None is all."""
    api_version: str | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One model at one provider. Its repr shows no key.

    >>> Target(provider="groq", model="llama", wire="openai_chat", base_url="https://x/v1", api_key="k")
    Target(groq/llama)
    """

    provider: str
    model: str
    wire: str
    base_url: str
    api_key: str | None = None
    auth: str = "bearer"
    """`bearer`, or the name of the header that takes the key as it is."""
    headers: Mapping[str, str] = {}
    limits: Limits = Limits()
    quirks: Quirks = Quirks()

    @property
    def name(self) -> str:
        """`provider/model`."""
        return f"{self.provider}/{self.model}"

    def auth_headers(self) -> dict[str, str]:
        """The header that says who asks; none without a key."""
        if self.api_key is None:
            return {}
        return {"authorization": f"Bearer {self.api_key}"} if self.auth == "bearer" else {self.auth: self.api_key}

    def __repr__(self) -> str:
        """Without the key."""
        return f"Target({self.name})"
